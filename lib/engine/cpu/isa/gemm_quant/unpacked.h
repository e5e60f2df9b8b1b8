/* unpacked.h - private to gemm_quant/: a group that is unpacked (opened) once for many tiles of 8-bit
 * activations, which vectors or the tile registers of AMX then multiply.
 */
#ifndef ZT_CPU_UNPACKED_H
#define ZT_CPU_UNPACKED_H

#include "lib/engine/cpu/isa/amx.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_codes.h"

/* An opened group is OPEN_COLUMNS columns at a time, pair after pair:
 *
 *   opened_bytes   codes     by vectors      u8 [columns / 4][16 rows][4]
 *                            AVX2, 8 bits    crossed (tile_codes.h)
 *                            by AMX          as by vectors, but i8, less zt_pack_middle
 *   scales_bytes   scales    8 bits          i16 D[16][2], and with minima i16 N[16][2]
 *                            16 bits         f32 d[2][16], and with minima f32 n[2][16]
 *
 * By vectors this is done only where it saves time: where shifts and conversions take the ports that
 * products need (worth_opening in product.c). */
enum { AMX_ROWS = 16 };
#if defined(ZT_ISA_avx2)
enum { OPEN_COLUMNS = 1024, OPEN_BYTES = (1024 + 4 * 64) * OPEN_COLUMNS / 32 };
#else
enum { OPEN_COLUMNS = 768, OPEN_BYTES = (512 + 4 * 64) * OPEN_COLUMNS / 32 };
#endif

/* Opens K columns of a group.
 *   group   where the group begins: its powers
 *   w       the first head of these columns
 *   to      opened, as above
 *   reach   prefetches what lies so many bytes after w (0: nothing) */
typedef void open_fn(const uint8_t *group, const uint8_t *w, int64_t K, uint8_t *to, size_t reach);
/* Multiplies K opened columns by one tile.
 *   w          opened
 *   x          MOST rows of activations (AMX: AMX_ROWS), from these columns on
 *   acc        sums of token t at acc + down * t
 *   goes_on    false: the first columns, sums begin at 0; true: at what acc has
 *   group      NULL: columns follow; else the last ones: sums are divided by the group's powers */
typedef void opened_fn(const uint8_t *w, int64_t K, const uint8_t *x, float *acc, int64_t down,
                       bool goes_on, const uint8_t *group);

#if !defined(ZT_ISA_scalar)
/* ---- by vectors ------------------------------------------------------------------------------ */

INLINE uint8_t *open_scales(zt_pack_form f, int P, pair by, uint8_t *to)
{
    if (P == 1) {
        cv_store(to, by.scale);
        if (zt_pack_mins(f)) cv_store(to += 64, by.min);
        return to + 64;
    }
    UNROLL for (int i = 0; i < 2; i++, to += 64) fv_store((float *)(void *)to, by.scales[i]);
    if (!zt_pack_mins(f)) return to;
    UNROLL for (int i = 0; i < 2; i++, to += 64) fv_store((float *)(void *)to, by.mins[i]);
    return to;
}

INLINE int scales_bytes(zt_pack_form f, int P) { return 64 * (zt_pack_mins(f) ? 2 : 1) * P; }

/* What open_scales stored at p. */
INLINE pair opened_scales(zt_pack_form f, int P, const uint8_t *p)
{
    const int mins = zt_pack_mins(f);
    pair y = {.scale = cv_load(p)};
    if (P == 1) {
        if (mins) y.min = cv_load(p + 64);
        return y;
    }
    UNROLL for (int i = 0; i < 2; i++) {
        y.scales[i] = fv_load(p + 64 * i);
        if (mins) y.mins[i] = fv_load(p + 128 + 64 * i);
    }
    return y;
}

/* acc = sum / power after the last columns of the group, else acc = sum. */
TEMPLATE void store_opened(zt_pack_form f, int T, int P, const fv *sum, const uint8_t *group,
                           float *acc, int64_t down)
{
    if (group)
        store_sums(T, P, sum, powers_of(f, group), acc, down);
    else
        UNROLL for (int t = 0; t < T; t++) fv_store(acc + down * t, sum[t]);
}

/* code, or for AMX code - zt_pack_middle. */
INLINE cv open_code(zt_pack_form f, bool amx, cv code)
{
#if defined(ZT_ISA_avx512)
    return amx ? _mm512_sub_epi8(code, _mm512_set1_epi8((char)zt_pack_middle(f))) : code;
#else
    (void)f, (void)amx;
    return code;
#endif
}

/* A pair's codes, packed at q, and how many bytes they are then. */
TEMPLATE void open_pair(zt_pack_form f, int P, bool amx, const uint8_t *q, uint8_t *to, size_t reach)
{
#if defined(ZT_ISA_avx2)
    if (crossed(MOST, P)) {
        send_for(q, reach, ZT_PACK_CODES(f.bits) * zt_pack_step(f));
        cv_cross(f, q, to);
        return;
    }
#endif
    (void)P;
    UNROLL for (int i = 0; i < zt_pack_step(f); i++, q += ZT_PACK_CODES(f.bits)) {
        cv c[8];
        send_for(q, reach, ZT_PACK_CODES(f.bits));
        cv_unpack(f, false, q, c);
        UNROLL for (int j = 0; j < 8; j++, to += 64) cv_store(to, open_code(f, amx, c[j]));
    }
}

INLINE int opened_bytes(zt_pack_form f, int P)
{
#if defined(ZT_ISA_avx2)
    if (crossed(MOST, P)) return crossed_bytes(f);
#endif
    (void)P;
    return 16 * pair_columns(f);
}

TEMPLATE void open_codes(zt_pack_form f, int P, bool amx, const uint8_t *group, const uint8_t *p,
                         int64_t K, uint8_t *to, size_t reach)
{
    const int step = zt_pack_step(f);
    const powers by = powers_of(f, group);
    for (int64_t left = zt_pack_blocks(f, K); left > 0; left -= f.together) {
        const uint8_t *q = p + f.head;
        const int n = together(f, left);
        send_for(p, reach, f.head);
        const multiples of = multiples_of(f, p, by);
        for (int b = 0; b < n; b += step, q += ZT_PACK_CODES(f.bits) * step) {
            open_pair(f, P, amx, q, to, reach);
            to = open_scales(f, P, pair_of(f, P, p, b, by, of), to + opened_bytes(f, P));
        }
        p = q;
    }
}

/* tile_codes of an opened group. */
TEMPLATE void tile_opened(zt_pack_form f, int P, const uint8_t *p, int64_t K, const uint8_t *x,
                          float *acc, int64_t down, bool goes_on, const uint8_t *group)
{
    const int columns = pair_columns(f), n = columns / 8, side = side_of(MOST, P);
    fv sum[MOST];
    UNROLL for (int t = 0; t < MOST / P; t++)
        sum[t] = goes_on ? fv_load(acc + down * t) : fv_zero();
    for (int64_t k = 0; k < K; k += columns, x += (size_t)MOST * pair_bytes(f)) {
        const uint8_t *at = alone(x), *each = at + (columns + pair_scales(f)) * MOST;
        UNROLL for (int t = 0; t < MOST; t += side) {
#if defined(ZT_ISA_avx2)
            if (crossed(MOST, P)) {
                add_crossed(f, t, side, p, at, opened_scales(f, P, p + opened_bytes(f, P)), sum);
                continue;
            }
#endif
            iv dot[2][MOST];
            UNROLL for (int i = 0; i < 2; i++) {
                const uint8_t *codes = p + 64 * n * i, *xi = at + 4 * n * MOST * i + 4 * t;
                const sums_from from = from_of_form(f, P, i, each + 4 * MOST * i + 4 * t);
                if (P == 2)
                    cv_dots_opened_fine(n, side, MOST, codes, xi, from, dot[i]);
#if !defined(ZT_ISA_avx2)
                else
                    cv_dots_opened(zt_pack_wide(f), n, side, MOST, codes, xi, from, dot[i]);
#endif
            }
            const pair by = opened_scales(f, P, p + opened_bytes(f, P));
            add_dots(f, MOST, t, side, P, dot, by, at + columns * MOST, sum);
        }
        p += opened_bytes(f, P) + scales_bytes(f, P);
    }
    store_opened(f, MOST / P, P, sum, group, acc, down);
}
#endif

#if defined(ZT_ISA_avx512)
/* ---- by AMX ---------------------------------------------------------------------------------- */

/* Sixteen rows of activations at a time. Of each pair they lie as i8 q[16][64], and then, twice, what
 * comes behind the codes in a tile of MOST rows. A tile register has 32 columns of the codes of 16
 * rows of x, another those of 16 rows of weights just as they are packed, a third their 256 sums,
 * which are those of cv_dots: all that follows, and so the bits, are the same. Only where a scale is
 * for 32 columns: 16 take a tile register as long. */
enum { AMX_SUMS = 64 * AMX_ROWS }; /* bytes of 16 rows by 16 */

/* From here on, until amx_end: tmm0 and 1 are sums, 2 and 3 rows of x, 4 and 5 codes. */
INLINE void amx_begin_tiles(void)
{
    static const amx_shapes shapes = {.palette = 1,
                                      .bytes = {64, 64, 32, 32, 64, 64},
                                      .lines = {AMX_ROWS, AMX_ROWS, AMX_ROWS, AMX_ROWS, 8, 8}};
    amx_begin(&shapes);
}

/* The two sums of a pair begin. */
INLINE void amx_dots(const uint8_t *codes, const uint8_t *x)
{
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\t"
                     "tileloadd (%1,%2,1), %%tmm2\n\ttileloadd (%0,%2,1), %%tmm4\n\t"
                     "tdpbssd %%tmm4, %%tmm2, %%tmm0\n\t"
                     "tileloadd 32(%1,%2,1), %%tmm3\n\ttileloadd 512(%0,%2,1), %%tmm5\n\t"
                     "tdpbssd %%tmm5, %%tmm3, %%tmm1"
                     :
                     : "r"(codes), "r"(x), "r"((size_t)64)
                     : "memory");
}

/* They are there: i32[2][16 rows of x][16]. */
INLINE void amx_sums(uint8_t *dot)
{
    __asm__ volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 1024(%0,%1,1)"
                     :
                     : "r"(dot), "r"((size_t)64)
                     : "memory");
}

/* Those of MOST rows, or of their tokens, with what they begin with. */
TEMPLATE void amx_half(zt_pack_form f, int P, const uint8_t *dot, iv (*to)[MOST])
{
    UNROLL for (int i = 0; i < 2; i++) {
        const int32_t lost = half_lost(f, P, i);
        iv row[MOST];
        UNROLL for (int t = 0; t < MOST; t++) {
            row[t] = cv_load(dot + AMX_SUMS * i + 64 * t);
            if (lost) row[t] = iv_add(row[t], iv_set(lost));
            if (P == 1) to[i][t] = row[t];
        }
        if (P == 2) join_rows(MOST, row, to[i]);
    }
}

/* Tile registers are at the next pair while vectors are at one. */
TEMPLATE void tile_amx(zt_pack_form f, int P, const uint8_t *p, int64_t K, const uint8_t *x,
                       float *acc, int64_t down, bool goes_on, const uint8_t *group)
{
    const int behind = (pair_bytes(f) - 64) * MOST;
    uint8_t dot[2 * AMX_SUMS] __attribute__((aligned(64)));
    fv sum[AMX_ROWS];
    UNROLL for (int t = 0; t < AMX_ROWS / P; t++)
        sum[t] = goes_on ? fv_load(acc + down * t) : fv_zero();
    amx_dots(p, x);
    for (int64_t k = 0; k < K; k += 64) {
        const uint8_t *at = x + 64 * AMX_ROWS;
        const pair by = opened_scales(f, P, p + 1024);
        amx_sums(dot);
        p += 1024 + scales_bytes(f, P), x += AMX_ROWS * pair_bytes(f);
        if (k + 64 < K) amx_dots(p, x);
        UNROLL for (int u = 0; u < 2; u++) {
            iv d[2][MOST];
            amx_half(f, P, dot + 64 * MOST * u, d);
            add_dots(f, MOST, 0, MOST, P, d, by, alone(at + behind * u), sum + MOST / P * u);
        }
    }
    store_opened(f, AMX_ROWS / P, P, sum, group, acc, down);
}
#else
INLINE void amx_begin_tiles(void) {}
#endif

#endif
