/* attention.h - private to isa/attention.c: what rows of a block get of one tile, and how partial
 * sums are put together. There it is told what depends on what.
 */
#ifndef ZT_CPU_ATTENTION_H
#define ZT_CPU_ATTENTION_H

#include "lib/engine/cpu/isa/cache.h"
#include "lib/engine/cpu/isa/slots.h"
#include "lib/ops/alibi.h"

#include <float.h>

enum {
    TILE = 64,
    CHUNK = 4 * TILE,
    BLOCK = 32, /* rows of a block at most; a quarter of that up to BLOCKS rows */
    BLOCKS = 128,
    QUERIES = 128, /* rows times heads of a block at most, where one row has not more */
    FEW = 8,       /* rows up to which chunks are items */
    ITEMS = 32     /* of few rows, from which all key heads of a chunk are one item */
};

/* POS: the input `pos`; with sinks these come before it. ALIBI: 1 with linear biases. CHUNKED: 1 where the
 * window is a chunk of positions. */
enum { AUX_ROWS, AUX_BLOCKS, AUX_CHUNKS, AUX_STEP, AUX_POS, AUX_ALIBI, AUX_CHUNKED, AUX_SPLITS };
enum { SINKS = 3, QUERY_AT = 6 };

typedef struct sizes {
    int64_t n, D, Dp; /* columns of a head, and rounded up to whole registers */
    int64_t H, G, share, ctx;
} sizes;

static sizes sizes_of(const zt_cpu_call *call)
{
    const zt_attention_attrs *attention = call->attrs;
    sizes s = {.n = call->in[0].type.dim[0], .D = attention->head, .ctx = call->in[1].type.dim[0]};
    s.Dp = (s.D + LANES - 1) / LANES * LANES;
    s.H = call->in[0].type.dim[1] / s.D;
    s.G = call->in[1].type.dim[1] / s.D;
    s.share = s.H / s.G;
    return s;
}

/* The first position that a row at `pos` sees. */
static int64_t first_seen(const zt_cpu_call *call, int64_t pos)
{
    const int64_t window = ((const zt_attention_attrs *)call->attrs)->window;
    if (call->aux[AUX_CHUNKED]) return pos - pos % window;
    return window > 0 && pos >= window ? pos - window + 1 : 0;
}

/* pos, seq and table. */
static slots slots_of_rows(const zt_cpu_call *call) { return slots_of(call, (int)call->aux[AUX_POS], call->in[1].type.dim[0]); }

/* ---- partial sums of a block's queries ------------------------------------------------------- */

typedef struct part {
    float *top, *sum, *acc; /* [M], [M], [M][Dp] */
} part;

static size_t part_floats(int64_t M, int64_t Dp) { return (size_t)(M * (Dp + 2)); }

static part part_at(float *p, int64_t M) { return (part){p, p + M, p + 2 * M}; }

static part part_from(part p, int64_t query, int64_t Dp) { return (part){p.top + query, p.sum + query, p.acc + query * Dp}; }

static void part_clear(part p, int64_t M, int64_t Dp)
{
    for (int64_t i = 0; i < M; i++) {
        p.top[i] = -INFINITY;
        p.sum[i] = 0;
    }
    memset(p.acc, 0, (size_t)(M * Dp) * sizeof *p.acc);
}

/* acc = acc * k + more * by; more may be NULL. */
static void rescale(float *acc, vf k, const float *more, vf by, int64_t Dp)
{
    for (int64_t d = 0; d < Dp; d += LANES) {
        vf a = vf_load(acc + d);
        vf_store(acc + d, more ? vf_fma(a, k, vf_mul(vf_load(more + d), by)) : vf_mul(a, k));
    }
}

/* The first sums that a query has are taken as they are. */
static void combine(part total, part p, int64_t i, int64_t Dp)
{
    if (total.top[i] == -INFINITY) {
        total.top[i] = p.top[i];
        total.sum[i] = p.sum[i];
        memcpy(total.acc + i * Dp, p.acc + i * Dp, (size_t)Dp * sizeof *p.acc);
        return;
    }
    float top = p.top[i] > total.top[i] ? p.top[i] : total.top[i];
    vf k = vf_exp(vf_set(total.top[i] - top)), by = vf_exp(vf_set(p.top[i] - top));
    rescale(total.acc + i * Dp, k, p.acc + i * Dp, by, Dp);
    total.sum[i] = total.sum[i] * vf_top(k) + p.sum[i] * vf_top(by);
    total.top[i] = top;
}

/* ---- products -------------------------------------------------------------------------------- */

/* c[r][0..w-1] (+)= sum over l < L, in order, of a[r][l] b[l][0..w-1]: R rows, N registers wide. */
INLINE void product(int R, int N, const float *const *a, const float *b, int64_t ldb, int64_t L, float *const *c, int64_t column,
                    bool add)
{
    vf s[4][4];
    UNROLL_FOR (int r = 0; r < R; r++) {
        const float *old = c[r] + column;
        UNROLL_FOR (int k = 0; k < N; k++) s[r][k] = add ? vf_load(old + LANES * k) : vf_set(0);
    }
    for (int64_t l = 0; l < L; l++) {
        vf v[4];
        UNROLL_FOR (int k = 0; k < N; k++) v[k] = vf_load(b + l * ldb + column + LANES * k);
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf x = vf_set(a[r][l]);
            UNROLL_FOR (int k = 0; k < N; k++) s[r][k] = vf_fma(x, v[k], s[r][k]);
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int k = 0; k < N; k++) vf_store(c[r] + column + LANES * k, s[r][k]);
    }
}

/* Rows that are multiplied side by side, at most, by so many registers: 3 have the 12 sums that two
 * FMAs a cycle are busy with, and AVX2 just the registers for them. */
#if defined(ZT_ISA_avx512)
enum { ROWS = 4, WIDE = 4 };
#define EACH_ROWS(X) X(1) X(2) X(3) X(4)
#elif defined(ZT_ISA_avx2)
enum { ROWS = 3, WIDE = 2 };
#define EACH_ROWS(X) X(1) X(2) X(3)
#else
enum { ROWS = 2, WIDE = 2 };
#define EACH_ROWS(X) X(1) X(2)
#endif

typedef void product_fn(const float *const *a, const float *b, int64_t ldb, int64_t L, float *const *c, int64_t first,
                        int64_t last, bool add);

/* Columns first..last-1, whole registers, of R rows. */
// clang-format off
#define PRODUCT(R)                                                                                 \
    static void product##R(const float *const *a, const float *b, int64_t ldb, int64_t L,          \
                           float *const *c, int64_t first, int64_t last, bool add)                 \
    {                                                                                              \
        for (; first + WIDE * LANES <= last; first += WIDE * LANES)                                \
            product(R, WIDE, a, b, ldb, L, c, first, add);                                         \
        for (; first < last; first += LANES) product(R, 1, a, b, ldb, L, c, first, add);           \
    }
// clang-format on
EACH_ROWS(PRODUCT)
#define X(R) [R] = product##R,
static product_fn *const products[] = {EACH_ROWS(X)};
#undef X

/* ---- one run: rows of a block that follow each other in one sequence ------------------------- */

typedef struct run {
    zt_cpu_call *c;
    sizes s;
    slots slots;
    int64_t g, row, rows, seq;    /* key head; first row and how many; their sequence */
    int64_t lo[BLOCK], hi[BLOCK]; /* positions that each row sees: from lo to below hi */
    float scale, cap;
    float *keys, *values, *score; /* scratch: [D][TILE], [TILE][Dp], [queries][TILE] */
} run;

typedef struct span {
    int first, last;   /* keys of a tile: from first to below last */
    float slope, away; /* a linear bias, 0: none: -slope |away + j| for key j of the tile */
} span;

static int in_tile(int64_t key) { return key < 0 ? 0 : key > TILE ? TILE : (int)key; }

/* The keys that row r sees of the tile at `tile`; none: first >= last. */
static span seen(const run *w, int64_t r, int64_t tile)
{
    return (span){in_tile(w->lo[r] - tile), in_tile(w->hi[r] - tile), 0, 0};
}

/* From the first to the last that any row from `row` to before `end` sees. */
static span seen_by_any(const run *w, int64_t row, int64_t end, int64_t tile)
{
    span all = {TILE, 0, 0, 0};
    for (int64_t r = row; r < end; r++) {
        span s = seen(w, r, tile);
        if (s.first >= s.last) continue;
        if (s.first < all.first) all.first = s.first;
        if (s.last > all.last) all.last = s.last;
    }
    return all;
}

static bool sees(const run *w, int64_t r, int64_t chunk)
{
    return w->lo[r] < (chunk + 1) * CHUNK && w->hi[r] > chunk * CHUNK && w->lo[r] < w->hi[r];
}

/* Where a span of a tile lies in the cache of keys (k 1) or values (2), in bytes. Other places of the tile, and those that
 * the table leads nowhere, get row 0: what is read there is not used, or the whole call fails. */
static void find_rows(const run *w, int64_t tile, span s, int k, size_t at[TILE])
{
    const zt_dtype dtype = w->c->in[k].type.dtype;
    const size_t row = cache_bytes(dtype, w->s.D * w->s.G), first = cache_bytes(dtype, w->g * w->s.D);
    const int64_t block = w->slots.block;
    for (int j = 0; j < TILE; j++) at[j] = first;
    for (int64_t p = tile + s.first, end = tile + s.last; p < end;) {
        int64_t b = p / block, next = (b + 1) * block;
        int64_t begin = slots_block(&w->slots, w->c, w->seq, b);
        for (; p < end && p < next; p++)
            if (begin >= 0) at[p - tile] += (size_t)(begin + p - b * block) * row;
    }
}

/* Sixteen keys' columns from d on: keys[i][0..15] = column d + i of each. */
INLINE void turn_keys(zt_dtype dtype, const char *base, const size_t *at, int64_t d, int n, float *keys)
{
    vf r[LANES];
    UNROLL_FOR (int i = 0; i < LANES; i++) r[i] = cached(dtype, base + at[i], d, n);
    vf_transpose(r);
    UNROLL_FOR (int i = 0; i < LANES; i++) vf_store(keys + i * TILE, r[i]);
}

INLINE void load_keys(zt_dtype dtype, const char *base, int64_t D, span s, const size_t *at, float *keys)
{
    const int rest = (int)(D % LANES);
    const int64_t whole = D - rest;
    for (int j = s.first / LANES * LANES; j < s.last; j += LANES) {
        for (int64_t d = 0; d < whole; d += LANES) turn_keys(dtype, base, at + j, d, LANES, keys + d * TILE + j);
        if (rest) turn_keys(dtype, base, at + j, whole, rest, keys + whole * TILE + j);
    }
}

INLINE void load_values(zt_dtype dtype, const char *base, int64_t D, span s, const size_t *at, float *values)
{
    const int rest = (int)(D % LANES);
    const int64_t whole = D - rest, Dp = rest ? whole + LANES : whole;
    for (int j = s.first; j < s.last; j++) {
        const char *p = base + at[j];
        float *v = values + j * Dp;
        for (int64_t d = 0; d < whole; d += LANES) vf_store(v + d, cached(dtype, p, d, LANES));
        if (rest) vf_store(v + whole, cached(dtype, p, whole, rest));
    }
}

typedef void load_fn(const char *base, int64_t D, span s, const size_t *at, float *to);

// clang-format off
#define LOADS(T)                                                                                   \
    static void load_keys_##T(const char *base, int64_t D, span s, const size_t *at, float *to)    \
    {                                                                                              \
        load_keys(ZT_##T, base, D, s, at, to);                                                     \
    }                                                                                              \
    static void load_values_##T(const char *base, int64_t D, span s, const size_t *at, float *to)  \
    {                                                                                              \
        load_values(ZT_##T, base, D, s, at, to);                                                   \
    }
// clang-format on
EACH_CACHE(LOADS)
#define X(T) [ZT_##T] = {load_keys_##T, load_values_##T},
static load_fn *const load_fns[ZT_DTYPE_COUNT][2] = {EACH_CACHE(X)};
#undef X

static void load_tile(const run *w, int64_t tile, span s)
{
    float *const to[] = {w->keys, w->values};
    size_t at[TILE];
    for (int k = 1; k <= 2; k++) {
        const zt_cpu_arg *cache = &w->c->in[k];
        if (k == 1 || cache->type.dtype != cache[-1].type.dtype) find_rows(w, tile, s, k, at);
        load_fns[cache->type.dtype][k - 1](cache->data, w->s.D, s, at, to[k - 1]);
    }
}

/* ---- scores, weights, values ----------------------------------------------------------------- */

/* Query i of a run is head i % share of row i / share. */
static const float *query(const run *w, int64_t i)
{
    int64_t row = w->row + i / w->s.share, head = w->g * w->s.share + i % w->s.share;
    return (const float *)w->c->in[0].data + (row * w->s.H + head) * w->s.D;
}

static void score_tile(const run *w, int64_t tile)
{
    int64_t M = w->rows * w->s.share;
    for (int64_t i = 0; i < M; i += ROWS) {
        const float *q[ROWS];
        float *y[ROWS];
        int m = M - i < ROWS ? (int)(M - i) : ROWS;
        span s = seen_by_any(w, i / w->s.share, (i + m - 1) / w->s.share + 1, tile);
        if (s.first >= s.last) continue;
        for (int r = 0; r < m; r++) {
            q[r] = query(w, i + r);
            y[r] = w->score + (i + r) * TILE;
        }
        products[m](q, w->keys, TILE, w->s.D, y, s.first / LANES * LANES, (s.last + LANES - 1) / LANES * LANES, false);
    }
}

/* Scores j..j+15 of a query: capped, less a linear bias, and -inf outside its span. */
INLINE vf limited(const run *w, vf x, span s, int j)
{
    const vf least = vf_set(-INFINITY), cap = vf_set(w->cap);
    if (w->cap > 0) x = vf_mul(cap, vf_tanh(vf_div(x, cap)));
    if (s.slope > 0) {
        float away[LANES];
        for (int lane = 0; lane < LANES; lane++) away[lane] = -fabsf(s.away + (float)(j + lane));
        x = vf_fma(vf_load(away), vf_set(s.slope), x);
    }
    return vf_first(s.first - j, least, vf_first(s.last - j, x, least));
}

/* What m queries from the i-th have summed is brought to their new largest scores: lane r of `top`
 * is the r-th's, those from m on are 0. */
static void raise_tops(const run *w, part p, int64_t i, int m, vf top)
{
    float k[LANES];
    vf old = vf_load_n(p.top + i, m), now = vf_max(top, old);
    /* 0 where the largest is the old one; a query that has seen no key yet has nothing to lose */
    vf by = vf_sub(old, vf_max(now, vf_set(-FLT_MAX)));
    if (!vf_any_below_0(by)) return;
    vf_store(k, vf_exp(by));
    vf_store_n(p.top + i, m, now);
    for (int r = 0; r < m; r++) {
        if (k[r] == 1 || p.sum[i + r] == 0) continue;
        rescale(p.acc + (i + r) * w->s.Dp, vf_set(k[r]), NULL, vf_set(0), w->s.Dp);
        p.sum[i + r] *= k[r];
    }
}

/* Scores of R queries become weights, in the keys that any of them sees (`all`); side by side, for
 * query by query each step would wait for the one before. Whole: each sees all of the tile, and
 * nothing is capped or biased. */
INLINE void weigh(int R, bool whole, const run *w, part p, const span *s, span all, int64_t i)
{
    const int begin = whole ? 0 : all.first / LANES * LANES, end = whole ? TILE : all.last;
    float *y = w->score + i * TILE;
    vf top[ROWS], sum[ROWS], t[ROWS];
    UNROLL_FOR (int r = 0; r < R; r++) top[r] = vf_set(-INFINITY), sum[r] = vf_set(0);
    for (int j = begin; j < end; j += LANES)
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf x = vf_mul(vf_load(y + r * TILE + j), vf_set(w->scale));
            if (!whole) x = limited(w, x, s[r], j);
            vf_store(y + r * TILE + j, x);
            top[r] = vf_max(x, top[r]);
        }
    raise_tops(w, p, i, R, vf_tops(R, top));
    UNROLL_FOR (int r = 0; r < R; r++) t[r] = vf_max(vf_set(p.top[i + r]), vf_set(-FLT_MAX));
    for (int j = begin; j < end; j += LANES)
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf e = vf_exp_below(vf_sub(vf_load(y + r * TILE + j), t[r]));
            vf_store(y + r * TILE + j, e);
            sum[r] = vf_add(sum[r], e);
        }
    vf_store_n(p.sum + i, R, vf_add(vf_load_n(p.sum + i, R), vf_sums(R, sum)));
}

typedef void weigh_fn(const run *w, part p, const span *s, span all, int64_t i);

// clang-format off
#define WEIGH(R)                                                                                   \
    static void weigh##R(const run *w, part p, const span *s, span all, int64_t i)                 \
    {                                                                                              \
        weigh(R, false, w, p, s, all, i);                                                          \
    }                                                                                              \
    static void weigh_whole##R(const run *w, part p, const span *s, span all, int64_t i)           \
    {                                                                                              \
        weigh(R, true, w, p, s, all, i);                                                           \
    }
// clang-format on
EACH_ROWS(WEIGH)
#define X(R) [0][R] = weigh##R, [1][R] = weigh_whole##R,
static weigh_fn *const weighs[2][ROWS + 1] = {EACH_ROWS(X)};
#undef X

/* The linear bias of query i in a tile. */
static void bias_span(const run *w, int64_t i, int64_t tile, span *s)
{
    const int32_t *at = w->c->in[QUERY_AT].data ? w->c->in[QUERY_AT].data : w->slots.pos;
    int64_t head = w->g * w->s.share + i % w->s.share;
    s->slope = (float)zt_alibi_slope(((const zt_attention_alibi_attrs *)w->c->attrs)->bias, w->s.H, head);
    s->away = (float)(tile - at[w->row + i / w->s.share]);
}

/* Scores of m queries of a tile become weights. */
static void weigh_rows(const run *w, part p, int64_t tile, int64_t i, int m)
{
    span s[ROWS], all = seen_by_any(w, i / w->s.share, (i + m - 1) / w->s.share + 1, tile);
    bool whole = w->cap <= 0 && !w->c->aux[AUX_ALIBI];
    for (int r = 0; r < m; r++) {
        s[r] = seen(w, (i + r) / w->s.share, tile);
        if (s[r].first >= s[r].last) s[r] = (span){0, 0, 0, 0};
        if (w->c->aux[AUX_ALIBI]) bias_span(w, i + r, tile, &s[r]);
        whole = whole && s[r].first == 0 && s[r].last == TILE;
    }
    if (all.first < all.last) weighs[whole][m](w, p, s, all, i);
}

/* acc += weights times values, for the keys from `first` to below `last` of m queries from i on. */
static void add_values(const run *w, part p, int64_t i, int m, int first, int last)
{
    const float *weight[ROWS];
    float *acc[ROWS];
    for (int r = 0; r < m; r++) {
        weight[r] = w->score + (i + r) * TILE + first;
        acc[r] = p.acc + (i + r) * w->s.Dp;
    }
    if (first < last) products[m](weight, w->values + first * w->s.Dp, w->s.Dp, last - first, acc, 0, w->s.Dp, true);
}

/* m queries side by side over the keys that all of them see, each alone before and after. */
static void value_rows(const run *w, part p, int64_t tile, int64_t i, int m)
{
    span own[ROWS], all = {0, TILE, 0, 0};
    for (int r = 0; r < m; r++) {
        own[r] = seen(w, (i + r) / w->s.share, tile);
        if (own[r].first > all.first) all.first = own[r].first;
        if (own[r].last < all.last) all.last = own[r].last;
    }
    if (all.first >= all.last) {
        for (int r = 0; r < m; r++) add_values(w, p, i + r, 1, own[r].first, own[r].last);
        return;
    }
    for (int r = 0; r < m; r++) add_values(w, p, i + r, 1, own[r].first, all.first);
    add_values(w, p, i, m, all.first, all.last);
    for (int r = 0; r < m; r++) add_values(w, p, i + r, 1, all.last, own[r].last);
}

#endif
