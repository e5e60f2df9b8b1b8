/* args_persistent_kernel.h - stages of the kernel that stays: what host (persistent_kernel.c) and kernel (persistent_kernel.cu)
 * know of them. */
#ifndef ZT_CU_ARGS_PERSISTENT_KERNEL_H
#define ZT_CU_ARGS_PERSISTENT_KERNEL_H

#include "lib/engine/cuda/args_llm.h"

/* Products come last, by type: persistent_kernel.c has their names. Weights of f32, f16 and bf16 follow the
 * packed ones; pair: of f16, x as pairs of it; half: of bf16, x rounded to it. */
enum {
    ZT_CU_STAGE_NORM,
    ZT_CU_STAGE_GATE,
    ZT_CU_STAGE_ROPE_KV_WRITE,
    ZT_CU_STAGE_ROWS,
    ZT_CU_STAGE_ROWS_PACKED,
    ZT_CU_STAGE_ATTENTION_64,
    ZT_CU_STAGE_ATTENTION_128,
    ZT_CU_STAGE_ATTENTION_256,
    ZT_CU_STAGE_JOIN,
#define X(type) ZT_CU_STAGE_DECODE_##type,
    ZT_CU_PACKED_TYPES(X)
#undef X
        ZT_CU_STAGE_DECODE_f32,
    ZT_CU_STAGE_DECODE_pair,
    ZT_CU_STAGE_DECODE_bf16,
    ZT_CU_STAGE_DECODE_half,
    ZT_CU_STAGES
};

/* What a launch would have been: `blocks` blocks, which the kernel's own blocks take in turn, the
 * first of them by block number `skew`, so that stages beside each other keep all busy. */
typedef struct zt_cu_stage {
    int32_t kind, blocks, skew;
    int32_t across, up; /* of these blocks in x and y; z is the rest */
    int32_t waits;      /* for all blocks to be done with what is before it */
    union {
        zt_cu_norm_args norm;
        zt_cu_gate_args gate;
        zt_cu_rope_kv_write_args rope_kv_write;
        zt_cu_rows_args rows;
        zt_cu_attention_args attention; /* and the join of its splits */
        zt_cu_decode_args decode;
    } of;
} zt_cu_stage;

typedef struct zt_cu_persistent_kernel_args {
    zt_cu_ptr stages, word; /* word: grid_barrier's */
    int64_t n;
} zt_cu_persistent_kernel_args;

#endif
