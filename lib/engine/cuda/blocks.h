/* blocks.h - elements of every float and block type, four at a time, as files have them.
 *
 * Block layouts are those of lib/tensor/dtype_*.c, whose decoders are the types' meaning. A block
 * type that is fast is not read by this but from its packed form (packed.h).
 */
#ifndef ZT_CU_BLOCKS_H
#define ZT_CU_BLOCKS_H

#include "lib/engine/cuda/args.h"
#include "lib/engine/cuda/prim.h"

typedef const uint8_t *bytes;

FN uint32_t u16_at(bytes p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
FN uint32_t u32_at(bytes p) { return u16_at(p) | u16_at(p + 2) << 16; }
FN float half_of(uint32_t h) { return f16_to_f32((uint16_t)h); }
FN float half_at(bytes p) { return half_of(u16_at(p)); }
FN float float_of(uint32_t bits) { return bits_as<float>(bits); }

/* The n-th byte of a word. */
FN uint32_t byte_of(uint32_t w, int n) { return w >> 8 * n & 255; }

/* ---- floats of a byte and less --------------------------------------------------------------- */

/* Exponent and fraction of a number of `fraction` fraction bits and this bias; no sign. */
FN float small_float(uint32_t a, int fraction, int bias)
{
    uint32_t exponent = a >> fraction, part = a & ((1u << fraction) - 1);
    if (exponent) return float_of((exponent + 127 - (uint32_t)bias) << 23 | part << (23 - fraction));
    return (float)part * float_of((uint32_t)(128 - bias - fraction) << 23);
}

FN float small_signed(uint32_t code, int fraction, int bias)
{
    float f = small_float(code & 127, fraction, bias);
    return code >> 7 ? -f : f;
}

FN float f8_value(int type, uint32_t c)
{
    const float nan = float_of(0x7fc00000), inf = float_of(0x7f800000);
    if (type == ZT_CU_F8_E4M3) return (c & 127) == 127 ? nan : small_signed(c, 3, 7);
    if (type == ZT_CU_F8_E5M2) {
        if ((c & 127) > 0x7c) return nan;
        if ((c & 127) == 0x7c) return c >> 7 ? -inf : inf;
        return small_signed(c, 2, 15);
    }
    if (type == ZT_CU_F8_E8M0) return c == 255 ? nan : float_of(c ? c << 23 : 0x400000);
    if (c == 0x80) return nan;
    return type == ZT_CU_F8_E4M3FNUZ ? small_signed(c, 3, 8) : small_signed(c, 2, 16);
}

/* ---- blocks of whole numbers ----------------------------------------------------------------- */

/* Four codes of four bits at element i of 2 each: the low halves are the first. */
FN void nibbles(bytes q, int each, int i, int code[4])
{
    for (int j = 0; j < 4; j++) code[j] = q[(i + j) % each] >> (i >= each ? 4 : 0) & 15;
}

FN void q4_four(bytes b, int at, int i, int less, float d, float m, float v[4])
{
    int code[4];
    nibbles(b + at, 16, i, code);
    for (int j = 0; j < 4; j++) v[j] = (float)(code[j] - less) * d + m;
}

FN void q5_four(bytes b, int at, int i, int less, float d, float m, float v[4])
{
    int code[4];
    uint32_t high = u32_at(b + at);
    nibbles(b + at + 4, 16, i, code);
    for (int j = 0; j < 4; j++) v[j] = (float)((code[j] | (int)(high >> (i + j) & 1) << 4) - less) * d + m;
}

/* Of iq4_nl and iq4_xs; denser near 0. */
CONSTANT int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

FN void looked_up(bytes q, int each, int i, bool e2m1, float d, float v[4])
{
    int code[4];
    nibbles(q, each, i, code);
    for (int j = 0; j < 4; j++) {
        int c = code[j], low = c & 7;
        int size = low < 4 ? low : low < 6 ? 2 * low - 4 : 4 * low - 16;
        v[j] = (float)(e2m1 ? (c & 8 ? -size : size) : iq4_values[c]) * d;
    }
}

FN float e4m3_half(uint32_t e) { return e == 0x7f ? 0 : small_float(e & 127, 3, 8); }

/* Digit k of a byte of tq1_0. */
FN float trit(uint32_t q, int k)
{
    uint32_t power = k == 0 ? 1 : k == 1 ? 3 : k == 2 ? 9 : k == 3 ? 27 : 81;
    return (float)((int)((q * power & 255) * 3 >> 8) - 1);
}

FN void tq1_four(bytes b, int i, float v[4])
{
    float d = half_at(b + 52);
    for (int j = 0; j < 4; j++) {
        int e = i + j;
        uint32_t q = e < 160 ? b[e % 32] : e < 240 ? b[32 + (e - 160) % 16] : b[48 + (e - 240) % 4];
        v[j] = trit(q, e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4) * d;
    }
}

/* Two bits at element i of a half of 128 whose 32 bytes hold 32 k .. 32 k + 31 in bits 2 k. */
FN int two_bits(bytes q, int i) { return q[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3; }

/* ---- K-quants -------------------------------------------------------------------------------- */

/* Scale and minimum j of q4_k and q5_k, of 12 bytes. */
FN void scale_min(bytes s, int j, float *scale, float *min)
{
    uint32_t sc = j < 4 ? s[j] & 63u : (s[j + 4] & 15u) | (uint32_t)(s[j - 4] >> 6) << 4;
    uint32_t mn = j < 4 ? s[j + 4] & 63u : (uint32_t)s[j + 4] >> 4 | (uint32_t)(s[j] >> 6) << 4;
    *scale = (float)sc, *min = (float)mn;
}

FN void q2_k_four(bytes b, int i, float v[4])
{
    float scale = half_at(b + 80) * (float)(b[i / 16] & 15);
    float min = half_at(b + 82) * (float)(b[i / 16] >> 4);
    for (int j = 0; j < 4; j++) v[j] = scale * (float)two_bits(b + 16, i + j) - min;
}

FN void q3_k_four(bytes b, int i, float v[4])
{
    int g = i / 16, low = b[96 + g % 8] >> g / 8 * 4 & 15, top = b[104 + g % 4] >> g / 4 * 2 & 3;
    float scale = half_at(b + 108) * (float)((low | top << 4) - 32);
    for (int j = 0; j < 4; j++) {
        int high = b[(i + j) % 32] >> i / 32 & 1;
        v[j] = scale * (float)((two_bits(b + 32, i + j) | high << 2) - 4);
    }
}

FN int q45_k_code(bytes b, int i, bool five)
{
    int code = b[(five ? 48 : 16) + i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
    return five ? code | (b[16 + i % 32] >> i / 32 & 1) << 4 : code;
}

FN void q45_k_four(bytes b, int i, bool five, float v[4])
{
    float sc, mn;
    scale_min(b + 4, i / 32, &sc, &mn);
    float scale = half_at(b) * sc, min = half_at(b + 2) * mn;
    for (int j = 0; j < 4; j++) v[j] = scale * (float)q45_k_code(b, i + j, five) - min;
}

FN int q6_k_code(bytes b, int i)
{
    int half = i / 128, k = i / 32 % 4;
    int low = b[64 * half + 32 * (k & 1) + i % 32] >> k / 2 * 4 & 15;
    return low | (b[128 + 32 * half + i % 32] >> 2 * k & 3) << 4;
}

FN void q6_k_four(bytes b, int i, float v[4])
{
    float scale = half_at(b + 208) * (float)(int8_t)b[192 + i / 16];
    for (int j = 0; j < 4; j++) v[j] = scale * (float)(q6_k_code(b, i + j) - 32);
}

FN void iq4_xs_four(bytes b, int i, float v[4])
{
    int g = i / 32, low = b[4 + g / 2] >> g % 2 * 4 & 15;
    int high = (int)(u16_at(b + 2) >> 2 * g & 3);
    looked_up(b + 8 + 16 * g, 16, i % 32, false, half_at(b) * (float)((low | high << 4) - 32), v);
}

/* ---- codes that stand for vectors of a grid ------------------------------------------------- */

/* Eight signs of which seven are kept: their number is even. */
FN uint32_t even_signs(uint32_t seven)
{
    uint32_t odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    return (seven & 127) | ((odd ^ odd >> 1) & 1) << 7;
}

/* Elements i .. i + 3 (of eight) of two bits each: 8, 25 or 43. */
FN void iq2_values(uint32_t vector, uint32_t signs, float scale, int i, float v[4])
{
    for (int j = i; j < i + 4; j++) {
        int code = (int)(vector >> 2 * j & 3), size = 8 + code * 17 + (code >> 1 & 1);
        v[j - i] = scale * (float)(signs >> j & 1 ? -size : size);
    }
}

FN void iq2_xxs_four(bytes b, const uint16_t *grid, int i, float v[4])
{
    bytes q = b + 2 + 8 * (i / 32);
    uint32_t rest = u32_at(q + 4);
    int k = i / 8 % 4;
    float scale = half_at(b) * (0.5f + (float)(rest >> 28)) * 0.25f;
    iq2_values(grid[q[k]], even_signs(rest >> 7 * k & 127), scale, i % 8, v);
}

FN void iq2_xs_four(bytes b, const uint16_t *grid, int i, float v[4])
{
    int k = i / 8;
    uint32_t q = u16_at(b + 2 + 2 * k);
    float scale = half_at(b) * (0.5f + (float)(b[66 + k / 4] >> k / 2 % 2 * 4 & 15)) * 0.25f;
    iq2_values(grid[q & 511], even_signs(q >> 9), scale, i % 8, v);
}

FN void iq2_s_four(bytes b, const uint16_t *grid, int i, float v[4])
{
    int k = i / 8;
    uint32_t high = b[66 + k / 4] >> k % 4 * 2 & 3;
    float scale = half_at(b) * (0.5f + (float)(b[74 + k / 4] >> k / 2 % 2 * 4 & 15)) * 0.25f;
    iq2_values(grid[b[2 + k] | high << 8], b[34 + k], scale, i % 8, v);
}

FN void iq3_xxs_four(bytes b, const uint16_t *grid, int i, float v[4])
{
    uint32_t rest = u32_at(b + 66 + 4 * (i / 32)), vector = grid[b[2 + i / 4]];
    float scale = half_at(b) * (0.5f + (float)(rest >> 28)) * 0.5f;
    uint32_t signs = even_signs(rest >> 7 * (i / 8 % 4) & 127) >> i % 8;
    for (int j = 0; j < 4; j++) {
        int code = (int)(vector >> 4 * j & 15), size = 4 + code * 8 + (code == 7 ? 2 : 0);
        v[j] = scale * (float)(signs >> j & 1 ? -size : size);
    }
}

FN int iq3_s_scale(bytes b, int part) { return 1 + 2 * (b[106 + part / 2] >> part % 2 * 4 & 15); }

/* Odd numbers of up to 31. */
FN void iq3_s_codes(bytes b, const uint16_t *grid, int i, int code[4])
{
    int g = i / 32, k = i / 8 % 4;
    uint32_t high = (uint32_t)b[66 + g] >> i / 4 % 8 & 1, signs = (uint32_t)b[74 + 4 * g + k] >> i % 8;
    uint32_t vector = grid[b[2 + i / 4] | high << 8];
    for (int j = 0; j < 4; j++) {
        int size = 1 + 2 * (int)(vector >> 4 * j & 15);
        code[j] = signs >> j & 1 ? -size : size;
    }
}

FN void iq3_s_four(bytes b, const uint16_t *grid, int i, float v[4])
{
    int code[4];
    iq3_s_codes(b, grid, i, code);
    for (int j = 0; j < 4; j++) v[j] = half_at(b) * (float)iq3_s_scale(b, i / 32) * (float)code[j];
}

/* Elements of -1, 0 and 1, all moved by an eighth to one side. */
FN void iq1_values(uint32_t vector, bool down, float scale, int i, float v[4])
{
    for (int j = 0; j < 4; j++) v[j] = scale * ((float)(vector >> 2 * (i + j) & 3) + (down ? -1.125f : -0.875f));
}

FN void iq1_s_four(bytes b, const uint16_t *grid, int i, float v[4])
{
    int k = i / 8;
    uint32_t high = u16_at(b + 34 + k / 4 * 2);
    float scale = half_at(b) * (float)(2 * (high >> 12 & 7) + 1);
    iq1_values(grid[b[2 + k] | (high >> k % 4 * 3 & 7) << 8], high >> 15, scale, i % 8, v);
}

FN void iq1_m_four(bytes b, const uint16_t *grid, int i, float v[4])
{
    int k = i / 8;
    uint32_t half = 0, high = (uint32_t)b[32 + k / 2] >> k % 2 * 4 & 15;
    for (int w = 0; w < 4; w++) half |= u16_at(b + 48 + 2 * w) >> 12 << 4 * w;
    uint32_t scales = u16_at(b + 48 + k / 8 * 2);
    float scale = half_of(half) * (float)(2 * (scales >> k / 2 % 4 * 3 & 7) + 1);
    iq1_values(grid[b[k] | (high & 7) << 8], high >> 3, scale, i % 8, v);
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Elements i .. i + 3 of a block at b, i a multiple of 4. */
FN void block_four(int type, bytes b, const uint16_t *grid, int i, float v[4])
{
    switch (type) {
    case ZT_CU_Q4_0: q4_four(b, 2, i, 8, half_at(b), -0.0f, v); break; /* which leaves a -0 what it is */
    case ZT_CU_Q4_1: q4_four(b, 4, i, 0, half_at(b), half_at(b + 2), v); break;
    case ZT_CU_Q5_0: q5_four(b, 2, i, 16, half_at(b), -0.0f, v); break;
    case ZT_CU_Q5_1: q5_four(b, 4, i, 0, half_at(b), half_at(b + 2), v); break;
    case ZT_CU_Q8_0:
        for (int j = 0; j < 4; j++) v[j] = (float)(int8_t)b[2 + i + j] * half_at(b);
        break;
    case ZT_CU_IQ4_NL: looked_up(b + 2, 16, i, false, half_at(b), v); break;
    case ZT_CU_MXFP4: /* the half of e8m0 is subnormal at its lowest two exponents */
        looked_up(b + 1, 16, i, true, float_of(b[0] < 2 ? 0x200000u << b[0] : (b[0] - 1u) << 23), v);
        break;
    case ZT_CU_NVFP4: looked_up(b + 4 + 8 * (i / 16), 8, i % 16, true, e4m3_half(b[i / 16]), v); break;
    case ZT_CU_Q1_0:
        for (int j = 0; j < 4; j++) v[j] = b[2 + i / 8] >> (i + j) % 8 & 1 ? half_at(b) : -half_at(b);
        break;
    case ZT_CU_Q2_0:
        for (int j = 0; j < 4; j++) v[j] = (float)((b[2 + i / 4] >> 2 * j & 3) - 1) * half_at(b);
        break;
    case ZT_CU_TQ1_0: tq1_four(b, i, v); break;
    case ZT_CU_TQ2_0:
        for (int j = 0; j < 4; j++) v[j] = (float)(two_bits(b, i + j) - 1) * half_at(b + 64);
        break;
    case ZT_CU_Q2_K: q2_k_four(b, i, v); break;
    case ZT_CU_Q3_K: q3_k_four(b, i, v); break;
    case ZT_CU_Q4_K: q45_k_four(b, i, false, v); break;
    case ZT_CU_Q5_K: q45_k_four(b, i, true, v); break;
    case ZT_CU_Q6_K: q6_k_four(b, i, v); break;
    case ZT_CU_IQ4_XS: iq4_xs_four(b, i, v); break;
    case ZT_CU_IQ3_XXS: iq3_xxs_four(b, grid, i, v); break;
    case ZT_CU_IQ3_S: iq3_s_four(b, grid, i, v); break;
    case ZT_CU_IQ2_XXS: iq2_xxs_four(b, grid, i, v); break;
    case ZT_CU_IQ2_XS: iq2_xs_four(b, grid, i, v); break;
    case ZT_CU_IQ2_S: iq2_s_four(b, grid, i, v); break;
    case ZT_CU_IQ1_S: iq1_s_four(b, grid, i, v); break;
    default: iq1_m_four(b, grid, i, v); break;
    }
}

/* Element k of a row of a plain type, or of bytes of `type` that are several numbers. */
FN float plain_value(int type, bytes row, int64_t k)
{
    uint32_t c;
    switch (type) {
    case ZT_CU_F32: return ((const float *)row)[k];
    case ZT_CU_F16: return get(((const f16 *)row)[k]);
    case ZT_CU_BF16: return get(((const bf16 *)row)[k]);
    case ZT_CU_I4: c = row[k / 2] >> k % 2 * 4 & 15u; return (float)((int)c - (c & 8 ? 16 : 0));
    case ZT_CU_U4: return (float)(row[k / 2] >> k % 2 * 4 & 15u);
    case ZT_CU_I2: c = row[k / 4] >> k % 4 * 2 & 3u; return (float)((int)c - (c & 2 ? 4 : 0));
    case ZT_CU_U2: return (float)(row[k / 4] >> k % 4 * 2 & 3u);
    case ZT_CU_F4_E2M1: {
        c = row[k / 2] >> k % 2 * 4 & 15u;
        float f = small_float(c & 7, 1, 1);
        return c & 8 ? -f : f;
    }
    default: return f8_value(type, row[k]);
    }
}

/* Columns k .. k + 3 of a row of K, what is past its end 0; block: elements a block. */
FN void four_at(int type, bytes row, int block, int block_bytes, const uint16_t *grid, int64_t k, int64_t K, float v[4])
{
    for (int j = 0; j < 4; j++) v[j] = 0;
    if (k >= K) return;
    if (block >= 32) {
        block_four(type, row + k / block * block_bytes, grid, (int)(k % block), v);
        return;
    }
    for (int j = 0; j < 4; j++)
        if (k + j < K) v[j] = plain_value(type, row, k + j);
}

#endif
