/* tile_codes.h - private to gemm_quant/: the product of a few groups of 16 rows by a few tokens, for
 * each form of weights and activations, and the table of them.
 *
 * One value is one f32 accumulator that takes the columns in order (with plain weights and AVX-512:
 * one for the even and one for the odd), whatever the tile's size.
 */
#ifndef ZT_CPU_TILES_H
#define ZT_CPU_TILES_H

#include "lib/base/processor.h"
#include "lib/engine/cpu/isa/gemm_quant/microkernel.h"
#include "lib/engine/cpu/isa/denormals.h"

enum { SIZES = 4, MOST = 8, MOST_GROUPS = 4 }; /* tiles of 1, 2, 4, 8 tokens */

/* What a tile prefetches:
 *   reach       of the groups that it multiplies by: what lies so many bytes ahead (send_for); 0: nothing
 *   next, end   of another group: these bytes, 128 with each pair of columns (tiles of MOST rows of codes) */
typedef struct tile_sends {
    size_t reach;
    const uint8_t *next, *end;
} tile_sends;

/* A tile of G groups and T tokens. The sum of group g, token t and row r goes to
 *
 *   acc[down * (T * g + t) + r],  r = 0 .. 15
 *
 *   w      the packed groups; of fewer than G the last is there again, and its sums are not used
 *   x      row t of f32 or bfloat16 begins at word t * step; codes lie in pairs (below), without a step */
typedef void tile_fn(const uint8_t *const *w, int64_t K, const void *x, size_t step, float *acc,
                     int64_t down, tile_sends sends);

/* ---- tiles: 8-bit activations ---------------------------------------------------------------- */

/* A pair is two times 32 columns, or the halves of 32: the columns of two scales of the weights.
 * docs/quantized-product.md has an example in numbers. For a row of weights and one of activations, with
 * i = 0, 1 for the two scales, c codes, w = d[i] c + m[i] (m: with minima; else c is less the offset), and
 * x = e[i] q:
 *
 *   dot[i]   = sum of (c - middle) q          middle: zt_pack_middle
 *   n[i]     = m[i] + middle d[i]             with minima
 *   w x      = sum over i of  d[i] e[i] dot[i] + n[i] e[i] sum(q)
 *
 * Each factor is a whole number of 16 bits. power: of the row of weights (pack.h); beyond: zt_pack_beyond.
 *
 *               a scale for 32 columns                   a scale for 16: e is the same for both
 *   D[i]        d[i] power                               d[i] power
 *   E[i]        e[i] 16383 / max(e[0], e[1])             (none)
 *   DE[i]       D[i] E[i] / 2^15                         D[i]
 *   S[i]        dot[i] / 2^beyond                        dot[i] / 2^beyond
 *   N[i]        n[i] power / 2^zt_pack_min_power         the same
 *   Q[i]        E[i] sum(q) / 2^12                       sum(q)
 *   unit        max(e) / 16383 * 2^(15 + beyond)         e 2^beyond
 *
 *   whole = S[0] DE[0] + S[1] DE[1]                      iv_products
 *         + N[0] Q[0] + N[1] Q[1]                        iv_add_products, with minima
 *   sum   = fma(whole, unit, sum)                        f32, pair by pair
 *   w x   = sum / power                                  after the last pair (store_sums)
 *
 * What all this rounds is a hundredth of what codes of 8 bits round.
 *
 * On Zen 4, where all that multiplies is one instruction a cycle, that is 19 for the 16 that multiply
 * codes, where f32 scales are 20; with minima 20, not 22; for 16 columns 10, not 12
 * (bench/results/prompt.md). */

/* A pair of a tile of T rows of activations, in the order of memory. With 16 bits a token is two rows, and
 * has two f32 in place of its two i16: that of the first scale in its upper row, of the second in its lower.
 *
 *   bytes a row     type                        what
 *   pair_columns    i8 q[columns / 4][T][4]     codes
 *   pair_scales     i16 E[T][2]                 with a scale for 32 columns
 *                   f32 unit[T]                 (16 bits, a scale for 16 columns: the f32 scales are here)
 *   8               i32 begin[2][T]             what the two sums begin with: half_lost - middle sum(q)
 *   4               i16 Q[T][2]                 with minima
 *   pair_bytes      all of these */
INLINE int pair_columns(zt_pack_form f) { return 32 * zt_pack_step(f); }
INLINE int pair_scales(zt_pack_form f) { return zt_pack_halves(f) ? 4 : 8; }
INLINE int pair_bytes(zt_pack_form f)
{
    return pair_columns(f) + pair_scales(f) + (zt_pack_mins(f) ? 12 : 8);
}

/* Crossed words: AVX2, tiles of MOST rows, 8 bits. Scale i has columns 0, 1, ...; i.k is its column k.
 *
 *   byte of word j        0        1        2        3
 *   elsewhere, scale i    i.4j     i.4j+1   i.4j+2   i.4j+3
 *   crossed               0.2j     0.2j+1   1.2j     1.2j+1
 *   vpmaddubsw            sum of scale 0    sum of scale 1       two sums of 16 bits, which may wrap
 *
 * Weights (cv_cross) and activations (activations.h) are crossed alike. Where the sums are wider, each is put
 * together of two that are not (join_crossed):
 *
 *   beyond   first sums a                second sums b              both
 *   0        all words                   (none)                     a
 *   1        first half of the words     second half                vpavgw: (a + b + 1) >> 1, begun 2^15 higher
 *   4        upper 4 bits of codes       lower 4 bits               a + (b >> 4): c = 16 upper + lower - 8
 *
 * begin[2][T] of such a tile is i16 a[T][2], b[T][2]. */
#if defined(ZT_ISA_avx2)
enum { CROSSED_BYTES = 32 * 64 }; /* codes of a pair, at most */
INLINE bool crossed(int T, int P) { return T == MOST && P == 1; }
INLINE int crossed_bytes(zt_pack_form f) { return 16 * pair_columns(f) * (zt_pack_wide(f) == 8 ? 2 : 1); }
#endif

/* 2^(15 + beyond), or 2^beyond: the unit of a pair's whole number in that of E (above). */
INLINE float sums_unit(zt_pack_form f)
{
    return (float)(1 << (zt_pack_beyond(f) + (zt_pack_halves(f) ? 0 : 15)));
}

/* Half of what a pair's sums lose: of the second one less, so that halves go up in one and down in
 * the other. (Both up would be half a unit in each sum, the same in all rows, which costs a model
 * twice what 8 bits do.) */
INLINE int32_t half_lost(zt_pack_form f, int P, int i)
{
    const int beyond = P == 1 ? zt_pack_beyond(f) : 0;
    return beyond ? (1 << (beyond - 1)) - i : 0;
}

/* Sums of codes begin with that less zt_pack_middle * sum(q). each: both together, where a token has
 * them. */
INLINE sums_from from_of_form(zt_pack_form f, int P, int i, const uint8_t *each)
{
    return (sums_from){each, half_lost(f, P, i)};
}

/* The scale, among those that are bytes, for columns 16h.. of the b-th 32; where it and the other of
 * its two are; that one alone. */
INLINE int scale_place(zt_pack_form f, int b, int h) { return zt_pack_halves(f) ? 2 * b + h : b; }
INLINE const uint8_t *scale_bytes(const uint8_t *at, int place)
{
    return at + zt_pack_scale_at(place / 2 * 2, 0);
}
INLINE fv one_of(iv two, int place) { return fv_of_iv(place % 2 ? iv_second(two) : iv_first(two)); }

/* Scales for columns 16h.. of the b-th 32 after the head p, and minima. */
INLINE fv scale_of(zt_pack_form f, const uint8_t *p, int b, int h)
{
    const int place = scale_place(f, b, h);
    if (f.scales == ZT_SCALES_E8M0) return fv_of_e8m0(p + 16 * b);
    if (f.scales == ZT_SCALES_E4M3) return fv_of_e4m3(p + 16 * place);
    if (f.scales == ZT_SCALES_HALF || f.scales == ZT_SCALES_HALF_MIN)
        return fv_of_half(p + 32 * b);
    fv d = fv_of_half(p);
    if (f.scales == ZT_SCALES_ONE) return d;
    if (f.scales == ZT_SCALES_I8 || f.scales == ZT_SCALES_I8_16)
        return fv_mul(d, one_of(iv_signed(scale_bytes(p + 32, place)), place));
    iv two = iv_unsigned(scale_bytes(p + 64, place));
    return fv_mul(d, one_of(f.scales == ZT_SCALES_U4_MIN ? iv_rest(two, 4) : two, place));
}

INLINE fv min_of(zt_pack_form f, const uint8_t *p, int b, int h)
{
    const int place = scale_place(f, b, h);
    if (f.scales == ZT_SCALES_HALF_MIN) return fv_of_half(p + 64 + 32 * b);
    fv d = fv_neg(fv_of_half(p + 32));
    if (f.scales == ZT_SCALES_U4_MIN)
        return fv_mul(d, one_of(iv_over(iv_unsigned(scale_bytes(p + 64, place)), 4), place));
    return fv_mul(d, one_of(iv_unsigned(scale_bytes(p + 192, place)), place));
}

/* zt_pack_together; a constant for blocks of 256 columns, which are always whole. */
INLINE int together(zt_pack_form f, int64_t left)
{
    return f.together == 8 ? 8 : zt_pack_together(f, left);
}

/* A tile of so few rows waits for memory: it asks for lines in the order in which they lie. (How far
 * ahead codes are then sent for is zt_cpu_reach_of_codes.) */
enum { IN_ORDER = 2 };
TEMPLATE void ask_for_lines(const uint8_t *p, int bytes)
{
    UNROLL for (int i = 0; i < bytes; i += 64) ask_for(p + i);
}

/* p; else gcc 12 keeps the address of each number behind it by itself. */
INLINE const uint8_t *alone(const uint8_t *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* Powers of a group's rows, as fv_scaled wants them: for scales, and for minima. */
typedef struct powers {
    fv scale, min;
} powers;

INLINE powers powers_of(zt_pack_form f, const uint8_t *group)
{
    const fv power = fv_load(group);
    const float unit = 1.0f / (float)(1 << zt_pack_min_power(f));
    return (powers){fv_power(power), fv_power(fv_mul(power, fv_set(unit)))};
}

/* Two numbers times a power. */
INLINE iv two_of(fv a, fv b, fv power)
{
    return iv_pair(iv_of_fv(fv_scaled(a, power)), iv_of_fv(fv_scaled(b, power)), 0);
}

/* What those of a head are multiples of, times 2^zt_pack_scale_bits, as whole numbers of 16 bits, twice. */
typedef struct multiples {
    iv scale, min;
} multiples;

INLINE multiples multiples_of(zt_pack_form f, const uint8_t *p, powers by)
{
    multiples y = {iv_set(0), iv_set(0)};
    if (!zt_pack_scale_bits(f)) return y;
    const fv up = fv_set((float)(1 << zt_pack_scale_bits(f)));
    const fv d = fv_mul(fv_of_half(p), up);
    y.scale = two_of(d, d, by.scale);
    if (!zt_pack_mins(f)) return y;
    const fv m = fv_mul(fv_of_half(p + 32), up);
    y.min = two_of(m, m, by.min);
    return y;
}

/* Two scales from the b-th 32 columns on, as whole numbers. */
INLINE iv scales_of(zt_pack_form f, const uint8_t *p, int b, powers by, multiples of)
{
    const int last = zt_pack_step(f) - 1, place = scale_place(f, b, 0);
    if (!zt_pack_scale_bits(f))
        return two_of(scale_of(f, p, b, 0), scale_of(f, p, b + last, 1 - last), by.scale);
    iv two = zt_pack_mins(f) ? iv_unsigned(scale_bytes(p + 64, place))
                             : iv_signed(scale_bytes(p + 32, place));
    if (f.scales == ZT_SCALES_U4_MIN) two = iv_rest(two, 4);
    return iv_scales(of.scale, iv_times(two, 15 - zt_pack_scale_bits(f)));
}

/* Two minima, given the scales: of codes less zt_pack_middle. */
INLINE iv mins_of(zt_pack_form f, const uint8_t *p, int b, powers by, multiples of, iv scale)
{
    const int place = scale_place(f, b, 0), middle = zt_pack_middle(f) >> zt_pack_min_power(f);
    if (!zt_pack_mins(f)) return iv_set(0);
    if (middle == 2) scale = iv_times(scale, 1); /* else it is 1 */
    if (!zt_pack_scale_bits(f))
        return iv_adds(scale, two_of(min_of(f, p, b, 0), min_of(f, p, b + 1, 0), by.min));
    const uint8_t *both = p + 64, *apart = p + 192;
    iv two = f.scales == ZT_SCALES_U4_MIN ? iv_over(iv_unsigned(scale_bytes(both, place)), 4)
                                          : iv_unsigned(scale_bytes(apart, place));
    return iv_subs(scale, iv_scales(of.min, iv_times(two, 15 - zt_pack_scale_bits(f))));
}

/* Of a pair the scales, and minima if there are any: whole numbers, or with P = 2 f32. */
typedef struct pair {
    iv scale, min;
    fv scales[2], mins[2];
} pair;

INLINE pair pair_of(zt_pack_form f, int P, const uint8_t *p, int b, powers by, multiples of)
{
    pair y = {.scale = iv_set(0)};
    const int last = zt_pack_step(f) - 1;
    if (P == 1) {
        y.scale = scales_of(f, p, b, by, of);
        y.min = mins_of(f, p, b, by, of, y.scale);
        return y;
    }
    UNROLL for (int i = 0; i < 2; i++) {
        const int at = b + last * i, h = (1 - last) * i;
        y.scales[i] = scale_of(f, p, at, h);
        if (!zt_pack_mins(f)) continue;
        fv middle = fv_mul(y.scales[i], fv_set((float)zt_pack_middle(f)));
        y.mins[i] = fv_add(middle, min_of(f, p, at, h));
    }
    return y;
}

/* How many rows of a tile are multiplied side by side: as many as there are registers for. (Two rows of
 * halves have one sum with AVX2.) */
INLINE int side_of(int T, int P)
{
#if defined(ZT_ISA_avx2)
    const int most = SIDE * P;
#else
    const int most = SIDE;
    (void)P;
#endif
    return T < most ? T : most;
}

/* A pair for row u of a tile of T rows of activations: to its sum comes what the rows of weights give. two:
 * their two sums, as whole numbers; at: what comes behind the codes of x. */
INLINE void add_two(zt_pack_form f, int T, int u, iv two, pair by, const uint8_t *at, fv *sum)
{
    const uint8_t *unit = at + (pair_scales(f) - 4) * T, *more = unit + 12 * T;
    iv scale = zt_pack_halves(f) ? by.scale : iv_scales(by.scale, iv_set(load_i32(at + 4 * u)));
    iv whole = iv_products(two, scale);
    if (zt_pack_mins(f)) whole = iv_add_products(whole, by.min, iv_set(load_i32(more + 4 * u)));
    sum[u] = fv_fma(fv_of_iv(whole), fv_set(load_f32(unit + 4 * u)), sum[u]);
}

/* The same for rows t to t + n - 1; dot: the two sums of each. */
TEMPLATE void add_pair(zt_pack_form f, int T, int t, int n, iv (*dot)[MOST], pair by,
                       const uint8_t *at, fv *sum)
{
    UNROLL for (int u = t; u < t + n; u++)
        add_two(f, T, u, iv_pair(dot[0][u - t], dot[1][u - t], zt_pack_beyond(f)), by, at, sum);
}

/* The same of activations of 16 bits, of which whole numbers of so few would leave little. dot: the two
 * sums of each token, which is two rows. */
TEMPLATE void add_fine(zt_pack_form f, int T, int t, int n, iv (*dot)[MOST], pair by,
                       const uint8_t *at, fv *sum)
{
    const uint8_t *more = at + (pair_scales(f) + 8) * T;
    UNROLL for (int u = t; u < t + n; u += 2)
        UNROLL for (int i = 0; i < 2; i++) {
            fv whole = fv_of_iv(dot[i][(u - t) / 2]), y = sum[u / 2];
            y = fv_fma(whole, fv_mul(by.scales[i], fv_set(load_f32(at + 4 * (u + i)))), y);
            if (zt_pack_mins(f)) y = fv_fma(by.mins[i], fv_set(load_f32(more + 4 * (u + i))), y);
            sum[u / 2] = y;
        }
}

TEMPLATE void add_dots(zt_pack_form f, int T, int t, int n, int P, iv (*dot)[MOST], pair by,
                       const uint8_t *at, fv *sum)
{
    if (P == 2)
        add_fine(f, T, t, n, dot, by, at, sum);
    else
        add_pair(f, T, t, n, dot, by, at, sum);
}

#if !defined(ZT_ISA_avx2)
/* The sums of n rows of a tile of few, which takes codes in the order in which they lie in memory, each
 * register for itself. false: not so. */
TEMPLATE bool dots_in_order(zt_pack_form f, int T, int n, int P, const uint8_t *q, const uint8_t *x,
                            sums_from from, iv *dot)
{
    iv row[IN_ORDER];
    if (T > IN_ORDER) return false;
    if (f.bits == 8)
        cv_dots_next(n, q, x, from, row);
#if defined(ZT_ISA_avx512)
    else if (f.bits == 4 && !f.look)
        cv_dots_nibbles(n, q, x, from, row);
#endif
    else
        return false;
    if (P == 2)
        join_rows(n, row, dot);
    else
        UNROLL for (int t = 0; t < n; t++) dot[t] = row[t];
    return true;
}
#endif

/* The two sums of rows t to t + n - 1 (with P = 2 of their tokens), of codes packed at q. */
TEMPLATE void pair_dots(zt_pack_form f, int T, int t, int n, int P, const uint8_t *q,
                        const uint8_t *x, iv (*dot)[MOST])
{
    const int halves = zt_pack_halves(f), words = halves ? 4 : 8;
    const uint8_t *each = x + (pair_columns(f) + pair_scales(f)) * T + 4 * t;
#if !defined(ZT_ISA_avx2)
    cv c[8];
#endif
    UNROLL for (int i = 0; i < 2; i++) {
        const sums_from from = from_of_form(f, P, i, each + 4 * T * i);
        const uint8_t *xi = x + 4 * words * T * i + 4 * t, *qi = q + (halves ? 0 : ZT_PACK_CODES(f.bits) * i);
        const int first = halves ? 4 * i : 0; /* register of the codes at qi */
#if defined(ZT_ISA_avx2)
        cv_dots_packed(f, first, words, n, P, T, qi, xi, from, dot[i]);
#else
        if (dots_in_order(f, T, n, P, qi, xi, from, dot[i])) continue;
        if (first == 0) cv_unpack(f, T <= IN_ORDER, qi, c);
        if (P == 2)
            cv_dots_fine(zt_pack_wide(f), words, n, T, c + first, xi, from, dot[i]);
        else
            cv_dots(zt_pack_wide(f), words, n, T, c + first, xi, from, dot[i]);
#endif
    }
}

#if defined(ZT_ISA_avx2)
/* Both sums of rows t to t + n - 1 of a tile of crossed words, by codes that lie crossed at p, and what they give.
 * x: the tile's activations of the pair. */
TEMPLATE void add_crossed(zt_pack_form f, int t, int n, const uint8_t *p, const uint8_t *x, pair by,
                          fv *sum)
{
    const int columns = pair_columns(f);
    const uint8_t *at = x + columns * MOST, *from = at + pair_scales(f) * MOST + 4 * t;
    iv two[SIDE];
    cv_dots_crossed(zt_pack_beyond(f), columns / 4, n, MOST, p, x + 4 * t, from, two);
    UNROLL for (int u = 0; u < n; u++) add_two(f, MOST, t + u, two[u], by, at, sum);
}
#endif

/* Of f32 sums what they stand for. */
TEMPLATE void store_sums(int T, int P, const fv *sum, powers by, float *acc, int64_t down)
{
    UNROLL for (int t = 0; t < T; t++)
        fv_store(acc + down * t, P == 2 ? sum[t] : fv_unscaled(sum[t], by.scale));
}

/* G groups side by side, pair by pair. */
TEMPLATE void tile_codes(zt_pack_form f, int G, int T, int P, const uint8_t *const *w, int64_t K,
                         const uint8_t *x, float *acc, int64_t down, tile_sends sends)
{
    const int step = zt_pack_step(f), side = side_of(T, P);
    powers by[MOST_GROUPS];
    multiples of[MOST_GROUPS];
    fv sum[MOST_GROUPS][MOST];
    UNROLL for (int g = 0; g < G; g++) {
        by[g] = powers_of(f, w[g]);
        UNROLL for (int t = 0; t < T / P; t++) sum[g][t] = fv_zero();
        send_for(w[g], sends.reach, ZT_PACK_POWERS);
    }
    size_t p = ZT_PACK_POWERS;
    for (int64_t left = zt_pack_blocks(f, K); left > 0; left -= f.together) {
        size_t q = p + (size_t)f.head;
        const int n = together(f, left);
        UNROLL for (int g = 0; g < G; g++) {
            if (T <= IN_ORDER) ask_for_lines(w[g] + p, f.head);
            send_for(w[g] + p, sends.reach, f.head);
            of[g] = multiples_of(f, w[g] + p, by[g]);
        }
        for (int b = 0; b < n; b += step, q += (size_t)(ZT_PACK_CODES(f.bits) * step)) {
            const uint8_t *at = alone(x);
            UNROLL for (int g = 0; g < G; g++) {
                const uint8_t *codes = alone(w[g] + q);
                send_for(codes, sends.reach, ZT_PACK_CODES(f.bits) * step);
                if (T == MOST && sends.next < sends.end) {
                    send_lines((uintptr_t)sends.next, 128);
                    sends.next += 128;
                }
#if defined(ZT_ISA_avx2)
                if (crossed(T, P)) {
                    uint8_t to[CROSSED_BYTES];
                    cv_cross(f, codes, to);
                    UNROLL for (int t = 0; t < T; t += side)
                        add_crossed(f, t, side, to, at, pair_of(f, P, w[g] + p, b, by[g], of[g]), sum[g]);
                    continue;
                }
#endif
                UNROLL for (int t = 0; t < T; t += side) {
                    iv dot[2][MOST];
                    pair_dots(f, T, t, side, P, codes, at, dot);
                    add_dots(f, T, t, side, P, dot, pair_of(f, P, w[g] + p, b, by[g], of[g]),
                             at + pair_columns(f) * T, sum[g]);
                }
            }
            x += (size_t)T * pair_bytes(f);
        }
        p = q;
    }
    UNROLL for (int g = 0; g < G; g++)
        store_sums(T / P, P, sum[g], by[g], acc + down * (T / P) * g, down);
}

/* A token alone waits for memory, which a Zen 3 gives faster where some groups are read side by side
 * (tile_groups takes them far apart, as streams that begin anew with each are slow): of 8 bits 4, with
 * nothing sent for, of others 2. Of 576 columns 24 GB/s where one has 19, or 15 without sending (Q8_0), and
 * 24 for 20 (Q4_1), 22 for 20 (Q5_0); reading alone has 19 then. */
#if defined(ZT_ISA_avx2)
#define CODES_GROUPS(bits) ((bits) == 8 ? 4 : 2)
#else
#define CODES_GROUPS(bits) 1
#endif
TEMPLATE void tile_alone(zt_pack_form f, int P, const uint8_t *const *w, int64_t K, const uint8_t *x,
                         float *acc, int64_t down, tile_sends sends)
{
    const int G = CODES_GROUPS(f.bits);
    if (G > 1 && w[G - 1] != w[G - 2]) {
        if (f.bits == 8) sends.reach = 0;
        tile_codes(f, G, P, P, w, K, x, acc, down, sends);
        return;
    }
    for (int g = 0; g < G && (g == 0 || w[g] != w[g - 1]); g++)
        tile_codes(f, 1, P, P, w + g, K, x, acc + down * g, down, sends);
}

/* ---- some whole tiles at once ---------------------------------------------------------------- */

/* x: the first of n, the next `apart` from it. */
typedef void many_fn(const uint8_t *w, int64_t K, const uint8_t *x, size_t apart, float *acc,
                     int64_t down, size_t reach);
typedef struct many { /* 0, NULL: taken one by one */
    int n;
    many_fn *fn;
} many;

#if defined(ZT_ISA_avx512)
/* Codes and scales are unpacked once for two; of the sums half wait in memory, and the second ones of a
 * tile as well. */
TEMPLATE void twin_pair(zt_pack_form f, int P, const uint8_t *p, const uint8_t *q, int b, powers by,
                        multiples of, const uint8_t *x, size_t apart, fv *sum)
{
    const int halves = zt_pack_halves(f), n = halves ? 4 : 8;
    const pair scales = pair_of(f, P, p, b, by, of);
    iv dot[2][2][MOST];
    cv c[8];
    UNROLL for (int i = 0; i < 2; i++) {
        if (!halves || i == 0) cv_unpack(f, false, q + ZT_PACK_CODES(f.bits) * i, c);
        UNROLL for (int u = 0; u < 2; u++) {
            const uint8_t *xu = alone(x + (u ? apart : 0)), *at = xu + pair_columns(f) * MOST;
            const uint8_t *each = at + (pair_scales(f) + 4 * i) * MOST;
            const cv *ci = c + (halves ? 4 * i : 0);
            const uint8_t *xi = xu + 4 * n * MOST * i;
            if (P == 2)
                cv_dots_fine(8, n, MOST, MOST, ci, xi, from_of_form(f, P, i, each), dot[u][i]);
            else
                cv_dots(8, n, MOST, MOST, ci, xi, from_of_form(f, P, i, each), dot[u][i]);
            if (i == 1) add_dots(f, MOST, 0, MOST, P, dot[u], scales, at, sum + MOST / P * u);
        }
    }
}

TEMPLATE void twin_codes(zt_pack_form f, int P, const uint8_t *p, int64_t K, const uint8_t *x,
                         size_t apart, float *acc, int64_t down, size_t reach)
{
    const int step = zt_pack_step(f);
    const powers by = powers_of(f, p);
    fv sum[2 * MOST];
    UNROLL for (int t = 0; t < 2 * MOST / P; t++) sum[t] = fv_zero();
    p += ZT_PACK_POWERS;
    for (int64_t left = zt_pack_blocks(f, K); left > 0; left -= f.together) {
        const uint8_t *q = p + f.head;
        const int n = together(f, left);
        send_for(p, reach, f.head);
        const multiples of = multiples_of(f, p, by);
        for (int b = 0; b < n; b += step, q += ZT_PACK_CODES(f.bits) * step) {
            send_for(q, reach, ZT_PACK_CODES(f.bits) * step);
            twin_pair(f, P, p, q, b, by, of, x, apart, sum);
            x += (size_t)MOST * pair_bytes(f);
        }
        p = q;
    }
    store_sums(2 * MOST / P, P, sum, by, acc, down);
}
#endif

#endif
