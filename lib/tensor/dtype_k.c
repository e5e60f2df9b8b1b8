/* dtype_k.c - owns the K-quants: 256 elements, whose parts of 16 or 32 have small scales, and some
 * small minima, under one f16 scale for each. */
#include "lib/tensor/decode.h"

/* 16 bytes of a scale (low half) and a minimum (high half) for 16 elements each, 64 bytes of codes
 * of two bits, f16 `block_scale`, f16 dmin. Each half of the block has 32 bytes of codes, of which bits 2 k are
 * elements 32 k .. 32 k + 31. */
void zt_decode_q2_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 84) {
        float block_scale = zt_load_half(block + 80), dmin = zt_load_half(block + 82);
        for (int group = 0; group < 16; group++) {
            float scale = block_scale * (float)(block[group] & 15), min = dmin * (float)(block[group] >> 4);
            const uint8_t *codes = block + 16 + group / 8 * 32 + group % 2 * 16;
            for (int j = 0; j < 16; j++) dst[i + 16 * group + j] = scale * (float)(codes[j] >> group / 2 % 4 * 2 & 3) - min;
        }
    }
}

/* Scale `group` of 16 of q3_k, six bits less 32: their low four bits are the halves of bytes 0..7 (8..15
 * the high ones), the upper two are in bytes 8..11, four in each. */
static int get_scale6(const uint8_t *scales, int group)
{
    int low = scales[group % 8] >> group / 8 * 4 & 15, high = scales[8 + group % 4] >> group / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

/* 32 bytes of third bits, of which bit k is that of elements 32 k + j (if clear, 4 is taken off),
 * 64 bytes of codes as in q2_k, 12 bytes of scales, f16 `block_scale`. */
void zt_decode_q3_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 110) {
        float block_scale = zt_load_half(block + 108);
        for (int group = 0; group < 16; group++) {
            float scale = block_scale * (float)get_scale6(block + 96, group);
            const uint8_t *high = block + group % 2 * 16, *codes = block + 32 + group / 8 * 32 + group % 2 * 16;
            for (int j = 0; j < 16; j++) {
                int code = (codes[j] >> group / 2 % 4 * 2 & 3) | (high[j] >> group / 2 & 1) << 2;
                dst[i + 16 * group + j] = scale * (float)(code - 4);
            }
        }
    }
}

/* q4_k and q5_k keep 8 scales and 8 minima of 6 bits in 12 bytes: the first four in the low six
 * bits of bytes 0..3 and 4..7, the others in the halves of bytes 8..11 with their upper two bits
 * on top of bytes 0..7. */
static inline void scale_min(const uint8_t *scales, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = scales[j] & 63;
        *min = scales[j + 4] & 63;
    } else {
        *scale = (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
        *min = scales[j + 4] >> 4 | (scales[j] >> 6) << 4;
    }
}

/* f16 `block_scale`, f16 dmin, 12 bytes of scales; for each pair of 32 elements 32 bytes of codes, the first
 * of the pair in the low halves. */
void zt_decode_q4_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 144) {
        float block_scale = zt_load_half(block), dmin = zt_load_half(block + 2);
        for (int k = 0; k < 8; k++) {
            int group_scale, minimum;
            scale_min(block + 4, k, &group_scale, &minimum);
            float scale = block_scale * (float)group_scale, min = dmin * (float)minimum;
            const uint8_t *codes = block + 16 + k / 2 * 32;
            for (int j = 0; j < 32; j++) dst[i + 32 * k + j] = scale * (float)(codes[j] >> (k & 1) * 4 & 15) - min;
        }
    }
}

/* The same with 32 bytes before the codes whose bit k is the fifth bit of elements 32 k + j. */
void zt_decode_q5_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 176) {
        float block_scale = zt_load_half(block), dmin = zt_load_half(block + 2);
        for (int k = 0; k < 8; k++) {
            int group_scale, minimum;
            scale_min(block + 4, k, &group_scale, &minimum);
            float scale = block_scale * (float)group_scale, min = dmin * (float)minimum;
            const uint8_t *high = block + 16, *codes = block + 48 + k / 2 * 32;
            for (int j = 0; j < 32; j++) {
                int code = (codes[j] >> (k & 1) * 4 & 15) | (high[j] >> k & 1) << 4;
                dst[i + 32 * k + j] = scale * (float)code - min;
            }
        }
    }
}

/* 128 bytes of low halves, 64 bytes of upper two bits, 16 signed scales (one for 16 elements),
 * f16 `block_scale`. Each half of the block has 64 low bytes and 32 high bytes: quarter k of it (32 elements)
 * takes low bytes 32 (k & 1) + j, the high half of the byte for k >= 2, and bits 2 k of high byte
 * j. */
void zt_decode_q6_k(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 210) {
        float block_scale = zt_load_half(block + 208);
        for (int e = 0; e < 256; e++) {
            int half = e / 128, k = e / 32 % 4, j = e % 32;
            int low = block[64 * half + 32 * (k & 1) + j] >> (k / 2) * 4 & 15;
            int high = block[128 + 32 * half + j] >> 2 * k & 3;
            float scale = block_scale * (float)(int8_t)block[192 + e / 16];
            dst[i + e] = scale * (float)((low | high << 4) - 32);
        }
    }
}
