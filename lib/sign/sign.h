/* sign.h - signatures of models in the format of OpenSSF Model Signing 1.0: https://github.com/sigstore/model-transparency.
 *
 *     zt_key *key = zt_key_private(ctx, "key.pem", NULL);
 *     if (key) status = zt_sign_model(ctx, "model.gguf", "model.gguf.sig", key, NULL);
 *     zt_key_free(key);
 *
 *     zt_str why; zt_str_init(&why, ctx);
 *     status = zt_verify_model(ctx, "model.gguf", "model.gguf.sig", &(zt_sign_trust){.public_key = "key.pub"}, &why);
 *     if (!status && why.len) puts(why.data);                 // the model is not what was signed
 *     zt_str_fini(&why);
 *
 * A model is a file or a directory with all files below it, of any kind. The signature is a Sigstore bundle with a DSSE envelope,
 * whose payload is an in-toto statement with the SHA-256 of each file. zt-formats(5) describes it to the byte.
 *
 * Keys are PEM files: ECDSA with the curves P-256, P-384 and P-521, as in model-signing 1.1.1, and Ed25519, which it refuses.
 * OpenSSL's libcrypto computes; it is opened when it is needed (lib/base/digest.h).
 */
#ifndef ZT_SIGN_H
#define ZT_SIGN_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_key zt_key;

/* A key from a PEM file; zt_key_free it. password NULL: none. NULL: ZT_ENOENT, no such file; ZT_EDATA, not a private key, or the
 * password does not decrypt it; ZT_EUSAGE, it is encrypted and no password is given; ZT_ENOTSUP, another kind of key, or libcrypto is
 * missing; ZT_ENOMEM. */
zt_key *zt_key_private(zt_ctx *ctx, const char *path, const char *password);
/* The same for a public key (SubjectPublicKeyInfo), which has no password. */
zt_key *zt_key_public(zt_ctx *ctx, const char *path);
void zt_key_free(zt_key *key); /* NULL: no effect */
/* "ECDSA P-256", "ECDSA P-384", "ECDSA P-521" or "Ed25519". NULL: "". */
const char *zt_key_kind(const zt_key *key);

/* Called while files are hashed: `done` of `total` bytes, now at `file`. A status that is not ZT_OK ends the work and is returned. */
typedef zt_status zt_sign_progress(void *user, const char *file, uint64_t done, uint64_t total);

typedef struct zt_sign_opts {
    bool symlinks; /* symbolic links to files are followed; false: they are an error */
    bool force;    /* an existing signature is replaced */
    zt_sign_progress *progress;
    void *user;
} zt_sign_opts;

/* Writes the signature of a model to the file `signature`. If that is inside the model's directory, it is ignored, and so are .git,
 * .gitattributes, .github and .gitignore at its top; the signature names what it ignores. opts NULL: all 0.
 * ZT_ENOENT: no such model; ZT_EDATA: no file, or a link, a device or a name that cannot be signed; ZT_ECREATE: the signature exists;
 * ZT_ENOTSUP, ZT_EIO, ZT_ENOMEM, ZT_ESYS. */
zt_status zt_sign_model(zt_ctx *ctx, const char *model, const char *signature, const zt_key *key, const zt_sign_opts *opts);

/* Whom a signature must be from: one of the two. */
typedef struct zt_sign_trust {
    const char *public_key;   /* path of the signer's public key; NULL: the signature must have a certificate */
    const char *certificates; /* path of the certificates that are trusted, PEM; NULL: it must have none */
    zt_sign_progress *progress;
    void *user;
} zt_sign_trust;

/* Compares a model with its signature. `why` (initialised) gets one sentence with the first difference: another key, another file, a file
 * that is missing or was added; it stays empty if there is none. ZT_ENOENT: no such model, signature or key; ZT_EDATA: the signature is
 * malformed; ZT_EUSAGE: `trust` lacks what the signature needs; ZT_ENOTSUP: a form of signature that is not supported, or no libcrypto;
 * ZT_EIO, ZT_ENOMEM, ZT_ESYS. */
zt_status zt_verify_model(zt_ctx *ctx, const char *model, const char *signature, const zt_sign_trust *trust, zt_str *why);

#ifdef __cplusplus
}
#endif
#endif
