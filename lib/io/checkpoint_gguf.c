/* checkpoint_gguf.c - owns GGUF as a container: read, in shards too, and written. */
#include "lib/io/checkpoint_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count_tensors(const void *user) { return zt_gguf_n_tensors(user); }

static void get_entry(const void *user, int64_t i, zt_entry *entry)
{
    int rank;
    size_t bytes;
    const char *word = zt_gguf_tensor_word(user, i, &rank);
    entry->name = zt_gguf_tensor(user, i, &entry->type, NULL, &bytes);
    entry->type.rank = rank;
    entry->dtype = entry->type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(entry->type.dtype)->name : word;
    entry->bytes = bytes;
}

static int64_t find_tensor(const void *user, const char *name) { return zt_gguf_find(user, name); }

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    zt_store store = zt_gguf_store(user);
    return store.read(store.user, i, (size_t)offset, dst, size);
}

static bool locate_data(const void *user, int64_t i, const zt_source **source, uint64_t *offset)
{
    return zt_gguf_place(user, i, source, offset);
}

static zt_status read_meta(const void *user, zt_meta *to) { return zt_gguf_all_keys(user, to, true); }

static void keep_rows(void *user) { zt_gguf_keep_rows(user); }

static zt_status end_stream(void *user) { return zt_gguf_end(user); }

static void close_gguf(void *user) { zt_gguf_close(user); }

static const zt_reader reader = {.count = count_tensors,
                                 .get = get_entry,
                                 .find = find_tensor,
                                 .read = read_data,
                                 .place = locate_data,
                                 .meta = read_meta,
                                 .keep_rows = keep_rows,
                                 .end = end_stream,
                                 .close = close_gguf};

static bool probe_gguf(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return head_size > 0 && memcmp(head, "GGUF", head_size < 4 ? head_size : 4) == 0;
}

static zt_status open_gguf(zt_checkpoint *checkpoint, zt_source *source)
{
    checkpoint->reader = &reader;
    zt_gguf *gguf = zt_gguf_take(checkpoint->ctx, source);
    checkpoint->user = gguf && !checkpoint->alone ? zt_gguf_with_shards(gguf, checkpoint->name) : gguf;
    checkpoint->parts = checkpoint->user != gguf;
    return checkpoint->user ? ZT_OK : zt_ctx_status(checkpoint->ctx);
}

zt_checkpoint *zt_checkpoint_of_gguf(zt_ctx *ctx, zt_gguf *gguf)
{
    return gguf ? zt_checkpoint_over(ctx, zt_gguf_name(gguf), &zt_container_gguf, &reader, gguf) : NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool can_store(const zt_entry *entry) { return zt_gguf_can(entry->name, entry->dtype, entry->type.rank); }

static bool can_meta(const zt_meta *meta)
{
    (void)meta;
    return true;
}

static zt_status put_records(zt_part *part, zt_gguf_writer *writer, const zt_meta *meta)
{
    zt_status status = zt_gguf_put_keys(writer, meta);
    int64_t index = zt_meta_find(meta, "general.alignment");
    part->align = 32;
    if (index >= 0 && zt_meta_get(meta, index)->kind == ZT_GGUF_U32) {
        uint32_t align;
        memcpy(&align, zt_meta_get(meta, index)->value, sizeof align);
        part->align = align;
    }
    for (int64_t i = 0; status == ZT_OK && i < part->count; i++)
        status = zt_gguf_put_tensor_word(writer, part->entries[i].name, part->entries[i].dtype, part->entries[i].type.rank,
                                         part->entries[i].type.dim);
    return status;
}

static char *make_header(zt_part *part, const zt_meta *meta, size_t least, size_t *size)
{
    (void)least;
    zt_gguf_writer *writer = zt_gguf_writer_new(part->ctx);
    zt_status status = writer ? put_records(part, writer, meta) : ZT_ENOMEM;
    char *bytes = status == ZT_OK ? zt_gguf_writer_finish(writer, size, NULL) : NULL;
    zt_gguf_writer_free(writer);
    return bytes;
}

/* Zeros up to the alignment. */
static zt_status pad_data(zt_part *part)
{
    static const char zeros[4096];
    zt_status status = ZT_OK;
    while (status == ZT_OK && part->position % part->align != 0) {
        uint64_t step = part->align - part->position % part->align;
        step = step < sizeof zeros ? step : sizeof zeros;
        status = zt_sink_write(part->sink, zeros, (size_t)step);
        part->position += step;
    }
    return status;
}

static zt_status begin_tensor(zt_part *part, int64_t i)
{
    zt_status status = pad_data(part);
    part->position += part->entries[i].bytes;
    return status;
}

/* Keys as llama.cpp's gguf-split writes them: the first shard has all, the others only these. */
static zt_status shard_meta(zt_meta *meta, int64_t index, int64_t count, int64_t n_tensors)
{
    uint16_t number = (uint16_t)index, total = (uint16_t)count;
    int32_t tensor_count = (int32_t)n_tensors;
    zt_status status = zt_meta_put(meta, "split.no", ZT_GGUF_U16, &number, sizeof number);
    if (status == ZT_OK) status = zt_meta_put(meta, "split.count", ZT_GGUF_U16, &total, sizeof total);
    return status == ZT_OK ? zt_meta_put(meta, "split.tensors.count", ZT_GGUF_I32, &tensor_count, sizeof tensor_count) : status;
}

static const zt_part_ops ops = {.header = make_header, .tensor = begin_tensor, .end = pad_data};

const zt_container zt_container_gguf = {.name = "gguf",
                                        .suffix = ".gguf",
                                        .probe = probe_gguf,
                                        .streams = true,
                                        .open = open_gguf,
                                        .ops = &ops,
                                        .can_store = can_store,
                                        .can_meta = can_meta,
                                        .mask_dtype = ZT_I8,
                                        .shards = true,
                                        .shard_meta = shard_meta};
