/* args_loss.h - arguments of loss.cu's kernels. */
#ifndef ZT_CU_ARGS_LOSS_H
#define ZT_CU_ARGS_LOSS_H

#include "lib/engine/cuda/args.h"

typedef enum zt_cu_pair_loss { ZT_CU_MSE, ZT_CU_SMOOTH_L1, ZT_CU_BCE } zt_cu_pair_loss;

/* y[i] of each, or with `sums` the sum of each `each` of them, f64 of f64, else f32. */
typedef struct zt_cu_pair_args {
    zt_cu_ptr x, target, y;
    int64_t n, each;
    double p; /* smooth_l1's beta */
    int32_t type, kind, sums, unused;
} zt_cu_pair_args;

/* Positions: `inner` of each sample, whose classes lie inner apart. Sums are f64 of f64, else f32.
 */
typedef struct zt_cu_class_args {
    zt_cu_ptr x, target, weight, trouble; /* weight 0: 1 each */
    zt_cu_ptr y, lse;                     /* forward: lse 0: not wanted; backward: lse is read */
    zt_cu_ptr dy, dx, total, all;         /* backward: sums of the targets' weights, of all */
    int64_t positions, classes, inner, ignore;
    double smoothing;
    int32_t type, y_type; /* of x, weight, lse, dy and dx; of y */
    int32_t nll;          /* x are log-probabilities, no logits */
    int32_t each;         /* dy is one a position */
} zt_cu_class_args;

/* y[0] = a[0] / b[0]; a and b f64 where y is, else f32. */
typedef struct zt_cu_ratio_args {
    zt_cu_ptr a, b, y;
    int32_t type, unused;
} zt_cu_ratio_args;

#endif
