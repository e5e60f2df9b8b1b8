/* execute.c - statements: they write into the machine's current output.
 *
 * A scope is what a frame is in jinja2: loops, macros, with, call, filter and set blocks have one of
 * their own; if has none. What is set in one is not seen outside. A scope is looked up as it is when
 * it is asked, so that a macro sees what has been set since it was defined.
 */
#include "lib/llm/jinja/internal.h"

#include <string.h>

/* ---- assignment ------------------------------------------------------------------------------ */

static void assign_attribute(jmachine *j, jscope *s, const jnode *target, jvalue v)
{
    jvalue ns = zt_j_lookup(j, s, target->name);
    if (ns.kind != J_NAMESPACE)
        zt_j_fail(j, "cannot assign attribute on non-namespace object");
    if (target->a->name[0] == '_')
        zt_j_fail(j, "a namespace's attribute cannot begin with '_' ('%s')", target->a->name);
    zt_j_dict_set(j, ns.dict, zt_j_literal(j, target->a->name), v);
}

void zt_j_assign(jmachine *j, jscope *s, const jnode *target, jvalue v)
{
    if (target->type == N_NAME) {
        zt_j_set(j, s, target->name, v);
        return;
    }
    if (target->type == N_NSREF) {
        assign_attribute(j, s, target, v);
        return;
    }
    if (!zt_j_iterable(v))
        zt_j_fail(j, "cannot unpack non-iterable %s object", zt_j_type(v));
    jlist *l = zt_j_listed(j, v);
    if (l->n != (size_t)target->n)
        zt_j_fail(j, "%s values to unpack (expected %d)",
                  l->n > (size_t)target->n ? "too many" : "not enough", target->n);
    zt_j_enter(j);
    for (int i = 0; i < target->n; i++)
        zt_j_assign(j, s, target->list[i], l->item[i]);
    zt_j_leave(j);
}

jtext zt_j_capture(jmachine *j, const jnode *body, jscope *s, int *flow)
{
    jout text = {NULL}, *outer = j->out;
    bool document = j->document;
    j->out = &text;
    j->document = false;
    *flow = zt_j_execute(j, body, s);
    j->out = outer;
    j->document = document;
    return zt_j_done(j, &text);
}

/* A chain of filters whose innermost has no operand: that is the value. */
static jvalue run_filters(jmachine *j, const jnode *n, jvalue v, jscope *s)
{
    if (!n)
        return v;
    zt_j_enter(j);
    v = run_filters(j, n->a, v, s);
    jcall c = zt_j_arguments(j, n, s);
    j->line = n->line;
    if (!n->fn)
        zt_j_fail(j, "no filter named '%s'", n->name);
    v = zt_j_invoke(j, n->fn, v, &c);
    zt_j_leave(j);
    return v;
}

/* ---- loops ----------------------------------------------------------------------------------- */

struct jloop {
    const jnode *node;
    jscope *outer;  /* where the loop stands */
    jvalue source;
    jiter *it;
    int64_t index0, depth0, length; /* length -1: not known */
    jvalue before, current, after;  /* after: read ahead, J_ABSENT: not */
    jlist *changed;                 /* the last arguments of changed() */
};

static bool peek(jmachine *j, jloop *l)
{
    if (l->after.kind == J_ABSENT && !zt_j_next(j, l->it, &l->after))
        l->after = zt_j_absent;
    return l->after.kind != J_ABSENT;
}

int64_t zt_j_loop_length(jmachine *j, jloop *l)
{
    if (l->length >= 0)
        return l->length;
    if (zt_j_length(j, l->source, &l->length))
        return l->length;
    jlist *rest = zt_j_listed(j, (jvalue){.kind = J_ITER, .iter = l->it});
    l->it = zt_j_iter(j, zt_j_of_list(rest, J_LIST));
    l->length = (int64_t)rest->n + l->index0 + 1 + (l->after.kind != J_ABSENT);
    return l->length;
}

static bool advance(jmachine *j, jloop *l)
{
    jvalue v = l->after;
    if (v.kind == J_ABSENT && !zt_j_next(j, l->it, &v))
        return false;
    l->after = zt_j_absent;
    l->index0++;
    l->before = l->current;
    l->current = v;
    return true;
}

static jvalue loop_cycle(jmachine *j, jvalue self, const jvalue *a, const jcall *call)
{
    (void)a;
    if (call->n == 0)
        zt_j_fail(j, "no items for cycling given");
    return call->arg[self.loop->index0 % call->n];
}

static jvalue loop_changed(jmachine *j, jvalue self, const jvalue *a, const jcall *call)
{
    jlist *now = zt_j_list(j, (size_t)call->n), *last = self.loop->changed;
    (void)a;
    for (int i = 0; i < call->n; i++)
        zt_j_append(j, now, call->arg[i]);
    if (last && zt_j_equal(j, zt_j_of_list(last, J_TUPLE), zt_j_of_list(now, J_TUPLE)))
        return zt_j_bool(false);
    self.loop->changed = now;
    return zt_j_bool(true);
}

static const jbuiltin loop_methods[] = {
    {"cycle", NULL, 0, loop_cycle},
    {"changed", NULL, 0, loop_changed},
    {NULL, NULL, 0, NULL},
};

static jvalue loop_number(jmachine *j, jloop *l, const char *name)
{
    if (strcmp(name, "index") == 0)
        return zt_j_int(l->index0 + 1);
    if (strcmp(name, "index0") == 0)
        return zt_j_int(l->index0);
    if (strcmp(name, "first") == 0)
        return zt_j_bool(l->index0 == 0);
    if (strcmp(name, "last") == 0)
        return zt_j_bool(!peek(j, l));
    if (strcmp(name, "length") == 0)
        return zt_j_int(zt_j_loop_length(j, l));
    if (strcmp(name, "revindex") == 0)
        return zt_j_int(zt_j_loop_length(j, l) - l->index0);
    if (strcmp(name, "revindex0") == 0)
        return zt_j_int(zt_j_loop_length(j, l) - l->index0 - 1);
    if (strcmp(name, "depth") == 0)
        return zt_j_int(l->depth0 + 1);
    if (strcmp(name, "depth0") == 0)
        return zt_j_int(l->depth0);
    return zt_j_absent;
}

jvalue zt_j_loop_attribute(jmachine *j, jvalue loop, const char *name, size_t n)
{
    char key[16];
    jloop *l = loop.loop;
    const jbuiltin *fn = zt_j_find(loop_methods, name, n);
    if (n >= sizeof key)
        return zt_j_absent;
    memcpy(key, name, n);
    key[n] = 0;
    if (fn) {
        jvalue v = {.kind = J_METHOD};
        v.method = zt_j_alloc(j, sizeof *v.method);
        *v.method = (jmethod){loop, fn};
        return v;
    }
    if (strcmp(key, "previtem") == 0)
        return l->index0 == 0 ? zt_j_undefined(j, "there is no previous item", NULL) : l->before;
    if (strcmp(key, "nextitem") == 0)
        return peek(j, l) ? l->after : zt_j_undefined(j, "there is no next item", NULL);
    return loop_number(j, l, key);
}

typedef struct filtered { /* for x in y if ... */
    const jnode *node;
    jscope *scope;
    jiter *from;
} filtered;

static bool next_filtered(jmachine *j, jiter *it, jvalue *out)
{
    filtered *f = it->state;
    while (zt_j_next(j, f->from, out)) {
        f->scope->n = 0;
        zt_j_assign(j, f->scope, f->node->a, *out);
        if (zt_j_truth(j, zt_j_evaluate(j, f->node->c, f->scope)))
            return true;
    }
    return false;
}

static jvalue filter_source(jmachine *j, const jnode *n, jscope *outer, jvalue source)
{
    filtered *f = zt_j_alloc(j, sizeof *f);
    *f = (filtered){n, zt_j_scope(j, outer), zt_j_iter(j, source)};
    return zt_j_generator(j, "generator", next_filtered, zt_j_none, f);
}

static int run_loop(jmachine *j, const jnode *n, jscope *outer, jvalue source, int64_t depth0)
{
    jscope *s = zt_j_scope(j, outer);
    jvalue self = {.kind = J_LOOP};
    int flow = FLOW_NEXT;
    bool any = false;
    if (n->c)
        source = filter_source(j, n, outer, source);
    jloop *l = zt_j_alloc(j, sizeof *l);
    *l = (jloop){.node = n, .outer = outer, .source = source, .it = zt_j_iter(j, source),
                 .index0 = -1, .depth0 = depth0, .length = -1};
    self.loop = l;
    while (flow != FLOW_BREAK && advance(j, l)) {
        s->n = 0;
        zt_j_set(j, s, j->t->loop, self);
        zt_j_assign(j, s, n->a, l->current);
        flow = zt_j_execute(j, n->list[0], s);
        any = any || flow == FLOW_NEXT; /* as jinja2 has it: one that break ended does not count */
    }
    if (any || !n->list[1])
        return FLOW_NEXT;
    return zt_j_execute(j, n->list[1], zt_j_scope(j, outer));
}

jvalue zt_j_call_loop(jmachine *j, jloop *l, const jcall *call)
{
    jout text = {NULL}, *outer = j->out;
    bool document = j->document;
    if (!l->node->flag)
        zt_j_fail(j, "the loop must have the 'recursive' marker to be called recursively");
    if (call->n != 1 || call->n_keywords)
        zt_j_fail(j, "a loop is called with one argument");
    j->out = &text;
    j->document = false;
    run_loop(j, l->node, l->outer, call->arg[0], l->depth0 + 1);
    j->out = outer;
    j->document = document;
    return zt_j_string(zt_j_done(j, &text));
}

/* ---- statements ------------------------------------------------------------------------------ */

static int execute_body(jmachine *j, const jnode *n, jscope *s)
{
    int flow = FLOW_NEXT;
    for (int i = 0; i < n->n && flow == FLOW_NEXT; i++)
        flow = zt_j_execute(j, n->list[i], s);
    return flow;
}

static int execute_if(jmachine *j, const jnode *n, jscope *s)
{
    for (; n && n->type == N_IF; n = n->c) {
        j->line = n->line;
        if (zt_j_truth(j, zt_j_evaluate(j, n->a, s)))
            return zt_j_execute(j, n->b, s);
    }
    return n ? zt_j_execute(j, n, s) : FLOW_NEXT;
}

static int execute_set_block(jmachine *j, const jnode *n, jscope *s)
{
    int flow;
    jscope *inner = zt_j_scope(j, s);
    jtext t = zt_j_capture(j, n->c, inner, &flow);
    if (flow == FLOW_NEXT)
        zt_j_assign(j, s, n->a, run_filters(j, n->b, zt_j_string(t), inner));
    return flow;
}

static int execute_filter_block(jmachine *j, const jnode *n, jscope *s)
{
    int flow;
    jscope *inner = zt_j_scope(j, s);
    jtext t = zt_j_capture(j, n->c, inner, &flow);
    if (flow != FLOW_NEXT)
        return flow;
    jvalue v = run_filters(j, n->b, zt_j_string(t), inner);
    if (v.kind != J_STRING)
        zt_j_fail(j, "a filter block makes text, not '%s'", zt_j_type(v));
    zt_j_put_text(j, j->out, v.s);
    return FLOW_NEXT;
}

static int execute_with(jmachine *j, const jnode *n, jscope *s)
{
    jscope *inner = zt_j_scope(j, s);
    for (int i = 0; i < n->n; i++)
        zt_j_assign(j, inner, n->list[i], zt_j_evaluate(j, n->b->list[i], s));
    return zt_j_execute(j, n->c, inner);
}

static jvalue macro_value(jmachine *j, const jnode *n, jscope *s)
{
    jvalue v = {.kind = J_MACRO};
    v.macro = zt_j_alloc(j, sizeof *v.macro);
    *v.macro = (jmacro){n, s};
    return v;
}

static void execute_call_block(jmachine *j, const jnode *n, jscope *s)
{
    jvalue f = zt_j_evaluate(j, n->a->a, s);
    jcall c = zt_j_arguments(j, n->a, s);
    jkeyword *more = zt_j_array(j, (size_t)c.n_keywords + 1, sizeof *more);
    if (c.n_keywords)
        memcpy(more, c.keyword, (size_t)c.n_keywords * sizeof *more);
    for (int i = 0; i < c.n_keywords; i++)
        if (strcmp(more[i].name, "caller") == 0)
            zt_j_fail(j, "the argument 'caller' is given twice");
    more[c.n_keywords++] = (jkeyword){"caller", macro_value(j, n->c, s)};
    c.keyword = more;
    zt_j_put_str(j, j->out, zt_j_call(j, f, &c));
}

static int execute_scope(jmachine *j, const jnode *n, jscope *s)
{
    int flow;
    jtext t = zt_j_capture(j, n->c, zt_j_scope(j, s), &flow);
    zt_j_put_text(j, j->out, t);
    return FLOW_NEXT;
}

/* A block sees what is set at the top of the template, and where it stands only if it is `scoped`. */
static int execute_block(jmachine *j, const jnode *n, jscope *s)
{
    return zt_j_execute(j, n->c, zt_j_scope(j, n->flag ? s : j->root));
}

static int execute(jmachine *j, const jnode *n, jscope *s)
{
    switch (n->type) {
    case N_DATA:
        zt_j_put_text(j, j->out, n->value.s);
        return FLOW_NEXT;
    case N_OUTPUT:
        zt_j_put_str(j, j->out, zt_j_evaluate(j, n->a, s));
        return FLOW_NEXT;
    case N_IF:
        return execute_if(j, n, s);
    case N_FOR:
        return run_loop(j, n, s, zt_j_evaluate(j, n->b, s), 0);
    case N_SET:
        zt_j_assign(j, s, n->a, zt_j_evaluate(j, n->b, s));
        return FLOW_NEXT;
    case N_SET_BLOCK:
        return execute_set_block(j, n, s);
    case N_WITH:
        return execute_with(j, n, s);
    case N_MACRO:
        zt_j_set(j, s, n->name, macro_value(j, n, s));
        return FLOW_NEXT;
    case N_CALL_BLOCK:
        execute_call_block(j, n, s);
        return FLOW_NEXT;
    case N_FILTER_BLOCK:
        return execute_filter_block(j, n, s);
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    case N_BLOCK:
        return execute_block(j, n, s);
    case N_SCOPE:
        return execute_scope(j, n, s);
    case N_REFUSED:
        zt_j_fail(j, "'%s': there are no other templates", n->name);
    default:
        return execute_body(j, n, s);
    }
}

int zt_j_execute(jmachine *j, const jnode *n, jscope *s)
{
    zt_j_enter(j);
    j->line = n->line;
    int flow = execute(j, n, s);
    zt_j_leave(j);
    return flow;
}
