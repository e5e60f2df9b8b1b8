/* cuda.c - the engine on NVIDIA's GPUs, and the same on AMD's: their vtables. */
#include "lib/engine/cuda/cu.h"

#include <string.h>

static void cu_close(zt_engine *base)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_cu_device_close(e);
    zt_free(base->ctx, e);
}

static zt_engine *open_on(zt_ctx *ctx, const zt_cu_platform *platform, const zt_engine_vt *vt,
                          const zt_engine_opts *opts)
{
    zt_cu_engine *e = zt_calloc(ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->base = (zt_engine){.vt = vt, .ctx = ctx};
    if (zt_cu_load(ctx, platform, &e->cu) == ZT_OK && zt_cu_device_open(e, opts->device) == ZT_OK)
        return &e->base;
    cu_close(&e->base);
    return NULL;
}

static bool cu_has(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                   const zt_type out[])
{
    return zt_cu_find((zt_cu_engine *)e, op, attrs, in, out) != NULL;
}

static size_t cu_value_bytes(zt_engine *e, const zt_type *t)
{
    (void)e;
    return zt_type_bytes(t);
}

static void cu_free(zt_engine *base, zt_ebuf *b)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    if (!b) return;
    e->cu.CtxSetCurrent(e->context);
    zt_cu_release(e, &b->mem);
    zt_cu_release(e, &b->plain);
    zt_free(base->ctx, b);
}

static zt_ebuf *new_buf(zt_cu_engine *e, const zt_type *t)
{
    zt_ebuf *b = zt_cu_enter(e) ? NULL : zt_calloc(e->base.ctx, 1, sizeof *b);
    if (!b) return NULL;
    b->type = *t;
    if (zt_cu_alloc(e, ZT_CU_DEVICE_MEM, zt_type_bytes(t), &b->mem) == ZT_OK) return b;
    cu_free(&e->base, b);
    return NULL;
}

static zt_ebuf *cu_alloc(zt_engine *base, const zt_type *t)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_ebuf *b = new_buf(e, t);
    if (!b || zt_cu_clear(e, b->mem.at, zt_type_bytes(t)) == ZT_OK) return b;
    cu_free(base, b);
    return NULL;
}

static zt_ebuf *cu_temp(zt_engine *base, const zt_type *t, const void *host)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_ebuf *b = new_buf(e, t);
    if (!b || !host || zt_cu_write(e, b->mem.at, host, zt_type_bytes(t)) == ZT_OK) return b;
    cu_free(base, b);
    return NULL;
}

static zt_status cu_upload(zt_engine *base, zt_ebuf *b, const void *host)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_status s = zt_cu_enter(e);
    return s ? s : zt_cu_write(e, b->mem.at, host, zt_type_bytes(&b->type));
}

static zt_status cu_download(zt_engine *base, const zt_ebuf *b, void *host)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_status s = zt_cu_enter(e);
    return s ? s : zt_cu_read(e, b->mem.at, host, zt_type_bytes(&b->type));
}

static zt_engine_report cu_report(const zt_engine *e) { return ((const zt_cu_engine *)e)->report; }

static zt_engine *cuda_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    return open_on(ctx, &zt_cu_nvidia, &zt_engine_cuda, opts);
}
static zt_engine *hip_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    return open_on(ctx, &zt_cu_amd, &zt_engine_hip, opts);
}
static int cuda_adapters(zt_ctx *ctx, zt_adapter *a, int max)
{
    return zt_cu_adapters(ctx, &zt_cu_nvidia, a, max);
}
static int hip_adapters(zt_ctx *ctx, zt_adapter *a, int max)
{
    return zt_cu_adapters(ctx, &zt_cu_amd, a, max);
}

#define ENGINE(its_name)                                                                           \
    {                                                                                              \
        .name = #its_name, .devices = true, .computes = true, .open = its_name##_open,             \
        .close = cu_close, .has = cu_has, .value_bytes = cu_value_bytes, .alloc = cu_alloc,        \
        .load = zt_cu_load_weight, .free = cu_free, .upload = cu_upload, .download = cu_download,  \
        .prepare = zt_cu_prepare, .unprepare = zt_cu_unprepare, .replay = zt_cu_replay,            \
        .temp = cu_temp, .enqueue = zt_cu_enqueue, .flush = zt_cu_flush, .sync = zt_cu_sync,       \
        .report = cu_report, .adapters = its_name##_adapters                                       \
    }

const zt_engine_vt zt_engine_cuda = ENGINE(cuda);
const zt_engine_vt zt_engine_hip = ENGINE(hip);
