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
    const char *next[] = {"vulkan", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = i == 0 ? open_fake(ctx) : zt_engine_open(ctx, next[i], NULL);
        status = engine ? replayed(ctx, engine, &right) : zt_ctx_status(ctx);
        ok(status == ZT_OK && right, "the context goes on with %s: %s", next[i], zt_ctx_error(ctx));
        zt_engine_close(engine);
    }
}

/* More bytes than the ring of staging buffers holds, up and down again; and a state that is cleared. */
static void uses_ring(zt_ctx *ctx)
{
    const int64_t dim = ((ZT_VK_STAGINGS + 1) * (int64_t)ZT_VK_STAGING_BYTES + 12) / 4;
    zt_type type = zt_type_make(ZT_I32, 1, &dim);
    size_t bytes = zt_type_bytes(&type);
    int32_t *sent = zt_alloc(ctx, bytes), *got = zt_alloc(ctx, bytes);
    calls = fail_at = 0;
    zt_engine *engine = open_fake(ctx);
    zt_ebuf *buffer = engine ? engine->vt->alloc(engine, &type) : NULL;
    bool zero = buffer && sent && got && engine->vt->download(engine, buffer, got) == ZT_OK;
    for (int64_t i = 0; i < dim && zero; i++) zero = got[i] == 0;
    for (int64_t i = 0; i < dim && zero; i++) sent[i] = (int32_t)(i * 2654435761);
    ok(zero, "%zu bytes apart from the host are cleared", bytes);
    uint64_t before = zero ? engine->vt->report(engine).submits : 0;
    zt_status status = zero ? engine->vt->upload(engine, buffer, sent) : ZT_EBUG;
    uint64_t after = zero ? engine->vt->report(engine).submits : 0;
    if (!status) status = engine->vt->download(engine, buffer, got);
    ok(!status && !memcmp(sent, got, bytes), "and come back as they went: %s", zt_ctx_error(ctx));
    ok(after - before == ZT_VK_STAGINGS + 2, "in %d parts", (int)(after - before));
    if (engine) engine->vt->free(engine, buffer);
    zt_engine_close(engine);
    zt_free(ctx, sent);
    zt_free(ctx, got);
    zt_ctx_clear(ctx);
    ok(clean(ctx, ""), "and nothing is left");
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
        uses_ring(ctx);
    }
    zt_prog_free(added);
    zt_ctx_free(calm);
    return device_done(ctx, NULL);
}
#else
DEVICE_NOT_BUILT("vulkan")
#endif
