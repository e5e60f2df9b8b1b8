/* args_index.h - arguments of index.cu's kernels. */
#ifndef ZT_CU_ARGS_INDEX_H
#define ZT_CU_ARGS_INDEX_H

#include "lib/engine/cuda/args.h"

enum { ZT_CU_INDEX_RANK = 10 };

/* What is done with an entry that is there and one that comes. */
typedef enum zt_cu_merge { ZT_CU_PUT, ZT_CU_ADD, ZT_CU_TIMES, ZT_CU_LARGER, ZT_CU_SMALLER } zt_cu_merge;

/* Parts of `rest` elements of x at `tuples` tuples of k indices each (i32), which are places along
 * the dimensions `dim`, the last of them last; of x, each `per_batch` tuples have the next
 * `span`. */
typedef struct zt_cu_parts_args {
    zt_cu_ptr x, i, u, y, trouble; /* gather: y from x; scatter: u into y */
    int64_t tuples, k, rest, per_batch, span;
    int64_t dim[ZT_CU_INDEX_RANK];
    int32_t fails; /* an index out of range is trouble */
    int32_t x_type, y_type, merge;
    int64_t buckets; /* scatter: places are dealt out to so many threads, */
    int64_t batches; /* of each batch */
} zt_cu_parts_args;

/* Elements along an axis: i has `lines` lines of n indices into x's size entries. Dimensions but
 * the axis, from the last, with the steps of i (and u) and of x. */
typedef struct zt_cu_elements_args {
    zt_cu_ptr x, i, u, y, trouble;
    int64_t lines, n, size, i_step, x_step; /* of the axis */
    int32_t fails, type, y_type, merge, n_dims, unused;
    int64_t dim[ZT_CU_INDEX_RANK], i_at[ZT_CU_INDEX_RANK], x_at[ZT_CU_INDEX_RANK];
} zt_cu_elements_args;

typedef struct zt_cu_one_hot_args {
    zt_cu_ptr i, y, trouble;
    int64_t n, depth;
    int32_t fails, unused;
} zt_cu_one_hot_args;

#endif
