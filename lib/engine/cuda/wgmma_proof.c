/* wgmma_proof.c - what a device gives by the kernels of *_sm90.cu. Those of matrices make a product
 * of small whole numbers each, whose sums are exact in f32; those with weights one of numbers of
 * many sizes, which must have the bits that mma gives it. In a context of its own: a kernel that
 * fails there harms nothing else. */
#include "lib/engine/cuda/wgmma.h"

#include <math.h>
#include <string.h>

/* More steps than stages, and what is past the end along all of them. */
enum { BATCHES = 2, N = 72, K = 328, M = 184 };

typedef struct proof {
    zt_cu_engine *own; /* on the context of its own */
    zt_cu_mem a, b, y;
    uint16_t *host; /* an operand, or y */
    float *want;    /* [BATCHES,N,M] */
} proof;

static int left_at(int batch, int n, int k) { return (batch * 5 + n * 7 + k * 11) % 9 - 4; }
static int right_at(int k, int m) { return (k * 5 + m * 13 + 2) % 7 - 3; }

/* What stands at every place of y. */
static void multiply(proof *p)
{
    for (int i = 0; i < K * M; i++) p->host[i] = (uint16_t)(right_at(i / M, i % M) + 3);
    for (int i = 0; i < BATCHES * N; i++) {
        float *y = p->want + i * M;
        for (int m = 0; m < M; m++) y[m] = 0;
        for (int k = 0; k < K; k++) {
            const int left = left_at(i / N, i % N, k);
            for (int m = 0; m < M; m++) y[m] += (float)(left * (p->host[k * M + m] - 3));
        }
    }
}

static void put(proof *p, zt_dtype t, int i, float v)
{
    zt_dtype_get(t)->encode(&v, p->host + i, 1);
}

static zt_status bring(proof *p, void *to, size_t bytes)
{
    zt_cu_engine *e = p->own;
    zt_status s =
        zt_cu_try(e, e->cu.MemcpyDtoHAsync(to, p->y.at, bytes, e->stream), "MemcpyDtoHAsync");
    return s ? s : zt_cu_try(e, e->cu.StreamSynchronize(e->stream), "StreamSynchronize");
}

static zt_status send(proof *p, const zt_cu_mem *to, size_t numbers)
{
    zt_cu_engine *e = p->own;
    return zt_cu_try(e, e->cu.MemcpyHtoDAsync(to->at, p->host, numbers * 2, e->stream),
                     "MemcpyHtoDAsync");
}

static zt_status send_operands(proof *p, const zt_cu_wgmma *by)
{
    for (int i = 0; i < BATCHES * N * K; i++) {
        int in = i % (N * K), n = by->ta ? in % N : in / K, k = by->ta ? in / N : in % K;
        put(p, by->dtype, i, (float)left_at(i / (N * K), n, k));
    }
    zt_status s = send(p, &p->a, BATCHES * N * K);
    for (int i = 0; i < K * M; i++)
        put(p, by->dtype, i, (float)right_at(by->tb ? i % K : i / M, by->tb ? i / K : i % M));
    return s ? s : send(p, &p->b, K * M);
}

static zt_status launch(proof *p, const zt_cu_wgmma *by)
{
    zt_cu_engine *e = p->own;
    zt_cu_call c = {.e = e};
    const zt_cu_matmul_args m = {.a = p->a.at,
                                 .b = p->b.at,
                                 .y = p->y.at,
                                 .N = N,
                                 .K = K,
                                 .M = M,
                                 .a_row = by->ta ? 1 : K,
                                 .a_col = by->ta ? N : 1,
                                 .b_row = by->tb ? 1 : M,
                                 .b_col = by->tb ? K : 1,
                                 .dim = {BATCHES},
                                 .a_step = {N * K},
                                 .rank = 1,
                                 .wide_y = 1};
    const size_t bytes = BATCHES * N * M * 2;
    zt_status s =
        zt_cu_try(e, e->cu.MemsetD8Async(p->y.at, 0xFF, bytes, e->stream), "MemsetD8Async");
    if (!s) s = zt_cu_wgmma_launch(&c, by, &m, BATCHES, 1);
    return s ? s : bring(p, p->host, bytes);
}

/* Is every number of y what it is when rounded once? */
static bool is_right(const proof *p, zt_dtype t)
{
    for (int i = 0; i < BATCHES * N * M; i++) {
        uint16_t want;
        zt_dtype_get(t)->encode(&p->want[i], &want, 1);
        if (p->host[i] != want) return false;
    }
    return true;
}

static zt_status try_matrices(proof *p)
{
    zt_status s = ZT_OK;
    multiply(p);
    for (int i = 0; i < ZT_CU_WGMMAS && !s; i++) {
        const zt_cu_wgmma *by = &zt_cu_wgmmas[i];
        s = send_operands(p, by);
        if (!s) s = launch(p, by);
        if (!s && !is_right(p, by->dtype))
            s = zt_fail(p->own->base.ctx, ZT_EBUG, "%s does not multiply as it should", by->kernel);
    }
    return s;
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Of either sign and of many sizes, so that it shows in what order, and how, sums are rounded. */
static zt_status send_drawn(proof *p, zt_dtype t, const zt_cu_mem *to, int numbers, uint32_t seed)
{
    for (int i = 0; i < numbers; i++) {
        seed = seed * 1664525 + 1013904223;
        float v = (float)(int)(seed >> 8 & 0x3FF) - 511.5f;
        put(p, t, i, ldexpf(v, (int)(seed >> 20) % 17 - 16));
    }
    return send(p, to, (size_t)numbers);
}

/* y, in f32, of N rows by M: by a warpgroup, then by mma. *same: the bits are. */
static zt_status compare(proof *p, zt_dtype t, bool *same)
{
    zt_cu_call c = {.e = p->own};
    zt_cu_linear_args a = {.x = p->a.at,
                           .n = N,
                           .K = K,
                           .units = (K + 31) / 32,
                           .units_slice = ((K + 31) / 32 + 7) / 8,
                           .x_type = (int32_t)t,
                           .y_type = ZT_CU_F32,
                           .w_type = (int32_t)t,
                           .wide_x = 1,
                           .wide_w = 1,
                           .split = 1,
                           .product = {{.w = p->b.at, .y = p->y.at, .M = M}}};
    const zt_cu_dim grid = {(M + 15) / 16, (N + 63) / 64, 1};
    const size_t bytes = N * M * sizeof(float), sums = 64 * 8 * 16 * sizeof(float);
    zt_status s = send_drawn(p, t, &p->a, N * K, 1);
    if (!s) s = send_drawn(p, t, &p->b, K * M, 2);
    if (!s) s = zt_cu_wgmma_linear_launch(&c, t, &a, 1, 1);
    if (!s) s = bring(p, p->want, bytes);
    if (!s)
        s = zt_cu_launch(&c, t == ZT_F16 ? "zt_half_f16" : "zt_half_bf16", grid,
                         (zt_cu_dim){256, 1, 1}, sums, &a, sizeof a);
    if (!s) s = bring(p, p->host, bytes);
    *same = !s && memcmp(p->want, p->host, bytes) == 0;
    return s;
}

static zt_status try_bits(proof *p, bool *same)
{
    bool half = false, brain = false;
    zt_status s = compare(p, ZT_F16, &half);
    if (!s) s = compare(p, ZT_BF16, &brain);
    *same = half && brain;
    return s;
}

/* ---- all ------------------------------------------------------------------------------------- */

static zt_status make_room(proof *p)
{
    const size_t room = BATCHES * N * K > K * M ? BATCHES * N * K : K * M;
    zt_ctx *ctx = p->own->base.ctx;
    zt_status s = zt_cu_alloc(p->own, ZT_CU_DEVICE_MEM, BATCHES * N * K * 2, &p->a);
    if (!s) s = zt_cu_alloc(p->own, ZT_CU_DEVICE_MEM, K * M * 2, &p->b);
    if (!s) s = zt_cu_alloc(p->own, ZT_CU_DEVICE_MEM, BATCHES * N * M * 2, &p->y);
    if (!s && !(p->host = zt_alloc(ctx, room * sizeof *p->host))) s = ZT_ENOMEM;
    if (!s && !(p->want = zt_alloc(ctx, BATCHES * N * M * sizeof *p->want))) s = ZT_ENOMEM;
    return s;
}

/* The same device, another context. */
static zt_status open_own(zt_cu_engine *e, zt_cu_engine *own)
{
    own->base = (zt_engine){.vt = e->base.vt, .ctx = e->base.ctx};
    own->cu = e->cu;
    own->device = e->device;
    own->major = e->major;
    own->minor = e->minor;
    own->processors = e->processors;
    own->shared = e->shared;
    own->shared_optin = e->shared_optin;
    memcpy(own->name, e->name, sizeof own->name);
    zt_status s = zt_cu_try(own, own->cu.CtxCreate(&own->context, 0, own->device), "CtxCreate");
    if (s) own->context = NULL;
    return s ? s : zt_cu_try(own, own->cu.StreamCreate(&own->stream, 1), "StreamCreate");
}

static void close_own(proof *p)
{
    zt_cu_engine *own = p->own;
    zt_cu_release(own, &p->a);
    zt_cu_release(own, &p->b);
    zt_cu_release(own, &p->y);
    zt_cu_pool_close(own);
    zt_cu_modules_close(own);
    if (own->stream) own->cu.StreamDestroy(own->stream);
    if (own->context) own->cu.CtxDestroy(own->context);
}

zt_cu_wgmma_use zt_cu_wgmma_prove(zt_cu_engine *e)
{
    zt_ctx *ctx = e->base.ctx;
    proof p = {.own = zt_calloc(ctx, 1, sizeof *e)};
    bool same = false;
    zt_status s = p.own ? open_own(e, p.own) : ZT_ENOMEM;
    if (!s) s = make_room(&p);
    if (!s) s = try_matrices(&p);
    if (!s) s = try_bits(&p, &same);
    if (s)
        zt_log(ctx, ZT_LOG_WARN, "cuda: %s: large products stay with mma: %s", e->name,
               zt_ctx_error(ctx));
    else if (!same)
        zt_log(ctx, ZT_LOG_INFO, "cuda: %s: linear stays with mma: wgmma has other bits", e->name);
    if (s) zt_ctx_clear(ctx);
    if (p.own) close_own(&p);
    zt_free(ctx, p.host);
    zt_free(ctx, p.want);
    zt_free(ctx, p.own);
    return zt_cu_enter(e) || s ? ZT_CU_WG_NONE : same ? ZT_CU_WG_ALL : ZT_CU_WG_MATMUL;
}
