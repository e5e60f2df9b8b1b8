/* check.c - which options go together, which files may be read and written. */
#include "tools/zt-run/run.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool from_stdin(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

typedef struct choice {
    const char *name;
    bool given;
} choice;

/* Of these at most one. */
static zt_status at_most_one(zt_ctx *ctx, const choice *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (c[i].given && c[k].given)
                return zt_fail(ctx, ZT_EUSAGE, "%s and %s exclude each other", c[i].name,
                               c[k].name);
    return ZT_OK;
}

/* None of these beside `with`. */
static zt_status none_beside(zt_ctx *ctx, choice with, const choice *c, int n)
{
    for (int i = 0; with.given && i < n; i++)
        if (c[i].given)
            return zt_fail(ctx, ZT_EUSAGE, "%s and %s exclude each other", with.name, c[i].name);
    return ZT_OK;
}

#define AT_MOST_ONE(ctx, ...)                                                                      \
    at_most_one(ctx, (const choice[]){__VA_ARGS__},                                                \
                sizeof((const choice[]){__VA_ARGS__}) / sizeof(choice))
#define NONE_BESIDE(ctx, with, ...)                                                                \
    none_beside(ctx, with, (const choice[]){__VA_ARGS__},                                          \
                sizeof((const choice[]){__VA_ARGS__}) / sizeof(choice))

/* What the run does: text is generated where nothing else is asked for. */
static zt_status check_job(zt_ctx *ctx, const run_options *o)
{
    choice tokens = {o->tokenize ? "--tokenize" : o->detokenize ? "--detokenize" : "--count",
                     o->tokenize || o->detokenize || o->count};
    choice perplexity = {"--perplexity", o->perplexity}, chat = {"--chat", o->chat};
    choice embed = {"--embed", o->embed}, jsonl = {"--jsonl", o->jsonl};
    zt_status s = AT_MOST_ONE(ctx, {"--tokenize", o->tokenize}, {"--detokenize", o->detokenize},
                              {"--count", o->count}, {"--dry-run", o->dry_run},
                              {"--perplexity", o->perplexity}, {"--chat", o->chat},
                              {"--embed", o->embed}, {"--jsonl", o->jsonl});
    if (s == ZT_OK)
        s = NONE_BESIDE(ctx, tokens, {"--json", o->json}, {"--ids", o->ids},
                        {"--logits", o->logits}, {"--session", o->session},
                        {"--template", o->template}, {"--system", o->system});
    if (s == ZT_OK)
        s = NONE_BESIDE(ctx, perplexity, {"-p", o->prompt}, {"-i", o->input}, {"--json", o->json},
                        {"--ids", o->ids}, {"--logits", o->logits}, {"--session", o->session},
                        {"--template", o->template}, {"--system", o->system},
                        {"--no-kv-cache", o->no_kv_cache});
    if (s == ZT_OK)
        s = NONE_BESIDE(ctx, chat, {"-p", o->prompt}, {"-i", o->input}, {"--json", o->json},
                        {"--ids", o->ids}, {"--logits", o->logits}, {"--raw", o->raw},
                        {"--stats", o->stats});
    if (s == ZT_OK)
        s = NONE_BESIDE(ctx, embed, {"--json", o->json}, {"--ids", o->ids},
                        {"--logits", o->logits}, {"--session", o->session},
                        {"--template", o->template}, {"--system", o->system},
                        {"--stats", o->stats}, {"--no-kv-cache", o->no_kv_cache});
    if (s == ZT_OK)
        s = NONE_BESIDE(ctx, jsonl, {"-p", o->prompt}, {"--json", o->json}, {"--ids", o->ids},
                        {"--logits", o->logits}, {"--session", o->session},
                        {"--stats", o->stats});
    return s;
}

/* It is of a prompt that is read, as text. */
static zt_status check_verbatim(zt_ctx *ctx, const run_options *o)
{
    return NONE_BESIDE(ctx, ((choice){"--verbatim", o->verbatim}), {"-p", o->prompt},
                       {"--detokenize", o->detokenize}, {"--perplexity", o->perplexity},
                       {"--chat", o->chat}, {"--jsonl", o->jsonl}, {"--dry-run", o->dry_run});
}

static zt_status check_pairs(zt_ctx *ctx, const run_options *o)
{
    zt_status s = AT_MOST_ONE(ctx, {"-p", o->prompt}, {"-i", o->input});
    if (s == ZT_OK)
        s = AT_MOST_ONE(ctx, {"--bos", o->bos}, {"--no-bos", o->no_bos});
    if (s == ZT_OK)
        s = NONE_BESIDE(ctx, ((choice){"--raw", o->raw}), {"--system", o->system},
                        {"--template", o->template});
    if (s == ZT_OK)
        s = AT_MOST_ONE(ctx, {"--json", o->json}, {"--ids", o->ids});
    if (s == ZT_OK)
        s = AT_MOST_ONE(ctx, {"--session", o->session}, {"--no-kv-cache", o->no_kv_cache});
    if (s == ZT_OK)
        s = AT_MOST_ONE(ctx, {"--speculate", o->speculate}, {"--no-kv-cache", o->no_kv_cache});
    if (s == ZT_OK && o->all_logits && !o->logits)
        s = zt_fail(ctx, ZT_EUSAGE, "--all-logits needs --logits FILE.npy");
    if (s == ZT_OK && o->cycles)
        s = zt_fail(ctx, ZT_EUSAGE, "--cycles is of networks");
    for (int i = 0; s == ZT_OK && i < o->stop.n; i++)
        if (!*o->stop.item[i])
            s = zt_fail(ctx, ZT_EUSAGE, "--stop: the text is empty");
    if (s == ZT_OK && (o->bind || o->data))
        s = zt_fail(ctx, ZT_EUSAGE, "%s is of programs", o->bind ? "--bind" : "--data");
    if (s == ZT_OK && o->logprobs >= 0 && !o->json && !o->jsonl)
        s = zt_fail(ctx, ZT_EUSAGE, "--logprobs needs --json or --jsonl");
    if (s == ZT_OK)
        s = check_verbatim(ctx, o);
    return s == ZT_OK ? check_job(ctx, o) : s;
}

/* ---- files ----------------------------------------------------------------------------------- */

static zt_status check_inputs(zt_ctx *ctx, const run_options *o)
{
    bool piped = !o->prompt && (!o->input || from_stdin(o->input));
    if (!o->model)
        return zt_fail(ctx, ZT_EUSAGE, "no model: name one with -m");
    struct stat st;
    if (from_stdin(o->session) ||
        (o->session && stat(o->session, &st) == 0 && !S_ISREG(st.st_mode)))
        return zt_fail(ctx, ZT_EUSAGE, "--session names a file, which is read and written");
    if (o->chat && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        return zt_fail(ctx, ZT_EUSAGE, "--chat needs a terminal: stdin or stdout is none");
    if (o->dry_run || o->chat)
        return ZT_OK;
    if (o->perplexity)
        piped = from_stdin(o->perplexity);
    if (piped && from_stdin(o->model))
        return zt_fail(ctx, ZT_EUSAGE, "the model comes from stdin: give the prompt with -p or -i");
    if (piped && !o->perplexity && !o->jsonl && !o->input && isatty(STDIN_FILENO))
        return zt_fail(ctx, ZT_EUSAGE, "no prompt: give one with -p or -i, or pipe it in");
    return ZT_OK;
}

static zt_status check_outputs(zt_cli *cli, const run_options *o)
{
    if (o->chat && cli->output)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--chat and --output exclude each other");
    if (o->embed && cli->format != ZT_FMT_AUTO && cli->format != ZT_FMT_JSON &&
        cli->format != ZT_FMT_NDJSON)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--embed writes npy, or --format json or ndjson");
    if (o->embed && cli->format == ZT_FMT_AUTO && !cli->output)
        return zt_cli_refuse_terminal(cli, "npy");
    if (!from_stdin(o->logits))
        return ZT_OK;
    if ((o->n != 0 || o->json) && (!cli->output || from_stdin(cli->output)))
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "--logits - and the text both want stdout: give -n 0 or -o FILE");
    return zt_cli_refuse_terminal(cli, "logits");
}

/* No output may be a file that is read, nor two outputs one file. */
static zt_status check_files(zt_cli *cli, const run_options *o)
{
    const char *text = o->perplexity ? o->perplexity : o->prompt ? NULL : o->input ? o->input : "-";
    const char *const in[] = {o->model, text, o->template};
    const char *const out[] = {cli->output, o->logits, o->session};
    const char *const name[] = {"--output", "--logits", "--session"};
    for (int i = 0; i < 9; i++) {
        zt_status s = zt_cli_refuse_same(cli, in[i / 3], out[i % 3]);
        if (s != ZT_OK)
            return s;
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++)
            if (out[i] && out[k] && strcmp(out[i], "-") != 0 && strcmp(out[i], out[k]) == 0)
                return zt_fail(cli->ctx, ZT_EUSAGE, "%s and %s name one file, '%s'", name[i],
                               name[k], out[i]);
    return ZT_OK;
}

zt_status run_options_check(zt_cli *cli, const run_options *o)
{
    zt_status s = check_pairs(cli->ctx, o);
    if (s == ZT_OK)
        s = check_inputs(cli->ctx, o);
    if (s == ZT_OK)
        s = check_outputs(cli, o);
    if (s == ZT_OK)
        s = check_files(cli, o);
    return s == ZT_OK ? zt_sampler_check(cli->ctx, &o->sampler) : s;
}
