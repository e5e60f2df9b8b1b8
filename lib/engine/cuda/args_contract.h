/* args_contract.h - what the kernels that have the bits of docs/arithmetic.md are called with, beside the structs of args_llm.h
 * that they share with the others.
 */
#ifndef ZT_CU_ARGS_CONTRACT_H
#define ZT_CU_ARGS_CONTRACT_H

#include "lib/engine/cuda/args.h"

/* How products sum: in one chain, in two, in two of pairs of bf16; or integers of 8 or 16 bits. */
typedef enum zt_cu_contract_way {
    ZT_CU_CONTRACT_ONE_CHAIN,
    ZT_CU_CONTRACT_TWO_CHAINS,
    ZT_CU_CONTRACT_PAIRS,
    ZT_CU_CONTRACT_8_BITS,
    ZT_CU_CONTRACT_16_BITS,
} zt_cu_contract_way;

/* A line of the page's table of block types: w = d v + n. */
typedef struct zt_cu_contract_form {
    int32_t dtype;  /* zt_cu_dtype */
    int32_t middle; /* what v subtracts from a code */
    int32_t shift;  /* bits that a sum of products has beyond 16 */
    int32_t bits;   /* of the integers by which the scale of a block is multiplied; 0: it is not */
    int32_t halves; /* a scale is for 16 columns */
    int32_t minima;
} zt_cu_contract_form;

typedef struct zt_cu_contract_product_args {
    zt_cu_ptr x;        /* f32[n,K], or codes: uint32[n][K / 32][parts][8], parts 1 for 8 bits and 2 for 16 */
    zt_cu_ptr heads;    /* of codes: zt_cu_contract_head[n][K / 32] */
    zt_cu_ptr w, b, y;  /* w: as in a file; b: f32[M] or 0 */
    zt_cu_ptr residual; /* f32[n,M] that is added last, or 0 */
    zt_cu_ptr grid;     /* the vectors that codes of w stand for, or 0 */
    int64_t n, K, M, row_bytes;
    int32_t block, block_bytes, way, unused;
    zt_cu_contract_form form;
} zt_cu_contract_product_args;

/* Of 32 columns of x: q e is the number, sums of q are of 16 columns each. */
typedef struct zt_cu_contract_head {
    float e;
    int32_t sum[2], unused;
} zt_cu_contract_head;

typedef enum zt_cu_contract_fn { ZT_CU_CONTRACT_SCALE, ZT_CU_CONTRACT_SWIGLU, ZT_CU_CONTRACT_GEGLU_TANH } zt_cu_contract_fn;

/* y[i] = f(a[i], b[i]), or f(a[i], by). */
typedef struct zt_cu_contract_map_args {
    zt_cu_ptr a, b, y;
    int64_t n;
    double by;
    int32_t fn, unused;
} zt_cu_contract_map_args;

#endif
