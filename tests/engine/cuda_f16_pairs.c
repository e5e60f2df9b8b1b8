/* cuda_f16_pairs.c - products of f16 weights with x of f32 on cuda, which go to the matrix units as
 * pairs of f16 (pair.cuh): near what doubles make of them for rows of any size, what is no number
 * where it belongs, and each row's bits the same by the kernels of few, some and many rows. */
#include "tests/engine/device.h"
#include "tests/engine/cuda_prefill_rows.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 150, MOST_K = 640, M = 140, ODD_M = 77 };

/* Rows of x that are not like the others. */
enum { HUGE_ROW = 3, TINY_ROW, DENORMAL_ROW, ZERO_ROW, OUTLIER_ROW, INF_ROW, NAN_ROW, LAST_ROW };

static zt_ctx *ctx;
static zt_engine *engine;
static char launched[] = "cuda_pairs.XXXXXX"; /* the emulation's lines, one a launch */
static float x[ROWS * MOST_K], bias[M], more[ROWS * M], y[ROWS * M], alone[ROWS * M];
static uint16_t w[M * MOST_K];

static uint32_t draw(void)
{
    static uint32_t s = 77;
    return (s = s * 1664525 + 1013904223) >> 8;
}

static double half_of(uint16_t bits)
{
    int e = bits >> 10 & 31, m = bits & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return bits & 0x8000 ? -v : v;
}

/* Weights of many sizes, denormal ones too. One is infinite. */
static void fill(int64_t K)
{
    for (int64_t i = 0; i < ROWS * K; i++) {
        const int row = (int)(i / K);
        float v = (float)draw() / 8388608.0f - 1;
        x[i] = row == HUGE_ROW       ? v * 0x1p126f
               : row == TINY_ROW     ? v * 0x1p-110f
               : row == DENORMAL_ROW ? v * 0x1p-130f
               : row == ZERO_ROW     ? 0
                                     : v;
    }
    x[OUTLIER_ROW * K + 1] = 0x1p20f;
    x[INF_ROW * K + K - 1] = -INFINITY;
    x[INF_ROW * K] = 0x1p100f;
    x[NAN_ROW * K + 2] = NAN;
    for (int64_t i = 0; i < M * K; i++) {
        w[i] = (uint16_t)(draw() & 0x83ff) | (uint16_t)(draw() % 20 << 10);
        if (i % K == K - 1) w[i] |= 1; /* not 0: its product with infinity is one */
    }
    w[ODD_M * K] = 0x7c00;
    for (int i = 0; i < M; i++) bias[i] = (float)draw() / 8388608.0f - 1;
    for (int i = 0; i < ROWS * M; i++) more[i] = (float)draw() / 8388608.0f - 1;
}

static bool multiply(int64_t K, int64_t from, int64_t n, float *to)
{
    return manyrows_made(engine, &(manyrows){"f32", ZT_F16, K, M, x, more, bias, w}, from, n, to);
}

/* By how much of what sums in f32 may lose, and pairs; infinite and NaN is what doubles make so. */
static double off(int64_t K, int64_t row, int64_t m)
{
    double want = (double)bias[m] + (double)more[row * M + m], got = (double)y[row * M + m];
    double all = fabs((double)bias[m]) + fabs((double)more[row * M + m]), top = 0, weights = 0;
    for (int64_t k = 0; k < K; k++) {
        const double a = (double)x[row * K + k], b = half_of(w[m * K + k]);
        want += a * b, all += fabs(a * b);
        top = fmax(top, fabs(a)), weights += fabs(b);
    }
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isinf((float)want)) return got == (double)(float)want ? 0 : INFINITY;
    return fabs(got - want) / (all * 0x1p-20 + top * weights * 0x1p-39);
}

static bool is_same(int64_t K, int64_t from, int64_t n)
{
    return multiply(K, from, n, alone) && !memcmp(alone, y + from * M, (size_t)(n * M) * sizeof *y);
}

static void test(int64_t K, const char *many, const char *few)
{
    double worst = 0;
    fill(K);
    bool good = truncate(launched, 0) == 0 && multiply(K, 0, ROWS, y);
    for (int64_t i = 0; i < ROWS * M && good; i++) worst = fmax(worst, off(K, i / M, i % M));
    ok(good && worst <= 1, "K %lld: %.2g of what it may be off", (long long)K, worst);
    for (int row = 0; row < LAST_ROW && good; row++) good = is_same(K, row, 1);
    ok(good, "rows alone have the same bits");
    good = is_same(K, 0, 8) && is_same(K, 5, 3) && is_same(K, 143, 7) && is_same(K, 2, 5);
    ok(good, "few rows too");
    ok(is_same(K, 1, 9) && is_same(K, 130, 20) && multiply(K, 0, 0, alone), "and some rows, or none");
    if (getenv("ZT_LIBCUDA")) ok(was_launched("zt_half_f16") && was_launched(many) && was_launched(few), "%s, %s", many, few);
}

int main(void)
{
    int fd = mkstemp(launched);
    ctx = zt_ctx_new();
    if (fd >= 0) setenv("ZT_CUDA_EMU_LAUNCHES", launched, 1);
    setenv("ZT_CUDA_WGMMA", "0", 1);
    engine = device_open(ctx, "cuda");
    if (engine) {
        test(640, "zt_gemm_f16", "zt_decode_pair");
        test(364, "zt_gemm_f16", "zt_decode_pair"); /* its end fills no step */
        test(75, "zt_gemm_f16", "zt_half_f16");
        zt_engine_close(engine);
        unsetenv("ZT_CUDA_WGMMA");
        engine = device_open(ctx, "cuda");
    }
    if (engine) test(504, "zt_wgmma_linear_f16", "zt_decode_pair");
    if (fd >= 0) close(fd), unlink(launched);
    return device_done(ctx, engine);
}
