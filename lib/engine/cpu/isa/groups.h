/* groups.h - a value's dimensions in two groups, those that a reduction keeps and those that it removes. The attributes
 * of every op that uses it begin with the axes, as sum's do.
 */
#ifndef ZT_ISA_GROUPS_H
#define ZT_ISA_GROUPS_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

/* x's dimensions without those of size 1, neighbours of one kind merged: the innermost is `run`, the others are listed
 * by kind. An item is an output, or COLUMNS outputs beside each other. */
typedef struct groups {
    int n_kept, n_gone;
    int64_t kept_dim[ZT_MAX_RANK], kept_stride[ZT_MAX_RANK];
    int64_t gone_dim[ZT_MAX_RANK], gone_stride[ZT_MAX_RANK];
    int64_t kept, gone, run; /* kept and gone without the run */
    bool run_gone;
} groups;

enum { COLUMNS = 4 * LANES, BLOCK = 16 };

INLINE void add_group(groups *list, bool gone, int64_t dim, int64_t stride)
{
    int *count = gone ? &list->n_gone : &list->n_kept;
    (gone ? list->gone_dim : list->kept_dim)[*count] = dim;
    (gone ? list->gone_stride : list->kept_stride)[*count] = stride;
    *(gone ? &list->gone : &list->kept) *= dim;
    ++*count;
}

/* From the inside out, so that the lists' first entries change fastest. */
INLINE groups groups_of(const zt_ints *axes, const zt_type *x)
{
    groups found = {.kept = 1, .gone = 1};
    bool gone[ZT_MAX_RANK], first = true;
    int64_t size = 1, stride = 1;
    for (int d = 0; d < x->rank; d++) gone[d] = axes->n == 0;
    for (int i = 0; i < axes->n; i++) gone[axes->v[i] < 0 ? axes->v[i] + x->rank : axes->v[i]] = true;
    for (int d = x->rank - 1; d >= 0;) {
        bool kind = gone[d];
        for (size = 1; d >= 0 && (gone[d] == kind || x->dim[d] == 1); d--) size *= x->dim[d];
        if (first) {
            found.run = size;
            found.run_gone = kind;
        } else {
            add_group(&found, kind, size, stride);
        }
        first = false;
        stride *= size;
    }
    if (first) found.run = 1;
    return found;
}

INLINE int64_t group_at(int dim_count, const int64_t *dim, const int64_t *stride, int64_t i)
{
    int64_t offset = 0;
    for (int d = 0; d < dim_count; d++) {
        offset += i % dim[d] * stride[d];
        i /= dim[d];
    }
    return offset;
}

INLINE int64_t tiles_of(const groups *list) { return (list->run + COLUMNS - 1) / COLUMNS; }

INLINE void groups_setup(zt_cpu_call *call)
{
    groups found = groups_of(&((const zt_sum_attrs *)call->attrs)->axes, &call->in[0].type);
    call->items[0] = found.run_gone ? found.kept : found.kept * tiles_of(&found);
}

#endif
