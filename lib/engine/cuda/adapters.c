/* adapters.c - which devices there are, and what each can do. */
#include "lib/engine/cuda/cu.h"

#include <stdio.h>
#include <string.h>

static uint64_t read_attribute(const zt_cu_api *api, zt_cu_attribute attribute, int device)
{
    int value = 0;
    return zt_cu_attribute_of(api, attribute, device, &value) == ZT_CU_SUCCESS && value > 0 ? (uint64_t)value : 0;
}

static void put_limit(zt_adapter *adapter, const char *name, uint64_t value)
{
    adapter->limit[adapter->n_limits].name = name;
    adapter->limit[adapter->n_limits++].value = value;
}

/* fp8: products of such numbers in one instruction, which began with compute capability 8.9. All
 * have bf16 from 8.0 on, the least that there are kernels for. */
static void describe_adapter(const zt_cu_api *api, int device_index, zt_adapter *adapter)
{
    const zt_cu_platform *platform = api->platform;
    int device = 0;
    *adapter = (zt_adapter){.type = "discrete"};
    if (api->DeviceGet(&device, device_index)) return;
    uint64_t major = read_attribute(api, ZT_CU_AT_MAJOR, device), minor = read_attribute(api, ZT_CU_AT_MINOR, device);
    bool unified = read_attribute(api, ZT_CU_AT_INTEGRATED, device);
    if (api->DeviceGetName(adapter->name, sizeof adapter->name, device)) adapter->name[0] = 0;
    adapter->name[sizeof adapter->name - 1] = 0;
    if (unified) adapter->type = "integrated";
    if (api->emulated) adapter->type = "cpu";
    snprintf(adapter->driver, sizeof adapter->driver, "%s %s %d.%d", api->emulated ? "emulation of" : "driver of",
             platform->language, api->version / platform->major, api->version % platform->major / platform->minor);
    snprintf(adapter->api, sizeof adapter->api, "%d.%d", (int)major, (int)minor);
    api->DeviceTotalMem(&adapter->memory, device);
    put_limit(adapter, "shared_memory", read_attribute(api, ZT_CU_AT_SHARED_OPTIN, device));
    put_limit(adapter, "threads", read_attribute(api, ZT_CU_AT_MAX_THREADS, device));
    put_limit(adapter, "warp", read_attribute(api, ZT_CU_AT_WARP, device));
    put_limit(adapter, "multiprocessors", read_attribute(api, ZT_CU_AT_PROCESSORS, device));
    put_limit(adapter, "unified_memory", unified);
    put_limit(adapter, "bf16", major >= 8);
    put_limit(adapter, "fp8", platform->fp8 && major * 10 + minor >= (uint64_t)platform->fp8);
    put_limit(adapter, "paged_attention", 1);
    if (platform->describe) platform->describe(device, adapter);
}

int zt_cu_adapters(zt_ctx *ctx, const zt_cu_platform *platform, zt_adapter *adapters, int max)
{
    zt_cu_api api = {0};
    int adapter_count = 0;
    zt_status status = zt_cu_load(ctx, platform, &api);
    if (!status && (api.DeviceGetCount(&adapter_count) || adapter_count <= 0))
        status = zt_fail(ctx, ZT_ENOTSUP, "engine %s: no device", platform->engine);
    for (int i = 0; !status && i < adapter_count && i < max; i++) describe_adapter(&api, i, &adapters[i]);
    zt_cu_unload(&api);
    return status ? -1 : adapter_count;
}
