/* vulkan.c - the engine on Vulkan 1.2: its vtable. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

static void vk_close(zt_engine *base)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    zt_vk_device_close(e);
    zt_free(base->ctx, e);
}

static zt_engine *vk_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    zt_vk_engine *e = zt_calloc(ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->base = (zt_engine){.vt = &zt_engine_vulkan, .ctx = ctx};
    if (zt_vk_load(ctx, &e->vk, &e->instance) == ZT_OK &&
        zt_vk_device_open(e, opts->device) == ZT_OK)
        return &e->base;
    vk_close(&e->base);
    return NULL;
}

static bool vk_has(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                   const zt_type out[])
{
    return zt_vk_find((zt_vk_engine *)e, op, attrs, in, out) != NULL;
}

static size_t vk_value_bytes(zt_engine *e, const zt_type *t)
{
    (void)e;
    return zt_type_bytes(t);
}

static void vk_free(zt_engine *base, zt_ebuf *b)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    if (!b) return;
    zt_vk_release(e, &b->mem);
    zt_vk_release(e, &b->plain);
    zt_free(base->ctx, b);
}

static zt_ebuf *new_buf(zt_vk_engine *e, const zt_type *t, zt_vk_kind kind)
{
    zt_ebuf *b = zt_calloc(e->base.ctx, 1, sizeof *b);
    if (!b) return NULL;
    b->type = *t;
    if (zt_vk_alloc(e, kind, zt_type_bytes(t), &b->mem) == ZT_OK) return b;
    vk_free(&e->base, b);
    return NULL;
}

static zt_ebuf *vk_alloc(zt_engine *base, const zt_type *t)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    zt_ebuf *b = new_buf(e, t, ZT_VK_DEVICE_MEM);
    if (!b || zt_vk_clear(e, &b->mem) == ZT_OK) return b;
    vk_free(base, b);
    return NULL;
}

/* What the host brings lies in memory that both see: the device reads it once. */
static zt_ebuf *vk_temp(zt_engine *base, const zt_type *t, const void *host)
{
    zt_vk_engine *e = (zt_vk_engine *)base;
    zt_ebuf *b = new_buf(e, t, host ? ZT_VK_HOST_MEM : ZT_VK_DEVICE_MEM);
    if (b && host) memcpy(b->mem.map, host, zt_type_bytes(t));
    return b;
}

static zt_status vk_upload(zt_engine *e, zt_ebuf *b, const void *host)
{
    return zt_vk_write((zt_vk_engine *)e, &b->mem, 0, host, zt_type_bytes(&b->type));
}

static zt_status vk_download(zt_engine *e, const zt_ebuf *b, void *host)
{
    return zt_vk_read((zt_vk_engine *)e, &b->mem, 0, host, zt_type_bytes(&b->type));
}

static zt_engine_report vk_report(const zt_engine *e) { return ((const zt_vk_engine *)e)->report; }

const zt_engine_vt zt_engine_vulkan = {
    .name = "vulkan",
    .devices = true,
    .open = vk_open,
    .close = vk_close,
    .has = vk_has,
    .value_bytes = vk_value_bytes,
    .alloc = vk_alloc,
    .load = zt_vk_load_weight,
    .free = vk_free,
    .upload = vk_upload,
    .download = vk_download,
    .prepare = zt_vk_prepare,
    .unprepare = zt_vk_unprepare,
    .replay = zt_vk_replay,
    .temp = vk_temp,
    .enqueue = zt_vk_enqueue,
    .flush = zt_vk_flush,
    .sync = zt_vk_sync,
    .report = vk_report,
    .adapters = zt_vk_adapters,
};
