/* checkpoint_json.c - owns network JSON as a container of checkpoint.h.
 *
 * Its frame (netjson.h) is metadata, the text "zt.netjson": a network that has become a GGUF
 * becomes the same document again. Metadata beside it stands in the document as its first member,
 * "zt.gguf". Only what has a frame is written, and all of it. */
#include "lib/io/checkpoint_file.h"
#include "lib/io/netjson.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

static const char own_member[] = "{\"" ZT_KEY_GGUF "\":\"";

typedef struct json_document {
    zt_ctx *ctx;
    zt_netjson *json;
    const char *frame; /* without what is ours */
    size_t frame_size;
    const char *own; /* our own member's text, base64; NULL: there is none */
    size_t own_size;
} json_document;

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count_tensors(const void *user) { return zt_netjson_count(((const json_document *)user)->json); }

static void get_entry(const void *user, int64_t i, zt_entry *entry)
{
    const zt_array *array = zt_netjson_get(((const json_document *)user)->json, i);
    bool known = array->type.dtype < ZT_DTYPE_COUNT;
    *entry = (zt_entry){.name = array->name,
                        .dtype = known ? zt_dtype_get(array->type.dtype)->name : array->dtype,
                        .type = array->type,
                        .bytes = array->bytes};
}

static int64_t find_tensor(const void *user, const char *name)
{
    return zt_netjson_find(((const json_document *)user)->json, name);
}

static zt_status read_data(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    return zt_netjson_read(((json_document *)user)->json, i, (size_t)offset, dst, size);
}

static zt_status read_meta(const void *user, zt_meta *to)
{
    const json_document *document = user;
    zt_ctx *ctx = zt_meta_ctx(to);
    zt_str frame;
    zt_str_init(&frame, ctx);
    zt_status status = document->own ? zt_meta_put_str(to, ZT_KEY_GGUF, document->own, document->own_size) : ZT_OK;
    if (status == ZT_OK && document->own) status = zt_str_putc(&frame, '{');
    if (status == ZT_OK) status = zt_str_put(&frame, document->frame, document->frame_size);
    if (status == ZT_OK) status = zt_meta_put_str(to, KEY_FRAME, frame.data, frame.len);
    zt_str_fini(&frame);
    return status;
}

static void close_document(void *user)
{
    json_document *document = user;
    zt_netjson_close(document->json);
    zt_free(document->ctx, document);
}

static const zt_reader reader = {
    .count = count_tensors, .get = get_entry, .find = find_tensor, .read = read_data, .meta = read_meta, .close = close_document};

/* Our member, as we write it: {"zt.gguf":"...", and the rest of the document. */
static void split_own_member(json_document *document)
{
    size_t lead_size = sizeof own_member - 1;
    const char *end_document = document->frame_size > lead_size && memcmp(document->frame, own_member, lead_size) == 0
                                   ? memchr(document->frame + lead_size, '"', document->frame_size - lead_size)
                                   : NULL;
    if (!end_document || (size_t)(end_document + 2 - document->frame) > document->frame_size || end_document[1] != ',') return;
    document->own = document->frame + lead_size;
    document->own_size = (size_t)(end_document - document->own);
    document->frame_size -= (size_t)(end_document + 2 - document->frame);
    document->frame = end_document + 2;
}

static zt_status open_json(zt_checkpoint *checkpoint, zt_source *source)
{
    zt_netjson *json = zt_netjson_take(checkpoint->ctx, source);
    json_document *document = json ? zt_calloc(checkpoint->ctx, 1, sizeof *document) : NULL;
    if (!document) {
        zt_netjson_close(json);
        return zt_ctx_status(checkpoint->ctx);
    }
    document->ctx = checkpoint->ctx;
    document->json = json;
    document->frame = zt_netjson_frame(json, &document->frame_size);
    split_own_member(document);
    checkpoint->reader = &reader;
    checkpoint->user = document;
    return ZT_OK;
}

/* Is it a network, and no index of safetensors? That is told where it begins. */
static bool probe_json(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return zt_netjson_sniff(head, head_size) &&
           (memmem(head, head_size, "\"layers", 7) ||
            memmem(head, head_size, "\"" ZT_NETJSON_DATA "\"", sizeof "\"" ZT_NETJSON_DATA "\"" - 1) ||
            (head_size >= sizeof own_member - 1 && !memcmp(head, own_member, sizeof own_member - 1)));
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool can_store(const zt_entry *entry)
{
    (void)entry; /* the frame knows */
    return true;
}

static bool can_meta(const zt_meta *meta)
{
    return zt_meta_count(meta) == 1 && zt_meta_find(meta, KEY_FRAME) == 0 && zt_meta_text(zt_meta_get(meta, 0)).data;
}

/* The document that comes of the frame in `meta`, with what else there is before it. */
static zt_status make_document(zt_part *part, zt_meta *meta, zt_str *out)
{
    int64_t index = zt_meta_find(meta, KEY_FRAME);
    zt_bytes frame = index >= 0 ? zt_meta_text(zt_meta_get(meta, index)) : (zt_bytes){.data = NULL};
    const char *brace = frame.data ? memchr(frame.data, '{', frame.n) : NULL;
    if (!brace)
        return zt_fail(part->ctx, ZT_ENOTSUP,
                       "%s: cannot write network JSON: the input was not a network's JSON (no metadata '%s')", part->path,
                       KEY_FRAME);
    if (zt_meta_count(meta) == 1) return zt_str_put(out, frame.data, frame.n);
    zt_str remainder; /* the frame's bytes go with its key */
    zt_str_init(&remainder, part->ctx);
    zt_status status = zt_str_put(&remainder, brace + 1, frame.n - (size_t)(brace + 1 - frame.data));
    zt_meta_remove(meta, index);
    if (status == ZT_OK) status = zt_str_puts(out, own_member);
    if (status == ZT_OK) status = zt_meta_to_text(meta, out);
    if (status == ZT_OK) status = zt_str_puts(out, "\",");
    if (status == ZT_OK) status = zt_str_put(out, remainder.data ? remainder.data : "", remainder.len);
    zt_str_fini(&remainder);
    return status;
}

static zt_status begin_document(zt_part *part, const zt_meta *read_meta)
{
    zt_str text;
    zt_meta *all_meta = zt_meta_new(part->ctx);
    if (!all_meta) return ZT_ENOMEM;
    zt_str_init(&text, part->ctx);
    int64_t index = zt_meta_find(read_meta, ZT_KEY_GGUF);
    zt_bytes own = index >= 0 ? zt_meta_text(zt_meta_get(read_meta, index)) : (zt_bytes){.data = NULL};
    zt_status status = own.data ? zt_meta_from_text(all_meta, part->path, own.data, own.n) : zt_meta_join(all_meta, read_meta);
    if (status == ZT_OK) status = make_document(part, all_meta, &text);
    if (status == ZT_OK) {
        part->user = zt_netjson_writer_new(part->ctx, part->sink, text.data, text.len);
        status = part->user ? ZT_OK : zt_ctx_status(part->ctx);
    }
    zt_str_fini(&text);
    zt_meta_free(all_meta);
    return status;
}

static zt_status begin_tensor(zt_part *part, int64_t i)
{
    return zt_netjson_begin(part->user, part->entries[i].name, (size_t)part->entries[i].bytes);
}

static zt_status write_data(zt_part *part, const void *bytes, size_t size) { return zt_netjson_write(part->user, bytes, size); }

static zt_status end_document(zt_part *part) { return zt_netjson_finish(part->user); }

static void close_part(zt_part *part)
{
    zt_netjson_writer_free(part->user);
    part->user = NULL;
}

static const zt_part_ops ops = {
    .begin = begin_document, .tensor = begin_tensor, .put = write_data, .end = end_document, .close = close_part};

const zt_container zt_container_json = {.name = "json",
                                        .suffix = ".json",
                                        .probe = probe_json,
                                        .open = open_json,
                                        .ops = &ops,
                                        .can_store = can_store,
                                        .can_meta = can_meta,
                                        .mask_dtype = ZT_U8};
