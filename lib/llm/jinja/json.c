/* json.c - JSON in, as values; and out, as Python's json.dumps writes it. */
#include "lib/llm/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- in -------------------------------------------------------------------------------------- */

static jvalue from_object(jmachine *j, const json_t *value, bool input)
{
    jvalue v = {.kind = J_DICT, .dict = zt_j_dict(j)};
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
        zt_j_dict_set(j, v.dict, zt_j_string(zt_j_text(j, key, strlen(key), input)),
                      zt_j_from_json(j, item, input));
    return v;
}

static jvalue from_array(jmachine *j, const json_t *value, bool input)
{
    size_t n = json_array_size(value);
    jlist *l = zt_j_list(j, n);
    for (size_t i = 0; i < n; i++)
        zt_j_append(j, l, zt_j_from_json(j, json_array_get(value, i), input));
    return zt_j_of_list(l, J_LIST);
}

jvalue zt_j_from_json(jmachine *j, const json_t *value, bool input)
{
    jvalue v = zt_j_none;
    zt_j_enter(j);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        v = from_object(j, value, input);
        break;
    case JSON_ARRAY:
        v = from_array(j, value, input);
        break;
    case JSON_STRING:
        v = zt_j_string(zt_j_text(j, json_string_value(value), json_string_length(value), input));
        break;
    case JSON_INTEGER:
        v = zt_j_int(json_integer_value(value));
        break;
    case JSON_REAL:
        v = zt_j_float(json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        v = zt_j_bool(json_is_true(value));
        break;
    case JSON_NULL:
        break;
    }
    zt_j_leave(j);
    return v;
}

/* ---- out ------------------------------------------------------------------------------------- */

typedef struct writer {
    jmachine *j;
    jout *o;
    bool ascii, sort, lines;
    jtext indent; /* of a level, where lines */
    jtext item, key; /* separators */
} writer;

static void put_unit(writer *w, uint32_t unit, bool input)
{
    char buf[16];
    snprintf(buf, sizeof buf, "\\u%04x", unit);
    zt_j_put(w->j, w->o, buf, 6, input);
}

static void put_char(writer *w, jtext t, size_t at, size_t k)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    uint32_t cp = zt_j_code(zt_j_data(t) + at, k);
    bool input = zt_j_marks(t)[at];
    const char *hit = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    if (hit) {
        char two[2] = {'\\', to[hit - from]};
        zt_j_put(w->j, w->o, two, 2, input);
    } else if (cp < 0x20 || (w->ascii && cp >= 0x7f && cp < 0x10000)) {
        put_unit(w, cp, input);
    } else if (w->ascii && cp >= 0x10000) {
        put_unit(w, 0xd800 + ((cp - 0x10000) >> 10), input);
        put_unit(w, 0xdc00 + ((cp - 0x10000) & 0x3ff), input);
    } else {
        zt_j_put_text(w->j, w->o, zt_j_part(t, at, k));
    }
}

static void put_string(writer *w, jtext t)
{
    zt_j_put(w->j, w->o, "\"", 1, false);
    for (size_t at = 0, k; at < t.n; at += k) {
        k = zt_j_char_bytes(zt_j_data(t) + at, t.n - at);
        put_char(w, t, at, k);
    }
    zt_j_put(w->j, w->o, "\"", 1, false);
}

static void put_float(writer *w, double f)
{
    char buf[64];
    const char *text = isnan(f) ? "NaN" : isinf(f) ? (f > 0 ? "Infinity" : "-Infinity")
                                                   : zt_j_print_float(f, buf);
    zt_j_puts(w->j, w->o, text);
}

static void put_int(writer *w, int64_t i)
{
    char buf[32];
    snprintf(buf, sizeof buf, "%" PRId64, i);
    zt_j_puts(w->j, w->o, buf);
}

static void put_value(writer *w, jvalue v, int level);

static void put_line(writer *w, int level)
{
    if (!w->lines)
        return;
    zt_j_puts(w->j, w->o, "\n");
    zt_j_put_fill(w->j, w->o, w->indent, level);
}

static void put_list(writer *w, const jlist *l, int level)
{
    zt_j_puts(w->j, w->o, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            zt_j_put_text(w->j, w->o, w->item);
        put_line(w, level + 1);
        put_value(w, l->item[i], level + 1);
    }
    if (l->n)
        put_line(w, level);
    zt_j_puts(w->j, w->o, "]");
}

/* A member's name: numbers and the like become texts. */
static void put_key(writer *w, jvalue key)
{
    if (key.kind == J_STRING) {
        put_string(w, key.s);
        return;
    }
    if (key.kind != J_NONE && !zt_j_is_number(key))
        zt_j_fail(w->j, "keys must be str, int, float, bool or None, not %s", zt_j_type(key));
    zt_j_puts(w->j, w->o, "\"");
    put_value(w, key, 0);
    zt_j_puts(w->j, w->o, "\"");
}

static void put_dict(writer *w, const jdict *d, int level)
{
    jpair *pair = d->pair;
    if (w->sort) {
        jvalue *value = zt_j_array(w->j, d->n, sizeof *value);
        jvalue *key = zt_j_array(w->j, d->n, sizeof *key);
        pair = zt_j_array(w->j, d->n, sizeof *pair);
        for (size_t i = 0; i < d->n; i++) {
            key[i] = d->pair[i].key;
            value[i] = d->pair[i].value;
        }
        zt_j_sort(w->j, value, key, d->n, false);
        for (size_t i = 0; i < d->n; i++)
            pair[i] = (jpair){key[i], value[i], 0};
    }
    zt_j_puts(w->j, w->o, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            zt_j_put_text(w->j, w->o, w->item);
        put_line(w, level + 1);
        put_key(w, pair[i].key);
        zt_j_put_text(w->j, w->o, w->key);
        put_value(w, pair[i].value, level + 1);
    }
    if (d->n)
        put_line(w, level);
    zt_j_puts(w->j, w->o, "}");
}

static void put_value(writer *w, jvalue v, int level)
{
    zt_j_enter(w->j);
    switch ((jkind)v.kind) {
    case J_NONE:
        zt_j_puts(w->j, w->o, "null");
        break;
    case J_BOOL:
        zt_j_puts(w->j, w->o, v.b ? "true" : "false");
        break;
    case J_INT:
        put_int(w, v.i);
        break;
    case J_FLOAT:
        put_float(w, v.f);
        break;
    case J_STRING:
        put_string(w, v.s);
        break;
    case J_LIST:
    case J_TUPLE:
        put_list(w, v.list, level);
        break;
    case J_DICT:
        put_dict(w, v.dict, level);
        break;
    default:
        zt_j_fail(w->j, "Object of type %s is not JSON serializable", zt_j_type(v));
    }
    zt_j_leave(w->j);
}

static jtext separator(writer *w, jvalue of, size_t i)
{
    jlist *l = zt_j_listed(w->j, of);
    if (l->n != 2 || l->item[i].kind != J_STRING)
        zt_j_fail(w->j, "tojson: separators are two strings");
    return l->item[i].s;
}

/* a: ensure_ascii, indent, separators, sort_keys. */
jvalue zt_j_tojson(jmachine *j, jvalue v, const jvalue *a)
{
    jout o = {NULL};
    writer w = {.j = j, .o = &o};
    bool given = a[2].kind != J_ABSENT && a[2].kind != J_NONE;
    w.ascii = zt_j_truth(j, a[0]) && a[0].kind != J_ABSENT;
    w.lines = a[1].kind != J_ABSENT && a[1].kind != J_NONE;
    w.sort = a[3].kind != J_ABSENT && zt_j_truth(j, a[3]);
    if (w.lines && a[1].kind == J_STRING)
        w.indent = a[1].s;
    else if (w.lines)
        w.indent = zt_j_repeat(j, zt_j_text(j, " ", 1, false), zt_j_as_int(j, a[1], "tojson"));
    w.item = given ? separator(&w, a[2], 0) : zt_j_literal(j, w.lines ? "," : ", ").s;
    w.key = given ? separator(&w, a[2], 1) : zt_j_literal(j, ": ").s;
    put_value(&w, v, 0);
    return zt_j_string(zt_j_done(j, &o));
}
