/* tile_crossed.h - private to gemm_quant/: AVX2's tiles of TILE_ROWS rows with act=q8, whose words are crossed.
 *
 * A word has two columns of each scale of a pair, so that a vpmaddubsw gives both scales' sums. Scale i has columns
 * 0, 1, ...; i.k is its column k:
 *
 *   byte of word j        0        1        2        3
 *   elsewhere, scale i    i.4j     i.4j+1   i.4j+2   i.4j+3
 *   crossed               0.2j     0.2j+1   1.2j     1.2j+1
 *   vpmaddubsw            sum of scale 0    sum of scale 1       two sums of 16 bits, which may wrap
 *
 * Weights (cv_cross) and activations (put_crossed_pair) have the same order. Where sums are wider than 16 bits, each
 * is put together of two that are not (join_crossed):
 *
 *   shift    first sums a                second sums b              both
 *   0        all words                   (none)                     a
 *   1        first half of the words     second half                vpavgw: (a + b + 1) >> 1, begun 2^15 higher
 *   4        upper 4 bits of codes       lower 4 bits               a + (b >> 4): c = 16 upper + lower - 8
 *
 * A pair of such a tile is as layout.h has it, but for crossed codes and the start of sums: i16 a[T][2], b[T][2].
 */
#ifndef ZT_CPU_GEMM_QUANT_TILE_CROSSED_H
#define ZT_CPU_GEMM_QUANT_TILE_CROSSED_H

#include "lib/engine/cpu/isa/gemm_quant/tile_codes.h"

#if defined(ZT_ISA_avx2)
enum { CROSSED_BYTES = 32 * 64 }; /* codes of a pair, at most */

INLINE int crossed_bytes(zt_pack_form form) { return 16 * pair_columns(form) * (zt_pack_value_bits(form) == 8 ? 2 : 1); }

/* Both sums of rows t to t + rows - 1 by codes that lie crossed at p: adds them to the rows' sums.
 * x: the tile's activations of the pair. */
TEMPLATE void add_rows_crossed(zt_pack_form form, int t, int rows, const uint8_t *p, const uint8_t *x, pair_factors by, fv *sum)
{
    const int columns = pair_columns(form);
    const uint8_t *behind = x + columns * TILE_ROWS, *start = behind + pair_scale_bytes(form) * TILE_ROWS + 4 * t;
    iv dots[REGISTER_ROWS];
    cv_dots_crossed(zt_pack_dot_shift(form), columns / 4, rows, TILE_ROWS, p, x + 4 * t, start, dots);
    UNROLL_FOR (int u = 0; u < rows; u++) add_row(form, TILE_ROWS, t + u, dots[u], by, behind, sum);
}

/* tile_codes of TILE_ROWS rows and one group. */
TEMPLATE void tile_crossed(zt_pack_form form, const uint8_t *group, int64_t K, const uint8_t *x, float *acc, int64_t acc_stride,
                           tile_prefetch prefetch)
{
    const int slices = zt_pack_pair_slices(form), rows = rows_at_once(TILE_ROWS, 1);
    const row_powers powers = load_powers(form, group);
    fv sum[TILE_ROWS];
    UNROLL_FOR (int t = 0; t < TILE_ROWS; t++) sum[t] = fv_zero();
    prefetch_stream(group, prefetch.distance, ZT_PACK_POWERS);
    size_t head = ZT_PACK_POWERS; /* where it is in the group */
    for (int64_t left = zt_pack_padded_slices(form, K); left > 0; left -= form.head_slices) {
        size_t codes = head + (size_t)form.head_bytes;
        const int count = head_slices(form, left);
        prefetch_stream(group + head, prefetch.distance, form.head_bytes);
        const head_units units = load_head_units(form, group + head, powers);
        for (int slice = 0; slice < count; slice += slices, codes += (size_t)(ZT_PACK_CODE_BYTES(form.bits) * slices)) {
            const uint8_t *xp = opaque(x), *q = opaque(group + codes);
            uint8_t crossed[CROSSED_BYTES];
            prefetch_stream(q, prefetch.distance, ZT_PACK_CODE_BYTES(form.bits) * slices);
            prefetch_next(&prefetch);
            cv_cross(form, q, crossed);
            UNROLL_FOR (int t = 0; t < TILE_ROWS; t += rows)
                add_rows_crossed(form, t, rows, crossed, xp, load_factors(form, 1, group + head, slice, powers, units), sum);
            x += (size_t)TILE_ROWS * pair_bytes(form);
        }
        head = codes;
    }
    store_sums(TILE_ROWS, 1, sum, powers, acc, acc_stride);
}
#endif

#endif
