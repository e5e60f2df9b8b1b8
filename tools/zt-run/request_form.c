/* request_form.c - what a request holds its answer to: "response_format" as in OpenAI's API, or by the name of an option. */
#include "tools/zt-run/request.h"

#include <string.h>

/* Beside tools, "response_format" is about an answer that does not call one: run_reply_begin holds it to both. */
static zt_status hold_to_one(run_request *request, const char *form, const zt_grammar_part *part)
{
    if (request->beside.tools && request->form[FORM_RESPONSE_FORMAT]) {
        request->content = *part;
        request->beside.calls.content = &request->content;
        return ZT_OK;
    }
    return run_hold_to(&request->run, form, part, 1);
}

static zt_status hold_to_schema(run_request *request, const char *member, const json_t *schema)
{
    zt_ctx *ctx = request->run.ctx;
    if (!json_is_object(schema) && !json_is_boolean(schema)) return request_refuse(ctx, member, schema, "a JSON Schema");
    char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) return zt_fail(ctx, ZT_ENOMEM, "no memory for a JSON Schema");
    zt_grammar_part part = {.kind = ZT_GRAMMAR_SCHEMA, .name = member, .text = {text, strlen(text)}, .schema = schema};
    request->content_text = text;
    return hold_to_one(request, "json_schema", &part);
}

static zt_status hold_to_text(run_request *request, const char *member, const json_t *value, zt_grammar_kind kind)
{
    if (!json_is_string(value)) return request_refuse(request->run.ctx, member, value, "a text");
    zt_bytes text = {json_string_value(value), json_string_length(value)};
    return hold_to_one(request, member, &(zt_grammar_part){.kind = kind, .name = member, .text = text});
}

static zt_status hold_to_choices(run_request *request, const json_t *value)
{
    size_t count = json_array_size(value), i;
    bool fits = count > 0;
    const json_t *item;
    json_array_foreach(value, i, item) fits = fits && json_is_string(item);
    if (!fits) return request_refuse(request->run.ctx, "choices", value, "an array of texts");
    zt_grammar_part *parts = zt_calloc(request->run.ctx, count, sizeof *parts);
    if (!parts) return ZT_ENOMEM;
    json_array_foreach(value, i, item) parts[i] = (zt_grammar_part){.kind = ZT_GRAMMAR_TEXT,
                                                                    .name = "choices",
                                                                    .text = {json_string_value(item), json_string_length(item)},
                                                                    .alternative = true};
    zt_status status = run_hold_to(&request->run, "choices", parts, count);
    zt_free(request->run.ctx, parts);
    return status;
}

/* Members of an object, by name; another one is an error. */
typedef struct known_member {
    const char *name;
    const json_t **value;
} known_member;

static zt_status read_known(zt_ctx *ctx, const char *of, const json_t *object, const known_member *known, size_t count)
{
    const char *key, *names[4];
    const json_t *value;
    if (!json_is_object(object)) return request_refuse(ctx, of, object, "an object");
    for (size_t i = 0; i < count; i++) names[i] = known[i].name;
    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(known[i].name, key) != 0) i++;
        if (i == count) return request_unknown(ctx, key, names, count);
        *known[i].value = value;
    }
    return ZT_OK;
}

/* {"type":"text"}, {"type":"json_object"}, or {"type":"json_schema","json_schema":{"name","schema","strict"}}. What "strict" says
 * changes nothing: an answer is always held to the schema. */
static zt_status hold_to_format(run_request *request, const json_t *format)
{
    zt_ctx *ctx = request->run.ctx;
    const json_t *type = NULL, *wrapped = NULL, *schema = NULL, *unused = NULL;
    const known_member outer[] = {{"type", &type}, {"json_schema", &wrapped}};
    const known_member inner[] = {{"name", &unused}, {"description", &unused}, {"strict", &unused}, {"schema", &schema}};
    zt_status status = read_known(ctx, "response_format", format, outer, 2);
    if (status != ZT_OK) return status;
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    if (strcmp(name, "text") == 0) return ZT_OK;
    if (strcmp(name, "json_object") == 0) return hold_to_one(request, "json_object", &(zt_grammar_part){.kind = ZT_GRAMMAR_JSON});
    if (strcmp(name, "json_schema") != 0)
        return request_refuse(ctx, "response_format", format, "of the type \"text\", \"json_object\" or \"json_schema\"");
    if (!wrapped) return request_refuse(ctx, "json_schema", NULL, "an object with \"name\" and \"schema\"");
    status = read_known(ctx, "json_schema", wrapped, inner, 4);
    if (status == ZT_OK && !schema) return request_refuse(ctx, "schema", NULL, "a JSON Schema");
    return status == ZT_OK ? hold_to_schema(request, "schema", schema) : status;
}

zt_status request_hold(run_request *request)
{
    static const char *const names[REQUEST_FORMS] = {"response_format", "json_schema", "grammar", "choices", "regex"};
    const json_t *value = NULL;
    int form = REQUEST_FORMS;
    for (int i = 0; i < REQUEST_FORMS; i++) {
        if (!request->form[i]) continue;
        if (value) return zt_fail(request->run.ctx, ZT_EDATA, "\"%s\" and \"%s\" exclude each other", names[form], names[i]);
        value = request->form[i];
        form = i;
    }
    switch (form) {
    case FORM_RESPONSE_FORMAT: return hold_to_format(request, value);
    case FORM_JSON_SCHEMA: return hold_to_schema(request, names[form], value);
    case FORM_GRAMMAR: return hold_to_text(request, names[form], value, ZT_GRAMMAR_GBNF);
    case FORM_REGEX: return hold_to_text(request, names[form], value, ZT_GRAMMAR_REGEX);
    case FORM_CHOICES: return hold_to_choices(request, value);
    default: return run_hold_to_options(&request->run);
    }
}
