/* dtype_blocks.c - owns the block types with one scale for all their codes, or a scale and a
 * minimum, and those of four-bit floats. */
#include "lib/tensor/decode.h"

/* ---- whole numbers ------------------------------------------------------------------------- */

/* f16 `scale`, 16 bytes of codes: the low halves are elements 0..15, the high halves 16..31. */
void zt_decode_q4_0(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 32, block += 18) {
        float scale = zt_load_half(block);
        for (int j = 0; j < 16; j++) {
            dst[i + j] = (float)((block[2 + j] & 15) - 8) * scale;
            dst[i + 16 + j] = (float)((block[2 + j] >> 4) - 8) * scale;
        }
    }
}

/* f16 `scale`, f16 `minimum`, codes. */
void zt_decode_q4_1(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 32, block += 20) {
        float scale = zt_load_half(block), minimum = zt_load_half(block + 2);
        for (int j = 0; j < 16; j++) {
            dst[i + j] = (float)(block[4 + j] & 15) * scale + minimum;
            dst[i + 16 + j] = (float)(block[4 + j] >> 4) * scale + minimum;
        }
    }
}

/* Code j of 32 of five bits: 16 bytes of halves at `codes`, the fifth bits in `high`. */
static inline int get_code5(const uint8_t *codes, uint32_t high, int j)
{
    int low = j < 16 ? codes[j] & 15 : codes[j - 16] >> 4;
    return low | (int)(high >> j & 1) << 4;
}

/* f16 `scale`, u32 of fifth bits, codes. */
void zt_decode_q5_0(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 32, block += 22) {
        float scale = zt_load_half(block);
        uint32_t high;
        memcpy(&high, block + 2, 4);
        for (int j = 0; j < 32; j++) dst[i + j] = (float)(get_code5(block + 6, high, j) - 16) * scale;
    }
}

/* f16 `scale`, f16 `minimum`, u32 of fifth bits, codes. */
void zt_decode_q5_1(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 32, block += 24) {
        float scale = zt_load_half(block), minimum = zt_load_half(block + 2);
        uint32_t high;
        memcpy(&high, block + 4, 4);
        for (int j = 0; j < 32; j++) dst[i + j] = (float)get_code5(block + 8, high, j) * scale + minimum;
    }
}

/* f16 `scale`, 32 signed codes. */
void zt_decode_q8_0(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 32, block += 34) {
        float scale = zt_load_half(block);
        for (int j = 0; j < 32; j++) dst[i + j] = (float)(int8_t)block[2 + j] * scale;
    }
}

/* ---- one and two bits ---------------------------------------------------------------------- */

/* f16 `scale`, 128 bits: `scale` or -`scale`. */
void zt_decode_q1_0(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 128, block += 18) {
        const float scale[2] = {-zt_load_half(block), zt_load_half(block)};
        for (int j = 0; j < 128; j++) dst[i + j] = scale[block[2 + j / 8] >> j % 8 & 1];
    }
}

/* f16 `scale`, 64 codes of two bits, less 1. */
void zt_decode_q2_0(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 64, block += 18) {
        float scale = zt_load_half(block);
        for (int j = 0; j < 64; j++) dst[i + j] = (float)((block[2 + j / 4] >> j % 4 * 2 & 3) - 1) * scale;
    }
}

/* Elements of one sort of byte of tq1_0: `count` bytes of `digits` base-3 digits each, the first
 * digits of all bytes first. A byte is a fraction of 256: digit k is the upper part of 3 times what
 * is left after k times 3 modulo 256. */
static float *put_trits(const uint8_t *codes, int count, int digits, float scale, float *dst)
{
    unsigned power = 1;
    for (int k = 0; k < digits; k++, power *= 3)
        for (int j = 0; j < count; j++) *dst++ = (float)((int)((uint8_t)(codes[j] * power) * 3u >> 8) - 1) * scale;
    return dst;
}

/* 48 bytes of five digits (as 32 and 16), 4 bytes of four, f16 `scale`; digits less 1. */
void zt_decode_tq1_0(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (const float *end = dst + count; dst < end; block += 54) {
        float scale = zt_load_half(block + 52);
        dst = put_trits(block, 32, 5, scale, dst);
        dst = put_trits(block + 32, 16, 5, scale, dst);
        dst = put_trits(block + 48, 4, 4, scale, dst);
    }
}

/* Two halves of 32 bytes, of which bits 2 k are elements 32 k .. 32 k + 31; f16 `scale`. */
void zt_decode_tq2_0(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 66) {
        float scale = zt_load_half(block + 64);
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 32; j++) dst[i + 32 * k + j] = (float)((block[k / 4 * 32 + j] >> k % 4 * 2 & 3) - 1) * scale;
    }
}

/* ---- tables of sixteen values -------------------------------------------------------------- */

/* 2 `count` bytes of codes: `count` elements in the low halves, then `count` in the high ones. */
static void put_looked_up(const int8_t *values, const uint8_t *codes, int count, float scale, float *dst)
{
    for (int j = 0; j < count; j++) {
        dst[j] = (float)values[codes[j] & 15] * scale;
        dst[count + j] = (float)values[codes[j] >> 4] * scale;
    }
}

/* Denser near 0. */
const int8_t zt_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* Floats of one sign, two exponent and one fraction bit, times 2. */
static const int8_t e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* f16 d, codes as in q4_0. */
void zt_decode_iq4_nl(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 32, block += 18)
        put_looked_up(zt_iq4_values, block + 2, 16, zt_load_half(block), dst + i);
}

/* Half of 2^(code - 127), which for code < 2 is subnormal. */
static float e8m0_half(uint32_t code)
{
    uint32_t bits = code < 2 ? 0x200000u << code : (code - 1) << 23;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* One byte of exponent, codes as in q4_0. */
void zt_decode_mxfp4(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 32, block += 17) put_looked_up(e2m1_values, block + 1, 16, e8m0_half(block[0]), dst + i);
}

/* Half of a float of four exponent bits, bias 7, and three fraction bits. The upper bit is ignored,
 * but that only without it all ones are 0. */
static float e4m3_half(uint8_t code)
{
    float fraction = (float)(code & 7);
    int exponent = code >> 3 & 15;
    if (code == 0x7f) return 0;
    if (exponent == 0) return fraction * 0x1p-10f;
    return (1 + fraction / 8) * (float)(1 << exponent) * 0x1p-8f;
}

/* Four scales of 16 elements each, then 8 bytes of codes for each: its first 8 elements in the low
 * halves. */
void zt_decode_nvfp4(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 64, block += 36)
        for (int k = 0; k < 4; k++) put_looked_up(e2m1_values, block + 4 + 8 * k, 8, e4m3_half(block[k]), dst + i + 16 * k);
}
