/* schema.c - JSON Schema: which keywords there are, references, and what a schema's values are. */
#include "lib/llm/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

static const char *const type_names[S_TYPES] = {"null", "boolean", "integer", "number", "string", "array", "object"};

/* ---- messages -------------------------------------------------------------------------------- */

void *zt_s_fail(const sreader *reader, const char *format, ...)
{
    char message[320], path[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    zt_escape(path, sizeof path, reader->path.data ? reader->path.data : "", reader->path.len);
    return zt_g_fail(reader->builder, "#%s: %s", path, message);
}

void *zt_s_refuse(const sreader *reader, const char *key, const char *why)
{
    char shown[64];
    zt_escape(shown, sizeof shown, key, strlen(key));
    return zt_s_fail(reader, "\"%s\" is not supported%s%s", shown, why ? ": " : "", why ? why : "");
}

/* ---- keywords -------------------------------------------------------------------------------- */

bool zt_s_is_annotation(const char *key)
{
    static const char *const names[] = {"$schema", "$id",        "$comment", "$defs",    "definitions", "title",  "description",
                                        "default", "deprecated", "examples", "readOnly", "writeOnly",   "$anchor"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key, names[i]) == 0) return true;
    return strncmp(key, "x-", 2) == 0;
}

bool zt_s_check_keywords(const sreader *reader, const json_t *schema)
{
    static const char *const names[] = {"$ref",
                                        "allOf",
                                        "anyOf",
                                        "oneOf",
                                        "type",
                                        "nullable",
                                        "const",
                                        "enum",
                                        "minLength",
                                        "maxLength",
                                        "pattern",
                                        "format",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "patternProperties",
                                        "minProperties",
                                        "maxProperties",
                                        "items",
                                        "prefixItems",
                                        "minItems",
                                        "maxItems",
                                        "uniqueItems"};
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)schema, key, value)
    {
        size_t i = 0;
        while (i < sizeof names / sizeof *names && strcmp(key, names[i]) != 0) i++;
        if (i == sizeof names / sizeof *names && !zt_s_is_annotation(key)) return zt_s_refuse(reader, key, NULL), false;
    }
    return true;
}

int zt_s_types(const sreader *reader, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    int types = type ? 0 : S_ALL_TYPES;
    size_t count = json_is_array(type) ? json_array_size(type) : type ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);
        int found = 0;
        while (found < S_TYPES && !(name && strcmp(name, type_names[found]) == 0)) found++;
        if (found == S_TYPES) return zt_s_fail(reader, "\"type\" is not one of the names of types"), -1;
        types |= 1 << found;
    }
    return types;
}

int64_t zt_s_count(const sreader *reader, const json_t *schema, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(schema, key);
    if (!value) return fallback;
    double number = json_number_value(value);
    if (json_is_number(value) && number >= 0 && number == (double)(int64_t)number && number <= MOST_REPEATS)
        return (int64_t)number;
    zt_s_fail(reader, "\"%s\" is not a whole number from 0 to %d", key, MOST_REPEATS);
    return -2;
}

/* ---- choices --------------------------------------------------------------------------------- */

static json_t *without(const json_t *schema, const char *key)
{
    json_t *copy = json_copy((json_t *)schema);
    if (copy) json_object_del(copy, key);
    return copy;
}

/* May a value fit two of the schemas? */
static bool check_disjoint(sreader *reader, const json_t *const *branches, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            if (zt_s_disjoint(reader, branches[i], branches[j], 0)) continue;
            if (zt_ctx_status(reader->builder->ctx) == ZT_OK)
                zt_s_fail(reader,
                          "\"oneOf\" is not supported where a value may fit two of the schemas, here %d and %d: see anyOf",
                          (int)j, (int)i);
            return false;
        }
    return true;
}

/* Each branch of anyOf or oneOf, together with what stands beside it. */
static gexpr *read_branches(sreader *reader, const json_t *schema, const char *key)
{
    const json_t *listed = json_object_get(schema, key), *rest = zt_s_keep(reader, without(schema, key));
    size_t count = json_array_size(listed);
    if (count == 0 || !rest) return zt_s_fail(reader, "\"%s\" is not an array of schemas", key);
    const json_t **branches = zt_alloc_array(reader->builder->ctx, count, sizeof *branches);
    gexpr *choice = branches ? zt_g_list(reader->builder, G_CHOICE) : NULL;
    for (size_t i = 0; choice && i < count; i++) {
        branches[i] = json_array_get(listed, i);
        if (json_object_size(rest)) branches[i] = zt_s_merge(reader, rest, branches[i]);
        if (!branches[i]) choice = NULL;
    }
    if (choice && strcmp(key, "oneOf") == 0 && !check_disjoint(reader, branches, count)) choice = NULL;
    for (size_t i = 0; choice && i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", (int)i);
        choice = zt_g_add(reader->builder, choice, zt_s_schema(reader, branches[i], key, name));
    }
    zt_free(reader->builder->ctx, branches);
    return choice;
}

static gexpr *read_types(sreader *reader, const json_t *schema)
{
    int types = zt_s_types(reader, schema);
    gexpr *choice = zt_g_list(reader->builder, G_CHOICE);
    if (types < 0) return NULL;
    if (types & 1 << S_NUMBER) types &= ~(1 << S_INTEGER);
    for (int type = 0; type < S_TYPES; type++) {
        gexpr *expr = NULL;
        if (!(types & 1 << type)) continue;
        switch ((stype)type) {
        case S_NULL: expr = zt_s_word(reader, S_WORD_NULL); break;
        case S_BOOLEAN:
            expr = ZT_G_CHOICE(reader->builder, zt_s_word(reader, S_WORD_TRUE), zt_s_word(reader, S_WORD_FALSE));
            break;
        case S_INTEGER: expr = zt_s_number(reader, schema, true); break;
        case S_NUMBER: expr = zt_s_number(reader, schema, false); break;
        case S_STRING: expr = zt_s_string(reader, schema); break;
        case S_ARRAY: expr = zt_s_array(reader, schema); break;
        default: expr = zt_s_object(reader, schema);
        }
        choice = zt_g_add(reader->builder, choice, expr);
    }
    return choice;
}

/* The rule of a schema that a $ref names: made once, so that schemas may be recursive. */
static gexpr *call_reference(sreader *reader, const char *reference)
{
    const json_t *target = zt_s_find(reader, reference);
    int64_t rule;
    if (!target) return NULL;
    if (zt_map_get(reader->rules, (const char *)&target, sizeof target, &rule)) return zt_g_call(reader->builder, (int)rule);
    int made = zt_g_rule(reader->builder, reference, strlen(reference));
    const char *key = zt_arena_strndup(reader->builder->arena, (const char *)&target, sizeof target);
    if (made < 0 || !key || zt_map_put(reader->rules, key, sizeof target, made) != ZT_OK) return NULL;
    size_t length = reader->path.len;
    char *path = zt_strndup(reader->builder->ctx, reader->path.data ? reader->path.data : "", length);
    reader->path.len = 0;
    gexpr *expr = path && zt_str_puts(&reader->path, reference + (reference[0] == '#')) == ZT_OK
                      ? zt_s_schema(reader, target, NULL, NULL)
                      : NULL;
    reader->path.len = 0;
    bool restored = path && zt_str_put(&reader->path, path, length) == ZT_OK;
    zt_free(reader->builder->ctx, path);
    if (!expr || !restored) return NULL;
    reader->builder->rule[made].expr = expr;
    return zt_g_call(reader->builder, made);
}

static gexpr *read_schema(sreader *reader, const json_t *schema)
{
    const char *key;
    const json_t *value;
    size_t effective = 0;
    if (json_is_true(schema)) return zt_s_shared(reader, S_VALUE);
    if (json_is_false(schema)) return zt_g_list(reader->builder, G_CHOICE);
    if (!json_is_object(schema)) return zt_s_fail(reader, "not a schema: an object, true or false expected");
    if (!zt_s_check_keywords(reader, schema)) return NULL;
    json_object_foreach((json_t *)schema, key, value) effective += !zt_s_is_annotation(key);
    if (effective == 0) return zt_s_shared(reader, S_VALUE);
    const json_t *reference = json_object_get(schema, "$ref");
    if (reference && !json_is_string(reference)) return zt_s_fail(reader, "\"$ref\" is not a string");
    if (reference && effective == 1) return call_reference(reader, json_string_value(reference));
    const json_t *expanded = zt_s_expand(reader, schema);
    if (!expanded) return NULL;
    if (json_is_boolean(expanded)) return read_schema(reader, expanded);
    if (json_object_size(expanded) == 0) return zt_s_shared(reader, S_VALUE);
    if (json_object_get(expanded, "oneOf")) return read_branches(reader, expanded, "oneOf");
    if (json_object_get(expanded, "anyOf")) return read_branches(reader, expanded, "anyOf");
    if (json_object_get(expanded, "enum")) return zt_s_values(reader, expanded);
    return read_types(reader, expanded);
}

gexpr *zt_s_schema(sreader *reader, const json_t *schema, const char *key, const char *name)
{
    size_t length = reader->path.len;
    if (key) zt_str_printf(&reader->path, "/%s", key);
    if (name) zt_str_printf(&reader->path, "/%.100s", name);
    gexpr *expr = NULL;
    if (++reader->depth > MOST_NESTING)
        zt_s_fail(reader, "schemas nest more than %d deep, or one that is merged with others contains itself", MOST_NESTING);
    else if (zt_ctx_status(reader->builder->ctx) == ZT_OK)
        expr = read_schema(reader, schema);
    reader->depth--;
    reader->path.len = length;
    return expr;
}

gexpr *zt_s_shared(sreader *reader, sshared which)
{
    if (!reader->shared[which]) {
        int rule = zt_g_rule(reader->builder, "json", 4);
        if (rule < 0) return NULL;
        reader->shared[which] = rule + 1;
        gexpr *expr = zt_s_make_shared(reader, which);
        if (!expr) return NULL;
        reader->builder->rule[rule].expr = expr;
    }
    return zt_g_call(reader->builder, reader->shared[which] - 1);
}

/* ---- begin and end --------------------------------------------------------------------------- */

bool zt_s_open(sreader *reader, gbuilder *builder, const json_t *schema, const gdialect *dialect)
{
    *reader = (sreader){.builder = builder, .dialect = dialect, .root = schema, .made = json_array()};
    builder->escape_less = dialect->escape_less;
    reader->rules = zt_map_new(builder->ctx, 16);
    zt_str_init(&reader->path, builder->ctx);
    if (!reader->made) zt_fail(builder->ctx, ZT_ENOMEM, "no memory for a schema");
    return reader->made && reader->rules;
}

void zt_s_close(sreader *reader)
{
    reader->builder->escape_less = false;
    zt_map_free(reader->rules);
    zt_str_fini(&reader->path);
    json_decref(reader->made);
}

static gexpr *read_whole(gbuilder *builder, const json_t *schema)
{
    sreader reader;
    gexpr *expr = NULL;
    if (zt_s_open(&reader, builder, schema, &zt_s_json))
        expr = schema ? zt_s_schema(&reader, schema, NULL, NULL) : zt_s_shared(&reader, S_ANY_OBJECT);
    if (zt_ctx_status(builder->ctx) != ZT_OK) expr = NULL; /* of a path, too */
    zt_s_close(&reader);
    return expr;
}

gexpr *zt_g_schema(gbuilder *builder, const json_t *schema) { return read_whole(builder, schema); }

gexpr *zt_g_json_object(gbuilder *builder) { return read_whole(builder, NULL); }
