/* evaluate.c - expressions. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

/* ---- scopes ---------------------------------------------------------------------------------- */

jscope *zt_j_scope(jmachine *j, jscope *outer)
{
    jscope *s = zt_j_alloc(j, sizeof *s);
    s->outer = outer;
    return s;
}

void zt_j_set(jmachine *j, jscope *s, const char *name, jvalue v)
{
    for (int i = 0; i < s->n; i++)
        if (s->var[i].name == name) {
            s->var[i].value = v;
            return;
        }
    if (s->n == s->cap) {
        int cap = s->cap ? s->cap * 2 : 4;
        jvariable *more = zt_j_array(j, (size_t)cap, sizeof *more);
        if (s->n)
            memcpy(more, s->var, (size_t)s->n * sizeof *more);
        s->var = more;
        s->cap = cap;
    }
    s->var[s->n++] = (jvariable){name, v};
}

/* What the caller gave, or a global function. It is kept in the outermost scope. */
static jvalue from_outside(jmachine *j, const char *name)
{
    const jbuiltin *f;
    const json_t *own = json_object_get(j->vars->own, name);
    const json_t *input = own ? NULL : json_object_get(j->vars->input, name);
    jvalue v = zt_j_absent;
    if (own || input)
        v = zt_j_from_json(j, own ? own : input, !own);
    else if ((f = zt_j_global(name)) != NULL)
        v = (jvalue){.kind = J_FUNCTION, .function = f};
    return v;
}

jvalue zt_j_lookup(jmachine *j, jscope *s, const char *name)
{
    for (; s; s = s->outer)
        for (int i = 0; i < s->n; i++)
            if (s->var[i].name == name)
                return s->var[i].value;
    jvalue v = from_outside(j, name);
    if (v.kind == J_ABSENT)
        return zt_j_undefined(j, NULL, name);
    zt_j_set(j, j->root, name, v);
    return v;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static jvalue evaluate_list(jmachine *j, const jnode *n, jscope *s)
{
    jlist *l = zt_j_list(j, (size_t)n->n);
    for (int i = 0; i < n->n; i++)
        zt_j_append(j, l, zt_j_evaluate(j, n->list[i], s));
    return zt_j_of_list(l, n->type == N_LIST ? J_LIST : J_TUPLE);
}

static jvalue evaluate_dict(jmachine *j, const jnode *n, jscope *s)
{
    jvalue v = {.kind = J_DICT, .dict = zt_j_dict(j)};
    for (int i = 0; i + 1 < n->n; i += 2) {
        jvalue key = zt_j_evaluate(j, n->list[i], s);
        zt_j_dict_set(j, v.dict, key, zt_j_evaluate(j, n->list[i + 1], s));
    }
    return v;
}

static jvalue optional(jmachine *j, const jnode *n, jscope *s)
{
    return n ? zt_j_evaluate(j, n, s) : zt_j_none;
}

static jvalue evaluate_compare(jmachine *j, const jnode *n, jscope *s)
{
    jvalue left = zt_j_evaluate(j, n->a, s);
    for (int i = 0; i < n->n; i++) {
        jvalue right = zt_j_evaluate(j, n->list[i], s);
        if (!zt_j_compare(j, n->ops[i], left, right))
            return zt_j_bool(false);
        left = right;
    }
    return zt_j_bool(true);
}

static jvalue evaluate_concat(jmachine *j, const jnode *n, jscope *s)
{
    jtext t = zt_j_str(j, zt_j_evaluate(j, n->list[0], s));
    for (int i = 1; i < n->n; i++)
        t = zt_j_concat(j, t, zt_j_str(j, zt_j_evaluate(j, n->list[i], s)));
    return zt_j_string(t);
}

static jvalue evaluate_call(jmachine *j, const jnode *n, jscope *s)
{
    jvalue f = zt_j_evaluate(j, n->a, s);
    jcall c = zt_j_arguments(j, n, s);
    j->line = n->line;
    return zt_j_call(j, f, &c);
}

static jvalue evaluate_filter(jmachine *j, const jnode *n, jscope *s)
{
    jvalue v = zt_j_evaluate(j, n->a, s);
    jcall c = zt_j_arguments(j, n, s);
    j->line = n->line;
    if (!n->fn)
        zt_j_fail(j, "no %s named '%s'", n->type == N_FILTER ? "filter" : "test", n->name);
    v = zt_j_invoke(j, n->fn, v, &c);
    if (n->type == N_TEST)
        v = zt_j_bool(zt_j_truth(j, v) != n->flag);
    return v;
}

static jvalue evaluate_cond(jmachine *j, const jnode *n, jscope *s)
{
    if (zt_j_truth(j, zt_j_evaluate(j, n->b, s)))
        return zt_j_evaluate(j, n->a, s);
    if (n->c)
        return zt_j_evaluate(j, n->c, s);
    return zt_j_undefined(j, "the inline if-expression evaluated to false and no else section was defined",
                          NULL);
}

static jvalue evaluate_arith(jmachine *j, const jnode *n, jscope *s)
{
    jvalue a = zt_j_evaluate(j, n->a, s), b = zt_j_evaluate(j, n->b, s);
    j->line = n->line;
    return zt_j_arith(j, n->op, a, b);
}

static jvalue evaluate_slice(jmachine *j, const jnode *n, jscope *s)
{
    jvalue of = zt_j_evaluate(j, n->a, s), start = optional(j, n->b, s);
    jvalue stop = optional(j, n->c, s);
    return zt_j_slice(j, of, start, stop, optional(j, n->d, s));
}

static jvalue evaluate_item(jmachine *j, const jnode *n, jscope *s)
{
    jvalue of = zt_j_evaluate(j, n->a, s);
    return zt_j_item(j, of, zt_j_evaluate(j, n->b, s));
}

static jvalue evaluate_word(jmachine *j, const jnode *n, jscope *s)
{
    jvalue v = zt_j_evaluate(j, n->a, s);
    return zt_j_truth(j, v) == (n->type == N_AND) ? zt_j_evaluate(j, n->b, s) : v;
}

static jvalue evaluate(jmachine *j, const jnode *n, jscope *s)
{
    switch (n->type) {
    case N_CONST:
        return n->value;
    case N_NAME:
        return zt_j_lookup(j, s, n->name);
    case N_LIST:
    case N_TUPLE:
        return evaluate_list(j, n, s);
    case N_DICT:
        return evaluate_dict(j, n, s);
    case N_ATTR:
        return zt_j_attribute(j, zt_j_evaluate(j, n->a, s), n->value.s);
    case N_ITEM:
        return evaluate_item(j, n, s);
    case N_SLICE:
        return evaluate_slice(j, n, s);
    case N_CALL:
        return evaluate_call(j, n, s);
    case N_FILTER:
    case N_TEST:
        return evaluate_filter(j, n, s);
    case N_NEG:
        return zt_j_negate(j, zt_j_evaluate(j, n->a, s));
    case N_POS:
        return zt_j_plus(j, zt_j_evaluate(j, n->a, s));
    case N_NOT:
        return zt_j_bool(!zt_j_truth(j, zt_j_evaluate(j, n->a, s)));
    case N_AND:
    case N_OR:
        return evaluate_word(j, n, s);
    case N_COMPARE:
        return evaluate_compare(j, n, s);
    case N_CONCAT:
        return evaluate_concat(j, n, s);
    case N_COND:
        return evaluate_cond(j, n, s);
    default:
        return evaluate_arith(j, n, s);
    }
}

jvalue zt_j_evaluate(jmachine *j, const jnode *n, jscope *s)
{
    zt_j_enter(j);
    j->line = n->line;
    jvalue v = evaluate(j, n, s);
    zt_j_leave(j);
    return v;
}
