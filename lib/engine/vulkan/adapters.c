/* adapters.c - which adapters there are: what the loader tells of each, and choosing one. */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ADAPTERS = 16 };

/* No error: an instance without adapters is one with 0 of them. */
static uint32_t find_all(const zt_vk_api *vk, VkInstance instance, VkPhysicalDevice *found)
{
    uint32_t n = MAX_ADAPTERS;
    VkResult r = vk->EnumeratePhysicalDevices(instance, &n, found);
    return r && r != VK_INCOMPLETE ? 0 : n;
}

zt_status zt_vk_adapter_pick(zt_vk_engine *e, int index)
{
    VkPhysicalDevice found[MAX_ADAPTERS];
    uint32_t n = find_all(&e->vk, e->instance, found);
    if (n == 0) return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: no adapter");
    if (index < 0 || (uint32_t)index >= n)
        return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: no adapter %d, there %s %u", index,
                       n == 1 ? "is" : "are", n);
    e->adapter = found[index];
    return ZT_OK;
}

/* ---- telling of them ------------------------------------------------------------------------- */

static const char *const types[] = {"other", "integrated", "discrete", "virtual", "cpu"};

static void put_limit(zt_adapter *a, const char *name, uint64_t value)
{
    a->limit[a->n_limits].name = name;
    a->limit[a->n_limits++].value = value;
}

/* Heaps that are the device's own; of a processor that is all of its memory. */
static size_t memory_of(const zt_vk_api *vk, VkPhysicalDevice d)
{
    VkPhysicalDeviceMemoryProperties m;
    size_t sum = 0;
    vk->GetPhysicalDeviceMemoryProperties(d, &m);
    for (uint32_t i = 0; i < m.memoryHeapCount; i++)
        if (m.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            sum += (size_t)m.memoryHeaps[i].size;
    return sum;
}

static void tell(const zt_vk_api *vk, VkPhysicalDevice d, zt_adapter *a)
{
    VkPhysicalDeviceVulkan11Properties p11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
    VkPhysicalDeviceVulkan12Properties p12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &p11};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &p12};
    vk->GetPhysicalDeviceProperties2(d, &p);
    const VkPhysicalDeviceProperties *q = &p.properties;
    *a = (zt_adapter){.type = types[0]};
    snprintf(a->name, sizeof a->name, "%s", q->deviceName);
    snprintf(a->driver, sizeof a->driver, "%s%s%s", p12.driverName, p12.driverInfo[0] ? " " : "",
             p12.driverInfo);
    snprintf(a->api, sizeof a->api, "%u.%u.%u", VK_API_VERSION_MAJOR(q->apiVersion),
             VK_API_VERSION_MINOR(q->apiVersion), VK_API_VERSION_PATCH(q->apiVersion));
    if ((size_t)q->deviceType < sizeof types / sizeof types[0]) a->type = types[q->deviceType];
    a->memory = memory_of(vk, d);
    put_limit(a, "shared_memory", q->limits.maxComputeSharedMemorySize);
    put_limit(a, "invocations", q->limits.maxComputeWorkGroupInvocations);
    put_limit(a, "subgroup", p11.subgroupSize);
    put_limit(a, "allocation", p11.maxMemoryAllocationSize);
    put_limit(a, "storage_buffer", q->limits.maxStorageBufferRange);
    put_limit(a, "push_constants", q->limits.maxPushConstantsSize);
}

int zt_vk_adapters(zt_ctx *ctx, zt_adapter *a, int max)
{
    zt_vk_api vk = {0};
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice found[MAX_ADAPTERS];
    int n = -1;
    if (zt_vk_load(ctx, &vk, &instance) == ZT_OK) {
        n = (int)find_all(&vk, instance, found);
        for (int i = 0; i < n && i < max; i++) tell(&vk, found[i], &a[i]);
    }
    zt_vk_unload(&vk, instance);
    return n;
}
