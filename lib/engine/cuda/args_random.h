/* args_random.h - arguments of random.cu's kernels. */
#ifndef ZT_CU_ARGS_RANDOM_H
#define ZT_CU_ARGS_RANDOM_H

#include "lib/engine/cuda/args.h"

/* y[i] = a + b times a draw of Philox(seed, *counter, i / 4). */
typedef struct zt_cu_random_args {
    zt_cu_ptr counter, y;
    int64_t n;
    uint64_t seed;
    double a, b;
    int32_t normal, unused;
} zt_cu_random_args;

#endif
