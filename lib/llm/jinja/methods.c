/* methods.c - the methods of lists, dicts, ranges and the like. Those that would change their object
 * are known, and refused, as jinja2's immutable sandbox does. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

const jbuiltin *zt_j_find(const jbuiltin *table, const char *name, size_t size)
{
    for (; table->name; table++)
        if (strlen(table->name) == size && memcmp(table->name, name, size) == 0) return table;
    return NULL;
}

#define METHOD(name) static jvalue name(jmachine *machine, jvalue self, const jvalue *args, const jcall *call)
#define UNUSED       ((void)machine, (void)args, (void)call)

/* ---- lists, tuples, ranges ------------------------------------------------------------------- */

METHOD(m_list_index)
{
    jlist *list = zt_j_listed(machine, self);
    int64_t from, to, step, count = zt_j_slice_of(machine, (int64_t)list->count, args[1], args[2], zt_j_none, &from, &to, &step);
    (void)call;
    for (int64_t index = from; index < from + count; index++)
        if (zt_j_equal(machine, list->items[index], args[0])) return zt_j_int(index);
    zt_j_fail(machine, "%s is not in list", zt_j_zero(machine, zt_j_repr(machine, args[0])));
}

METHOD(m_list_count)
{
    jlist *list = zt_j_listed(machine, self);
    int64_t count = 0;
    (void)call;
    for (size_t i = 0; i < list->count; i++) count += zt_j_equal(machine, list->items[i], args[0]);
    return zt_j_int(count);
}

METHOD(m_list_copy)
{
    UNUSED;
    return zt_j_of_list(zt_j_listed(machine, self), J_LIST);
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

static const char *const list_changes[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove", NULL};

/* ---- dicts ----------------------------------------------------------------------------------- */

static jvalue make_view(jmachine *machine, jvalue self, int what)
{
    jvalue value = {.kind = J_VIEW};
    value.view = zt_j_alloc(machine, sizeof *value.view);
    *value.view = (jview){self.dict, what};
    return value;
}

METHOD(m_keys)
{
    UNUSED;
    return make_view(machine, self, 'k');
}

METHOD(m_values)
{
    UNUSED;
    return make_view(machine, self, 'v');
}

METHOD(m_items)
{
    UNUSED;
    return make_view(machine, self, 'i');
}

METHOD(m_get)
{
    (void)call;
    if (!zt_j_hashable(machine, args[0])) zt_j_fail(machine, "unhashable type: '%s'", zt_j_type(args[0]));
    jvalue *found = zt_j_dict_get(machine, self.dict, args[0]);
    return found ? *found : args[1].kind == J_ABSENT ? zt_j_none : args[1];
}

METHOD(m_dict_copy)
{
    jvalue value = {.kind = J_DICT, .dict = zt_j_dict(machine)};
    UNUSED;
    for (size_t i = 0; i < self.dict->count; i++)
        zt_j_dict_set(machine, value.dict, self.dict->pairs[i].key, self.dict->pairs[i].value);
    return value;
}

METHOD(m_fromkeys)
{
    jvalue value = {.kind = J_DICT, .dict = zt_j_dict(machine)}, key;
    jiter *iterator = zt_j_iter(machine, args[0]);
    (void)self;
    (void)call;
    while (zt_j_next(machine, iterator, &key))
        zt_j_dict_set(machine, value.dict, key, args[1].kind == J_ABSENT ? zt_j_none : args[1]);
    return value;
}

static const jbuiltin dict_methods[] = {
    {"keys", "", 0, m_keys},      {"values", "", 0, m_values},        {"items", "", 0, m_items}, {"get", "- -", 1, m_get},
    {"copy", "", 0, m_dict_copy}, {"fromkeys", "- -", 1, m_fromkeys}, {NULL, NULL, 0, NULL},
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
    jcycler *cycler = self.cycler;
    UNUSED;
    jvalue value = cycler->items->items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->items->count;
    return value;
}

METHOD(m_cycler_reset)
{
    UNUSED;
    self.cycler->position = 0;
    return zt_j_none;
}

static const jbuiltin cycler_methods[] = {
    {"next", "", 0, m_cycler_next},
    {"reset", "", 0, m_cycler_reset},
    {NULL, NULL, 0, NULL},
};

/* ---- which ----------------------------------------------------------------------------------- */

static bool is_in(const char *const *names, const char *name, size_t size)
{
    for (; names && *names; names++)
        if (strlen(*names) == size && memcmp(*names, name, size) == 0) return true;
    return false;
}

const jbuiltin *zt_j_method(jkind kind, const char *name, size_t size, bool *changes)
{
    static const jbuiltin *const tables[J_KINDS] = {
        [J_LIST] = list_methods, [J_TUPLE] = tuple_methods,   [J_RANGE] = tuple_methods,
        [J_DICT] = dict_methods, [J_CYCLER] = cycler_methods,
    };
    *changes = is_in(kind == J_LIST ? list_changes : kind == J_DICT ? dict_changes : NULL, name, size);
    if (kind == J_STRING) return zt_j_string_method(name, size);
    return tables[kind] ? zt_j_find(tables[kind], name, size) : NULL;
}

const jbuiltin *zt_j_function_method(const jbuiltin *builtin, const char *name, size_t size)
{
    return strcmp(builtin->name, "dict") == 0 ? zt_j_find(function_methods, name, size) : NULL;
}
