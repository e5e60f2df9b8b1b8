/* dtype_blocks.c - owns the block types with one scale for all their codes, or a scale and a
 * minimum, and those of four-bit floats. */
#include "lib/tensor/decode.h"

/* ---- whole numbers ------------------------------------------------------------------------- */

/* f16 d, 16 bytes of codes: the low halves are elements 0..15, the high halves 16..31. */
void zt_decode_q4_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 18) {
        float d = zt_load_half(b);
        for (int j = 0; j < 16; j++) {
            dst[i + j] = (float)((b[2 + j] & 15) - 8) * d;
            dst[i + 16 + j] = (float)((b[2 + j] >> 4) - 8) * d;
        }
    }
}

/* f16 d, f16 m, codes. */
void zt_decode_q4_1(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 20) {
        float d = zt_load_half(b), m = zt_load_half(b + 2);
        for (int j = 0; j < 16; j++) {
            dst[i + j] = (float)(b[4 + j] & 15) * d + m;
            dst[i + 16 + j] = (float)(b[4 + j] >> 4) * d + m;
        }
    }
}

/* Code j of 32 of five bits: 16 bytes of halves at q, the fifth bits in `high`. */
static inline int code5(const uint8_t *q, uint32_t high, int j)
{
    int low = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
    return low | (int)(high >> j & 1) << 4;
}

/* f16 d, u32 of fifth bits, codes. */
void zt_decode_q5_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 22) {
        float d = zt_load_half(b);
        uint32_t high;
        memcpy(&high, b + 2, 4);
        for (int j = 0; j < 32; j++)
            dst[i + j] = (float)(code5(b + 6, high, j) - 16) * d;
    }
}

/* f16 d, f16 m, u32 of fifth bits, codes. */
void zt_decode_q5_1(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 24) {
        float d = zt_load_half(b), m = zt_load_half(b + 2);
        uint32_t high;
        memcpy(&high, b + 4, 4);
        for (int j = 0; j < 32; j++)
            dst[i + j] = (float)code5(b + 8, high, j) * d + m;
    }
}

/* f16 d, 32 signed codes. */
void zt_decode_q8_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 34) {
        float d = zt_load_half(b);
        for (int j = 0; j < 32; j++)
            dst[i + j] = (float)(int8_t)b[2 + j] * d;
    }
}

/* ---- one and two bits ---------------------------------------------------------------------- */

/* f16 d, 128 bits: d or -d. */
void zt_decode_q1_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 128, b += 18) {
        const float d[2] = {-zt_load_half(b), zt_load_half(b)};
        for (int j = 0; j < 128; j++)
            dst[i + j] = d[b[2 + j / 8] >> j % 8 & 1];
    }
}

/* f16 d, 64 codes of two bits, less 1. */
void zt_decode_q2_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 64, b += 18) {
        float d = zt_load_half(b);
        for (int j = 0; j < 64; j++)
            dst[i + j] = (float)((b[2 + j / 4] >> j % 4 * 2 & 3) - 1) * d;
    }
}

/* Elements of one sort of byte of tq1_0: `count` bytes of `digits` base-3 digits each, the first
 * digits of all bytes first. A byte is a fraction of 256: digit k is the upper part of 3 times what
 * is left after k times 3 modulo 256. */
static float *put_trits(const uint8_t *q, int count, int digits, float d, float *dst)
{
    unsigned power = 1;
    for (int k = 0; k < digits; k++, power *= 3)
        for (int j = 0; j < count; j++)
            *dst++ = (float)((int)((uint8_t)(q[j] * power) * 3u >> 8) - 1) * d;
    return dst;
}

/* 48 bytes of five digits (as 32 and 16), 4 bytes of four, f16 d; digits less 1. */
void zt_decode_tq1_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (const float *end = dst + n; dst < end; b += 54) {
        float d = zt_load_half(b + 52);
        dst = put_trits(b, 32, 5, d, dst);
        dst = put_trits(b + 32, 16, 5, d, dst);
        dst = put_trits(b + 48, 4, 4, d, dst);
    }
}

/* Two halves of 32 bytes, of which bits 2 k are elements 32 k .. 32 k + 31; f16 d. */
void zt_decode_tq2_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 66) {
        float d = zt_load_half(b + 64);
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 32; j++)
                dst[i + 32 * k + j] = (float)((b[k / 4 * 32 + j] >> k % 4 * 2 & 3) - 1) * d;
    }
}

/* ---- tables of sixteen values -------------------------------------------------------------- */

/* 2 n bytes of codes: n elements in the low halves, then n in the high ones. */
static void put_looked_up(const int8_t *values, const uint8_t *q, int n, float d, float *dst)
{
    for (int j = 0; j < n; j++) {
        dst[j] = (float)values[q[j] & 15] * d;
        dst[n + j] = (float)values[q[j] >> 4] * d;
    }
}

/* Denser near 0. */
const int8_t zt_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

/* Floats of one sign, two exponent and one fraction bit, times 2. */
static const int8_t e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* f16 d, codes as in q4_0. */
void zt_decode_iq4_nl(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 18)
        put_looked_up(zt_iq4_values, b + 2, 16, zt_load_half(b), dst + i);
}

/* Half of 2^(e - 127), which for e < 2 is subnormal. */
static float e8m0_half(uint32_t e)
{
    uint32_t bits = e < 2 ? 0x200000u << e : (e - 1) << 23;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* One byte of exponent, codes as in q4_0. */
void zt_decode_mxfp4(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 17)
        put_looked_up(e2m1_values, b + 1, 16, e8m0_half(b[0]), dst + i);
}

/* Half of a float of four exponent bits, bias 7, and three fraction bits. The upper bit is ignored,
 * but that only without it all ones are 0. */
static float e4m3_half(uint8_t e)
{
    float fraction = (float)(e & 7);
    int exponent = e >> 3 & 15;
    if (e == 0x7f)
        return 0;
    if (exponent == 0)
        return fraction * 0x1p-10f;
    return (1 + fraction / 8) * (float)(1 << exponent) * 0x1p-8f;
}

/* Four scales of 16 elements each, then 8 bytes of codes for each: its first 8 elements in the low
 * halves. */
void zt_decode_nvfp4(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 64, b += 36)
        for (int k = 0; k < 4; k++)
            put_looked_up(e2m1_values, b + 4 + 8 * k, 8, e4m3_half(b[k]), dst + i + 16 * k);
}
