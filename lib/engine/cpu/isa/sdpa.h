/* sdpa.h - private to isa/: what the kernels of scaled dot-product attention and of its gradient
 * share: panels of keys and values for gemm.h's tile, and what the rows of a block see.
 */
#ifndef ZT_CPU_SDPA_H
#define ZT_CPU_SDPA_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/gemm.h"
#include "lib/ops/sdpa.h"

enum {
    SDPA_GROUP = 12,            /* rows of gemm.h's widest tile */
    SDPA_ROWS = 4 * SDPA_GROUP, /* of a block at most */
    SDPA_TILE = 128             /* columns at a time, from multiples of it on; at most GEMM_DEPTH */
};

static inline int64_t sdpa_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* ---- panels ---------------------------------------------------------------------------------- */

/* Sixteen rows' columns from `col` on become sixteen columns' rows: to[i * GEMM_WIDE + lane]. */
INLINE void sdpa_turn(const float *const *rows, int64_t col, int n, float *to)
{
    vf r[LANES];
    UNROLL_FOR (int i = 0; i < LANES; i++) r[i] = vf_load_n(rows[i] + col, n);
    vf_transpose(r);
    for (int i = 0; i < n; i++) vf_store(to + i * GEMM_WIDE, r[i]);
}

/* A panel turned: to[c * GEMM_WIDE + i] = row first + i's column c; zeros past the last row. Rows
 * are `step` floats apart. */
INLINE void sdpa_pack_turned(const float *from, int64_t step, int64_t first, int64_t n, int64_t cols, float *to)
{
    for (int lane = 0; lane < GEMM_WIDE; lane += LANES) {
        const float *rows[LANES];
        int good = 0;
        for (int i = 0; i < LANES; i++) {
            int64_t row = first + lane + i < n ? first + lane + i : n - 1;
            rows[i] = from + row * step;
            good += first + lane + i < n;
        }
        for (int64_t c = 0; c < cols; c += LANES)
            sdpa_turn(rows, c, cols - c < LANES ? (int)(cols - c) : LANES, to + c * GEMM_WIDE + lane);
        for (int64_t c = 0; c < cols && good < LANES; c++) {
            float *p = to + c * GEMM_WIDE + lane;
            vf_store(p, vf_first(good, vf_load(p), vf_set(0)));
        }
    }
}

/* Rows first..last-1 as panels of GEMM_WIDE columns, each of n rows; zeros past the last column. */
INLINE void sdpa_pack(const float *from, int64_t step, int64_t first, int64_t last, int64_t n, int64_t cols, float *to)
{
    for (int64_t c = 0; c < cols; c += LANES) {
        int some = cols - c < LANES ? (int)(cols - c) : LANES;
        float *panel = to + c / GEMM_WIDE * n * GEMM_WIDE + c % GEMM_WIDE;
        for (int64_t i = first; i < last; i++) vf_store(panel + i * GEMM_WIDE, vf_load_n(from + i * step + c, some));
    }
    int64_t whole = sdpa_up(cols, LANES), wide = sdpa_up(cols, GEMM_WIDE);
    float *rest = to + whole / GEMM_WIDE * n * GEMM_WIDE + whole % GEMM_WIDE;
    for (int64_t i = first; i < last && whole < wide; i++) vf_store(rest + i * GEMM_WIDE, vf_set(0));
}

/* 0, or NaN where one of these is infinite or NaN: hidden ones of such must not be multiplied. */
INLINE float sdpa_wildness(const float *v, int64_t step, int64_t rows, int64_t cols)
{
    vf sum = vf_set(0);
    for (int64_t i = 0; i < rows; i++, v += step)
        for (int64_t d = 0; d < cols; d += LANES) {
            int n = cols - d < LANES ? (int)(cols - d) : LANES;
            sum = vf_fma(vf_load_n(v + d, n), vf_set(0), sum);
        }
    return vf_sum(sum);
}

/* Is one of a tile's panels of n rows wild? */
static inline bool sdpa_wild(const float *panels, int64_t tile, int64_t n)
{
    bool wild = false;
    for (int64_t at = tile; at < tile + SDPA_TILE && at < n; at += GEMM_WIDE) wild |= isnan(panels[at / GEMM_WIDE]);
    return wild;
}

/* Rows times `by` for the left side of the tile: block d / GEMM_DEPTH of columns, then row, then
 * column; `room` rows a block. */
INLINE void sdpa_left(const float *from, int64_t step, int64_t rows, int64_t cols, float by, int64_t room, float *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c += LANES) {
            int n = cols - c < LANES ? (int)(cols - c) : LANES;
            float *p = to + (c / GEMM_DEPTH * room + r) * GEMM_STRIDE + c % GEMM_DEPTH;
            vf_store_n(p, n, vf_mul(vf_load_n(from + r * step + c, n), vf_set(by)));
        }
}

static inline size_t sdpa_left_floats(int64_t cols)
{
    return (size_t)(sdpa_up(cols ? cols : 1, GEMM_DEPTH) / GEMM_DEPTH) * SDPA_ROWS * GEMM_STRIDE;
}

/* y rows [first, last) of a panel's columns = left rows times the panel, over `cols`. */
INLINE void sdpa_product(const float *left, const float *panel, int64_t cols, int first, int last, float *y, int64_t down)
{
    int64_t k = 0;
    do {
        int64_t depth = cols - k < GEMM_DEPTH ? cols - k : GEMM_DEPTH;
        const gemm_block g = {
            .a = left + (k / GEMM_DEPTH * SDPA_ROWS + first) * GEMM_STRIDE,
            .b = panel + k * GEMM_WIDE,
            .b_down = GEMM_WIDE,
            .depth = (int)depth,
            .columns = GEMM_WIDE,
            .more = k > 0,
            .y = y + first * down,
            .down = down,
        };
        gemm_down(GEMM_FLOATS, &g, last - first);
        k += GEMM_DEPTH;
    } while (k < cols);
}

/* ---- a block of rows ------------------------------------------------------------------------- */

/* Rows are queries and columns keys; or, for the gradients of keys, the other way round. */
typedef struct sdpa_block {
    zt_cpu_call *c;
    const zt_sdpa_attrs *a;
    zt_sdpa z;
    int64_t batch, head, row; /* query head; the first row */
    int rows;
    int64_t lo[SDPA_ROWS], hi[SDPA_ROWS]; /* columns that each sees, masks apart; both never fall */
    int64_t first, last;                  /* what any sees */
    const zt_cpu_arg *mask;
    int64_t mask_at, mask_row, mask_col; /* elements: of row and column 0; from one to the next */
} sdpa_block;

/* How many keys of a batch there are; 0 and trouble where `len` is wrong. */
static inline int64_t sdpa_keys(zt_cpu_call *call, const zt_cpu_arg *len, const zt_sdpa *z, int64_t batch)
{
    if (!len->data) return z->t;
    int64_t n = ((const int32_t *)len->data)[batch];
    if (n >= 0 && n <= z->t) return n;
    zt_cpu_runtime_error(call, "length", n, z->t + 1);
    return 0;
}

/* Along b, h, s, t. */
static inline void sdpa_mask_strides(const zt_cpu_arg *mask, int64_t stride[4])
{
    int64_t step = 1;
    for (int d = 0; d < 4; d++) stride[d] = 0;
    for (int d = 1; mask->data && d <= mask->type.rank; d++) {
        int64_t n = mask->type.dim[mask->type.rank - d];
        stride[4 - d] = n == 1 ? 0 : step;
        step *= n;
    }
}

/* The block of queries from `row` on. */
static inline sdpa_block sdpa_begin(zt_cpu_call *call, const zt_sdpa *z, int64_t batch, int64_t head, int64_t row,
                                    const zt_cpu_arg *mask, const zt_cpu_arg *len)
{
    sdpa_block b = {.c = call, .a = call->attrs, .z = *z, .batch = batch, .head = head, .row = row};
    int64_t n = sdpa_keys(call, len, z, batch), stride[4];
    b.rows = z->s - row < SDPA_ROWS ? (int)(z->s - row) : SDPA_ROWS;
    for (int r = 0; r < b.rows; r++) {
        zt_sdpa_span seen = zt_sdpa_seen(b.a, z, n, row + r);
        b.lo[r] = seen.lo;
        b.hi[r] = seen.hi;
    }
    b.first = b.lo[0];
    b.last = b.hi[b.rows - 1];
    b.mask = mask;
    sdpa_mask_strides(mask, stride);
    b.mask_at = batch * stride[0] + head * stride[1] + row * stride[2];
    b.mask_row = stride[2];
    b.mask_col = stride[3];
    return b;
}

typedef struct sdpa_span {
    int first, last;
} sdpa_span;

static inline int sdpa_within(int64_t at, int most) { return at < 0 ? 0 : at > most ? most : (int)at; }

/* The rows that see any of the columns from `col` to below `end`: a run, for both bounds rise. */
static inline sdpa_span sdpa_rows_seeing(const sdpa_block *b, int64_t col, int64_t end)
{
    sdpa_span s = {0, b->rows};
    while (s.first < s.last && b->hi[s.first] <= col) s.first++;
    while (s.last > s.first && b->lo[s.last - 1] >= end) s.last--;
    return s;
}

/* Row r's columns of the tile. */
static inline sdpa_span sdpa_seen_of(const sdpa_block *b, int r, int64_t tile)
{
    return (sdpa_span){sdpa_within(b->lo[r] - tile, SDPA_TILE), sdpa_within(b->hi[r] - tile, SDPA_TILE)};
}

/* What the mask adds to row r's columns of the tile; bias has room for a tile and a register. */
INLINE void sdpa_bias(const sdpa_block *b, int r, int64_t tile, sdpa_span s, float *bias)
{
    int64_t at = b->mask_at + r * b->mask_row + tile * b->mask_col, step = b->mask_col;
    if (b->mask->type.dtype == ZT_BOOL) {
        const uint8_t *m = b->mask->data;
        for (int j = s.first; j < s.last; j++) bias[j] = m[at + j * step] ? 0 : -INFINITY;
    } else {
        const float *m = b->mask->data;
        for (int j = s.first; j < s.last; j++) bias[j] = m[at + j * step];
    }
}

/* y = left times the panels of a tile, GEMM_STRIDE floats from row to row; what no row of a panel
 * sees is left out. */
INLINE void sdpa_scores(const sdpa_block *b, const float *left, const float *panels, int64_t tile, int64_t cols, float *y)
{
    for (int64_t c = 0; c < SDPA_TILE && tile + c < b->last; c += GEMM_WIDE) {
        sdpa_span rows = sdpa_rows_seeing(b, tile + c, tile + c + GEMM_WIDE);
        if (rows.first < rows.last)
            sdpa_product(left, panels + (tile + c) * cols, cols, rows.first, rows.last, y + c, GEMM_STRIDE);
    }
}

/* acc += weights times panels of n rows, for groups of rows over the columns of the tile that they
 * see together. */
INLINE void sdpa_add(const sdpa_block *b, const float *weights, const float *panels, int64_t n, int64_t tile, float *acc,
                     int64_t wide)
{
    for (int r = 0; r < b->rows; r += SDPA_GROUP) {
        int rows = b->rows - r < SDPA_GROUP ? b->rows - r : SDPA_GROUP;
        int first = sdpa_seen_of(b, r, tile).first;
        int last = sdpa_seen_of(b, r + rows - 1, tile).last;
        if (last > n - tile) last = (int)(n - tile);
        for (int64_t d = 0; d < wide && first < last; d += GEMM_WIDE) {
            const gemm_block g = {
                .a = weights + r * GEMM_STRIDE + first,
                .b = panels + d * n + (tile + first) * GEMM_WIDE,
                .b_down = GEMM_WIDE,
                .depth = last - first,
                .columns = GEMM_WIDE,
                .more = true,
                .y = acc + r * wide + d,
                .down = wide,
            };
            gemm_down(GEMM_FLOATS, &g, rows);
        }
    }
}

/* sdpa_add for a wild tile: the same sums in the same order, without what is hidden: -0. */
INLINE void sdpa_add_seen(const sdpa_block *b, const float *weights, const float *panels, int64_t n, int64_t tile, float *acc,
                          int64_t wide)
{
    for (int r = 0; r < b->rows; r++) {
        sdpa_span s = sdpa_seen_of(b, r, tile);
        const float *weight = weights + r * GEMM_STRIDE;
        int last = s.last > n - tile ? (int)(n - tile) : s.last;
        for (int64_t d = 0; d < wide && s.first < last; d += LANES) {
            const float *v = panels + d / GEMM_WIDE * GEMM_WIDE * n + d % GEMM_WIDE;
            vf sum = vf_set(0);
            for (int j = s.first; j < last; j++)
                if (weight[j] != 0 || !signbit(weight[j]))
                    sum = vf_fma(vf_set(weight[j]), vf_load(v + (tile + j) * GEMM_WIDE), sum);
            vf_store(acc + r * wide + d, vf_add(vf_load(acc + r * wide + d), sum));
        }
    }
}

/* Zeros where a row of weights sees nothing, with a sign or not; [first, last) was written. */
INLINE void sdpa_rest(float *y, int first, int last, int width, bool sign)
{
    const float none = sign ? -0.0f : 0;
    for (int j = 0; j < first; j++) y[j] = none;
    for (int j = last; j < width; j++) y[j] = none;
}

#endif
