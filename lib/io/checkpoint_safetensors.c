/* checkpoint_safetensors.c - owns safetensors as a container: read, by an index too, and written. */
#include "lib/io/checkpoint_file.h"
#include "lib/io/safetensors_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count_tensors(const void *user) { return zt_safetensors_count(user); }

static void get_entry(const void *user, int64_t i, zt_entry *entry)
{
    const zt_safetensors_entry *tensor = zt_safetensors_get(user, i);
    bool known = tensor->type.dtype < ZT_DTYPE_COUNT;
    *entry = (zt_entry){.name = tensor->name,
                        .dtype = known ? zt_dtype_get(tensor->type.dtype)->name : tensor->dtype,
                        .type = tensor->type,
                        .bytes = tensor->bytes};
    entry->type.rank = tensor->rank <= ZT_MAX_RANK ? tensor->rank : -1;
}

static int64_t find_tensor(const void *user, const char *name) { return zt_safetensors_find(user, name); }

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    return zt_safetensors_read(user, i, (size_t)offset, dst, size);
}

static bool locate_data(const void *user, int64_t i, const zt_source **source, uint64_t *offset)
{
    zt_safetensors_place(user, i, source, offset);
    return true;
}

static zt_status read_meta(const void *user, zt_meta *to)
{
    const char *key, *value;
    size_t length;
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && (key = zt_safetensors_meta(user, i, &value, &length)); i++)
        status = zt_meta_put_str(to, key, value, length);
    return status;
}

static zt_status end_stream(void *user) { return zt_safetensors_end(user); }

static void close_st(void *user) { zt_safetensors_close(user); }

static const zt_reader reader = {.count = count_tensors,
                                 .get = get_entry,
                                 .find = find_tensor,
                                 .read = read_data,
                                 .place = locate_data,
                                 .meta = read_meta,
                                 .end = end_stream,
                                 .close = close_st};

static bool probe_safetensors(const unsigned char *head, size_t head_size, uint64_t size)
{
    return zt_safetensors_sniff(head, head_size, size);
}

static zt_status open_st(zt_checkpoint *checkpoint, zt_source *source)
{
    checkpoint->reader = &reader;
    checkpoint->user = zt_safetensors_take(checkpoint->ctx, source);
    return checkpoint->user ? ZT_OK : zt_ctx_status(checkpoint->ctx);
}

/* ---- an index -------------------------------------------------------------------------------- */

static bool probe_json(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    while (head_size && strchr(" \t\r\n", *head) && *head) head++, head_size--;
    return head_size && *head == '{';
}

zt_status zt_st_open_index(zt_checkpoint *checkpoint)
{
    checkpoint->reader = &reader;
    checkpoint->container = &zt_container_safetensors;
    checkpoint->parts = true;
    checkpoint->user = zt_safetensors_open_index(checkpoint->ctx, checkpoint->name);
    return checkpoint->user ? ZT_OK : zt_ctx_status(checkpoint->ctx);
}

/* Named by its path: the shards lie beside it. */
static zt_status open_index(zt_checkpoint *checkpoint, zt_source *source)
{
    zt_source_close(source);
    return zt_parts_open_index(checkpoint);
}

const zt_container zt_container_index = {
    .name = "index", .suffix = ".safetensors.index.json", .probe = probe_json, .open = open_index};

/* ---- writing --------------------------------------------------------------------------------- */

static const char *dtype_word(const zt_entry *entry)
{
    if (entry->type.dtype < ZT_DTYPE_COUNT) return zt_safetensors_word(entry->type.dtype);
    return zt_safetensors_has_word(entry->dtype) ? entry->dtype : NULL;
}

/* Packed types fill whole bytes there. */
static bool fills_bytes(const zt_entry *entry)
{
    return entry->type.dtype == ZT_DTYPE_COUNT || zt_type_count(&entry->type) % zt_dtype_get(entry->type.dtype)->block == 0;
}

static bool can_store(const zt_entry *entry)
{
    return dtype_word(entry) && entry->type.rank >= 0 && strcmp(entry->name, "__metadata__") != 0 &&
           zt_st_text_ok(entry->name, strlen(entry->name)) && fills_bytes(entry);
}

/* Only texts. */
static bool can_meta(const zt_meta *meta)
{
    for (int64_t i = 0; i < zt_meta_count(meta); i++) {
        const zt_meta_item *item = zt_meta_get(meta, i);
        zt_bytes text = zt_meta_text(item);
        if (!text.data || !zt_st_text_ok(text.data, text.n) || !zt_st_text_ok(item->key.data, item->key.n)) return false;
    }
    return true;
}

/* Bytes of the header, if no text of it needs escapes. */
static size_t estimate_header(const zt_part *part, const zt_meta *meta)
{
    enum { ENTRY = 160, REST = 256 }; /* without the name; what fills it up, and braces */
    size_t size = REST;
    for (int64_t i = 0; i < zt_meta_count(meta); i++) size += zt_meta_get(meta, i)->key.n + zt_meta_get(meta, i)->bytes;
    for (int64_t i = 0; i < part->count; i++) size += strlen(part->entries[i].name) + ENTRY;
    return size;
}

static char *make_header(zt_part *part, const zt_meta *meta, size_t least, size_t *size)
{
    size_t most = estimate_header(part, meta);
    zt_st_writer *writer = zt_st_writer_new(part->ctx, most > least ? most : least + 1);
    zt_status status = writer ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < zt_meta_count(meta); i++) {
        const zt_meta_item *item = zt_meta_get(meta, i);
        zt_bytes text = zt_meta_text(item);
        status = zt_st_put_meta(writer, item->key.data, text.data, text.n);
    }
    for (int64_t i = 0; status == ZT_OK && i < part->count; i++) {
        const zt_entry *entry = &part->entries[i];
        status = zt_st_put_tensor(writer, entry->name, dtype_word(entry), entry->type.rank, entry->type.dim, entry->bytes);
    }
    char *bytes = status == ZT_OK ? zt_st_writer_finish(writer, least, size) : NULL;
    zt_st_writer_free(writer);
    return bytes;
}

/* {"metadata": {"total_size": N}, "weight_map": {"tensor": "file", ...}} */
static char *make_index(zt_ctx *ctx, const zt_part *part, int64_t count, size_t *bytes)
{
    zt_str text;
    uint64_t total = 0;
    bool first = true;
    zt_str_init(&text, ctx);
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = 0; i < part[k].count; i++) total += part[k].entries[i].bytes;
    zt_str_printf(&text, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{", total);
    for (int64_t k = 0; k < count; k++) {
        const char *slash = strrchr(part[k].path, '/');
        const char *file = slash ? slash + 1 : part[k].path;
        for (int64_t i = 0; i < part[k].count; i++, first = false) {
            zt_str_puts(&text, first ? "\n" : ",\n");
            zt_str_put_json(&text, part[k].entries[i].name, strlen(part[k].entries[i].name));
            zt_str_putc(&text, ':');
            zt_str_put_json(&text, file, strlen(file));
        }
    }
    zt_str_puts(&text, "}}\n");
    *bytes = text.len;
    if (zt_ctx_status(ctx) == ZT_OK) return text.data;
    zt_str_fini(&text);
    return NULL;
}

static const zt_part_ops ops = {.header = make_header};

static bool is_numbered(const zt_source *source)
{
    (void)source;
    return true;
}

const zt_container zt_container_safetensors = {.name = "safetensors",
                                               .suffix = ".safetensors",
                                               .probe = probe_safetensors,
                                               .streams = true,
                                               .open = open_st,
                                               .ops = &ops,
                                               .can_store = can_store,
                                               .can_meta = can_meta,
                                               .mask_dtype = ZT_U8,
                                               .shards = true,
                                               .numbered = is_numbered,
                                               .index = make_index,
                                               .index_suffix = ".safetensors.index.json"};
