/* device.c - one adapter made ready: features asked for, a queue that computes, memory to use. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { MAX_ADAPTERS = 16, MAX_FAMILIES = 32 };

/* ---- choosing -------------------------------------------------------------------------------- */

static zt_status pick_adapter(zt_vk_engine *e, int index)
{
    VkPhysicalDevice found[MAX_ADAPTERS];
    uint32_t n = MAX_ADAPTERS;
    VkResult r = e->vk.EnumeratePhysicalDevices(e->instance, &n, found);
    if (r && r != VK_INCOMPLETE) n = 0;
    if (n == 0) return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: no adapter");
    if (index < 0 || (uint32_t)index >= n)
        return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: no adapter %d, there %s %u", index,
                       n == 1 ? "is" : "are", n);
    e->adapter = found[index];
    return ZT_OK;
}

static zt_status read_limits(zt_vk_engine *e)
{
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    e->vk.GetPhysicalDeviceProperties2(e->adapter, &p);
    const VkPhysicalDeviceLimits *l = &p.properties.limits;
    memcpy(e->name, p.properties.deviceName, sizeof e->name);
    e->name[sizeof e->name - 1] = 0;
    e->shared_bytes = l->maxComputeSharedMemorySize;
    memcpy(e->groups, l->maxComputeWorkGroupCount, sizeof e->groups);
    e->tick = l->timestampComputeAndGraphics ? (double)l->timestampPeriod * 1e-9 : 0;
    if (p.properties.apiVersion < VK_API_VERSION_1_2)
        return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: %s has only Vulkan %u.%u, not 1.2",
                       e->name, VK_API_VERSION_MAJOR(p.properties.apiVersion),
                       VK_API_VERSION_MINOR(p.properties.apiVersion));
    return ZT_OK;
}

static zt_status pick_family(zt_vk_engine *e)
{
    VkQueueFamilyProperties family[MAX_FAMILIES];
    uint32_t n = MAX_FAMILIES;
    e->vk.GetPhysicalDeviceQueueFamilyProperties(e->adapter, &n, family);
    for (uint32_t i = 0; i < n; i++)
        if (family[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            e->family = i;
            if (family[i].timestampValidBits == 0) e->tick = 0;
            return ZT_OK;
        }
    return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: %s does not compute", e->name);
}

/* The first memory type with all of `must`, of those with `wish` too if there is one. */
static bool find_type(const VkPhysicalDeviceMemoryProperties *m, VkMemoryPropertyFlags must,
                      VkMemoryPropertyFlags wish, uint32_t *type)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
            VkMemoryPropertyFlags want = pass == 0 ? must | wish : must;
            if ((m->memoryTypes[i].propertyFlags & want) != want) continue;
            *type = i;
            return true;
        }
    return false;
}

static zt_status pick_memory(zt_vk_engine *e)
{
    const VkMemoryPropertyFlags seen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties m;
    e->vk.GetPhysicalDeviceMemoryProperties(e->adapter, &m);
    for (uint32_t i = 0; i < m.memoryTypeCount; i++)
        if ((m.memoryTypes[i].propertyFlags & seen) == seen) e->seen_types |= UINT32_C(1) << i;
    if (find_type(&m, 0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &e->memory_type[ZT_VK_DEVICE_MEM]) &&
        find_type(&m, seen, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, &e->memory_type[ZT_VK_HOST_MEM]))
        return ZT_OK;
    return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: %s has no memory for us", e->name);
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status make_device(zt_vk_engine *e)
{
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f12};
    VkPhysicalDeviceFeatures2 have = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                      .pNext = &f11};
    const float priority = 1;
    e->vk.GetPhysicalDeviceFeatures2(e->adapter, &have);
    if (!f12.bufferDeviceAddress || !f12.scalarBlockLayout || !f11.storageBuffer16BitAccess ||
        !have.features.shaderInt16)
        return zt_fail(e->base.ctx, ZT_ENOTSUP,
                       "engine vulkan: %s lacks bufferDeviceAddress, scalarBlockLayout or 16-bit "
                       "storage",
                       e->name);
    VkPhysicalDeviceVulkan12Features w12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .bufferDeviceAddress = VK_TRUE,
        .scalarBlockLayout = VK_TRUE};
    VkPhysicalDeviceVulkan11Features w11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &w12,
        .storageBuffer16BitAccess = VK_TRUE};
    const VkPhysicalDeviceFeatures2 want = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                            .pNext = &w11,
                                            .features.shaderInt16 = VK_TRUE};
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = e->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &want,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue};
    return zt_vk_check(e->base.ctx, e->vk.CreateDevice(e->adapter, &info, NULL, &e->device),
                       "CreateDevice");
}

static zt_status load_functions(zt_vk_engine *e)
{
    zt_vk_api *vk = &e->vk;
    bool whole = true;
#define X(f)                                                                                       \
    vk->f = (PFN_vk##f)vk->GetDeviceProcAddr(e->device, "vk" #f);                                  \
    whole = whole && vk->f;
    ZT_VK_DEVICE(X)
#undef X
    vk->GetDeviceQueue(e->device, e->family, 0, &e->queue);
    return whole ? ZT_OK
                 : zt_fail(e->base.ctx, ZT_ENOTSUP, "engine vulkan: %s lacks functions", e->name);
}

static zt_status make_objects(zt_vk_engine *e)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = e->family};
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(zt_vk_push)};
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &push};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    zt_ctx *ctx = e->base.ctx;
    zt_status s = zt_vk_check(ctx, e->vk.CreateCommandPool(e->device, &pool, NULL, &e->commands),
                              "CreateCommandPool");
    if (!s)
        s = zt_vk_check(ctx, e->vk.CreatePipelineLayout(e->device, &layout, NULL, &e->layout),
                        "CreatePipelineLayout");
    if (!s)
        s = zt_vk_check(ctx, e->vk.CreateFence(e->device, &fence, NULL, &e->fence), "CreateFence");
    const VkCommandBufferAllocateInfo one = {.sType =
                                                 VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                             .commandPool = e->commands,
                                             .commandBufferCount = 1};
    if (!s)
        s = zt_vk_check(ctx, e->vk.AllocateCommandBuffers(e->device, &one, &e->transfer),
                        "AllocateCommandBuffers");
    return s;
}

zt_status zt_vk_device_open(zt_vk_engine *e, int index)
{
    zt_status s = zt_vk_load(e->base.ctx, &e->vk, &e->instance);
    if (!s) s = pick_adapter(e, index);
    if (!s) s = read_limits(e);
    if (!s) s = pick_family(e);
    if (!s) s = pick_memory(e);
    if (!s) s = make_device(e);
    if (!s) s = load_functions(e);
    if (!s) s = make_objects(e);
    if (!s) zt_vk_cache_open(e);
    return s;
}

void zt_vk_device_close(zt_vk_engine *e)
{
    const zt_vk_api *vk = &e->vk;
    if (e->device && vk->DeviceWaitIdle) {
        vk->DeviceWaitIdle(e->device);
        zt_vk_release(e, &e->staging);
        zt_vk_release(e, &e->arena);
        zt_vk_pool_clear(e);
        zt_vk_pipelines_close(e);
        if (e->fence) vk->DestroyFence(e->device, e->fence, NULL);
        if (e->layout) vk->DestroyPipelineLayout(e->device, e->layout, NULL);
        if (e->commands) vk->DestroyCommandPool(e->device, e->commands, NULL);
    }
    if (e->device && vk->DestroyDevice) vk->DestroyDevice(e->device, NULL);
    zt_vk_unload(&e->vk, e->instance);
}
