/* meta.c - owns metadata in memory: an ordered list, found by key. */
#include "lib/io/meta.h"

#include <string.h>

struct zt_meta {
    zt_ctx *ctx;
    zt_meta_item *item;
    int64_t n;
    zt_map *keys; /* -> index; INT64_MAX: removed */
    zt_arena *texts;
};

zt_meta *zt_meta_new(zt_ctx *ctx)
{
    zt_meta *m = zt_calloc(ctx, 1, sizeof *m);
    if (!m) return NULL;
    m->ctx = ctx;
    m->texts = zt_arena_new(ctx, 0);
    m->keys = zt_map_new(ctx, 16);
    if (m->texts && m->keys) return m;
    zt_meta_free(m);
    return NULL;
}

void zt_meta_free(zt_meta *m)
{
    if (!m) return;
    zt_free(m->ctx, m->item);
    zt_map_free(m->keys);
    zt_arena_free(m->texts);
    zt_free(m->ctx, m);
}

zt_ctx *zt_meta_ctx(const zt_meta *m) { return m->ctx; }

int64_t zt_meta_count(const zt_meta *m) { return m->n; }

const zt_meta_item *zt_meta_get(const zt_meta *m, int64_t i) { return &m->item[i]; }

static int64_t find(const zt_meta *m, const char *key, size_t n)
{
    int64_t i;
    return zt_map_get(m->keys, key, n, &i) && i < m->n ? i : -1;
}

int64_t zt_meta_find(const zt_meta *m, const char *key) { return find(m, key, strlen(key)); }

/* An item at the end, with its key. */
static zt_status append(zt_meta *m, const char *key)
{
    size_t n = strlen(key);
    if ((m->n & (m->n - 1)) == 0) {
        size_t room = (size_t)(m->n ? 2 * m->n : 1) * sizeof *m->item;
        zt_meta_item *list = zt_realloc(m->ctx, m->item, room);
        if (!list) return ZT_ENOMEM;
        m->item = list;
    }
    char *copy = zt_arena_strndup(m->texts, key, n);
    if (!copy || zt_map_put(m->keys, copy, n, m->n) != ZT_OK) return ZT_ENOMEM;
    m->item[m->n] = (zt_meta_item){.key = {.data = copy, .n = n}, .value = ""};
    m->n++;
    return ZT_OK;
}

zt_status zt_meta_lend(zt_meta *m, const char *key, zt_gguf_kind kind, const void *value,
                       size_t bytes)
{
    int64_t i = zt_meta_find(m, key);
    if (i < 0 && append(m, key) != ZT_OK) return ZT_ENOMEM;
    zt_meta_item *item = &m->item[i < 0 ? m->n - 1 : i];
    item->kind = kind;
    item->value = value;
    item->bytes = bytes;
    return ZT_OK;
}

zt_status zt_meta_put(zt_meta *m, const char *key, zt_gguf_kind kind, const void *value,
                      size_t bytes)
{
    char *copy = zt_arena_alloc(m->texts, bytes ? bytes : 1);
    if (!copy) return ZT_ENOMEM;
    if (bytes) memcpy(copy, value, bytes);
    return zt_meta_lend(m, key, kind, copy, bytes);
}

char *zt_meta_room(zt_meta *m, const char *key, size_t n)
{
    uint64_t length = n;
    size_t bytes = SIZE_MAX; /* the arena refuses with a message */
    zt_add_size(n, sizeof length, &bytes);
    char *value = zt_arena_alloc(m->texts, bytes);
    if (!value) return NULL;
    memcpy(value, &length, sizeof length);
    return zt_meta_lend(m, key, ZT_GGUF_STR, value, bytes) == ZT_OK ? value + sizeof length : NULL;
}

zt_status zt_meta_put_str(zt_meta *m, const char *key, const char *text, size_t n)
{
    char *to = zt_meta_room(m, key, n);
    if (!to) return ZT_ENOMEM;
    if (n) memcpy(to, text, n);
    return ZT_OK;
}

zt_status zt_meta_put_u32(zt_meta *m, const char *key, uint32_t v)
{
    return zt_meta_put(m, key, ZT_GGUF_U32, &v, sizeof v);
}

zt_status zt_meta_put_strs(zt_meta *m, const char *key, const zt_bytes *texts, int64_t n)
{
    zt_str s;
    uint32_t kind = ZT_GGUF_STR;
    uint64_t count = (uint64_t)n;
    zt_str_init(&s, m->ctx);
    zt_status st = zt_str_put(&s, &kind, 4);
    if (st == ZT_OK) st = zt_str_put(&s, &count, 8);
    for (int64_t i = 0; st == ZT_OK && i < n; i++) {
        uint64_t length = texts[i].n;
        st = zt_str_put(&s, &length, 8);
        if (st == ZT_OK) st = zt_str_put(&s, texts[i].data, texts[i].n);
    }
    if (st == ZT_OK) st = zt_meta_put(m, key, ZT_GGUF_ARRAY, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

typedef zt_status put_fn(zt_meta *m, const char *key, zt_gguf_kind kind, const void *value,
                         size_t bytes);

static zt_status join(zt_meta *m, const zt_meta *b, put_fn *put)
{
    zt_status st = ZT_OK;
    for (int64_t i = 0; st == ZT_OK && i < b->n; i++) {
        const zt_meta_item *item = &b->item[i];
        if (find(m, item->key.data, item->key.n) < 0)
            st = put(m, item->key.data, item->kind, item->value, item->bytes);
    }
    return st;
}

zt_status zt_meta_join(zt_meta *m, const zt_meta *b) { return join(m, b, zt_meta_put); }

zt_status zt_meta_share(zt_meta *m, const zt_meta *b) { return join(m, b, zt_meta_lend); }

/* The map has no removal: indices behind i are put anew, and i's key points past the end. */
void zt_meta_remove(zt_meta *m, int64_t i)
{
    zt_bytes gone = m->item[i].key;
    memmove(m->item + i, m->item + i + 1, (size_t)(m->n - i - 1) * sizeof *m->item);
    m->n--;
    for (int64_t k = i; k < m->n; k++)
        zt_map_put(m->keys, m->item[k].key.data, m->item[k].key.n, k); /* replaces: no memory */
    zt_map_put(m->keys, gone.data, gone.n, INT64_MAX);
}

/* ---- values ---------------------------------------------------------------------------------- */

static uint64_t u64_at(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

zt_bytes zt_meta_text(const zt_meta_item *item)
{
    if (item->kind != ZT_GGUF_STR) return (zt_bytes){.data = NULL};
    return (zt_bytes){.data = item->value + 8, .n = (size_t)u64_at(item->value)};
}

bool zt_meta_array(const zt_meta_item *item, zt_gguf_kind *elem, uint64_t *count)
{
    uint32_t kind;
    if (item->kind != ZT_GGUF_ARRAY) return false;
    memcpy(&kind, item->value, 4);
    *elem = (zt_gguf_kind)kind;
    *count = u64_at(item->value + 4);
    return true;
}

zt_bytes zt_meta_next_str(const zt_meta_item *item, size_t *at)
{
    size_t from = *at ? *at : 12;
    if (from >= item->bytes) return (zt_bytes){.data = NULL};
    zt_bytes s = {.data = item->value + from + 8, .n = (size_t)u64_at(item->value + from)};
    *at = from + 8 + s.n;
    return s;
}
