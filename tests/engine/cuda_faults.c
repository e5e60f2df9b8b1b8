/* cuda_faults.c - a CUDA driver that fails: every call of it once, with an error of its own and for
 * want of memory, and every allocation refused by the context once. What follows is an error with
 * a message, or as if nothing had been; then all goes back to the driver. A device that is lost
 * stays lost. What memory does not hold runs on the CPU, which is counted and said. Skipped, aloud,
 * where there is no driver (ZT_LIBCUDA names the emulated one). */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_CUDA
#include "tests/engine/fake_cuda.h"

/* After the device is lost every call says so, without asking the driver. */
static void stays_lost(zt_ctx *ctx)
{
    bool right = true;
    calls = fail_at = live = 0;
    zt_engine *engine = open_fake(ctx);
    ok(engine && copied(engine, &right) == ZT_OK && watched(engine, &right) == ZT_OK && right, "a device that works");
    only = "StreamSynchronize";
    fault = 719;
    calls = 0;
    fail_at = 1;
    zt_status status = watched(engine, &right);
    ok(status == ZT_ESYS && zt_ctx_error(ctx)[0], "that is lost: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    only = NULL;
    fail_at = 0;
    for (int i = 0; i < 2; i++, zt_ctx_clear(ctx)) {
        status = watched(engine, &right);
        ok(status == ZT_ESYS && strstr(zt_ctx_error(ctx), "device lost"), "is lost for good: %s", zt_ctx_error(ctx));
    }
    ok(ahead(ctx, engine, &right) != ZT_OK, "for ops ahead of the caller too");
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
    zt_ctx_clear(ctx);
    ok(clean(ctx, ""), "and closes");
}

/* ---- no memory, but another engine ----------------------------------------------------------- */

static int warnings;
static char warned[300];

static void hear(void *user, zt_level level, const char *line)
{
    (void)user;
    warnings += level == ZT_LOG_WARN;
    warned[0] = 0;
    strncat(warned, line, sizeof warned - 1);
}

/* The count-th allocation on the device fails, and all after it where `onwards`; y = (x + w) + x. */
static zt_status spilled(zt_ctx *ctx, int count, bool strict, bool *right, int *fell)
{
    const zt_store store = {.find = find_w, .read = read_w};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    const void *in[] = {x};
    void *out[] = {y};
    only = NULL;
    calls = fail_at = live = warnings = 0;
    zt_engine *engine = open_fake(ctx);
    zt_session *session = engine ? zt_session_open(engine, added, &store, &(zt_session_opts){.strict = strict}) : NULL;
    fault = ZT_CU_OUT_OF_MEMORY;
    only = "MemAlloc";
    calls = 0;
    fail_at = count;
    zt_status st = session ? zt_session_step(session, NULL, 0, in, out) : zt_ctx_status(ctx);
    fail_at = 0;
    only = NULL;
    for (int i = 0; i < 8; i++) *right = *right && (st || y[i] == 2 * x[i] + 1);
    *fell = session ? zt_session_get(session).fallbacks : 0;
    if (session && !st) { /* and again: what is prepared stays */
        st = zt_session_step(session, NULL, 0, in, out);
        *right = *right && !st && y[7] == 17;
    }
    zt_session_close(session);
    zt_engine_close(engine);
    return st;
}

static void other_engine(zt_ctx *ctx)
{
    bool right = true, good = true, said = true;
    int tried = 0, most = 0, least = 99;
    zt_log_set(ctx, ZT_LOG_WARN, hear, NULL);
    for (int n = 1; n < 100; n++) {
        int fell = 0;
        failed = NULL;
        zt_status st = spilled(ctx, n, false, &right, &fell);
        if (st) diag("allocation %d: %s", n, zt_ctx_error(ctx));
        good = good && !st && clean(ctx, "no memory");
        zt_ctx_clear(ctx);
        if (!failed) break;
        tried++;
        said = said && fell > 0 && warnings == 1 && strstr(warned, "falling back to cpu");
        if (!said) diag("allocation %d: %d fell back, %d warnings: %s", n, fell, warnings, warned);
        most = fell > most ? fell : most;
        least = fell < least ? fell : least;
    }
    ok(good && right && tried >= 3, "each of %d allocations on the device failed once: no error", tried);
    ok(said, "what fell back was counted (%d to %d steps) and said: %s", least, most, warned);
    int fell;
    zt_status st = spilled(ctx, 1, true, &right, &fell);
    ok(st == ZT_ENOMEM && zt_ctx_error(ctx)[0], "--strict-engine makes it an error: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_log_set(ctx, ZT_LOG_WARN, NULL, NULL);
}

/* Ops run by themselves, ahead of the caller or not. */
static void eager_ops(zt_ctx *ctx)
{
    const int64_t dim = 6;
    zt_type type = zt_type_make(ZT_F32, 1, &dim);
    bool right = true;
    int tried = 0;
    uint64_t least = 99;
    for (int n = 1; n < 40; n++) {
        calls = fail_at = live = 0;
        failed = NULL;
        zt_engine *engine = open_fake(ctx);
        zt_run *runner = zt_run_new(engine, false);
        zt_tensor *x = zt_tensor_new(ctx, &type);
        for (int i = 0; i < 6; i++) ((float *)zt_tensor_data(x))[i] = (float)i;
        fault = ZT_CU_OUT_OF_MEMORY;
        only = "MemAlloc";
        calls = 0;
        fail_at = n;
        zt_tensor *y = zt_eager_add(runner, zt_eager_add(runner, zt_eager_add(runner, x, x), x), x);
        const float *data = y ? zt_tensor_data(y) : NULL;
        right = right && data && data[5] == 20 && !zt_ctx_status(ctx);
        fail_at = 0;
        only = NULL;
        if (failed && zt_run_fallbacks(runner) < least) least = zt_run_fallbacks(runner);
        zt_run_free(runner);
        zt_tensor_unref(x);
        zt_engine_close(engine);
        zt_ctx_clear(ctx);
        if (!failed) break;
        tried++;
    }
    ok(right && tried >= 3 && least == 1, "ops by themselves: each of %d allocations, and %d fell back", tried, (int)least);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new(), *calm = zt_ctx_new();
    added = make_added(calm);
    if (device_is_there(ctx, "cuda")) {
        every_call(ctx, "errors", "", 60);
        fault = ZT_CU_OUT_OF_MEMORY;
        every_call(ctx, "no memory", "", 60);
        fault = 999;
        every_allocation(ctx);
        stays_lost(ctx);
        other_engine(ctx);
        eager_ops(ctx);
    }
    zt_prog_free(added);
    zt_ctx_free(calm);
    return device_done(ctx, NULL);
}
#else
DEVICE_NOT_BUILT("cuda")
#endif
