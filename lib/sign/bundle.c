/* bundle.c - owns the Sigstore bundle: JSON around a DSSE envelope and what its signer is known by. */
#include "lib/io/base64.h"
#include "lib/sign/internal.h"

#include <string.h>

#define MEDIA_TYPE "application/vnd.dev.sigstore.bundle.v0.3+json"

enum { MOST_CERTIFICATES = 16 }; /* of a chain */

/* ---- reading ------------------------------------------------------------------------------------ */

typedef struct bundle_reader {
    zt_ctx *ctx;
    const char *name;
} bundle_reader;

static zt_status fail_member(const bundle_reader *reader, const char *member, const char *expected)
{
    return zt_fail(reader->ctx, ZT_EDATA, "%s: not a signature: %s is not %s", reader->name, member, expected);
}

static zt_status take_object(const bundle_reader *reader, const json_t *parent, const char *member, json_t **out)
{
    *out = json_object_get(parent, member);
    return json_is_object(*out) ? ZT_OK : fail_member(reader, member, "an object");
}

/* A member that is base64; zt_free the bytes. */
static zt_status take_bytes(const bundle_reader *reader, const json_t *parent, const char *member, zt_blob *out)
{
    const json_t *value = json_object_get(parent, member);
    if (!json_is_string(value)) return fail_member(reader, member, "a string");
    out->bytes = zt_base64_get(reader->ctx, json_string_value(value), json_string_length(value), &out->size);
    if (out->bytes) return ZT_OK;
    return zt_ctx_status(reader->ctx) == ZT_ENOMEM ? ZT_ENOMEM : fail_member(reader, member, "base64");
}

static zt_status check_text(const bundle_reader *reader, const json_t *parent, const char *member, const char *expected)
{
    char text[160];
    const char *value = json_string_value(json_object_get(parent, member));
    if (!value) return fail_member(reader, member, "a string");
    if (strcmp(value, expected) == 0) return ZT_OK;
    return zt_fail(reader->ctx, ZT_EDATA, "%s: not a signature of a model: %s is '%s', expected '%s'", reader->name, member,
                   zt_escape(text, sizeof text, value, strlen(value)), expected);
}

static zt_status take_certificates(const bundle_reader *reader, const json_t *chain, zt_bundle *bundle)
{
    const json_t *list = json_object_get(chain, "certificates");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > MOST_CERTIFICATES)
        return fail_member(reader, "certificates", "an array of 1 to 16 certificates");
    bundle->certificates = zt_calloc(reader->ctx, count, sizeof *bundle->certificates);
    zt_status status = bundle->certificates ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !status && i < count; i++) {
        const json_t *certificate = json_array_get(list, i);
        bundle->certificate_count = i + 1;
        status = json_is_object(certificate) ? take_bytes(reader, certificate, "rawBytes", &bundle->certificates[i])
                                             : fail_member(reader, "certificates", "an array of objects");
    }
    return status;
}

/* Who signed: one of three forms. */
static zt_status take_material(const bundle_reader *reader, const json_t *material, zt_bundle *bundle)
{
    const json_t *key = json_object_get(material, "publicKey"), *chain = json_object_get(material, "x509CertificateChain");
    const json_t *certificate = json_object_get(material, "certificate");
    if (!!key + !!chain + !!certificate != 1)
        return zt_fail(
            reader->ctx, ZT_EDATA,
            "%s: not a signature: verificationMaterial has %d of publicKey, x509CertificateChain and certificate, expected one",
            reader->name, !!key + !!chain + !!certificate);
    if (certificate)
        return zt_fail(reader->ctx, ZT_ENOTSUP,
                       "%s: keyless signatures by Sigstore are not supported, only keys and chains of certificates",
                       reader->name);
    if (chain)
        return json_is_object(chain) ? take_certificates(reader, chain, bundle)
                                     : fail_member(reader, "x509CertificateChain", "an object");
    if (!json_is_object(key)) return fail_member(reader, "publicKey", "an object");
    const json_t *hint = json_object_get(key, "hint");
    if (hint && !json_is_null(hint) && !json_is_string(hint)) return fail_member(reader, "hint", "a string");
    bundle->hint = json_is_string(hint) ? json_string_value(hint) : "";
    return ZT_OK;
}

static zt_status take_envelope(const bundle_reader *reader, const json_t *envelope, zt_bundle *bundle)
{
    const json_t *signatures = json_object_get(envelope, "signatures"), *signature = json_array_get(signatures, 0);
    zt_status status = check_text(reader, envelope, "payloadType", ZT_STATEMENT_TYPE);
    if (!status && (json_array_size(signatures) != 1 || !json_is_object(signature)))
        status = fail_member(reader, "signatures", "an array of one object");
    if (!status) status = take_bytes(reader, envelope, "payload", &bundle->payload);
    if (!status) status = take_bytes(reader, signature, "sig", &bundle->signature);
    return status;
}

zt_status zt_bundle_read(zt_ctx *ctx, zt_bundle *bundle, const char *name, const char *text, size_t size)
{
    const bundle_reader reader = {ctx, name};
    json_t *material, *envelope;
    *bundle = (zt_bundle){.json = zt_json_load(ctx, name, text, size)};
    if (!bundle->json) return zt_ctx_status(ctx);
    zt_status status = json_is_object(bundle->json) ? ZT_OK : fail_member(&reader, "the file", "an object");
    if (!status) status = check_text(&reader, bundle->json, "mediaType", MEDIA_TYPE);
    if (!status) status = take_object(&reader, bundle->json, "verificationMaterial", &material);
    if (!status) status = take_object(&reader, bundle->json, "dsseEnvelope", &envelope);
    if (!status) status = take_material(&reader, material, bundle);
    if (!status) status = take_envelope(&reader, envelope, bundle);
    return status;
}

void zt_bundle_fini(zt_ctx *ctx, zt_bundle *bundle)
{
    for (size_t i = 0; i < bundle->certificate_count; i++) zt_free(ctx, bundle->certificates[i].bytes);
    zt_free(ctx, bundle->certificates);
    zt_free(ctx, bundle->payload.bytes);
    zt_free(ctx, bundle->signature.bytes);
    json_decref(bundle->json);
    *bundle = (zt_bundle){0};
}

/* ---- writing ------------------------------------------------------------------------------------ */

zt_status zt_bundle_write(zt_str *out, const char *hint, const zt_str *payload, const void *signature, size_t signature_size)
{
    zt_str_printf(
        out, "{\"mediaType\":\"" MEDIA_TYPE "\",\"verificationMaterial\":{\"publicKey\":{\"hint\":\"%s\"},\"tlogEntries\":[]},",
        hint);
    zt_str_puts(out, "\"dsseEnvelope\":{\"payload\":\"");
    zt_base64_put(out, payload->data, payload->len);
    zt_str_puts(out, "\",\"payloadType\":\"" ZT_STATEMENT_TYPE "\",\"signatures\":[{\"sig\":\"");
    zt_base64_put(out, signature, signature_size);
    zt_str_puts(out, "\",\"keyid\":\"\"}]}}\n");
    return zt_ctx_status(out->ctx);
}

zt_status zt_bundle_signed(zt_str *out, const void *payload, size_t size)
{
    zt_status status = zt_str_printf(out, "DSSEv1 %zu %s %zu ", sizeof ZT_STATEMENT_TYPE - 1, ZT_STATEMENT_TYPE, size);
    return status ? status : zt_str_put(out, payload, size);
}
