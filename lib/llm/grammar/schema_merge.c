/* schema_merge.c - one schema of two, whose values are valid by both; references; schemas that have no value in common. */
#include "lib/llm/grammar/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const json_t *zt_s_keep(sreader *reader, json_t *made)
{
    if (made && json_array_append_new(reader->made, made) == 0) return made;
    zt_fail(reader->builder->ctx, ZT_ENOMEM, "no memory for a schema");
    return NULL;
}

/* ---- references ------------------------------------------------------------------------------ */

/* A part of a JSON pointer, without its escapes: ~0, ~1 and those of URIs. */
static bool read_token(const char *text, size_t size, char *token, size_t token_size)
{
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        char letter = text[i];
        if (letter == '~' && i + 1 < size && (text[i + 1] == '0' || text[i + 1] == '1'))
            letter = text[++i] == '0' ? '~' : '/';
        else if (letter == '%' && i + 2 < size) {
            char hex[3] = {text[i + 1], text[i + 2], 0};
            letter = (char)strtol(hex, NULL, 16);
            i += 2;
        }
        if (length + 1 >= token_size || letter == 0) return false;
        token[length++] = letter;
    }
    token[length] = 0;
    return true;
}

static const json_t *step_into(const json_t *value, const char *token)
{
    if (json_is_object(value)) return json_object_get(value, token);
    int64_t index;
    return json_is_array(value) && zt_parse_i64(token, &index) && index >= 0 ? json_array_get(value, (size_t)index) : NULL;
}

/* The schema with this $anchor, in the definitions of the root. */
static const json_t *find_anchor(const json_t *root, const char *name)
{
    static const char *const places[] = {"$defs", "definitions"};
    const char *anchor = json_string_value(json_object_get(root, "$anchor")), *key;
    const json_t *value;
    if (anchor && strcmp(anchor, name) == 0) return root;
    for (int i = 0; i < 2; i++) json_object_foreach(json_object_get(root, places[i]), key, value)
        {
            anchor = json_string_value(json_object_get(value, "$anchor"));
            if (anchor && strcmp(anchor, name) == 0) return value;
        }
    return NULL;
}

const json_t *zt_s_find(const sreader *reader, const char *reference)
{
    char token[256], shown[96];
    const json_t *value = reader->root;
    zt_escape(shown, sizeof shown, reference, strlen(reference));
    if (reference[0] != '#')
        return zt_s_fail(reader, "\"$ref\": \"%s\" is not supported: only references into the schema itself (#...) are", shown);
    if (reference[1] && reference[1] != '/') {
        value = find_anchor(reader->root, reference + 1);
    } else {
        for (const char *part = reference + 1; value && *part == '/';) {
            size_t size = strcspn(++part, "/");
            value = read_token(part, size, token, sizeof token) ? step_into(value, token) : NULL;
            part += size;
        }
    }
    return value ? value : zt_s_fail(reader, "\"$ref\": \"%s\" is not there", shown);
}

/* ---- merging --------------------------------------------------------------------------------- */

static bool set_member(sreader *reader, json_t *object, const char *key, json_t *value)
{
    if (value && json_object_set_new(object, key, value) == 0) return true;
    zt_fail(reader->builder->ctx, ZT_ENOMEM, "no memory for a schema");
    return false;
}

/* {"allOf": [first, second]}, or the one that says something. */
static json_t *both_schemas(const json_t *first, const json_t *second)
{
    if (!first || json_is_true(first)) return second ? json_incref((json_t *)second) : json_true();
    if (!second || json_is_true(second) || json_equal(first, second)) return json_incref((json_t *)first);
    return json_pack("{s:[O,O]}", "allOf", first, second);
}

typedef json_t *merge_fn(sreader *reader, const char *key, const json_t *first, const json_t *second);

static json_t *merge_types(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    static const char *const names[S_TYPES] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    json_t *left = json_pack("{sO}", key, first), *right = json_pack("{sO}", key, second), *merged = json_array();
    int types[2] = {left ? zt_s_types(reader, left) : -1, right ? zt_s_types(reader, right) : -1};
    for (int i = 0; i < 2; i++)
        if (types[i] >= 0 && types[i] & 1 << S_NUMBER) types[i] |= 1 << S_INTEGER;
    for (int type = 0; type < S_TYPES && merged; type++)
        if (types[0] >= 0 && types[1] >= 0 && types[0] & types[1] & 1 << type)
            json_array_append_new(merged, json_string(names[type]));
    json_decref(left);
    json_decref(right);
    return merged;
}

static json_t *merge_larger(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    (void)reader, (void)key;
    return json_incref((json_t *)(json_number_value(first) > json_number_value(second) ? first : second));
}

static json_t *merge_smaller(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    (void)reader, (void)key;
    return json_incref((json_t *)(json_number_value(first) < json_number_value(second) ? first : second));
}

static json_t *merge_required(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    (void)reader, (void)key;
    json_t *merged = json_copy((json_t *)first);
    if (merged) json_array_extend(merged, (json_t *)second);
    return merged;
}

static json_t *merge_values(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    json_t *merged = json_array();
    (void)reader, (void)key;
    for (size_t i = 0; merged && i < json_array_size(first); i++)
        for (size_t j = 0; j < json_array_size(second); j++)
            if (zt_s_same(json_array_get(first, i), json_array_get(second, j))) {
                json_array_append(merged, json_array_get(first, i));
                break;
            }
    return merged;
}

static json_t *merge_flag(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    (void)reader, (void)key;
    return json_boolean(json_is_true(first) || json_is_true(second));
}

/* Each branch with each. */
static json_t *merge_branches(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    size_t left = json_array_size(first), right = json_array_size(second);
    if (left * right > MOST_BRANCHES) return zt_s_fail(reader, "\"%s\" has more than %d cases", key, MOST_BRANCHES);
    json_t *merged = json_array();
    for (size_t i = 0; merged && i < left; i++)
        for (size_t j = 0; j < right; j++)
            json_array_append_new(merged, both_schemas(json_array_get(first, i), json_array_get(second, j)));
    return merged;
}

/* Texts that are said twice are the same, or not supported. */
static json_t *merge_equal(sreader *reader, const char *key, const json_t *first, const json_t *second)
{
    if (json_equal(first, second)) return json_incref((json_t *)first);
    return zt_s_refuse(reader, key, "two of them at once, in schemas that are merged");
}

static const struct {
    const char *key;
    merge_fn *merge;
} merges[] = {
    {"type", merge_types},
    {"enum", merge_values},
    {"const", merge_equal},
    {"minimum", merge_larger},
    {"exclusiveMinimum", merge_larger},
    {"maximum", merge_smaller},
    {"exclusiveMaximum", merge_smaller},
    {"minLength", merge_larger},
    {"maxLength", merge_smaller},
    {"minItems", merge_larger},
    {"maxItems", merge_smaller},
    {"minProperties", merge_larger},
    {"maxProperties", merge_smaller},
    {"required", merge_required},
    {"pattern", merge_equal},
    {"format", merge_equal},
    {"anyOf", merge_branches},
    {"oneOf", merge_branches},
    {"uniqueItems", merge_flag},
    {"patternProperties", merge_equal},
};

static const json_t *property_of(const json_t *schema, const char *name)
{
    const json_t *property = json_object_get(json_object_get(schema, "properties"), name);
    return property ? property : json_object_get(schema, "additionalProperties");
}

static bool put_properties(sreader *reader, json_t *merged, const json_t *of, const json_t *first, const json_t *second)
{
    const char *name;
    const json_t *value;
    json_object_foreach(json_object_get(of, "properties"), name, value)
    {
        if (json_object_get(merged, name)) continue;
        if (!set_member(reader, merged, name, both_schemas(property_of(first, name), property_of(second, name)))) return false;
    }
    return true;
}

/* properties and additionalProperties: what one says of other properties also holds for those that the other names. */
static bool merge_properties(sreader *reader, json_t *merged, const json_t *first, const json_t *second)
{
    static const char *const keys[] = {"properties", "additionalProperties", "patternProperties"};
    bool given[2] = {false, false};
    for (int i = 0; i < 3; i++) {
        given[0] = given[0] || json_object_get(first, keys[i]);
        given[1] = given[1] || json_object_get(second, keys[i]);
    }
    if (!given[0] || !given[1]) return true; /* as they were copied */
    if (json_object_get(first, keys[2]) || json_object_get(second, keys[2]))
        return zt_s_refuse(reader, keys[2], "in schemas that are merged"), false;
    const json_t *more[2] = {json_object_get(first, keys[1]), json_object_get(second, keys[1])};
    if (more[0] || more[1])
        if (!set_member(reader, merged, keys[1], both_schemas(more[0], more[1]))) return false;
    if (!json_object_get(first, keys[0]) && !json_object_get(second, keys[0])) return true;
    json_t *properties = json_object();
    return properties && set_member(reader, merged, keys[0], properties) &&
           put_properties(reader, properties, first, first, second) && put_properties(reader, properties, second, first, second);
}

static const json_t *item_of(const json_t *schema, size_t index)
{
    const json_t *item = json_array_get(json_object_get(schema, "prefixItems"), index);
    return item ? item : json_object_get(schema, "items");
}

static bool merge_items(sreader *reader, json_t *merged, const json_t *first, const json_t *second)
{
    const json_t *prefix[2] = {json_object_get(first, "prefixItems"), json_object_get(second, "prefixItems")};
    const json_t *items[2] = {json_object_get(first, "items"), json_object_get(second, "items")};
    size_t count = json_array_size(prefix[0]);
    if (!(prefix[0] || items[0]) || !(prefix[1] || items[1])) return true;
    if (json_array_size(prefix[1]) > count) count = json_array_size(prefix[1]);
    if ((items[0] || items[1]) && !set_member(reader, merged, "items", both_schemas(items[0], items[1]))) return false;
    if (count == 0) return true;
    json_t *all = json_array();
    for (size_t i = 0; all && i < count; i++) json_array_append_new(all, both_schemas(item_of(first, i), item_of(second, i)));
    return set_member(reader, merged, "prefixItems", all);
}

static json_t *merge_objects(sreader *reader, const json_t *first, const json_t *second)
{
    json_t *merged = json_copy((json_t *)first);
    const char *key;
    const json_t *value;
    bool made = merged != NULL;
    json_object_foreach((json_t *)second, key, value)
    {
        const json_t *old = json_object_get(first, key);
        size_t i = 0;
        if (!made) break;
        while (i < sizeof merges / sizeof *merges && strcmp(merges[i].key, key) != 0) i++;
        bool known = i < sizeof merges / sizeof *merges;
        if (!old || (known && strcmp(key, "patternProperties") != 0)) {
            json_t *member = old ? merges[i].merge(reader, key, old, value) : json_incref((json_t *)value);
            made = member && set_member(reader, merged, key, member);
        }
    }
    made = made && merge_properties(reader, merged, first, second) && merge_items(reader, merged, first, second);
    if (made) return merged;
    json_decref(merged);
    return NULL;
}

const json_t *zt_s_merge(sreader *reader, const json_t *first, const json_t *second)
{
    if (++reader->merges > MOST_MERGES) return zt_s_fail(reader, "more than %d schemas are merged", MOST_MERGES);
    first = zt_s_expand(reader, first);
    second = first ? zt_s_expand(reader, second) : NULL;
    if (!first || !second) return NULL;
    if (json_is_false(first) || json_is_true(second)) return first;
    if (json_is_false(second) || json_is_true(first)) return second;
    json_t *merged = merge_objects(reader, first, second);
    if (!merged && zt_ctx_status(reader->builder->ctx) != ZT_OK) return NULL;
    return zt_s_keep(reader, merged);
}

/* The type with null, if the schema is nullable (OpenAPI's keyword). */
static bool add_null(json_t *schema)
{
    json_t *type = json_object_get(schema, "type");
    bool nullable = json_is_true(json_object_get(schema, "nullable"));
    json_object_del(schema, "nullable");
    if (!type || !nullable) return true;
    json_t *types = json_is_array(type) ? json_copy(type) : json_pack("[O]", type);
    return types && json_array_append_new(types, json_string("null")) == 0 && json_object_set_new(schema, "type", types) == 0;
}

/* Members that say something, without $ref and allOf, const as enum, and nullable as a type. */
static json_t *strip_schema(const json_t *schema)
{
    json_t *stripped = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)schema, key, value)
    {
        if (zt_s_is_annotation(key) || strcmp(key, "$ref") == 0 || strcmp(key, "allOf") == 0 || strcmp(key, "const") == 0)
            continue;
        if (!stripped || json_object_set(stripped, key, value) != 0) break;
    }
    json_t *constant = json_object_get(schema, "const");
    if (stripped && !add_null(stripped)) return json_decref(stripped), NULL;
    if (!constant || !stripped) return stripped;
    json_t *single = json_pack("[O]", constant), *listed = json_object_get(schema, "enum");
    json_t *values = single && listed ? merge_values(NULL, "enum", listed, single) : json_incref(single);
    json_decref(single);
    if (!values || json_object_set_new(stripped, "enum", values) != 0) return json_decref(stripped), NULL;
    return stripped;
}

const json_t *zt_s_expand(sreader *reader, const json_t *schema)
{
    if (json_is_boolean(schema)) return schema;
    if (!json_is_object(schema)) return zt_s_fail(reader, "not a schema: an object, true or false expected");
    if (!zt_s_check_keywords(reader, schema)) return NULL;
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    const json_t *all = json_object_get(schema, "allOf"), *expanded = zt_s_keep(reader, strip_schema(schema));
    if (++reader->depth > MOST_NESTING)
        return reader->depth--,
               zt_s_fail(reader, "schemas nest more than %d deep, or one that is merged with others contains itself",
                         MOST_NESTING);
    if (expanded && reference) {
        const json_t *target = zt_s_find(reader, reference);
        expanded = target ? zt_s_merge(reader, expanded, target) : NULL;
    }
    if (expanded && all && !json_is_array(all)) expanded = zt_s_fail(reader, "\"allOf\" is not an array of schemas");
    for (size_t i = 0; expanded && i < json_array_size(all); i++) expanded = zt_s_merge(reader, expanded, json_array_get(all, i));
    reader->depth--;
    return expanded;
}

/* ---- schemas without a common value ---------------------------------------------------------- */

static int value_type(const json_t *value)
{
    return json_is_null(value)      ? 1 << S_NULL
           : json_is_boolean(value) ? 1 << S_BOOLEAN
           : json_is_number(value)  ? 1 << S_NUMBER | 1 << S_INTEGER
           : json_is_string(value)  ? 1 << S_STRING
           : json_is_array(value)   ? 1 << S_ARRAY
                                    : 1 << S_OBJECT;
}

/* The types that values of an expanded schema may have. */
static int possible_types(sreader *reader, const json_t *schema)
{
    int types = zt_s_types(reader, schema), listed = 0;
    const json_t *values = json_object_get(schema, "enum");
    if (types & 1 << S_NUMBER) types |= 1 << S_INTEGER;
    for (size_t i = 0; i < json_array_size(values); i++) listed |= value_type(json_array_get(values, i));
    return values ? types & listed : types;
}

/* Is there a property that the first schema requires, and the second has not, or with other values? */
static bool properties_part(sreader *reader, const json_t *first, const json_t *second, int depth)
{
    const json_t *required = json_object_get(first, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name || json_object_get(first, "patternProperties") || json_object_get(second, "patternProperties")) continue;
        const json_t *left = property_of(first, name), *right = property_of(second, name);
        if (json_is_false(right)) return true;
        if (left && right && zt_s_disjoint(reader, left, right, depth + 1)) return true;
    }
    return false;
}

static bool ranges_part(const json_t *first, const json_t *second)
{
    const json_t *top = json_object_get(first, "maximum"), *bottom = json_object_get(second, "minimum");
    const json_t *open_top = json_object_get(first, "exclusiveMaximum"),
                 *open_bottom = json_object_get(second, "exclusiveMinimum");
    if (top && bottom && json_number_value(top) < json_number_value(bottom)) return true;
    if (open_top && bottom && json_number_value(open_top) <= json_number_value(bottom)) return true;
    return top && open_bottom && json_number_value(top) <= json_number_value(open_bottom);
}

bool zt_s_disjoint(sreader *reader, const json_t *first, const json_t *second, int depth)
{
    enum { DEEP = 6 };
    first = depth < DEEP ? zt_s_expand(reader, first) : NULL;
    second = first ? zt_s_expand(reader, second) : NULL;
    if (!first || !second) return false;
    if (json_is_false(first) || json_is_false(second)) return true;
    if (json_is_true(first) || json_is_true(second)) return false;
    int types[2] = {possible_types(reader, first), possible_types(reader, second)};
    if (types[0] < 0 || types[1] < 0) return false;
    int common = types[0] & types[1];
    if (common == 0) return true;
    const json_t *left = json_object_get(first, "enum"), *right = json_object_get(second, "enum");
    if (left && right) {
        json_t *shared = merge_values(reader, "enum", left, right);
        bool none = shared && json_array_size(shared) == 0;
        json_decref(shared);
        return none;
    }
    if (common == 1 << S_OBJECT)
        return properties_part(reader, first, second, depth) || properties_part(reader, second, first, depth);
    return (common & ~(1 << S_NUMBER | 1 << S_INTEGER)) == 0 && (ranges_part(first, second) || ranges_part(second, first));
}
