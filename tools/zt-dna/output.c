/* output.c - a checkpoint that is made as it is read, written as a model: a file, a stream or a Hugging Face directory. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

enum { PIECE = 1 << 20 };

static zt_status copy_tensors(zt_cli *cli, zt_checkpoint *model, zt_writer *writer, const char *what)
{
    char *piece = zt_alloc(cli->ctx, PIECE);
    zt_status status = piece ? ZT_OK : ZT_ENOMEM;
    double all = 0, done = 0;
    zt_entry entry;
    for (int64_t i = 0; i < zt_checkpoint_count(model); i++) zt_checkpoint_get(model, i, &entry), all += (double)entry.bytes;
    for (int64_t i = 0; i < zt_checkpoint_count(model) && status == ZT_OK; i++) {
        zt_checkpoint_get(model, i, &entry);
        for (uint64_t offset = 0, step; offset < entry.bytes && status == ZT_OK; offset += step, done += (double)step) {
            step = entry.bytes - offset < PIECE ? entry.bytes - offset : PIECE;
            if (zt_cli_interrupted()) status = zt_fail(cli->ctx, ZT_EINTR, "interrupted");
            if (status == ZT_OK) status = zt_checkpoint_read(model, i, offset, piece, (size_t)step);
            if (status == ZT_OK) status = zt_writer_put(writer, piece, (size_t)step);
            zt_progress(cli, &(zt_work){what, entry.name, "B", done, all});
        }
    }
    zt_free(cli->ctx, piece);
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
