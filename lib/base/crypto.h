/* crypto.h - functions of OpenSSL's libcrypto, which is opened at run time, so that programs run without it. */
#ifndef ZT_CRYPTO_H
#define ZT_CRYPTO_H

#include "lib/base/base.h"

/* A function that is needed, and the address of the pointer to it. */
typedef struct zt_crypto_function {
    const char *name;
    void *pointer;
} zt_crypto_function;

/* Opens the library, or the file that ZT_LIBCRYPTO in the environment names, and finds all functions. `what` begins the message of a
 * failure. NULL: ZT_ENOTSUP, the library or a function is missing; dlclose the result. */
void *zt_crypto_open(zt_ctx *ctx, const char *what, const zt_crypto_function *wanted, size_t count);

#endif
