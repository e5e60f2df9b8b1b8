/* pair.cuh - rows of f32 as pairs of rows of f16, for the matrix units.
 *
 * A row is brought to where its largest number is from 2^14 to 2^15, by a power of two, and each of
 * its numbers becomes a high one of f16 and a low one of what that leaves over: 22 bits, or those
 * above 2^-39 of the row's largest number. The two are rows of their own to the kernels: each has
 * its sum with a row of weights, products are exact, and what a row gets depends on that row alone.
 * In the end the two sums are added up, and taken back.
 *
 * What is no number stays with the high one, and so does a sum that has become infinite or NaN: the
 * low one would turn what is infinite into NaN.
 */
#ifndef ZT_CU_PAIR_CUH
#define ZT_CU_PAIR_CUH

#include "lib/engine/cuda/prim.h"

/* Orders finite numbers by size; others count as 0. */
FN uint32_t pair_size(float x)
{
    const uint32_t u = bits_as<uint32_t>(x) & 0x7FFFFFFF;
    return u < 0x7F800000 ? u : 0;
}

/* The power of two that a row is multiplied by whose largest size is `top`, and the one that its
 * sums are: both are normal numbers, so rows below 2^-112 stay below 2^14. */
FN uint32_t pair_exponent(uint32_t top) { return top >> 23 < 15 ? 15 : top >> 23; }
FN float pair_scale(uint32_t top) { return bits_as<float>((268 - pair_exponent(top)) << 23); }
FN float pair_back(uint32_t top) { return bits_as<float>((pair_exponent(top) - 14) << 23); }

FN bool pair_finite(float x) { return x - x == 0; }

/* Four numbers as two words of the high ones and two of the low ones. */
FN void pair_four(const float x[4], float scale, uint32_t high[2], uint32_t low[2])
{
    for (int j = 0; j < 2; j++) high[j] = low[j] = 0;
    for (int j = 0; j < 4; j++) {
        const float v = x[j] * scale;
        const f16 h = put<f16>(v), l = put<f16>(pair_finite(v) ? v - get(h) : 0.0f);
        high[j / 2] |= (uint32_t)h.bits << j % 2 * 16;
        low[j / 2] |= (uint32_t)l.bits << j % 2 * 16;
    }
}

FN float pair_sum(float high, float low, float back)
{
    return (pair_finite(high) ? high + low : high) * back;
}

#endif
