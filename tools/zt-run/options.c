/* options.c - the options of zt-run, their defaults, and which of them go together. */
#include "tools/zt-run/run.h"

#include <string.h>
#include <unistd.h>

static run_options opt; /* filled by the option table, which needs constant addresses */

/* letter, name, kind, field, the argument's name, help; then what else a row has */
#define ROW(c, n, k, field, a, h, ...)                                                             \
    {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &opt.field, .arg = a, .help = h,         \
     __VA_ARGS__}
#define FLAG(n, field, h) ROW(0, n, FLAG, field, NULL, h, )

static const zt_opt options[] = {
    ROW('m', "model", STR, model, "MODEL", "the model to run, a GGUF file", ),
    ROW('p', "prompt", STR, prompt, "TEXT", "the prompt", ),
    ROW('i', "input", STR, input, "FILE", "the prompt is the text of FILE (default: stdin)", ),
    ROW('n', NULL, I64, n, "N", "new tokens at most; 0: the prompt only (default: no limit)",
        .min = 0, .max = INT32_MAX),
    FLAG("raw", raw, "no chat template: plain continuation"),
    ROW(0, "system", STR, system, "TEXT", "the system message of the chat template", ),
    ROW(0, "temp", F64, sampler.temp, "X", "temperature; 0: always the likeliest token", ),
    ROW(0, "top-k", I64, sampler.top_k, "N", "of the N likeliest tokens; 0: all", ),
    ROW(0, "top-p", F64, sampler.top_p, "X", "of the likeliest that sum to X; 1: all", ),
    ROW(0, "min-p", F64, sampler.min_p, "X", "of those at least X times the best; 0: all", ),
    ROW(0, "repeat-penalty", F64, sampler.repeat_penalty, "X", "of the last tokens; 1: none", ),
    ROW(0, "repeat-last", I64, sampler.repeat_last, "N", "how many last tokens; -1: all", ),
    FLAG("bos", bos, "begin with the BOS token (default: the model's rule)"),
    FLAG("no-bos", no_bos, "do not begin with the BOS token"),
    FLAG("special", special, "special tokens in the text are those tokens"),
    FLAG("ids", ids, "write generated token ids instead of text"),
    FLAG("tokenize", tokenize, "text in, token ids out"),
    FLAG("detokenize", detokenize, "token ids in, text out"),
    FLAG("count", count, "text in, number of tokens out"),
    ROW(0, "logits", STR, logits, "FILE.npy", "write the logits after the prompt's last token", ),
    FLAG("all-logits", all_logits, "with --logits: after every token of the prompt"),
    ROW(0, "chunk", I64, chunk, "N", "tokens of a prompt at a time (default: 512)",
        .min = 1, .max = INT32_MAX),
    FLAG("exact", exact, "activations and cache stay f32 (slower)"),
    ROW(0, "stop", LIST, stop, "TEXT", "end before TEXT; may be given many times", ),
    ROW(0, "eos", STR, eos, "ID,...", "tokens that end the text, instead of the model's", ),
    FLAG("ignore-eos", ignore_eos, "never choose a token that ends the text"),
    ROW('c', "ctx", I64, ctx, "N", "tokens of context (default: 4096 or the model's, if smaller)",
        .min = 1, .max = INT32_MAX - 64),
    ROW(0, "kv", WORD, kv, "f16|f32", "type of the KV cache (default: f16; with --exact f32)", ),
    FLAG("json", json, "one JSON object instead of text"),
    FLAG("stats", stats, "times, speeds and memory on stderr at the end"),
    FLAG("dry-run", dry_run, "what it would need; exit 1 if that does not fit"),
    {0}};

static const char *const synopsis[] = {
    "-m MODEL [-p TEXT | -i FILE] [-n N] [OPTION...]",
    "-m MODEL --tokenize | --detokenize | --count [-p TEXT | -i FILE]", NULL};

const zt_tool run_tool = {
    .name = "zt-run",
    .summary = "run a model",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
};

run_options *run_options_init(void)
{
    opt = (run_options){.n = -1, .sampler = zt_sampler_defaults(), .chunk = 512, .kv = -1};
    return &opt;
}

/* ---- which go together ----------------------------------------------------------------------- */

static bool from_stdin(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static zt_status check_inputs(zt_ctx *ctx, const run_options *o)
{
    bool piped = !o->prompt && (!o->input || from_stdin(o->input));
    if (!o->model)
        return zt_fail(ctx, ZT_EUSAGE, "no model: name one with -m");
    if (o->prompt && o->input)
        return zt_fail(ctx, ZT_EUSAGE, "-p and -i exclude each other");
    if (o->dry_run)
        return ZT_OK;
    if (piped && from_stdin(o->model))
        return zt_fail(ctx, ZT_EUSAGE, "the model comes from stdin: give the prompt with -p or -i");
    if (piped && !o->input && isatty(STDIN_FILENO))
        return zt_fail(ctx, ZT_EUSAGE, "no prompt: give one with -p or -i, or pipe it in");
    return ZT_OK;
}

static zt_status check_outputs(zt_cli *cli, const run_options *o)
{
    if (o->tokenize + o->detokenize + o->count + o->dry_run > 1)
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "--tokenize, --detokenize, --count and --dry-run exclude each other");
    if (o->json && o->ids)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--json and --ids exclude each other");
    if (o->all_logits && !o->logits)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--all-logits needs --logits FILE.npy");
    if (!from_stdin(o->logits))
        return ZT_OK;
    if ((o->n != 0 || o->json) && (!cli->output || from_stdin(cli->output)))
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "--logits - and the text both want stdout: give -n 0 or -o FILE");
    return zt_cli_refuse_terminal(cli, "logits");
}

/* No output may be a file that is read, nor both outputs one file. */
static zt_status check_files(zt_cli *cli, const run_options *o)
{
    const char *const in[] = {o->model, o->prompt ? NULL : o->input ? o->input : "-"};
    const char *const out[] = {cli->output, o->logits};
    for (int i = 0; i < 4; i++) {
        zt_status s = zt_cli_refuse_same(cli, in[i / 2], out[i % 2]);
        if (s != ZT_OK)
            return s;
    }
    if (out[0] && out[1] && strcmp(out[0], "-") != 0 && strcmp(out[0], out[1]) == 0)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--logits and --output name one file, '%s'", out[0]);
    return ZT_OK;
}

zt_status run_options_check(zt_cli *cli, const run_options *o)
{
    zt_status s = check_inputs(cli->ctx, o);
    if (s == ZT_OK && o->bos && o->no_bos)
        s = zt_fail(cli->ctx, ZT_EUSAGE, "--bos and --no-bos exclude each other");
    if (s == ZT_OK && o->system && o->raw)
        s = zt_fail(cli->ctx, ZT_EUSAGE, "--system and --raw exclude each other");
    if (s == ZT_OK)
        s = check_outputs(cli, o);
    if (s == ZT_OK)
        s = check_files(cli, o);
    return s == ZT_OK ? zt_sampler_check(cli->ctx, &o->sampler) : s;
}

zt_llm_opts run_llm_opts(const zt_cli *cli, const run_options *o)
{
    static const zt_dtype kv[] = {ZT_F16, ZT_F32};
    return (zt_llm_opts){.ctx_len = o->ctx,
                         .chunk = o->chunk,
                         .exact = o->exact,
                         .kv = o->kv < 0 ? ZT_DTYPE_COUNT : kv[o->kv],
                         .strict = cli->strict};
}
