/* globals.c - the functions that every template has. */
#include "lib/llm/jinja/internal.h"

#include <string.h>
#include <time.h>

enum { MOST_RANGE = 100000 }; /* the sandbox's */

#define FUNCTION(name) \
    static jvalue name(jmachine *j, jvalue self, const jvalue *a, const jcall *call)
#define UNUSED ((void)j, (void)self, (void)a, (void)call)

FUNCTION(g_range)
{
    int64_t start = 0, stop, step = 1;
    jvalue v = {.kind = J_RANGE};
    UNUSED;
    stop = zt_j_as_int(j, a[0], "range");
    if (a[1].kind != J_ABSENT) {
        start = stop;
        stop = zt_j_as_int(j, a[1], "range");
    }
    if (a[2].kind != J_ABSENT)
        step = zt_j_as_int(j, a[2], "range");
    if (step == 0)
        zt_j_fail(j, "range() arg 3 must not be zero");
    /* Unsigned: the distance may be more than an int holds. */
    uint64_t span = step > 0 ? (start < stop ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t n = span ? (span - 1) / size + 1 : 0;
    if (n > MOST_RANGE)
        zt_j_fail(j, "range too big: more than %d items", MOST_RANGE);
    v.range = zt_j_alloc(j, sizeof *v.range);
    *v.range = (jrange){start, stop, step, (int64_t)n};
    return v;
}

/* dict(mapping or pairs, name=value...) */
static jdict *make_dict(jmachine *j, const jcall *call)
{
    jdict *d = zt_j_dict(j);
    if (call->n > 1)
        zt_j_fail(j, "dict expected at most 1 argument, got %d", call->n);
    if (call->n && call->arg[0].kind == J_DICT) {
        const jdict *from = call->arg[0].dict;
        for (size_t i = 0; i < from->n; i++)
            zt_j_dict_set(j, d, from->pair[i].key, from->pair[i].value);
    } else if (call->n) {
        jvalue item;
        jiter *it = zt_j_iter(j, call->arg[0]);
        while (zt_j_next(j, it, &item)) {
            jlist *pair = zt_j_listed(j, item);
            if (pair->n != 2)
                zt_j_fail(j, "dict: pairs are expected");
            zt_j_dict_set(j, d, pair->item[0], pair->item[1]);
        }
    }
    for (int i = 0; i < call->n_keywords; i++)
        zt_j_dict_set(j, d, zt_j_literal(j, call->keyword[i].name), call->keyword[i].value);
    return d;
}

FUNCTION(g_dict)
{
    UNUSED;
    return (jvalue){.kind = J_DICT, .dict = make_dict(j, call)};
}

FUNCTION(g_namespace)
{
    UNUSED;
    jdict *d = make_dict(j, call);
    for (size_t i = 0; i < d->n; i++) {
        jvalue key = d->pair[i].key;
        if (key.kind == J_STRING && key.s.n && *zt_j_data(key.s) == '_')
            zt_j_fail(j, "a namespace's attribute cannot begin with '_' ('%s')",
                      zt_j_zero(j, key.s));
    }
    return (jvalue){.kind = J_NAMESPACE, .dict = d};
}

FUNCTION(g_cycler)
{
    jvalue v = {.kind = J_CYCLER};
    UNUSED;
    if (call->n == 0 || call->n_keywords)
        zt_j_fail(j, "at least one item has to be provided");
    v.cycler = zt_j_alloc(j, sizeof *v.cycler);
    v.cycler->items = zt_j_list(j, (size_t)call->n);
    for (int i = 0; i < call->n; i++)
        zt_j_append(j, v.cycler->items, call->arg[i]);
    return v;
}

FUNCTION(g_joiner)
{
    jvalue v = {.kind = J_JOINER};
    UNUSED;
    v.joiner = zt_j_alloc(j, sizeof *v.joiner);
    v.joiner->sep = zt_j_alloc(j, sizeof *v.joiner->sep);
    *v.joiner->sep = a[0].kind == J_ABSENT ? zt_j_literal(j, ", ") : a[0];
    return v;
}

FUNCTION(g_raise_exception)
{
    UNUSED;
    zt_j_fail_as(j, ZT_ENOTSUP, "the template refuses: %s", zt_j_zero(j, zt_j_str(j, a[0])));
}

FUNCTION(g_strftime_now)
{
    char buf[512];
    struct tm tm;
    time_t now = (time_t)j->vars->now;
    UNUSED;
    if (a[0].kind != J_STRING)
        zt_j_fail(j, "strftime_now: expected a string, not '%s'", zt_j_type(a[0]));
    if (!(j->vars->utc ? gmtime_r(&now, &tm) : localtime_r(&now, &tm)))
        zt_j_fail(j, "strftime_now: the time is out of range");
    size_t n = a[0].s.n ? strftime(buf, sizeof buf, zt_j_zero(j, a[0].s), &tm) : 0;
    if (n == 0 && a[0].s.n)
        zt_j_fail(j, "strftime_now: the format makes no text, or a very long one");
    if (!zt_utf8_valid(buf, n))
        zt_j_fail(j, "strftime_now: the text is not UTF-8");
    return zt_j_string(zt_j_text(j, buf, n, false));
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

const jbuiltin *zt_j_global(const char *name)
{
    return zt_j_find(globals, name, strlen(name));
}
