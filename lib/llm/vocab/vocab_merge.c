/* vocab_merge.c - merges neighbouring symbols, best pair first, leftmost among equals.
 *
 * Symbols sit in an array and are linked; pairs wait in a heap. A merge grows its left symbol
 * and unlinks the right one, so that a pair in the heap is out of date exactly when the lengths of
 * its two symbols no longer add up: nothing is ever removed from the middle of the heap. Each merge
 * adds at most two pairs, hence O(n log n).
 */
#include "lib/llm/vocab/vocab.h"

#include <assert.h>

void zt_merger_init(zt_merger *m, zt_ctx *ctx)
{
    *m = (zt_merger){.ctx = ctx};
    zt_str_init(&m->printed, ctx);
}

void zt_merger_fini(zt_merger *m)
{
    zt_str_fini(&m->printed);
    zt_free(m->ctx, m->sym);
    zt_free(m->ctx, m->heap);
    m->sym = NULL;
    m->heap = NULL;
    m->n = m->cap = m->n_heap = m->cap_heap = 0;
}

/* Room for n items of `size` bytes; grows by half at least. */
static void *reserve(zt_ctx *ctx, void *p, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap)
        return p;
    size_t want = *cap + *cap / 2 < n ? n : *cap + *cap / 2, bytes;
    if (want < 64)
        want = 64;
    if (!zt_mul_size(want, size, &bytes)) {
        zt_fail(ctx, ZT_ENOMEM, "text too long: %zu symbols of %zu bytes", want, size);
        return NULL;
    }
    void *q = zt_realloc(ctx, p, bytes);
    if (q)
        *cap = want;
    return q;
}

zt_status zt_merger_reserve(zt_merger *m, size_t n)
{
    zt_sym *sym = reserve(m->ctx, m->sym, &m->cap, n, sizeof *sym);
    if (!sym)
        return ZT_ENOMEM;
    m->sym = sym;
    /* Merging n symbols puts n - 1 pairs at first and adds one net at each of n - 1 merges. */
    zt_pair *heap = reserve(m->ctx, m->heap, &m->cap_heap, 2 * n, sizeof *heap);
    if (!heap)
        return ZT_ENOMEM;
    m->heap = heap;
    m->n = n;
    return ZT_OK;
}

/* ---- the heap: smallest key on top, four children each --------------------------------------- */

/* Four pairs are one line of the cache, and half the levels of two children each. */
static void sift_down(zt_pair *heap, size_t n, size_t i)
{
    zt_pair p = heap[i];
    for (size_t c; (c = 4 * i + 1) < n; i = c) {
        size_t end = c + 4 < n ? c + 4 : n;
        for (size_t k = c + 1; k < end; k++)
            c = heap[k].key < heap[c].key ? k : c;
        if (heap[c].key >= p.key)
            break;
        heap[i] = heap[c];
    }
    heap[i] = p;
}

static void push(zt_merger *m, zt_pair p)
{
    assert(m->n_heap < m->cap_heap);
    size_t i = m->n_heap++;
    for (; i && p.key < m->heap[(i - 1) / 4].key; i = (i - 1) / 4)
        m->heap[i] = m->heap[(i - 1) / 4];
    m->heap[i] = p;
}

static zt_pair pop(zt_merger *m)
{
    zt_pair top = m->heap[0];
    m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap)
        sift_down(m->heap, m->n_heap, 0);
    return top;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* The pair that starts at symbol i, if it may merge. */
static bool pair_at(const zt_merger *m, const void *arg, const char *text, zt_pair_fn *fn,
                    int32_t i, zt_pair *p)
{
    int32_t j = i < 0 ? -1 : m->sym[i].next;
    uint32_t rank;
    if (j < 0 || !fn(arg, text, &m->sym[i], &m->sym[j], &rank, &p->id))
        return false;
    p->key = (uint64_t)rank << 32 | (uint32_t)i;
    p->len = m->sym[i].len + m->sym[j].len;
    return true;
}

static void link_symbols(zt_merger *m)
{
    for (size_t i = 0; i < m->n; i++) {
        m->sym[i].prev = (int32_t)i - 1;
        m->sym[i].next = i + 1 < m->n ? (int32_t)i + 1 : -1;
    }
}

/* Symbol i takes in the one after it; that one keeps length 0, which
 * no pair in the heap matches. */
static void merge_at(zt_merger *m, int32_t i, int32_t id)
{
    zt_sym *a = &m->sym[i], *b = &m->sym[a->next];
    a->len += b->len;
    a->id = id;
    a->next = b->next;
    if (b->next >= 0)
        m->sym[b->next].prev = i;
    b->len = 0;
}

void zt_merger_run(zt_merger *m, const void *arg, const char *text, zt_pair_fn *fn)
{
    zt_pair p;
    link_symbols(m);
    m->n_heap = 0;
    for (size_t i = 0; i < m->n; i++)
        if (pair_at(m, arg, text, fn, (int32_t)i, &p))
            m->heap[m->n_heap++] = p;
    for (size_t i = (m->n_heap + 2) / 4; i-- > 0;)
        sift_down(m->heap, m->n_heap, i);
    while (m->n_heap) {
        p = pop(m);
        int32_t i = (int32_t)(uint32_t)p.key;
        const zt_sym *a = &m->sym[i];
        if (!a->len || a->next < 0 || a->len + m->sym[a->next].len != p.len)
            continue;
        merge_at(m, i, p.id);
        zt_pair q;
        if (pair_at(m, arg, text, fn, m->sym[i].prev, &q))
            push(m, q);
        if (pair_at(m, arg, text, fn, i, &q))
            push(m, q);
    }
}
