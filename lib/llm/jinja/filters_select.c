/* filters_select.c - map, select, reject and their like: generators that call a filter or a test for
 * each item as it is asked for. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

#define FILTER(name) \
    static jvalue name(jmachine *j, jvalue v, const jvalue *a, const jcall *call)

typedef struct mapping {
    jiter *from;
    jvalue path, otherwise; /* map(attribute=...) */
    const jbuiltin *fn;     /* NULL: the path, or truth */
    jcall args;
    bool by_path, keep; /* keep: what the test is true of */
} mapping;

static const char *name_of(jmachine *j, jvalue v, const char *what)
{
    if (v.kind != J_STRING)
        zt_j_fail(j, "the name of a %s is a string, not '%s'", what, zt_j_type(v));
    return zt_j_zero(j, v.s);
}

static const jbuiltin *filter_named(jmachine *j, jvalue v)
{
    const char *name = name_of(j, v, "filter");
    const jbuiltin *f = zt_j_filter(name, strlen(name));
    if (!f)
        zt_j_fail(j, "no filter named '%s'", name);
    return f;
}

static const jbuiltin *test_named(jmachine *j, jvalue v)
{
    const char *name = name_of(j, v, "test");
    const jbuiltin *f = zt_j_test(name, strlen(name));
    if (!f)
        zt_j_fail(j, "no test named '%s'", name);
    return f;
}

/* A falsy value has no items, whatever it is. */
static jiter *items_of(jmachine *j, jvalue v)
{
    return zt_j_iter(j, zt_j_truth(j, v) ? v : zt_j_of_list(zt_j_list(j, 0), J_LIST));
}

static bool next_mapped(jmachine *j, jiter *it, jvalue *out)
{
    mapping *m = it->state;
    jvalue item;
    if (!m->from)
        m->from = items_of(j, it->source);
    if (!zt_j_next(j, m->from, &item))
        return false;
    *out = m->fn ? zt_j_invoke(j, m->fn, item, &m->args)
                 : zt_j_path(j, item, m->path, m->otherwise.kind == J_ABSENT ? NULL : &m->otherwise);
    return true;
}

FILTER(f_map)
{
    mapping *m = zt_j_alloc(j, sizeof *m);
    (void)a;
    m->args = *call;
    if (call->n) {
        m->fn = filter_named(j, call->arg[0]);
        m->args.arg++;
        m->args.n--;
        return zt_j_generator(j, "generator", next_mapped, v, m);
    }
    bool found = false;
    for (int i = 0; i < call->n_keywords; i++) {
        if (strcmp(call->keyword[i].name, "attribute") == 0) {
            m->path = call->keyword[i].value;
            found = true;
        } else if (strcmp(call->keyword[i].name, "default") != 0) {
            zt_j_fail(j, "map: unexpected keyword argument '%s'", call->keyword[i].name);
        } else if (call->keyword[i].value.kind != J_NONE) {
            m->otherwise = call->keyword[i].value;
        }
    }
    if (!found)
        zt_j_fail(j, "map requires a filter argument");
    return zt_j_generator(j, "generator", next_mapped, v, m);
}

static bool next_selected(jmachine *j, jiter *it, jvalue *out)
{
    mapping *m = it->state;
    if (!m->from)
        m->from = items_of(j, it->source);
    while (zt_j_next(j, m->from, out)) {
        jvalue of = m->by_path ? zt_j_path(j, *out, m->path, NULL) : *out;
        if (m->fn)
            of = zt_j_invoke(j, m->fn, of, &m->args);
        if (zt_j_truth(j, of) == m->keep)
            return true;
    }
    return false;
}

static jvalue pick(jmachine *j, jvalue v, const jcall *call, bool by_path, bool keep)
{
    mapping *m = zt_j_alloc(j, sizeof *m);
    m->by_path = by_path;
    m->keep = keep;
    m->args = *call;
    if (by_path) {
        if (call->n == 0)
            zt_j_fail(j, "missing parameter for attribute name");
        m->path = call->arg[0];
        m->args.arg++;
        m->args.n--;
    }
    if (m->args.n) {
        m->fn = test_named(j, m->args.arg[0]);
        m->args.arg++;
        m->args.n--;
    }
    return zt_j_generator(j, "generator", next_selected, v, m);
}

FILTER(f_select)
{
    (void)a;
    return pick(j, v, call, false, true);
}

FILTER(f_reject)
{
    (void)a;
    return pick(j, v, call, false, false);
}

FILTER(f_selectattr)
{
    (void)a;
    return pick(j, v, call, true, true);
}

FILTER(f_rejectattr)
{
    (void)a;
    return pick(j, v, call, true, false);
}

const jbuiltin zt_j_filters_select[] = {
    {"map", NULL, 0, f_map},
    {"select", NULL, 0, f_select},
    {"reject", NULL, 0, f_reject},
    {"selectattr", NULL, 0, f_selectattr},
    {"rejectattr", NULL, 0, f_rejectattr},
    {NULL, NULL, 0, NULL},
};
