/* loader.c - Vulkan's library, opened when it is wanted and never before. */
#include "lib/engine/vulkan/vk.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
    VkResult result;
    const char *what;
} words[] = {
    {VK_NOT_READY, "not ready"},
    {VK_TIMEOUT, "timeout"},
    {VK_ERROR_OUT_OF_HOST_MEMORY, "out of memory"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"},
    {VK_ERROR_INITIALIZATION_FAILED, "initialization failed"},
    {VK_ERROR_DEVICE_LOST, "device lost"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "no driver"},
    {VK_ERROR_TOO_MANY_OBJECTS, "too many objects"},
};

zt_status zt_vk_check(zt_ctx *ctx, VkResult result, const char *call)
{
    if (result == VK_SUCCESS) return ZT_OK;
    bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].result == result) return zt_fail(ctx, memory ? ZT_ENOMEM : ZT_ESYS, "vulkan: vk%s: %s", call, words[i].what);
    return zt_fail(ctx, ZT_ESYS, "vulkan: vk%s: error %d", call, (int)result);
}

static zt_status fail_missing(zt_ctx *ctx, const char *what) { return zt_fail(ctx, ZT_ENOTSUP, "engine vulkan: %s", what); }

/* POSIX lets a function's address come through a pointer to an object (dlsym). */
static PFN_vkGetInstanceProcAddr entry_of(void *library)
{
    PFN_vkGetInstanceProcAddr entry;
    void *symbol = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

static zt_status make_instance(zt_ctx *ctx, zt_vk_api *api, VkInstance *instance)
{
    const VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "zt", .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    uint32_t version = 0;
    if (!api->EnumerateInstanceVersion || api->EnumerateInstanceVersion(&version) || version < VK_API_VERSION_1_2)
        return fail_missing(ctx, "the loader is too old: Vulkan 1.2 or later is needed");
    VkResult result = api->CreateInstance(&info, NULL, instance);
    return result ? fail_missing(ctx, "the loader finds no driver") : ZT_OK;
}

zt_status zt_vk_load(zt_ctx *ctx, zt_vk_api *api, VkInstance *instance)
{
    api->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!api->library) {
        const char *why = dlerror();
        return zt_fail(ctx, ZT_ENOTSUP, "engine vulkan: no loader: %s", why ? why : "libvulkan.so.1");
    }
    api->get = entry_of(api->library);
    if (!api->get) return fail_missing(ctx, "libvulkan.so.1 is not a Vulkan loader");
#define X(f) api->f = (PFN_vk##f)api->get(NULL, "vk" #f);
    ZT_VK_GLOBAL(X)
#undef X
    zt_status status = make_instance(ctx, api, instance);
    if (status) return status;
    bool whole = true;
#define X(f)                                                                                                                     \
    api->f = (PFN_vk##f)api->get(*instance, "vk" #f);                                                                            \
    whole = whole && api->f;
    ZT_VK_INSTANCE(X)
#undef X
    return whole ? ZT_OK : fail_missing(ctx, "the loader lacks functions of Vulkan 1.2");
}

void zt_vk_unload(zt_vk_api *api, VkInstance instance)
{
    if (instance && api->DestroyInstance) api->DestroyInstance(instance, NULL);
    if (api->library) dlclose(api->library);
    memset(api, 0, sizeof *api);
}
