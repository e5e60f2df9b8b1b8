/* device.h - for tests of one engine with a device: opened, or skipped aloud where it is not there;
 * and the end of such a test, with everything given back.
 *
 *     zt_ctx *ctx = zt_ctx_new();
 *     zt_engine *e = device_open(ctx, "cuda");
 *     if (e) test_this(ctx, e);
 *     return device_done(ctx, e);
 */
#ifndef ZT_TEST_DEVICE_H
#define ZT_TEST_DEVICE_H

#include "lib/engine/engine.h"
#include "tests/common/tap.h"

#define DEVICE_FN __attribute__((unused)) static

/* With the best instructions of the processor; NULL after a skip that says why. */
DEVICE_FN zt_engine *device_open(zt_ctx *ctx, const char *name)
{
    zt_engine *e = zt_engine_open(ctx, name, &(zt_engine_opts){.isa = zt_isa_best()});
    if (!e) skip("%s: %s", name, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return e;
}

/* For tests that open engines of their own. */
DEVICE_FN bool device_is_there(zt_ctx *ctx, const char *name)
{
    zt_engine *e = device_open(ctx, name);
    zt_engine_close(e);
    return e != NULL;
}

/* What main returns; e may be NULL. */
DEVICE_FN int device_done(zt_ctx *ctx, zt_engine *e)
{
    zt_engine_close(e);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}

/* The main of a test that was built without the engine. */
// clang-format off
#define DEVICE_NOT_BUILT(name)                                                                     \
    int main(void)                                                                                 \
    {                                                                                              \
        skip("built without " name);                                                               \
        return tap_done();                                                                         \
    }
// clang-format on

#endif
