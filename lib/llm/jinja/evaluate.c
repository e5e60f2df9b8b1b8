/* evaluate.c - expressions. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

/* ---- scopes ---------------------------------------------------------------------------------- */

jscope *zt_j_scope(jmachine *machine, jscope *outer)
{
    jscope *scope = zt_j_alloc(machine, sizeof *scope);
    scope->outer = outer;
    return scope;
}

void zt_j_set(jmachine *machine, jscope *scope, const char *name, jvalue value)
{
    for (int i = 0; i < scope->count; i++)
        if (scope->variables[i].name == name) {
            scope->variables[i].value = value;
            return;
        }
    if (scope->count == scope->capacity) {
        int capacity = scope->capacity ? scope->capacity * 2 : 4;
        jvariable *more = zt_j_array(machine, (size_t)capacity, sizeof *more);
        if (scope->count) memcpy(more, scope->variables, (size_t)scope->count * sizeof *more);
        scope->variables = more;
        scope->capacity = capacity;
    }
    scope->variables[scope->count++] = (jvariable){name, value};
}

/* What the caller gave, or a global function. It is kept in the outermost scope. */
static jvalue from_outside(jmachine *machine, const char *name)
{
    const jbuiltin *global;
    const json_t *own = json_object_get(machine->vars->own, name);
    const json_t *input = own ? NULL : json_object_get(machine->vars->input, name);
    jvalue value = zt_j_absent;
    if (own || input)
        value = zt_j_from_json(machine, own ? own : input, !own);
    else if ((global = zt_j_global(name)) != NULL)
        value = (jvalue){.kind = J_FUNCTION, .function = global};
    return value;
}

jvalue zt_j_lookup(jmachine *machine, jscope *scope, const char *name)
{
    for (; scope; scope = scope->outer)
        for (int i = 0; i < scope->count; i++)
            if (scope->variables[i].name == name) return scope->variables[i].value;
    jvalue value = from_outside(machine, name);
    if (value.kind == J_ABSENT) return zt_j_undefined(machine, NULL, name);
    zt_j_set(machine, machine->root, name, value);
    return value;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static jvalue evaluate_list(jmachine *machine, const jnode *node, jscope *scope)
{
    jlist *list = zt_j_list(machine, (size_t)node->list_count);
    for (int i = 0; i < node->list_count; i++) zt_j_append(machine, list, zt_j_evaluate(machine, node->list[i], scope));
    return zt_j_of_list(list, node->type == N_LIST ? J_LIST : J_TUPLE);
}

static jvalue evaluate_dict(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue value = {.kind = J_DICT, .dict = zt_j_dict(machine)};
    for (int i = 0; i + 1 < node->list_count; i += 2) {
        jvalue key = zt_j_evaluate(machine, node->list[i], scope);
        zt_j_dict_set(machine, value.dict, key, zt_j_evaluate(machine, node->list[i + 1], scope));
    }
    return value;
}

static jvalue evaluate_optional(jmachine *machine, const jnode *node, jscope *scope)
{
    return node ? zt_j_evaluate(machine, node, scope) : zt_j_none;
}

static jvalue evaluate_compare(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue left = zt_j_evaluate(machine, node->first, scope);
    for (int i = 0; i < node->list_count; i++) {
        jvalue right = zt_j_evaluate(machine, node->list[i], scope);
        if (!zt_j_compare(machine, node->ops[i], left, right)) return zt_j_bool(false);
        left = right;
    }
    return zt_j_bool(true);
}

static jvalue evaluate_concat(jmachine *machine, const jnode *node, jscope *scope)
{
    jtext text = zt_j_str(machine, zt_j_evaluate(machine, node->list[0], scope));
    for (int i = 1; i < node->list_count; i++)
        text = zt_j_concat(machine, text, zt_j_str(machine, zt_j_evaluate(machine, node->list[i], scope)));
    return zt_j_string(text);
}

static jvalue evaluate_call(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue function = zt_j_evaluate(machine, node->first, scope);
    jcall call = zt_j_arguments(machine, node, scope);
    machine->line = node->line;
    return zt_j_call(machine, function, &call);
}

static jvalue evaluate_filter(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue value = zt_j_evaluate(machine, node->first, scope);
    jcall call = zt_j_arguments(machine, node, scope);
    machine->line = node->line;
    if (!node->fn) zt_j_fail(machine, "no %s named '%s'", node->type == N_FILTER ? "filter" : "test", node->name);
    value = zt_j_invoke(machine, node->fn, value, &call);
    if (node->type == N_TEST) value = zt_j_bool(zt_j_truth(machine, value) != node->flag);
    return value;
}

static jvalue evaluate_cond(jmachine *machine, const jnode *node, jscope *scope)
{
    if (zt_j_truth(machine, zt_j_evaluate(machine, node->second, scope))) return zt_j_evaluate(machine, node->first, scope);
    if (node->third) return zt_j_evaluate(machine, node->third, scope);
    return zt_j_undefined(machine, "the inline if-expression evaluated to false and no else section was defined", NULL);
}

static jvalue evaluate_arith(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue left = zt_j_evaluate(machine, node->first, scope), right = zt_j_evaluate(machine, node->second, scope);
    machine->line = node->line;
    return zt_j_arith(machine, node->op, left, right);
}

static jvalue evaluate_slice(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue of = zt_j_evaluate(machine, node->first, scope), start = evaluate_optional(machine, node->second, scope);
    jvalue stop = evaluate_optional(machine, node->third, scope);
    return zt_j_slice(machine, of, start, stop, evaluate_optional(machine, node->fourth, scope));
}

static jvalue evaluate_item(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue of = zt_j_evaluate(machine, node->first, scope);
    return zt_j_item(machine, of, zt_j_evaluate(machine, node->second, scope));
}

static jvalue evaluate_word(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue value = zt_j_evaluate(machine, node->first, scope);
    return zt_j_truth(machine, value) == (node->type == N_AND) ? zt_j_evaluate(machine, node->second, scope) : value;
}

static jvalue evaluate_node(jmachine *machine, const jnode *node, jscope *scope)
{
    switch (node->type) {
    case N_CONST: return node->value;
    case N_NAME: return zt_j_lookup(machine, scope, node->name);
    case N_LIST:
    case N_TUPLE: return evaluate_list(machine, node, scope);
    case N_DICT: return evaluate_dict(machine, node, scope);
    case N_ATTR: return zt_j_attribute(machine, zt_j_evaluate(machine, node->first, scope), node->value.text);
    case N_ITEM: return evaluate_item(machine, node, scope);
    case N_SLICE: return evaluate_slice(machine, node, scope);
    case N_CALL: return evaluate_call(machine, node, scope);
    case N_FILTER:
    case N_TEST: return evaluate_filter(machine, node, scope);
    case N_NEG: return zt_j_negate(machine, zt_j_evaluate(machine, node->first, scope));
    case N_POS: return zt_j_plus(machine, zt_j_evaluate(machine, node->first, scope));
    case N_NOT: return zt_j_bool(!zt_j_truth(machine, zt_j_evaluate(machine, node->first, scope)));
    case N_AND:
    case N_OR: return evaluate_word(machine, node, scope);
    case N_COMPARE: return evaluate_compare(machine, node, scope);
    case N_CONCAT: return evaluate_concat(machine, node, scope);
    case N_COND: return evaluate_cond(machine, node, scope);
    default: return evaluate_arith(machine, node, scope);
    }
}

jvalue zt_j_evaluate(jmachine *machine, const jnode *node, jscope *scope)
{
    zt_j_enter(machine);
    machine->line = node->line;
    jvalue value = evaluate_node(machine, node, scope);
    zt_j_leave(machine);
    return value;
}
