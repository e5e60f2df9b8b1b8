/* device.c - one device made ready: its limits, its context, a stream, what came of its errors. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/fft.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

/* Results after which the context is of no more use (cuda.h says so of each). */
static bool is_fatal(int result)
{
    return result == 214 || result == 700 || result == 702 || result == 710 || (result >= 714 && result <= 719) || result == 999;
}

zt_status zt_cu_lost(zt_cu_engine *engine)
{
    engine->lost = true;
    return zt_fail(engine->base.ctx, ZT_ESYS, "%s: %s: device lost, with all data on it", engine->base.vt->name, engine->name);
}

zt_status zt_cu_try(zt_cu_engine *engine, int result, const char *call)
{
    if (is_fatal(result)) engine->lost = true;
    return zt_cu_check(engine->base.ctx, &engine->cu, result, call);
}

zt_status zt_cu_done(zt_cu_engine *engine, int result, const char *call)
{
    if (result != ZT_CU_SUCCESS) engine->lost = true;
    return zt_cu_check(engine->base.ctx, &engine->cu, result, call);
}

zt_status zt_cu_enter(zt_cu_engine *engine)
{
    if (engine->lost) return zt_cu_lost(engine);
    return zt_cu_try(engine, engine->cu.CtxSetCurrent(engine->context), "CtxSetCurrent");
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status pick_device(zt_cu_engine *engine, int index)
{
    int device_count = 0;
    zt_status status = zt_cu_try(engine, engine->cu.DeviceGetCount(&device_count), "DeviceGetCount");
    if (status) return status;
    if (device_count == 0) return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine %s: no device", engine->base.vt->name);
    if (index < 0 || index >= device_count)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine %s: no device %d, there %s %d", engine->base.vt->name, index,
                       device_count == 1 ? "is" : "are", device_count);
    return zt_cu_try(engine, engine->cu.DeviceGet(&engine->device, index), "DeviceGet");
}

static int read_attribute(zt_cu_engine *engine, zt_cu_attribute attribute, zt_status *status)
{
    int value = 0;
    if (!*status)
        *status = zt_cu_try(engine, zt_cu_attribute_of(&engine->cu, attribute, engine->device, &value), "DeviceGetAttribute");
    return value > 0 ? value : 0;
}

static zt_status read_limits(zt_cu_engine *engine)
{
    zt_status status =
        zt_cu_try(engine, engine->cu.DeviceGetName(engine->name, sizeof engine->name, engine->device), "DeviceGetName");
    engine->name[sizeof engine->name - 1] = 0;
    engine->major = read_attribute(engine, ZT_CU_AT_MAJOR, &status);
    engine->minor = read_attribute(engine, ZT_CU_AT_MINOR, &status);
    engine->processors = read_attribute(engine, ZT_CU_AT_PROCESSORS, &status);
    engine->max_threads = read_attribute(engine, ZT_CU_AT_MAX_THREADS, &status);
    engine->warp = read_attribute(engine, ZT_CU_AT_WARP, &status);
    engine->cooperative = read_attribute(engine, ZT_CU_AT_COOPERATIVE, &status);
    engine->unified = read_attribute(engine, ZT_CU_AT_INTEGRATED, &status);
    engine->shared = (size_t)read_attribute(engine, ZT_CU_AT_SHARED, &status);
    engine->shared_optin = (size_t)read_attribute(engine, ZT_CU_AT_SHARED_OPTIN, &status);
    for (int dimension = 0; dimension < 3; dimension++)
        engine->max_grid[dimension] =
            (unsigned)read_attribute(engine, (zt_cu_attribute)(ZT_CU_AT_MAX_GRID_X + dimension), &status);
    if (status) return status;
    const char *lacks = engine->cu.platform->lacks ? engine->cu.platform->lacks(engine->device) : NULL;
    if (lacks) return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine %s: %s %s", engine->base.vt->name, engine->name, lacks);
    if (engine->major * 10 + engine->minor < engine->cu.platform->least)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine %s: %s has compute capability %d.%d, but the kernels need %d.%d",
                       engine->base.vt->name, engine->name, engine->major, engine->minor, engine->cu.platform->least / 10,
                       engine->cu.platform->least % 10);
    if (engine->warp != 32 && engine->warp != engine->cu.platform->wave)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine %s: %s has an unsupported warp size of %d", engine->base.vt->name,
                       engine->name, engine->warp);
    return ZT_OK;
}

zt_status zt_cu_device_open(zt_cu_engine *engine, int index)
{
    zt_status status = pick_device(engine, index);
    if (!status) status = read_limits(engine);
    if (!status)
        status = zt_cu_try(engine, engine->cu.PrimaryCtxRetain(&engine->context, engine->device), "DevicePrimaryCtxRetain");
    if (status) engine->context = NULL;
    if (!status) status = zt_cu_enter(engine);
    /* 1: it does not wait for the legacy stream of whoever else uses this context. */
    if (!status) status = zt_cu_try(engine, engine->cu.StreamCreate(&engine->stream, 1), "StreamCreate");
    if (!status) status = zt_cu_blas_open(engine);
    if (!status) status = zt_cu_fft_open(engine);
    if (!status && engine->unified)
        zt_log(engine->base.ctx, ZT_LOG_INFO, "%s: %s: unified memory: weights are not copied", engine->base.vt->name,
               engine->name);
    return status;
}

/* All of it goes even when the device is lost: then calls fail, and what they held goes with the
 * context. */
void zt_cu_device_close(zt_cu_engine *engine)
{
    const zt_cu_api *api = &engine->cu;
    if (engine->context) {
        api->CtxSetCurrent(engine->context);
        if (engine->stream) api->StreamSynchronize(engine->stream);
        engine->pending = false;
        zt_cu_blas_close(engine);
        zt_cu_fft_close(engine);
        zt_cu_halves_close(engine);
        zt_cu_release(engine, &engine->ahead);
        zt_cu_release(engine, &engine->ahead_host);
        zt_cu_release(engine, &engine->arena);
        zt_cu_pool_close(engine);
        zt_cu_modules_close(engine);
        if (engine->stream) api->StreamDestroy(engine->stream);
        api->CtxSetCurrent(NULL);
        api->PrimaryCtxRelease(engine->device);
    }
    zt_cu_unload(&engine->cu);
}
