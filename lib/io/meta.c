/* meta.c - owns metadata in memory: an ordered list, found by key. */
#include "lib/base/require.h"
#include "lib/io/meta.h"

#include <string.h>

struct zt_meta {
    zt_ctx *ctx;
    zt_meta_item *items;
    int64_t count;
    zt_map *keys; /* -> index; INT64_MAX: removed */
    zt_arena *texts;
};

zt_meta *zt_meta_new(zt_ctx *ctx)
{
    zt_meta *meta = zt_calloc(ctx, 1, sizeof *meta);
    if (!meta) return NULL;
    meta->ctx = ctx;
    meta->texts = zt_arena_new(ctx, 0);
    meta->keys = zt_map_new(ctx, 16);
    if (meta->texts && meta->keys) return meta;
    zt_meta_free(meta);
    return NULL;
}

void zt_meta_free(zt_meta *meta)
{
    if (!meta) return;
    zt_free(meta->ctx, meta->items);
    zt_map_free(meta->keys);
    zt_arena_free(meta->texts);
    zt_free(meta->ctx, meta);
}

zt_ctx *zt_meta_ctx(const zt_meta *meta) { return meta ? meta->ctx : NULL; }

int64_t zt_meta_count(const zt_meta *meta) { return meta ? meta->count : 0; }

const zt_meta_item *zt_meta_get(const zt_meta *meta, int64_t i)
{
    return meta && i >= 0 && i < meta->count ? &meta->items[i] : NULL;
}

static int64_t find_key(const zt_meta *meta, const char *key, size_t length)
{
    int64_t i;
    return zt_map_get(meta->keys, key, length, &i) && i < meta->count ? i : -1;
}

int64_t zt_meta_find(const zt_meta *meta, const char *key)
{
    if (!meta) return -1;
    ZT_REQUIRE(meta->ctx, key, -1);
    return find_key(meta, key, strlen(key));
}

/* An item at the end, with its key. */
static zt_status append_key(zt_meta *meta, const char *key)
{
    size_t length = strlen(key);
    if ((meta->count & (meta->count - 1)) == 0) {
        size_t room = (size_t)(meta->count ? 2 * meta->count : 1) * sizeof *meta->items;
        zt_meta_item *list = zt_realloc(meta->ctx, meta->items, room);
        if (!list) return ZT_ENOMEM;
        meta->items = list;
    }
    char *copy = zt_arena_strndup(meta->texts, key, length);
    if (!copy || zt_map_put(meta->keys, copy, length, meta->count) != ZT_OK) return ZT_ENOMEM;
    meta->items[meta->count] = (zt_meta_item){.key = {.data = copy, .n = length}, .value = ""};
    meta->count++;
    return ZT_OK;
}

zt_status zt_meta_lend(zt_meta *meta, const char *key, zt_gguf_kind kind, const void *value, size_t bytes)
{
    if (!meta) return ZT_EUSAGE;
    ZT_REQUIRE(meta->ctx, key && (value || !bytes), ZT_EUSAGE);
    int64_t i = zt_meta_find(meta, key);
    if (i < 0 && append_key(meta, key) != ZT_OK) return ZT_ENOMEM;
    zt_meta_item *item = &meta->items[i < 0 ? meta->count - 1 : i];
    item->kind = kind;
    item->value = value;
    item->bytes = bytes;
    return ZT_OK;
}

zt_status zt_meta_put(zt_meta *meta, const char *key, zt_gguf_kind kind, const void *value, size_t bytes)
{
    if (!meta) return ZT_EUSAGE;
    ZT_REQUIRE(meta->ctx, key && (value || !bytes), ZT_EUSAGE);
    char *copy = zt_arena_alloc(meta->texts, bytes ? bytes : 1);
    if (!copy) return ZT_ENOMEM;
    if (bytes) memcpy(copy, value, bytes);
    return zt_meta_lend(meta, key, kind, copy, bytes);
}

char *zt_meta_room(zt_meta *meta, const char *key, size_t size)
{
    if (!meta) return NULL;
    ZT_REQUIRE(meta->ctx, key, NULL);
    uint64_t length = size;
    size_t bytes = SIZE_MAX; /* the arena refuses with a message */
    zt_add_size(size, sizeof length, &bytes);
    char *value = zt_arena_alloc(meta->texts, bytes);
    if (!value) return NULL;
    memcpy(value, &length, sizeof length);
    return zt_meta_lend(meta, key, ZT_GGUF_STR, value, bytes) == ZT_OK ? value + sizeof length : NULL;
}

zt_status zt_meta_put_str(zt_meta *meta, const char *key, const char *text, size_t length)
{
    if (!meta) return ZT_EUSAGE;
    ZT_REQUIRE(meta->ctx, key && (text || !length), ZT_EUSAGE);
    char *copy = zt_meta_room(meta, key, length);
    if (!copy) return ZT_ENOMEM;
    if (length) memcpy(copy, text, length);
    return ZT_OK;
}

zt_status zt_meta_put_u32(zt_meta *meta, const char *key, uint32_t value)
{
    if (!meta) return ZT_EUSAGE;
    ZT_REQUIRE(meta->ctx, key, ZT_EUSAGE);
    return zt_meta_put(meta, key, ZT_GGUF_U32, &value, sizeof value);
}

zt_status zt_meta_put_strs(zt_meta *meta, const char *key, const zt_bytes *texts, int64_t text_count)
{
    if (!meta) return ZT_EUSAGE;
    ZT_REQUIRE(meta->ctx, key && (texts || !text_count), ZT_EUSAGE);
    zt_str record;
    uint32_t kind = ZT_GGUF_STR;
    uint64_t count = (uint64_t)text_count;
    zt_str_init(&record, meta->ctx);
    zt_status status = zt_str_put(&record, &kind, 4);
    if (status == ZT_OK) status = zt_str_put(&record, &count, 8);
    for (int64_t i = 0; status == ZT_OK && i < text_count; i++) {
        uint64_t length = texts[i].n;
        status = zt_str_put(&record, &length, 8);
        if (status == ZT_OK) status = zt_str_put(&record, texts[i].data, texts[i].n);
    }
    if (status == ZT_OK) status = zt_meta_put(meta, key, ZT_GGUF_ARRAY, record.data, record.len);
    zt_str_fini(&record);
    return status;
}

typedef zt_status put_fn(zt_meta *m, const char *key, zt_gguf_kind kind, const void *value, size_t bytes);

static zt_status join_missing(zt_meta *meta, const zt_meta *other, put_fn *put)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < other->count; i++) {
        const zt_meta_item *item = &other->items[i];
        if (find_key(meta, item->key.data, item->key.n) < 0)
            status = put(meta, item->key.data, item->kind, item->value, item->bytes);
    }
    return status;
}

zt_status zt_meta_join(zt_meta *meta, const zt_meta *other)
{
    if (!meta) return ZT_EUSAGE;
    ZT_REQUIRE(meta->ctx, other, ZT_EUSAGE);
    return join_missing(meta, other, zt_meta_put);
}

zt_status zt_meta_share(zt_meta *meta, const zt_meta *other)
{
    if (!meta) return ZT_EUSAGE;
    ZT_REQUIRE(meta->ctx, other, ZT_EUSAGE);
    return join_missing(meta, other, zt_meta_lend);
}

/* The map has no removal: indices behind i are put anew, and i's key points past the end. */
void zt_meta_remove(zt_meta *meta, int64_t i)
{
    if (!meta) return;
    if (i < 0 || i >= meta->count) return;
    zt_bytes gone = meta->items[i].key;
    memmove(meta->items + i, meta->items + i + 1, (size_t)(meta->count - i - 1) * sizeof *meta->items);
    meta->count--;
    for (int64_t k = i; k < meta->count; k++)
        zt_map_put(meta->keys, meta->items[k].key.data, meta->items[k].key.n, k); /* replaces: no memory */
    zt_map_put(meta->keys, gone.data, gone.n, INT64_MAX);
}

/* ---- values ---------------------------------------------------------------------------------- */

static uint64_t u64_at(const char *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, 8);
    return value;
}

zt_bytes zt_meta_text(const zt_meta_item *item)
{
    if (!item) return (zt_bytes){0};
    if (item->kind != ZT_GGUF_STR) return (zt_bytes){.data = NULL};
    return (zt_bytes){.data = item->value + 8, .n = (size_t)u64_at(item->value)};
}

bool zt_meta_array(const zt_meta_item *item, zt_gguf_kind *elem, uint64_t *count)
{
    if (!item) return false;
    uint32_t kind;
    if (item->kind != ZT_GGUF_ARRAY) return false;
    memcpy(&kind, item->value, 4);
    *elem = (zt_gguf_kind)kind;
    *count = u64_at(item->value + 4);
    return true;
}

zt_bytes zt_meta_next_str(const zt_meta_item *item, size_t *position)
{
    if (!item || !position) return (zt_bytes){0};
    size_t start = *position ? *position : 12;
    if (start >= item->bytes) return (zt_bytes){.data = NULL};
    zt_bytes text = {.data = item->value + start + 8, .n = (size_t)u64_at(item->value + start)};
    *position = start + 8 + text.n;
    return text;
}
