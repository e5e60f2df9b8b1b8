/* curves.h - private to simd.h, which includes it: exp, tanh and the logistic function of sixteen
 * floats, within 1e-7. Exact ones are math.h's.
 */
#ifndef ZT_CPU_CURVES_H
#define ZT_CPU_CURVES_H

/* Added to a float of up to 2^22, it leaves the nearest whole number in the lowest bits. */
INLINE vf vf_magic(void) { return vf_set(12582912.0f); /* 1.5 2^23 */ }
INLINE vi vi_behind_magic(vf t) { return vi_sub(vi_of_bits(t), vi_of_bits(vf_magic())); }

/* a 2^n for a near 1, |n| <= 252, t = n + vf_magic(): rounded once. */
INLINE vf vf_times_2n(vf a, vf t)
{
#if defined(ZT_ISA_avx512)
    return _mm512_scalef_ps(a, vf_sub(t, vf_magic()));
#else
    /* In two steps, so that what lies between 0 and the smallest normal number, or at the other
     * end, comes right too: only the second can round. */
    vi n = vi_behind_magic(t), half = vi_right(n, 1);
    return vf_mul(vf_mul(a, vf_exp2i(half)), vf_exp2i(vi_sub(n, half)));
#endif
}

/* x = n ln 2 + r with |r| <= ln 2 / 2 and a whole n: returns exp(r) - 1, relative error 1e-7, and
 * *t = n + vf_magic(). For |x| < 2^20 or so. ln 2 is taken off in two parts, the first so short
 * that n times it is exact. Taylor to r^7 leaves 5e-9. */
INLINE vf vf_expm1_split(vf x, vf *t)
{
    *t = vf_fma(x, vf_set(1.44269504f), vf_magic());
    vf whole = vf_sub(*t, vf_magic());
    vf r = vf_fma(whole, vf_set(-0.693359375f), x);
    r = vf_fma(whole, vf_set(2.12194440e-4f), r);
    vf q = vf_fma(r, vf_set(1 / 5040.0f), vf_set(1 / 720.0f));
    q = vf_fma(q, r, vf_set(1 / 120.0f));
    q = vf_fma(q, r, vf_set(1 / 24.0f));
    q = vf_fma(q, r, vf_set(1 / 6.0f));
    q = vf_fma(q, r, vf_set(0.5f));
    return vf_fma(vf_mul(r, r), q, r);
}

/* The same with n as it is. */
INLINE vf vf_expm1_reduced(vf x, vi *n)
{
    vf t, e = vf_expm1_split(x, &t);
    *n = vi_behind_magic(t);
    return e;
}

/* 0 below -104 and infinity above 88.73. exp(0) is 1. */
INLINE vf vf_exp(vf x)
{
    vf t, e = vf_expm1_split(vf_min(vf_set(89), vf_max(vf_set(-104), x)), &t);
    return vf_times_2n(vf_add(vf_set(1), e), t);
}

/* The same of x <= 0, or NaN. */
INLINE vf vf_exp_below(vf x)
{
    vf t, e = vf_expm1_split(vf_max(vf_set(-104), x), &t);
    return vf_times_2n(vf_add(vf_set(1), e), t);
}

/* tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1, good for small x too; past 10 it is 1. */
INLINE vf vf_tanh(vf x)
{
    vi n, sign = vi_and(vi_of_bits(x), vi_set(INT32_MIN));
    vf a = vf_min(vf_set(10), vf_abs(x));
    vf m = vf_expm1_reduced(vf_add(a, a), &n), two_n = vf_exp2i(n);
    vf e = vf_fma(m, two_n, vf_sub(two_n, vf_set(1)));
    vf t = vf_div(e, vf_add(e, vf_set(2)));
    return vf_of_bits(vi_or(vi_of_bits(t), sign));
}

/* 1 / (1 + exp(-x)), good in both tails: exp(x) / (1 + exp(x)) below zero. */
INLINE vf vf_sigmoid(vf x)
{
    const vf one = vf_set(1);
    vf e = vf_exp_below(vf_sub(vf_set(0), vf_abs(x)));
    return vf_div(vf_choose(x, e, one), vf_add(one, e));
}

#endif
