/* wgmma_proof.c - what a device gives by the kernels of *_sm90.cu. Those of matrices make a product
 * of small whole numbers each, whose sums are exact in f32; those with weights one of numbers of
 * many sizes, which must have the bits that mma gives it. In a context of its own: a kernel that
 * fails there harms nothing else. */
#include "lib/engine/cuda/wgmma.h"

#include <math.h>
#include <string.h>

/* More steps than stages, and what is past the end along all of them. */
enum { BATCHES = 2, N = 72, K = 328, M = 184 };

typedef struct wgmma_proof {
    zt_cu_engine *engine; /* on the context of its own */
    zt_cu_mem a_memory, b_memory, y_memory;
    uint16_t *host;  /* an operand, or y */
    float *expected; /* [BATCHES,N,M] */
} wgmma_proof;

static int left_at(int batch, int n, int k) { return (batch * 5 + n * 7 + k * 11) % 9 - 4; }
static int right_at(int k, int column) { return (k * 5 + column * 13 + 2) % 7 - 3; }

/* What stands at every place of y. */
static void multiply_on_host(wgmma_proof *proof)
{
    for (int i = 0; i < K * M; i++) proof->host[i] = (uint16_t)(right_at(i / M, i % M) + 3);
    for (int i = 0; i < BATCHES * N; i++) {
        float *row = proof->expected + i * M;
        for (int column = 0; column < M; column++) row[column] = 0;
        for (int k = 0; k < K; k++) {
            const int left = left_at(i / N, i % N, k);
            for (int column = 0; column < M; column++) row[column] += (float)(left * (proof->host[k * M + column] - 3));
        }
    }
}

static void put_number(wgmma_proof *proof, zt_dtype dtype, int index, float value)
{
    zt_dtype_get(dtype)->encode(&value, proof->host + index, 1);
}

static zt_status copy_back(wgmma_proof *proof, void *target, size_t bytes)
{
    zt_cu_engine *engine = proof->engine;
    zt_status status =
        zt_cu_try(engine, engine->cu.MemcpyDtoHAsync(target, proof->y_memory.address, bytes, engine->stream), "MemcpyDtoHAsync");
    return status ? status : zt_cu_try(engine, engine->cu.StreamSynchronize(engine->stream), "StreamSynchronize");
}

static zt_status send_numbers(wgmma_proof *proof, const zt_cu_mem *to, size_t numbers)
{
    zt_cu_engine *engine = proof->engine;
    return zt_cu_try(engine, engine->cu.MemcpyHtoDAsync(to->address, proof->host, numbers * 2, engine->stream),
                     "MemcpyHtoDAsync");
}

static zt_status send_operands(wgmma_proof *proof, const zt_cu_wgmma *variant)
{
    for (int i = 0; i < BATCHES * N * K; i++) {
        int element = i % (N * K), row = variant->ta ? element % N : element / K, term = variant->ta ? element / N : element % K;
        put_number(proof, variant->dtype, i, (float)left_at(i / (N * K), row, term));
    }
    zt_status status = send_numbers(proof, &proof->a_memory, BATCHES * N * K);
    for (int i = 0; i < K * M; i++)
        put_number(proof, variant->dtype, i, (float)right_at(variant->tb ? i % K : i / M, variant->tb ? i / K : i % M));
    return status ? status : send_numbers(proof, &proof->b_memory, K * M);
}

static zt_status launch_variant(wgmma_proof *proof, const zt_cu_wgmma *variant)
{
    zt_cu_engine *engine = proof->engine;
    zt_cu_call call = {.engine = engine};
    // clang-format off
    const zt_cu_matmul_args args = {.a = proof->a_memory.address,
                                 .b = proof->b_memory.address,
                                 .y = proof->y_memory.address,
                                 .N = N,
                                 .K = K,
                                 .M = M,
                                 .a_row = variant->ta ? 1 : K,
                                 .a_col = variant->ta ? N : 1,
                                 .b_row = variant->tb ? 1 : M,
                                 .b_col = variant->tb ? K : 1,
                                 .dim = {BATCHES},
                                 .a_step = {N * K},
                                 .rank = 1,
                                 .wide_y = 1};
    // clang-format on
    const size_t bytes = BATCHES * N * M * 2;
    zt_status status =
        zt_cu_try(engine, engine->cu.MemsetD8Async(proof->y_memory.address, 0xFF, bytes, engine->stream), "MemsetD8Async");
    if (!status) status = zt_cu_wgmma_launch(&call, variant, &args, BATCHES, 1);
    return status ? status : copy_back(proof, proof->host, bytes);
}

/* Is every number of y what it is when rounded once? */
static bool is_right(const wgmma_proof *proof, zt_dtype dtype)
{
    for (int i = 0; i < BATCHES * N * M; i++) {
        uint16_t want;
        zt_dtype_get(dtype)->encode(&proof->expected[i], &want, 1);
        if (proof->host[i] != want) return false;
    }
    return true;
}

static zt_status try_matrices(wgmma_proof *proof)
{
    zt_status status = ZT_OK;
    multiply_on_host(proof);
    for (int i = 0; i < ZT_CU_WGMMAS && !status; i++) {
        const zt_cu_wgmma *variant = &zt_cu_wgmmas[i];
        status = send_operands(proof, variant);
        if (!status) status = launch_variant(proof, variant);
        if (!status && !is_right(proof, variant->dtype))
            status = zt_fail(proof->engine->base.ctx, ZT_EBUG, "%s does not multiply as it should", variant->kernel);
    }
    return status;
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Of either sign and of many sizes, so that it shows in what order, and how, sums are rounded. */
static zt_status send_drawn(wgmma_proof *proof, zt_dtype dtype, const zt_cu_mem *to, int numbers, uint32_t seed)
{
    for (int i = 0; i < numbers; i++) {
        seed = seed * 1664525 + 1013904223;
        float number = (float)(int)(seed >> 8 & 0x3FF) - 511.5f;
        put_number(proof, dtype, i, ldexpf(number, (int)(seed >> 20) % 17 - 16));
    }
    return send_numbers(proof, to, (size_t)numbers);
}

/* y, in f32, of N rows by M: by a warpgroup, then by mma. *same: the bits are. */
static zt_status compare_kernels(wgmma_proof *proof, zt_dtype dtype, bool *same)
{
    zt_cu_call call = {.engine = proof->engine};
    // clang-format off
    zt_cu_linear_args args = {.x = proof->a_memory.address,
                           .n = N,
                           .K = K,
                           .units = (K + 31) / 32,
                           .units_slice = ((K + 31) / 32 + 7) / 8,
                           .x_type = (int32_t)dtype,
                           .y_type = ZT_CU_F32,
                           .w_type = (int32_t)dtype,
                           .wide_x = 1,
                           .wide_w = 1,
                           .split = 1,
                           .product = {{.w = proof->b_memory.address, .y = proof->y_memory.address, .M = M}}};
    // clang-format on
    const zt_cu_dim grid = {(M + 15) / 16, (N + 63) / 64, 1};
    const size_t bytes = N * M * sizeof(float), sums = 64 * 8 * 16 * sizeof(float);
    zt_status status = send_drawn(proof, dtype, &proof->a_memory, N * K, 1);
    if (!status) status = send_drawn(proof, dtype, &proof->b_memory, K * M, 2);
    if (!status) status = zt_cu_wgmma_linear_launch(&call, dtype, &args, 1, 1);
    if (!status) status = copy_back(proof, proof->expected, bytes);
    if (!status)
        status = zt_cu_launch(&call, dtype == ZT_F16 ? "zt_half_f16" : "zt_half_bf16", grid, (zt_cu_dim){256, 1, 1}, sums, &args,
                              sizeof args);
    if (!status) status = copy_back(proof, proof->host, bytes);
    *same = !status && memcmp(proof->expected, proof->host, bytes) == 0;
    return status;
}

static zt_status try_bits(wgmma_proof *proof, bool *same)
{
    bool half = false, brain = false;
    zt_status status = compare_kernels(proof, ZT_F16, &half);
    if (!status) status = compare_kernels(proof, ZT_BF16, &brain);
    *same = half && brain;
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static zt_status make_room(wgmma_proof *proof)
{
    const size_t room = BATCHES * N * K > K * M ? BATCHES * N * K : K * M;
    zt_ctx *ctx = proof->engine->base.ctx;
    zt_status status = zt_cu_alloc(proof->engine, ZT_CU_DEVICE_MEM, BATCHES * N * K * 2, &proof->a_memory);
    if (!status) status = zt_cu_alloc(proof->engine, ZT_CU_DEVICE_MEM, K * M * 2, &proof->b_memory);
    if (!status) status = zt_cu_alloc(proof->engine, ZT_CU_DEVICE_MEM, BATCHES * N * M * 2, &proof->y_memory);
    if (!status && !(proof->host = zt_alloc(ctx, room * sizeof *proof->host))) status = ZT_ENOMEM;
    if (!status && !(proof->expected = zt_alloc(ctx, BATCHES * N * M * sizeof *proof->expected))) status = ZT_ENOMEM;
    return status;
}

/* The same device, another context. */
static zt_status open_own(zt_cu_engine *engine, zt_cu_engine *own)
{
    own->base = (zt_engine){.vt = engine->base.vt, .ctx = engine->base.ctx};
    own->cu = engine->cu;
    own->device = engine->device;
    own->major = engine->major;
    own->minor = engine->minor;
    own->processors = engine->processors;
    own->shared = engine->shared;
    own->shared_optin = engine->shared_optin;
    memcpy(own->name, engine->name, sizeof own->name);
    zt_status status = zt_cu_try(own, own->cu.CtxCreate(&own->context, 0, own->device), "CtxCreate");
    if (status) own->context = NULL;
    return status ? status : zt_cu_try(own, own->cu.StreamCreate(&own->stream, 1), "StreamCreate");
}

static void close_own(wgmma_proof *proof)
{
    zt_cu_engine *own = proof->engine;
    zt_cu_release(own, &proof->a_memory);
    zt_cu_release(own, &proof->b_memory);
    zt_cu_release(own, &proof->y_memory);
    zt_cu_pool_close(own);
    zt_cu_modules_close(own);
    if (own->stream) own->cu.StreamDestroy(own->stream);
    if (own->context) own->cu.CtxDestroy(own->context);
}

zt_cu_wgmma_use zt_cu_wgmma_prove(zt_cu_engine *engine)
{
    zt_ctx *ctx = engine->base.ctx;
    wgmma_proof proof = {.engine = zt_calloc(ctx, 1, sizeof *engine)};
    bool same = false;
    zt_status status = proof.engine ? open_own(engine, proof.engine) : ZT_ENOMEM;
    if (!status) status = make_room(&proof);
    if (!status) status = try_matrices(&proof);
    if (!status) status = try_bits(&proof, &same);
    if (status)
        zt_log(ctx, ZT_LOG_WARN, "cuda: %s: large products stay with mma: %s", engine->name, zt_ctx_error(ctx));
    else if (!same)
        zt_log(ctx, ZT_LOG_INFO, "cuda: %s: linear stays with mma: wgmma has other bits", engine->name);
    if (status) zt_ctx_clear(ctx);
    if (proof.engine) close_own(&proof);
    zt_free(ctx, proof.host);
    zt_free(ctx, proof.expected);
    zt_free(ctx, proof.engine);
    return zt_cu_enter(engine) || status ? ZT_CU_WG_NONE : same ? ZT_CU_WG_ALL : ZT_CU_WG_MATMUL;
}
