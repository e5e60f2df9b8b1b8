/* adapters.c - which devices there are, and what each can do. */
#include "lib/engine/cuda/cu.h"

#include <stdio.h>
#include <string.h>

static uint64_t ask(const zt_cu_api *cu, zt_cu_attribute attribute, int device)
{
    int value = 0;
    return zt_cu_attribute_of(cu, attribute, device, &value) == ZT_CU_SUCCESS && value > 0
               ? (uint64_t)value
               : 0;
}

static void put_limit(zt_adapter *a, const char *name, uint64_t value)
{
    a->limit[a->n_limits].name = name;
    a->limit[a->n_limits++].value = value;
}

/* fp8: products of such numbers in one instruction, which began with compute capability 8.9. All
 * have bf16 from 8.0 on, the least that there are kernels for. */
static void tell(const zt_cu_api *cu, int i, zt_adapter *a)
{
    const zt_cu_platform *p = cu->platform;
    int device = 0;
    *a = (zt_adapter){.type = "discrete"};
    if (cu->DeviceGet(&device, i)) return;
    uint64_t major = ask(cu, ZT_CU_AT_MAJOR, device), minor = ask(cu, ZT_CU_AT_MINOR, device);
    bool unified = ask(cu, ZT_CU_AT_INTEGRATED, device);
    if (cu->DeviceGetName(a->name, sizeof a->name, device)) a->name[0] = 0;
    a->name[sizeof a->name - 1] = 0;
    if (unified) a->type = "integrated";
    if (cu->emulated) a->type = "cpu";
    snprintf(a->driver, sizeof a->driver, "%s %s %d.%d",
             cu->emulated ? "emulation of" : "driver of", p->language, cu->version / p->major,
             cu->version % p->major / p->minor);
    snprintf(a->api, sizeof a->api, "%d.%d", (int)major, (int)minor);
    cu->DeviceTotalMem(&a->memory, device);
    put_limit(a, "shared_memory", ask(cu, ZT_CU_AT_SHARED_OPTIN, device));
    put_limit(a, "threads", ask(cu, ZT_CU_AT_MAX_THREADS, device));
    put_limit(a, "warp", ask(cu, ZT_CU_AT_WARP, device));
    put_limit(a, "multiprocessors", ask(cu, ZT_CU_AT_PROCESSORS, device));
    put_limit(a, "unified_memory", unified);
    put_limit(a, "bf16", major >= 8);
    put_limit(a, "fp8", p->fp8 && major * 10 + minor >= (uint64_t)p->fp8);
    put_limit(a, "paged_attention", 1);
}

int zt_cu_adapters(zt_ctx *ctx, const zt_cu_platform *platform, zt_adapter *a, int max)
{
    zt_cu_api cu = {0};
    int n = 0;
    zt_status s = zt_cu_load(ctx, platform, &cu);
    if (!s && (cu.DeviceGetCount(&n) || n <= 0))
        s = zt_fail(ctx, ZT_ENOTSUP, "engine %s: no device", platform->engine);
    for (int i = 0; !s && i < n && i < max; i++) tell(&cu, i, &a[i]);
    zt_cu_unload(&cu);
    return s ? -1 : n;
}
