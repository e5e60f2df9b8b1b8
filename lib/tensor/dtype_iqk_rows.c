/* dtype_iqk_rows.c - owns the block types of ik_llama.cpp whose rows begin with a scale d: iq2_ks to iq5_ks, iq4_kss, iq2_kl,
 * and the ternary iq1_bn and iq2_bn.
 *
 * A block of all but the ternary types has 256 elements in 8 groups of 32. Element j of group g:
 *
 *     element = d * scale[g] * (table[code] + (shifted[g] ? shift : 0))
 *
 * Fields of a block in their order, with their bytes; d is before the first block of the row:
 *
 *     type     d    extra  scales                               codes                        bytes  table, shift
 *     iq2_ks   f16  2      4: lower 4 bits, 2 groups a byte     64: 2 bits                      70  4 values, 5
 *     iq3_ks   f16  2      4: lower 4 bits                      64: 2 bits, 32: bit 2          102  8 values, 4
 *     iq4_ks   f32  -      8: u8, a group each                  128: 4 bits                    136  16 values, 4
 *     iq4_kss  f32  -      in the codes                         128: 4 bits                    128  16 values, 4
 *     iq5_ks   f32  -      8: u8, a group each                  128: 4 bits, 32: bit 4         168  32 values, 2
 *     iq2_kl   f16  2      4: lower 4 bits                      64: 4 bits, 16: bit 4           86  32 pairs of values
 *
 * extra (u16): of iq2_ks bit g shifts group g and bit 8 + g is bit 4 of its scale; of iq3_ks the other way around; of iq2_kl
 * bits 2 g and 2 g + 1 are bits 4 and 5 of the scale. Lower 4 bits: of iq2_ks group g in byte g / 2, the even one in the
 * lower half; of iq3_ks and iq2_kl group g in byte g % 4, the first four in the lower halves. Scales are less 16, of iq2_kl less 32.
 * u8 scales: bits 1 to 7 less 127, in steps of 2; bit 0 shifts. iq4_kss: in the 8 u16 of a group, bit 0 of number k is bit k of such
 * a scale, and what is left, w, gives its four codes as w ^ w >> 1.
 *
 * Codes of 4 bits: 16 bytes a group with the first 16 elements in the lower halves (iq4_ks, iq4_kss); 32 bytes for two groups with the
 * even one in the lower halves (iq5_ks); 16 bytes for two groups, a code for two elements (iq2_kl). Codes of 1 and 2
 * bits: byte j has, in bits 0, 1, ..., element j of groups 0, 1, ...; 32 bytes hold four groups of 2 bits.
 *
 * Ternary, 64 elements -1, 0, 1, times d: iq2_bn 16 bytes, d f32, byte j has elements j, 16 + j, 32 + j, 48 + j as 2 bits plus 1;
 * iq1_bn 13 bytes, d f16, byte 3 s + k has elements 16 s + 5 k to 16 s + 5 k + 4, the last byte elements 15, 31, 47, 63. Such
 * a byte b gives digit i of base 3 as the upper 8 bits of 3 * (b * 3^(4 - i) mod 256), the same rounding
 * as b + b / 2 over 128.
 *
 * Source: ggml-common.h and iqk_quantize.cpp of ik_llama.cpp (MIT, 8337e4cd), as facts.
 */
#include "lib/tensor/row_types.h"
#include "lib/tensor/decode.h"

enum { BLOCK = 256, GROUP = 32, GROUPS = 8 };

static const int8_t values2[4] = {-31, -13, 1, 17};
static const int8_t values3[8] = {-63, -40, -23, -10, 1, 13, 28, 47};
static const int8_t values5[32] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
                                   -1,   5,    11,   17,  23,  29,  36,  43,  51,  59,  68,  77,  87,  97,  109, 121};
/* The pairs of iq2_kl. */
static const int8_t pairs[32][2] = {{-63, -23}, {-63, 13}, {-40, -63}, {-40, -10}, {-40, 13}, {-40, 47}, {-23, -40}, {-23, -23},
                                    {-23, 1},   {-23, 13}, {-23, 28},  {-10, -63}, {-10, 1},  {-10, 13}, {-10, 47},  {1, -23},
                                    {1, -10},   {1, 1},    {1, 13},    {1, 28},    {13, -40}, {13, -23}, {13, -10},  {13, 1},
                                    {13, 13},   {28, -63}, {28, -23},  {28, 1},    {28, 28},  {28, 47},  {47, -23},  {47, 13}};

static inline float load_float(const uint8_t *bytes)
{
    float number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

/* A u8 scale without its lowest bit, which is the choice of the table. */
static inline float scale_of(float d, unsigned scale) { return d * (float)((int)(scale & 254) - 127); }

void zt_decode_iq2_ks(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = zt_load_half(scale);
    for (const uint8_t *block = blocks; count > 0; count -= BLOCK, block += 70) {
        const unsigned extra = zt_load_u16(block);
        for (int g = 0; g < GROUPS; g++, dst += GROUP) {
            const int low = block[2 + g / 2] >> g % 2 * 4 & 15, shift = extra >> g & 1 ? 5 : 0;
            const float factor = d * (float)((low | (int)(extra >> (8 + g) & 1) << 4) - 16);
            for (int j = 0; j < GROUP; j++)
                dst[j] = factor * (float)(values2[block[6 + g / 4 * 32 + j] >> g % 4 * 2 & 3] + shift);
        }
    }
}

void zt_decode_iq3_ks(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = zt_load_half(scale);
    for (const uint8_t *block = blocks; count > 0; count -= BLOCK, block += 102) {
        const unsigned extra = zt_load_u16(block);
        for (int g = 0; g < GROUPS; g++, dst += GROUP) {
            const int low = block[2 + g % 4] >> g / 4 * 4 & 15, shift = extra >> (8 + g) & 1 ? 4 : 0;
            const float factor = d * (float)((low | (int)(extra >> g & 1) << 4) - 16);
            for (int j = 0; j < GROUP; j++) {
                const unsigned code = (block[6 + g / 4 * 32 + j] >> g % 4 * 2 & 3u) | (block[70 + j] >> g & 1u) << 2;
                dst[j] = factor * (float)(values3[code] + shift);
            }
        }
    }
}

void zt_decode_iq4_ks(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = load_float(scale);
    for (const uint8_t *block = blocks; count > 0; count -= BLOCK, block += 136)
        for (int g = 0; g < GROUPS; g++, dst += GROUP) {
            const uint8_t *codes = block + 8 + 16 * g;
            const int shift = block[g] & 1 ? 4 : 0;
            const float factor = scale_of(d, block[g]);
            for (int j = 0; j < GROUP; j++) dst[j] = factor * (float)(zt_iq4_values[codes[j % 16] >> j / 16 * 4 & 15] + shift);
        }
}

void zt_decode_iq4_kss(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = load_float(scale);
    for (const uint8_t *group = blocks; count > 0; count -= GROUP, group += 16, dst += GROUP) {
        uint8_t codes[16];
        unsigned bits = 0;
        for (int k = 0; k < 8; k++) {
            const unsigned word = zt_load_u16(group + 2 * k), left = word & 0xfffe, four = left ^ left >> 1;
            bits |= (word & 1) << k;
            codes[2 * k] = (uint8_t)four;
            codes[2 * k + 1] = (uint8_t)(four >> 8);
        }
        const float factor = scale_of(d, bits);
        const int shift = bits & 1 ? 4 : 0;
        for (int j = 0; j < GROUP; j++) dst[j] = factor * (float)(zt_iq4_values[codes[j % 16] >> j / 16 * 4 & 15] + shift);
    }
}

void zt_decode_iq5_ks(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = load_float(scale);
    for (const uint8_t *block = blocks; count > 0; count -= BLOCK, block += 168)
        for (int g = 0; g < GROUPS; g++, dst += GROUP) {
            const float factor = scale_of(d, block[g]);
            const int shift = block[g] & 1 ? 2 : 0;
            for (int j = 0; j < GROUP; j++) {
                const unsigned code = (block[8 + g / 2 * 32 + j] >> g % 2 * 4 & 15u) | (block[136 + j] >> g & 1u) << 4;
                dst[j] = factor * (float)(values5[code] + shift);
            }
        }
}

void zt_decode_iq2_kl(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = zt_load_half(scale);
    for (const uint8_t *block = blocks; count > 0; count -= BLOCK, block += 86) {
        const unsigned extra = zt_load_u16(block);
        for (int g = 0; g < GROUPS; g++, dst += GROUP) {
            const int low = block[2 + g % 4] >> g / 4 * 4 & 15;
            const float factor = d * (float)((low | (int)(extra >> 2 * g & 3) << 4) - 32);
            for (int j = 0; j < GROUP / 2; j++) {
                const unsigned code = (block[6 + g / 2 * 16 + j] >> g % 2 * 4 & 15u) | (block[70 + j] >> g & 1u) << 4;
                dst[2 * j] = factor * (float)pairs[code][0];
                dst[2 * j + 1] = factor * (float)pairs[code][1];
            }
        }
    }
}

void zt_decode_iq2_bn(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = load_float(scale);
    for (const uint8_t *block = blocks; count > 0; count -= 64, block += 16, dst += 64)
        for (int j = 0; j < 64; j++) dst[j] = d * (float)((block[j % 16] >> j / 16 * 2 & 3) - 1);
}

/* Digit i, of five, of a byte of iq1_bn. */
static inline int ternary(unsigned byte, int i)
{
    static const uint8_t power[5] = {81, 27, 9, 3, 1};
    const unsigned rest = byte * power[i] & 255;
    return (int)((rest + rest / 2) >> 7) - 1;
}

void zt_decode_iq1_bn(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count)
{
    const float d = zt_load_half(scale);
    for (const uint8_t *block = blocks; count > 0; count -= 64, block += 13, dst += 64)
        for (int j = 0; j < 64; j++) {
            const int s = j / 16, within = j % 16;
            dst[j] = d * (float)(within < 15 ? ternary(block[3 * s + within / 5], within % 5) : ternary(block[12], s));
        }
}
