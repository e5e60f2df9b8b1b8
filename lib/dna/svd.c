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

typedef struct svd_work {
    const merge_loops *loops;
    const float *matrix;
    int64_t row_count, column_count, vector_count; /* of d; vectors */
    float *tall;                                   /* [vector_count, row_count] */
    float *wide;                                   /* [vector_count, column_count] */
    uint64_t seed;
    atomic_llong next;
} svd_work;

/* tall = (D wide^T)^T: a row of D at a time. */
static void multiply_to_tall(void *user, int thread, int n_threads)
{
    svd_work *work = user;
    int64_t row;
    (void)thread, (void)n_threads;
    while ((row = atomic_fetch_add(&work->next, 1)) < work->row_count)
        for (int64_t k = 0; k < work->vector_count; k++)
            work->tall[k * work->row_count + row] = (float)work->loops->dot(
                work->matrix + row * work->column_count, work->wide + k * work->column_count, work->column_count);
}

/* wide = tall D: a vector at a time. */
static void multiply_to_wide(void *user, int thread, int n_threads)
{
    svd_work *work = user;
    int64_t vector;
    (void)thread, (void)n_threads;
    while ((vector = atomic_fetch_add(&work->next, 1)) < work->vector_count) {
        float *out = work->wide + vector * work->column_count;
        memset(out, 0, (size_t)work->column_count * sizeof *out);
        for (int64_t i = 0; i < work->row_count; i++)
            work->loops->add(out, work->matrix + i * work->column_count, work->tall[vector * work->row_count + i],
                             work->column_count);
    }
}

static void draw_vectors(void *user, int thread, int n_threads)
{
    svd_work *work = user;
    int64_t vector;
    (void)thread, (void)n_threads;
    while ((vector = atomic_fetch_add(&work->next, 1)) < work->vector_count)
        for (int64_t column = 0; column < work->column_count; column++)
            work->wide[vector * work->column_count + column] = (float)zt_normal(work->seed, (uint64_t)vector, (uint64_t)column);
}

static void run_all(svd_work *work, zt_pool *pool, zt_pool_fn *task)
{
    atomic_store(&work->next, 0);
    zt_pool_run(pool, task, work);
}

/* Rows made orthonormal, twice over; what depends on those before becomes 0. */
static void orthonormalize_rows(const svd_work *work, float *vectors, int64_t count)
{
    for (int64_t k = 0; k < work->vector_count; k++) {
        float *row = vectors + k * count;
        double length_before = sqrt(work->loops->dot(row, row, count)), length_now = length_before;
        for (int turn = 0; turn < 2; turn++) {
            for (int64_t j = 0; j < k; j++)
                work->loops->add(row, vectors + j * count, (float)-work->loops->dot(row, vectors + j * count, count), count);
            length_now = sqrt(work->loops->dot(row, row, count));
        }
        float scale = length_now > length_before * 1e-6 && length_now > 0 ? (float)(1 / length_now) : 0;
        for (int64_t i = 0; i < count; i++) row[i] *= scale;
    }
}

/* Two rows of x, and the same of y, turned so that those of x are orthogonal; false: they were. */
static bool rotate_pair(const svd_work *work, float *row_a, float *row_b, float *tall_a, float *tall_b)
{
    double dot_aa = work->loops->dot(row_a, row_a, work->column_count),
           dot_bb = work->loops->dot(row_b, row_b, work->column_count),
           dot_ab = work->loops->dot(row_a, row_b, work->column_count);
    if (fabs(dot_ab) <= 1e-7 * sqrt(dot_aa) * sqrt(dot_bb)) return false;
    double zeta = (dot_bb - dot_aa) / (2 * dot_ab), tangent = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    float cosine = (float)(1 / sqrt(1 + tangent * tangent)), sine = (float)(tangent / sqrt(1 + tangent * tangent));
    for (int64_t column_index = 0; column_index < work->column_count; column_index++) {
        float value_a = row_a[column_index], value_b = row_b[column_index];
        row_a[column_index] = cosine * value_a - sine * value_b;
        row_b[column_index] = sine * value_a + cosine * value_b;
    }
    for (int64_t row = 0; row < work->row_count; row++) {
        float value_a = tall_a[row], value_b = tall_b[row];
        tall_a[row] = cosine * value_a - sine * value_b;
        tall_b[row] = sine * value_a + cosine * value_b;
    }
    return true;
}

/* D = tall^T wide stays so, and the rows of wide become orthogonal. */
static void orthogonalize_rows(const svd_work *work)
{
    bool any = true;
    for (int sweep = 0; sweep < SWEEPS && any; sweep++) {
        any = false;
        for (int64_t i = 0; i < work->vector_count; i++)
            for (int64_t j = i + 1; j < work->vector_count; j++)
                any |= rotate_pair(work, work->wide + i * work->column_count, work->wide + j * work->column_count,
                                   work->tall + i * work->row_count, work->tall + j * work->row_count);
    }
}

/* The largest first; each vector with the root of its value. */
static void take_largest(const svd_work *work, zt_svd *out)
{
    for (int64_t rank = 0; rank < out->rank; rank++) {
        int64_t best = -1;
        double most = 0;
        for (int64_t k = 0; k < work->vector_count; k++) {
            const float *row = work->wide + k * work->column_count;
            double value = sqrt(work->loops->dot(row, row, work->column_count));
            if (value > most) most = value, best = k;
        }
        float *left = out->left + rank * work->row_count, *right = out->right + rank * work->column_count;
        out->values[rank] = most;
        memset(left, 0, (size_t)work->row_count * sizeof *left);
        memset(right, 0, (size_t)work->column_count * sizeof *right);
        if (best < 0) continue;
        work->loops->add(left, work->tall + best * work->row_count, (float)sqrt(most), work->row_count);
        work->loops->add(right, work->wide + best * work->column_count, (float)(1 / sqrt(most)), work->column_count);
        memset(work->wide + best * work->column_count, 0, (size_t)work->column_count * sizeof *work->wide);
    }
}

zt_status zt_svd_find(zt_ctx *ctx, zt_pool *pool, const float *matrix, zt_svd *out)
{
    int64_t least = out->rows < out->columns ? out->rows : out->columns;
    svd_work work = {
        .loops = zt_merge_loops(), .matrix = matrix, .row_count = out->rows, .column_count = out->columns, .seed = out->seed};
    work.vector_count = out->rank + MORE < least ? out->rank + MORE : least;
    work.tall = zt_alloc_array(ctx, (size_t)(work.vector_count * work.row_count) + 1, sizeof *work.tall);
    work.wide = zt_alloc_array(ctx, (size_t)(work.vector_count * work.column_count) + 1, sizeof *work.wide);
    bool good = work.tall && work.wide;
    if (good) {
        run_all(&work, pool, draw_vectors);
        for (int turn = 0; turn < TURNS; turn++) {
            orthonormalize_rows(&work, work.wide, work.column_count);
            run_all(&work, pool, multiply_to_tall);
            orthonormalize_rows(&work, work.tall, work.row_count);
            run_all(&work, pool, multiply_to_wide);
        }
        orthogonalize_rows(&work);
        take_largest(&work, out);
    }
    zt_free(ctx, work.tall);
    zt_free(ctx, work.wide);
    return good ? ZT_OK : ZT_ENOMEM;
}
