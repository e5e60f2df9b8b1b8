/* lines.h - private to isa/: values as rows, and as lines along an axis; f32. */
#ifndef ZT_ISA_LINES_H
#define ZT_ISA_LINES_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

/* ---- rows: the last axis --------------------------------------------------------------------- */

INLINE int64_t cols_of(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

static inline void rows_setup(zt_cpu_call *call)
{
    int64_t cols = cols_of(&call->in[0].type), count = zt_type_count(&call->in[0].type);
    int64_t rows = cols ? count / cols : zt_type_count(&call->out[0].type);
    call->items[0] = rows;
}

/* The largest of n, -inf when there is none; NaN never is. */
static inline float largest(const float *x, int64_t n)
{
    vf top = vf_set(-INFINITY), more[3] = {top, top, top};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) { /* four side by side: each waits for itself */
        top = vf_max(vf_load(x + i), top);
        UNROLL_FOR (int j = 0; j < 3; j++) more[j] = vf_max(vf_load(x + i + (j + 1) * LANES), more[j]);
    }
    UNROLL_FOR (int j = 0; j < 3; j++) top = vf_max(more[j], top);
    for (; i + LANES <= n; i += LANES) top = vf_max(vf_load(x + i), top);
    int rest = (int)(n - i);
    if (rest) top = vf_max(vf_first(rest, vf_load_n(x + i, rest), top), top);
    return vf_top(top);
}

/* An attribute struct that begins with an axis names the last, and x is f32. */
INLINE bool last_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    int64_t axis = ((const zt_softmax_attrs *)attrs)->axis;
    (void)out;
    return in[0]->dtype == ZT_F32 && (axis == -1 || axis == in[0]->rank - 1);
}

INLINE bool f32_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

INLINE int64_t inner_of(int64_t axis, const zt_type *x)
{
    int64_t inner = 1;
    for (int d = (int)(axis < 0 ? axis + x->rank : axis) + 1; d < x->rank; d++) inner *= x->dim[d];
    return inner;
}
/* ---- lines along an axis --------------------------------------------------------------------- */

enum { L_N, L_INNER };

static inline void lines_setup(zt_cpu_call *call, int64_t axis)
{
    const zt_type *x = &call->in[0].type;
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    call->aux[L_N] = x->dim[at];
    call->aux[L_INNER] = 1;
    for (int d = at + 1; d < x->rank; d++) call->aux[L_INNER] *= x->dim[d];
    call->items[0] = x->dim[at] ? zt_type_count(x) / x->dim[at] : 0;
}

static inline int64_t line_at(const zt_cpu_call *call, int64_t n, int64_t i)
{
    return i / call->aux[L_INNER] * n * call->aux[L_INNER] + i % call->aux[L_INNER];
}

#endif
