/* device_faults.h - an engine with a device whose driver fails: every call of it once, and every
 * allocation of the context once. What follows is an error with a message, or as if nothing had
 * been; then all goes back to the driver. A fake driver (fake_cuda.h, fake_vulkan.h) includes this, asks
 * hit() in each function that may fail, counts what it makes in `live`, and defines open_fake. For
 * one C file each. */
#ifndef ZT_DEVICE_FAULTS_H
#define ZT_DEVICE_FAULTS_H

#include "tests/engine/device_work.h"

static int calls, fail_at; /* calls that may fail, so far; the one that does, 0: none */
static const char *only;   /* calls of that name alone may; NULL: all */
static int live;           /* objects that the driver has made and not got back */
static const char *failed; /* the call that did */

static zt_engine *open_fake(zt_ctx *ctx);

static inline bool hit(const char *name)
{
    if (only && strcmp(only, name)) return false;
    if (++calls != fail_at) return false;
    failed = name;
    return true;
}

/* All that device_work.h asks, on a fresh engine; the first failure ends it. */
static inline zt_status scenario(zt_ctx *ctx, bool *right)
{
    zt_engine *engine = open_fake(ctx);
    zt_status status = engine ? replayed(ctx, engine, right) : zt_ctx_status(ctx);
    if (!status) status = watched(engine, right);
    if (!status) status = copied(engine, right);
    if (!status) status = ahead(ctx, engine, right);
    zt_engine_close(engine);
    return status ? status : zt_ctx_status(ctx);
}

/* A lost context's objects go with it: only what is of the host counts then. */
static inline bool clean(zt_ctx *ctx, const char *message)
{
    zt_mem m = zt_mem_get(ctx);
    bool good = live == 0 && m.blocks == 0 && m.held == 0;
    if (!good)
        diag("%s failed (%s): %d objects, %zu blocks, %zu bytes left", failed ? failed : "nothing", message, live, m.blocks,
             m.held);
    return good;
}

/* `say`: what each message has in it. */
static inline void every_call(zt_ctx *ctx, const char *how, const char *say, int least)
{
    int count = 1, errors = 0, survived = 0;
    bool good = true, right = true, told = true;
    for (; count < 2000; count++) {
        char message[300] = "";
        failed = NULL;
        calls = live = 0;
        fail_at = count;
        zt_status status = scenario(ctx, &right);
        strncat(message, zt_ctx_error(ctx), sizeof message - 1);
        if (status && (!message[0] || !strstr(message, say))) {
            diag("%s failed: status %d, '%s'", failed, status, message);
            told = false;
        }
        zt_ctx_clear(ctx);
        good = clean(ctx, message) && good;
        errors += status != ZT_OK;
        survived += status == ZT_OK && failed != NULL;
        if (!failed) break;
    }
    ok(count > least && count < 2000 && errors > least / 2, "%s: each of %d calls failed once, %d were errors", how, count - 1,
       errors);
    ok(told, "%s: and said so", how);
    ok(right, "%s: what went well was right, %d times in spite of a failure", how, survived);
    ok(good, "%s: the driver got everything back", how);
}

/* Memory too: the context refuses each allocation once, of the host and of the device. */
static inline void every_allocation(zt_ctx *ctx)
{
    int count = 1, errors = 0;
    bool good = true, right = true, told = true;
    for (; count < 2000; count++) {
        calls = fail_at = live = 0;
        failed = NULL;
        uint64_t before = zt_mem_get(ctx).calls;
        zt_mem_fail(ctx, (uint64_t)count, false);
        zt_status status = scenario(ctx, &right);
        zt_mem_fail(ctx, 0, false);
        bool reached = zt_mem_get(ctx).calls - before >= (uint64_t)count;
        told = told && (!status || (status == ZT_ENOMEM && zt_ctx_error(ctx)[0]));
        errors += status != ZT_OK;
        zt_ctx_clear(ctx);
        good = clean(ctx, "an allocation") && good;
        if (!reached) break;
    }
    ok(count > 40 && count < 2000 && errors > 30, "each of %d allocations failed once, %d were errors", count - 1, errors);
    ok(told && right && good, "and said so, and nothing was left");
}

#endif
