/* filters_number.c - the filters that make numbers, and what texts mean as numbers. */
#include "lib/llm/jinja/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) static jvalue name(jmachine *machine, jvalue value, const jvalue *args, const jcall *call)
#define UNUSED       ((void)machine, (void)args, (void)call)

/* Without blanks around it and single underscores between digits; NULL: it cannot be a number. */
static char *plain_number(jmachine *machine, jtext text)
{
    jtext stripped = zt_j_strip(machine, text, NULL, true, true);
    char *out = zt_j_alloc(machine, stripped.size + 1);
    const char *data = zt_j_data(stripped);
    size_t length = 0;
    for (size_t i = 0; i < stripped.size; i++) {
        bool inner = i > 0 && i + 1 < stripped.size && data[i - 1] != '_' && data[i + 1] != '_';
        if (data[i] == 0 || (data[i] == '_' && !inner)) return NULL;
        if (data[i] != '_') out[length++] = data[i];
    }
    return length ? out : NULL;
}

static int digit_value(char letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'a' && letter <= 'z' ? letter - 'a' + 10
           : letter >= 'A' && letter <= 'Z' ? letter - 'A' + 10
                                            : 99;
}

/* int(text, base) of Python's. */
static bool parse_int(jmachine *machine, jtext text, int64_t base, int64_t *out)
{
    char *data = plain_number(machine, text);
    bool negative = data && *data == '-';
    int64_t value = 0;
    if (!data || (base != 0 && (base < 2 || base > 36))) return false;
    data += *data == '-' || *data == '+';
    int prefix = *data != '0'                       ? 0
                 : data[1] == 'x' || data[1] == 'X' ? 16
                 : data[1] == 'o' || data[1] == 'O' ? 8
                 : data[1] == 'b' || data[1] == 'B' ? 2
                                                    : 0;
    if (prefix && (base == 0 || base == prefix)) {
        base = prefix;
        data += 2;
    }
    if (base == 0 && *data == '0' && strspn(data, "0") != strlen(data)) return false;
    base = base ? base : 10;
    if (!*data) return false;
    for (; *data; data++) {
        int digit = digit_value(*data);
        if (digit >= base) return false;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_sub_overflow(value, digit, &value)) /* downwards: the smallest is one more */
            zt_j_fail(machine, "an integer of more than 64 bits");
    }
    if (!negative && __builtin_sub_overflow(0, value, &value)) zt_j_fail(machine, "an integer of more than 64 bits");
    *out = value;
    return true;
}

/* float(text) of Python's: no hexadecimal digits, no nan(...). */
static bool parse_float(jmachine *machine, jtext text, double *out)
{
    char *data = plain_number(machine, text), *end;
    if (!data || strpbrk(data, "xXpP(")) return false;
    *out = strtod(data, &end);
    return *end == 0 && end > data;
}

static bool to_float(jmachine *machine, jvalue value, double *out)
{
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(machine, value);
    if (value.kind == J_STRING) return parse_float(machine, value.text, out);
    if (zt_j_is_number(value)) *out = zt_j_as_float(value);
    return zt_j_is_number(value);
}

static int64_t truncate_float(jmachine *machine, double number)
{
    if (!(fabs(number) < 9223372036854774784.0)) zt_j_fail(machine, "an integer of more than 64 bits");
    return (int64_t)number;
}

FILTER(f_int)
{
    int64_t parsed, base = args[1].kind == J_ABSENT ? 10 : zt_j_as_int(machine, args[1], "int");
    jvalue otherwise = args[0].kind == J_ABSENT ? zt_j_int(0) : args[0];
    double number;
    (void)call;
    if (value.kind == J_INT || value.kind == J_BOOL) return zt_j_int(value.kind == J_INT ? value.integer : value.boolean);
    if (value.kind == J_STRING && parse_int(machine, value.text, base, &parsed)) return zt_j_int(parsed);
    if (!to_float(machine, value, &number) || isnan(number) || (value.kind == J_STRING && isinf(number))) return otherwise;
    return zt_j_int(truncate_float(machine, number));
}

FILTER(f_float)
{
    double number;
    (void)call;
    return to_float(machine, value, &number) ? zt_j_float(number) : args[0].kind == J_ABSENT ? zt_j_float(0) : args[0];
}

FILTER(f_abs)
{
    UNUSED;
    if (!zt_j_is_number(value)) zt_j_fail(machine, "bad operand type for abs(): '%s'", zt_j_type(value));
    if (value.kind == J_FLOAT) return zt_j_float(fabs(value.number));
    return value.kind == J_BOOL ? zt_j_int(value.boolean) : value.integer < 0 ? zt_j_negate(machine, value) : value;
}

/* To the even neighbour where two are as near. */
static int64_t round_int(jmachine *machine, int64_t index, int64_t precision)
{
    int64_t unit = 1, result;
    if (precision >= 0) return index;
    if (precision < -18) return 0;
    for (; precision < 0; precision++) unit *= 10;
    int64_t rest = index % unit;
    rest += rest < 0 ? unit : 0;
    int64_t below = index - rest;
    bool up = rest * 2 > unit || (rest * 2 == unit && (below / unit) % 2 != 0);
    if (__builtin_add_overflow(below, up ? unit : 0, &result)) zt_j_fail(machine, "an integer of more than 64 bits");
    return result;
}

static double round_float(double number, int64_t precision)
{
    char buffer[400];
    if (!isfinite(number) || precision > 300) return number;
    if (precision < 0) {
        long double unit = powl(10, (long double)-precision);
        return precision < -308 ? copysign(0, number) : (double)(rintl((long double)number / unit) * unit);
    }
    if (snprintf(buffer, sizeof buffer, "%.*f", (int)precision, number) >= (int)sizeof buffer) return number;
    return strtod(buffer, NULL);
}

static double round_scaled(jmachine *machine, jvalue value, int64_t precision, bool up)
{
    jvalue unit = zt_j_arith(machine, J_OP('*', '*'), zt_j_int(10), zt_j_int(precision));
    double number = zt_j_as_float(zt_j_arith(machine, '*', value, unit));
    return ((up ? ceil(number) : floor(number)) + 0.0) / zt_j_as_float(unit); /* + 0.0: Python's are integers, without -0 */
}

FILTER(f_round)
{
    int64_t precision = args[0].kind == J_ABSENT ? 0 : zt_j_as_int(machine, args[0], "round");
    jvalue method = args[1].kind == J_ABSENT ? zt_j_literal(machine, "common") : args[1];
    (void)call;
    if (!zt_j_is_number(value) || method.kind != J_STRING) zt_j_fail(machine, "type %s cannot be rounded", zt_j_type(value));
    if (zt_j_text_is(method.text, "ceil") || zt_j_text_is(method.text, "floor"))
        return zt_j_float(round_scaled(machine, value, precision, zt_j_text_is(method.text, "ceil")));
    if (!zt_j_text_is(method.text, "common")) zt_j_fail(machine, "round: the method must be common, ceil or floor");
    if (value.kind == J_FLOAT) return zt_j_float(round_float(value.number, precision));
    return zt_j_int(round_int(machine, value.kind == J_BOOL ? value.boolean : value.integer, precision));
}

FILTER(f_sum)
{
    jvalue sum = args[1].kind == J_ABSENT ? zt_j_int(0) : args[1], item;
    jiter *iterator = zt_j_iter(machine, value);
    (void)call;
    if (sum.kind == J_STRING) zt_j_fail(machine, "sum: strings cannot be summed");
    while (zt_j_next(machine, iterator, &item)) sum = zt_j_arith(machine, '+', sum, zt_j_path(machine, item, args[0], NULL));
    return sum;
}

FILTER(f_length)
{
    int64_t length;
    UNUSED;
    if (!zt_j_length(machine, value, &length)) zt_j_fail(machine, "object of type '%s' has no len()", zt_j_type(value));
    return zt_j_int(length);
}

FILTER(f_filesizeformat)
{
    static const char units[] = "kMGTPEZY";
    bool binary = args[0].kind != J_ABSENT && zt_j_truth(machine, args[0]);
    double bytes, base = binary ? 1024 : 1000, unit = base;
    char buffer[64];
    (void)call;
    if (!to_float(machine, value, &bytes)) zt_j_fail(machine, "filesizeformat: not a number");
    if (bytes == 1) return zt_j_literal(machine, "1 Byte");
    if (bytes < base) {
        snprintf(buffer, sizeof buffer, "%lld Bytes", (long long)truncate_float(machine, bytes));
        return zt_j_literal(machine, buffer);
    }
    int i = 0;
    for (; i < 8; i++) {
        unit *= base;
        if (bytes < unit) break;
    }
    i = i < 8 ? i : 7;
    snprintf(buffer, sizeof buffer, "%.1f %c%sB", base * bytes / unit, binary && i == 0 ? 'K' : units[i], binary ? "i" : "");
    return zt_j_literal(machine, buffer);
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
