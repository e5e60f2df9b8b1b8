/* codes.cuh - x rounded to codes of 8 bits, and a step of a product with them. */
#ifndef ZT_CU_CODES_CUH
#define ZT_CU_CODES_CUH

#include "lib/engine/cuda/linear.h"

/* Eight codes of v, which becomes what they leave; scale and sum. */
FN void encode(float v[8], uint32_t word[2], float *scale, float *sum)
{
    float most = 0;
    for (int k = 0; k < 8; k++) most = fmaxf(most, fabsf(v[k]));
    most = fmaxf(most, shuffle_xor(most, 1));
    most = fmaxf(most, shuffle_xor(most, 2));
    float d = most / 127, inverse = d > 0 ? 127 / most : 0;
    int total = 0;
    word[0] = word[1] = 0;
    for (int k = 0; k < 8; k++) {
        int c = (int)rintf(v[k] * inverse);
        total += c;
        word[k / 4] |= ((uint32_t)c & 255) << k % 4 * 8;
        v[k] = fmaf(-d, (float)c, v[k]);
    }
    total += shuffle_xor(total, 1);
    total += shuffle_xor(total, 2);
    *scale = d;
    *sum = d * (float)total;
}

/* 32 columns of 16 rows of w by eight tokens, on the matrix units: added to the sums of rows g and
 * g + 8 and tokens 2 t, 2 t + 1 of lane 4 g + t; scale and sum are those of its tokens. */
template <class T>
FN void by_codes(const fragment *f, const uint32_t b[2], const float scale[2], const float sum[2],
                 float acc[4])
{
    int low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
    if (T::SUB) {
        const uint32_t one[4] = {f->a[0], f->a[1], 0, 0}, two[4] = {0, 0, f->a[2], f->a[3]};
        mma_s8(low, one, b);
        mma_s8(high, two, b);
    } else {
        mma_s8(low, f->a, b);
    }
    for (int c = 0; c < 4; c++) {
        int r = c / 2;
        float d = scale[c % 2];
        acc[c] = fmaf((float)low[c], f->d0[r] * d, acc[c]);
        if (T::SUB) acc[c] = fmaf((float)high[c], f->d1[r] * d, acc[c]);
        if (T::MIN) acc[c] = fmaf(f->m[r], sum[c % 2], acc[c]);
    }
}

#endif
