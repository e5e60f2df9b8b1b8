/* cluster_kmeans.c - k-means: Lloyd's passes from several starts, the best of which is kept. */
#include "lib/base/require.h"
#include "lib/train/cluster_internal.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_PASSES = 300 };

/* One start. Rows of `points` have unit length if the distance is the cosine's. */
typedef struct run {
    zt_ctx *ctx;
    zt_pool *pool;
    const zt_rows *points;
    int64_t clusters;
    uint64_t seed, sequence;    /* of the random numbers: `sequence` is the start */
    double *centroids;          /* [clusters, width] */
    int64_t *label;             /* [count] */
    double *distance;           /* [count]: cost of the point, as inertia sums it */
    double *trial, *trial_best; /* [count]: costs with one centroid more */
    int64_t *size;              /* [clusters] */
} run;

/* Squared distance, or 1 - cosine. */
static double cost_of(const run *start, int64_t point, const double *centroid)
{
    const double *row = zt_row_at(start->points, point);
    return start->points->cosine ? 1 - zt_dot(row, centroid, start->points->width)
                                 : zt_square_distance(row, centroid, start->points->width);
}

/* ---- starts ---------------------------------------------------------------------------------- */

static void place_centroid(run *start, int64_t cluster, int64_t point)
{
    size_t width = (size_t)start->points->width;
    memcpy(start->centroids + (size_t)cluster * width, zt_row_at(start->points, point), width * sizeof(double));
}

/* The first points of a random permutation. label is room for it. */
static void start_random(run *start)
{
    int64_t count = start->points->count, *order = start->label;
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = 0; i < start->clusters; i++) {
        int64_t other = i + (int64_t)(zt_uniform(start->seed, start->sequence, (uint64_t)i) * (double)(count - i));
        int64_t taken = order[other];
        order[other] = order[i];
        order[i] = taken;
        place_centroid(start, i, taken);
    }
}

/* The point at `share` of the sum of costs. The last point with a cost, should rounding lead past the end. */
static int64_t draw_by_cost(const run *start, double share)
{
    double sum = 0, below = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < start->points->count; i++) sum += start->distance[i];
    for (int64_t i = 0; i < start->points->count; i++) {
        if (!(start->distance[i] > 0)) continue;
        below += start->distance[i];
        last = i;
        if (below > share * sum) break;
    }
    return last;
}

/* Costs with one centroid more. */
typedef struct candidate {
    run *start;
    int64_t point; /* the centroid */
    double *cost;  /* [count] */
} candidate;

static void lower_cost(void *user, int64_t point)
{
    const candidate *work = user;
    double cost = fmax(cost_of(work->start, point, zt_row_at(work->start->points, work->point)), 0);
    work->cost[point] = fmin(cost, work->start->distance[point]);
}

/* k-means++, greedy: points are drawn with probabilities in proportion to their costs so far; the one that lowers the sum of costs
 * most becomes a centroid (Arthur and Vassilvitskii 2007, section 5). */
static void start_plus_plus(run *start)
{
    int64_t count = start->points->count, trials = 2 + (int64_t)log((double)start->clusters);
    for (int64_t i = 0; i < count; i++) start->distance[i] = INFINITY;
    for (int64_t i = 0; i < start->clusters; i++) {
        int64_t best = -1;
        double least = INFINITY;
        for (int64_t k = 0; k < (i ? trials : 1); k++) {
            double drawn = zt_uniform(start->seed, start->sequence, (uint64_t)(i * trials + k)), sum = 0;
            candidate work = {start, i ? draw_by_cost(start, drawn) : (int64_t)(drawn * (double)count), start->trial};
            zt_each_point(start->pool, count, lower_cost, &work);
            for (int64_t point = 0; point < count; point++) sum += start->trial[point];
            if (best >= 0 && sum >= least) continue;
            least = sum;
            best = work.point;
            double *held = start->trial_best;
            start->trial_best = start->trial;
            start->trial = held;
        }
        place_centroid(start, i, best);
        double *held = start->distance;
        start->distance = start->trial_best;
        start->trial_best = held;
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

typedef struct assignment {
    run *start;
    bool *changed; /* [count] */
} assignment;

static void assign_point(void *user, int64_t point)
{
    const assignment *work = user;
    run *start = work->start;
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < start->clusters; i++) {
        double cost = cost_of(start, point, start->centroids + i * start->points->width);
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    work->changed[point] = start->label[point] != best;
    start->label[point] = best;
    start->distance[point] = fmax(least, 0);
}

static void count_sizes(run *start)
{
    memset(start->size, 0, (size_t)start->clusters * sizeof *start->size);
    for (int64_t i = 0; i < start->points->count; i++) start->size[start->label[i]]++;
}

/* A cluster without points takes the point of the highest cost among clusters of two and more. Gives the number of such clusters. */
static int64_t fill_empty(run *start)
{
    int64_t filled = 0;
    for (int64_t empty = 0; empty < start->clusters; empty++) {
        int64_t farthest = -1;
        if (start->size[empty]) continue;
        for (int64_t i = 0; i < start->points->count; i++)
            if (start->size[start->label[i]] > 1 && (farthest < 0 || start->distance[i] > start->distance[farthest]))
                farthest = i;
        start->size[start->label[farthest]]--;
        start->label[farthest] = empty;
        start->distance[farthest] = 0;
        start->size[empty] = 1;
        filled++;
    }
    return filled;
}

/* Means of the clusters, in the order of the points; with cosine distances, of length 1. */
static void move_centroids(run *start)
{
    int64_t width = start->points->width;
    memset(start->centroids, 0, (size_t)(start->clusters * width) * sizeof(double));
    for (int64_t i = 0; i < start->points->count; i++) {
        double *sum = start->centroids + start->label[i] * width;
        const double *row = zt_row_at(start->points, i);
        for (int64_t k = 0; k < width; k++) sum[k] += row[k];
    }
    for (int64_t i = 0; i < start->clusters; i++) {
        double *sum = start->centroids + i * width, size = (double)start->size[i];
        double length = start->points->cosine ? sqrt(zt_dot(sum, sum, width)) : size;
        for (int64_t k = 0; k < width && length > 0; k++) sum[k] /= length;
    }
}

static double sum_costs(const run *start)
{
    double sum = 0;
    for (int64_t i = 0; i < start->points->count; i++) sum += start->distance[i];
    return sum;
}

/* Passes until no label changes. changed: room for [count]. */
static int64_t run_passes(run *start, int64_t most, bool *changed, bool *converged)
{
    assignment work = {start, changed};
    int64_t pass = 0;
    *converged = false;
    for (int64_t i = 0; i < start->points->count; i++) start->label[i] = -1;
    while (pass < most && !*converged) {
        bool moved = false;
        zt_each_point(start->pool, start->points->count, assign_point, &work);
        for (int64_t i = 0; i < start->points->count; i++) moved |= changed[i];
        count_sizes(start);
        moved |= fill_empty(start) > 0;
        *converged = !moved;
        if (moved) move_centroids(start);
        pass++;
    }
    return pass;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void keep_start(const run *start, zt_kmeans *out)
{
    memcpy(out->label, start->label, (size_t)start->points->count * sizeof *out->label);
    memcpy(out->centroids, start->centroids, (size_t)(start->clusters * start->points->width) * sizeof *out->centroids);
}

/* Clusters in the order of their first points. room: [clusters, width]. */
static void put_in_order(const run *start, zt_kmeans *out, double *room, int64_t *number)
{
    size_t width = (size_t)start->points->width;
    zt_number_labels(out->label, start->points->count, number, start->clusters);
    memcpy(room, out->centroids, (size_t)start->clusters * width * sizeof *room);
    for (int64_t i = 0; i < start->clusters; i++)
        memcpy(out->centroids + (size_t)number[i] * width, room + (size_t)i * width, width * sizeof *room);
}

static zt_status run_starts(run *start, const zt_kmeans_opts *options, zt_kmeans *out)
{
    int64_t most = options->passes ? options->passes : DEFAULT_PASSES, restarts = options->restarts ? options->restarts : 1;
    bool *changed = zt_alloc_array(start->ctx, (size_t)start->points->count, sizeof *changed);
    out->inertia = INFINITY;
    for (int64_t i = 0; i < restarts && changed; i++) {
        bool converged;
        start->sequence = (uint64_t)i;
        (options->random_start ? start_random : start_plus_plus)(start);
        int64_t passes = run_passes(start, most, changed, &converged);
        double inertia = sum_costs(start);
        if (inertia >= out->inertia) continue;
        out->inertia = inertia;
        out->passes = passes;
        out->converged = converged;
        keep_start(start, out);
    }
    if (changed) put_in_order(start, out, start->centroids, start->size);
    zt_free(start->ctx, changed);
    return changed ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_kmeans_run(zt_ctx *ctx, zt_pool *pool, const zt_points *points, const zt_kmeans_opts *options, zt_kmeans *out)
{
    ZT_REQUIRE(ctx, zt_points_good(points) && options && out, ZT_EUSAGE);
    *out = (zt_kmeans){0};
    ZT_REQUIRE(ctx, options->clusters > 0 && options->clusters <= points->count && options->restarts >= 0 && options->passes >= 0,
               ZT_EUSAGE);
    zt_rows rows;
    run start = {.ctx = ctx, .pool = pool, .points = &rows, .clusters = options->clusters, .seed = options->seed};
    size_t count = (size_t)points->count, clusters = (size_t)options->clusters, width = (size_t)points->width;
    zt_status status = zt_rows_make(ctx, points, &rows);
    out->label = zt_alloc_array(ctx, count, sizeof *out->label);
    out->centroids = zt_alloc_array(ctx, clusters, width * sizeof *out->centroids);
    start.centroids = zt_alloc_array(ctx, clusters, width * sizeof *start.centroids);
    start.label = zt_alloc_array(ctx, count, sizeof *start.label);
    start.distance = zt_alloc_array(ctx, count, sizeof *start.distance);
    start.trial = zt_alloc_array(ctx, count, sizeof *start.trial);
    start.trial_best = zt_alloc_array(ctx, count, sizeof *start.trial_best);
    start.size = zt_alloc_array(ctx, clusters, sizeof *start.size);
    bool room = out->label && out->centroids && start.centroids && start.label && start.distance && start.trial &&
                start.trial_best && start.size;
    if (!status) status = room ? run_starts(&start, options, out) : ZT_ENOMEM;
    zt_rows_free(ctx, &rows);
    zt_free(ctx, start.centroids);
    zt_free(ctx, start.label);
    zt_free(ctx, start.distance);
    zt_free(ctx, start.trial);
    zt_free(ctx, start.trial_best);
    zt_free(ctx, start.size);
    return status;
}

void zt_kmeans_free(zt_ctx *ctx, zt_kmeans *result)
{
    if (!result) return;
    zt_free(ctx, result->label);
    zt_free(ctx, result->centroids);
    *result = (zt_kmeans){0};
}
