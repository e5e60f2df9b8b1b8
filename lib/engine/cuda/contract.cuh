/* contract.cuh - the functions of docs/arithmetic.md in f32, step by step: exp, the logistic function and tanh.
 *
 * A product and a sum are rounded twice unless the text is fmaf (prim.h).
 */
#ifndef ZT_CU_CONTRACT_CUH
#define ZT_CU_CONTRACT_CUH

#include "lib/engine/cuda/prim.h"

/* 2^n for n from -126 to 127. */
FN float power_of_two(int n) { return bits_as<float>((uint32_t)(n + 127) << 23); }

/* x = n ln 2 + r: exp(r) - 1. */
FN float split_exp(float x, int *n)
{
    const float magic = 12582912.0f, t = fmaf(x, 0x1.715476p+0f, magic), whole = t - magic;
    const float r = fmaf(whole, 0x1.bd0106p-13f, fmaf(whole, -0x1.63p-1f, x));
    float q = fmaf(0x1.a01a02p-13f, r, 0x1.6c16c2p-10f);
    q = fmaf(q, r, 0x1.111112p-7f);
    q = fmaf(q, r, 0x1.555556p-5f);
    q = fmaf(q, r, 0x1.555556p-3f);
    q = fmaf(q, r, 0.5f);
    *n = (int)(bits_as<uint32_t>(t) - bits_as<uint32_t>(magic));
    return fmaf(r * r, q, r);
}

/* Of x <= 0, or NaN. Of the two products only the second rounds. */
FN float contract_exp_below(float x)
{
    int n;
    const float e = split_exp(-104.0f > x ? -104.0f : x, &n);
    const int half = n >> 1;
    return (e + 1.0f) * power_of_two(half) * power_of_two(n - half);
}

FN float contract_exp(float x) { return contract_exp_below(89.0f < x ? 89.0f : x); }

FN float contract_sigmoid(float x)
{
    const float e = contract_exp_below(0.0f - fabsf(x));
    return (bits_as<uint32_t>(x) >> 31 ? e : 1.0f) / (1.0f + e);
}

FN float contract_tanh(float x)
{
    int n;
    const float a = 10.0f < fabsf(x) ? 10.0f : fabsf(x), m = split_exp(a + a, &n), power = power_of_two(n);
    const float e = fmaf(m, power, power - 1.0f);
    return copysignf(e / (e + 2.0f), x);
}

#endif
