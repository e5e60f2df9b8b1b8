/* json.c - JSON in, as values; and out, as Python's json.dumps writes it. */
#include "lib/llm/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- in -------------------------------------------------------------------------------------- */

static jvalue from_object(jmachine *machine, const json_t *value, bool input)
{
    jvalue result = {.kind = J_DICT, .dict = zt_j_dict(machine)};
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item) zt_j_dict_set(
        machine, result.dict, zt_j_string(zt_j_text(machine, key, strlen(key), input)), zt_j_from_json(machine, item, input));
    return result;
}

static jvalue from_array(jmachine *machine, const json_t *value, bool input)
{
    size_t count = json_array_size(value);
    jlist *list = zt_j_list(machine, count);
    for (size_t i = 0; i < count; i++) zt_j_append(machine, list, zt_j_from_json(machine, json_array_get(value, i), input));
    return zt_j_of_list(list, J_LIST);
}

jvalue zt_j_from_json(jmachine *machine, const json_t *value, bool input)
{
    jvalue result = zt_j_none;
    zt_j_enter(machine);
    switch (json_typeof(value)) {
    case JSON_OBJECT: result = from_object(machine, value, input); break;
    case JSON_ARRAY: result = from_array(machine, value, input); break;
    case JSON_STRING: result = zt_j_string(zt_j_text(machine, json_string_value(value), json_string_length(value), input)); break;
    case JSON_INTEGER: result = zt_j_int(json_integer_value(value)); break;
    case JSON_REAL: result = zt_j_float(json_real_value(value)); break;
    case JSON_TRUE:
    case JSON_FALSE: result = zt_j_bool(json_is_true(value)); break;
    case JSON_NULL: break;
    }
    zt_j_leave(machine);
    return result;
}

/* ---- out ------------------------------------------------------------------------------------- */

typedef struct json_writer {
    jmachine *machine;
    jout *out;
    bool ascii, sort, lines;
    jtext indent;    /* of a level, where lines */
    jtext item, key; /* separators */
} json_writer;

static void put_unit(json_writer *writer, uint32_t unit, bool input)
{
    char buffer[16];
    snprintf(buffer, sizeof buffer, "\\u%04x", unit);
    zt_j_put(writer->machine, writer->out, buffer, 6, input);
}

static void put_char(json_writer *writer, jtext text, size_t offset, size_t length)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    uint32_t codepoint = zt_j_code(zt_j_data(text) + offset, length);
    bool input = zt_j_marks(text)[offset];
    const char *hit = codepoint && codepoint < 0x80 ? strchr(from, (int)codepoint) : NULL;
    if (hit) {
        char two[2] = {'\\', to[hit - from]};
        zt_j_put(writer->machine, writer->out, two, 2, input);
    } else if (codepoint < 0x20 || (writer->ascii && codepoint >= 0x7f && codepoint < 0x10000)) {
        put_unit(writer, codepoint, input);
    } else if (writer->ascii && codepoint >= 0x10000) {
        put_unit(writer, 0xd800 + ((codepoint - 0x10000) >> 10), input);
        put_unit(writer, 0xdc00 + ((codepoint - 0x10000) & 0x3ff), input);
    } else {
        zt_j_put_text(writer->machine, writer->out, zt_j_part(text, offset, length));
    }
}

static void put_string(json_writer *writer, jtext text)
{
    zt_j_put(writer->machine, writer->out, "\"", 1, false);
    for (size_t offset = 0, length; offset < text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(text) + offset, text.size - offset);
        put_char(writer, text, offset, length);
    }
    zt_j_put(writer->machine, writer->out, "\"", 1, false);
}

static void put_float(json_writer *writer, double number)
{
    char buffer[64];
    const char *text = isnan(number)   ? "NaN"
                       : isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                       : zt_j_print_float(number, buffer);
    zt_j_puts(writer->machine, writer->out, text);
}

static void put_int(json_writer *writer, int64_t number)
{
    char buffer[32];
    snprintf(buffer, sizeof buffer, "%" PRId64, number);
    zt_j_puts(writer->machine, writer->out, buffer);
}

static void put_value(json_writer *writer, jvalue value, int level);

static void put_line(json_writer *writer, int level)
{
    if (!writer->lines) return;
    zt_j_puts(writer->machine, writer->out, "\n");
    zt_j_put_fill(writer->machine, writer->out, writer->indent, level);
}

static void put_list(json_writer *writer, const jlist *list, int level)
{
    zt_j_puts(writer->machine, writer->out, "[");
    for (size_t i = 0; i < list->count; i++) {
        if (i) zt_j_put_text(writer->machine, writer->out, writer->item);
        put_line(writer, level + 1);
        put_value(writer, list->items[i], level + 1);
    }
    if (list->count) put_line(writer, level);
    zt_j_puts(writer->machine, writer->out, "]");
}

/* A member's name: numbers and the like become texts. */
static void put_key(json_writer *writer, jvalue key)
{
    if (key.kind == J_STRING) {
        put_string(writer, key.text);
        return;
    }
    if (key.kind != J_NONE && !zt_j_is_number(key))
        zt_j_fail(writer->machine, "keys must be str, int, float, bool or None, not %s", zt_j_type(key));
    zt_j_puts(writer->machine, writer->out, "\"");
    put_value(writer, key, 0);
    zt_j_puts(writer->machine, writer->out, "\"");
}

static void put_dict(json_writer *writer, const jdict *dict, int level)
{
    jpair *pair = dict->pairs;
    if (writer->sort) {
        jvalue *values = zt_j_array(writer->machine, dict->count, sizeof *values);
        jvalue *keys = zt_j_array(writer->machine, dict->count, sizeof *keys);
        pair = zt_j_array(writer->machine, dict->count, sizeof *pair);
        for (size_t i = 0; i < dict->count; i++) {
            keys[i] = dict->pairs[i].key;
            values[i] = dict->pairs[i].value;
        }
        zt_j_sort(writer->machine, values, keys, dict->count, false);
        for (size_t i = 0; i < dict->count; i++) pair[i] = (jpair){keys[i], values[i], 0};
    }
    zt_j_puts(writer->machine, writer->out, "{");
    for (size_t i = 0; i < dict->count; i++) {
        if (i) zt_j_put_text(writer->machine, writer->out, writer->item);
        put_line(writer, level + 1);
        put_key(writer, pair[i].key);
        zt_j_put_text(writer->machine, writer->out, writer->key);
        put_value(writer, pair[i].value, level + 1);
    }
    if (dict->count) put_line(writer, level);
    zt_j_puts(writer->machine, writer->out, "}");
}

static void put_value(json_writer *writer, jvalue value, int level)
{
    zt_j_enter(writer->machine);
    switch ((jkind)value.kind) {
    case J_NONE: zt_j_puts(writer->machine, writer->out, "null"); break;
    case J_BOOL: zt_j_puts(writer->machine, writer->out, value.boolean ? "true" : "false"); break;
    case J_INT: put_int(writer, value.integer); break;
    case J_FLOAT: put_float(writer, value.number); break;
    case J_STRING: put_string(writer, value.text); break;
    case J_LIST:
    case J_TUPLE: put_list(writer, value.list, level); break;
    case J_DICT: put_dict(writer, value.dict, level); break;
    default: zt_j_fail(writer->machine, "Object of type %s is not JSON serializable", zt_j_type(value));
    }
    zt_j_leave(writer->machine);
}

static jtext get_separator(json_writer *writer, jvalue of, size_t index)
{
    jlist *list = zt_j_listed(writer->machine, of);
    if (list->count != 2 || list->items[index].kind != J_STRING) zt_j_fail(writer->machine, "tojson: separators are two strings");
    return list->items[index].text;
}

/* args: ensure_ascii, indent, separators, sort_keys. */
jvalue zt_j_tojson(jmachine *machine, jvalue value, const jvalue *args)
{
    jout out = {NULL};
    json_writer writer = {.machine = machine, .out = &out};
    bool given = args[2].kind != J_ABSENT && args[2].kind != J_NONE;
    writer.ascii = zt_j_truth(machine, args[0]) && args[0].kind != J_ABSENT;
    writer.lines = args[1].kind != J_ABSENT && args[1].kind != J_NONE;
    writer.sort = args[3].kind != J_ABSENT && zt_j_truth(machine, args[3]);
    if (writer.lines && args[1].kind == J_STRING)
        writer.indent = args[1].text;
    else if (writer.lines)
        writer.indent = zt_j_repeat(machine, zt_j_text(machine, " ", 1, false), zt_j_as_int(machine, args[1], "tojson"));
    writer.item = given ? get_separator(&writer, args[2], 0) : zt_j_literal(machine, writer.lines ? "," : ", ").text;
    writer.key = given ? get_separator(&writer, args[2], 1) : zt_j_literal(machine, ": ").text;
    put_value(&writer, value, 0);
    return zt_j_string(zt_j_done(machine, &out));
}
