/* cuda_gemm.c - large products of 16-bit numbers on cuda: near what doubles make of them, and row by
 * row the bits that few rows have, which other kernels make; in every layout and at odd sizes. */
#include "tests/engine/device.h"
#include "tests/common/one_op.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 80000 };

static zt_ctx *ctx;
static zt_engine *engine;

static uint32_t draw(void)
{
    static uint32_t s = 4242;
    return (s = s * 1664525 + 1013904223) >> 8;
}

/* ---- numbers: 0.5 to 1 of either sign -------------------------------------------------------- */

typedef struct numbers {
    zt_dtype dtype;
    double v[MOST];
    union {
        float f[MOST];
        uint16_t h[MOST];
        uint8_t e[MOST];
    } as;
} numbers;

static double half_of(zt_dtype dtype, uint16_t bits)
{
    uint32_t u = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &u, 4);
    if (dtype == ZT_BF16) return (double)f;
    double m = ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25);
    if (!(bits >> 10 & 31)) m = ldexp(bits & 1023, -24);
    return bits & 0x8000 ? -m : m;
}

static void fill(numbers *x, zt_dtype t, int64_t count)
{
    x->dtype = t;
    for (int64_t i = 0; i < count; i++) {
        uint32_t u = draw(), sign = u >> 20 & 1;
        uint16_t bits = (uint16_t)(sign << 15 | (t == ZT_F16 ? 0x3800 | (u & 1023) : 0x3f00 | (u & 127)));
        if (t == ZT_F32) {
            x->as.f[i] = (float)half_of(ZT_BF16, bits) * (1 + (float)(u >> 8 & 255) / 65536);
            x->v[i] = (double)x->as.f[i];
        } else if (t == ZT_F8_E4M3) {
            x->as.e[i] = (uint8_t)(sign << 7 | 0x30 | (u & 7));
            x->v[i] = (sign ? -1 : 1) * (8 + (double)(u & 7)) / 16;
        } else {
            x->as.h[i] = bits;
            x->v[i] = half_of(t, bits);
        }
    }
}

static double number_at(const numbers *x, int64_t i)
{
    return x->dtype == ZT_F32 ? (double)x->as.f[i] : half_of(x->dtype, x->as.h[i]);
}

/* What a result may be off: its last place, and what sums in f32 lose. */
static double bound_of(zt_dtype t, double want)
{
    double place = t == ZT_BF16 ? 0x1p-8 : t == ZT_F16 ? 0x1p-11 : 0x1p-7 /* x is rounded */;
    return fabs(want) * place + (t == ZT_F32 ? 0.1 : 1e-4);
}

/* ---- linear ---------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t n, K, M;
} sizes;

static numbers x, w, y, part;

static bool linear(sizes z, int64_t from, int64_t count, numbers *to)
{
    static const zt_linear_attrs attrs = {.act = {"q8"}};
    size_t each = x.dtype == ZT_F32 ? 4 : 2;
    zt_type in[2] = {{.dtype = x.dtype, .rank = 2, .dim = {count, z.K}}, {.dtype = w.dtype, .rank = 2, .dim = {z.M, z.K}}};
    oneop call = {.op = ZT_OP_linear,
                  .attrs = &attrs,
                  .in = {&in[0], &in[1]},
                  .data = {(const char *)&x.as + (size_t)(from * z.K) * each, &w.as},
                  .result = {&to->as}};
    to->dtype = x.dtype;
    return oneop_made(engine, &call);
}

static void test_linear(zt_dtype tx, zt_dtype tw, sizes z)
{
    double worst = 0;
    fill(&x, tx, z.n * z.K);
    fill(&w, tw, z.M * z.K);
    bool good = linear(z, 0, z.n, &y), same = good;
    for (int64_t i = 0; i < z.n * z.M && good; i++) {
        double want = 0;
        for (int64_t k = 0; k < z.K; k++) want += x.v[i / z.M * z.K + k] * w.v[i % z.M * z.K + k];
        double off = fabs(number_at(&y, i) - want) / bound_of(tx, want);
        worst = off > worst ? off : worst;
    }
    for (int64_t r = 0; r < z.n && same; r += 43) {
        size_t row = (size_t)z.M * (tx == ZT_F32 ? 4 : 2);
        same = linear(z, r, 1, &part) && !memcmp(&part.as, (const char *)&y.as + (size_t)r * row, row);
    }
    ok(good && worst <= 1, "linear %s by %s, %lld by %lld by %lld: %.2g of what it may be off", zt_dtype_get(tx)->name,
       zt_dtype_get(tw)->name, (long long)z.n, (long long)z.K, (long long)z.M, worst);
    ok(same, "and rows alone have the same bits");
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static bool matmul(sizes z, int64_t count, bool ta, bool tb, numbers *to)
{
    zt_matmul_attrs attrs = {.ta = ta, .tb = tb};
    zt_type in[2] = {{.dtype = x.dtype, .rank = 3, .dim = {2, ta ? z.K : count, ta ? count : z.K}},
                     {.dtype = x.dtype, .rank = 2, .dim = {tb ? z.M : z.K, tb ? z.K : z.M}}};
    oneop call = {.op = ZT_OP_matmul, .attrs = &attrs, .in = {&in[0], &in[1]}, .data = {&x.as, &w.as}, .result = {&to->as}};
    to->dtype = x.dtype;
    return oneop_made(engine, &call);
}

static void test_matmul(zt_dtype dtype, bool ta, bool tb, sizes z)
{
    double worst = 0;
    fill(&x, dtype, 2 * z.n * z.K);
    fill(&w, dtype, z.M * z.K);
    bool good = matmul(z, z.n, ta, tb, &y);
    for (int64_t i = 0; i < 2 * z.n * z.M && good; i++) {
        int64_t b = i / (z.n * z.M), n = i / z.M % z.n, m = i % z.M;
        double want = 0;
        for (int64_t k = 0; k < z.K; k++)
            want += x.v[b * z.n * z.K + (ta ? k * z.n + n : n * z.K + k)] * w.v[tb ? m * z.K + k : k * z.M + m];
        double off = fabs(number_at(&y, i) - want) / bound_of(dtype, want);
        worst = off > worst ? off : worst;
    }
    ok(good && worst <= 1, "matmul %s%s%s, %lld by %lld by %lld: %.2g of what it may be off", zt_dtype_get(dtype)->name,
       ta ? ", a transposed" : "", tb ? ", b transposed" : "", (long long)z.n, (long long)z.K, (long long)z.M, worst);
    if (ta) return;
    bool same = matmul(z, 40, ta, tb, &part) && !memcmp(part.as.h, y.as.h, (size_t)(40 * z.M) * sizeof y.as.h[0]);
    ok(same, "and 40 rows alone have the same bits");
}

static void test_all(void)
{
    static const sizes even = {136, 104, 144}, odd = {131, 75, 133}, few = {130, 24, 129};
    test_linear(ZT_F16, ZT_F16, (sizes){130, 296, 132});
    test_linear(ZT_BF16, ZT_BF16, odd);
    test_linear(ZT_F32, ZT_BF16, (sizes){70, 304, 260});
    test_linear(ZT_BF16, ZT_F8_E4M3, even);
    test_linear(ZT_F16, ZT_F8_E4M3, few);
    for (int layout = 0; layout < 4; layout++) {
        test_matmul(layout % 2 ? ZT_F16 : ZT_BF16, layout & 1, layout & 2, even);
        test_matmul(layout % 2 ? ZT_BF16 : ZT_F16, layout & 1, layout & 2, odd);
    }
}

/* By mma alone; then by wgmma too, where the device has it and the same bits. */
int main(void)
{
    ctx = zt_ctx_new();
    setenv("ZT_CUDA_WGMMA", "0", 1);
    engine = device_open(ctx, "cuda");
    if (!engine) return device_done(ctx, NULL);
    test_all();
    zt_engine_close(engine);
    unsetenv("ZT_CUDA_WGMMA");
    engine = device_open(ctx, "cuda");
    if (engine) test_all();
    return device_done(ctx, engine);
}
