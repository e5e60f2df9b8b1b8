/* vulkan_faults.c - a driver that fails: every call of it once, with an error of its own and,
 * where work is handed over or waited for, by losing the device. What follows is an error with a
 * message, or as if nothing had been; then all goes back to the driver. Also as a device whose
 * memory the host does not see, so that copies go by staging buffers, and one with too little memory. Skipped, aloud, where
 * there is no adapter. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_VULKAN
#include "lib/run/run.h"
#include "tests/engine/fake_vulkan.h"

#include <inttypes.h>

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
    ok(after - before == ZT_VK_STAGINGS + 1, "in %d parts, and the rest with the next command", (int)(after - before));
    if (engine) engine->vt->free(engine, buffer);
    zt_engine_close(engine);
    zt_free(ctx, sent);
    zt_free(ctx, got);
    zt_ctx_clear(ctx);
    ok(clean(ctx, ""), "and nothing is left");
}

/* ---- a model larger than the device's memory -------------------------------------------------- */

enum { LAYERS = 6, WIDE = 512 };

static zt_status find_layer(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user;
    *type = zt_type_make(ZT_F32, 2, (int64_t[]){WIDE, WIDE});
    *handle = name[1] - '0';
    return ZT_OK;
}

/* Every layer makes of a row its mean. */
static zt_status read_layer(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)user, (void)handle, (void)offset;
    for (size_t i = 0; i < n / 4; i++) ((float *)dst)[i] = 1.0f / WIDE;
    return ZT_OK;
}

static zt_prog *make_layers(zt_ctx *ctx)
{
    const int64_t x_dim[] = {2, WIDE}, w_dim[] = {WIDE, WIDE};
    zt_prog *program = zt_prog_new(ctx);
    int x = zt_prog_in(program, "x", ZT_F32, 2, x_dim);
    for (int k = 0; k < LAYERS; k++) {
        char name[] = {'w', (char)('0' + k), 0};
        x = zt_program_linear(program, NULL, x, zt_prog_data(program, name, ZT_F32, 2, w_dim, name), ZT_NONE, NULL);
    }
    zt_prog_out(program, "y", x);
    return program;
}

/* Fallbacks with so many bytes on the device, or -1: an error. */
static int run_layers(zt_ctx *ctx, const zt_prog *program, VkDeviceSize bytes, bool strict, bool *right)
{
    static float x[2 * WIDE], y[2 * WIDE];
    const zt_store store = {.find = find_layer, .read = read_layer};
    const void *in[] = {x};
    void *out[] = {y};
    for (int i = 0; i < 2 * WIDE; i++) x[i] = (float)(i / WIDE + 1);
    memset(y, 0, sizeof y);
    heap = 0;
    zt_engine *engine = open_fake(ctx);
    heap = bytes;
    zt_session *session = engine ? zt_session_open(engine, program, &store, &(zt_session_opts){.strict = strict}) : NULL;
    zt_status status = session ? zt_session_step(session, NULL, 0, in, out) : zt_ctx_status(ctx);
    *right = *right && (status || (y[0] > 0.999f && y[0] < 1.001f && y[2 * WIDE - 1] > 1.999f && y[2 * WIDE - 1] < 2.001f));
    int fell = status ? -1 : zt_session_get(session).fallbacks;
    zt_session_close(session);
    zt_engine_close(engine);
    heap = 0;
    return fell;
}

static void larger_model(zt_ctx *ctx)
{
    const VkDeviceSize layer = WIDE * WIDE * 4;
    zt_ctx *own = zt_ctx_new();
    zt_prog *program = make_layers(own);
    bool right = true;
    calls = fail_at = 0;
    int whole = run_layers(ctx, program, 0, false, &right), half = run_layers(ctx, program, LAYERS / 2 * layer, false, &right);
    int none = run_layers(ctx, program, layer / 2, false, &right);
    ok(whole == 0 && half > 0 && half < LAYERS && none == LAYERS && right,
       "a model of %d layers: with memory for half of them %d fall back to the cpu, without any %d: %s", LAYERS, half, none,
       zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(run_layers(ctx, program, LAYERS / 2 * layer, true, &right) < 0 && zt_ctx_status(ctx) == ZT_ENOMEM,
       "strict, that is an error: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(clean(ctx, ""), "and nothing is left");
    zt_prog_free(program);
    zt_ctx_free(own);
}

/* Inputs that go up, ops on them and the result that comes down: one submit. So are ops and a program after them, whose packed
 * weight is read back before, to be unpacked. */
static void counts_submits(zt_ctx *ctx)
{
    enum { OPS = 8, N = 100 };
    zt_engine *engine = open_fake(ctx);
    if (!ok(engine, "memory apart: %s", zt_ctx_error(ctx))) return;
    zt_type type = zt_type_make(ZT_F32, 1, (int64_t[]){N});
    zt_tensor *x = zt_tensor_new(ctx, &type);
    for (int i = 0; i < N; i++) ((float *)zt_tensor_data(x))[i] = (float)i;
    bool right = true;
    for (int program = 0; program < 2; program++) {
        zt_run *run = zt_run_new(engine, true);
        zt_engine_report before = engine->vt->report(engine);
        zt_tensor *y = x;
        for (int i = 0; i < OPS && y; i++) y = zt_eager_add(run, y, x);
        zt_status status = program ? replayed(ctx, engine, &right) : ZT_OK;
        const float *sum = y && !program ? zt_tensor_data(y) : NULL;
        zt_engine_report after = engine->vt->report(engine);
        uint64_t submits = after.submits - before.submits;
        ok(submits == (program ? 2 : 1) && (sum ? sum[N - 1] == (OPS + 1) * (N - 1) : right && !status),
           "memory apart: %d ops and %s: %" PRIu64 " submits", OPS, program ? "a program after them" : "their result", submits);
        zt_run_free(run);
    }
    zt_tensor_unref(x);
    zt_engine_close(engine);
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
        larger_model(ctx);
        apart = true;
        every_call(ctx, "memory apart", "", 60);
        uses_ring(ctx);
        counts_submits(ctx);
    }
    zt_prog_free(added);
    zt_ctx_free(calm);
    return device_done(ctx, NULL);
}
#else
DEVICE_NOT_BUILT("vulkan")
#endif
