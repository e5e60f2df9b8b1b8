/* pack.c - owns the packed form of weights: file rows to groups of 16 (unpack.c: a row back).
 *
 * Packing a row of a block moves whole 32-bit words: register i of a group holds columns 4i..4i+3
 * of every row, so row r's word goes to word r of register i. What the file keeps in another order
 * (the K-quants pair columns 32 apart, fifth bits come as one word) is first brought into the order
 * of a q4_0 block in 64-bit arithmetic.
 */
#include "lib/engine/cpu/pack.h"
#include "lib/tensor/decode.h"

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
INLINE void put_scale(uint8_t *dst, int j, int r, uint8_t scale) { dst[zt_pack_scale_at(j, r)] = scale; }

/* ---- one row of one block -------------------------------------------------------------------- */

/* put_NAME moves row r's block of the file, at src, to a group:
 *
 *   codes    the codes of the block's first slice: slice c is at codes + c * ZT_PACK_CODE_BYTES(bits)
 *   head     the block's scales: the head of a block of more than 32 columns; of one of 32, which shares a head with
 *            others, its own 32 (E8M0: 16) bytes of each part of it
 */

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
        uint64_t a = load64(src + 4 * i) >> shift & low, b = load64(src + 16 + 4 * i) >> shift & low;
        a |= b << 4;
        put32(dst, i, r, (uint32_t)a);
        put32(dst, i + 1, r, (uint32_t)(a >> 32));
    }
}

/* Bit 4i+j of a word to bit i of byte j: a transposition of 8 by 4 bits. Each line swaps two bits
 * of the position (of weights 2 and 16, 2 and 4, 1 and 8, 1 and 2): i2 i1 i0 j1 j0 to j1 j0 i2 i1
 * i0. */
INLINE uint32_t spread_fifth_bits(uint32_t bits)
{
    uint32_t swap;
#define SWAP(mask, s) swap = (bits >> (s) ^ bits) & (mask), bits ^= swap ^ swap << (s)
    SWAP(0x0000ccccu, 14);
    SWAP(0x0c0c0c0cu, 2);
    SWAP(0x00aa00aau, 7);
    SWAP(0x22222222u, 1);
#undef SWAP
    return bits;
}

INLINE void put_Q4_0(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_nibbles(codes, r, src + 2);
    put16(head, r, src);
}

INLINE void put_Q4_1(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_nibbles(codes, r, src + 4);
    put16(head, r, src);
    put16(head + 64, r, src + 2);
}

INLINE void put_Q5_0(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_nibbles(codes, r, src + 6);
    put32(codes + 256, 0, r, spread_fifth_bits(load32(src + 2)));
    put16(head, r, src);
}

INLINE void put_Q5_1(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_nibbles(codes, r, src + 8);
    put32(codes + 256, 0, r, spread_fifth_bits(load32(src + 4)));
    put16(head, r, src);
    put16(head + 64, r, src + 2);
}

INLINE void put_Q8_0(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    for (int i = 0; i < 8; i++) put32(codes, i, r, load32(src + 2 + 4 * i) ^ 0x80808080u);
    put16(head, r, src);
}

INLINE void put_IQ4_NL(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_nibbles(codes, r, src + 2);
    put16(head, r, src);
}

INLINE void put_MXFP4(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_nibbles(codes, r, src + 1);
    head[r] = src[0];
}

/* Two times 32 columns. Each 16 have 8 bytes, their first 8 columns in the low halves. All ones in
 * a scale, which mean 0, become 0; its upper bit means nothing. */
INLINE void put_NVFP4(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    const uint64_t low = 0x0f0f0f0f0f0f0f0f;
    for (int c = 0; c < 2; c++, codes += 256, head += 32) {
        uint64_t a = load64(src + 4 + 16 * c), b = load64(src + 12 + 16 * c);
        uint64_t first = (a & low) | (b & low) << 4, second = (a >> 4 & low) | (b & ~low);
        for (int i = 0; i < 2; i++) {
            put32(codes, i, r, (uint32_t)(first >> 32 * i));
            put32(codes, 2 + i, r, (uint32_t)(second >> 32 * i));
            uint8_t scale = src[2 * c + i];
            head[16 * i + r] = scale == 0x7f ? 0 : scale & 0x7f;
        }
    }
}

/* The header of q4_k and q5_k: f16 d, f16 dmin, and 8 scales and minima of 6 bits in 12 bytes: the
 * first four in the low six bits of bytes 0..3 and 4..7, the others in the halves of bytes 8..11
 * with their upper two bits on top of bytes 0..7. */
INLINE void put_k_head(uint8_t *head, int r, const uint8_t *src)
{
    const uint8_t *packed = src + 4;
    put16(head, r, src);
    put16(head + 32, r, src + 2);
    uint8_t *scales = head + 64, *mins = head + 192;
    for (int j = 0; j < 4; j++) {
        put_scale(scales, j, r, packed[j] & 63);
        put_scale(mins, j, r, packed[j + 4] & 63);
        put_scale(scales, j + 4, r, (uint8_t)((packed[j + 8] & 15) | packed[j] >> 6 << 4));
        put_scale(mins, j + 4, r, (uint8_t)(packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4));
    }
}

INLINE void put_Q4_K(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_k_head(head, r, src);
    for (int c = 0; c < 8; c++) put_halves(codes + 256 * c, r, src + 16 + c / 2 * 32, c % 2 * 4);
}

/* 32 bytes of which bit c of byte 4i+j is the top bit of column 4i+j. */
INLINE uint32_t gather_top_bits(const uint8_t *high, int c)
{
    uint32_t bits = 0;
    for (int i = 0; i < 8; i++) bits |= (load32(high + 4 * i) >> c & 0x01010101u) << i;
    return bits;
}

INLINE void put_Q5_K(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put_k_head(head, r, src);
    for (int c = 0; c < 8; c++) {
        uint8_t *slice = codes + 320 * c;
        put_halves(slice, r, src + 48 + c / 2 * 32, c % 2 * 4);
        put32(slice + 256, 0, r, gather_top_bits(src + 16, c));
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
INLINE void put_Q6_K(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put16(head, r, src + 208);
    for (int j = 0; j < 16; j++) put_scale(head + 32, j, r, src[192 + j]);
    for (int c = 0; c < 8; c++) {
        int quarter = c % 4;
        const uint8_t *high = src + 128 + c / 4 * 32;
        uint8_t *slice = codes + 384 * c;
        put_halves(slice, r, src + c / 4 * 64 + quarter % 2 * 32, quarter / 2 * 4);
        for (int h = 0; h < 2; h++) put32(slice + 256, h, r, gather_two_bits(high + 16 * h, 2 * quarter));
    }
}

/* q2_k: 16 bytes of scale and minimum, 64 of codes (of each half bits 2q are quarter q), f16 d, f16
 * dmin. */
INLINE void put_Q2_K(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put16(head, r, src + 80);
    put16(head + 32, r, src + 82);
    for (int j = 0; j < 16; j++) put_scale(head + 64, j, r, src[j]);
    for (int c = 0; c < 8; c++)
        for (int h = 0; h < 2; h++) put32(codes + 128 * c, h, r, gather_two_bits(src + 16 + c / 4 * 32 + 16 * h, c % 4 * 2));
}

/* tq2_0: 64 bytes of codes as in q2_k, f16 d. */
INLINE void put_TQ2_0(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put16(head, r, src + 64);
    for (int c = 0; c < 8; c++)
        for (int h = 0; h < 2; h++) put32(codes + 128 * c, h, r, gather_two_bits(src + c / 4 * 32 + 16 * h, c % 4 * 2));
}

/* Two bits j of byte i to two bits i of byte j, by swaps as in spread_fifth_bits. */
INLINE uint32_t transpose_two_bits(uint32_t bits)
{
    uint32_t swap = (bits >> 12 ^ bits) & 0x0000f0f0u;
    bits ^= swap ^ swap << 12;
    swap = (bits >> 6 ^ bits) & 0x00cc00ccu;
    return bits ^ swap ^ swap << 6;
}

/* q2_0: two times 32 columns: f16 d, 16 bytes of four columns each. */
INLINE void put_Q2_0(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    for (int c = 0; c < 2; c++) {
        for (int h = 0; h < 2; h++) put32(codes + 128 * c, h, r, transpose_two_bits(load32(src + 2 + 8 * c + 4 * h)));
        put16(head + 32 * c, r, src);
    }
}

/* q3_k: 32 bytes of third bits, 64 of codes as in q2_k, 12 of scales of six bits less 32 (low four
 * bits in the halves of 8 bytes, the upper two in 4 more), f16 d. */
INLINE void put_Q3_K(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    const uint8_t *packed = src + 96;
    put16(head, r, src + 108);
    for (int j = 0; j < 16; j++) {
        int low = packed[j % 8] >> j / 8 * 4 & 15, high = packed[8 + j % 4] >> j / 4 * 2 & 3;
        put_scale(head + 32, j, r, (uint8_t)((low | high << 4) - 32));
    }
    for (int c = 0; c < 8; c++) {
        uint8_t *slice = codes + 192 * c;
        for (int h = 0; h < 2; h++) put32(slice, h, r, gather_two_bits(src + 32 + c / 4 * 32 + 16 * h, c % 4 * 2));
        put32(slice + 128, 0, r, gather_top_bits(src, c));
    }
}

/* iq4_xs: f16 d, upper two bits of eight scales in 16 bits, low four in 4 bytes, codes. */
INLINE void put_IQ4_XS(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put16(head, r, src);
    for (int c = 0; c < 8; c++) {
        int low = src[4 + c / 2] >> c % 2 * 4 & 15, high = src[2 + c / 4] >> c % 4 * 2 & 3;
        put_scale(head + 32, c, r, (uint8_t)((low | high << 4) - 32));
        put_nibbles(codes + 256 * c, r, src + 8 + 16 * c);
    }
}

/* Four columns of iq3_s: values 1, 3 ... 15 by the vector's nibbles, negative where a sign bit is set, as codes of the
 * table of odd numbers -15 ... 15. */
INLINE uint32_t odd_codes(uint32_t vector, uint32_t signs)
{
    uint32_t code = (vector | vector << 8) & 0x00ff00ffu;
    code = ((code | code << 4) & 0x0f0f0f0fu) + 0x08080808u;
    return code ^ ((signs & 15) * 0x00204081u & 0x01010101u) * 15;
}

/* iq3_s: f16 d, 64 codes of vectors of four columns, 8 bytes of their ninth bits, 32 of signs, 8 scales of four bits,
 * which are 1 + 2 times that. */
INLINE void put_IQ3_S(uint8_t *codes, uint8_t *head, int r, const uint8_t *src)
{
    put16(head, r, src);
    for (int c = 0; c < 8; c++, codes += 256) {
        const uint8_t *vectors = src + 2 + 8 * c, *signs = src + 74 + 4 * c;
        uint32_t word[8];
        for (int i = 0; i < 8; i++)
            word[i] = odd_codes(zt_grid_iq3_s[vectors[i] | (src[66 + c] >> i & 1) << 8], signs[i / 2] >> i % 2 * 4);
        for (int i = 0; i < 4; i++) put32(codes, i, r, word[i] | word[4 + i] << 4);
        put_scale(head + 32, c, r, (uint8_t)(1 + 2 * (src[106 + c / 2] >> c % 2 * 4 & 15)));
    }
}

/* ---- one row of plain types ------------------------------------------------------------------ */

INLINE void put_f32(uint8_t *dst, int r, const uint8_t *src) { memcpy(dst + 4 * r, src, 4); }

INLINE void put_bf16(uint8_t *dst, int r, const uint8_t *src) { memcpy(dst + 4 * r, src, 4); }

INLINE void put_f16(uint8_t *dst, int r, const uint8_t *src) { put16(dst, r, src); }

/* ---- rows of a group ------------------------------------------------------------------------- */

/* `count` steps of the file's rows, row_bytes apart, to a group. */
typedef void pack_rows_fn(int64_t count, size_t row_bytes, int rows, const uint8_t *src, uint8_t *dst);

typedef void put_block_fn(uint8_t *codes, uint8_t *head, int r, const uint8_t *src);

/* Blocks of so many columns and bytes of the file. */
INLINE void pack_blocks(zt_pack_form form, int columns, size_t block_bytes, int64_t count, size_t row_bytes, int rows,
                        const uint8_t *src, uint8_t *dst, put_block_fn *put)
{
    const int slices = columns / 32, scale_bytes = form.scales == ZT_SCALES_E8M0 ? 16 : 32;
    for (int64_t b = 0; b < count;) {
        uint8_t *head = dst;
        dst += form.head_bytes;
        for (int i = 0; i < form.head_slices && b < count; i += slices, b++, src += block_bytes) {
            for (int r = 0; r < rows; r++) put(dst, head + i * scale_bytes, r, src + (size_t)r * row_bytes);
            dst += slices * ZT_PACK_CODE_BYTES(form.bits);
        }
    }
}

typedef void put_plain_fn(uint8_t *dst, int r, const uint8_t *src);

/* Steps of so many bytes of a row to so many of a group. */
INLINE void pack_plain(size_t src_step, size_t dst_step, int64_t count, size_t row_bytes, int rows, const uint8_t *src,
                       uint8_t *dst, put_plain_fn *put)
{
    for (int64_t k = 0; k < count; k++)
        for (int r = 0; r < rows; r++) put(dst + (size_t)k * dst_step, r, src + (size_t)r * row_bytes + (size_t)k * src_step);
}

#define PACK_ROWS(name, body)                                                                                                    \
    static void pack_##name(int64_t count, size_t row_bytes, int rows, const uint8_t *src, uint8_t *dst) { body; }
PACK_ROWS(f32, pack_plain(4, 64, count, row_bytes, rows, src, dst, put_f32))
PACK_ROWS(f16, pack_plain(2, 32, count, row_bytes, rows, src, dst, put_f16))
PACK_ROWS(bf16, pack_plain(4, 64, count, row_bytes, rows, src, dst, put_bf16))

enum { /* of the file's blocks */
#define X(NAME, text, columns, bytes, kind) NAME##_COLUMNS = columns, NAME##_BYTES = bytes,
       ZT_DTYPES(X)
#undef X
};
#define X(NAME, ...)                                                                                                             \
    PACK_ROWS(NAME, pack_blocks(ZT_PACK_FORM(__VA_ARGS__), NAME##_COLUMNS, NAME##_BYTES, count, row_bytes, rows, src, dst,       \
                                put_##NAME))
ZT_PACK_BLOCKS(X)
#undef X

typedef struct packing {
    pack_rows_fn *pack; /* NULL: not packed, or as in the file */
    int columns;        /* of one step of it: a block of the file's */
    int plain_bytes;    /* of plain types: 16 rows of that */
    zt_pack_form form;
} packing;

static const packing packings[ZT_DTYPE_COUNT] = {[ZT_F32] = {pack_f32, 1, 64, {0}},
                                                 [ZT_F16] = {pack_f16, 1, 32, {0}},
                                                 [ZT_BF16] = {pack_bf16, 2, 64, {0}},
#define X(NAME, bits, table, offset, scales, head_bytes, head_slices)                                                            \
    [ZT_##NAME] = {pack_##NAME, NAME##_COLUMNS, 0, {bits, ZT_TABLE_##table, offset, ZT_SCALES_##scales, head_bytes, head_slices}},
                                                 ZT_PACK_BLOCKS(X)
#undef X
};

static const bool as_in_file[ZT_DTYPE_COUNT] = {
#define X(NAME) [ZT_##NAME] = true,
    ZT_PACK_AS_IN_FILE(X)
#undef X
};

const uint8_t zt_pack_table_values[ZT_TABLE_COUNT][16] = {
    [ZT_TABLE_IQ4] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
    [ZT_TABLE_ODD] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30},
    [ZT_TABLE_E2M1] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0},
};

bool zt_pack_as_in_file(zt_dtype type) { return (unsigned)type < ZT_DTYPE_COUNT && as_in_file[type]; }

bool zt_pack_supports(zt_dtype type) { return (unsigned)type < ZT_DTYPE_COUNT && (packings[type].pack || as_in_file[type]); }

zt_pack_form zt_pack_form_of(zt_dtype type) { return packings[type].form; }

size_t zt_pack_group_bytes(zt_dtype type, int64_t K)
{
    const packing *entry = &packings[type];
    const zt_pack_form form = entry->form;
    if (as_in_file[type]) return (ZT_PACK_ROWS * zt_pack_file_bytes(type, K) + 63) & ~(size_t)63;
    if (!form.bits) {
        size_t steps = (size_t)((K + entry->columns - 1) / entry->columns);
        return (steps * (size_t)entry->plain_bytes + 63) & ~(size_t)63;
    }
    int64_t slices = zt_pack_padded_slices(form, K), heads = (slices + form.head_slices - 1) / form.head_slices;
    return ZT_PACK_POWERS + (size_t)(heads * form.head_bytes + slices * ZT_PACK_CODE_BYTES(form.bits));
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* The scales and minima of a head that are floats: n and n_mins times 16 of them, one after the other, of so many
 * bytes each. */
typedef struct head_numbers {
    int n, n_mins, bytes;
} head_numbers;

static const head_numbers heads[] = {
    [ZT_SCALES_F16] = {2, 0, 2},  [ZT_SCALES_F16_MIN] = {2, 2, 2}, [ZT_SCALES_E8M0] = {4, 0, 1},
    [ZT_SCALES_E4M3] = {4, 0, 1}, [ZT_SCALES_U6_MIN] = {1, 1, 2},  [ZT_SCALES_U4_MIN] = {1, 1, 2},
    [ZT_SCALES_ONE] = {1, 0, 2},  [ZT_SCALES_I8] = {1, 0, 2},      [ZT_SCALES_I8_16] = {1, 0, 2},
};

/* The largest of n times 16 numbers without their signs, whose bits keep the order, NaN on top. */
INLINE void raise_tops(const uint8_t *p, int count, int bytes, int16_t top[16])
{
    for (int i = 0; i < count; i++, p += 16 * bytes) {
        int16_t halves[16];
        uint8_t bytes_of_rows[16];
        memcpy(bytes_of_rows, p, 16);
        if (bytes == 2) memcpy(halves, p, 32);
        for (int r = 0; r < 16; r++) {
            int16_t number = (int16_t)(bytes == 2 ? halves[r] & 0x7fff : bytes_of_rows[r]);
            top[r] = number > top[r] ? number : top[r];
        }
    }
}

static float number_of_bits(zt_pack_scales scales, int16_t bits)
{
    if (scales == ZT_SCALES_E8M0) return zt_pack_e8m0((uint8_t)bits);
    if (scales == ZT_SCALES_E4M3) return zt_pack_e4m3((uint8_t)bits);
    return zt_f16_to_f32((uint16_t)bits);
}

/* The power of two by which `top` is a number of 15 bits; 2^126 at most. */
static float power_of_top(float top)
{
    int exponent;
    if (!isfinite(top)) return NAN;
    if (top <= 0) return 1;
    frexpf(top, &exponent);
    float power = ldexpf(1, exponent < 15 - 126 ? 126 : 15 - exponent);
    return rintf(top * power) > INT16_MAX ? power / 2 : power;
}

/* In front of a group whose rows are there. */
static void put_powers(zt_pack_form form, int64_t K, uint8_t *group)
{
    const head_numbers numbers = heads[form.scales];
    const float times = (float)(1 << zt_pack_scale_bits(form)); /* whole numbers are less */
    const uint8_t *head = group + ZT_PACK_POWERS;
    int16_t scale_top[16] = {0}, min_top[16] = {0};
    for (int64_t left = zt_pack_padded_slices(form, K); left > 0; left -= form.head_slices) {
        if (numbers.bytes == 2)
            raise_tops(head, numbers.n, 2, scale_top);
        else
            raise_tops(head, numbers.n, 1, scale_top);
        raise_tops(head + 32 * numbers.n, numbers.n_mins, 2, min_top);
        head += form.head_bytes + zt_pack_head_slices(form, left) * ZT_PACK_CODE_BYTES(form.bits);
    }
    for (int r = 0; r < 16; r++) {
        float scale = number_of_bits(form.scales, scale_top[r]);
        float min = zt_f16_to_f32((uint16_t)min_top[r]) + scale * (float)zt_pack_middle(form);
        min = zt_pack_has_mins(form) ? ldexpf(min, -zt_pack_min_shift(form)) : 0;
        float power = isnan(scale + min) ? NAN : power_of_top(times * fmaxf(scale, min));
        memcpy(group + 4 * r, &power, 4);
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void pack_as_in_file(zt_dtype type, int64_t K, const uint8_t *src, size_t row_bytes, int rows, uint8_t *dst)
{
    size_t bytes = zt_pack_file_bytes(type, K), used = bytes * (size_t)rows;
    for (int r = 0; r < rows; r++) memcpy(dst + (size_t)r * bytes, src + (size_t)r * row_bytes, bytes);
    memset(dst + used, 0, zt_pack_group_bytes(type, K) - used);
}

/* Rows of a block type, with their powers; what is behind an odd block is zero, and what the last
 * head has for columns that are not there. */
static void pack_block_rows(const packing *entry, int64_t K, const uint8_t *src, size_t row_bytes, int rows, uint8_t *dst,
                            size_t bytes)
{
    const zt_pack_form form = entry->form;
    if (rows < ZT_PACK_ROWS || K / 32 % form.head_slices) memset(dst, 0, bytes);
    entry->pack(K / entry->columns, row_bytes, rows, src, dst + ZT_PACK_POWERS);
    put_powers(form, K, dst);
}

void zt_pack_group(zt_dtype type, int64_t K, const void *src, size_t row_bytes, int rows, void *dst)
{
    const packing *entry = &packings[type];
    const size_t all = zt_pack_group_bytes(type, K);
    if (as_in_file[type]) {
        pack_as_in_file(type, K, src, row_bytes, rows, dst);
        return;
    }
    if (entry->form.bits) {
        pack_block_rows(entry, K, src, row_bytes, rows, dst, all);
        return;
    }
    int64_t steps = K / entry->columns;
    size_t used = (size_t)steps * (size_t)entry->plain_bytes, from = rows < ZT_PACK_ROWS ? 0 : used;
    memset((uint8_t *)dst + from, 0, all - from);
    entry->pack(steps, row_bytes, rows, src, dst);
    if (K % entry->columns) /* the last column of an odd number of bf16 */
        for (int r = 0; r < rows; r++)
            memcpy((uint8_t *)dst + used + 4 * r, (const uint8_t *)src + (size_t)r * row_bytes + 2 * (size_t)(K - 1), 2);
}
