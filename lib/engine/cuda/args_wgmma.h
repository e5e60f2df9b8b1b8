/* args_wgmma.h - what the kernels of *_sm90.cu are called with, for the host (C) and for them. */
#ifndef ZT_CU_ARGS_WGMMA_H
#define ZT_CU_ARGS_WGMMA_H

#include "lib/engine/cuda/args_llm.h"

#ifdef __cplusplus
#define ZT_CU_ALIGNED(n) alignas(n)
#else
#define ZT_CU_ALIGNED(n) _Alignas(n)
#endif

/* The driver's own form of a tensor, of which boxes are copied: cuTensorMapEncodeTiled makes it. */
typedef struct zt_cu_tensor_map {
    ZT_CU_ALIGNED(64) uint64_t word[16];
} zt_cu_tensor_map;

/* A block's tile is ROWS of a by 256 or 128 columns of b, DEEP of K a step. Two warpgroups
 * multiply, a third has the operands brought, STAGES steps ahead; each warp stages 64 columns of y
 * at a time. */
enum { ZT_CU_WG_ROWS = 128, ZT_CU_WG_DEEP = 64, ZT_CU_WG_THREADS = 384, ZT_CU_WG_STAGED = 8 * 16 * 72 * 2 };
#define ZT_CU_WG_STAGES(width) ((width) == 256 ? 4 : 6)
/* Of dynamic shared memory: stages from a multiple of 1024 on, y, two barriers a stage. */
#define ZT_CU_WG_BYTES(width)                                                                                                    \
    (1024 + ZT_CU_WG_STAGES(width) * ((ZT_CU_WG_ROWS + (width)) * ZT_CU_WG_DEEP * 2 + 16) + ZT_CU_WG_STAGED)

typedef struct zt_cu_wgmma_args {
    zt_cu_tensor_map a, b;           /* matrices one behind the other; boxes of 64 numbers side by side */
    zt_cu_matmul_args m;             /* y = a b */
    int64_t a_size, b_size, batches; /* elements of a matrix */
} zt_cu_wgmma_args;

/* Products of weights with one x (linear_sm90.cu): boxes of 64 columns by 128 rows. */
typedef struct zt_cu_wgmma_linear_args {
    zt_cu_tensor_map x, w[ZT_CU_PRODUCTS];
    zt_cu_linear_args l; /* units_slice is even */
    int32_t products, unused;
} zt_cu_wgmma_linear_args;

#endif
