/* digest.c - SHA-256 by OpenSSL's libcrypto, opened at run time. */
#include "lib/base/digest.h"
#include "lib/base/crypto.h"
#include "lib/base/require.h"

#include <dlfcn.h>
#include <string.h>

typedef struct evp_md_ctx evp_md_ctx; /* EVP_MD_CTX and EVP_MD, which are opaque there too */
typedef struct evp_md evp_md;

typedef struct crypto_library {
    void *handle;
    evp_md_ctx *(*EVP_MD_CTX_new)(void);
    void (*EVP_MD_CTX_free)(evp_md_ctx *md);
    const evp_md *(*EVP_sha256)(void);
    int (*EVP_DigestInit_ex)(evp_md_ctx *md, const evp_md *type, void *engine);
    int (*EVP_DigestUpdate)(evp_md_ctx *md, const void *bytes, size_t count);
    int (*EVP_DigestFinal_ex)(evp_md_ctx *md, unsigned char *out, unsigned int *count);
} crypto_library;

struct zt_digest {
    zt_ctx *ctx;
    crypto_library library;
    evp_md_ctx *md;
};

static zt_status open_library(zt_ctx *ctx, crypto_library *library)
{
    const zt_crypto_function wanted[] = {{"EVP_MD_CTX_new", &library->EVP_MD_CTX_new},
                                         {"EVP_MD_CTX_free", &library->EVP_MD_CTX_free},
                                         {"EVP_sha256", &library->EVP_sha256},
                                         {"EVP_DigestInit_ex", &library->EVP_DigestInit_ex},
                                         {"EVP_DigestUpdate", &library->EVP_DigestUpdate},
                                         {"EVP_DigestFinal_ex", &library->EVP_DigestFinal_ex}};
    library->handle = zt_crypto_open(ctx, "SHA-256", wanted, sizeof wanted / sizeof *wanted);
    return library->handle ? ZT_OK : ZT_ENOTSUP;
}

static zt_status check(const zt_digest *digest, int result, const char *function)
{
    return result == 1 ? ZT_OK : zt_fail(digest->ctx, ZT_ESYS, "SHA-256: %s of libcrypto failed", function);
}

static zt_status begin_digest(zt_digest *digest)
{
    return check(digest, digest->library.EVP_DigestInit_ex(digest->md, digest->library.EVP_sha256(), NULL), "EVP_DigestInit_ex");
}

zt_digest *zt_digest_new(zt_ctx *ctx)
{
    zt_digest *digest = zt_calloc(ctx, 1, sizeof *digest);
    if (!digest) return NULL;
    digest->ctx = ctx;
    zt_status status = open_library(ctx, &digest->library);
    if (!status && !(digest->md = digest->library.EVP_MD_CTX_new()))
        status = zt_fail(ctx, ZT_ENOMEM, "SHA-256: libcrypto is out of memory");
    if (!status) status = begin_digest(digest);
    if (!status) return digest;
    zt_digest_free(digest);
    return NULL;
}

void zt_digest_free(zt_digest *digest)
{
    if (!digest) return;
    if (digest->md) digest->library.EVP_MD_CTX_free(digest->md);
    if (digest->library.handle) dlclose(digest->library.handle);
    zt_free(digest->ctx, digest);
}

zt_status zt_digest_add(zt_digest *digest, const void *bytes, size_t count)
{
    if (!digest) return ZT_EUSAGE;
    ZT_REQUIRE(digest->ctx, bytes || !count, ZT_EUSAGE);
    return count ? check(digest, digest->library.EVP_DigestUpdate(digest->md, bytes, count), "EVP_DigestUpdate") : ZT_OK;
}

zt_status zt_digest_end(zt_digest *digest, uint8_t out[ZT_DIGEST_BYTES])
{
    if (!digest) return ZT_EUSAGE;
    ZT_REQUIRE(digest->ctx, out, ZT_EUSAGE);
    zt_status status = check(digest, digest->library.EVP_DigestFinal_ex(digest->md, out, NULL), "EVP_DigestFinal_ex");
    return status ? status : begin_digest(digest);
}

/* ---- as text ---------------------------------------------------------------------------------- */

static const char digits[] = "0123456789abcdef";

const char *zt_digest_text(const uint8_t digest[ZT_DIGEST_BYTES], char text[ZT_DIGEST_TEXT])
{
    if (!digest || !text) return "";
    for (int i = 0; i < ZT_DIGEST_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[ZT_DIGEST_TEXT - 1] = 0;
    return text;
}

bool zt_digest_parse(const char *text, uint8_t digest[ZT_DIGEST_BYTES])
{
    if (!text || !digest || strlen(text) != ZT_DIGEST_TEXT - 1) return false;
    for (int i = 0; i < ZT_DIGEST_BYTES; i++) {
        const char *high = strchr(digits, text[2 * i]), *low = strchr(digits, text[2 * i + 1]);
        if (!high || !low) return false;
        digest[i] = (uint8_t)((high - digits) << 4 | (low - digits));
    }
    return true;
}
