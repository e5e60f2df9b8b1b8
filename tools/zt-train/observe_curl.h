/* observe_curl.h - private to zt-train: the functions of libcurl that --observe http calls. The library is opened when it is wanted,
 * since it brings a TLS library with it, which would make the start of every tool slower. */
#ifndef ZT_TRAIN_TOOL_OBSERVE_CURL_H
#define ZT_TRAIN_TOOL_OBSERVE_CURL_H

#include "lib/base/base.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#undef curl_easy_setopt /* macros that count arguments */
#undef curl_easy_getinfo

#define OBSERVE_CURL(X)                                                                                                          \
    X(curl_easy_init)                                                                                                            \
    X(curl_easy_setopt)                                                                                                          \
    X(curl_easy_perform)                                                                                                         \
    X(curl_easy_getinfo)                                                                                                         \
    X(curl_easy_cleanup)                                                                                                         \
    X(curl_easy_strerror)                                                                                                        \
    X(curl_url)                                                                                                                  \
    X(curl_url_set)                                                                                                              \
    X(curl_url_cleanup)                                                                                                          \
    X(curl_slist_append)                                                                                                         \
    X(curl_slist_free_all)

typedef struct observe_curl {
    void *handle;
#define OBSERVE_CURL_FIELD(name) __typeof__(name) *name;
    OBSERVE_CURL(OBSERVE_CURL_FIELD)
#undef OBSERVE_CURL_FIELD
} observe_curl;

/* ZT_ENOTSUP: it is not there, or lacks a function. The library stays open until the program ends. */
zt_status observe_curl_open(zt_ctx *ctx, observe_curl *library);
#endif
