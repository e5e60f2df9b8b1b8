/* tile_plain.h - private to gemm_quant/: tiles with activations of f32 and bfloat16.
 */
#ifndef ZT_CPU_GEMM_QUANT_TILE_PLAIN_H
#define ZT_CPU_GEMM_QUANT_TILE_PLAIN_H

#include "lib/engine/cpu/isa/denormals.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_codes.h"

/* ---- tiles: f32 activations ------------------------------------------------------------------ */

/* Of every row and token one sum, in order: G groups times T tokens of them are kept going. */
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

/* Plain weights come from memory as fast as it gives them where one group is read from its
 * beginning to its end and no other beside it. To have enough sums going then, each is kept in two
 * chains, of the even and of the odd columns, where there are registers for that. */
#if defined(ZT_ISA_avx512)
enum { CHAINS = 2 };
#define PLAIN_GROUPS                  1, 1, 1, 1
#define EACH_PLAIN_SIZE(X, NAME, arg) X(NAME, arg, 1, 1) X(NAME, arg, 1, 2) X(NAME, arg, 1, 4) X(NAME, arg, 1, 8)
#else
enum { CHAINS = 1 };
#define PLAIN_GROUPS    DECODED_GROUPS
#define EACH_PLAIN_SIZE EACH_SIZE
#endif

/* With f32 every sum is a chain of dependent additions, so a call keeps eight registers of them going. */
#if defined(ZT_ISA_avx2) || defined(ZT_ISA_neon)
#define DECODED_GROUPS          4, 2, 1, 1
#define EACH_SIZE(X, NAME, arg) X(NAME, arg, 4, 1) X(NAME, arg, 2, 2) X(NAME, arg, 1, 4) X(NAME, arg, 1, 8)
#else
#define DECODED_GROUPS          4, 4, 2, 1
#define EACH_SIZE(X, NAME, arg) X(NAME, arg, 4, 1) X(NAME, arg, 4, 2) X(NAME, arg, 2, 4) X(NAME, arg, 1, 8)
#endif

TEMPLATE void store_chains(tile_sums *sums, int G, int T, float *acc, int64_t acc_stride)
{
    UNROLL_FOR (int c = 1; c < CHAINS; c++)
        UNROLL_FOR (int g = 0; g < G; g++)
            UNROLL_FOR (int t = 0; t < T; t++) sums[0].v[g][t] = fv_add(sums[0].v[g][t], sums[c].v[g][t]);
    store_f32_sums(&sums[0], G, T, acc, acc_stride);
}

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

/* Bytes of a column of a group of plain weights. */
INLINE int column_bytes(zt_dtype type) { return type == ZT_F32 ? 64 : 32; }

/* Column k + c of a group of plain weights as f32; k is even. */
INLINE fv plain_column(zt_dtype type, const uint8_t *group, int64_t k, int c)
{
    if (type == ZT_F32) return fv_load(group + 64 * (k + c));
    if (type == ZT_F16) return fv_of_f16(group + 32 * (k + c));
    return fv_of_bf16(group + 64 * (k / 2), c);
}

/* n columns from k on, of a pair. */
TEMPLATE void plain_columns(zt_dtype type, int count, int G, int T, const uint8_t *const *group, int64_t k, const float *x,
                            size_t x_stride, tile_sums *sums)
{
    UNROLL_FOR (int c = 0; c < count; c++) {
        tile_sums *chain = &sums[c % CHAINS];
        UNROLL_FOR (int g = 0; g < G; g++) {
            fv weight = plain_column(type, group[g], k, c);
            UNROLL_FOR (int t = 0; t < T; t++)
                chain->v[g][t] = fv_fma(weight, fv_set(x[(size_t)t * x_stride + (size_t)(k + c)]), chain->v[g][t]);
        }
    }
}

TEMPLATE void plain_rows(zt_dtype type, int G, int T, const uint8_t *const *group, int64_t K, const float *x, size_t x_stride,
                         float *acc, int64_t acc_stride, size_t distance)
{
    tile_sums sums[CHAINS];
    int64_t k = 0;
    UNROLL_FOR (int c = 0; c < CHAINS; c++) clear_sums(&sums[c], G, T);
    for (; k + 2 <= K; k += 2) {
        UNROLL_FOR (int g = 0; g < G; g++) prefetch_stream(group[g] + column_bytes(type) * k, distance, 2 * column_bytes(type));
        plain_columns(type, 2, G, T, group, k, x, x_stride, sums);
    }
    if (k < K) plain_columns(type, 1, G, T, group, k, x, x_stride, sums);
    store_chains(sums, G, T, acc, acc_stride);
}

TEMPLATE void tile_plain(zt_dtype type, int G, int T, const uint8_t *const *group, int64_t K, const float *x, size_t x_stride,
                         float *acc, int64_t acc_stride, size_t distance)
{
    const int rows = rows_at_once(T, 1);
    UNROLL_FOR (int t = 0; t < T; t += rows)
        plain_rows(type, G, rows, group, K, x + (size_t)t * x_stride, x_stride, acc + acc_stride * t, acc_stride,
                   t ? 0 : distance);
}

#if defined(ZT_ISA_avx2)
/* Three tiles, 6 rows after 6. 4 rows have just the 8 sums that two FMAs a cycle need, and wait for whatever
 * else is done. */
enum { PLAIN_TILES_AT_ONCE = 3, PLAIN_ROWS = 6 };
TEMPLATE void several_plain(zt_dtype type, const uint8_t *group, int64_t K, const float *x, size_t x_stride, float *acc,
                            int64_t acc_stride, size_t distance)
{
    UNROLL_FOR (int t = 0; t < PLAIN_TILES_AT_ONCE * TILE_ROWS; t += PLAIN_ROWS)
        plain_rows(type, 1, PLAIN_ROWS, &group, K, x + (size_t)t * x_stride, x_stride, acc + acc_stride * t, acc_stride,
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
#endif

/* ---- tiles: bfloat16 activations as f32 ------------------------------------------------------ */

#if defined(ZT_ISA_avx512)
/* The bits of tile_bf16 by FMAs, for processors on which these are faster than vdpbf16ps. That is
 * an FMA of the pair's odd column, then one of the even, numbers below the normal ones taken and
 * given as 0. */

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
