/* args_shape.h - arguments of shape.cu's kernels. */
#ifndef ZT_CU_ARGS_SHAPE_H
#define ZT_CU_ARGS_SHAPE_H

#include "lib/engine/cuda/args.h"

enum { ZT_CU_SHAPE_RANK = 10 };

/* Elements one after the other in one value and in steps in the other: y[i] = x[base + steps], or
 * with `put` y[base + steps] = x[i]. Dimensions from the last. */
typedef struct zt_cu_move_args {
    zt_cu_ptr x, y;
    int64_t n, base;
    int32_t put, n_dims;
    int64_t dim[ZT_CU_SHAPE_RANK], step[ZT_CU_SHAPE_RANK];
} zt_cu_move_args;

/* Rows and columns change places: y[r * y_step + c] = x[r + c * x_step] in elements, of each of
 * `batches`, which dimensions (from the last) make with their steps in x and y. */
typedef struct zt_cu_transpose_args {
    zt_cu_ptr x, y;
    int64_t rows, columns, x_step, y_step, batches;
    int32_t n_dims, unused;
    int64_t dim[ZT_CU_SHAPE_RANK], x_at[ZT_CU_SHAPE_RANK], y_at[ZT_CU_SHAPE_RANK];
} zt_cu_transpose_args;

/* y[.., r, c] = x[.., r, c] where sign * (c - r) is at most sign * diagonal, else 0. */
typedef struct zt_cu_triangle_args {
    zt_cu_ptr x, y;
    int64_t n, rows, columns, diagonal;
    int32_t sign;
} zt_cu_triangle_args;

/* Along each dimension (from the last) of y: x's size, the entries before it. mode: the first
 * letter of pad's word; fill: the bits of a constant. */
typedef struct zt_cu_pad_args {
    zt_cu_ptr x, y;
    int64_t n;
    uint64_t fill;
    int32_t n_dims, mode;
    int64_t dim[ZT_CU_SHAPE_RANK], size[ZT_CU_SHAPE_RANK], before[ZT_CU_SHAPE_RANK];
} zt_cu_pad_args;

/* The sums of pad's gradient along one dimension: x [outer, padded, inner], y [outer, size, inner].
 */
typedef struct zt_cu_pad_back_args {
    zt_cu_ptr x, y;
    int64_t n, padded, size, inner, before; /* n: elements of y */
    int32_t x_type, y_type, mode, unused;
} zt_cu_pad_back_args;

#endif
