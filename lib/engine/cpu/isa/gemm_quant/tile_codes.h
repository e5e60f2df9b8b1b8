/* tile_codes.h - private to gemm_quant/: tiles of quantized activations (act=q8 and q16) by packed groups.
 *
 * The arithmetic of a pair (docs/quantized-product.md has an example in numbers). i = 0, 1 for its two scales;
 * weights w = d[i] c + m[i] with codes c (m: with minima; else c is less the offset), activations x = e[i] q:
 *
 *   dot[i]   = sum of (c - middle) q          middle: zt_pack_middle
 *   n[i]     = m[i] + middle d[i]             with minima
 *   w x      = sum over i of  d[i] e[i] dot[i] + n[i] e[i] sum(q)
 *
 * With act=q8 each factor is an integer of 16 bits. power: of the row of weights (pack.h); shift:
 * zt_pack_dot_shift.
 *
 *               a scale for 32 columns                   a scale for 16: e is the same for both
 *   D[i]        d[i] power                               d[i] power
 *   E[i]        e[i] 16383 / max(e[0], e[1])             (none)
 *   DE[i]       D[i] E[i] / 2^15                         D[i]
 *   S[i]        dot[i] / 2^shift                         dot[i] / 2^shift
 *   N[i]        n[i] power / 2^zt_pack_min_shift         the same
 *   Q[i]        E[i] sum(q) / 2^12                       sum(q)
 *   unit        max(e) / 16383 * 2^(15 + shift)          e 2^shift
 *
 *   whole = S[0] DE[0] + S[1] DE[1]                      iv16_dot
 *         + N[0] Q[0] + N[1] Q[1]                        iv16_dot_add, with minima
 *   sum   = fma(whole, unit, sum)                        f32, pair by pair
 *   w x   = sum / power                                  after the last pair (store_sums)
 *
 * What all this rounds is a hundredth of what codes of 8 bits round.
 *
 * On Zen 4, where all that multiplies is one instruction a cycle, that is 19 for the 16 that multiply codes, where
 * f32 scales are 20; with minima 20, not 22; for 16 columns 10, not 12 (bench/results/prompt.md).
 *
 * One value is one f32 accumulator that takes the pairs in order, whatever the tile's size.
 */
#ifndef ZT_CPU_GEMM_QUANT_TILE_CODES_H
#define ZT_CPU_GEMM_QUANT_TILE_CODES_H

#include "lib/base/processor.h"
#include "lib/engine/cpu/isa/gemm_quant/microkernel.h"
#include "lib/engine/cpu/isa/gemm_quant/scales.h"

/* What a tile prefetches:
 *   distance    of the groups that it multiplies by: what lies so many bytes ahead (prefetch_stream); 0: nothing
 *   next, end   of another group: these bytes, 128 with each pair of columns (tiles of TILE_ROWS rows of codes) */
typedef struct tile_prefetch {
    size_t distance;
    const uint8_t *next, *end;
} tile_prefetch;

/* A tile of G groups and T tokens. The sum of group g, token t and row r goes to
 *
 *   acc[acc_stride * (T * g + t) + r],  r = 0 .. 15
 *
 *   group      the packed groups; of fewer than G the last is repeated, and its sums are not used
 *   x          row t of f32 or bfloat16 begins at word t * x_stride; codes lie in pairs (layout.h), without a stride */
typedef void tile_fn(const uint8_t *const *group, int64_t K, const void *x, size_t x_stride, float *acc, int64_t acc_stride,
                     tile_prefetch prefetch);

/* ---- the arithmetic of a pair ---------------------------------------------------------------- */

/* How many rows of a tile are multiplied side by side: as many as there are registers for. (Two rows of a token
 * have one sum with AVX2.) */
INLINE int rows_at_once(int T, int parts)
{
#if defined(ZT_ISA_avx2)
    const int most = REGISTER_ROWS * parts;
#else
    const int most = REGISTER_ROWS;
    (void)parts;
#endif
    return T < most ? T : most;
}

/* A pair for row t of a tile of T rows of activations: adds to the row's sum.
 *   dots      its two sums, as i16
 *   behind    what follows the codes of the activations */
INLINE void add_row(zt_pack_form form, int T, int t, iv dots, pair_factors by, const uint8_t *behind, fv *sum)
{
    const uint8_t *unit = behind + (pair_scale_bytes(form) - 4) * T, *min_factor = unit + 12 * T;
    iv scale = zt_pack_scale_per_16(form) ? by.int_scale : iv16_scale(by.int_scale, iv_set(load_i32(behind + 4 * t)));
    iv whole = iv16_dot(dots, scale);
    if (zt_pack_has_mins(form)) whole = iv16_dot_add(whole, by.int_min, iv_set(load_i32(min_factor + 4 * t)));
    sum[t] = fv_fma(fv_of_iv(whole), fv_set(load_f32(unit + 4 * t)), sum[t]);
}

/* The same for rows t to t + rows - 1. dot: the two sums of each. */
TEMPLATE void add_rows_q8(zt_pack_form form, int T, int t, int rows, iv (*dot)[TILE_ROWS], pair_factors by, const uint8_t *behind,
                          fv *sum)
{
    UNROLL_FOR (int u = t; u < t + rows; u++)
        add_row(form, T, u, iv16_pair(dot[0][u - t], dot[1][u - t], zt_pack_dot_shift(form)), by, behind, sum);
}

/* The same with act=q16, whose sums 16 bits would cut too short. dot: the two sums of each token, which is two
 * rows. */
TEMPLATE void add_rows_q16(zt_pack_form form, int T, int t, int rows, iv (*dot)[TILE_ROWS], pair_factors by,
                           const uint8_t *behind, fv *sum)
{
    const uint8_t *min_factor = behind + (pair_scale_bytes(form) + 8) * T;
    UNROLL_FOR (int u = t; u < t + rows; u += 2)
        UNROLL_FOR (int i = 0; i < 2; i++) {
            fv whole = fv_of_iv(dot[i][(u - t) / 2]), y = sum[u / 2];
            y = fv_fma(whole, fv_mul(by.scale[i], fv_set(load_f32(behind + 4 * (u + i)))), y);
            if (zt_pack_has_mins(form)) y = fv_fma(by.min[i], fv_set(load_f32(min_factor + 4 * (u + i))), y);
            sum[u / 2] = y;
        }
}

TEMPLATE void add_rows(zt_pack_form form, int T, int t, int rows, int parts, iv (*dot)[TILE_ROWS], pair_factors by,
                       const uint8_t *behind, fv *sum)
{
    if (parts == 2)
        add_rows_q16(form, T, t, rows, dot, by, behind, sum);
    else
        add_rows_q8(form, T, t, rows, dot, by, behind, sum);
}

/* After the last pair: the sums over the rows' powers. */
TEMPLATE void store_sums(int tokens, int parts, const fv *sum, row_powers powers, float *acc, int64_t acc_stride)
{
    UNROLL_FOR (int t = 0; t < tokens; t++)
        fv_store(acc + acc_stride * t, parts == 2 ? sum[t] : fv_div_power(sum[t], powers.scale));
}

/* ---- a tile ---------------------------------------------------------------------------------- */

TEMPLATE void prefetch_head(const uint8_t *p, int bytes)
{
    UNROLL_FOR (int i = 0; i < bytes; i += 64) prefetch_l1(p + i);
}

/* p, which the compiler cannot see through: gcc 12 keeps the address of each number behind it by itself. */
INLINE const uint8_t *opaque(const uint8_t *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* The next 128 bytes of the other group, if any are left. */
INLINE void prefetch_next(tile_prefetch *prefetch)
{
    if (prefetch->next >= prefetch->end) return;
    prefetch_l2((uintptr_t)prefetch->next, 128);
    prefetch->next += 128;
}

/* G groups side by side, pair by pair. */
TEMPLATE void tile_codes(zt_pack_form form, int G, int T, int parts, const uint8_t *const *group, int64_t K, const uint8_t *x,
                         float *acc, int64_t acc_stride, tile_prefetch prefetch)
{
    const int slices = zt_pack_pair_slices(form), rows = rows_at_once(T, parts);
    row_powers powers[TILE_GROUPS];
    head_units units[TILE_GROUPS];
    fv sum[TILE_GROUPS][TILE_ROWS];
    UNROLL_FOR (int g = 0; g < G; g++) {
        powers[g] = load_powers(form, group[g]);
        UNROLL_FOR (int t = 0; t < T / parts; t++) sum[g][t] = fv_zero();
        prefetch_stream(group[g], prefetch.distance, ZT_PACK_POWERS);
    }
    size_t head = ZT_PACK_POWERS; /* where it is in each group */
    for (int64_t left = zt_pack_padded_slices(form, K); left > 0; left -= form.head_slices) {
        size_t codes = head + (size_t)form.head_bytes;
        const int count = head_slices(form, left);
        UNROLL_FOR (int g = 0; g < G; g++) {
            if (T <= STREAMED_ROWS) prefetch_head(group[g] + head, form.head_bytes);
            prefetch_stream(group[g] + head, prefetch.distance, form.head_bytes);
            units[g] = load_head_units(form, group[g] + head, powers[g]);
        }
        for (int slice = 0; slice < count; slice += slices, codes += (size_t)(ZT_PACK_CODE_BYTES(form.bits) * slices)) {
            const uint8_t *xp = opaque(x);
            UNROLL_FOR (int g = 0; g < G; g++) {
                const uint8_t *q = opaque(group[g] + codes);
                prefetch_stream(q, prefetch.distance, ZT_PACK_CODE_BYTES(form.bits) * slices);
                if (T == TILE_ROWS) prefetch_next(&prefetch);
                UNROLL_FOR (int t = 0; t < T; t += rows) {
                    iv dot[2][TILE_ROWS];
                    pair_dots(form, T, t, rows, parts, q, xp, dot);
                    add_rows(form, T, t, rows, parts, dot, load_factors(form, parts, group[g] + head, slice, powers[g], units[g]),
                             xp + pair_columns(form) * T, sum[g]);
                }
            }
            x += (size_t)T * pair_bytes(form);
        }
        head = codes;
    }
    UNROLL_FOR (int g = 0; g < G; g++)
        store_sums(T / parts, parts, sum[g], powers[g], acc + acc_stride * (T / parts) * g, acc_stride);
}

/* One token waits for memory, which a Zen 3 gives faster where some groups are read side by side (multiply_groups
 * takes them far apart, as streams that begin anew with each are slow): of 8 bits 4, with nothing prefetched, of
 * others 2. Of 576 columns 24 GB/s where one has 19, or 15 without prefetching (Q8_0), and 24 for 20 (Q4_1), 22 for
 * 20 (Q5_0); reading alone has 19 then. */
#if defined(ZT_ISA_avx2)
#define CODES_GROUPS(bits) ((bits) == 8 ? 4 : 2)
#else
#define CODES_GROUPS(bits) 1
#endif
TEMPLATE void tile_one_token(zt_pack_form form, int parts, const uint8_t *const *group, int64_t K, const uint8_t *x, float *acc,
                             int64_t acc_stride, tile_prefetch prefetch)
{
    const int G = CODES_GROUPS(form.bits);
    if (G > 1 && group[G - 1] != group[G - 2]) {
        if (form.bits == 8) prefetch.distance = 0;
        tile_codes(form, G, parts, parts, group, K, x, acc, acc_stride, prefetch);
        return;
    }
    for (int g = 0; g < G && (g == 0 || group[g] != group[g - 1]); g++)
        tile_codes(form, 1, parts, parts, group + g, K, x, acc + acc_stride * g, acc_stride, prefetch);
}

/* ---- several whole tiles at once ------------------------------------------------------------- */

/* x: the first of n tiles, x_stride bytes from one to the next. distance: as in tile_prefetch. */
typedef void tiles_fn(const uint8_t *group, int64_t K, const uint8_t *x, size_t x_stride, float *acc, int64_t acc_stride,
                      size_t distance);
typedef struct several_tiles { /* 0, NULL: tiles are taken one by one */
    int n;
    tiles_fn *fn;
} several_tiles;

#if defined(ZT_ISA_avx512)
/* Codes and scales are unpacked once for two tiles; half of the sums wait in memory, and so do the second ones of a
 * tile. */
TEMPLATE void two_tiles_pair(zt_pack_form form, int parts, const uint8_t *head, const uint8_t *q, int slice, row_powers powers,
                             head_units units, const uint8_t *x, size_t x_stride, fv *sum)
{
    const int per_16 = zt_pack_scale_per_16(form), registers = per_16 ? 4 : 8;
    const pair_factors by = load_factors(form, parts, head, slice, powers, units);
    iv dot[2][2][TILE_ROWS];
    cv codes[8];
    UNROLL_FOR (int i = 0; i < 2; i++) {
        if (!per_16 || i == 0) cv_unpack(form, false, q + ZT_PACK_CODE_BYTES(form.bits) * i, codes);
        UNROLL_FOR (int u = 0; u < 2; u++) {
            const uint8_t *xu = opaque(x + (u ? x_stride : 0)), *behind = xu + pair_columns(form) * TILE_ROWS;
            const uint8_t *each = behind + (pair_scale_bytes(form) + 4 * i) * TILE_ROWS;
            const cv *ci = codes + (per_16 ? 4 * i : 0);
            const uint8_t *xi = xu + 4 * registers * TILE_ROWS * i;
            const sums_start start = start_of_sums(form, parts, i, each);
            if (parts == 2)
                cv_dots_q16(8, registers, TILE_ROWS, TILE_ROWS, ci, xi, start, dot[u][i]);
            else
                cv_dots(8, registers, TILE_ROWS, TILE_ROWS, ci, xi, start, dot[u][i]);
            if (i == 1) add_rows(form, TILE_ROWS, 0, TILE_ROWS, parts, dot[u], by, behind, sum + TILE_ROWS / parts * u);
        }
    }
}

TEMPLATE void two_tiles_codes(zt_pack_form form, int parts, const uint8_t *group, int64_t K, const uint8_t *x, size_t x_stride,
                              float *acc, int64_t acc_stride, size_t distance)
{
    const int slices = zt_pack_pair_slices(form);
    const row_powers powers = load_powers(form, group);
    const uint8_t *head = group + ZT_PACK_POWERS;
    fv sum[2 * TILE_ROWS];
    UNROLL_FOR (int t = 0; t < 2 * TILE_ROWS / parts; t++) sum[t] = fv_zero();
    for (int64_t left = zt_pack_padded_slices(form, K); left > 0; left -= form.head_slices) {
        const uint8_t *codes = head + form.head_bytes;
        const int count = head_slices(form, left);
        prefetch_stream(head, distance, form.head_bytes);
        const head_units units = load_head_units(form, head, powers);
        for (int slice = 0; slice < count; slice += slices, codes += ZT_PACK_CODE_BYTES(form.bits) * slices) {
            prefetch_stream(codes, distance, ZT_PACK_CODE_BYTES(form.bits) * slices);
            two_tiles_pair(form, parts, head, codes, slice, powers, units, x, x_stride, sum);
            x += (size_t)TILE_ROWS * pair_bytes(form);
        }
        head = codes;
    }
    store_sums(2 * TILE_ROWS / parts, parts, sum, powers, acc, acc_stride);
}
#endif

#endif
