/* adapters.c - the adapters that the loader reports, and choosing one. */
#include "lib/engine/vulkan/vk.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ADAPTERS = 16 };

/* No error: an instance without adapters is one with 0 of them. */
static uint32_t find_all(const zt_vk_api *api, VkInstance instance, VkPhysicalDevice *found)
{
    uint32_t found_count = MAX_ADAPTERS;
    VkResult result = api->EnumeratePhysicalDevices(instance, &found_count, found);
    return result && result != VK_INCOMPLETE ? 0 : found_count;
}

zt_status zt_vk_adapter_pick(zt_vk_engine *engine, int index)
{
    VkPhysicalDevice found[MAX_ADAPTERS];
    uint32_t found_count = find_all(&engine->vk, engine->instance, found);
    if (found_count == 0) return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: no device");
    if (index < 0 || (uint32_t)index >= found_count)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: no device %d, there %s %u", index,
                       found_count == 1 ? "is" : "are", found_count);
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
static size_t memory_of(const zt_vk_api *api, VkPhysicalDevice device)
{
    VkPhysicalDeviceMemoryProperties properties;
    size_t sum = 0;
    api->GetPhysicalDeviceMemoryProperties(device, &properties);
    for (uint32_t i = 0; i < properties.memoryHeapCount; i++)
        if (properties.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) sum += (size_t)properties.memoryHeaps[i].size;
    return sum;
}

static void describe_adapter(const zt_vk_api *api, VkPhysicalDevice device, zt_adapter *adapter)
{
    VkPhysicalDeviceVulkan11Properties p11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
    VkPhysicalDeviceVulkan12Properties p12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &p11};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &p12};
    api->GetPhysicalDeviceProperties2(device, &properties);
    const VkPhysicalDeviceProperties *core = &properties.properties;
    *adapter = (zt_adapter){.type = types[0]};
    snprintf(adapter->name, sizeof adapter->name, "%s", core->deviceName);
    snprintf(adapter->driver, sizeof adapter->driver, "%s%s%s", p12.driverName, p12.driverInfo[0] ? " " : "", p12.driverInfo);
    snprintf(adapter->api, sizeof adapter->api, "%u.%u.%u", VK_API_VERSION_MAJOR(core->apiVersion),
             VK_API_VERSION_MINOR(core->apiVersion), VK_API_VERSION_PATCH(core->apiVersion));
    if ((size_t)core->deviceType < sizeof types / sizeof types[0]) adapter->type = types[core->deviceType];
    adapter->memory = memory_of(api, device);
    put_limit(adapter, "shared_memory", core->limits.maxComputeSharedMemorySize);
    put_limit(adapter, "invocations", core->limits.maxComputeWorkGroupInvocations);
    put_limit(adapter, "subgroup", p11.subgroupSize);
    put_limit(adapter, "allocation", p11.maxMemoryAllocationSize);
    put_limit(adapter, "storage_buffer", core->limits.maxStorageBufferRange);
    put_limit(adapter, "push_constants", core->limits.maxPushConstantsSize);
}

int zt_vk_adapters(zt_ctx *ctx, zt_adapter *adapter, int max)
{
    zt_vk_api api = {0};
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice found[MAX_ADAPTERS];
    int adapter_count = -1;
    if (zt_vk_load(ctx, &api, &instance) == ZT_OK) {
        adapter_count = (int)find_all(&api, instance, found);
        for (int i = 0; i < adapter_count && i < max; i++) describe_adapter(&api, found[i], &adapter[i]);
    }
    zt_vk_unload(&api, instance);
    return adapter_count;
}
