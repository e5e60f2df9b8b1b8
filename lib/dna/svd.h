/* svd.h - private to lib/dna: the largest singular values and vectors of a matrix. */
#ifndef ZT_SVD_H
#define ZT_SVD_H

#include "lib/base/base.h"

typedef struct zt_svd {
    int64_t rows, columns;
    int64_t rank; /* wanted; may be more than there are: what is past those is 0 */
    uint64_t seed;
    float *left;    /* [rank, rows] the i-th left vector times the root of its value */
    float *right;   /* [rank, columns] the same for right vectors */
    double *values; /* [rank] falling */
} zt_svd;

/* d: [rows, columns]. left, right and value are the caller's. */
zt_status zt_svd_find(zt_ctx *ctx, zt_pool *pool, const float *matrix, zt_svd *out);

#endif
