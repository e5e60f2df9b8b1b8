/* schema_string.c - JSON strings: lengths, patterns, formats, keys. */
#include "lib/llm/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BARE = 64 }; /* letters of a key without quotes */

static gexpr *quoted(gbuilder *builder, gexpr *text)
{
    return ZT_G_SEQUENCE(builder, zt_g_literal(builder, "\""), text, zt_g_literal(builder, "\""));
}

/* One character of a string in any of its spellings; a pair of surrogates is one. */
gexpr *zt_g_json_character(gbuilder *builder)
{
    static const char *const escapes[] = {
        "\\\\[\"\\\\/bfnrt]",
        "\\\\u(?:[0-9A-CEFa-cef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2})",
        "\\\\u[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}",
    };
    gchars controls = {0};
    if (!zt_g_chars_add(builder, &controls, 0, 0x1f) || !zt_g_chars_add(builder, &controls, '"', '"') ||
        !zt_g_chars_add(builder, &controls, '\\', '\\') ||
        (builder->escape_less && !zt_g_chars_add(builder, &controls, '<', '<')) || !zt_g_chars_invert(builder, &controls))
        return NULL;
    gexpr *choice = ZT_G_CHOICE(builder, zt_g_chars(builder, &controls));
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        choice = zt_g_add(builder, choice, zt_g_regex(builder, escapes[i], strlen(escapes[i]), G_PLAIN));
    return choice;
}

/* ---- formats --------------------------------------------------------------------------------- */

#define YEAR   "(?:000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})"
#define FOURTH "(?:0[48]|[2468][048]|[13579][26])" /* a multiple of 4 that is not 00 */
#define DATE                                                                                                                     \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"  \
    "|(?:\\d\\d" FOURTH "|" FOURTH "00)-02-29)"
#define TIME     "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define TIMES    "T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S)"
#define DAYS     "(?:\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}D)"
#define LABEL    "[A-Za-z0-9]{1,30}(?:-[A-Za-z0-9]{1,30})?"
#define HOSTNAME LABEL "(?:\\." LABEL "){0,3}"
#define BYTE     "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4     BYTE "\\." BYTE "\\." BYTE "\\." BYTE
#define HEX      "[0-9a-fA-F]"
#define GROUP    HEX "{1,4}"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:" DAYS "(?:" TIMES ")?|" TIMES "|\\d{1,9}W)"},
    {"email", "[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}@" HOSTNAME},
    {"hostname", HOSTNAME},
    {"ipv4", IPV4},
    {"ipv6", "(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP ":){1,5}(?::" GROUP "){2}"
             "|(?:" GROUP ":){1,4}(?::" GROUP "){3}|(?:" GROUP ":){1,3}(?::" GROUP "){4}|(?:" GROUP ":){1,2}(?::" GROUP "){5}"
             "|" GROUP ":(?::" GROUP "){6}|:(?::" GROUP "){1,7}|::|(?:" GROUP ":){6}" IPV4 "|::(?:" GROUP ":){0,5}" IPV4},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
};

static gexpr *read_format(sreader *reader, const char *name)
{
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            return zt_g_regex(reader->builder, formats[i].pattern, strlen(formats[i].pattern), G_PLAIN);
    char shown[64], why[160];
    zt_escape(shown, sizeof shown, name ? name : "?", name ? strlen(name) : 1);
    snprintf(why, sizeof why, "'%s'; known are date, time, date-time, duration, email, hostname, ipv4, ipv6 and uuid", shown);
    return zt_s_refuse(reader, "format", why);
}

/* ---- strings --------------------------------------------------------------------------------- */

static gexpr *read_pattern(sreader *reader, const json_t *pattern, gwritten written)
{
    if (!json_is_string(pattern)) return zt_s_fail(reader, "\"pattern\" is not a string");
    gbuilder *builder = reader->builder;
    const char *name = builder->name;
    char place[200];
    snprintf(place, sizeof place, "%.80s: #%.100s", name, reader->path.data ? reader->path.data : "");
    builder->name = place;
    gexpr *expr = zt_g_regex(builder, json_string_value(pattern), json_string_length(pattern), written);
    builder->name = name;
    return expr;
}

/* A string's value that has a form or a length, without quotes. *free: it has neither, and NULL is returned. */
static gexpr *read_bounded(sreader *reader, const json_t *schema, gwritten written, bool *free)
{
    gbuilder *builder = reader->builder;
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    int64_t least = zt_s_count(reader, schema, "minLength", 0), most = zt_s_count(reader, schema, "maxLength", -1);
    *free = false;
    if (least < 0 || most < -1) return NULL;
    if (pattern && format) return zt_s_refuse(reader, "pattern", "beside \"format\"");
    if ((pattern || format) && (least > 0 || most >= 0))
        return zt_s_refuse(reader, least > 0 ? "minLength" : "maxLength", pattern ? "beside \"pattern\"" : "beside \"format\"");
    if (pattern) return read_pattern(reader, pattern, written);
    if (format) return read_format(reader, json_string_value(format));
    if (most >= 0 && most < least) return zt_g_list(builder, G_CHOICE);
    *free = least == 0 && most < 0;
    if (*free) return NULL;
    gchars all = {0};
    if (!zt_g_chars_add(builder, &all, 0, 0x10ffff)) return NULL;
    gexpr *character = written == G_RAW_STRING ? zt_g_raw_characters(builder, &all) : zt_s_shared(reader, S_CHARACTER);
    return zt_g_repeat(builder, character, least, most);
}

/* One of the strings of enum. None may hold the mark. */
static gexpr *read_raw_values(sreader *reader, const json_t *schema, const char *mark, const char *never)
{
    json_t *strings = zt_s_strings(reader, schema);
    size_t count = json_array_size(strings);
    zt_bytes *texts = strings ? zt_alloc_array(reader->builder->ctx, count, sizeof *texts) : NULL;
    bool good = texts != NULL;
    char shown[80];
    for (size_t i = 0; i < count && good; i++) {
        const json_t *value = json_array_get(strings, i);
        texts[i] = (zt_bytes){json_string_value(value), json_string_length(value)};
        good = !memmem(texts[i].data, texts[i].n, mark, strlen(mark)) &&
               !(never && memmem(texts[i].data, texts[i].n, never, strlen(never)));
        if (!good)
            zt_s_fail(reader, "'%s' cannot be written in this form of tool calls",
                      zt_escape(shown, sizeof shown, texts[i].data, texts[i].n));
    }
    gexpr *expr = good ? zt_g_one_of(reader->builder, texts, count) : NULL;
    zt_free(reader->builder->ctx, texts);
    json_decref(strings);
    return expr;
}

gexpr *zt_s_raw(sreader *reader, const json_t *schema, const char *mark, const char *never, gexpr *then)
{
    gbuilder *builder = reader->builder;
    bool free = false, values = json_object_get(schema, "enum");
    gexpr *expr = values ? read_raw_values(reader, schema, mark, never) : read_bounded(reader, schema, G_RAW_STRING, &free);
    const gmark ends[] = {{.text = mark, .then = then}, {.text = never}};
    if (free) return zt_g_scan(builder, &(gscan){.mark = ends, .count = never ? 2 : 1, .strict = true});
    return ZT_G_SEQUENCE(builder, expr, zt_g_mark(builder, mark, strlen(mark)), then);
}

gexpr *zt_s_string(sreader *reader, const json_t *schema)
{
    gbuilder *builder = reader->builder;
    const char *quote = reader->dialect->quote;
    bool free;
    if (quote) {
        gexpr *rest = zt_s_raw(reader, schema, quote, NULL, zt_g_literal(builder, ""));
        return ZT_G_SEQUENCE(builder, zt_g_mark(builder, quote, strlen(quote)), rest);
    }
    gexpr *text = read_bounded(reader, schema, G_JSON_STRING, &free);
    if (free) text = zt_g_repeat(builder, zt_s_shared(reader, S_CHARACTER), 0, -1);
    return quoted(builder, text);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int compare_names(const void *first, const void *second)
{
    const zt_bytes *left = first, *right = second;
    size_t shorter = left->n < right->n ? left->n : right->n;
    int order = shorter ? memcmp(left->data, right->data, shorter) : 0;
    return order ? order : (left->n > right->n) - (left->n < right->n);
}

/* Of a key without quotes, only letters, digits and _. */
static gexpr *key_characters(sreader *reader, gchars *chars)
{
    gbuilder *builder = reader->builder;
    gchars words = {0}, kept = {0};
    if (!reader->dialect->bare_keys) return zt_g_json_characters(builder, chars);
    zt_g_chars_normalize(chars);
    if (!zt_g_chars_class(builder, &words, 'w', false)) return NULL;
    for (uint32_t letter = 0; letter < 0x80; letter++)
        if (zt_g_chars_has(chars, letter) && zt_g_chars_has(&words, letter) && !zt_g_chars_add(builder, &kept, letter, letter))
            return NULL;
    return zt_g_chars(builder, &kept);
}

/* The rest of a key behind `from` bytes that the names have in common, at the beginning of a character: a
 * character with which none goes on, and then anything; or one with which some go on, and then what is none of
 * their rests. */
static gexpr *rest_of_key(sreader *reader, const zt_bytes *names, size_t count, size_t from, gexpr *any, int depth)
{
    gbuilder *builder = reader->builder;
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    gchars others = {0};
    size_t begin = 0;
    if (depth > MOST_NESTING) return zt_s_fail(reader, "property names of more than %d characters beside others", MOST_NESTING);
    while (begin < count && names[begin].n == from) begin++;
    if (begin == 0 && (from || !reader->dialect->bare_keys))
        choice = zt_g_add(builder, choice, zt_g_literal(builder, "")); /* no name ends here */
    for (size_t end; choice && begin < count; begin = end) {
        uint32_t code_point = 0, other = 0;
        int size = zt_utf8_decode(names[begin].data + from, names[begin].n - from, &code_point);
        for (end = begin + 1; end < count; end++)
            if (!zt_utf8_decode(names[end].data + from, names[end].n - from, &other) || other != code_point) break;
        if (size == 0 || !zt_g_chars_add(builder, &others, code_point, code_point)) return NULL;
        gexpr *first = key_characters(reader, &(gchars){&(grange){code_point, code_point}, 1, 1});
        gexpr *rest = rest_of_key(reader, names + begin, end - begin, from + (size_t)size, any, depth + 1);
        choice = zt_g_add(builder, choice, ZT_G_SEQUENCE(builder, first, rest));
    }
    if (!choice || !zt_g_chars_invert(builder, &others)) return NULL;
    return zt_g_add(builder, choice, ZT_G_SEQUENCE(builder, key_characters(reader, &others), any));
}

gexpr *zt_s_key_except(sreader *reader, zt_bytes *names, size_t count)
{
    gbuilder *builder = reader->builder;
    gchars all = {0};
    if (!zt_g_chars_add(builder, &all, 0, 0x10ffff)) return NULL;
    if (count) qsort(names, count, sizeof *names, compare_names);
    bool bare = reader->dialect->bare_keys;
    gexpr *any = zt_g_repeat(builder, key_characters(reader, &all), bare && !count, bare ? MOST_BARE : -1);
    gexpr *key = count ? rest_of_key(reader, names, count, 0, any, 0) : any;
    return bare ? key : quoted(builder, key);
}
