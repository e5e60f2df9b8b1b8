/* tests.c - what may stand behind `is`. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

#define TEST(name) static jvalue name(jmachine *machine, jvalue value, const jvalue *args, const jcall *call)
#define UNUSED     ((void)machine, (void)args, (void)call)

// clang-format off
#define KIND(name, condition)            \
    TEST(name)                           \
    {                                    \
        UNUSED;                          \
        return zt_j_bool(condition);     \
    }
// clang-format on

KIND(t_defined, value.kind != J_UNDEFINED)
KIND(t_undefined, value.kind == J_UNDEFINED)
KIND(t_none, value.kind == J_NONE)
KIND(t_boolean, value.kind == J_BOOL)
KIND(t_true, value.kind == J_BOOL && value.boolean)
KIND(t_false, value.kind == J_BOOL && !value.boolean)
KIND(t_integer, value.kind == J_INT)
KIND(t_float, value.kind == J_FLOAT)
KIND(t_number, zt_j_is_number(value))
KIND(t_string, value.kind == J_STRING)
KIND(t_mapping, value.kind == J_DICT)
KIND(t_iterable, zt_j_iterable(value) || value.kind == J_LOOP)
KIND(t_sequence, value.kind == J_UNDEFINED || value.kind == J_STRING || value.kind == J_LIST || value.kind == J_TUPLE ||
                     value.kind == J_DICT || value.kind == J_RANGE)
KIND(t_callable, value.kind == J_UNDEFINED || value.kind == J_MACRO || value.kind == J_FUNCTION || value.kind == J_METHOD ||
                     value.kind == J_JOINER || value.kind == J_LOOP)
KIND(t_escaped, value.kind == J_STRING && value.safe)

static jvalue remainder_of(jmachine *machine, jvalue value, jvalue divisor) { return zt_j_arith(machine, '%', value, divisor); }

TEST(t_odd)
{
    UNUSED;
    return zt_j_bool(zt_j_equal(machine, remainder_of(machine, value, zt_j_int(2)), zt_j_int(1)));
}

TEST(t_even)
{
    UNUSED;
    return zt_j_bool(zt_j_equal(machine, remainder_of(machine, value, zt_j_int(2)), zt_j_int(0)));
}

TEST(t_divisibleby)
{
    (void)call;
    return zt_j_bool(zt_j_equal(machine, remainder_of(machine, value, args[0]), zt_j_int(0)));
}

/* Python's `is`: objects are the same, and numbers and texts as good as the same if equal. */
TEST(t_sameas)
{
    bool same = value.kind == args[0].kind;
    UNUSED;
    if (same && (value.kind >= J_LIST))
        same = value.dict == args[0].dict; /* whichever pointer it is */
    else if (same && value.kind != J_NONE)
        same = zt_j_equal(machine, value, args[0]);
    return zt_j_bool(same);
}

static jvalue call_string_method(jmachine *machine, jvalue value, const char *method, size_t size)
{
    return zt_j_invoke(machine, zt_j_string_method(method, size), zt_j_string(zt_j_str(machine, value)), &(jcall){0});
}

TEST(t_lower)
{
    UNUSED;
    return call_string_method(machine, value, "islower", 7);
}

TEST(t_upper)
{
    UNUSED;
    return call_string_method(machine, value, "isupper", 7);
}

TEST(t_filter)
{
    const jbuiltin *filter = value.kind == J_STRING ? zt_j_filter(zt_j_data(value.text), value.text.size) : NULL;
    UNUSED;
    return zt_j_bool(filter && filter->fn);
}

TEST(t_test)
{
    UNUSED;
    return zt_j_bool(value.kind == J_STRING && zt_j_test(zt_j_data(value.text), value.text.size));
}

#define COMPARISON(name, op)                                                                                                     \
    TEST(name)                                                                                                                   \
    {                                                                                                                            \
        (void)call;                                                                                                              \
        return zt_j_bool(zt_j_compare(machine, op, value, args[0]));                                                             \
    }
COMPARISON(t_eq, J_OP('=', '='))
COMPARISON(t_ne, J_OP('!', '='))
COMPARISON(t_lt, '<')
COMPARISON(t_le, J_OP('<', '='))
COMPARISON(t_gt, '>')
COMPARISON(t_ge, J_OP('>', '='))
COMPARISON(t_in, J_OP_IN)

static const jbuiltin tests[] = {
    {"odd", "", 0, t_odd},
    {"even", "", 0, t_even},
    {"divisibleby", "num", 1, t_divisibleby},
    {"defined", "", 0, t_defined},
    {"undefined", "", 0, t_undefined},
    {"filter", "", 0, t_filter},
    {"test", "", 0, t_test},
    {"none", "", 0, t_none},
    {"boolean", "", 0, t_boolean},
    {"false", "", 0, t_false},
    {"true", "", 0, t_true},
    {"integer", "", 0, t_integer},
    {"float", "", 0, t_float},
    {"lower", "", 0, t_lower},
    {"upper", "", 0, t_upper},
    {"string", "", 0, t_string},
    {"mapping", "", 0, t_mapping},
    {"number", "", 0, t_number},
    {"sequence", "", 0, t_sequence},
    {"iterable", "", 0, t_iterable},
    {"callable", "", 0, t_callable},
    {"sameas", "other", 1, t_sameas},
    {"escaped", "", 0, t_escaped},
    {"in", "seq", 1, t_in},
    {"==", "-", 1, t_eq},
    {"eq", "-", 1, t_eq},
    {"equalto", "-", 1, t_eq},
    {"!=", "-", 1, t_ne},
    {"ne", "-", 1, t_ne},
    {">", "-", 1, t_gt},
    {"gt", "-", 1, t_gt},
    {"greaterthan", "-", 1, t_gt},
    {"ge", "-", 1, t_ge},
    {">=", "-", 1, t_ge},
    {"<", "-", 1, t_lt},
    {"lt", "-", 1, t_lt},
    {"lessthan", "-", 1, t_lt},
    {"<=", "-", 1, t_le},
    {"le", "-", 1, t_le},
    {NULL, NULL, 0, NULL},
};

const jbuiltin *zt_j_test(const char *name, size_t size) { return zt_j_find(tests, name, size); }
