/* vulkan_faults.c - a driver that fails: every call of it once, with an error of its own and,
 * where work is handed over or waited for, by losing the device. What follows is an error with a
 * message, or as if nothing had been; then all goes back to the driver. Also as a device whose
 * memory the host does not see, so that copies go by a staging buffer. Skipped, aloud, where
 * there is no adapter. */
#include "tests/tap.h"

#ifdef ZT_HAVE_VULKAN
#include "lib/run/run.h"
#include "tests/fakevk.h"

/* ---- what is asked of it --------------------------------------------------------------------- */

/* All of it on a fresh engine; the first failure ends it. */
static zt_status scenario(zt_ctx *ctx, bool *right)
{
    zt_engine *e = open_fake(ctx);
    zt_status s = e ? replayed(ctx, e, right) : zt_ctx_status(ctx);
    if (!s) s = watched(e, right);
    if (!s) s = copied(e, right);
    if (!s) s = ahead(ctx, e, right);
    zt_engine_close(e);
    return s ? s : zt_ctx_status(ctx);
}

/* ---- every call once ------------------------------------------------------------------------- */

static bool clean(zt_ctx *ctx, const char *message)
{
    zt_mem m = zt_mem_get(ctx);
    bool good = live == 0 && m.blocks == 0 && m.held == 0;
    if (!good)
        diag("%s failed (%s): %d objects, %zu blocks, %zu bytes left", failed ? failed : "nothing",
             message, live, m.blocks, m.held);
    return good;
}

static void every_call(zt_ctx *ctx, const char *how, int least)
{
    int n = 1, errors = 0, survived = 0;
    bool good = true, right = true, told = true;
    for (; n < 2000; n++) {
        char message[300] = "";
        failed = NULL;
        calls = live = 0;
        fail_at = n;
        zt_status s = scenario(ctx, &right);
        strncat(message, zt_ctx_error(ctx), sizeof message - 1);
        if (s && (!message[0] || (lose && !strstr(message, "the device is lost")))) {
            diag("%s failed: status %d, '%s'", failed, s, message);
            told = false;
        }
        zt_ctx_clear(ctx);
        good = clean(ctx, message) && good;
        errors += s != ZT_OK;
        survived += s == ZT_OK && failed != NULL;
        if (!failed) break;
    }
    ok(n > least && n < 2000 && errors > least / 2,
       "%s: each of %d calls failed once, %d were errors", how,
       n - 1, errors);
    ok(told, "%s: and said so", how);
    ok(right, "%s: what went well was right, %d times in spite of a failure", how, survived);
    ok(good, "%s: the driver got everything back", how);
}

/* Memory too: the context refuses each allocation once, of the host and of the device. */
static void every_allocation(zt_ctx *ctx)
{
    int n = 1, errors = 0;
    bool good = true, right = true, told = true;
    for (; n < 2000; n++) {
        calls = fail_at = live = 0;
        failed = NULL;
        uint64_t before = zt_mem_get(ctx).calls;
        zt_mem_fail(ctx, (uint64_t)n, false);
        zt_status s = scenario(ctx, &right);
        zt_mem_fail(ctx, 0, false);
        bool reached = zt_mem_get(ctx).calls - before >= (uint64_t)n;
        told = told && (!s || (s == ZT_ENOMEM && zt_ctx_error(ctx)[0]));
        errors += s != ZT_OK;
        zt_ctx_clear(ctx);
        good = clean(ctx, "an allocation") && good;
        if (!reached) break;
    }
    ok(n > 40 && n < 2000 && errors > 40, "each of %d allocations failed once, %d were errors", n - 1,
       errors);
    ok(told && right && good, "and said so, and nothing was left");
}

/* After the device is lost every call says so, without asking the driver. */
static void stays_lost(zt_ctx *ctx)
{
    bool right = true;
    calls = fail_at = 0;
    zt_engine *e = open_fake(ctx);
    ok(e && copied(e, &right) == ZT_OK && watched(e, &right) == ZT_OK, "a device that works");
    lose = true;
    only = "vkQueueSubmit";
    fail_at = calls + 1;
    zt_status s = watched(e, &right);
    ok(s == ZT_ESYS, "that is lost: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    only = NULL;
    fail_at = 0;
    for (int i = 0; i < 2; i++, zt_ctx_clear(ctx)) {
        s = watched(e, &right);
        ok(s == ZT_ESYS && strstr(zt_ctx_error(ctx), "the device is lost"), "is lost for good: %s",
           zt_ctx_error(ctx));
    }
    ok(ahead(ctx, e, &right) != ZT_OK, "for ops ahead of the caller too");
    zt_ctx_clear(ctx);
    zt_engine_close(e);
    zt_ctx_clear(ctx);
    lose = false;
    ok(clean(ctx, ""), "and closes");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new(), *calm = zt_ctx_new();
    added = make_added(calm);
    /* What is compiled here is nobody's. */
    setenv("XDG_CACHE_HOME", "/nonexistent", 1);
    zt_engine *e = zt_engine_open(ctx, "vulkan", NULL);
    if (!e) {
        skip("vulkan: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    zt_engine_close(e);
    if (e) {
        every_call(ctx, "errors", 40);
        every_allocation(ctx);
        lose = true;
        every_call(ctx, "losses", 8);
        lose = false;
        stays_lost(ctx);
        apart = true;
        every_call(ctx, "memory apart", 60);
    }
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_prog_free(added);
    zt_ctx_free(calm);
    zt_ctx_free(ctx);
    return tap_done();
}
#else
int main(void)
{
    skip("built without vulkan");
    return tap_done();
}
#endif
