/* filters_select.c - map, select, reject and their like: generators that call a filter or a test for
 * each item as it is asked for. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

#define FILTER(name) static jvalue name(jmachine *machine, jvalue value, const jvalue *args, const jcall *call)

typedef struct item_mapping {
    jiter *from;
    jvalue path, otherwise; /* map(attribute=...) */
    const jbuiltin *fn;     /* NULL: the path, or truth */
    jcall args;
    bool by_path, keep; /* keep: what the test is true of */
} item_mapping;

static const char *builtin_name(jmachine *machine, jvalue value, const char *what)
{
    if (value.kind != J_STRING) zt_j_fail(machine, "the name of a %s is a string, not '%s'", what, zt_j_type(value));
    return zt_j_zero(machine, value.text);
}

static const jbuiltin *find_filter(jmachine *machine, jvalue value)
{
    const char *name = builtin_name(machine, value, "filter");
    const jbuiltin *builtin = zt_j_filter(name, strlen(name));
    if (!builtin) zt_j_fail(machine, "no filter named '%s'", name);
    return builtin;
}

static const jbuiltin *find_test(jmachine *machine, jvalue value)
{
    const char *name = builtin_name(machine, value, "test");
    const jbuiltin *builtin = zt_j_test(name, strlen(name));
    if (!builtin) zt_j_fail(machine, "no test named '%s'", name);
    return builtin;
}

/* A falsy value has no items, whatever it is. */
static jiter *iterate_items(jmachine *machine, jvalue value)
{
    return zt_j_iter(machine, zt_j_truth(machine, value) ? value : zt_j_of_list(zt_j_list(machine, 0), J_LIST));
}

static bool next_mapped(jmachine *machine, jiter *iterator, jvalue *out)
{
    item_mapping *mapping = iterator->state;
    jvalue item;
    if (!mapping->from) mapping->from = iterate_items(machine, iterator->source);
    if (!zt_j_next(machine, mapping->from, &item)) return false;
    *out = mapping->fn
               ? zt_j_invoke(machine, mapping->fn, item, &mapping->args)
               : zt_j_path(machine, item, mapping->path, mapping->otherwise.kind == J_ABSENT ? NULL : &mapping->otherwise);
    return true;
}

FILTER(f_map)
{
    item_mapping *mapping = zt_j_alloc(machine, sizeof *mapping);
    (void)args;
    mapping->args = *call;
    if (call->arg_count) {
        mapping->fn = find_filter(machine, call->args[0]);
        mapping->args.args++;
        mapping->args.arg_count--;
        return zt_j_generator(machine, "generator", next_mapped, value, mapping);
    }
    bool found = false;
    for (int i = 0; i < call->keyword_count; i++) {
        if (strcmp(call->keywords[i].name, "attribute") == 0) {
            mapping->path = call->keywords[i].value;
            found = true;
        } else if (strcmp(call->keywords[i].name, "default") != 0) {
            zt_j_fail(machine, "map: unexpected keyword argument '%s'", call->keywords[i].name);
        } else if (call->keywords[i].value.kind != J_NONE) {
            mapping->otherwise = call->keywords[i].value;
        }
    }
    if (!found) zt_j_fail(machine, "map requires a filter argument");
    return zt_j_generator(machine, "generator", next_mapped, value, mapping);
}

static bool next_selected(jmachine *machine, jiter *iterator, jvalue *out)
{
    item_mapping *mapping = iterator->state;
    if (!mapping->from) mapping->from = iterate_items(machine, iterator->source);
    while (zt_j_next(machine, mapping->from, out)) {
        jvalue of = mapping->by_path ? zt_j_path(machine, *out, mapping->path, NULL) : *out;
        if (mapping->fn) of = zt_j_invoke(machine, mapping->fn, of, &mapping->args);
        if (zt_j_truth(machine, of) == mapping->keep) return true;
    }
    return false;
}

static jvalue select_items(jmachine *machine, jvalue value, const jcall *call, bool by_path, bool keep)
{
    item_mapping *mapping = zt_j_alloc(machine, sizeof *mapping);
    mapping->by_path = by_path;
    mapping->keep = keep;
    mapping->args = *call;
    if (by_path) {
        if (call->arg_count == 0) zt_j_fail(machine, "missing parameter for attribute name");
        mapping->path = call->args[0];
        mapping->args.args++;
        mapping->args.arg_count--;
    }
    if (mapping->args.arg_count) {
        mapping->fn = find_test(machine, mapping->args.args[0]);
        mapping->args.args++;
        mapping->args.arg_count--;
    }
    return zt_j_generator(machine, "generator", next_selected, value, mapping);
}

FILTER(f_select)
{
    (void)args;
    return select_items(machine, value, call, false, true);
}

FILTER(f_reject)
{
    (void)args;
    return select_items(machine, value, call, false, false);
}

FILTER(f_selectattr)
{
    (void)args;
    return select_items(machine, value, call, true, true);
}

FILTER(f_rejectattr)
{
    (void)args;
    return select_items(machine, value, call, true, false);
}

const jbuiltin zt_j_filters_select[] = {
    {"map", NULL, 0, f_map},
    {"select", NULL, 0, f_select},
    {"reject", NULL, 0, f_reject},
    {"selectattr", NULL, 0, f_selectattr},
    {"rejectattr", NULL, 0, f_rejectattr},
    {NULL, NULL, 0, NULL},
};
