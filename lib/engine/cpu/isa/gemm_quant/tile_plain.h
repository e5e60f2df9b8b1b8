/* tile_plain.h - private to gemm_quant/: tiles with activations of f32 and bfloat16.
 */
#ifndef ZT_CPU_GEMM_QUANT_TILE_PLAIN_H
#define ZT_CPU_GEMM_QUANT_TILE_PLAIN_H

#include "lib/engine/cpu/isa/denormals.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_codes.h"

/* ---- tiles: f32 activations ------------------------------------------------------------------ */

/* Of every row and token a sum, in order: G groups times T tokens of them are kept going. */
typedef struct tile_sums {
    fv v[TILE_GROUPS][TILE_ROWS];
} tile_sums;

TEMPLATE void clear_sums(tile_sums *sums, int G, int T)
{
    UNROLL_FOR (int g = 0; g < G; g++)
        UNROLL_FOR (int t = 0; t < T; t++) sums->v[g][t] = fv_zero();
}

TEMPLATE void store_f32_sums(const tile_sums *sums, int G, int T, float *acc, int64_t acc_stride)
{
    UNROLL_FOR (int g = 0; g < G; g++)
        UNROLL_FOR (int t = 0; t < T; t++) fv_store(acc + acc_stride * (g * T + t), sums->v[g][t]);
}

/* With f32 every sum is a chain of dependent additions, so a call keeps eight registers of them going. */
#if defined(ZT_ISA_avx2) || defined(ZT_ISA_neon)
#define DECODED_GROUPS          4, 2, 1, 1
#define EACH_SIZE(X, NAME, arg) X(NAME, arg, 4, 1) X(NAME, arg, 2, 2) X(NAME, arg, 1, 4) X(NAME, arg, 1, 8)
#else
#define DECODED_GROUPS          4, 4, 2, 1
#define EACH_SIZE(X, NAME, arg) X(NAME, arg, 4, 1) X(NAME, arg, 4, 2) X(NAME, arg, 2, 4) X(NAME, arg, 1, 8)
#endif

/* 16 columns of G groups as f32 weights, times T tokens. c: their codes, stored. */
TEMPLATE void decoded_half_slice(zt_pack_form form, int G, int T, const uint8_t (*codes)[8][64], int half, const fv *scale,
                                 const fv *min, const float *x, size_t x_stride, tile_sums *sums)
{
    const iv offset = iv_set(form.offset);
    for (int i = 0; i < 16; i++) {
        UNROLL_FOR (int g = 0; g < G; g++) {
            fv weight = fv_mul(fv_of_iv(iv_sub(iv_of_bytes(codes[g][4 * half + i / 4], i % 4), offset)), scale[g]);
            if (zt_pack_has_mins(form)) weight = fv_add(weight, min[g]);
            UNROLL_FOR (int t = 0; t < T; t++)
                sums->v[g][t] = fv_fma(weight, fv_set(x[(size_t)t * x_stride + (size_t)i]), sums->v[g][t]);
        }
    }
}

TEMPLATE void decoded_rows(zt_pack_form form, int G, int T, const uint8_t *const *group, int64_t K, const float *x,
                           size_t x_stride, float *acc, int64_t acc_stride)
{
    size_t head = ZT_PACK_POWERS;
    fv scale[TILE_GROUPS], min[TILE_GROUPS];
    uint8_t stored[TILE_GROUPS][8][64];
    tile_sums sums;
    clear_sums(&sums, G, T);
    for (int64_t k = 0; k < K;) {
        const int count = head_slices(form, (K - k) / 32);
        size_t codes = head + (size_t)form.head_bytes;
        for (int slice = 0; slice < count; slice++, k += 32, codes += ZT_PACK_CODE_BYTES(form.bits)) {
            for (int g = 0; g < G; g++) {
                cv unpacked[8];
                cv_unpack(form, false, group[g] + codes, unpacked);
                UNROLL_FOR (int i = 0; i < 8; i++) cv_store(stored[g][i], unpacked[i]);
            }
            for (int half = 0; half < 2; half++) {
                UNROLL_FOR (int g = 0; g < G; g++) {
                    scale[g] = f32_scale(form, group[g] + head, slice, half);
                    if (zt_pack_has_mins(form)) min[g] = f32_min(form, group[g] + head, slice, half);
                }
                decoded_half_slice(form, G, T, stored, half, scale, min, x + k + 16 * half, x_stride, &sums);
            }
        }
        head = codes;
    }
    store_f32_sums(&sums, G, T, acc, acc_stride);
}

/* Rows side by side: of more than there are registers for, which G is one for, some after others. */
TEMPLATE void tile_decoded_codes(zt_pack_form form, int G, int T, const uint8_t *const *group, int64_t K, const float *x,
                                 size_t x_stride, float *acc, int64_t acc_stride)
{
    const int rows = rows_at_once(T, 1);
    UNROLL_FOR (int t = 0; t < T; t += rows)
        decoded_rows(form, G, rows, group, K, x + (size_t)t * x_stride, x_stride, acc + acc_stride * t, acc_stride);
}

/* ---- tiles: plain weights -------------------------------------------------------------------- */

/* A value is two chains of sums, added at the end: memory gives weights fastest where one group is read from its beginning to
 * its end and no other beside it, and one sum for each row would then wait for itself. The chains take turns at units of columns:
 *
 *   activations    unit        order in it           subnormal numbers
 *   f32            a column                          as they are
 *   bfloat16       2 columns   the odd, the even     taken and given as 0: what vdpbf16ps computes
 *
 * So chain 0 has columns 0, 2, 4 ..., or 1, 0, 5, 4, 9, 8 .... What is no whole turn at the end is chain 0's. */
enum { CHAINS = 2 };
enum { PASS_COLUMNS = 512 }; /* that a chain takes before the other does, where they are not summed side by side */

/* Are both chains of a tile summed side by side? Else one after the other, some columns at a time: all sums have registers then. */
INLINE bool chains_fit(int G, int T)
{
#if defined(ZT_ISA_avx2)
    return G * T <= 2;
#else
    (void)G, (void)T;
    return true;
#endif
}

#if defined(ZT_ISA_avx512)
#define PLAIN_GROUPS                  1, 1, 1, 1
#define EACH_PLAIN_SIZE(X, NAME, arg) X(NAME, arg, 1, 1) X(NAME, arg, 1, 2) X(NAME, arg, 1, 4) X(NAME, arg, 1, 8)
#else
#define PLAIN_GROUPS                  2, 1, 1, 1
#define EACH_PLAIN_SIZE(X, NAME, arg) X(NAME, arg, 2, 1) X(NAME, arg, 1, 2) X(NAME, arg, 1, 4) X(NAME, arg, 1, 8)
#endif

/* Bytes of a column of a group of plain weights. */
INLINE int column_bytes(zt_dtype type) { return type == ZT_F32 ? 64 : 32; }

/* Column k + c of a group of plain weights as f32; k is even. */
INLINE fv plain_column(zt_dtype type, const uint8_t *group, int64_t k, int c)
{
    if (type == ZT_F32) return fv_load(group + 64 * (k + c));
    if (type == ZT_F16) return fv_of_f16(group + 32 * (k + c));
    return fv_of_bf16(group + 64 * (k / 2), c);
}

INLINE tile_sums *opaque_sums(tile_sums *sums)
{
    __asm__("" : "+r"(sums) : : "memory");
    return sums;
}

/* What is summed stays before this, or behind it (denormals.h). */
TEMPLATE void hold_sums(int G, int T, tile_sums *sums)
{
#if ZT_FLUSHES
    UNROLL_FOR (int g = 0; g < G; g++)
        UNROLL_FOR (int t = 0; t < T; t++) fv_hold(&sums->v[g][t]);
#else
    (void)G, (void)T, (void)sums;
#endif
}

TEMPLATE void store_chains(tile_sums *sums, int G, int T, float *acc, int64_t acc_stride)
{
    UNROLL_FOR (int g = 0; g < G; g++)
        UNROLL_FOR (int t = 0; t < T; t++) sums[0].v[g][t] = fv_add(sums[0].v[g][t], sums[1].v[g][t]);
    store_f32_sums(&sums[0], G, T, acc, acc_stride);
}

/* Column k + c; k is even. */
TEMPLATE void plain_column_times(zt_dtype type, bool pairs, int G, int T, const uint8_t *const *group, int64_t k, int c,
                                 const float *x, size_t x_stride, tile_sums *sums)
{
    UNROLL_FOR (int g = 0; g < G; g++) {
        const fv weight = plain_column(type, group[g], k, c);
        UNROLL_FOR (int t = 0; t < T; t++) {
            const fv factor = fv_set(x[(size_t)t * x_stride + (size_t)(k + c)]);
            fv *sum = &sums->v[g][t];
            *sum = pairs ? fv_fma_flushed(weight, factor, *sum) : fv_fma(weight, factor, *sum);
        }
    }
}

/* Columns of a turn of both chains: a unit each. */
INLINE int turn_columns(bool pairs) { return CHAINS * (pairs ? 2 : 1); }

/* The chain's unit of the turn at k. */
TEMPLATE void plain_unit(zt_dtype type, bool pairs, int chain, int G, int T, const uint8_t *const *group, int64_t k,
                         const float *x, size_t x_stride, tile_sums *sums)
{
    if (pairs) {
        plain_column_times(type, true, G, T, group, k + 2 * chain, 1, x, x_stride, sums);
        plain_column_times(type, true, G, T, group, k + 2 * chain, 0, x, x_stride, sums);
    } else {
        plain_column_times(type, false, G, T, group, k, chain, x, x_stride, sums);
    }
}

/* The chain's units of turns k..end-1, added to its sums. */
TEMPLATE void plain_pass(zt_dtype type, bool pairs, int chain, int G, int T, const uint8_t *const *group, int64_t k, int64_t end,
                         const float *x, size_t x_stride, tile_sums *kept, size_t distance)
{
    const int turn = turn_columns(pairs);
    tile_sums sums;
    UNROLL_FOR (int g = 0; g < G; g++)
        UNROLL_FOR (int t = 0; t < T; t++) sums.v[g][t] = fv_load(&kept->v[g][t]);
    hold_sums(G, T, &sums);
    for (; k < end; k += turn) {
        if (chain == 0)
            UNROLL_FOR (int g = 0; g < G; g++)
                prefetch_stream(group[g] + column_bytes(type) * k, distance, turn * column_bytes(type));
        plain_unit(type, pairs, chain, G, T, group, k, x, x_stride, &sums);
    }
    hold_sums(G, T, &sums);
    UNROLL_FOR (int g = 0; g < G; g++)
        UNROLL_FOR (int t = 0; t < T; t++) fv_store((float *)(void *)&kept->v[g][t], sums.v[g][t]);
}

/* Turns of both chains side by side. */
TEMPLATE void plain_turns(zt_dtype type, bool pairs, int G, int T, const uint8_t *const *group, int64_t end, const float *x,
                          size_t x_stride, tile_sums *sums, size_t distance)
{
    const int turn = turn_columns(pairs);
    UNROLL_FOR (int c = 0; c < CHAINS; c++) hold_sums(G, T, &sums[c]);
    for (int64_t k = 0; k < end; k += turn) {
        UNROLL_FOR (int g = 0; g < G; g++)
            prefetch_stream(group[g] + column_bytes(type) * k, distance, turn * column_bytes(type));
        UNROLL_FOR (int c = 0; c < CHAINS; c++) plain_unit(type, pairs, c, G, T, group, k, x, x_stride, &sums[c]);
    }
}

/* With pairs the columns of x are an even number. */
TEMPLATE void plain_rows(zt_dtype type, bool pairs, int G, int T, const uint8_t *const *group, int64_t K, const float *x,
                         size_t x_stride, float *acc, int64_t acc_stride, size_t distance)
{
    const int64_t columns = pairs ? K + K % 2 : K, whole = columns - columns % turn_columns(pairs);
    const unsigned usual = pairs ? flush_begin() : 0;
    tile_sums sums[CHAINS];
    UNROLL_FOR (int c = 0; c < CHAINS; c++) clear_sums(&sums[c], G, T);
    if (chains_fit(G, T)) {
        plain_turns(type, pairs, G, T, group, whole, x, x_stride, sums, distance);
    } else {
        tile_sums *kept = opaque_sums(sums);
        for (int64_t k = 0; k < whole; k += PASS_COLUMNS) {
            const int64_t end = whole - k < PASS_COLUMNS ? whole : k + PASS_COLUMNS;
            plain_pass(type, pairs, 0, G, T, group, k, end, x, x_stride, &kept[0], distance);
            plain_pass(type, pairs, 1, G, T, group, k, end, x, x_stride, &kept[1], 0);
        }
    }
    if (whole < columns) plain_unit(type, pairs, 0, G, T, group, whole, x, x_stride, &sums[0]);
    UNROLL_FOR (int c = 0; c < CHAINS; c++) hold_sums(G, T, &sums[c]);
    if (pairs) flush_end(usual);
    UNROLL_FOR (int c = 0; c < CHAINS; c++) hold_sums(G, T, &sums[c]);
    store_chains(sums, G, T, acc, acc_stride);
}

TEMPLATE void tile_plain(zt_dtype type, bool pairs, int G, int T, const uint8_t *const *group, int64_t K, const float *x,
                         size_t x_stride, float *acc, int64_t acc_stride, size_t distance)
{
    const int rows = rows_at_once(T, 1);
    UNROLL_FOR (int t = 0; t < T; t += rows)
        plain_rows(type, pairs, G, rows, group, K, x + (size_t)t * x_stride, x_stride, acc + acc_stride * t, acc_stride,
                   t ? 0 : distance);
}

#if defined(ZT_ISA_avx2)
/* Three tiles, 6 rows after 6. 4 rows have just the 8 sums that two FMAs a cycle need, and wait for whatever
 * else is done. */
enum { PLAIN_TILES_AT_ONCE = 3, PLAIN_ROWS = 6 };
TEMPLATE void several_plain(zt_dtype type, bool pairs, const uint8_t *group, int64_t K, const float *x, size_t x_stride,
                            float *acc, int64_t acc_stride, size_t distance)
{
    UNROLL_FOR (int t = 0; t < PLAIN_TILES_AT_ONCE * TILE_ROWS; t += PLAIN_ROWS)
        plain_rows(type, pairs, 1, PLAIN_ROWS, &group, K, x + (size_t)t * x_stride, x_stride, acc + acc_stride * t, acc_stride,
                   t ? 0 : distance);
}
#endif

/* ---- tiles: bfloat16 activations ------------------------------------------------------------- */

#if defined(ZT_ISA_avx512)
/* Words k.. of two columns into the chains of sums. */
INLINE void bf16_columns(int count, int T, const uint8_t *group, int64_t k, const word32 *x, size_t x_stride, tile_sums *sums)
{
    UNROLL_FOR (int c = 0; c < count; c++) {
        __m512i weights = _mm512_loadu_si512(group + 64 * (k + c));
        UNROLL_FOR (int t = 0; t < T; t++)
            __asm__("vdpbf16ps %2%{1to16%}, %1, %0" /* gcc 12 takes two instructions for it */
                    : "+v"(sums[c].v[0][t])
                    : "v"(weights), "m"(x[(size_t)t * x_stride + (size_t)(k + c)]));
    }
}

/* x: words of two columns, rows `step` words apart. */
INLINE void tile_bf16(int T, const uint8_t *group, int64_t K, const word32 *x, size_t x_stride, float *acc, int64_t acc_stride)
{
    tile_sums sums[CHAINS];
    int64_t k = 0, words = (K + 1) / 2;
    UNROLL_FOR (int c = 0; c < CHAINS; c++) clear_sums(&sums[c], 1, T);
    for (; k + CHAINS <= words; k += CHAINS) bf16_columns(CHAINS, T, group, k, x, x_stride, sums);
    for (; k < words; k++) bf16_columns(1, T, group, k, x, x_stride, sums);
    store_chains(sums, 1, T, acc, acc_stride);
}

/* The same bits by FMAs, for processors on which these are faster than vdpbf16ps: tile_plain's of pairs, with activations as an
 * operand of the FMA. */

/* Words k.. of two columns into the chains of sums. volatile: not before or after the flushing. */
INLINE void bf16_as_f32_columns(int count, int T, const uint8_t *group, int64_t k, const float *x, size_t x_stride,
                                tile_sums *sums)
{
    UNROLL_FOR (int c = 0; c < count; c++)
        UNROLL_FOR (int odd = 1; odd >= 0; odd--) {
            fv weights = fv_of_bf16(group + 64 * (k + c), odd);
            UNROLL_FOR (int t = 0; t < T; t++)
                __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0"
                                 : "+v"(sums[c].v[0][t])
                                 : "v"(weights), "m"(x[(size_t)t * x_stride + (size_t)(2 * (k + c) + odd)]));
        }
}

/* x: columns, an even number of them, rows `step` apart. */
INLINE void tile_bf16_as_f32(int T, const uint8_t *group, int64_t K, const float *x, size_t x_stride, float *acc,
                             int64_t acc_stride, size_t distance)
{
    tile_sums sums[CHAINS];
    int64_t k = 0, words = (K + 1) / 2;
    UNROLL_FOR (int c = 0; c < CHAINS; c++) clear_sums(&sums[c], 1, T);
    const unsigned usual = flush_begin();
    for (; k + CHAINS <= words; k += CHAINS) {
        prefetch_stream(group + 64 * k, distance, CHAINS * 64);
        bf16_as_f32_columns(CHAINS, T, group, k, x, x_stride, sums);
    }
    for (; k < words; k++) bf16_as_f32_columns(1, T, group, k, x, x_stride, sums);
    flush_end(usual);
    UNROLL_FOR (int c = 0; c < CHAINS; c++)
        UNROLL_FOR (int t = 0; t < T; t++) __asm__ volatile("" : "+v"(sums[c].v[0][t]));
    store_chains(sums, 1, T, acc, acc_stride);
}
#endif

#endif
