/* cublas.cpp - as much of a libcublas as lib/engine/cuda/blas.c calls, in the emulated driver's
 * library (ZT_LIBCUBLAS may name that): a product is a launch of gemm.cu's kernel in the handle's
 * stream. It counts them in zt_cublas_calls, and insists on a stream and a workspace. */
#include "gemm.h"

#include <stdlib.h>

#define API extern "C" __attribute__((visibility("default")))

extern "C" {
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra);
}

enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

struct handle {
    void *stream, *room, *function;
};

API int zt_cublas_calls;
int zt_cublas_calls;

API int cublasCreate_v2(handle **h)
{
    void *module;
    *h = static_cast<handle *>(calloc(1, sizeof(handle)));
    if (cuModuleLoadData(&module, nullptr)) return NOT_INITIALIZED;
    return cuModuleGetFunction(&(*h)->function, module, "emu_gemm") ? NOT_INITIALIZED : OK;
}
API int cublasDestroy_v2(handle *h)
{
    free(h);
    return OK;
}
API int cublasSetStream_v2(handle *h, void *stream)
{
    h->stream = stream;
    return OK;
}
API int cublasSetWorkspace_v2(handle *h, void *room, size_t)
{
    h->room = room;
    return OK;
}
API int cublasSetMathMode(handle *, int mode) { return mode == 16 ? OK : INVALID_VALUE; }

API int cublasGemmStridedBatchedEx(handle *h, int op_a, int op_b, int m, int n, int k,
                                   const void *alpha, const void *a, int a_type, int lda,
                                   long long a_step, const void *b, int b_type, int ldb,
                                   long long b_step, const void *beta, void *c, int c_type, int ldc,
                                   long long c_step, int batches, int compute, int)
{
    const bool wide = a_type == 1;
    const auto number = [wide](const void *p) {
        return wide ? *static_cast<const double *>(p) : *static_cast<const float *>(p);
    };
    const double by = number(alpha), more = number(beta);
    if (!h->stream || !h->room) return NOT_INITIALIZED;
    if (a_type != b_type || a_type != c_type || by != 1 || more != 0 || compute != (wide ? 70 : 68))
        return NOT_SUPPORTED;
    if (m < 1 || n < 1 || k < 1 || batches < 1 || lda < (op_a ? k : m) || ldb < (op_b ? n : k) ||
        ldc < m)
        return INVALID_VALUE;
    emu_gemm_args g = {};
    g.a = reinterpret_cast<zt_cu_ptr>(a);
    g.b = reinterpret_cast<zt_cu_ptr>(b);
    g.c = reinterpret_cast<zt_cu_ptr>(c);
    g.a_step = a_step, g.b_step = b_step, g.c_step = c_step;
    g.m = m, g.n = n, g.k = k, g.batches = batches;
    g.a_transposed = op_a, g.b_transposed = op_b;
    g.lda = lda, g.ldb = ldb, g.ldc = ldc;
    g.type = a_type == 1   ? ZT_CU_F64
             : a_type == 0 ? ZT_CU_F32
             : a_type == 2 ? ZT_CU_F16
                           : ZT_CU_BF16;
    void *params[] = {&g};
    zt_cublas_calls++;
    return cuLaunchKernel(h->function, 4, 1, 1, 64, 1, 1, 0, h->stream, params, nullptr)
               ? EXECUTION_FAILED
               : OK;
}
