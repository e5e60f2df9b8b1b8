/* cuda_lt.c - linear by cuBLASLt, where ZT_LIBCUBLAS names a cuBLAS: here the one in the emulated
 * driver's library. Every form and type gives what the cpu gives, by one call for each product where
 * it is taken and by our own kernels where not; a model's weights are never, so that their rows keep
 * their bits; a fused op has the bits of what it stands for; prepared once and run twice. Skipped,
 * aloud, without the emulated driver. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/engine/cuda/blas.h"
#include "tests/engine/cuda_library.h"

#include <dlfcn.h>

static const beside_case forms[] = {
    {"in x: f32[20,33]\nin w: f32[24,33]\nin b: f32[24]\ny = linear x w b\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\ny = linear x w\n", 1},
    {"in x: f16[40,16]\nin w: f16[17,16]\nin b: f16[17]\ny = linear x w b\n", 1},
    {"in x: bf16[40,16]\nin w: bf16[17,16]\nin b: bf16[17]\ny = linear x w b\n", 1},
    {"in x: bf16[80,32]\nin w: bf16[65,32]\ny = linear x w\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\nin b: f32[24]\ny = linear_act x w b\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\nin r: f32[20,24]\nin b: f32[24]\n"
     "y = linear_add x w r b\n",
     1},
    {"in x: f16[20,33]\nin w: f16[24,33]\nin r: f16[20,24]\ny = linear_add x w r\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\nin v: f32[17,33]\nin u: f32[40,33]\nin b: f32[17]\n"
     "p, q, o = linears x w v u _ b\nz = concat p q o axis=1\ny = relu z\n",
     3},
    /* Few rows, few columns, another type, sums that it has no way for: none of its. */
    {"in x: f32[16,33]\nin w: f32[24,33]\ny = linear x w\n", 0},
    {"in x: f32[20,33]\nin w: f32[16,33]\ny = linear x w\n", 0},
    {"in x: f32[20,32]\nin w: f16[24,32]\ny = linear x w\n", 0},
    {"in x: f16[20,32]\nin w: f16[24,32]\nin b: f32[24]\ny = linear x w b\n", 0},
    {"in x: f32[20,77]\nin w: f32[24,77]\nin b: f32[24]\ny = linear x w b\n", 0},
    {"in x: f32[20,0]\nin w: f32[24,0]\ny = linear x w\n", 0},
    /* Weights that a step has made, and a model's. */
    {"in x: f32[20,33]\nin v: f32[24,33]\nw = add v v\ny = linear x w\n", 1},
    {"in x: f32[20,33]\ndata w: f32[24,33] \"w\"\ny = linear x w\n", 0},
    {"state w: f32[24,33]\nin x: f32[20,33]\ny = linear x w\n", 1},
};

static zt_status find_w(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user, (void)name;
    *type = zt_type_make(ZT_F32, 2, (int64_t[]){24, 33});
    *handle = 0;
    return ZT_OK;
}

static zt_status read_w(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)user, (void)handle;
    for (size_t i = 0; i < n / 4; i++) ((float *)dst)[i] = (float)((offset / 4 + i) % 7) - 3;
    return ZT_OK;
}

/* A fused op and the ops that it stands for, of numbers that are not whole. */
static bool same_bits(const beside *b, const char *fused, const char *apart)
{
    static float in[4][20 * 33], y[2][20 * 24];
    const char *const texts[] = {fused, apart};
    bool good = true;
    for (int k = 0; k < 4 * 20 * 33; k++) in[k / 660][k % 660] = (float)zt_uniform(1, 2, (uint64_t)k);
    for (int i = 0; i < 2 && good; i++) {
        char text[512];
        snprintf(text, sizeof text, "in x: f32[20,33]\nin w: f32[24,33]\nin b: f32[24]\nin r: f32[20,24]\n%s", texts[i]);
        zt_prog *program = beside_program(b->ctx, text);
        zt_session *session = program ? beside_open(b, b->cuda, program) : NULL;
        int before = *b->calls;
        good = session && !zt_session_step(session, NULL, 0, (const void *[]){in[0], in[1], in[2], in[3]}, (void *[]){y[i]}) &&
               *b->calls - before >= 1;
        zt_session_close(session);
        zt_prog_free(program);
    }
    return good && !memcmp(y[0], y[1], sizeof y[0]);
}

static void test_forms(zt_ctx *ctx, zt_engine *without)
{
    static const char *const pairs[][2] = {
        {"y = linear_act x w b curve=silu\n", "z = linear x w b\ny = silu z\n"},
        {"y = linear_act x w b curve=gelu\n", "z = linear x w b\ny = gelu z\n"},
        {"y = linear_add x w r b\n", "z = linear x w b\ny = add r z\n"},
        {"y = gated_linear x w w b b\n", "z = linear x w b\ny = swiglu z z\n"},
    };
    (void)without;
    static const zt_store store = {.find = find_w, .read = read_w};
    beside b = {.ctx = ctx,
                .judge = zt_engine_open(ctx, "cpu", NULL),
                .cuda = zt_engine_open(ctx, "cuda", NULL),
                .store = &store,
                .fill = beside_whole};
    zt_cu_blas *blas = b.cuda ? ((zt_cu_engine *)b.cuda)->blas : NULL;
    ok(blas && blas->lt_handle, "it is opened beside cuBLAS: %s", zt_ctx_error(ctx));
    b.calls = blas ? dlsym(blas->library, "zt_cublaslt_calls") : NULL;
    int *things = blas ? dlsym(blas->library, "zt_cublaslt_things") : NULL;
    if (b.calls) beside_walk(&b, "form", forms, sizeof forms / sizeof forms[0]);
    for (size_t i = 0; b.calls && i < sizeof pairs / sizeof pairs[0]; i++) {
        bool good = same_bits(&b, pairs[i][0], pairs[i][1]);
        ok(good, "fused as apart, %zu: %s", i, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    ok(things && *things == 0, "what described products is gone");
    zt_engine_close(b.judge);
    zt_engine_close(b.cuda);
}

int main(void) { return beside_main("ZT_LIBCUBLAS", test_forms); }
#else
DEVICE_NOT_BUILT("cuda")
#endif
