/* signature.c - --sign and --verify-signature: a model, or any other file, and its signature. */
#include "tools/zt-convert/convert.h"

#include <string.h>

static zt_status show_progress(void *user, const char *file, uint64_t done, uint64_t total)
{
    convert_job *job = user;
    zt_progress(job->cli, &(zt_work){"hash", file, "B", (double)done, (double)total});
    return job_interrupted(job);
}

/* The first line of --password-file; zt_free it. NULL without an error: no such option. */
static char *read_password(convert_job *job)
{
    size_t length = 0;
    const char *path = job->options->password_file;
    char *text = path ? zt_read_all(job->ctx, path, &length) : NULL;
    if (text) text[strcspn(text, "\r\n")] = 0;
    return text;
}

/* MODEL.sig, without the slashes at the end of a directory's name. */
static zt_status name_signature(convert_job *job, zt_str *path)
{
    const char *model = job->paths[0];
    size_t length = strlen(model);
    if (job->cli->output) return zt_str_puts(path, job->cli->output);
    while (length > 1 && model[length - 1] == '/') length--;
    const char *last = memrchr(model, '/', length);
    last = last ? last + 1 : model;
    length = (size_t)(last - model) + strcspn(last, "/");
    if (strncmp(last, ".", length - (size_t)(last - model)) == 0 || strncmp(last, "..", length - (size_t)(last - model)) == 0)
        return zt_fail(job->ctx, ZT_EUSAGE, "%s: the model has no name that a signature could have, expected -o FILE", model);
    zt_status status = zt_str_put(path, model, length);
    return status ? status : zt_str_puts(path, ".sig");
}

/* One shard of a model in several files is not the model. */
static void warn_about_shards(convert_job *job)
{
    const char *path = job->paths[0], *of = strstr(path, "-of-");
    if ((of && of - path > 6 && strspn(of - 5, "0123456789") == 5 && strspn(of + 4, "0123456789") == 5) ||
        strstr(path, ".index.json"))
        zt_cli_note(job->cli,
                    "warning: %s: only this file is signed, not the other files of the model; name their directory to sign all",
                    path);
}

zt_status job_sign(convert_job *job)
{
    zt_str path;
    zt_str_init(&path, job->ctx);
    zt_status status = name_signature(job, &path);
    if (!status && strcmp(path.data, "-") != 0) status = zt_cli_refuse_same(job->cli, job->paths[0], path.data);
    char *password = status ? NULL : read_password(job);
    if (!status) status = zt_ctx_status(job->ctx);
    zt_key *key = status ? NULL : zt_key_private(job->ctx, job->options->sign, password);
    if (!status && !key) status = zt_ctx_status(job->ctx);
    const zt_sign_opts opts = {
        .symlinks = job->options->allow_symlinks, .force = job->cli->force, .progress = show_progress, .user = job};
    if (!status) warn_about_shards(job);
    if (!status) status = zt_sign_model(job->ctx, job->paths[0], path.data, key, &opts);
    if (password) explicit_bzero(password, strlen(password));
    zt_free(job->ctx, password);
    zt_key_free(key);
    zt_str_fini(&path);
    return status;
}

zt_status job_verify(convert_job *job)
{
    const convert_options *options = job->options;
    const zt_sign_trust trust = {
        .public_key = options->public_key, .certificates = options->ca_certificates, .progress = show_progress, .user = job};
    zt_str why;
    zt_str_init(&why, job->ctx);
    zt_status status = zt_verify_model(job->ctx, job->paths[0], options->verify, &trust, &why);
    if (!status && why.len) {
        zt_cli_note(job->cli, "%s", why.data);
        zt_cli_no(job->cli);
    }
    zt_str_fini(&why);
    return status;
}
