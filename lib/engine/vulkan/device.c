/* device.c - one adapter made ready: features asked for, a queue that computes, memory to use. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

enum { MAX_FAMILIES = 32 };

/* ---- what it is ------------------------------------------------------------------------------ */

static zt_status read_limits(zt_vk_engine *engine)
{
    VkPhysicalDeviceSubgroupProperties sub = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sub};
    engine->vk.GetPhysicalDeviceProperties2(engine->adapter, &properties);
    const VkPhysicalDeviceLimits *limits = &properties.properties.limits;
    memcpy(engine->name, properties.properties.deviceName, sizeof engine->name);
    engine->name[sizeof engine->name - 1] = 0;
    engine->vendor = properties.properties.vendorID;
    engine->model = properties.properties.deviceID;
    memcpy(engine->cache_uuid, properties.properties.pipelineCacheUUID, sizeof engine->cache_uuid);
    engine->fused = properties.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU;
    engine->shared_bytes = limits->maxComputeSharedMemorySize;
    engine->invocations = limits->maxComputeWorkGroupInvocations;
    memcpy(engine->groups, limits->maxComputeWorkGroupCount, sizeof engine->groups);
    if (sub.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT && sub.supportedOperations & VK_SUBGROUP_FEATURE_BALLOT_BIT)
        engine->lanes = sub.subgroupSize;
    engine->tick = limits->timestampComputeAndGraphics ? (double)limits->timestampPeriod * 1e-9 : 0;
    if (properties.properties.apiVersion < VK_API_VERSION_1_2)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: %s supports only Vulkan %u.%u: 1.2 or later is needed",
                       engine->name, VK_API_VERSION_MAJOR(properties.properties.apiVersion),
                       VK_API_VERSION_MINOR(properties.properties.apiVersion));
    return ZT_OK;
}

static zt_status pick_family(zt_vk_engine *engine)
{
    VkQueueFamilyProperties family[MAX_FAMILIES];
    uint32_t family_count = MAX_FAMILIES;
    engine->vk.GetPhysicalDeviceQueueFamilyProperties(engine->adapter, &family_count, family);
    for (uint32_t i = 0; i < family_count; i++)
        if (family[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            engine->family = i;
            if (family[i].timestampValidBits == 0) engine->tick = 0;
            return ZT_OK;
        }
    return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: %s has no compute queue", engine->name);
}

/* The first memory type with all of `must`, of those with `wish` too if there is one. */
static bool find_type(const VkPhysicalDeviceMemoryProperties *properties, VkMemoryPropertyFlags must, VkMemoryPropertyFlags wish,
                      uint32_t *type)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < properties->memoryTypeCount; i++) {
            VkMemoryPropertyFlags want = pass == 0 ? must | wish : must;
            if ((properties->memoryTypes[i].propertyFlags & want) != want) continue;
            *type = i;
            return true;
        }
    return false;
}

static zt_status pick_memory(zt_vk_engine *engine)
{
    const VkMemoryPropertyFlags seen = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties properties;
    engine->vk.GetPhysicalDeviceMemoryProperties(engine->adapter, &properties);
    for (uint32_t i = 0; i < properties.memoryTypeCount; i++)
        if ((properties.memoryTypes[i].propertyFlags & seen) == seen) engine->seen_types |= UINT32_C(1) << i;
    if (find_type(&properties, 0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &engine->memory_type[ZT_VK_DEVICE_MEM]) &&
        find_type(&properties, seen, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, &engine->memory_type[ZT_VK_HOST_MEM]))
        return ZT_OK;
    return zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: %s has no suitable memory type", engine->name);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The features that are asked about and asked for, each in a struct of its own. */
typedef struct device_features {
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot_products;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceFeatures2 v10;
} device_features;

/* With `dots` only where the device knows that struct. */
static void link_features(device_features *features, bool dots)
{
    features->dot_products.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR;
    features->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    features->v12.pNext = dots ? &features->dot_products : NULL;
    features->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    features->v11.pNext = &features->v12;
    features->v10.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features->v10.pNext = &features->v11;
}

static bool has_extension(const zt_vk_engine *engine, const char *name)
{
    enum { MAX_EXTENSIONS = 512 };
    bool found = false;
    uint32_t extension_count = MAX_EXTENSIONS;
    VkExtensionProperties *all = zt_alloc_array(engine->base.ctx, MAX_EXTENSIONS, sizeof *all);
    VkResult result = all ? engine->vk.EnumerateDeviceExtensionProperties(engine->adapter, NULL, &extension_count, all)
                          : VK_ERROR_OUT_OF_HOST_MEMORY;
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) extension_count = 0;
    for (uint32_t i = 0; i < extension_count && !found; i++) found = !strcmp(all[i].extensionName, name);
    zt_free(engine->base.ctx, all);
    return found;
}

static zt_status make_device(zt_vk_engine *engine)
{
    static const char *const dot_product = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    device_features have = {0}, want = {0};
    bool knows_dots = has_extension(engine, dot_product);
    if (zt_ctx_status(engine->base.ctx)) return zt_ctx_status(engine->base.ctx);
    link_features(&have, knows_dots);
    engine->vk.GetPhysicalDeviceFeatures2(engine->adapter, &have.v10);
    engine->dots = knows_dots && have.dot_products.shaderIntegerDotProduct;
    engine->doubles = have.v10.features.shaderFloat64 && have.v10.features.shaderInt64;
    if (!have.v12.bufferDeviceAddress || !have.v12.scalarBlockLayout || !have.v11.storageBuffer16BitAccess ||
        !have.v12.storageBuffer8BitAccess || !have.v10.features.shaderInt16)
        return zt_fail(engine->base.ctx, ZT_ENOTSUP,
                       "engine vulkan: %s lacks bufferDeviceAddress, scalarBlockLayout, 8-bit or 16-bit "
                       "storage",
                       engine->name);
    link_features(&want, engine->dots);
    want.dot_products.shaderIntegerDotProduct = engine->dots;
    want.v12.bufferDeviceAddress = want.v12.scalarBlockLayout = want.v12.storageBuffer8BitAccess = VK_TRUE;
    want.v11.storageBuffer16BitAccess = want.v10.features.shaderInt16 = VK_TRUE;
    want.v10.features.shaderFloat64 = want.v10.features.shaderInt64 = engine->doubles;
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = engine->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &want.v10,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = engine->dots,
                                     .ppEnabledExtensionNames = &dot_product};
    return zt_vk_check(engine->base.ctx, engine->vk.CreateDevice(engine->adapter, &info, NULL, &engine->device), "CreateDevice");
}

static zt_status load_functions(zt_vk_engine *engine)
{
    zt_vk_api *api = &engine->vk;
    bool whole = true;
#define X(f)                                                                                                                     \
    api->f = (PFN_vk##f)api->GetDeviceProcAddr(engine->device, "vk" #f);                                                         \
    whole = whole && api->f;
    ZT_VK_DEVICE(X)
#undef X
    api->GetDeviceQueue(engine->device, engine->family, 0, &engine->queue);
    return whole ? ZT_OK : zt_fail(engine->base.ctx, ZT_ENOTSUP, "engine vulkan: %s lacks required functions", engine->name);
}

static zt_status make_objects(zt_vk_engine *engine)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = engine->family};
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(zt_vk_push)};
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .pushConstantRangeCount = 1, .pPushConstantRanges = &push};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    zt_ctx *ctx = engine->base.ctx;
    zt_status status =
        zt_vk_check(ctx, engine->vk.CreateCommandPool(engine->device, &pool, NULL, &engine->commands), "CreateCommandPool");
    if (!status)
        status = zt_vk_check(ctx, engine->vk.CreatePipelineLayout(engine->device, &layout, NULL, &engine->layout),
                             "CreatePipelineLayout");
    if (!status) status = zt_vk_check(ctx, engine->vk.CreateFence(engine->device, &fence, NULL, &engine->fence), "CreateFence");
    return status;
}

zt_status zt_vk_device_open(zt_vk_engine *engine, int index)
{
    zt_status status = zt_vk_adapter_pick(engine, index);
    if (!status) status = read_limits(engine);
    if (!status) status = pick_family(engine);
    if (!status) status = pick_memory(engine);
    if (!status) status = make_device(engine);
    if (!status) status = load_functions(engine);
    if (!status) status = make_objects(engine);
    if (!status) zt_vk_cache_open(engine);
    return status;
}

void zt_vk_device_close(zt_vk_engine *engine)
{
    const zt_vk_api *api = &engine->vk;
    if (engine->device && api->DeviceWaitIdle) {
        zt_vk_sync(&engine->base);
        api->DeviceWaitIdle(engine->device);
        zt_vk_batches_close(engine);
        for (int i = 0; i < ZT_VK_STAGINGS; i++) zt_vk_release(engine, &engine->staging[i]);
        zt_vk_release(engine, &engine->arena);
        zt_vk_pool_close(engine);
        zt_vk_pipelines_close(engine);
        if (engine->fence) api->DestroyFence(engine->device, engine->fence, NULL);
        if (engine->layout) api->DestroyPipelineLayout(engine->device, engine->layout, NULL);
        if (engine->commands) api->DestroyCommandPool(engine->device, engine->commands, NULL);
    }
    if (engine->device && api->DestroyDevice) api->DestroyDevice(engine->device, NULL);
    zt_vk_unload(&engine->vk, engine->instance);
}
