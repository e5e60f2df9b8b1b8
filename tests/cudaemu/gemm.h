/* gemm.h - arguments of gemm.cu's kernel: what cublas.cpp was asked for. */
#ifndef ZT_EMU_GEMM_H
#define ZT_EMU_GEMM_H

#include "lib/engine/cuda/args.h"

typedef struct emu_gemm_args {
    zt_cu_ptr a, b, c, bias;        /* bias: added to each column; 0: none */
    int64_t a_step, b_step, c_step; /* from matrix to matrix */
    int32_t m, n, k, batches;
    int32_t a_transposed, b_transposed, lda, ldb, ldc;
    int32_t type; /* zt_cu_dtype */
} emu_gemm_args;

#endif
