/* vulkan.c - the engine on Vulkan beyond what conformance says of its kernels: memory that comes
 * back, one submit a replay, troubles, refusals. Skipped, aloud, where there is no adapter. */
#include "lib/run/run.h"
#include "tests/tap.h"

#include <string.h>

static zt_engine *engine_or_skip(zt_ctx *ctx)
{
    zt_engine_opts opts = {.isa = zt_isa_best()};
    zt_engine *e = zt_engine_open(ctx, "vulkan", &opts);
    if (!e) {
        skip("vulkan: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    return e;
}

/* y = (x + x) * x ..., n steps of shape [rows]. */
static zt_prog *chain(zt_ctx *ctx, int n, int64_t rows)
{
    zt_prog *p = zt_prog_new(ctx);
    int x = zt_prog_in(p, "x", ZT_F32, 1, &rows), y = x;
    for (int i = 0; i < n; i++) y = i % 2 ? zt_emit_mul(p, NULL, y, x) : zt_emit_add(p, NULL, y, x);
    zt_prog_out(p, "y", y);
    return p;
}

static zt_status once(zt_engine *e, const zt_prog *p, const float *x, float *y)
{
    zt_session *s = zt_session_open(e, p, NULL, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    void *out[] = {y};
    zt_status st = s ? zt_session_step(s, NULL, 0, in, out) : zt_ctx_status(e->ctx);
    zt_session_close(s);
    return st;
}

/* Programs of many sizes come and go: what is held is then what the pool keeps, and no more than
 * after the first round. */
static void test_memory(zt_ctx *ctx, zt_engine *e)
{
    static float x[4096], y[4096];
    size_t after_first = 0;
    bool good = true;
    for (int i = 0; i < 4096; i++) x[i] = 1;
    for (int i = 0; i < 1000 && good; i++) {
        zt_prog *p = chain(ctx, 3, 1 + i % 50 * 80);
        good = once(e, p, x, y) == ZT_OK && y[0] == 3;
        zt_prog_free(p);
        if (i == 49) after_first = e->vt->report(e).held;
    }
    zt_engine_report r = e->vt->report(e);
    ok(good, "1000 programs prepared, run and freed");
    ok(r.held == after_first, "device memory is what it was after 50 of them: %zu bytes", r.held);
    ok(r.pool_hits > r.pool_misses, "most of it came from the pool");
}

static void test_submits(zt_ctx *ctx, zt_engine *e)
{
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, y[8];
    zt_prog *p = chain(ctx, 64, 8);
    zt_session *s = zt_session_open(e, p, NULL, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    void *out[] = {y};
    ok(s && zt_session_prepare(s, NULL, 0, NULL) == ZT_OK, "64 steps prepared");
    zt_engine_report before = e->vt->report(e);
    bool good = s && zt_session_step(s, NULL, 0, in, out) == ZT_OK;
    zt_engine_report after = e->vt->report(e);
    ok(good && after.submits - before.submits == 1, "a replay is one submit");
    ok(after.downloads - before.downloads == 1, "and one download");
    ok(good && y[7] == 33, "with the right numbers");
    zt_session_close(s);
    zt_prog_free(p);
}

static void test_trouble(zt_ctx *ctx, zt_engine *e)
{
    const int64_t table[] = {5, 3}, n = 2;
    float x[15] = {0}, y[6];
    int32_t i[2] = {4, 5};
    zt_prog *p = zt_prog_new(ctx);
    int a = zt_prog_in(p, "x", ZT_F32, 2, table), b = zt_prog_in(p, "i", ZT_I32, 1, &n);
    zt_prog_out(p, "y", zt_emit_gather(p, NULL, a, b, NULL));
    zt_session *s = zt_session_open(e, p, NULL, NULL);
    const void *in[] = {x, i};
    void *out[] = {y};
    ok(s && zt_session_step(s, NULL, 0, in, out) == ZT_EDATA, "an index out of range is an error");
    ok(strstr(zt_ctx_error(ctx), "index 5 is not below 5") != NULL, "that says which");
    zt_ctx_clear(ctx);
    i[1] = 0;
    ok(s && zt_session_step(s, NULL, 0, in, out) == ZT_OK, "the next replay is clean");
    zt_session_close(s);
    zt_prog_free(p);
}

/* Every host allocation failing once; and allocations, uploads and kernels of the device by the
 * fault engine. */
static void test_faults(zt_ctx *ctx, zt_engine *e)
{
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, y[8];
    zt_prog *p = chain(ctx, 5, 8);
    size_t blocks = zt_mem_get(ctx).blocks;
    int n = 1;
    for (; n < 1000; n++) {
        zt_mem_fail(ctx, (uint64_t)n, false);
        zt_status s = once(e, p, x, y);
        zt_mem_fail(ctx, 0, false);
        if (s == ZT_OK) break;
        if (s != ZT_ENOMEM) diag("allocation %d: %s", n, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    ok(n > 3 && n < 1000, "every allocation failed once, %d of them", n - 1);
    ok(zt_mem_get(ctx).blocks == blocks, "and nothing was left");
    zt_prog_free(p);
}

static void test_refusals(zt_ctx *ctx)
{
    zt_engine *e = zt_engine_open(ctx, "vulkan:99", NULL);
    ok(!e && zt_ctx_status(ctx) == ZT_ENOTSUP, "adapter 99 is not there: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *e = engine_or_skip(ctx);
    if (e) {
        test_memory(ctx, e);
        test_submits(ctx, e);
        test_trouble(ctx, e);
        test_faults(ctx, e);
        test_refusals(ctx);
    }
    zt_engine_close(e);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
