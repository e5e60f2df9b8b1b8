/* recurrent.h - private to isa/: what kernels of recurrences and of their gradients share.
 *
 * A block of ROWS sequences goes through its steps together. A value is one f32 accumulator that
 * takes its terms in order, so that no sequence knows its neighbours.
 */
#ifndef ZT_ISA_RECURRENT_H
#define ZT_ISA_RECURRENT_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

#if defined(ZT_ISA_avx512)
enum { RECURRENT_WIDE = 2 };
#else
enum { RECURRENT_WIDE = 1 };
#endif
enum { ROWS = 4 };

/* c[i, j] += sum_k a(i, k) b[k, j], a(i, k) = a[i * down + k * right]. */
typedef struct product {
    const float *a, *b;
    float *c;
    int64_t down, right, b_step, c_step, depth, columns;
} product;

/* R rows and W registers of columns, of which the last has n. */
INLINE void product_tile(int R, int W, const product *p, int64_t j, int n)
{
    vf sum[ROWS][RECURRENT_WIDE];
    UNROLL_FOR (int r = 0; r < R; r++)
        UNROLL_FOR (int w = 0; w < W; w++) sum[r][w] = vf_load_n(p->c + r * p->c_step + j + w * LANES, w + 1 < W ? LANES : n);
    for (int64_t k = 0; k < p->depth; k++) {
        vf v[RECURRENT_WIDE];
        const float *b = p->b + k * p->b_step + j;
        UNROLL_FOR (int w = 0; w < W; w++) v[w] = w + 1 < W || n == LANES ? vf_load(b + w * LANES) : vf_load_n(b + w * LANES, n);
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf x = vf_set(p->a[r * p->down + k * p->right]);
            UNROLL_FOR (int w = 0; w < W; w++) sum[r][w] = vf_fma(x, v[w], sum[r][w]);
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++)
        UNROLL_FOR (int w = 0; w < W; w++) vf_store_n(p->c + r * p->c_step + j + w * LANES, w + 1 < W ? LANES : n, sum[r][w]);
}

INLINE void product_rows(int R, const product *p)
{
    int64_t j = 0;
    for (; j + RECURRENT_WIDE * LANES <= p->columns; j += RECURRENT_WIDE * LANES) product_tile(R, RECURRENT_WIDE, p, j, LANES);
    for (; j < p->columns; j += LANES) product_tile(R, 1, p, j, p->columns - j < LANES ? (int)(p->columns - j) : LANES);
}

/* Of `rows` rows, whatever their number. */
static inline void product_run(product p, int64_t rows)
{
    int64_t i = 0;
    for (; i + ROWS <= rows; i += ROWS, p.a += ROWS * p.down, p.c += ROWS * p.c_step) product_rows(ROWS, &p);
    for (; i < rows; i++, p.a += p.down, p.c += p.c_step) product_rows(1, &p);
}

/* ---- sequences ------------------------------------------------------------------------------- */

typedef struct sequences {
    int64_t T, N, H;
    int64_t first, longest;
    int n;                /* of this block */
    int64_t length[ROWS]; /* of each */
    bool reverse;
} sequences;

/* The block of sequences `item`; a length that is none is trouble, and 0. */
static inline sequences sequences_of(zt_cpu_call *call, const zt_cpu_arg *lengths, int64_t T, int64_t N, int64_t H, bool reverse,
                                     int64_t item)
{
    sequences s = {.T = T, .N = N, .H = H, .first = item * ROWS, .reverse = reverse};
    const int32_t *given = lengths->data;
    s.n = N - s.first < ROWS ? (int)(N - s.first) : ROWS;
    for (int i = 0; i < s.n; i++) {
        int64_t length = given ? given[s.first + i] : T;
        if (length < 0 || length > T) {
            zt_cpu_runtime_error(call, "length", length, T + 1);
            length = 0;
        }
        s.length[i] = length;
        if (length > s.longest) s.longest = length;
    }
    return s;
}

/* Row of [T,N,...] of the i-th step of the block's q-th sequence. */
static inline int64_t sequences_row(const sequences *s, int q, int64_t i)
{
    return (s->reverse ? s->length[q] - 1 - i : i) * s->N + s->first + q;
}

/* Rows of `columns` past the ends of the block's sequences are 0. */
static inline void sequences_clear(const sequences *s, float *x, int64_t columns)
{
    for (int q = 0; q < s->n && x; q++)
        for (int64_t t = s->length[q]; t < s->T; t++)
            memset(x + (t * s->N + s->first + q) * columns, 0, (size_t)columns * sizeof *x);
}

/* Row n of a state [N,H], or zeros. */
static inline void sequences_state(const sequences *s, int q, const float *state, float *to)
{
    if (state)
        memcpy(to, state + (s->first + q) * s->H, (size_t)s->H * sizeof *to);
    else
        memset(to, 0, (size_t)s->H * sizeof *to);
}

INLINE int lanes_left(int64_t n, int64_t i) { return n - i < LANES ? (int)(n - i) : LANES; }

#endif
