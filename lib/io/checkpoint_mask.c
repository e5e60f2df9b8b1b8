/* checkpoint_mask.c - owns what a container cannot say: metadata as one text, and tensors stored as
 * bytes, with a key that tells what they are. */
#include "lib/io/base64.h"
#include "lib/io/checkpoint_file.h"
#include "lib/io/gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata as GGUF's keys, and as text ---------------------------------------------------- */

zt_status zt_gguf_put_keys(zt_gguf_writer *writer, const zt_meta *meta)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < zt_meta_count(meta); i++) {
        const zt_meta_item *item = zt_meta_get(meta, i);
        status = zt_gguf_put_raw(writer, item->key.data, item->kind, item->value, item->bytes);
    }
    return status;
}

/* A GGUF header of these keys alone; NULL on failure. */
static char *meta_as_header(const zt_meta *meta, size_t *size)
{
    char *header = NULL;
    zt_gguf_writer *writer = zt_gguf_writer_new(zt_meta_ctx(meta));
    if (writer && zt_gguf_put_keys(writer, meta) == ZT_OK) header = zt_gguf_writer_finish(writer, size, NULL);
    zt_gguf_writer_free(writer);
    return header;
}

zt_status zt_meta_to_text(const zt_meta *meta, zt_str *text)
{
    size_t size;
    char *header = meta_as_header(meta, &size);
    zt_status status = header ? zt_base64_put(text, header, size) : zt_ctx_status(text->ctx);
    zt_free(text->ctx, header);
    return status;
}

/* All of `meta` as one text of another. NULL on failure. */
static zt_meta *meta_as_text(const zt_meta *meta)
{
    zt_ctx *ctx = zt_meta_ctx(meta);
    size_t size;
    zt_meta *one = zt_meta_new(ctx);
    char *header = one ? meta_as_header(meta, &size) : NULL;
    char *text = header ? zt_meta_room(one, ZT_KEY_GGUF, zt_base64_size(size)) : NULL;
    if (text) zt_base64(header, size, text);
    zt_free(ctx, header);
    if (text) return one;
    zt_meta_free(one);
    return NULL;
}

zt_status zt_gguf_all_keys(const zt_gguf *gguf, zt_meta *to, bool lent)
{
    zt_str key; /* closed by a zero, which the file's is not */
    zt_status status = ZT_OK;
    zt_str_init(&key, zt_gguf_ctx(gguf));
    for (int64_t i = 0; status == ZT_OK && i < zt_gguf_n_keys(gguf); i++) {
        zt_gguf_kind kind;
        zt_bytes value, name = zt_gguf_key_value(gguf, i, &kind, &value);
        if (zt_gguf_is_own_key(gguf, name)) continue;
        zt_str_clear(&key);
        status = zt_str_put(&key, name.data, name.n);
        if (status == ZT_OK) status = (lent ? zt_meta_lend : zt_meta_put)(to, key.data, kind, value.data, value.n);
    }
    zt_str_fini(&key);
    return status;
}

zt_status zt_meta_from_text(zt_meta *meta, const char *name, const char *text, size_t size)
{
    zt_ctx *ctx = zt_meta_ctx(meta);
    size_t bytes;
    char *header = zt_base64_get(ctx, text, size, &bytes);
    if (!header && zt_ctx_status(ctx) == ZT_OK)
        return zt_fail(ctx, ZT_EDATA, "%s: metadata '" ZT_KEY_GGUF "' is not valid base64", name);
    zt_source *source = header ? zt_source_memory(ctx, name, header, bytes) : NULL;
    zt_gguf *gguf = source ? zt_gguf_from(ctx, source) : NULL;
    zt_status status = gguf ? zt_gguf_all_keys(gguf, meta, false) : zt_ctx_status(ctx);
    zt_gguf_close(gguf);
    zt_source_close(source);
    zt_free(ctx, header);
    return status;
}

zt_status zt_fit_meta(const zt_container *to, zt_meta **meta)
{
    if (!to->can_meta || to->can_meta(*meta)) return ZT_OK;
    zt_meta *text_meta = meta_as_text(*meta);
    if (!text_meta) return zt_ctx_status(zt_meta_ctx(*meta));
    zt_meta_free(*meta);
    *meta = text_meta;
    return ZT_OK;
}

/* ---- reading: masks -------------------------------------------------------------------------- */

static zt_status bad_mask(const zt_checkpoint *checkpoint, zt_bytes what, const char *why)
{
    char text[160];
    return zt_fail(checkpoint->ctx, ZT_EDATA, "%s: " ZT_KEY_TENSORS ": '%s': %s", checkpoint->name,
                   zt_escape(text, sizeof text, what.data, what.n), why);
}

/* "q4_1[576,1536]": the word, and its shape. false: it is not so. */
static bool parse_type(zt_checkpoint *checkpoint, zt_bytes text, zt_mask *mask)
{
    const char *cursor = memchr(text.data, '[', text.n), *end = text.data + text.n;
    if (!cursor || text.n > 300 || end[-1] != ']') return false;
    mask->dtype = zt_arena_strndup(checkpoint->texts, text.data, (size_t)(cursor - text.data));
    if (!mask->dtype) return false;
    zt_dtype known;
    mask->type = (zt_type){.dtype = ZT_DTYPE_COUNT};
    if (zt_dtype_parse(mask->dtype, strlen(mask->dtype), &known)) mask->type.dtype = known;
    for (cursor++; cursor < end - 1; cursor++) {
        int64_t dim = 0;
        if (*cursor < '0' || *cursor > '9' || mask->type.rank == ZT_MAX_RANK) return false;
        for (; *cursor >= '0' && *cursor <= '9'; cursor++)
            if (!zt_mul_i64(dim, 10, &dim) || __builtin_add_overflow(dim, *cursor - '0', &dim)) return false;
        if (cursor < end - 1 && *cursor != ',') return false;
        mask->type.dim[mask->type.rank++] = dim;
    }
    return true;
}

/* Adds a mask from one record of "zt.tensors":
 *
 *   text[0]  name that the tensor is stored under   "zt.tensor.0"
 *   text[1]  its true name                          "blk.0.attn_q.weight"
 *   text[2]  its true type                          "q4_1[576,1536]"
 */
static zt_status add_mask(zt_checkpoint *checkpoint, const zt_bytes text[3])
{
    zt_entry entry;
    size_t bytes;
    zt_mask *mask = &checkpoint->mask[checkpoint->n_masks];
    char *stored = zt_arena_strndup(checkpoint->texts, text[0].data, text[0].n);
    mask->name = zt_arena_strndup(checkpoint->texts, text[1].data, text[1].n);
    if (!stored || !mask->name) return ZT_ENOMEM;
    if (memchr(text[0].data, 0, text[0].n) || memchr(text[1].data, 0, text[1].n))
        return bad_mask(checkpoint, text[1], "the name contains a zero byte");
    if (!parse_type(checkpoint, text[2], mask))
        return zt_ctx_status(checkpoint->ctx) ? zt_ctx_status(checkpoint->ctx)
                                              : bad_mask(checkpoint, text[2], "not a dtype and shape");
    int64_t index = checkpoint->reader->find(checkpoint->user, stored);
    if (index < 0) return ZT_OK; /* a program that does not know this key has removed the tensor */
    checkpoint->reader->get(checkpoint->user, index, &entry);
    if (mask->type.dtype < ZT_DTYPE_COUNT && (!zt_type_check(NULL, &mask->type, &bytes) || bytes != entry.bytes))
        return bad_mask(checkpoint, text[2], "does not match the size of the stored tensor");
    if (checkpoint->mask_of[index] >= 0 || zt_map_get(checkpoint->masks, mask->name, strlen(mask->name), NULL))
        return bad_mask(checkpoint, text[1], "duplicate tensor name");
    checkpoint->mask_of[index] = checkpoint->n_masks++;
    return zt_map_put(checkpoint->masks, mask->name, strlen(mask->name), index);
}

/* ZT_EDATA where the true name of a masked tensor is also the name of a tensor without a mask. */
static zt_status check_masks(const zt_checkpoint *checkpoint)
{
    for (int64_t k = 0; k < checkpoint->n_masks; k++) {
        int64_t index = checkpoint->reader->find(checkpoint->user, checkpoint->mask[k].name);
        if (index >= 0 && checkpoint->mask_of[index] < 0)
            return bad_mask(checkpoint, (zt_bytes){.data = checkpoint->mask[k].name, .n = strlen(checkpoint->mask[k].name)},
                            "duplicate tensor name");
    }
    return ZT_OK;
}

static zt_status read_masks(zt_checkpoint *checkpoint, const zt_meta_item *item)
{
    zt_gguf_kind kind;
    uint64_t count;
    size_t position = 0, tensor_count = (size_t)checkpoint->reader->count(checkpoint->user);
    if (!zt_meta_array(item, &kind, &count) || kind != ZT_GGUF_STR || count % 3 != 0)
        return zt_fail(checkpoint->ctx, ZT_EDATA, "%s: " ZT_KEY_TENSORS " is not a list of string triples", checkpoint->name);
    checkpoint->texts = zt_arena_new(checkpoint->ctx, 0);
    checkpoint->masks = zt_map_new(checkpoint->ctx, 16);
    checkpoint->mask_of = zt_alloc_array(checkpoint->ctx, tensor_count, sizeof *checkpoint->mask_of);
    checkpoint->mask = zt_alloc_array(checkpoint->ctx, (size_t)(count / 3), sizeof *checkpoint->mask);
    if (!checkpoint->texts || !checkpoint->masks || !checkpoint->mask_of || !checkpoint->mask) return ZT_ENOMEM;
    for (size_t i = 0; i < tensor_count; i++) checkpoint->mask_of[i] = -1;
    zt_status status = ZT_OK;
    for (uint64_t index = 0; status == ZT_OK && index < count; index += 3) {
        zt_bytes text[3];
        for (int i = 0; i < 3; i++) text[i] = zt_meta_next_str(item, &position);
        status = add_mask(checkpoint, text);
    }
    return status == ZT_OK ? check_masks(checkpoint) : status;
}

/* Reads the metadata of a container that stores it as the tensor "zt.gguf". */
static zt_status read_hidden(zt_checkpoint *checkpoint)
{
    zt_entry entry;
    checkpoint->reader->get(checkpoint->user, checkpoint->hidden, &entry);
    if (entry.bytes > SIZE_MAX - 1) return zt_fail(checkpoint->ctx, ZT_EDATA, "%s: the metadata is too large", checkpoint->name);
    char *text = zt_alloc(checkpoint->ctx, (size_t)entry.bytes);
    zt_status status =
        text ? checkpoint->reader->read(checkpoint->user, checkpoint->hidden, 0, text, (size_t)entry.bytes) : ZT_ENOMEM;
    if (status == ZT_OK) status = zt_meta_from_text(checkpoint->meta, checkpoint->name, text, (size_t)entry.bytes);
    zt_free(checkpoint->ctx, text);
    return status;
}

/* Reads the metadata of a container that stores it as the metadata text "zt.gguf". The keys in that text
 * come first, in their order; the container's other keys follow. */
static zt_status read_text(zt_checkpoint *checkpoint, const zt_meta_item *item)
{
    zt_bytes text = zt_meta_text(item);
    zt_meta *all = zt_meta_new(checkpoint->ctx);
    if (!all) return ZT_ENOMEM;
    zt_status status = text.data ? zt_meta_from_text(all, checkpoint->name, text.data, text.n) : ZT_OK;
    zt_meta_remove(checkpoint->meta, zt_meta_find(checkpoint->meta, ZT_KEY_GGUF));
    if (status == ZT_OK) status = zt_meta_join(all, checkpoint->meta);
    zt_meta_free(checkpoint->meta);
    checkpoint->meta = all;
    return status;
}

zt_status zt_checkpoint_read_meta(zt_checkpoint *checkpoint)
{
    const zt_reader *reader = checkpoint->reader;
    if (!checkpoint->container->can_meta) checkpoint->hidden = reader->find(checkpoint->user, ZT_KEY_GGUF);
    checkpoint->meta = zt_meta_new(checkpoint->ctx);
    int64_t index;
    zt_status status = checkpoint->meta ? reader->meta(checkpoint->user, checkpoint->meta) : ZT_ENOMEM;
    if (status == ZT_OK && checkpoint->hidden >= 0)
        status = read_hidden(checkpoint);
    else if (status == ZT_OK && (index = zt_meta_find(checkpoint->meta, ZT_KEY_GGUF)) >= 0)
        status = read_text(checkpoint, zt_meta_get(checkpoint->meta, index));
    if (status != ZT_OK || (index = zt_meta_find(checkpoint->meta, ZT_KEY_TENSORS)) < 0) return status;
    status = read_masks(checkpoint, zt_meta_get(checkpoint->meta, index));
    zt_meta_remove(checkpoint->meta, index);
    return status;
}

/* ---- writing: masks -------------------------------------------------------------------------- */

typedef struct mask_writer {
    zt_ctx *ctx;
    zt_arena *texts;
    const zt_container *container;
    zt_map *names; /* of all entries, and of those that are made up */
    zt_bytes *records;
    int64_t record_count;
} mask_writer;

static zt_bytes keep_text(mask_writer *masker, const char *text)
{
    size_t length = strlen(text);
    return (zt_bytes){.data = zt_arena_strndup(masker->texts, text, length), .n = length};
}

/* A name that every container can store and that no entry has. NULL: no memory. */
static const char *invent_name(mask_writer *masker, int64_t i)
{
    char text[80];
    for (int64_t k = i;; k++) {
        snprintf(text, sizeof text, "zt.tensor.%" PRId64, k);
        if (zt_map_get(masker->names, text, strlen(text), NULL)) continue;
        zt_bytes name = keep_text(masker, text);
        return name.data && zt_map_put(masker->names, name.data, name.n, i) == ZT_OK ? name.data : NULL;
    }
}

static zt_bytes format_type(mask_writer *masker, const zt_entry *entry)
{
    zt_str line;
    zt_bytes text = {.data = NULL};
    zt_str_init(&line, masker->ctx);
    zt_status status = zt_str_printf(&line, "%s[", entry->dtype);
    for (int i = 0; status == ZT_OK && i < entry->type.rank; i++)
        status = zt_str_printf(&line, i ? ",%" PRId64 : "%" PRId64, entry->type.dim[i]);
    if (status == ZT_OK && zt_str_putc(&line, ']') == ZT_OK) text = keep_text(masker, line.data);
    zt_str_fini(&line);
    return text;
}

/* Describes an entry as bytes: shape [rows, bytes of a row], or [bytes] where it has no whole rows. */
static void describe_as_bytes(const zt_container *to, const zt_entry *entry, zt_entry *out)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < entry->type.rank; i++) rows *= entry->type.dim[i];
    bool whole = entry->type.dtype < ZT_DTYPE_COUNT && entry->type.rank > 0 && rows > 0 && entry->bytes % (uint64_t)rows == 0;
    out->type = (zt_type){.dtype = to->mask_dtype, .rank = whole ? 2 : 1, .dim = {(int64_t)entry->bytes}};
    if (whole) {
        out->type.dim[0] = rows;
        out->type.dim[1] = (int64_t)entry->bytes / rows;
    }
    out->dtype = zt_dtype_get(to->mask_dtype)->name;
}

static zt_status mask_entry(mask_writer *masker, const zt_entry *entry, int64_t i, zt_entry *out)
{
    char text[160];
    if (entry->type.rank < 0)
        return zt_fail(masker->ctx, ZT_ENOTSUP, "tensor '%s' has too many dimensions: at most %d are supported",
                       zt_escape(text, sizeof text, entry->name, strlen(entry->name)), ZT_MAX_RANK);
    describe_as_bytes(masker->container, entry, out);
    if (!masker->container->can_store(out)) out->name = invent_name(masker, i);
    if (!out->name) return ZT_ENOMEM;
    zt_bytes *texts = masker->records + masker->record_count;
    texts[0] = keep_text(masker, out->name);
    texts[1] = keep_text(masker, entry->name);
    texts[2] = format_type(masker, entry);
    masker->record_count += 3;
    return texts[0].data && texts[1].data && texts[2].data ? ZT_OK : ZT_ENOMEM;
}

static zt_status map_names(mask_writer *masker, const zt_entry *entries, int64_t count)
{
    char text[160];
    for (int64_t i = 0; i < count; i++) {
        const char *name = entries[i].name;
        size_t length = strlen(name);
        if (zt_map_get(masker->names, name, length, NULL))
            return zt_fail(masker->ctx, ZT_EDATA, "duplicate tensor '%s'", zt_escape(text, sizeof text, name, length));
        if (zt_map_put(masker->names, name, length, i) != ZT_OK) return ZT_ENOMEM;
    }
    return ZT_OK;
}

zt_status zt_mask_entries(zt_ctx *ctx, zt_arena *texts, const zt_container *to, const zt_entry *entries, int64_t count,
                          zt_entry *out, zt_meta *meta)
{
    mask_writer masker = {.ctx = ctx, .texts = texts, .container = to};
    int64_t mask_count = 0;
    for (int64_t i = 0; i < count; i++) mask_count += !to->can_store(&entries[i]);
    masker.names = zt_map_new(ctx, (size_t)count);
    masker.records = zt_alloc_array(ctx, (size_t)mask_count * 3, sizeof *masker.records);
    zt_status status = masker.names && masker.records ? map_names(&masker, entries, count) : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        out[i] = entries[i];
        if (!to->can_store(&entries[i])) status = mask_entry(&masker, &entries[i], i, &out[i]);
    }
    if (status == ZT_OK && mask_count) status = zt_meta_put_strs(meta, ZT_KEY_TENSORS, masker.records, masker.record_count);
    zt_map_free(masker.names);
    zt_free(ctx, masker.records);
    return status;
}
