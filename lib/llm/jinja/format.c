/* format.c - Python's two ways to format: "%s" % x and "{}".format(x), with the same small language
 * of widths and precisions for both. */
#include "lib/llm/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WIDTH = 100000 }; /* of a field, and of a float's digits after the point: 300 */

typedef struct spec {
    jtext fill;
    char align; /* < > ^ =, 0: by the type */
    char sign;  /* + - space, 0 */
    bool alternate, zero;
    char group; /* , _ or 0 */
    int64_t width, precision; /* -1: not given */
    char type; /* 0: by the value */
} spec;

/* Pads text of n characters whose first `head` bytes are a sign or prefix. */
static void put_padded(jmachine *j, jout *o, const spec *s, jtext t, size_t head, char align)
{
    int64_t n = (int64_t)zt_j_chars(j, t), missing = s->width > n ? s->width - n : 0;
    int64_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    if (align == '=')
        zt_j_put_text(j, o, zt_j_part(t, 0, head));
    zt_j_put_fill(j, o, s->fill, left);
    zt_j_put_text(j, o, align == '=' ? zt_j_part(t, head, t.n - head) : t);
    zt_j_put_fill(j, o, s->fill, missing - left);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Digits in groups: of three, of four where the base is not ten. Only the first run of digits. */
static void put_grouped(jmachine *j, jout *o, const char *text, char group, int size)
{
    size_t n = strspn(text, "0123456789abcdefABCDEF");
    if (size == 3)
        n = strspn(text, "0123456789");
    for (size_t i = 0; i < n; i++) {
        if (group && i && (n - i) % (size_t)size == 0)
            zt_j_put(j, o, &group, 1, false);
        zt_j_put(j, o, text + i, 1, false);
    }
    zt_j_puts(j, o, text + n);
}

static size_t put_sign(jmachine *j, jout *o, bool negative, char sign)
{
    if (!negative && sign != '+' && sign != ' ')
        return 0;
    zt_j_puts(j, o, negative ? "-" : sign == '+' ? "+" : " ");
    return 1;
}

static void put_int_digits(uint64_t u, char type, char buf[72])
{
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    const char *digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char back[72];
    int n = 0, k = 0;
    do
        back[n++] = digits[u % base];
    while (u /= base);
    while (n > 0)
        buf[k++] = back[--n];
    buf[k] = 0;
}

static void put_int(jmachine *j, jout *o, const spec *s, int64_t i)
{
    char digits[72];
    jout text = {NULL};
    bool based = s->type == 'b' || s->type == 'o' || s->type == 'x' || s->type == 'X';
    size_t head = put_sign(j, &text, i < 0, s->sign);
    if (s->alternate && based) {
        char prefix[3] = {'0', s->type, 0};
        zt_j_puts(j, &text, prefix);
        head += 2;
    }
    put_int_digits(i < 0 ? 0 - (uint64_t)i : (uint64_t)i, s->type, digits);
    for (int64_t k = (int64_t)strlen(digits); k < s->precision; k++)
        zt_j_puts(j, &text, "0"); /* of % alone */
    put_grouped(j, &text, digits, s->group, based ? 4 : 3);
    put_padded(j, o, s, zt_j_done(j, &text), head, s->align ? s->align : s->zero ? '=' : '>');
}

/* The digits of |f| as %e, %f, %g; repr's where no type is named. */
static void float_digits(const spec *s, double f, char buf[512])
{
    char shortest[64], fmt[16];
    int precision = (int)(s->precision < 0 ? 6 : s->precision);
    if (isnan(f) || isinf(f)) {
        snprintf(buf, 512, "%s", isnan(f) ? "nan" : "inf");
    } else if (s->type == 0 && s->precision < 0) {
        snprintf(buf, 512, "%s", zt_j_print_float(f, shortest));
    } else if (s->type == '%') {
        snprintf(buf, 512, "%.*f%%", precision, f * 100);
    } else {
        char type = s->type == 0 ? 'g' : s->type;
        snprintf(fmt, sizeof fmt, "%%%s.*%c", s->alternate ? "#" : "", type);
        snprintf(buf, 512, fmt, precision, f);
        if (s->type == 0 && !strpbrk(buf, ".e")) {
            size_t n = strlen(buf);
            memcpy(buf + n, ".0", 3);
        }
    }
    for (char *p = buf; (s->type == 'F' || s->type == 'E' || s->type == 'G') && *p; p++)
        *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
}

static void put_float(jmachine *j, jout *o, const spec *s, double f)
{
    char digits[512];
    jout text = {NULL};
    if (s->precision > 100 || (s->type != 'e' && s->type != 'g' && s->type && fabs(f) > 1e300))
        zt_j_fail(j, "a float with too many digits");
    size_t head = put_sign(j, &text, signbit(f) && !isnan(f), s->sign);
    float_digits(s, fabs(f), digits);
    put_grouped(j, &text, digits, s->group, 3);
    put_padded(j, o, s, zt_j_done(j, &text), head, s->align ? s->align : s->zero ? '=' : '>');
}

static void put_string(jmachine *j, jout *o, const spec *s, jtext t, char align)
{
    if (s->precision >= 0)
        t = zt_j_part(t, 0, zt_j_char_at(j, t, (size_t)s->precision));
    put_padded(j, o, s, t, 0, align);
}

static int64_t read_number(jmachine *j, jtext t, size_t *at)
{
    int64_t n = 0;
    const char *p = zt_j_data(t);
    for (; *at < t.n && p[*at] >= '0' && p[*at] <= '9'; ++*at) {
        n = n * 10 + (p[*at] - '0');
        if (n > MOST_WIDTH)
            zt_j_fail(j, "a width of more than %d in a format", MOST_WIDTH);
    }
    return n;
}

/* ---- % --------------------------------------------------------------------------------------- */

typedef struct percent {
    jmachine *j;
    jout *o;
    jtext f; /* the format, at */
    size_t at;
    jvalue args;
    size_t used;
    bool safe; /* the format is Markup: what is put in is escaped */
} percent;

static jvalue next_argument(percent *p)
{
    if (p->args.kind == J_TUPLE) {
        if (p->used >= p->args.list->n)
            zt_j_fail(p->j, "not enough arguments for format string");
        return p->args.list->item[p->used++];
    }
    if (p->used++ > 0)
        zt_j_fail(p->j, "not enough arguments for format string");
    return p->args;
}

/* %(name): the mapping's member. */
static jvalue named_argument(percent *p)
{
    size_t from = ++p->at;
    const char *f = zt_j_data(p->f);
    while (p->at < p->f.n && f[p->at] != ')')
        p->at++;
    if (p->at == p->f.n)
        zt_j_fail(p->j, "incomplete format key");
    if (p->args.kind != J_DICT)
        zt_j_fail(p->j, "format requires a mapping");
    jvalue key = zt_j_string(zt_j_part(p->f, from, p->at++ - from));
    jvalue *v = zt_j_dict_get(p->j, p->args.dict, key);
    if (!v)
        zt_j_fail(p->j, "format key not found: %s", zt_j_zero(p->j, key.s));
    return *v;
}

static int64_t star_or_number(percent *p)
{
    if (p->at < p->f.n && zt_j_data(p->f)[p->at] == '*') {
        p->at++;
        int64_t n = zt_j_as_int(p->j, next_argument(p), "*");
        if (n > MOST_WIDTH || n < -MOST_WIDTH)
            zt_j_fail(p->j, "a width of more than %d in a format", MOST_WIDTH);
        return n;
    }
    return read_number(p->j, p->f, &p->at);
}

static void put_number(percent *p, spec *s, jvalue v)
{
    bool floats = strchr("eEfFgG", s->type) != NULL;
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(p->j, v);
    if (!zt_j_is_number(v) || (v.kind == J_FLOAT && strchr("xXo", s->type)))
        zt_j_fail(p->j, "%%%c format: a number is required, not %s", s->type, zt_j_type(v));
    if (floats) {
        put_float(p->j, p->o, s, zt_j_as_float(v));
        return;
    }
    if (v.kind == J_FLOAT && !(fabs(v.f) < 9.2e18))
        zt_j_fail(p->j, "an integer of more than 64 bits");
    s->type = s->type == 'i' || s->type == 'u' ? 'd' : s->type;
    put_int(p->j, p->o, s, v.kind == J_FLOAT ? (int64_t)v.f : v.kind == J_BOOL ? v.b : v.i);
}

static void put_character(percent *p, const spec *s, jvalue v)
{
    jout o = {NULL};
    if (v.kind == J_INT && v.i >= 0 && v.i <= 0x10ffff && (v.i < 0xd800 || v.i > 0xdfff)) {
        zt_j_put_char(p->j, &o, (uint32_t)v.i, false);
        put_string(p->j, p->o, s, zt_j_done(p->j, &o), s->align ? s->align : '>');
        return;
    }
    if (v.kind != J_STRING || zt_j_chars(p->j, v.s) != 1)
        zt_j_fail(p->j, "%%c requires an int or a character");
    put_string(p->j, p->o, s, v.s, s->align ? s->align : '>');
}

static void read_flags(percent *p, spec *s)
{
    for (; p->at < p->f.n; p->at++) {
        char c = zt_j_data(p->f)[p->at];
        if (c == '-')
            s->align = '<';
        else if (c == '+' || (c == ' ' && s->sign != '+'))
            s->sign = c;
        else if (c == '#')
            s->alternate = true;
        else if (c == '0')
            s->zero = true;
        else if (c != ' ')
            break;
    }
}

static jtext shown(percent *p, jvalue v, char type)
{
    jtext t = type == 's' ? zt_j_str(p->j, v) : zt_j_repr(p->j, v);
    return p->safe && !(v.kind == J_STRING && v.safe) ? zt_j_escape_html(p->j, t) : t;
}

/* One %...; at is behind the percent sign. */
static void put_directive(percent *p)
{
    spec s = {.fill = zt_j_text(p->j, " ", 1, false), .width = -1, .precision = -1};
    const char *f = zt_j_data(p->f);
    jvalue v = zt_j_absent;
    if (p->at < p->f.n && f[p->at] == '(')
        v = named_argument(p);
    read_flags(p, &s);
    s.width = star_or_number(p);
    if (s.width < 0) {
        s.align = '<';
        s.width = -s.width;
    }
    if (p->at < p->f.n && f[p->at] == '.') {
        p->at++;
        s.precision = star_or_number(p);
        s.precision = s.precision < 0 ? 0 : s.precision;
    }
    while (p->at < p->f.n && strchr("hlL", f[p->at]))
        p->at++;
    if (p->at >= p->f.n)
        zt_j_fail(p->j, "incomplete format");
    s.type = f[p->at++];
    if (s.type == '%') {
        zt_j_puts(p->j, p->o, "%");
        return;
    }
    if (!strchr("diuoxXeEfFgGcsra", s.type) || s.type == 0)
        zt_j_fail(p->j, "unsupported format character '%c'", s.type);
    if (v.kind == J_ABSENT)
        v = next_argument(p);
    if (s.type == 's' || s.type == 'r' || s.type == 'a')
        put_string(p->j, p->o, &s, shown(p, v, s.type), s.align ? s.align : '>');
    else if (s.type == 'c')
        put_character(p, &s, v);
    else if (s.zero && !s.align) {
        s.fill = zt_j_text(p->j, "0", 1, false);
        put_number(p, &s, v);
    } else
        put_number(p, &s, v);
}

jvalue zt_j_percent(jmachine *j, jvalue format, jvalue args)
{
    jout o = {NULL};
    percent p = {.j = j, .o = &o, .f = format.s, .args = args, .safe = format.safe};
    zt_j_put(j, &o, "", 0, false);
    while (p.at < p.f.n) {
        const char *f = zt_j_data(p.f), *hit = memchr(f + p.at, '%', p.f.n - p.at);
        size_t to = hit ? (size_t)(hit - f) : p.f.n;
        zt_j_put_text(j, &o, zt_j_part(p.f, p.at, to - p.at));
        p.at = to + (hit != NULL);
        if (hit)
            put_directive(&p);
    }
    if (args.kind == J_TUPLE ? p.used < args.list->n
                             : p.used == 0 && args.kind != J_DICT && args.kind != J_LIST &&
                                   args.kind != J_RANGE && args.kind != J_UNDEFINED)
        zt_j_fail(j, "not all arguments converted during string formatting");
    jvalue v = zt_j_string(zt_j_done(j, &o));
    v.safe = format.safe;
    return v;
}

/* ---- str.format ------------------------------------------------------------------------------ */

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

/* [[fill]align][sign][#][0][width][,|_][.precision][type] */
static spec read_spec(jmachine *j, jtext t)
{
    spec s = {.fill = zt_j_text(j, " ", 1, false), .width = -1, .precision = -1};
    const char *p = zt_j_data(t);
    size_t at = 0, k = t.n ? zt_j_char_bytes(p, t.n) : 0;
    if (k < t.n && is_align(p[k])) {
        s.fill = zt_j_part(t, 0, k);
        s.align = p[k];
        at = k + 1;
    } else if (t.n && is_align(p[0])) {
        s.align = p[at++];
    }
    if (at < t.n && (p[at] == '+' || p[at] == '-' || p[at] == ' '))
        s.sign = p[at++];
    if (at < t.n && p[at] == '#')
        s.alternate = p[at++] == '#';
    if (at < t.n && p[at] == '0') {
        s.zero = true;
        if (!s.align)
            s.fill = zt_j_text(j, "0", 1, false);
        at++;
    }
    s.width = read_number(j, t, &at);
    if (at < t.n && (p[at] == ',' || p[at] == '_'))
        s.group = p[at++];
    if (at < t.n && p[at] == '.') {
        size_t from = ++at;
        s.precision = read_number(j, t, &at);
        if (at == from)
            zt_j_fail(j, "format specifier missing precision");
    }
    if (at < t.n)
        s.type = p[at++];
    if (at < t.n)
        zt_j_fail(j, "invalid format specifier");
    return s;
}

static void put_spec(jmachine *j, jout *o, jvalue v, jtext text)
{
    spec s = read_spec(j, text);
    bool integer = v.kind == J_INT || v.kind == J_BOOL;
    if (text.n == 0) {
        zt_j_put_str(j, o, v);
        return;
    }
    if (v.kind == J_STRING && (s.type == 0 || s.type == 's') && !s.sign && !s.group && s.align != '=') {
        put_string(j, o, &s, v.s, s.align ? s.align : '<');
    } else if (integer && s.precision < 0 && (s.type == 0 || strchr("bdoxX", s.type))) {
        put_int(j, o, &s, v.kind == J_INT ? v.i : v.b);
    } else if (zt_j_is_number(v) && (v.kind == J_FLOAT || s.type) &&
               (s.type == 0 || strchr("eEfFgG%", s.type))) {
        put_float(j, o, &s, zt_j_as_float(v));
    } else {
        zt_j_fail(j, "format specifier '%s' does not fit '%s'", zt_j_zero(j, text), zt_j_type(v));
    }
}

typedef struct formatter {
    jmachine *j;
    const jcall *call;
    int next; /* of fields without a number; -1: fields are numbered */
} formatter;

/* "name.attr[key]" of a field. */
static jvalue field_value(formatter *f, jtext name)
{
    jmachine *j = f->j;
    const char *p = zt_j_data(name);
    size_t n = 0;
    int64_t number;
    jvalue v = zt_j_absent;
    while (n < name.n && p[n] != '.' && p[n] != '[')
        n++;
    size_t at = 0;
    number = read_number(j, zt_j_part(name, 0, n), &at);
    if (n == 0 || at == n) {
        if ((n == 0) != (f->next >= 0) && f->next != 0)
            zt_j_fail(j, "numbered and automatic fields in one format");
        number = n == 0 ? f->next++ : number;
        f->next = n == 0 ? f->next : -1;
        if (number >= f->call->n)
            zt_j_fail(j, "a replacement field without an argument");
        v = f->call->arg[number];
    }
    for (int i = 0; v.kind == J_ABSENT && i < f->call->n_keywords; i++)
        if (zt_j_text_is(zt_j_part(name, 0, n), f->call->keyword[i].name))
            v = f->call->keyword[i].value;
    if (v.kind == J_ABSENT)
        zt_j_fail(j, "no argument '%s' for a replacement field", zt_j_zero(j, zt_j_part(name, 0, n)));
    while (n < name.n) {
        bool item = p[n] == '[';
        size_t from = ++n;
        while (n < name.n && (item ? p[n] != ']' : p[n] != '.' && p[n] != '['))
            n++;
        jtext part = zt_j_part(name, from, n - from);
        at = 0;
        number = read_number(j, part, &at);
        v = !item                       ? zt_j_attribute(j, v, part)
            : at == part.n && part.n > 0 ? zt_j_item(j, v, zt_j_int(number))
                                         : zt_j_item(j, v, zt_j_string(part));
        n += item;
    }
    return v;
}

static jtext expand(formatter *f, jtext t, int depth);

/* "{...}": name[!conversion][:spec] */
static void put_field(formatter *f, jout *o, jtext t, int depth)
{
    const char *p = zt_j_data(t);
    size_t end = 0;
    int brackets = 0;
    for (; end < t.n && (brackets > 0 || (p[end] != '!' && p[end] != ':')); end++)
        brackets += p[end] == '[' ? 1 : p[end] == ']' && brackets ? -1 : 0;
    jvalue v = field_value(f, zt_j_part(t, 0, end));
    if (end < t.n && p[end] == '!') {
        char how = end + 1 < t.n ? p[end + 1] : 0;
        if (how != 'r' && how != 's' && how != 'a')
            zt_j_fail(f->j, "unknown conversion in a format");
        v = zt_j_string(how == 's' ? zt_j_str(f->j, v) : zt_j_repr(f->j, v));
        end += 2;
    }
    if (end < t.n && p[end] != ':')
        zt_j_fail(f->j, "expected ':' after a conversion");
    jtext rest = zt_j_part(t, end < t.n ? end + 1 : t.n, end < t.n ? t.n - end - 1 : 0);
    put_spec(f->j, o, v, depth > 0 ? expand(f, rest, depth - 1) : rest);
}

/* The end of the field whose brace is before `at`: its closing brace. */
static size_t field_end(formatter *f, jtext t, size_t at)
{
    int open = 1;
    for (; at < t.n; at++) {
        open += zt_j_data(t)[at] == '{' ? 1 : zt_j_data(t)[at] == '}' ? -1 : 0;
        if (open == 0)
            return at;
    }
    zt_j_fail(f->j, "expected '}' before end of a format");
}

static jtext expand(formatter *f, jtext t, int depth)
{
    jout o = {NULL};
    const char *p = zt_j_data(t);
    zt_j_put(f->j, &o, "", 0, false);
    for (size_t at = 0; at < t.n;) {
        size_t from = at;
        while (at < t.n && p[at] != '{' && p[at] != '}')
            at++;
        zt_j_put_text(f->j, &o, zt_j_part(t, from, at - from));
        if (at >= t.n)
            break;
        if (at + 1 < t.n && p[at + 1] == p[at]) {
            zt_j_put_text(f->j, &o, zt_j_part(t, at, 1));
            at += 2;
            continue;
        }
        if (p[at] == '}')
            zt_j_fail(f->j, "single '}' in a format");
        size_t end = field_end(f, t, at + 1);
        put_field(f, &o, zt_j_part(t, at + 1, end - at - 1), depth);
        at = end + 1;
    }
    return zt_j_done(f->j, &o);
}

jvalue zt_j_str_format(jmachine *j, jvalue self, const jvalue *a, const jcall *call)
{
    formatter f = {.j = j, .call = call};
    (void)a;
    jvalue v = zt_j_string(expand(&f, self.s, 1));
    v.safe = self.safe;
    return v;
}
