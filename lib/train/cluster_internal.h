/* cluster_internal.h - private to lib/train/cluster*.c: points as rows of f64, and work on each point. */
#ifndef ZT_TRAIN_CLUSTER_INTERNAL_H
#define ZT_TRAIN_CLUSTER_INTERNAL_H

#include "lib/train/cluster.h"

/* Points in f64; with cosine distances, of length 1, or 0 where the point is 0. */
typedef struct zt_rows {
    double *values; /* [count, width] */
    int64_t count, width;
    bool cosine;
} zt_rows;

bool zt_points_good(const zt_points *points); /* are there values, at least one point and one number a point? */
zt_status zt_rows_make(zt_ctx *ctx, const zt_points *points, zt_rows *out);
void zt_rows_free(zt_ctx *ctx, zt_rows *rows);
static inline const double *zt_row_at(const zt_rows *rows, int64_t i) { return rows->values + i * rows->width; }
double zt_rows_distance(const zt_rows *rows, int64_t i, int64_t j);

/* Sums over eight partial sums, of the elements with the same index modulo 8. */
double zt_dot(const double *left, const double *right, int64_t width);
double zt_square_distance(const double *left, const double *right, int64_t width);

/* fn for each point, on the threads of the pool, or on the caller's if pool is NULL. */
typedef void zt_point_fn(void *user, int64_t point);
void zt_each_point(zt_pool *pool, int64_t count, zt_point_fn *fn, void *user);

/* Numbers labels 0, 1, ... in the order of their first points. Labels are below `most`; number[most] receives the new number of each,
 * in order of the old one for labels without points. Gives the number of labels that have points. */
int64_t zt_number_labels(int64_t *labels, int64_t count, int64_t *number, int64_t most);

#endif
