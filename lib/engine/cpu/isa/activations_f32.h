/* activations_f32.h - private to isa/: gelu and silu in f32 arithmetic, within 2 ulp for every float, with the
 * same bits on every instruction set. A lane's result depends on that lane alone. The tables are printed by
 * scripts/fit-curves, which says how they are found.
 */
#ifndef ZT_CPU_ACTIVATIONS_F32_H
#define ZT_CPU_ACTIVATIONS_F32_H

#include "lib/engine/cpu/isa/math.h"

#include <float.h>

/* (2^r - 1) / r for -.6 <= r <= 1/2 (r times it: 2^-27.4). */
INLINE vf exp2_chord(vf r)
{
    static const float e[] = {0.693147182f, 0.240226418f, 0.0555034801f, 0.00961957313f, 0.0013396315f, 0.00014971022f};
    vf y = vf_set(e[5]);
    UNROLL_FOR (int i = 4; i >= 0; i--) y = vf_fma(y, r, vf_set(e[i]));
    return y;
}

/* log2 of two tails: P(X > a) of a normal X, and 1 / (1 + exp(v)), v = sqrt(8 / pi) (a + .044715 a^3).
 * Near a point c it is h + s t + k2 t^2 + ... + k4 t^4, t = a - c (2^-24.3 and 2^-24.0). A row for each of
 * c, h, s, k2, ..., an entry for each point: near 0, W, 2 W, .... h less a whole number is exact. */
enum { TERMS = 6, PIECES = 32 };
// clang-format off
#define ERF_W  0.4564f
#define TANH_W 0.344f
static const float erf_tail[TERMS][PIECES] = {
    {0, 0.446487784f, 0.914178073f, 1.3701762f, 1.82888019f, 2.27742624f, 2.73662138f, 3.20450234f,
     3.65589333f, 4.13011885f, 4.55094385f, 5.03917885f, 5.49247646f, 5.91675186f, 6.41641331f,
     6.81915283f, 7.32422686f, 7.73284912f, 8.1780014f, 8.7236948f, 9.14329815f, 9.55122662f,
     10.0571327f, 10.5242195f, 10.9260597f, 11.4186745f, 11.8776226f, 12.2741642f, 12.8049765f,
     13.1997499f, 13.6946058f, 14.203969f},
    {-1, -1.6098938f, -2.47143555f, -3.55104065f, -4.89073181f, -6.45730591f, -8.33180237f,
     -10.5296631f, -12.9299469f, -15.751358f, -18.5145721f, -22.0284271f, -25.5886993f,
     -29.1820679f, -33.7387848f, -37.6681213f, -42.9203491f, -47.4343262f, -52.6218262f,
     -59.3656616f, -64.8398132f, -70.4024353f, -77.6311798f, -84.6300049f, -90.9008789f,
     -98.9036407f, -106.67218f, -113.627411f, -123.290543f, -130.739182f, -140.391998f,
     -150.69487f},
    {-1.15110409f, -1.5900923f, -2.10177493f, -2.63867474f, -3.20646787f, -3.78143144f,
     -4.38500786f, -5.01163912f, -5.62461567f, -6.27543592f, -6.85756826f, -7.53723049f,
     -8.1715641f, -8.76762676f, -9.47198105f, -10.0412722f, -10.7568617f, -11.336936f, -11.9698544f,
     -12.7469225f, -13.345211f, -13.927412f, -14.6501198f, -15.3179522f, -15.892889f, -16.5981426f,
     -17.2555866f, -17.823904f, -18.5850086f, -19.1512909f, -19.861393f, -20.5925827f},
    {-0.459224582f, -0.521295249f, -0.570276141f, -0.605330229f, -0.631151676f, -0.649767578f,
     -0.663965583f, -0.674820364f, -0.682809234f, -0.689300001f, -0.693849564f, -0.698065102f,
     -0.701202512f, -0.703619301f, -0.705964506f, -0.707541406f, -0.709207833f, -0.710349858f,
     -0.711424291f, -0.712544322f, -0.7132833f, -0.713917553f, -0.714606941f, -0.715163171f,
     -0.715589166f, -0.716053665f, -0.716439545f, -0.71674037f, -0.717101455f, -0.717343986f,
     -0.717619658f, -0.717874289f},
    {-0.0524143763f, -0.0404588878f, -0.0298200566f, -0.0218696985f, -0.0160184111f, -0.0119075077f,
     -0.00889646076f, -0.00670721941f, -0.0051819426f, -0.00401136931f, -0.00323611056f,
     -0.00255715405f, -0.00208118535f, -0.0017321019f, -0.00141177583f, -0.00120730069f,
     -0.00100152439f, -0.000867242168f, -0.000746187405f, -0.000626685563f, -0.000550582074f,
     -0.000488447375f, -0.000422582554f, -0.000372277224f, -0.000335013436f, -0.00029599102f,
     -0.000264101371f, -0.000239965535f, -0.000214310217f, -0.000195446759f, -0.000175909387f,
     -0.000158170238f},
    {0.00687529938f, 0.00629251916f, 0.00501820352f, 0.00373666198f, 0.00269751623f, 0.00192647742f,
     0.00137559557f, 0.00099160301f, 0.000722836005f, 0.000533312501f, 0.000399116514f,
     0.0003003905f, 0.00022865503f, 0.000183064913f, 0.000149195999f, 0.000112975664f,
     8.92158423e-05f, 6.68807479e-05f, 5.53924801e-05f, 5.2485997e-05f, 4.37163071e-05f,
     3.51939998e-05f, 2.62880803e-05f, 2.37259173e-05f, 2.10031267e-05f, 1.28384488e-06f,
     1.07108954e-05f, 1.33197555e-05f, 1.07527239e-05f, 1.66190293e-05f, 2.04536173e-05f,
     8.97553673e-06f},
};
static const float tanh_tail[TERMS][PIECES] = {
    {0, 0.336571425f, 0.691277385f, 1.03455627f, 1.37354755f, 1.72222483f, 2.07558823f, 2.4072156f,
     2.76422548f, 3.1038425f, 3.43041062f, 3.79796314f, 4.11365509f, 4.46036148f, 4.79964399f,
     5.15978956f, 5.47995472f, 5.87506294f, 6.19060516f, 6.55845356f, 6.87622404f, 7.24329996f,
     7.59181929f, 7.91118288f, 8.24495411f, 8.59376335f, 8.90276146f, 9.27718258f, 9.68733025f,
     10.018693f, 10.3079052f, 10.6147709f},
    {-1, -1.4413147f, -2.03048706f, -2.73123169f, -3.55705261f, -4.55355835f, -5.72644043f,
     -6.98927307f, -8.54199219f, -10.2250977f, -12.0534821f, -14.3833923f, -16.6365814f,
     -19.4036713f, -22.4319458f, -26.0203552f, -29.5565948f, -34.4010468f, -38.6749573f,
     -44.1392975f, -49.2998962f, -55.7963409f, -62.5217896f, -69.1840668f, -76.6798401f,
     -85.1199493f, -93.135376f, -103.553146f, -115.888092f, -126.586731f, -136.479004f,
     -147.557724f},
    {-1.15110409f, -1.47656441f, -1.85014665f, -2.23626542f, -2.63975573f, -3.08117199f,
     -3.56405592f, -4.05957413f, -4.64945078f, -5.27301455f, -5.93503237f, -6.75661373f,
     -7.52819967f, -8.44630909f, -9.41658783f, -10.5243139f, -11.576335f, -12.9618874f,
     -14.1376724f, -15.5859976f, -16.9044361f, -18.5050812f, -20.1018314f, -21.6308765f,
     -23.2962265f, -25.1101379f, -26.7797928f, -28.8819828f, -31.2841377f, -33.3007469f,
     -35.1162643f, -37.0990906f},
    {-0.459224582f, -0.506083488f, -0.545728207f, -0.578674376f, -0.612387419f, -0.655567706f,
     -0.713645756f, -0.782880247f, -0.871537387f, -0.96581471f, -1.06203663f, -1.17360854f,
     -1.27059948f, -1.37752616f, -1.48227811f, -1.5934962f, -1.69237304f, -1.81439364f,
     -1.91184437f, -2.02544451f, -2.1235826f, -2.23694682f, -2.3445797f, -2.44320869f, -2.54628682f,
     -2.65400887f, -2.74943662f, -2.8650701f, -2.99173498f, -3.09406948f, -3.18338704f,
     -3.27815652f},
    {-0.0514627174f, -0.0415598191f, -0.0337257907f, -0.0314802937f, -0.0361470878f, -0.0474223047f,
     -0.0624593198f, -0.0764022544f, -0.0884129927f, -0.0959378332f, -0.0999808311f, -0.102027908f,
     -0.10266684f, -0.102883741f, -0.10293214f, -0.102941915f, -0.102940708f, -0.102944084f,
     -0.10294342f, -0.102943376f, -0.102943525f, -0.102942936f, -0.102942057f, -0.102942884f,
     -0.102942936f, -0.10294272f, -0.102942072f, -0.102942161f, -0.102945521f, -0.102940999f,
     -0.102944568f, -0.102944531f},
    {0.00760626793f, 0.00675563421f, 0.003908379f, -0.00079404976f, -0.00600245828f,
     -0.00978903193f, -0.0109860171f, -0.00971738342f, -0.00706495019f, -0.00424408307f,
     -0.00209797919f, -0.000842869631f, -0.000267249037f, -6.00800631e-05f, -7.75592707e-06f,
     -2.50475969e-05f, -2.00830641e-06f, -1.39860322e-05f, 5.13414416e-05f, -2.32049224e-05f,
     8.16499687e-06f, 1.54754798e-05f, 1.0609273e-05f, 8.97501195e-06f, -1.15157104e-06f,
     -2.14568136e-05f, -2.06050954e-05f, 1.02688446e-05f, -1.72444561e-05f, -8.11049267e-06f,
     -1.06464213e-05f, -1.13655904e-06f},
};
// clang-format on

/* In each lane the entry that the lowest five bits of i name. */
INLINE vf vf_look_up(const float table[PIECES], vi i)
{
#if defined(ZT_ISA_avx512)
    return _mm512_permutex2var_ps(vf_load(table), i, vf_load(table + 16));
#elif defined(ZT_ISA_avx2)
    const vi at = vi_and(i, vi_set(PIECES - 1));
    return (vf){_mm256_i32gather_ps(table, at.lo, 4), _mm256_i32gather_ps(table, at.hi, 4)};
#else
    int32_t at[LANES];
    float y[LANES];
    memcpy(at, &i, sizeof at);
    for (int lane = 0; lane < LANES; lane++) y[lane] = table[at[lane] & (PIECES - 1)];
    return vf_load(y);
#endif
}

/* a 2^n, rounded once, for 0 or a float from 2^-20 on that is below 16, and a whole n from -170 to 1; for smaller a, n is -1. */
INLINE vf scale_tail(vf a, vf n)
{
#if defined(ZT_ISA_avx512)
    return _mm512_scalef_ps(a, n);
#else
    return vf_times_2n(a, vf_add(n, vf_magic()));
#endif
}

/* What a tail is taken from: x, but -0 for x below 0; NaN for -infinity, as -infinity times 0 is, with the bits of x86. */
INLINE vf without_negatives(vf x)
{
#if defined(ZT_ISA_avx512)
    /* Four bits for each class: NaNs quiet (2 from x), zeros, ones and what is above x itself (1),
     * -infinity NaN (3), +infinity itself, what is below -0 (7). */
    return _mm512_fixupimm_ps(x, x, vi_set(0x17131122), 0);
#else
    const vf y = vf_select(vf_lt(x, vf_set(0)), vf_set(-0.0f), x);
    return vf_select(vf_lt(x, vf_set(-FLT_MAX)), vf_of_bits(vi_set((int32_t)0xffc00000)), y);
#endif
}

/* x as a tail of x > 0 leaves it: max(x, 0) - q, q = a 2^(h + s t + ...), a the size of x, held where q
 * is 0. The exponent is a whole number, the nearest to h + s t, and a rest, to which h + s t adds with
 * one rounding. -q comes with its sign also where it is 0. */
INLINE vf less_tail(vf x, const float table[TERMS][PIECES], float w, float last)
{
    const vf magic = vf_set(0x1.8p23f); /* leaves the nearest whole number in the lowest bits */
    vf a = vf_min(vf_abs(x), vf_set(last)), k[TERMS];
    vi i = vi_of_bits(vf_fma(a, vf_set(1 / w), magic));
    UNROLL_FOR (int j = 0; j < TERMS; j++) k[j] = vf_look_up(table[j], i);
    vf t = vf_sub(a, k[0]), square = vf_mul(t, t), bend = k[TERMS - 1];
    UNROLL_FOR (int j = TERMS - 2; j > 2; j--) bend = vf_fma(bend, t, k[j]);
    vf whole = vf_rint(vf_fma(k[2], t, k[1]));
    vf rest = vf_fma(square, bend, vf_fma(k[2], t, vf_sub(k[1], whole)));
    vf q = scale_tail(vf_fma(vf_mul(a, rest), exp2_chord(rest), a), whole);
    return vf_sub(without_negatives(x), q);
}

INLINE vf single_gelu_erf(vf x, const double *p)
{
    (void)p;
    return less_tail(x, erf_tail, ERF_W, 14.37f);
}

INLINE vf single_gelu_tanh(vf x, const double *p)
{
    (void)p;
    return less_tail(x, tanh_tail, TANH_W, 10.8f);
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
    return __builtin_expect(vm_bits(far) != 0, 0) ? vf_select(far, exact_silu(x, p), y) : y;
}

#endif
