/* loader.c - Vulkan's library, opened when it is wanted and never before. */
#include "lib/engine/vulkan/vk.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
    VkResult r;
    const char *what;
} words[] = {
    {VK_NOT_READY, "not ready"},
    {VK_TIMEOUT, "no answer in time"},
    {VK_ERROR_OUT_OF_HOST_MEMORY, "out of memory"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"},
    {VK_ERROR_INITIALIZATION_FAILED, "cannot be started"},
    {VK_ERROR_DEVICE_LOST, "the device is lost"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "no driver"},
    {VK_ERROR_TOO_MANY_OBJECTS, "too many objects"},
};

zt_status zt_vk_check(zt_ctx *ctx, VkResult r, const char *call)
{
    if (r == VK_SUCCESS) return ZT_OK;
    bool memory = r == VK_ERROR_OUT_OF_HOST_MEMORY || r == VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].r == r)
            return zt_fail(ctx, memory ? ZT_ENOMEM : ZT_ESYS, "vulkan: vk%s: %s", call,
                           words[i].what);
    return zt_fail(ctx, ZT_ESYS, "vulkan: vk%s: error %d", call, (int)r);
}

static zt_status missing(zt_ctx *ctx, const char *what)
{
    return zt_fail(ctx, ZT_ENOTSUP, "engine vulkan: %s", what);
}

/* POSIX lets a function's address come through a pointer to an object (dlsym). */
static PFN_vkGetInstanceProcAddr entry_of(void *library)
{
    PFN_vkGetInstanceProcAddr f;
    void *p = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&f, &p, sizeof f);
    return f;
}

static zt_status make_instance(zt_ctx *ctx, zt_vk_api *vk, VkInstance *instance)
{
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "zt",
                                   .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &app};
    uint32_t version = 0;
    if (!vk->EnumerateInstanceVersion || vk->EnumerateInstanceVersion(&version) ||
        version < VK_API_VERSION_1_2)
        return missing(ctx, "the loader is older than Vulkan 1.2");
    VkResult r = vk->CreateInstance(&info, NULL, instance);
    return r ? missing(ctx, "the loader finds no driver") : ZT_OK;
}

zt_status zt_vk_load(zt_ctx *ctx, zt_vk_api *vk, VkInstance *instance)
{
    vk->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!vk->library) {
        const char *why = dlerror();
        return zt_fail(ctx, ZT_ENOTSUP, "engine vulkan: no loader: %s",
                       why ? why : "libvulkan.so.1");
    }
    vk->get = entry_of(vk->library);
    if (!vk->get) return missing(ctx, "libvulkan.so.1 is no Vulkan loader");
#define X(f) vk->f = (PFN_vk##f)vk->get(NULL, "vk" #f);
    ZT_VK_GLOBAL(X)
#undef X
    zt_status s = make_instance(ctx, vk, instance);
    if (s) return s;
    bool whole = true;
#define X(f)                                                                                       \
    vk->f = (PFN_vk##f)vk->get(*instance, "vk" #f);                                                \
    whole = whole && vk->f;
    ZT_VK_INSTANCE(X)
#undef X
    return whole ? ZT_OK : missing(ctx, "the loader lacks functions of Vulkan 1.2");
}

void zt_vk_unload(zt_vk_api *vk, VkInstance instance)
{
    if (instance && vk->DestroyInstance) vk->DestroyInstance(instance, NULL);
    if (vk->library) dlclose(vk->library);
    memset(vk, 0, sizeof *vk);
}
