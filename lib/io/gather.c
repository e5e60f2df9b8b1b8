/* gather.c - owns making row-major little-endian bytes of arrays with strides and byte orders. */
#include "lib/io/gather.h"

#include <pthread.h>
#include <string.h>

enum {
    MAX_ITEM = 16,
    CLOSE = 4,      /* a span is held when it is at most so many times the array's own bytes, */
    SMALL = 1 << 20 /* or so small */
};

struct zt_gather {
    zt_ctx *ctx;
    pthread_mutex_t lock;
    int64_t key; /* whose span is held; -1: nobody's */
    uint8_t *span;
};

zt_gather *zt_gather_new(zt_ctx *ctx)
{
    zt_gather *g = zt_calloc(ctx, 1, sizeof *g);
    if (!g)
        return NULL;
    g->ctx = ctx;
    g->key = -1;
    pthread_mutex_init(&g->lock, NULL);
    return g;
}

void zt_gather_free(zt_gather *g)
{
    if (!g)
        return;
    pthread_mutex_destroy(&g->lock);
    zt_free(g->ctx, g->span);
    zt_free(g->ctx, g);
}

bool zt_layout_check(const zt_layout *l, int64_t *count, uint64_t *span)
{
    int64_t n = 1, last = 0, step;
    size_t bytes;
    bool empty = false;
    for (int i = 0; i < l->rank; i++) {
        empty |= l->dim[i] == 0;
        if (l->dim[i] && !zt_mul_i64(n, l->dim[i], &n))
            return false;
        if (l->dim[i] && (!zt_mul_i64(l->dim[i] - 1, l->stride[i], &step) ||
                          __builtin_add_overflow(last, step, &last)))
            return false;
    }
    *count = empty ? 0 : n;
    *span = 0;
    if (!zt_mul_size((size_t)n, l->item, &bytes) || bytes > INT64_MAX)
        return false;
    if (!empty && (last == INT64_MAX || !zt_mul_size((size_t)last + 1, l->item, &bytes)))
        return false;
    *span = empty ? 0 : bytes;
    return true;
}

static bool is_contiguous(const zt_layout *l)
{
    int64_t expected = 1;
    for (int i = l->rank; i-- > 0;) {
        if (l->dim[i] != 1 && l->stride[i] != expected)
            return false;
        expected *= l->dim[i];
    }
    return true;
}

static void reverse(uint8_t *p, size_t n, size_t width)
{
    for (size_t at = 0; at < n; at += width) {
        for (size_t i = 0; i < width / 2; i++) {
            uint8_t byte = p[at + i];
            p[at + i] = p[at + width - 1 - i];
            p[at + width - 1 - i] = byte;
        }
    }
}

/* ---- elements one after another -------------------------------------------------------------- */

/* Where the walk is: the index in each dimension, and the element that it means. */
typedef struct walk {
    const zt_layout *l;
    int64_t index[64];
    int64_t at;
} walk;

static void walk_to(walk *w, const zt_layout *l, int64_t element)
{
    w->l = l;
    w->at = 0;
    for (int i = l->rank; i-- > 0;) {
        w->index[i] = element % l->dim[i];
        element /= l->dim[i];
        w->at += w->index[i] * l->stride[i];
    }
}

static void walk_on(walk *w)
{
    const zt_layout *l = w->l;
    for (int i = l->rank; i-- > 0;) {
        w->at += l->stride[i];
        if (++w->index[i] < l->dim[i])
            return;
        w->at -= l->dim[i] * l->stride[i];
        w->index[i] = 0;
    }
}

static void pick(walk *w, const uint8_t *span, uint8_t *dst, int64_t count)
{
    size_t item = w->l->item;
    for (int64_t i = 0; i < count; i++, walk_on(w)) {
        const uint8_t *from = span + (size_t)w->at * item;
        if (item == 4)
            memcpy(dst + 4 * i, from, 4);
        else if (item == 2)
            memcpy(dst + 2 * i, from, 2);
        else
            memcpy(dst + (size_t)i * item, from, item);
    }
}

static zt_status pick_far(walk *w, uint8_t *dst, int64_t count, zt_fetch *fetch, void *user)
{
    size_t item = w->l->item;
    zt_status st = ZT_OK;
    for (int64_t i = 0; st == ZT_OK && i < count; i++, walk_on(w))
        st = fetch(user, w->l->begin + (uint64_t)w->at * item, dst + (size_t)i * item, item);
    return st;
}

/* The span of array `key`, held. The lock is. */
static zt_status hold(zt_gather *g, const zt_layout *l, int64_t key, uint64_t n, zt_fetch *fetch,
                      void *user)
{
    if (g->key == key)
        return ZT_OK;
    g->key = -1;
    zt_free(g->ctx, g->span);
    g->span = zt_alloc(g->ctx, (size_t)n);
    zt_status st = g->span ? fetch(user, l->begin, g->span, (size_t)n) : ZT_ENOMEM;
    if (st == ZT_OK)
        g->key = key;
    return st;
}

static zt_status strided(zt_gather *g, const zt_layout *l, int64_t key, int64_t first, uint8_t *dst,
                         int64_t count, zt_fetch *fetch, void *user)
{
    walk w;
    int64_t all;
    uint64_t span;
    if (!zt_layout_check(l, &all, &span))
        return zt_fail(g->ctx, ZT_EBUG, "a layout that nobody checked");
    walk_to(&w, l, first);
    if (!l->forward && span > SMALL && span / CLOSE > (uint64_t)all * l->item)
        return pick_far(&w, dst, count, fetch, user);
    pthread_mutex_lock(&g->lock);
    zt_status st = hold(g, l, key, span, fetch, user);
    if (st == ZT_OK)
        pick(&w, g->span, dst, count);
    pthread_mutex_unlock(&g->lock);
    return st;
}

static zt_status elements(zt_gather *g, const zt_layout *l, int64_t key, size_t first, void *dst,
                          size_t count, zt_fetch *fetch, void *user)
{
    zt_status st = is_contiguous(l)
                       ? fetch(user, l->begin + first * l->item, dst, count * l->item)
                       : strided(g, l, key, (int64_t)first, dst, (int64_t)count, fetch, user);
    if (st == ZT_OK && l->swap > 1)
        reverse(dst, count * l->item, l->swap);
    return st;
}

zt_status zt_gather_read(zt_gather *g, const zt_layout *l, int64_t key, size_t offset, void *dst,
                         size_t n, zt_fetch *fetch, void *user)
{
    uint8_t one[MAX_ITEM], *to = dst;
    if (n && l->swap == 1 && is_contiguous(l))
        return fetch(user, l->begin + offset, dst, n);
    while (n) {
        size_t skip = offset % l->item, whole = n / l->item;
        size_t some = l->item - skip < n ? l->item - skip : n; /* of an element that is cut */
        bool cut = skip || !whole;
        zt_status st =
            elements(g, l, key, offset / l->item, cut ? one : to, cut ? 1 : whole, fetch, user);
        if (st != ZT_OK)
            return st;
        if (cut)
            memcpy(to, one + skip, some);
        else
            some = whole * l->item;
        to += some;
        offset += some;
        n -= some;
    }
    return ZT_OK;
}

/* ---- what all readers ask -------------------------------------------------------------------- */

zt_status zt_array_range(zt_ctx *ctx, const char *file, const zt_array *e, size_t offset, size_t n)
{
    char text[160];
    size_t end;
    if (zt_add_size(offset, n, &end) && end <= e->bytes)
        return ZT_OK;
    return zt_fail(ctx, ZT_EUSAGE, "%s: tensor '%s': %zu bytes at %zu of %zu asked for", file,
                   zt_escape(text, sizeof text, e->name, strlen(e->name)), n, offset, e->bytes);
}

zt_status zt_array_type(zt_ctx *ctx, const char *file, const zt_array *e, zt_type *type)
{
    char text[160], word[80];
    *type = e->type;
    if (e->type.rank >= 0 && e->type.dtype < ZT_DTYPE_COUNT)
        return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "%s: tensor '%s' is of type %s%s, which is not supported", file,
                   zt_escape(text, sizeof text, e->name, strlen(e->name)),
                   zt_escape(word, sizeof word, e->dtype, strlen(e->dtype)),
                   e->type.dtype < ZT_DTYPE_COUNT ? " with too many dimensions" : "");
}
