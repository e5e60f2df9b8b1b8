/* blas.h - private: products of matrices by cuBLAS, and with biases by cuBLASLt, which comes with it,
 * where the environment's ZT_LIBCUBLAS names it.
 *
 * Without that, and for what it does not take, they are matmul.cu's and linear*.cu's. What it gives
 * is the same from run to run, but rows may depend on how many there are. So it makes op matmul, which
 * no language model's forward pass has, and `linear` with weights that were not loaded from a model:
 * those of a training run, or a caller's. Types and numbers as cuBLAS 11 to 13 have them.
 */
#ifndef ZT_CU_BLAS_H
#define ZT_CU_BLAS_H

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

/* name in libcublas, name here, parameters */
// clang-format off
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
// clang-format on

typedef struct zt_cu_blas_calls {
#define X(symbol, name, params) int(*name) params;
    ZT_CU_BLAS_API(X)
#undef X
} zt_cu_blas_calls;

/* The same of cuBLASLt, on which libcublas stands: its functions are found in the one library. */
// clang-format off
#define ZT_CU_LT_API(X)                                                                            \
    X(cublasLtCreate, Create, (void **handle))                                                     \
    X(cublasLtDestroy, Destroy, (void *handle))                                                    \
    X(cublasLtMatmulDescCreate, DescCreate, (void **d, int compute, int scale))                    \
    X(cublasLtMatmulDescDestroy, DescDestroy, (void *d))                                           \
    X(cublasLtMatmulDescSetAttribute, DescSet, (void *d, int what, const void *v, size_t bytes))   \
    X(cublasLtMatrixLayoutCreate, LayoutCreate,                                                    \
      (void **l, int type, uint64_t rows, uint64_t columns, int64_t step))                         \
    X(cublasLtMatrixLayoutDestroy, LayoutDestroy, (void *l))                                       \
    X(cublasLtMatmulPreferenceCreate, WishCreate, (void **w))                                      \
    X(cublasLtMatmulPreferenceDestroy, WishDestroy, (void *w))                                     \
    X(cublasLtMatmulPreferenceSetAttribute, WishSet,                                               \
      (void *w, int what, const void *v, size_t bytes))                                            \
    X(cublasLtMatmulAlgoGetHeuristic, Choose,                                                      \
      (void *handle, void *d, void *a, void *b, void *c, void *y, void *wish, int most,            \
       zt_cu_lt_choice *choices, int *n))                                                          \
    X(cublasLtMatmul, Multiply,                                                                    \
      (void *handle, void *d, const void *alpha, const void *a, void *a_layout, const void *b,     \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *y, void *y_layout,   \
       const uint64_t *algorithm, void *room, size_t bytes, zt_cu_stream s))
// clang-format on

typedef struct zt_cu_lt_choice { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t room;
    int status;
    float waves;
    int reserved[4];
} zt_cu_lt_choice;

typedef struct zt_cu_lt_calls {
#define X(symbol, name, params) int(*name) params;
    ZT_CU_LT_API(X)
#undef X
} zt_cu_lt_calls;

typedef struct zt_cu_blas {
    void *library, *handle;
    zt_cu_mem room; /* its workspace: with that it allocates nothing, and can be captured */
    zt_cu_blas_calls call;
    void *lt_handle; /* the other's handle; NULL: the library has none */
    zt_cu_lt_calls lt_call;
} zt_cu_blas;

/* Once the stream is there; nothing where none is named. ZT_ENOTSUP and why where it cannot be had. */
zt_status zt_cu_blas_open(zt_cu_engine *engine);
void zt_cu_blas_close(zt_cu_engine *engine);
/* y = a b, each transposed or not, by cuBLAS: *done, or it takes no such product. */
zt_status zt_cu_blas_multiply(zt_cu_call *call, const zt_cu_matmul_args *args, bool ta, bool tb, bool *done);
/* blas_lt.c: the first n products, and what comes after, by cuBLASLt: *done, or it does not take them
 * all. */
zt_status zt_cu_blas_linear(zt_cu_call *call, const zt_cu_linear_args *args, unsigned n, bool *done);
enum { ZT_CU_BLAS_ROOM = 32 << 20 }; /* what it recommends for Hopper; elsewhere 4 MiB would do */
zt_status zt_cu_blas_check(zt_cu_engine *engine, int result, const char *call); /* call: without "cublas" */

#endif
