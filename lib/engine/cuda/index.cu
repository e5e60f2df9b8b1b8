/* index.cu - elements and parts at places that are data. What comes to one place comes in the order
 * of the indices, whatever the grid: one thread sees to all that comes to a place. */
#include "lib/engine/cuda/args_index.h"
#include "lib/engine/cuda/values.h"

/* ---- merging --------------------------------------------------------------------------------- */

template <class W> FN W merged(int how, W a, W b, int)
{
    switch (how) {
    case ZT_CU_ADD: return a + b;
    case ZT_CU_TIMES: return a * b;
    case ZT_CU_LARGER: return b != b ? b : a != a ? a : a > b ? a : b;
    case ZT_CU_SMALLER: return b != b ? b : a != a ? a : a < b ? a : b;
    default: return b;
    }
}
FN int64_t merged(int how, int64_t a, int64_t b, int type)
{
    const int64_t turn = type == ZT_CU_U64 ? INT64_MIN : 0;
    const bool more = (a ^ turn) > (b ^ turn);
    switch (how) {
    case ZT_CU_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case ZT_CU_TIMES: return (int64_t)((uint64_t)a * (uint64_t)b);
    case ZT_CU_LARGER: return more ? a : b;
    case ZT_CU_SMALLER: return more ? b : a;
    default: return b;
    }
}

/* ---- parts at tuples ------------------------------------------------------------------------- */

/* Where in x tuple r's part begins; -1: an index is out of range, which `tell` makes trouble. */
FN int64_t part_at(const zt_cu_parts_args &a, int64_t r, bool tell)
{
    int64_t at = 0;
    for (int64_t k = 0; k < a.k; k++) {
        const int64_t n = a.dim[k], index = PTR(const int32_t, a.i)[r * a.k + k];
        if (index < 0 || index >= n) {
            if (a.fails && tell) trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_INDEX, r, index, n);
            return -1;
        }
        at = at * n + index;
    }
    return (a.per_batch ? r / a.per_batch * a.span : 0) + at * a.rest;
}

FN value as_type(int t, double v) { return to_float(t, v); }
FN value as_type(int, float v) { return of_wide(v); }
FN value as_type(int, int64_t v) { return of_wide(v); }

/* Parts of nothing are gone through too: their indices may be out of range. */
template <class W> FN void gather(const zt_cu_parts_args &a)
{
    const int64_t wide = a.rest ? a.rest : 1;
    for (int64_t e = first(); e < a.tuples * wide; e += stride()) {
        const int64_t r = e / wide, j = e % wide, at = part_at(a, r, j == 0);
        if (!a.rest) continue;
        const W v = at < 0 ? W(0) : load_as<W>(a.x_type, a.x, at + j);
        store_value(a.y_type, a.y, e, as_type(a.y_type, v));
    }
}

KERNEL_OF_VALUES(zt_cu_gather, zt_cu_parts_args, 256, a.x_type, gather)

/* A thread for an element of the part, a bucket and a batch: it takes the tuples of its batch in
 * order, and of those the ones whose place falls to its bucket. */
template <class W> FN void scatter(const zt_cu_parts_args &a)
{
    const int64_t wide = a.rest ? a.rest : 1;
    for (int64_t e = first(); e < wide * a.buckets * a.batches; e += stride()) {
        const int64_t j = e % wide, bucket = e / wide % a.buckets;
        const int64_t batch = e / wide / a.buckets, from = batch * a.per_batch;
        for (int64_t r = from; r < from + a.per_batch; r++) {
            const int64_t at = part_at(a, r, j == 0 && bucket == 0);
            if (at < 0 || !a.rest || at / wide % a.buckets != bucket) continue;
            const W was = load_as<W>(a.y_type, a.y, at + j);
            const W u = load_as<W>(a.x_type, a.u, r * a.rest + j);
            W sum = merged(a.merge, was, u, a.y_type);
            store_as(a.y_type, a.y, at + j, sum);
        }
    }
}

KERNEL_OF_VALUES(zt_cu_scatter, zt_cu_parts_args, 256, a.x_type, scatter)

/* ---- elements along an axis ------------------------------------------------------------------ */

/* The element of x for the k-th index of a line; -1: it is out of range. Trouble comes in i's
 * order. */
FN int64_t element_at(const zt_cu_elements_args &a, int64_t i_from, int64_t x_from, int64_t k)
{
    const int64_t e = i_from + k * a.i_step, index = PTR(const int32_t, a.i)[e];
    if (index >= 0 && index < a.size) return x_from + index * a.x_step;
    if (a.fails) trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_INDEX, e, index, a.size);
    return -1;
}

template <class W> FN void gather_elements(const zt_cu_elements_args &a)
{
    for (int64_t e = first(); e < a.lines * a.n; e += stride()) {
        const int64_t line = e % a.lines, k = e / a.lines;
        const int64_t i_from = offset_at(a.n_dims, a.dim, a.i_at, line);
        const int64_t at = element_at(a, i_from, offset_at(a.n_dims, a.dim, a.x_at, line), k);
        store_as(a.type, a.y, i_from + k * a.i_step, at < 0 ? W(0) : load_as<W>(a.type, a.x, at));
    }
}

KERNEL_OF_VALUES(zt_cu_gather_elements, zt_cu_elements_args, 256, a.type, gather_elements)

/* A thread a line, whose indices it takes in order. */
template <class W> FN void scatter_elements(const zt_cu_elements_args &a)
{
    for (int64_t line = first(); line < a.lines; line += stride()) {
        const int64_t i_from = offset_at(a.n_dims, a.dim, a.i_at, line);
        const int64_t x_from = offset_at(a.n_dims, a.dim, a.x_at, line);
        for (int64_t k = 0; k < a.n; k++) {
            const int64_t at = element_at(a, i_from, x_from, k);
            if (at < 0) continue;
            const W was = load_as<W>(a.y_type, a.y, at);
            const W u = load_as<W>(a.type, a.u, i_from + k * a.i_step);
            W sum = merged(a.merge, was, u, a.y_type);
            store_as(a.y_type, a.y, at, sum);
        }
    }
}

KERNEL_OF_VALUES(zt_cu_scatter_elements, zt_cu_elements_args, 256, a.type, scatter_elements)

/* ---- one_hot --------------------------------------------------------------------------------- */

KERNEL_OF(zt_cu_one_hot, zt_cu_one_hot_args, 256)
{
    for (int64_t e = first(); e < a.n * a.depth; e += stride()) {
        const int64_t index = PTR(const int32_t, a.i)[e / a.depth];
        PTR(float, a.y)[e] = index == e % a.depth ? 1.0f : 0.0f;
    }
    for (int64_t e = first(); e < a.n && a.fails; e += stride()) {
        const int64_t index = PTR(const int32_t, a.i)[e];
        if (index < 0 || index >= a.depth)
            trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_INDEX, e, index, a.depth);
    }
}
