/* lines.h - private to lib/ops: the lines of a value along one axis. */
#ifndef ZT_OPS_LINES_H
#define ZT_OPS_LINES_H

#include "lib/ops/row.h"

typedef struct lines {
    int64_t n, inner, count; /* entries of a line, elements from one to the next, how many lines */
} lines;

static inline lines lines_along(int64_t axis, const zt_type *x)
{
    lines along = {.inner = 1, .count = 1};
    int at = zt_plain_axis(axis, x->rank);
    along.n = x->dim[at];
    for (int d = 0; d < x->rank; d++) {
        if (d != at) along.count *= x->dim[d];
        if (d > at) along.inner *= x->dim[d];
    }
    return along;
}

/* Where line i of a value with n entries a line begins: its k-th entry is k * inner further. */
static inline int64_t line_at(const lines *along, int64_t n, int64_t i)
{
    return i / along->inner * n * along->inner + i % along->inner;
}

/* ZT_ESHAPE unless x has dimensions and `axis` is one of them. */
static inline zt_status want_line_axis(zt_ctx *ctx, int64_t axis, const zt_type *x)
{
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension");
    return zt_row_axis(ctx, axis, x->rank);
}

#endif
