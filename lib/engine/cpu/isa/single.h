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

/* (2^r - 1) / r for |r| <= 1/2 (r times it: 2^-28). */
INLINE vf exp2_chord(vf r)
{
    static const float e[] = {0.693147182f,   0.240226507f,   0.0555035956f,
                              0.00961806253f, 0.00133909856f, 0.000154628768f};
    vf y = vf_set(e[5]);
    UNROLL for (int i = 4; i >= 0; i--) y = vf_fma(y, r, vf_set(e[i]));
    return y;
}

/* log2 of two tails: P(X > a) of a normal X, and 1 / (1 + exp(v)), v = sqrt(8 / pi) (a + .044715 a^3).
 * Near a point c it is h + s t + k2 t^2 + ... + k5 t^5, t = a - c (2^-25.2 and 2^-26.8). A row for each of
 * c, h, s, k2, ..., an entry for each point: near 0, 1, 2, ..., and near 0, 1/2, 1, .... h less a whole
 * number is exact. */
enum { TERMS = 7 };
static const float erf_tail[TERMS][16] = {
    {0, 0.990093708f, 2.01296306f, 2.99128032f, 4.01431227f, 4.97202921f, 5.98607779f, 6.99404335f,
     8.02806187f, 9.01922131f, 9.97385502f, 10.9729357f, 12.0099087f, 12.9695797f, 14.0289116f,
     15.0319767f},
    {-1, -2.6342926f, -5.50247192f, -9.49168396f, -15.0338593f, -21.5254517f, -29.7932739f,
     -39.4458923f, -50.8430634f, -63.1949615f, -76.4161072f, -91.6474457f, -108.967392f,
     -126.369125f, -147.111984f, -168.237946f},
    {-1.15110409f, -2.18886709f, -3.44039798f, -4.72481966f, -6.11594963f, -7.44351578f,
     -8.86520958f, -10.2888651f, -11.7565641f, -13.1682329f, -14.5311069f, -15.9599791f,
     -17.4451504f, -18.8211002f, -20.341259f, -21.781702f},
    {-0.459222347f, -0.576890826f, -0.639466286f, -0.670251846f, -0.687864065f, -0.69754225f,
     -0.703974068f, -0.708154202f, -0.71108067f, -0.713074625f, -0.714500189f, -0.715635836f,
     -0.716543078f, -0.717205107f, -0.717789412f, -0.718237102f},
    {-0.0524483323f, -0.0283059757f, -0.0141491648f, -0.00760694966f, -0.00426079659f,
     -0.00263763475f, -0.00168174901f, -0.00112981559f, -0.000784142001f, -0.000571568904f,
     -0.000432741974f, -0.000331278628f, -0.000256481027f, -0.000205699253f, -0.000164278987f,
     -0.000135200302f},
    {0.00704254629f, 0.00479316572f, 0.00236118119f, 0.00115224312f, 0.000569256837f, 0.0003123309f,
     0.00017608334f, 0.000105718922f, 6.59524521e-05f, 4.44391771e-05f, 2.97578554e-05f,
     2.05043598e-05f, 1.45455197e-05f, 1.19866918e-05f, 7.80790015e-06f, 5.18885463e-06f},
    {-0.000273567857f, -0.000579880143f, -0.000350376911f, -0.000164517056f, -7.55387155e-05f,
     -3.65838605e-05f, -1.86309717e-05f, -1.03327311e-05f, -5.6322433e-06f, -3.10432392e-06f,
     -1.90886635e-06f, -7.07999675e-07f, -6.46764647e-07f, -1.08903282e-06f, -4.0208343e-07f,
     -1.12768191e-06f},
};
static const float tanh_tail[TERMS][32] = {
    {0, 0.48205173f, 1.00534344f, 1.4953419f, 1.99104166f, 2.50169015f, 3.00755215f, 3.5008986f,
     4.01856136f, 4.4935379f, 4.98872757f, 5.52800894f, 5.97903252f, 6.4740119f, 6.99275827f,
     7.51128292f, 8.02673626f, 8.52944851f, 9.02118874f, 9.52700996f, 10.0459881f, 10.4815969f,
     11.0506115f},
    {-1, -1.66696167f, -2.66639709f, -3.88771057f, -5.43017578f, -7.37985229f, -9.72622681f,
     -12.4771423f, -15.9320984f, -19.6854095f, -24.2661591f, -30.116806f, -35.7684174f,
     -42.8375702f, -51.2988434f, -60.9180145f, -71.7163696f, -83.5159454f, -96.3455658f,
     -110.949081f, -127.497986f, -142.674988f, -164.358246f},
    {-1.15110409f, -1.62637067f, -2.20253634f, -2.79057813f, -3.44469619f, -4.20957756f,
     -5.08967113f, -6.08624744f, -7.28933191f, -8.53805161f, -9.9881773f, -11.7396994f,
     -13.3425093f, -15.2461357f, -17.4035702f, -19.7261868f, -22.1996422f, -24.770031f,
     -27.4353409f, -30.3328037f, -33.469883f, -36.2314377f, -40.0152626f},
    {-0.459224045f, -0.523379862f, -0.575924993f, -0.626151919f, -0.698276103f, -0.805054367f,
     -0.93833679f, -1.08324349f, -1.24132562f, -1.38776648f, -1.54066849f, -1.70721459f,
     -1.8465029f, -1.99936664f, -2.15957165f, -2.31970739f, -2.47889471f, -2.63414717f,
     -2.78601122f, -2.94222331f, -3.10249925f, -3.23702788f, -3.4127574f},
    {-0.0514770448f, -0.0378145985f, -0.0313314758f, -0.0393933095f, -0.0587394089f, -0.079996787f,
     -0.0942250937f, -0.100558966f, -0.102546364f, -0.102892563f, -0.102939941f, -0.102944501f,
     -0.102942795f, -0.10294392f, -0.1029424f, -0.102940813f, -0.102943242f, -0.102942958f,
     -0.102942824f, -0.102943011f, -0.102941267f, -0.102943331f, -0.102943704f},
    {0.00772430701f, 0.00584443985f, -0.000396210846f, -0.00754293939f, -0.0109308101f,
     -0.00907008629f, -0.00493279938f, -0.00182041584f, -0.000401297119f, -6.02406144e-05f,
     -1.3268057e-05f, 1.94831282e-05f, -5.4309362e-07f, -1.10558485e-05f, 1.10468841e-06f,
     1.59460043e-07f, 3.74199971e-07f, -3.36972874e-07f, 9.04186436e-07f, -8.91784384e-06f,
     -1.00042853e-05f, -1.26779596e-05f, -6.92770641e-08f},
    {-0.000307285838f, -0.00158896775f, -0.00302498462f, -0.00240310701f, -0.000199926159f,
     0.00144782034f, 0.00158887741f, 0.00089113682f, 0.000283002562f, 4.01301404e-05f,
     1.08873819e-05f, 3.57366189e-05f, -4.18551053e-06f, 1.83207612e-05f, -1.35759183e-05f,
     -2.84272191e-05f, 5.12694555e-07f, -3.47865375e-06f, -3.74218553e-06f, -1.19702081e-05f,
     -4.07153384e-05f, 1.06002281e-05f, 9.52747598e-07f},
};

/* max(x, 0) - q, q = a 2^(h + s t + ...), k the terms: the exponent is a whole number and a rest, up to
 * 1/2, to which h + s t adds with one rounding. The fixed class of x below 0 is -0, from which -q comes
 * with its sign even where it is 0; NaN for -infinity, as -infinity times 0 is. */
INLINE vf less_tail(vf x, vf a, const vf k[TERMS])
{
    /* Four bits for each class: NaNs quiet (2 from x), zeros, ones and what is above x itself (1),
     * -infinity NaN (3), +infinity itself, what is below -0 (7). */
    const vi classes = vi_set(0x17131122);
    vf t = vf_sub(a, k[0]), square = vf_mul(t, t), bend = k[TERMS - 1];
    UNROLL for (int j = TERMS - 2; j > 2; j--) bend = vf_fma(bend, t, k[j]);
    vf whole = vf_rint(vf_fma(square, bend, vf_fma(k[2], t, k[1])));
    vf rest = vf_fma(square, bend, vf_fma(k[2], t, vf_sub(k[1], whole)));
    vf q = _mm512_scalef_ps(vf_fma(vf_mul(a, rest), exp2_chord(rest), a), whole);
    return vf_sub(_mm512_fixupimm_ps(x, x, classes, 0), q);
}

enum { NEARER = 0xa }; /* of two numbers the one nearer to 0, without its sign */

INLINE vf single_gelu_erf(vf x, const double *p)
{
    const vf magic = vf_set(0x1.8p23f); /* leaves the nearest whole number in the lowest bits */
    vf a = _mm512_range_ps(vf_set(14.5f), x, NEARER), k[TERMS];
    vi i = vi_of_bits(vf_add(a, magic));
    (void)p;
    UNROLL for (int j = 0; j < TERMS; j++) k[j] = _mm512_permutexvar_ps(i, vf_load(erf_tail[j]));
    return less_tail(x, a, k);
}

INLINE vf single_gelu_tanh(vf x, const double *p)
{
    const vf magic = vf_set(0x1.8p22f); /* the nearest half */
    vf a = _mm512_range_ps(vf_set(10.8f), x, NEARER), k[TERMS];
    vi i = vi_of_bits(vf_add(a, magic));
    (void)p;
    UNROLL for (int j = 0; j < TERMS; j++)
        k[j] = _mm512_permutex2var_ps(vf_load(tanh_tail[j]), i, vf_load(tanh_tail[j] + 16));
    return less_tail(x, a, k);
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
INLINE vf single_gelu_tanh(vf x, const double *p) { return exact_gelu_tanh(x, p); }
INLINE vf single_silu(vf x, const double *p) { return exact_silu(x, p); }

#endif
#endif
