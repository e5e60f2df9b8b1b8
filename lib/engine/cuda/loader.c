/* loader.c - a driver's library, opened when it is wanted and never before. */
#include "lib/engine/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a call gave ------------------------------------------------------------------------ */

/* NULL: nothing is known of it. */
static const char *text_of(const zt_cu_api *cu, int r)
{
    const char *text = NULL;
    if (cu->text) text = cu->text(r);
    if (cu->GetErrorString && cu->GetErrorString(r, &text) != ZT_CU_SUCCESS) text = NULL;
    return text && *text ? text : NULL;
}

/* Its name as the driver has it, without a version, where the call has the name of cu.h. */
static const char *name_of(const zt_cu_platform *p, const char *call)
{
    static const char *const names[] = {
#define X(cuda, hip, name, params) #name,
        ZT_CU_API(X)
#undef X
    };
    for (int i = 0; i < ZT_CU_CALL_COUNT; i++)
        if (p->text && p->symbols[i] && !strcmp(names[i], call))
            return p->symbols[i] + strlen(p->prefix);
    return call;
}

zt_status zt_cu_check(zt_ctx *ctx, const zt_cu_api *cu, int r, const char *call)
{
    const zt_cu_platform *p = cu->platform;
    if (r == ZT_CU_SUCCESS) return ZT_OK;
    const char *text = text_of(cu, r), *name = name_of(p, call);
    if (r == ZT_CU_OUT_OF_MEMORY)
        return zt_fail(ctx, ZT_ENOMEM, "%s: %s%s: out of memory", p->engine, p->prefix, name);
    if (text) return zt_fail(ctx, ZT_ESYS, "%s: %s%s: %s", p->engine, p->prefix, name, text);
    return zt_fail(ctx, ZT_ESYS, "%s: %s%s: error %d", p->engine, p->prefix, name, r);
}

int zt_cu_attribute_of(const zt_cu_api *cu, zt_cu_attribute at, int device, int *value)
{
    const int attribute = cu->platform->attributes[at];
    *value = 0;
    return attribute < 0 ? ZT_CU_SUCCESS : cu->DeviceGetAttribute(value, attribute, device);
}

/* ---- the library ----------------------------------------------------------------------------- */

/* POSIX lets a function's address come through a pointer to an object (dlsym). */
static bool find(void *library, const char *symbol, void *function, size_t bytes)
{
    void *p = dlsym(library, symbol);
    memcpy(function, &p, bytes);
    return p != NULL;
}

/* The first function that there is not, or NULL. */
static const char *find_calls(zt_cu_api *cu)
{
    const zt_cu_platform *p = cu->platform;
    const char *lacks = NULL, *symbol;
#define X(cuda, hip, name, params)                                                                 \
    symbol = p->symbols[ZT_CU_CALL_##name];                                                        \
    if (symbol && !find(cu->library, symbol, &cu->name, sizeof cu->name) && !lacks) lacks = symbol;
    ZT_CU_API(X)
#undef X
    if (p->text && !find(cu->library, p->text, &cu->text, sizeof cu->text) && !lacks)
        lacks = p->text;
#define X(cuda, name, params)                                                                      \
    if (p == &zt_cu_nvidia) find(cu->library, #cuda, &cu->name, sizeof cu->name);
    ZT_CU_API_NEWER(X)
#undef X
    return lacks;
}

static zt_status find_all(zt_ctx *ctx, zt_cu_api *cu)
{
    const zt_cu_platform *p = cu->platform;
    const char *lacks = find_calls(cu);
    if (lacks)
        return zt_fail(ctx, ZT_ENOTSUP, "engine %s: the driver lacks %s: it is older than %s",
                       p->engine, lacks, p->oldest);
    cu->emulated = dlsym(cu->library, "zt_cuda_emulation") != NULL;
    if (!cu->emulated && !p->images[0])
        return zt_fail(ctx, ZT_ENOTSUP,
                       "engine %s: this zt was built without %s, and has no kernels", p->engine,
                       p->compiler);
    return ZT_OK;
}

static zt_status open_library(zt_ctx *ctx, zt_cu_api *cu)
{
    const zt_cu_platform *p = cu->platform;
    const char *named = getenv(p->named_by);
    const char *const one[] = {named, NULL}, *const *name = named && *named ? one : p->libraries;
    char why[256] = "";
    for (; *name && !cu->library; name++) {
        cu->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        const char *fault = cu->library ? NULL : dlerror();
        if (!why[0]) strncat(why, fault ? fault : *name, sizeof why - 1);
    }
    if (cu->library) return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "engine %s: no driver: %s", p->engine, why);
}

zt_status zt_cu_load(zt_ctx *ctx, const zt_cu_platform *platform, zt_cu_api *cu)
{
    *cu = (zt_cu_api){.platform = platform};
    zt_status s = open_library(ctx, cu);
    if (!s) s = find_all(ctx, cu);
    if (s) return s;
    int r = cu->Init(0);
    if (r == ZT_CU_NO_DEVICE || r == ZT_CU_INVALID_DEVICE)
        return zt_fail(ctx, ZT_ENOTSUP, "engine %s: no device", platform->engine);
    if (r) {
        const char *text = text_of(cu, r);
        return zt_fail(ctx, ZT_ENOTSUP, "engine %s: the driver cannot be started: %s",
                       platform->engine, text ? text : "of no error known");
    }
    cu->DriverGetVersion(&cu->version);
    return ZT_OK;
}

/* ---- libraries beside the driver ------------------------------------------------------------- */

const char *zt_cu_symbols(void *library, const char *const *symbols, void *functions)
{
    const char *lacks = NULL;
    for (int i = 0; symbols[i]; i++) {
        char *to = (char *)functions + (size_t)i * sizeof(zt_cu_call_fn *);
        if (!find(library, symbols[i], to, sizeof(zt_cu_call_fn *)) && !lacks) lacks = symbols[i];
    }
    return lacks;
}

zt_status zt_cu_beside(zt_ctx *ctx, const char *file, const char *what, const char *const *symbols,
                       void *functions, void **library)
{
    *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        const char *why = dlerror();
        return zt_fail(ctx, ZT_ENOTSUP, "engine cuda: no %s: %s", what, why ? why : file);
    }
    const char *lacks = zt_cu_symbols(*library, symbols, functions);
    return lacks ? zt_fail(ctx, ZT_ENOTSUP, "engine cuda: %s lacks %s", what, lacks) : ZT_OK;
}

void zt_cu_unload(zt_cu_api *cu)
{
    if (cu->library) dlclose(cu->library);
    memset(cu, 0, sizeof *cu);
}
