/* vulkan_faults.c - a driver that fails: every call of it once, with an error of its own and,
 * where work is handed over or waited for, by losing the device. What follows is an error with a
 * message, or as if nothing had been; then all goes back to the driver. Also as a device whose
 * memory the host does not see, so that copies go by a staging buffer. Skipped, aloud, where
 * there is no adapter. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_VULKAN
#include "lib/run/run.h"
#include "tests/engine/fake_vulkan.h"

/* After the device is lost every call says so, without asking the driver. */
static void stays_lost(zt_ctx *ctx)
{
    bool right = true;
    calls = fail_at = 0;
    zt_engine *engine = open_fake(ctx);
    ok(engine && copied(engine, &right) == ZT_OK && watched(engine, &right) == ZT_OK, "a device that works");
    lose = true;
    only = "vkQueueSubmit";
    fail_at = calls + 1;
    zt_status status = watched(engine, &right);
    ok(status == ZT_ESYS, "that is lost: %s", zt_ctx_error(ctx));
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
    lose = false;
    ok(clean(ctx, ""), "and closes");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new(), *calm = zt_ctx_new();
    added = make_added(calm);
    /* What is compiled here is nobody's. */
    setenv("XDG_CACHE_HOME", "/nonexistent", 1);
    if (device_is_there(ctx, "vulkan")) {
        every_call(ctx, "errors", "", 40);
        every_allocation(ctx);
        lose = true;
        every_call(ctx, "losses", "device lost", 8);
        lose = false;
        stays_lost(ctx);
        apart = true;
        every_call(ctx, "memory apart", "", 60);
    }
    zt_prog_free(added);
    zt_ctx_free(calm);
    return device_done(ctx, NULL);
}
#else
DEVICE_NOT_BUILT("vulkan")
#endif
