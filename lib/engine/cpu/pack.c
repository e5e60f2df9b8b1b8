/* pack.c - owns the packed form of weights: file rows to groups of 16, and a row back to f32.
 *
 * Packing a row of a block moves whole 32-bit words: register i of a group holds columns 4i..4i+3
 * of every row, so row r's word goes to word r of register i. What the file keeps in another order
 * (the K-quants pair columns 32 apart, fifth bits come as one word) is first brought into the order
 * of a q4_0 block in 64-bit arithmetic.
 */
#include "lib/engine/cpu/pack.h"

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

/* ---- one row of one block -------------------------------------------------------------------- */

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

INLINE void put_q4_0(uint8_t *dst, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 2);
    put16(dst + 256, r, src);
}

INLINE void put_q4_1(uint8_t *dst, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 4);
    put16(dst + 256, r, src);
    put16(dst + 288, r, src + 2);
}

INLINE void put_q5_0(uint8_t *dst, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 6);
    put32(dst + 256, 0, r, spread_fifth_bits(load32(src + 2)));
    put16(dst + 320, r, src);
}

INLINE void put_q5_1(uint8_t *dst, int r, const uint8_t *src)
{
    put_nibbles(dst, r, src + 8);
    put32(dst + 256, 0, r, spread_fifth_bits(load32(src + 4)));
    put16(dst + 320, r, src);
    put16(dst + 352, r, src + 2);
}

INLINE void put_q8_0(uint8_t *dst, int r, const uint8_t *src)
{
    for (int i = 0; i < 8; i++) put32(dst, i, r, load32(src + 2 + 4 * i) ^ 0x80808080u);
    put16(dst + 512, r, src);
}

/* The values that 4-bit codes stand for, plus 128. */
INLINE uint32_t look_up(uint32_t codes)
{
    static const uint8_t values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241};
    uint32_t v = 0;
    for (int j = 0; j < 4; j++) v |= (uint32_t)values[codes >> 8 * j & 15] << 8 * j;
    return v;
}

INLINE void put_iq4_nl(uint8_t *dst, int r, const uint8_t *src)
{
    for (int i = 0; i < 4; i++) {
        put32(dst, i, r, look_up(load32(src + 2 + 4 * i)));
        put32(dst, 4 + i, r, look_up(load32(src + 2 + 4 * i) >> 4));
    }
    put16(dst + 512, r, src);
}

/* The header of q4_k and q5_k: f16 d, f16 dmin, and 8 scales and minima of 6 bits in 12 bytes: the
 * first four in the low six bits of bytes 0..3 and 4..7, the others in the halves of bytes 8..11
 * with their upper two bits on top of bytes 0..7. */
INLINE void put_k_head(uint8_t *dst, int r, const uint8_t *src)
{
    const uint8_t *s = src + 4;
    put16(dst, r, src);
    put16(dst + 32, r, src + 2);
    uint8_t *sc = dst + 64 + r, *mn = dst + 192 + r;
    for (int j = 0; j < 4; j++) {
        sc[16 * j] = s[j] & 63;
        mn[16 * j] = s[j + 4] & 63;
        sc[16 * (j + 4)] = (uint8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        mn[16 * (j + 4)] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

INLINE void put_q4_k(uint8_t *dst, int r, const uint8_t *src)
{
    put_k_head(dst, r, src);
    for (int c = 0; c < 8; c++)
        put_halves(dst + 320 + 256 * c, r, src + 16 + c / 2 * 32, c % 2 * 4);
}

/* 32 bytes of which bit c of byte 4i+j is the fifth bit of column 4i+j. */
INLINE uint32_t gather_fifth_bits(const uint8_t *high, int c)
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
        put32(d + 256, 0, r, gather_fifth_bits(src + 16, c));
    }
}

/* q6_k: 128 bytes of low halves, 64 of upper two bits, i8 scales, f16 d. Of each half (128
 * columns), quarter q takes low bytes 32 (q & 1) + l, their high half for q >= 2, and bits 2q of
 * high byte l. */
INLINE void put_q6_k(uint8_t *dst, int r, const uint8_t *src)
{
    put16(dst, r, src + 208);
    for (int j = 0; j < 16; j++) dst[32 + 16 * j + r] = src[192 + j];
    for (int c = 0; c < 8; c++) {
        int q = c % 4;
        const uint8_t *high = src + 128 + c / 4 * 32;
        uint8_t *d = dst + 288 + 384 * c;
        put_halves(d, r, src + c / 4 * 64 + q % 2 * 32, q / 2 * 4);
        for (int h = 0; h < 2; h++) {
            uint32_t bits = 0;
            for (int i = 0; i < 4; i++)
                bits |= (load32(high + 16 * h + 4 * i) >> 2 * q & 0x03030303u) << 2 * i;
            put32(d + 256, h, r, bits);
        }
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

typedef void pack_fn(int64_t n, size_t row_bytes, int rows, const uint8_t *src, uint8_t *dst);

/* pack_q4_0 and so on: n steps of so many file bytes a row to so many packed bytes a group. */
#define PACK(name, from, to)                                                                       \
    static void pack_##name(int64_t n, size_t row_bytes, int rows, const uint8_t *src,             \
                            uint8_t *dst)                                                          \
    {                                                                                              \
        pack_rows(n, row_bytes, rows, src, from, dst, to, put_##name);                             \
    }
PACK(f32, 4, 64)
PACK(f16, 2, 32)
PACK(bf16, 4, 64)
PACK(q4_0, 18, 288)
PACK(q4_1, 20, 320)
PACK(q5_0, 22, 352)
PACK(q5_1, 24, 384)
PACK(q8_0, 34, 544)
PACK(iq4_nl, 18, 544)
PACK(q4_k, 144, 2368)
PACK(q5_k, 176, 2880)
PACK(q6_k, 210, 3360)

typedef struct row {
    pack_fn *pack; /* NULL: not packed */
    int columns;   /* of one step of pack */
    size_t bytes;  /* packed, of one step */
    zt_pack_form form;
} row;

#define FORM_STEP(head) ((head) ? 256 : 32)
#define FORM_BYTES(bits, head, tail)                                                               \
    ((head) + FORM_STEP(head) / 32 * (ZT_PACK_CODES(bits) + (tail)))
#define PACK_OF_Q4_0   pack_q4_0
#define PACK_OF_Q4_1   pack_q4_1
#define PACK_OF_Q5_0   pack_q5_0
#define PACK_OF_Q5_1   pack_q5_1
#define PACK_OF_Q8_0   pack_q8_0
#define PACK_OF_IQ4_NL pack_iq4_nl
#define PACK_OF_Q4_K   pack_q4_k
#define PACK_OF_Q5_K   pack_q5_k
#define PACK_OF_Q6_K   pack_q6_k

static const row table[ZT_DTYPE_COUNT] = {[ZT_F32] = {pack_f32, 1, 64, {0}},
                                          [ZT_F16] = {pack_f16, 1, 32, {0}},
                                          [ZT_BF16] = {pack_bf16, 2, 64, {0}},
#define X(NAME, bits, offset, mins, head, tail)                                                    \
    [ZT_##NAME] = {PACK_OF_##NAME,                                                                 \
                   FORM_STEP(head),                                                                \
                   FORM_BYTES(bits, head, tail),                                                   \
                   {bits, offset, mins, head, tail}},
                                          ZT_PACK_BLOCKS(X)
#undef X
};

bool zt_pack_has(zt_dtype t) { return (unsigned)t < ZT_DTYPE_COUNT && table[t].pack; }

size_t zt_pack_group_bytes(zt_dtype t, int64_t K)
{
    const row *w = &table[t];
    size_t steps = (size_t)((K + w->columns - 1) / w->columns);
    return (steps * w->bytes + 63) & ~(size_t)63;
}

void zt_pack_group(zt_dtype t, int64_t K, const void *src, size_t row_bytes, int rows, void *dst)
{
    const row *w = &table[t];
    int64_t steps = K / w->columns;
    size_t used = (size_t)steps * w->bytes, all = zt_pack_group_bytes(t, K);
    if (rows < ZT_PACK_ROWS)
        memset(dst, 0, all);
    else
        memset((uint8_t *)dst + used, 0, all - used);
    w->pack(steps, row_bytes, rows, src, dst);
    if (K % w->columns) /* the last column of an odd number of bf16 */
        for (int r = 0; r < rows; r++)
            memcpy((uint8_t *)dst + used + 4 * r,
                   (const uint8_t *)src + (size_t)r * row_bytes + 2 * (size_t)(K - 1), 2);
}

/* ---- back ------------------------------------------------------------------------------------ */

INLINE float half_at(const uint8_t *line, int r)
{
    uint16_t h;
    memcpy(&h, line + 2 * r, 2);
    return zt_f16_to_f32(h);
}

/* The 32 codes of row r, in order. */
INLINE void codes_of(int bits, const uint8_t *p, int r, uint8_t *code)
{
    if (bits == 8) {
        for (int i = 0; i < 8; i++) memcpy(code + 4 * i, p + 64 * i + 4 * r, 4);
        return;
    }
    for (int i = 0; i < 4; i++) {
        uint32_t v = load32(p + 64 * i + 4 * r), low = v & 0x0f0f0f0fu, high = v >> 4 & 0x0f0f0f0fu;
        memcpy(code + 4 * i, &low, 4);
        memcpy(code + 16 + 4 * i, &high, 4);
    }
    for (int i = 0; i < 8 && bits > 4; i++) {
        uint32_t v = load32(code + 4 * i),
                 up = load32(p + 256 + (bits == 6 ? i / 4 * 64 : 0) + 4 * r);
        v |= bits == 5 ? (up >> i & 0x01010101u) << 4 : (up >> i % 4 * 2 & 0x03030303u) << 4;
        memcpy(code + 4 * i, &v, 4);
    }
}

/* Scale and minimum of row r for columns 16h..16h+15 of block b, of the 256 that begin at p. */
INLINE float scale_of(const zt_pack_form *f, const uint8_t *p, const uint8_t *tail, int b, int h,
                      int r, float *min)
{
    *min = 0;
    if (!f->head) {
        if (f->mins) *min = half_at(tail + 32, r);
        return half_at(tail, r);
    }
    if (!f->mins) return half_at(p, r) * (float)(int8_t)p[32 + 16 * (2 * b + h) + r];
    *min = -(half_at(p + 32, r) * (float)p[192 + 16 * b + r]);
    return half_at(p, r) * (float)p[64 + 16 * b + r];
}

static void unpack_blocks(const row *w, int64_t K, const uint8_t *p, int r, float *dst)
{
    const zt_pack_form *f = &w->form;
    size_t block = (size_t)ZT_PACK_CODES(f->bits) + (size_t)f->tail;
    for (int64_t k = 0; k < K; k += w->columns, p += w->bytes) {
        const uint8_t *q = p + f->head;
        for (int b = 0; b < w->columns / 32; b++, q += block) {
            uint8_t code[32];
            codes_of(f->bits, q, r, code);
            for (int h = 0; h < 2; h++, dst += 16) {
                float min, scale = scale_of(f, p, q + ZT_PACK_CODES(f->bits), b, h, r, &min);
                for (int j = 0; j < 16; j++) dst[j] = scale * (float)(code[16 * h + j] - f->offset);
                for (int j = 0; j < 16 && f->mins; j++) dst[j] += min;
            }
        }
    }
}

void zt_unpack_row(zt_dtype t, int64_t K, const void *group, int r, float *dst)
{
    const row *w = &table[t];
    const uint8_t *p = group;
    if (w->form.bits) {
        unpack_blocks(w, K, p, r, dst);
        return;
    }
    size_t size = t == ZT_F32 ? 4 : 2;
    for (int64_t k = 0; k < K; k++) {
        size_t at = t == ZT_BF16 ? (size_t)(k / 2) * 64 + 4 * (size_t)r + 2 * (size_t)(k % 2)
                                 : ((size_t)k * 16 + (size_t)r) * size;
        zt_dtype_get(t)->decode(p + at, dst + k, 1);
    }
}
