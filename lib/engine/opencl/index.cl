/* index.cl - elements and parts at places that are data. What comes to one place comes in the order of the indices: one
 * work-item sees to all that comes to a place. */
#include "lib/engine/opencl/values.clh"
#include "lib/engine/cuda/args_index.h"

/* ---- merging ----------------------------------------------------------------------------------- */

FN value merged(int how, int type, value a, value b)
{
    if (is_float_type(type)) {
        switch (how) {
        case ZT_CU_ADD: return of_float(a.f + b.f);
        case ZT_CU_TIMES: return of_float(a.f * b.f);
        case ZT_CU_LARGER: return b.f != b.f ? b : a.f != a.f ? a : a.f > b.f ? a : b;
        case ZT_CU_SMALLER: return b.f != b.f ? b : a.f != a.f ? a : a.f < b.f ? a : b;
        default: return b;
        }
    }
    const int64_t turn = type == ZT_CU_U64 ? INT64_MIN : 0;
    const bool more = (a.i ^ turn) > (b.i ^ turn);
    switch (how) {
    case ZT_CU_ADD: return of_int((int64_t)((uint64_t)a.i + (uint64_t)b.i));
    case ZT_CU_TIMES: return of_int((int64_t)((uint64_t)a.i * (uint64_t)b.i));
    case ZT_CU_LARGER: return more ? a : b;
    case ZT_CU_SMALLER: return more ? b : a;
    default: return b;
    }
}

/* ---- parts at tuples --------------------------------------------------------------------------- */

/* Where in x tuple r's part begins; -1: an index is out of range, which `tell` makes trouble. */
FN int64_t part_at(const zt_cu_parts_args *a, int64_t r, bool tell)
{
    int64_t at = 0;
    for (int64_t k = 0; k < a->k; k++) {
        const int64_t n = a->dim[k], index = PTR(const int32_t, a->i)[r * a->k + k];
        if (index < 0 || index >= n) {
            if (a->fails && tell) trouble(a->trouble, ZT_CU_INDEX, r, index, n);
            return -1;
        }
        at = at * n + index;
    }
    return (a->per_batch ? r / a->per_batch * a->span : 0) + at * a->rest;
}

/* Parts of nothing are gone through too: their indices may be out of range. */
KERNEL(zt_cu_gather, zt_cu_parts_args)
{
    const int64_t wide = a.rest ? a.rest : 1;
    EACH_OF(e, a.tuples * wide)
    {
        const int64_t r = e / wide, j = e % wide, at = part_at(&a, r, j == 0);
        if (!a.rest) continue;
        value v = at < 0 ? of_int(0) : load_value(a.x_type, a.x, at + j);
        if (is_float_type(a.y_type) && !is_float_type(a.x_type)) v = of_float((float)v.i);
        store_value(a.y_type, a.y, e, v);
    }
}

/* A work-item for an element of the part, a bucket and a batch: it takes the tuples of its batch in order, and of those the
 * ones whose place falls to its bucket. */
KERNEL(zt_cu_scatter, zt_cu_parts_args)
{
    const int64_t wide = a.rest ? a.rest : 1;
    EACH_OF(e, wide * a.buckets * a.batches)
    {
        const int64_t j = e % wide, bucket = e / wide % a.buckets, batch = e / wide / a.buckets, from = batch * a.per_batch;
        for (int64_t r = from; r < from + a.per_batch; r++) {
            const int64_t at = part_at(&a, r, j == 0 && bucket == 0);
            if (at < 0 || !a.rest || at / wide % a.buckets != bucket) continue;
            const value was = load_value(a.y_type, a.y, at + j), u = load_value(a.x_type, a.u, r * a.rest + j);
            store_value(a.y_type, a.y, at + j, merged(a.merge, a.y_type, was, u));
        }
    }
}

/* ---- elements along an axis -------------------------------------------------------------------- */

/* The element of x for the k-th index of a line; -1: it is out of range. Trouble comes in i's order. */
FN int64_t element_at(const zt_cu_elements_args *a, int64_t i_from, int64_t x_from, int64_t k)
{
    const int64_t e = i_from + k * a->i_step, index = PTR(const int32_t, a->i)[e];
    if (index >= 0 && index < a->size) return x_from + index * a->x_step;
    if (a->fails) trouble(a->trouble, ZT_CU_INDEX, e, index, a->size);
    return -1;
}

KERNEL(zt_cu_gather_elements, zt_cu_elements_args)
{
    EACH_OF(e, a.lines * a.n)
    {
        const int64_t line = e % a.lines, k = e / a.lines, i_from = offset_at(a.n_dims, a.dim, a.i_at, line);
        const int64_t at = element_at(&a, i_from, offset_at(a.n_dims, a.dim, a.x_at, line), k);
        store_value(a.type, a.y, i_from + k * a.i_step, at < 0 ? of_int(0) : load_value(a.type, a.x, at));
    }
}

/* A work-item a line, whose indices it takes in order. */
KERNEL(zt_cu_scatter_elements, zt_cu_elements_args)
{
    EACH_OF(line, a.lines)
    {
        const int64_t i_from = offset_at(a.n_dims, a.dim, a.i_at, line), x_from = offset_at(a.n_dims, a.dim, a.x_at, line);
        for (int64_t k = 0; k < a.n; k++) {
            const int64_t at = element_at(&a, i_from, x_from, k);
            if (at < 0) continue;
            const value was = load_value(a.y_type, a.y, at), u = load_value(a.type, a.u, i_from + k * a.i_step);
            store_value(a.y_type, a.y, at, merged(a.merge, a.y_type, was, u));
        }
    }
}

KERNEL(zt_cu_one_hot, zt_cu_one_hot_args)
{
    EACH_OF(e, a.n * a.depth)
    {
        const int64_t index = PTR(const int32_t, a.i)[e / a.depth];
        PTR(float, a.y)[e] = index == e % a.depth ? 1.0f : 0.0f;
    }
    if (!a.fails) return;
    EACH_OF(e, a.n)
    {
        const int64_t index = PTR(const int32_t, a.i)[e];
        if (index < 0 || index >= a.depth) trouble(a.trouble, ZT_CU_INDEX, e, index, a.depth);
    }
}
