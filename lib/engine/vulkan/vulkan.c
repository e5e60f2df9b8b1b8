/* vulkan.c - the engine on Vulkan 1.2: its vtable. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

static void vk_close(zt_engine *base)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_vk_device_close(engine);
    zt_free(base->ctx, engine);
}

static zt_engine *vk_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    zt_vk_engine *engine = zt_calloc(ctx, 1, sizeof *engine);
    if (!engine) return NULL;
    engine->base = (zt_engine){.vt = &zt_engine_vulkan, .ctx = ctx};
    if (zt_vk_load(ctx, &engine->vk, &engine->instance) == ZT_OK && zt_vk_device_open(engine, opts->device) == ZT_OK)
        return &engine->base;
    vk_close(&engine->base);
    return NULL;
}

static bool vk_has(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    return zt_vk_find((zt_vk_engine *)engine, op, attrs, input_types, out) != NULL;
}

static bool vk_has_contract_bits(zt_engine *base, zt_op op, const void *attrs, const zt_type *const input_types[],
                                 const zt_type out[])
{
    const zt_vk_engine *engine = (const zt_vk_engine *)base;
    const zt_vk_kernel *kernel = zt_vk_find(engine, op, attrs, input_types, out);
    if (!attrs) attrs = zt_op_info(op)->defaults;
    for (int k = 0; k < zt_op_info(op)->n_in; k++) /* f64 is computed by other shaders, where nothing is promised */
        if (input_types[k] && input_types[k]->dtype == ZT_F64) return false;
    return !engine->fused && kernel && kernel->contract && kernel->contract(engine, attrs, input_types, out);
}

static size_t vk_value_bytes(zt_engine *engine, const zt_type *type)
{
    (void)engine;
    return zt_type_bytes(type);
}

static void vk_free(zt_engine *base, zt_ebuf *buffer)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    if (!buffer) return;
    zt_vk_release(engine, &buffer->mem);
    zt_vk_release(engine, &buffer->plain);
    zt_free(base->ctx, buffer);
}

static zt_ebuf *new_buf(zt_vk_engine *engine, const zt_type *type, zt_vk_kind kind)
{
    zt_ebuf *buffer = zt_calloc(engine->base.ctx, 1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->type = *type;
    if (zt_vk_alloc(engine, kind, zt_type_bytes(type), &buffer->mem) == ZT_OK) return buffer;
    vk_free(&engine->base, buffer);
    return NULL;
}

static zt_ebuf *vk_alloc(zt_engine *base, const zt_type *type)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_ebuf *buffer = new_buf(engine, type, ZT_VK_DEVICE_MEM);
    if (!buffer || zt_vk_clear(engine, &buffer->mem) == ZT_OK) return buffer;
    vk_free(base, buffer);
    return NULL;
}

/* What the host brings lies in memory that both see: the device reads it once. */
static zt_ebuf *vk_temp(zt_engine *base, const zt_type *type, const void *host)
{
    zt_vk_engine *engine = (zt_vk_engine *)base;
    zt_ebuf *buffer = new_buf(engine, type, host ? ZT_VK_HOST_MEM : ZT_VK_DEVICE_MEM);
    if (buffer && host) memcpy(buffer->mem.map, host, zt_type_bytes(type));
    return buffer;
}

static zt_status vk_upload(zt_engine *engine, zt_ebuf *buffer, const void *host)
{
    return zt_vk_write((zt_vk_engine *)engine, &buffer->mem, 0, host, zt_type_bytes(&buffer->type));
}

static zt_status vk_download(zt_engine *engine, const zt_ebuf *buffer, void *host)
{
    return zt_vk_read((zt_vk_engine *)engine, &buffer->mem, 0, host, zt_type_bytes(&buffer->type));
}

static zt_status vk_write_part(zt_engine *engine, zt_ebuf *buffer, size_t offset, size_t bytes, const void *host)
{
    return zt_vk_write((zt_vk_engine *)engine, &buffer->mem, offset, host, bytes);
}

static zt_status vk_read_part(zt_engine *engine, const zt_ebuf *buffer, size_t offset, size_t bytes, void *host)
{
    return zt_vk_read((zt_vk_engine *)engine, &buffer->mem, offset, host, bytes);
}

static zt_engine_report vk_report(const zt_engine *engine) { return ((const zt_vk_engine *)engine)->report; }

const zt_engine_vt zt_engine_vulkan = {
    .name = "vulkan",
    .devices = true,
    .open = vk_open,
    .close = vk_close,
    .has = vk_has,
    .has_contract_bits = vk_has_contract_bits,
    .value_bytes = vk_value_bytes,
    .alloc = vk_alloc,
    .load = zt_vk_load_weight,
    .free = vk_free,
    .upload = vk_upload,
    .download = vk_download,
    .write_part = vk_write_part,
    .read_part = vk_read_part,
    .prepare = zt_vk_prepare,
    .unprepare = zt_vk_unprepare,
    .replay = zt_vk_replay,
    .temp = vk_temp,
    .enqueue = zt_vk_enqueue,
    .flush = zt_vk_flush,
    .sync = zt_vk_sync,
    .report = vk_report,
    .adapters = zt_vk_adapters,
    .rates = zt_vk_rates,
};
