/* packed.h - what a lane reads of packed weights (args_llm.h draws them): of 16 rows by 32 columns
 * the codes as operand A of mma_s8 wants them, and the scales of its two rows.
 *
 * One struct a block type: STEPS of 32 columns in a block, WORDS of codes that a lane has of it,
 * HEAD words and HALF 16-bit scales a row; does it have minima (MIN), are its scales for 16 columns
 * (SUB). get() writes step s of a block.
 */
#ifndef ZT_CU_PACKED_H
#define ZT_CU_PACKED_H

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/blocks.h"

/* Where 16-bit part i of block `unit` of a row lies in the packed matrix, counted in 16 bits:
 * codes first, then heads, then halves, each for all rows. */
FN int64_t place_of(const zt_cu_pack_args *a, int64_t row, int64_t unit, int i)
{
    int64_t at = row / 16 * a->units + unit, all = (a->rows + 15) / 16 * a->units;
    int r = (int)(row % 16), code = i - a->codes_at / 2, head = i - a->head_at / 2;
    if (code >= 0 && code < 2 * a->codes) {
        int w = code / 2, lane = r % 8 * 4 + w % 4, v = w / 4 * 2 + r / 8, own = a->codes / 2;
        int64_t word = at * own * 32 + v / a->each * 32 * a->each + lane * a->each + v % a->each;
        return word * 2 + code % 2;
    }
    int64_t codes = all * a->codes * 16 * 2;
    if (head >= 0 && head < 2 * a->head) return codes + ((at * 16 + r) * a->head * 2 + head);
    return codes + all * a->head * 16 * 2 + at * 16 + r;
}

/* w = d0 code (+ m): of rows g and g + 8, of the lower 16 columns; of the upper d1. */
typedef struct fragment {
    uint32_t a[4];
    float d0[2], d1[2], m[2];
} fragment;

/* What a lane reads of one block: its codes, and the scales of rows g and g + 8. */
typedef struct packed_unit {
    uint32_t code[24], head[2][4];
    float half[2];
} packed_unit;

/* Each of four bytes below 128 less n: what is borrowed stays in its byte. */
FN uint32_t bytes_less(uint32_t w, uint32_t n) { return ((w | 0x80808080u) - n * 0x01010101u) ^ 0x80808080u; }

/* The lowest four bits, one in each byte. */
FN uint32_t bits_to_bytes(uint32_t w) { return (w & 15) * 0x00204081u & 0x01010101u; }

FN void one_scale(fragment *f, int r, float d, float m)
{
    f->d0[r] = f->d1[r] = d;
    f->m[r] = m;
}

/* Codes of four bits at code[0], code[1] of a step: low halves are columns 0 .. 15. */
FN void low_high(const uint32_t *code, fragment *f)
{
    for (int r = 0; r < 2; r++) {
        f->a[r] = code[r] & 0x0f0f0f0fu;
        f->a[2 + r] = code[r] >> 4 & 0x0f0f0f0fu;
    }
}

/* Fifth bits of rows' 32 columns, a bit each. */
FN void fifth_bits(const uint32_t high[2], fragment *f)
{
    int t = lane() % 4;
    for (int r = 0; r < 2; r++) {
        f->a[r] |= bits_to_bytes(high[r] >> 4 * t) << 4;
        f->a[2 + r] |= bits_to_bytes(high[r] >> (16 + 4 * t)) << 4;
    }
}

struct packed_q4_0 {
    enum { STEPS = 1, WORDS = 2, HEAD = 0, HALF = 1, MIN = 0, SUB = 0 };
    FN void get(const packed_unit *u, int, fragment *f)
    {
        low_high(u->code, f);
        for (int k = 0; k < 4; k++) f->a[k] = bytes_less(f->a[k], 8);
        for (int r = 0; r < 2; r++) one_scale(f, r, u->half[r], 0);
    }
};

struct packed_q4_1 {
    enum { STEPS = 1, WORDS = 2, HEAD = 1, HALF = 0, MIN = 1, SUB = 0 };
    FN void get(const packed_unit *u, int, fragment *f)
    {
        low_high(u->code, f);
        for (int r = 0; r < 2; r++) one_scale(f, r, half_of(u->head[r][0] & 0xffff), half_of(u->head[r][0] >> 16));
    }
};

struct packed_q5_0 {
    enum { STEPS = 1, WORDS = 2, HEAD = 1, HALF = 1, MIN = 0, SUB = 0 };
    FN void get(const packed_unit *u, int, fragment *f)
    {
        const uint32_t high[2] = {u->head[0][0], u->head[1][0]};
        low_high(u->code, f);
        fifth_bits(high, f);
        for (int k = 0; k < 4; k++) f->a[k] = bytes_less(f->a[k], 16);
        for (int r = 0; r < 2; r++) one_scale(f, r, u->half[r], 0);
    }
};

struct packed_q5_1 {
    enum { STEPS = 1, WORDS = 2, HEAD = 2, HALF = 0, MIN = 1, SUB = 0 };
    FN void get(const packed_unit *u, int, fragment *f)
    {
        const uint32_t high[2] = {u->head[0][1], u->head[1][1]};
        low_high(u->code, f);
        fifth_bits(high, f);
        for (int r = 0; r < 2; r++) one_scale(f, r, half_of(u->head[r][0] & 0xffff), half_of(u->head[r][0] >> 16));
    }
};

struct packed_q8_0 {
    enum { STEPS = 1, WORDS = 4, HEAD = 0, HALF = 1, MIN = 0, SUB = 0 };
    FN void get(const packed_unit *u, int, fragment *f)
    {
        for (int k = 0; k < 4; k++) f->a[k] = u->code[k];
        for (int r = 0; r < 2; r++) one_scale(f, r, u->half[r], 0);
    }
};

/* Scale and minimum s of q4_k and q5_k: words 1 to 3 are the 12 bytes of small ones. */
FN void k_scale(const packed_unit *u, int s, fragment *f)
{
    for (int r = 0; r < 2; r++) {
        const uint32_t *h = u->head[r];
        int j = s % 4;
        uint32_t low = byte_of(h[1], j), high = byte_of(h[2], j), more = byte_of(h[3], j);
        uint32_t sc = s < 4 ? low & 63 : (more & 15) | low >> 6 << 4;
        uint32_t mn = s < 4 ? high & 63 : more >> 4 | high >> 6 << 4;
        one_scale(f, r, half_of(h[0] & 0xffff) * (float)sc, -(half_of(h[0] >> 16) * (float)mn));
    }
}

/* Step s of codes of four bits by pairs of steps: 32 bytes have both, the first in low halves. */
FN void k_codes(const uint32_t *code, int s, fragment *f)
{
    for (int k = 0; k < 4; k++) f->a[k] = code[s / 2 * 4 + k] >> s % 2 * 4 & 0x0f0f0f0fu;
}

struct packed_q4_k {
    enum { STEPS = 8, WORDS = 16, HEAD = 4, HALF = 0, MIN = 1, SUB = 0 };
    FN void get(const packed_unit *u, int s, fragment *f)
    {
        k_codes(u->code, s, f);
        k_scale(u, s, f);
    }
};

struct packed_q5_k {
    enum { STEPS = 8, WORDS = 20, HEAD = 4, HALF = 0, MIN = 1, SUB = 0 };
    FN void get(const packed_unit *u, int s, fragment *f)
    {
        k_codes(u->code + 4, s, f);
        for (int k = 0; k < 4; k++) f->a[k] |= (u->code[k] >> s & 0x01010101u) << 4;
        k_scale(u, s, f);
    }
};

struct packed_q6_k {
    enum { STEPS = 8, WORDS = 24, HEAD = 4, HALF = 1, MIN = 0, SUB = 1 };
    FN void get(const packed_unit *u, int s, fragment *f)
    {
        int half = s / 4, k = s % 4;
        for (int i = 0; i < 4; i++) {
            uint32_t low = u->code[half * 8 + (k & 1) * 4 + i] >> k / 2 * 4 & 0x0f0f0f0fu;
            uint32_t high = u->code[16 + half * 4 + i] >> 2 * k & 0x03030303u;
            f->a[i] = bytes_less(low | high << 4, 32);
        }
        for (int r = 0; r < 2; r++) {
            uint32_t w = u->head[r][s / 2] >> s % 2 * 16;
            f->d0[r] = u->half[r] * (float)(int8_t)(w & 255);
            f->d1[r] = u->half[r] * (float)(int8_t)(w >> 8 & 255);
            f->m[r] = 0;
        }
    }
};

/* N of them that a lane reads of packed weights: of device memory, which nobody writes, or not. */
template <int N, bool DEVICE, class T> FN vec<T, N> packed_vec(const T *p)
{
    if constexpr (DEVICE)
        return weight_vec<N>(p);
    else
        return load_vec<N>(p);
}

/* Block number `at` (tile * blocks a row + block) of a packed matrix. DEVICE: in device memory. */
template <class T, bool DEVICE>
FN void unit_at(const uint32_t *codes, const uint32_t *heads, const f16 *halves, int64_t at, packed_unit *u)
{
    const int each = T::WORDS < 4 ? T::WORDS : 4;
    const uint32_t *from = codes + at * T::WORDS * 32 + lane() * each;
    for (int v = 0; v < T::WORDS / each; v++) {
        vec<uint32_t, each> part = packed_vec<each, DEVICE>(from + v * 32 * each);
        for (int k = 0; k < each; k++) u->code[v * each + k] = part.v[k];
    }
    for (int r = 0; r < 2; r++) {
        int64_t row = at * 16 + lane() / 4 + 8 * r;
        if (T::HEAD > 0) {
            const int some = T::HEAD > 0 ? int(T::HEAD) : 1;
            vec<uint32_t, some> head = packed_vec<some, DEVICE>(heads + row * some);
            for (int h = 0; h < some; h++) u->head[r][h] = head.v[h];
        }
        if (T::HALF) u->half[r] = half_of(packed_vec<1, DEVICE>((const uint16_t *)halves + row).v[0]);
    }
}

template <class T> FN void read_unit(const uint32_t *codes, const uint32_t *heads, const f16 *halves, int64_t at, packed_unit *u)
{
    unit_at<T, true>(codes, heads, halves, at, u);
}

#endif
