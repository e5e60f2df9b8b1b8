/* serve_library.h - private to zt-run: the functions of libmicrohttpd that --serve calls. The library is opened when it is
 * wanted, since it brings GnuTLS with it, which would make the start of every tool slower. */
#ifndef ZT_RUN_SERVE_LIBRARY_H
#define ZT_RUN_SERVE_LIBRARY_H

#include "lib/base/base.h"

#include <microhttpd.h>

#define SERVE_LIBRARY(X)                                                                                                         \
    X(start_daemon)                                                                                                              \
    X(stop_daemon)                                                                                                               \
    X(quiesce_daemon)                                                                                                            \
    X(queue_response)                                                                                                            \
    X(create_response_from_callback)                                                                                             \
    X(destroy_response)                                                                                                          \
    X(add_response_header)                                                                                                       \
    X(lookup_connection_value)                                                                                                   \
    X(suspend_connection)                                                                                                        \
    X(resume_connection)                                                                                                         \
    X(get_connection_info)

typedef struct serve_library {
    void *handle;
#define SERVE_LIBRARY_FIELD(name) __typeof__(MHD_##name) *name;
    SERVE_LIBRARY(SERVE_LIBRARY_FIELD)
#undef SERVE_LIBRARY_FIELD
} serve_library;

/* ZT_ENOTSUP: it is not there, or lacks a function. */
zt_status serve_library_open(zt_ctx *ctx, serve_library *library);
#endif
