/* topk.c - the kernel of topk: a line an item. */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/lines.h"

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

static void topk_setup(zt_cpu_call *call)
{
    const zt_topk_attrs *topk = call->attrs;
    lines_setup(call, topk->axis);
    call->local_bytes = (size_t)(topk->k ? topk->k : call->aux[L_N]) * sizeof(entry);
}

static void topk_line(const float *x, int64_t n, int64_t inner, entry *heap, int64_t k, bool largest)
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

static void topk_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_topk_attrs *topk = call->attrs;
    int64_t n = call->aux[L_N], inner = call->aux[L_INNER], k = topk->k ? topk->k : n;
    entry *heap = local;
    float *y = call->out[0].data;
    int32_t *where = call->out[1].data;
    (void)phase;
    for (int64_t l = begin; l < end; l++) {
        int64_t to = line_at(call, k, l);
        topk_line((const float *)call->in[0].data + line_at(call, n, l), n, inner, heap, k, topk->largest);
        for (int64_t j = 0; j < k; j++) {
            if (y) y[to + j * inner] = heap[j].x;
            if (where) where[to + j * inner] = heap[j].i;
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_topk)[] = {
    {.op = ZT_OP_topk, .has = f32_has, .setup = topk_setup, .run = topk_run},
    {0},
};
