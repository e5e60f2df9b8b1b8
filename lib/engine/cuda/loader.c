/* loader.c - a driver's library, opened when it is wanted and never before. */
#include "lib/engine/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a call gave ------------------------------------------------------------------------ */

/* NULL: nothing is known of it. */
static const char *text_of(const zt_cu_api *api, int result)
{
    const char *text = NULL;
    if (api->text) text = api->text(result);
    if (api->GetErrorString && api->GetErrorString(result, &text) != ZT_CU_SUCCESS) text = NULL;
    return text && *text ? text : NULL;
}

/* Its name as the driver has it, without a version, where the call has the name of cu.h. */
static const char *name_of(const zt_cu_platform *platform, const char *call)
{
    static const char *const names[] = {
#define X(cuda, hip, name, params) #name,
        ZT_CU_API(X)
#undef X
    };
    for (int i = 0; i < ZT_CU_CALL_COUNT; i++)
        if ((platform->text || platform->load) && platform->symbols[i] && !strcmp(names[i], call))
            return platform->symbols[i] + strlen(platform->prefix);
    return call;
}

zt_status zt_cu_check(zt_ctx *ctx, const zt_cu_api *api, int result, const char *call)
{
    const zt_cu_platform *platform = api->platform;
    if (result == ZT_CU_SUCCESS) return ZT_OK;
    const char *text = text_of(api, result), *name = name_of(platform, call);
    if (result == ZT_CU_OUT_OF_MEMORY)
        return zt_fail(ctx, ZT_ENOMEM, "%s: %s%s: out of memory", platform->engine, platform->prefix, name);
    if (text) return zt_fail(ctx, ZT_ESYS, "%s: %s%s: %s", platform->engine, platform->prefix, name, text);
    return zt_fail(ctx, ZT_ESYS, "%s: %s%s: error %d", platform->engine, platform->prefix, name, result);
}

int zt_cu_attribute_of(const zt_cu_api *api, zt_cu_attribute name, int device, int *value)
{
    const int attribute = api->platform->attributes[name];
    *value = 0;
    return attribute < 0 ? ZT_CU_SUCCESS : api->DeviceGetAttribute(value, attribute, device);
}

/* ---- the library ----------------------------------------------------------------------------- */

/* POSIX lets a function's address come through a pointer to an object (dlsym). */
static bool find_symbol(void *library, const char *symbol, void *function, size_t bytes)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, bytes);
    return address != NULL;
}

/* The first function that there is not, or NULL. */
static const char *find_calls(zt_cu_api *api)
{
    const zt_cu_platform *platform = api->platform;
    const char *lacks = NULL, *symbol;
#define X(cuda, hip, name, params)                                                                                               \
    symbol = platform->symbols[ZT_CU_CALL_##name];                                                                               \
    if (symbol && !find_symbol(api->library, symbol, &api->name, sizeof api->name) && !lacks) lacks = symbol;
    ZT_CU_API(X)
#undef X
    if (platform->text && !find_symbol(api->library, platform->text, &api->text, sizeof api->text) && !lacks)
        lacks = platform->text;
#define X(cuda, name, params)                                                                                                    \
    if (platform == &zt_cu_nvidia) find_symbol(api->library, #cuda, &api->name, sizeof api->name);
    ZT_CU_API_NEWER(X)
#undef X
    return lacks;
}

static zt_status find_all(zt_ctx *ctx, zt_cu_api *api)
{
    const zt_cu_platform *platform = api->platform;
    const char *lacks = find_calls(api);
    if (lacks)
        return zt_fail(ctx, ZT_ENOTSUP, "engine %s: the driver lacks %s: version %s or later is needed", platform->engine, lacks,
                       platform->oldest);
    api->emulated = dlsym(api->library, "zt_cuda_emulation") != NULL;
    if (!api->emulated && !platform->images[0])
        return zt_fail(ctx, ZT_ENOTSUP, "engine %s: zt was built without %s and has no kernels", platform->engine,
                       platform->compiler);
    return ZT_OK;
}

static zt_status open_library(zt_ctx *ctx, zt_cu_api *api)
{
    const zt_cu_platform *platform = api->platform;
    const char *named = getenv(platform->named_by);
    const char *const one[] = {named, NULL}, *const *name = named && *named ? one : platform->libraries;
    char why[256] = "";
    for (; *name && !api->library; name++) {
        api->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        const char *fault = api->library ? NULL : dlerror();
        if (!why[0]) strncat(why, fault ? fault : *name, sizeof why - 1);
    }
    if (api->library) return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "engine %s: no driver: %s", platform->engine, why);
}

zt_status zt_cu_load(zt_ctx *ctx, const zt_cu_platform *platform, zt_cu_api *api)
{
    *api = (zt_cu_api){.platform = platform};
    zt_status status = platform->load ? platform->load(ctx, api) : open_library(ctx, api);
    if (!status && !platform->load) status = find_all(ctx, api);
    if (status) return status;
    int result = api->Init(0);
    if (result == ZT_CU_NO_DEVICE || result == ZT_CU_INVALID_DEVICE)
        return zt_fail(ctx, ZT_ENOTSUP, "engine %s: no device", platform->engine);
    if (result) {
        const char *text = text_of(api, result);
        return zt_fail(ctx, ZT_ENOTSUP, "engine %s: cannot initialize the driver: %s", platform->engine,
                       text ? text : "unknown error");
    }
    api->DriverGetVersion(&api->version);
    return ZT_OK;
}

/* ---- libraries beside the driver ------------------------------------------------------------- */

const char *zt_cu_symbols(void *library, const char *const *symbols, void *functions)
{
    const char *lacks = NULL;
    for (int i = 0; symbols[i]; i++) {
        char *slot = (char *)functions + (size_t)i * sizeof(zt_cu_call_fn *);
        if (!find_symbol(library, symbols[i], slot, sizeof(zt_cu_call_fn *)) && !lacks) lacks = symbols[i];
    }
    return lacks;
}

zt_status zt_cu_beside(zt_ctx *ctx, const char *file, const char *what, const char *const *symbols, void *functions,
                       void **library)
{
    *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        const char *why = dlerror();
        return zt_fail(ctx, ZT_ENOTSUP, "engine cuda: no %s: %s", what, why ? why : file);
    }
    const char *lacks = zt_cu_symbols(*library, symbols, functions);
    return lacks ? zt_fail(ctx, ZT_ENOTSUP, "engine cuda: %s lacks %s", what, lacks) : ZT_OK;
}

void zt_cu_unload(zt_cu_api *api)
{
    if (api->library) dlclose(api->library);
    memset(api, 0, sizeof *api);
}
