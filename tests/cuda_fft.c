/* cuda_fft.c - transforms by cuFFT, where ZT_LIBCUFFT names it: here the one in the emulated driver's
 * library. Every op, length, type and layout gives what ref gives, by cuFFT where it takes it and by
 * our own kernels where not; prepared once and run twice, with the same bits; without memory for a
 * plan the next engine has it; what is no cuFFT is refused. Skipped, aloud, without the emulated
 * driver. */
#include "tests/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/engine/cuda/fft.h"
#include "lib/run/run.h"
#include "tests/emulated.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 18, INPUTS = 4 }; /* bytes of a value */

typedef struct transform {
    const char *text; /* of the program, without its first line and its last */
    int calls;        /* of cuFFT, while it is captured */
} transform;

static const transform transforms[] = {
    {"in x: f32[3,60]\ny = rfft x\n", 1},
    {"in x: f32[3,77]\ny = rfft x norm=forward\n", 1},
    {"in x: f64[2,100]\ny = rfft x norm=ortho\n", 1},
    {"in x: f16[2,50]\ny = rfft x\n", 1},
    {"in x: f32[4096]\ny = rfft x\n", 1},
    {"in x: f32[3,64]\ny = rfft x\n", 0}, /* a block's */
    {"in x: f32[3,31]\ny = rfft x\n", 0}, /* short */
    {"in x: f32[2,97]\ny = rfft x\n", 0}, /* refused */
    {"in x: f32[0,60]\ny = rfft x\n", 0},
    {"in x: f32[3,31,2]\nin like: f32[3,60]\ny = rfft_backward x like\n", 1},
    {"in x: f64[3,23,2]\nin like: f64[3,45]\ny = rfft_backward x like norm=ortho\n", 1},
    {"in x: f32[3,31,2]\ny = irfft x\n", 1},
    {"in x: f32[3,38,2]\ny = irfft x n=75 norm=forward\n", 1},
    {"in x: f64[51,2]\ny = irfft x norm=ortho\n", 1},
    {"in x: bf16[2,26,2]\ny = irfft x\n", 1},
    {"in x: f32[3,60]\ny = irfft_backward x\n", 1},
    {"in x: f32[2,33]\ny = irfft_backward x norm=forward\n", 1},
    {"in x: f32[3,60,2]\ny = dft x\n", 1},
    {"in x: f32[3,60,2]\ny = dft x inverse=1\n", 1},
    {"in x: f32[60,4,2]\ny = dft x axis=0 norm=ortho\n", 1}, /* not side by side */
    {"in x: f64[2,40,3,2]\ny = dft x axis=1 inverse=1 norm=forward\n", 1},
    {"in x: f32[3,30,2]\ny = dft x length=50\n", 1}, /* zeros behind */
    {"in x: f32[3,60,2]\ny = dft x length=50 inverse=1\n", 1}, /* cut */
    {"in x: f16[2,36,2]\ny = dft x norm=ortho\n", 1},
    {"in x: f64[1,2048,2]\ny = dft x norm=forward\n", 1},
    /* Grids: many modes, few, more grids than are worth it; and backward, of all three. */
    {"in x: f32[2,80,3]\nin r: f32[40,3,2]\nin i: f32[40,3,2]\ny = spectral_conv1d_rfft x r i\n", 4},
    {"in x: f64[1,75,2]\nin r: f64[38,2,5]\nin i: f64[38,2,5]\ny = spectral_conv1d_rfft x r i\n", 2},
    {"in x: f32[2,75,3]\nin r: f32[38,3,2]\nin i: f32[38,3,2]\ny = spectral_conv1d_rfft x r i\n", 2},
    {"in x: f32[2,80,3]\nin r: f32[9,3,2]\nin i: f32[9,3,2]\ny = spectral_conv1d_rfft x r i\n", 0},
    {"in x: f16[2,80,2]\nin r: f16[40,2,2]\nin i: f16[40,2,2]\ny = spectral_conv1d_rfft x r i\n", 0},
    {"in x: f32[65,64,1]\nin r: f32[33,1,1]\nin i: f32[33,1,1]\ny = spectral_conv1d_rfft x r i\n", 0},
    {"in x: f32[2,80,3]\nin r: f32[40,3,2]\nin i: f32[40,3,2]\nin d: f32[2,80,2]\n"
     "y, u, v = spectral_conv1d_rfft_backward x r i d\n", 6},
    {"in x: f32[2,80,3]\nin r: f32[40,3,2]\nin i: f32[40,3,2]\nin d: f32[2,80,2]\n"
     "u, y, v = spectral_conv1d_rfft_backward x r i d\n", 6},
    {"in x: f64[1,80,3]\nin r: f64[41,3,2]\nin i: f64[41,3,2]\nin d: f64[1,80,2]\n"
     "u, v, y = spectral_conv1d_rfft_backward x r i d\n", 3},
    /* Two of one sort have one plan; what was there for one is not for the other. */
    {"in x: f32[3,60]\nz = rfft x\ny = irfft z\n", 2},
};

static int *calls, *plans; /* that the emulated cuFFT has counted */

static double number(zt_dtype t, const void *p, int64_t i)
{
    float f = 0;
    if (t == ZT_F64) return ((const double *)p)[i];
    zt_dtype_get(t)->decode((const char *)p + (size_t)i * (t == ZT_F32 ? 4 : 2), &f, 1);
    return (double)f;
}

static void put(zt_dtype t, float f, void *p, int64_t i)
{
    zt_dtype_get(t)->encode(&f, (char *)p + (size_t)i * (t == ZT_F32 ? 4 : 2), 1);
}

static void fill(const zt_type *t, void *p, uint64_t seed)
{
    for (int64_t i = 0; i < zt_type_count(t); i++) {
        double u = zt_uniform(3, seed, (uint64_t)i) * 2 - 1;
        float f = (float)u;
        if (t->dtype == ZT_F64) ((double *)p)[i] = u;
        else put(t->dtype, f, p, i);
    }
}

/* As near as numbers of the type, and of f32 within, can be. */
static bool near(const zt_type *t, const void *want, const void *got)
{
    const double bound = t->dtype == ZT_F64 ? 1e-12 : t->dtype == ZT_F32 ? 1e-6
                         : t->dtype == ZT_F16 ? 1e-3 : 8e-3;
    double most = 0, apart = 0;
    for (int64_t i = 0; i < zt_type_count(t); i++) {
        double a = number(t->dtype, want, i), b = number(t->dtype, got, i);
        most = fmax(most, fabs(a));
        if (!(fabs(a - b) <= apart)) apart = fabs(a - b);
    }
    if (!(apart <= bound * (most + 1))) diag("%g apart of %g", apart, most);
    return apart <= bound * (most + 1);
}

static zt_prog *program(zt_ctx *ctx, const char *text)
{
    char whole[512];
    int n = snprintf(whole, sizeof whole, "zt program 1\n%sout y = y\n", text);
    return zt_prog_parse(ctx, "made", whole, (size_t)n);
}

static bool right(zt_ctx *ctx, zt_engine *ref, zt_engine *cuda, const transform *t)
{
    static char in[INPUTS][MOST], want[MOST], got[2][MOST];
    zt_prog *g = program(ctx, t->text);
    zt_bound *bound = g ? zt_prog_bind(g, NULL, 0) : NULL;
    if (!bound) return zt_prog_free(g), false;
    zt_session *by_ref = zt_session_open(ref, g, NULL, NULL);
    zt_session *by_cuda = zt_session_open(cuda, g, NULL, &(zt_session_opts){.strict = true});
    const zt_type *y = &bound->type[zt_prog_output(g, 0)->value];
    const void *at[INPUTS];
    int before = *calls;
    for (int i = 0; i < zt_prog_count(g, ZT_VALUE_IN); i++) {
        fill(&bound->type[zt_prog_nth(g, ZT_VALUE_IN, i)], in[i], (uint64_t)i);
        at[i] = in[i];
    }
    bool good = by_ref && by_cuda && !zt_session_step(by_ref, NULL, 0, at, (void *[]){want});
    for (int twice = 0; twice < 2 && good; twice++)
        good = !zt_session_step(by_cuda, NULL, 0, at, (void *[]){got[twice]}) &&
               near(y, want, got[twice]);
    good = good && !memcmp(got[0], got[1], zt_type_bytes(y));
    if (*calls - before != t->calls) diag("%d calls", *calls - before);
    good = good && *calls - before == t->calls; /* captured once, replayed twice */
    zt_session_close(by_ref);
    zt_session_close(by_cuda);
    zt_bound_free(bound);
    zt_prog_free(g);
    return good;
}

/* Where cuFFT has no memory for a plan the next engine has the op. */
static void test_memory(zt_ctx *ctx, zt_engine *cuda)
{
    float x[101], y[102], want[102];
    zt_prog *g = program(ctx, "in x: f32[101]\ny = rfft x\n");
    zt_engine *cpu = zt_engine_open(ctx, "cpu", NULL);
    zt_session *s = g ? zt_session_open(cuda, g, NULL, NULL) : NULL;
    zt_session *by_cpu = g && cpu ? zt_session_open(cpu, g, NULL, NULL) : NULL;
    for (int i = 0; i < 101; i++) x[i] = (float)zt_uniform(1, 2, (uint64_t)i);
    bool good = s && by_cpu && !zt_session_step(s, NULL, 0, (const void *[]){x}, (void *[]){y}) &&
                !zt_session_step(by_cpu, NULL, 0, (const void *[]){x}, (void *[]){want});
    ok(good && !memcmp(y, want, sizeof y) && zt_session_get(s).fallbacks == 1,
       "without memory for a plan the cpu has it: %s", zt_ctx_error(ctx));
    zt_session_close(s);
    zt_session_close(by_cpu);
    zt_engine_close(cpu);
    zt_prog_free(g);
    zt_ctx_clear(ctx);
}

static void test_transforms(zt_ctx *ctx)
{
    zt_engine *ref = zt_engine_open(ctx, "ref", NULL), *cuda = zt_engine_open(ctx, "cuda", NULL);
    zt_cu_fft *f = cuda ? ((zt_cu_engine *)cuda)->fft : NULL;
    ok(f != NULL, "it is opened where it is named: %s", zt_ctx_error(ctx));
    calls = f ? dlsym(f->library, "zt_cufft_calls") : NULL;
    plans = f ? dlsym(f->library, "zt_cufft_plans") : NULL;
    for (size_t i = 0; calls && plans && i < sizeof transforms / sizeof transforms[0]; i++) {
        bool good = right(ctx, ref, cuda, &transforms[i]);
        ok(good, "transform %zu, %d calls: %s", i, transforms[i].calls, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    if (calls && plans) test_memory(ctx, cuda);
    ok(plans && *plans > 10, "one plan for each sort of lines: %d", plans ? *plans : 0);
    if (plans) dlopen(getenv("ZT_LIBCUFFT"), RTLD_NOW); /* so that the count outlives the engine */
    zt_engine_close(cuda);
    zt_engine_close(ref);
    ok(plans && *plans == 0, "they go with the engine");
}

static void refused(zt_ctx *ctx, const char *name, const char *why)
{
    setenv("ZT_LIBCUFFT", name, 1);
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
    unsetenv("ZT_LIBCUFFT");
    zt_engine *e = device_emulated(ctx);
    if (e && library) {
        ok(!((zt_cu_engine *)e)->fft, "where none is named none is opened");
        setenv("ZT_LIBCUFFT", library, 1);
        test_transforms(ctx);
        refused(ctx, "/nowhere/libcufft.so", "engine cuda: no cuFFT: ");
        refused(ctx, "libc.so.6", "engine cuda: cuFFT lacks cufftCreate");
    }
    return device_done(ctx, e);
}
#else
DEVICE_NOT_BUILT("cuda")
#endif
