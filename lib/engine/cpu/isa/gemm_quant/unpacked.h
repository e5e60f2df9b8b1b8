/* unpacked.h - private to gemm_quant/: a group that is unpacked once for many tiles of quantized activations, which
 * vectors or the tile registers of AMX then multiply.
 *
 * An unpacked group is UNPACK_COLUMNS columns at a time, pair after pair:
 *
 *   bytes                  part      multiplied by   type
 *   unpacked_code_bytes    codes     vectors         u8 [columns / 4][16 rows][4]
 *                                    AVX2, act=q8    crossed (tile_crossed.h)
 *                                    AMX             as vectors, but i8, less zt_pack_middle
 *   unpacked_factor_bytes  scales    act=q8          i16 D[16][2], and with minima i16 N[16][2]
 *                                    act=q16         f32 d[2][16], and with minima f32 n[2][16]
 *
 * By vectors this is done only where it saves time: where shifts and conversions take the ports that products
 * need (worth_unpacking in product.c).
 */
#ifndef ZT_CPU_GEMM_QUANT_UNPACKED_H
#define ZT_CPU_GEMM_QUANT_UNPACKED_H

#include "lib/engine/cpu/isa/gemm_quant/microkernel_amx.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_codes.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_crossed.h"

#if defined(ZT_ISA_avx2)
enum { UNPACK_COLUMNS = 1024, UNPACKED_BYTES = (1024 + 4 * 64) * UNPACK_COLUMNS / 32 };
#else
enum { UNPACK_COLUMNS = 768, UNPACKED_BYTES = (512 + 4 * 64) * UNPACK_COLUMNS / 32 };
#endif

/* Unpacks K columns of a group.
 *   group      where the group begins: its powers
 *   head       the first head of these columns
 *   to         unpacked, as above
 *   distance   prefetches what lies so many bytes ahead (0: nothing) */
typedef void unpack_fn(const uint8_t *group, const uint8_t *head, int64_t K, uint8_t *to, size_t distance);
/* Multiplies K unpacked columns by one tile.
 *   unpacked     these columns
 *   x            TILE_ROWS rows of activations (AMX: AMX_ROWS), from these columns on
 *   acc          sums of token t at acc + acc_stride * t
 *   continues    false: the first columns, sums begin at 0; true: at what acc has
 *   group        NULL: columns follow; else the last ones: sums are divided by the group's powers */
typedef void unpacked_tile_fn(const uint8_t *unpacked, int64_t K, const uint8_t *x, float *acc, int64_t acc_stride,
                              bool continues, const uint8_t *group);

#if defined(WHOLE_TILES)
/* ---- scales ---------------------------------------------------------------------------------- */

INLINE int unpacked_factor_bytes(zt_pack_form form, int parts) { return 64 * (zt_pack_has_mins(form) ? 2 : 1) * parts; }

/* Where the next pair's codes go. */
INLINE uint8_t *store_factors(zt_pack_form form, int parts, pair_factors by, uint8_t *to)
{
    if (parts == 1) {
        cv_store(to, by.int_scale);
        if (zt_pack_has_mins(form)) cv_store(to += 64, by.int_min);
        return to + 64;
    }
    UNROLL_FOR (int i = 0; i < 2; i++, to += 64) fv_store((float *)(void *)to, by.scale[i]);
    if (!zt_pack_has_mins(form)) return to;
    UNROLL_FOR (int i = 0; i < 2; i++, to += 64) fv_store((float *)(void *)to, by.min[i]);
    return to;
}

INLINE pair_factors stored_factors(zt_pack_form form, int parts, const uint8_t *p)
{
    const int mins = zt_pack_has_mins(form);
    pair_factors by = {.int_scale = cv_load(p)};
    if (parts == 1) {
        if (mins) by.int_min = cv_load(p + 64);
        return by;
    }
    UNROLL_FOR (int i = 0; i < 2; i++) {
        by.scale[i] = fv_load(p + 64 * i);
        if (mins) by.min[i] = fv_load(p + 128 + 64 * i);
    }
    return by;
}

/* acc = sum / power after the last columns of the group, else acc = sum. */
TEMPLATE void store_unpacked_sums(zt_pack_form form, int tokens, int parts, const fv *sum, const uint8_t *group, float *acc,
                                  int64_t acc_stride)
{
    if (group)
        store_sums(tokens, parts, sum, load_powers(form, group), acc, acc_stride);
    else
        UNROLL_FOR (int t = 0; t < tokens; t++) fv_store(acc + acc_stride * t, sum[t]);
}

/* ---- codes ----------------------------------------------------------------------------------- */

typedef enum unpack_order { UNPACK_VECTORS, UNPACK_CROSSED, UNPACK_AMX } unpack_order;

/* code, or for AMX code - zt_pack_middle. */
INLINE cv unpacked_code(zt_pack_form form, unpack_order order, cv code)
{
#if defined(ZT_ISA_avx512)
    return order == UNPACK_AMX ? _mm512_sub_epi8(code, _mm512_set1_epi8((char)zt_pack_middle(form))) : code;
#else
    (void)form, (void)order;
    return code;
#endif
}

INLINE int unpacked_code_bytes(zt_pack_form form, unpack_order order)
{
#if defined(ZT_ISA_avx2)
    if (order == UNPACK_CROSSED) return crossed_bytes(form);
#endif
    (void)order;
    return 16 * pair_columns(form);
}

/* A pair's codes, packed at q. */
TEMPLATE void unpack_pair(zt_pack_form form, unpack_order order, const uint8_t *q, uint8_t *to, size_t distance)
{
#if defined(ZT_ISA_avx2)
    if (order == UNPACK_CROSSED) {
        prefetch_stream(q, distance, ZT_PACK_CODE_BYTES(form.bits) * zt_pack_pair_slices(form));
        cv_cross(form, q, to);
        return;
    }
#endif
    UNROLL_FOR (int i = 0; i < zt_pack_pair_slices(form); i++, q += ZT_PACK_CODE_BYTES(form.bits)) {
        cv codes[8];
        prefetch_stream(q, distance, ZT_PACK_CODE_BYTES(form.bits));
        cv_unpack(form, false, q, codes);
        UNROLL_FOR (int j = 0; j < 8; j++, to += 64) cv_store(to, unpacked_code(form, order, codes[j]));
    }
}

TEMPLATE void unpack_group(zt_pack_form form, int parts, unpack_order order, const uint8_t *group, const uint8_t *head, int64_t K,
                           uint8_t *to, size_t distance)
{
    const int slices = zt_pack_pair_slices(form);
    const row_powers powers = load_powers(form, group);
    for (int64_t left = zt_pack_padded_slices(form, K); left > 0; left -= form.head_slices) {
        const uint8_t *codes = head + form.head_bytes;
        const int count = head_slices(form, left);
        prefetch_stream(head, distance, form.head_bytes);
        const head_units units = load_head_units(form, head, powers);
        for (int slice = 0; slice < count; slice += slices, codes += ZT_PACK_CODE_BYTES(form.bits) * slices) {
            unpack_pair(form, order, codes, to, distance);
            to = store_factors(form, parts, load_factors(form, parts, head, slice, powers, units),
                               to + unpacked_code_bytes(form, order));
        }
        head = codes;
    }
}

/* ---- tiles by vectors ------------------------------------------------------------------------ */

/* tile_codes of an unpacked group. */
TEMPLATE void tile_unpacked(zt_pack_form form, int parts, const uint8_t *p, int64_t K, const uint8_t *x, float *acc,
                            int64_t acc_stride, bool continues, const uint8_t *group)
{
    const int columns = pair_columns(form), registers = columns / 8, rows = rows_at_once(TILE_ROWS, parts);
    const int code_bytes = unpacked_code_bytes(form, UNPACK_VECTORS);
    fv sum[TILE_ROWS];
    UNROLL_FOR (int t = 0; t < TILE_ROWS / parts; t++) sum[t] = continues ? fv_load(acc + acc_stride * t) : fv_zero();
    for (int64_t k = 0; k < K; k += columns, x += (size_t)TILE_ROWS * pair_bytes(form)) {
        const uint8_t *xp = opaque(x), *each = xp + (columns + pair_scale_bytes(form)) * TILE_ROWS;
        UNROLL_FOR (int t = 0; t < TILE_ROWS; t += rows) {
            iv dot[2][TILE_ROWS];
            UNROLL_FOR (int i = 0; i < 2; i++) {
                const uint8_t *codes = p + 64 * registers * i, *xi = xp + 4 * registers * TILE_ROWS * i + 4 * t;
                const sums_start start = start_of_sums(form, parts, i, each + 4 * TILE_ROWS * i + 4 * t);
                unpacked_dots(parts, zt_pack_value_bits(form), registers, rows, TILE_ROWS, codes, xi, start, dot[i]);
            }
            const pair_factors by = stored_factors(form, parts, p + code_bytes);
            add_rows(form, TILE_ROWS, t, rows, parts, dot, by, xp + columns * TILE_ROWS, sum);
        }
        p += code_bytes + unpacked_factor_bytes(form, parts);
    }
    store_unpacked_sums(form, TILE_ROWS / parts, parts, sum, group, acc, acc_stride);
}
#endif

#if defined(ZT_ISA_avx2)
/* tile_crossed of an unpacked group. */
TEMPLATE void tile_crossed_unpacked(zt_pack_form form, const uint8_t *p, int64_t K, const uint8_t *x, float *acc,
                                    int64_t acc_stride, bool continues, const uint8_t *group)
{
    const int columns = pair_columns(form), rows = rows_at_once(TILE_ROWS, 1);
    fv sum[TILE_ROWS];
    UNROLL_FOR (int t = 0; t < TILE_ROWS; t++) sum[t] = continues ? fv_load(acc + acc_stride * t) : fv_zero();
    for (int64_t k = 0; k < K; k += columns, x += (size_t)TILE_ROWS * pair_bytes(form)) {
        const uint8_t *xp = opaque(x), *factors = p + crossed_bytes(form);
        UNROLL_FOR (int t = 0; t < TILE_ROWS; t += rows)
            add_rows_crossed(form, t, rows, p, xp, stored_factors(form, 1, factors), sum);
        p = factors + unpacked_factor_bytes(form, 1);
    }
    store_unpacked_sums(form, TILE_ROWS, 1, sum, group, acc, acc_stride);
}
#endif

#if defined(ZT_ISA_avx512)
/* ---- tiles by AMX ---------------------------------------------------------------------------- */

/* AMX_ROWS rows of activations. Tile registers are at the next pair while vectors are at one. */
TEMPLATE void tile_amx(zt_pack_form form, int parts, const uint8_t *p, int64_t K, const uint8_t *x, float *acc,
                       int64_t acc_stride, bool continues, const uint8_t *group)
{
    const int behind_bytes = (pair_bytes(form) - 64) * TILE_ROWS;
    uint8_t stored[2 * AMX_SUM_BYTES] __attribute__((aligned(64)));
    fv sum[AMX_ROWS];
    UNROLL_FOR (int t = 0; t < AMX_ROWS / parts; t++) sum[t] = continues ? fv_load(acc + acc_stride * t) : fv_zero();
    amx_begin_dots(p, x);
    for (int64_t k = 0; k < K; k += 64) {
        const uint8_t *behind = x + 64 * AMX_ROWS;
        const pair_factors by = stored_factors(form, parts, p + 1024);
        amx_store_dots(stored);
        p += 1024 + unpacked_factor_bytes(form, parts), x += AMX_ROWS * pair_bytes(form);
        if (k + 64 < K) amx_begin_dots(p, x);
        UNROLL_FOR (int u = 0; u < 2; u++) {
            iv dot[2][TILE_ROWS];
            amx_load_dots(form, parts, stored + 64 * TILE_ROWS * u, dot);
            add_rows(form, TILE_ROWS, 0, TILE_ROWS, parts, dot, by, opaque(behind + behind_bytes * u),
                     sum + TILE_ROWS / parts * u);
        }
    }
    store_unpacked_sums(form, AMX_ROWS / parts, parts, sum, group, acc, acc_stride);
}
#endif

#endif
