/* zt-bench - measure: one subcommand, one kind of subject. */
#include "tools/zt-bench/bench.h"

#include <string.h>

static bench_options opt = {.prompt = 512, .generate = 128, .reps = 5};

static const zt_opt options[] = {
    {.letter = 'm', .name = "model", .kind = ZT_OPT_STR, .value = &opt.model, .arg = "MODEL",
     .help = "the model: GGUF, or a Hugging Face directory"},
    {.letter = 'p', .name = "prompt", .kind = ZT_OPT_I64, .value = &opt.prompt, .arg = "N",
     .help = "tokens of the prompt (default: 512); 0: no such row", .min = 0, .max = 1 << 24},
    {.letter = 'n', .name = "generate", .kind = ZT_OPT_I64, .value = &opt.generate, .arg = "N",
     .help = "tokens to generate (default: 128); 0: no such row", .min = 0, .max = 1 << 24},
    {.letter = 't', .name = "threads", .kind = ZT_OPT_STR, .value = &opt.threads, .arg = "N,...",
     .help = "numbers of threads, a row each (default: all processors)"},
    {.letter = 'r', .name = "reps", .kind = ZT_OPT_I64, .value = &opt.reps, .arg = "N",
     .help = "samples of each row (default: 5)", .min = 1, .max = BENCH_MAX_REPS},
    {.letter = 'i', .name = "input", .kind = ZT_OPT_STR, .value = &opt.input, .arg = "FILE",
     .help = "op lines to measure, a line each"},
    {.name = "bind", .kind = ZT_OPT_STR, .value = &opt.bind, .arg = "NAME=N,...",
     .help = "the symbols of a program"},
    {.name = "ops", .kind = ZT_OPT_WORD, .value = &opt.how, .arg = "replay|ahead|eager",
     .help = "how ops are run: prepared; one by one; and waited for"},
    {.name = "exact", .kind = ZT_OPT_FLAG, .value = &opt.exact,
     .help = "activations and cache stay f32 (slower)"},
    {0}};

static const char *const synopsis[] = {
    "machine [-t N,...] [-r N] [OPTION...]",
    "model -m MODEL [-p N] [-n N] [-t N,...] [-r N] [OPTION...]",
    "op 'OP TYPE... NAME=VALUE...'|FILE.zt... [-i FILE] [-t N,...] [-r N] [OPTION...]", NULL};

static const zt_tool tool = {
    .name = "zt-bench",
    .summary = "measure the speed of the machine, a model or an op",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_ENGINE | ZT_SHARE_MEM | ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1,
};

static const struct {
    const char *name;
    zt_status (*run)(zt_cli *cli, const bench_options *o);
} subjects[] = {{"machine", bench_machine}, {"model", bench_model}, {"op", bench_op}};

static zt_status dispatch(zt_cli *cli)
{
    char shown[64];
    if (cli->n_operands == 0)
        return zt_fail(cli->ctx, ZT_EUSAGE, "what to measure is missing: machine, model or op");
    const char *name = cli->operands[0];
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(name, subjects[i].name) == 0)
            return subjects[i].run(cli, &opt);
    return zt_fail(cli->ctx, ZT_EUSAGE, "'%s' is nothing to measure: machine, model or op",
                   zt_escape(shown, sizeof shown, name, strlen(name)));
}

int main(int argc, char **argv)
{
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, dispatch(cli));
}
