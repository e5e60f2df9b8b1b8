/* cublas.cpp - as much of a libcublas as lib/engine/cuda/blas.c calls, in the emulated driver's
 * library (ZT_LIBCUBLAS may name that): a product is a launch of gemm.cu's kernel in the handle's
 * stream. It counts them in zt_cublas_calls, and insists on a stream and a workspace. And of a
 * libcublasLt what blas_lt.c calls: zt_cublaslt_calls, and zt_cublaslt_things that are not destroyed
 * yet; it has no way to make products of 77 columns. */
#include "beside.h"
#include "gemm.h"

#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

struct handle {
    void *stream, *room, *function;
};

API int zt_cublas_calls, zt_cublaslt_calls, zt_cublaslt_things;
int zt_cublas_calls, zt_cublaslt_calls, zt_cublaslt_things;

static int run(const handle *h, emu_gemm_args *g, void *stream)
{
    return launch(h->function, 4, g, stream) ? OK : EXECUTION_FAILED;
}

static int type_of(int t)
{
    return t == 1 ? ZT_CU_F64 : t == 0 ? ZT_CU_F32 : t == 2 ? ZT_CU_F16 : ZT_CU_BF16;
}

API int cublasCreate_v2(handle **h)
{
    *h = static_cast<handle *>(calloc(1, sizeof(handle)));
    (*h)->function = kernel_named("emu_gemm");
    return (*h)->function ? OK : NOT_INITIALIZED;
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
    g.type = type_of(a_type);
    zt_cublas_calls++;
    return run(h, &g, h->stream);
}

/* ---- cublasLt -------------------------------------------------------------------------------- */

struct lt_desc {
    int compute, scale, transposed, epilogue;
    const void *bias;
};
struct lt_layout {
    int type;
    uint64_t rows, columns;
    int64_t step;
};
struct lt_wish {
    uint64_t room;
    uint32_t sums;
};
struct lt_choice {
    uint64_t algorithm[8];
    size_t room;
    int status;
    float waves;
    int reserved[4];
};
enum { LT_ROOM = 4096, LT_ALGORITHM = 42 };

template <class T> static int made(T **to, const T &value)
{
    *to = new T(value);
    zt_cublaslt_things++;
    return OK;
}
template <class T> static int destroyed(T *p)
{
    delete p;
    zt_cublaslt_things--;
    return OK;
}
template <class T> static int set(T *to, const void *v, size_t bytes)
{
    if (bytes != sizeof *to) return INVALID_VALUE;
    memcpy(to, v, bytes);
    return OK;
}

API int cublasLtCreate(handle **h) { return cublasCreate_v2(h); }
API int cublasLtDestroy(handle *h) { return cublasDestroy_v2(h); }
API int cublasLtMatmulDescCreate(lt_desc **d, int compute, int scale)
{
    return made(d, lt_desc{compute, scale, 0, 1, nullptr});
}
API int cublasLtMatmulDescDestroy(lt_desc *d) { return destroyed(d); }
API int cublasLtMatmulDescSetAttribute(lt_desc *d, int what, const void *v, size_t bytes)
{
    return what == 3   ? set(&d->transposed, v, bytes)
           : what == 7 ? set(&d->epilogue, v, bytes)
           : what == 8 ? set(&d->bias, v, bytes)
                       : INVALID_VALUE;
}
API int cublasLtMatrixLayoutCreate(lt_layout **l, int type, uint64_t rows, uint64_t columns,
                                   int64_t step)
{
    return made(l, lt_layout{type, rows, columns, step});
}
API int cublasLtMatrixLayoutDestroy(lt_layout *l) { return destroyed(l); }
API int cublasLtMatmulPreferenceCreate(lt_wish **w) { return made(w, lt_wish{0, 7}); }
API int cublasLtMatmulPreferenceDestroy(lt_wish *w) { return destroyed(w); }
API int cublasLtMatmulPreferenceSetAttribute(lt_wish *w, int what, const void *v, size_t bytes)
{
    return what == 1 ? set(&w->room, v, bytes) : what == 3 ? set(&w->sums, v, bytes) : INVALID_VALUE;
}

/* What holds for all products that are asked for: transposed weights, f32 sums, columns in a row. */
static bool suits(const lt_desc *d, const lt_layout *a, const lt_layout *b, const lt_layout *y)
{
    return d->compute == 68 && d->scale == 0 && d->transposed == 1 && a->type == b->type &&
           a->type == y->type && a->rows == b->rows && a->columns == y->rows &&
           b->columns == y->columns && a->step >= static_cast<int64_t>(a->rows) &&
           b->step >= static_cast<int64_t>(b->rows) && y->step >= static_cast<int64_t>(y->rows) &&
           (d->epilogue == 1 || (d->epilogue == 4 && d->bias));
}

API int cublasLtMatmulAlgoGetHeuristic(handle *, lt_desc *d, lt_layout *a, lt_layout *b, lt_layout *c,
                                       lt_layout *y, lt_wish *w, int most, lt_choice *choice, int *n)
{
    *n = 0;
    if (most < 1 || c != y || !suits(d, a, b, y)) return INVALID_VALUE;
    if (w->room < LT_ROOM || w->sums != 2 || a->rows == 77) return NOT_SUPPORTED;
    *choice = lt_choice{{LT_ALGORITHM}, LT_ROOM, OK, 1, {0}};
    *n = 1;
    return OK;
}

API int cublasLtMatmul(handle *h, lt_desc *d, const float *alpha, const void *a, lt_layout *la,
                       const void *b, lt_layout *lb, const float *beta, const void *c, lt_layout *,
                       void *y, lt_layout *ly, const uint64_t *algorithm, void *room, size_t bytes,
                       void *stream)
{
    if (*alpha != 1 || *beta != 0 || c != y || *algorithm != LT_ALGORITHM || !stream ||
        !suits(d, la, lb, ly))
        return INVALID_VALUE;
    if (!room || bytes < LT_ROOM) return NOT_INITIALIZED;
    emu_gemm_args g = {};
    g.a = reinterpret_cast<zt_cu_ptr>(a);
    g.b = reinterpret_cast<zt_cu_ptr>(b);
    g.c = reinterpret_cast<zt_cu_ptr>(y);
    g.bias = d->epilogue == 4 ? reinterpret_cast<zt_cu_ptr>(d->bias) : 0;
    g.m = static_cast<int>(ly->rows), g.n = static_cast<int>(ly->columns);
    g.k = static_cast<int>(la->rows), g.batches = 1;
    g.a_transposed = 1;
    g.lda = static_cast<int>(la->step), g.ldb = static_cast<int>(lb->step);
    g.ldc = static_cast<int>(ly->step);
    g.type = type_of(la->type);
    zt_cublaslt_calls++;
    return run(h, &g, stream);
}
