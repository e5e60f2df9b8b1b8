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

zt_status zt_cu_blas_told(zt_cu_engine *e, int r, const char *call)
{
    if (r == 0) return ZT_OK;
    if (r == ALLOC_FAILED)
        return zt_fail(e->base.ctx, ZT_ENOMEM, "cuda: cublas%s: out of memory", call);
    return zt_fail(e->base.ctx, ZT_ESYS, "cuda: cublas%s: status %d", call, r);
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

static zt_status open_lt(zt_cu_engine *e)
{
    zt_cu_blas *b = e->blas;
    const char *lacks = zt_cu_symbols(b->library, lt_symbols, &b->lt_call);
    if (lacks) {
        zt_log(e->base.ctx, ZT_LOG_INFO, "cuda: cuBLAS has no %s: linear is by our own kernels",
               lacks);
        return ZT_OK;
    }
    zt_status s = zt_cu_blas_told(e, b->lt_call.Create(&b->lt), "LtCreate");
    if (s) b->lt = NULL;
    return s;
}

static zt_status open_named(zt_cu_engine *e, const char *name)
{
    zt_cu_blas *b = e->blas;
    const zt_cu_blas_calls *f = &b->call;
    zt_status s = zt_cu_beside(e->base.ctx, name, "cuBLAS", symbols, &b->call, &b->library);
    if (s) return s;
    s = zt_cu_blas_told(e, f->Create(&b->handle), "Create");
    if (s) b->handle = NULL;
    if (!s) s = zt_cu_blas_told(e, f->SetStream(b->handle, e->stream), "SetStream");
    if (!s) s = zt_cu_alloc(e, ZT_CU_DEVICE_MEM, ZT_CU_BLAS_ROOM, &b->room);
    if (!s)
        s = zt_cu_blas_told(
            e, f->SetWorkspace(b->handle, (void *)(uintptr_t)b->room.at, ZT_CU_BLAS_ROOM),
            "SetWorkspace");
    if (!s) s = zt_cu_blas_told(e, f->SetMathMode(b->handle, EXACT_SUMS), "SetMathMode");
    return s ? s : open_lt(e);
}

zt_status zt_cu_blas_open(zt_cu_engine *e)
{
    const char *name = getenv("ZT_LIBCUBLAS");
    if (!name || !*name || e->cu.platform != &zt_cu_nvidia) return ZT_OK;
    e->blas = zt_calloc(e->base.ctx, 1, sizeof *e->blas);
    zt_status s = e->blas ? open_named(e, name) : ZT_ENOMEM;
    if (s) zt_cu_blas_close(e);
    return s;
}

void zt_cu_blas_close(zt_cu_engine *e)
{
    zt_cu_blas *b = e->blas;
    if (!b) return;
    if (b->lt) b->lt_call.Destroy(b->lt);
    if (b->handle) b->call.Destroy(b->handle);
    zt_cu_release(e, &b->room);
    if (b->library) dlclose(b->library);
    zt_free(e->base.ctx, b);
    e->blas = NULL;
}

/* ---- products -------------------------------------------------------------------------------- */

/* From one matrix to the next, where that is the same all through the batches. */
static bool one_step(const zt_cu_matmul_args *a, const int64_t *step, int64_t *out)
{
    int64_t expected = -1;
    *out = 0;
    for (int d = a->rank - 1; d >= 0; d--) {
        if (a->dim[d] == 1) continue;
        if (expected < 0) *out = expected = step[d];
        if (step[d] != expected) return false;
        expected *= a->dim[d];
    }
    return true;
}

static bool fits(int64_t n) { return n > 0 && n <= INT32_MAX; }

/* Its matrices have columns one behind the other: y's rows are its columns, and b comes first. */
zt_status zt_cu_blas_multiply(zt_cu_call *c, const zt_cu_matmul_args *a, bool ta, bool tb,
                              bool *done)
{
    const zt_cu_blas *b = c->e->blas;
    const zt_dtype t = c->in[0]->dtype;
    const int type = t == ZT_F64 ? 1 : t == ZT_F32 ? 0 : t == ZT_F16 ? 2 : 14; /* CUDA_R_64F ... */
    const float one = 1, none = 0;
    const double one_d = 1, none_d = 0;
    int64_t batches = 1, a_step, b_step;
    for (int d = 0; d < a->rank; d++) batches *= a->dim[d];
    *done = b && one_step(a, a->a_step, &a_step) && one_step(a, a->b_step, &b_step) && fits(a->N) &&
            fits(a->M) && fits(a->K) && fits(batches);
    if (!*done) return ZT_OK;
    bool goes;
    zt_status s = zt_cu_foreign(c, &goes);
    if (s || !goes) return s;
    int r = b->call.Gemm(b->handle, tb ? OP_T : OP_N, ta ? OP_T : OP_N, (int)a->M, (int)a->N,
                         (int)a->K, t == ZT_F64 ? (const void *)&one_d : &one,
                         (const void *)(uintptr_t)a->b, type, (int)(tb ? a->K : a->M), b_step,
                         (const void *)(uintptr_t)a->a, type, (int)(ta ? a->N : a->K), a_step,
                         t == ZT_F64 ? (const void *)&none_d : &none, (void *)(uintptr_t)a->y, type,
                         (int)a->M, a->M * a->N, (int)batches,
                         t == ZT_F64 ? COMPUTE_64F : COMPUTE_32F, DEFAULT);
    return zt_cu_blas_told(c->e, r, "GemmStridedBatchedEx");
}
