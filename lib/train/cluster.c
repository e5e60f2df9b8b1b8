/* cluster.c - points, distances and silhouettes. */
#include "lib/base/require.h"
#include "lib/train/cluster_internal.h"

#include <math.h>
#include <string.h>

enum { LANES = 8 };

/* ---- sums ------------------------------------------------------------------------------------ */

static double sum_lanes(const double sum[LANES])
{
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

double zt_dot(const double *left, const double *right, int64_t width)
{
    double sum[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES)
        for (int lane = 0; lane < LANES; lane++) sum[lane] += left[i + lane] * right[i + lane];
    for (int lane = 0; i + lane < width; lane++) sum[lane] += left[i + lane] * right[i + lane];
    return sum_lanes(sum);
}

double zt_square_distance(const double *left, const double *right, int64_t width)
{
    double sum[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            double apart = left[i + lane] - right[i + lane];
            sum[lane] += apart * apart;
        }
    for (int lane = 0; i + lane < width; lane++) {
        double apart = left[i + lane] - right[i + lane];
        sum[lane] += apart * apart;
    }
    return sum_lanes(sum);
}

/* ---- points ---------------------------------------------------------------------------------- */

bool zt_points_good(const zt_points *points)
{
    return points && points->values && points->count > 0 && points->width > 0 &&
           (points->distance == ZT_EUCLIDEAN || points->distance == ZT_COSINE);
}

static void make_row(const zt_points *points, int64_t i, double *row)
{
    for (int64_t k = 0; k < points->width; k++) row[k] = (double)points->values[i * points->width + k];
    if (points->distance != ZT_COSINE) return;
    double length = sqrt(zt_dot(row, row, points->width));
    for (int64_t k = 0; k < points->width && length > 0; k++) row[k] /= length;
}

zt_status zt_rows_make(zt_ctx *ctx, const zt_points *points, zt_rows *out)
{
    *out = (zt_rows){.count = points->count, .width = points->width, .cosine = points->distance == ZT_COSINE};
    out->values = zt_alloc_array(ctx, (size_t)points->count, (size_t)points->width * sizeof *out->values);
    for (int64_t i = 0; i < points->count && out->values; i++) make_row(points, i, out->values + i * points->width);
    return out->values ? ZT_OK : ZT_ENOMEM;
}

void zt_rows_free(zt_ctx *ctx, zt_rows *rows) { zt_free(ctx, rows->values); }

double zt_rows_distance(const zt_rows *rows, int64_t i, int64_t j)
{
    const double *left = zt_row_at(rows, i), *right = zt_row_at(rows, j);
    if (!rows->cosine) return sqrt(zt_square_distance(left, right, rows->width));
    return fmax(1 - zt_dot(left, right, rows->width), 0);
}

/* ---- each point ------------------------------------------------------------------------------ */

typedef struct each {
    int64_t count;
    zt_point_fn *fn;
    void *user;
} each;

static void run_share(void *user, int thread, int n_threads)
{
    const each *work = user;
    for (int64_t i = thread; i < work->count; i += n_threads) work->fn(work->user, i);
}

void zt_each_point(zt_pool *pool, int64_t count, zt_point_fn *fn, void *user)
{
    each work = {count, fn, user};
    if (pool)
        zt_pool_run(pool, run_share, &work);
    else
        run_share(&work, 0, 1);
}

int64_t zt_number_labels(int64_t *labels, int64_t count, int64_t *number, int64_t most)
{
    int64_t given = 0, all;
    for (int64_t i = 0; i < most; i++) number[i] = -1;
    for (int64_t i = 0; i < count; i++) {
        if (number[labels[i]] < 0) number[labels[i]] = given++;
        labels[i] = number[labels[i]];
    }
    all = given;
    for (int64_t i = 0; i < most; i++)
        if (number[i] < 0) number[i] = all++;
    return given;
}

/* ---- silhouettes ------------------------------------------------------------------------------ */

typedef struct silhouettes {
    const zt_rows *rows;
    const int64_t *labels, *chosen, *size; /* size[clusters] */
    int64_t clusters, count;
    double *sums; /* [threads, clusters]: distances of a point to the points of each cluster */
    double *scores;
} silhouettes;

static double score_point(const silhouettes *work, int64_t point, double *sums)
{
    int64_t own = work->labels[point];
    double nearest = INFINITY;
    if (work->size[own] == 1) return 0;
    memset(sums, 0, (size_t)work->clusters * sizeof *sums);
    for (int64_t i = 0; i < work->rows->count; i++)
        sums[work->labels[i]] += i == point ? 0 : zt_rows_distance(work->rows, point, i);
    for (int64_t i = 0; i < work->clusters; i++)
        if (i != own && work->size[i]) nearest = fmin(nearest, sums[i] / (double)work->size[i]);
    double inside = sums[own] / (double)(work->size[own] - 1), wider = fmax(inside, nearest);
    return isinf(nearest) || !(wider > 0) ? 0 : (nearest - inside) / wider;
}

static void score_share(void *user, int thread, int n_threads)
{
    const silhouettes *work = user;
    for (int64_t i = thread; i < work->count; i += n_threads)
        work->scores[i] = score_point(work, work->chosen ? work->chosen[i] : i, work->sums + thread * work->clusters);
}

zt_status zt_silhouettes(zt_ctx *ctx, zt_pool *pool, const zt_points *points, const int64_t *labels, int64_t clusters,
                         const int64_t *chosen, int64_t chosen_count, double *scores)
{
    ZT_REQUIRE(ctx, zt_points_good(points) && labels && clusters > 0 && chosen_count >= 0 && scores, ZT_EUSAGE);
    ZT_REQUIRE(ctx, chosen || chosen_count <= points->count, ZT_EUSAGE);
    zt_rows rows;
    size_t threads = pool ? (size_t)zt_pool_size(pool) : 1;
    zt_status status = zt_rows_make(ctx, points, &rows);
    int64_t *size = zt_calloc(ctx, (size_t)clusters, sizeof *size);
    double *sums = zt_alloc_array(ctx, threads, (size_t)clusters * sizeof *sums);
    silhouettes work = {&rows, labels, chosen, size, clusters, chosen_count, sums, scores};
    if (!status && (!size || !sums)) status = ZT_ENOMEM;
    for (int64_t i = 0; i < points->count && !status; i++) {
        if (labels[i] < 0 || labels[i] >= clusters)
            status = zt_fail(ctx, ZT_EUSAGE, "%s: label %lld of point %lld is not below %lld", __func__, (long long)labels[i],
                             (long long)i, (long long)clusters);
        else
            size[labels[i]]++;
    }
    if (!status && pool) zt_pool_run(pool, score_share, &work);
    if (!status && !pool) score_share(&work, 0, 1);
    zt_free(ctx, size);
    zt_free(ctx, sums);
    zt_rows_free(ctx, &rows);
    return status;
}
