/* check.c - which values options may have, which files may be read and written. */
#include "tools/zt-run/run.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool from_stdin(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

static zt_status check_values(zt_ctx *ctx, const run_options *o)
{
    for (int i = 0; i < o->stop.n; i++)
        if (!*o->stop.item[i])
            return zt_fail(ctx, ZT_EUSAGE, "--stop: the text is empty");
    return ZT_OK;
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
    zt_status s = check_values(cli->ctx, o);
    if (s == ZT_OK)
        s = check_inputs(cli->ctx, o);
    if (s == ZT_OK)
        s = check_outputs(cli, o);
    if (s == ZT_OK)
        s = check_files(cli, o);
    return s == ZT_OK ? zt_sampler_check(cli->ctx, &o->sampler) : s;
}
