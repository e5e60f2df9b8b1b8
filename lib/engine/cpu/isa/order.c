/* order.c - kernels of topk and cumprod: a line an item. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

static bool f32_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

/* ---- lines ----------------------------------------------------------------------------------- */

enum { L_N, L_INNER };

static void lines_setup(zt_cpu_call *c, int64_t axis)
{
    const zt_type *x = &c->in[0].type;
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    c->aux[L_N] = x->dim[at];
    c->aux[L_INNER] = 1;
    for (int d = at + 1; d < x->rank; d++) c->aux[L_INNER] *= x->dim[d];
    c->items[0] = x->dim[at] ? zt_type_count(x) / x->dim[at] : 0;
}

static int64_t line_at(const zt_cpu_call *c, int64_t n, int64_t i)
{
    return i / c->aux[L_INNER] * n * c->aux[L_INNER] + i % c->aux[L_INNER];
}

static void cumprod_setup(zt_cpu_call *c)
{
    lines_setup(c, ((const zt_cumprod_attrs *)c->attrs)->axis);
}

static void cumprod_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_cumprod_attrs *a = c->attrs;
    int64_t n = c->aux[L_N], inner = c->aux[L_INNER];
    (void)phase, (void)local;
    for (int64_t l = begin; l < end; l++) {
        int64_t at = line_at(c, n, l), step = a->reverse ? -inner : inner;
        double product = 1;
        if (a->reverse) at += (n - 1) * inner;
        for (int64_t i = 0; i < n; i++, at += step) {
            double next = product * (double)((const float *)c->in[0].data)[at];
            ((float *)c->out[0].data)[at] = (float)(a->exclusive ? product : next);
            product = next;
        }
    }
}

/* ---- topk: the best k so far in a heap, the last of them on top ------------------------------ */

typedef struct entry {
    float x;
    int32_t i;
} entry;

/* Larger (or smaller) first, NaN larger than all, else the earlier. */
INLINE bool before(bool largest, entry a, entry b)
{
    bool nan_a = a.x != a.x, nan_b = b.x != b.x;
    if (nan_a != nan_b) return nan_a == largest;
    if (a.x != b.x && !nan_a) return largest ? a.x > b.x : a.x < b.x;
    return a.i < b.i;
}

/* Entry e into the place at `at` of a heap of n, or further down. */
static void sink(entry *heap, int64_t n, int64_t at, entry e, bool largest)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && before(largest, heap[child], heap[child + 1])) child++;
        if (!before(largest, e, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = e;
}

static void topk_setup(zt_cpu_call *c)
{
    const zt_topk_attrs *a = c->attrs;
    lines_setup(c, a->axis);
    c->local_bytes = (size_t)(a->k ? a->k : c->aux[L_N]) * sizeof(entry);
}

static void topk_line(const float *x, int64_t n, int64_t inner, entry *heap, int64_t k,
                      bool largest)
{
    for (int64_t i = 0; i < k; i++) heap[i] = (entry){x[i * inner], (int32_t)i};
    for (int64_t i = k / 2; i-- > 0;) sink(heap, k, i, heap[i], largest);
    for (int64_t i = k; i < n; i++) {
        entry e = {x[i * inner], (int32_t)i};
        if (before(largest, e, heap[0])) sink(heap, k, 0, e, largest);
    }
    for (int64_t i = k; i-- > 1;) { /* the last goes to the end */
        entry last = heap[0];
        sink(heap, i, 0, heap[i], largest);
        heap[i] = last;
    }
}

static void topk_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_topk_attrs *a = c->attrs;
    int64_t n = c->aux[L_N], inner = c->aux[L_INNER], k = a->k ? a->k : n;
    entry *heap = local;
    float *y = c->out[0].data;
    int32_t *where = c->out[1].data;
    (void)phase;
    for (int64_t l = begin; l < end; l++) {
        int64_t to = line_at(c, k, l);
        topk_line((const float *)c->in[0].data + line_at(c, n, l), n, inner, heap, k, a->largest);
        for (int64_t j = 0; j < k; j++) {
            if (y) y[to + j * inner] = heap[j].x;
            if (where) where[to + j * inner] = heap[j].i;
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_order)[] = {
    {.op = ZT_OP_cumprod, .has = f32_has, .setup = cumprod_setup, .run = cumprod_run},
    {.op = ZT_OP_topk, .has = f32_has, .setup = topk_setup, .run = topk_run},
    {0},
};
