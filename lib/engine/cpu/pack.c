/* pack.c - owns the packed form of weights: file rows to groups of 16 (unpack.c: a row back).
 *
 * Packing a row of a block moves whole 32-bit words: register i of a group holds columns 4i..4i+3
 * of every row, so row r's word goes to word r of register i. What the file keeps in another order
 * (the K-quants pair columns 32 apart, fifth bits come as one word) is first brought into the order
 * of a q4_0 block in 64-bit arithmetic.
 */
#include "lib/engine/cpu/pack.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

INLINE uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Row r's word of register i of the 64-byte registers at dst. */
INLINE void put32(uint8_t *dst, int i, int r, uint32_t v) { memcpy(dst + 64 * i + 4 * r, &v, 4); }

/* Row r's half of a line of 16 halves. */
INLINE void put16(uint8_t *dst, int r, const uint8_t *half) { memcpy(dst + 2 * r, half, 2); }

/* Row r's j-th scale of a byte, at zt_pack_scale_at. */
INLINE void put_scale(uint8_t *dst, int j, int r, uint8_t v) { dst[zt_pack_scale_at(j, r)] = v; }

/* ---- one row of one block -------------------------------------------------------------------- */

/* dst: where codes lie, or with blocks of more than 32 columns their head. */

/* 16 bytes as q4_0 has them: columns 0..15 in the low halves, 16..31 in the high. */
INLINE void put_nibbles(uint8_t *dst, int r, const uint8_t *src)
{
    for (int i = 0; i < 4; i++) put32(dst, i, r, load32(src + 4 * i));
}

/* 32 bytes with a column in the low (shift 0) or high (shift 4) half of each. */
INLINE void put_halves(uint8_t *dst, int r, const uint8_t *src, int shift)
{
    const uint64_t low = 0x0f0f0f0f0f0f0f0f;
    for (int i = 0; i < 4; i += 2) {
        uint64_t a = load64(src + 4 * i) >> shift & low,
                 b = load64(src + 16 + 4 * i) >> shift & low;
        a |= b << 4;
        put32(dst, i, r, (uint32_t)a);
        put32(dst, i + 1, r, (uint32_t)(a >> 32));
    }
}

/* Bit 4i+j of a word to bit i of byte j: a transposition of 8 by 4 bits. Each line swaps two bits
 * of the position (of weights 2 and 16, 2 and 4, 1 and 8, 1 and 2): i2 i1 i0 j1 j0 to j1 j0 i2 i1
 * i0. */
INLINE uint32_t spread_fifth_bits(uint32_t x)
{
    uint32_t t;
#define SWAP(mask, s) t = (x >> (s) ^ x) & (mask), x ^= t ^ t << (s)
    SWAP(0x0000ccccu, 14);
    SWAP(0x0c0c0c0cu, 2);
    SWAP(0x00aa00aau, 7);
    SWAP(0x22222222u, 1);
#undef SWAP
    return x;
}

INLINE void put_q4_0(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 2);
    put16(scale, r, src);
}

INLINE void put_q4_1(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 4);
    put16(scale, r, src);
    put16(scale + 64, r, src + 2);
}

INLINE void put_q5_0(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 6);
    put32(dst + 256, 0, r, spread_fifth_bits(load32(src + 2)));
    put16(scale, r, src);
}

INLINE void put_q5_1(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 8);
    put32(dst + 256, 0, r, spread_fifth_bits(load32(src + 4)));
    put16(scale, r, src);
    put16(scale + 64, r, src + 2);
}

INLINE void put_q8_0(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src)
{
    for (int i = 0; i < 8; i++) put32(dst, i, r, load32(src + 2 + 4 * i) ^ 0x80808080u);
    put16(scale, r, src);
}

INLINE void put_iq4_nl(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 2);
    put16(scale, r, src);
}

INLINE void put_mxfp4(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 1);
    scale[r] = src[0];
}

/* Two times 32 columns. Each 16 have 8 bytes, their first 8 columns in the low halves. All ones in
 * a scale, which mean 0, become 0; its upper bit means nothing. */
INLINE void put_nvfp4(uint8_t *dst, int r, const uint8_t *src)
{
    const uint64_t low = 0x0f0f0f0f0f0f0f0f;
    uint8_t *scale = dst;
    dst += 64;
    for (int c = 0; c < 2; c++, dst += 256, scale += 32) {
        uint64_t a = load64(src + 4 + 16 * c), b = load64(src + 12 + 16 * c);
        uint64_t first = (a & low) | (b & low) << 4, second = (a >> 4 & low) | (b & ~low);
        for (int i = 0; i < 2; i++) {
            put32(dst, i, r, (uint32_t)(first >> 32 * i));
            put32(dst, 2 + i, r, (uint32_t)(second >> 32 * i));
            uint8_t d = src[2 * c + i];
            scale[16 * i + r] = d == 0x7f ? 0 : d & 0x7f;
        }
    }
}

/* The header of q4_k and q5_k: f16 d, f16 dmin, and 8 scales and minima of 6 bits in 12 bytes: the
 * first four in the low six bits of bytes 0..3 and 4..7, the others in the halves of bytes 8..11
 * with their upper two bits on top of bytes 0..7. */
INLINE void put_k_head(uint8_t *dst, int r, const uint8_t *src)
{
    const uint8_t *s = src + 4;
    put16(dst, r, src);
    put16(dst + 32, r, src + 2);
    uint8_t *sc = dst + 64, *mn = dst + 192;
    for (int j = 0; j < 4; j++) {
        put_scale(sc, j, r, s[j] & 63);
        put_scale(mn, j, r, s[j + 4] & 63);
        put_scale(sc, j + 4, r, (uint8_t)((s[j + 8] & 15) | s[j] >> 6 << 4));
        put_scale(mn, j + 4, r, (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4));
    }
}

INLINE void put_q4_k(uint8_t *dst, int r, const uint8_t *src)
{
    put_k_head(dst, r, src);
    for (int c = 0; c < 8; c++)
        put_halves(dst + 320 + 256 * c, r, src + 16 + c / 2 * 32, c % 2 * 4);
}

/* 32 bytes of which bit c of byte 4i+j is the top bit of column 4i+j. */
INLINE uint32_t gather_top_bits(const uint8_t *high, int c)
{
    uint32_t bits = 0;
    for (int i = 0; i < 8; i++) bits |= (load32(high + 4 * i) >> c & 0x01010101u) << i;
    return bits;
}

INLINE void put_q5_k(uint8_t *dst, int r, const uint8_t *src)
{
    put_k_head(dst, r, src);
    for (int c = 0; c < 8; c++) {
        uint8_t *d = dst + 320 + 320 * c;
        put_halves(d, r, src + 48 + c / 2 * 32, c % 2 * 4);
        put32(d + 256, 0, r, gather_top_bits(src + 16, c));
    }
}

/* 16 bytes of which bits `shift` and up of byte 4i+j are two bits of column 4i+j: to bits 2i of
 * byte j. */
INLINE uint32_t gather_two_bits(const uint8_t *two, int shift)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) bits |= (load32(two + 4 * i) >> shift & 0x03030303u) << 2 * i;
    return bits;
}

/* q6_k: 128 bytes of low halves, 64 of upper two bits, i8 scales, f16 d. Of each half (128
 * columns), quarter q takes low bytes 32 (q & 1) + l, their high half for q >= 2, and bits 2q of
 * high byte l. */
INLINE void put_q6_k(uint8_t *dst, int r, const uint8_t *src)
{
    put16(dst, r, src + 208);
    for (int j = 0; j < 16; j++) put_scale(dst + 32, j, r, src[192 + j]);
    for (int c = 0; c < 8; c++) {
        int q = c % 4;
        const uint8_t *high = src + 128 + c / 4 * 32;
        uint8_t *d = dst + 320 + 384 * c;
        put_halves(d, r, src + c / 4 * 64 + q % 2 * 32, q / 2 * 4);
        for (int h = 0; h < 2; h++) put32(d + 256, h, r, gather_two_bits(high + 16 * h, 2 * q));
    }
}

/* q2_k: 16 bytes of scale and minimum, 64 of codes (of each half bits 2q are quarter q), f16 d, f16
 * dmin. */
INLINE void put_q2_k(uint8_t *dst, int r, const uint8_t *src)
{
    put16(dst, r, src + 80);
    put16(dst + 32, r, src + 82);
    for (int j = 0; j < 16; j++) put_scale(dst + 64, j, r, src[j]);
    for (int c = 0; c < 8; c++)
        for (int h = 0; h < 2; h++)
            put32(dst + 320 + 128 * c, h, r,
                  gather_two_bits(src + 16 + c / 4 * 32 + 16 * h, c % 4 * 2));
}

/* tq2_0: 64 bytes of codes as in q2_k, f16 d. */
INLINE void put_tq2_0(uint8_t *dst, int r, const uint8_t *src)
{
    put16(dst, r, src + 64);
    for (int c = 0; c < 8; c++)
        for (int h = 0; h < 2; h++)
            put32(dst + 64 + 128 * c, h, r, gather_two_bits(src + c / 4 * 32 + 16 * h, c % 4 * 2));
}

/* Two bits j of byte i to two bits i of byte j, by swaps as in spread_fifth_bits. */
INLINE uint32_t transpose_two_bits(uint32_t x)
{
    uint32_t t = (x >> 12 ^ x) & 0x0000f0f0u;
    x ^= t ^ t << 12;
    t = (x >> 6 ^ x) & 0x00cc00ccu;
    return x ^ t ^ t << 6;
}

/* q2_0: two times 32 columns: f16 d, 16 bytes of four columns each. */
INLINE void put_q2_0(uint8_t *dst, int r, const uint8_t *src)
{
    for (int c = 0; c < 2; c++) {
        for (int h = 0; h < 2; h++)
            put32(dst + 64 + 128 * c, h, r, transpose_two_bits(load32(src + 2 + 8 * c + 4 * h)));
        put16(dst + 32 * c, r, src);
    }
}

/* q3_k: 32 bytes of third bits, 64 of codes as in q2_k, 12 of scales of six bits less 32 (low four
 * bits in the halves of 8 bytes, the upper two in 4 more), f16 d. */
INLINE void put_q3_k(uint8_t *dst, int r, const uint8_t *src)
{
    const uint8_t *s = src + 96;
    put16(dst, r, src + 108);
    for (int j = 0; j < 16; j++) {
        int low = s[j % 8] >> j / 8 * 4 & 15, high = s[8 + j % 4] >> j / 4 * 2 & 3;
        put_scale(dst + 32, j, r, (uint8_t)((low | high << 4) - 32));
    }
    for (int c = 0; c < 8; c++) {
        uint8_t *d = dst + 320 + 192 * c;
        for (int h = 0; h < 2; h++)
            put32(d, h, r, gather_two_bits(src + 32 + c / 4 * 32 + 16 * h, c % 4 * 2));
        put32(d + 128, 0, r, gather_top_bits(src, c));
    }
}

/* iq4_xs: f16 d, upper two bits of eight scales in 16 bits, low four in 4 bytes, codes. */
INLINE void put_iq4_xs(uint8_t *dst, int r, const uint8_t *src)
{
    put16(dst, r, src);
    for (int c = 0; c < 8; c++) {
        int low = src[4 + c / 2] >> c % 2 * 4 & 15, high = src[2 + c / 4] >> c % 4 * 2 & 3;
        put_scale(dst + 32, c, r, (uint8_t)((low | high << 4) - 32));
        put_nibbles(dst + 192 + 256 * c, r, src + 8 + 16 * c);
    }
}

/* ---- one row of plain types ------------------------------------------------------------------ */

INLINE void put_f32(uint8_t *dst, int r, const uint8_t *src) { memcpy(dst + 4 * r, src, 4); }

INLINE void put_bf16(uint8_t *dst, int r, const uint8_t *src) { memcpy(dst + 4 * r, src, 4); }

INLINE void put_f16(uint8_t *dst, int r, const uint8_t *src) { put16(dst, r, src); }

/* ---- groups ---------------------------------------------------------------------------------- */

typedef void put_fn(uint8_t *dst, int r, const uint8_t *src);

INLINE void pack_rows(int64_t n, size_t row_bytes, int rows, const uint8_t *src, size_t src_step,
                      uint8_t *dst, size_t dst_step, put_fn *put)
{
    for (int64_t b = 0; b < n; b++)
        for (int r = 0; r < rows; r++)
            put(dst + (size_t)b * dst_step, r, src + (size_t)r * row_bytes + (size_t)b * src_step);
}

typedef void put_small_fn(uint8_t *dst, uint8_t *scale, int r, const uint8_t *src);

/* Blocks of 32 columns: `together` of them share a head, of whose scales each has so many bytes. */
INLINE void pack_small(int64_t n, size_t row_bytes, int rows, const uint8_t *src, size_t src_step,
                       uint8_t *dst, int codes, int head, int together, int each, put_small_fn *put)
{
    for (int64_t b = 0; b < n;) {
        uint8_t *scale = dst;
        dst += head;
        for (int i = 0; i < together && b < n; i++, b++, src += src_step, dst += codes)
            for (int r = 0; r < rows; r++)
                put(dst, scale + i * each, r, src + (size_t)r * row_bytes);
    }
}

typedef void pack_fn(int64_t n, size_t row_bytes, int rows, const uint8_t *src, uint8_t *dst);

/* pack_f32 and so on: n steps of so many file bytes a row to so many packed bytes a group. */
#define PACK(name, from, to)                                                                       \
    static void pack_##name(int64_t n, size_t row_bytes, int rows, const uint8_t *src,             \
                            uint8_t *dst)                                                          \
    {                                                                                              \
        pack_rows(n, row_bytes, rows, src, from, dst, to, put_##name);                             \
    }
/* The same of blocks of 32 columns, to so many bytes of codes and of heads, for so many together. */
#define PACK_SMALL(name, from, codes, head, together, each)                                        \
    static void pack_##name(int64_t n, size_t row_bytes, int rows, const uint8_t *src,             \
                            uint8_t *dst)                                                          \
    {                                                                                              \
        pack_small(n, row_bytes, rows, src, from, dst, codes, head, together, each, put_##name);   \
    }
PACK(f32, 4, 64)
PACK(f16, 2, 32)
PACK(bf16, 4, 64)
PACK_SMALL(q4_0, 18, 256, 64, 2, 32)
PACK_SMALL(q4_1, 20, 256, 128, 2, 32)
PACK_SMALL(q5_0, 22, 320, 64, 2, 32)
PACK_SMALL(q5_1, 24, 320, 128, 2, 32)
PACK_SMALL(q8_0, 34, 512, 64, 2, 32)
PACK_SMALL(iq4_nl, 18, 256, 64, 2, 32)
PACK_SMALL(mxfp4, 17, 256, 64, 4, 16)
PACK(nvfp4, 36, 576)
PACK(q2_0, 18, 320)
PACK(tq2_0, 66, 1088)
PACK(q2_k, 84, 1344)
PACK(q3_k, 110, 1856)
PACK(q4_k, 144, 2368)
PACK(q5_k, 176, 2880)
PACK(q6_k, 210, 3392)
PACK(iq4_xs, 136, 2240)

typedef struct row {
    pack_fn *pack; /* NULL: not packed, or whole */
    int columns;   /* of one step of it: a block of the file's */
    int bytes;     /* of plain types: 16 rows of that */
    zt_pack_form form;
} row;

/* A block of 256 has a head of its own, nvfp4 and q2_0 have blocks of 64. */
#define COLUMNS_OF(NAME, n)                                                                        \
    ((n) == 8 ? 256 : ZT_##NAME == ZT_NVFP4 || ZT_##NAME == ZT_Q2_0 ? 64 : 32)
#define PACK_OF_Q4_0   pack_q4_0
#define PACK_OF_Q4_1   pack_q4_1
#define PACK_OF_Q5_0   pack_q5_0
#define PACK_OF_Q5_1   pack_q5_1
#define PACK_OF_Q8_0   pack_q8_0
#define PACK_OF_IQ4_NL pack_iq4_nl
#define PACK_OF_MXFP4  pack_mxfp4
#define PACK_OF_NVFP4  pack_nvfp4
#define PACK_OF_Q2_0   pack_q2_0
#define PACK_OF_TQ2_0  pack_tq2_0
#define PACK_OF_Q2_K   pack_q2_k
#define PACK_OF_Q3_K   pack_q3_k
#define PACK_OF_Q4_K   pack_q4_k
#define PACK_OF_Q5_K   pack_q5_k
#define PACK_OF_Q6_K   pack_q6_k
#define PACK_OF_IQ4_XS pack_iq4_xs

static const row table[ZT_DTYPE_COUNT] = {[ZT_F32] = {pack_f32, 1, 64, {0}},
                                          [ZT_F16] = {pack_f16, 1, 32, {0}},
                                          [ZT_BF16] = {pack_bf16, 2, 64, {0}},
#define X(NAME, bits, look, offset, scales, head, n)                                               \
    [ZT_##NAME] = {PACK_OF_##NAME,                                                                 \
                   COLUMNS_OF(NAME, n),                                                            \
                   0,                                                                              \
                   {bits, ZT_LOOK_##look, offset, ZT_SCALES_##scales, head, n}},
                                          ZT_PACK_BLOCKS(X)
#undef X
};

static const bool whole[ZT_DTYPE_COUNT] = {
#define X(NAME) [ZT_##NAME] = true,
    ZT_PACK_WHOLE(X)
#undef X
};

const uint8_t zt_pack_values[3][16] = {
    [ZT_LOOK_IQ4] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
    [ZT_LOOK_E2M1] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0},
};

bool zt_pack_whole(zt_dtype t) { return (unsigned)t < ZT_DTYPE_COUNT && whole[t]; }

bool zt_pack_has(zt_dtype t)
{
    return (unsigned)t < ZT_DTYPE_COUNT && (table[t].pack || whole[t]);
}

zt_pack_form zt_pack_form_of(zt_dtype t) { return table[t].form; }

size_t zt_pack_group_bytes(zt_dtype t, int64_t K)
{
    const row *w = &table[t];
    const zt_pack_form f = w->form;
    if (whole[t]) return (ZT_PACK_ROWS * zt_pack_file_bytes(t, K) + 63) & ~(size_t)63;
    if (!f.bits) {
        size_t steps = (size_t)((K + w->columns - 1) / w->columns);
        return (steps * (size_t)w->bytes + 63) & ~(size_t)63;
    }
    int64_t blocks = zt_pack_blocks(f, K), heads = (blocks + f.together - 1) / f.together;
    return ZT_PACK_POWERS + (size_t)(heads * f.head + blocks * ZT_PACK_CODES(f.bits));
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* What a head has of scales and minima that are no whole numbers: times 16 of each, after each
 * other, of so many bytes. */
typedef struct head {
    int n, n_mins, bytes;
} head;

static const head heads[] = {
    [ZT_SCALES_HALF] = {2, 0, 2},   [ZT_SCALES_HALF_MIN] = {2, 2, 2}, [ZT_SCALES_E8M0] = {4, 0, 1},
    [ZT_SCALES_E4M3] = {4, 0, 1},   [ZT_SCALES_U6_MIN] = {1, 1, 2},   [ZT_SCALES_U4_MIN] = {1, 1, 2},
    [ZT_SCALES_ONE] = {1, 0, 2},    [ZT_SCALES_I8] = {1, 0, 2},       [ZT_SCALES_I8_16] = {1, 0, 2},
};

/* The largest of n times 16 numbers without their signs, whose bits keep the order, NaN on top. */
INLINE void top_of(const uint8_t *p, int n, int bytes, int16_t top[16])
{
    for (int i = 0; i < n; i++, p += 16 * bytes) {
        int16_t h[16];
        uint8_t b[16];
        memcpy(b, p, 16);
        if (bytes == 2) memcpy(h, p, 32);
        for (int r = 0; r < 16; r++) {
            int16_t v = (int16_t)(bytes == 2 ? h[r] & 0x7fff : b[r]);
            top[r] = v > top[r] ? v : top[r];
        }
    }
}

static float number_of(zt_pack_scales s, int16_t bits)
{
    if (s == ZT_SCALES_E8M0) return zt_pack_e8m0((uint8_t)bits);
    if (s == ZT_SCALES_E4M3) return zt_pack_e4m3((uint8_t)bits);
    return zt_f16_to_f32((uint16_t)bits);
}

/* The power of two by which `top` is a number of 15 bits; 2^126 at most. */
static float power_of(float top)
{
    int e;
    if (!isfinite(top)) return NAN;
    if (top <= 0) return 1;
    frexpf(top, &e);
    float power = ldexpf(1, e < 15 - 126 ? 126 : 15 - e);
    return rintf(top * power) > INT16_MAX ? power / 2 : power;
}

/* In front of a group whose rows are there. */
static void put_powers(zt_pack_form f, int64_t K, uint8_t *group)
{
    const head h = heads[f.scales];
    const float times = (float)(1 << zt_pack_scale_bits(f)); /* whole numbers are less */
    const uint8_t *p = group + ZT_PACK_POWERS;
    int16_t d[16] = {0}, m[16] = {0};
    for (int64_t left = zt_pack_blocks(f, K); left > 0; left -= f.together) {
        if (h.bytes == 2)
            top_of(p, h.n, 2, d);
        else
            top_of(p, h.n, 1, d);
        top_of(p + 32 * h.n, h.n_mins, 2, m);
        p += f.head + zt_pack_together(f, left) * ZT_PACK_CODES(f.bits);
    }
    for (int r = 0; r < 16; r++) {
        float scale = number_of(f.scales, d[r]);
        float min = zt_f16_to_f32((uint16_t)m[r]) + scale * (float)zt_pack_middle(f);
        min = zt_pack_mins(f) ? ldexpf(min, -zt_pack_min_power(f)) : 0;
        float power = isnan(scale + min) ? NAN : power_of(times * fmaxf(scale, min));
        memcpy(group + 4 * r, &power, 4);
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void pack_whole(zt_dtype t, int64_t K, const uint8_t *src, size_t row_bytes, int rows,
                       uint8_t *dst)
{
    size_t bytes = zt_pack_file_bytes(t, K), used = bytes * (size_t)rows;
    for (int r = 0; r < rows; r++)
        memcpy(dst + (size_t)r * bytes, src + (size_t)r * row_bytes, bytes);
    memset(dst + used, 0, zt_pack_group_bytes(t, K) - used);
}

/* Rows of a block type, with their powers; what is behind an odd block is zero, and what the last
 * head has for columns that are not there. */
static void pack_block_rows(const row *w, int64_t K, const uint8_t *src, size_t row_bytes, int rows,
                            uint8_t *dst, size_t bytes)
{
    const zt_pack_form f = w->form;
    if (rows < ZT_PACK_ROWS || K / 32 % f.together) memset(dst, 0, bytes);
    w->pack(K / w->columns, row_bytes, rows, src, dst + ZT_PACK_POWERS);
    put_powers(f, K, dst);
}

void zt_pack_group(zt_dtype t, int64_t K, const void *src, size_t row_bytes, int rows, void *dst)
{
    const row *w = &table[t];
    const size_t all = zt_pack_group_bytes(t, K);
    if (whole[t]) {
        pack_whole(t, K, src, row_bytes, rows, dst);
        return;
    }
    if (w->form.bits) {
        pack_block_rows(w, K, src, row_bytes, rows, dst, all);
        return;
    }
    int64_t steps = K / w->columns;
    size_t used = (size_t)steps * (size_t)w->bytes, from = rows < ZT_PACK_ROWS ? 0 : used;
    memset((uint8_t *)dst + from, 0, all - from);
    w->pack(steps, row_bytes, rows, src, dst);
    if (K % w->columns) /* the last column of an odd number of bf16 */
        for (int r = 0; r < rows; r++)
            memcpy((uint8_t *)dst + used + 4 * r,
                   (const uint8_t *)src + (size_t)r * row_bytes + 2 * (size_t)(K - 1), 2);
}
