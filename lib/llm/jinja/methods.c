/* methods.c - the methods of lists, dicts, ranges and the like. Those that would change their object
 * are known, and refused, as jinja2's immutable sandbox does. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

const jbuiltin *zt_j_find(const jbuiltin *table, const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && memcmp(table->name, name, n) == 0)
            return table;
    return NULL;
}

#define METHOD(name) \
    static jvalue name(jmachine *j, jvalue self, const jvalue *a, const jcall *call)
#define UNUSED ((void)j, (void)a, (void)call)

/* ---- lists, tuples, ranges ------------------------------------------------------------------- */

METHOD(m_list_index)
{
    jlist *l = zt_j_listed(j, self);
    int64_t from, by, n = zt_j_slice_of(j, (int64_t)l->n, a[1], a[2], zt_j_none, &from, &by);
    (void)call;
    for (int64_t i = from; i < from + n; i++)
        if (zt_j_equal(j, l->item[i], a[0]))
            return zt_j_int(i);
    zt_j_fail(j, "%s is not in list", zt_j_zero(j, zt_j_repr(j, a[0])));
}

METHOD(m_list_count)
{
    jlist *l = zt_j_listed(j, self);
    int64_t n = 0;
    (void)call;
    for (size_t i = 0; i < l->n; i++)
        n += zt_j_equal(j, l->item[i], a[0]);
    return zt_j_int(n);
}

METHOD(m_list_copy)
{
    UNUSED;
    return zt_j_of_list(zt_j_listed(j, self), J_LIST);
}

static const jbuiltin list_methods[] = {
    {"index", "- - -", 1, m_list_index},
    {"count", "-", 1, m_list_count},
    {"copy", "", 0, m_list_copy},
    {NULL, NULL, 0, NULL},
};

static const jbuiltin tuple_methods[] = {
    {"index", "- - -", 1, m_list_index},
    {"count", "-", 1, m_list_count},
    {NULL, NULL, 0, NULL},
};

static const char *const list_changes[] = {"append", "clear",   "pop",  "reverse", "insert",
                                           "sort",   "extend", "remove", NULL};

/* ---- dicts ----------------------------------------------------------------------------------- */

static jvalue view(jmachine *j, jvalue self, int what)
{
    jvalue v = {.kind = J_VIEW};
    v.view = zt_j_alloc(j, sizeof *v.view);
    *v.view = (jview){self.dict, what};
    return v;
}

METHOD(m_keys)
{
    UNUSED;
    return view(j, self, 'k');
}

METHOD(m_values)
{
    UNUSED;
    return view(j, self, 'v');
}

METHOD(m_items)
{
    UNUSED;
    return view(j, self, 'i');
}

METHOD(m_get)
{
    (void)call;
    if (!zt_j_hashable(j, a[0]))
        zt_j_fail(j, "unhashable type: '%s'", zt_j_type(a[0]));
    jvalue *v = zt_j_dict_get(j, self.dict, a[0]);
    return v ? *v : a[1].kind == J_ABSENT ? zt_j_none : a[1];
}

METHOD(m_dict_copy)
{
    jvalue v = {.kind = J_DICT, .dict = zt_j_dict(j)};
    UNUSED;
    for (size_t i = 0; i < self.dict->n; i++)
        zt_j_dict_set(j, v.dict, self.dict->pair[i].key, self.dict->pair[i].value);
    return v;
}

METHOD(m_fromkeys)
{
    jvalue v = {.kind = J_DICT, .dict = zt_j_dict(j)}, key;
    jiter *it = zt_j_iter(j, a[0]);
    (void)self;
    (void)call;
    while (zt_j_next(j, it, &key))
        zt_j_dict_set(j, v.dict, key, a[1].kind == J_ABSENT ? zt_j_none : a[1]);
    return v;
}

static const jbuiltin dict_methods[] = {
    {"keys", "", 0, m_keys},
    {"values", "", 0, m_values},
    {"items", "", 0, m_items},
    {"get", "- -", 1, m_get},
    {"copy", "", 0, m_dict_copy},
    {"fromkeys", "- -", 1, m_fromkeys},
    {NULL, NULL, 0, NULL},
};

static const char *const dict_changes[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};

/* Of the global function dict: all that transformers leaves of it. */
static const jbuiltin function_methods[] = {
    {"fromkeys", "- -", 1, m_fromkeys},
    {NULL, NULL, 0, NULL},
};

/* ---- cyclers --------------------------------------------------------------------------------- */

METHOD(m_cycler_next)
{
    jcycler *c = self.cycler;
    UNUSED;
    jvalue v = c->items->item[c->pos];
    c->pos = (c->pos + 1) % c->items->n;
    return v;
}

METHOD(m_cycler_reset)
{
    UNUSED;
    self.cycler->pos = 0;
    return zt_j_none;
}

static const jbuiltin cycler_methods[] = {
    {"next", "", 0, m_cycler_next},
    {"reset", "", 0, m_cycler_reset},
    {NULL, NULL, 0, NULL},
};

/* ---- which ----------------------------------------------------------------------------------- */

static bool is_in(const char *const *names, const char *name, size_t n)
{
    for (; names && *names; names++)
        if (strlen(*names) == n && memcmp(*names, name, n) == 0)
            return true;
    return false;
}

const jbuiltin *zt_j_method(jkind kind, const char *name, size_t n, bool *changes)
{
    static const jbuiltin *const tables[J_KINDS] = {
        [J_LIST] = list_methods,   [J_TUPLE] = tuple_methods,      [J_RANGE] = tuple_methods,
        [J_DICT] = dict_methods,   [J_CYCLER] = cycler_methods,
    };
    *changes = is_in(kind == J_LIST ? list_changes : kind == J_DICT ? dict_changes : NULL, name, n);
    if (kind == J_STRING)
        return zt_j_string_method(name, n);
    return tables[kind] ? zt_j_find(tables[kind], name, n) : NULL;
}

const jbuiltin *zt_j_function_method(const jbuiltin *f, const char *name, size_t n)
{
    return strcmp(f->name, "dict") == 0 ? zt_j_find(function_methods, name, n) : NULL;
}
