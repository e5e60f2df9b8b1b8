/* crypto.c - owns opening libcrypto. */
#include "lib/base/crypto.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *const libraries[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so", NULL};

void *zt_crypto_open(zt_ctx *ctx, const char *what, const zt_crypto_function *wanted, size_t count)
{
    const char *named = getenv("ZT_LIBCRYPTO");
    void *handle = named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (int i = 0; libraries[i] && !named && !handle; i++) handle = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        zt_fail(ctx, ZT_ENOTSUP, "%s needs libcrypto%s%s: install the package libssl3", what, named ? ", not found as " : "",
                named ? named : "");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, wanted[i].name);
        if (!symbol) {
            zt_fail(ctx, ZT_ENOTSUP, "%s: libcrypto has no function %s", what, wanted[i].name);
            dlclose(handle);
            return NULL;
        }
        memcpy(wanted[i].pointer, &symbol, sizeof symbol);
    }
    return handle;
}
