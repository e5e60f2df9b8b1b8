/* args_reduce.h - arguments of reduce.cu's kernels. */
#ifndef ZT_CU_ARGS_REDUCE_H
#define ZT_CU_ARGS_REDUCE_H

#include "lib/engine/cuda/args.h"

enum { ZT_CU_REDUCE_RANK = 10 };

typedef enum zt_cu_fold { ZT_CU_SUM, ZT_CU_PROD, ZT_CU_MAX, ZT_CU_MIN, ZT_CU_LSE } zt_cu_fold;

/* y[o, part] = what x's elements base(o) + gone(r) fold to, r from part * each up to the next part;
 * divided by `by`. Dimensions from the last, with their steps in x. */
typedef struct zt_cu_reduce_args {
    zt_cu_ptr x, y;
    int64_t kept, gone, parts, each;
    double by;
    int32_t fold, x_type, y_type, n_kept, n_gone, unused;
    int64_t kept_dim[ZT_CU_REDUCE_RANK], kept_step[ZT_CU_REDUCE_RANK];
    int64_t gone_dim[ZT_CU_REDUCE_RANK], gone_step[ZT_CU_REDUCE_RANK];
} zt_cu_reduce_args;

/* Along an axis: line l has its n entries `inner` apart, the first at l / inner * n * inner + l %
 * inner. */
typedef struct zt_cu_line_args {
    zt_cu_ptr x, y, i;
    int64_t n, inner, lines, k; /* topk: k entries of each */
    int32_t type, largest;      /* argmax, topk */
    int32_t exclusive, reverse; /* cumsum, cumprod */
} zt_cu_line_args;

#endif
