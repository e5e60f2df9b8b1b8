/* args_conv.h - arguments of conv.cu's and pool.cu's kernels. */
#ifndef ZT_CU_ARGS_CONV_H
#define ZT_CU_ARGS_CONV_H

#include "lib/engine/cuda/args.h"

enum { ZT_CU_WINDOW_RANK = 8 };

/* Windows over n spatial dimensions of a large value that give a small one's elements: along each,
 * tap k of element o meets i = o * stride + k * dilation - pad, as lib/ops/window.h has it. */
typedef struct zt_cu_window {
    zt_cu_ptr reach; /* int32[taps][n]: k * dilation along each */
    int64_t n_in, n_out, taps;
    int32_t n, unused;
    int64_t in[ZT_CU_WINDOW_RANK], out[ZT_CU_WINDOW_RANK], k[ZT_CU_WINDOW_RANK];
    int64_t stride[ZT_CU_WINDOW_RANK], pad[ZT_CU_WINDOW_RANK], end[ZT_CU_WINDOW_RANK];
    int64_t dilation[ZT_CU_WINDOW_RANK];
} zt_cu_window;

/* What is summed: y of small from large (conv), of large from small (transposed), or w's gradient. */
typedef enum zt_cu_conv_kind { ZT_CU_FORWARD, ZT_CU_DATA, ZT_CU_FILTER } zt_cu_conv_kind;

/* large [N,B,in], small [N,A,out], w [A,B/groups,taps]: one of them is y. Of a filter's sums, each
 * part of `each` samples' elements is y[.., part]. */
typedef struct zt_cu_conv_args {
    zt_cu_ptr large, small, w, bias, y; /* bias 0: none */
    int64_t N, A, B, groups, parts, each;
    int32_t type, y_type, kind, unused;
    zt_cu_window win;
} zt_cu_conv_args;

typedef enum zt_cu_pool_kind {
    ZT_CU_POOL_MAX,
    ZT_CU_POOL_AVG,
    ZT_CU_POOL_LP,
    ZT_CU_POOL_SMOOTH,
    ZT_CU_POOL_MEAN /* smooth_max_mean */
} zt_cu_pool_kind;

/* x large and y small of `planes` planes each, or (unpool) the other way round. */
typedef struct zt_cu_pool_args {
    zt_cu_ptr x, y, i; /* i: max_pool's indices, 0: not wanted; y 0: not wanted */
    zt_cu_ptr top, v;  /* of smooth_max_unpool and mean: the pool's y, and v */
    int64_t planes, divisor;
    double p, pad_value; /* lp's p, smooth's beta; what padding counts as */
    int32_t type, kind, count_pad, unused;
    zt_cu_window win;
} zt_cu_pool_args;

#endif
