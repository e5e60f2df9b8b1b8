/* zt-bench - measure: one subcommand, one kind of subject. */
#include "tools/zt-bench/bench.h"

#include "tools/common/command.h"

#include <string.h>
#include <unistd.h>

static bench_options opt = {.prompt = 512, .generate = 128, .ctx = 512, .from = -1,
                            .threshold = "5%"};

/* The rows of the option table. */
enum {
    MODEL, PROMPT, GENERATE, THREADS, REPS, INPUT, CTX, FROM, BIND, OPS, EXACT, NO_ROOF, HISTORY,
    PLOT, VS, THRESHOLD, IGNORE_FAILURE, N_OPTIONS
};

static bool given[N_OPTIONS];

#define ROW(id, c, n, k, field, a, h, ...)                                                         \
    [id] = {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &opt.field, .arg = a, .help = h,  \
            .given = &given[id], __VA_ARGS__}

static const zt_opt options[N_OPTIONS + 1] = {
    ROW(MODEL, 'm', "model", STR, model, "MODEL", "the model: GGUF, or a Hugging Face directory", ),
    ROW(PROMPT, 'p', "prompt", I64, prompt, "N",
        "tokens of the prompt (default: 512); 0: no such row", .min = 0, .max = 1 << 24),
    ROW(GENERATE, 'n', "generate", I64, generate, "N",
        "tokens to generate (default: 128); 0: no such row", .min = 0, .max = 1 << 24),
    ROW(THREADS, 't', "threads", STR, threads, "N,...",
        "numbers of threads, a row each (default: all processors)", ),
    ROW(REPS, 'r', "reps", I64, reps, "N",
        "samples of each row (default: 5; of a command 10; pairs 20 to 80)", .min = 1,
        .max = BENCH_MAX_REPS),
    ROW(INPUT, 'i', "input", STR, input, "FILE",
        "op lines to measure, a line each; the text of kld", ),
    ROW(CTX, 'c', "ctx", I64, ctx, "N", "tokens of a window of kld (default: 512)", .min = 2,
        .max = 1 << 24),
    ROW(FROM, 0, "from", I64, from, "N",
        "the first token of a window that is scored (default: half)", .min = 0, .max = 1 << 24),
    ROW(BIND, 0, "bind", STR, bind, "NAME=N,...", "the symbols of a program", ),
    ROW(OPS, 0, "ops", WORD, how, "replay|ahead|eager",
        "how ops are run: prepared; one by one; and waited for", ),
    ROW(EXACT, 0, "exact", FLAG, exact, NULL, "activations and cache stay f32 (slower)", ),
    ROW(NO_ROOF, 0, "no-roof", FLAG, no_roof, NULL, "do not measure the roof: no roof_share", ),
    ROW(HISTORY, 0, "history", STR, history, "FILE",
        "add the results, with all samples, to an SQLite file", ),
    ROW(PLOT, 0, "plot", STR, plot, "FILE", "draw the roofline, or the history, there, as SVG", ),
    ROW(VS, 0, "vs", FLAG, vs, NULL, "measure two subjects in turn and compare them", ),
    ROW(THRESHOLD, 0, "threshold", STR, threshold, "SHARE",
        "slower by more than that is exit 1 (default: 5%)", ),
    ROW(IGNORE_FAILURE, 0, "ignore-failure", FLAG, ignore_failure, NULL,
        "run: the command may end as it likes", ),
};

/* ---- commands -------------------------------------------------------------------------------- */

#define TAKES(option) (UINT64_C(1) << option)
#define TAKES_VS (TAKES(VS) | TAKES(THRESHOLD))
enum { PAIRS = 20 };

typedef struct bench_command {
    zt_command is;
    int64_t reps; /* unless -r says */
    zt_status (*run)(zt_cli *cli, const bench_options *o);
} bench_command;

/* In the order of the manual. */
static const bench_command commands[] = {
    {{"machine", "machine [-t N,...] [-r N] [OPTION...]",
      TAKES(THREADS) | TAKES(REPS) | TAKES(HISTORY) | TAKES(PLOT)},
     5, bench_machine},
    {{"model", "model -m MODEL [--vs MODEL] [-p N] [-n N] [-t N,...] [-r N] [OPTION...]",
      TAKES(MODEL) | TAKES(PROMPT) | TAKES(GENERATE) | TAKES(THREADS) | TAKES(REPS) | TAKES(EXACT) |
          TAKES_VS | TAKES(NO_ROOF) | TAKES(HISTORY) | TAKES(PLOT)},
     5, bench_model},
    {{"op", "op 'OP TYPE... NAME=VALUE...'|FILE.zt... [-i FILE] [-t N,...] [-r N] [OPTION...]",
      TAKES(INPUT) | TAKES(BIND) | TAKES(OPS) | TAKES(THREADS) | TAKES(REPS) | TAKES_VS |
          TAKES(NO_ROOF) | TAKES(HISTORY) | TAKES(PLOT)},
     5, bench_op},
    {{"run", "run [-r N] [--vs] [--ignore-failure] [OPTION...] -- COMMAND [ARGUMENT...]",
      TAKES(REPS) | TAKES(IGNORE_FAILURE) | TAKES_VS | TAKES(HISTORY)},
     10, bench_run},
    {{"kld", "kld A B -i TEXT [-c N] [--from N] [-t N] [OPTION...]",
      TAKES(INPUT) | TAKES(CTX) | TAKES(FROM) | TAKES(THREADS) | TAKES(EXACT) |
          TAKES(HISTORY)},
     1, bench_kld},
    {{"compare", "compare [--vs [-r N]] OLD NEW [--threshold SHARE] [--force] [OPTION...]",
      TAKES_VS | TAKES(PROMPT) | TAKES(GENERATE) | TAKES(THREADS) | TAKES(REPS) | TAKES(EXACT) |
          TAKES(BIND) | TAKES(OPS) | TAKES(HISTORY)},
     1, bench_compare},
    {{"history", "history FILE [--plot FILE] [OPTION...]", TAKES(PLOT)}, 1, bench_past_show},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char *synopsis[N_COMMANDS + 1];

static const zt_tool tool = {
    .name = "zt-bench",
    .summary = "measure the machine, a model, an op or a command; compare",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED |
              ZT_SHARE_FORMAT | ZT_SHARE_JUNIT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1,
};

/* Before anything is measured for nothing. */
static zt_status refuse_existing(zt_cli *cli)
{
    if (!cli->output || !strcmp(cli->output, "-") || cli->force || access(cli->output, F_OK))
        return ZT_OK;
    return zt_fail(cli->ctx, ZT_ECREATE, "%s: is there already (--force overwrites)", cli->output);
}

static zt_status dispatch(zt_cli *cli)
{
    int i = zt_command_find(cli, commands, sizeof *commands, N_COMMANDS);
    zt_status s = i < 0 ? zt_ctx_status(cli->ctx) : zt_command_check(cli, &commands[i].is);
    if (!s) s = bench_threshold(cli->ctx, opt.threshold, &opt.beyond);
    if (!s) s = refuse_existing(cli);
    if (!s) s = bench_check_plot(cli, &opt);
    opt.looks = opt.vs && !opt.reps ? BENCH_MOST_LOOKS : 1;
    if (!s && !opt.reps) opt.reps = opt.vs ? PAIRS : commands[i].reps;
    return s ? s : commands[i].run(cli, &opt);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N_COMMANDS; i++) synopsis[i] = commands[i].is.synopsis;
    zt_cli *cli = zt_cli_open(&tool, argc, argv);
    return zt_cli_close(cli, dispatch(cli));
}
