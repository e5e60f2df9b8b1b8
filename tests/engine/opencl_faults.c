/* opencl_faults.c - an OpenCL driver that fails: every call of it once, with an error of its own and for want of memory, and
 * every allocation refused by the context once. What follows is an error with a message, or as if nothing had been; then all
 * goes back to the driver. A device that is lost stays lost. Skipped, aloud, where there is no device. */
#include "tests/engine/device.h"

#ifdef ZT_HAVE_CUDA
#define FAKE_ENGINE   zt_engine_opencl
#define FAKE_PLATFORM zt_cu_khronos
#include "tests/engine/fake_cuda.h"

/* After the device is lost every call says so, without asking the driver. */
static void stays_lost(zt_ctx *ctx)
{
    bool right = true;
    calls = fail_at = live = 0;
    zt_engine *engine = open_fake(ctx);
    ok(engine && copied(engine, &right) == ZT_OK && watched(engine, &right) == ZT_OK && right, "a device that works");
    only = "StreamSynchronize";
    fault = -36; /* CL_INVALID_COMMAND_QUEUE: what drivers give once a kernel has failed */
    calls = 0;
    fail_at = 1;
    zt_status status = watched(engine, &right);
    ok(status == ZT_ESYS && strstr(zt_ctx_error(ctx), "opencl: clFinish: CL_INVALID_COMMAND_QUEUE"), "that is lost: %s",
       zt_ctx_error(ctx));
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

int main(void)
{
    zt_ctx *ctx = zt_ctx_new(), *calm = zt_ctx_new();
    added = make_added(calm);
    /* Open all the time, so that kernels are built once. */
    zt_engine *other = zt_engine_open(calm, "opencl", NULL);
    if (device_is_there(ctx, "opencl")) {
        fault = -5; /* CL_OUT_OF_RESOURCES */
        every_call(ctx, "errors", "", 60);
        fault = ZT_CU_OUT_OF_MEMORY;
        every_call(ctx, "no memory", "", 60);
        every_allocation(ctx);
        stays_lost(ctx);
    }
    zt_engine_close(other);
    zt_prog_free(added);
    zt_ctx_free(calm);
    return device_done(ctx, NULL);
}
#else
DEVICE_NOT_BUILT("opencl")
#endif
