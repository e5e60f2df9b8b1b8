/* merge.c - zt-dna merge: several models made into one. */
#include "tools/zt-dna/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_progress(void *user, const char *tensor, double done, double all)
{
    zt_progress(user, &(zt_work){"merge", tensor, "B", done, all});
}

const char *dna_method_names(const void *user, int i)
{
    int merge_count = 0;
    while (zt_merge_method_at(merge_count)) merge_count++;
    return i < merge_count ? zt_merge_method_at(i)->name : dna_transplant_names(user, i - merge_count);
}

const char *dna_parameter_names(const void *user, int i)
{
    (void)user;
    return zt_merge_parameter(i);
}

static zt_status write_to(zt_cli *cli, zt_merge *merge, const char *path, const zt_checkpoint_opts *options)
{
    zt_writer *writer =
        zt_writer_open(cli->ctx, path, options, zt_merge_meta(merge), zt_merge_entries(merge), zt_merge_count(merge));
    zt_status status = writer ? zt_merge_write(merge, writer) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    return status;
}

/* A directory of Hugging Face's is made of a whole model: by way of a file beside it that goes again. */
static zt_status write_folder(zt_cli *cli, zt_merge *merge)
{
    size_t length = strlen(cli->output);
    while (length > 1 && cli->output[length - 1] == '/') length--;
    const char *slash = memrchr(cli->output, '/', length);
    zt_checkpoint_opts options = {.to = zt_container_named("gguf"), .force = true};
    zt_str path;
    zt_str_init(&path, cli->ctx);
    zt_status status = zt_str_printf(&path, "%.*s.zt-merge-XXXXXX", slash ? (int)(slash + 1 - cli->output) : 0, cli->output);
    int descriptor = status == ZT_OK ? mkstemp(path.data) : -1;
    if (status == ZT_OK && descriptor < 0) status = zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", path.data, strerror(errno));
    if (descriptor >= 0) close(descriptor);
    if (status == ZT_OK) status = write_to(cli, merge, path.data, &options);
    zt_gguf *gguf = status == ZT_OK ? zt_model_open(cli->ctx, path.data) : NULL;
    if (descriptor >= 0) unlink(path.data); /* while it is open, its bytes stay */
    if (status == ZT_OK)
        status =
            gguf ? zt_hf_write(cli->ctx, gguf, cli->output, &(zt_hf_opts){.dtype = ZT_DTYPE_COUNT, .stop = zt_cli_interrupted})
                 : zt_ctx_status(cli->ctx);
    zt_gguf_close(gguf);
    zt_str_fini(&path);
    return status;
}

static zt_status write_out(zt_cli *cli, const dna_options *options, zt_merge *merge)
{
    size_t length = strlen(cli->output);
    zt_checkpoint_opts opts = {.force = cli->force};
    bool folder = cli->output[length - 1] == '/' || (options->to && !strcmp(options->to, "hf"));
    if (folder && !strcmp(cli->output, "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "a Hugging Face directory cannot be written to stdout");
    if (folder) return write_folder(cli, merge);
    opts.to = options->to ? zt_container_named(options->to) : zt_container_for(cli->output);
    if (options->to && !opts.to) return zt_cli_no_container(cli, options->to);
    if (opts.to && !zt_container_writes(opts.to))
        return zt_fail(cli->ctx, ZT_ENOTSUP, "%s can be read but not written", zt_container_name(opts.to));
    return write_to(cli, merge, cli->output, &opts);
}

static zt_status run_merge(merge_inputs *inputs, const zt_recipe *recipe)
{
    zt_cli *cli = inputs->cli;
    zt_merge_opts options = {
        .threads = (int)cli->threads, .seed = cli->seed, .stop = zt_cli_interrupted, .progress = on_progress, .user = cli};
    zt_status status = merge_open(inputs, recipe);
    zt_merge *merge = status == ZT_OK ? zt_merge_new(cli->ctx, recipe, inputs->parents, &options) : NULL;
    status = merge ? ZT_OK : zt_ctx_status(cli->ctx);
    if (status == ZT_OK && inputs->options->type) status = merge_retype(cli, merge, inputs->options->type);
    if (status == ZT_OK) status = zt_merge_check(merge);
    if (status == ZT_OK) status = write_out(cli, inputs->options, merge);
    zt_merge_free(merge);
    return status;
}

zt_status dna_merge(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    merge_inputs inputs = {.cli = cli, .options = options, .operands = operands, .operand_count = count};
    if (!cli->output || !*cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "merge: no output: specify one with -o FILE");
    zt_status status = strcmp(cli->output, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "a model");
    zt_recipe *recipe = status == ZT_OK ? merge_recipe(cli, options, operands, count) : NULL;
    status = recipe ? run_merge(&inputs, recipe) : zt_ctx_status(cli->ctx);
    merge_close(&inputs);
    zt_recipe_free(recipe);
    return status;
}
