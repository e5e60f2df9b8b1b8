/* auto.c - the engine that `auto` means. */
#include "lib/run/auto.h"
#include "lib/run/partition.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of Linux: NVIDIA's driver, that of WSL, those of Tegra's. */
static const struct {
    const char *engine, *variable, *node[4];
} devices[] = {
    {"cuda", "ZT_CUDA_NODE", {"/dev/nvidiactl", "/dev/dxg", "/dev/nvgpu/igpu0/ctrl", "/dev/nvhost-gpu"}},
};
enum { N_DEVICES = sizeof devices / sizeof devices[0] };

static bool is_built(const char *engine)
{
    const char *name;
    for (int i = 0; (name = zt_engine_list(i)); i++)
        if (!strcmp(name, engine)) return true;
    return false;
}

static bool is_there(int i)
{
    const char *given = getenv(devices[i].variable);
    if (given && *given) return access(given, F_OK) == 0;
    for (size_t k = 0; k < sizeof devices[i].node / sizeof devices[i].node[0]; k++)
        if (devices[i].node[k] && access(devices[i].node[k], F_OK) == 0) return true;
    return false;
}

const char *zt_auto_device(void)
{
    for (int i = 0; i < N_DEVICES; i++)
        if (is_built(devices[i].engine) && is_there(i)) return devices[i].engine;
    return NULL;
}

/* ---- does it run all of it? ------------------------------------------------------------------ */

/* A part of a device's memory is left to what schedules need beside weights and states. */
enum { PLANS_PART = 16, ADAPTERS = 16 };

static zt_status has_room(zt_ctx *ctx, const char *name, int device, const zt_bound *bound)
{
    zt_adapter adapters[ADAPTERS];
    size_t sum = 0;
    int adapter_count = zt_engine_adapters(ctx, name, adapters, ADAPTERS);
    if (adapter_count < 0) return zt_ctx_status(ctx);
    for (int value_id = 0; value_id < bound->n_values; value_id++) {
        zt_value_kind kind = zt_prog_value(bound->prog, value_id)->kind;
        if (kind != ZT_VALUE_DATA && kind != ZT_VALUE_STATE) continue;
        size_t bytes = zt_type_bytes(&bound->type[value_id]);
        sum = bytes > SIZE_MAX - sum ? SIZE_MAX : sum + bytes;
    }
    if (device >= adapter_count || device >= ADAPTERS) return ZT_OK; /* of which nothing is known here */
    size_t most = adapters[device].memory - adapters[device].memory / PLANS_PART;
    if (sum <= most) return ZT_OK;
    return zt_fail(ctx, ZT_ENOMEM, "weights and states need %zu bytes, but the device has %zu", sum, most);
}

static zt_status has_kernels(zt_engine *engine, const zt_bound *bound)
{
    zt_chain chain;
    zt_partition partition;
    zt_chain_init(&chain, engine);
    zt_status status = zt_partition_make(&partition, &chain, bound, true, NULL, NULL);
    if (!status) zt_partition_free(&partition);
    zt_chain_fini(&chain);
    return status;
}

zt_engine *zt_auto_open(zt_ctx *ctx, const zt_engine_opts *opts, const zt_prog *program, const zt_binding *bindings,
                        int binding_count)
{
    const char *name = zt_auto_device();
    zt_bound *bound = name ? zt_prog_bind(program, bindings, binding_count) : NULL;
    zt_engine *engine = bound ? zt_engine_open(ctx, name, opts) : NULL;
    zt_status status = engine ? has_kernels(engine, bound) : zt_ctx_status(ctx);
    if (!status && engine) status = has_room(ctx, name, opts ? opts->device : 0, bound);
    zt_bound_free(bound);
    if (!status && engine) return engine;
    zt_engine_close(engine);
    if (status) zt_log(ctx, ZT_LOG_INFO, "engine auto: using cpu instead of %s: %s", name, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return zt_engine_open(ctx, "cpu", opts);
}
