/* blas.c - cuBLAS, opened at run time, and products of matrices by it. */
#include "lib/engine/cuda/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Numbers of its enumerations. */
enum {
    OP_N = 0,
    OP_T = 1,
    ALLOC_FAILED = 3,
    EXACT_SUMS = 16, /* CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION */
    COMPUTE_32F = 68,
    COMPUTE_64F = 70,
    DEFAULT = -1
};

zt_status zt_cu_blas_check(zt_cu_engine *engine, int result, const char *call)
{
    if (result == 0) return ZT_OK;
    if (result == ALLOC_FAILED) return zt_fail(engine->base.ctx, ZT_ENOMEM, "cuda: cublas%s: out of memory", call);
    return zt_fail(engine->base.ctx, ZT_ESYS, "cuda: cublas%s: status %d", call, result);
}

/* ---- the library ----------------------------------------------------------------------------- */

static const char *const symbols[] = {
#define X(symbol, name, params) #symbol,
    ZT_CU_BLAS_API(X)
#undef X
        NULL};

static const char *const lt_symbols[] = {
#define X(symbol, name, params) #symbol,
    ZT_CU_LT_API(X)
#undef X
        NULL};

static zt_status open_lt(zt_cu_engine *engine)
{
    zt_cu_blas *blas = engine->blas;
    const char *lacks = zt_cu_symbols(blas->library, lt_symbols, &blas->lt_call);
    if (lacks) {
        zt_log(engine->base.ctx, ZT_LOG_INFO, "cuda: cuBLAS has no %s: using zt's own kernels for linear", lacks);
        return ZT_OK;
    }
    zt_status status = zt_cu_blas_check(engine, blas->lt_call.Create(&blas->lt_handle), "LtCreate");
    if (status) blas->lt_handle = NULL;
    return status;
}

static zt_status open_named(zt_cu_engine *engine, const char *name)
{
    zt_cu_blas *blas = engine->blas;
    const zt_cu_blas_calls *calls = &blas->call;
    zt_status status = zt_cu_beside(engine->base.ctx, name, "cuBLAS", symbols, &blas->call, &blas->library);
    if (status) return status;
    status = zt_cu_blas_check(engine, calls->Create(&blas->handle), "Create");
    if (status) blas->handle = NULL;
    if (!status) status = zt_cu_blas_check(engine, calls->SetStream(blas->handle, engine->stream), "SetStream");
    if (!status) status = zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, ZT_CU_BLAS_ROOM, &blas->room);
    if (!status)
        status = zt_cu_blas_check(
            engine, calls->SetWorkspace(blas->handle, (void *)(uintptr_t)blas->room.address, ZT_CU_BLAS_ROOM), "SetWorkspace");
    if (!status) status = zt_cu_blas_check(engine, calls->SetMathMode(blas->handle, EXACT_SUMS), "SetMathMode");
    return status ? status : open_lt(engine);
}

zt_status zt_cu_blas_open(zt_cu_engine *engine)
{
    const char *name = getenv("ZT_LIBCUBLAS");
    if (!name || !*name || engine->cu.platform != &zt_cu_nvidia) return ZT_OK;
    engine->blas = zt_calloc(engine->base.ctx, 1, sizeof *engine->blas);
    zt_status status = engine->blas ? open_named(engine, name) : ZT_ENOMEM;
    if (status) zt_cu_blas_close(engine);
    return status;
}

void zt_cu_blas_close(zt_cu_engine *engine)
{
    zt_cu_blas *blas = engine->blas;
    if (!blas) return;
    if (blas->lt_handle) blas->lt_call.Destroy(blas->lt_handle);
    if (blas->handle) blas->call.Destroy(blas->handle);
    zt_cu_release(engine, &blas->room);
    if (blas->library) dlclose(blas->library);
    zt_free(engine->base.ctx, blas);
    engine->blas = NULL;
}

/* ---- products -------------------------------------------------------------------------------- */

/* From one matrix to the next, where that is the same all through the batches. */
static bool one_step(const zt_cu_matmul_args *args, const int64_t *step, int64_t *common_step)
{
    int64_t expected = -1;
    *common_step = 0;
    for (int dimension = args->rank - 1; dimension >= 0; dimension--) {
        if (args->dim[dimension] == 1) continue;
        if (expected < 0) *common_step = expected = step[dimension];
        if (step[dimension] != expected) return false;
        expected *= args->dim[dimension];
    }
    return true;
}

static bool fits_int(int64_t number) { return number > 0 && number <= INT32_MAX; }

/* Its matrices have columns one behind the other: y's rows are its columns, and b comes first. */
zt_status zt_cu_blas_multiply(zt_cu_call *call, const zt_cu_matmul_args *args, bool a_transposed, bool b_transposed, bool *done)
{
    const zt_cu_blas *blas = call->engine->blas;
    const zt_dtype dtype = call->input_types[0]->dtype;
    const int type = dtype == ZT_F64 ? 1 : dtype == ZT_F32 ? 0 : dtype == ZT_F16 ? 2 : 14; /* CUDA_R_64F ... */
    const float one = 1, none = 0;
    const double one_d = 1, none_d = 0;
    int64_t batches = 1, a_step, b_step;
    for (int dimension = 0; dimension < args->rank; dimension++) batches *= args->dim[dimension];
    *done = blas && one_step(args, args->a_step, &a_step) && one_step(args, args->b_step, &b_step) && fits_int(args->N) &&
            fits_int(args->M) && fits_int(args->K) && fits_int(batches);
    if (!*done) return ZT_OK;
    bool goes;
    zt_status status = zt_cu_foreign(call, &goes);
    if (status || !goes) return status;
    int result = blas->call.Gemm(blas->handle, b_transposed ? OP_T : OP_N, a_transposed ? OP_T : OP_N, (int)args->M, (int)args->N,
                                 (int)args->K, dtype == ZT_F64 ? (const void *)&one_d : &one, (const void *)(uintptr_t)args->b,
                                 type, (int)(b_transposed ? args->K : args->M), b_step, (const void *)(uintptr_t)args->a, type,
                                 (int)(a_transposed ? args->N : args->K), a_step, dtype == ZT_F64 ? (const void *)&none_d : &none,
                                 (void *)(uintptr_t)args->y, type, (int)args->M, args->M * args->N, (int)batches,
                                 dtype == ZT_F64 ? COMPUTE_64F : COMPUTE_32F, DEFAULT);
    return zt_cu_blas_check(call->engine, result, "GemmStridedBatchedEx");
}
