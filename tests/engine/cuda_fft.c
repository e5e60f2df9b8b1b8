/* cuda_fft.c - transforms by cuFFT, where ZT_LIBCUFFT names it: here the one in the emulated driver's
 * library. Every op, length, type and layout gives what ref gives, by cuFFT where it takes it and by
 * our own kernels where not; prepared once and run twice, with the same bits; without memory for a
 * plan the next engine has it; what is no cuFFT is refused. Skipped, aloud, without the emulated
 * driver. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_CUDA
#include "lib/engine/cuda/fft.h"
#include "tests/engine/cuda_library.h"

#include <dlfcn.h>
#include <math.h>

static const beside_case transforms[] = {
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
    {"in x: f32[3,30,2]\ny = dft x length=50\n", 1},           /* zeros behind */
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
     "y, u, v = spectral_conv1d_rfft_backward x r i d\n",
     6},
    {"in x: f32[2,80,3]\nin r: f32[40,3,2]\nin i: f32[40,3,2]\nin d: f32[2,80,2]\n"
     "u, y, v = spectral_conv1d_rfft_backward x r i d\n",
     6},
    {"in x: f64[1,80,3]\nin r: f64[41,3,2]\nin i: f64[41,3,2]\nin d: f64[1,80,2]\n"
     "u, v, y = spectral_conv1d_rfft_backward x r i d\n",
     3},
    /* Two of one sort have one plan; what was there for one is not for the other. */
    {"in x: f32[3,60]\nz = rfft x\ny = irfft z\n", 2},
};

static double number(zt_dtype t, const void *p, int64_t i)
{
    const zt_dtype_info *d = zt_dtype_get(t);
    float f = 0;
    if (t == ZT_F64) return ((const double *)p)[i];
    d->decode((const char *)p + (size_t)i * d->block_bytes, &f, 1);
    return (double)f;
}

static void fill(const zt_type *type, void *to, int input)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    for (int64_t i = 0; i < zt_type_count(type); i++) {
        double u = zt_uniform(3, (uint64_t)input, (uint64_t)i) * 2 - 1;
        float f = (float)u;
        if (type->dtype == ZT_F64)
            ((double *)to)[i] = u;
        else
            info->encode(&f, (char *)to + (size_t)i * info->block_bytes, 1);
    }
}

/* As near as numbers of the type, and of f32 within, can be. */
static bool values_near(const zt_type *type, const void *want, const void *got)
{
    const double bound = type->dtype == ZT_F64 ? 1e-12 : type->dtype == ZT_F32 ? 1e-6 : type->dtype == ZT_F16 ? 1e-3 : 8e-3;
    double most = 0, apart = 0;
    for (int64_t i = 0; i < zt_type_count(type); i++) {
        double a = number(type->dtype, want, i), b = number(type->dtype, got, i);
        most = fmax(most, fabs(a));
        if (!(fabs(a - b) <= apart)) apart = fabs(a - b);
    }
    if (!(apart <= bound * (most + 1))) diag("%g apart of %g", apart, most);
    return apart <= bound * (most + 1);
}

/* Where cuFFT has no memory for a plan the next engine has the op. */
static void test_memory(zt_ctx *ctx, zt_engine *cuda)
{
    float x[101], y[102], want[102];
    zt_prog *program = beside_program(ctx, "in x: f32[101]\ny = rfft x\n");
    zt_engine *cpu = zt_engine_open(ctx, "cpu", NULL);
    zt_session *session = program ? zt_session_open(cuda, program, NULL, NULL) : NULL;
    zt_session *by_cpu = program && cpu ? zt_session_open(cpu, program, NULL, NULL) : NULL;
    for (int i = 0; i < 101; i++) x[i] = (float)zt_uniform(1, 2, (uint64_t)i);
    bool good = session && by_cpu && !zt_session_step(session, NULL, 0, (const void *[]){x}, (void *[]){y}) &&
                !zt_session_step(by_cpu, NULL, 0, (const void *[]){x}, (void *[]){want});
    ok(good && !memcmp(y, want, sizeof y) && zt_session_get(session).fallbacks == 1,
       "without memory for a plan the cpu has it: %s", zt_ctx_error(ctx));
    zt_session_close(session);
    zt_session_close(by_cpu);
    zt_engine_close(cpu);
    zt_prog_free(program);
    zt_ctx_clear(ctx);
}

static void test_transforms(zt_ctx *ctx)
{
    beside b = {.ctx = ctx,
                .judge = zt_engine_open(ctx, "ref", NULL),
                .cuda = zt_engine_open(ctx, "cuda", NULL),
                .fill = fill,
                .near = values_near};
    zt_cu_fft *f = b.cuda ? ((zt_cu_engine *)b.cuda)->fft : NULL;
    ok(f != NULL, "it is opened where it is named: %s", zt_ctx_error(ctx));
    int *plans = f ? dlsym(f->library, "zt_cufft_plans") : NULL; /* as the emulated cuFFT counts */
    b.calls = f ? dlsym(f->library, "zt_cufft_calls") : NULL;
    if (b.calls && plans) {
        beside_walk(&b, "transform", transforms, sizeof transforms / sizeof transforms[0]);
        test_memory(ctx, b.cuda);
        dlopen(getenv("ZT_LIBCUFFT"), RTLD_NOW); /* so that the count outlives the engine */
    }
    ok(plans && *plans > 10, "one plan for each sort of lines: %d", plans ? *plans : 0);
    zt_engine_close(b.cuda);
    zt_engine_close(b.judge);
    ok(plans && *plans == 0, "they go with the engine");
}

static void test(zt_ctx *ctx, zt_engine *without)
{
    ok(!((zt_cu_engine *)without)->fft, "where none is named none is opened");
    test_transforms(ctx);
    beside_refused(ctx, "ZT_LIBCUFFT", "/nowhere/libcufft.so", "engine cuda: no cuFFT: ");
    beside_refused(ctx, "ZT_LIBCUFFT", "libc.so.6", "engine cuda: cuFFT lacks cufftCreate");
}

int main(void) { return beside_main("ZT_LIBCUFFT", test); }
#else
DEVICE_NOT_BUILT("cuda")
#endif
