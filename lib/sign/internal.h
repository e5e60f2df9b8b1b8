/* internal.h - the parts of lib/sign: keys, certificates, the bundle, its statement, and the list of a model's files. */
#ifndef ZT_SIGN_INTERNAL_H
#define ZT_SIGN_INTERNAL_H

#include "lib/base/digest.h"
#include "lib/io/json.h"
#include "lib/sign/sign.h"

/* ---- keys: key.c, certificate.c --------------------------------------------------------------- */

typedef struct evp_pkey evp_pkey; /* types of OpenSSL, which are opaque there too */
typedef struct evp_md evp_md;
typedef struct evp_md_ctx evp_md_ctx;
typedef struct bio_st bio_st;
typedef int zt_password_fn(char *buffer, int size, int writes, void *user);

/* What keys need of libcrypto; OpenSSL's manuals describe the functions. */
typedef struct key_library {
    void *handle;
    bio_st *(*BIO_new_mem_buf)(const void *bytes, int size);
    int (*BIO_free)(bio_st *bio);
    evp_pkey *(*PEM_read_bio_PrivateKey)(bio_st *bio, evp_pkey **out, zt_password_fn *password, void *user);
    evp_pkey *(*PEM_read_bio_PUBKEY)(bio_st *bio, evp_pkey **out, zt_password_fn *password, void *user);
    void (*EVP_PKEY_free)(evp_pkey *key);
    int (*i2d_PUBKEY)(const evp_pkey *key, unsigned char **out);
    evp_md_ctx *(*EVP_MD_CTX_new)(void);
    void (*EVP_MD_CTX_free)(evp_md_ctx *md);
    const evp_md *(*EVP_sha256)(void);
    const evp_md *(*EVP_sha384)(void);
    const evp_md *(*EVP_sha512)(void);
    int (*EVP_DigestSignInit)(evp_md_ctx *md, void **context, const evp_md *type, void *engine, evp_pkey *key);
    int (*EVP_DigestSign)(evp_md_ctx *md, unsigned char *out, size_t *out_size, const unsigned char *bytes, size_t size);
    int (*EVP_DigestVerifyInit)(evp_md_ctx *md, void **context, const evp_md *type, void *engine, evp_pkey *key);
    int (*EVP_DigestVerify)(evp_md_ctx *md, const unsigned char *signature, size_t signature_size, const unsigned char *bytes,
                            size_t size);
    void (*ERR_clear_error)(void);
} key_library;

enum {
    ZT_KEY_SIGNATURE = 160,
    ZT_PEM_FILE = 1 << 20
}; /* bytes: of any key's signature; of a file of keys or certificates, at most */

/* A whole file of at most `most` bytes, closed by a zero, *size bytes of it; zt_free it. `what` is what it must be, such as "a PEM
 * file", for the message of a longer one. NULL: an error. */
char *zt_sign_read(zt_ctx *ctx, const char *path, const char *what, int most, size_t *size);
/* Takes a public key, which it frees on failure too. `name` is for messages. */
zt_key *zt_key_take(zt_ctx *ctx, const key_library *library, evp_pkey *pkey, const char *name);
zt_status zt_key_library(zt_ctx *ctx, key_library *library); /* opens it: dlclose handle, unless a key has it */
/* SHA-256 of the public key as a PEM text, which a bundle states as its hint. */
zt_status zt_key_hint(const zt_key *key, char hint[ZT_DIGEST_TEXT]);
/* Signs; *signature_size of at most ZT_KEY_SIGNATURE bytes. */
zt_status zt_key_sign(const zt_key *key, const void *bytes, size_t size, uint8_t *signature, size_t *signature_size);
/* *valid: is it a signature of these bytes? */
zt_status zt_key_verify(const zt_key *key, const void *bytes, size_t size, const void *signature, size_t signature_size,
                        bool *valid);

typedef struct zt_blob {
    char *bytes;
    size_t size;
} zt_blob;

/* The key of the first of the certificates (DER), if the file of trusted ones establishes it; otherwise `why` gets the reason, and the
 * result is NULL as for an error. `name` is for messages. */
zt_key *zt_certificate_key(zt_ctx *ctx, const char *name, const zt_blob *certificates, size_t count, const char *trusted,
                           zt_str *why);

/* ---- the list of files: manifest.c -------------------------------------------------------------- */

typedef struct zt_manifest_file {
    const char *path; /* inside the model, "/" between; "." is a model of one file */
    uint8_t digest[ZT_DIGEST_BYTES];
} zt_manifest_file;

/* Files in the order of their paths, component by component as bytes. */
typedef struct zt_manifest {
    zt_ctx *ctx;
    zt_arena *texts;
    const char *name; /* of the model; only informative */
    bool symlinks;    /* are links followed? */
    zt_manifest_file *files;
    size_t count, room;
    const char **ignored; /* paths that are not part of the model, with all below them */
    size_t ignored_count;
    const char *refused, *reason; /* an entry that is neither file nor directory, and what it is; NULL: none */
} zt_manifest;

zt_status zt_manifest_init(zt_ctx *ctx, zt_manifest *manifest);
void zt_manifest_fini(zt_manifest *manifest);
zt_status zt_manifest_add(zt_manifest *manifest, const char *path, const uint8_t *digest); /* digest NULL: not known yet */
zt_status zt_manifest_ignore(zt_manifest *manifest, const char *path, size_t length);
bool zt_manifest_ignores(const zt_manifest *manifest, const char *path);
zt_status zt_manifest_ignore_git(zt_manifest *manifest); /* what model-signing ignores by default */
/* Is it a relative path of non-empty components, without . and ..? */
bool zt_manifest_path_valid(const char *path);
int zt_manifest_compare_paths(const char *left, const char *right);
void zt_manifest_sort(zt_manifest *manifest);
/* Adds the paths of the model's files, sorted. */
zt_status zt_manifest_list(zt_manifest *manifest, const char *model);
/* The path of `file` inside the directory `model` is appended to `inside`; nothing if it is elsewhere. */
zt_status zt_manifest_inside(zt_ctx *ctx, const char *model, const char *file, zt_str *inside);

/* Hashing the files of a model: progress counts the bytes of all. */
typedef struct zt_hashing {
    const char *model;
    zt_digest *digest;
    char *buffer;
    zt_sign_progress *progress;
    void *user;
    uint64_t done, total;
} zt_hashing;
zt_status zt_hashing_open(const zt_manifest *manifest, zt_hashing *hashing);
void zt_hashing_close(zt_ctx *ctx, zt_hashing *hashing);
zt_status zt_hashing_file(zt_ctx *ctx, zt_hashing *hashing, const char *path, uint8_t digest[ZT_DIGEST_BYTES]);
/* The name by which a file of the model is opened. */
zt_status zt_manifest_full_path(const char *model, const char *path, zt_str *full);

/* ---- the statement: statement.c, the bundle: bundle.c ------------------------------------------- */

#define ZT_STATEMENT_TYPE "application/vnd.in-toto+json"

zt_status zt_statement_write(const zt_manifest *manifest, zt_str *out);
/* Reads into an initialised manifest. `name` is for messages. */
zt_status zt_statement_read(zt_manifest *manifest, const char *name, const char *text, size_t size);

/* A bundle as it was read: signed with a key, of which it has a hint (it may be ""), or with the first of some certificates. */
typedef struct zt_bundle {
    json_t *json;
    const char *hint; /* NULL: there are certificates */
    zt_blob *certificates;
    size_t certificate_count;
    zt_blob payload, signature;
} zt_bundle;

/* ZT_EDATA: malformed; ZT_ENOTSUP: by another method, which the message names. */
zt_status zt_bundle_read(zt_ctx *ctx, zt_bundle *bundle, const char *name, const char *text, size_t size);
void zt_bundle_fini(zt_ctx *ctx, zt_bundle *bundle);
zt_status zt_bundle_write(zt_str *out, const char *hint, const zt_str *payload, const void *signature, size_t signature_size);
/* Appends what is signed: DSSE's pre-authentication encoding of the payload. */
zt_status zt_bundle_signed(zt_str *out, const void *payload, size_t size);

#endif
