/* args_quant.h - arguments of quant.cu's kernels. */
#ifndef ZT_CU_ARGS_QUANT_H
#define ZT_CU_ARGS_QUANT_H

#include "lib/engine/cuda/args.h"

/* Element i has the scale of its entry along an axis of `size` entries, `inner` elements apart: one
 * for all (one), one an entry (block 0), or one for each `block` of them, `blocks` along the axis. */
typedef struct zt_cu_quant_args {
    zt_cu_ptr x, scale, zero, y; /* zero 0: none */
    int64_t n, size, inner, block, blocks;
    double least, most; /* of the codes */
    int32_t one, saturate;
    int32_t x_type, y_type, scale_type, code_type;
} zt_cu_quant_args;

#endif
