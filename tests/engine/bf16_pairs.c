/* bf16_pairs.c - products of bf16 matrices are what AVX-512's instruction for pairs gives, to the
 * bit, also on instruction sets without it and on processors where something faster takes its place (isa/gemm.h). */
#include "lib/run/pass.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 27, COLUMNS = 45, BLOCK = 1024 /* numbers in one sum */ };

#if defined(__x86_64__)
#include <immintrin.h>

static zt_ctx *ctx;
static zt_engine *engine;

/* Mostly of some size, some near nothing: subnormal ones, and ones with subnormal products. */
static void fill(uint16_t *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        double v = zt_normal(seed, 0, (uint64_t)i), kind = zt_uniform(seed, 1, (uint64_t)i);
        x[i] = zt_f32_to_bf16((float)(kind < .05 ? v * 1e-39 : kind < .1 ? v * 1e-20 : v));
    }
}

__attribute__((target("avx512f,avx512vl,avx512bf16"))) static float one_value(const uint16_t *a, int64_t a_step,
                                                                              const uint16_t *b, int64_t b_step, int64_t K)
{
    float y = 0;
    for (int64_t k = 0; k < K; k += BLOCK) {
        __m128 sum = _mm_setzero_ps();
        for (int64_t i = k; i < K && i < k + BLOCK; i += 2) {
            uint32_t u = a[i * a_step], v = b[i * b_step];
            if (i + 1 < K) u |= (uint32_t)a[(i + 1) * a_step] << 16;
            if (i + 1 < K) v |= (uint32_t)b[(i + 1) * b_step] << 16;
            sum = _mm_dpbf16_ps(sum, (__m128bh)_mm_set1_epi32((int)u), (__m128bh)_mm_set1_epi32((int)v));
        }
        y = k ? y + _mm_cvtss_f32(sum) : _mm_cvtss_f32(sum);
    }
    return y;
}

static bool product(int K, bool ta, bool tb, const uint16_t *a, const uint16_t *b, uint16_t *y)
{
    char text[256];
    snprintf(text, sizeof text,
             "zt program 1\nin a: bf16[%d,%d]\nin b: bf16[%d,%d]\ny = matmul a b ta=%d tb=%d\n"
             "out y = y\n",
             ta ? K : ROWS, ta ? ROWS : K, tb ? COLUMNS : K, tb ? K : COLUMNS, ta, tb);
    zt_prog *program = zt_prog_parse(ctx, "given", text, strlen(text));
    zt_session *session = program ? zt_session_open(engine, program, NULL, NULL) : NULL;
    bool good = session && zt_session_step(session, NULL, 0, (const void *[]){a, b}, (void *[]){y}) == ZT_OK;
    if (!good) diag("%s", zt_ctx_error(ctx));
    zt_session_close(session);
    zt_prog_free(program);
    return good;
}

static void same_bits(zt_isa isa, int K, bool ta, bool tb)
{
    uint16_t *a = malloc(sizeof *a * ROWS * (size_t)K);
    uint16_t *b = malloc(sizeof *b * COLUMNS * (size_t)K);
    uint16_t y[ROWS * COLUMNS];
    int wrong = 0;
    fill(a, (int64_t)ROWS * K, 1);
    fill(b, (int64_t)COLUMNS * K, 2);
    bool good = product(K, ta, tb, a, b, y);
    for (int r = 0; good && r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            const uint16_t *u = ta ? a + r : a + (int64_t)r * K;
            const uint16_t *v = tb ? b + (int64_t)c * K : b + c;
            float sum = one_value(u, ta ? ROWS : 1, v, tb ? 1 : COLUMNS, K);
            wrong += y[r * COLUMNS + c] != zt_f32_to_bf16(sum);
        }
    ok(good && !wrong, "%s, K %d%s%s: as the instruction (%d differ)", zt_isa_name(isa), K, ta ? ", a turned" : "",
       tb ? ", b turned" : "", wrong);
    free(a);
    free(b);
}

int main(void)
{
    if (zt_isa_best() < ZT_ISA_AVX512) {
        skip("this processor has no AVX-512 with bf16");
        return tap_done();
    }
    static const int depth[] = {1, 2, 7, 64, 333, 1024, 1025, 2100};
    ctx = zt_ctx_new();
    for (int isa = 0; isa <= (int)ZT_ISA_AVX512; isa++) {
        engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = (zt_isa)isa});
        for (size_t i = 0; engine && i < sizeof depth / sizeof *depth; i++)
            for (int turned = 0; turned < 4; turned++) same_bits((zt_isa)isa, depth[i], turned & 1, turned & 2);
        zt_engine_close(engine);
    }
    zt_ctx_free(ctx);
    return tap_done();
}

#else

int main(void)
{
    skip("no AVX-512 here");
    return tap_done();
}

#endif
