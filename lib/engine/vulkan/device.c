/* device.c - one adapter made ready: features asked for, a queue that computes, memory to use. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { MAX_FAMILIES = 32 };

/* ---- what it is ------------------------------------------------------------------------------ */

static zt_status read_limits(zt_vk_engine *e)
{
    VkPhysicalDeviceSubgroupProperties sub = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &sub};
    e->vk.GetPhysicalDeviceProperties2(e->adapter, &p);
    const VkPhysicalDeviceLimits *l = &p.properties.limits;
    memcpy(e->name, p.properties.deviceName, sizeof e->name);
    e->name[sizeof e->name - 1] = 0;
    e->vendor = p.properties.vendorID;
    e->model = p.properties.deviceID;
    memcpy(e->cache_uuid, p.properties.pipelineCacheUUID, sizeof e->cache_uuid);
    e->shared_bytes = l->maxComputeSharedMemorySize;
    memcpy(e->groups, l->maxComputeWorkGroupCount, sizeof e->groups);
    if (sub.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT &&
        sub.supportedOperations & VK_SUBGROUP_FEATURE_BALLOT_BIT)
        e->lanes = sub.subgroupSize;
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

/* The features that are asked about and asked for, each in a struct of its own. */
typedef struct features {
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dots;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceFeatures2 v10;
} features;

/* With `dots` only where the device knows that struct. */
static void link_features(features *f, bool dots)
{
    f->dots.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR;
    f->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f->v12.pNext = dots ? &f->dots : NULL;
    f->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f->v11.pNext = &f->v12;
    f->v10.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    f->v10.pNext = &f->v11;
}

static bool has_extension(const zt_vk_engine *e, const char *name)
{
    enum { MOST = 512 };
    bool found = false;
    uint32_t n = MOST;
    VkExtensionProperties *all = zt_alloc_array(e->base.ctx, MOST, sizeof *all);
    VkResult r = all ? e->vk.EnumerateDeviceExtensionProperties(e->adapter, NULL, &n, all)
                     : VK_ERROR_OUT_OF_HOST_MEMORY;
    if (r != VK_SUCCESS && r != VK_INCOMPLETE) n = 0;
    for (uint32_t i = 0; i < n && !found; i++) found = !strcmp(all[i].extensionName, name);
    zt_free(e->base.ctx, all);
    return found;
}

static zt_status make_device(zt_vk_engine *e)
{
    static const char *const dot_product = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    features have = {0}, want = {0};
    bool knows_dots = has_extension(e, dot_product);
    if (zt_ctx_status(e->base.ctx)) return zt_ctx_status(e->base.ctx);
    link_features(&have, knows_dots);
    e->vk.GetPhysicalDeviceFeatures2(e->adapter, &have.v10);
    e->dots = knows_dots && have.dots.shaderIntegerDotProduct;
    if (!have.v12.bufferDeviceAddress || !have.v12.scalarBlockLayout ||
        !have.v11.storageBuffer16BitAccess || !have.v10.features.shaderInt16)
        return zt_fail(e->base.ctx, ZT_ENOTSUP,
                       "engine vulkan: %s lacks bufferDeviceAddress, scalarBlockLayout or 16-bit "
                       "storage",
                       e->name);
    link_features(&want, e->dots);
    want.dots.shaderIntegerDotProduct = e->dots;
    want.v12.bufferDeviceAddress = want.v12.scalarBlockLayout = VK_TRUE;
    want.v11.storageBuffer16BitAccess = want.v10.features.shaderInt16 = VK_TRUE;
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = e->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &want.v10,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = e->dots,
                                     .ppEnabledExtensionNames = &dot_product};
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
    zt_status s = zt_vk_adapter_pick(e, index);
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
        zt_vk_sync(&e->base);
        vk->DeviceWaitIdle(e->device);
        zt_vk_batches_close(e);
        zt_vk_release(e, &e->staging);
        zt_vk_release(e, &e->arena);
        zt_vk_pool_close(e);
        zt_vk_pipelines_close(e);
        if (e->fence) vk->DestroyFence(e->device, e->fence, NULL);
        if (e->layout) vk->DestroyPipelineLayout(e->device, e->layout, NULL);
        if (e->commands) vk->DestroyCommandPool(e->device, e->commands, NULL);
    }
    if (e->device && vk->DestroyDevice) vk->DestroyDevice(e->device, NULL);
    zt_vk_unload(&e->vk, e->instance);
}
