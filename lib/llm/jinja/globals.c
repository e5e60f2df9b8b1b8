/* globals.c - the functions that every template has. */
#include "lib/llm/jinja/internal.h"

#include <string.h>
#include <time.h>

enum { MOST_RANGE = 100000 }; /* the sandbox's */

#define FUNCTION(name) static jvalue name(jmachine *machine, jvalue self, const jvalue *args, const jcall *call)
#define UNUSED         ((void)machine, (void)self, (void)args, (void)call)

FUNCTION(g_range)
{
    int64_t start = 0, stop, step = 1;
    jvalue value = {.kind = J_RANGE};
    UNUSED;
    stop = zt_j_as_int(machine, args[0], "range");
    if (args[1].kind != J_ABSENT) {
        start = stop;
        stop = zt_j_as_int(machine, args[1], "range");
    }
    if (args[2].kind != J_ABSENT) step = zt_j_as_int(machine, args[2], "range");
    if (step == 0) zt_j_fail(machine, "range() arg 3 must not be zero");
    /* Unsigned: the distance may be more than an int holds. */
    uint64_t span =
        step > 0 ? (start < stop ? (uint64_t)stop - (uint64_t)start : 0) : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = span ? (span - 1) / size + 1 : 0;
    if (count > MOST_RANGE) zt_j_fail(machine, "range too big: more than %d items", MOST_RANGE);
    value.range = zt_j_alloc(machine, sizeof *value.range);
    *value.range = (jrange){start, stop, step, (int64_t)count};
    return value;
}

/* dict(mapping or pairs, name=value...) */
static jdict *make_dict(jmachine *machine, const jcall *call)
{
    jdict *dict = zt_j_dict(machine);
    if (call->arg_count > 1) zt_j_fail(machine, "dict expected at most 1 argument, got %d", call->arg_count);
    if (call->arg_count && call->args[0].kind == J_DICT) {
        const jdict *from = call->args[0].dict;
        for (size_t i = 0; i < from->count; i++) zt_j_dict_set(machine, dict, from->pairs[i].key, from->pairs[i].value);
    } else if (call->arg_count) {
        jvalue item;
        jiter *iterator = zt_j_iter(machine, call->args[0]);
        while (zt_j_next(machine, iterator, &item)) {
            jlist *pair = zt_j_listed(machine, item);
            if (pair->count != 2) zt_j_fail(machine, "dict: pairs are expected");
            zt_j_dict_set(machine, dict, pair->items[0], pair->items[1]);
        }
    }
    for (int i = 0; i < call->keyword_count; i++)
        zt_j_dict_set(machine, dict, zt_j_literal(machine, call->keywords[i].name), call->keywords[i].value);
    return dict;
}

FUNCTION(g_dict)
{
    UNUSED;
    return (jvalue){.kind = J_DICT, .dict = make_dict(machine, call)};
}

FUNCTION(g_namespace)
{
    UNUSED;
    jdict *dict = make_dict(machine, call);
    for (size_t i = 0; i < dict->count; i++) {
        jvalue key = dict->pairs[i].key;
        if (key.kind == J_STRING && key.text.size && *zt_j_data(key.text) == '_')
            zt_j_fail(machine, "a namespace's attribute cannot begin with '_' ('%s')", zt_j_zero(machine, key.text));
    }
    return (jvalue){.kind = J_NAMESPACE, .dict = dict};
}

FUNCTION(g_cycler)
{
    jvalue value = {.kind = J_CYCLER};
    UNUSED;
    if (call->arg_count == 0 || call->keyword_count) zt_j_fail(machine, "at least one item has to be provided");
    value.cycler = zt_j_alloc(machine, sizeof *value.cycler);
    value.cycler->items = zt_j_list(machine, (size_t)call->arg_count);
    for (int i = 0; i < call->arg_count; i++) zt_j_append(machine, value.cycler->items, call->args[i]);
    return value;
}

FUNCTION(g_joiner)
{
    jvalue value = {.kind = J_JOINER};
    UNUSED;
    value.joiner = zt_j_alloc(machine, sizeof *value.joiner);
    value.joiner->sep = zt_j_alloc(machine, sizeof *value.joiner->sep);
    *value.joiner->sep = args[0].kind == J_ABSENT ? zt_j_literal(machine, ", ") : args[0];
    return value;
}

FUNCTION(g_raise_exception)
{
    UNUSED;
    zt_j_fail_as(machine, ZT_ENOTSUP, "the template refuses: %s", zt_j_zero(machine, zt_j_str(machine, args[0])));
}

FUNCTION(g_strftime_now)
{
    char buffer[512];
    struct tm parts;
    time_t now = (time_t)machine->vars->now;
    UNUSED;
    if (args[0].kind != J_STRING) zt_j_fail(machine, "strftime_now: expected a string, not '%s'", zt_j_type(args[0]));
    if (!(machine->vars->utc ? gmtime_r(&now, &parts) : localtime_r(&now, &parts)))
        zt_j_fail(machine, "strftime_now: the time is out of range");
    size_t size = args[0].text.size ? strftime(buffer, sizeof buffer, zt_j_zero(machine, args[0].text), &parts) : 0;
    if (size == 0 && args[0].text.size) zt_j_fail(machine, "strftime_now: the format makes no text, or a very long one");
    if (!zt_utf8_valid(buffer, size)) zt_j_fail(machine, "strftime_now: the text is not UTF-8");
    return zt_j_string(zt_j_text(machine, buffer, size, false));
}

static const jbuiltin globals[] = {
    {"range", "- - -", 1, g_range},
    {"dict", NULL, 0, g_dict},
    {"namespace", NULL, 0, g_namespace},
    {"cycler", NULL, 0, g_cycler},
    {"joiner", "sep", 0, g_joiner},
    {"raise_exception", "message", 1, g_raise_exception},
    {"strftime_now", "format", 1, g_strftime_now},
    {"lipsum", NULL, 0, NULL},
    {NULL, NULL, 0, NULL},
};

const jbuiltin *zt_j_global(const char *name) { return zt_j_find(globals, name, strlen(name)); }
