/* output.c - a checkpoint that is made as it is read, written as a model: a file, a stream or a Hugging Face directory. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

/* How far the copy of a model is, in bytes. */
typedef struct copy_progress {
    zt_cli *cli;
    const char *what, *tensor;
    double done, all;
} copy_progress;

static zt_status on_copied(void *user, size_t bytes)
{
    copy_progress *progress = user;
    progress->done += (double)bytes;
    zt_progress(progress->cli, &(zt_work){progress->what, progress->tensor, "B", progress->done, progress->all});
    return zt_cli_interrupted() ? zt_fail(progress->cli->ctx, ZT_EINTR, "interrupted") : ZT_OK;
}

static zt_status copy_tensors(zt_cli *cli, zt_checkpoint *model, zt_writer *writer, const char *what)
{
    copy_progress progress = {.cli = cli, .what = what};
    zt_status status = ZT_OK;
    zt_entry entry;
    for (int64_t i = 0; i < zt_checkpoint_count(model); i++)
        zt_checkpoint_get(model, i, &entry), progress.all += (double)entry.bytes;
    for (int64_t i = 0; i < zt_checkpoint_count(model) && status == ZT_OK; i++) {
        zt_checkpoint_get(model, i, &entry);
        progress.tensor = entry.name;
        status = zt_writer_put_tensor(writer, model, i, on_copied, &progress);
    }
    return status;
}

static zt_status write_file(zt_cli *cli, zt_checkpoint *model, const zt_container *to, const char *what)
{
    const int64_t count = zt_checkpoint_count(model);
    zt_entry *entries = zt_alloc_array(cli->ctx, (size_t)count + 1, sizeof *entries);
    if (!entries) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) zt_checkpoint_get(model, i, &entries[i]);
    zt_checkpoint_opts options = {.to = to, .force = cli->force};
    zt_writer *writer = zt_writer_open(cli->ctx, cli->output, &options, zt_checkpoint_meta(model), entries, count);
    zt_status status = writer ? copy_tensors(cli, model, writer, what) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_free(cli->ctx, entries);
    return status;
}

zt_status dna_write_made(zt_cli *cli, const dna_options *options, zt_checkpoint *model, const char *what)
{
    const size_t length = strlen(cli->output);
    const bool folder = cli->output[length - 1] == '/' || (options->to && !strcmp(options->to, "hf"));
    zt_status status = ZT_OK;
    if (folder) {
        zt_gguf *gguf = zt_checkpoint_gguf(model);
        if (!strcmp(cli->output, "-"))
            status = zt_fail(cli->ctx, ZT_EUSAGE, "a Hugging Face directory cannot be written to stdout");
        else
            status = gguf ? zt_hf_write(cli->ctx, gguf, cli->output,
                                        &(zt_hf_opts){.dtype = ZT_DTYPE_COUNT, .stop = zt_cli_interrupted})
                          : zt_ctx_status(cli->ctx);
        zt_gguf_close(gguf);
        return status;
    }
    const zt_container *to = dna_container(cli, options, cli->output, "gguf");
    if (!to)
        status = ZT_EUSAGE;
    else if (!zt_container_writes(to))
        status = zt_fail(cli->ctx, ZT_ENOTSUP, "%s can be read but not written", zt_container_name(to));
    else if (!strcmp(cli->output, "-"))
        status = zt_cli_refuse_terminal(cli, "a model");
    if (status == ZT_OK) status = write_file(cli, model, to, what);
    zt_checkpoint_close(model);
    return status;
}
