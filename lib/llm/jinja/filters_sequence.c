/* filters_sequence.c - the filters on lists, dicts and everything that can be iterated. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

#define FILTER(name) static jvalue name(jmachine *machine, jvalue value, const jvalue *args, const jcall *call)
#define UNUSED       ((void)machine, (void)args, (void)call)

static bool truth_of(jmachine *machine, jvalue value) /* of an argument that may not be given */
{
    return value.kind != J_ABSENT && zt_j_truth(machine, value);
}

static jvalue ignore_case(jmachine *machine, jvalue value)
{
    return value.kind == J_STRING ? zt_j_string(zt_j_in_case(machine, value.text, J_LOWER, J_LOWER)) : value;
}

static bool next_listed(jmachine *machine, jiter *iterator, jvalue *out)
{
    jlist *list = iterator->state;
    (void)machine;
    if (iterator->position >= list->count) return false;
    *out = list->items[iterator->position++];
    return true;
}

static jvalue generator_of(jmachine *machine, jlist *list, const char *name)
{
    return zt_j_generator(machine, name, next_listed, zt_j_none, list);
}

/* ---- one of many ----------------------------------------------------------------------------- */

FILTER(f_first)
{
    jvalue item;
    UNUSED;
    return zt_j_next(machine, zt_j_iter(machine, value), &item)
               ? item
               : zt_j_undefined(machine, "no first item, sequence was empty", NULL);
}

static jlist *list_reversible(jmachine *machine, jvalue value)
{
    if (value.kind == J_ITER || !zt_j_iterable(value)) zt_j_fail(machine, "'%s' object is not reversible", zt_j_type(value));
    return zt_j_listed(machine, value);
}

FILTER(f_last)
{
    jlist *list = list_reversible(machine, value);
    UNUSED;
    return list->count ? list->items[list->count - 1] : zt_j_undefined(machine, "no last item, sequence was empty", NULL);
}

static jvalue find_extreme(jmachine *machine, jvalue value, const jvalue *args, int op)
{
    jvalue best = zt_j_absent, best_key = zt_j_none, item;
    bool exact = truth_of(machine, args[0]);
    jiter *iterator = zt_j_iter(machine, value);
    while (zt_j_next(machine, iterator, &item)) {
        jvalue key = zt_j_path(machine, item, args[1], NULL);
        key = exact ? key : ignore_case(machine, key);
        if (best.kind != J_ABSENT && !zt_j_less(machine, key, best_key, op)) continue;
        best = item;
        best_key = key;
    }
    return best.kind != J_ABSENT ? best : zt_j_undefined(machine, "no aggregated item, sequence was empty", NULL);
}

FILTER(f_min)
{
    (void)call;
    return find_extreme(machine, value, args, '<');
}

FILTER(f_max)
{
    (void)call;
    return find_extreme(machine, value, args, '>');
}

FILTER(f_default)
{
    (void)call;
    jvalue otherwise = args[0].kind == J_ABSENT ? zt_j_literal(machine, "") : args[0];
    if (value.kind == J_UNDEFINED || (truth_of(machine, args[1]) && !zt_j_truth(machine, value))) return otherwise;
    return value;
}

FILTER(f_attr)
{
    (void)call;
    if (args[0].kind != J_STRING) zt_j_fail(machine, "attr: the attribute's name is a string");
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(machine, value);
    if (value.kind != J_DICT) return zt_j_attribute(machine, value, args[0].text);
    jvalue empty = {.kind = J_DICT, .dict = zt_j_dict(machine)}; /* its methods, not its items */
    jvalue method = zt_j_attribute(machine, empty, args[0].text);
    if (method.kind == J_METHOD) method.method->self = value;
    return method;
}

/* ---- all, in another order or form ----------------------------------------------------------- */

FILTER(f_list)
{
    UNUSED;
    return zt_j_of_list(zt_j_listed(machine, value), J_LIST);
}

FILTER(f_join)
{
    jvalue item;
    jout out = {NULL};
    jtext sep = args[0].kind == J_ABSENT ? zt_j_literal(machine, "").text : zt_j_str(machine, args[0]);
    jiter *iterator = zt_j_iter(machine, value);
    (void)call;
    zt_j_put(machine, &out, "", 0, false);
    for (bool more = false; zt_j_next(machine, iterator, &item); more = true) {
        if (more) zt_j_put_text(machine, &out, sep);
        zt_j_put_str(machine, &out, zt_j_path(machine, item, args[1], NULL));
    }
    return zt_j_string(zt_j_done(machine, &out));
}

FILTER(f_reverse)
{
    jlist *list;
    jout out = {NULL};
    UNUSED;
    if (value.kind != J_ITER) list_reversible(machine, value);
    list = zt_j_listed(machine, value);
    for (size_t i = 0; i < list->count / 2; i++) {
        jvalue swapped = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = swapped;
    }
    if (value.kind == J_ITER) return zt_j_of_list(list, J_LIST);
    if (value.kind != J_STRING) return generator_of(machine, list, "reversed");
    zt_j_put(machine, &out, "", 0, false);
    for (size_t i = 0; i < list->count; i++) zt_j_put_text(machine, &out, list->items[i].text);
    jvalue result = zt_j_string(zt_j_done(machine, &out));
    result.safe = value.safe;
    return result;
}

FILTER(f_items)
{
    jlist *list = zt_j_list(machine, 0);
    UNUSED;
    if (value.kind != J_UNDEFINED && value.kind != J_DICT) zt_j_fail(machine, "can only get item pairs from a mapping");
    for (size_t i = 0; value.kind == J_DICT && i < value.dict->count; i++)
        zt_j_append(machine, list, zt_j_pair(machine, value.dict->pairs[i].key, value.dict->pairs[i].value));
    return generator_of(machine, list, "generator");
}

/* The keys of "a,b": a list of what each path gives. */
static jvalue sort_key(jmachine *machine, jvalue item, jvalue path, bool exact)
{
    jlist *key = zt_j_list(machine, 1);
    if (path.kind != J_STRING) {
        jvalue value = zt_j_path(machine, item, path, NULL);
        zt_j_append(machine, key, exact ? value : ignore_case(machine, value));
        return zt_j_of_list(key, J_LIST);
    }
    jtext comma = zt_j_literal(machine, ",").text;
    for (size_t from = 0; from <= path.text.size;) {
        size_t hit = zt_j_find_text(machine, path.text, from, comma);
        jtext part = zt_j_part(path.text, from, (hit == SIZE_MAX ? path.text.size : hit) - from);
        jvalue value = zt_j_path(machine, item, zt_j_string(part), NULL);
        zt_j_append(machine, key, exact ? value : ignore_case(machine, value));
        from += part.size + 1;
    }
    return zt_j_of_list(key, J_LIST);
}

FILTER(f_sort)
{
    bool exact = truth_of(machine, args[1]);
    jlist *list = zt_j_listed(machine, value);
    jvalue *key = zt_j_array(machine, list->count, sizeof *key);
    (void)call;
    for (size_t i = 0; i < list->count; i++) key[i] = sort_key(machine, list->items[i], args[2], exact);
    zt_j_sort(machine, list->items, key, list->count, truth_of(machine, args[0]));
    return zt_j_of_list(list, J_LIST);
}

FILTER(f_dictsort)
{
    bool exact = truth_of(machine, args[0]), by_value = false;
    (void)call;
    if (args[1].kind != J_ABSENT) {
        by_value = args[1].kind == J_STRING && zt_j_text_is(args[1].text, "value");
        if (!by_value && (args[1].kind != J_STRING || !zt_j_text_is(args[1].text, "key")))
            zt_j_fail(machine, "dictsort: sorting is by 'key' or 'value'");
    }
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(machine, value);
    if (value.kind != J_DICT) zt_j_fail(machine, "dictsort: '%s' object is not a mapping", zt_j_type(value));
    jlist *list = zt_j_list(machine, value.dict->count);
    jvalue *key = zt_j_array(machine, value.dict->count, sizeof *key);
    for (size_t i = 0; i < value.dict->count; i++) {
        const jpair *pair = &value.dict->pairs[i];
        key[i] = by_value ? pair->value : pair->key;
        key[i] = exact ? key[i] : ignore_case(machine, key[i]);
        zt_j_append(machine, list, zt_j_pair(machine, pair->key, pair->value));
    }
    zt_j_sort(machine, list->items, key, list->count, truth_of(machine, args[2]));
    return zt_j_of_list(list, J_LIST);
}

FILTER(f_unique)
{
    jvalue item;
    jlist *list = zt_j_list(machine, 0);
    jdict *seen = zt_j_dict(machine);
    jiter *iterator = zt_j_iter(machine, value);
    (void)call;
    while (zt_j_next(machine, iterator, &item)) {
        jvalue key = zt_j_path(machine, item, args[1], NULL);
        key = truth_of(machine, args[0]) ? key : ignore_case(machine, key);
        size_t before = seen->count;
        zt_j_dict_set(machine, seen, key, zt_j_none);
        if (seen->count > before) zt_j_append(machine, list, item);
    }
    return generator_of(machine, list, "generator");
}

FILTER(f_batch)
{
    int64_t size = zt_j_as_int(machine, args[0], "batch");
    jlist *list = zt_j_list(machine, 0), *row = NULL;
    jvalue item;
    jiter *iterator = zt_j_iter(machine, value);
    (void)call;
    while (zt_j_next(machine, iterator, &item)) {
        if (!row || (int64_t)row->count == size) {
            row = zt_j_list(machine, 0);
            zt_j_append(machine, list, zt_j_of_list(row, J_LIST));
        }
        zt_j_append(machine, row, item);
    }
    if (row && args[1].kind != J_ABSENT && args[1].kind != J_NONE)
        while ((int64_t)row->count < size) zt_j_append(machine, row, args[1]);
    return generator_of(machine, list, "generator");
}

FILTER(f_slice)
{
    int64_t slices = zt_j_as_int(machine, args[0], "slice");
    jlist *all = zt_j_listed(machine, value), *slices_list = zt_j_list(machine, 0);
    int64_t count = (int64_t)all->count, taken = 0;
    (void)call;
    if (slices == 0) zt_j_fail(machine, "division by zero");
    for (int64_t index = 0; index < slices; index++) {
        int64_t size = count / slices + (index < count % slices);
        jlist *part = zt_j_list(machine, (size_t)size + 1);
        for (int64_t item = 0; item < size; item++) zt_j_append(machine, part, all->items[taken++]);
        if (args[1].kind != J_ABSENT && args[1].kind != J_NONE && index >= count % slices) zt_j_append(machine, part, args[1]);
        zt_j_append(machine, slices_list, zt_j_of_list(part, J_LIST));
    }
    return generator_of(machine, slices_list, "generator");
}

/* Runs of equal keys among the items sorted by them: (grouper, list) each. */
FILTER(f_groupby)
{
    bool exact = truth_of(machine, args[2]);
    jlist *all = zt_j_listed(machine, value), *groups = zt_j_list(machine, 0), *group = NULL;
    jvalue *key = zt_j_array(machine, all->count, sizeof *key);
    const jvalue *otherwise = args[1].kind == J_ABSENT || args[1].kind == J_NONE ? NULL : &args[1];
    (void)call;
    for (size_t i = 0; i < all->count; i++) {
        key[i] = zt_j_path(machine, all->items[i], args[0], otherwise);
        key[i] = exact ? key[i] : ignore_case(machine, key[i]);
    }
    zt_j_sort(machine, all->items, key, all->count, false);
    for (size_t i = 0; i < all->count; i++) {
        if (i == 0 || !zt_j_equal(machine, key[i], key[i - 1])) {
            group = zt_j_list(machine, 0);
            jvalue name = zt_j_path(machine, all->items[i], args[0], otherwise);
            jvalue pair = zt_j_pair(machine, exact ? key[i] : name, zt_j_of_list(group, J_LIST));
            pair.list->group = true;
            zt_j_append(machine, groups, pair);
        }
        zt_j_append(machine, group, all->items[i]);
    }
    return zt_j_of_list(groups, J_LIST);
}

const jbuiltin zt_j_filters_sequence[] = {
    {"first", "", 0, f_first},
    {"last", "", 0, f_last},
    {"min", "case_sensitive attribute", 0, f_min},
    {"max", "case_sensitive attribute", 0, f_max},
    {"default", "default_value boolean", 0, f_default},
    {"d", "default_value boolean", 0, f_default},
    {"attr", "name", 1, f_attr},
    {"list", "", 0, f_list},
    {"join", "d attribute", 0, f_join},
    {"reverse", "", 0, f_reverse},
    {"items", "", 0, f_items},
    {"sort", "reverse case_sensitive attribute", 0, f_sort},
    {"dictsort", "case_sensitive by reverse", 0, f_dictsort},
    {"unique", "case_sensitive attribute", 0, f_unique},
    {"batch", "linecount fill_with", 1, f_batch},
    {"slice", "slices fill_with", 1, f_slice},
    {"groupby", "attribute default case_sensitive", 1, f_groupby},
    {NULL, NULL, 0, NULL},
};
