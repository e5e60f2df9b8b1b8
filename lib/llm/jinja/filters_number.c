/* filters_number.c - the filters that make numbers, and what texts mean as numbers. */
#include "lib/llm/jinja/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) \
    static jvalue name(jmachine *j, jvalue v, const jvalue *a, const jcall *call)
#define UNUSED ((void)j, (void)a, (void)call)

/* Without blanks around it and single underscores between digits; NULL: it cannot be a number. */
static char *plain_number(jmachine *j, jtext t)
{
    jtext s = zt_j_strip(j, t, NULL, true, true);
    char *out = zt_j_alloc(j, s.n + 1);
    const char *p = zt_j_data(s);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        bool inner = i > 0 && i + 1 < s.n && p[i - 1] != '_' && p[i + 1] != '_';
        if (p[i] == 0 || (p[i] == '_' && !inner))
            return NULL;
        if (p[i] != '_')
            out[n++] = p[i];
    }
    return n ? out : NULL;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10
                                        : c >= 'A' && c <= 'Z'   ? c - 'A' + 10
                                                                 : 99;
}

/* int(text, base) of Python's. */
static bool parse_int(jmachine *j, jtext t, int64_t base, int64_t *out)
{
    char *p = plain_number(j, t);
    bool negative = p && *p == '-';
    int64_t value = 0;
    if (!p || (base != 0 && (base < 2 || base > 36)))
        return false;
    p += *p == '-' || *p == '+';
    int prefix = *p != '0' ? 0 : p[1] == 'x' || p[1] == 'X' ? 16 : p[1] == 'o' || p[1] == 'O' ? 8
                             : p[1] == 'b' || p[1] == 'B'   ? 2
                                                            : 0;
    if (prefix && (base == 0 || base == prefix)) {
        base = prefix;
        p += 2;
    }
    if (base == 0 && *p == '0' && strspn(p, "0") != strlen(p))
        return false;
    base = base ? base : 10;
    if (!*p)
        return false;
    for (; *p; p++) {
        int d = digit(*p);
        if (d >= base)
            return false;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_sub_overflow(value, d, &value)) /* downwards: the smallest is one more */
            zt_j_fail(j, "an integer of more than 64 bits");
    }
    if (!negative && __builtin_sub_overflow(0, value, &value))
        zt_j_fail(j, "an integer of more than 64 bits");
    *out = value;
    return true;
}

/* float(text) of Python's: no hexadecimal digits, no nan(...). */
static bool parse_float(jmachine *j, jtext t, double *out)
{
    char *p = plain_number(j, t), *end;
    if (!p || strpbrk(p, "xXpP("))
        return false;
    *out = strtod(p, &end);
    return *end == 0 && end > p;
}

static bool float_of(jmachine *j, jvalue v, double *out)
{
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, v);
    if (v.kind == J_STRING)
        return parse_float(j, v.s, out);
    if (zt_j_is_number(v))
        *out = zt_j_as_float(v);
    return zt_j_is_number(v);
}

static int64_t truncated(jmachine *j, double f)
{
    if (!(fabs(f) < 9223372036854774784.0))
        zt_j_fail(j, "an integer of more than 64 bits");
    return (int64_t)f;
}

FILTER(f_int)
{
    int64_t i, base = a[1].kind == J_ABSENT ? 10 : zt_j_as_int(j, a[1], "int");
    jvalue otherwise = a[0].kind == J_ABSENT ? zt_j_int(0) : a[0];
    double f;
    (void)call;
    if (v.kind == J_INT || v.kind == J_BOOL)
        return zt_j_int(v.kind == J_INT ? v.i : v.b);
    if (v.kind == J_STRING && parse_int(j, v.s, base, &i))
        return zt_j_int(i);
    if (!float_of(j, v, &f) || isnan(f) || (v.kind == J_STRING && isinf(f)))
        return otherwise;
    return zt_j_int(truncated(j, f));
}

FILTER(f_float)
{
    double f;
    (void)call;
    return float_of(j, v, &f) ? zt_j_float(f) : a[0].kind == J_ABSENT ? zt_j_float(0) : a[0];
}

FILTER(f_abs)
{
    UNUSED;
    if (!zt_j_is_number(v))
        zt_j_fail(j, "bad operand type for abs(): '%s'", zt_j_type(v));
    if (v.kind == J_FLOAT)
        return zt_j_float(fabs(v.f));
    return v.kind == J_BOOL ? zt_j_int(v.b) : v.i < 0 ? zt_j_negate(j, v) : v;
}

/* To the even neighbour where two are as near. */
static int64_t round_int(jmachine *j, int64_t i, int64_t precision)
{
    int64_t unit = 1, r;
    if (precision >= 0)
        return i;
    if (precision < -18)
        return 0;
    for (; precision < 0; precision++)
        unit *= 10;
    int64_t rest = i % unit;
    rest += rest < 0 ? unit : 0;
    int64_t below = i - rest;
    bool up = rest * 2 > unit || (rest * 2 == unit && (below / unit) % 2 != 0);
    if (__builtin_add_overflow(below, up ? unit : 0, &r))
        zt_j_fail(j, "an integer of more than 64 bits");
    return r;
}

static double round_float(double f, int64_t precision)
{
    char buf[400];
    if (!isfinite(f) || precision > 300)
        return f;
    if (precision < 0) {
        long double unit = powl(10, (long double)-precision);
        return precision < -308 ? copysign(0, f) : (double)(rintl((long double)f / unit) * unit);
    }
    if (snprintf(buf, sizeof buf, "%.*f", (int)precision, f) >= (int)sizeof buf)
        return f;
    return strtod(buf, NULL);
}

static double scaled(jmachine *j, jvalue v, int64_t precision, bool up)
{
    jvalue unit = zt_j_arith(j, J_OP('*', '*'), zt_j_int(10), zt_j_int(precision));
    double f = zt_j_as_float(zt_j_arith(j, '*', v, unit));
    return (up ? ceil(f) : floor(f)) / zt_j_as_float(unit);
}

FILTER(f_round)
{
    int64_t precision = a[0].kind == J_ABSENT ? 0 : zt_j_as_int(j, a[0], "round");
    jvalue method = a[1].kind == J_ABSENT ? zt_j_literal(j, "common") : a[1];
    (void)call;
    if (!zt_j_is_number(v) || method.kind != J_STRING)
        zt_j_fail(j, "type %s cannot be rounded", zt_j_type(v));
    if (zt_j_text_is(method.s, "ceil") || zt_j_text_is(method.s, "floor"))
        return zt_j_float(scaled(j, v, precision, zt_j_text_is(method.s, "ceil")));
    if (!zt_j_text_is(method.s, "common"))
        zt_j_fail(j, "round: the method must be common, ceil or floor");
    if (v.kind == J_FLOAT)
        return zt_j_float(round_float(v.f, precision));
    return zt_j_int(round_int(j, v.kind == J_BOOL ? v.b : v.i, precision));
}

FILTER(f_sum)
{
    jvalue sum = a[1].kind == J_ABSENT ? zt_j_int(0) : a[1], item;
    jiter *it = zt_j_iter(j, v);
    (void)call;
    if (sum.kind == J_STRING)
        zt_j_fail(j, "sum: strings cannot be summed");
    while (zt_j_next(j, it, &item))
        sum = zt_j_arith(j, '+', sum, zt_j_path(j, item, a[0], NULL));
    return sum;
}

FILTER(f_length)
{
    int64_t n;
    UNUSED;
    if (!zt_j_length(j, v, &n))
        zt_j_fail(j, "object of type '%s' has no len()", zt_j_type(v));
    return zt_j_int(n);
}

FILTER(f_filesizeformat)
{
    static const char units[] = "kMGTPEZY";
    bool binary = a[0].kind != J_ABSENT && zt_j_truth(j, a[0]);
    double bytes, base = binary ? 1024 : 1000, unit = base;
    char buf[64];
    (void)call;
    if (!float_of(j, v, &bytes))
        zt_j_fail(j, "filesizeformat: not a number");
    if (bytes == 1)
        return zt_j_literal(j, "1 Byte");
    if (bytes < base) {
        snprintf(buf, sizeof buf, "%lld Bytes", (long long)truncated(j, bytes));
        return zt_j_literal(j, buf);
    }
    int i = 0;
    for (; i < 8; i++) {
        unit *= base;
        if (bytes < unit)
            break;
    }
    i = i < 8 ? i : 7;
    snprintf(buf, sizeof buf, "%.1f %c%sB", base * bytes / unit,
             binary && i == 0 ? 'K' : units[i], binary ? "i" : "");
    return zt_j_literal(j, buf);
}

const jbuiltin zt_j_filters_number[] = {
    {"int", "default base", 0, f_int},
    {"float", "default", 0, f_float},
    {"abs", "", 0, f_abs},
    {"round", "precision method", 0, f_round},
    {"sum", "attribute start", 0, f_sum},
    {"length", "", 0, f_length},
    {"count", "", 0, f_length},
    {"filesizeformat", "binary", 0, f_filesizeformat},
    {NULL, NULL, 0, NULL},
};
