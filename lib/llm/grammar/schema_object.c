/* schema_object.c - objects and arrays.
 *
 * Properties come in the order of the schema, those that are not required may be left out. A rule for each property says what
 * may come from it on, before and behind a comma:
 *
 *     first_i ::= property_i later_i+1 | first_i+1 (if i is not required)
 *     later_i ::= "," property_i later_i+1 | later_i+1 (if i is not required)
 *
 * An object that names no properties may have any; else further ones are written only where additionalProperties is given.
 * An array that has prefixItems has further items only where items is given.
 */
#include "lib/llm/grammar/schema.h"

#include <string.h>

/* ---- objects --------------------------------------------------------------------------------- */

typedef struct sproperty {
    const char *name;
    gexpr *pair; /* name, colon and value */
    bool required, impossible;
} sproperty;

typedef struct sobject {
    sproperty *property;
    size_t count, capacity;
    gexpr *more; /* a pair that is none of the properties; NULL: there is none */
} sobject;

static gexpr *make_pair(sreader *reader, gexpr *key, gexpr *value)
{
    return ZT_G_SEQUENCE(reader->builder, key, zt_s_colon(reader), value);
}

static gexpr *comma(sreader *reader)
{
    return ZT_G_SEQUENCE(reader->builder, zt_g_literal(reader->builder, ","), zt_s_shared(reader, S_GAP));
}

static bool add_property(sreader *reader, sobject *object, const char *name, const json_t *schema, const char *key)
{
    if (object->count == object->capacity) {
        size_t capacity = object->capacity ? 2 * object->capacity : 16;
        sproperty *grown = zt_realloc(reader->builder->ctx, object->property, capacity * sizeof *grown);
        if (!grown) return false;
        object->property = grown;
        object->capacity = capacity;
    }
    gexpr *value = schema ? zt_s_schema(reader, schema, key, name) : zt_s_shared(reader, S_VALUE);
    gexpr *pair = make_pair(reader, zt_s_key(reader, name, strlen(name)), value);
    object->property[object->count++] = (sproperty){name, pair, false, json_is_false(schema)};
    return pair != NULL;
}

/* Marks the properties that are required; those without a schema have that of additionalProperties. */
static bool read_required(sreader *reader, const json_t *schema, sobject *object)
{
    const json_t *required = json_object_get(schema, "required"), *value;
    size_t i;
    if (required && !json_is_array(required)) return zt_s_fail(reader, "\"required\" is not an array of names"), false;
    zt_map *known = zt_map_new(reader->builder->ctx, object->count);
    bool read = known != NULL;
    for (size_t j = 0; j < object->count && read; j++)
        read = zt_map_put(known, object->property[j].name, strlen(object->property[j].name), (int64_t)j) == ZT_OK;
    json_array_foreach(required, i, value)
    {
        const char *name = json_string_value(value);
        int64_t found = name && read ? zt_map_find(known, name) : -1;
        if (read && !name) read = zt_s_fail(reader, "\"required\" is not an array of names");
        if (!read) break;
        if (found < 0) {
            found = (int64_t)object->count;
            read = add_property(reader, object, name, json_object_get(schema, "additionalProperties"), "additionalProperties") &&
                   zt_map_put(known, name, strlen(name), found) == ZT_OK;
        }
        if (read) object->property[found].required = true;
    }
    zt_map_free(known);
    return read;
}

/* Does the pattern match the name? -1: an error. */
static int pattern_matches(sreader *reader, const char *pattern, const char *name)
{
    zt_grammar_part part = {.kind = ZT_GRAMMAR_SCHEMA, .name = reader->builder->name};
    json_t *schema = json_pack("{ssss}", "type", "string", "pattern", pattern), *value = json_string(name);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    part.schema = schema;
    zt_grammar *grammar = schema && text ? zt_grammar_compile(reader->builder->ctx, &part, 1) : NULL;
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
    bool fits = false;
    int found = -1;
    if (matcher && zt_grammar_matcher_accept(matcher, text, strlen(text), &fits) == ZT_OK)
        found = fits && zt_grammar_matcher_complete(matcher);
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
    free(text);
    json_decref(schema);
    json_decref(value);
    return found;
}

/* Keys that match a pattern: with one pattern, no others beside the properties, and properties that do not match. */
static bool read_patterns(sreader *reader, const json_t *schema, sobject *object)
{
    const json_t *patterns = json_object_get(schema, "patternProperties"), *value = NULL, *item;
    const char *pattern = NULL, *key;
    if (!json_is_object(patterns)) return zt_s_fail(reader, "\"patternProperties\" is not an object"), false;
    json_object_foreach((json_t *)patterns, key, item) pattern = key, value = item;
    if (json_object_size(patterns) != 1 || !json_is_false(json_object_get(schema, "additionalProperties")))
        return zt_s_refuse(reader, "patternProperties", "but for one pattern with \"additionalProperties\": false"), false;
    for (size_t i = 0; i < object->count; i++) {
        int matches = pattern_matches(reader, pattern, object->property[i].name);
        if (matches) {
            if (matches > 0) zt_s_refuse(reader, "patternProperties", "where a named property matches the pattern");
            return false;
        }
    }
    json_t *string = json_pack("{ss}", "pattern", pattern);
    const json_t *kept = zt_s_keep(reader, string);
    if (!kept) return false;
    object->more = make_pair(reader, zt_s_string(reader, kept), zt_s_schema(reader, value, "patternProperties", pattern));
    return object->more != NULL;
}

/* Pairs that are none of the properties. */
static bool read_more(sreader *reader, const json_t *schema, sobject *object)
{
    const json_t *more = json_object_get(schema, "additionalProperties");
    bool open = !json_object_get(schema, "properties") && !json_object_get(schema, "required");
    if (json_object_get(schema, "patternProperties")) return read_patterns(reader, schema, object);
    if (json_is_false(more) || (!more && !open)) return true;
    zt_bytes *names = zt_alloc_array(reader->builder->ctx, object->count + 1, sizeof *names);
    if (!names) return false;
    for (size_t i = 0; i < object->count; i++) names[i] = (zt_bytes){object->property[i].name, strlen(object->property[i].name)};
    gexpr *key = zt_s_key_except(reader, names, object->count);
    zt_free(reader->builder->ctx, names);
    gexpr *value = more ? zt_s_schema(reader, more, "additionalProperties", NULL) : zt_s_shared(reader, S_VALUE);
    object->more = make_pair(reader, key, value);
    return object->more != NULL;
}

/* All pairs, and the gap after the last. */
static gexpr *list_pairs(sreader *reader, const sobject *object, int64_t least, int64_t most)
{
    gbuilder *builder = reader->builder;
    gexpr *gap = zt_s_shared(reader, S_GAP), *first = zt_g_literal(builder, ""), *later = gap;
    if (object->more) {
        int64_t rest = most < 0 ? -1 : most - 1;
        later = ZT_G_SEQUENCE(
            builder, zt_g_repeat(builder, ZT_G_SEQUENCE(builder, comma(reader), object->more), least > 1 ? least - 1 : 0, rest),
            gap);
        gexpr *some = ZT_G_SEQUENCE(builder, object->more, later);
        first = most == 0 ? first : least > 0 ? some : zt_g_optional(builder, some);
    }
    for (size_t i = object->count; i-- > 0 && first && later;) {
        const sproperty *property = &object->property[i];
        if (property->impossible && !property->required) continue;
        later = zt_g_as_rule(builder, later);
        gexpr *here = ZT_G_SEQUENCE(builder, property->pair, later),
              *behind = ZT_G_SEQUENCE(builder, comma(reader), property->pair, later);
        first = property->required ? here : ZT_G_CHOICE(builder, here, zt_g_as_rule(builder, first));
        later = property->required ? behind : ZT_G_CHOICE(builder, behind, later);
    }
    return later ? first : NULL;
}

/* Are the bounds on the number of properties kept by all objects that are written? */
static bool check_counts(const sreader *reader, const sobject *object, int64_t least, int64_t most)
{
    int64_t required = 0;
    for (size_t i = 0; i < object->count; i++) required += object->property[i].required;
    if (object->count == 0) {
        if (least <= 1) return true;
        return zt_s_refuse(reader, "minProperties", "above 1, since a key may come twice"), false;
    }
    if (least > required) return zt_s_refuse(reader, "minProperties", "above the number of required properties"), false;
    if (most < 0 || (!object->more && most >= (int64_t)object->count)) return true;
    return zt_s_refuse(reader, "maxProperties", "below the number of properties"), false;
}

gexpr *zt_s_object(sreader *reader, const json_t *schema)
{
    gbuilder *builder = reader->builder;
    const json_t *properties = json_object_get(schema, "properties"), *value;
    const char *name;
    sobject object = {0};
    int64_t least = zt_s_count(reader, schema, "minProperties", 0), most = zt_s_count(reader, schema, "maxProperties", -1);
    bool read = least >= 0 && most >= -1;
    if (read && properties && !json_is_object(properties)) read = zt_s_fail(reader, "\"properties\" is not an object");
    json_object_foreach((json_t *)properties, name, value) read =
        read && add_property(reader, &object, name, value, "properties");
    read = read && read_required(reader, schema, &object) && read_more(reader, schema, &object) &&
           check_counts(reader, &object, least, most);
    gexpr *expr = NULL;
    if (read && most >= 0 && most < least)
        expr = zt_g_list(builder, G_CHOICE);
    else if (read)
        expr = ZT_G_SEQUENCE(builder, zt_g_literal(builder, "{"), zt_s_shared(reader, S_GAP),
                             list_pairs(reader, &object, least, object.count ? -1 : most), zt_g_literal(builder, "}"));
    zt_free(builder->ctx, object.property);
    return expr;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Items behind the first `count`, of one schema; NULL: none are written, or an error. */
static gexpr *more_items(sreader *reader, const json_t *schema, size_t count, bool *closed)
{
    const json_t *items = json_object_get(schema, "items");
    *closed = json_is_false(items) || (!items && count);
    if (json_is_array(items)) return zt_s_refuse(reader, "items", "as an array: see prefixItems");
    if (*closed) return NULL;
    return items ? zt_s_schema(reader, items, "items", NULL) : zt_s_shared(reader, S_VALUE);
}

/* The items from index on; each is behind a comma but the first of all. */
static gexpr *list_items(sreader *reader, const json_t *schema, int64_t least, int64_t most)
{
    gbuilder *builder = reader->builder;
    const json_t *prefix = json_object_get(schema, "prefixItems");
    size_t count = json_array_size(prefix);
    bool closed;
    gexpr *item = more_items(reader, schema, count, &closed), *rest = zt_g_literal(builder, "");
    int64_t prefix_count = (int64_t)count;
    if (!item && !closed) return NULL;
    if (most >= 0 && most < prefix_count) {
        prefix_count = most;
    } else if (!closed) {
        int64_t fewest = least > prefix_count ? least - prefix_count : 0, many = most < 0 ? -1 : most - prefix_count;
        if (prefix_count > 0) {
            rest = zt_g_repeat(builder, ZT_G_SEQUENCE(builder, comma(reader), item), fewest, many);
        } else if (many != 0) {
            gexpr *others = zt_g_repeat(builder, ZT_G_SEQUENCE(builder, comma(reader), item), fewest > 1 ? fewest - 1 : 0,
                                        many < 0 ? -1 : many - 1);
            rest = ZT_G_SEQUENCE(builder, item, others, zt_s_shared(reader, S_GAP));
            if (fewest == 0) rest = zt_g_optional(builder, rest);
        }
    } else if (least > prefix_count) {
        return zt_g_list(builder, G_CHOICE);
    }
    for (int64_t i = prefix_count; i-- > 0 && rest;) {
        char name[24];
        snprintf(name, sizeof name, "%d", (int)i);
        gexpr *own = zt_s_schema(reader, json_array_get(prefix, (size_t)i), "prefixItems", name);
        if (i == 0) rest = ZT_G_SEQUENCE(builder, rest, zt_s_shared(reader, S_GAP));
        rest = i ? ZT_G_SEQUENCE(builder, comma(reader), own, zt_g_as_rule(builder, rest))
                 : ZT_G_SEQUENCE(builder, own, zt_g_as_rule(builder, rest));
        if (i >= least) rest = zt_g_optional(builder, rest);
    }
    return rest;
}

gexpr *zt_s_array(sreader *reader, const json_t *schema)
{
    gbuilder *builder = reader->builder;
    const json_t *prefix = json_object_get(schema, "prefixItems");
    int64_t least = zt_s_count(reader, schema, "minItems", 0), most = zt_s_count(reader, schema, "maxItems", -1);
    if (least < 0 || most < -1) return NULL;
    if (prefix && !json_is_array(prefix)) return zt_s_fail(reader, "\"prefixItems\" is not an array of schemas");
    if (json_is_true(json_object_get(schema, "uniqueItems")) && (most < 0 || most > 1))
        return zt_s_refuse(reader, "uniqueItems", NULL);
    if (most >= 0 && most < least) return zt_g_list(builder, G_CHOICE);
    return ZT_G_SEQUENCE(builder, zt_g_literal(builder, "["), zt_s_shared(reader, S_GAP), list_items(reader, schema, least, most),
                         zt_g_literal(builder, "]"));
}
