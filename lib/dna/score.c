/* score.c - owns two layers side by side: sums over all their numbers, in one pass over pieces.
 *
 * Pieces go round a fixed number of slots, each with sums of its own, which are added in order:
 * what comes out does not depend on how many threads there are.
 *
 * Rank. Of a matrix W, (sum s_i^2)^2 / sum s_i^4 over its singular values: its participation ratio,
 * the number of directions that count. The first sum is that of the squares; the second is the
 * trace of G^2, G = W^T W, which |G z|^2 is on average over vectors z of random signs (M.
 * Hutchinson, 1990). Both matrices meet the same z, so that their ratio is surer than either.
 *
 * Sketch. Numbers are added with a random sign into a random bucket: dot products are kept on
 * average (M. Charikar, K. Chen, M. Farach-Colton, 2002). */
#include "lib/dna/dna_file.h"

#include <math.h>
#include <string.h>

enum { SLOTS = 8, PIECE = 1 << 16, PROBES = 4, LANES = 8, MOST_COLS = 1 << 17 };

typedef struct slot {
    dna_sums sum;
    float *x[2];   /* [piece] of a and b */
    float *g[2];   /* [PROBES x cols] the G z so far */
    double *sk[2]; /* [DNA_BUCKETS] */
    int64_t at, n; /* the piece that it has: n 0 is none */
} slot;

struct dna_crew {
    zt_ctx *ctx;
    zt_pool *pool;
    slot slot[SLOTS];
    char *raw[2]; /* codes of SLOTS pieces */
    size_t raw_room[2];
    float *z; /* [PROBES x cols] signs */
    int64_t room, cols_room;
    double *sk; /* of all slots */
    /* of the layers at hand */
    zt_dtype dtype[2];
    int64_t piece, cols;
    bool ranks, sketch;
};

dna_crew *zt_dna_crew_new(zt_ctx *ctx, int threads)
{
    dna_crew *c = zt_calloc(ctx, 1, sizeof *c);
    if (!c) return NULL;
    c->ctx = ctx;
    c->pool = zt_pool_new(ctx, threads > SLOTS ? SLOTS : threads);
    c->sk = zt_calloc(ctx, (size_t)2 * SLOTS * DNA_BUCKETS, sizeof *c->sk);
    for (int k = 0; k < SLOTS && c->sk; k++)
        for (int side = 0; side < 2; side++)
            c->slot[k].sk[side] = c->sk + (2 * k + side) * DNA_BUCKETS;
    if (c->pool && c->sk) return c;
    zt_dna_crew_free(c);
    return NULL;
}

void zt_dna_crew_free(dna_crew *c)
{
    if (!c) return;
    for (int k = 0; k < SLOTS; k++)
        for (int side = 0; side < 2; side++) {
            zt_free(c->ctx, c->slot[k].x[side]);
            zt_free(c->ctx, c->slot[k].g[side]);
        }
    zt_free(c->ctx, c->raw[0]);
    zt_free(c->ctx, c->raw[1]);
    zt_free(c->ctx, c->z);
    zt_free(c->ctx, c->sk);
    zt_pool_free(c->pool);
    zt_free(c->ctx, c);
}

/* ---- one piece ------------------------------------------------------------------------------- */

static void add_sums(dna_sums *s, const float *x, const float *y, int64_t n)
{
    double a1[LANES] = {0}, b1[LANES] = {0}, a2[LANES] = {0}, b2[LANES] = {0}, ab[LANES] = {0},
           d2[LANES] = {0}, most[LANES] = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t end = n - i < LANES ? n - i : LANES;
        for (int64_t k = 0; k < end; k++) {
            double a = x[i + k], b = y[i + k], d = a - b;
            a1[k] += a;
            b1[k] += b;
            a2[k] += a * a;
            b2[k] += b * b;
            ab[k] += a * b;
            d2[k] += d * d;
            d = fabs(d);
            most[k] = d > most[k] ? d : most[k];
        }
    }
    for (int k = 0; k < LANES; k++) {
        s->a1 += a1[k];
        s->b1 += b1[k];
        s->a2 += a2[k];
        s->b2 += b2[k];
        s->ab += ab[k];
        s->d2 += d2[k];
        s->most = most[k] > s->most ? most[k] : s->most;
    }
}

static float dot(const float *x, const float *y, int64_t n)
{
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += x[i + k] * y[i + k];
    for (; i < n; i++) sum += x[i] * y[i];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

/* y += s x */
static void add_times(float *y, float s, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) y[i + k] += s * x[i + k];
    for (; i < n; i++) y[i] += s * x[i];
}

/* G z += w (w . z) for each row w. */
static void add_probes(float *g, const float *z, const float *x, int64_t n, int64_t cols)
{
    for (int64_t at = 0; at < n; at += cols)
        for (int k = 0; k < PROBES; k++)
            add_times(g + k * cols, dot(x + at, z + k * cols, cols), x + at, cols);
}

/* A bucket and a sign for number i of a layer: 32 well mixed bits (the finaliser of MurmurHash3).
 */
static uint32_t mixed(uint64_t i)
{
    uint32_t h = (uint32_t)i * 2654435769u + (uint32_t)(i >> 32) * 40503u + 1;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static void add_sketch(slot *s, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t h = mixed((uint64_t)(at + i)), bucket = h % DNA_BUCKETS;
        float sign = h >> 31 ? -1.0f : 1.0f;
        s->sk[0][bucket] += (double)(sign * s->x[0][i]);
        s->sk[1][bucket] += (double)(sign * s->x[1][i]);
    }
}

static void work(void *user, int thread, int n_threads)
{
    dna_crew *c = user;
    for (int k = thread; k < SLOTS; k += n_threads) {
        slot *s = &c->slot[k];
        if (s->n == 0) continue;
        for (int side = 0; side < 2; side++)
            zt_dna_decode(c->dtype[side],
                          c->raw[side] + (size_t)k * zt_dna_bytes(c->dtype[side], c->piece),
                          s->x[side], s->n);
        add_sums(&s->sum, s->x[0], s->x[1], s->n);
        for (int side = 0; c->ranks && side < 2; side++)
            add_probes(s->g[side], c->z, s->x[side], s->n, c->cols);
        if (c->sketch) add_sketch(s, s->at, s->n);
    }
}

/* ---- a layer --------------------------------------------------------------------------------- */

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static float *room(zt_ctx *ctx, float *old, int64_t n)
{
    zt_free(ctx, old);
    return zt_alloc_array(ctx, (size_t)n, sizeof(float));
}

static zt_status make_room(dna_crew *c)
{
    bool good = true;
    for (int side = 0; side < 2; side++) {
        size_t bytes = SLOTS * zt_dna_bytes(c->dtype[side], c->piece);
        if (bytes <= c->raw_room[side]) continue;
        zt_free(c->ctx, c->raw[side]);
        c->raw[side] = zt_alloc(c->ctx, bytes);
        c->raw_room[side] = c->raw[side] ? bytes : 0;
        good = good && c->raw[side];
    }
    for (int k = 0; k < 2 * SLOTS && good && c->piece > c->room; k++)
        good = (c->slot[k / 2].x[k % 2] = room(c->ctx, c->slot[k / 2].x[k % 2], c->piece));
    if (good && c->piece > c->room) c->room = c->piece;
    if (!c->ranks || c->cols <= c->cols_room) return good ? ZT_OK : ZT_ENOMEM;
    good = good && (c->z = room(c->ctx, c->z, PROBES * c->cols));
    for (int k = 0; k < 2 * SLOTS && good; k++)
        good = (c->slot[k / 2].g[k % 2] = room(c->ctx, c->slot[k / 2].g[k % 2], PROBES * c->cols));
    if (good) c->cols_room = c->cols;
    return good ? ZT_OK : ZT_ENOMEM;
}

/* Pieces end where rows and blocks of all types do. */
static void cut(dna_crew *c, const zt_type *shape, bool ranks, int64_t n)
{
    int64_t step = 256;
    c->cols = shape->rank == 2 ? shape->dim[1] : 0;
    c->ranks = ranks && c->cols > 1 && c->cols <= MOST_COLS && shape->dim[0] > 1;
    if (c->ranks) step = c->cols / gcd(c->cols, 256) * 256;
    c->piece = step < PIECE ? PIECE / step * step : step;
    if (c->piece > n) c->piece = n;
}

static zt_status begin(dna_crew *c)
{
    zt_status s = make_room(c);
    for (int k = 0; k < SLOTS && s == ZT_OK; k++) {
        c->slot[k].sum = (dna_sums){.a1 = 0};
        for (int side = 0; side < 2; side++) {
            if (c->ranks) memset(c->slot[k].g[side], 0, PROBES * (size_t)c->cols * sizeof(float));
            if (c->sketch) memset(c->slot[k].sk[side], 0, DNA_BUCKETS * sizeof(double));
        }
    }
    for (int64_t i = 0; s == ZT_OK && c->ranks && i < PROBES * c->cols; i++)
        c->z[i] = mixed((uint64_t)i) >> 31 ? -1.0f : 1.0f;
    return s;
}

/* (sum s^2)^2 / sum s^4 of one side. */
static double rank_of(const dna_crew *c, int side, double squares)
{
    double fourth = 0;
    for (int64_t i = 0; i < PROBES * c->cols; i++) {
        double v = 0;
        for (int k = 0; k < SLOTS; k++) v += (double)c->slot[k].g[side][i];
        fourth += v * v;
    }
    return fourth > 0 ? squares * squares * PROBES / fourth : NAN;
}

static void finish(dna_crew *c, dna_sums *out, double *sketch[2])
{
    *out = (dna_sums){.rank_a = NAN, .rank_b = NAN};
    for (int side = 0; side < 2 && c->sketch; side++)
        memset(sketch[side], 0, DNA_BUCKETS * sizeof(double));
    for (int k = 0; k < SLOTS; k++) {
        const dna_sums *s = &c->slot[k].sum;
        out->a1 += s->a1;
        out->b1 += s->b1;
        out->a2 += s->a2;
        out->b2 += s->b2;
        out->ab += s->ab;
        out->d2 += s->d2;
        out->most = s->most > out->most ? s->most : out->most;
        for (int side = 0; side < 2 && c->sketch; side++)
            for (int i = 0; i < DNA_BUCKETS; i++) sketch[side][i] += c->slot[k].sk[side][i];
    }
    if (!c->ranks) return;
    out->rank_a = rank_of(c, 0, out->a2);
    out->rank_b = rank_of(c, 1, out->b2);
}

zt_status zt_dna_sum(dna_crew *c, zt_dna *a, int64_t i, zt_dna *b, int64_t j, bool ranks,
                     dna_sums *out, double *sketch_a, double *sketch_b)
{
    int64_t n = a->layer[i].n;
    zt_dna *from[2] = {a, b};
    int64_t which[2] = {i, j};
    c->dtype[0] = zt_dna_dtype(a, i);
    c->dtype[1] = zt_dna_dtype(b, j);
    c->sketch = sketch_a != NULL;
    cut(c, &a->layer[i].shape, ranks, n);
    zt_status s = begin(c);
    for (int64_t at = 0; at < n && s == ZT_OK; at += SLOTS * c->piece) {
        int64_t here = n - at < SLOTS * c->piece ? n - at : SLOTS * c->piece;
        for (int side = 0; side < 2 && s == ZT_OK; side++)
            s = zt_dna_fetch(from[side], which[side], at, here, c->raw[side]);
        for (int k = 0; k < SLOTS; k++) {
            int64_t left = here - k * c->piece;
            c->slot[k].at = at + k * c->piece;
            c->slot[k].n = left < 0 ? 0 : left < c->piece ? left : c->piece;
        }
        if (s == ZT_OK) zt_pool_run(c->pool, work, c);
    }
    if (s == ZT_OK) finish(c, out, (double *[2]){sketch_a, sketch_b});
    return s;
}
