/* dtype_iq.c - owns the IQ types: a code stands for a vector of a grid (grids.c), whose elements
 * are places in a short list of values; signs come beside it. Elements are worked on as the bytes
 * of a 64-bit word. */
#include "lib/tensor/decode.h"

/* ---- vectors: eight elements as the bytes of a word --------------------------------------- */

#define EACH(byte) (0x0101010101010101u * (byte))

/* Eight fields of two bits to bytes. */
static inline uint64_t spread_pairs(uint64_t word)
{
    word = (word | word << 24) & 0x000000ff000000ff;
    word = (word | word << 12) & 0x000f000f000f000f;
    return (word | word << 6) & EACH(3);
}

/* Two times four fields of four bits to bytes. */
static inline uint64_t spread_nibbles(uint32_t low, uint32_t high)
{
    uint64_t word = low | (uint64_t)high << 32;
    word = (word | word << 8) & 0x00ff00ff00ff00ff;
    return (word | word << 4) & EACH(15);
}

/* Bytes, none of them 0, negated where their bit of signs is set: 255 - byte + 1. */
static inline uint64_t negate_bytes(uint64_t word, uint32_t signs)
{
    uint64_t bits = (EACH(1) * (signs & 255) & 0x8040201008040201) + EACH(127); /* to the top */
    uint64_t one = bits >> 7 & EACH(1);
    return (word ^ one * 255) + one;
}

/* Eight elements: a scale times signed bytes, to which `more` is added. */
static inline void put_bytes(float *dst, uint64_t word, float more, float scale)
{
    int8_t bytes[8];
    memcpy(bytes, &word, 8);
    for (int j = 0; j < 8; j++) dst[j] = scale * ((float)bytes[j] + more);
}

/* 8, 25, 43 */
static inline void put_iq2(float *dst, uint32_t vector, uint32_t signs, float scale)
{
    uint64_t code = spread_pairs(vector);
    put_bytes(dst, negate_bytes(EACH(8) + code * 17 + (code >> 1 & EACH(1)), signs), 0, scale);
}

/* Eight signs of which seven are kept: their number is even. */
static inline uint32_t even_signs(uint32_t seven)
{
    uint32_t odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    return (seven & 127) | ((odd ^ odd >> 1) & 1) << 7;
}

/* ---- about two bits ------------------------------------------------------------------------ */

/* f16 `block_scale`; for 32 elements a word of four codes and a word of four times seven signs and a scale. */
void zt_decode_iq2_xxs(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 66) {
        float block_scale = zt_load_half(block);
        for (int group = 0; group < 8; group++) {
            const uint8_t *codes = block + 2 + 8 * group;
            uint32_t rest = zt_load_u32(codes + 4);
            float scale = block_scale * (0.5f + (float)(rest >> 28)) * 0.25f;
            for (int k = 0; k < 4; k++)
                put_iq2(dst + i + 32 * group + 8 * k, zt_grid_iq2_xxs[codes[k]], even_signs(rest >> 7 * k & 127), scale);
        }
    }
}

/* f16 `block_scale`, 32 u16 of a code (9 bits) and seven signs, 16 scales of four bits for 16 elements each. */
void zt_decode_iq2_xs(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 74) {
        float block_scale = zt_load_half(block);
        for (int k = 0; k < 32; k++) {
            uint32_t code = zt_load_u16(block + 2 + 2 * k);
            float scale = block_scale * (0.5f + (float)(block[66 + k / 4] >> k / 2 % 2 * 4 & 15)) * 0.25f;
            put_iq2(dst + i + 8 * k, zt_grid_iq2_xs[code & 511], even_signs(code >> 9), scale);
        }
    }
}

/* f16 `block_scale`, 32 bytes of codes, 32 of signs, 8 of the codes' upper two bits, scales as in iq2_xs. */
void zt_decode_iq2_s(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 82) {
        float block_scale = zt_load_half(block);
        for (int k = 0; k < 32; k++) {
            uint32_t high = block[66 + k / 4] >> k % 4 * 2 & 3;
            float scale = block_scale * (0.5f + (float)(block[74 + k / 4] >> k / 2 % 2 * 4 & 15)) * 0.25f;
            put_iq2(dst + i + 8 * k, zt_grid_iq2_s[block[2 + k] | high << 8], block[34 + k], scale);
        }
    }
}

/* ---- about three bits ---------------------------------------------------------------------- */

/* f16 `block_scale`, 64 codes of four elements each, for 32 elements a word of signs and a scale as in iq2_xxs.
 * Values 4, 12, 20 ... 52, 62. */
void zt_decode_iq3_xxs(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 98) {
        float block_scale = zt_load_half(block);
        for (int group = 0; group < 8; group++) {
            const uint8_t *codes = block + 2 + 8 * group;
            uint32_t rest = zt_load_u32(block + 66 + 4 * group);
            float scale = block_scale * (0.5f + (float)(rest >> 28)) * 0.5f;
            for (int k = 0; k < 4; k++) {
                uint64_t code = spread_nibbles(zt_grid_iq3_xxs[codes[2 * k]], zt_grid_iq3_xxs[codes[2 * k + 1]]);
                uint64_t last = (code + EACH(1)) >> 3 & EACH(1);
                uint64_t word = EACH(4) + code * 8 + last * 2;
                word = negate_bytes(word, even_signs(rest >> 7 * k & 127));
                put_bytes(dst + i + 32 * group + 8 * k, word, 0, scale);
            }
        }
    }
}

/* f16 `block_scale`, 64 codes, 8 bytes of their ninth bits, 32 bytes of signs, 8 scales of four bits. Values
 * 1, 3 ... 15. */
void zt_decode_iq3_s(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 110) {
        float block_scale = zt_load_half(block);
        for (int group = 0; group < 8; group++) {
            const uint8_t *codes = block + 2 + 8 * group;
            float scale = block_scale * (float)(1 + 2 * (block[106 + group / 2] >> group % 2 * 4 & 15));
            for (int k = 0; k < 4; k++) {
                uint32_t high = (uint32_t)block[66 + group] >> 2 * k;
                uint64_t code = spread_nibbles(zt_grid_iq3_s[codes[2 * k] | (high & 1) << 8],
                                               zt_grid_iq3_s[codes[2 * k + 1] | (high & 2) << 7]);
                uint64_t word = negate_bytes(EACH(1) + code * 2, block[74 + 4 * group + k]);
                put_bytes(dst + i + 32 * group + 8 * k, word, 0, scale);
            }
        }
    }
}

/* ---- below two bits ------------------------------------------------------------------------ */

/* Eight elements of -1, 0 and 1, all moved by an eighth to one side, times a scale. */
static inline void put_iq1(float *dst, uint32_t code, bool down, float scale)
{
    put_bytes(dst, spread_pairs(zt_grid_iq1_s[code]), down ? -1.125f : -0.875f, scale);
}

/* f16 `block_scale`, 32 bytes of codes; for 32 elements a u16 of the four codes' upper three bits, a scale of
 * three bits and the direction. */
void zt_decode_iq1_s(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 50) {
        float block_scale = zt_load_half(block);
        for (int k = 0; k < 32; k++) {
            uint32_t high = zt_load_u16(block + 34 + k / 4 * 2);
            float scale = block_scale * (float)(2 * (high >> 12 & 7) + 1);
            put_iq1(dst + i + 8 * k, block[2 + k] | (high >> k % 4 * 3 & 7) << 8, high >> 15, scale);
        }
    }
}

/* 32 bytes of codes, 16 bytes of two times their upper three bits and a direction, four u16 of four
 * scales of three bits each, whose upper four bits together are f16 `block_scale`, the lowest first. */
void zt_decode_iq1_m(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 56) {
        uint16_t half = 0;
        for (int w = 0; w < 4; w++) half = (uint16_t)(half | zt_load_u16(block + 48 + 2 * w) >> 12 << 4 * w);
        float block_scale = zt_f16_to_f32(half);
        for (int k = 0; k < 32; k++) {
            uint32_t high = block[32 + k / 2] >> k % 2 * 4 & 15;
            uint32_t scales = zt_load_u16(block + 48 + k / 8 * 2);
            float scale = block_scale * (float)(2 * (scales >> k / 2 % 4 * 3 & 7) + 1);
            put_iq1(dst + i + 8 * k, block[k] | (high & 7) << 8, high >> 3, scale);
        }
    }
}

/* ---- four bits ----------------------------------------------------------------------------- */

/* f16 `block_scale`, eight scales of six bits less 32 (upper two bits in a u16, low four in 4 bytes); codes of
 * 32 elements each as in iq4_nl. */
void zt_decode_iq4_xs(const void *src, float *dst, int64_t count)
{
    const uint8_t *block = src;
    for (int64_t i = 0; i < count; i += 256, block += 136) {
        float block_scale = zt_load_half(block);
        for (int group = 0; group < 8; group++) {
            int low = block[4 + group / 2] >> group % 2 * 4 & 15, high = zt_load_u16(block + 2) >> 2 * group & 3;
            float scale = block_scale * (float)((low | high << 4) - 32);
            const uint8_t *codes = block + 8 + 16 * group;
            for (int j = 0; j < 16; j++) {
                dst[i + 32 * group + j] = scale * (float)zt_iq4_values[codes[j] & 15];
                dst[i + 32 * group + 16 + j] = scale * (float)zt_iq4_values[codes[j] >> 4];
            }
        }
    }
}
