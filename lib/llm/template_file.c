/* template_file.c - a chat template from a JSON file:
 *
 *     {"name": "alpaca", "role_prefixes": {"system": "", "user": "### Instruction:\n", ...},
 *      "role_suffixes": {...}, "global_prefix": "", "global_suffix": ""}
 *
 * The fields of Loom's Template, also by the names that Go gives them (Name, RolePrefixes ...).
 * user and assistant must have a prefix; a system message needs one for system.
 */
#include "lib/base/require.h"
#include "lib/llm/template.h"

#include "lib/io/json.h"

#include <string.h>

/* The file's own limit: templates are short. jansson's memory is bounded by it. */
#define MOST_BYTES (256 << 10)

typedef struct template_reading {
    zt_ctx *ctx;
    const char *path;
    zt_arena *texts;
} template_reading;

static zt_status fail_field(template_reading *reading, const char *key, const char *why)
{
    return zt_fail(reading->ctx, ZT_EDATA, "%s: chat template: \"%s\" %s", reading->path, key, why);
}

/* A text of the template, kept. Control characters would be taken for marks of our own. */
static zt_status keep_text(template_reading *reading, const char *key, const json_t *value, const char **out)
{
    const char *text = json_string_value(value);
    if (!text) return fail_field(reading, key, "is not a string");
    for (const char *byte = text; *byte; byte++)
        if ((unsigned char)*byte < 0x20 && *byte != '\n' && *byte != '\t' && *byte != '\r')
            return fail_field(reading, key, "contains a control character");
    *out = zt_arena_strndup(reading->texts, text, strlen(text));
    return *out ? ZT_OK : zt_ctx_status(reading->ctx);
}

static const json_t *get_member(const json_t *object, const char *key, const char *go_name)
{
    const json_t *value = json_object_get(object, key);
    return value ? value : json_object_get(object, go_name);
}

static zt_status read_text(template_reading *reading, const json_t *object, const char *key, const char *go_name,
                           const char **out)
{
    const json_t *value = get_member(object, key, go_name);
    return value && !json_is_null(value) ? keep_text(reading, key, value, out) : ZT_OK;
}

static zt_status read_roles(template_reading *reading, const json_t *object, const char *key, const char *go_name,
                            const char *out[ZT_ROLES])
{
    const json_t *roles = get_member(object, key, go_name), *value;
    const char *role;
    zt_status status = ZT_OK;
    if (!roles || json_is_null(roles)) return ZT_OK;
    if (!json_is_object(roles)) return fail_field(reading, key, "is not an object");
    json_object_foreach((json_t *)roles, role, value)
    {
        char shown[64];
        int role_index = zt_role_find(role);
        if (status == ZT_OK && role_index < 0)
            status = zt_fail(reading->ctx, ZT_EDATA,
                             "%s: chat template: \"%s\": unknown role '%s': expected system, user or assistant", reading->path,
                             key, zt_escape(shown, sizeof shown, role, strlen(role)));
        if (status == ZT_OK) status = keep_text(reading, key, value, &out[role_index]);
    }
    return status;
}

static zt_status read_fields(template_reading *reading, const json_t *object, zt_template *chat_template)
{
    if (!json_is_object(object))
        return zt_fail(reading->ctx, ZT_EDATA, "%s: a chat template must be a JSON object", reading->path);
    zt_status status = read_text(reading, object, "name", "Name", &chat_template->name);
    if (status == ZT_OK) status = read_roles(reading, object, "role_prefixes", "RolePrefixes", chat_template->prefix);
    if (status == ZT_OK) status = read_roles(reading, object, "role_suffixes", "RoleSuffixes", chat_template->suffix);
    if (status == ZT_OK) status = read_text(reading, object, "global_prefix", "GlobalPrefix", &chat_template->global_prefix);
    if (status == ZT_OK) status = read_text(reading, object, "global_suffix", "GlobalSuffix", &chat_template->global_suffix);
    if (status == ZT_OK && !chat_template->prefix[ZT_ROLE_USER])
        status = fail_field(reading, "role_prefixes", "has no member \"user\"");
    if (status == ZT_OK && !chat_template->prefix[ZT_ROLE_ASSISTANT])
        status = fail_field(reading, "role_prefixes", "has no member \"assistant\"");
    if (!chat_template->name) chat_template->name = "of the file";
    for (int i = 0; i < ZT_ROLES; i++) chat_template->suffix[i] = chat_template->suffix[i] ? chat_template->suffix[i] : "";
    return status;
}

static zt_status parse_template(template_reading *reading, const char *text, size_t size, zt_template *chat_template)
{
    json_error_t error;
    char shown[128];
    json_t *object = zt_json_parse(text, size, 0, &error);
    if (!object)
        return zt_fail(reading->ctx, ZT_EDATA, "%s: line %d: %s", reading->path, error.line,
                       zt_escape(shown, sizeof shown, error.text, strlen(error.text)));
    zt_status status = read_fields(reading, object, chat_template);
    json_decref(object);
    return status;
}

/* Reads the whole file; ZT_EDATA if it is longer than MOST_BYTES. */
static char *read_short(zt_ctx *ctx, const char *path, size_t *size)
{
    zt_source *src = zt_source_open(ctx, path);
    char *text = NULL;
    if (src && zt_source_size(src) > MOST_BYTES)
        zt_fail(ctx, ZT_EDATA, "%s: chat template of %llu bytes, the limit is %d", path, (unsigned long long)zt_source_size(src),
                MOST_BYTES);
    else if (src)
        text = zt_alloc(ctx, *size = (size_t)zt_source_size(src));
    if (text && zt_source_read(src, 0, text, *size) != ZT_OK) {
        zt_free(ctx, text);
        text = NULL;
    }
    zt_source_close(src);
    return text;
}

zt_template *zt_template_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    size_t size = 0;
    template_reading reading = {.ctx = ctx, .path = path};
    char *text = read_short(ctx, path, &size);
    zt_template *chat_template = text ? zt_calloc(ctx, 1, sizeof *chat_template) : NULL;
    if (chat_template) chat_template->owned = reading.texts = zt_arena_new(ctx, 0);
    bool good = reading.texts && parse_template(&reading, text, size, chat_template) == ZT_OK;
    zt_free(ctx, text);
    if (good) return chat_template;
    zt_template_free(ctx, chat_template);
    return NULL;
}

void zt_template_free(zt_ctx *ctx, zt_template *chat_template)
{
    if (!ctx || !chat_template || !chat_template->owned) /* a row of the table of known templates */
        return;
    zt_arena_free(chat_template->owned);
    zt_free(ctx, chat_template);
}
