/* call.c - calls: arguments into parameters, of built-ins and of macros. */
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

static void add_keyword(jmachine *machine, jcall *call, const char *name, jvalue value)
{
    jkeyword *more = zt_j_array(machine, (size_t)call->keyword_count + 1, sizeof *more);
    for (int i = 0; i < call->keyword_count; i++) {
        if (strcmp(call->keywords[i].name, name) == 0) zt_j_fail(machine, "the argument '%s' is given twice", name);
        more[i] = call->keywords[i];
    }
    more[call->keyword_count] = (jkeyword){name, value};
    call->keywords = more;
    call->keyword_count++;
}

static void add_spread(jmachine *machine, jcall *call, jvalue list)
{
    jlist *spread = zt_j_listed(machine, list);
    jvalue *args = zt_j_array(machine, (size_t)call->arg_count + spread->count, sizeof *args);
    if (call->arg_count) memcpy(args, call->args, (size_t)call->arg_count * sizeof *args);
    if (spread->count) memcpy(args + call->arg_count, spread->items, spread->count * sizeof *args);
    call->args = args;
    call->arg_count += (int)spread->count;
}

static void add_mapping(jmachine *machine, jcall *call, jvalue dict)
{
    if (dict.kind != J_DICT) zt_j_fail(machine, "argument after ** must be a mapping, not %s", zt_j_type(dict));
    for (size_t i = 0; i < dict.dict->count; i++) {
        jvalue key = dict.dict->pairs[i].key;
        if (key.kind != J_STRING) zt_j_fail(machine, "keywords must be strings");
        add_keyword(machine, call, zt_j_zero(machine, key.text), dict.dict->pairs[i].value);
    }
}

jcall zt_j_arguments(jmachine *machine, const jnode *node, jscope *scope)
{
    jcall call = {.arg_count = node->list_count};
    call.args = node->list_count ? zt_j_array(machine, (size_t)node->list_count, sizeof *call.args) : NULL;
    for (int i = 0; i < node->list_count; i++) call.args[i] = zt_j_evaluate(machine, node->list[i], scope);
    for (int i = 0; i < node->keyword_count; i++)
        add_keyword(machine, &call, node->keywords[i].name, zt_j_evaluate(machine, node->keywords[i].value, scope));
    if (node->star) add_spread(machine, &call, zt_j_evaluate(machine, node->star, scope));
    if (node->double_star) add_mapping(machine, &call, zt_j_evaluate(machine, node->double_star, scope));
    return call;
}

/* ---- built-ins ------------------------------------------------------------------------------- */

/* Where the parameter of this name is; -1: there is none. */
static int find_param(const char *params, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; *params; i++) {
        size_t word_length = strcspn(params, " ");
        if (word_length == length && memcmp(params, name, length) == 0) return i;
        params += word_length + (params[word_length] == ' ');
    }
    return -1;
}

static int count_params(const char *params)
{
    int count = *params != 0;
    for (; *params; params++) count += *params == ' ';
    return count;
}

jvalue zt_j_invoke(jmachine *machine, const jbuiltin *builtin, jvalue self, const jcall *call)
{
    jvalue args[J_PARAMS] = {0};
    zt_j_step(machine, 1);
    if (!builtin->fn) zt_j_fail(machine, "'%s' is not supported", builtin->name);
    if (!builtin->params) return builtin->fn(machine, self, args, call);
    int limit = count_params(builtin->params);
    if (call->arg_count > limit)
        zt_j_fail(machine, "%s takes at most %d argument%s (%d given)", builtin->name, limit, limit == 1 ? "" : "s",
                  call->arg_count);
    for (int i = 0; i < call->arg_count; i++) args[i] = call->args[i];
    for (int i = 0; i < call->keyword_count; i++) {
        int place = find_param(builtin->params, call->keywords[i].name);
        if (place < 0) zt_j_fail(machine, "%s has no parameter '%s'", builtin->name, call->keywords[i].name);
        if (args[place].kind != J_ABSENT)
            zt_j_fail(machine, "%s: the argument '%s' is given twice", builtin->name, call->keywords[i].name);
        args[place] = call->keywords[i].value;
    }
    for (int i = 0; i < builtin->required; i++)
        if (args[i].kind == J_ABSENT)
            zt_j_fail(machine, "%s needs %d argument%s", builtin->name, builtin->required, builtin->required == 1 ? "" : "s");
    return builtin->fn(machine, self, args, call);
}

/* ---- macros ---------------------------------------------------------------------------------- */

/* The keyword of this name, taken out of the call; J_ABSENT: not given. */
static jvalue take_keyword(jcall *call, const char *name)
{
    for (int i = 0; i < call->keyword_count; i++)
        if (strcmp(call->keywords[i].name, name) == 0) {
            jvalue value = call->keywords[i].value;
            memmove(&call->keywords[i], &call->keywords[i + 1], (size_t)(call->keyword_count - i - 1) * sizeof *call->keywords);
            call->keyword_count--;
            return value;
        }
    return zt_j_absent;
}

/* Parameters in order: positional, by keyword, by default (which may use those before), undefined. */
static void bind_parameters(jmachine *machine, const jnode *macro, jscope *scope, jcall *call)
{
    for (int i = 0; i < macro->list_count; i++) {
        const jnode *parameter = macro->list[i];
        jvalue value = i < call->arg_count ? call->args[i] : take_keyword(call, parameter->name);
        if (value.kind == J_ABSENT && parameter->first)
            value = zt_j_evaluate(machine, parameter->first, scope);
        else if (value.kind == J_ABSENT)
            value = zt_j_undefined(machine, "parameter '%s' was not provided", parameter->name);
        zt_j_set(machine, scope, parameter->name, value);
    }
}

static bool has_parameter(const jnode *macro, const char *name)
{
    for (int i = 0; i < macro->list_count; i++)
        if (strcmp(macro->list[i]->name, name) == 0) return true;
    return false;
}

/* caller, varargs and kwargs, as far as the body reads them. */
static void bind_special(jmachine *machine, const jnode *macro, jscope *scope, jcall *call)
{
    const char *name = macro->name ? macro->name : "caller";
    if (macro->caller && !has_parameter(macro, "caller")) {
        jvalue value = take_keyword(call, "caller");
        zt_j_set(machine, scope, machine->jinja->caller,
                 value.kind == J_ABSENT ? zt_j_undefined(machine, "no caller defined", NULL) : value);
    }
    if (macro->kwargs) {
        jvalue value = {.kind = J_DICT, .dict = zt_j_dict(machine)};
        for (int i = 0; i < call->keyword_count; i++)
            zt_j_dict_set(machine, value.dict, zt_j_literal(machine, call->keywords[i].name), call->keywords[i].value);
        zt_j_set(machine, scope, machine->jinja->kwargs, value);
    } else if (call->keyword_count) {
        zt_j_fail(machine, "macro '%s' takes no keyword argument '%s'", name, call->keywords[0].name);
    }
    if (macro->varargs) {
        jlist *rest = zt_j_list(machine, 0);
        for (int i = macro->list_count; i < call->arg_count; i++) zt_j_append(machine, rest, call->args[i]);
        zt_j_set(machine, scope, machine->jinja->varargs, zt_j_of_list(rest, J_TUPLE));
    } else if (call->arg_count > macro->list_count) {
        zt_j_fail(machine, "macro '%s' takes not more than %d argument%s", name, macro->list_count,
                  macro->list_count == 1 ? "" : "s");
    }
}

jvalue zt_j_call_macro(jmachine *machine, jmacro *macro, const jcall *given)
{
    jscope *scope = zt_j_scope(machine, macro->scope);
    jcall bound = *given;
    int flow, line = machine->line;
    bound.keywords = zt_j_array(machine, (size_t)bound.keyword_count, sizeof *bound.keywords);
    if (bound.keyword_count) memcpy(bound.keywords, given->keywords, (size_t)bound.keyword_count * sizeof *bound.keywords);
    bind_parameters(machine, macro->node, scope, &bound);
    bind_special(machine, macro->node, scope, &bound);
    jvalue value = zt_j_string(zt_j_capture(machine, macro->node->third, scope, &flow));
    machine->line = line;
    return value;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static jvalue call_joiner(jmachine *machine, jjoiner *joiner)
{
    bool used = joiner->used;
    joiner->used = true;
    return used ? *joiner->sep : zt_j_literal(machine, "");
}

jvalue zt_j_call(jmachine *machine, jvalue function, const jcall *call)
{
    jvalue result;
    zt_j_enter(machine);
    switch ((jkind)function.kind) {
    case J_UNDEFINED: zt_j_fail_undefined(machine, function);
    case J_FUNCTION: result = zt_j_invoke(machine, function.function, zt_j_none, call); break;
    case J_METHOD: result = zt_j_invoke(machine, function.method->fn, function.method->self, call); break;
    case J_MACRO: result = zt_j_call_macro(machine, function.macro, call); break;
    case J_LOOP: result = zt_j_call_loop(machine, function.loop, call); break;
    case J_JOINER:
        if (call->arg_count || call->keyword_count) zt_j_fail(machine, "a joiner takes no arguments");
        result = call_joiner(machine, function.joiner);
        break;
    default: zt_j_fail(machine, "'%s' object is not callable", zt_j_type(function));
    }
    zt_j_leave(machine);
    return result;
}
