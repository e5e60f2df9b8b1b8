/* options.c - the options of zt-run: their defaults, the modes that they apply to, and what is checked of
 * their values before anything runs. */
#include "tools/zt-run/run.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static run_options given_options; /* filled by the option table, which needs constant addresses */

/* What zt-run does; text is generated where nothing else is asked for. */
static const zt_mode mode_table[RUN_N_MODES] = {
    [RUN_TEXT] = {"text generation", NULL},      [RUN_CHAT] = {"--chat", "chat"},
    [RUN_JSONL] = {"--jsonl", "jsonl"},          [RUN_RENDER] = {"--render", "render"},
    [RUN_TOKENIZE] = {"--tokenize", "tokenize"}, [RUN_DETOKENIZE] = {"--detokenize", "detokenize"},
    [RUN_COUNT] = {"--count", "count"},          [RUN_PERPLEXITY] = {"--perplexity", "perplexity"},
    [RUN_EMBED] = {"--embed", "embed"},          [RUN_DRY] = {"--dry-run", "dry-run"},
    [RUN_PROGRAM] = {"a program", NULL},         [RUN_NETWORK] = {"a network", NULL},
};

/* Sets of modes. */
#define TEXT ZT_IN(RUN_TEXT)
#define CHAT ZT_IN(RUN_CHAT)
#define JSONL ZT_IN(RUN_JSONL)
#define RENDER ZT_IN(RUN_RENDER)
#define COUNT ZT_IN(RUN_COUNT)
#define TOKENIZE ZT_IN(RUN_TOKENIZE)
#define DETOKENIZE ZT_IN(RUN_DETOKENIZE)
#define PERPLEXITY ZT_IN(RUN_PERPLEXITY)
#define EMBED ZT_IN(RUN_EMBED)
#define DRY ZT_IN(RUN_DRY)
#define NETWORK ZT_IN(RUN_NETWORK)
#define PROGRAMS (ZT_IN(RUN_PROGRAM) | NETWORK)
#define MODELS (~PROGRAMS)
#define ANSWERS (TEXT | CHAT | JSONL)                    /* tokens are generated */
#define RUNS (ANSWERS | PERPLEXITY | EMBED)              /* a language model runs */
#define TOKENS (TOKENIZE | DETOKENIZE | COUNT)           /* the vocabulary is enough */

/* ROW(letter, name, kind, field, modes that it applies to (0: all), name of the argument, help, other members
 * of zt_opt) */
#define ROW(c, n, k, field, in, a, h, ...)                                                                                       \
    {                                                                                                                            \
        .letter = c, .name = n, .kind = ZT_OPT_##k, .value = &given_options.field, .modes = in, .arg = a, .help = h, __VA_ARGS__ \
    }
#define FLAG(n, field, in, h, ...) ROW(0, n, FLAG, field, in, NULL, h, __VA_ARGS__)

static const zt_opt option_table[] = {
    ROW('m', "model", STR, model, 0, "MODEL", "the model to run: GGUF, a Hugging Face directory; a program; a network", ),
    ROW('p', "prompt", STR, prompt, TEXT | TOKENS | EMBED | RENDER, "TEXT", "the prompt", .excludes = "input"),
    ROW('i', "input", STR, input, TEXT | JSONL | TOKENS | EMBED | RENDER | PROGRAMS, "FILE", "the prompt is the text of FILE",
        .otherwise = "stdin"),
    FLAG("verbatim", verbatim, TEXT | TOKENIZE | COUNT | EMBED | RENDER, "keep the newline at the end of the text of -i or stdin",
         .excludes = "prompt"),
    ROW(0, "data", STR, data, PROGRAMS, "FILE", "tensors of a program by name, searched before those of its model", ),
    ROW(0, "bind", STR, bind, PROGRAMS, "NAME=N,...", "values of a program's symbols", .otherwise = "from the shapes of inputs"),
    ROW(0, "cycles", I64, cycles, NETWORK, "N", "cycles of a network that runs as a clocked mesh", .min = 1, .max = 1 << 16),
    ROW('n', NULL, I64, new_tokens, ANSWERS, "N", "new tokens at most; 0: the prompt only", .min = 0, .max = INT32_MAX,
        .otherwise = "no limit"),
    FLAG("chat", chat, MODELS, "a conversation on the terminal", ),
    FLAG("raw", raw, TEXT | JSONL, "no chat template: plain continuation", .excludes = "system|template|template-arg"),
    ROW(0, "template", STR, template, ANSWERS | RENDER, "NAME|FILE",
        "this chat template instead of the model's own: a name, Jinja, or JSON", .otherwise = "the model's own"),
    ROW(0, "template-arg", LIST, template_args, ANSWERS | RENDER, "KEY=JSON",
        "a variable of the chat template (enable_thinking=false); may be repeated", ),
    ROW(0, "system", STR, system, ANSWERS | RENDER, "TEXT", "the system message of the chat template", ),
    FLAG("render", render, MODELS, "the prompt that the chat template makes, as text", ),
    ROW(0, "temp", F64, sampler.temp, ANSWERS, "X", "temperature; 0: greedy, always the most probable token", .fmin = 0,
        .fmax = 1e300),
    ROW(0, "top-k", I64, sampler.top_k, ANSWERS, "N", "top-k sampling: from the N most probable tokens; 0: off", .min = 0,
        .max = INT32_MAX),
    ROW(0, "top-p", F64, sampler.top_p, ANSWERS, "X",
        "nucleus (top-p) sampling: from the most probable tokens that sum to X; 1: off", ),
    ROW(0, "min-p", F64, sampler.min_p, ANSWERS, "X", "min-p sampling: drop tokens below X times the top probability; 0: off",
        .fmin = 0, .fmax = 1),
    ROW(0, "repeat-penalty", F64, sampler.repeat_penalty, ANSWERS, "X",
        "repetition penalty: divide the logits of the last tokens by X; 1: off", ),
    ROW(0, "repeat-last", I64, sampler.repeat_last, ANSWERS, "N", "tokens that the penalties look at; -1: all", .min = -1,
        .max = INT32_MAX),
    ROW(0, "frequency-penalty", F64, sampler.frequency_penalty, ANSWERS, "X",
        "frequency penalty: subtract X from a logit each time its token occurs; 0: off", ),
    ROW(0, "presence-penalty", F64, sampler.presence_penalty, ANSWERS, "X",
        "presence penalty: subtract X once where the token occurs; 0: off", ),
    FLAG("bos", bos, RUNS | TOKENS, "begin with the BOS token (default: the model's rule)", .excludes = "no-bos"),
    FLAG("no-bos", no_bos, RUNS | TOKENS, "do not begin with the BOS token", ),
    FLAG("special", special, RUNS | TOKENS, "parse special tokens in the text", ),
    ROW(0, "pre", STR, pre_tokenizer, RUNS | TOKENS | RENDER, "NAME", "pre-tokenizer, where the file names none or a wrong one",
        .otherwise = "the file's"),
    FLAG("ids", ids, TEXT, "write generated token ids instead of text", .excludes = "json"),
    FLAG("tokenize", tokenize, MODELS, "text in, token ids out", ),
    FLAG("detokenize", detokenize, MODELS, "token ids in, text out", ),
    FLAG("count", count, MODELS, "text in, number of tokens out", ),
    ROW(0, "logits", STR, logits, TEXT, "FILE.npy", "write the logits after the prompt's last token", ),
    FLAG("all-logits", all_logits, TEXT, "with --logits: after every token of the prompt", .needs = "logits"),
    ROW(0, "logprobs", I64, logprobs, TEXT | JSONL, "N", "in JSON: log probabilities, and the N most probable tokens", .min = 0,
        .max = MOST_LOGPROBS, .needs = "json|jsonl"),
    ROW(0, "perplexity", STR, perplexity, MODELS, "FILE", "perplexity on the text of FILE", ),
    FLAG("embed", embed, MODELS, "the text as one vector: npy, or with --format ndjson a line each", ),
    ROW(0, "lora", LIST, adapters, RUNS | DRY, "FILE[=SCALE]",
        "apply a LoRA adapter, a PEFT directory or a GGUF (scale 1); repeatable", ),
    ROW(0, "session", STR, session, TEXT | CHAT, "FILE", "the KV cache from FILE, and at the end into it",
        .excludes = "no-kv-cache"),
    ROW(0, "plan", STR, plan, RUNS, "FILE.zt", "run this plan of the model, as zt-trace compile makes it", ),
    FLAG("speculate", speculate, TEXT | CHAT, "prompt-lookup speculative decoding", .excludes = "no-kv-cache"),
    FLAG("no-kv-cache", no_kv_cache, ANSWERS, "no KV cache: recompute all tokens at each step (slow)", ),
    ROW(0, "chunk", I64, chunk, RUNS | DRY | NETWORK, "N", "tokens of a prompt at a time; rows of a network's input", .min = 1,
        .max = INT32_MAX, .given = &given_options.chunk_given, .excludes = "cycles"),
    FLAG("exact", exact, RUNS | DRY, "activations and cache stay f32 (slower)", ),
    ROW(0, "stop", LIST, stop_texts, ANSWERS, "TEXT", "end before TEXT; may be given many times", ),
    ROW(0, "eos", STR, eos, ANSWERS, "ID,...", "tokens that end the text", .otherwise = "the model's"),
    FLAG("ignore-eos", ignore_eos, ANSWERS, "never generate a token that ends the text", ),
    ROW('c', "ctx", I64, context_tokens, RUNS | DRY, "N", "tokens of context", .min = 1, .max = INT32_MAX - 64,
        .otherwise = "4096 or the model's, if smaller"),
    ROW(0, "kv", WORD, kv_type, RUNS | DRY, "f16|f32", "type of the KV cache", .otherwise = "f16; with --exact f32"),
    FLAG("json", json, TEXT, "one JSON object instead of text", ),
    FLAG("jsonl", jsonl, MODELS, "requests, a JSON object a line; answers likewise, in the same order", ),
    FLAG("stats", stats, TEXT, "print times, speeds and memory on stderr at the end", ),
    FLAG("dry-run", dry_run, MODELS, "what it would need; exit 1 if that does not fit", ),
    {0}};

static const zt_shared_opt shared_options[] = {{"output", ~CHAT, NULL},
                                               {"force", ~CHAT, "output|logits"},
                                               {"threads", RUNS | PROGRAMS, NULL},
                                               {"engine", RUNS | DRY | PROGRAMS, NULL},
                                               {"strict-engine", RUNS | PROGRAMS, NULL},
                                               {"isa", RUNS | PROGRAMS, NULL},
                                               {"compute", RUNS | DRY | PROGRAMS, NULL},
                                               {"tile", RUNS | PROGRAMS, NULL},
                                               {"seed", ANSWERS | NETWORK, NULL},
                                               {"format", PERPLEXITY | EMBED | DRY, NULL},
                                               {"color", PERPLEXITY | DRY, NULL},
                                               {"progress", TEXT | CHAT | PERPLEXITY, NULL},
                                               {0}};

static const char *const synopsis[] = {
    "-m MODEL [-p TEXT | -i FILE] [-n N] [OPTION...]",
    "-m MODEL --chat [OPTION...]",
    "-m MODEL --tokenize | --detokenize | --count | --render [-p TEXT | -i FILE]",
    "-m MODEL --perplexity FILE [OPTION...]",
    "-m MODEL --embed [-p TEXT | -i FILE] [--format ndjson]",
    "-m PROGRAM.zt|NET.json [-i IN.npz|IN.csv] [-o OUT.npz|OUT.csv] [--bind NAME=N,...]",
    "-m MODEL --jsonl [-i FILE] [OPTION...]", NULL};

const zt_tool run_tool = {
    .name = "zt-run",
    .summary = "run a model",
    .synopsis = synopsis,
    .options = option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_TILE | ZT_SHARE_MEM | ZT_SHARE_SEED | ZT_SHARE_FORMAT |
              ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .modes = mode_table,
    .n_modes = RUN_N_MODES,
    .shared_options = shared_options,
};

run_options *run_options_init(void)
{
    given_options =
        (run_options){.new_tokens = -1, .sampler = zt_sampler_defaults(), .chunk = 512, .kv_type = -1, .logprobs = -1};
    return &given_options;
}

zt_llm_opts run_llm_opts(const zt_cli *cli, const run_options *options)
{
    static const zt_dtype kv_types[] = {ZT_F16, ZT_F32};
    return (zt_llm_opts){.ctx_len = options->context_tokens,
                         .chunk = options->chunk,
                         .exact = options->exact,
                         .kv = options->kv_type < 0 ? ZT_DTYPE_COUNT : kv_types[options->kv_type],
                         .strict = cli->strict};
}

static bool from_stdin(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* ---- checks of values ------------------------------------------------------------------------ */

static zt_status check_values(zt_ctx *ctx, const run_options *options)
{
    for (int i = 0; i < options->stop_texts.n; i++)
        if (!*options->stop_texts.item[i])
            return zt_fail(ctx, ZT_EUSAGE, "--stop: the text is empty");
    return ZT_OK;
}

/* ---- checks of files ------------------------------------------------------------------------- */

static zt_status check_inputs(zt_ctx *ctx, const run_options *options)
{
    bool piped = !options->prompt && (!options->input || from_stdin(options->input));
    if (!options->model)
        return zt_fail(ctx, ZT_EUSAGE, "no model: name one with -m");
    struct stat info;
    if (from_stdin(options->session) || (options->session && stat(options->session, &info) == 0 && !S_ISREG(info.st_mode)))
        return zt_fail(ctx, ZT_EUSAGE, "--session names a file, which is read and written");
    if (options->chat && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        return zt_fail(ctx, ZT_EUSAGE, "--chat needs a terminal: stdin or stdout is none");
    if (options->dry_run || options->chat)
        return ZT_OK;
    if (options->perplexity)
        piped = from_stdin(options->perplexity);
    if (piped && from_stdin(options->model))
        return zt_fail(ctx, ZT_EUSAGE, "the model comes from stdin: give the prompt with -p or -i");
    if (piped && !options->perplexity && !options->jsonl && !options->input && isatty(STDIN_FILENO))
        return zt_fail(ctx, ZT_EUSAGE, "no prompt: give one with -p or -i, or pipe it in");
    return ZT_OK;
}

static zt_status check_outputs(zt_cli *cli, const run_options *options)
{
    if (options->embed && cli->format != ZT_FMT_AUTO && cli->format != ZT_FMT_JSON && cli->format != ZT_FMT_NDJSON)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--embed writes npy, or --format json or ndjson");
    if (options->embed && cli->format == ZT_FMT_AUTO && !cli->output)
        return zt_cli_refuse_terminal(cli, "npy");
    if (!from_stdin(options->logits))
        return ZT_OK;
    if ((options->new_tokens != 0 || options->json) && (!cli->output || from_stdin(cli->output)))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--logits - and the text both want stdout: give -n 0 or -o FILE");
    return zt_cli_refuse_terminal(cli, "logits");
}

/* No output may be a file that is read, nor two outputs one file. */
static zt_status check_files(zt_cli *cli, const run_options *options)
{
    const char *text = options->perplexity ? options->perplexity : options->prompt ? NULL : options->input ? options->input : "-";
    const char *const inputs[] = {options->model, text, options->template};
    const char *const outputs[] = {cli->output, options->logits, options->session};
    const char *const output_options[] = {"--output", "--logits", "--session"};
    for (int i = 0; i < 9; i++) {
        zt_status status = zt_cli_refuse_same(cli, inputs[i / 3], outputs[i % 3]);
        if (status != ZT_OK)
            return status;
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            if (outputs[i] && outputs[j] && strcmp(outputs[i], "-") != 0 && strcmp(outputs[i], outputs[j]) == 0)
                return zt_fail(cli->ctx, ZT_EUSAGE, "%s and %s name one file, '%s'", output_options[i], output_options[j],
                               outputs[i]);
    return ZT_OK;
}

zt_status run_options_check(zt_cli *cli, const run_options *options)
{
    zt_status status = check_values(cli->ctx, options);
    if (status == ZT_OK)
        status = check_inputs(cli->ctx, options);
    if (status == ZT_OK)
        status = check_outputs(cli, options);
    if (status == ZT_OK)
        status = check_files(cli, options);
    return status == ZT_OK ? zt_sampler_check(cli->ctx, &options->sampler) : status;
}
