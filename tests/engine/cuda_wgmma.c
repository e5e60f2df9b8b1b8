/* cuda_wgmma.c - large products of 16-bit numbers by wgmma, where a device has it: near what
 * doubles make of them, in every layout, at odd sizes and in batches, the same bits again; rows of
 * linear alone have the same; what its maps cannot say is mma's; and a device that does not
 * multiply as it should, or with other bits, is not believed.
 */
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 200000 };

static zt_ctx *ctx;
static zt_engine *engine;
static uint16_t a[MOST], b[MOST], y[MOST], again[MOST];
static char launches[] = "/tmp/cuda_wgmma.XXXXXX"; /* the emulation's list */

static void fill(zt_dtype t, uint16_t *to, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        float f = (float)(int32_t)seed / 2147483648.0f;
        zt_dtype_get(t)->encode(&f, to + i, 1);
    }
}

static double number(zt_dtype t, uint16_t bits)
{
    float f;
    zt_dtype_get(t)->decode(&bits, &f, 1);
    return (double)f;
}

typedef struct product {
    zt_dtype dtype;
    int64_t batches, N, K, M;
    bool ta, tb, b_too; /* b_too: b has batches too */
    const char *kernel; /* whose name begins so */
} product;

static bool multiply(const product *p, uint16_t *to)
{
    zt_matmul_attrs attrs = {.ta = p->ta, .tb = p->tb};
    int64_t of_b = p->b_too ? p->batches : 1;
    zt_type in[2] = {{.dtype = p->dtype, .rank = 3, .dim = {p->batches, p->ta ? p->K : p->N, p->ta ? p->N : p->K}},
                     {.dtype = p->dtype, .rank = 3, .dim = {of_b, p->tb ? p->M : p->K, p->tb ? p->K : p->M}}};
    oneop call = {.op = ZT_OP_matmul, .attrs = &attrs, .in = {&in[0], &in[1]}, .data = {a, b}, .result = {to}};
    if (!zt_op_infer(ctx, call.op, call.attrs, call.in, call.out) && !oneop_run(engine, &call)) return true;
    diag("%s", zt_ctx_error(ctx));
    return false;
}

/* Rows `from` and on of a, count of them, by p's b transposed. */
static bool linear(const product *p, int64_t from, int64_t count, uint16_t *to)
{
    static const zt_linear_attrs attrs = {.act = {"q8"}};
    zt_type in[2] = {{.dtype = p->dtype, .rank = 2, .dim = {count, p->K}}, {.dtype = p->dtype, .rank = 2, .dim = {p->M, p->K}}};
    oneop call = {.op = ZT_OP_linear, .attrs = &attrs, .in = {&in[0], &in[1]}, .data = {a + from * p->K, b}, .result = {to}};
    if (!zt_op_infer(ctx, call.op, call.attrs, call.in, call.out) && !oneop_run(engine, &call)) return true;
    diag("%s", zt_ctx_error(ctx));
    return false;
}

/* The kernel of the last launch; "" where nobody wrote it down. */
static const char *last_kernel(void)
{
    static char name[128];
    char line[256];
    FILE *file = fopen(launches, "r");
    name[0] = 0;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "%127s", name);
    if (file) fclose(file);
    return name;
}

/* Off by more than its last place and what sums in f32 lose? In that. */
static double off(const product *p, int64_t i)
{
    int64_t batch = i / (p->N * p->M), n = i / p->M % p->N, m = i % p->M;
    const uint16_t *left = a + batch * p->N * p->K;
    const uint16_t *right = b + (p->b_too ? batch * p->K * p->M : 0);
    double want = 0;
    for (int64_t k = 0; k < p->K; k++)
        want += number(p->dtype, left[p->ta ? k * p->N + n : n * p->K + k]) *
                number(p->dtype, right[p->tb ? m * p->K + k : k * p->M + m]);
    double place = p->dtype == ZT_BF16 ? 0x1p-8 : 0x1p-11;
    return fabs(number(p->dtype, y[i]) - want) / (fabs(want) * place + 1e-4);
}

static void test(const product *p)
{
    double worst = 0;
    int64_t count = p->batches * p->N * p->M;
    fill(p->dtype, a, p->batches * p->N * p->K, 7);
    fill(p->dtype, b, (p->b_too ? p->batches : 1) * p->K * p->M, 8);
    bool good = multiply(p, y);
    const char *kernel = last_kernel();
    for (int64_t i = 0; i < count && good; i++) worst = fmax(worst, off(p, i));
    ok(good && worst <= 1, "%lld of %lld by %lld by %lld, %s%s%s: %.2g of what it may be off", (long long)p->batches,
       (long long)p->N, (long long)p->K, (long long)p->M, zt_dtype_get(p->dtype)->name, p->ta ? ", a transposed" : "",
       p->tb ? ", b transposed" : "", worst);
    ok(!*kernel || !strncmp(kernel, p->kernel, strlen(p->kernel)), "by %s", kernel);
    ok(good && multiply(p, again) && !memcmp(y, again, (size_t)count * sizeof *y), "the same again");
}

static const product products[] = {
    {ZT_BF16, 2, 136, 104, 144, false, true, false, "zt_wgmma_bf16_nt_256"},
    {ZT_F16, 2, 136, 104, 144, false, false, true, "zt_wgmma_f16_nn_256"},
    {ZT_BF16, 2, 136, 104, 144, true, false, true, "zt_wgmma_bf16_tn_256"},
    {ZT_F16, 1, 200, 328, 136, false, true, false, "zt_wgmma_f16_nt_128"},
    {ZT_BF16, 1, 200, 328, 136, false, false, false, "zt_wgmma_bf16_nn_128"},
    {ZT_F16, 1, 200, 328, 136, true, false, false, "zt_wgmma_f16_tn_128"},
    {ZT_F16, 5, 72, 520, 72, true, false, true, "zt_wgmma_f16_tn_256"},
    {ZT_BF16, 1, 65, 8, 261, false, true, false, "zt_wgmma_bf16_nt_128"},
    /* Rows that do not begin at multiples of 16 bytes, or both transposed. */
    {ZT_BF16, 2, 136, 75, 144, false, true, false, "zt_matmul_bf16_nt"},
    {ZT_F16, 2, 136, 104, 133, false, false, false, "zt_matmul_f16_nn"},
    {ZT_BF16, 2, 131, 104, 144, true, false, false, "zt_matmul_bf16_tn"},
    {ZT_F16, 2, 136, 104, 144, true, true, false, "zt_matmul_f16_tn"},
};

static void test_linear(zt_dtype dtype, int64_t K, const char *by)
{
    const product p = {dtype, 1, 200, K, 264, false, true, false, NULL};
    double worst = 0;
    fill(dtype, a, p.N * p.K, 7);
    fill(dtype, b, p.K * p.M, 8);
    bool good = linear(&p, 0, p.N, y);
    const char *kernel = last_kernel();
    ok(!*kernel || !strcmp(kernel, by), "linear by %s", kernel);
    for (int64_t i = 0; i < p.N * p.M && good; i++) worst = fmax(worst, off(&p, i));
    ok(good && worst <= 1, "%lld columns of %s: %.2g of what it may be off", (long long)K, zt_dtype_get(dtype)->name, worst);
    for (int64_t r = 0; r < p.N && good; r += 33)
        good = linear(&p, r, 1, again) && !memcmp(again, y + r * p.M, (size_t)p.M * sizeof *y);
    good = good && linear(&p, 3, 70, again) && !memcmp(again, y + 3 * p.M, (size_t)(70 * p.M) * sizeof *y);
    ok(good, "and rows alone, or some, have the same bits");
}

/* ---- devices that do not multiply ------------------------------------------------------------ */

static char warned[512];
static void hear(void *user, zt_level level, const char *text)
{
    (void)user, (void)level;
    if (strstr(text, "with mma")) snprintf(warned, sizeof warned, "%s", text);
}

/* In a process of its own, since the driver is started once: the product is right all the same, by
 * the kernel `by`, linear by mma, and the log has said `says` (NULL: nothing). 0: so it was. */
static int alone(const char *variable, const char *value, const char *by, const char *says)
{
    static const product p = {ZT_BF16, 2, 136, 104, 144, false, true, false, NULL},
                         rows = {ZT_BF16, 1, 200, 328, 264, false, true, false, NULL};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        double worst = 0;
        setenv(variable, value, 1);
        ctx = zt_ctx_new();
        zt_log_set(ctx, ZT_LOG_INFO, hear, NULL);
        engine = zt_engine_open(ctx, "cuda", &(zt_engine_opts){.isa = zt_isa_best()});
        fill(p.dtype, a, p.batches * p.N * p.K, 7);
        fill(p.dtype, b, p.K * p.M, 8);
        bool good = engine && linear(&rows, 0, rows.N, y) && !strcmp(last_kernel(), "zt_gemm_bf16") && multiply(&p, y) &&
                    multiply(&p, again);
        for (int64_t i = 0; i < p.batches * p.N * p.M && good; i++) worst = fmax(worst, off(&p, i));
        good = good && worst <= 1 && !strcmp(last_kernel(), by);
        good = good && (says ? strstr(warned, says) != NULL : !warned[0]);
        if (!good) diag("%g of what it may be off; '%s'", worst, warned);
        zt_engine_close(engine);
        good = good && zt_mem_get(ctx).blocks == 0;
        zt_ctx_free(ctx);
        fflush(stdout);
        _exit(!good);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status;
}

static void test_doubts(void)
{
    const char *library = getenv("ZT_LIBCUDA");
    if (!library || !strstr(library, "cuda-emu")) return skip("the emulated driver is not named");
    const char *mma = "zt_matmul_bf16_nt";
    ok(!alone("ZT_CUDA_WGMMA", "0", mma, NULL), "ZT_CUDA_WGMMA=0: by mma");
    ok(!alone("ZT_CUDA_EMU_WGMMA", "wrong", mma, "zt_wgmma_f16_nt_128 does not multiply"),
       "sums that are wrong: by mma, which is said");
    ok(!alone("ZT_CUDA_EMU_WGMMA", "fails", mma, "a wgmma that was to fail"), "a launch that fails: by mma, which is said");
    ok(!alone("ZT_CUDA_EMU_WGMMA", "order", "zt_wgmma_bf16_nt_256", "linear stays with mma"),
       "sums in another order: linear by mma, which is said, but not matmul");
    ok(!alone("ZT_CUDA_EMU_FAIL", "cuCtxCreate_v2:1", mma, "cuCtxCreate: unknown error"),
       "no context to try it in: by mma, which is said");
}

int main(void)
{
    int file = mkstemp(launches);
    setenv("ZT_CUDA_EMU_LAUNCHES", launches, 1);
    unsetenv("ZT_CUDA_WGMMA");
    test_doubts();
    ctx = zt_ctx_new();
    engine = zt_engine_open(ctx, "cuda", &(zt_engine_opts){.isa = zt_isa_best()});
    if (!engine) skip("cuda: %s", zt_ctx_error(ctx));
    for (size_t i = 0; engine && i < sizeof products / sizeof products[0]; i++) test(&products[i]);
    if (engine) {
        test_linear(ZT_BF16, 328, "zt_wgmma_linear_bf16");
        test_linear(ZT_F16, 504, "zt_wgmma_linear_f16");
        test_linear(ZT_F16, 520, "zt_gemm_f16"); /* its slices end within a stage */
    }
    zt_engine_close(engine);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    if (file >= 0) close(file), unlink(launches);
    return tap_done();
}
