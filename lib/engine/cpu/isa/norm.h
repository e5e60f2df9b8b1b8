/* norm.h - private to isa/: what kernels of norms, and of norms with rotations, share. */
#ifndef ZT_CPU_NORM_H
#define ZT_CPU_NORM_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/stream.h"

INLINE bool norm_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

INLINE int64_t cols_of(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

INLINE int64_t rows_of(const zt_type *type)
{
    int64_t rows = 1;
    for (int d = 0; d + 1 < type->rank; d++) rows *= type->dim[d];
    return rows;
}

/* One row an item. */
INLINE void rows_setup(zt_cpu_call *call) { call->items[0] = rows_of(&call->in[0].type); }

/* 1 / sqrt(mean + eps) from the sums of K squares. */
INLINE float rstd_from(vf sum, int64_t K, double eps)
{
    return (float)(1 / sqrt((K ? (double)vf_sum(sum) / (double)K : 0) + eps));
}

/* 1 / sqrt(mean(x^2) + eps). Sixteen sums in f32, of K / 16 squares each. */
INLINE float rstd_of(const float *x, int64_t K, double eps)
{
    vf sum = vf_set(0);
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES) {
        vf v = vf_load(x + i);
        sum = vf_fma(v, v, sum);
    }
    int rest = (int)(K - i);
    if (rest) {
        vf v = vf_load_n(x + i, rest);
        sum = vf_fma(v, v, sum);
    }
    return rstd_from(sum, K, eps);
}

/* Past the caches (then y is on a line) or not. */
INLINE void norm_group(const float *x, const float *g, float *y, int64_t K, float rstd, bool past)
{
    vf r = vf_set(rstd);
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES) vf_put(y + i, vf_mul(vf_mul(vf_load(x + i), r), vf_load(g + i)), past);
    int rest = (int)(K - i);
    if (rest) vf_store_n(y + i, rest, vf_mul(vf_mul(vf_load_n(x + i, rest), r), vf_load_n(g + i, rest)));
}

#endif
