/* fake_vulkan.h - a Vulkan driver of tests: the real one behind functions that fail when they are
 * told to, count what is not given back, hide the device's memory from the host, have little of it, or have
 * compiled pipelines to keep. For one C file each; lib/engine/vulkan has to be built in. */
#ifndef ZT_FAKE_VULKAN_H
#define ZT_FAKE_VULKAN_H

#include "lib/engine/vulkan/vk.h"
#include "tests/engine/device_faults.h"

#include <stdlib.h>
#include <string.h>

/* ---- the driver, with faults ----------------------------------------------------------------- */

static zt_vk_api real;
static bool lose;         /* it fails by losing the device, where it can be lost */
static bool apart;        /* the host does not see the device's own memory */
static VkDeviceSize heap; /* bytes that the device has left, of which none come back; 0: any */

static bool fails(const char *name, bool may_lose) { return (!lose || may_lose) && hit(name); }

/* X(function, its error, can the device be lost there, parameters, arguments, objects it makes) */
#define D    VkDevice d
#define A    const VkAllocationCallbacks *a
#define OOM  VK_ERROR_OUT_OF_DEVICE_MEMORY
#define HOOM VK_ERROR_OUT_OF_HOST_MEMORY
// clang-format off
#define CALLS(X)                                                                                   \
    X(CreateBuffer, OOM, 0, (D, const VkBufferCreateInfo *i, A, VkBuffer *o), (d, i, a, o), 1)     \
    X(BindBufferMemory, OOM, 0, (D, VkBuffer b, VkDeviceMemory m, VkDeviceSize n), (d, b, m, n),   \
      0)                                                                                           \
    X(MapMemory, VK_ERROR_MEMORY_MAP_FAILED, 0,                                                    \
      (D, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize n, VkMemoryMapFlags f, void **o),        \
      (d, m, at, n, f, o), 0)                                                                      \
    X(CreateShaderModule, HOOM, 0,                                                                 \
      (D, const VkShaderModuleCreateInfo *i, A, VkShaderModule *o), (d, i, a, o), 1)               \
    X(CreatePipelineLayout, HOOM, 0,                                                               \
      (D, const VkPipelineLayoutCreateInfo *i, A, VkPipelineLayout *o), (d, i, a, o), 1)           \
    X(CreateComputePipelines, OOM, 0,                                                              \
      (D, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i, A, VkPipeline *o),  \
      (d, c, n, i, a, o), 1)                                                                       \
    X(CreatePipelineCache, HOOM, 0,                                                                \
      (D, const VkPipelineCacheCreateInfo *i, A, VkPipelineCache *o), (d, i, a, o), 1)             \
    X(GetPipelineCacheData, HOOM, 0, (D, VkPipelineCache c, size_t *n, void *p), (d, c, n, p), 0)  \
    X(CreateCommandPool, HOOM, 0,                                                                  \
      (D, const VkCommandPoolCreateInfo *i, A, VkCommandPool *o), (d, i, a, o), 1)                 \
    X(AllocateCommandBuffers, HOOM, 0,                                                             \
      (D, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *o), (d, i, o), 0)                 \
    X(BeginCommandBuffer, HOOM, 0, (VkCommandBuffer c, const VkCommandBufferBeginInfo *i), (c, i), \
      0)                                                                                           \
    X(EndCommandBuffer, OOM, 0, (VkCommandBuffer c), (c), 0)                                       \
    X(CreateFence, HOOM, 0, (D, const VkFenceCreateInfo *i, A, VkFence *o), (d, i, a, o), 1)       \
    X(ResetFences, OOM, 0, (D, uint32_t n, const VkFence *f), (d, n, f), 0)                        \
    X(WaitForFences, OOM, 1, (D, uint32_t n, const VkFence *f, VkBool32 all, uint64_t ns),         \
      (d, n, f, all, ns), 0)                                                                       \
    X(QueueSubmit, OOM, 1, (VkQueue q, uint32_t n, const VkSubmitInfo *i, VkFence f),              \
      (q, n, i, f), 0)                                                                             \
    X(CreateQueryPool, HOOM, 0,                                                                    \
      (D, const VkQueryPoolCreateInfo *i, A, VkQueryPool *o), (d, i, a, o), 1)                     \
    X(GetQueryPoolResults, OOM, 1,                                                                 \
      (D, VkQueryPool q, uint32_t at, uint32_t n, size_t bytes, void *p, VkDeviceSize step,        \
       VkQueryResultFlags f), (d, q, at, n, bytes, p, step, f), 0)

#define X(f, error, may_lose, parameters, arguments, makes)                                        \
    static VKAPI_ATTR VkResult VKAPI_CALL fake_##f parameters                                      \
    {                                                                                              \
        if (fails("vk" #f, may_lose)) return lose ? VK_ERROR_DEVICE_LOST : error;                  \
        VkResult r = real.f arguments;                                                             \
        if (r == VK_SUCCESS) live += makes;                                                        \
        return r;                                                                                  \
    }
// clang-format on
CALLS(X)
#undef X

/* With `apart` there are two memory types, of which the driver's one stands behind both. */
static VKAPI_ATTR VkResult VKAPI_CALL fake_AllocateMemory(D, const VkMemoryAllocateInfo *i, A, VkDeviceMemory *o)
{
    VkMemoryAllocateInfo its = *i;
    if (fails("vkAllocateMemory", false) || (heap && i->allocationSize >= heap)) return OOM;
    if (heap) heap -= i->allocationSize;
    if (apart) its.memoryTypeIndex = 0;
    VkResult r = real.AllocateMemory(d, &its, a, o);
    live += r == VK_SUCCESS;
    return r;
}

static VKAPI_ATTR void VKAPI_CALL fake_GetBufferMemoryRequirements(D, VkBuffer b, VkMemoryRequirements *o)
{
    real.GetBufferMemoryRequirements(d, b, o);
    if (apart) o->memoryTypeBits = 3;
}

static VKAPI_ATTR void VKAPI_CALL fake_GetPhysicalDeviceMemoryProperties(VkPhysicalDevice p, VkPhysicalDeviceMemoryProperties *o)
{
    real.GetPhysicalDeviceMemoryProperties(p, o);
    if (!apart) return;
    o->memoryTypeCount = 2;
    o->memoryTypes[1] = o->memoryTypes[0];
    o->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    o->memoryTypes[1].propertyFlags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

// clang-format off
#define GONE(X)                                                                                    \
    X(DestroyBuffer, VkBuffer) X(FreeMemory, VkDeviceMemory)                                       \
    X(DestroyShaderModule, VkShaderModule)                                                         \
    X(DestroyPipelineLayout, VkPipelineLayout) X(DestroyPipeline, VkPipeline)                      \
    X(DestroyPipelineCache, VkPipelineCache) X(DestroyCommandPool, VkCommandPool)                  \
    X(DestroyFence, VkFence) X(DestroyQueryPool, VkQueryPool)
// clang-format on
#define X(f, type)                                                                                                               \
    static VKAPI_ATTR void VKAPI_CALL fake_##f(D, type o, A)                                                                     \
    {                                                                                                                            \
        real.f(d, o, a);                                                                                                         \
        live--;                                                                                                                  \
    }
GONE(X)
#undef X

static VKAPI_ATTR void VKAPI_CALL fake_DestroyDevice(D, A)
{
    real.DestroyDevice(d, a);
    live--;
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_CreateDevice(VkPhysicalDevice p, const VkDeviceCreateInfo *i, A, VkDevice *o)
{
    if (fails("vkCreateDevice", false)) return VK_ERROR_INITIALIZATION_FAILED;
    VkResult r = real.CreateDevice(p, i, a, o);
    live += r == VK_SUCCESS;
    return r;
}

/* A driver that has something to keep: lavapipe's cache is a header alone. */
static struct {
    bool on;
    VkPipelineCacheHeaderVersionOne head;
    uint8_t body[1000];
    size_t given; /* bytes that it got back; SIZE_MAX: other ones than these */
} kept;

static VKAPI_ATTR VkResult VKAPI_CALL keep_get(D, VkPipelineCache c, size_t *n, void *p)
{
    (void)d, (void)c;
    if (p) memcpy(p, &kept.head, sizeof kept.head);
    if (p) memcpy((char *)p + sizeof kept.head, kept.body, sizeof kept.body);
    *n = sizeof kept.head + sizeof kept.body;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL keep_create(D, const VkPipelineCacheCreateInfo *i, A, VkPipelineCache *o)
{
    const VkPipelineCacheCreateInfo empty = {.sType = i->sType};
    kept.given = i->initialDataSize;
    if (kept.given &&
        (kept.given != sizeof kept.head + sizeof kept.body || memcmp(i->pInitialData, &kept.head, sizeof kept.head) ||
         memcmp((const char *)i->pInitialData + sizeof kept.head, kept.body, sizeof kept.body)))
        kept.given = SIZE_MAX;
    return fake_CreatePipelineCache(d, &empty, a, o);
}

/* The device's own functions, ours before the driver's. */
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_GetDeviceProcAddr(D, const char *name)
{
    PFN_vkVoidFunction its = real.GetDeviceProcAddr(d, name);
    if (kept.on && !strcmp(name, "vkGetPipelineCacheData")) return (PFN_vkVoidFunction)keep_get;
    if (kept.on && !strcmp(name, "vkCreatePipelineCache")) {
        real.CreatePipelineCache = (PFN_vkCreatePipelineCache)its;
        return (PFN_vkVoidFunction)keep_create;
    }
// clang-format off
#define X(f, ...)                                                                                  \
    if (!strcmp(name, "vk" #f)) {                                                                  \
        real.f = (PFN_vk##f)its;                                                                   \
        return (PFN_vkVoidFunction)fake_##f;                                                       \
    }
    // clang-format on
    CALLS(X)
    GONE(X)
    X(AllocateMemory)
    X(GetBufferMemoryRequirements)
    X(DestroyDevice)
#undef X
    return its;
}

__attribute__((unused)) static zt_engine *open_fake(zt_ctx *ctx)
{
    zt_vk_engine *e = zt_calloc(ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->base = (zt_engine){.vt = &zt_engine_vulkan, .ctx = ctx};
    zt_status status = zt_vk_load(ctx, &e->vk, &e->instance);
    if (!status) {
        real = e->vk;
        e->vk.CreateDevice = fake_CreateDevice;
        e->vk.GetDeviceProcAddr = fake_GetDeviceProcAddr;
        e->vk.GetPhysicalDeviceMemoryProperties = fake_GetPhysicalDeviceMemoryProperties;
        status = zt_vk_device_open(e, 0);
    }
    if (!status) return &e->base;
    zt_engine_vulkan.close(&e->base);
    return NULL;
}

#endif
