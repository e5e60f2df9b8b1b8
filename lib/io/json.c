/* json.c - owns reading JSON: whole documents, and objects member by member. */
#include "lib/base/foreign.h"
#include "lib/io/json.h"

#include <stdio.h>
#include <string.h>

enum { MAX_KEY = 65535 }; /* bytes of a member's name, as it is written */

/* ---- whole documents ------------------------------------------------------------------------- */

json_t *zt_json_parse(const char *text, size_t size, size_t flags, json_error_t *error)
{
    json_t *json = json_loadb(text, size, flags | JSON_REJECT_DUPLICATES, error);
    const char *zero_byte = json && size ? memchr(text, 0, size) : NULL;
    if (!zero_byte) return json;
    json_decref(json);
    if (error) {
        *error = (json_error_t){.line = 1, .column = -1, .position = (int)(zero_byte - text)};
        for (const char *cursor = text; cursor < zero_byte; cursor++) error->line += *cursor == '\n';
        snprintf(error->text, sizeof error->text, "zero byte at byte %zu", (size_t)(zero_byte - text));
    }
    return NULL;
}

json_t *zt_json_load(zt_ctx *ctx, const char *file, const char *text, size_t size)
{
    char what[2 * JSON_ERROR_TEXT_LENGTH];
    json_error_t error;
    json_t *json = zt_json_parse(text, size, JSON_DECODE_ANY, &error);
    if (!json && zt_foreign_fail(ctx, file, text, size) == ZT_OK)
        zt_fail(ctx, json_error_code(&error) == json_error_out_of_memory ? ZT_ENOMEM : ZT_EDATA, "%s: JSON, line %d: %s", file,
                error.line, zt_escape(what, sizeof what, error.text, strlen(error.text)));
    return json;
}

json_t *zt_json_file(zt_ctx *ctx, const char *path, size_t max)
{
    zt_source *source = zt_source_open(ctx, path);
    json_t *json = NULL;
    if (!source) return NULL;
    uint64_t size = zt_source_size(source);
    char *text = size <= max ? zt_alloc(ctx, (size_t)size) : NULL;
    if (size > max)
        zt_fail(ctx, ZT_EDATA, "%s: the JSON has %llu bytes: at most %zu are allowed", path, (unsigned long long)size, max);
    if (text && zt_source_read(source, 0, text, (size_t)size) == ZT_OK) json = zt_json_load(ctx, path, text, (size_t)size);
    zt_free(ctx, text);
    zt_source_close(source);
    return json;
}

/* ---- members and items --------------------------------------------------------------------------------- */

typedef struct json_scanner {
    zt_ctx *ctx;
    const char *file;
    const char *begin, *cursor, *end;
} json_scanner;

static zt_status fail_at(const json_scanner *scanner, const char *what)
{
    return zt_fail(scanner->ctx, ZT_EDATA, "%s: JSON, byte %zu: %s", scanner->file, (size_t)(scanner->cursor - scanner->begin),
                   what);
}

static void skip_space(json_scanner *scanner)
{
    while (scanner->cursor < scanner->end &&
           (*scanner->cursor == ' ' || *scanner->cursor == '\n' || *scanner->cursor == '\r' || *scanner->cursor == '\t'))
        scanner->cursor++;
}

/* Is `wanted` next, after white space? Then it is passed. */
static bool skip_character(json_scanner *scanner, char wanted)
{
    skip_space(scanner);
    if (scanner->cursor == scanner->end || *scanner->cursor != wanted) return false;
    scanner->cursor++;
    return true;
}

/* Skips the string that begins at the cursor. */
static bool skip_string(json_scanner *scanner)
{
    for (scanner->cursor++; scanner->cursor < scanner->end; scanner->cursor++) {
        if (*scanner->cursor == '\\')
            scanner->cursor++;
        else if (*scanner->cursor == '"')
            return ++scanner->cursor <= scanner->end;
    }
    scanner->cursor = scanner->end;
    return false;
}

/* Skips the array or object that begins at the cursor, as far as brackets and strings tell. */
static bool skip_nested(json_scanner *scanner)
{
    size_t depth = 0;
    while (scanner->cursor < scanner->end) {
        char character = *scanner->cursor;
        if (character == '"') {
            if (!skip_string(scanner)) return false;
            continue;
        }
        scanner->cursor++;
        if (character == '[' || character == '{')
            depth++;
        else if ((character == ']' || character == '}') && --depth == 0)
            return true;
    }
    return false;
}

/* Skips the value at the cursor, of any kind. */
static bool skip_value(json_scanner *scanner)
{
    if (scanner->cursor == scanner->end) return false;
    if (*scanner->cursor == '"') return skip_string(scanner);
    if (*scanner->cursor == '[' || *scanner->cursor == '{') return skip_nested(scanner);
    const char *begin = scanner->cursor;
    while (scanner->cursor < scanner->end && !strchr(",]} \n\r\t", *scanner->cursor)) scanner->cursor++;
    return scanner->cursor > begin;
}

bool zt_json_is_plain(const char *text, size_t size)
{
    if (size < 2 || text[0] != '"' || text[size - 1] != '"') return false;
    text++;
    size -= 2;
    for (size_t i = 0; i < size;) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t code_point;
        int length = byte < 0x80 ? 1 : zt_utf8_decode(text + i, size - i, &code_point);
        if (byte < 0x20 || byte == '\\' || byte == '"' || length == 0) return false;
        i += (size_t)length;
    }
    return true;
}

zt_status zt_json_string(zt_ctx *ctx, const char *file, const char *text, size_t size, zt_str *out)
{
    if (zt_json_is_plain(text, size)) return zt_str_put(out, text + 1, size - 2);
    json_t *json = zt_json_load(ctx, file, text, size);
    if (!json) return zt_ctx_status(ctx);
    const char *string = json_string_value(json);
    zt_status status =
        string ? zt_str_put(out, string, json_string_length(json)) : zt_fail(ctx, ZT_EDATA, "%s: JSON: expected a string", file);
    json_decref(json);
    return status;
}

static zt_status read_member(json_scanner *scanner, zt_str *key, zt_json_member_fn *fn, void *user)
{
    skip_space(scanner);
    const char *begin = scanner->cursor;
    if (begin == scanner->end || *begin != '"' || !skip_string(scanner) || scanner->cursor - begin > MAX_KEY)
        return fail_at(scanner, "expected a member name shorter than 64 KiB");
    zt_str_clear(key);
    zt_status status = zt_json_string(scanner->ctx, scanner->file, begin, (size_t)(scanner->cursor - begin), key);
    if (status == ZT_OK) status = zt_str_put(key, "", 0); /* there is a zero byte even in an empty one */
    if (status != ZT_OK) return status;
    if (!skip_character(scanner, ':')) return fail_at(scanner, "expected ':'");
    skip_space(scanner);
    begin = scanner->cursor;
    if (!skip_value(scanner)) return fail_at(scanner, "expected a value");
    return fn(user, key->data, begin, (size_t)(scanner->cursor - begin));
}

static zt_status read_members(json_scanner *scanner, zt_str *key, zt_json_member_fn *fn, void *user)
{
    if (!skip_character(scanner, '{')) {
        zt_foreign_fail(scanner->ctx, scanner->file, scanner->begin, (size_t)(scanner->end - scanner->begin));
        return fail_at(scanner, "expected an object");
    }
    if (!skip_character(scanner, '}')) {
        do {
            zt_status status = read_member(scanner, key, fn, user);
            if (status != ZT_OK) return status;
        } while (skip_character(scanner, ','));
        if (!skip_character(scanner, '}')) return fail_at(scanner, "expected ',' or '}'");
    }
    skip_space(scanner);
    return scanner->cursor == scanner->end ? ZT_OK : fail_at(scanner, "unexpected text after the object");
}

zt_status zt_json_members(zt_ctx *ctx, const char *file, const char *text, size_t size, zt_json_member_fn *fn, void *user)
{
    json_scanner scanner = {.ctx = ctx, .file = file, .begin = text, .cursor = text, .end = text + size};
    zt_str key;
    zt_str_init(&key, ctx);
    zt_status status = read_members(&scanner, &key, fn, user);
    zt_str_fini(&key);
    return status;
}

static zt_status read_items(json_scanner *scanner, zt_json_item_fn *fn, void *user)
{
    int64_t i = 0;
    if (!skip_character(scanner, '[')) return fail_at(scanner, "expected an array");
    if (!skip_character(scanner, ']')) {
        do {
            skip_space(scanner);
            const char *begin = scanner->cursor;
            if (!skip_value(scanner)) return fail_at(scanner, "expected a value");
            zt_status status = fn(user, i++, begin, (size_t)(scanner->cursor - begin));
            if (status != ZT_OK) return status;
        } while (skip_character(scanner, ','));
        if (!skip_character(scanner, ']')) return fail_at(scanner, "expected ',' or ']'");
    }
    skip_space(scanner);
    return scanner->cursor == scanner->end ? ZT_OK : fail_at(scanner, "unexpected text after the array");
}

zt_status zt_json_items(zt_ctx *ctx, const char *file, const char *text, size_t size, zt_json_item_fn *fn, void *user)
{
    json_scanner scanner = {.ctx = ctx, .file = file, .begin = text, .cursor = text, .end = text + size};
    return read_items(&scanner, fn, user);
}
