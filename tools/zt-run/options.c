/* options.c - the options of zt-run: their defaults, the modes that they apply to, and what is checked of
 * their values before anything runs. */
#include "tools/zt-run/run.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static run_options given_options; /* filled by the rows of options.def, which need constant addresses */

const char *run_pre_tokenizer_names(const void *user, int i)
{
    (void)user;
    return zt_pre_name(i);
}

/* What zt-run does; text is generated where nothing else is asked for. */
static const zt_mode mode_table[RUN_N_MODES] = {
    [RUN_TEXT] = {"text generation", NULL},
    [RUN_CHAT] = {"--chat", "chat"},
    [RUN_JSONL] = {"--jsonl", "jsonl"},
    [RUN_SERVE] = {"--serve", "serve"},
    [RUN_RENDER] = {"--render", "render"},
    [RUN_TOKENIZE] = {"--tokenize", "tokenize"},
    [RUN_DETOKENIZE] = {"--detokenize", "detokenize"},
    [RUN_COUNT] = {"--count", "count"},
    [RUN_PERPLEXITY] = {"--perplexity", "perplexity"},
    [RUN_EMBED] = {"--embed", "embed"},
    [RUN_VERIFY] = {"--verify", "verify"},
    [RUN_DRY] = {"--dry-run", "dry-run"},
    [RUN_PROGRAM] = {"a program", NULL},
    [RUN_NETWORK] = {"a network", NULL},
};

/* Sets of modes. */
#define TEXT       ZT_IN(RUN_TEXT)
#define CHAT       ZT_IN(RUN_CHAT)
#define JSONL      ZT_IN(RUN_JSONL)
#define SERVE      ZT_IN(RUN_SERVE)
#define RENDER     ZT_IN(RUN_RENDER)
#define COUNT      ZT_IN(RUN_COUNT)
#define TOKENIZE   ZT_IN(RUN_TOKENIZE)
#define DETOKENIZE ZT_IN(RUN_DETOKENIZE)
#define PERPLEXITY ZT_IN(RUN_PERPLEXITY)
#define EMBED      ZT_IN(RUN_EMBED)
#define VERIFY     ZT_IN(RUN_VERIFY)
#define DRY        ZT_IN(RUN_DRY)
#define NETWORK    ZT_IN(RUN_NETWORK)
#define PROGRAMS   (ZT_IN(RUN_PROGRAM) | NETWORK)
#define MODELS     (~PROGRAMS)
#define ANSWERS    (TEXT | CHAT | JSONL | SERVE)   /* tokens are generated */
#define RUNS       (ANSWERS | PERPLEXITY | EMBED)  /* a language model runs */
#define TOKENS     (TOKENIZE | DETOKENIZE | COUNT) /* the vocabulary is enough */

static const zt_opt option_table[] = {
#define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, given_options.field, __VA_ARGS__)
#define OPTION_AT                OPTION
#include "tools/zt-run/options.def"
    {0}};

static const zt_shared_opt shared_options[] = {{"output", ~(CHAT | SERVE), NULL},
                                               {"force", ~(CHAT | SERVE), "output|logits|receipt"},
                                               {"threads", RUNS | VERIFY | PROGRAMS, NULL},
                                               {"engine", RUNS | VERIFY | DRY | PROGRAMS, NULL},
                                               {"strict-engine", RUNS | VERIFY | PROGRAMS, NULL},
                                               {"strict-bits", RUNS | VERIFY | PROGRAMS, NULL},
                                               {"isa", RUNS | VERIFY | PROGRAMS, NULL},
                                               {"compute", RUNS | DRY | PROGRAMS, NULL},
                                               {"tile", RUNS | VERIFY | PROGRAMS, NULL},
                                               {"seed", ANSWERS | NETWORK, NULL},
                                               {"format", PERPLEXITY | EMBED | VERIFY | DRY, NULL},
                                               {"color", PERPLEXITY | VERIFY | DRY, NULL},
                                               {"progress", TEXT | CHAT | PERPLEXITY, NULL},
                                               {0}};

static const char *const synopsis[] = {"-m MODEL [-p TEXT | -i FILE] [-n N] [OPTION...]",
                                       "-m MODEL --chat [OPTION...]",
                                       "-m MODEL --tokenize | --detokenize | --count | --render [-p TEXT | -i FILE]",
                                       "-m MODEL --perplexity FILE | --verify RECEIPT [OPTION...]",
                                       "-m MODEL --embed [-p TEXT | -i FILE] [--format ndjson]",
                                       "-m PROGRAM.zt|NET.json [-i IN.npz|IN.csv] [-o OUT.npz|OUT.csv] [--bind NAME=N,...]",
                                       "-m MODEL --jsonl [-i FILE] [OPTION...]",
                                       "-m MODEL --serve [ADDRESS] [OPTION...]",
                                       NULL};

const zt_tool run_tool = {
    .name = "zt-run",
    .summary = "run language models, programs and networks",
    .synopsis = synopsis,
    .options = option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_BITS | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1, /* of --choices */
    .modes = mode_table,
    .n_modes = RUN_N_MODES,
    .shared_options = shared_options,
};

run_options *run_options_init(void)
{
    given_options = (run_options){
        .sampler = zt_sampler_defaults(),
#define DEFAULT ZT_OPTION_DEFAULT
#include "tools/zt-run/options.def"
    };
    return &given_options;
}

zt_llm_opts run_llm_opts(const run_state *run)
{
    const run_options *options = run->options;
    static const zt_dtype kv_types[] = {RUN_CACHE_TYPES(ZT_WORD_NUMBER)};
    return (zt_llm_opts){.ctx_len = options->context_tokens,
                         .chunk = options->chunk,
                         .exact = options->exact,
                         .kv = options->kv_type < 0 ? ZT_DTYPE_COUNT : kv_types[options->kv_type],
                         .kv_values = options->kv_values < 0 ? ZT_DTYPE_COUNT : kv_types[options->kv_values],
                         .strict = run->cli->strict,
                         .forward = run->forward,
                         .forward_name = options->program};
}

bool run_takes_requests(const run_options *options) { return options->jsonl || options->serve; }

static bool from_stdin(const char *path) { return path && strcmp(path, "-") == 0; }

/* ---- checks of values ------------------------------------------------------------------------ */

static zt_status check_values(zt_ctx *ctx, const run_options *options)
{
    for (int i = 0; i < options->stop_texts.n; i++)
        if (!*options->stop_texts.item[i]) return zt_fail(ctx, ZT_EUSAGE, "--stop: empty string");
    return options->serve ? run_check_serve(ctx, options) : ZT_OK;
}

/* ---- checks of files ------------------------------------------------------------------------- */

static zt_status check_inputs(zt_ctx *ctx, const run_options *options)
{
    bool piped = !options->prompt && (!options->input || from_stdin(options->input));
    if (run_head_drafts(options) && (options->plan || options->program))
        return zt_fail(ctx, ZT_EUSAGE, "'--draft mtp' does not apply with '%s'", options->plan ? "--plan" : "--program");
    if (!options->model) return zt_fail(ctx, ZT_EUSAGE, "no model: specify one with -m");
    struct stat info;
    if (from_stdin(options->session) || (options->session && stat(options->session, &info) == 0 && !S_ISREG(info.st_mode)))
        return zt_fail(ctx, ZT_EUSAGE, "--session: '%s' is not a regular file", options->session);
    if (from_stdin(options->program) && (from_stdin(options->model) || options->jsonl || from_stdin(options->perplexity) ||
                                         (piped && !options->perplexity && !options->dry_run && !options->serve)))
        return zt_fail(ctx, ZT_EUSAGE, "--program comes from stdin: give the prompt and the model in another way");
    if (options->chat && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        return zt_fail(ctx, ZT_EUSAGE, "--chat needs a terminal: stdin or stdout is not a terminal");
    if (options->dry_run || options->chat || options->serve) return ZT_OK;
    if (options->perplexity) piped = from_stdin(options->perplexity);
    if (options->verify) piped = from_stdin(options->verify);
    const char *form = options->json_schema ? options->json_schema : options->grammar;
    if (from_stdin(form) && (piped || options->jsonl || from_stdin(options->model)))
        return zt_fail(ctx, ZT_EUSAGE, "%s comes from stdin: give the prompt and the model in another way",
                       options->grammar ? "--grammar" : "--json-schema");
    if (from_stdin(options->draft) && (piped || from_stdin(options->model) || from_stdin(form)))
        return zt_fail(ctx, ZT_EUSAGE, "the draft model is read from stdin: specify the prompt and the model in another way");
    if (piped && from_stdin(options->model))
        return zt_fail(ctx, ZT_EUSAGE, "the model is read from stdin: specify the prompt with -p or -i");
    if (piped && !options->perplexity && !options->verify && !options->jsonl && !options->input && isatty(STDIN_FILENO))
        return zt_fail(ctx, ZT_EUSAGE, "no prompt: specify one with -p or -i, or pipe it to stdin");
    return ZT_OK;
}

static zt_status check_outputs(zt_cli *cli, const run_options *options)
{
    if (options->embed && cli->format != ZT_FMT_AUTO && cli->format != ZT_FMT_JSON && cli->format != ZT_FMT_NDJSON)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--embed: unsupported --format, expected json or ndjson (without --format: npy)");
    if (options->embed && cli->format == ZT_FMT_AUTO && !cli->output) return zt_cli_refuse_terminal(cli, "npy");
    if (!from_stdin(options->logits)) return ZT_OK;
    if ((options->new_tokens != 0 || options->json) && (!cli->output || from_stdin(cli->output)))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--logits - and the generated text both go to stdout: use -n 0 or -o FILE");
    return zt_cli_refuse_terminal(cli, "logits");
}

/* No output may be a file that is read, nor two outputs one file. */
static zt_status check_files(zt_cli *cli, const run_options *options)
{
    const char *text = options->perplexity ? options->perplexity : options->prompt ? NULL : options->input ? options->input : "-";
    const char *const inputs[] = {options->model,
                                  text,
                                  options->template,
                                  options->json_schema,
                                  options->grammar,
                                  options->program,
                                  run_head_drafts(options) ? NULL : options->draft};
    const char *const outputs[] = {cli->output, options->logits, options->session};
    const char *const output_options[] = {"--output", "--logits", "--session"};
    for (int i = 0; i < 21; i++) {
        zt_status status = zt_cli_refuse_same(cli, inputs[i / 3], outputs[i % 3]);
        if (status != ZT_OK) return status;
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            if (outputs[i] && outputs[j] && strcmp(outputs[i], "-") != 0 && strcmp(outputs[i], outputs[j]) == 0)
                return zt_fail(cli->ctx, ZT_EUSAGE, "%s and %s name the same file, '%s'", output_options[i], output_options[j],
                               outputs[i]);
    return ZT_OK;
}

zt_status run_options_check(zt_cli *cli, const run_options *options)
{
    zt_status status = check_values(cli->ctx, options);
    if (status == ZT_OK) status = check_inputs(cli->ctx, options);
    if (status == ZT_OK) status = check_outputs(cli, options);
    if (status == ZT_OK) status = check_files(cli, options);
    return status == ZT_OK ? zt_sampler_check(cli->ctx, &options->sampler) : status;
}
