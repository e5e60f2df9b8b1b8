/* statement.c - owns the in-toto statement of a signature: which files have which SHA-256. */
#include "lib/sign/internal.h"

#include <string.h>

#define STATEMENT      "https://in-toto.io/Statement/v1"
#define PREDICATE      "https://model_signing/signature/v1.0"
#define PREDICATE_V0_2 "https://model_signing/Digests/v0.1"

enum { MOST_IGNORED = 4096 };

/* ---- writing ------------------------------------------------------------------------------------ */

static void put_text(zt_str *out, const char *before, const char *text)
{
    zt_str_puts(out, before);
    zt_str_put_json(out, text, strlen(text));
}

/* SHA-256 of the digests of all files in their order. */
static zt_status hash_digests(const zt_manifest *manifest, uint8_t sum[ZT_DIGEST_BYTES])
{
    zt_digest *digest = zt_digest_new(manifest->ctx);
    zt_status status = digest ? ZT_OK : zt_ctx_status(manifest->ctx);
    for (size_t i = 0; !status && i < manifest->count; i++)
        status = zt_digest_add(digest, manifest->files[i].digest, ZT_DIGEST_BYTES);
    if (!status) status = zt_digest_end(digest, sum);
    zt_digest_free(digest);
    return status;
}

zt_status zt_statement_write(const zt_manifest *manifest, zt_str *out)
{
    uint8_t sum[ZT_DIGEST_BYTES];
    char text[ZT_DIGEST_TEXT];
    zt_status status = hash_digests(manifest, sum);
    if (status) return status;
    put_text(out, "{\"_type\":\"" STATEMENT "\",\"subject\":[{\"name\":", manifest->name);
    zt_str_printf(out, ",\"digest\":{\"sha256\":\"%s\"}}],\"predicateType\":\"" PREDICATE "\",\"predicate\":{\"resources\":[",
                  zt_digest_text(sum, text));
    for (size_t i = 0; i < manifest->count; i++) {
        zt_str_printf(out, "%s{\"algorithm\":\"sha256\",\"digest\":\"%s\"", i ? "," : "",
                      zt_digest_text(manifest->files[i].digest, text));
        put_text(out, ",\"name\":", manifest->files[i].path);
        zt_str_putc(out, '}');
    }
    zt_str_printf(out, "],\"serialization\":{\"allow_symlinks\":%s,\"hash_type\":\"sha256\",\"ignore_paths\":[",
                  manifest->symlinks ? "true" : "false");
    for (size_t i = 0; i < manifest->ignored_count; i++) put_text(out, i ? "," : "", manifest->ignored[i]);
    zt_str_puts(out, "],\"method\":\"files\"}}}");
    return zt_ctx_status(manifest->ctx);
}

/* ---- reading ------------------------------------------------------------------------------------ */

typedef struct statement_reader {
    zt_manifest *manifest;
    const char *name;
} statement_reader;

static zt_status fail_statement(const statement_reader *reader, const char *what)
{
    return zt_fail(reader->manifest->ctx, ZT_EDATA, "%s: not a statement on a model: %s", reader->name, what);
}

static zt_status fail_value(const statement_reader *reader, zt_status status, const char *what, const char *value,
                            const char *expected)
{
    char text[160];
    return zt_fail(reader->manifest->ctx, status, "%s: %s '%s' is not supported, expected %s", reader->name, what,
                   zt_escape(text, sizeof text, value, strlen(value)), expected);
}

static const char *text_member(const json_t *object, const char *member)
{
    return json_string_value(json_object_get(object, member));
}

static zt_status check_kind(const statement_reader *reader, const json_t *statement)
{
    const char *type = text_member(statement, "_type"), *predicate = text_member(statement, "predicateType");
    if (!type) return fail_statement(reader, "_type is not a string");
    if (strcmp(type, STATEMENT) != 0) return fail_value(reader, ZT_EDATA, "_type", type, "'" STATEMENT "'");
    if (!predicate) return fail_statement(reader, "predicateType is not a string");
    if (strcmp(predicate, PREDICATE_V0_2) == 0)
        return fail_value(reader, ZT_ENOTSUP, "predicateType", predicate,
                          "'" PREDICATE "'; sign again with model-signing 1.0 or later");
    return strcmp(predicate, PREDICATE) == 0 ? ZT_OK
                                             : fail_value(reader, ZT_EDATA, "predicateType", predicate, "'" PREDICATE "'");
}

static zt_status read_ignored(const statement_reader *reader, const json_t *list)
{
    zt_status status = ZT_OK;
    if (!list) return ZT_OK;
    if (!json_is_array(list) || json_array_size(list) > MOST_IGNORED)
        return fail_statement(reader, "ignore_paths is not an array of at most 4096 paths");
    for (size_t i = 0; !status && i < json_array_size(list); i++) {
        const char *path = json_string_value(json_array_get(list, i));
        if (!path) return fail_statement(reader, "ignore_paths has an item that is not a string");
        if (strcmp(path, ".") == 0) return fail_statement(reader, "ignore_paths has '.', the whole model");
        /* Others are outside the model, and match nothing. */
        if (zt_manifest_path_valid(path)) status = zt_manifest_ignore(reader->manifest, path, strlen(path));
    }
    return status;
}

static zt_status read_serialization(const statement_reader *reader, const json_t *serialization)
{
    const char *method = text_member(serialization, "method"), *hash = text_member(serialization, "hash_type");
    const json_t *symlinks = json_object_get(serialization, "allow_symlinks");
    if (!method || !hash || !json_is_boolean(symlinks))
        return fail_statement(reader, "serialization lacks method, hash_type or allow_symlinks, or they are of another type");
    if (strcmp(method, "files") != 0) return fail_value(reader, ZT_ENOTSUP, "method", method, "'files'");
    if (strcmp(hash, "sha256") != 0) return fail_value(reader, ZT_ENOTSUP, "hash_type", hash, "'sha256'");
    reader->manifest->symlinks = json_is_true(symlinks);
    return read_ignored(reader, json_object_get(serialization, "ignore_paths"));
}

static zt_status read_resource(const statement_reader *reader, const json_t *resource)
{
    char shown[160];
    uint8_t digest[ZT_DIGEST_BYTES];
    const char *path = text_member(resource, "name"), *algorithm = text_member(resource, "algorithm"),
               *hex = text_member(resource, "digest");
    if (!path || !algorithm || !hex)
        return fail_statement(reader, "a resource lacks name, algorithm or digest, or they are not strings");
    zt_escape(shown, sizeof shown, path, strlen(path));
    if (strcmp(path, ".") != 0 && !zt_manifest_path_valid(path))
        return zt_fail(reader->manifest->ctx, ZT_EDATA, "%s: the name '%s' of a file is not a path inside a model", reader->name,
                       shown);
    if (strcmp(algorithm, "sha256") != 0) return fail_value(reader, ZT_ENOTSUP, "algorithm", algorithm, "'sha256'");
    if (!zt_digest_parse(hex, digest))
        return zt_fail(reader->manifest->ctx, ZT_EDATA, "%s: the digest of '%s' does not have 64 hexadecimal digits",
                       reader->name, shown);
    if (zt_manifest_ignores(reader->manifest, path))
        return zt_fail(reader->manifest->ctx, ZT_EDATA, "%s: '%s' is both signed and ignored", reader->name, shown);
    return zt_manifest_add(reader->manifest, path, digest);
}

/* The subject's digest covers the resources in the order of the file. */
static zt_status check_subject(const statement_reader *reader, const json_t *subjects)
{
    const json_t *subject = json_array_get(subjects, 0);
    const char *name = text_member(subject, "name"), *hex = text_member(json_object_get(subject, "digest"), "sha256");
    uint8_t sum[ZT_DIGEST_BYTES], stated[ZT_DIGEST_BYTES];
    if (json_array_size(subjects) != 1 || !name || !hex || !zt_digest_parse(hex, stated))
        return fail_statement(reader, "subject is not an array of one object with a name and a SHA-256");
    reader->manifest->name = zt_arena_strndup(reader->manifest->texts, name, strlen(name));
    if (!reader->manifest->name) return ZT_ENOMEM;
    zt_status status = hash_digests(reader->manifest, sum);
    if (!status && memcmp(sum, stated, sizeof sum) != 0)
        status = fail_statement(reader, "the subject's SHA-256 is not that of the resources");
    return status;
}

static zt_status check_files(const statement_reader *reader)
{
    const zt_manifest *manifest = reader->manifest;
    char shown[160];
    zt_manifest_sort(reader->manifest);
    if (manifest->count == 0) return fail_statement(reader, "it has no files");
    for (size_t i = 0; i < manifest->count; i++) {
        const char *path = manifest->files[i].path;
        zt_escape(shown, sizeof shown, path, strlen(path));
        if (i && strcmp(path, manifest->files[i - 1].path) == 0)
            return zt_fail(manifest->ctx, ZT_EDATA, "%s: '%s' is signed twice", reader->name, shown);
        if (strcmp(path, ".") == 0 && manifest->count > 1)
            return fail_statement(reader, "'.', the model itself, is one of several files");
    }
    return ZT_OK;
}

/* Before version 1.1 the statement did not name ignored paths, of which git's files were ignored by default. */
static zt_status ignore_unnamed(zt_manifest *manifest)
{
    zt_status status = zt_manifest_ignore_git(manifest);
    for (size_t i = 0; !status && i < manifest->count; i++)
        if (zt_manifest_ignores(manifest, manifest->files[i].path)) manifest->ignored_count = 0, i = manifest->count;
    return status;
}

zt_status zt_statement_read(zt_manifest *manifest, const char *name, const char *text, size_t size)
{
    const statement_reader reader = {manifest, name};
    json_t *statement = zt_json_load(manifest->ctx, name, text, size);
    if (!statement) return zt_ctx_status(manifest->ctx);
    const json_t *predicate = json_object_get(statement, "predicate");
    const json_t *serialization = json_object_get(predicate, "serialization"),
                 *resources = json_object_get(predicate, "resources");
    zt_status status = check_kind(&reader, statement);
    if (!status) status = read_serialization(&reader, serialization);
    if (!status && !json_is_array(resources)) status = fail_statement(&reader, "resources is not an array");
    for (size_t i = 0; !status && i < json_array_size(resources); i++)
        status = read_resource(&reader, json_array_get(resources, i));
    if (!status) status = check_subject(&reader, json_object_get(statement, "subject"));
    if (!status) status = check_files(&reader);
    if (!status && !json_object_get(serialization, "ignore_paths")) status = ignore_unnamed(manifest);
    json_decref(statement);
    return status;
}
