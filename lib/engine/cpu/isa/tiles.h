/* tiles.h - private to isa/linalg.c: the product of a few groups of 16 rows by a few tokens, for
 * each form of weights and activations, and the table of them.
 *
 * One value is one f32 accumulator that takes the columns in order (with plain weights and AVX-512:
 * one for the even and one for the odd), whatever the tile's size.
 */
#ifndef ZT_CPU_TILES_H
#define ZT_CPU_TILES_H

#include "lib/base/processor.h"
#include "lib/engine/cpu/isa/dot.h"
#include "lib/engine/cpu/isa/flush.h"

enum { SIZES = 4, MOST = 8, MOST_GROUPS = 4 }; /* tiles of 1, 2, 4, 8 tokens */

/* w: the groups' packed bytes; x: the tile's activations, rows `step` apart where they are rows;
 * acc: 16 values of each token, `down` apart; of more groups than one down is 16, and they follow
 * each other; reach: how far ahead the first tile by a group sends for weights (send_for), 0 for others.
 * Each makes its pass for LANES rows of the groups, from row r on. */
typedef void tile_fn(const uint8_t *const *w, int64_t K, const void *x, size_t step, float *acc,
                     int64_t down, size_t reach);

/* ---- tiles: 8-bit activations ---------------------------------------------------------------- */

/* Scales for columns 16h.. of the b-th 32 after the head p, and minima. */
INLINE fv scale_of(zt_pack_form f, const uint8_t *p, int b, int h, int r)
{
    const int fine = 16 * (2 * b + h) + r, coarse = 16 * b + r;
    if (f.scales == ZT_SCALES_E8M0) return fv_of_e8m0(p + coarse);
    if (f.scales == ZT_SCALES_E4M3) return fv_of_e4m3(p + fine);
    if (f.scales == ZT_SCALES_HALF) return fv_of_half(p + 32 * b + 2 * r);
    fv d = fv_of_half(p + 2 * r);
    if (f.scales == ZT_SCALES_ONE || f.scales == ZT_SCALES_HALF_MIN) return d;
    if (f.scales == ZT_SCALES_I8) return fv_mul(d, fv_of_i8(p + 32 + coarse));
    if (f.scales == ZT_SCALES_I8_16) return fv_mul(d, fv_of_i8(p + 32 + fine));
    if (f.scales == ZT_SCALES_U4_MIN) return fv_mul(d, fv_of_low4(p + 64 + fine));
    return fv_mul(d, fv_of_u8(p + 64 + coarse));
}

INLINE fv min_of(zt_pack_form f, const uint8_t *p, int b, int h, int r)
{
    fv d = fv_of_half(p + 32 + 2 * r);
    if (f.scales == ZT_SCALES_HALF_MIN) return d;
    if (f.scales == ZT_SCALES_U4_MIN)
        return fv_neg(fv_mul(d, fv_of_high4(p + 64 + 16 * (2 * b + h) + r)));
    return fv_neg(fv_mul(d, fv_of_iv(iv_byte(p + 192 + 64 * (b / 4) + 4 * r, b % 4))));
}

/* zt_pack_together; a constant for blocks of 256 columns, which are always whole. */
INLINE int together(zt_pack_form f, int64_t left)
{
    return f.together == 8 ? 8 : zt_pack_together(f, left);
}

/* A tile of so few rows waits for memory: it asks for lines in the order in which they lie. (How far
 * ahead codes of 8 bits are then sent for is zt_cpu_reach_of_bytes.) */
enum { IN_ORDER = 2 };
TEMPLATE void ask_for_lines(const uint8_t *p, int bytes)
{
    UNROLL for (int i = 0; i < bytes; i += 64) ask_for(p + i);
}

/* Bytes of CODES for 32 columns of one token. */
INLINE size_t code_bytes(zt_pack_form f) { return zt_pack_halves(f) ? 44 : 40; }

/* 32 or 16 columns for T rows of activations: sum[t] += what each row of weights gives. dot: their
 * products with codes, d and s their scales and what they sum up to. With P = 2 a token is two. */
TEMPLATE void add_part(zt_pack_form f, int T, int P, const iv *dot, fv scale, fv min,
                       const uint8_t *d, const uint8_t *s, fv *sum)
{
    UNROLL for (int t = 0; t < T / P; t++) {
        iv whole = P == 2 ? iv_join(dot[P * t], dot[P * t + 1]) : dot[t];
        fv dx = fv_set(load_f32(d + 4 * P * t));
        sum[t] = fv_fma(fv_of_iv(whole), fv_mul(scale, dx), sum[t]);
        if (zt_pack_mins_apart(f))
            sum[t] = fv_fma(min, fv_set(load_f32(s + 4 * P * t)), sum[t]);
    }
}

/* Minima of 256 columns (zt_pack_folds) for T rows of activations, which begin at x: m[2] are columns
 * of codes like others, the sums of activations numbers of 16 bits (codes.h). dmin: less what the
 * minima are multiples of. 7: that many bits would fit. */
TEMPLATE void add_mins(zt_pack_form f, int T, int P, const cv *m, fv dmin, const uint8_t *x, fv *sum)
{
    const size_t next = (size_t)T * code_bytes(f);
    const uint8_t *s = x + 36 * T;
    iv part[4][MOST];
    UNROLL for (int i = 0; i < 4; i++)
        cv_dots(7, 1, T, m + i % 2, s + (size_t)i * next, NULL, part[i]);
    UNROLL for (int t = 0; t < T; t += P) {
        iv whole = iv_join(iv_add(part[0][t], part[1][t]), iv_add(part[2][t], part[3][t]));
        fv unit = fv_mul(dmin, fv_set(load_f32(s + 4 * next + 4 * t)));
        sum[t / P] = fv_fma(fv_of_iv(whole), unit, sum[t / P]);
    }
}

/* The same of the head p, rows from r on. */
TEMPLATE void head_mins(zt_pack_form f, int T, int P, int r, const uint8_t *p, const uint8_t *x,
                        fv *sum)
{
    const cv m[2] = {cv_load(p + 192 + 4 * r), cv_load(p + 256 + 4 * r)};
    add_mins(f, T, P, m, fv_neg(fv_of_half(p + 32 + 2 * r)), x, sum);
}

/* 32 columns, the b-th after the head p, codes at q. */
TEMPLATE void block_codes(zt_pack_form f, int T, int P, int r, const uint8_t *p, const uint8_t *q,
                          int b, const uint8_t *x, fv *sum)
{
    const uint8_t *d = x + 32 * T, *s = d + 4 * T;
    const int parts = zt_pack_halves(f) ? 2 : 1, n = 8 / parts;
    cv c[8];
    iv dot[MOST];
    if (f.bits == 8 && T <= IN_ORDER) {
        cv_dots_next(T, q + 4 * r, x, s, dot);
        add_part(f, T, P, dot, scale_of(f, p, b, 0, r), fv_zero(), d, s, sum);
        return;
    }
    cv_unpack(f, T <= IN_ORDER, q + 4 * r, c);
    UNROLL for (int h = 0; h < parts; h++) {
        fv scale = scale_of(f, p, b, h, r), min = scale;
        if (zt_pack_mins_apart(f)) min = min_of(f, p, b, h, r);
        cv_dots(zt_pack_wide(f), n, T, c + 4 * h, x + 16 * T * h,
                zt_pack_mins(f) ? NULL : s + 4 * T * h, dot);
        add_part(f, T, P, dot, scale, min, d, s + 4 * T * h, sum);
    }
}

TEMPLATE void tile_codes(zt_pack_form f, int T, int P, int r, const uint8_t *p, int64_t K,
                         const uint8_t *x, float *acc, int64_t down, size_t reach)
{
    if (r > 0) reach = 0;
    fv sum[MOST];
    UNROLL for (int t = 0; t < T / P; t++)
        sum[t] = fv_zero();
    for (int64_t left = K / 32; left > 0; left -= f.together) {
        const uint8_t *q = p + f.head;
        const int n = together(f, left);
        if (T <= IN_ORDER) ask_for_lines(p, f.head);
        send_for(p, reach, f.head);
        if (zt_pack_folds(f)) head_mins(f, T, P, r, p, x, sum);
        for (int b = 0; b < n; b++, q += ZT_PACK_CODES(f.bits), x += (size_t)T * code_bytes(f)) {
            send_for(q, reach, ZT_PACK_CODES(f.bits));
            block_codes(f, T, P, r, p, q, b, x, sum);
        }
        p = q;
    }
    UNROLL for (int t = 0; t < T / P; t++)
        fv_store(acc + down * t + r, sum[t]);
}

/* ---- two whole tiles at once ----------------------------------------------------------------- */

/* x: the first, the second `apart` from it. Codes and scales are unpacked once for both; of the sums half
 * wait in memory. NULL where there are no registers for it. */
typedef void twin_fn(const uint8_t *w, int64_t K, const uint8_t *x, size_t apart, float *acc,
                     int64_t down, size_t reach);

#if defined(ZT_ISA_avx512)
TEMPLATE void twin_block(zt_pack_form f, int P, const uint8_t *p, const uint8_t *q, int b,
                         const uint8_t *x, size_t apart, fv *sum)
{
    const int parts = zt_pack_halves(f) ? 2 : 1, n = 8 / parts;
    cv c[8];
    cv_unpack(f, false, q, c);
    UNROLL for (int h = 0; h < parts; h++) {
        fv scale = scale_of(f, p, b, h, 0), min = scale;
        if (zt_pack_mins_apart(f)) min = min_of(f, p, b, h, 0);
        UNROLL for (int u = 0; u < 2; u++) {
            const uint8_t *xu = x + (u ? apart : 0);
            __asm__("" : "+r"(xu)); /* else gcc 12 keeps the address of each number by itself */
            const uint8_t *d = xu + 32 * MOST, *s = d + 4 * MOST;
            iv dot[MOST];
            cv_dots(zt_pack_wide(f), n, MOST, c + 4 * h, xu + 16 * MOST * h,
                    zt_pack_mins(f) ? NULL : s + 4 * MOST * h, dot);
            add_part(f, MOST, P, dot, scale, min, d, s + 4 * MOST * h, sum + MOST / P * u);
        }
    }
}

TEMPLATE void twin_codes(zt_pack_form f, int P, const uint8_t *p, int64_t K, const uint8_t *x,
                         size_t apart, float *acc, int64_t down, size_t reach)
{
    fv sum[2 * MOST];
    UNROLL for (int t = 0; t < 2 * MOST / P; t++) sum[t] = fv_zero();
    for (int64_t left = K / 32; left > 0; left -= f.together) {
        const uint8_t *q = p + f.head;
        const int n = together(f, left);
        send_for(p, reach, f.head);
        for (int u = 0; u < 2 && zt_pack_folds(f); u++)
            head_mins(f, MOST, P, 0, p, x + (u ? apart : 0), sum + MOST / P * u);
        for (int b = 0; b < n; b++, q += ZT_PACK_CODES(f.bits), x += (size_t)MOST * code_bytes(f)) {
            send_for(q, reach, ZT_PACK_CODES(f.bits));
            twin_block(f, P, p, q, b, x, apart, sum);
        }
        p = q;
    }
    UNROLL for (int t = 0; t < 2 * MOST / P; t++) fv_store(acc + down * t, sum[t]);
}
#endif

/* ---- opened groups --------------------------------------------------------------------------- */

/* Columns of a group as tiles of 8-bit activations want them, made once for many tiles: for each 32
 * the eight registers of codes, and f32 scales (two with halves), each with its minima behind it if
 * there are any; where they fold, the minima of 256 columns and what they are multiples of come after
 * these. Only where what that saves, shifts and conversions, keeps products waiting. */
enum { OPEN_MINS = 3 * 64, OPEN_COLUMNS = 768, OPEN_BYTES = (512 + 4 * 64) * OPEN_COLUMNS / 32 };

typedef void open_fn(const uint8_t *w, int64_t K, uint8_t *to);
/* w: opened; x: a tile of MOST rows; goes on from what is at acc, or begins. */
typedef void opened_fn(const uint8_t *w, int64_t K, const uint8_t *x, float *acc, int64_t down,
                       bool goes_on);

#if defined(ZT_ISA_avx512)
TEMPLATE uint8_t *open_block(zt_pack_form f, const uint8_t *p, const uint8_t *q, int b, uint8_t *to)
{
    cv c[8];
    cv_unpack(f, false, q, c);
    UNROLL for (int i = 0; i < 8; i++, to += 64) cv_store(to, c[i]);
    UNROLL for (int h = 0; h <= zt_pack_halves(f); h++) {
        cv_store(to, (cv)scale_of(f, p, b, h, 0));
        to += 64;
        if (!zt_pack_mins_apart(f)) continue;
        cv_store(to, (cv)min_of(f, p, b, h, 0));
        to += 64;
    }
    return to;
}

INLINE uint8_t *open_mins(const uint8_t *p, uint8_t *to)
{
    cv_store(to, cv_load(p + 192));
    cv_store(to + 64, cv_load(p + 256));
    cv_store(to + 128, (cv)fv_neg(fv_of_half(p + 32)));
    return to + OPEN_MINS;
}

TEMPLATE void open_codes(zt_pack_form f, const uint8_t *p, int64_t K, uint8_t *to)
{
    for (int64_t left = K / 32; left > 0; left -= f.together) {
        const uint8_t *q = p + f.head;
        const int n = together(f, left);
        for (int b = 0; b < n; b++, q += ZT_PACK_CODES(f.bits)) to = open_block(f, p, q, b, to);
        if (zt_pack_folds(f)) to = open_mins(p, to);
        p = q;
    }
}

/* 32 opened columns; what comes after them. */
TEMPLATE const uint8_t *opened_block(zt_pack_form f, int P, const uint8_t *p, const uint8_t *x,
                                     fv *sum)
{
    const int parts = zt_pack_halves(f) ? 2 : 1, n = 8 / parts;
    const uint8_t *d = x + 32 * MOST, *s = d + 4 * MOST, *scales = p + 512;
    UNROLL for (int h = 0; h < parts; h++) {
        cv c[8];
        iv dot[MOST];
        UNROLL for (int i = 0; i < n; i++) c[i] = cv_load(p + 64 * (n * h + i));
        fv scale = fv_load(scales), min = scale;
        scales += 64;
        if (zt_pack_mins_apart(f)) {
            min = fv_load(scales);
            scales += 64;
        }
        cv_dots(8, n, MOST, c, x + 16 * MOST * h, zt_pack_mins(f) ? NULL : s + 4 * MOST * h, dot);
        add_part(f, MOST, P, dot, scale, min, d, s + 4 * MOST * h, sum);
    }
    return scales;
}

/* Minima that lie behind 8 blocks which begin at p. */
TEMPLATE void opened_mins_of(zt_pack_form f, int P, const uint8_t *p, const uint8_t *x, fv *sum)
{
    const uint8_t *at = p + 8 * (512 + 64);
    const cv m[2] = {cv_load(at), cv_load(at + 64)};
    add_mins(f, MOST, P, m, fv_load(at + 128), x, sum);
}

/* tile_codes of an opened group, whatever its type: f says what scales and minima there are. */
TEMPLATE void tile_opened(zt_pack_form f, int P, const uint8_t *p, int64_t K, const uint8_t *x,
                          float *acc, int64_t down, bool goes_on)
{
    fv sum[MOST];
    UNROLL for (int t = 0; t < MOST / P; t++)
        sum[t] = goes_on ? fv_load(acc + down * t) : fv_zero();
    for (int64_t k = 0; k < K; k += 32, x += (size_t)MOST * code_bytes(f)) {
        if (zt_pack_folds(f) && k % 256 == 0) opened_mins_of(f, P, p, x, sum);
        p = opened_block(f, P, p, x, sum);
        if (zt_pack_folds(f) && k % 256 == 224) p += OPEN_MINS;
    }
    UNROLL for (int t = 0; t < MOST / P; t++) fv_store(acc + down * t, sum[t]);
}
#endif

/* ---- tiles: f32 activations ------------------------------------------------------------------ */

/* Of every row and token one sum, in order: G groups times T tokens of them are kept going. */
typedef struct sums {
    fv v[MOST_GROUPS][MOST];
} sums;

TEMPLATE void sums_zero(sums *s, int G, int T)
{
    UNROLL for (int g = 0; g < G; g++)
        UNROLL for (int t = 0; t < T; t++) s->v[g][t] = fv_zero();
}

TEMPLATE void sums_store(const sums *s, int G, int T, int r, float *acc, int64_t down)
{
    UNROLL for (int g = 0; g < G; g++)
        UNROLL for (int t = 0; t < T; t++) fv_store(acc + down * (g * T + t) + r, s->v[g][t]);
}

/* Plain weights come from memory as fast as it gives them where one group is read from its
 * beginning to its end and no other beside it. To have enough sums going then, each is kept in two
 * chains, of the even and of the odd columns, where there are registers for that. */
#if defined(ZT_ISA_avx512)
enum { CHAINS = 2 };
#define PLAIN_GROUPS 1, 1, 1, 1
#define EACH_PLAIN_SIZE(X, NAME, arg)                                                              \
    X(NAME, arg, 1, 1) X(NAME, arg, 1, 2) X(NAME, arg, 1, 4) X(NAME, arg, 1, 8)
#else
enum { CHAINS = 1 };
#define PLAIN_GROUPS    4, 4, 2, 1
#define EACH_PLAIN_SIZE EACH_SIZE
#endif

TEMPLATE void chains_store(sums *s, int G, int T, int r, float *acc, int64_t down)
{
    UNROLL for (int c = 1; c < CHAINS; c++)
        UNROLL for (int g = 0; g < G; g++)
            UNROLL for (int t = 0; t < T; t++) s[0].v[g][t] = fv_add(s[0].v[g][t], s[c].v[g][t]);
    sums_store(&s[0], G, T, r, acc, down);
}

/* 16 columns of G groups as f32 weights, times T tokens. c: their codes, stored. */
TEMPLATE void half_rows(zt_pack_form f, int G, int T, const uint8_t (*c)[8][64], int h,
                        const fv *scale, const fv *min, const float *x, size_t step, sums *s)
{
    const iv offset = iv_set(f.offset);
    for (int i = 0; i < 16; i++) {
        UNROLL for (int g = 0; g < G; g++) {
            fv w = fv_mul(fv_of_iv(iv_sub(iv_byte(c[g][4 * h + i / 4], i % 4), offset)), scale[g]);
            if (zt_pack_mins(f)) w = fv_add(w, min[g]);
            UNROLL for (int t = 0; t < T; t++)
                s->v[g][t] = fv_fma(w, fv_set(x[(size_t)t * step + (size_t)i]), s->v[g][t]);
        }
    }
}

TEMPLATE void tile_rows(zt_pack_form f, int G, int T, int r, const uint8_t *const *w, int64_t K,
                        const float *x, size_t step, float *acc, int64_t down)
{
    size_t at = 0;
    fv scale[MOST_GROUPS], min[MOST_GROUPS];
    uint8_t codes[MOST_GROUPS][8][64];
    sums s;
    sums_zero(&s, G, T);
    for (int64_t k = 0; k < K;) {
        const int n = together(f, (K - k) / 32);
        size_t q = at + (size_t)f.head;
        for (int b = 0; b < n; b++, k += 32, q += ZT_PACK_CODES(f.bits)) {
            for (int g = 0; g < G; g++) {
                cv c[8];
                cv_unpack(f, false, w[g] + q + 4 * r, c);
                UNROLL for (int i = 0; i < 8; i++)
                    cv_store(codes[g][i], c[i]);
            }
            for (int h = 0; h < 2; h++) {
                UNROLL for (int g = 0; g < G; g++) {
                    scale[g] = scale_of(f, w[g] + at, b, h, r);
                    if (zt_pack_mins(f)) min[g] = min_of(f, w[g] + at, b, h, r);
                }
                half_rows(f, G, T, codes, h, scale, min, x + k + 16 * h, step, &s);
            }
        }
        at = q;
    }
    sums_store(&s, G, T, r, acc, down);
}

/* Bytes of a column of a group of plain weights. */
INLINE int column_bytes(zt_dtype t) { return t == ZT_F32 ? 64 : 32; }

/* Column k of rows r.. of a group of plain weights as f32. */
INLINE fv plain_column(zt_dtype t, const uint8_t *w, int64_t k, int r)
{
    if (t == ZT_F32) return fv_load(w + 64 * k + 4 * r);
    if (t == ZT_F16) return fv_of_half(w + 32 * k + 2 * r);
    return fv_of_brain(w + 64 * (k / 2) + 4 * r, (int)(k % 2));
}

/* Columns k.. into the chains of sums, as many as there are chains. */
TEMPLATE void plain_columns(zt_dtype type, int n, int G, int T, int r, const uint8_t *const *w,
                            int64_t k, const float *x, size_t step, sums *s)
{
    UNROLL for (int c = 0; c < n; c++) {
        UNROLL for (int g = 0; g < G; g++) {
            fv v = plain_column(type, w[g], k + c, r);
            UNROLL for (int t = 0; t < T; t++)
                s[c].v[g][t] =
                    fv_fma(v, fv_set(x[(size_t)t * step + (size_t)(k + c)]), s[c].v[g][t]);
        }
    }
}

TEMPLATE void tile_plain(zt_dtype type, int G, int T, int r, const uint8_t *const *w, int64_t K,
                         const float *x, size_t step, float *acc, int64_t down, size_t reach)
{
    if (r > 0) reach = 0;
    sums s[CHAINS];
    int64_t k = 0;
    UNROLL for (int c = 0; c < CHAINS; c++)
        sums_zero(&s[c], G, T);
    for (; k + CHAINS <= K; k += CHAINS) {
        UNROLL for (int g = 0; g < G; g++)
            send_for(w[g] + column_bytes(type) * k, reach, CHAINS * column_bytes(type));
        plain_columns(type, CHAINS, G, T, r, w, k, x, step, s);
    }
    for (; k < K; k++) plain_columns(type, 1, G, T, r, w, k, x, step, s);
    chains_store(s, G, T, r, acc, down);
}

/* ---- tiles: bfloat16 activations ------------------------------------------------------------- */

#if defined(ZT_ISA_avx512)
/* Words k.. of two columns into the chains of sums. */
INLINE void brain_columns(int n, int T, int r, const uint8_t *w, int64_t k, const four *x,
                          size_t step, sums *s)
{
    UNROLL for (int c = 0; c < n; c++) {
        __m512i v = _mm512_loadu_si512(w + 64 * (k + c) + 4 * r);
        UNROLL for (int t = 0; t < T; t++)
            __asm__("vdpbf16ps %2%{1to16%}, %1, %0" /* gcc 12 takes two instructions for it */
                    : "+v"(s[c].v[0][t])
                    : "v"(v), "m"(x[(size_t)t * step + (size_t)(k + c)]));
    }
}

/* x: words of two columns, rows `step` words apart. */
INLINE void tile_brain(int T, int r, const uint8_t *w, int64_t K, const four *x, size_t step,
                       float *acc, int64_t down)
{
    sums s[CHAINS];
    int64_t k = 0, words = (K + 1) / 2;
    UNROLL for (int c = 0; c < CHAINS; c++)
        sums_zero(&s[c], 1, T);
    for (; k + CHAINS <= words; k += CHAINS) brain_columns(CHAINS, T, r, w, k, x, step, s);
    for (; k < words; k++) brain_columns(1, T, r, w, k, x, step, s);
    chains_store(s, 1, T, r, acc, down);
}
#endif

/* ---- tiles: bfloat16 activations as f32 ------------------------------------------------------ */

#if defined(ZT_ISA_avx512)
/* The bits of tile_brain by FMAs, for processors on which these are faster than vdpbf16ps. That is
 * an FMA of the pair's odd column, then one of the even, numbers below the normal ones taken and
 * given as 0. */

/* Words k.. of two columns into the chains of sums. volatile: not before or after the flushing. */
INLINE void wide_columns(int n, int T, int r, const uint8_t *w, int64_t k, const float *x,
                         size_t step, sums *s)
{
    UNROLL for (int c = 0; c < n; c++)
        UNROLL for (int odd = 1; odd >= 0; odd--) {
            fv v = fv_of_brain(w + 64 * (k + c) + 4 * r, odd);
            UNROLL for (int t = 0; t < T; t++)
                __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0"
                                 : "+v"(s[c].v[0][t])
                                 : "v"(v), "m"(x[(size_t)t * step + (size_t)(2 * (k + c) + odd)]));
        }
}

/* x: columns, an even number of them, rows `step` apart. */
INLINE void tile_wide(int T, int r, const uint8_t *w, int64_t K, const float *x, size_t step,
                      float *acc, int64_t down, size_t reach)
{
    sums s[CHAINS];
    int64_t k = 0, words = (K + 1) / 2;
    UNROLL for (int c = 0; c < CHAINS; c++)
        sums_zero(&s[c], 1, T);
    const unsigned usual = flush_begin();
    for (; k + CHAINS <= words; k += CHAINS) {
        send_for(w + 64 * k, reach, CHAINS * 64);
        wide_columns(CHAINS, T, r, w, k, x, step, s);
    }
    for (; k < words; k++) wide_columns(1, T, r, w, k, x, step, s);
    flush_end(usual);
    UNROLL for (int c = 0; c < CHAINS; c++)
        UNROLL for (int t = 0; t < T; t++) __asm__ volatile("" : "+v"(s[c].v[0][t]));
    chains_store(s, 1, T, r, acc, down);
}
#endif

/* ---- the table of tiles ---------------------------------------------------------------------- */

typedef enum act_form { ROWS, BRAIN, WIDE, CODES } act_form;

typedef struct tiles {
    tile_fn *fn[SIZES];
    int groups[SIZES]; /* that one call takes */
} tiles;

typedef struct weights {
    tiles exact, fast, fine; /* act=f32, act=q8, act=q16 */
    act_form fast_form; /* with BRAIN: of processors that are fast at it, WIDE of the others */
    zt_pack_form form;
    open_fn *open; /* NULL: of codes that are bytes, and where it would save nothing */
    twin_fn *twin[2]; /* [parts - 1] */
} weights;

#define TILE(name, body)                                                                           \
    static void name(const uint8_t *const *w, int64_t K, const void *x, size_t step, float *acc,   \
                     int64_t down, size_t reach)                                                   \
    {                                                                                              \
        (void)step, (void)reach;                                                                   \
        for (int r = 0; r < ZT_PACK_ROWS; r += LANES) body;                                        \
    }
/* With f32 every sum is a chain of dependent additions, so a call keeps eight of them going. */
#define EACH_SIZE(X, NAME, arg)                                                                    \
    X(NAME, arg, 4, 1) X(NAME, arg, 4, 2) X(NAME, arg, 2, 4) X(NAME, arg, 1, 8)
#define ROWS_TILE(NAME, form, G, T)                                                                \
    TILE(rows_##NAME##_##T, tile_rows(form, G, T, r, w, K, x, step, acc, down))
#define CODES_TILE(NAME, form, G, T)                                                               \
    TILE(codes_##NAME##_##T, tile_codes(form, T, 1, r, w[0], K, x, acc, down, reach))              \
    TILE(fine_##NAME##_##T, tile_codes(form, T, T > 1 ? 2 : 1, r, w[0], K, x, acc, down, reach))
#define PLAIN_TILE(NAME, type, G, T)                                                               \
    TILE(rows_##NAME##_##T, tile_plain(type, G, T, r, w, K, x, step, acc, down, reach))
#define DECODED_TILE(NAME, type, G, T)                                                             \
    TILE(decoded_##NAME##_##T, tile_plain(type, 1, T, r, w, K, x, step, acc, down, reach))
#define BRAIN_TILE(NAME, unused, G, T)                                                             \
    TILE(brain_##NAME##_##T, tile_brain(T, r, w[0], K, x, step, acc, down))                        \
    TILE(wide_##NAME##_##T, tile_wide(T, r, w[0], K, x, step, acc, down, reach))

#define X(NAME, ...)                                                                               \
    EACH_SIZE(ROWS_TILE, NAME, ZT_PACK_FORM(__VA_ARGS__))                                          \
    EACH_SIZE(CODES_TILE, NAME, ZT_PACK_FORM(__VA_ARGS__))
ZT_PACK_BLOCKS(X)
#undef X
#if defined(ZT_ISA_avx512)
#define X(NAME, ...)                                                                               \
    static void open_##NAME(const uint8_t *w, int64_t K, uint8_t *to)                              \
    {                                                                                              \
        open_codes(ZT_PACK_FORM(__VA_ARGS__), w, K, to);                                           \
    }                                                                                              \
    static void twin_##NAME(const uint8_t *w, int64_t K, const uint8_t *x, size_t apart,           \
                            float *acc, int64_t down, size_t reach)                                \
    {                                                                                              \
        twin_codes(ZT_PACK_FORM(__VA_ARGS__), 1, w, K, x, apart, acc, down, reach);                \
    }                                                                                              \
    static void twin_fine_##NAME(const uint8_t *w, int64_t K, const uint8_t *x, size_t apart,      \
                                 float *acc, int64_t down, size_t reach)                           \
    {                                                                                              \
        twin_codes(ZT_PACK_FORM(__VA_ARGS__), 2, w, K, x, apart, acc, down, reach);                \
    }
ZT_PACK_BLOCKS(X)
#undef X
#define OPENED_TILE(name, P, scales)                                                               \
    static void name(const uint8_t *w, int64_t K, const uint8_t *x, float *acc, int64_t down,      \
                     bool goes_on)                                                                 \
    {                                                                                              \
        tile_opened(ZT_PACK_FORM(8, NONE, 0, scales, 0, 1), P, w, K, x, acc, down, goes_on);       \
    }
OPENED_TILE(opened, 1, HALF)
OPENED_TILE(opened_fine, 2, HALF)
OPENED_TILE(opened_mins, 1, HALF_MIN)
OPENED_TILE(opened_mins_fine, 2, HALF_MIN)
OPENED_TILE(opened_folds, 1, U6_MIN)
OPENED_TILE(opened_folds_fine, 2, U6_MIN)
OPENED_TILE(opened_halves, 1, I8_16)
OPENED_TILE(opened_halves_fine, 2, I8_16)
OPENED_TILE(opened_halves_mins, 1, U4_MIN)
OPENED_TILE(opened_halves_mins_fine, 2, U4_MIN)
/* [has scales for 16 columns][has minima: 1, that fold: 2][parts - 1] */
static opened_fn *const opened_tiles[2][3][2] = {
    {{opened, opened_fine}, {opened_mins, opened_mins_fine}, {opened_folds, opened_folds_fine}},
    {{opened_halves, opened_halves_fine},
     {opened_halves_mins, opened_halves_mins_fine},
     {NULL, NULL}}};
#define OPEN(NAME, bits) (bits) < 8 ? open_##NAME : NULL
#define TWIN(NAME)       {twin_##NAME, twin_fine_##NAME}
#else
#define OPEN(NAME, bits) NULL
#define TWIN(NAME)       {NULL, NULL}
#endif
EACH_PLAIN_SIZE(PLAIN_TILE, F32, ZT_F32)
EACH_PLAIN_SIZE(PLAIN_TILE, F16, ZT_F16)
EACH_PLAIN_SIZE(PLAIN_TILE, BF16, ZT_BF16)
EACH_SIZE(DECODED_TILE, F32, ZT_F32)
#if defined(ZT_ISA_avx512)
EACH_SIZE(BRAIN_TILE, BF16, 0)
#endif

/* `kind` of tiles, and how many groups those of each size take. */
#define TILES(kind, NAME, ...)                                                                     \
    {{kind##_##NAME##_1, kind##_##NAME##_2, kind##_##NAME##_4, kind##_##NAME##_8}, {__VA_ARGS__}}
#define ROWS_TILES(NAME)  TILES(rows, NAME, 4, 4, 2, 1)
#define PLAIN_TILES(NAME) TILES(rows, NAME, PLAIN_GROUPS)
#define CODES_TILES(NAME) TILES(codes, NAME, 1, 1, 1, 1)
#define FINE_TILES(NAME)  TILES(fine, NAME, 1, 1, 1, 1)
#define DECODED_TILES     TILES(decoded, F32, 1, 1, 1, 1) /* of a group that was decoded to f32 */
#if defined(ZT_ISA_avx512)
#define BRAIN_TILES TILES(brain, BF16, PLAIN_GROUPS), TILES(brain, BF16, PLAIN_GROUPS), BRAIN
static const tiles wide_tiles = TILES(wide, BF16, PLAIN_GROUPS);
#else
#define BRAIN_TILES PLAIN_TILES(BF16), PLAIN_TILES(BF16), WIDE
static const tiles wide_tiles = PLAIN_TILES(BF16);
#endif

static const weights table[ZT_DTYPE_COUNT] = {
    [ZT_F32] = {PLAIN_TILES(F32), PLAIN_TILES(F32), PLAIN_TILES(F32), ROWS, {0}, NULL, {NULL, NULL}},
    [ZT_F16] = {PLAIN_TILES(F16), PLAIN_TILES(F16), PLAIN_TILES(F16), ROWS, {0}, NULL, {NULL, NULL}},
    [ZT_BF16] = {PLAIN_TILES(BF16), BRAIN_TILES, {0}, NULL, {NULL, NULL}},
#define X(NAME, bits, ...)                                                                         \
    [ZT_##NAME] = {ROWS_TILES(NAME), CODES_TILES(NAME), FINE_TILES(NAME), CODES,                   \
                   ZT_PACK_FORM(bits, __VA_ARGS__), OPEN(NAME, bits), TWIN(NAME)},
    ZT_PACK_BLOCKS(X)
#undef X
#define X(NAME) [ZT_##NAME] = {DECODED_TILES, DECODED_TILES, DECODED_TILES, ROWS, {0}, NULL, {NULL, NULL}},
    ZT_PACK_WHOLE(X)
#undef X
};

#endif
