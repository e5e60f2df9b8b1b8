/* groups.h - a value's dimensions in groups, those that a reduction keeps and those it does away
 * with. The attributes of every op that uses it begin with the axes, as sum's do.
 */
#ifndef ZT_ISA_GROUPS_H
#define ZT_ISA_GROUPS_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

/* x's dimensions without those of 1, neighbours of one kind taken together; the innermost is `run`,
 * the others are listed by kind. An item is an output, or COLUMNS neighbours of them. */
typedef struct groups {
    int n_kept, n_gone;
    int64_t kept_dim[ZT_MAX_RANK], kept_stride[ZT_MAX_RANK];
    int64_t gone_dim[ZT_MAX_RANK], gone_stride[ZT_MAX_RANK];
    int64_t kept, gone, run; /* kept and gone without the run */
    bool run_gone;
} groups;

enum { COLUMNS = 4 * LANES, BLOCK = 16 };

INLINE void add_group(groups *g, bool gone, int64_t dim, int64_t stride)
{
    int *n = gone ? &g->n_gone : &g->n_kept;
    (gone ? g->gone_dim : g->kept_dim)[*n] = dim;
    (gone ? g->gone_stride : g->kept_stride)[*n] = stride;
    *(gone ? &g->gone : &g->kept) *= dim;
    ++*n;
}

/* From the inside out, so that the lists' first entries change fastest. */
INLINE groups groups_of(const zt_ints *axes, const zt_type *x)
{
    groups g = {.kept = 1, .gone = 1};
    bool gone[ZT_MAX_RANK], first = true;
    int64_t size = 1, stride = 1;
    for (int d = 0; d < x->rank; d++) gone[d] = axes->n == 0;
    for (int i = 0; i < axes->n; i++)
        gone[axes->v[i] < 0 ? axes->v[i] + x->rank : axes->v[i]] = true;
    for (int d = x->rank - 1; d >= 0;) {
        bool kind = gone[d];
        for (size = 1; d >= 0 && (gone[d] == kind || x->dim[d] == 1); d--) size *= x->dim[d];
        if (first) {
            g.run = size;
            g.run_gone = kind;
        } else {
            add_group(&g, kind, size, stride);
        }
        first = false;
        stride *= size;
    }
    if (first) g.run = 1;
    return g;
}

INLINE int64_t group_at(int n, const int64_t *dim, const int64_t *stride, int64_t i)
{
    int64_t at = 0;
    for (int d = 0; d < n; d++) {
        at += i % dim[d] * stride[d];
        i /= dim[d];
    }
    return at;
}

INLINE int64_t tiles_of(const groups *g) { return (g->run + COLUMNS - 1) / COLUMNS; }

INLINE void groups_setup(zt_cpu_call *c)
{
    groups g = groups_of(&((const zt_sum_attrs *)c->attrs)->axes, &c->in[0].type);
    c->items[0] = g.run_gone ? g.kept : g.kept * tiles_of(&g);
}

#endif
