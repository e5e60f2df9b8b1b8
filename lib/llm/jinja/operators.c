/* operators.c - comparison, arithmetic, sorting: Python's operators on the values there are. */
#include "lib/llm/jinja/internal.h"

#include <math.h>
#include <string.h>

/* ---- equality -------------------------------------------------------------------------------- */

static bool same_lists(jmachine *machine, const jlist *left, const jlist *right)
{
    if (left->count != right->count) return false;
    for (size_t i = 0; i < left->count; i++)
        if (!zt_j_equal(machine, left->items[i], right->items[i])) return false;
    return true;
}

static bool same_dicts(jmachine *machine, const jdict *left, const jdict *right)
{
    if (left->count != right->count) return false;
    for (size_t i = 0; i < left->count; i++) {
        const jvalue *other = zt_j_dict_get(machine, right, left->pairs[i].key);
        if (!other || !zt_j_equal(machine, left->pairs[i].value, *other)) return false;
    }
    return true;
}

/* An int and a float are equal if they are the same number, not if one rounds to the other. */
static int compare_numbers(jvalue left, jvalue right)
{
    if (left.kind != J_FLOAT && right.kind != J_FLOAT) {
        int64_t left_number = left.kind == J_BOOL ? left.boolean : left.integer,
                right_number = right.kind == J_BOOL ? right.boolean : right.integer;
        return (left_number > right_number) - (left_number < right_number);
    }
    long double left_number = left.kind == J_FLOAT ? left.number : left.kind == J_BOOL ? left.boolean : left.integer;
    long double right_number = right.kind == J_FLOAT ? right.number : right.kind == J_BOOL ? right.boolean : right.integer;
    return isnan(left_number) || isnan(right_number) ? 2 : (left_number > right_number) - (left_number < right_number);
}

static bool same_ranges(const jrange *left, const jrange *right)
{
    return left->count == right->count &&
           (left->count == 0 || (left->start == right->start && (left->count == 1 || left->step == right->step)));
}

static bool same_kind(jmachine *machine, jvalue left, jvalue right)
{
    switch ((jkind)left.kind) {
    case J_UNDEFINED:
    case J_NONE: return true;
    case J_STRING: zt_j_step(machine, left.text.size / 16); return zt_j_text_same(left.text, right.text);
    case J_LIST:
    case J_TUPLE: return same_lists(machine, left.list, right.list);
    case J_DICT: return same_dicts(machine, left.dict, right.dict);
    case J_RANGE: return same_ranges(left.range, right.range);
    case J_FUNCTION: return left.function == right.function;
    case J_METHOD: return left.method->fn == right.method->fn && zt_j_equal(machine, left.method->self, right.method->self);
    default: return left.dict == right.dict; /* whichever pointer it is */
    }
}

bool zt_j_equal(jmachine *machine, jvalue left, jvalue right)
{
    if (zt_j_is_number(left) && zt_j_is_number(right)) return compare_numbers(left, right) == 0;
    if (left.kind != right.kind) return false;
    zt_j_enter(machine);
    bool same = same_kind(machine, left, right);
    zt_j_leave(machine);
    return same;
}

/* ---- order ----------------------------------------------------------------------------------- */

static const char *op_name(int op, char buffer[3])
{
    buffer[0] = (char)(op & 255);
    buffer[1] = (char)(op >> 8);
    buffer[2] = 0;
    return buffer;
}

static bool order_holds(int op, int order)
{
    return order != 2 && (op == '<' ? order < 0 : op == '>' ? order > 0 : op == J_OP('<', '=') ? order <= 0 : order >= 0);
}

static bool less_lists(jmachine *machine, const jlist *left, const jlist *right, int op)
{
    size_t i = 0;
    while (i < left->count && i < right->count && zt_j_equal(machine, left->items[i], right->items[i])) i++;
    if (i < left->count && i < right->count) return zt_j_less(machine, left->items[i], right->items[i], op);
    return order_holds(op, (left->count > right->count) - (left->count < right->count));
}

bool zt_j_less(jmachine *machine, jvalue left, jvalue right, int op)
{
    char name[3];
    zt_j_step(machine, 1);
    if (left.kind == J_UNDEFINED) zt_j_fail_undefined(machine, left);
    if (right.kind == J_UNDEFINED) zt_j_fail_undefined(machine, right);
    if (zt_j_is_number(left) && zt_j_is_number(right)) return order_holds(op, compare_numbers(left, right));
    if (left.kind == J_STRING && right.kind == J_STRING) {
        zt_j_step(machine, (left.text.size < right.text.size ? left.text.size : right.text.size) / 16);
        return order_holds(op, zt_j_text_compare(left.text, right.text));
    }
    if (left.kind != right.kind || (left.kind != J_LIST && left.kind != J_TUPLE))
        zt_j_fail(machine, "'%s' not supported between '%s' and '%s'", op_name(op, name), zt_j_type(left), zt_j_type(right));
    zt_j_enter(machine);
    bool less = less_lists(machine, left.list, right.list, op);
    zt_j_leave(machine);
    return less;
}

static bool contains_pair(jmachine *machine, const jdict *dict, jvalue pair)
{
    const jvalue *found = pair.kind == J_TUPLE && pair.list->count == 2 && zt_j_hashable(machine, pair.list->items[0])
                              ? zt_j_dict_get(machine, dict, pair.list->items[0])
                              : NULL;
    return found && zt_j_equal(machine, *found, pair.list->items[1]);
}

bool zt_j_contains(jmachine *machine, jvalue container, jvalue item)
{
    jvalue current;
    if (container.kind == J_STRING) {
        if (item.kind != J_STRING)
            zt_j_fail(machine, "'in <string>' requires a string as left operand, not '%s'", zt_j_type(item));
        zt_j_step(machine, container.text.size / 16);
        return zt_j_find_text(machine, container.text, 0, item.text) != SIZE_MAX;
    }
    if (container.kind == J_DICT || (container.kind == J_VIEW && container.view->part == 'k')) {
        if (!zt_j_hashable(machine, item)) zt_j_fail(machine, "unhashable type: '%s'", zt_j_type(item));
        return zt_j_dict_get(machine, container.kind == J_DICT ? container.dict : container.view->dict, item) != NULL;
    }
    if (container.kind == J_VIEW && container.view->part == 'i') return contains_pair(machine, container.view->dict, item);
    if (!zt_j_iterable(container)) zt_j_fail(machine, "argument of type '%s' is not iterable", zt_j_type(container));
    jiter *iterator = zt_j_iter(machine, container);
    while (zt_j_next(machine, iterator, &current))
        if (zt_j_equal(machine, current, item)) return true;
    return false;
}

bool zt_j_compare(jmachine *machine, int op, jvalue left, jvalue right)
{
    switch (op) {
    case J_OP('=', '='): return zt_j_equal(machine, left, right);
    case J_OP('!', '='): return !zt_j_equal(machine, left, right);
    case J_OP_IN: return zt_j_contains(machine, right, left);
    case J_OP_NOT_IN: return !zt_j_contains(machine, right, left);
    default: return zt_j_less(machine, left, right, op);
    }
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static _Noreturn void fail_overflow(jmachine *machine) { zt_j_fail(machine, "an integer of more than 64 bits"); }

static _Noreturn void fail_unsupported(jmachine *machine, int op, jvalue left, jvalue right)
{
    char name[3];
    zt_j_fail(machine, "unsupported operand types for %s: '%s' and '%s'", op_name(op, name), zt_j_type(left), zt_j_type(right));
}

static int64_t floor_div(jmachine *machine, int64_t left, int64_t right)
{
    if (left == INT64_MIN && right == -1) fail_overflow(machine);
    int64_t quotient = left / right;
    return quotient - (left % right != 0 && (left < 0) != (right < 0));
}

static jvalue int_power(jmachine *machine, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0 && base == 0) zt_j_fail(machine, "0.0 cannot be raised to a negative power");
    if (exponent < 0) return zt_j_float(pow((double)base, (double)exponent));
    if (base == 0 || base == 1 || base == -1) return zt_j_int(base == -1 ? (exponent % 2 ? -1 : 1) : exponent == 0 ? 1 : base);
    for (int64_t index = 0; index < exponent; index++)
        if (__builtin_mul_overflow(result, base, &result)) fail_overflow(machine);
    return zt_j_int(result);
}

static jvalue int_arith(jmachine *machine, int op, int64_t left, int64_t right)
{
    int64_t result = 0;
    bool over = false;
    if (right == 0 && (op == '/' || op == '%' || op == J_OP('/', '/'))) zt_j_fail(machine, "division by zero");
    switch (op) {
    case '+': over = __builtin_add_overflow(left, right, &result); break;
    case '-': over = __builtin_sub_overflow(left, right, &result); break;
    case '*': over = __builtin_mul_overflow(left, right, &result); break;
    case '/': return zt_j_float((double)((long double)left / (long double)right));
    case '%': result = right == -1 ? 0 : left - right * floor_div(machine, left, right); break;
    case J_OP('/', '/'): result = floor_div(machine, left, right); break;
    default: return int_power(machine, left, right);
    }
    if (over) fail_overflow(machine);
    return zt_j_int(result);
}

/* The remainder has the divisor's sign. */
static double float_mod(double left, double right)
{
    double remainder = fmod(left, right);
    if (remainder == 0) return copysign(0, right);
    return (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

static double float_floor(double left, double right)
{
    double remainder = fmod(left, right), quotient = (left - remainder) / right;
    if (remainder != 0 && (right < 0) != (remainder < 0)) quotient -= 1;
    double floored = floor(quotient);
    if (quotient != 0 && quotient - floored > 0.5) floored += 1;
    return quotient != 0 ? floored : copysign(0, left / right);
}

static jvalue float_arith(jmachine *machine, int op, double left, double right)
{
    if (right == 0 && (op == '/' || op == '%' || op == J_OP('/', '/'))) zt_j_fail(machine, "float division by zero");
    switch (op) {
    case '+': return zt_j_float(left + right);
    case '-': return zt_j_float(left - right);
    case '*': return zt_j_float(left * right);
    case '/': return zt_j_float(left / right);
    case '%': return zt_j_float(float_mod(left, right));
    case J_OP('/', '/'): return zt_j_float(float_floor(left, right));
    default:
        if (left == 0 && right < 0) zt_j_fail(machine, "0.0 cannot be raised to a negative power");
        if (left < 0 && right != floor(right)) zt_j_fail(machine, "a complex number");
        double result = pow(left, right);
        if (isinf(result) && !isinf(left) && !isinf(right)) zt_j_fail(machine, "a number that is too large");
        return zt_j_float(result);
    }
}

static jvalue repeat_value(jmachine *machine, jvalue repeated, int64_t times)
{
    if (repeated.kind == J_STRING) {
        jvalue value = zt_j_string(zt_j_repeat(machine, repeated.text, times));
        value.safe = repeated.safe;
        return value;
    }
    size_t cells = 0;
    if (times > 0 && (!zt_mul_size(repeated.list->count, (size_t)times, &cells) || cells > machine->memory / sizeof(jvalue)))
        zt_j_fail(machine, "the template needs too much memory");
    jlist *list = zt_j_list(machine, cells);
    for (int64_t index = 0; index < times && cells; index++)
        for (size_t item = 0; item < repeated.list->count; item++) zt_j_append(machine, list, repeated.list->items[item]);
    return zt_j_of_list(list, (jkind)repeated.kind);
}

static bool is_sequence(jvalue value) { return value.kind == J_STRING || value.kind == J_LIST || value.kind == J_TUPLE; }

static bool is_int(jvalue value) { return value.kind == J_INT || value.kind == J_BOOL; }

static jvalue join_lists(jmachine *machine, jvalue left, jvalue right)
{
    jlist *list = zt_j_list(machine, left.list->count + right.list->count);
    for (size_t i = 0; i < left.list->count; i++) zt_j_append(machine, list, left.list->items[i]);
    for (size_t i = 0; i < right.list->count; i++) zt_j_append(machine, list, right.list->items[i]);
    return zt_j_of_list(list, (jkind)left.kind);
}

/* Markup stays markup, and escapes what is none. */
static jvalue join_texts(jmachine *machine, jvalue left, jvalue right)
{
    bool safe = left.safe || right.safe;
    jtext left_text = safe && !left.safe ? zt_j_escape_html(machine, left.text) : left.text;
    jtext right_text = safe && !right.safe ? zt_j_escape_html(machine, right.text) : right.text;
    jvalue value = zt_j_string(zt_j_concat(machine, left_text, right_text));
    value.safe = safe;
    return value;
}

jvalue zt_j_arith(jmachine *machine, int op, jvalue left, jvalue right)
{
    zt_j_step(machine, 1);
    if (op == '%' && left.kind == J_STRING) return zt_j_percent(machine, left, right);
    if (left.kind == J_UNDEFINED) zt_j_fail_undefined(machine, left);
    if (right.kind == J_UNDEFINED) zt_j_fail_undefined(machine, right);
    if (zt_j_is_number(left) && zt_j_is_number(right)) {
        if (left.kind == J_FLOAT || right.kind == J_FLOAT)
            return float_arith(machine, op, zt_j_as_float(left), zt_j_as_float(right));
        return int_arith(machine, op, left.kind == J_INT ? left.integer : left.boolean,
                         right.kind == J_INT ? right.integer : right.boolean);
    }
    if (op == '+' && left.kind == right.kind && is_sequence(left))
        return left.kind == J_STRING ? join_texts(machine, left, right) : join_lists(machine, left, right);
    if (op == '*' && is_sequence(left) && is_int(right))
        return repeat_value(machine, left, right.kind == J_INT ? right.integer : right.boolean);
    if (op == '*' && is_sequence(right) && is_int(left))
        return repeat_value(machine, right, left.kind == J_INT ? left.integer : left.boolean);
    fail_unsupported(machine, op, left, right);
}

static void check_number(jmachine *machine, jvalue value, char op)
{
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(machine, value);
    if (!zt_j_is_number(value)) zt_j_fail(machine, "bad operand type for unary %c: '%s'", op, zt_j_type(value));
}

jvalue zt_j_negate(jmachine *machine, jvalue value)
{
    check_number(machine, value, '-');
    if (value.kind == J_FLOAT) return zt_j_float(-value.number);
    return int_arith(machine, '-', 0, value.kind == J_INT ? value.integer : value.boolean);
}

jvalue zt_j_plus(jmachine *machine, jvalue value)
{
    check_number(machine, value, '+');
    return value.kind == J_BOOL ? zt_j_int(value.boolean) : value;
}

/* ---- sorting --------------------------------------------------------------------------------- */

/* Merges the sorted halves of order[0..n) by way of tmp. An item of the right half goes first only
 * where it is truly smaller (or larger): equal ones keep their order. */
static void merge_halves(jmachine *machine, const jvalue *keys, size_t *order, size_t count, size_t *merged, bool reverse)
{
    size_t half = count / 2, from_left = 0, from_right = half;
    for (size_t i = 0; i < count; i++) {
        bool right = from_right < count &&
                     (from_left >= half || (reverse ? zt_j_less(machine, keys[order[from_left]], keys[order[from_right]], '<')
                                                    : zt_j_less(machine, keys[order[from_right]], keys[order[from_left]], '<')));
        merged[i] = right ? order[from_right++] : order[from_left++];
    }
    memcpy(order, merged, count * sizeof *order);
}

static void sort_order(jmachine *machine, const jvalue *keys, size_t *order, size_t count, size_t *merged, bool reverse)
{
    if (count < 2) return;
    sort_order(machine, keys, order, count / 2, merged, reverse);
    sort_order(machine, keys, order + count / 2, count - count / 2, merged, reverse);
    merge_halves(machine, keys, order, count, merged, reverse);
}

void zt_j_sort(jmachine *machine, jvalue *items, jvalue *keys, size_t count, bool reverse)
{
    size_t *order = zt_j_array(machine, count, sizeof *order), *merged = zt_j_array(machine, count, sizeof *merged);
    jvalue *copy = zt_j_array(machine, count, sizeof *copy);
    for (size_t i = 0; i < count; i++) order[i] = i;
    if (count) memcpy(copy, items, count * sizeof *copy);
    sort_order(machine, keys ? keys : copy, order, count, merged, reverse);
    for (size_t i = 0; i < count; i++) items[i] = copy[order[i]];
    if (!keys) return;
    memcpy(copy, keys, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) keys[i] = copy[order[i]];
}
