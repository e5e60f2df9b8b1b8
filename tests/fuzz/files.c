/* files.c - a fuzz target for readers that take the path of a small text: the index of a model in several files, a chat template
 * as JSON, a public and a private key as PEM, and trusted certificates as PEM, behind a zero byte the certificate of a signature as
 * DER. The first byte chooses; the others are the file, which is refused with one line or read.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/io/index.h"
#include "lib/llm/template.h"
#include "lib/sign/internal.h"

#include "tests/fuzz/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

static char *der; /* what lies behind a zero byte */
static size_t der_bytes;

static zt_status see_tensor(void *user, const char *tensor, const char *file)
{
    must(!user && tensor && *file && !strstr(file, "../"));
    return ZT_OK;
}

static bool read_index(zt_ctx *ctx, const char *path) { return zt_index_read(ctx, path, see_tensor, NULL) == ZT_OK; }

static bool read_template(zt_ctx *ctx, const char *path)
{
    zt_template *template = zt_template_open(ctx, path);
    if (template) must(template->name && template->prefix[ZT_ROLE_USER] && template->suffix[ZT_ROLE_SYSTEM]);
    zt_template_free(ctx, template);
    return template != NULL;
}

static bool read_public_key(zt_ctx *ctx, const char *path)
{
    zt_key *key = zt_key_public(ctx, path);
    char hint[ZT_DIGEST_TEXT];
    if (key) must(*zt_key_kind(key) && zt_key_hint(key, hint) == ZT_OK);
    zt_key_free(key);
    return key != NULL;
}

static bool read_private_key(zt_ctx *ctx, const char *path)
{
    zt_key *key = zt_key_private(ctx, path, NULL);
    zt_key_free(key);
    return key != NULL;
}

/* A signer's certificate that is not trusted is a result, not an error. */
static bool read_certificates(zt_ctx *ctx, const char *path)
{
    const zt_blob signer = {der, der_bytes};
    zt_str why;
    zt_str_init(&why, ctx);
    zt_key *key = zt_certificate_key(ctx, "fuzz", &signer, 1, path, &why);
    must(key || why.len || zt_ctx_status(ctx) != ZT_OK);
    must(!why.len || !memchr(why.data, '\n', why.len));
    zt_key_free(key);
    zt_str_fini(&why);
    return zt_ctx_status(ctx) == ZT_OK;
}

static const struct {
    char kind;
    bool (*read)(zt_ctx *ctx, const char *path);
} readers[] = {
    {'i', read_index}, {'t', read_template}, {'k', read_public_key}, {'p', read_private_key}, {'c', read_certificates}};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const size_t kinds = sizeof readers / sizeof *readers;
    size_t which = 0;
    if (count == 0) return 0;
    while (which < kinds && readers[which].kind != bytes[0]) which++;
    if (which == kinds) which = bytes[0] % kinds;
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, 16 * count + (16 << 20));
    const uint8_t *zero = readers[which].kind == 'c' ? memchr(bytes + 1, 0, count - 1) : NULL, *end = zero ? zero : bytes + count;
    der = (char *)(uintptr_t)(zero ? zero + 1 : end);
    der_bytes = (size_t)(bytes + count - end) - (zero != NULL);
    pair_put_only("text", bytes + 1, (size_t)(end - bytes - 1));
    bool read = readers[which].read(ctx, pair_path("text"));
    zt_status status = zt_ctx_status(ctx);
    must(read ? status == ZT_OK : status != ZT_OK && status != ZT_EBUG);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
