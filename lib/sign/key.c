/* key.c - owns keys: read from PEM files, and what they sign and verify. */
#include "lib/base/crypto.h"
#include "lib/base/require.h"
#include "lib/io/base64.h"
#include "lib/sign/internal.h"

#include <dlfcn.h>
#include <string.h>

typedef enum key_hash { HASH_OF_ALGORITHM, HASH_SHA256, HASH_SHA384, HASH_SHA512 } key_hash;

/* A kind of key: how its public key begins as SubjectPublicKeyInfo in DER (RFC 5480, RFC 8410), up to the number, and all its bytes. */
typedef struct key_kind {
    const char *name;
    key_hash hash; /* of what is signed, as Sigstore's specification has it for the curve */
    uint8_t head[26];
    size_t head_bytes, bytes;
} key_kind;

enum { MOST_DER = 158 }; /* bytes of the longest */

static const key_kind kinds[] = {
    {"ECDSA P-256", HASH_SHA256,
     "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42", 25, 91},
    {"ECDSA P-384", HASH_SHA384, "\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62", 22,
     120},
    {"ECDSA P-521", HASH_SHA512,
     "\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23\x03\x81\x86", 24, MOST_DER},
    {"Ed25519", HASH_OF_ALGORITHM, "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21", 11, 44}};

#define KEY_KINDS "ECDSA P-256, P-384, P-521 or Ed25519"

struct zt_key {
    zt_ctx *ctx;
    key_library library;
    evp_pkey *pkey;
    const key_kind *kind;
    uint8_t public_der[MOST_DER];
};

/* ---- libcrypto ---------------------------------------------------------------------------------- */

zt_status zt_key_library(zt_ctx *ctx, key_library *library)
{
    const zt_crypto_function wanted[] = {{"BIO_new_mem_buf", &library->BIO_new_mem_buf},
                                         {"BIO_free", &library->BIO_free},
                                         {"PEM_read_bio_PrivateKey", &library->PEM_read_bio_PrivateKey},
                                         {"PEM_read_bio_PUBKEY", &library->PEM_read_bio_PUBKEY},
                                         {"EVP_PKEY_free", &library->EVP_PKEY_free},
                                         {"i2d_PUBKEY", &library->i2d_PUBKEY},
                                         {"EVP_MD_CTX_new", &library->EVP_MD_CTX_new},
                                         {"EVP_MD_CTX_free", &library->EVP_MD_CTX_free},
                                         {"EVP_sha256", &library->EVP_sha256},
                                         {"EVP_sha384", &library->EVP_sha384},
                                         {"EVP_sha512", &library->EVP_sha512},
                                         {"EVP_DigestSignInit", &library->EVP_DigestSignInit},
                                         {"EVP_DigestSign", &library->EVP_DigestSign},
                                         {"EVP_DigestVerifyInit", &library->EVP_DigestVerifyInit},
                                         {"EVP_DigestVerify", &library->EVP_DigestVerify},
                                         {"ERR_clear_error", &library->ERR_clear_error}};
    library->handle = zt_crypto_open(ctx, "a signature", wanted, sizeof wanted / sizeof *wanted);
    return library->handle ? ZT_OK : ZT_ENOTSUP;
}

static zt_status fail_library(zt_ctx *ctx, const char *function)
{
    return zt_fail(ctx, ZT_ESYS, "a signature: %s of libcrypto failed", function);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* A password that libcrypto asks for; without it, it would ask on the terminal. */
typedef struct password_request {
    const char *password; /* NULL: none */
    bool asked;
} password_request;

static int give_password(char *buffer, int size, int writes, void *user)
{
    password_request *request = user;
    (void)writes;
    request->asked = true;
    size_t length = request->password ? strlen(request->password) : 0;
    if (!request->password || length > (size_t)size) return -1;
    memcpy(buffer, request->password, length);
    return (int)length;
}

zt_key *zt_key_take(zt_ctx *ctx, const key_library *library, evp_pkey *pkey, const char *name)
{
    uint8_t *der = NULL, *cursor;
    int bytes = library->i2d_PUBKEY(pkey, NULL);
    zt_key *key = zt_calloc(ctx, 1, sizeof *key);
    const key_kind *kind = NULL;
    if (key && bytes > 0 && bytes <= MOST_DER) {
        der = cursor = key->public_der;
        library->i2d_PUBKEY(pkey, &cursor);
    }
    for (size_t i = 0; der && i < sizeof kinds / sizeof *kinds; i++) {
        const bool is_point = kinds[i].hash == HASH_OF_ALGORITHM || der[kinds[i].head_bytes + 1] == 4; /* both coordinates */
        if ((size_t)bytes == kinds[i].bytes && memcmp(der, kinds[i].head, kinds[i].head_bytes) == 0 && is_point) kind = &kinds[i];
    }
    if (kind) {
        key->ctx = ctx;
        key->library = *library;
        key->pkey = pkey;
        key->kind = kind;
        return key;
    }
    if (key) zt_fail(ctx, ZT_ENOTSUP, "%s: the key is of a kind that is not supported, expected " KEY_KINDS, name);
    library->EVP_PKEY_free(pkey);
    dlclose(library->handle);
    zt_free(ctx, key);
    return NULL;
}

/* What is wrong with a file that is not a key. */
static void fail_read(zt_ctx *ctx, const char *path, const char *text, const password_request *request)
{
    const char *wanted = request ? "private" : "public", *other = request ? "PUBLIC KEY-----" : "PRIVATE KEY-----";
    if (request && request->asked && !request->password)
        zt_fail(ctx, ZT_EUSAGE, "%s: the key is encrypted, and no password is given", path);
    else if (request && request->asked)
        zt_fail(ctx, ZT_EDATA, "%s: the password does not decrypt the key", path);
    else if (strstr(text, other))
        zt_fail(ctx, ZT_EDATA, "%s: a %s key, expected a %s key", path, request ? "public" : "private", wanted);
    else
        zt_fail(ctx, ZT_EDATA, "%s: not a %s key in PEM format, expected " KEY_KINDS, path, wanted);
}

/* `request` is of a private key, NULL of a public one. */
static zt_key *read_key(zt_ctx *ctx, const char *path, password_request *request)
{
    key_library library;
    size_t size = 0;
    char *text = zt_sign_read(ctx, path, "a PEM file", ZT_PEM_FILE, &size);
    zt_key *key = NULL;
    if (text && zt_key_library(ctx, &library) == ZT_OK) {
        bio_st *bio = library.BIO_new_mem_buf(text, (int)size);
        evp_pkey *pkey = !bio      ? NULL
                         : request ? library.PEM_read_bio_PrivateKey(bio, NULL, give_password, request)
                                   : library.PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
        library.ERR_clear_error();
        if (!bio)
            zt_fail(ctx, ZT_ENOMEM, "%s: libcrypto is out of memory", path);
        else if (!pkey)
            fail_read(ctx, path, text, request);
        if (bio) library.BIO_free(bio);
        if (pkey)
            key = zt_key_take(ctx, &library, pkey, path);
        else
            dlclose(library.handle);
    }
    if (text) explicit_bzero(text, size);
    zt_free(ctx, text);
    return key;
}

zt_key *zt_key_private(zt_ctx *ctx, const char *path, const char *password)
{
    ZT_REQUIRE(ctx, ctx && path, NULL);
    return read_key(ctx, path, &(password_request){.password = password});
}

zt_key *zt_key_public(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, ctx && path, NULL);
    return read_key(ctx, path, NULL);
}

void zt_key_free(zt_key *key)
{
    if (!key) return;
    key->library.EVP_PKEY_free(key->pkey);
    dlclose(key->library.handle);
    zt_free(key->ctx, key);
}

const char *zt_key_kind(const zt_key *key) { return key ? key->kind->name : ""; }

/* ---- what keys do --------------------------------------------------------------------------------- */

zt_status zt_key_hint(const zt_key *key, char hint[ZT_DIGEST_TEXT])
{
    enum { LINE = 48 }; /* bytes of a line of 64 characters: RFC 7468 */
    zt_str text;
    uint8_t sum[ZT_DIGEST_BYTES];
    zt_str_init(&text, key->ctx);
    zt_status status = zt_str_puts(&text, "-----BEGIN PUBLIC KEY-----\n");
    for (size_t at = 0; !status && at < key->kind->bytes; at += LINE) {
        size_t left = key->kind->bytes - at;
        status = zt_base64_put(&text, key->public_der + at, left < LINE ? left : LINE);
        if (!status) status = zt_str_putc(&text, '\n');
    }
    if (!status) status = zt_str_puts(&text, "-----END PUBLIC KEY-----\n");
    zt_digest *digest = status ? NULL : zt_digest_new(key->ctx);
    if (!status && !digest) status = zt_ctx_status(key->ctx);
    if (!status) status = zt_digest_add(digest, text.data, text.len);
    if (!status) status = zt_digest_end(digest, sum);
    if (!status) zt_digest_text(sum, hint);
    zt_digest_free(digest);
    zt_str_fini(&text);
    return status;
}

static const evp_md *hash_of(const zt_key *key)
{
    const key_library *library = &key->library;
    switch (key->kind->hash) {
    case HASH_SHA256: return library->EVP_sha256();
    case HASH_SHA384: return library->EVP_sha384();
    case HASH_SHA512: return library->EVP_sha512();
    default: return NULL;
    }
}

zt_status zt_key_sign(const zt_key *key, const void *bytes, size_t size, uint8_t *signature, size_t *signature_size)
{
    const key_library *library = &key->library;
    evp_md_ctx *md = library->EVP_MD_CTX_new();
    if (!md) return zt_fail(key->ctx, ZT_ENOMEM, "a signature: libcrypto is out of memory");
    zt_status status = ZT_OK;
    *signature_size = ZT_KEY_SIGNATURE;
    if (library->EVP_DigestSignInit(md, NULL, hash_of(key), NULL, key->pkey) != 1)
        status = fail_library(key->ctx, "EVP_DigestSignInit");
    else if (library->EVP_DigestSign(md, signature, signature_size, bytes, size) != 1)
        status = fail_library(key->ctx, "EVP_DigestSign");
    library->EVP_MD_CTX_free(md);
    library->ERR_clear_error();
    return status;
}

zt_status zt_key_verify(const zt_key *key, const void *bytes, size_t size, const void *signature, size_t signature_size,
                        bool *valid)
{
    const key_library *library = &key->library;
    evp_md_ctx *md = library->EVP_MD_CTX_new();
    if (!md) return zt_fail(key->ctx, ZT_ENOMEM, "a signature: libcrypto is out of memory");
    zt_status status = ZT_OK;
    if (library->EVP_DigestVerifyInit(md, NULL, hash_of(key), NULL, key->pkey) != 1)
        status = fail_library(key->ctx, "EVP_DigestVerifyInit");
    else
        *valid = library->EVP_DigestVerify(md, signature, signature_size, bytes, size) == 1;
    library->EVP_MD_CTX_free(md);
    library->ERR_clear_error();
    return status;
}
