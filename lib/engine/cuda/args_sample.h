/* args_sample.h - arguments of sample.cu's kernel. */
#ifndef ZT_CU_ARGS_SAMPLE_H
#define ZT_CU_ARGS_SAMPLE_H

#include "lib/engine/cuda/args.h"

typedef struct zt_cu_sample_args {
    zt_cu_ptr x, u, temp, top_k, top_p, min_p, penalty, recent, banned, y; /* as the op's */
    zt_cu_ptr orders;                                                      /* u32 of each entry of x: scratch */
    int64_t n, n_recent, n_banned;                                         /* of a row */
    int32_t x_type, own;                                                   /* own: each row has its list of what is banned */
} zt_cu_sample_args;

#endif
