/* serve_library.c - libmicrohttpd, opened when it is wanted. It stays open until the program ends. */
#ifdef ZT_HAVE_MICROHTTPD
#include "tools/zt-run/serve_library.h"

#include <dlfcn.h>
#include <string.h>

zt_status serve_library_open(zt_ctx *ctx, serve_library *library)
{
    void *symbol;
    library->handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!library->handle) return zt_fail(ctx, ZT_ENOTSUP, "--serve needs libmicrohttpd: install the package libmicrohttpd12");
/* POSIX lets a function's address come through a pointer to an object. */
#define LOAD(name)                                                                                                               \
    symbol = dlsym(library->handle, "MHD_" #name);                                                                               \
    if (!symbol) return zt_fail(ctx, ZT_ENOTSUP, "--serve: libmicrohttpd has no function MHD_" #name);                           \
    memcpy(&library->name, &symbol, sizeof symbol);
    SERVE_LIBRARY(LOAD)
#undef LOAD
    return ZT_OK;
}
#else
typedef int serve_library_absent; /* a file of C has a declaration */
#endif
