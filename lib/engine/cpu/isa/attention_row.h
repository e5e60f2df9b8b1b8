/* attention_row.h - private to isa/attention.c: rows that are alone in their sequence, as when many
 * texts go on by a token each. Few queries read a tile, so it is used as it comes from the cache
 * into registers (keys of 16 bits are turned as such); and since it comes from memory, the next one is
 * sent for meanwhile.
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

/* The keys and then the values of a stop are sent for while the one before is worked on: to the
 * second-level cache, as what is sent for to the first waits for one of its few places like any load.
 * Of many lines at once some are dropped, so a few go after each piece of work, as many as its share of
 * all the work is. */
typedef struct sender {
    const char *cache[2]; /* of keys, of values; the first is sent for now */
    int caches;           /* left */
    const size_t *at;     /* `keys` places of `bytes`; sent for: `key` of them, and of the next `done` */
    int64_t keys, key, bytes, done;
    int64_t rate, due; /* lines for a unit of work, and those due, in 1/256 */
} sender;

static sender sender_of(const stop *next, int64_t work)
{
    if (!next) return (sender){0};
    const run *w = &next->w;
    const int64_t n = next->keys.last - next->keys.first;
    const int64_t bytes = next->heads * w->s.D * (w->c->in[1].type.dtype == ZT_F16 ? 2 : 4);
    return (sender){.cache = {w->c->in[1].data, w->c->in[2].data},
                    .caches = 2,
                    .at = next->at + next->keys.first,
                    .keys = n,
                    .bytes = bytes,
                    .rate = (2 * n * ((bytes + LINE - 1) / LINE) * 256 + work - 1) / work};
}

/* After so much work. */
INLINE void send_some(sender *s, int64_t work)
{
    for (s->due += s->rate * work; s->due >= 256; s->due -= 256) {
        if (!s->caches) return;
        __builtin_prefetch(s->cache[0] + s->at[s->key] + s->done, 0, 2);
        s->done += LINE;
        if (s->done < s->bytes) continue;
        s->done = 0;
        if (++s->key < s->keys) continue;
        s->key = 0;
        s->cache[0] = s->cache[1];
        s->caches--;
    }
}

/* Work on a tile, in some 16 cycles: 32 columns of sixteen keys are turned; two columns' part of the
 * scores; half of what weights take; a key's values. */
enum { TURN = 4, SCORE = 1, WEIGH = 10, VALUE = 1 };

static int64_t turn_work(int64_t D) { return (D + 31) / 32 * TURN; }

static int64_t score_work(int64_t D) { return D / 2 * SCORE; }

static int64_t work_of(const stop *at)
{
    const int64_t n = at->keys.last - at->keys.first, D = at->w.s.D;
    const int64_t groups = (at->keys.last + LANES - 1) / LANES - at->keys.first / LANES;
    return at->heads * (groups * turn_work(D) + score_work(D) + 2 * WEIGH + n * VALUE);
}

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

/* Scores of N times sixteen keys that are turned, from the j-th of their tile on, as score_keys makes
 * them. */
INLINE void score_turned(int R, int N, const run *w, int j, const uint16_t *keys, sender *next)
{
    vf y[ROWS][TILE / LANES];
    const int64_t D = w->s.D;
    const float *q[ROWS];
    UNROLL_FOR (int r = 0; r < R; r++) {
        q[r] = query(w, r);
        UNROLL_FOR (int n = 0; n < N; n++) y[r][n] = vf_set(0);
    }
    for (int64_t d = 0; d < D; d += 8) {
        const uint16_t *k = keys + (d / TURNED * TURNED + d % TURNED / 8) * LANES;
        UNROLL_FOR (int c = 0; c < 8; c++) {
            vf v[TILE / LANES];
            if (c % 2) send_some(next, SCORE);
            UNROLL_FOR (int n = 0; n < N; n++) v[n] = vf_of_f16(k + (n * D + 4 * c) * LANES);
            UNROLL_FOR (int r = 0; r < R; r++) {
                const vf x = vf_set(q[r][d + c]);
                UNROLL_FOR (int n = 0; n < N; n++) y[r][n] = vf_fma(x, v[n], y[r][n]);
            }
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int n = 0; n < N; n++) vf_store(w->score + r * TILE + j + LANES * n, y[r][n]);
    }
}

/* All scores of a tile, of keys turned so. */
INLINE void score_halves(int R, const run *w, span s, const size_t *at, const char *base, sender *next)
{
    const int first = s.first / LANES * LANES, n = (s.last - first + LANES - 1) / LANES;
    uint16_t *keys = (uint16_t *)(void *)w->keys, *to = keys;
    for (int j = first; j < s.last; j += LANES)
        for (int64_t d = 0; d < w->s.D; d += TURNED, to += TURNED * LANES) {
            turn_halves(base + 2 * d, at + j, to);
            send_some(next, TURN);
        }
    if (n == 1) score_turned(R, 1, w, first, keys, next);
    if (n == 2) score_turned(R, 2, w, first, keys, next);
    if (n == 3) score_turned(R, 3, w, first, keys, next);
    if (n == 4) score_turned(R, 4, w, first, keys, next);
}
#endif

/* ---- R heads of a row, one tile -------------------------------------------------------------- */

/* Columns d..d+n-1 of sixteen keys, times the queries'. */
INLINE void score_columns(int R, int n, bool half, const run *w, const size_t *at, const char *base, int64_t d, vf *y)
{
    const float *q[ROWS];
    vf k[LANES];
    UNROLL_FOR (int r = 0; r < R; r++) q[r] = query(w, r) + d;
    UNROLL_FOR (int i = 0; i < LANES; i++) k[i] = cached(half, base + at[i] + d * (half ? 2 : 4), n);
    vf_transpose(k);
    UNROLL_FOR (int i = 0; i < LANES; i++) {
        UNROLL_FOR (int r = 0; r < R; r++)
            if (i < n) y[r] = vf_fma(vf_set(q[r][i]), k[i], y[r]);
    }
}

/* Scores of the keys j..j+15: sums over the columns in order, as product makes them. */
INLINE void score_keys(int R, bool half, const run *w, const size_t *at, const char *base, int j)
{
    vf y[ROWS];
    int64_t d = 0;
    UNROLL_FOR (int r = 0; r < R; r++) y[r] = vf_set(0);
    for (; d + LANES <= w->s.D; d += LANES) score_columns(R, LANES, half, w, at + j, base, d, y);
    if (d < w->s.D) score_columns(R, (int)(w->s.D - d), half, w, at + j, base, d, y);
    UNROLL_FOR (int r = 0; r < R; r++) vf_store(w->score + r * TILE + j, y[r]);
}

/* Registers of values from column d on, N of them with n columns each, times weights: key by key. */
INLINE void weigh_values(int R, int N, int n, bool half, const run *w, part p, const size_t *at, const char *base, span s,
                         int64_t d, sender *next)
{
    vf a[ROWS][WIDE];
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int k = 0; k < N; k++) a[r][k] = vf_load(p.acc + r * w->s.Dp + d + LANES * k);
    }
    for (int j = s.first; j < s.last; j++) {
        vf v[WIDE];
        if (d == 0) send_some(next, VALUE);
        UNROLL_FOR (int k = 0; k < N; k++) v[k] = cached(half, base + at[j] + (d + LANES * k) * (half ? 2 : 4), n);
        UNROLL_FOR (int r = 0; r < R; r++) {
            vf x = vf_set(w->score[r * TILE + j]);
            UNROLL_FOR (int k = 0; k < N; k++) a[r][k] = vf_fma(x, v[k], a[r][k]);
        }
    }
    UNROLL_FOR (int r = 0; r < R; r++) {
        UNROLL_FOR (int k = 0; k < N; k++) vf_store(p.acc + r * w->s.Dp + d + LANES * k, a[r][k]);
    }
}

/* All scores of a tile, of keys in registers or, where they can be, turned while they are of 16 bits. */
INLINE void score_stop(int R, bool half, const run *w, span s, const size_t *at, const char *base, sender *next)
{
    const int64_t D = w->s.D;
#if defined(ZT_ISA_avx512)
    if (half && D % TURNED == 0) {
        score_halves(R, w, s, at, base, next);
        return;
    }
#endif
    for (int j = s.first / LANES * LANES; j < s.last; j += LANES) {
        send_some(next, turn_work(D));
        score_keys(R, half, w, at, base, j);
    }
    send_some(next, score_work(D));
}

/* Head w.g of a stop, whose keys and values lie `h` heads behind the places. */
INLINE void attend_head(int R, bool half, const stop *at, int64_t h, part p, sender *next)
{
    const run *w = &at->w;
    const span s = at->keys;
    const int64_t D = w->s.D, shift = h * D * (half ? 2 : 4);
    const char *k = (const char *)w->c->in[1].data + shift, *v = (const char *)w->c->in[2].data + shift;
    int64_t d = 0;
    score_stop(R, half, w, s, at->at, k, next);
    send_some(next, WEIGH);
    weigh_rows(w, p, at->tile, 0, R);
    send_some(next, WEIGH);
    for (; d + WIDE * LANES <= D; d += WIDE * LANES) weigh_values(R, WIDE, LANES, half, w, p, at->at, v, s, d, next);
    for (; d + LANES <= D; d += LANES) weigh_values(R, 1, LANES, half, w, p, at->at, v, s, d, next);
    if (d < D) weigh_values(R, 1, (int)(D - d), half, w, p, at->at, v, s, d, next);
}

/* All heads of a stop, R queries each, whose sums follow each other in p; `next` is sent for. */
INLINE void attend_row(int R, bool half, stop *at, part p, const stop *next)
{
    const int64_t first = at->w.g;
    sender lines = sender_of(next, work_of(at));
    for (int64_t h = 0; h < at->heads; h++) {
        at->w.g = first + h;
        attend_head(R, half, at, h, part_from(p, h * R, at->w.s.Dp), &lines);
    }
    at->w.g = first;
}

typedef void row_fn(stop *at, part p, const stop *next);

// clang-format off
#define ROW(R)                                                                                     \
    static void row##R##_f16(stop *at, part p, const stop *next)                                   \
    {                                                                                              \
        attend_row(R, true, at, p, next);                                                          \
    }                                                                                              \
    static void row##R##_f32(stop *at, part p, const stop *next)                                   \
    {                                                                                              \
        attend_row(R, false, at, p, next);                                                         \
    }
// clang-format on
EACH_ROWS(ROW)
#define X(R) [0][R] = row##R##_f32, [1][R] = row##R##_f16,
static row_fn *const row_fns[2][ROWS + 1] = {EACH_ROWS(X)};
#undef X

/* ---- from tile to tile ----------------------------------------------------------------------- */

/* Is a row's part of the cache read so? */
static bool from_cache(const run *w) { return w->rows == 1 && w->s.share <= ROWS; }

/* The tile at or after `tile` and before `end` of the same row and heads; false: there is none. */
static bool find_stop(const run *w, int64_t heads, int64_t tile, int64_t end, stop *to)
{
    if (tile < w->lo[0] / TILE * TILE) tile = w->lo[0] / TILE * TILE;
    if (tile >= end || tile >= w->hi[0] || w->lo[0] >= w->hi[0]) return false;
    to->w = *w;
    to->heads = heads;
    to->tile = tile;
    to->keys = seen(w, 0, tile);
    find_keys(w, tile, to->keys, to->at);
    return true;
}

static void attend_stop(stop *at, part p, const stop *next)
{
    row_fns[at->w.c->in[1].type.dtype == ZT_F16][at->w.s.share](at, p, next);
}

/* The tiles of a row from `tile` to before `end`. */
static void attend_alone(const run *w, part p, int64_t tile, int64_t end)
{
    stop stops[2];
    int now = 0;
    bool more = find_stop(w, 1, tile, end, &stops[0]);
    for (; more; now = !now) {
        more = find_stop(w, 1, stops[now].tile + TILE, end, &stops[!now]);
        attend_stop(&stops[now], p, more ? &stops[!now] : NULL);
    }
}

#endif
