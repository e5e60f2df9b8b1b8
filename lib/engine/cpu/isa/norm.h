/* norm.h - private to isa/: what kernels of norms, of turns, and of both in one share. */
#ifndef ZT_CPU_NORM_H
#define ZT_CPU_NORM_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/stream.h"

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
    for (; i + LANES <= K; i += LANES)
        vf_put(y + i, vf_mul(vf_mul(vf_load(x + i), r), vf_load(g + i)), past);
    int rest = (int)(K - i);
    if (rest)
        vf_store_n(y + i, rest, vf_mul(vf_mul(vf_load_n(x + i, rest), r), vf_load_n(g + i, rest)));
}

INLINE vf turned(vf x, vf partner, vf near, vf far)
{
    return vf_fma(x, near, vf_mul(partner, far));
}

/* Pairs of neighbours by tables of both columns: near[j] of its own, far[j] of its partner. */
INLINE void turn_neighbours(const float *x, float *y, int64_t dims, const float *near,
                            const float *far)
{
    for (int64_t i = 0; i < dims; i += LANES) {
        int n = dims - i < LANES ? (int)(dims - i) : LANES;
        vf a = vf_load_n(x + i, n);
        vf_store_n(y + i, n,
                   turned(a, vf_swap_pairs(a), vf_load_n(near + i, n), vf_load_n(far + i, n)));
    }
}

#endif
