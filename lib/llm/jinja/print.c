/* print.c - str() and repr() of values. */
#include "lib/llm/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- floats ---------------------------------------------------------------------------------- */

/* The fewest digits that read back as f, without a point, and the exponent of the first. */
static int shortest(double f, char digits[20], int *exponent)
{
    char buf[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(buf, sizeof buf, "%.*e", precision, f);
        if (strtod(buf, NULL) == f)
            break;
    }
    char *e = strchr(buf, 'e');
    int n = 0;
    *exponent = (int)strtol(e + 1, NULL, 10);
    for (char *p = buf; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = 0;
    return n;
}

/* As Python's repr: plain from 1e-4 up to 1e16, else with an exponent of two digits or more. */
const char *zt_j_print_float(double f, char buf[64])
{
    char d[20], *p = buf;
    int e, n;
    if (isnan(f) || isinf(f))
        return isnan(f) ? "nan" : f > 0 ? "inf" : "-inf";
    if (signbit(f))
        *p++ = '-';
    n = shortest(fabs(f), d, &e);
    if (e < -4 || e >= 16) {
        snprintf(p, 60, "%c%s%se%c%02d", d[0], n > 1 ? "." : "", d + 1, e < 0 ? '-' : '+', abs(e));
    } else if (e < 0) {
        snprintf(p, 60, "0.%.*s%s", -e - 1, "0000", d);
    } else if (n <= e + 1) {
        snprintf(p, 60, "%s%.*s.0", d, e + 1 - n, "0000000000000000");
    } else {
        snprintf(p, 60, "%.*s.%s", e + 1, d, d + e + 1);
    }
    return buf;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* Is the character shown as it is by repr? */
static bool printable(uint32_t cp)
{
    if (cp < 0x7f)
        return cp >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

static void put_escaped(jmachine *j, jout *o, uint32_t cp, bool input)
{
    char buf[16];
    const char *text = buf;
    if (cp == '\n' || cp == '\r' || cp == '\t')
        text = cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t";
    else
        snprintf(buf, sizeof buf, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
    zt_j_put(j, o, text, strlen(text), input);
}

static void put_quoted(jmachine *j, jout *o, jtext t)
{
    const char *p = zt_j_data(t);
    bool single = memchr(p, '\'', t.n), twice = memchr(p, '"', t.n);
    char quote = single && !twice ? '"' : '\'';
    zt_j_put(j, o, &quote, 1, false);
    for (size_t at = 0, k; at < t.n; at += k) {
        k = zt_j_char_bytes(p + at, t.n - at);
        uint32_t cp = zt_j_code(p + at, k);
        bool input = zt_j_marks(t)[at];
        if (cp == (uint32_t)quote || cp == '\\')
            zt_j_put(j, o, "\\", 1, input);
        if (printable(cp))
            zt_j_put_text(j, o, zt_j_part(t, at, k));
        else
            put_escaped(j, o, cp, input);
    }
    zt_j_put(j, o, &quote, 1, false);
}

/* ---- everything ------------------------------------------------------------------------------ */

static void put_items(jmachine *j, jout *o, const jlist *l, const char *open, const char *close)
{
    zt_j_puts(j, o, open);
    for (size_t i = 0; i < l->n; i++) {
        zt_j_puts(j, o, i ? ", " : "");
        zt_j_put_repr(j, o, l->item[i]);
    }
    zt_j_puts(j, o, close);
}

static void put_dict(jmachine *j, jout *o, const jdict *d)
{
    zt_j_puts(j, o, "{");
    for (size_t i = 0; i < d->n; i++) {
        zt_j_puts(j, o, i ? ", " : "");
        zt_j_put_repr(j, o, d->pair[i].key);
        zt_j_puts(j, o, ": ");
        zt_j_put_repr(j, o, d->pair[i].value);
    }
    zt_j_puts(j, o, "}");
}

static void put_view(jmachine *j, jout *o, jvalue v)
{
    const char *name = v.view->what == 'k' ? "dict_keys(" : v.view->what == 'v' ? "dict_values("
                                                                                : "dict_items(";
    zt_j_puts(j, o, name);
    put_items(j, o, zt_j_listed(j, v), "[", "]");
    zt_j_puts(j, o, ")");
}

static void put_format(jmachine *j, jout *o, const char *fmt, const char *text)
{
    char buf[256];
    snprintf(buf, sizeof buf, fmt, text);
    zt_j_puts(j, o, buf);
}

static void put_number(jmachine *j, jout *o, jvalue v)
{
    char buf[64];
    if (v.kind == J_FLOAT) {
        zt_j_puts(j, o, zt_j_print_float(v.f, buf));
    } else {
        snprintf(buf, sizeof buf, "%" PRId64, v.i);
        zt_j_puts(j, o, buf);
    }
}

static void put_range(jmachine *j, jout *o, const jrange *r)
{
    char buf[96];
    if (r->step == 1)
        snprintf(buf, sizeof buf, "range(%" PRId64 ", %" PRId64 ")", r->start, r->stop);
    else
        snprintf(buf, sizeof buf, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", r->start, r->stop,
                 r->step);
    zt_j_puts(j, o, buf);
}

static void put_loop(jmachine *j, jout *o, jvalue v)
{
    zt_j_puts(j, o, "<LoopContext ");
    zt_j_put_repr(j, o, zt_j_loop_attribute(j, v, "index", 5));
    zt_j_puts(j, o, "/");
    zt_j_put_repr(j, o, zt_j_loop_attribute(j, v, "length", 6));
    zt_j_puts(j, o, ">");
}

static void put_other(jmachine *j, jout *o, jvalue v)
{
    switch ((jkind)v.kind) {
    case J_NAMESPACE:
        zt_j_puts(j, o, "<Namespace ");
        put_dict(j, o, v.dict);
        zt_j_puts(j, o, ">");
        break;
    case J_MACRO:
        if (v.macro->node->name)
            put_format(j, o, "<Macro '%s'>", v.macro->node->name);
        else
            zt_j_puts(j, o, "<Macro anonymous>");
        break;
    case J_ITER:
        put_format(j, o, "<%s object>", v.iter->name);
        break;
    case J_FUNCTION:
        put_format(j, o, "<function %s>", v.function->name);
        break;
    case J_METHOD:
        put_format(j, o, "<built-in method %s>", v.method->fn->name);
        break;
    case J_LOOP:
        put_loop(j, o, v);
        break;
    default:
        put_format(j, o, "<%s object>", zt_j_type(v));
    }
}

void zt_j_put_repr(jmachine *j, jout *o, jvalue v)
{
    zt_j_enter(j);
    switch ((jkind)v.kind) {
    case J_UNDEFINED:
        zt_j_puts(j, o, "Undefined");
        break;
    case J_NONE:
        zt_j_puts(j, o, "None");
        break;
    case J_BOOL:
        zt_j_puts(j, o, v.b ? "True" : "False");
        break;
    case J_INT:
    case J_FLOAT:
        put_number(j, o, v);
        break;
    case J_STRING:
        zt_j_puts(j, o, v.safe ? "Markup(" : "");
        put_quoted(j, o, v.s);
        zt_j_puts(j, o, v.safe ? ")" : "");
        break;
    case J_LIST:
        put_items(j, o, v.list, "[", "]");
        break;
    case J_TUPLE:
        put_items(j, o, v.list, "(", v.list->n == 1 ? ",)" : ")");
        break;
    case J_DICT:
        put_dict(j, o, v.dict);
        break;
    case J_VIEW:
        put_view(j, o, v);
        break;
    case J_RANGE:
        put_range(j, o, v.range);
        break;
    default:
        put_other(j, o, v);
    }
    zt_j_leave(j);
}

void zt_j_put_str(jmachine *j, jout *o, jvalue v)
{
    if (v.kind == J_STRING)
        zt_j_put_text(j, o, v.s);
    else if (v.kind != J_UNDEFINED)
        zt_j_put_repr(j, o, v);
}

jtext zt_j_str(jmachine *j, jvalue v)
{
    jout o = {NULL};
    if (v.kind == J_STRING)
        return v.s;
    zt_j_put_str(j, &o, v);
    return zt_j_done(j, &o);
}

jtext zt_j_repr(jmachine *j, jvalue v)
{
    jout o = {NULL};
    zt_j_put_repr(j, &o, v);
    return zt_j_done(j, &o);
}
