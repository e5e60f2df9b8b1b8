/* json.c - owns reading JSON: whole documents, and objects member by member. */
#include "lib/base/foreign.h"
#include "lib/io/json.h"

#include <stdio.h>
#include <string.h>

enum { MAX_KEY = 65535 }; /* bytes of a member's name, as it is written */

/* ---- whole documents ------------------------------------------------------------------------- */

json_t *zt_json_parse(const char *text, size_t n, size_t flags, json_error_t *e)
{
    json_t *j = json_loadb(text, n, flags | JSON_REJECT_DUPLICATES, e);
    const char *zero = j && n ? memchr(text, 0, n) : NULL;
    if (!zero)
        return j;
    json_decref(j);
    if (e) {
        *e = (json_error_t){.line = 1, .column = -1, .position = (int)(zero - text)};
        for (const char *p = text; p < zero; p++)
            e->line += *p == '\n';
        snprintf(e->text, sizeof e->text, "a zero byte at byte %zu", (size_t)(zero - text));
    }
    return NULL;
}

json_t *zt_json_load(zt_ctx *ctx, const char *file, const char *text, size_t n)
{
    char what[2 * JSON_ERROR_TEXT_LENGTH];
    json_error_t e;
    json_t *j = zt_json_parse(text, n, JSON_DECODE_ANY, &e);
    if (!j && zt_foreign_fail(ctx, file, text, n) == ZT_OK)
        zt_fail(ctx, json_error_code(&e) == json_error_out_of_memory ? ZT_ENOMEM : ZT_EDATA,
                "%s: JSON, line %d: %s", file, e.line,
                zt_escape(what, sizeof what, e.text, strlen(e.text)));
    return j;
}

json_t *zt_json_file(zt_ctx *ctx, const char *path, size_t max)
{
    zt_source *s = zt_source_open(ctx, path);
    json_t *j = NULL;
    if (!s)
        return NULL;
    uint64_t n = zt_source_size(s);
    char *text = n <= max ? zt_alloc(ctx, (size_t)n) : NULL;
    if (n > max)
        zt_fail(ctx, ZT_EDATA, "%s: %llu bytes of JSON, %zu are allowed", path,
                (unsigned long long)n, max);
    if (text && zt_source_read(s, 0, text, (size_t)n) == ZT_OK)
        j = zt_json_load(ctx, path, text, (size_t)n);
    zt_free(ctx, text);
    zt_source_close(s);
    return j;
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct walker {
    zt_ctx *ctx;
    const char *file;
    const char *begin, *p, *end;
} walker;

static zt_status bad(const walker *w, const char *what)
{
    return zt_fail(w->ctx, ZT_EDATA, "%s: JSON, byte %zu: %s", w->file, (size_t)(w->p - w->begin),
                   what);
}

static void skip_space(walker *w)
{
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\n' || *w->p == '\r' || *w->p == '\t'))
        w->p++;
}

/* Is c next, after white space? Then it is passed. */
static bool take(walker *w, char c)
{
    skip_space(w);
    if (w->p == w->end || *w->p != c)
        return false;
    w->p++;
    return true;
}

/* Past the string that begins at p. */
static bool skip_string(walker *w)
{
    for (w->p++; w->p < w->end; w->p++) {
        if (*w->p == '\\')
            w->p++;
        else if (*w->p == '"')
            return ++w->p <= w->end;
    }
    w->p = w->end;
    return false;
}

/* Past the array or object that begins at p, as far as brackets and strings tell. */
static bool skip_nested(walker *w)
{
    size_t depth = 0;
    while (w->p < w->end) {
        char c = *w->p;
        if (c == '"') {
            if (!skip_string(w))
                return false;
            continue;
        }
        w->p++;
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            return true;
    }
    return false;
}

/* The text of the value at p, of any sort. */
static bool skip_value(walker *w)
{
    if (w->p == w->end)
        return false;
    if (*w->p == '"')
        return skip_string(w);
    if (*w->p == '[' || *w->p == '{')
        return skip_nested(w);
    const char *from = w->p;
    while (w->p < w->end && !strchr(",]} \n\r\t", *w->p))
        w->p++;
    return w->p > from;
}

bool zt_json_is_plain(const char *s, size_t n)
{
    if (n < 2 || s[0] != '"' || s[n - 1] != '"')
        return false;
    s++;
    n -= 2;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        uint32_t cp;
        int len = c < 0x80 ? 1 : zt_utf8_decode(s + i, n - i, &cp);
        if (c < 0x20 || c == '\\' || c == '"' || len == 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

zt_status zt_json_string(zt_ctx *ctx, const char *file, const char *text, size_t n, zt_str *out)
{
    if (zt_json_is_plain(text, n))
        return zt_str_put(out, text + 1, n - 2);
    json_t *j = zt_json_load(ctx, file, text, n);
    if (!j)
        return zt_ctx_status(ctx);
    const char *s = json_string_value(j);
    zt_status st = s ? zt_str_put(out, s, json_string_length(j))
                     : zt_fail(ctx, ZT_EDATA, "%s: JSON: a string expected", file);
    json_decref(j);
    return st;
}

static zt_status member(walker *w, zt_str *key, zt_json_member_fn *fn, void *user)
{
    skip_space(w);
    const char *from = w->p;
    if (from == w->end || *from != '"' || !skip_string(w) || w->p - from > MAX_KEY)
        return bad(w, "a member's name expected, of less than 64 KiB");
    zt_str_clear(key);
    zt_status s = zt_json_string(w->ctx, w->file, from, (size_t)(w->p - from), key);
    if (s == ZT_OK)
        s = zt_str_put(key, "", 0); /* there is a zero byte even in an empty one */
    if (s != ZT_OK)
        return s;
    if (!take(w, ':'))
        return bad(w, "':' expected");
    skip_space(w);
    from = w->p;
    if (!skip_value(w))
        return bad(w, "a value expected");
    return fn(user, key->data, from, (size_t)(w->p - from));
}

static zt_status members(walker *w, zt_str *key, zt_json_member_fn *fn, void *user)
{
    if (!take(w, '{')) {
        zt_foreign_fail(w->ctx, w->file, w->begin, (size_t)(w->end - w->begin));
        return bad(w, "an object expected");
    }
    if (!take(w, '}')) {
        do {
            zt_status s = member(w, key, fn, user);
            if (s != ZT_OK)
                return s;
        } while (take(w, ','));
        if (!take(w, '}'))
            return bad(w, "',' or '}' expected");
    }
    skip_space(w);
    return w->p == w->end ? ZT_OK : bad(w, "nothing more expected after the object");
}

zt_status zt_json_members(zt_ctx *ctx, const char *file, const char *text, size_t n,
                          zt_json_member_fn *fn, void *user)
{
    walker w = {.ctx = ctx, .file = file, .begin = text, .p = text, .end = text + n};
    zt_str key;
    zt_str_init(&key, ctx);
    zt_status s = members(&w, &key, fn, user);
    zt_str_fini(&key);
    return s;
}

static zt_status items(walker *w, zt_json_item_fn *fn, void *user)
{
    int64_t i = 0;
    if (!take(w, '['))
        return bad(w, "an array expected");
    if (!take(w, ']')) {
        do {
            skip_space(w);
            const char *from = w->p;
            if (!skip_value(w))
                return bad(w, "a value expected");
            zt_status s = fn(user, i++, from, (size_t)(w->p - from));
            if (s != ZT_OK)
                return s;
        } while (take(w, ','));
        if (!take(w, ']'))
            return bad(w, "',' or ']' expected");
    }
    skip_space(w);
    return w->p == w->end ? ZT_OK : bad(w, "nothing more expected after the array");
}

zt_status zt_json_items(zt_ctx *ctx, const char *file, const char *text, size_t n,
                        zt_json_item_fn *fn, void *user)
{
    walker w = {.ctx = ctx, .file = file, .begin = text, .p = text, .end = text + n};
    return items(&w, fn, user);
}
