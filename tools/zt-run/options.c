/* options.c - the options of zt-run and their defaults. check.c says which of them go together. */
#include "tools/zt-run/run.h"

static run_options opt; /* filled by the option table, which needs constant addresses */

/* letter, name, kind, field, the argument's name, help; then what else a row has */
#define ROW(c, n, k, field, a, h, ...)                                                             \
    {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &opt.field, .arg = a, .help = h,         \
     __VA_ARGS__}
#define FLAG(n, field, h) ROW(0, n, FLAG, field, NULL, h, )

static const zt_opt options[] = {
    ROW('m', "model", STR, model, "MODEL",
        "the model to run: GGUF, a Hugging Face directory; a program; a network", ),
    ROW('p', "prompt", STR, prompt, "TEXT", "the prompt", ),
    ROW('i', "input", STR, input, "FILE", "the prompt is the text of FILE (default: stdin)", ),
    FLAG("verbatim", verbatim, "keep the newline at the end of the text of -i or stdin"),
    ROW(0, "data", STR, data, "FILE", "of a program: data by name, before that of its model", ),
    ROW(0, "bind", STR, bind, "NAME=N,...", "of a program: its symbols, where no shape tells", ),
    ROW(0, "cycles", I64, cycles, "N", "of a network: a clocked mesh, so many cycles of it",
        .min = 1, .max = 1 << 16),
    ROW('n', NULL, I64, n, "N", "new tokens at most; 0: the prompt only (default: no limit)",
        .min = 0, .max = INT32_MAX),
    FLAG("chat", chat, "a conversation on the terminal"),
    FLAG("raw", raw, "no chat template: plain continuation"),
    ROW(0, "template", STR, template, "NAME|FILE",
        "this chat template instead of the model's own", ),
    ROW(0, "system", STR, system, "TEXT", "the system message of the chat template", ),
    ROW(0, "temp", F64, sampler.temp, "X", "temperature; 0: always the likeliest token", ),
    ROW(0, "top-k", I64, sampler.top_k, "N", "of the N likeliest tokens; 0: all", ),
    ROW(0, "top-p", F64, sampler.top_p, "X", "of the likeliest that sum to X; 1: all", ),
    ROW(0, "min-p", F64, sampler.min_p, "X", "of those at least X times the best; 0: all", ),
    ROW(0, "repeat-penalty", F64, sampler.repeat_penalty, "X", "of the last tokens; 1: none", ),
    ROW(0, "repeat-last", I64, sampler.repeat_last, "N",
        "how many last tokens the penalties look at; -1: all", ),
    ROW(0, "frequency-penalty", F64, sampler.frequency_penalty, "X",
        "subtract X from a logit for each time its token is there (0: off)", ),
    ROW(0, "presence-penalty", F64, sampler.presence_penalty, "X",
        "subtract X once where the token is there at all (0: off)", ),
    FLAG("bos", bos, "begin with the BOS token (default: the model's rule)"),
    FLAG("no-bos", no_bos, "do not begin with the BOS token"),
    FLAG("special", special, "special tokens in the text are those tokens"),
    ROW(0, "pre", STR, pre, "NAME",
        "this pre-tokenizer, where the file names none or a wrong one", ),
    FLAG("ids", ids, "write generated token ids instead of text"),
    FLAG("tokenize", tokenize, "text in, token ids out"),
    FLAG("detokenize", detokenize, "token ids in, text out"),
    FLAG("count", count, "text in, number of tokens out"),
    ROW(0, "logits", STR, logits, "FILE.npy", "write the logits after the prompt's last token", ),
    FLAG("all-logits", all_logits, "with --logits: after every token of the prompt"),
    ROW(0, "logprobs", I64, logprobs, "N", "in JSON: log probabilities, and the N likeliest",
        .min = 0, .max = MOST_LOGPROBS),
    ROW(0, "perplexity", STR, perplexity, "FILE", "how well the model foresees the text of FILE", ),
    FLAG("embed", embed, "the text as one vector: npy, or with --format ndjson a line each"),
    ROW(0, "session", STR, session, "FILE", "the KV cache from FILE, and at the end into it", ),
    ROW(0, "plan", STR, plan, "FILE.zt",
        "run this plan of the model, as zt-trace compile makes it", ),
    FLAG("speculate", speculate, "try what the text itself foretells, many tokens in one batch"),
    FLAG("no-kv-cache", no_kv_cache, "compute everything anew for each token (slow)"),
    ROW(0, "chunk", I64, chunk, "N",
        "tokens of a prompt at a time (default: 512); rows of a network's input", .min = 1,
        .max = INT32_MAX, .given = &opt.chunk_given),
    FLAG("exact", exact, "activations and cache stay f32 (slower)"),
    ROW(0, "stop", LIST, stop, "TEXT", "end before TEXT; may be given many times", ),
    ROW(0, "eos", STR, eos, "ID,...", "tokens that end the text, instead of the model's", ),
    FLAG("ignore-eos", ignore_eos, "never choose a token that ends the text"),
    ROW('c', "ctx", I64, ctx, "N", "tokens of context (default: 4096 or the model's, if smaller)",
        .min = 1, .max = INT32_MAX - 64),
    ROW(0, "kv", WORD, kv, "f16|f32", "type of the KV cache (default: f16; with --exact f32)", ),
    FLAG("json", json, "one JSON object instead of text"),
    FLAG("jsonl", jsonl, "requests, a JSON object a line; answers likewise, in the same order"),
    FLAG("stats", stats, "times, speeds and memory on stderr at the end"),
    FLAG("dry-run", dry_run, "what it would need; exit 1 if that does not fit"),
    {0}};

static const char *const synopsis[] = {
    "-m MODEL [-p TEXT | -i FILE] [-n N] [OPTION...]",
    "-m MODEL --chat [OPTION...]",
    "-m MODEL --tokenize | --detokenize | --count [-p TEXT | -i FILE]",
    "-m MODEL --perplexity FILE [OPTION...]",
    "-m MODEL --embed [-p TEXT | -i FILE] [--format ndjson]",
    "-m PROGRAM.zt|NET.json [-i IN.npz|IN.csv] [-o OUT.npz|OUT.csv] [--bind NAME=N,...]",
    "-m MODEL --jsonl [-i FILE] [OPTION...]", NULL};

const zt_tool run_tool = {
    .name = "zt-run",
    .summary = "run a model",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED |
              ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
};

run_options *run_options_init(void)
{
    opt = (run_options){.n = -1, .sampler = zt_sampler_defaults(), .chunk = 512, .kv = -1,
                        .logprobs = -1};
    return &opt;
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
