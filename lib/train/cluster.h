/* cluster.h - groups of points: k-means, agglomerative clustering, silhouettes.
 *
 *     zt_points points = {values, count, width, ZT_EUCLIDEAN};
 *     zt_kmeans result;
 *     zt_kmeans_run(ctx, pool, &points, &(zt_kmeans_opts){.clusters = 3, .restarts = 10}, &result);
 *     zt_silhouettes(ctx, pool, &points, result.label, 3, NULL, count, score);
 *     zt_kmeans_free(ctx, &result);
 *
 * Distances and sums are f64, in an order that depends on the data only: the same bits for any number of threads. A pool that is
 * NULL stands for the calling thread. The cosine distance is 1 - a.b / (|a| |b|); it is 1 where a vector is 0.
 *
 * Sources: Lloyd 1982 (k-means); Arthur and Vassilvitskii 2007 (k-means++); Rousseeuw 1987 (silhouettes); Lance and Williams 1967
 * (distances of merged clusters); Müllner 2011, arXiv:1109.2378 (nearest-neighbour chains).
 */
#ifndef ZT_TRAIN_CLUSTER_H
#define ZT_TRAIN_CLUSTER_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zt_distance { ZT_EUCLIDEAN, ZT_COSINE } zt_distance;

typedef struct zt_points {
    const float *values; /* [count, width], finite */
    int64_t count, width;
    zt_distance distance;
} zt_points;

/* ---- k-means --------------------------------------------------------------------------------- */

typedef struct zt_kmeans_opts {
    int64_t clusters;  /* 1 to the number of points */
    bool random_start; /* the first centroids are points of a random permutation, as in openfluke/loom; else k-means++ */
    int64_t restarts;  /* starts, of which the best is kept; 0: 1 */
    int64_t passes;    /* maximum number of passes over the points per start; 0: 300 */
    uint64_t seed;
} zt_kmeans_opts;

typedef struct zt_kmeans {
    int64_t *label;    /* [count]: clusters numbered by their first point */
    double *centroids; /* [clusters, width]: means; with cosine distances, means of unit vectors, of length 1 */
    double inertia;    /* sum of squared distances to the centroids; with cosine distances, sum of distances */
    int64_t passes;    /* of the start that is kept */
    bool converged;    /* the last pass changed no label */
} zt_kmeans;

/* Finds clusters with a low inertia. A cluster without points takes the point that is farthest from its centroid. out is the
 * caller's; free it with zt_kmeans_free, on error too. ZT_EUSAGE: clusters, restarts or passes out of range. ZT_ENOMEM. */
zt_status zt_kmeans_run(zt_ctx *ctx, zt_pool *pool, const zt_points *points, const zt_kmeans_opts *options, zt_kmeans *out);
void zt_kmeans_free(zt_ctx *ctx, zt_kmeans *result); /* the arrays of result; NULL: no effect */

/* ---- agglomerative clustering ----------------------------------------------------------------- */

/* The distance of two clusters: of their nearest points, of their farthest, the mean over pairs, or sqrt(2 |a| |b| / (|a| + |b|))
 * times the distance of their means (ward: Euclidean distances only). */
typedef enum zt_linkage { ZT_SINGLE, ZT_COMPLETE, ZT_AVERAGE, ZT_WARD } zt_linkage;

/* One step: two clusters become one. Clusters below the number of points are single points; cluster count + i is the result of step i. */
typedef struct zt_linkage_step {
    int64_t left, right; /* clusters, left < right */
    double distance;     /* never below that of the step before */
    int64_t size;        /* points of the result */
} zt_linkage_step;

/* The steps[count - 1] from single points to one cluster. Memory: O(count) for single, 4 count^2 bytes else. ZT_EUSAGE: ward with
 * cosine distances. ZT_ENOMEM. */
zt_status zt_linkage_find(zt_ctx *ctx, zt_pool *pool, const zt_points *points, zt_linkage linkage, zt_linkage_step *steps);
/* The labels[count] after all steps up to `threshold`, or until `clusters` remain (0: by the threshold); clusters are numbered by
 * their first point. Gives the number of clusters; -1: no memory. */
int64_t zt_linkage_cut(zt_ctx *ctx, const zt_linkage_step *steps, int64_t count, double threshold, int64_t clusters,
                       int64_t *labels);

/* ---- silhouettes ------------------------------------------------------------------------------ */

/* scores[i] is the silhouette of point chosen[i] among all points, or of point i if chosen is NULL: (b - a) / max(a, b), with a the
 * mean distance to the points of its own cluster and b that to the nearest other cluster; 0 for the only point of a cluster, and
 * where all labels are the same. labels are from 0 to clusters - 1. ZT_ENOMEM. */
zt_status zt_silhouettes(zt_ctx *ctx, zt_pool *pool, const zt_points *points, const int64_t *labels, int64_t clusters,
                         const int64_t *chosen, int64_t chosen_count, double *scores);

#ifdef __cplusplus
}
#endif
#endif
