/* schema_value.c - const and enum; any JSON value; white space.
 *
 * Between the parts of objects and arrays may be nothing, a space, or a line end and up to 16 spaces; after a colon nothing or a
 * space.
 */
#include "lib/llm/grammar/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INDENT = 16 };

bool zt_s_same(const json_t *first, const json_t *second)
{
    const char *key;
    const json_t *value;
    size_t i;
    if (json_is_integer(first) && json_is_integer(second)) return json_integer_value(first) == json_integer_value(second);
    if (json_is_number(first) && json_is_number(second)) return json_number_value(first) == json_number_value(second);
    if (json_is_array(first) && json_is_array(second)) {
        if (json_array_size(first) != json_array_size(second)) return false;
        json_array_foreach(first, i, value) if (!zt_s_same(value, json_array_get(second, i))) return false;
        return true;
    }
    if (json_is_object(first) && json_is_object(second)) {
        if (json_object_size(first) != json_object_size(second)) return false;
        json_object_foreach((json_t *)first, key, value) if (!zt_s_same(value, json_object_get(second, key))) return false;
        return true;
    }
    return json_equal(first, second);
}

/* ---- one value ------------------------------------------------------------------------------- */

const gdialect zt_s_json = {.words = {"null", "false", "true"}};

gexpr *zt_s_word(sreader *reader, sword word) { return zt_g_literal(reader->builder, reader->dialect->words[word]); }

static gexpr *quote_raw(sreader *reader, const char *text, size_t size)
{
    const char *quote = reader->dialect->quote;
    char shown[80];
    if (memmem(text, size, quote, strlen(quote)))
        return zt_s_fail(reader, "'%s' holds %s, which ends a string in this form of tool calls",
                         zt_escape(shown, sizeof shown, text, size), quote);
    gexpr *mark = zt_g_mark(reader->builder, quote, strlen(quote));
    return ZT_G_SEQUENCE(reader->builder, mark, zt_g_text(reader->builder, text, size), mark);
}

/* A name that can be written without quotes. */
static bool is_bare(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", text[i]) || !text[i]) return false;
    return size > 0;
}

gexpr *zt_s_key(sreader *reader, const char *text, size_t size)
{
    bool bare = reader->dialect->bare_keys && is_bare(text, size);
    return bare ? zt_g_text(reader->builder, text, size) : zt_s_text(reader, text, size);
}

gexpr *zt_s_text(sreader *reader, const char *text, size_t size)
{
    if (reader->dialect->quote) return quote_raw(reader, text, size);
    json_t *string = json_stringn(text, size);
    char *written = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    zt_str shown;
    zt_str_init(&shown, reader->builder->ctx);
    for (const char *at = written; at && *at; at++)
        if (*at == '<' && reader->builder->escape_less)
            zt_str_puts(&shown, "\\u003c");
        else
            zt_str_putc(&shown, *at);
    gexpr *expr = shown.data ? zt_g_text(reader->builder, shown.data, shown.len) : NULL;
    if (!written) zt_fail(reader->builder->ctx, ZT_ENOMEM, "no memory for a schema");
    zt_str_fini(&shown);
    free(written);
    json_decref(string);
    return expr;
}

static gexpr *number_text(sreader *reader, const json_t *value)
{
    double number = json_number_value(value);
    zt_str text;
    zt_str_init(&text, reader->builder->ctx);
    bool whole = json_is_integer(value) || (number == floor(number) && fabs(number) < 1e15);
    if (json_is_integer(value))
        zt_str_printf(&text, "%lld", (long long)json_integer_value(value));
    else if (whole)
        zt_str_printf(&text, "%.0f", number);
    else
        zt_str_put_double(&text, number);
    gexpr *expr = text.data ? zt_g_text(reader->builder, text.data, text.len) : NULL;
    if (whole) expr = ZT_G_SEQUENCE(reader->builder, expr, zt_g_optional(reader->builder, zt_g_literal(reader->builder, ".0")));
    zt_str_fini(&text);
    return expr;
}

static gexpr *read_value(sreader *reader, const json_t *value);

/* Members or items, in their order. */
static gexpr *read_container(sreader *reader, const json_t *value)
{
    gbuilder *builder = reader->builder;
    bool object = json_is_object(value);
    gexpr *list = ZT_G_SEQUENCE(builder, zt_g_literal(builder, object ? "{" : "["), zt_s_shared(reader, S_GAP));
    size_t count = 0, i;
    const char *key;
    const json_t *item;
    if (object) {
        json_object_foreach((json_t *)value, key, item)
        {
            if (count++)
                list = zt_g_add(builder, zt_g_add(builder, list, zt_g_literal(builder, ",")), zt_s_shared(reader, S_GAP));
            list = zt_g_add(builder, list, zt_s_key(reader, key, strlen(key)));
            list = zt_g_add(builder, zt_g_add(builder, list, zt_s_colon(reader)), read_value(reader, item));
        }
    } else {
        json_array_foreach(value, i, item)
        {
            if (i) list = zt_g_add(builder, zt_g_add(builder, list, zt_g_literal(builder, ",")), zt_s_shared(reader, S_GAP));
            list = zt_g_add(builder, list, read_value(reader, item));
        }
        count = json_array_size(value);
    }
    if (count) list = zt_g_add(builder, list, zt_s_shared(reader, S_GAP));
    return zt_g_add(builder, list, zt_g_literal(builder, object ? "}" : "]"));
}

static gexpr *read_value(sreader *reader, const json_t *value)
{
    gexpr *expr = NULL;
    if (json_is_string(value)) return zt_s_text(reader, json_string_value(value), json_string_length(value));
    if (json_is_number(value)) return number_text(reader, value);
    if (json_is_null(value)) return zt_s_word(reader, S_WORD_NULL);
    if (json_is_boolean(value)) return zt_s_word(reader, json_is_true(value) ? S_WORD_TRUE : S_WORD_FALSE);
    if (++reader->depth > MOST_NESTING)
        zt_s_fail(reader, "a value nests more than %d deep", MOST_NESTING);
    else
        expr = read_container(reader, value);
    reader->depth--;
    return expr;
}

/* ---- const and enum -------------------------------------------------------------------------- */

static bool has_type(const json_t *value, int types)
{
    double number = json_number_value(value);
    if (json_is_number(value)) {
        bool whole = json_is_integer(value) || number == floor(number);
        return types & 1 << S_NUMBER || (types & 1 << S_INTEGER && whole);
    }
    return types & 1 << (json_is_null(value)      ? S_NULL
                         : json_is_boolean(value) ? S_BOOLEAN
                         : json_is_string(value)  ? S_STRING
                         : json_is_array(value)   ? S_ARRAY
                                                  : S_OBJECT);
}

/* Is a listed value valid by what stands beside the list? -1: that is not supported. */
static int is_valid(const sreader *reader, const json_t *schema, const json_t *value, int types)
{
    static const struct {
        const char *key;
        bool upper, open;
    } bounds[] = {
        {"minimum", false, false}, {"maximum", true, false}, {"exclusiveMinimum", false, true}, {"exclusiveMaximum", true, true}};
    const char *key;
    const json_t *member;
    bool valid = has_type(value, types);
    json_object_foreach((json_t *)schema, key, member)
    {
        size_t i = 0;
        if (strcmp(key, "type") == 0 || strcmp(key, "enum") == 0) continue;
        while (i < 4 && strcmp(bounds[i].key, key) != 0) i++;
        if (i == 4) return zt_s_refuse(reader, key, "beside const or enum"), -1;
        if (!json_is_number(value) || !json_is_number(member)) continue;
        double number = json_number_value(value), bound = json_number_value(member);
        valid = valid && (bounds[i].upper ? number <= bound : number >= bound) && !(bounds[i].open && number == bound);
    }
    return valid;
}

/* Strings, which may be many, by their common beginnings. */
static gexpr *read_strings(sreader *reader, const json_t *values)
{
    gbuilder *builder = reader->builder;
    const char *quote = reader->dialect->quote;
    size_t count = json_array_size(values);
    zt_bytes *texts = zt_alloc_array(builder->ctx, count, sizeof *texts);
    gexpr *expr = texts ? zt_g_list(builder, G_CHOICE) : NULL;
    for (size_t i = 0; i < count && expr; i++) {
        const json_t *value = json_array_get(values, i);
        expr = zt_s_text(reader, json_string_value(value), json_string_length(value));
        if (expr) texts[i] = quote ? (zt_bytes){json_string_value(value), json_string_length(value)} : expr->text;
    }
    if (expr) expr = zt_g_one_of(builder, texts, count);
    zt_free(builder->ctx, texts);
    if (!quote) return expr;
    gexpr *mark = zt_g_mark(builder, quote, strlen(quote));
    return ZT_G_SEQUENCE(builder, mark, expr, mark);
}

/* The values of enum that are valid, strings or others. NULL: an error. */
static json_t *list_valid(const sreader *reader, const json_t *schema, bool strings)
{
    const json_t *values = json_object_get(schema, "enum"), *value;
    int types = zt_s_types(reader, schema);
    json_t *list = json_array();
    size_t i;
    if (!json_is_array(values)) zt_s_fail(reader, "\"enum\" is not an array");
    json_array_foreach(values, i, value)
    {
        int valid = types >= 0 ? is_valid(reader, schema, value, types) : -1;
        if (valid < 0) break;
        if (valid && json_is_string(value) == strings) json_array_append(list, (json_t *)value);
    }
    if (list && zt_ctx_status(reader->builder->ctx) == ZT_OK) return list;
    json_decref(list);
    return NULL;
}

json_t *zt_s_strings(sreader *reader, const json_t *schema) { return list_valid(reader, schema, true); }

gexpr *zt_s_values(sreader *reader, const json_t *schema)
{
    json_t *strings = list_valid(reader, schema, true), *others = strings ? list_valid(reader, schema, false) : NULL;
    const json_t *value;
    size_t i;
    gexpr *choice = others ? zt_g_list(reader->builder, G_CHOICE) : NULL;
    json_array_foreach(others, i, value) choice = zt_g_add(reader->builder, choice, read_value(reader, value));
    if (json_array_size(strings)) choice = zt_g_add(reader->builder, choice, read_strings(reader, strings));
    json_decref(strings);
    json_decref(others);
    return choice;
}

/* ---- any value ------------------------------------------------------------------------------- */

gexpr *zt_s_colon(sreader *reader)
{
    gbuilder *builder = reader->builder;
    return ZT_G_SEQUENCE(builder, zt_g_literal(builder, ":"), zt_g_optional(builder, zt_g_literal(builder, " ")));
}

static gexpr *make_gap(gbuilder *builder)
{
    gexpr *line =
        ZT_G_SEQUENCE(builder, zt_g_literal(builder, "\n"), zt_g_repeat(builder, zt_g_literal(builder, " "), 0, MOST_INDENT));
    return ZT_G_CHOICE(builder, zt_g_literal(builder, ""), zt_g_literal(builder, " "), line);
}

gexpr *zt_g_gap(gbuilder *builder) { return make_gap(builder); }

gexpr *zt_s_make_shared(sreader *reader, sshared which)
{
    gbuilder *builder = reader->builder;
    const json_t *anything = zt_s_keep(reader, json_object());
    if (!anything) return NULL;
    switch (which) {
    case S_VALUE:
        return ZT_G_CHOICE(builder, zt_s_shared(reader, S_ANY_OBJECT), zt_s_shared(reader, S_ANY_ARRAY),
                           zt_s_shared(reader, S_ANY_STRING), zt_s_shared(reader, S_ANY_NUMBER), zt_s_word(reader, S_WORD_TRUE),
                           zt_s_word(reader, S_WORD_FALSE), zt_s_word(reader, S_WORD_NULL));
    case S_ANY_OBJECT: return zt_s_object(reader, anything);
    case S_ANY_ARRAY: return zt_s_array(reader, anything);
    case S_ANY_STRING: return zt_s_string(reader, anything);
    case S_ANY_NUMBER: return zt_s_number(reader, anything, false);
    case S_ANY_INTEGER: return zt_s_number(reader, anything, true);
    case S_GAP: return make_gap(builder);
    default: return zt_g_json_character(builder);
    }
}
