/* cuda.c - the engine on NVIDIA's GPUs, and the same on AMD's and on OpenCL: their vtables. */
#include "lib/engine/cuda/cu.h"

#include <string.h>

static void cu_close(zt_engine *base)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_cu_device_close(engine);
    zt_free(base->ctx, engine);
}

static zt_engine *open_on(zt_ctx *ctx, const zt_cu_platform *platform, const zt_engine_vt *vtable, const zt_engine_opts *opts)
{
    zt_cu_engine *engine = zt_calloc(ctx, 1, sizeof *engine);
    if (!engine) return NULL;
    engine->base = (zt_engine){.vt = vtable, .ctx = ctx};
    if (zt_cu_load(ctx, platform, &engine->cu) == ZT_OK && zt_cu_device_open(engine, opts->device) == ZT_OK) return &engine->base;
    cu_close(&engine->base);
    return NULL;
}

static bool cu_has(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                   const zt_type output_types[])
{
    return zt_cu_find((zt_cu_engine *)engine, op, attrs, input_types, output_types) != NULL;
}

/* f64 is computed by other kernels, and a platform with kernels of its own has others, for which nothing is promised. */
static bool cu_has_contract_bits(zt_engine *base, zt_op op, const void *attrs, const zt_type *const input_types[],
                                 const zt_type output_types[])
{
    const zt_cu_engine *engine = (const zt_cu_engine *)base;
    const zt_cu_row *row = zt_cu_find(engine, op, attrs, input_types, output_types);
    if (!attrs) attrs = zt_op_info(op)->defaults;
    for (int k = 0; k < zt_op_info(op)->n_in; k++)
        if (input_types[k] && input_types[k]->dtype == ZT_F64) return false;
    return base->strict_bits && !engine->cu.platform->has_kernel && row && row->contract &&
           row->contract(op, attrs, input_types, output_types);
}

static size_t cu_value_bytes(zt_engine *engine, const zt_type *type)
{
    (void)engine;
    return zt_type_bytes(type);
}

static void cu_free(zt_engine *base, zt_ebuf *buffer)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    if (!buffer) return;
    engine->cu.CtxSetCurrent(engine->context);
    zt_cu_release(engine, &buffer->memory);
    zt_cu_release(engine, &buffer->plain);
    zt_free(base->ctx, buffer);
}

static zt_ebuf *new_buf(zt_cu_engine *engine, const zt_type *type)
{
    zt_ebuf *buffer = zt_cu_enter(engine) ? NULL : zt_calloc(engine->base.ctx, 1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->type = *type;
    if (zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, zt_type_bytes(type), &buffer->memory) == ZT_OK) return buffer;
    cu_free(&engine->base, buffer);
    return NULL;
}

static zt_ebuf *cu_alloc(zt_engine *base, const zt_type *type)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_ebuf *buffer = new_buf(engine, type);
    if (!buffer || zt_cu_clear(engine, buffer->memory.address, zt_type_bytes(type)) == ZT_OK) return buffer;
    cu_free(base, buffer);
    return NULL;
}

static zt_ebuf *cu_temp(zt_engine *base, const zt_type *type, const void *host)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_ebuf *buffer = new_buf(engine, type);
    if (!buffer || !host || zt_cu_write(engine, buffer->memory.address, host, zt_type_bytes(type)) == ZT_OK) return buffer;
    cu_free(base, buffer);
    return NULL;
}

static zt_status cu_upload(zt_engine *base, zt_ebuf *buffer, const void *host)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_status status = zt_cu_enter(engine);
    return status ? status : zt_cu_write(engine, buffer->memory.address, host, zt_type_bytes(&buffer->type));
}

static zt_status cu_download(zt_engine *base, const zt_ebuf *buffer, void *host)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_status status = zt_cu_enter(engine);
    return status ? status : zt_cu_read(engine, buffer->memory.address, host, zt_type_bytes(&buffer->type));
}

static zt_status cu_write_part(zt_engine *base, zt_ebuf *buffer, size_t offset, size_t bytes, const void *host)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_status status = zt_cu_enter(engine);
    return status ? status : zt_cu_write(engine, buffer->memory.address + offset, host, bytes);
}

static zt_status cu_read_part(zt_engine *base, const zt_ebuf *buffer, size_t offset, size_t bytes, void *host)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_status status = zt_cu_enter(engine);
    return status ? status : zt_cu_read(engine, buffer->memory.address + offset, host, bytes);
}

static zt_engine_report cu_report(const zt_engine *engine) { return ((const zt_cu_engine *)engine)->report; }

static zt_engine *cuda_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    return open_on(ctx, &zt_cu_nvidia, &zt_engine_cuda, opts);
}
static zt_engine *hip_open(zt_ctx *ctx, const zt_engine_opts *opts) { return open_on(ctx, &zt_cu_amd, &zt_engine_hip, opts); }
static zt_engine *opencl_open(zt_ctx *ctx, const zt_engine_opts *opts)
{
    return open_on(ctx, &zt_cu_khronos, &zt_engine_opencl, opts);
}
static int cuda_adapters(zt_ctx *ctx, zt_adapter *adapter, int max) { return zt_cu_adapters(ctx, &zt_cu_nvidia, adapter, max); }
static int hip_adapters(zt_ctx *ctx, zt_adapter *adapter, int max) { return zt_cu_adapters(ctx, &zt_cu_amd, adapter, max); }
static int opencl_adapters(zt_ctx *ctx, zt_adapter *adapter, int max)
{
    return zt_cu_adapters(ctx, &zt_cu_khronos, adapter, max);
}

// clang-format off
#define ENGINE(its_name)                                                                           \
    {                                                                                              \
        .name = #its_name, .devices = true, .computes = true, .open = its_name##_open,             \
        .close = cu_close, .has = cu_has, .has_contract_bits = cu_has_contract_bits,               \
        .value_bytes = cu_value_bytes, .alloc = cu_alloc,                                          \
        .load = zt_cu_load_weight, .free = cu_free, .upload = cu_upload, .download = cu_download,  \
        .prepare = zt_cu_prepare, .unprepare = zt_cu_unprepare, .replay = zt_cu_replay,            \
        .write_part = cu_write_part, .read_part = cu_read_part,                                    \
        .temp = cu_temp, .enqueue = zt_cu_enqueue, .flush = zt_cu_flush, .sync = zt_cu_sync,       \
        .report = cu_report, .adapters = its_name##_adapters                                       \
    }
// clang-format on

const zt_engine_vt zt_engine_cuda = ENGINE(cuda);
const zt_engine_vt zt_engine_hip = ENGINE(hip);
const zt_engine_vt zt_engine_opencl = ENGINE(opencl);
