/* cuda_dot_prefill.c - products of packed weights with many rows of x on cuda, 128 by 128 a block: row by
 * row the bits of few rows, which other kernels make, for every packed type, sizes that fill
 * no tile and no chunk, and x as one code of 8 bits or two. */
#include "lib/tensor/quantize.h"
#include "tests/engine/device.h"
#include "tests/engine/cuda_prefill_rows.h"

#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 150, MOST_K = 768, M = 140 };

static zt_ctx *ctx;
static zt_engine *engine;
static char launched[] = "cuda_codes.XXXXXX"; /* the emulation's lines, one a launch */
static float x[ROWS * MOST_K], w[M * MOST_K], bias[M], more[ROWS * M], y[ROWS * M], alone[ROWS * M];
static char packed[M * MOST_K * sizeof(float)];

static void draw(float *v, int64_t n)
{
    static uint32_t s = 99;
    for (int64_t i = 0; i < n; i++) v[i] = (float)((s = s * 1664525 + 1013904223) >> 8) / 8e6f - 1;
}

static bool multiply(zt_dtype t, const char *act, int64_t K, int64_t from, int64_t n, float *to)
{
    return manyrows_made(engine, &(manyrows){act, t, K, M, x, more, bias, packed}, from, n, to);
}

static bool is_same(zt_dtype t, const char *act, int64_t K, int64_t from, int64_t n)
{
    return multiply(t, act, K, from, n, alone) && !memcmp(alone, y + from * M, (size_t)(n * M) * sizeof *y);
}

static void test_type(zt_dtype t, const char *act, int64_t K)
{
    const char *name = zt_dtype_get(t)->name;
    const zt_quantizer q = {.dtype = t, .columns = K};
    char large[32], few[32], some[32];
    draw(w, M * K);
    bool good = !zt_quantize_rows(ctx, &q, w, M, packed) && multiply(t, act, K, 0, ROWS, y);
    ok(good, "%s by %s, K %lld", name, act, (long long)K);
    ok(good && is_same(t, act, K, 0, 1) && is_same(t, act, K, 127, 8), "its few rows");
    ok(good && is_same(t, act, K, 130, 20), "and some rows have the same bits");
    snprintf(large, sizeof large, "zt_large_%s", name);
    snprintf(few, sizeof few, "zt_decode_%s", name);
    snprintf(some, sizeof some, "zt_codes_%s", name);
    if (getenv("ZT_LIBCUDA")) ok(was_launched(large) && was_launched(few) && was_launched(some), "three kernels");
}

static void test_all(void)
{
    static const zt_dtype small[] = {ZT_Q4_0, ZT_Q4_1, ZT_Q5_0, ZT_Q5_1, ZT_Q8_0};
    static const zt_dtype wide[] = {ZT_Q4_K, ZT_Q5_K, ZT_Q6_K};
    draw(x, ROWS * MOST_K);
    draw(bias, M);
    draw(more, ROWS * M);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) test_type(small[i], i % 2 ? "q16" : "q8", 608 - 64 * (int64_t)i);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) test_type(wide[i], i % 2 ? "q8" : "q16", i ? 512 : 768);
    test_type(ZT_Q8_0, "q16", 32);
}

int main(void)
{
    int fd = mkstemp(launched);
    ctx = zt_ctx_new();
    if (fd >= 0) setenv("ZT_CUDA_EMU_LAUNCHES", launched, 1);
    engine = device_open(ctx, "cuda");
    if (engine) test_all();
    if (fd >= 0) close(fd), unlink(launched);
    return device_done(ctx, engine);
}
