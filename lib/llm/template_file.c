/* template_file.c - a chat template from a JSON file:
 *
 *     {"name": "alpaca", "role_prefixes": {"system": "", "user": "### Instruction:\n", ...},
 *      "role_suffixes": {...}, "global_prefix": "", "global_suffix": ""}
 *
 * The fields of Loom's Template, also by the names that Go gives them (Name, RolePrefixes ...).
 * user and assistant must have a prefix; a system message needs one for system.
 */
#include "lib/llm/template.h"

#include "lib/io/json.h"

#include <string.h>

/* The file's own limit: templates are short. jansson's memory is bounded by it. */
#define MOST_BYTES (256 << 10)

typedef struct reading {
    zt_ctx *ctx;
    const char *path;
    zt_arena *texts;
} reading;

static zt_status wrong(reading *r, const char *key, const char *why)
{
    return zt_fail(r->ctx, ZT_EDATA, "%s: chat template: \"%s\" %s", r->path, key, why);
}

/* A text of the template, kept. Control characters would be taken for marks of our own. */
static zt_status keep_text(reading *r, const char *key, const json_t *value, const char **out)
{
    const char *text = json_string_value(value);
    if (!text)
        return wrong(r, key, "is not a string");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t' && *c != '\r')
            return wrong(r, key, "holds a control character");
    *out = zt_arena_strndup(r->texts, text, strlen(text));
    return *out ? ZT_OK : zt_ctx_status(r->ctx);
}

static const json_t *member(const json_t *o, const char *key, const char *go)
{
    const json_t *value = json_object_get(o, key);
    return value ? value : json_object_get(o, go);
}

static zt_status read_text(reading *r, const json_t *o, const char *key, const char *go,
                           const char **out)
{
    const json_t *value = member(o, key, go);
    return value && !json_is_null(value) ? keep_text(r, key, value, out) : ZT_OK;
}

static zt_status read_roles(reading *r, const json_t *o, const char *key, const char *go,
                            const char *out[ZT_ROLES])
{
    const json_t *roles = member(o, key, go), *value;
    const char *role;
    zt_status s = ZT_OK;
    if (!roles || json_is_null(roles))
        return ZT_OK;
    if (!json_is_object(roles))
        return wrong(r, key, "is not an object");
    json_object_foreach((json_t *)roles, role, value) {
        char shown[64];
        int k = zt_role_find(role);
        if (s == ZT_OK && k < 0)
            s = zt_fail(r->ctx, ZT_EDATA,
                        "%s: chat template: \"%s\": '%s' is none of system, user, assistant",
                        r->path, key, zt_escape(shown, sizeof shown, role, strlen(role)));
        if (s == ZT_OK)
            s = keep_text(r, key, value, &out[k]);
    }
    return s;
}

static zt_status read_fields(reading *r, const json_t *o, zt_template *t)
{
    if (!json_is_object(o))
        return zt_fail(r->ctx, ZT_EDATA, "%s: a chat template is a JSON object", r->path);
    zt_status s = read_text(r, o, "name", "Name", &t->name);
    if (s == ZT_OK)
        s = read_roles(r, o, "role_prefixes", "RolePrefixes", t->prefix);
    if (s == ZT_OK)
        s = read_roles(r, o, "role_suffixes", "RoleSuffixes", t->suffix);
    if (s == ZT_OK)
        s = read_text(r, o, "global_prefix", "GlobalPrefix", &t->global_prefix);
    if (s == ZT_OK)
        s = read_text(r, o, "global_suffix", "GlobalSuffix", &t->global_suffix);
    if (s == ZT_OK && !t->prefix[ZT_ROLE_USER])
        s = wrong(r, "role_prefixes", "has no user");
    if (s == ZT_OK && !t->prefix[ZT_ROLE_ASSISTANT])
        s = wrong(r, "role_prefixes", "has no assistant");
    if (!t->name)
        t->name = "of the file";
    for (int i = 0; i < ZT_ROLES; i++)
        t->suffix[i] = t->suffix[i] ? t->suffix[i] : "";
    return s;
}

static zt_status parse(reading *r, const char *text, size_t n, zt_template *t)
{
    json_error_t e;
    char shown[128];
    json_t *o = zt_json_parse(text, n, 0, &e);
    if (!o)
        return zt_fail(r->ctx, ZT_EDATA, "%s: line %d: %s", r->path, e.line,
                       zt_escape(shown, sizeof shown, e.text, strlen(e.text)));
    zt_status s = read_fields(r, o, t);
    json_decref(o);
    return s;
}

/* Whole, unless it is too long to be one. */
static char *read_short(zt_ctx *ctx, const char *path, size_t *n)
{
    zt_source *src = zt_source_open(ctx, path);
    char *text = NULL;
    if (src && zt_source_size(src) > MOST_BYTES)
        zt_fail(ctx, ZT_EDATA, "%s: %llu bytes: a chat template has %d at most", path,
                (unsigned long long)zt_source_size(src), MOST_BYTES);
    else if (src)
        text = zt_alloc(ctx, *n = (size_t)zt_source_size(src));
    if (text && zt_source_read(src, 0, text, *n) != ZT_OK) {
        zt_free(ctx, text);
        text = NULL;
    }
    zt_source_close(src);
    return text;
}

zt_template *zt_template_open(zt_ctx *ctx, const char *path)
{
    size_t n = 0;
    reading r = {.ctx = ctx, .path = path};
    char *text = read_short(ctx, path, &n);
    zt_template *t = text ? zt_calloc(ctx, 1, sizeof *t) : NULL;
    if (t)
        t->owned = r.texts = zt_arena_new(ctx, 0);
    bool good = r.texts && parse(&r, text, n, t) == ZT_OK;
    zt_free(ctx, text);
    if (good)
        return t;
    zt_template_free(ctx, t);
    return NULL;
}

void zt_template_free(zt_ctx *ctx, zt_template *t)
{
    if (t)
        zt_arena_free(t->owned);
    zt_free(ctx, t);
}
