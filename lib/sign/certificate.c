/* certificate.c - owns the way from a signature's certificates to one that is trusted (X.509). */
#include "lib/base/crypto.h"
#include "lib/sign/internal.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

typedef struct x509_st x509_st; /* types of OpenSSL */
typedef struct x509_store x509_store;
typedef struct x509_store_ctx x509_store_ctx;
typedef struct x509_stack x509_stack;
typedef struct asn1_time asn1_time;

/* openssl/x509v3.h */
enum { KU_DIGITAL_SIGNATURE = 0x80, XKU_CODE_SIGN = 0x8 };

typedef struct certificate_library {
    void *handle;
    x509_st *(*d2i_X509)(x509_st **out, const unsigned char **bytes, long size);
    void (*X509_free)(x509_st *certificate);
    x509_st *(*PEM_read_bio_X509)(bio_st *bio, x509_st **out, zt_password_fn *password, void *user);
    evp_pkey *(*X509_get_pubkey)(x509_st *certificate);
    const asn1_time *(*X509_get0_notBefore)(const x509_st *certificate);
    int (*ASN1_TIME_to_tm)(const asn1_time *when, struct tm *out);
    uint32_t (*X509_get_key_usage)(x509_st *certificate);
    uint32_t (*X509_get_extended_key_usage)(x509_st *certificate);
    x509_stack *(*OPENSSL_sk_new_null)(void);
    int (*OPENSSL_sk_push)(x509_stack *stack, const void *certificate);
    void (*OPENSSL_sk_free)(x509_stack *stack);
    x509_store *(*X509_STORE_new)(void);
    void (*X509_STORE_free)(x509_store *store);
    int (*X509_STORE_add_cert)(x509_store *store, x509_st *certificate);
    x509_store_ctx *(*X509_STORE_CTX_new)(void);
    void (*X509_STORE_CTX_free)(x509_store_ctx *context);
    int (*X509_STORE_CTX_init)(x509_store_ctx *context, x509_store *store, x509_st *certificate, x509_stack *others);
    void (*X509_STORE_CTX_set_time)(x509_store_ctx *context, unsigned long flags, time_t when);
    int (*X509_verify_cert)(x509_store_ctx *context);
    int (*X509_STORE_CTX_get_error)(const x509_store_ctx *context);
    const char *(*X509_verify_cert_error_string)(long error);
} certificate_library;

static zt_status open_library(zt_ctx *ctx, certificate_library *library)
{
    const zt_crypto_function wanted[] = {{"d2i_X509", &library->d2i_X509},
                                         {"X509_free", &library->X509_free},
                                         {"PEM_read_bio_X509", &library->PEM_read_bio_X509},
                                         {"X509_get_pubkey", &library->X509_get_pubkey},
                                         {"X509_get0_notBefore", &library->X509_get0_notBefore},
                                         {"ASN1_TIME_to_tm", &library->ASN1_TIME_to_tm},
                                         {"X509_get_key_usage", &library->X509_get_key_usage},
                                         {"X509_get_extended_key_usage", &library->X509_get_extended_key_usage},
                                         {"OPENSSL_sk_new_null", &library->OPENSSL_sk_new_null},
                                         {"OPENSSL_sk_push", &library->OPENSSL_sk_push},
                                         {"OPENSSL_sk_free", &library->OPENSSL_sk_free},
                                         {"X509_STORE_new", &library->X509_STORE_new},
                                         {"X509_STORE_free", &library->X509_STORE_free},
                                         {"X509_STORE_add_cert", &library->X509_STORE_add_cert},
                                         {"X509_STORE_CTX_new", &library->X509_STORE_CTX_new},
                                         {"X509_STORE_CTX_free", &library->X509_STORE_CTX_free},
                                         {"X509_STORE_CTX_init", &library->X509_STORE_CTX_init},
                                         {"X509_STORE_CTX_set_time", &library->X509_STORE_CTX_set_time},
                                         {"X509_verify_cert", &library->X509_verify_cert},
                                         {"X509_STORE_CTX_get_error", &library->X509_STORE_CTX_get_error},
                                         {"X509_verify_cert_error_string", &library->X509_verify_cert_error_string}};
    library->handle = zt_crypto_open(ctx, "a signature with certificates", wanted, sizeof wanted / sizeof *wanted);
    return library->handle ? ZT_OK : ZT_ENOTSUP;
}

typedef struct chain_check {
    zt_ctx *ctx;
    const char *name;
    certificate_library x509;
    key_library keys;
    x509_store *store;
    x509_stack *chain; /* all certificates of the signature, the signer's first */
    x509_st **certificates;
    size_t count;
} chain_check;

static zt_status fail_memory(chain_check *check)
{
    return zt_fail(check->ctx, ZT_ENOMEM, "%s: libcrypto is out of memory", check->name);
}

static zt_status add_trusted(chain_check *check, const char *path)
{
    size_t size = 0, count = 0;
    char *text = zt_sign_read(check->ctx, path, "a PEM file", ZT_PEM_FILE, &size);
    if (!text) return zt_ctx_status(check->ctx);
    bio_st *bio = check->keys.BIO_new_mem_buf(text, (int)size);
    check->store = check->x509.X509_STORE_new();
    zt_status status = bio && check->store ? ZT_OK : fail_memory(check);
    for (x509_st *certificate; !status && (certificate = check->x509.PEM_read_bio_X509(bio, NULL, NULL, NULL)); count++) {
        if (check->x509.X509_STORE_add_cert(check->store, certificate) != 1) status = fail_memory(check);
        check->x509.X509_free(certificate);
    }
    if (!status && count == 0) status = zt_fail(check->ctx, ZT_EDATA, "%s: no certificate in PEM format", path);
    if (bio) check->keys.BIO_free(bio);
    zt_free(check->ctx, text);
    return status;
}

static zt_status read_chain(chain_check *check, const zt_blob *certificates, size_t count)
{
    check->chain = check->x509.OPENSSL_sk_new_null();
    check->certificates = zt_calloc(check->ctx, count, sizeof(x509_st *));
    if (!check->chain || !check->certificates) return fail_memory(check);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *cursor = (const unsigned char *)certificates[i].bytes, *begin = cursor;
        x509_st *certificate = check->x509.d2i_X509(NULL, &cursor, (long)certificates[i].size);
        if (certificate) check->certificates[check->count++] = certificate;
        if (!certificate || cursor != begin + certificates[i].size)
            return zt_fail(check->ctx, ZT_EDATA, "%s: certificate %zu is not X.509 in DER", check->name, i + 1);
        if (check->x509.OPENSSL_sk_push(check->chain, certificate) <= 0) return fail_memory(check);
    }
    return ZT_OK;
}

/* Is there a way to a trusted one, at the time at which the signer's certificate became valid, as in model-signing? */
static zt_status check_chain(chain_check *check, zt_str *why)
{
    const certificate_library *x509 = &check->x509;
    x509_st *signer = check->certificates[0];
    struct tm begin = {0};
    if (x509->ASN1_TIME_to_tm(x509->X509_get0_notBefore(signer), &begin) != 1)
        return zt_fail(check->ctx, ZT_EDATA, "%s: the signer's certificate has no time from which it is valid", check->name);
    x509_store_ctx *context = x509->X509_STORE_CTX_new();
    if (!context || x509->X509_STORE_CTX_init(context, check->store, signer, check->chain) != 1) {
        if (context) x509->X509_STORE_CTX_free(context);
        return fail_memory(check);
    }
    x509->X509_STORE_CTX_set_time(context, 0, timegm(&begin));
    zt_status status = ZT_OK;
    if (x509->X509_verify_cert(context) != 1)
        status = zt_str_printf(why, "%s: the signer's certificate is not trusted: %s", check->name,
                               x509->X509_verify_cert_error_string(x509->X509_STORE_CTX_get_error(context)));
    x509->X509_STORE_CTX_free(context);
    check->keys.ERR_clear_error();
    return status;
}

/* As in model-signing: one of the two uses must be stated. */
static zt_status check_usage(chain_check *check, zt_str *why)
{
    const uint32_t absent = UINT32_MAX;
    uint32_t usage = check->x509.X509_get_key_usage(check->certificates[0]);
    uint32_t extended = check->x509.X509_get_extended_key_usage(check->certificates[0]);
    if ((usage != absent && usage & KU_DIGITAL_SIGNATURE) || (extended != absent && extended & XKU_CODE_SIGN)) return ZT_OK;
    return zt_str_printf(why, "%s: the signer's certificate is not for digital signatures or code signing", check->name);
}

static void close_check(chain_check *check)
{
    for (size_t i = 0; i < check->count; i++) check->x509.X509_free(check->certificates[i]);
    zt_free(check->ctx, check->certificates);
    if (check->chain) check->x509.OPENSSL_sk_free(check->chain);
    if (check->store) check->x509.X509_STORE_free(check->store);
    if (check->keys.handle) dlclose(check->keys.handle);
    if (check->x509.handle) dlclose(check->x509.handle);
}

zt_key *zt_certificate_key(zt_ctx *ctx, const char *name, const zt_blob *certificates, size_t count, const char *trusted,
                           zt_str *why)
{
    chain_check check = {.ctx = ctx, .name = name};
    zt_key *key = NULL;
    zt_status status = open_library(ctx, &check.x509);
    if (!status) status = zt_key_library(ctx, &check.keys);
    if (!status) status = add_trusted(&check, trusted);
    if (!status) status = read_chain(&check, certificates, count);
    if (!status) status = check_chain(&check, why);
    if (!status && !why->len) status = check_usage(&check, why);
    if (!status && !why->len) {
        key_library owned = {0};
        evp_pkey *pkey = check.x509.X509_get_pubkey(check.certificates[0]);
        check.keys.ERR_clear_error();
        if (!pkey)
            zt_fail(ctx, ZT_ENOTSUP, "%s: the key of the signer's certificate is of a kind that is not supported", name);
        else if (zt_key_library(ctx, &owned) == ZT_OK)
            key = zt_key_take(ctx, &owned, pkey, name);
        else
            check.keys.EVP_PKEY_free(pkey);
    }
    close_check(&check);
    return key;
}
