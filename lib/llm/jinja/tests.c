/* tests.c - what may stand behind `is`. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

#define TEST(name) static jvalue name(jmachine *j, jvalue v, const jvalue *a, const jcall *call)
#define UNUSED ((void)j, (void)a, (void)call)

#define KIND(name, condition)            \
    TEST(name)                           \
    {                                    \
        UNUSED;                          \
        return zt_j_bool(condition);     \
    }

KIND(t_defined, v.kind != J_UNDEFINED)
KIND(t_undefined, v.kind == J_UNDEFINED)
KIND(t_none, v.kind == J_NONE)
KIND(t_boolean, v.kind == J_BOOL)
KIND(t_true, v.kind == J_BOOL && v.b)
KIND(t_false, v.kind == J_BOOL && !v.b)
KIND(t_integer, v.kind == J_INT)
KIND(t_float, v.kind == J_FLOAT)
KIND(t_number, zt_j_is_number(v))
KIND(t_string, v.kind == J_STRING)
KIND(t_mapping, v.kind == J_DICT)
KIND(t_iterable, zt_j_iterable(v) || v.kind == J_LOOP)
KIND(t_sequence, v.kind == J_UNDEFINED || v.kind == J_STRING || v.kind == J_LIST ||
                     v.kind == J_TUPLE || v.kind == J_DICT || v.kind == J_RANGE)
KIND(t_callable, v.kind == J_UNDEFINED || v.kind == J_MACRO || v.kind == J_FUNCTION ||
                     v.kind == J_METHOD || v.kind == J_JOINER || v.kind == J_LOOP)
KIND(t_escaped, v.kind == J_STRING && v.safe)

static jvalue remainder_of(jmachine *j, jvalue v, jvalue by)
{
    return zt_j_arith(j, '%', v, by);
}

TEST(t_odd)
{
    UNUSED;
    return zt_j_bool(zt_j_equal(j, remainder_of(j, v, zt_j_int(2)), zt_j_int(1)));
}

TEST(t_even)
{
    UNUSED;
    return zt_j_bool(zt_j_equal(j, remainder_of(j, v, zt_j_int(2)), zt_j_int(0)));
}

TEST(t_divisibleby)
{
    (void)call;
    return zt_j_bool(zt_j_equal(j, remainder_of(j, v, a[0]), zt_j_int(0)));
}

/* Python's `is`: objects are the same, and numbers and texts as good as the same if equal. */
TEST(t_sameas)
{
    bool same = v.kind == a[0].kind;
    UNUSED;
    if (same && (v.kind >= J_LIST))
        same = v.dict == a[0].dict; /* whichever pointer it is */
    else if (same && v.kind != J_NONE)
        same = zt_j_equal(j, v, a[0]);
    return zt_j_bool(same);
}

static jvalue ask_text(jmachine *j, jvalue v, const char *method, size_t n)
{
    return zt_j_invoke(j, zt_j_string_method(method, n), zt_j_string(zt_j_str(j, v)), &(jcall){0});
}

TEST(t_lower)
{
    UNUSED;
    return ask_text(j, v, "islower", 7);
}

TEST(t_upper)
{
    UNUSED;
    return ask_text(j, v, "isupper", 7);
}

TEST(t_filter)
{
    const jbuiltin *f = v.kind == J_STRING ? zt_j_filter(zt_j_data(v.s), v.s.n) : NULL;
    UNUSED;
    return zt_j_bool(f && f->fn);
}

TEST(t_test)
{
    UNUSED;
    return zt_j_bool(v.kind == J_STRING && zt_j_test(zt_j_data(v.s), v.s.n));
}

#define COMPARISON(name, op)                              \
    TEST(name)                                            \
    {                                                     \
        (void)call;                                       \
        return zt_j_bool(zt_j_compare(j, op, v, a[0]));   \
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

const jbuiltin *zt_j_test(const char *name, size_t n)
{
    return zt_j_find(tests, name, n);
}
