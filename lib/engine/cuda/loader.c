/* loader.c - the CUDA driver's library, opened when it is wanted and never before. */
#include "lib/engine/cuda/cu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

zt_status zt_cu_check(zt_ctx *ctx, const zt_cu_api *cu, int r, const char *call)
{
    const char *text = NULL;
    if (r == ZT_CU_SUCCESS) return ZT_OK;
    if (r == ZT_CU_OUT_OF_MEMORY)
        return zt_fail(ctx, ZT_ENOMEM, "cuda: cu%s: out of memory", call);
    if (cu->GetErrorString && cu->GetErrorString(r, &text) == ZT_CU_SUCCESS && text && *text)
        return zt_fail(ctx, ZT_ESYS, "cuda: cu%s: %s", call, text);
    return zt_fail(ctx, ZT_ESYS, "cuda: cu%s: error %d", call, r);
}

/* POSIX lets a function's address come through a pointer to an object (dlsym). */
static bool find(void *library, const char *symbol, void *function, size_t bytes)
{
    void *p = dlsym(library, symbol);
    memcpy(function, &p, bytes);
    return p != NULL;
}

static zt_status find_all(zt_ctx *ctx, zt_cu_api *cu)
{
    const char *lacks = NULL;
#define X(symbol, name, params)                                                                    \
    if (!find(cu->library, #symbol, &cu->name, sizeof cu->name) && !lacks) lacks = #symbol;
    ZT_CU_API(X)
#undef X
    if (lacks)
        return zt_fail(ctx, ZT_ENOTSUP, "engine cuda: the driver lacks %s: it is older than 11.4",
                       lacks);
    cu->emulated = dlsym(cu->library, "zt_cuda_emulation") != NULL;
    if (!cu->emulated && !zt_cu_images[0])
        return zt_fail(ctx, ZT_ENOTSUP,
                       "engine cuda: this zt was built without nvcc, and has no kernels");
    return ZT_OK;
}

zt_status zt_cu_load(zt_ctx *ctx, zt_cu_api *cu)
{
    const char *name = getenv("ZT_LIBCUDA");
    if (!name || !*name) name = "libcuda.so.1";
    cu->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!cu->library) {
        const char *why = dlerror();
        return zt_fail(ctx, ZT_ENOTSUP, "engine cuda: no driver: %s", why ? why : name);
    }
    zt_status s = find_all(ctx, cu);
    if (s) return s;
    int r = cu->Init(0);
    if (r == ZT_CU_NO_DEVICE) return zt_fail(ctx, ZT_ENOTSUP, "engine cuda: no device");
    if (r) {
        const char *text = NULL;
        cu->GetErrorString(r, &text);
        return zt_fail(ctx, ZT_ENOTSUP, "engine cuda: the driver cannot be started: %s",
                       text ? text : "of no error known");
    }
    cu->DriverGetVersion(&cu->version);
    return ZT_OK;
}

void zt_cu_unload(zt_cu_api *cu)
{
    if (cu->library) dlclose(cu->library);
    memset(cu, 0, sizeof *cu);
}
