/* sign.c - owns signing a model, and comparing a model with its signature. */
#include "lib/base/require.h"
#include "lib/sign/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_SIGNATURE = 256 << 20 }; /* bytes of a file: a directory of a million files has fewer */

/* ---- files -------------------------------------------------------------------------------------- */

char *zt_sign_read(zt_ctx *ctx, const char *path, const char *what, int most, size_t *size)
{
    zt_source *source = zt_source_open(ctx, path);
    if (!source) return NULL;
    uint64_t bytes = zt_source_size(source);
    char *text = NULL;
    if (bytes > (uint64_t)most)
        zt_fail(ctx, ZT_EDATA, "%s: not %s: it has %llu bytes, at most %d are allowed", zt_source_name(source), what,
                (unsigned long long)bytes, most);
    else
        text = zt_alloc(ctx, (size_t)bytes + 1);
    if (text && zt_source_read(source, 0, text, (size_t)bytes) != ZT_OK) {
        zt_free(ctx, text);
        text = NULL;
    }
    if (text) text[ *size = (size_t)bytes] = 0;
    zt_source_close(source);
    return text;
}

/* ---- signing ------------------------------------------------------------------------------------ */

/* The last component of the model's path. */
static zt_status name_model(zt_manifest *manifest, const char *model)
{
    size_t end = strlen(model), begin;
    while (end > 1 && model[end - 1] == '/') end--;
    for (begin = end; begin && model[begin - 1] != '/';) begin--;
    char *real = NULL;
    const bool is_dots = (end - begin == 1 && model[begin] == '.') || (end - begin == 2 && strncmp(model + begin, "..", 2) == 0);
    if (is_dots && (real = realpath(model, NULL))) {
        model = real;
        end = strlen(real);
        begin = (size_t)(strrchr(real, '/') + 1 - real);
    }
    manifest->name = zt_arena_strndup(manifest->texts, model + begin, end - begin);
    free(real);
    return manifest->name ? ZT_OK : ZT_ENOMEM;
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* What is not part of the model: git's files, and the signature. */
static zt_status choose_ignored(zt_manifest *manifest, const char *model, const char *signature)
{
    zt_str inside;
    zt_str_init(&inside, manifest->ctx);
    zt_status status = zt_manifest_ignore_git(manifest);
    if (!status) status = zt_manifest_inside(manifest->ctx, model, signature, &inside);
    if (!status && inside.len) status = zt_manifest_ignore(manifest, inside.data, inside.len);
    zt_str_fini(&inside);
    if (!status) qsort(manifest->ignored, manifest->ignored_count, sizeof *manifest->ignored, compare_texts);
    return status;
}

static zt_status check_signable(const zt_manifest *manifest, const char *model)
{
    char shown[512];
    if (manifest->refused)
        return zt_fail(manifest->ctx, ZT_EDATA, "%s: '%s' %s, which cannot be signed", model,
                       zt_escape(shown, sizeof shown, manifest->refused, strlen(manifest->refused)), manifest->reason);
    return manifest->count ? ZT_OK : zt_fail(manifest->ctx, ZT_EDATA, "%s: there is no file to sign", model);
}

static zt_status hash_files(zt_manifest *manifest, zt_hashing *hashing)
{
    zt_status status = zt_hashing_open(manifest, hashing);
    for (size_t i = 0; !status && i < manifest->count; i++)
        status = zt_hashing_file(manifest->ctx, hashing, manifest->files[i].path, manifest->files[i].digest);
    zt_hashing_close(manifest->ctx, hashing);
    return status;
}

static zt_status write_signature(zt_ctx *ctx, const zt_manifest *manifest, const zt_key *key, zt_sink *sink)
{
    zt_str payload, text, bundle;
    uint8_t signature[ZT_KEY_SIGNATURE];
    size_t size = 0;
    char hint[ZT_DIGEST_TEXT];
    zt_str_init(&payload, ctx), zt_str_init(&text, ctx), zt_str_init(&bundle, ctx);
    zt_status status = zt_statement_write(manifest, &payload);
    if (!status) status = zt_bundle_signed(&text, payload.data, payload.len);
    if (!status) status = zt_key_sign(key, text.data, text.len, signature, &size);
    if (!status) status = zt_key_hint(key, hint);
    if (!status) status = zt_bundle_write(&bundle, hint, &payload, signature, size);
    if (!status) status = zt_sink_write(sink, bundle.data, bundle.len);
    zt_str_fini(&payload), zt_str_fini(&text), zt_str_fini(&bundle);
    return status;
}

zt_status zt_sign_model(zt_ctx *ctx, const char *model, const char *signature, const zt_key *key, const zt_sign_opts *opts)
{
    static const zt_sign_opts none;
    ZT_REQUIRE(ctx, ctx && model && signature && key, ZT_EUSAGE);
    if (!opts) opts = &none;
    zt_manifest manifest;
    zt_hashing hashing = {.model = model, .progress = opts->progress, .user = opts->user};
    zt_status status = zt_manifest_init(ctx, &manifest);
    manifest.symlinks = opts->symlinks;
    if (!status) status = name_model(&manifest, model);
    if (!status) status = choose_ignored(&manifest, model, signature);
    if (!status) status = zt_manifest_list(&manifest, model);
    if (!status) status = check_signable(&manifest, model);
    zt_sink *sink = status ? NULL : zt_sink_open(ctx, signature, opts->force);
    if (!status && !sink) status = zt_ctx_status(ctx);
    if (!status) status = hash_files(&manifest, &hashing);
    if (!status) status = write_signature(ctx, &manifest, key, sink);
    if (!status) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_manifest_fini(&manifest);
    return status;
}

/* ---- verifying ---------------------------------------------------------------------------------- */

typedef struct verification {
    zt_ctx *ctx;
    const char *model, *signature;
    const zt_sign_trust *trust;
    zt_str *why;
} verification;

static zt_status find_by_hint(const verification *work, const zt_bundle *bundle, zt_key **key)
{
    char hint[ZT_DIGEST_TEXT];
    if (!work->trust->public_key)
        return zt_fail(work->ctx, ZT_EUSAGE, "%s: signed with a key, but no public key is given", work->signature);
    *key = zt_key_public(work->ctx, work->trust->public_key);
    zt_status status = *key ? zt_key_hint(*key, hint) : zt_ctx_status(work->ctx);
    if (!status && bundle->hint[0] && strcmp(hint, bundle->hint) != 0)
        status = zt_str_printf(work->why, "%s: signed with another key than %s", work->signature, work->trust->public_key);
    return status;
}

static zt_status find_by_certificate(const verification *work, const zt_bundle *bundle, zt_key **key)
{
    if (!work->trust->certificates)
        return zt_fail(work->ctx, ZT_EUSAGE, "%s: signed with a certificate, but no trusted certificates are given",
                       work->signature);
    *key = zt_certificate_key(work->ctx, work->signature, bundle->certificates, bundle->certificate_count,
                              work->trust->certificates, work->why);
    return *key || work->why->len ? ZT_OK : zt_ctx_status(work->ctx);
}

static zt_status check_signature(const verification *work, const zt_bundle *bundle)
{
    zt_key *key = NULL;
    zt_str text;
    bool valid = false;
    zt_str_init(&text, work->ctx);
    zt_status status = bundle->hint ? find_by_hint(work, bundle, &key) : find_by_certificate(work, bundle, &key);
    if (!status && !work->why->len) status = zt_bundle_signed(&text, bundle->payload.bytes, bundle->payload.size);
    if (!status && !work->why->len) {
        status = zt_key_verify(key, text.data, text.len, bundle->signature.bytes, bundle->signature.size, &valid);
        if (!status && !valid)
            status = zt_str_printf(work->why, "%s: not a signature by %s of what it states", work->signature,
                                   bundle->hint ? work->trust->public_key : "its certificate");
    }
    zt_str_fini(&text);
    zt_key_free(key);
    return status;
}

/* The difference "PATH WHAT": a path inside the model. */
static zt_status differ(const verification *work, const char *path, const char *what)
{
    zt_str full;
    zt_str_init(&full, work->ctx);
    zt_status status = zt_manifest_full_path(work->model, path, &full);
    if (!status) status = zt_str_put_escaped(work->why, full.data, full.len);
    if (!status) status = zt_str_printf(work->why, ": %s", what);
    zt_str_fini(&full);
    return status;
}

/* Are there the same files? */
static zt_status compare_lists(const verification *work, const zt_manifest *signed_files, const zt_manifest *found)
{
    const bool is_file = strcmp(signed_files->files[0].path, ".") == 0;
    if (found->refused) return differ(work, found->refused, found->reason);
    if (is_file && (found->count != 1 || strcmp(found->files[0].path, ".") != 0))
        return differ(work, ".", "a directory, but the signature is of a file");
    if (!is_file && found->count == 1 && strcmp(found->files[0].path, ".") == 0)
        return differ(work, ".", "a file, but the signature is of a directory");
    for (size_t i = 0, j = 0; i < signed_files->count || j < found->count;) {
        int order = i == signed_files->count ? 1
                    : j == found->count      ? -1
                                             : zt_manifest_compare_paths(signed_files->files[i].path, found->files[j].path);
        if (order < 0) return differ(work, signed_files->files[i].path, "is signed, but missing");
        if (order > 0) return differ(work, found->files[j].path, "is not signed");
        i++, j++;
    }
    return ZT_OK;
}

static zt_status compare_hashes(const verification *work, const zt_manifest *signed_files)
{
    zt_hashing hashing = {.model = work->model, .progress = work->trust->progress, .user = work->trust->user};
    uint8_t digest[ZT_DIGEST_BYTES];
    char is[ZT_DIGEST_TEXT], was[ZT_DIGEST_TEXT], what[2 * ZT_DIGEST_TEXT + 64];
    zt_status status = zt_hashing_open(signed_files, &hashing);
    for (size_t i = 0; !status && !work->why->len && i < signed_files->count; i++) {
        const zt_manifest_file *file = &signed_files->files[i];
        status = zt_hashing_file(work->ctx, &hashing, file->path, digest);
        if (status || memcmp(digest, file->digest, sizeof digest) == 0) continue;
        snprintf(what, sizeof what, "not what was signed: SHA-256 %s, signed %s", zt_digest_text(digest, is),
                 zt_digest_text(file->digest, was));
        status = differ(work, file->path, what);
    }
    zt_hashing_close(work->ctx, &hashing);
    return status;
}

static zt_status compare_model(const verification *work, const zt_bundle *bundle)
{
    zt_manifest signed_files, found = {.ctx = work->ctx};
    zt_str inside;
    zt_str_init(&inside, work->ctx);
    zt_status status = zt_manifest_init(work->ctx, &signed_files);
    if (!status) status = zt_manifest_init(work->ctx, &found);
    if (!status) status = zt_statement_read(&signed_files, work->signature, bundle->payload.bytes, bundle->payload.size);
    found.symlinks = signed_files.symlinks;
    for (size_t i = 0; !status && i < signed_files.ignored_count; i++)
        status = zt_manifest_ignore(&found, signed_files.ignored[i], strlen(signed_files.ignored[i]));
    if (!status) status = zt_manifest_inside(work->ctx, work->model, work->signature, &inside);
    if (!status && inside.len) status = zt_manifest_ignore(&found, inside.data, inside.len);
    if (!status) status = zt_manifest_list(&found, work->model);
    if (!status) status = compare_lists(work, &signed_files, &found);
    if (!status && !work->why->len) status = compare_hashes(work, &signed_files);
    zt_str_fini(&inside);
    zt_manifest_fini(&signed_files);
    zt_manifest_fini(&found);
    return status;
}

zt_status zt_verify_model(zt_ctx *ctx, const char *model, const char *signature, const zt_sign_trust *trust, zt_str *why)
{
    ZT_REQUIRE(ctx, ctx && model && signature && trust && why && why->ctx, ZT_EUSAGE);
    const verification work = {ctx, model, signature, trust, why};
    zt_bundle bundle = {0};
    size_t size = 0;
    zt_str_clear(why);
    char *text = zt_sign_read(ctx, signature, "a signature", MOST_SIGNATURE, &size);
    zt_status status = text ? zt_bundle_read(ctx, &bundle, signature, text, size) : zt_ctx_status(ctx);
    zt_free(ctx, text);
    if (!status) status = check_signature(&work, &bundle);
    if (!status && !why->len) status = compare_model(&work, &bundle);
    zt_bundle_fini(ctx, &bundle);
    return status;
}
