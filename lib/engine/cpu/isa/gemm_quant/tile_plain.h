/* tile_plain.h - private to gemm_quant/: tiles with activations of f32 and bfloat16.
 */
#ifndef ZT_CPU_TILE_PLAIN_H
#define ZT_CPU_TILE_PLAIN_H

#include "lib/engine/cpu/isa/denormals.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_codes.h"

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

TEMPLATE void sums_store(const sums *s, int G, int T, float *acc, int64_t down)
{
    UNROLL for (int g = 0; g < G; g++)
        UNROLL for (int t = 0; t < T; t++) fv_store(acc + down * (g * T + t), s->v[g][t]);
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
#define PLAIN_GROUPS    ROWS_GROUPS
#define EACH_PLAIN_SIZE EACH_SIZE
#endif

/* With f32 every sum is a chain of dependent additions, so a call keeps eight registers of them going. */
#if defined(ZT_ISA_avx2)
#define ROWS_GROUPS 4, 2, 1, 1
#define EACH_SIZE(X, NAME, arg)                                                                    \
    X(NAME, arg, 4, 1) X(NAME, arg, 2, 2) X(NAME, arg, 1, 4) X(NAME, arg, 1, 8)
#else
#define ROWS_GROUPS 4, 4, 2, 1
#define EACH_SIZE(X, NAME, arg)                                                                    \
    X(NAME, arg, 4, 1) X(NAME, arg, 4, 2) X(NAME, arg, 2, 4) X(NAME, arg, 1, 8)
#endif

TEMPLATE void chains_store(sums *s, int G, int T, float *acc, int64_t down)
{
    UNROLL for (int c = 1; c < CHAINS; c++)
        UNROLL for (int g = 0; g < G; g++)
            UNROLL for (int t = 0; t < T; t++) s[0].v[g][t] = fv_add(s[0].v[g][t], s[c].v[g][t]);
    sums_store(&s[0], G, T, acc, down);
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

TEMPLATE void side_rows(zt_pack_form f, int G, int T, const uint8_t *const *w, int64_t K,
                        const float *x, size_t step, float *acc, int64_t down)
{
    size_t at = ZT_PACK_POWERS;
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
                cv_unpack(f, false, w[g] + q, c);
                UNROLL for (int i = 0; i < 8; i++)
                    cv_store(codes[g][i], c[i]);
            }
            for (int h = 0; h < 2; h++) {
                UNROLL for (int g = 0; g < G; g++) {
                    scale[g] = scale_of(f, w[g] + at, b, h);
                    if (zt_pack_mins(f)) min[g] = min_of(f, w[g] + at, b, h);
                }
                half_rows(f, G, T, codes, h, scale, min, x + k + 16 * h, step, &s);
            }
        }
        at = q;
    }
    sums_store(&s, G, T, acc, down);
}

/* Rows side by side: of more than there are registers for, which G is one for, some after others. */
TEMPLATE void tile_rows(zt_pack_form f, int G, int T, const uint8_t *const *w, int64_t K,
                        const float *x, size_t step, float *acc, int64_t down)
{
    const int side = side_of(T, 1);
    UNROLL for (int t = 0; t < T; t += side)
        side_rows(f, G, side, w, K, x + (size_t)t * step, step, acc + down * t, down);
}

/* Bytes of a column of a group of plain weights. */
INLINE int column_bytes(zt_dtype t) { return t == ZT_F32 ? 64 : 32; }

/* Column k + c of a group of plain weights as f32; k is even. */
INLINE fv plain_column(zt_dtype t, const uint8_t *w, int64_t k, int c)
{
    if (t == ZT_F32) return fv_load(w + 64 * (k + c));
    if (t == ZT_F16) return fv_of_half(w + 32 * (k + c));
    return fv_of_brain(w + 64 * (k / 2), c);
}

/* n columns from k on, of a pair. */
TEMPLATE void plain_columns(zt_dtype type, int n, int G, int T, const uint8_t *const *w,
                            int64_t k, const float *x, size_t step, sums *s)
{
    UNROLL for (int c = 0; c < n; c++) {
        sums *to = &s[c % CHAINS];
        UNROLL for (int g = 0; g < G; g++) {
            fv v = plain_column(type, w[g], k, c);
            UNROLL for (int t = 0; t < T; t++)
                to->v[g][t] =
                    fv_fma(v, fv_set(x[(size_t)t * step + (size_t)(k + c)]), to->v[g][t]);
        }
    }
}

TEMPLATE void side_plain(zt_dtype type, int G, int T, const uint8_t *const *w, int64_t K,
                         const float *x, size_t step, float *acc, int64_t down, size_t reach)
{
    sums s[CHAINS];
    int64_t k = 0;
    UNROLL for (int c = 0; c < CHAINS; c++)
        sums_zero(&s[c], G, T);
    for (; k + 2 <= K; k += 2) {
        UNROLL for (int g = 0; g < G; g++)
            send_for(w[g] + column_bytes(type) * k, reach, 2 * column_bytes(type));
        plain_columns(type, 2, G, T, w, k, x, step, s);
    }
    if (k < K) plain_columns(type, 1, G, T, w, k, x, step, s);
    chains_store(s, G, T, acc, down);
}

TEMPLATE void tile_plain(zt_dtype type, int G, int T, const uint8_t *const *w, int64_t K,
                         const float *x, size_t step, float *acc, int64_t down, size_t reach)
{
    const int side = side_of(T, 1);
    UNROLL for (int t = 0; t < T; t += side)
        side_plain(type, G, side, w, K, x + (size_t)t * step, step, acc + down * t, down,
                   t ? 0 : reach);
}

#if defined(ZT_ISA_avx2)
/* Three tiles, 6 rows after 6. 4 rows have just the 8 sums that two FMAs a cycle need, and wait for whatever
 * else is done. */
enum { PLAIN_TILES_AT_ONCE = 3, PLAIN_SIDE = 6 };
TEMPLATE void many_plain(zt_dtype type, const uint8_t *w, int64_t K, const float *x, size_t step,
                         float *acc, int64_t down, size_t reach)
{
    UNROLL for (int t = 0; t < PLAIN_TILES_AT_ONCE * MOST; t += PLAIN_SIDE)
        side_plain(type, 1, PLAIN_SIDE, &w, K, x + (size_t)t * step, step, acc + down * t, down,
                   t ? 0 : reach);
}
#endif

/* ---- tiles: bfloat16 activations ------------------------------------------------------------- */

#if defined(ZT_ISA_avx512)
/* Words k.. of two columns into the chains of sums. */
INLINE void brain_columns(int n, int T, const uint8_t *w, int64_t k, const four *x,
                          size_t step, sums *s)
{
    UNROLL for (int c = 0; c < n; c++) {
        __m512i v = _mm512_loadu_si512(w + 64 * (k + c));
        UNROLL for (int t = 0; t < T; t++)
            __asm__("vdpbf16ps %2%{1to16%}, %1, %0" /* gcc 12 takes two instructions for it */
                    : "+v"(s[c].v[0][t])
                    : "v"(v), "m"(x[(size_t)t * step + (size_t)(k + c)]));
    }
}

/* x: words of two columns, rows `step` words apart. */
INLINE void tile_brain(int T, const uint8_t *w, int64_t K, const four *x, size_t step, float *acc,
                       int64_t down)
{
    sums s[CHAINS];
    int64_t k = 0, words = (K + 1) / 2;
    UNROLL for (int c = 0; c < CHAINS; c++)
        sums_zero(&s[c], 1, T);
    for (; k + CHAINS <= words; k += CHAINS) brain_columns(CHAINS, T, w, k, x, step, s);
    for (; k < words; k++) brain_columns(1, T, w, k, x, step, s);
    chains_store(s, 1, T, acc, down);
}
#endif

/* ---- tiles: bfloat16 activations as f32 ------------------------------------------------------ */

#if defined(ZT_ISA_avx512)
/* The bits of tile_brain by FMAs, for processors on which these are faster than vdpbf16ps. That is
 * an FMA of the pair's odd column, then one of the even, numbers below the normal ones taken and
 * given as 0. */

/* Words k.. of two columns into the chains of sums. volatile: not before or after the flushing. */
INLINE void wide_columns(int n, int T, const uint8_t *w, int64_t k, const float *x,
                         size_t step, sums *s)
{
    UNROLL for (int c = 0; c < n; c++)
        UNROLL for (int odd = 1; odd >= 0; odd--) {
            fv v = fv_of_brain(w + 64 * (k + c), odd);
            UNROLL for (int t = 0; t < T; t++)
                __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0"
                                 : "+v"(s[c].v[0][t])
                                 : "v"(v), "m"(x[(size_t)t * step + (size_t)(2 * (k + c) + odd)]));
        }
}

/* x: columns, an even number of them, rows `step` apart. */
INLINE void tile_wide(int T, const uint8_t *w, int64_t K, const float *x, size_t step,
                      float *acc, int64_t down, size_t reach)
{
    sums s[CHAINS];
    int64_t k = 0, words = (K + 1) / 2;
    UNROLL for (int c = 0; c < CHAINS; c++)
        sums_zero(&s[c], 1, T);
    const unsigned usual = flush_begin();
    for (; k + CHAINS <= words; k += CHAINS) {
        send_for(w + 64 * k, reach, CHAINS * 64);
        wide_columns(CHAINS, T, w, k, x, step, s);
    }
    for (; k < words; k++) wide_columns(1, T, w, k, x, step, s);
    flush_end(usual);
    UNROLL for (int c = 0; c < CHAINS; c++)
        UNROLL for (int t = 0; t < T; t++) __asm__ volatile("" : "+v"(s[c].v[0][t]));
    chains_store(s, 1, T, acc, down);
}
#endif

#endif
