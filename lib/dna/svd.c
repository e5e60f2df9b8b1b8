/* svd.c - owns a matrix's largest singular values: a random range, made sharp by multiplying with
 * the matrix and its transpose again, then rotations.
 *
 * Sources: N. Halko, P. Martinsson, J. Tropp, arXiv:0909.4061, algorithms 4.4 and 5.1; one-sided
 * Jacobi: M. Hestenes, 1958. Vectors are f32 rows, their products f64 sums in one order: the same
 * bits for any number of threads.
 */
#include "lib/dna/svd.h"

#include "lib/dna/merge_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { MORE = 8, TURNS = 4, SWEEPS = 60 };

typedef struct work {
    const merge_loops *loops;
    const float *d;
    int64_t m, n, l; /* of d; vectors */
    float *tall;     /* [l, m] */
    float *wide;     /* [l, n] */
    uint64_t seed;
    atomic_llong next;
} work;

/* tall = (D wide^T)^T: a row of D at a time. */
static void to_tall(void *user, int thread, int n_threads)
{
    work *w = user;
    int64_t i;
    (void)thread, (void)n_threads;
    while ((i = atomic_fetch_add(&w->next, 1)) < w->m)
        for (int64_t k = 0; k < w->l; k++)
            w->tall[k * w->m + i] = (float)w->loops->dot(w->d + i * w->n, w->wide + k * w->n, w->n);
}

/* wide = tall D: a vector at a time. */
static void to_wide(void *user, int thread, int n_threads)
{
    work *w = user;
    int64_t k;
    (void)thread, (void)n_threads;
    while ((k = atomic_fetch_add(&w->next, 1)) < w->l) {
        float *out = w->wide + k * w->n;
        memset(out, 0, (size_t)w->n * sizeof *out);
        for (int64_t i = 0; i < w->m; i++)
            w->loops->add(out, w->d + i * w->n, w->tall[k * w->m + i], w->n);
    }
}

static void draw(void *user, int thread, int n_threads)
{
    work *w = user;
    int64_t k;
    (void)thread, (void)n_threads;
    while ((k = atomic_fetch_add(&w->next, 1)) < w->l)
        for (int64_t j = 0; j < w->n; j++)
            w->wide[k * w->n + j] = (float)zt_normal(w->seed, (uint64_t)k, (uint64_t)j);
}

static void all(work *w, zt_pool *pool, zt_pool_fn *fn)
{
    atomic_store(&w->next, 0);
    zt_pool_run(pool, fn, w);
}

/* Rows made orthonormal, twice over; what depends on those before becomes 0. */
static void orthonormal(const work *w, float *x, int64_t n)
{
    for (int64_t k = 0; k < w->l; k++) {
        float *row = x + k * n;
        double was = sqrt(w->loops->dot(row, row, n)), is = was;
        for (int turn = 0; turn < 2; turn++) {
            for (int64_t j = 0; j < k; j++)
                w->loops->add(row, x + j * n, (float)-w->loops->dot(row, x + j * n, n), n);
            is = sqrt(w->loops->dot(row, row, n));
        }
        float scale = is > was * 1e-6 && is > 0 ? (float)(1 / is) : 0;
        for (int64_t i = 0; i < n; i++) row[i] *= scale;
    }
}

/* Two rows of x, and the same of y, turned so that those of x are orthogonal; false: they were. */
static bool rotate(const work *w, float *a, float *b, float *p, float *q)
{
    double aa = w->loops->dot(a, a, w->n), bb = w->loops->dot(b, b, w->n),
           ab = w->loops->dot(a, b, w->n);
    if (fabs(ab) <= 1e-7 * sqrt(aa) * sqrt(bb)) return false;
    double z = (bb - aa) / (2 * ab), t = (z < 0 ? -1 : 1) / (fabs(z) + sqrt(1 + z * z));
    float c = (float)(1 / sqrt(1 + t * t)), s = (float)(t / sqrt(1 + t * t));
    for (int64_t i = 0; i < w->n; i++) {
        float u = a[i], v = b[i];
        a[i] = c * u - s * v;
        b[i] = s * u + c * v;
    }
    for (int64_t i = 0; i < w->m; i++) {
        float u = p[i], v = q[i];
        p[i] = c * u - s * v;
        q[i] = s * u + c * v;
    }
    return true;
}

/* D = tall^T wide stays so, and the rows of wide become orthogonal. */
static void jacobi(const work *w)
{
    bool any = true;
    for (int sweep = 0; sweep < SWEEPS && any; sweep++) {
        any = false;
        for (int64_t i = 0; i < w->l; i++)
            for (int64_t j = i + 1; j < w->l; j++)
                any |= rotate(w, w->wide + i * w->n, w->wide + j * w->n, w->tall + i * w->m,
                              w->tall + j * w->m);
    }
}

/* The largest first; each vector with the root of its value. */
static void take(const work *w, zt_svd *out)
{
    for (int64_t r = 0; r < out->rank; r++) {
        int64_t best = -1;
        double most = 0;
        for (int64_t k = 0; k < w->l; k++) {
            const float *row = w->wide + k * w->n;
            double value = sqrt(w->loops->dot(row, row, w->n));
            if (value > most) most = value, best = k;
        }
        float *left = out->left + r * w->m, *right = out->right + r * w->n;
        out->value[r] = most;
        memset(left, 0, (size_t)w->m * sizeof *left);
        memset(right, 0, (size_t)w->n * sizeof *right);
        if (best < 0) continue;
        w->loops->add(left, w->tall + best * w->m, (float)sqrt(most), w->m);
        w->loops->add(right, w->wide + best * w->n, (float)(1 / sqrt(most)), w->n);
        memset(w->wide + best * w->n, 0, (size_t)w->n * sizeof *w->wide);
    }
}

zt_status zt_svd_find(zt_ctx *ctx, zt_pool *pool, const float *d, zt_svd *out)
{
    int64_t least = out->rows < out->columns ? out->rows : out->columns;
    work w = {
        .loops = zt_merge_loops(), .d = d, .m = out->rows, .n = out->columns, .seed = out->seed};
    w.l = out->rank + MORE < least ? out->rank + MORE : least;
    w.tall = zt_alloc_array(ctx, (size_t)(w.l * w.m) + 1, sizeof *w.tall);
    w.wide = zt_alloc_array(ctx, (size_t)(w.l * w.n) + 1, sizeof *w.wide);
    bool good = w.tall && w.wide;
    if (good) {
        all(&w, pool, draw);
        for (int turn = 0; turn < TURNS; turn++) {
            orthonormal(&w, w.wide, w.n);
            all(&w, pool, to_tall);
            orthonormal(&w, w.tall, w.m);
            all(&w, pool, to_wide);
        }
        jacobi(&w);
        take(&w, out);
    }
    zt_free(ctx, w.tall);
    zt_free(ctx, w.wide);
    return good ? ZT_OK : ZT_ENOMEM;
}
