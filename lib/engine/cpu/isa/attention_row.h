/* attention_row.h - private to isa/attention.c: rows that are alone in their sequence, as in generation. Few queries read a tile,
 * so it is used as it comes from the cache into registers (keys of 16 bits and of blocks are turned as such: attention_turned.h); and
 * since it comes from memory, the next one is prefetched meanwhile.
 */
#ifndef ZT_CPU_ATTENTION_ROW_H
#define ZT_CPU_ATTENTION_ROW_H

#include "lib/engine/cpu/isa/attention_turned.h"

/* A tile of keys of one row and `heads` key heads from w.g on, and where those of the first lie. */
typedef struct stop {
    run w;
    int64_t heads, tile;
    span keys;
    size_t at[TILE];
} stop;

/* ---- R queries of a head, one tile ----------------------------------------------------------- */

/* Columns d..d+n-1 of sixteen keys, times the queries'. */
INLINE void score_columns(int R, int n, bool half, const run *w, const size_t *at, const char *base, int64_t d, vf *y)
{
    const float *q[ROWS];
    vf k[LANES];
    UNROLL_FOR (int r = 0; r < R; r++) q[r] = query(w, r) + d;
    UNROLL_FOR (int i = 0; i < LANES; i++) k[i] = cached(half ? ZT_F16 : ZT_F32, base + at[i], d, n);
    vf_transpose(k);
    UNROLL_FOR (int i = 0; i < LANES; i++) {
        UNROLL_FOR (int r = 0; r < R; r++)
            if (i < n) y[r] = vf_fma(vf_set(q[r][i]), k[i], y[r]);
    }
}

/* Scores of the keys j..j+15: sums over the columns in order, as product computes them. */
INLINE void score_keys(int R, bool half, const run *w, const size_t *at, const char *base, int j, const ahead *next)
{
    vf y[ROWS];
    UNROLL_FOR (int r = 0; r < R; r++) y[r] = vf_set(0);
    for (int64_t d = 0; d < w->s.D; d += LANES) {
        const int64_t byte = d * (half ? 2 : 4);
        if (d + LANES <= w->s.D)
            score_columns(R, LANES, half, w, at + j, base, d, y);
        else
            score_columns(R, (int)(w->s.D - d), half, w, at + j, base, d, y);
        if (byte % LINE == 0)
            UNROLL_FOR (int i = 0; i < LANES; i++) prefetch_line(next->keys + next->at[j + i] + byte);
    }
    UNROLL_FOR (int r = 0; r < R; r++) vf_store(w->score + r * TILE + j, y[r]);
}

#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
enum { ROW_QUERIES = TURNED_ROWS };
#else
enum { ROW_QUERIES = ROWS };
#endif

/* The scores of R queries, from the i-th on, become weights. */
INLINE void weigh_queries(int R, const stop *at, int64_t i, part p)
{
    const int first = R > ROWS ? R / 2 : R;
    weigh_rows(&at->w, p, at->tile, i, first);
    if (first < R) weigh_rows(&at->w, p, at->tile, i + first, R - first);
}

/* Registers of values from column d on, N of them with n columns each, times the weights of R queries from the i-th on: key by
 * key. The next tile's are prefetched for the first queries. */
INLINE void weigh_values(int R, int N, int n, bool half, const run *w, part p, int64_t i, const size_t *at, const char *base,
                         span s, int64_t d, const ahead *next)
{
    const int item = half ? 2 : 4;
    const float *weight = w->score + i * TILE;
    vf a[ROW_QUERIES][WIDE];
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int k = 0; k < N; k++) a[r][k] = vf_load(p.acc + (i + r) * w->s.Dp + d + LANES * k);
    }
    for (int j = s.first; j < s.last; j++) {
        vf v[WIDE];
        const char *to = next->values + next->at[j] + d * item;
        UNROLL_FOR (int k = 0; k < N; k++) {
            v[k] = cached(half ? ZT_F16 : ZT_F32, base + at[j], d + LANES * k, n);
            if (i == 0 && (N > 1 ? LANES * k * item % LINE == 0 : d * item % LINE == 0)) prefetch_line(to + LANES * k * item);
        }
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf x = vf_set(weight[r * TILE + j]);
            UNROLL_FOR (int k = 0; k < N; k++) a[r][k] = vf_fma(x, v[k], a[r][k]);
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int k = 0; k < N; k++) vf_store(p.acc + (i + r) * w->s.Dp + d + LANES * k, a[r][k]);
    }
}

/* The scores of R queries of head w.g, from the i-th on, become weights, and these times the values are added. Where there are
 * more queries than ROWS, values of one register are summed at a time. */
INLINE void add_queries(int R, bool half, const stop *at, int64_t i, const char *values, part p, const ahead *next)
{
    const run *w = &at->w;
    const span s = at->keys;
    const int64_t D = w->s.D;
    const int wide = R > ROWS ? 1 : WIDE;
    int64_t d = 0;
    weigh_queries(R, at, i, p);
    for (; d + wide * LANES <= D; d += wide * LANES) weigh_values(R, wide, LANES, half, w, p, i, at->at, values, s, d, next);
    for (; d + LANES <= D; d += LANES) weigh_values(R, 1, LANES, half, w, p, i, at->at, values, s, d, next);
    if (d < D) weigh_values(R, 1, (int)(D - d), half, w, p, i, at->at, values, s, d, next);
}

/* Keys in registers, for the queries of a head that are not more than ROWS. */
INLINE void attend_in_registers(int R, bool half, const stop *at, const char *keys, const char *values, part p, const ahead *next)
{
    for (int j = at->keys.first / LANES * LANES; j < at->keys.last; j += LANES)
        score_keys(R, half, &at->w, at->at, keys, j, next);
    add_queries(R, half, at, 0, values, p, next);
}

typedef void head_fn(const stop *at, const char *keys, const char *values, part p, const ahead *next);

// clang-format off
#define HEAD(R)                                                                                                       \
    static void head##R##_f16(const stop *at, const char *keys, const char *values, part p, const ahead *next)        \
    {                                                                                                                 \
        attend_in_registers(R, true, at, keys, values, p, next);                                                      \
    }                                                                                                                 \
    static void head##R##_f32(const stop *at, const char *keys, const char *values, part p, const ahead *next)        \
    {                                                                                                                 \
        attend_in_registers(R, false, at, keys, values, p, next);                                                     \
    }
// clang-format on
EACH_ROWS(HEAD)
#define X(R) [0][R] = head##R##_f32, [1][R] = head##R##_f16,
static head_fn *const head_fns[2][ROWS + 1] = {EACH_ROWS(X)};
#undef X

#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
/* The same of block types. */
INLINE void add_queries_coded(int R, const stop *at, int64_t i, part p)
{
    const int wide = R > ROWS ? 1 : 2;
    weigh_queries(R, at, i, p);
    for (int64_t d = 0; d < at->w.s.D; d += wide * LANES) weigh_codes(R, wide, &at->w, p, i, at->keys, d);
}

typedef void queries_fn(const stop *at, int64_t i, const char *values, part p, const ahead *next);

// clang-format off
#define TURNED_QUERIES(R)                                                                                             \
    static void turned##R##_f16(const stop *at, int64_t i, const char *values, part p, const ahead *next)             \
    {                                                                                                                 \
        score_queries(ZT_F16, R, &at->w, i, at->keys, next);                                                          \
        add_queries(R, true, at, i, values, p, next);                                                                 \
    }                                                                                                                 \
    static void turned##R##_coded(const stop *at, int64_t i, const char *values, part p, const ahead *next)           \
    {                                                                                                                 \
        (void)values;                                                                                                 \
        score_queries(ZT_Q8_0, R, &at->w, i, at->keys, next); /* codes are 8 bits now, whatever they were */          \
        add_queries_coded(R, at, i, p);                                                                               \
    }
#define EACH_TURNED_ROWS(X) X(1) X(2) X(3) X(4)
// clang-format on
EACH_TURNED_ROWS(TURNED_QUERIES)
#define X(R) [0][R] = turned##R##_f16, [1][R] = turned##R##_coded,
static queries_fn *const turned_fns[2][TURNED_ROWS + 1] = {EACH_TURNED_ROWS(X)};
#undef X

/* A tile of codes, turned and opened. */
typedef void open_fn(const stop *at, const char *keys, const char *values, const ahead *next);

// clang-format off
#define OPEN(T)                                                                                                       \
    static void open_##T(const stop *at, const char *keys, const char *values, const ahead *next)                     \
    {                                                                                                                 \
        turn_tile(ZT_##T, &at->w, at->keys, at->at, keys, next);                                                      \
        open_values(ZT_##T, &at->w, at->keys, at->at, values, next);                                                  \
    }
// clang-format on
EACH_CODED(OPEN)
#define X(T) [ZT_##T] = open_##T,
static open_fn *const open_fns[ZT_DTYPE_COUNT] = {EACH_CODED(X)};
#undef X

/* The keys are turned once for all queries of the head. */
static void attend_turned(zt_dtype dtype, const stop *at, const char *keys, const char *values, part p, const ahead *next)
{
    const run *w = &at->w;
    if (dtype == ZT_F16)
        turn_tile(ZT_F16, w, at->keys, at->at, keys, next);
    else
        open_fns[dtype](at, keys, values, next);
    for (int64_t i = 0; i < w->s.share; i += TURNED_ROWS)
        turned_fns[dtype != ZT_F16][w->s.share - i < TURNED_ROWS ? w->s.share - i : TURNED_ROWS](at, i, values, p, next);
}
#endif

/* Are the keys of a head turned as the cache has them? Then any number of queries may read them. */
static bool turns(const zt_cpu_call *call, int64_t D)
{
#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
    const zt_dtype dtype = call->in[1].type.dtype;
    return dtype == ZT_F16 ? D % TURNED == 0 : is_coded(dtype);
#else
    (void)call, (void)D;
    return false;
#endif
}

/* From the sums of one key head's queries to those of the next: floats. */
typedef struct part_step {
    int64_t sums, acc;
} part_step;

/* All heads of a stop, whose sums begin at p and lie `step` behind each other. `next` is prefetched. */
static void attend_stop(stop *at, part p, part_step step, const stop *next)
{
    const zt_cpu_call *call = at->w.c;
    const zt_dtype dtype = call->in[1].type.dtype;
    const int64_t first = at->w.g, bytes = (int64_t)cache_bytes(dtype, at->w.s.D);
    const char *keys = call->in[1].data, *values = call->in[2].data;
    ahead lines = {keys, values, next ? next->at : at->at};
    for (int64_t h = 0; h < at->heads; h++, keys += bytes, values += bytes) {
        at->w.g = first + h;
#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
        if (turns(call, at->w.s.D))
            attend_turned(dtype, at, keys, values, p, &lines);
        else
#endif
            head_fns[dtype == ZT_F16][at->w.s.share](at, keys, values, p, &lines);
        p = (part){p.top + step.sums, p.sum + step.sums, p.acc + step.acc};
        if (!next || h + 1 < next->heads) lines.keys += bytes, lines.values += bytes;
    }
    at->w.g = first;
}

/* ---- from tile to tile ----------------------------------------------------------------------- */

/* Is what the queries of one row and key head read used so? */
static bool from_cache(const zt_cpu_call *call, const sizes *s)
{
    const zt_dtype keys = call->in[1].type.dtype;
    if (keys != call->in[2].type.dtype) return false;
    return turns(call, s->D) || (s->share <= ROWS && !zt_is_block_cache(keys));
}

/* The tile at or after `tile` and before `end` of the same row and heads; false: there is none. */
static bool find_stop(const run *w, int64_t heads, int64_t tile, int64_t end, stop *to)
{
    if (tile < w->lo[0] / TILE * TILE) tile = w->lo[0] / TILE * TILE;
    if (tile >= end || tile >= w->hi[0] || w->lo[0] >= w->hi[0]) return false;
    to->w = *w;
    to->heads = heads;
    to->tile = tile;
    to->keys = seen(w, 0, tile);
    find_rows(w, tile, to->keys, 1, to->at);
    return true;
}

/* The tiles of a row and key head from `tile` to before `end`. */
static void attend_alone(const run *w, part p, int64_t tile, int64_t end)
{
    stop stops[2];
    int now = 0;
    bool more = find_stop(w, 1, tile, end, &stops[0]);
    for (; more; now = !now) {
        more = find_stop(w, 1, stops[now].tile + TILE, end, &stops[!now]);
        attend_stop(&stops[now], p, (part_step){0}, more ? &stops[!now] : NULL);
    }
}

#endif
