/* dtype_iq.c - owns the IQ types: a code stands for a vector of a grid (grids.c), whose elements
 * are places in a short list of values; signs come beside it. */
#include "lib/tensor/decode.h"

/* ---- vectors ------------------------------------------------------------------------------- */

/* Eight elements of three values a side: v has them as they are at 0..2, negated at 4..6. */
static void put_iq2(float *dst, uint32_t vector, uint32_t signs, const float *v)
{
    for (int j = 0; j < 8; j++)
        dst[j] = v[(vector >> 2 * j & 3) | (signs >> j & 1) << 2];
}

/* Four elements of eight values a side: negated at 8..15. */
static void put_iq3(float *dst, uint32_t vector, uint32_t signs, const float *v)
{
    for (int j = 0; j < 4; j++)
        dst[j] = v[(vector >> 4 * j & 7) | (signs >> j & 1) << 3];
}

/* The values times a scale, and their negatives. */
static void scale_values(float scale, const uint8_t *values, int n, int half, float *v)
{
    for (int i = 0; i < n; i++) {
        v[i] = scale * (float)values[i];
        v[half + i] = -v[i];
    }
}

static void iq2_values(float scale, float v[8])
{
    static const uint8_t values[3] = {8, 25, 43};
    v[3] = v[7] = 0; /* no code */
    scale_values(scale, values, 3, 4, v);
}

/* Eight signs of which seven are kept: their number is even. */
static uint32_t even_signs(uint32_t seven)
{
    uint32_t odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    return (seven & 127) | ((odd ^ odd >> 1) & 1) << 7;
}

/* ---- about two bits ------------------------------------------------------------------------ */

/* f16 d; for 32 elements a word of four codes and a word of four times seven signs and a scale. */
void zt_decode_iq2_xxs(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 66) {
        float d = zt_load_half(b), v[8];
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = b + 2 + 8 * g;
            uint32_t rest = zt_load_u32(q + 4);
            iq2_values(d * (0.5f + (float)(rest >> 28)) * 0.25f, v);
            for (int k = 0; k < 4; k++)
                put_iq2(dst + i + 32 * g + 8 * k, zt_grid_iq2_xxs[q[k]],
                        even_signs(rest >> 7 * k & 127), v);
        }
    }
}

/* f16 d, 32 u16 of a code (9 bits) and seven signs, 16 scales of four bits for 16 elements each. */
void zt_decode_iq2_xs(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 74) {
        float d = zt_load_half(b), v[8];
        for (int k = 0; k < 32; k++) {
            uint32_t q = zt_load_u16(b + 2 + 2 * k);
            int scale = b[66 + k / 4] >> k / 2 % 2 * 4 & 15;
            iq2_values(d * (0.5f + (float)scale) * 0.25f, v);
            put_iq2(dst + i + 8 * k, zt_grid_iq2_xs[q & 511], even_signs(q >> 9), v);
        }
    }
}

/* f16 d, 32 bytes of codes, 32 of signs, 8 of the codes' upper two bits, scales as in iq2_xs. */
void zt_decode_iq2_s(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 82) {
        float d = zt_load_half(b), v[8];
        for (int k = 0; k < 32; k++) {
            uint32_t high = b[66 + k / 4] >> k % 4 * 2 & 3;
            int scale = b[74 + k / 4] >> k / 2 % 2 * 4 & 15;
            iq2_values(d * (0.5f + (float)scale) * 0.25f, v);
            put_iq2(dst + i + 8 * k, zt_grid_iq2_s[b[2 + k] | high << 8], b[34 + k], v);
        }
    }
}

/* ---- about three bits ---------------------------------------------------------------------- */

/* f16 d, 64 codes of four elements each, for 32 elements a word of signs and a scale as in iq2_xxs.
 */
void zt_decode_iq3_xxs(const void *src, float *dst, int64_t n)
{
    static const uint8_t values[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 98) {
        float d = zt_load_half(b), v[16];
        for (int g = 0; g < 8; g++) {
            uint32_t rest = zt_load_u32(b + 66 + 4 * g);
            scale_values(d * (0.5f + (float)(rest >> 28)) * 0.5f, values, 8, 8, v);
            for (int k = 0; k < 8; k++) {
                uint32_t signs = even_signs(rest >> k / 2 * 7 & 127) >> k % 2 * 4;
                put_iq3(dst + i + 32 * g + 4 * k, zt_grid_iq3_xxs[b[2 + 8 * g + k]], signs, v);
            }
        }
    }
}

/* f16 d, 64 codes, 8 bytes of their ninth bits, 32 bytes of signs, 8 scales of four bits. */
void zt_decode_iq3_s(const void *src, float *dst, int64_t n)
{
    static const uint8_t values[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 110) {
        float d = zt_load_half(b), v[16];
        for (int g = 0; g < 8; g++) {
            int scale = b[106 + g / 2] >> g % 2 * 4 & 15;
            scale_values(d * (float)(1 + 2 * scale), values, 8, 8, v);
            for (int k = 0; k < 8; k++) {
                uint32_t high = b[66 + g] >> k & 1, code = b[2 + 8 * g + k] | high << 8;
                uint32_t signs = (uint32_t)b[74 + 4 * g + k / 2] >> k % 2 * 4;
                put_iq3(dst + i + 32 * g + 4 * k, zt_grid_iq3_s[code], signs, v);
            }
        }
    }
}

/* ---- below two bits ------------------------------------------------------------------------ */

/* Eight elements of -1, 0 and 1, all moved by an eighth to one side, times a scale. */
static void put_iq1(float *dst, uint32_t code, bool down, float scale)
{
    float move = down ? -0.125f : 0.125f;
    const float v[4] = {scale * (-1 + move), scale * move, scale * (1 + move), 0};
    uint32_t vector = zt_grid_iq1_s[code];
    for (int j = 0; j < 8; j++)
        dst[j] = v[vector >> 2 * j & 3];
}

/* f16 d, 32 bytes of codes; for 32 elements a u16 of the four codes' upper three bits, a scale of
 * three bits and the direction. */
void zt_decode_iq1_s(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 50) {
        float d = zt_load_half(b);
        for (int k = 0; k < 32; k++) {
            uint32_t high = zt_load_u16(b + 34 + k / 4 * 2);
            float scale = d * (float)(2 * (high >> 12 & 7) + 1);
            put_iq1(dst + i + 8 * k, b[2 + k] | (high >> k % 4 * 3 & 7) << 8, high >> 15, scale);
        }
    }
}

/* 32 bytes of codes, 16 bytes of two times their upper three bits and a direction, four u16 of four
 * scales of three bits each, whose upper four bits together are f16 d, the lowest first. */
void zt_decode_iq1_m(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 56) {
        uint16_t half = 0;
        for (int w = 0; w < 4; w++)
            half = (uint16_t)(half | zt_load_u16(b + 48 + 2 * w) >> 12 << 4 * w);
        float d = zt_f16_to_f32(half);
        for (int k = 0; k < 32; k++) {
            uint32_t high = b[32 + k / 2] >> k % 2 * 4 & 15;
            uint32_t scales = zt_load_u16(b + 48 + k / 8 * 2);
            float scale = d * (float)(2 * (scales >> k / 2 % 4 * 3 & 7) + 1);
            put_iq1(dst + i + 8 * k, b[k] | (high & 7) << 8, high >> 3, scale);
        }
    }
}

/* ---- four bits ----------------------------------------------------------------------------- */

/* f16 d, eight scales of six bits less 32 (upper two bits in a u16, low four in 4 bytes); codes of
 * 32 elements each as in iq4_nl. */
void zt_decode_iq4_xs(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 136) {
        float d = zt_load_half(b);
        for (int g = 0; g < 8; g++) {
            int low = b[4 + g / 2] >> g % 2 * 4 & 15, high = zt_load_u16(b + 2) >> 2 * g & 3;
            float scale = d * (float)((low | high << 4) - 32);
            const uint8_t *q = b + 8 + 16 * g;
            for (int j = 0; j < 16; j++) {
                dst[i + 32 * g + j] = scale * (float)zt_iq4_values[q[j] & 15];
                dst[i + 32 * g + 16 + j] = scale * (float)zt_iq4_values[q[j] >> 4];
            }
        }
    }
}
