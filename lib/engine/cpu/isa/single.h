/* single.h - private to isa/: gelu and silu in f32 arithmetic, within 2 ulp for every float.
 *
 * They want fma and tables in registers, so AVX-512 alone has them: elsewhere single_NAME is
 * math.h's exact_NAME. A lane's result depends on that lane alone. The tables are printed by
 * scripts/fit-curves, which says how they are found.
 */
#ifndef ZT_CPU_SINGLE_H
#define ZT_CPU_SINGLE_H

#include "lib/engine/cpu/isa/math.h"

#if defined(ZT_ISA_avx512)

/* 2^r - 1 for |r| <= 1/2 (2^-28). */
INLINE vf exp2m1(vf r)
{
    static const float e[] = {0.693147182f,   0.240226507f,   0.0555035956f,
                              0.00961806253f, 0.00133909856f, 0.000154628768f};
    vf y = vf_set(e[5]);
    UNROLL for (int i = 4; i >= 0; i--) y = vf_fma(y, r, vf_set(e[i]));
    return vf_mul(y, r);
}

/* Of a table of sixteen, for each lane the entry that the lowest four bits of its `which` name. */
INLINE vf entry(const float *table, vi which)
{
    return _mm512_permutexvar_ps(which, vf_load(table));
}

/* log2 P(X > a) of a normal X, 0 <= a <= 14.5, as a whole number *m and a rest up to 1/2
 * (2^-25.5). Near the point c it is h + s t + k2 t^2 + ..., t = a - c, where h less a whole number
 * is exact and h + s t - *m is rounded once. */
INLINE vf log2_tail(vf a, vf *m)
{
    static const float c[] = {0,           0.990093708f, 2.01296306f, 2.99128032f,
                              4.01431227f, 4.97202921f,  5.98607779f, 6.99404335f,
                              8.02806187f, 9.01922131f,  9.97385502f, 10.9729357f,
                              12.0099087f, 12.9695797f,  14.0289116f, 15.0319767f};
    static const float h[] = {-1,           -2.6342926f,  -5.50247192f, -9.49168396f,
                              -15.0338593f, -21.5254517f, -29.7932739f, -39.4458923f,
                              -50.8430634f, -63.1949615f, -76.4161072f, -91.6474457f,
                              -108.967392f, -126.369125f, -147.111984f, -168.237946f};
    static const float s[] = {-1.15110409f, -2.18886709f, -3.44039798f, -4.72481966f,
                              -6.11594963f, -7.44351578f, -8.86520958f, -10.2888651f,
                              -11.7565641f, -13.1682329f, -14.5311069f, -15.9599791f,
                              -17.4451504f, -18.8211002f, -20.341259f,  -21.781702f};
    static const float k2[] = {-0.459222347f, -0.576890826f, -0.639466286f, -0.670251846f,
                               -0.687864065f, -0.69754225f,  -0.703974068f, -0.708154202f,
                               -0.71108067f,  -0.713074625f, -0.714500189f, -0.715635836f,
                               -0.716543078f, -0.717205107f, -0.717789412f, -0.699794173f};
    static const float k3[] = {
        -0.0524483323f,   -0.0283059757f,   -0.0141491648f,   -0.00760694966f,
        -0.00426079659f,  -0.00263763475f,  -0.00168174901f,  -0.00112981559f,
        -0.000784142001f, -0.000571568904f, -0.000432741974f, -0.000331278628f,
        -0.000256481027f, -0.000205699253f, -0.000164278987f, 0.0578254983f};
    static const float k4[] = {0.00704254629f,  0.00479316572f,  0.00236118119f,  0.00115224312f,
                               0.000569256837f, 0.0003123309f,   0.00017608334f,  0.000105718922f,
                               6.59524521e-05f, 4.44391771e-05f, 2.97578554e-05f, 2.05043598e-05f,
                               1.45455197e-05f, 1.19866918e-05f, 7.80789833e-06f, 0.0224036556f};
    static const float k5[] = {
        -0.000273567857f, -0.000579880143f, -0.000350376911f, -0.000164517056f,
        -7.55387155e-05f, -3.65838605e-05f, -1.86309717e-05f, -1.03327311e-05f,
        -5.6322433e-06f,  -3.10432392e-06f, -1.90886635e-06f, -7.07999675e-07f,
        -6.46764647e-07f, -1.08903282e-06f, -4.02086698e-07f, -0.040201094f};
    const vf magic = vf_set(0x1.8p23f); /* leaves the nearest whole number in the lowest bits */
    vi i = vi_of_bits(vf_add(a, magic));
    vf t = vf_sub(a, entry(c, i)), slope = entry(s, i), level = entry(h, i);
    vf bend = vf_fma(entry(k5, i), t, entry(k4, i));
    bend = vf_mul(vf_mul(t, t), vf_fma(vf_fma(bend, t, entry(k3, i)), t, entry(k2, i)));
    *m = vf_rint(vf_add(vf_fma(slope, t, level), bend));
    return vf_add(vf_fma(slope, t, vf_sub(level, *m)), bend);
}

/* max(x, 0) - q, q = a P(X > a), a = |x|: the fixed class of x below 0 is -0, from which -q comes
 * with its sign even where it is 0; NaN for -infinity, as -infinity times 0 is. */
INLINE vf single_gelu_erf(vf x, const double *p)
{
    /* Four bits for each class: NaNs quiet (2 from x), zeros, ones and what is above x itself (1),
     * -infinity NaN (3), +infinity itself, what is below -0 (7). */
    const vi classes = vi_set(0x17131122);
    vf m, a = vf_min(vf_set(14.5f), vf_abs(x)), z = exp2m1(log2_tail(a, &m));
    vf q = _mm512_scalef_ps(vf_fma(a, z, a), m);
    (void)p;
    return vf_sub(_mm512_fixupimm_ps(x, x, classes, 0), q);
}

/* x / (1 + s (1 + z)), exp(-x) = s (1 + z), s = 2^n; where that overflows, in f64. What the sum of
 * 1 and s leaves out, where one is below the other's last bit, comes back in with s z. Past 80 it
 * is x. */
INLINE vf single_silu(vf x, const double *p)
{
    const vf one = vf_set(1);
    vi n;
    vf z = vf_expm1_reduced(vf_sub(vf_set(0), vf_min(vf_set(80), x)), &n);
    vf s = vf_exp2i(n), sum = vf_add(one, s), left = vf_sub(one, vf_sub(sum, s));
    vf y = vf_div(x, vf_add(sum, vf_fma(z, s, left)));
    vm far = vf_lt(x, vf_set(-87));
    return __builtin_expect(far != 0, 0) ? vf_select(far, exact_silu(x, p), y) : y;
}

#else

INLINE vf single_gelu_erf(vf x, const double *p) { return exact_gelu_erf(x, p); }
INLINE vf single_silu(vf x, const double *p) { return exact_silu(x, p); }

#endif
#endif
