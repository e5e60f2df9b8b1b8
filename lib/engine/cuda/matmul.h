/* matmul.h - what both files of kernels of products of matrices need. */
#ifndef ZT_CU_MATMUL_H
#define ZT_CU_MATMUL_H

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/prim.h"

/* Where the matrices of batch `rest` begin, in elements. */
FN void batch_of(const zt_cu_matmul_args &a, int64_t rest, int64_t *at_a, int64_t *at_b)
{
    *at_a = *at_b = 0;
    for (int d = a.rank - 1; d >= 0; d--) {
        *at_a += rest % a.dim[d] * a.a_step[d];
        *at_b += rest % a.dim[d] * a.b_step[d];
        rest /= a.dim[d];
    }
}

FN void mma_of(f16, float d[4], const uint32_t a[4], const uint32_t b[2]) { mma_f16(d, a, b); }
FN void mma_of(bf16, float d[4], const uint32_t a[4], const uint32_t b[2]) { mma_bf16(d, a, b); }

#endif
