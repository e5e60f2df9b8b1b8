/* dtype_iq.c - owns the IQ types: a code stands for a vector of a grid (grids.c), whose elements
 * are places in a short list of values; signs come beside it. Elements are worked on as the bytes
 * of a 64-bit word. */
#include "lib/tensor/decode.h"

/* ---- vectors: eight elements as the bytes of a word --------------------------------------- */

#define EACH(byte) (0x0101010101010101u * (byte))

/* Eight fields of two bits to bytes. */
static inline uint64_t spread2(uint64_t x)
{
    x = (x | x << 24) & 0x000000ff000000ff;
    x = (x | x << 12) & 0x000f000f000f000f;
    return (x | x << 6) & EACH(3);
}

/* Two times four fields of four bits to bytes. */
static inline uint64_t spread4(uint32_t low, uint32_t high)
{
    uint64_t x = low | (uint64_t)high << 32;
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    return (x | x << 4) & EACH(15);
}

/* Bytes, none of them 0, negated where their bit of signs is set: 255 - byte + 1. */
static inline uint64_t negate(uint64_t x, uint32_t signs)
{
    uint64_t bits = (EACH(1) * (signs & 255) & 0x8040201008040201) + EACH(127); /* to the top */
    uint64_t one = bits >> 7 & EACH(1);
    return (x ^ one * 255) + one;
}

/* Eight elements: a scale times signed bytes, to which `more` is added. */
static inline void put_bytes(float *dst, uint64_t x, float more, float scale)
{
    int8_t v[8];
    memcpy(v, &x, 8);
    for (int j = 0; j < 8; j++)
        dst[j] = scale * ((float)v[j] + more);
}

/* 8, 25, 43 */
static inline void put_iq2(float *dst, uint32_t vector, uint32_t signs, float scale)
{
    uint64_t code = spread2(vector);
    put_bytes(dst, negate(EACH(8) + code * 17 + (code >> 1 & EACH(1)), signs), 0, scale);
}

/* Eight signs of which seven are kept: their number is even. */
static inline uint32_t even_signs(uint32_t seven)
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
        float d = zt_load_half(b);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = b + 2 + 8 * g;
            uint32_t rest = zt_load_u32(q + 4);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
            for (int k = 0; k < 4; k++)
                put_iq2(dst + i + 32 * g + 8 * k, zt_grid_iq2_xxs[q[k]],
                        even_signs(rest >> 7 * k & 127), scale);
        }
    }
}

/* f16 d, 32 u16 of a code (9 bits) and seven signs, 16 scales of four bits for 16 elements each. */
void zt_decode_iq2_xs(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 74) {
        float d = zt_load_half(b);
        for (int k = 0; k < 32; k++) {
            uint32_t q = zt_load_u16(b + 2 + 2 * k);
            float scale = d * (0.5f + (float)(b[66 + k / 4] >> k / 2 % 2 * 4 & 15)) * 0.25f;
            put_iq2(dst + i + 8 * k, zt_grid_iq2_xs[q & 511], even_signs(q >> 9), scale);
        }
    }
}

/* f16 d, 32 bytes of codes, 32 of signs, 8 of the codes' upper two bits, scales as in iq2_xs. */
void zt_decode_iq2_s(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 82) {
        float d = zt_load_half(b);
        for (int k = 0; k < 32; k++) {
            uint32_t high = b[66 + k / 4] >> k % 4 * 2 & 3;
            float scale = d * (0.5f + (float)(b[74 + k / 4] >> k / 2 % 2 * 4 & 15)) * 0.25f;
            put_iq2(dst + i + 8 * k, zt_grid_iq2_s[b[2 + k] | high << 8], b[34 + k], scale);
        }
    }
}

/* ---- about three bits ---------------------------------------------------------------------- */

/* f16 d, 64 codes of four elements each, for 32 elements a word of signs and a scale as in iq2_xxs.
 * Values 4, 12, 20 ... 52, 62. */
void zt_decode_iq3_xxs(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 98) {
        float d = zt_load_half(b);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = b + 2 + 8 * g;
            uint32_t rest = zt_load_u32(b + 66 + 4 * g);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
            for (int k = 0; k < 4; k++) {
                uint64_t code =
                    spread4(zt_grid_iq3_xxs[q[2 * k]], zt_grid_iq3_xxs[q[2 * k + 1]]);
                uint64_t last = (code + EACH(1)) >> 3 & EACH(1);
                uint64_t x = EACH(4) + code * 8 + last * 2;
                x = negate(x, even_signs(rest >> 7 * k & 127));
                put_bytes(dst + i + 32 * g + 8 * k, x, 0, scale);
            }
        }
    }
}

/* f16 d, 64 codes, 8 bytes of their ninth bits, 32 bytes of signs, 8 scales of four bits. Values
 * 1, 3 ... 15. */
void zt_decode_iq3_s(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 110) {
        float d = zt_load_half(b);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = b + 2 + 8 * g;
            float scale = d * (float)(1 + 2 * (b[106 + g / 2] >> g % 2 * 4 & 15));
            for (int k = 0; k < 4; k++) {
                uint32_t high = (uint32_t)b[66 + g] >> 2 * k;
                uint64_t code = spread4(zt_grid_iq3_s[q[2 * k] | (high & 1) << 8],
                                        zt_grid_iq3_s[q[2 * k + 1] | (high & 2) << 7]);
                uint64_t x = negate(EACH(1) + code * 2, b[74 + 4 * g + k]);
                put_bytes(dst + i + 32 * g + 8 * k, x, 0, scale);
            }
        }
    }
}

/* ---- below two bits ------------------------------------------------------------------------ */

/* Eight elements of -1, 0 and 1, all moved by an eighth to one side, times a scale. */
static inline void put_iq1(float *dst, uint32_t code, bool down, float scale)
{
    put_bytes(dst, spread2(zt_grid_iq1_s[code]), down ? -1.125f : -0.875f, scale);
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
