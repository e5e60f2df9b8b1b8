/* device.c - one device made ready: its limits, its context, a stream, what came of its errors. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/fft.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

/* Results after which the context is of no more use (cuda.h says so of each). */
static bool is_fatal(int r)
{
    return r == 214 || r == 700 || r == 702 || r == 710 || (r >= 714 && r <= 719) || r == 999;
}

zt_status zt_cu_lost(zt_cu_engine *e)
{
    e->lost = true;
    return zt_fail(e->base.ctx, ZT_ESYS, "%s: %s: the device is lost, and what it held with it",
                   e->base.vt->name, e->name);
}

zt_status zt_cu_try(zt_cu_engine *e, int r, const char *call)
{
    if (is_fatal(r)) e->lost = true;
    return zt_cu_check(e->base.ctx, &e->cu, r, call);
}

zt_status zt_cu_done(zt_cu_engine *e, int r, const char *call)
{
    if (r != ZT_CU_SUCCESS) e->lost = true;
    return zt_cu_check(e->base.ctx, &e->cu, r, call);
}

zt_status zt_cu_enter(zt_cu_engine *e)
{
    if (e->lost) return zt_cu_lost(e);
    return zt_cu_try(e, e->cu.CtxSetCurrent(e->context), "CtxSetCurrent");
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status pick(zt_cu_engine *e, int index)
{
    int n = 0;
    zt_status s = zt_cu_try(e, e->cu.DeviceGetCount(&n), "DeviceGetCount");
    if (s) return s;
    if (n == 0) return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine %s: no device", e->base.vt->name);
    if (index < 0 || index >= n)
        return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine %s: no adapter %d, there %s %d",
                       e->base.vt->name, index, n == 1 ? "is" : "are", n);
    return zt_cu_try(e, e->cu.DeviceGet(&e->device, index), "DeviceGet");
}

static int ask(zt_cu_engine *e, zt_cu_attribute attribute, zt_status *s)
{
    int value = 0;
    if (!*s)
        *s = zt_cu_try(e, zt_cu_attribute_of(&e->cu, attribute, e->device, &value),
                       "DeviceGetAttribute");
    return value > 0 ? value : 0;
}

static zt_status read_limits(zt_cu_engine *e)
{
    zt_status s = zt_cu_try(e, e->cu.DeviceGetName(e->name, sizeof e->name, e->device),
                            "DeviceGetName");
    e->name[sizeof e->name - 1] = 0;
    e->major = ask(e, ZT_CU_AT_MAJOR, &s);
    e->minor = ask(e, ZT_CU_AT_MINOR, &s);
    e->processors = ask(e, ZT_CU_AT_PROCESSORS, &s);
    e->max_threads = ask(e, ZT_CU_AT_MAX_THREADS, &s);
    e->warp = ask(e, ZT_CU_AT_WARP, &s);
    e->cooperative = ask(e, ZT_CU_AT_COOPERATIVE, &s);
    e->unified = ask(e, ZT_CU_AT_INTEGRATED, &s);
    e->shared = (size_t)ask(e, ZT_CU_AT_SHARED, &s);
    e->shared_optin = (size_t)ask(e, ZT_CU_AT_SHARED_OPTIN, &s);
    for (int d = 0; d < 3; d++)
        e->max_grid[d] = (unsigned)ask(e, (zt_cu_attribute)(ZT_CU_AT_MAX_GRID_X + d), &s);
    if (s) return s;
    if (e->major * 10 + e->minor < e->cu.platform->least)
        return zt_fail(e->base.ctx, ZT_ENOTSUP,
                       "engine %s: %s has compute capability %d.%d, kernels need %d.%d",
                       e->base.vt->name, e->name, e->major, e->minor, e->cu.platform->least / 10,
                       e->cu.platform->least % 10);
    if (e->warp != 32 && e->warp != e->cu.platform->wave)
        return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine %s: %s has warps of %d threads",
                       e->base.vt->name, e->name, e->warp);
    return ZT_OK;
}

zt_status zt_cu_device_open(zt_cu_engine *e, int index)
{
    zt_status s = pick(e, index);
    if (!s) s = read_limits(e);
    if (!s)
        s = zt_cu_try(e, e->cu.PrimaryCtxRetain(&e->context, e->device), "DevicePrimaryCtxRetain");
    if (s) e->context = NULL;
    if (!s) s = zt_cu_enter(e);
    /* 1: it does not wait for the legacy stream of whoever else uses this context. */
    if (!s) s = zt_cu_try(e, e->cu.StreamCreate(&e->stream, 1), "StreamCreate");
    if (!s) s = zt_cu_blas_open(e);
    if (!s) s = zt_cu_fft_open(e);
    if (!s && e->unified)
        zt_log(e->base.ctx, ZT_LOG_INFO, "%s: %s: its memory is the host's: weights are not copied",
               e->base.vt->name, e->name);
    return s;
}

/* All of it goes even when the device is lost: then calls fail, and what they held goes with the
 * context. */
void zt_cu_device_close(zt_cu_engine *e)
{
    const zt_cu_api *cu = &e->cu;
    if (e->context) {
        cu->CtxSetCurrent(e->context);
        if (e->stream) cu->StreamSynchronize(e->stream);
        e->pending = false;
        zt_cu_blas_close(e);
        zt_cu_fft_close(e);
        zt_cu_halves_close(e);
        zt_cu_release(e, &e->ahead);
        zt_cu_release(e, &e->ahead_host);
        zt_cu_release(e, &e->arena);
        zt_cu_pool_close(e);
        zt_cu_modules_close(e);
        if (e->stream) cu->StreamDestroy(e->stream);
        cu->CtxSetCurrent(NULL);
        cu->PrimaryCtxRelease(e->device);
    }
    zt_cu_unload(&e->cu);
}
