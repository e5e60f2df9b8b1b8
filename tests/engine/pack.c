/* pack.c - packed weights and the matrix product on them.
 *
 * Packing loses nothing: a row comes back with the bits that its dtype decodes to. The product is
 * right at every instruction set, with plain and with 8-bit activations (against the same rounding
 * done here in plain C); and a token's bits are the same alone, in any batch, with any threads.
 */
#include "lib/engine/cpu/pack.h"
#include "tests/common/golden.h"
#include "tests/common/npy.h"
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

static const zt_dtype dtypes[] = {ZT_F32, ZT_F16, ZT_BF16,
#define X(NAME, ...) ZT_##NAME,
                                  ZT_PACK_BLOCKS(X) ZT_PACK_AS_IN_FILE(X)
#undef X
};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

static uint64_t draws;

static uint32_t draw(void)
{
    uint32_t w[4];
    zt_philox(3, 0, draws++, w);
    return w[0];
}

static size_t row_bytes(zt_dtype t, int64_t K)
{
    const zt_dtype_info *d = zt_dtype_get(t);
    return (size_t)(K / d->block) * (size_t)d->block_bytes;
}

/* Where the halves are in a block, -1 after the last: they must not be infinite or NaN. iq1_m's is
 * in the upper bits of four u16. */
static const int halves[ZT_DTYPE_COUNT][3] = {
    [ZT_Q4_0] = {0, -1},    [ZT_Q4_1] = {0, 2, -1},   [ZT_Q5_0] = {0, -1},    [ZT_Q5_1] = {0, 2, -1}, [ZT_IQ4_NL] = {0, -1},
    [ZT_Q8_0] = {0, -1},    [ZT_Q4_K] = {0, 2, -1},   [ZT_Q5_K] = {0, 2, -1}, [ZT_Q6_K] = {208, -1},  [ZT_MXFP4] = {-1},
    [ZT_NVFP4] = {-1},      [ZT_Q2_K] = {80, 82, -1}, [ZT_Q3_K] = {108, -1},  [ZT_IQ4_XS] = {0, -1},  [ZT_Q1_0] = {0, -1},
    [ZT_Q2_0] = {0, -1},    [ZT_TQ1_0] = {52, -1},    [ZT_TQ2_0] = {64, -1},  [ZT_IQ3_XXS] = {0, -1}, [ZT_IQ3_S] = {0, -1},
    [ZT_IQ2_XXS] = {0, -1}, [ZT_IQ2_XS] = {0, -1},    [ZT_IQ2_S] = {0, -1},   [ZT_IQ1_S] = {0, -1},   [ZT_IQ1_M] = {-1},
    [ZT_IQ2_K] = {0, -1},   [ZT_IQ3_K] = {0, -1},     [ZT_IQ4_K] = {0, -1},   [ZT_IQ5_K] = {0, -1},   [ZT_IQ6_K] = {0, -1}};

/* Random bytes, scales between about 2^-8 and 2^-7, of either sign. */
static void fill(zt_dtype dtype, uint8_t *p, size_t bytes)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)draw();
    for (size_t i = 0; info->kind == 'Q' && i < bytes; i += (size_t)info->block_bytes)
        for (int h = 0; halves[dtype][h] >= 0; h++) {
            uint16_t half = (uint16_t)((draw() & 0x83ff) | 0x1c00);
            memcpy(p + i + halves[dtype][h], &half, 2);
        }
    for (size_t i = 0; dtype == ZT_MXFP4 && i < bytes; i += 17) p[i] = (uint8_t)(118 + draw() % 8);
    for (size_t i = 0; dtype == ZT_IQ1_M && i < bytes; i += 56)
        for (int w = 0; w < 4; w++)
            p[i + 49 + 2 * (size_t)w] = (uint8_t)((p[i + 49 + 2 * (size_t)w] & 15) | (w == 3 ? 0x10 : w == 2 ? 0xc0 : 0));
    if (info->kind == 'Q') return;
    for (size_t i = 0; i < bytes; i += (size_t)info->block_bytes) {
        float x = (float)((int)(draw() % 2001) - 1000) * 1e-3f;
        info->encode(&x, p + i, 1);
    }
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Powers, in front of a group, come from what was packed, not from what memory held. */
static void test_powers(zt_dtype dtype, int64_t K, const uint8_t *file, int rows)
{
    size_t group = zt_pack_group_bytes(dtype, K);
    uint8_t *packed[2];
    for (int i = 0; i < 2; i++) {
        packed[i] = aligned_alloc(64, group);
        memset(packed[i], i ? 0x11 : 0xee, group);
        zt_pack_group(dtype, K, file, row_bytes(dtype, K), rows, packed[i]);
    }
    ok(!memcmp(packed[0], packed[1], ZT_PACK_POWERS), "%s: powers of %lld columns", zt_dtype_get(dtype)->name, (long long)K);
    free(packed[0]), free(packed[1]);
}

static void test_pack(zt_dtype dtype, int64_t K, int rows)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    size_t row = row_bytes(dtype, K), group = zt_pack_group_bytes(dtype, K);
    uint8_t *file = malloc(row * 16 + 1), *packed = aligned_alloc(64, group + 64);
    float *want = malloc((size_t)K * 4), *got = malloc((size_t)K * 4);
    int bad = 0;
    fill(dtype, file, row * 16);
    for (size_t i = 0; dtype == ZT_MXFP4 && i < row * 16; i += 17) /* every exponent */
        file[i] = (uint8_t)(i / 17);
    memset(packed, 0xee, group + 64);
    zt_pack_group(dtype, K, file, row, rows, packed);
    for (int r = 0; r < rows; r++) {
        info->decode(file + (size_t)r * row, want, K);
        zt_unpack_row(dtype, K, packed, r, got);
        bad += memcmp(want, got, (size_t)K * 4) != 0;
    }
    for (int r = rows; r < 16; r++) { /* a row of zeros: scale 0 */
        zt_unpack_row(dtype, K, packed, r, got);
        for (int64_t k = 0; k < K; k++) bad += got[k] != 0;
    }
    for (int i = 0; i < 64; i++) bad += packed[group + (size_t)i] != 0xee;
    ok(bad == 0 && group % 64 == 0, "%s: %d rows of %lld columns come back to the bit", info->name, rows, (long long)K);
    if (zt_pack_form_of(dtype).bits) test_powers(dtype, K, file, rows);
    free(file), free(packed), free(want), free(got);
}

static void test_packs(zt_dtype dtype)
{
    int block = zt_dtype_get(dtype)->block;
    test_pack(dtype, block, 16);
    test_pack(dtype, 2 * block, 16);
    test_pack(dtype, 3 * block, 5);
    if (block == 1) test_pack(dtype, 33, 16);
    if (dtype == ZT_MXFP4) test_pack(dtype, 16 * block, 16);
}

/* ---- the product ----------------------------------------------------------------------------- */

typedef struct problem {
    zt_dtype dtype;
    int64_t n, K, M;
    bool q8, q16, bias;
    float *x, *b, *w; /* w decoded */
    uint8_t *file;
    double *want;
} problem;

/* x to a whole number of 256ths of d in two bytes, of which the lower is from -127 on. */
static float in_two_bytes(float x, float d)
{
    int v = (int)lrintf(x * (1 / d) * 256), high = (v + 128) >> 8, low = v - 256 * high;
    return d / 256 * (float)(256 * high + (low < -127 ? -127 : low));
}

/* x as an engine may round it before multiplying. */
static void round_row(const problem *p, const float *x, float *y)
{
    bool rounded = zt_dtype_get(p->dtype)->kind == 'Q' && !zt_pack_as_in_file(p->dtype);
    for (int64_t k = 0; k < p->K; k++) {
        y[k] = x[k];
        if (p->q8 && p->dtype == ZT_BF16) y[k] = zt_bf16_to_f32(zt_f32_to_bf16(x[k]));
        if (!(p->q8 || p->q16) || !rounded) continue;
        float top = 0;
        for (int64_t i = k / 32 * 32; i < k / 32 * 32 + 32; i++) top = fmaxf(top, fabsf(x[i]));
        y[k] = top <= 0 ? 0 : p->q16 ? in_two_bytes(x[k], top / 127) : top / 127 * (float)lrintf(x[k] * (127 / top));
    }
}

static void make_problem(problem *p)
{
    size_t row = row_bytes(p->dtype, p->K);
    p->x = malloc((size_t)(p->n * p->K) * 4);
    p->w = malloc((size_t)(p->M * p->K) * 4);
    p->b = malloc((size_t)p->M * 4);
    p->file = malloc(row * (size_t)p->M);
    p->want = malloc((size_t)(p->n * p->M) * 8);
    float *y = malloc((size_t)p->K * 4);
    fill(ZT_F32, (uint8_t *)p->x, (size_t)(p->n * p->K) * 4);
    fill(ZT_F32, (uint8_t *)p->b, (size_t)p->M * 4);
    for (int64_t k = 0; k < 32 && k < p->K; k++) p->x[k] = 0; /* a block without a scale */
    fill(p->dtype, p->file, row * (size_t)p->M);
    zt_dtype_get(p->dtype)->decode(p->file, p->w, p->M * p->K);
    for (int64_t t = 0; t < p->n; t++) {
        round_row(p, p->x + t * p->K, y);
        for (int64_t m = 0; m < p->M; m++) {
            double sum = p->bias ? p->b[m] : 0;
            for (int64_t k = 0; k < p->K; k++) sum += (double)y[k] * (double)p->w[m * p->K + k];
            p->want[t * p->M + m] = sum;
        }
    }
    free(y);
}

static void free_problem(problem *p) { free(p->x), free(p->w), free(p->b), free(p->file), free(p->want); }

/* Tokens from..from+count-1 on an engine, x and y of a type; the weight is loaded (and packed), or comes as
 * plain input. */
static bool multiply_as(zt_engine *engine, const problem *p, zt_dtype type, const void *from, int64_t count, void *y)
{
    zt_linear_attrs attrs = zt_linear_defaults();
    zt_type x = zt_type_make(type, 2, (int64_t[]){count, p->K});
    zt_type w = zt_type_make(p->dtype, 2, (int64_t[]){p->M, p->K}), b = zt_type_make(ZT_F32, 1, &p->M);
    if (p->q8 || p->q16) strcpy(attrs.act.s, p->q8 ? "q8" : "q16");
    oneop call = {.op = ZT_OP_linear,
                  .attrs = &attrs,
                  .in = {&x, &w, p->bias ? &b : NULL},
                  .data = {from, p->file, p->b},
                  .out = {zt_type_make(type, 2, (int64_t[]){count, p->M})},
                  .result = {y}};
    return oneop_run(engine, &call) == ZT_OK;
}

static bool multiply(zt_engine *e, const problem *p, int64_t from, int64_t n, float *y)
{
    return multiply_as(e, p, ZT_F32, p->x + from * p->K, n, y);
}

/* *lean: how much of that is the same in all, as a share. */
static double error_of(const problem *p, const float *y, double *lean)
{
    double wrong = 0, all = 1e-300, sum = 0;
    const double n = (double)(p->n * p->M);
    for (int64_t i = 0; i < p->n * p->M; i++) {
        sum += y[i] - p->want[i];
        wrong += (y[i] - p->want[i]) * (y[i] - p->want[i]);
        all += p->want[i] * p->want[i];
    }
    *lean = wrong > 0 ? sum * sum / n / wrong : 0;
    return wrong / all;
}

/* With 8 bits block types' scales and sums may be rounded to 16 bits. */
static double allowed(const problem *p)
{
    bool block = zt_dtype_get(p->dtype)->kind == 'Q' && !zt_pack_as_in_file(p->dtype);
    return block && p->q8 ? 2e-7 : 1e-11;
}

static void test_product(zt_ctx *ctx, zt_isa isa, problem p)
{
    zt_engine *engine[3];
    bool fine = true, same = true;
    make_problem(&p);
    float *y = malloc((size_t)(p.n * p.M) * 4), *z = malloc((size_t)(p.n * p.M) * 4);
    for (int i = 0; i < 3; i++) {
        engine[i] = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = i + 1, .isa = isa, .tile = 8 * i});
        fine = fine && engine[i];
    }
    fine = fine && multiply(engine[0], &p, 0, p.n, y);
    double lean = 0, error = fine ? error_of(&p, y, &lean) : 1;
    const int64_t parts[] = {p.n, p.n, p.n, 1, 2, 3, 5, 9, 17};
    for (int i = 0; i < 9 && fine; i++)
        for (int64_t t = 0; t < p.n && same; t += parts[i]) {
            int64_t count = p.n - t < parts[i] ? p.n - t : parts[i];
            same = multiply(engine[(i + t) % 3], &p, t, count, z) && !memcmp(z, y + t * p.M, (size_t)(count * p.M) * 4);
        }
    /* bfloat16 pairs are added in an order of the processor's, without subnormals */
    ok(fine && error < allowed(&p) && (lean < .05 || p.K < 512),
       "%s %s %s: %lld x %lld x %lld, error %.1e, %.4f of it everywhere", zt_isa_name(isa), zt_dtype_get(p.dtype)->name,
       p.q8    ? "q8"
       : p.q16 ? "q16"
               : "f32",
       (long long)p.n, (long long)p.K, (long long)p.M, error, lean);
    ok(same, "... and every token has the same bits in any batch and tile, for 1, 2 and 3 threads");
    for (int i = 0; i < 3; i++) zt_engine_close(engine[i]);
    free(y), free(z);
    free_problem(&p);
}

#if defined(__x86_64__)
#include <emmintrin.h>

/* Row m of weights times token t by vdpbf16ps: words of two columns, even and odd ones apart. */
static float pairs_of(const problem *p, int64_t t, int64_t m)
{
    const uint16_t *w = (const uint16_t *)(const void *)p->file + m * p->K;
    const float *x = p->x + t * p->K;
    __m128 sum[2] = {_mm_setzero_ps(), _mm_setzero_ps()};
    for (int64_t k = 0; k < p->K; k += 2) {
        uint32_t a = w[k], b = zt_f32_to_bf16(x[k]);
        if (k + 1 < p->K) a |= (uint32_t)w[k + 1] << 16;
        if (k + 1 < p->K) b |= (uint32_t)zt_f32_to_bf16(x[k + 1]) << 16;
        __asm__("vdpbf16ps %2, %1, %0" : "+x"(sum[k / 2 % 2]) : "x"(_mm_set1_epi32((int)a)), "x"(_mm_set1_epi32((int)b)));
    }
    return _mm_cvtss_f32(sum[0]) + _mm_cvtss_f32(sum[1]);
}

/* The bits of vdpbf16ps, which takes subnormal numbers for 0, on every instruction set: those that do not have it, and
 * processors that are slow at it, have them from other instructions. Sums of some tokens are subnormal, or almost. */
static void test_pairs(zt_ctx *ctx, zt_isa isa)
{
    problem p = {.dtype = ZT_BF16, .n = 31, .K = 1075, .M = 69, .q8 = true};
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = isa});
    make_problem(&p);
    float *y = malloc((size_t)(p.n * p.M) * 4);
    for (int64_t i = 0; i < p.n * p.K; i++) p.x[i] = ldexpf(p.x[i], (int)(i / p.K % 3) * -62);
    bool fine = engine && multiply(engine, &p, 0, p.n, y);
    int bad = 0, tiny = 0;
    for (int64_t i = 0; i < p.n * p.M && fine; i++) {
        float want = pairs_of(&p, i / p.M, i % p.M);
        bad += memcmp(&want, y + i, 4) != 0;
        tiny += fabsf(want) < 0x1p-120f;
    }
    ok(fine && !bad && tiny > 0, "bf16 pairs, %s: %d of %lld sums have other bits than vdpbf16ps's, %d are tiny",
       zt_isa_name(isa), bad, (long long)(p.n * p.M), tiny);
    zt_engine_close(engine);
    free(y);
    free_problem(&p);
}
#endif

/* ---- golden products ------------------------------------------------------------------------- */

/* formats/quant: T.gemm is act times T's rows, in f64. Rows of all sorts of data, and blocks that
 * ggml made. */
static void test_golden_type(zt_engine *engine, const npz *archive, const char *type)
{
    char name[64] = {0};
    zt_dtype t;
    npy act = {0}, bytes = {0}, gemm = {0};
    for (size_t i = 0; type[i] && i < 40; i++) name[i] = (char)tolower(type[i]);
    if (!zt_dtype_parse(name, strlen(name), &t)) {
        ok(false, "%s: a dtype", type);
        return;
    }
    npz_get(archive, "act", &act);
    snprintf(name, sizeof name, "%.40s.bytes", type);
    npz_get(archive, name, &bytes);
    snprintf(name, sizeof name, "%.40s.gemm", type);
    bool there = npz_get_any(archive, name, &gemm) && act.rank == 2 && bytes.rank == 2 && gemm.rank == 2 &&
                 gemm.shape[1] == bytes.shape[0] && gemm.shape[0] == act.shape[0] &&
                 (size_t)bytes.shape[1] == row_bytes(t, act.shape[1]);
    float *y = there ? malloc((size_t)gemm.count * 4) : NULL;
    problem p = {.dtype = t, .n = there ? act.shape[0] : 0, .K = act.shape[1], .M = bytes.shape[0]};
    p.x = there ? memcpy(malloc(act.bytes), act.data, act.bytes) : NULL;
    p.file = there ? memcpy(malloc(bytes.bytes), bytes.data, bytes.bytes) : NULL;
    p.want = there ? malloc(gemm.bytes) : NULL;
    for (int64_t i = 0; there && i < gemm.count; i++) {
        int64_t at = gemm.columns ? i % p.M * p.n + i / p.M : i;
        memcpy(p.want + i, (const double *)gemm.data + at, 8);
    }
    double error[2] = {1, 1};
    for (int q8 = 0; q8 < 2 && there; q8++) {
        p.q8 = q8;
        if (multiply(engine, &p, 0, p.n, y)) error[q8] = error_of(&p, y, &(double){0});
    }
    ok(error[0] < 1e-11 && error[1] < 5e-4, "%s: golden products, error %.1e, 8-bit %.1e", type, error[0], error[1]);
    free(y), free(p.x), free(p.file), free(p.want);
    npy_free(&act), npy_free(&bytes), npy_free(&gemm);
}

static void test_golden(zt_ctx *ctx)
{
    char path[4096];
    json_error_t error;
    npz archive;
    const char *golden = golden_folder();
    if (!golden) return;
    snprintf(path, sizeof path, "%s/formats/quant/manifest.json", golden);
    json_t *m = golden_has(path) ? json_load_file(path, 0, &error) : NULL;
    snprintf(path, sizeof path, "%s/formats/quant/data.npz", golden);
    if (m && golden_has(path) && ok(npz_open(&archive, path), "%s", path)) {
        zt_engine *cpu = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2});
        const json_t *cases = json_object_get(m, "cases");
        for (size_t i = 0; cpu && i < json_array_size(cases); i++) {
            const char *type = json_string_value(json_object_get(json_array_get(cases, i), "type"));
            test_golden_type(cpu, &archive, type ? type : "(none)");
        }
        zt_engine_close(cpu);
        npz_close(&archive);
    }
    json_decref(m);
}

/* Activations of 16 bits give what the same numbers in f32 give, rounded. */
static void test_narrow(zt_ctx *ctx, zt_dtype type, problem p)
{
    const zt_dtype_info *info = zt_dtype_get(type);
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2});
    make_problem(&p);
    const int64_t n_x = p.n * p.K, n_y = p.n * p.M;
    uint16_t *x = malloc((size_t)n_x * 2), *y = malloc((size_t)n_y * 2), *want = malloc((size_t)n_y * 2);
    float *wide = malloc((size_t)n_y * 4);
    info->encode(p.x, x, n_x);
    info->decode(x, p.x, n_x);
    bool fine = engine && multiply(engine, &p, 0, p.n, wide) && multiply_as(engine, &p, type, x, p.n, y);
    info->encode(wide, want, n_y);
    ok(fine && !memcmp(y, want, (size_t)n_y * 2), "%s %s: x of %s", zt_dtype_get(p.dtype)->name, p.q8 ? "q8" : "q16", info->name);
    zt_engine_close(engine);
    free(x), free(y), free(want), free(wide);
    free_problem(&p);
}

/* Tiles take blocks of 32 columns in twos. */
static void test_odd_blocks(zt_ctx *ctx)
{
    for (int i = 0; i < N_DTYPES; i++)
        for (zt_isa isa = ZT_ISA_SCALAR; isa <= zt_isa_best(); isa++)
            for (int q16 = 0; q16 < 2 && zt_dtype_get(dtypes[i])->block == 32; q16++)
                test_product(ctx, isa,
                             (problem){.dtype = dtypes[i], .n = 43, .K = 32 + 64 * q16, .M = 21, .q8 = !q16, .q16 = q16});
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (int i = 0; i < N_DTYPES; i++) test_packs(dtypes[i]);
    for (zt_isa isa = ZT_ISA_SCALAR; isa <= zt_isa_best(); isa++)
        for (int i = 0; i < N_DTYPES; i++)
            for (int q8 = 0; q8 < 2; q8++) {
                int64_t K = zt_dtype_get(dtypes[i])->block == 1 ? 75 : 512;
                test_product(ctx, isa, (problem){.dtype = dtypes[i], .n = 23, .K = K, .M = 69, .q8 = q8, .bias = q8});
            }
    /* so many columns that groups are opened for their tiles piece by piece */
    for (int i = 0; i < N_DTYPES; i++)
        for (int q16 = 0; q16 < 2 && zt_dtype_get(dtypes[i])->kind == 'Q'; q16++)
            test_product(ctx, zt_isa_best(), (problem){.dtype = dtypes[i], .n = 43, .K = 1792, .M = 37, .q8 = !q16, .q16 = q16});
    test_odd_blocks(ctx);
    for (int q8 = 0; q8 < 2; q8++) {
        problem p = {.dtype = ZT_Q5_1, .n = 43, .K = 96, .M = 37, .q8 = q8, .q16 = !q8};
        test_narrow(ctx, ZT_F16, p);
        test_narrow(ctx, ZT_BF16, p);
    }
#if defined(__x86_64__)
    for (int isa = 0; isa <= (int)ZT_ISA_AVX512 && zt_isa_best() == ZT_ISA_AVX512; isa++) test_pairs(ctx, (zt_isa)isa);
#endif
    test_golden(ctx);
    if (zt_ctx_status(ctx)) diag("%s", zt_ctx_error(ctx));
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
