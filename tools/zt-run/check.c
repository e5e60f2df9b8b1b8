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

static zt_status check_values(zt_ctx *ctx, const run_options *options)
{
    for (int i = 0; i < options->stop_texts.n; i++)
        if (!*options->stop_texts.item[i])
            return zt_fail(ctx, ZT_EUSAGE, "--stop: the text is empty");
    return ZT_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

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
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "--logits - and the text both want stdout: give -n 0 or -o FILE");
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
                return zt_fail(cli->ctx, ZT_EUSAGE, "%s and %s name one file, '%s'", output_options[i],
                               output_options[j], outputs[i]);
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
