/* attention_row.h - private to isa/attention.c: rows that are alone in their sequence, as when many
 * texts go on by a token each. Few queries read a tile, so it is used as it comes from the cache
 * into registers; and since it comes from memory, the next one is sent for meanwhile.
 */
#ifndef ZT_CPU_ATTENTION_ROW_H
#define ZT_CPU_ATTENTION_ROW_H

#include "lib/engine/cpu/isa/attention.h"

/* A tile of keys of one row and key head, and where they lie. */
typedef struct stop {
    run w;
    int64_t tile;
    span keys;
    size_t at[TILE];
} stop;

/* Sends for n bytes, those of a key or value, to the second-level cache: what is sent for to the
 * first waits for one of its few places like any load. */
INLINE void send_for(const void *p, size_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i += 64) __builtin_prefetch((const char *)p + at + i, 0, 2);
}

/* ---- R heads of a row, one tile -------------------------------------------------------------- */

/* Columns d..d+n-1 of sixteen keys, times the queries'. */
INLINE void score_columns(int R, int n, bool half, const run *w, const size_t *at, int64_t d, vf *y)
{
    const char *base = (const char *)w->c->in[1].data + d * (half ? 2 : 4);
    const float *q[ROWS];
    vf k[LANES];
    UNROLL for (int r = 0; r < R; r++) q[r] = query(w, r) + d;
    UNROLL for (int i = 0; i < LANES; i++) k[i] = cached(half, base + at[i], n);
    vf_transpose(k);
    UNROLL for (int i = 0; i < LANES; i++)
    {
        UNROLL for (int r = 0; r < R; r++)
            if (i < n) y[r] = vf_fma(vf_set(q[r][i]), k[i], y[r]);
    }
}

/* Scores of the keys j..j+15: sums over the columns in order, as product makes them. Sixteen keys
 * from `next` on (NULL: none) are sent for. */
INLINE void score_keys(int R, bool half, const run *w, const size_t *at, int j,
                       const size_t *next)
{
    vf y[ROWS];
    int64_t d = 0;
    if (next)
        for (int i = 0; i < LANES; i++)
            send_for(w->c->in[1].data, next[i], w->s.D * (half ? 2 : 4));
    UNROLL for (int r = 0; r < R; r++) y[r] = vf_set(0);
    for (; d + LANES <= w->s.D; d += LANES) score_columns(R, LANES, half, w, at + j, d, y);
    if (d < w->s.D) score_columns(R, (int)(w->s.D - d), half, w, at + j, d, y);
    UNROLL for (int r = 0; r < R; r++) vf_store(w->score + r * TILE + j, y[r]);
}

/* Registers of values from column d on, N of them with n columns each, times weights: key by key.
 * As many values from `next` on (NULL: none) are sent for. */
INLINE void weigh_values(int R, int N, int n, bool half, const run *w, part p, const size_t *at,
                         span s, int64_t d, const size_t *next)
{
    const char *base = (const char *)w->c->in[2].data + d * (half ? 2 : 4);
    vf a[ROWS][WIDE];
    UNROLL for (int r = 0; r < R; r++)
    {
        UNROLL for (int k = 0; k < N; k++) a[r][k] = vf_load(p.acc + r * w->s.Dp + d + LANES * k);
    }
    for (int j = s.first; j < s.last; j++) {
        vf v[WIDE];
        if (next) send_for(w->c->in[2].data, *next++, w->s.D * (half ? 2 : 4));
        UNROLL for (int k = 0; k < N; k++)
            v[k] = cached(half, base + at[j] + LANES * k * (half ? 2 : 4), n);
        UNROLL for (int r = 0; r < R; r++)
        {
            vf x = vf_set(w->score[r * TILE + j]);
            UNROLL for (int k = 0; k < N; k++) a[r][k] = vf_fma(x, v[k], a[r][k]);
        }
    }
    UNROLL for (int r = 0; r < R; r++)
    {
        UNROLL for (int k = 0; k < N; k++) vf_store(p.acc + r * w->s.Dp + d + LANES * k, a[r][k]);
    }
}

/* Keys or values of `next` from the j-th on: as many as this tile has are sent for while it is
 * worked on, the others here. */
INLINE void send_rest(const void *cache, int64_t bytes, int j, const stop *next)
{
    for (; next && j < next->keys.last; j++) send_for(cache, next->at[j], bytes);
}

INLINE void attend_row(int R, bool half, const stop *at, part p, const stop *next)
{
    const run *w = &at->w;
    const span s = at->keys;
    const int64_t D = w->s.D, bytes = D * (half ? 2 : 4);
    const size_t *to = next ? next->at : NULL;
    int64_t d = 0;
    int j = s.first / LANES * LANES;
    for (; j < s.last; j += LANES) score_keys(R, half, w, at->at, j, to ? to + j : NULL);
    send_rest(w->c->in[1].data, bytes, j, next);
    weigh_rows(w, p, at->tile, 0, R);
    for (; d + WIDE * LANES <= D; d += WIDE * LANES)
        weigh_values(R, WIDE, LANES, half, w, p, at->at, s, d, d == 0 ? to : NULL);
    for (; d + LANES <= D; d += LANES)
        weigh_values(R, 1, LANES, half, w, p, at->at, s, d, d == 0 ? to : NULL);
    if (d < D) weigh_values(R, 1, (int)(D - d), half, w, p, at->at, s, d, d == 0 ? to : NULL);
    send_rest(w->c->in[2].data, bytes, s.last - s.first, next);
}

typedef void row_fn(const stop *at, part p, const stop *next);

#define ROW(R)                                                                                     \
    static void row##R##_f16(const stop *at, part p, const stop *next)                             \
    {                                                                                              \
        attend_row(R, true, at, p, next);                                                          \
    }                                                                                              \
    static void row##R##_f32(const stop *at, part p, const stop *next)                             \
    {                                                                                              \
        attend_row(R, false, at, p, next);                                                         \
    }
ROW(1)
ROW(2)
#if defined(ZT_ISA_avx512)
ROW(3)
ROW(4)
static row_fn *const row_fns[2][ROWS + 1] = {{NULL, row1_f32, row2_f32, row3_f32, row4_f32},
                                             {NULL, row1_f16, row2_f16, row3_f16, row4_f16}};
#else
static row_fn *const row_fns[2][ROWS + 1] = {{NULL, row1_f32, row2_f32},
                                             {NULL, row1_f16, row2_f16}};
#endif

/* ---- from tile to tile ----------------------------------------------------------------------- */

/* Is a row's part of the cache read so? */
static bool from_cache(const run *w) { return w->rows == 1 && w->s.share <= ROWS; }

/* The tile at or after `tile` and before `end` of the same row and head; false: there is none. */
static bool find_stop(const run *w, int64_t tile, int64_t end, stop *to)
{
    if (tile < w->lo[0] / TILE * TILE) tile = w->lo[0] / TILE * TILE;
    if (tile >= end || tile >= w->hi[0] || w->lo[0] >= w->hi[0]) return false;
    to->w = *w;
    to->tile = tile;
    to->keys = seen(w, 0, tile);
    find_keys(w, tile, to->keys, to->at);
    return true;
}

static void attend_stop(const stop *at, part p, const stop *next)
{
    row_fns[at->w.c->in[1].type.dtype == ZT_F16][at->w.s.share](at, p, next);
}

/* The tiles of a row from `tile` to before `end`. */
static void attend_alone(const run *w, part p, int64_t tile, int64_t end)
{
    stop stops[2];
    int now = 0;
    bool more = find_stop(w, tile, end, &stops[0]);
    for (; more; now = !now) {
        more = find_stop(w, stops[now].tile + TILE, end, &stops[!now]);
        attend_stop(&stops[now], p, more ? &stops[!now] : NULL);
    }
}

#endif
