/* digest.h - SHA-256 (FIPS 180-4), for records that someone may want to forge.
 *
 *     zt_digest *digest = zt_digest_new(ctx);
 *     status = zt_digest_add(digest, bytes, count);
 *     if (!status) status = zt_digest_end(digest, out);
 *     zt_digest_free(digest);
 *
 * OpenSSL's libcrypto computes it. The library is opened when the first digest is made, so that programs run without it;
 * ZT_LIBCRYPTO in the environment names another file.
 */
#ifndef ZT_DIGEST_H
#define ZT_DIGEST_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_DIGEST_BYTES = 32, ZT_DIGEST_TEXT = 2 * ZT_DIGEST_BYTES + 1 };

typedef struct zt_digest zt_digest;

/* A digest of nothing yet. NULL: ZT_ENOTSUP, libcrypto is missing or lacks a function; ZT_ENOMEM. */
zt_digest *zt_digest_new(zt_ctx *ctx);
void zt_digest_free(zt_digest *digest); /* NULL: no effect */

/* Adds `count` bytes; bytes may be NULL if there are none. ZT_ESYS: libcrypto failed. */
zt_status zt_digest_add(zt_digest *digest, const void *bytes, size_t count);
/* The digest of all that was added; then begins a new one. ZT_ESYS: libcrypto failed. */
zt_status zt_digest_end(zt_digest *digest, uint8_t out[ZT_DIGEST_BYTES]);

/* A digest as 64 hex digits of lower case, and a zero; returns text. NULL for either: "". */
const char *zt_digest_text(const uint8_t digest[ZT_DIGEST_BYTES], char text[ZT_DIGEST_TEXT]);
/* Reads 64 hex digits of lower case, and nothing after them. false: text is something else, or either is NULL. */
bool zt_digest_parse(const char *text, uint8_t digest[ZT_DIGEST_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
