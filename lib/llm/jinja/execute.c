/* execute.c - statements: they write into the machine's current output.
 *
 * A scope is what a frame is in jinja2: loops, macros, with, call, filter and set blocks have one of
 * their own; if has none. What is set in one is not seen outside. A scope is looked up as it is when
 * it is asked, so that a macro sees what has been set since it was defined.
 */
#include "lib/llm/jinja/internal.h"

#include <string.h>

/* ---- assignment ------------------------------------------------------------------------------ */

static void assign_attribute(jmachine *machine, jscope *scope, const jnode *target, jvalue value)
{
    jvalue namespace = zt_j_lookup(machine, scope, target->name);
    if (namespace.kind != J_NAMESPACE) zt_j_fail(machine, "cannot assign attribute on non-namespace object");
    if (target->first->name[0] == '_')
        zt_j_fail(machine, "a namespace's attribute cannot begin with '_' ('%s')", target->first->name);
    zt_j_dict_set(machine, namespace.dict, zt_j_literal(machine, target->first->name), value);
}

void zt_j_assign(jmachine *machine, jscope *scope, const jnode *target, jvalue value)
{
    if (target->type == N_NAME) {
        zt_j_set(machine, scope, target->name, value);
        return;
    }
    if (target->type == N_NSREF) {
        assign_attribute(machine, scope, target, value);
        return;
    }
    if (!zt_j_iterable(value)) zt_j_fail(machine, "cannot unpack non-iterable %s object", zt_j_type(value));
    jlist *values = zt_j_listed(machine, value);
    if (values->count != (size_t)target->list_count)
        zt_j_fail(machine, "%s values to unpack (expected %d)",
                  values->count > (size_t)target->list_count ? "too many" : "not enough", target->list_count);
    zt_j_enter(machine);
    for (int i = 0; i < target->list_count; i++) zt_j_assign(machine, scope, target->list[i], values->items[i]);
    zt_j_leave(machine);
}

jtext zt_j_capture(jmachine *machine, const jnode *body, jscope *scope, int *flow)
{
    jout text = {NULL}, *outer = machine->out;
    bool document = machine->document;
    machine->out = &text;
    machine->document = false;
    *flow = zt_j_execute(machine, body, scope);
    machine->out = outer;
    machine->document = document;
    return zt_j_done(machine, &text);
}

/* A chain of filters whose innermost has no operand: that is the value. */
static jvalue run_filters(jmachine *machine, const jnode *node, jvalue value, jscope *scope)
{
    if (!node) return value;
    zt_j_enter(machine);
    value = run_filters(machine, node->first, value, scope);
    jcall call = zt_j_arguments(machine, node, scope);
    machine->line = node->line;
    if (!node->fn) zt_j_fail(machine, "no filter named '%s'", node->name);
    value = zt_j_invoke(machine, node->fn, value, &call);
    zt_j_leave(machine);
    return value;
}

/* ---- loops ----------------------------------------------------------------------------------- */

struct jloop {
    const jnode *node;
    jscope *outer; /* where the loop stands */
    jvalue source;
    jiter *iterator;
    int64_t index0, depth0, length; /* length -1: not known */
    jvalue before, current, after;  /* after: read ahead, J_ABSENT: not */
    jlist *changed;                 /* the last arguments of changed() */
};

static bool peek_item(jmachine *machine, jloop *loop)
{
    if (loop->after.kind == J_ABSENT && !zt_j_next(machine, loop->iterator, &loop->after)) loop->after = zt_j_absent;
    return loop->after.kind != J_ABSENT;
}

int64_t zt_j_loop_length(jmachine *machine, jloop *loop)
{
    if (loop->length >= 0) return loop->length;
    if (zt_j_length(machine, loop->source, &loop->length)) return loop->length;
    jlist *rest = zt_j_listed(machine, (jvalue){.kind = J_ITER, .iter = loop->iterator});
    loop->iterator = zt_j_iter(machine, zt_j_of_list(rest, J_LIST));
    loop->length = (int64_t)rest->count + loop->index0 + 1 + (loop->after.kind != J_ABSENT);
    return loop->length;
}

static bool advance_loop(jmachine *machine, jloop *loop)
{
    jvalue value = loop->after;
    if (value.kind == J_ABSENT && !zt_j_next(machine, loop->iterator, &value)) return false;
    loop->after = zt_j_absent;
    loop->index0++;
    loop->before = loop->current;
    loop->current = value;
    return true;
}

static jvalue loop_cycle(jmachine *machine, jvalue self, const jvalue *args, const jcall *call)
{
    (void)args;
    if (call->arg_count == 0) zt_j_fail(machine, "no items for cycling given");
    return call->args[self.loop->index0 % call->arg_count];
}

static jvalue loop_changed(jmachine *machine, jvalue self, const jvalue *args, const jcall *call)
{
    jlist *now = zt_j_list(machine, (size_t)call->arg_count), *last = self.loop->changed;
    (void)args;
    for (int i = 0; i < call->arg_count; i++) zt_j_append(machine, now, call->args[i]);
    if (last && zt_j_equal(machine, zt_j_of_list(last, J_TUPLE), zt_j_of_list(now, J_TUPLE))) return zt_j_bool(false);
    self.loop->changed = now;
    return zt_j_bool(true);
}

static const jbuiltin loop_methods[] = {
    {"cycle", NULL, 0, loop_cycle},
    {"changed", NULL, 0, loop_changed},
    {NULL, NULL, 0, NULL},
};

static jvalue loop_number(jmachine *machine, jloop *loop, const char *name)
{
    if (strcmp(name, "index") == 0) return zt_j_int(loop->index0 + 1);
    if (strcmp(name, "index0") == 0) return zt_j_int(loop->index0);
    if (strcmp(name, "first") == 0) return zt_j_bool(loop->index0 == 0);
    if (strcmp(name, "last") == 0) return zt_j_bool(!peek_item(machine, loop));
    if (strcmp(name, "length") == 0) return zt_j_int(zt_j_loop_length(machine, loop));
    if (strcmp(name, "revindex") == 0) return zt_j_int(zt_j_loop_length(machine, loop) - loop->index0);
    if (strcmp(name, "revindex0") == 0) return zt_j_int(zt_j_loop_length(machine, loop) - loop->index0 - 1);
    if (strcmp(name, "depth") == 0) return zt_j_int(loop->depth0 + 1);
    if (strcmp(name, "depth0") == 0) return zt_j_int(loop->depth0);
    return zt_j_absent;
}

jvalue zt_j_loop_attribute(jmachine *machine, jvalue loop, const char *name, size_t size)
{
    char key[16];
    jloop *state = loop.loop;
    const jbuiltin *fn = zt_j_find(loop_methods, name, size);
    if (size >= sizeof key) return zt_j_absent;
    memcpy(key, name, size);
    key[size] = 0;
    if (fn) {
        jvalue value = {.kind = J_METHOD};
        value.method = zt_j_alloc(machine, sizeof *value.method);
        *value.method = (jmethod){loop, fn};
        return value;
    }
    if (strcmp(key, "previtem") == 0)
        return state->index0 == 0 ? zt_j_undefined(machine, "there is no previous item", NULL) : state->before;
    if (strcmp(key, "nextitem") == 0)
        return peek_item(machine, state) ? state->after : zt_j_undefined(machine, "there is no next item", NULL);
    return loop_number(machine, state, key);
}

typedef struct filtered_items { /* for x in y if ... */
    const jnode *node;
    jscope *scope;
    jiter *from;
} filtered_items;

static bool next_filtered(jmachine *machine, jiter *iterator, jvalue *out)
{
    filtered_items *filtered = iterator->state;
    while (zt_j_next(machine, filtered->from, out)) {
        filtered->scope->count = 0;
        zt_j_assign(machine, filtered->scope, filtered->node->first, *out);
        if (zt_j_truth(machine, zt_j_evaluate(machine, filtered->node->third, filtered->scope))) return true;
    }
    return false;
}

static jvalue filter_source(jmachine *machine, const jnode *node, jscope *outer, jvalue source)
{
    filtered_items *filtered = zt_j_alloc(machine, sizeof *filtered);
    *filtered = (filtered_items){node, zt_j_scope(machine, outer), zt_j_iter(machine, source)};
    return zt_j_generator(machine, "generator", next_filtered, zt_j_none, filtered);
}

static int run_loop(jmachine *machine, const jnode *node, jscope *outer, jvalue source, int64_t depth0)
{
    jscope *scope = zt_j_scope(machine, outer);
    jvalue self = {.kind = J_LOOP};
    int flow = FLOW_NEXT;
    bool any = false;
    if (node->third) source = filter_source(machine, node, outer, source);
    jloop *loop = zt_j_alloc(machine, sizeof *loop);
    *loop = (jloop){.node = node,
                    .outer = outer,
                    .source = source,
                    .iterator = zt_j_iter(machine, source),
                    .index0 = -1,
                    .depth0 = depth0,
                    .length = -1};
    self.loop = loop;
    while (flow != FLOW_BREAK && advance_loop(machine, loop)) {
        scope->count = 0;
        zt_j_set(machine, scope, machine->jinja->loop, self);
        zt_j_assign(machine, scope, node->first, loop->current);
        flow = zt_j_execute(machine, node->list[0], scope);
        any = any || flow == FLOW_NEXT; /* as jinja2 has it: one that break ended does not count */
    }
    if (any || !node->list[1]) return FLOW_NEXT;
    return zt_j_execute(machine, node->list[1], zt_j_scope(machine, outer));
}

jvalue zt_j_call_loop(jmachine *machine, jloop *loop, const jcall *call)
{
    jout text = {NULL}, *outer = machine->out;
    bool document = machine->document;
    if (!loop->node->flag) zt_j_fail(machine, "the loop must have the 'recursive' marker to be called recursively");
    if (call->arg_count != 1 || call->keyword_count) zt_j_fail(machine, "a loop is called with one argument");
    machine->out = &text;
    machine->document = false;
    run_loop(machine, loop->node, loop->outer, call->args[0], loop->depth0 + 1);
    machine->out = outer;
    machine->document = document;
    return zt_j_string(zt_j_done(machine, &text));
}

/* ---- statements ------------------------------------------------------------------------------ */

static int execute_body(jmachine *machine, const jnode *node, jscope *scope)
{
    int flow = FLOW_NEXT;
    for (int i = 0; i < node->list_count && flow == FLOW_NEXT; i++) flow = zt_j_execute(machine, node->list[i], scope);
    return flow;
}

static int execute_if(jmachine *machine, const jnode *node, jscope *scope)
{
    for (; node && node->type == N_IF; node = node->third) {
        machine->line = node->line;
        if (zt_j_truth(machine, zt_j_evaluate(machine, node->first, scope))) return zt_j_execute(machine, node->second, scope);
    }
    return node ? zt_j_execute(machine, node, scope) : FLOW_NEXT;
}

static int execute_set_block(jmachine *machine, const jnode *node, jscope *scope)
{
    int flow;
    jscope *inner = zt_j_scope(machine, scope);
    jtext text = zt_j_capture(machine, node->third, inner, &flow);
    if (flow == FLOW_NEXT) zt_j_assign(machine, scope, node->first, run_filters(machine, node->second, zt_j_string(text), inner));
    return flow;
}

static int execute_filter_block(jmachine *machine, const jnode *node, jscope *scope)
{
    int flow;
    jscope *inner = zt_j_scope(machine, scope);
    jtext text = zt_j_capture(machine, node->third, inner, &flow);
    if (flow != FLOW_NEXT) return flow;
    jvalue value = run_filters(machine, node->second, zt_j_string(text), inner);
    if (value.kind != J_STRING) zt_j_fail(machine, "a filter block makes text, not '%s'", zt_j_type(value));
    zt_j_put_text(machine, machine->out, value.text);
    return FLOW_NEXT;
}

static int execute_with(jmachine *machine, const jnode *node, jscope *scope)
{
    jscope *inner = zt_j_scope(machine, scope);
    for (int i = 0; i < node->list_count; i++)
        zt_j_assign(machine, inner, node->list[i], zt_j_evaluate(machine, node->second->list[i], scope));
    return zt_j_execute(machine, node->third, inner);
}

static jvalue macro_value(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue value = {.kind = J_MACRO};
    value.macro = zt_j_alloc(machine, sizeof *value.macro);
    *value.macro = (jmacro){node, scope};
    return value;
}

static void execute_call_block(jmachine *machine, const jnode *node, jscope *scope)
{
    jvalue function = zt_j_evaluate(machine, node->first->first, scope);
    jcall call = zt_j_arguments(machine, node->first, scope);
    jkeyword *keywords = zt_j_array(machine, (size_t)call.keyword_count + 1, sizeof *keywords);
    if (call.keyword_count) memcpy(keywords, call.keywords, (size_t)call.keyword_count * sizeof *keywords);
    for (int i = 0; i < call.keyword_count; i++)
        if (strcmp(keywords[i].name, "caller") == 0) zt_j_fail(machine, "the argument 'caller' is given twice");
    keywords[call.keyword_count++] = (jkeyword){"caller", macro_value(machine, node->third, scope)};
    call.keywords = keywords;
    zt_j_put_str(machine, machine->out, zt_j_call(machine, function, &call));
}

static int execute_scope(jmachine *machine, const jnode *node, jscope *scope)
{
    int flow;
    jtext text = zt_j_capture(machine, node->third, zt_j_scope(machine, scope), &flow);
    zt_j_put_text(machine, machine->out, text);
    return FLOW_NEXT;
}

/* A block sees what is set at the top of the template, and where it stands only if it is `scoped`. */
static int execute_block(jmachine *machine, const jnode *node, jscope *scope)
{
    return zt_j_execute(machine, node->third, zt_j_scope(machine, node->flag ? scope : machine->root));
}

static int execute_node(jmachine *machine, const jnode *node, jscope *scope)
{
    switch (node->type) {
    case N_DATA: zt_j_put_text(machine, machine->out, node->value.text); return FLOW_NEXT;
    case N_OUTPUT: zt_j_put_str(machine, machine->out, zt_j_evaluate(machine, node->first, scope)); return FLOW_NEXT;
    case N_IF: return execute_if(machine, node, scope);
    case N_FOR: return run_loop(machine, node, scope, zt_j_evaluate(machine, node->second, scope), 0);
    case N_SET: zt_j_assign(machine, scope, node->first, zt_j_evaluate(machine, node->second, scope)); return FLOW_NEXT;
    case N_SET_BLOCK: return execute_set_block(machine, node, scope);
    case N_WITH: return execute_with(machine, node, scope);
    case N_MACRO: zt_j_set(machine, scope, node->name, macro_value(machine, node, scope)); return FLOW_NEXT;
    case N_CALL_BLOCK: execute_call_block(machine, node, scope); return FLOW_NEXT;
    case N_FILTER_BLOCK: return execute_filter_block(machine, node, scope);
    case N_BREAK: return FLOW_BREAK;
    case N_CONTINUE: return FLOW_CONTINUE;
    case N_BLOCK: return execute_block(machine, node, scope);
    case N_SCOPE: return execute_scope(machine, node, scope);
    case N_REFUSED: zt_j_fail(machine, "'%s': there are no other templates", node->name);
    default: return execute_body(machine, node, scope);
    }
}

int zt_j_execute(jmachine *machine, const jnode *node, jscope *scope)
{
    zt_j_enter(machine);
    machine->line = node->line;
    int flow = execute_node(machine, node, scope);
    zt_j_leave(machine);
    return flow;
}
