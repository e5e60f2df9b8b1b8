/* gemm.h - private to isa/: the register tile of matrix products, y += a b with sums in f32.
 *
 * `a` is a block of rows in the kernel's own scratch, GEMM_STRIDE words from one to the next (a
 * constant, which no power of two divides: the rows then lie in different sets of the cache, and
 * need no registers for their addresses), at most GEMM_DEPTH words of it at a time. `b` is a panel
 * of GEMM_WIDE columns, `b_down` words from row to row: GEMM_WIDE when packed for it, else where
 * they lie. A word is a float, or with GEMM_BOTH two bfloat16 of neighbouring k, the lower k in the
 * low half (only where GEMM_PAIRS says so).
 *
 * One value of y is one sum over a block of GEMM_DEPTH words, k in order, begun from zero; blocks
 * are added in order too. So its bits depend on nothing but its row, its column and K: not on the
 * tile it fell into, nor on threads and neighbours.
 *
 * GEMM_APART is GEMM_BOTH, to the bit, for processors that are slow at it: the instruction adds the
 * product of the high halves, then that of the low ones, rounds both times and takes subnormal
 * numbers for 0. Here its numbers are floats, the odd k of each two first, so a block is twice as
 * many words, and rows of a are GEMM_FAR apart.
 */
#ifndef ZT_CPU_GEMM_H
#define ZT_CPU_GEMM_H

#include "lib/engine/cpu/isa/flush.h"
#include "lib/engine/cpu/isa/simd.h"

#if defined(ZT_ISA_avx512)
enum { GEMM_ROWS = 12, GEMM_VECS = 2, GEMM_PAIRS = 1 };
#elif defined(ZT_ISA_avx2)
enum { GEMM_ROWS = 6, GEMM_VECS = 1, GEMM_PAIRS = 0 };
#else
enum { GEMM_ROWS = 4, GEMM_VECS = 1, GEMM_PAIRS = 0 };
#endif
enum {
    GEMM_WIDE = GEMM_VECS * LANES,
    GEMM_DEPTH = 512,
    GEMM_STRIDE = GEMM_DEPTH + LANES,
    GEMM_FAR = 2 * GEMM_DEPTH + LANES
};
typedef enum gemm_way { GEMM_FLOATS, GEMM_BOTH, GEMM_APART } gemm_way;

typedef struct gemm_block {
    const float *a, *b;
    int64_t b_down;
    int depth;    /* words */
    int columns;  /* of y to write, at most GEMM_WIDE; b has GEMM_WIDE all the same */
    bool more;    /* add to what y holds; else y's old content is not read */
    float *y;
    int64_t down; /* from row to row of y */
} gemm_block;

/* c + a b, or c + both products of the pairs. */
INLINE vf gemm_step(gemm_way way, vf a, vf b, vf c)
{
#if defined(ZT_ISA_avx512)
    if (way == GEMM_BOTH)
        return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a),
                                (__m512bh)_mm512_castps_si512(b));
#else
    (void)way;
#endif
    return vf_fma(a, b, c);
}

/* What is summed stays before this, or behind it. */
INLINE void gemm_hold(int R, vf sum[GEMM_ROWS][GEMM_VECS])
{
#if defined(ZT_ISA_avx512)
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int w = 0; w < GEMM_VECS; w++) __asm__ volatile("" : "+v"(sum[r][w]));
#else
    (void)R, (void)sum;
#endif
}

/* flush_begin() before the sums of GEMM_APART are made, and flush_end() behind them. */
INLINE unsigned gemm_begin(int R, vf sum[GEMM_ROWS][GEMM_VECS])
{
    gemm_hold(R, sum);
    const unsigned usual = flush_begin();
    gemm_hold(R, sum);
    return usual;
}

INLINE void gemm_end(int R, unsigned usual, vf sum[GEMM_ROWS][GEMM_VECS])
{
    gemm_hold(R, sum);
    flush_end(usual);
    gemm_hold(R, sum);
}

INLINE void gemm_put(const gemm_block *g, float *y, int n, vf sum)
{
    if (n >= LANES)
        vf_store(y, g->more ? vf_add(vf_load(y), sum) : sum);
    else
        vf_store_n(y, n, g->more ? vf_add(vf_load_n(y, n), sum) : sum);
}

/* R rows of the tile; R and way are constants. What is in y is wanted at the end only, and is
 * fetched meanwhile: it lies apart, a row each. */
INLINE void gemm_rows(int R, gemm_way way, const gemm_block *g, int row)
{
    const int stride = way == GEMM_APART ? GEMM_FAR : GEMM_STRIDE;
    const float *a = g->a + row * stride, *b = g->b;
    float *y = g->y + row * g->down;
    const int64_t b_down = g->b_down;
    vf sum[GEMM_ROWS][GEMM_VECS];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int w = 0; w < GEMM_VECS; w++)
        {
            sum[r][w] = vf_set(0);
            __builtin_prefetch(y + r * g->down + w * LANES, 1);
        }
    const unsigned usual = way == GEMM_APART ? gemm_begin(R, sum) : 0;
    for (int k = 0, depth = g->depth; k < depth; k++, b += b_down) {
        vf v[GEMM_VECS];
        UNROLL for (int w = 0; w < GEMM_VECS; w++) v[w] = vf_load(b + w * LANES);
        UNROLL for (int r = 0; r < R; r++)
        {
            vf x = vf_set(a[r * stride + k]);
            UNROLL for (int w = 0; w < GEMM_VECS; w++)
                sum[r][w] = gemm_step(way, x, v[w], sum[r][w]);
        }
    }
    if (way == GEMM_APART) gemm_end(R, usual, sum);
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int w = 0; w < GEMM_VECS; w++)
            gemm_put(g, y + r * g->down + w * LANES, g->columns - w * LANES, sum[r][w]);
}

/* Any number of rows of a by one panel. */
INLINE void gemm_down(gemm_way way, const gemm_block *g, int rows)
{
    int i = 0;
    for (; i + GEMM_ROWS <= rows; i += GEMM_ROWS) gemm_rows(GEMM_ROWS, way, g, i);
    if (GEMM_ROWS > 8 && i + 8 <= rows) gemm_rows(8, way, g, i), i += 8;
    if (GEMM_ROWS > 4 && i + 4 <= rows) gemm_rows(4, way, g, i), i += 4;
    if (i + 2 <= rows) gemm_rows(2, way, g, i), i += 2;
    if (i < rows) gemm_rows(1, way, g, i);
}

#endif
