/* call.c - calls: arguments into parameters, of built-ins and of macros. */
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

static void add_keyword(jmachine *j, jcall *c, const char *name, jvalue value)
{
    jkeyword *more = zt_j_array(j, (size_t)c->n_keywords + 1, sizeof *more);
    for (int i = 0; i < c->n_keywords; i++) {
        if (strcmp(c->keyword[i].name, name) == 0)
            zt_j_fail(j, "the argument '%s' is given twice", name);
        more[i] = c->keyword[i];
    }
    more[c->n_keywords] = (jkeyword){name, value};
    c->keyword = more;
    c->n_keywords++;
}

static void add_spread(jmachine *j, jcall *c, jvalue list)
{
    jlist *l = zt_j_listed(j, list);
    jvalue *arg = zt_j_array(j, (size_t)c->n + l->n, sizeof *arg);
    if (c->n)
        memcpy(arg, c->arg, (size_t)c->n * sizeof *arg);
    if (l->n)
        memcpy(arg + c->n, l->item, l->n * sizeof *arg);
    c->arg = arg;
    c->n += (int)l->n;
}

static void add_mapping(jmachine *j, jcall *c, jvalue dict)
{
    if (dict.kind != J_DICT)
        zt_j_fail(j, "argument after ** must be a mapping, not %s", zt_j_type(dict));
    for (size_t i = 0; i < dict.dict->n; i++) {
        jvalue key = dict.dict->pair[i].key;
        if (key.kind != J_STRING)
            zt_j_fail(j, "keywords must be strings");
        add_keyword(j, c, zt_j_zero(j, key.s), dict.dict->pair[i].value);
    }
}

jcall zt_j_arguments(jmachine *j, const jnode *n, jscope *s)
{
    jcall c = {.n = n->n};
    c.arg = n->n ? zt_j_array(j, (size_t)n->n, sizeof *c.arg) : NULL;
    for (int i = 0; i < n->n; i++)
        c.arg[i] = zt_j_evaluate(j, n->list[i], s);
    for (int i = 0; i < n->n_keywords; i++)
        add_keyword(j, &c, n->keyword[i].name, zt_j_evaluate(j, n->keyword[i].value, s));
    if (n->star)
        add_spread(j, &c, zt_j_evaluate(j, n->star, s));
    if (n->star2)
        add_mapping(j, &c, zt_j_evaluate(j, n->star2, s));
    return c;
}

/* ---- built-ins ------------------------------------------------------------------------------- */

/* Where the parameter of this name is; -1: there is none. */
static int find_param(const char *params, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; *params; i++) {
        size_t k = strcspn(params, " ");
        if (k == n && memcmp(params, name, n) == 0)
            return i;
        params += k + (params[k] == ' ');
    }
    return -1;
}

static int count_params(const char *params)
{
    int n = *params != 0;
    for (; *params; params++)
        n += *params == ' ';
    return n;
}

jvalue zt_j_invoke(jmachine *j, const jbuiltin *f, jvalue self, const jcall *call)
{
    jvalue a[J_PARAMS] = {0};
    zt_j_step(j, 1);
    if (!f->fn)
        zt_j_fail(j, "'%s' is not supported", f->name);
    if (!f->params)
        return f->fn(j, self, a, call);
    int most = count_params(f->params);
    if (call->n > most)
        zt_j_fail(j, "%s takes at most %d argument%s (%d given)", f->name, most,
                  most == 1 ? "" : "s", call->n);
    for (int i = 0; i < call->n; i++)
        a[i] = call->arg[i];
    for (int i = 0; i < call->n_keywords; i++) {
        int at = find_param(f->params, call->keyword[i].name);
        if (at < 0)
            zt_j_fail(j, "%s has no parameter '%s'", f->name, call->keyword[i].name);
        if (a[at].kind != J_ABSENT)
            zt_j_fail(j, "%s: the argument '%s' is given twice", f->name, call->keyword[i].name);
        a[at] = call->keyword[i].value;
    }
    for (int i = 0; i < f->required; i++)
        if (a[i].kind == J_ABSENT)
            zt_j_fail(j, "%s needs %d argument%s", f->name, f->required, f->required == 1 ? "" : "s");
    return f->fn(j, self, a, call);
}

/* ---- macros ---------------------------------------------------------------------------------- */

/* The keyword of this name, taken out of the call; J_ABSENT: not given. */
static jvalue take_keyword(jcall *c, const char *name)
{
    for (int i = 0; i < c->n_keywords; i++)
        if (strcmp(c->keyword[i].name, name) == 0) {
            jvalue v = c->keyword[i].value;
            memmove(&c->keyword[i], &c->keyword[i + 1],
                    (size_t)(c->n_keywords - i - 1) * sizeof *c->keyword);
            c->n_keywords--;
            return v;
        }
    return zt_j_absent;
}

/* Parameters in order: positional, by keyword, by default (which may use those before), undefined. */
static void bind_parameters(jmachine *j, const jnode *m, jscope *s, jcall *c)
{
    for (int i = 0; i < m->n; i++) {
        const jnode *p = m->list[i];
        jvalue v = i < c->n ? c->arg[i] : take_keyword(c, p->name);
        if (v.kind == J_ABSENT && p->a)
            v = zt_j_evaluate(j, p->a, s);
        else if (v.kind == J_ABSENT)
            v = zt_j_undefined(j, "parameter '%s' was not provided", p->name);
        zt_j_set(j, s, p->name, v);
    }
}

static bool has_parameter(const jnode *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->list[i]->name, name) == 0)
            return true;
    return false;
}

/* caller, varargs and kwargs, as far as the body reads them. */
static void bind_special(jmachine *j, const jnode *m, jscope *s, jcall *c)
{
    const char *name = m->name ? m->name : "caller";
    if (m->caller && !has_parameter(m, "caller")) {
        jvalue v = take_keyword(c, "caller");
        zt_j_set(j, s, j->t->caller,
                 v.kind == J_ABSENT ? zt_j_undefined(j, "no caller defined", NULL) : v);
    }
    if (m->kwargs) {
        jvalue v = {.kind = J_DICT, .dict = zt_j_dict(j)};
        for (int i = 0; i < c->n_keywords; i++)
            zt_j_dict_set(j, v.dict, zt_j_literal(j, c->keyword[i].name), c->keyword[i].value);
        zt_j_set(j, s, j->t->kwargs, v);
    } else if (c->n_keywords) {
        zt_j_fail(j, "macro '%s' takes no keyword argument '%s'", name, c->keyword[0].name);
    }
    if (m->varargs) {
        jlist *l = zt_j_list(j, 0);
        for (int i = m->n; i < c->n; i++)
            zt_j_append(j, l, c->arg[i]);
        zt_j_set(j, s, j->t->varargs, zt_j_of_list(l, J_TUPLE));
    } else if (c->n > m->n) {
        zt_j_fail(j, "macro '%s' takes not more than %d argument%s", name, m->n, m->n == 1 ? "" : "s");
    }
}

jvalue zt_j_call_macro(jmachine *j, jmacro *m, const jcall *call)
{
    jscope *s = zt_j_scope(j, m->scope);
    jcall c = *call;
    int flow, line = j->line;
    c.keyword = zt_j_array(j, (size_t)c.n_keywords, sizeof *c.keyword);
    if (c.n_keywords)
        memcpy(c.keyword, call->keyword, (size_t)c.n_keywords * sizeof *c.keyword);
    bind_parameters(j, m->node, s, &c);
    bind_special(j, m->node, s, &c);
    jvalue v = zt_j_string(zt_j_capture(j, m->node->c, s, &flow));
    j->line = line;
    return v;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static jvalue call_joiner(jmachine *j, jjoiner *o)
{
    bool used = o->used;
    o->used = true;
    return used ? *o->sep : zt_j_literal(j, "");
}

jvalue zt_j_call(jmachine *j, jvalue f, const jcall *call)
{
    jvalue v;
    zt_j_enter(j);
    switch ((jkind)f.kind) {
    case J_UNDEFINED:
        zt_j_fail_undefined(j, f);
    case J_FUNCTION:
        v = zt_j_invoke(j, f.function, zt_j_none, call);
        break;
    case J_METHOD:
        v = zt_j_invoke(j, f.method->fn, f.method->self, call);
        break;
    case J_MACRO:
        v = zt_j_call_macro(j, f.macro, call);
        break;
    case J_LOOP:
        v = zt_j_call_loop(j, f.loop, call);
        break;
    case J_JOINER:
        if (call->n || call->n_keywords)
            zt_j_fail(j, "a joiner takes no arguments");
        v = call_joiner(j, f.joiner);
        break;
    default:
        zt_j_fail(j, "'%s' object is not callable", zt_j_type(f));
    }
    zt_j_leave(j);
    return v;
}
