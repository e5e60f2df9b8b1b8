/* cuda_lt.c - linear by cuBLASLt, where ZT_LIBCUBLAS names a cuBLAS: here the one in the emulated
 * driver's library. Every form and type gives what the cpu gives, by one call for each product where
 * it is taken and by our own kernels where not; a model's weights are never, so that their rows keep
 * their bits; a fused op has the bits of what it stands for; prepared once and run twice. Skipped,
 * aloud, without the emulated driver. */
#include "tests/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/engine/cuda/blas.h"
#include "lib/run/run.h"
#include "tests/emulated.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16, INPUTS = 8 }; /* bytes of a value */

typedef struct form {
    const char *text; /* of the program, without its first line and its last */
    int calls;        /* of cuBLASLt, while it is captured */
} form;

/* Inputs are small and whole: every type and order of sums gives the same. */
static const form forms[] = {
    {"in x: f32[20,33]\nin w: f32[24,33]\nin b: f32[24]\ny = linear x w b\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\ny = linear x w\n", 1},
    {"in x: f16[40,16]\nin w: f16[17,16]\nin b: f16[17]\ny = linear x w b\n", 1},
    {"in x: bf16[40,16]\nin w: bf16[17,16]\nin b: bf16[17]\ny = linear x w b\n", 1},
    {"in x: bf16[80,32]\nin w: bf16[65,32]\ny = linear x w\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\nin b: f32[24]\ny = linear_act x w b\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\nin r: f32[20,24]\nin b: f32[24]\n"
     "y = linear_add x w r b\n", 1},
    {"in x: f16[20,33]\nin w: f16[24,33]\nin r: f16[20,24]\ny = linear_add x w r\n", 1},
    {"in x: f32[20,33]\nin w: f32[24,33]\nin v: f32[17,33]\nin u: f32[40,33]\nin b: f32[17]\n"
     "p, q, o = linears x w v u _ b\nz = concat p q o axis=1\ny = relu z\n", 3},
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

static int *calls, *things; /* that the emulated cuBLASLt has counted */

static void fill(const zt_type *t, void *p, int by)
{
    for (int64_t i = 0; i < zt_type_count(t); i++) {
        float f = (float)((i * by + 3) % 5) - 2;
        zt_dtype_get(t->dtype)->encode(&f, (char *)p + (size_t)i * (t->dtype == ZT_F32 ? 4 : 2), 1);
    }
}

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

static zt_prog *program(zt_ctx *ctx, const char *text)
{
    char whole[512];
    int n = snprintf(whole, sizeof whole, "zt program 1\n%sout y = y\n", text);
    return zt_prog_parse(ctx, "made", whole, (size_t)n);
}

static zt_session *open_on(zt_engine *e, const zt_prog *g, bool strict)
{
    static const zt_store store = {.find = find_w, .read = read_w};
    zt_session *s = zt_session_open(e, g, &store, &(zt_session_opts){.strict = strict});
    if (s && zt_prog_count(g, ZT_VALUE_STATE)) {
        static float w[24 * 33];
        zt_type t = zt_session_state_type(s, 0);
        fill(&t, w, 13);
        zt_session_state_set(s, 0, w);
    }
    return s;
}

static bool right(zt_ctx *ctx, zt_engine *cpu, zt_engine *cuda, const form *f)
{
    static char in[INPUTS][MOST], want[MOST], got[2][MOST];
    const void *at[INPUTS];
    zt_prog *g = program(ctx, f->text);
    zt_bound *bound = g ? zt_prog_bind(g, NULL, 0) : NULL;
    if (!bound) return zt_prog_free(g), false;
    zt_session *by_cpu = open_on(cpu, g, false), *by_cuda = open_on(cuda, g, true);
    size_t bytes = zt_type_bytes(&bound->type[zt_prog_output(g, 0)->value]);
    for (int i = 0; i < zt_prog_count(g, ZT_VALUE_IN); i++) {
        fill(&bound->type[zt_prog_nth(g, ZT_VALUE_IN, i)], in[i], 7 + 4 * i);
        at[i] = in[i];
    }
    int before = *calls;
    bool good = by_cpu && by_cuda && !zt_session_step(by_cpu, NULL, 0, at, (void *[]){want});
    for (int twice = 0; twice < 2 && good; twice++)
        good = !zt_session_step(by_cuda, NULL, 0, at, (void *[]){got[twice]}) &&
               !memcmp(want, got[twice], bytes);
    if (*calls - before != f->calls) diag("%d calls", *calls - before);
    good = good && *calls - before == f->calls; /* captured once, replayed twice */
    zt_session_close(by_cpu);
    zt_session_close(by_cuda);
    zt_bound_free(bound);
    zt_prog_free(g);
    return good;
}

/* A fused op and the ops that it stands for, of numbers that are not whole. */
static bool same(zt_ctx *ctx, zt_engine *cuda, const char *fused, const char *apart)
{
    static float in[4][20 * 33], y[2][20 * 24];
    const char *const texts[] = {fused, apart};
    bool good = true;
    for (int k = 0; k < 4 * 20 * 33; k++) in[k / 660][k % 660] = (float)zt_uniform(1, 2, (uint64_t)k);
    for (int i = 0; i < 2 && good; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "in x: f32[20,33]\nin w: f32[24,33]\nin b: f32[24]\nin r: f32[20,24]\n%s", texts[i]);
        zt_prog *g = program(ctx, text);
        zt_session *s = g ? open_on(cuda, g, true) : NULL;
        int before = *calls;
        good = s && !zt_session_step(s, NULL, 0, (const void *[]){in[0], in[1], in[2], in[3]},
                                     (void *[]){y[i]}) &&
               *calls - before >= 1;
        zt_session_close(s);
        zt_prog_free(g);
    }
    return good && !memcmp(y[0], y[1], sizeof y[0]);
}

static void test_forms(zt_ctx *ctx)
{
    static const char *const pairs[][2] = {
        {"y = linear_act x w b curve=silu\n", "z = linear x w b\ny = silu z\n"},
        {"y = linear_act x w b curve=gelu\n", "z = linear x w b\ny = gelu z\n"},
        {"y = linear_add x w r b\n", "z = linear x w b\ny = add r z\n"},
        {"y = gated_linear x w w b b\n", "z = linear x w b\ny = swiglu z z\n"},
    };
    zt_engine *cpu = zt_engine_open(ctx, "cpu", NULL), *cuda = zt_engine_open(ctx, "cuda", NULL);
    zt_cu_blas *b = cuda ? ((zt_cu_engine *)cuda)->blas : NULL;
    ok(b && b->lt, "it is opened beside cuBLAS: %s", zt_ctx_error(ctx));
    calls = b ? dlsym(b->library, "zt_cublaslt_calls") : NULL;
    things = b ? dlsym(b->library, "zt_cublaslt_things") : NULL;
    for (size_t i = 0; calls && i < sizeof forms / sizeof forms[0]; i++) {
        bool good = right(ctx, cpu, cuda, &forms[i]);
        ok(good, "form %zu, %d calls: %s", i, forms[i].calls, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    for (size_t i = 0; calls && i < sizeof pairs / sizeof pairs[0]; i++) {
        bool good = same(ctx, cuda, pairs[i][0], pairs[i][1]);
        ok(good, "fused as apart, %zu: %s", i, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    ok(things && *things == 0, "what described products is gone");
    zt_engine_close(cpu);
    zt_engine_close(cuda);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    const char *library = getenv("ZT_LIBCUDA");
    zt_engine *e = device_emulated(ctx);
    if (e && library) {
        setenv("ZT_LIBCUBLAS", library, 1);
        test_forms(ctx);
    }
    return device_done(ctx, e);
}
#else
DEVICE_NOT_BUILT("cuda")
#endif
