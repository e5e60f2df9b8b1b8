/* attention_row.h - private to isa/attention.c: rows that are alone in their sequence, as in generation. Few queries read a tile,
 * so it is used as it comes from the cache into registers (keys of 16 bits are turned as such); and since it comes from memory,
 * the next one is prefetched meanwhile.
 */
#ifndef ZT_CPU_ATTENTION_ROW_H
#define ZT_CPU_ATTENTION_ROW_H

#include "lib/engine/cpu/isa/attention.h"

enum { LINE = 64 };

/* A tile of keys of one row and `heads` key heads from w.g on, and where those of the first lie. */
typedef struct stop {
    run w;
    int64_t heads, tile;
    span keys;
    size_t at[TILE];
} stop;

/* Keys and values of the same head in the stop after this one. They are prefetched while this one is worked on, to the
 * second-level cache, because what is prefetched to the first waits for one of its few places like any load. Of many lines at
 * once some are dropped, so each piece of work prefetches what the same piece of the next stop reads. */
typedef struct ahead {
    const char *keys, *values;
    const size_t *at;
} ahead;

INLINE void prefetch_line(const char *p) { __builtin_prefetch(p, 0, 2); }

/* ---- keys that are turned while they are of 16 bits ------------------------------------------ */

#if defined(ZT_ISA_avx512)
enum { TURNED = 32 /* columns turned at once */ };

/* That many columns of sixteen keys, by half the shuffles that they would take as f32. `to` gets sixteen
 * halves of each, columns in the order 0 8 16 24 1 9 .. */
INLINE void turn_halves(const char *base, const size_t *at, uint16_t *to)
{
    __m512i k[LANES], t[LANES];
    const __m512i low = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i high = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    UNROLL_FOR (int i = 0; i < LANES; i++) k[i] = _mm512_loadu_si512(base + at[i]);
    UNROLL_FOR (int i = 0; i < 8; i++) /* words of two keys: of columns 0..3, 4..7 of each lane */
    {
        t[i] = _mm512_unpacklo_epi16(k[2 * i], k[2 * i + 1]);
        t[8 + i] = _mm512_unpackhi_epi16(k[2 * i], k[2 * i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) /* of four keys: of two columns */
    {
        const int from = 2 * i, into = i / 4 * 8 + i % 4;
        k[into] = _mm512_unpacklo_epi32(t[from], t[from + 1]);
        k[into + 4] = _mm512_unpackhi_epi32(t[from], t[from + 1]);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) /* of eight keys: of one column, and those 8, 16, 24 after it */
    {
        const int from = 2 * i, into = i / 2 * 4 + i % 2;
        t[into] = _mm512_unpacklo_epi64(k[from], k[from + 1]);
        t[into + 2] = _mm512_unpackhi_epi64(k[from], k[from + 1]);
    }
    UNROLL_FOR (int c = 0; c < 8; c++, to += 4 * LANES) {
        _mm512_storeu_si512(to, _mm512_permutex2var_epi64(t[2 * c], low, t[2 * c + 1]));
        _mm512_storeu_si512(to + 2 * LANES, _mm512_permutex2var_epi64(t[2 * c], high, t[2 * c + 1]));
    }
}

/* Scores that R queries, from the i-th of their head on, have of N times sixteen turned keys, from the j-th of their tile on, as
 * score_keys computes them. Of the next tile's keys one of two has been prefetched by turn_keys_of; for each column another line
 * is. */
INLINE void score_turned(int R, int N, const run *w, int64_t i, int j, const uint16_t *keys, const ahead *next)
{
    vf y[ROWS][TILE / LANES];
    const int64_t D = w->s.D;
    const float *q[ROWS];
    UNROLL_FOR (int r = 0; r < R; r++) {
        q[r] = query(w, i + r);
        UNROLL_FOR (int n = 0; n < N; n++) y[r][n] = vf_set(0);
    }
    for (int64_t d = 0; d < D; d += 8) {
        const uint16_t *k = keys + (d / TURNED * TURNED + d % TURNED / 8) * LANES;
        const char *line = next->keys + d / TURNED * LINE;
        const size_t *odd = next->at + d % TURNED * 2 + 1;
        UNROLL_FOR (int c = 0; c < 8; c++) {
            vf v[TILE / LANES];
            if (i == 0) prefetch_line(line + odd[2 * c]);
            UNROLL_FOR (int n = 0; n < N; n++) v[n] = vf_of_f16(k + (n * D + 4 * c) * LANES);
            UNROLL_FOR (int r = 0; r < R; r++) {
                const vf x = vf_set(q[r][d + c]);
                UNROLL_FOR (int n = 0; n < N; n++) y[r][n] = vf_fma(x, v[n], y[r][n]);
            }
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int n = 0; n < N; n++) vf_store(w->score + (i + r) * TILE + j + LANES * n, y[r][n]);
    }
}

/* Turned keys of a tile from its j-th on, a multiple of LANES, and the prefetch of every other key of the next tile. */
INLINE void turn_tile(const run *w, span s, const size_t *at, const char *base, const ahead *next)
{
    uint16_t *to = (uint16_t *)(void *)w->keys;
    for (int j = s.first / LANES * LANES; j < s.last; j += LANES)
        for (int64_t d = 0; d < w->s.D; d += TURNED, to += TURNED * LANES) {
            turn_halves(base + 2 * d, at + j, to);
            UNROLL_FOR (int i = 0; i < LANES; i += 2) prefetch_line(next->keys + next->at[j + i] + 2 * d);
        }
}

/* All scores of R queries of a tile whose keys turn_tile has turned. */
INLINE void score_halves(int R, const run *w, int64_t i, span s, const ahead *next)
{
    const int first = s.first / LANES * LANES, n = (s.last - first + LANES - 1) / LANES;
    const uint16_t *keys = (const uint16_t *)(const void *)w->keys;
    if (n == 1) score_turned(R, 1, w, i, first, keys, next);
    if (n == 2) score_turned(R, 2, w, i, first, keys, next);
    if (n == 3) score_turned(R, 3, w, i, first, keys, next);
    if (n == 4) score_turned(R, 4, w, i, first, keys, next);
}
#endif

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

/* Registers of values from column d on, N of them with n columns each, times the weights of R queries from the i-th on: key by
 * key. The next tile's are prefetched for the first queries. */
INLINE void weigh_values(int R, int N, int n, bool half, const run *w, part p, int64_t i, const size_t *at, const char *base,
                         span s, int64_t d, const ahead *next)
{
    const int item = half ? 2 : 4;
    const float *weight = w->score + i * TILE;
    vf a[ROWS][WIDE];
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

/* The scores of R queries of head w.g, from the i-th on, become weights, and these times the values are added. */
INLINE void add_queries(int R, bool half, const stop *at, int64_t i, const char *values, part p, const ahead *next)
{
    const run *w = &at->w;
    const span s = at->keys;
    const int64_t D = w->s.D;
    int64_t d = 0;
    weigh_rows(w, p, at->tile, i, R);
    for (; d + WIDE * LANES <= D; d += WIDE * LANES) weigh_values(R, WIDE, LANES, half, w, p, i, at->at, values, s, d, next);
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

#if defined(ZT_ISA_avx512)
typedef void queries_fn(const stop *at, int64_t i, const char *values, part p, const ahead *next);

// clang-format off
#define TURNED_QUERIES(R)                                                                                             \
    static void turned##R(const stop *at, int64_t i, const char *values, part p, const ahead *next)                   \
    {                                                                                                                 \
        score_halves(R, &at->w, i, at->keys, next);                                                                   \
        add_queries(R, true, at, i, values, p, next);                                                                 \
    }
// clang-format on
EACH_ROWS(TURNED_QUERIES)
#define X(R) [R] = turned##R,
static queries_fn *const turned_fns[ROWS + 1] = {EACH_ROWS(X)};
#undef X

/* The keys are turned once for all queries of the head. */
static void attend_turned(const stop *at, const char *keys, const char *values, part p, const ahead *next)
{
    const run *w = &at->w;
    turn_tile(w, at->keys, at->at, keys, next);
    for (int64_t i = 0; i < w->s.share; i += ROWS)
        turned_fns[w->s.share - i < ROWS ? w->s.share - i : ROWS](at, i, values, p, next);
}
#endif

/* Are the keys of a head turned while they are of 16 bits? Then any number of queries may read them. */
static bool turns_halves(const zt_cpu_call *call, int64_t D)
{
#if defined(ZT_ISA_avx512)
    return call->in[1].type.dtype == ZT_F16 && D % TURNED == 0;
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
    const bool half = call->in[1].type.dtype == ZT_F16;
    const int64_t first = at->w.g, bytes = at->w.s.D * (half ? 2 : 4);
    const char *keys = call->in[1].data, *values = call->in[2].data;
    ahead lines = {keys, values, next ? next->at : at->at};
    for (int64_t h = 0; h < at->heads; h++, keys += bytes, values += bytes) {
        at->w.g = first + h;
#if defined(ZT_ISA_avx512)
        if (turns_halves(call, at->w.s.D))
            attend_turned(at, keys, values, p, &lines);
        else
#endif
            head_fns[half][at->w.s.share](at, keys, values, p, &lines);
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
    if (zt_is_block_cache(keys) || keys != call->in[2].type.dtype) return false;
    return s->share <= ROWS || turns_halves(call, s->D);
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
