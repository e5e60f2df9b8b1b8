/* dtype_iqk.c - owns the block types iq2_k to iq6_k of ik_llama.cpp: codes that index a table of values, which is dense near
 * 0, with a scale and a choice of one of two tables for each 16 elements.
 *
 * A block has 256 elements in 16 groups of 16. Element i of the block is i % 16 of group g = i / 16; its pair is p = g / 2.
 *
 *     element = d * scale[g] * (table[code] + (bit g of shifted ? shift : 0))
 *
 * Fields in their order, with their bytes:
 *
 *     type   d  shifted  scales                                codes                     bytes  table, shift
 *     iq2_k  2  2        8: u4, 2 a byte, less 8               64: 2 bits                   76  4 values, 5
 *     iq3_k  2  2        2: signs; 8: u4, 2 s + 1              64: 2 bits, 32: bit 2       110  8 values, 4
 *     iq4_k  2  2        4: upper 2 bits; 8: lower 4, less 32  128: 4 bits                 144  16 values, 4
 *     iq5_k  2  2        4: upper 2 bits; 8: lower 4, less 32  128: 4 bits, 32: bit 4      176  32 values, 2
 *     iq6_k  2  2        16: i8                                128: 4 bits, 64: bits 4, 5  212  64 values, 1
 *
 * d is f16, shifted u16. Lower 4 bits of scales are two in a byte, the even group in the lower half. Codes of 4 bits: in iq4_k
 * 16 bytes for each pair, the even group in the lower halves; in iq5_k and iq6_k 32 bytes for each 64 elements, the first 32
 * in the lower halves. Codes of 1 and 2 bits: 32 bytes hold, in bits 0, 1, ... of each, elements 0..31, 32..63, ...
 *
 * Source: ggml-common.h and iqk_quantize.cpp of ik_llama.cpp (MIT, 8337e4cd), as facts. Its second tables
 * are the first plus the shift. Of iq6_k its row decoder has a polynomial that rounds to the table; what multiplies by
 * iq6_k there, and what quantizes to it, has the table, and so has this file.
 */
#include "lib/tensor/decode.h"

static const int8_t iq2_values[4] = {-31, -13, 1, 17};
static const int8_t iq3_values[8] = {-63, -40, -23, -10, 1, 13, 28, 47};
static const int8_t iq5_values[32] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
                                      -1,   5,    11,   17,  23,  29,  36,  43,  51,  59,  68,  77,  87,  97,  109, 121};
static const int8_t iq6_values[64] = {-127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
                                      -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
                                      -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
                                      47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};

/* Bits of `width` of element j (0..15) of group g, of codes that lie in planes of 32 elements. */
static inline unsigned plane_bits(const uint8_t *planes, int group, int j, int width)
{
    int per_byte = 8 / width, plane = group / 2;
    return (unsigned)planes[plane / per_byte * 32 + group % 2 * 16 + j] >> plane % per_byte * width & ((1u << width) - 1);
}

/* Four bits of element j of group g, where 32 bytes have 64 elements. */
static inline unsigned half_byte(const uint8_t *codes, int group, int j)
{
    return (unsigned)codes[group / 4 * 32 + group % 2 * 16 + j] >> group / 2 % 2 * 4 & 15;
}

/* Lower bits of a group's scale. */
static inline int nibble_of(const uint8_t *scales, int group) { return scales[group / 2] >> group % 2 * 4 & 15; }

/* Six bits less 32: the upper two in `high`, the lower four in `low`. */
static inline int scale6(const uint8_t *high, const uint8_t *low, int group)
{
    return (nibble_of(low, group) | (high[group / 4] >> group % 4 * 2 & 3) << 4) - 32;
}

/* The shift of a group's values. */
static inline int shift_of(const uint8_t *block, int group, int shift) { return zt_load_u16(block + 2) >> group & 1 ? shift : 0; }

void zt_decode_iq2_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 76)
        for (int group = 0; group < 16; group++, dst += 16) {
            float scale = zt_load_half(block) * (float)(nibble_of(block + 4, group) - 8);
            int shift = shift_of(block, group, 5);
            for (int j = 0; j < 16; j++) dst[j] = scale * (float)(iq2_values[plane_bits(block + 12, group, j, 2)] + shift);
        }
}

void zt_decode_iq3_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 110)
        for (int group = 0; group < 16; group++, dst += 16) {
            int magnitude = 2 * nibble_of(block + 6, group) + 1, shift = shift_of(block, group, 4);
            float scale = zt_load_half(block) * (float)(zt_load_u16(block + 4) >> group & 1 ? -magnitude : magnitude);
            for (int j = 0; j < 16; j++) {
                unsigned code = plane_bits(block + 14, group, j, 2) | plane_bits(block + 78, group, j, 1) << 2;
                dst[j] = scale * (float)(iq3_values[code] + shift);
            }
        }
}

void zt_decode_iq4_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 144)
        for (int group = 0; group < 16; group++, dst += 16) {
            const uint8_t *codes = block + 16 + group / 2 * 16;
            float scale = zt_load_half(block) * (float)scale6(block + 4, block + 8, group);
            int shift = shift_of(block, group, 4);
            for (int j = 0; j < 16; j++) dst[j] = scale * (float)(zt_iq4_values[codes[j] >> group % 2 * 4 & 15] + shift);
        }
}

void zt_decode_iq5_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 176)
        for (int group = 0; group < 16; group++, dst += 16) {
            float scale = zt_load_half(block) * (float)scale6(block + 4, block + 8, group);
            int shift = shift_of(block, group, 2);
            for (int j = 0; j < 16; j++) {
                unsigned code = half_byte(block + 16, group, j) | plane_bits(block + 144, group, j, 1) << 4;
                dst[j] = scale * (float)(iq5_values[code] + shift);
            }
        }
}

void zt_decode_iq6_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 212)
        for (int group = 0; group < 16; group++, dst += 16) {
            float scale = zt_load_half(block) * (float)(int8_t)block[4 + group];
            int shift = shift_of(block, group, 1);
            for (int j = 0; j < 16; j++) {
                unsigned code = half_byte(block + 20, group, j) | plane_bits(block + 148, group, j, 2) << 4;
                dst[j] = scale * (float)(iq6_values[code] + shift);
            }
        }
}
