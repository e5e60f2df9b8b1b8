/* norm.h - private to lib/engine/cuda: what rows of norms, of softmax and of rotations by tables share. */
#ifndef ZT_CU_NORM_H
#define ZT_CU_NORM_H

#include "lib/engine/cuda/cu.h"

/* A kernel of each type of numbers. */
static const char *of_type(zt_dtype dtype, const char *const names[4])
{
    return names[dtype == ZT_F32 ? 0 : dtype == ZT_F16 ? 1 : dtype == ZT_BF16 ? 2 : 3];
}

static inline int64_t last_dim(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }

static inline bool has_float(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                             const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    int64_t element_count = zt_type_count(input_types[0]);
    return (zt_cu_is_float(input_types[0]->dtype) || input_types[0]->dtype == ZT_F64) &&
           element_count <= (int64_t)engine->max_grid[0];
}

/* Threads for a row of K, which the order of its sum depends on. */
static inline unsigned threads_of(int64_t K)
{
    unsigned threads = 32;
    while (threads < 512 && (int64_t)threads * 8 < K) threads *= 2;
    return threads;
}

#endif
