/* blas.h - private: products of matrices by cuBLAS, where the environment's ZT_LIBCUBLAS names it.
 *
 * Without that, and for what it does not take, they are matmul.cu's. What it gives is the same
 * from run to run, but rows may depend on how many there are: op matmul alone goes there, which no
 * language model's forward pass has. Types and numbers as cuBLAS 11 to 13 have them.
 */
#ifndef ZT_CU_BLAS_H
#define ZT_CU_BLAS_H

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

/* name in libcublas, name here, parameters */
#define ZT_CU_BLAS_API(X)                                                                          \
    X(cublasCreate_v2, Create, (void **handle))                                                    \
    X(cublasDestroy_v2, Destroy, (void *handle))                                                   \
    X(cublasSetStream_v2, SetStream, (void *handle, zt_cu_stream s))                               \
    X(cublasSetWorkspace_v2, SetWorkspace, (void *handle, void *room, size_t bytes))               \
    X(cublasSetMathMode, SetMathMode, (void *handle, int mode))                                    \
    X(cublasGemmStridedBatchedEx, Gemm,                                                            \
      (void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,    \
       int a_type, int a_columns, long long a_step, const void *b, int b_type, int b_columns,      \
       long long b_step, const void *beta, void *c, int c_type, int c_columns, long long c_step,   \
       int batches, int compute, int algorithm))

typedef struct zt_cu_blas {
    void *library, *handle;
    zt_cu_mem room; /* its workspace: with that it allocates nothing, and can be captured */
#define X(symbol, name, params) int(*name) params;
    ZT_CU_BLAS_API(X)
#undef X
} zt_cu_blas;

/* Once the stream is there; nothing where none is named. ZT_ENOTSUP and why where it cannot be had. */
zt_status zt_cu_blas_open(zt_cu_engine *e);
void zt_cu_blas_close(zt_cu_engine *e);
/* y = a b, each transposed or not, by cuBLAS: *done, or it takes no such product. */
zt_status zt_cu_blas_multiply(zt_cu_call *c, const zt_cu_matmul_args *a, bool ta, bool tb,
                              bool *done);

#endif
