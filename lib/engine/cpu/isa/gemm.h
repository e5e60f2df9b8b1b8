/* gemm.h - private to isa/: the register tile of matrix products, y += a b with sums in f32.
 *
 * `a` is a block of rows in the kernel's own scratch, GEMM_STRIDE words from one to the next (a
 * constant, which no power of two divides: the rows then lie in different sets of the cache, and
 * need no registers for their addresses), at most GEMM_DEPTH words of it at a time. `b` is a panel
 * of GEMM_WIDE columns, `b_down` words from row to row: GEMM_WIDE when packed for it, else where
 * they lie; with GEMM_LISTED, whose words are floats, row k begins at b + at[k]. A word is a float,
 * or with GEMM_BOTH two bfloat16 of neighbouring k, the lower k in the low half (only where
 * GEMM_PAIRS says so).
 *
 * One value of y is one sum over a block of GEMM_DEPTH words, k in order, begun from zero; blocks
 * are added in order too. So its bits depend on nothing but its row, its column and K: not on the
 * tile it fell into, nor on threads and neighbours.
 *
 * GEMM_APART is GEMM_BOTH, to the bit, for processors that are slow at it or do not have it: the instruction adds the
 * product of the high halves, then that of the low ones, rounds both times and takes subnormal
 * numbers for 0. Here its numbers are floats, the odd k of each two first, so a block is twice as
 * many words, and rows of a are GEMM_FAR apart.
 */
#ifndef ZT_CPU_GEMM_H
#define ZT_CPU_GEMM_H

#include "lib/engine/cpu/isa/denormals.h"
#include "lib/engine/cpu/isa/simd.h"

#if defined(ZT_ISA_avx512)
enum { GEMM_ROWS = 12, GEMM_VECS = 2, GEMM_PAIRS = 1, GEMM_ALONG = 1 };
#elif defined(ZT_ISA_avx2) || defined(ZT_ISA_neon)
enum { GEMM_ROWS = 6, GEMM_VECS = 1, GEMM_PAIRS = 0, GEMM_ALONG = 0 };
#else
enum { GEMM_ROWS = 4, GEMM_VECS = 1, GEMM_PAIRS = 0, GEMM_ALONG = 0 };
#endif
enum {
    GEMM_WIDE = GEMM_VECS * LANES,
    GEMM_DEPTH = 512,
    GEMM_STRIDE = GEMM_DEPTH + LANES,
    GEMM_FAR = 2 * GEMM_DEPTH + LANES,
    GEMM_BEAT = 16, /* words between two pieces of what is copied or fetched meanwhile */
    GEMM_SOON = 4   /* so many pieces ahead: not more, rows of b may all share a set of the first cache */
};
typedef enum gemm_way { GEMM_FLOATS, GEMM_LISTED, GEMM_BOTH, GEMM_APART } gemm_way;

/* What is copied while a block is multiplied, where GEMM_ALONG says so, for those that come: rows of
 * a panel, one every GEMM_BEAT words, and with GEMM_ROWS_TOO the GEMM_ROWS rows of a that come next,
 * of the block's words. Copied by itself, each would wait for the far caches; here sums go on. */
typedef enum gemm_load { GEMM_NOTHING, GEMM_PANEL, GEMM_ROWS_TOO } gemm_load;
typedef struct gemm_ride {
    const float *b; /* the next row, b_down words from row to row; `rows` are left */
    int64_t b_down, rows;
    float *panel;
    const float *a; /* rows a_down apart, to rows of GEMM_STRIDE */
    int64_t a_down;
    float *a_to;
} gemm_ride;

typedef struct gemm_block {
    const float *a, *b;
    int64_t b_down;
    const int32_t *at; /* of GEMM_LISTED */
    int depth;         /* words */
    int columns;       /* of y to write, at most GEMM_WIDE; b has GEMM_WIDE all the same */
    bool more;         /* add to what y holds; else y's old content is not read */
    float *y;
    int64_t down;      /* from row to row of y */
    const float *soon; /* NULL: y. What is fetched meanwhile, rows soon_down apart */
    int64_t soon_down;
    gemm_ride *ride; /* where there is a load */
} gemm_block;

/* c + a b, or c + both products of the pairs. */
INLINE vf gemm_step(gemm_way way, vf a, vf b, vf c)
{
#if defined(ZT_ISA_avx512)
    if (way == GEMM_BOTH) return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
#elif !ZT_FLUSHES
    if (way == GEMM_APART) {
        float x[LANES], y[LANES], sum[LANES];
        vf_store(x, a), vf_store(y, b), vf_store(sum, c);
        for (int i = 0; i < LANES; i++) sum[i] = fused_flushed_f32(x[i], y[i], sum[i]);
        return vf_load(sum);
    }
#else
    (void)way;
#endif
    return vf_fma(a, b, c);
}

/* What is summed stays before this, or behind it. */
INLINE void gemm_hold(int R, vf sum[GEMM_ROWS][GEMM_VECS])
{
#if defined(ZT_ISA_avx512)
    UNROLL_FOR (int r = 0; r < R; r++)
        UNROLL_FOR (int w = 0; w < GEMM_VECS; w++) __asm__ volatile("" : "+v"(sum[r][w]));
#elif defined(ZT_ISA_avx2)
    UNROLL_FOR (int r = 0; r < R; r++)
        UNROLL_FOR (int w = 0; w < GEMM_VECS; w++) __asm__ volatile("" : "+x"(sum[r][w].lo), "+x"(sum[r][w].hi));
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

INLINE void gemm_put(const gemm_block *block, float *y, int count, vf sum)
{
    if (count >= LANES)
        vf_store(y, block->more ? vf_add(vf_load(y), sum) : sum);
    else
        vf_store_n(y, count, block->more ? vf_add(vf_load_n(y, count), sum) : sum);
}

/* GEMM_WIDE words that are wanted soon; they may begin within a line. */
INLINE void gemm_fetch(const float *words)
{
    UNROLL_FOR (int v = 0; v < GEMM_VECS; v++) __builtin_prefetch(words + v * LANES);
    __builtin_prefetch(words + GEMM_WIDE - 1);
}

/* The next row of the panel. */
INLINE void gemm_copy_b(gemm_ride *ride)
{
    if (!ride->rows) return;
    gemm_fetch(ride->b + GEMM_SOON * ride->b_down);
    UNROLL_FOR (int w = 0; w < GEMM_VECS; w++) vf_store(ride->panel + w * LANES, vf_load(ride->b + w * LANES));
    ride->b += ride->b_down;
    ride->panel += GEMM_WIDE;
    ride->rows--;
}

/* The rows' words from k, at most GEMM_BEAT. After their last ones come the first of the rows below. */
INLINE void gemm_copy_a(const gemm_ride *ride, int k, int depth)
{
    const float *a = ride->a + k, *soon = a + GEMM_SOON * GEMM_BEAT;
    if (k + GEMM_SOON * GEMM_BEAT >= depth) soon += GEMM_ROWS * ride->a_down - depth;
    UNROLL_FOR (int r = 0; r < GEMM_ROWS; r++) {
        __builtin_prefetch(soon);
        vf_store(ride->a_to + r * GEMM_STRIDE + k, vf_load_n(a, depth - k));
        a += ride->a_down, soon += ride->a_down;
    }
}

/* Words k..end-1. */
INLINE void gemm_words(int R, gemm_way way, const gemm_block *block, const float *a, int k, int end, vf sum[GEMM_ROWS][GEMM_VECS])
{
    const int stride = way == GEMM_APART ? GEMM_FAR : GEMM_STRIDE;
    const float *next = block->b + k * block->b_down;
    for (; k < end; k++, next += block->b_down) {
        const float *b = way == GEMM_LISTED ? block->b + block->at[k] : next;
        vf v[GEMM_VECS];
        UNROLL_FOR (int w = 0; w < GEMM_VECS; w++) v[w] = vf_load(b + w * LANES);
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf x = vf_set(a[r * stride + k]);
            UNROLL_FOR (int w = 0; w < GEMM_VECS; w++) sum[r][w] = gemm_step(way, x, v[w], sum[r][w]);
        }
    }
}

/* R rows of the tile; R, way and load are constants. What is in y is wanted at the end only, and
 * lies apart, a row each: it is fetched meanwhile, or what else is wanted soon. */
INLINE void gemm_rows(int R, gemm_way way, gemm_load load, const gemm_block *block, int row)
{
    const int stride = way == GEMM_APART ? GEMM_FAR : GEMM_STRIDE, depth = block->depth;
    const bool of_floats = way == GEMM_FLOATS || way == GEMM_LISTED;
    const bool in_beats = GEMM_ALONG && of_floats, one_by_one = depth >= R * GEMM_BEAT;
    const int beat = one_by_one || load != GEMM_NOTHING ? GEMM_BEAT : depth;
    const int64_t coming_down = block->soon ? block->soon_down : block->down;
    const float *a = block->a + row * stride, *coming = (block->soon ? block->soon : block->y) + row * coming_down;
    float *y = block->y + row * block->down;
    vf sum[GEMM_ROWS][GEMM_VECS];
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int w = 0; w < GEMM_VECS; w++) sum[r][w] = vf_set(0);
        if (!in_beats || !one_by_one) gemm_fetch(coming + r * coming_down);
    }
    const unsigned usual = way == GEMM_APART ? gemm_begin(R, sum) : 0;
    if (!in_beats) gemm_words(R, way, block, a, 0, depth, sum);
    for (int k = 0; in_beats && k < depth; k += beat) {
        if (one_by_one && k < R * GEMM_BEAT) gemm_fetch(coming), coming += coming_down;
        if (load != GEMM_NOTHING) gemm_copy_b(block->ride);
        if (load == GEMM_ROWS_TOO) gemm_copy_a(block->ride, k, depth);
        gemm_words(R, way, block, a, k, k + beat < depth ? k + beat : depth, sum);
    }
    if (way == GEMM_APART) gemm_end(R, usual, sum);
    UNROLL_FOR (int r = 0; r < R; r++)
        UNROLL_FOR (int w = 0; w < GEMM_VECS; w++)
            gemm_put(block, y + r * block->down + w * LANES, block->columns - w * LANES, sum[r][w]);
}

/* Rows from..rows-1 of a by one panel; tiles of 8 rows and more carry the load. The last 16 are 8 and
 * 8, not 12 and 4: four rows are as many loads as sums. */
INLINE void gemm_from(gemm_way way, gemm_load load, const gemm_block *block, int from, int rows)
{
    int i = from;
    for (; i + GEMM_ROWS <= rows && (GEMM_ROWS < 8 || rows - i != 16); i += GEMM_ROWS) gemm_rows(GEMM_ROWS, way, load, block, i);
    for (; GEMM_ROWS > 8 && i + 8 <= rows; i += 8) gemm_rows(8, way, load, block, i);
    if (GEMM_ROWS > 4 && i + 4 <= rows) gemm_rows(4, way, GEMM_NOTHING, block, i), i += 4;
    if (i + 2 <= rows) gemm_rows(2, way, GEMM_NOTHING, block, i), i += 2;
    if (i < rows) gemm_rows(1, way, GEMM_NOTHING, block, i);
}

/* Any number of rows of a by one panel. */
INLINE void gemm_down(gemm_way way, const gemm_block *block, int rows) { gemm_from(way, GEMM_NOTHING, block, 0, rows); }

#endif
