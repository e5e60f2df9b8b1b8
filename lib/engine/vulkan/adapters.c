/* adapters.c - which adapters there are: what the loader tells of each, and choosing one. */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ADAPTERS = 16 };

/* No error: an instance without adapters is one with 0 of them. */
static uint32_t find_all(const zt_vk_api *api, VkInstance instance, VkPhysicalDevice *found)
{
    uint32_t n = MAX_ADAPTERS;
    VkResult result = api->EnumeratePhysicalDevices(instance, &n, found);
    return result && result != VK_INCOMPLETE ? 0 : n;
}

zt_status zt_vk_adapter_pick(zt_vk_engine *engine, int index)
{
    VkPhysicalDevice found[MAX_ADAPTERS];
    uint32_t n = find_all(&engine->vk, engine->instance, found);
    if (n == 0) return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: no adapter");
    if (index < 0 || (uint32_t)index >= n)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: no adapter %d, there %s %u", index,
                       n == 1 ? "is" : "are", n);
    engine->adapter = found[index];
    return ZT_OK;
}

/* ---- telling of them ------------------------------------------------------------------------- */

static const char *const types[] = {"other", "integrated", "discrete", "virtual", "cpu"};

static void put_limit(zt_adapter *adapter, const char *name, uint64_t value)
{
    adapter->limit[adapter->n_limits].name = name;
    adapter->limit[adapter->n_limits++].value = value;
}

/* Heaps that are the device's own; of a processor that is all of its memory. */
static size_t memory_of(const zt_vk_api *api, VkPhysicalDevice d)
{
    VkPhysicalDeviceMemoryProperties m;
    size_t sum = 0;
    api->GetPhysicalDeviceMemoryProperties(d, &m);
    for (uint32_t i = 0; i < m.memoryHeapCount; i++)
        if (m.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            sum += (size_t)m.memoryHeaps[i].size;
    return sum;
}

static void tell(const zt_vk_api *api, VkPhysicalDevice d, zt_adapter *adapter)
{
    VkPhysicalDeviceVulkan11Properties p11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
    VkPhysicalDeviceVulkan12Properties p12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &p11};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &p12};
    api->GetPhysicalDeviceProperties2(d, &p);
    const VkPhysicalDeviceProperties *q = &p.properties;
    *adapter = (zt_adapter){.type = types[0]};
    snprintf(adapter->name, sizeof adapter->name, "%s", q->deviceName);
    snprintf(adapter->driver, sizeof adapter->driver, "%s%s%s", p12.driverName, p12.driverInfo[0] ? " " : "",
             p12.driverInfo);
    snprintf(adapter->api, sizeof adapter->api, "%u.%u.%u", VK_API_VERSION_MAJOR(q->apiVersion),
             VK_API_VERSION_MINOR(q->apiVersion), VK_API_VERSION_PATCH(q->apiVersion));
    if ((size_t)q->deviceType < sizeof types / sizeof types[0]) adapter->type = types[q->deviceType];
    adapter->memory = memory_of(api, d);
    put_limit(adapter, "shared_memory", q->limits.maxComputeSharedMemorySize);
    put_limit(adapter, "invocations", q->limits.maxComputeWorkGroupInvocations);
    put_limit(adapter, "subgroup", p11.subgroupSize);
    put_limit(adapter, "allocation", p11.maxMemoryAllocationSize);
    put_limit(adapter, "storage_buffer", q->limits.maxStorageBufferRange);
    put_limit(adapter, "push_constants", q->limits.maxPushConstantsSize);
}

int zt_vk_adapters(zt_ctx *ctx, zt_adapter *adapter, int max)
{
    zt_vk_api vk = {0};
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice found[MAX_ADAPTERS];
    int n = -1;
    if (zt_vk_load(ctx, &vk, &instance) == ZT_OK) {
        n = (int)find_all(&vk, instance, found);
        for (int i = 0; i < n && i < max; i++) tell(&vk, found[i], &adapter[i]);
    }
    zt_vk_unload(&vk, instance);
    return n;
}
