/* layout.h - private to gemm_quant/: how quantized activations lie in memory.
 *
 * A tile is T rows of activations side by side; a pair is the columns of two scales of the weights: 2 x 32
 * columns, or 2 x 16 where a scale is for 16. With act=q8 a row is a token. With act=q16 (parts = 2) a token
 * is two rows, the upper and the lower 8 bits.
 *
 * A pair of a tile, in the order of memory:
 *
 *   bytes a row        type                       what
 *   pair_columns       i8 q[columns / 4][T][4]    codes
 *   pair_scale_bytes   i16 E[T][2]                with a scale for 32 columns
 *                      f32 unit[T]
 *   8                  i32 start[2][T]            what the two sums begin with: dot_rounding - middle sum(q)
 *   4                  i16 Q[T][2]                with minima
 *   pair_bytes         all of these
 *
 * With act=q16 E and Q are f32: that of the first scale in a token's upper row, of the second in its lower.
 * Those of E are in the bytes of E, or with a scale for 16 columns in those of unit.
 *
 * AMX takes 16 rows: of each pair their codes are i8 q[16][64], then, for each half of the 16 rows, comes what
 * follows the codes of a tile of 8. Tiles of 8 rows have another order with AVX2 (tile_crossed.h).
 */
#ifndef ZT_CPU_GEMM_QUANT_LAYOUT_H
#define ZT_CPU_GEMM_QUANT_LAYOUT_H

#include "lib/engine/cpu/isa/gemm_quant/vector.h"

enum { TILE_SIZES = 4, TILE_ROWS = 8, TILE_GROUPS = 4 }; /* tiles of 1, 2, 4 and 8 rows; at most 4 groups */
enum { AMX_ROWS = 16 };

INLINE int pair_columns(zt_pack_form form) { return 32 * zt_pack_pair_slices(form); }
INLINE int pair_scale_bytes(zt_pack_form form) { return zt_pack_scale_per_16(form) ? 4 : 8; }
INLINE int pair_bytes(zt_pack_form form)
{
    return pair_columns(form) + pair_scale_bytes(form) + (zt_pack_has_mins(form) ? 12 : 8);
}

/* Half of what a pair's sums lose, to be added first. Of the second sum one less, so that halves go up in one and
 * down in the other. (Both up would be half a unit in each sum, the same in all rows, which costs a model
 * twice what 8 bits do.) */
INLINE int32_t dot_rounding(zt_pack_form form, int parts, int i)
{
    const int shift = parts == 1 ? zt_pack_dot_shift(form) : 0;
    return shift ? (1 << (shift - 1)) - i : 0;
}

/* The unit of a pair's integer in that of E: 2^(15 + shift), or with a scale for 16 columns 2^shift. */
INLINE float integer_unit(zt_pack_form form)
{
    return (float)(1 << (zt_pack_dot_shift(form) + (zt_pack_scale_per_16(form) ? 0 : 15)));
}

/* Where a row lies: of its first pair the codes and what follows them, of the next pairs pair_stride bytes
 * further. */
typedef struct row_place {
    uint8_t *codes, *factors;
    size_t pair_stride;
    int T;    /* rows side by side; with amx those of what follows the codes */
    bool amx; /* codes of a row are 64 bytes one after the other */
} row_place;

/* Row r of the tile at p. */
INLINE row_place row_in_tile(zt_pack_form form, int T, int64_t r, uint8_t *p)
{
    const size_t stride = (size_t)T * pair_bytes(form);
    return (row_place){p + 4 * r, p + pair_columns(form) * T + 4 * r, stride, T, false};
}

INLINE row_place row_in_amx_tile(zt_pack_form form, int64_t r, uint8_t *p)
{
    uint8_t *factors = p + 64 * AMX_ROWS + (pair_bytes(form) - 64) * TILE_ROWS * (r / TILE_ROWS);
    const size_t stride = (size_t)AMX_ROWS * pair_bytes(form);
    return (row_place){p + 64 * r, factors + 4 * (r % TILE_ROWS), stride, TILE_ROWS, true};
}

INLINE row_place next_pair(row_place place)
{
    place.codes += place.pair_stride, place.factors += place.pair_stride;
    return place;
}

#endif
