/* print.c - str() and repr() of values. */
#include "lib/llm/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- floats ---------------------------------------------------------------------------------- */

/* The fewest digits that read back as number, without a point, and the exponent of the first. */
static int shortest_digits(double number, char digits[20], int *exponent)
{
    char buffer[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(buffer, sizeof buffer, "%.*e", precision, number);
        if (strtod(buffer, NULL) == number) break;
    }
    char *exponent_mark = strchr(buffer, 'e');
    int count = 0;
    *exponent = (int)strtol(exponent_mark + 1, NULL, 10);
    for (char *letter = buffer; letter < exponent_mark; letter++)
        if (*letter >= '0' && *letter <= '9') digits[count++] = *letter;
    digits[count] = 0;
    return count;
}

/* As Python's repr: plain from 1e-4 up to 1e16, else with an exponent of two digits or more. */
const char *zt_j_print_float(double number, char buffer[64])
{
    char digits[20], *end = buffer;
    int exponent, digit_count;
    if (isnan(number) || isinf(number)) return isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
    if (signbit(number)) *end++ = '-';
    digit_count = shortest_digits(fabs(number), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        snprintf(end, 60, "%c%s%se%c%02d", digits[0], digit_count > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    } else if (exponent < 0) {
        snprintf(end, 60, "0.%.*s%s", -exponent - 1, "0000", digits);
    } else if (digit_count <= exponent + 1) {
        snprintf(end, 60, "%s%.*s.0", digits, exponent + 1 - digit_count, "0000000000000000");
    } else {
        snprintf(end, 60, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
    return buffer;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* Is the character shown as it is by repr? */
static bool is_printable(uint32_t codepoint)
{
    if (codepoint < 0x7f) return codepoint >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)codepoint)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static void put_escaped(jmachine *machine, jout *out, uint32_t codepoint, bool input)
{
    char buffer[16];
    const char *text = buffer;
    if (codepoint == '\n' || codepoint == '\r' || codepoint == '\t')
        text = codepoint == '\n' ? "\\n" : codepoint == '\r' ? "\\r" : "\\t";
    else
        snprintf(buffer, sizeof buffer, codepoint < 0x100 ? "\\x%02x" : codepoint < 0x10000 ? "\\u%04x" : "\\U%08x", codepoint);
    zt_j_put(machine, out, text, strlen(text), input);
}

static void put_quoted(jmachine *machine, jout *out, jtext text)
{
    const char *data = zt_j_data(text);
    bool single = memchr(data, '\'', text.size), twice = memchr(data, '"', text.size);
    char quote = single && !twice ? '"' : '\'';
    zt_j_put(machine, out, &quote, 1, false);
    for (size_t offset = 0, length; offset < text.size; offset += length) {
        length = zt_j_char_bytes(data + offset, text.size - offset);
        uint32_t codepoint = zt_j_code(data + offset, length);
        bool input = zt_j_marks(text)[offset];
        if (codepoint == (uint32_t)quote || codepoint == '\\') zt_j_put(machine, out, "\\", 1, input);
        if (is_printable(codepoint))
            zt_j_put_text(machine, out, zt_j_part(text, offset, length));
        else
            put_escaped(machine, out, codepoint, input);
    }
    zt_j_put(machine, out, &quote, 1, false);
}

/* ---- everything ------------------------------------------------------------------------------ */

static void put_items(jmachine *machine, jout *out, const jlist *list, const char *open, const char *close)
{
    zt_j_puts(machine, out, open);
    for (size_t i = 0; i < list->count; i++) {
        zt_j_puts(machine, out, i ? ", " : "");
        zt_j_put_repr(machine, out, list->items[i]);
    }
    zt_j_puts(machine, out, close);
}

static void put_dict(jmachine *machine, jout *out, const jdict *dict)
{
    zt_j_puts(machine, out, "{");
    for (size_t i = 0; i < dict->count; i++) {
        zt_j_puts(machine, out, i ? ", " : "");
        zt_j_put_repr(machine, out, dict->pairs[i].key);
        zt_j_puts(machine, out, ": ");
        zt_j_put_repr(machine, out, dict->pairs[i].value);
    }
    zt_j_puts(machine, out, "}");
}

static void put_view(jmachine *machine, jout *out, jvalue value)
{
    const char *name = value.view->part == 'k' ? "dict_keys(" : value.view->part == 'v' ? "dict_values(" : "dict_items(";
    zt_j_puts(machine, out, name);
    put_items(machine, out, zt_j_listed(machine, value), "[", "]");
    zt_j_puts(machine, out, ")");
}

static void put_format(jmachine *machine, jout *out, const char *fmt, const char *text)
{
    char buffer[256];
    snprintf(buffer, sizeof buffer, fmt, text);
    zt_j_puts(machine, out, buffer);
}

static void put_number(jmachine *machine, jout *out, jvalue value)
{
    char buffer[64];
    if (value.kind == J_FLOAT) {
        zt_j_puts(machine, out, zt_j_print_float(value.number, buffer));
    } else {
        snprintf(buffer, sizeof buffer, "%" PRId64, value.integer);
        zt_j_puts(machine, out, buffer);
    }
}

static void put_range(jmachine *machine, jout *out, const jrange *range)
{
    char buffer[96];
    if (range->step == 1)
        snprintf(buffer, sizeof buffer, "range(%" PRId64 ", %" PRId64 ")", range->start, range->stop);
    else
        snprintf(buffer, sizeof buffer, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", range->start, range->stop, range->step);
    zt_j_puts(machine, out, buffer);
}

static void put_loop(jmachine *machine, jout *out, jvalue value)
{
    zt_j_puts(machine, out, "<LoopContext ");
    zt_j_put_repr(machine, out, zt_j_loop_attribute(machine, value, "index", 5));
    zt_j_puts(machine, out, "/");
    zt_j_put_repr(machine, out, zt_j_loop_attribute(machine, value, "length", 6));
    zt_j_puts(machine, out, ">");
}

static void put_other(jmachine *machine, jout *out, jvalue value)
{
    switch ((jkind)value.kind) {
    case J_NAMESPACE:
        zt_j_puts(machine, out, "<Namespace ");
        put_dict(machine, out, value.dict);
        zt_j_puts(machine, out, ">");
        break;
    case J_MACRO:
        if (value.macro->node->name)
            put_format(machine, out, "<Macro '%s'>", value.macro->node->name);
        else
            zt_j_puts(machine, out, "<Macro anonymous>");
        break;
    case J_ITER: put_format(machine, out, "<%s object>", value.iter->name); break;
    case J_FUNCTION: put_format(machine, out, "<function %s>", value.function->name); break;
    case J_METHOD: put_format(machine, out, "<built-in method %s>", value.method->fn->name); break;
    case J_LOOP: put_loop(machine, out, value); break;
    default: put_format(machine, out, "<%s object>", zt_j_type(value));
    }
}

void zt_j_put_repr(jmachine *machine, jout *out, jvalue value)
{
    zt_j_enter(machine);
    switch ((jkind)value.kind) {
    case J_UNDEFINED: zt_j_puts(machine, out, "Undefined"); break;
    case J_NONE: zt_j_puts(machine, out, "None"); break;
    case J_BOOL: zt_j_puts(machine, out, value.boolean ? "True" : "False"); break;
    case J_INT:
    case J_FLOAT: put_number(machine, out, value); break;
    case J_STRING:
        zt_j_puts(machine, out, value.safe ? "Markup(" : "");
        put_quoted(machine, out, value.text);
        zt_j_puts(machine, out, value.safe ? ")" : "");
        break;
    case J_LIST: put_items(machine, out, value.list, "[", "]"); break;
    case J_TUPLE: put_items(machine, out, value.list, "(", value.list->count == 1 ? ",)" : ")"); break;
    case J_DICT: put_dict(machine, out, value.dict); break;
    case J_VIEW: put_view(machine, out, value); break;
    case J_RANGE: put_range(machine, out, value.range); break;
    default: put_other(machine, out, value);
    }
    zt_j_leave(machine);
}

void zt_j_put_str(jmachine *machine, jout *out, jvalue value)
{
    if (value.kind == J_STRING)
        zt_j_put_text(machine, out, value.text);
    else if (value.kind != J_UNDEFINED)
        zt_j_put_repr(machine, out, value);
}

jtext zt_j_str(jmachine *machine, jvalue value)
{
    jout out = {NULL};
    if (value.kind == J_STRING) return value.text;
    zt_j_put_str(machine, &out, value);
    return zt_j_done(machine, &out);
}

jtext zt_j_repr(jmachine *machine, jvalue value)
{
    jout out = {NULL};
    zt_j_put_repr(machine, &out, value);
    return zt_j_done(machine, &out);
}
