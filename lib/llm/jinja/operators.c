/* operators.c - comparison, arithmetic, sorting: Python's operators on the values there are. */
#include "lib/llm/jinja/internal.h"

#include <math.h>
#include <string.h>

/* ---- equality -------------------------------------------------------------------------------- */

static bool same_lists(jmachine *j, const jlist *a, const jlist *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!zt_j_equal(j, a->item[i], b->item[i]))
            return false;
    return true;
}

static bool same_dicts(jmachine *j, const jdict *a, const jdict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const jvalue *other = zt_j_dict_get(j, b, a->pair[i].key);
        if (!other || !zt_j_equal(j, a->pair[i].value, *other))
            return false;
    }
    return true;
}

/* An int and a float are equal if they are the same number, not if one rounds to the other. */
static int compare_numbers(jvalue a, jvalue b)
{
    if (a.kind != J_FLOAT && b.kind != J_FLOAT) {
        int64_t x = a.kind == J_BOOL ? a.b : a.i, y = b.kind == J_BOOL ? b.b : b.i;
        return (x > y) - (x < y);
    }
    long double x = a.kind == J_FLOAT ? a.f : a.kind == J_BOOL ? a.b : a.i;
    long double y = b.kind == J_FLOAT ? b.f : b.kind == J_BOOL ? b.b : b.i;
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

static bool same_ranges(const jrange *a, const jrange *b)
{
    return a->n == b->n && (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

static bool same_kind(jmachine *j, jvalue a, jvalue b)
{
    switch ((jkind)a.kind) {
    case J_UNDEFINED:
    case J_NONE:
        return true;
    case J_STRING:
        zt_j_step(j, a.s.n / 16);
        return zt_j_text_same(a.s, b.s);
    case J_LIST:
    case J_TUPLE:
        return same_lists(j, a.list, b.list);
    case J_DICT:
        return same_dicts(j, a.dict, b.dict);
    case J_RANGE:
        return same_ranges(a.range, b.range);
    case J_FUNCTION:
        return a.function == b.function;
    case J_METHOD:
        return a.method->fn == b.method->fn && zt_j_equal(j, a.method->self, b.method->self);
    default:
        return a.dict == b.dict; /* whichever pointer it is */
    }
}

bool zt_j_equal(jmachine *j, jvalue a, jvalue b)
{
    if (zt_j_is_number(a) && zt_j_is_number(b))
        return compare_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    zt_j_enter(j);
    bool same = same_kind(j, a, b);
    zt_j_leave(j);
    return same;
}

/* ---- order ----------------------------------------------------------------------------------- */

static const char *op_name(int op, char buf[3])
{
    buf[0] = (char)(op & 255);
    buf[1] = (char)(op >> 8);
    buf[2] = 0;
    return buf;
}

static bool holds(int op, int c)
{
    return c != 2 && (op == '<' ? c < 0 : op == '>' ? c > 0 : op == J_OP('<', '=') ? c <= 0 : c >= 0);
}

static bool less_lists(jmachine *j, const jlist *a, const jlist *b, int op)
{
    size_t i = 0;
    while (i < a->n && i < b->n && zt_j_equal(j, a->item[i], b->item[i]))
        i++;
    if (i < a->n && i < b->n)
        return zt_j_less(j, a->item[i], b->item[i], op);
    return holds(op, (a->n > b->n) - (a->n < b->n));
}

bool zt_j_less(jmachine *j, jvalue a, jvalue b, int op)
{
    char name[3];
    zt_j_step(j, 1);
    if (a.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, a);
    if (b.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, b);
    if (zt_j_is_number(a) && zt_j_is_number(b))
        return holds(op, compare_numbers(a, b));
    if (a.kind == J_STRING && b.kind == J_STRING) {
        zt_j_step(j, (a.s.n < b.s.n ? a.s.n : b.s.n) / 16);
        return holds(op, zt_j_text_compare(a.s, b.s));
    }
    if (a.kind != b.kind || (a.kind != J_LIST && a.kind != J_TUPLE))
        zt_j_fail(j, "'%s' not supported between '%s' and '%s'", op_name(op, name), zt_j_type(a),
                  zt_j_type(b));
    zt_j_enter(j);
    bool less = less_lists(j, a.list, b.list, op);
    zt_j_leave(j);
    return less;
}

static bool contains_pair(jmachine *j, const jdict *d, jvalue what)
{
    const jvalue *v = what.kind == J_TUPLE && what.list->n == 2 && zt_j_hashable(j, what.list->item[0])
                          ? zt_j_dict_get(j, d, what.list->item[0])
                          : NULL;
    return v && zt_j_equal(j, *v, what.list->item[1]);
}

bool zt_j_contains(jmachine *j, jvalue in, jvalue what)
{
    jvalue item;
    if (in.kind == J_STRING) {
        if (what.kind != J_STRING)
            zt_j_fail(j, "'in <string>' requires a string as left operand, not '%s'",
                      zt_j_type(what));
        zt_j_step(j, in.s.n / 16);
        return zt_j_find_text(j, in.s, 0, what.s) != SIZE_MAX;
    }
    if (in.kind == J_DICT || (in.kind == J_VIEW && in.view->what == 'k')) {
        if (!zt_j_hashable(j, what))
            zt_j_fail(j, "unhashable type: '%s'", zt_j_type(what));
        return zt_j_dict_get(j, in.kind == J_DICT ? in.dict : in.view->dict, what) != NULL;
    }
    if (in.kind == J_VIEW && in.view->what == 'i')
        return contains_pair(j, in.view->dict, what);
    if (!zt_j_iterable(in))
        zt_j_fail(j, "argument of type '%s' is not iterable", zt_j_type(in));
    jiter *it = zt_j_iter(j, in);
    while (zt_j_next(j, it, &item))
        if (zt_j_equal(j, item, what))
            return true;
    return false;
}

bool zt_j_compare(jmachine *j, int op, jvalue a, jvalue b)
{
    switch (op) {
    case J_OP('=', '='):
        return zt_j_equal(j, a, b);
    case J_OP('!', '='):
        return !zt_j_equal(j, a, b);
    case J_OP_IN:
        return zt_j_contains(j, b, a);
    case J_OP_NOT_IN:
        return !zt_j_contains(j, b, a);
    default:
        return zt_j_less(j, a, b, op);
    }
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static _Noreturn void overflow(jmachine *j)
{
    zt_j_fail(j, "an integer of more than 64 bits");
}

static _Noreturn void unsupported(jmachine *j, int op, jvalue a, jvalue b)
{
    char name[3];
    zt_j_fail(j, "unsupported operand types for %s: '%s' and '%s'", op_name(op, name), zt_j_type(a),
              zt_j_type(b));
}

static int64_t floor_div(jmachine *j, int64_t a, int64_t b)
{
    if (a == INT64_MIN && b == -1)
        overflow(j);
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static jvalue power(jmachine *j, int64_t a, int64_t b)
{
    int64_t r = 1;
    if (b < 0 && a == 0)
        zt_j_fail(j, "0.0 cannot be raised to a negative power");
    if (b < 0)
        return zt_j_float(pow((double)a, (double)b));
    if (a == 0 || a == 1 || a == -1)
        return zt_j_int(a == -1 ? (b % 2 ? -1 : 1) : b == 0 ? 1 : a);
    for (int64_t i = 0; i < b; i++)
        if (__builtin_mul_overflow(r, a, &r))
            overflow(j);
    return zt_j_int(r);
}

static jvalue int_arith(jmachine *j, int op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;
    if (b == 0 && (op == '/' || op == '%' || op == J_OP('/', '/')))
        zt_j_fail(j, "division by zero");
    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case '/':
        return zt_j_float((double)((long double)a / (long double)b));
    case '%':
        r = b == -1 ? 0 : a - b * floor_div(j, a, b);
        break;
    case J_OP('/', '/'):
        r = floor_div(j, a, b);
        break;
    default:
        return power(j, a, b);
    }
    if (over)
        overflow(j);
    return zt_j_int(r);
}

/* The remainder has the divisor's sign. */
static double float_mod(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0)
        return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static double float_floor(double a, double b)
{
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0))
        q -= 1;
    double f = floor(q);
    if (q != 0 && q - f > 0.5)
        f += 1;
    return q != 0 ? f : copysign(0, a / b);
}

static jvalue float_arith(jmachine *j, int op, double a, double b)
{
    if (b == 0 && (op == '/' || op == '%' || op == J_OP('/', '/')))
        zt_j_fail(j, "float division by zero");
    switch (op) {
    case '+':
        return zt_j_float(a + b);
    case '-':
        return zt_j_float(a - b);
    case '*':
        return zt_j_float(a * b);
    case '/':
        return zt_j_float(a / b);
    case '%':
        return zt_j_float(float_mod(a, b));
    case J_OP('/', '/'):
        return zt_j_float(float_floor(a, b));
    default:
        if (a == 0 && b < 0)
            zt_j_fail(j, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b))
            zt_j_fail(j, "a complex number");
        double r = pow(a, b);
        if (isinf(r) && !isinf(a) && !isinf(b))
            zt_j_fail(j, "a number that is too large");
        return zt_j_float(r);
    }
}

static jvalue repeat(jmachine *j, jvalue what, int64_t times)
{
    if (what.kind == J_STRING) {
        jvalue v = zt_j_string(zt_j_repeat(j, what.s, times));
        v.safe = what.safe;
        return v;
    }
    size_t cells = 0;
    if (times > 0 && (!zt_mul_size(what.list->n, (size_t)times, &cells) ||
                      cells > j->memory / sizeof(jvalue)))
        zt_j_fail(j, "the template needs too much memory");
    jlist *l = zt_j_list(j, cells);
    for (int64_t i = 0; i < times && cells; i++)
        for (size_t k = 0; k < what.list->n; k++)
            zt_j_append(j, l, what.list->item[k]);
    return zt_j_of_list(l, (jkind)what.kind);
}

static bool is_sequence(jvalue v)
{
    return v.kind == J_STRING || v.kind == J_LIST || v.kind == J_TUPLE;
}

static bool is_int(jvalue v)
{
    return v.kind == J_INT || v.kind == J_BOOL;
}

static jvalue join_lists(jmachine *j, jvalue a, jvalue b)
{
    jlist *l = zt_j_list(j, a.list->n + b.list->n);
    for (size_t i = 0; i < a.list->n; i++)
        zt_j_append(j, l, a.list->item[i]);
    for (size_t i = 0; i < b.list->n; i++)
        zt_j_append(j, l, b.list->item[i]);
    return zt_j_of_list(l, (jkind)a.kind);
}

/* Markup stays markup, and escapes what is none. */
static jvalue join_texts(jmachine *j, jvalue a, jvalue b)
{
    bool safe = a.safe || b.safe;
    jtext x = safe && !a.safe ? zt_j_escape_html(j, a.s) : a.s;
    jtext y = safe && !b.safe ? zt_j_escape_html(j, b.s) : b.s;
    jvalue v = zt_j_string(zt_j_concat(j, x, y));
    v.safe = safe;
    return v;
}

jvalue zt_j_arith(jmachine *j, int op, jvalue a, jvalue b)
{
    zt_j_step(j, 1);
    if (op == '%' && a.kind == J_STRING)
        return zt_j_percent(j, a, b);
    if (a.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, a);
    if (b.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, b);
    if (zt_j_is_number(a) && zt_j_is_number(b)) {
        if (a.kind == J_FLOAT || b.kind == J_FLOAT)
            return float_arith(j, op, zt_j_as_float(a), zt_j_as_float(b));
        return int_arith(j, op, a.kind == J_INT ? a.i : a.b, b.kind == J_INT ? b.i : b.b);
    }
    if (op == '+' && a.kind == b.kind && is_sequence(a))
        return a.kind == J_STRING ? join_texts(j, a, b) : join_lists(j, a, b);
    if (op == '*' && is_sequence(a) && is_int(b))
        return repeat(j, a, b.kind == J_INT ? b.i : b.b);
    if (op == '*' && is_sequence(b) && is_int(a))
        return repeat(j, b, a.kind == J_INT ? a.i : a.b);
    unsupported(j, op, a, b);
}

static void check_number(jmachine *j, jvalue v, char op)
{
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, v);
    if (!zt_j_is_number(v))
        zt_j_fail(j, "bad operand type for unary %c: '%s'", op, zt_j_type(v));
}

jvalue zt_j_negate(jmachine *j, jvalue v)
{
    check_number(j, v, '-');
    if (v.kind == J_FLOAT)
        return zt_j_float(-v.f);
    return int_arith(j, '-', 0, v.kind == J_INT ? v.i : v.b);
}

jvalue zt_j_plus(jmachine *j, jvalue v)
{
    check_number(j, v, '+');
    return v.kind == J_BOOL ? zt_j_int(v.b) : v;
}

/* ---- sorting --------------------------------------------------------------------------------- */

/* Merges the sorted halves of order[0..n) by way of tmp. An item of the right half goes first only
 * where it is truly smaller (or larger): equal ones keep their order. */
static void merge(jmachine *j, const jvalue *key, size_t *order, size_t n, size_t *tmp, bool reverse)
{
    size_t half = n / 2, a = 0, b = half;
    for (size_t i = 0; i < n; i++) {
        bool right = b < n && (a >= half || (reverse ? zt_j_less(j, key[order[a]], key[order[b]], '<')
                                                     : zt_j_less(j, key[order[b]], key[order[a]], '<')));
        tmp[i] = right ? order[b++] : order[a++];
    }
    memcpy(order, tmp, n * sizeof *order);
}

static void sort(jmachine *j, const jvalue *key, size_t *order, size_t n, size_t *tmp, bool reverse)
{
    if (n < 2)
        return;
    sort(j, key, order, n / 2, tmp, reverse);
    sort(j, key, order + n / 2, n - n / 2, tmp, reverse);
    merge(j, key, order, n, tmp, reverse);
}

void zt_j_sort(jmachine *j, jvalue *item, jvalue *key, size_t n, bool reverse)
{
    size_t *order = zt_j_array(j, n, sizeof *order), *tmp = zt_j_array(j, n, sizeof *tmp);
    jvalue *copy = zt_j_array(j, n, sizeof *copy);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    if (n)
        memcpy(copy, item, n * sizeof *copy);
    sort(j, key ? key : copy, order, n, tmp, reverse);
    for (size_t i = 0; i < n; i++)
        item[i] = copy[order[i]];
    if (!key)
        return;
    memcpy(copy, key, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        key[i] = copy[order[i]];
}
