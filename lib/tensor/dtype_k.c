/* dtype_k.c - owns the K-quants: 256 elements, whose parts of 16 or 32 have small scales, and some
 * small minima, under one f16 scale for each. */
#include "lib/tensor/decode.h"

/* 16 bytes of a scale (low half) and a minimum (high half) for 16 elements each, 64 bytes of codes
 * of two bits, f16 d, f16 dmin. Each half of the block has 32 bytes of codes, of which bits 2 k are
 * elements 32 k .. 32 k + 31. */
void zt_decode_q2_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 84) {
        float d = zt_load_half(b + 80), dmin = zt_load_half(b + 82);
        for (int g = 0; g < 16; g++) {
            float scale = d * (float)(b[g] & 15), min = dmin * (float)(b[g] >> 4);
            const uint8_t *q = b + 16 + g / 8 * 32 + g % 2 * 16;
            for (int j = 0; j < 16; j++)
                dst[i + 16 * g + j] = scale * (float)(q[j] >> g / 2 % 4 * 2 & 3) - min;
        }
    }
}

/* Scale g of 16 of q3_k, six bits less 32: their low four bits are the halves of bytes 0..7 (8..15
 * the high ones), the upper two are in bytes 8..11, four in each. */
static int scale6(const uint8_t *s, int g)
{
    int low = s[g % 8] >> g / 8 * 4 & 15, high = s[8 + g % 4] >> g / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

/* 32 bytes of third bits, of which bit k is that of elements 32 k + j (if clear, 4 is taken off),
 * 64 bytes of codes as in q2_k, 12 bytes of scales, f16 d. */
void zt_decode_q3_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 110) {
        float d = zt_load_half(b + 108);
        for (int g = 0; g < 16; g++) {
            float scale = d * (float)scale6(b + 96, g);
            const uint8_t *high = b + g % 2 * 16, *q = b + 32 + g / 8 * 32 + g % 2 * 16;
            for (int j = 0; j < 16; j++) {
                int code = (q[j] >> g / 2 % 4 * 2 & 3) | (high[j] >> g / 2 & 1) << 2;
                dst[i + 16 * g + j] = scale * (float)(code - 4);
            }
        }
    }
}

/* q4_k and q5_k keep 8 scales and 8 minima of 6 bits in 12 bytes: the first four in the low six
 * bits of bytes 0..3 and 4..7, the others in the halves of bytes 8..11 with their upper two bits
 * on top of bytes 0..7. */
static inline void scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* f16 d, f16 dmin, 12 bytes of scales; for each pair of 32 elements 32 bytes of codes, the first
 * of the pair in the low halves. */
void zt_decode_q4_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 144) {
        float d = zt_load_half(b), dmin = zt_load_half(b + 2);
        for (int k = 0; k < 8; k++) {
            int sc, mn;
            scale_min(b + 4, k, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *q = b + 16 + k / 2 * 32;
            for (int j = 0; j < 32; j++)
                dst[i + 32 * k + j] = scale * (float)(q[j] >> (k & 1) * 4 & 15) - min;
        }
    }
}

/* The same with 32 bytes before the codes whose bit k is the fifth bit of elements 32 k + j. */
void zt_decode_q5_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 176) {
        float d = zt_load_half(b), dmin = zt_load_half(b + 2);
        for (int k = 0; k < 8; k++) {
            int sc, mn;
            scale_min(b + 4, k, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *high = b + 16, *q = b + 48 + k / 2 * 32;
            for (int j = 0; j < 32; j++) {
                int code = (q[j] >> (k & 1) * 4 & 15) | (high[j] >> k & 1) << 4;
                dst[i + 32 * k + j] = scale * (float)code - min;
            }
        }
    }
}

/* 128 bytes of low halves, 64 bytes of upper two bits, 16 signed scales (one for 16 elements),
 * f16 d. Each half of the block has 64 low bytes and 32 high bytes: quarter k of it (32 elements)
 * takes low bytes 32 (k & 1) + j, the high half of the byte for k >= 2, and bits 2 k of high byte
 * j. */
void zt_decode_q6_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 210) {
        float d = zt_load_half(b + 208);
        for (int e = 0; e < 256; e++) {
            int half = e / 128, k = e / 32 % 4, j = e % 32;
            int low = b[64 * half + 32 * (k & 1) + j] >> (k / 2) * 4 & 15;
            int high = b[128 + 32 * half + j] >> 2 * k & 3;
            float scale = d * (float)(int8_t)b[192 + e / 16];
            dst[i + e] = scale * (float)((low | high << 4) - 32);
        }
    }
}
