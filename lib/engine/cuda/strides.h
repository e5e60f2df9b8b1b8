/* strides.h - private to lib/engine/cuda: where the elements of operands that broadcast are. */
#ifndef ZT_CU_STRIDES_H
#define ZT_CU_STRIDES_H

#include "lib/engine/cuda/cu.h"

/* y's dimensions from the last, those that go on from each other in all operands as one; and for
 * each operand the elements from one index to the next, 0 where it is repeated. */
typedef struct zt_cu_strides {
    int axis_count; /* at least 1 */
    int64_t dims[ZT_MAX_RANK], steps[ZT_MAX_IN][ZT_MAX_RANK];
} zt_cu_strides;

zt_cu_strides zt_cu_strides_of(const zt_type *const input_types[], int n_in, const zt_type *y_type);
/* Operand k's element for y's element i is i / each % size; false: it is no such. */
bool zt_cu_strides_periodic(const zt_cu_strides *strides, int k, int64_t *each, int64_t *size);
/* Blocks of `each` threads for n items in a loop that any grid will do for. */
zt_cu_dim zt_cu_spread(const zt_cu_call *call, int64_t item_count, int64_t threads);
/* A kernel whose threads take an item each, of n, in such a loop: in blocks of 256. */
zt_status zt_cu_launch_each(zt_cu_call *call, const char *name, int64_t item_count, const void *args, size_t bytes);
/* f64 f32 f16 bf16, integers of 8 to 64 bits, bool. */
bool zt_cu_is_plain(zt_dtype dtype);
bool zt_cu_is_wide_float(zt_dtype dtype); /* f64 too */
/* Which of ZT_CU_FLOAT_NAMES is that of t. */
int zt_cu_float_index(zt_dtype dtype); /* 0 f32, 1 f16, 2 bf16, 3 f64 */
#define ZT_CU_FLOAT_NAMES(name)                                                                                                  \
    {                                                                                                                            \
#name "_f32", #name "_f16", #name "_bf16", #name "_f64"                                                                  \
    }

#endif
