/* cuda_blas.c - products by cuBLAS, where ZT_LIBCUBLAS names it: here the one in the emulated
 * driver's library. Every transposition, type and kind of batch gives what the cpu gives, by one
 * call where cuBLAS takes it and by our own kernel where not; prepared once and run twice; what is
 * no cuBLAS is refused. Skipped, aloud, without the emulated driver. */
#include "tests/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/engine/cuda/blas.h"
#include "lib/run/run.h"
#include "tests/emulated.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

typedef struct product {
    zt_dtype dtype;
    int rank_a, rank_b;
    int64_t a[4], b[4];
    int ta, tb, calls; /* of cuBLAS */
} product;

static const product products[] = {
    {ZT_F32, 2, 2, {5, 7}, {7, 9}, 0, 0, 1},
    {ZT_F32, 2, 2, {7, 5}, {7, 9}, 1, 0, 1},
    {ZT_F32, 2, 2, {5, 7}, {9, 7}, 0, 1, 1},
    {ZT_F32, 2, 2, {7, 5}, {9, 7}, 1, 1, 1},
    {ZT_F16, 2, 2, {33, 16}, {20, 16}, 0, 1, 1},
    {ZT_BF16, 2, 2, {16, 33}, {16, 20}, 1, 0, 1},
    {ZT_F64, 2, 2, {6, 4}, {4, 3}, 0, 0, 1},
    {ZT_F32, 2, 2, {1, 1}, {1, 1}, 1, 1, 1},
    {ZT_F32, 2, 2, {6, 1}, {5, 1}, 0, 1, 1},
    {ZT_F32, 3, 3, {4, 5, 7}, {4, 7, 3}, 0, 0, 1},
    {ZT_F32, 4, 3, {2, 3, 5, 7}, {1, 7, 3}, 0, 0, 1},
    {ZT_F32, 4, 4, {2, 3, 5, 7}, {2, 3, 3, 7}, 0, 1, 1},
    {ZT_F32, 2, 3, {5, 7}, {3, 7, 2}, 0, 0, 1},
    /* Repeated along one dimension of two: not one step from matrix to matrix. */
    {ZT_F32, 4, 4, {2, 3, 5, 7}, {2, 1, 7, 3}, 0, 0, 0},
    {ZT_F32, 4, 4, {1, 3, 5, 7}, {2, 3, 7, 3}, 0, 0, 0},
    {ZT_F32, 2, 2, {5, 0}, {0, 9}, 0, 0, 0},
    {ZT_F32, 2, 2, {0, 7}, {7, 9}, 0, 0, 0},
};

static int *calls; /* that the emulated cuBLAS has counted */

/* A number of the type, small and whole: exact in all of them. */
static void fill(zt_dtype t, void *to, int64_t n, int by)
{
    for (int64_t i = 0; i < n; i++) {
        float f = (float)((i * by + 3) % 5) - 2;
        if (t == ZT_F32) ((float *)to)[i] = f;
        if (t == ZT_F64) ((double *)to)[i] = (double)f;
        if (t == ZT_F16 || t == ZT_BF16) zt_dtype_get(t)->encode(&f, (char *)to + 2 * i, 1);
    }
}

static zt_prog *program(zt_ctx *ctx, const product *p)
{
    zt_prog *g = zt_prog_new(ctx);
    zt_matmul_attrs at = {.ta = p->ta, .tb = p->tb};
    int a = zt_prog_in(g, "a", p->dtype, p->rank_a, p->a);
    int b = zt_prog_in(g, "b", p->dtype, p->rank_b, p->b);
    zt_prog_out(g, "y", zt_emit_matmul(g, NULL, a, b, &at));
    return g;
}

static bool right(zt_ctx *ctx, zt_engine *cpu, zt_engine *cuda, const product *p)
{
    static char a[8 * MOST], b[8 * MOST], want[8 * MOST], got[2][8 * MOST];
    zt_prog *g = program(ctx, p);
    zt_session *by_cpu = zt_session_open(cpu, g, NULL, NULL);
    zt_session *by_cuda = zt_session_open(cuda, g, NULL, &(zt_session_opts){.strict = true});
    zt_bound *bound = zt_prog_bind(g, NULL, 0);
    const void *in[] = {a, b};
    bool good = by_cpu && by_cuda && bound;
    size_t bytes = good ? zt_type_bytes(&bound->type[zt_prog_output(g, 0)->value]) : 0;
    zt_type ta = zt_type_make(p->dtype, p->rank_a, p->a);
    zt_type tb = zt_type_make(p->dtype, p->rank_b, p->b);
    fill(p->dtype, a, zt_type_count(&ta), 7);
    fill(p->dtype, b, zt_type_count(&tb), 11);
    good = good && !zt_session_step(by_cpu, NULL, 0, in, (void *[]){want});
    int before = *calls;
    for (int twice = 0; twice < 2 && good; twice++)
        good = !zt_session_step(by_cuda, NULL, 0, in, (void *[]){got[twice]}) &&
               !memcmp(want, got[twice], bytes);
    good = good && *calls - before == p->calls; /* captured once, replayed twice */
    zt_bound_free(bound);
    zt_session_close(by_cpu);
    zt_session_close(by_cuda);
    zt_prog_free(g);
    return good;
}

static void test_products(zt_ctx *ctx)
{
    zt_engine *cpu = zt_engine_open(ctx, "cpu", NULL), *cuda = zt_engine_open(ctx, "cuda", NULL);
    zt_cu_blas *b = cuda ? ((zt_cu_engine *)cuda)->blas : NULL;
    ok(b != NULL, "it is opened where it is named: %s", zt_ctx_error(ctx));
    calls = b ? dlsym(b->library, "zt_cublas_calls") : NULL;
    for (size_t i = 0; calls && i < sizeof products / sizeof products[0]; i++) {
        const product *p = &products[i];
        ok(right(ctx, cpu, cuda, p), "product %zu of %s, %d calls: %s", i,
           zt_dtype_get(p->dtype)->name, p->calls, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    zt_engine_close(cpu);
    zt_engine_close(cuda);
}

static void refused(zt_ctx *ctx, const char *name, const char *why)
{
    setenv("ZT_LIBCUBLAS", name, 1);
    zt_engine *e = zt_engine_open(ctx, "cuda", NULL);
    ok(!e && zt_ctx_status(ctx) == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), why), "%s",
       zt_ctx_error(ctx));
    zt_engine_close(e);
    zt_ctx_clear(ctx);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    const char *library = getenv("ZT_LIBCUDA");
    unsetenv("ZT_LIBCUBLAS");
    zt_engine *e = device_emulated(ctx);
    if (e && library) {
        ok(!((zt_cu_engine *)e)->blas, "where none is named none is opened");
        setenv("ZT_LIBCUBLAS", library, 1);
        test_products(ctx);
        refused(ctx, "/nowhere/libcublas.so", "engine cuda: no cuBLAS: ");
        refused(ctx, "libc.so.6", "engine cuda: cuBLAS lacks cublasCreate_v2");
    }
    return device_done(ctx, e);
}
#else
DEVICE_NOT_BUILT("cuda")
#endif
