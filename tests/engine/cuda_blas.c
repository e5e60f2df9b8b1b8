/* cuda_blas.c - products by cuBLAS, where ZT_LIBCUBLAS names it: here the one in the emulated
 * driver's library. Every transposition, type and kind of batch gives what the cpu gives, by one
 * call where cuBLAS takes it and by our own kernel where not; prepared once and run twice; what is
 * no cuBLAS is refused. Skipped, aloud, without the emulated driver. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/engine/cuda/blas.h"
#include "tests/engine/cuda_library.h"

#include <dlfcn.h>

static const beside_case products[] = {
    {"in a: f32[5,7]\nin b: f32[7,9]\ny = matmul a b\n", 1},
    {"in a: f32[7,5]\nin b: f32[7,9]\ny = matmul a b ta=1\n", 1},
    {"in a: f32[5,7]\nin b: f32[9,7]\ny = matmul a b tb=1\n", 1},
    {"in a: f32[7,5]\nin b: f32[9,7]\ny = matmul a b ta=1 tb=1\n", 1},
    {"in a: f16[33,16]\nin b: f16[20,16]\ny = matmul a b tb=1\n", 1},
    {"in a: bf16[16,33]\nin b: bf16[16,20]\ny = matmul a b ta=1\n", 1},
    {"in a: f64[6,4]\nin b: f64[4,3]\ny = matmul a b\n", 1},
    {"in a: f32[1,1]\nin b: f32[1,1]\ny = matmul a b ta=1 tb=1\n", 1},
    {"in a: f32[6,1]\nin b: f32[5,1]\ny = matmul a b tb=1\n", 1},
    {"in a: f32[4,5,7]\nin b: f32[4,7,3]\ny = matmul a b\n", 1},
    {"in a: f32[2,3,5,7]\nin b: f32[1,7,3]\ny = matmul a b\n", 1},
    {"in a: f32[2,3,5,7]\nin b: f32[2,3,3,7]\ny = matmul a b tb=1\n", 1},
    {"in a: f32[5,7]\nin b: f32[3,7,2]\ny = matmul a b\n", 1},
    /* Repeated along one dimension of two: not one step from matrix to matrix. */
    {"in a: f32[2,3,5,7]\nin b: f32[2,1,7,3]\ny = matmul a b\n", 0},
    {"in a: f32[1,3,5,7]\nin b: f32[2,3,7,3]\ny = matmul a b\n", 0},
    {"in a: f32[5,0]\nin b: f32[0,9]\ny = matmul a b\n", 0},
    {"in a: f32[0,7]\nin b: f32[7,9]\ny = matmul a b\n", 0},
};

static void test_products(zt_ctx *ctx)
{
    beside b = {
        .ctx = ctx, .judge = zt_engine_open(ctx, "cpu", NULL), .cuda = zt_engine_open(ctx, "cuda", NULL), .fill = beside_whole};
    zt_cu_blas *blas = b.cuda ? ((zt_cu_engine *)b.cuda)->blas : NULL;
    ok(blas != NULL, "it is opened where it is named: %s", zt_ctx_error(ctx));
    b.calls = blas ? dlsym(blas->library, "zt_cublas_calls") : NULL;
    if (b.calls) beside_walk(&b, "product", products, sizeof products / sizeof products[0]);
    zt_engine_close(b.judge);
    zt_engine_close(b.cuda);
}

static void test(zt_ctx *ctx, zt_engine *without)
{
    ok(!((zt_cu_engine *)without)->blas, "where none is named none is opened");
    test_products(ctx);
    beside_refused(ctx, "ZT_LIBCUBLAS", "/nowhere/libcublas.so", "engine cuda: no cuBLAS: ");
    beside_refused(ctx, "ZT_LIBCUBLAS", "libc.so.6", "engine cuda: cuBLAS lacks cublasCreate_v2");
}

int main(void) { return beside_main("ZT_LIBCUBLAS", test); }
#else
DEVICE_NOT_BUILT("cuda")
#endif
