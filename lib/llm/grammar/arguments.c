/* arguments.c - the arguments of a tool call: an object that is valid by the tool's schema, as JSON, or with its properties
 * written in a form of their own:
 *
 *     {"city": "Paris", "days": 2}
 *     <parameter=city>Paris</parameter><parameter=days>2</parameter>
 *     city="Paris", days=2
 *
 * Only the properties that the schema names are written there, in its order; those that are not required may be left out.
 */
#include "lib/llm/grammar/schema.h"

#include <string.h>

/* ---- what is a text ---------------------------------------------------------------------------- */

static bool is_type(const json_t *schema, const char *name)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type && strcmp(type, name) == 0;
}

/* The schema that "$ref" names, if it is all that the schema says; else the schema. */
static const json_t *follow_reference(const json_t *root, const json_t *schema)
{
    enum { MOST_REFERENCES = 8 };
    for (int i = 0; i < MOST_REFERENCES; i++) {
        const char *reference = json_string_value(json_object_get(schema, "$ref")), *key;
        const json_t *target = root, *value;
        if (!reference || reference[0] != '#' || (reference[1] != '/' && reference[1])) return schema;
        json_object_foreach((json_t *)(uintptr_t)schema, key,
                            value) if (strcmp(key, "$ref") != 0 && !zt_s_is_annotation(key)) return schema;
        for (const char *part = reference + 1; *part && target;) {
            char name[256];
            size_t size = strcspn(++part, "/");
            snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), part);
            target = strpbrk(name, "~%") ? NULL : json_object_get(target, name);
            part += size;
        }
        if (!target) return schema;
        schema = target;
    }
    return schema;
}

static bool lists_strings(const json_t *values)
{
    size_t i;
    const json_t *value;
    json_array_foreach(values, i, value) if (!json_is_string(value)) return false;
    return json_array_size(values) > 0;
}

/* ["string", "null"], in either order. */
static bool is_nullable(const json_t *type)
{
    const char *first = json_string_value(json_array_get(type, 0)), *second = json_string_value(json_array_get(type, 1));
    if (json_array_size(type) != 2 || !first || !second) return false;
    return (strcmp(first, "string") == 0 && strcmp(second, "null") == 0) ||
           (strcmp(first, "null") == 0 && strcmp(second, "string") == 0);
}

static bool says(const json_t *schema, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (json_object_get(schema, keys[i])) return true;
    return false;
}

/* Of {"anyOf": [a text, {"type": "null"}]}, the text. NULL: it is something else. */
static const json_t *text_of_choice(const json_t *root, const json_t *schema)
{
    const json_t *branches = json_object_get(schema, "anyOf"), *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)schema, key,
                        value) if (strcmp(key, "anyOf") != 0 && !zt_s_is_annotation(key)) return NULL;
    if (json_array_size(branches) != 2) return NULL;
    for (size_t i = 0; i < 2; i++) {
        const json_t *other = json_array_get(branches, 1 - i);
        if (is_type(other, "null") && zt_g_text_kind(root, json_array_get(branches, i)) == G_ALWAYS_TEXT)
            return json_array_get(branches, i);
    }
    return NULL;
}

gtext_kind zt_g_text_kind(const json_t *root, const json_t *schema)
{
    static const char *const combined[] = {"$ref", "allOf", "anyOf", "oneOf"};
    schema = follow_reference(root, schema);
    if (!json_is_object(schema)) return G_NOT_TEXT;
    if (text_of_choice(root, schema)) return G_TEXT_OR_NULL;
    if (says(schema, combined, 4)) return G_NOT_TEXT;
    const json_t *type = json_object_get(schema, "type"), *constant = json_object_get(schema, "const");
    if (is_type(schema, "string")) return json_is_true(json_object_get(schema, "nullable")) ? G_TEXT_OR_NULL : G_ALWAYS_TEXT;
    if (is_nullable(type)) return G_TEXT_OR_NULL;
    bool text = !type && (constant ? json_is_string(constant) : lists_strings(json_object_get(schema, "enum")));
    return text ? G_ALWAYS_TEXT : G_NOT_TEXT;
}

/* ---- one property ------------------------------------------------------------------------------ */

typedef struct argument_reader {
    sreader *reader;
    const garguments *form;
} argument_reader;

/* A text of the form in which ~ is white space, and all else marks. */
static gexpr *name_types(gbuilder *builder)
{
    static const char *const types[] = {"number", "boolean", "object", "array", "null"};
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    for (size_t i = 0; choice && i < sizeof types / sizeof *types; i++)
        choice = zt_g_add(builder, choice, zt_g_literal(builder, types[i]));
    return choice;
}

static gexpr *read_marks(gbuilder *builder, const char *text)
{
    gexpr *list = zt_g_list(builder, G_SEQUENCE);
    while (list && text && *text) {
        size_t size = strcspn(text, "~%");
        if (size) list = zt_g_add(builder, list, zt_g_mark(builder, text, size));
        text += size;
        if (!list || !*text) break;
        list = zt_g_add(builder, list, *text == '~' ? zt_g_gap(builder) : name_types(builder));
        text++;
    }
    return list;
}

/* The string schema of a text that may be null. */
static const json_t *without_null(sreader *reader, const json_t *schema)
{
    const json_t *branch = text_of_choice(reader->root, schema);
    json_t *copy = branch ? NULL : json_copy((json_t *)(uintptr_t)schema), *values = json_object_get(copy, "enum");
    if (branch) return zt_s_expand(reader, branch);
    json_t *strings = values ? json_array() : NULL, *value;
    size_t i;
    json_array_foreach(values, i, value) if (json_is_string(value)) json_array_append(strings, value);
    if (copy && json_object_set_new(copy, "type", json_string("string")) == 0 &&
        (!strings || json_object_set_new(copy, "enum", strings) == 0)) {
        json_object_del(copy, "nullable");
        const json_t *kept = zt_s_keep(reader, copy);
        return kept ? zt_s_expand(reader, kept) : NULL;
    }
    json_decref(copy);
    return zt_g_fail(reader->builder, "no memory for a schema");
}

/* A text, up to the end of the property and behind it. */
static gexpr *read_raw(argument_reader *arguments, const json_t *schema, gtext_kind kind)
{
    sreader *reader = arguments->reader;
    gbuilder *builder = reader->builder;
    const garguments *form = arguments->form;
    schema = follow_reference(reader->root, schema);
    const json_t *text = kind == G_ALWAYS_TEXT ? zt_s_expand(reader, schema) : without_null(reader, schema);
    if (!text) return NULL;
    static const char *const bounds[] = {"enum", "pattern", "format", "minLength", "maxLength"};
    bool bounded = says(text, bounds, sizeof bounds / sizeof *bounds);
    gexpr *after = zt_g_as_rule(builder, read_marks(builder, form->after)), *end = read_marks(builder, form->end);
    gexpr *line = zt_g_literal(builder, bounded || (form->wrap && *form->wrap) ? "\n" : "");
    /* the reader drops a line end on both sides: with it, the text is exactly what is written */
    char lined[160];
    snprintf(lined, sizeof lined, "%s%s", bounded ? "\n" : "", form->end);
    gexpr *raw = zt_s_raw(reader, text, lined, form->never, after);
    if (kind == G_TEXT_OR_NULL)
        raw = ZT_G_CHOICE(builder, raw, ZT_G_SEQUENCE(builder, zt_g_literal(builder, "null"), line, end, after));
    return ZT_G_SEQUENCE(builder, read_marks(builder, form->text), line, raw);
}

static gexpr *read_property(argument_reader *arguments, const char *name, const json_t *schema)
{
    sreader *reader = arguments->reader;
    gbuilder *builder = reader->builder;
    const garguments *form = arguments->form;
    gtext_kind kind = form->raw ? zt_g_text_kind(reader->root, schema) : G_NOT_TEXT;
    char shown[80];
    size_t size = strlen(name);
    gexpr *key = form->dialect && form->dialect->bare_keys ? zt_s_key(reader, name, size) : zt_g_text(builder, name, size);
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != size || !size)
        return zt_s_fail(reader, "the property '%s' cannot be written in this form of tool calls",
                         zt_escape(shown, sizeof shown, name, size));
    gexpr *value;
    if (kind == G_NOT_TEXT) {
        gexpr *json = zt_s_schema(reader, schema, "properties", name), *wrap = read_marks(builder, form->wrap);
        value = ZT_G_SEQUENCE(builder, read_marks(builder, form->other), wrap, json, wrap, read_marks(builder, form->end),
                              read_marks(builder, form->after));
    } else {
        size_t length = reader->path.len;
        zt_str_printf(&reader->path, "/properties/%.100s", name);
        value = read_raw(arguments, schema, kind);
        reader->path.len = length;
    }
    return ZT_G_SEQUENCE(builder, read_marks(builder, form->begin), key, value);
}

/* ---- all of them ------------------------------------------------------------------------------- */

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *required = json_object_get(schema, "required"), *value;
    size_t i;
    json_array_foreach(required, i, value)
    {
        const char *text = json_string_value(value);
        if (text && strcmp(text, name) == 0) return true;
    }
    return false;
}

/* Keywords that say more of the object than its properties. */
static bool check_object(const sreader *reader, const json_t *schema)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties"};
    const char *key;
    const json_t *value, *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k], key) != 0) k++;
        if (k == sizeof known / sizeof *known)
            return zt_s_refuse(reader, key, "for all arguments together, in this form of tool calls"), false;
    }
    if (properties && !json_is_object(properties)) return zt_s_fail(reader, "\"properties\" is not an object"), false;
    if (required && !json_is_array(required)) return zt_s_fail(reader, "\"required\" is not an array of names"), false;
    json_array_foreach(required, i, value)
    {
        const char *name = json_string_value(value);
        if (!name) return zt_s_fail(reader, "\"required\" is not an array of names"), false;
        if (!json_object_get(properties, name))
            return zt_s_fail(reader, "\"required\" names '%.60s', which \"properties\" does not have", name), false;
    }
    return true;
}

/* The properties from the last to the first: what may come from one on, before and behind a separator. */
static gexpr *list_properties(argument_reader *arguments, const json_t *schema)
{
    sreader *reader = arguments->reader;
    gbuilder *builder = reader->builder;
    const json_t *properties = json_object_get(schema, "properties"), *value;
    const char *name;
    size_t count = 0, size = json_object_size(properties);
    gexpr **pair = zt_alloc_array(builder->ctx, size + 1, sizeof *pair);
    bool *required = zt_alloc_array(builder->ctx, size + 1, sizeof *required);
    gexpr *first = zt_g_literal(builder, ""), *later = first;
    if (!pair || !required) first = NULL;
    json_object_foreach((json_t *)(uintptr_t)properties, name, value)
    {
        if (!first) break;
        required[count] = is_required(schema, name);
        if (json_is_false(value) && !required[count]) continue;
        pair[count] = zt_g_as_rule(builder, read_property(arguments, name, value));
        if (!pair[count++]) first = NULL;
    }
    for (size_t i = count; first && later && i-- > 0;) {
        gexpr *separator = read_marks(builder, arguments->form->separator);
        later = zt_g_as_rule(builder, later);
        gexpr *here = ZT_G_SEQUENCE(builder, pair[i], later), *behind = ZT_G_SEQUENCE(builder, separator, pair[i], later);
        first = required[i] ? here : ZT_G_CHOICE(builder, here, zt_g_as_rule(builder, first));
        later = required[i] ? behind : ZT_G_CHOICE(builder, behind, later);
    }
    zt_free(builder->ctx, pair);
    zt_free(builder->ctx, required);
    return later ? first : NULL;
}

gexpr *zt_g_arguments(gbuilder *builder, const json_t *schema, const garguments *form)
{
    sreader reader;
    argument_reader arguments = {.reader = &reader, .form = form};
    gexpr *expr = NULL;
    json_t *object = json_pack("{ss}", "type", "object");
    if (zt_s_open(&reader, builder, schema, form && form->dialect ? form->dialect : &zt_s_json)) {
        const json_t *kept = zt_s_keep(&reader, object), *merged = kept ? zt_s_merge(&reader, kept, schema) : NULL;
        int types = json_is_object(merged) ? zt_s_types(&reader, merged) : 0;
        if (merged && types >= 0 && !(types & 1 << S_OBJECT))
            expr = zt_s_fail(&reader, "not a schema of objects, which arguments are");
        else if (merged && !form)
            expr = zt_s_schema(&reader, merged, NULL, NULL);
        else if (merged && check_object(&reader, merged))
            expr = list_properties(&arguments, merged);
    } else {
        json_decref(object);
    }
    if (zt_ctx_status(builder->ctx) != ZT_OK) expr = NULL;
    zt_s_close(&reader);
    return expr;
}
