/* filters_sequence.c - the filters on lists, dicts and everything that can be walked. */
#include "lib/llm/jinja/internal.h"

#include <string.h>

#define FILTER(name) \
    static jvalue name(jmachine *j, jvalue v, const jvalue *a, const jcall *call)
#define UNUSED ((void)j, (void)a, (void)call)

static bool truth_of(jmachine *j, jvalue v) /* of an argument that may not be given */
{
    return v.kind != J_ABSENT && zt_j_truth(j, v);
}

static jvalue ignore_case(jmachine *j, jvalue v)
{
    return v.kind == J_STRING ? zt_j_string(zt_j_lower(j, v.s)) : v;
}

static bool next_listed(jmachine *j, jiter *it, jvalue *out)
{
    jlist *l = it->state;
    (void)j;
    if (it->i >= l->n)
        return false;
    *out = l->item[it->i++];
    return true;
}

static jvalue generator_of(jmachine *j, jlist *l, const char *name)
{
    return zt_j_generator(j, name, next_listed, zt_j_none, l);
}

/* ---- one of many ----------------------------------------------------------------------------- */

FILTER(f_first)
{
    jvalue item;
    UNUSED;
    return zt_j_next(j, zt_j_iter(j, v), &item)
               ? item
               : zt_j_undefined(j, "no first item, sequence was empty", NULL);
}

static jlist *reversible(jmachine *j, jvalue v)
{
    if (v.kind == J_ITER || !zt_j_iterable(v))
        zt_j_fail(j, "'%s' object is not reversible", zt_j_type(v));
    return zt_j_listed(j, v);
}

FILTER(f_last)
{
    jlist *l = reversible(j, v);
    UNUSED;
    return l->n ? l->item[l->n - 1] : zt_j_undefined(j, "no last item, sequence was empty", NULL);
}

static jvalue extreme(jmachine *j, jvalue v, const jvalue *a, int op)
{
    jvalue best = zt_j_absent, best_key = zt_j_none, item;
    bool exact = truth_of(j, a[0]);
    jiter *it = zt_j_iter(j, v);
    while (zt_j_next(j, it, &item)) {
        jvalue key = zt_j_path(j, item, a[1], NULL);
        key = exact ? key : ignore_case(j, key);
        if (best.kind != J_ABSENT && !zt_j_less(j, key, best_key, op))
            continue;
        best = item;
        best_key = key;
    }
    return best.kind != J_ABSENT ? best
                                 : zt_j_undefined(j, "no aggregated item, sequence was empty", NULL);
}

FILTER(f_min)
{
    (void)call;
    return extreme(j, v, a, '<');
}

FILTER(f_max)
{
    (void)call;
    return extreme(j, v, a, '>');
}

FILTER(f_default)
{
    (void)call;
    jvalue otherwise = a[0].kind == J_ABSENT ? zt_j_literal(j, "") : a[0];
    if (v.kind == J_UNDEFINED || (truth_of(j, a[1]) && !zt_j_truth(j, v)))
        return otherwise;
    return v;
}

FILTER(f_attr)
{
    (void)call;
    if (a[0].kind != J_STRING)
        zt_j_fail(j, "attr: the attribute's name is a string");
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, v);
    if (v.kind != J_DICT)
        return zt_j_attribute(j, v, a[0].s);
    jvalue empty = {.kind = J_DICT, .dict = zt_j_dict(j)}; /* its methods, not its items */
    jvalue m = zt_j_attribute(j, empty, a[0].s);
    if (m.kind == J_METHOD)
        m.method->self = v;
    return m;
}

/* ---- all, in another order or form ----------------------------------------------------------- */

FILTER(f_list)
{
    UNUSED;
    return zt_j_of_list(zt_j_listed(j, v), J_LIST);
}

FILTER(f_join)
{
    jvalue item;
    jout o = {NULL};
    jtext sep = a[0].kind == J_ABSENT ? zt_j_literal(j, "").s : zt_j_str(j, a[0]);
    jiter *it = zt_j_iter(j, v);
    (void)call;
    zt_j_put(j, &o, "", 0, false);
    for (bool more = false; zt_j_next(j, it, &item); more = true) {
        if (more)
            zt_j_put_text(j, &o, sep);
        zt_j_put_str(j, &o, zt_j_path(j, item, a[1], NULL));
    }
    return zt_j_string(zt_j_done(j, &o));
}

FILTER(f_reverse)
{
    jlist *l;
    jout o = {NULL};
    UNUSED;
    if (v.kind != J_ITER)
        reversible(j, v);
    l = zt_j_listed(j, v);
    for (size_t i = 0; i < l->n / 2; i++) {
        jvalue t = l->item[i];
        l->item[i] = l->item[l->n - 1 - i];
        l->item[l->n - 1 - i] = t;
    }
    if (v.kind == J_ITER)
        return zt_j_of_list(l, J_LIST);
    if (v.kind != J_STRING)
        return generator_of(j, l, "reversed");
    zt_j_put(j, &o, "", 0, false);
    for (size_t i = 0; i < l->n; i++)
        zt_j_put_text(j, &o, l->item[i].s);
    jvalue r = zt_j_string(zt_j_done(j, &o));
    r.safe = v.safe;
    return r;
}

FILTER(f_items)
{
    jlist *l = zt_j_list(j, 0);
    UNUSED;
    if (v.kind != J_UNDEFINED && v.kind != J_DICT)
        zt_j_fail(j, "can only get item pairs from a mapping");
    for (size_t i = 0; v.kind == J_DICT && i < v.dict->n; i++)
        zt_j_append(j, l, zt_j_pair(j, v.dict->pair[i].key, v.dict->pair[i].value));
    return generator_of(j, l, "generator");
}

/* The keys of "a,b": a list of what each path gives. */
static jvalue sort_key(jmachine *j, jvalue item, jvalue path, bool exact)
{
    jlist *key = zt_j_list(j, 1);
    if (path.kind != J_STRING) {
        jvalue v = zt_j_path(j, item, path, NULL);
        zt_j_append(j, key, exact ? v : ignore_case(j, v));
        return zt_j_of_list(key, J_LIST);
    }
    jtext comma = zt_j_literal(j, ",").s;
    for (size_t from = 0; from <= path.s.n;) {
        size_t hit = zt_j_find_text(j, path.s, from, comma);
        jtext part = zt_j_part(path.s, from, (hit == SIZE_MAX ? path.s.n : hit) - from);
        jvalue v = zt_j_path(j, item, zt_j_string(part), NULL);
        zt_j_append(j, key, exact ? v : ignore_case(j, v));
        from += part.n + 1;
    }
    return zt_j_of_list(key, J_LIST);
}

FILTER(f_sort)
{
    bool exact = truth_of(j, a[1]);
    jlist *l = zt_j_listed(j, v);
    jvalue *key = zt_j_array(j, l->n, sizeof *key);
    (void)call;
    for (size_t i = 0; i < l->n; i++)
        key[i] = sort_key(j, l->item[i], a[2], exact);
    zt_j_sort(j, l->item, key, l->n, truth_of(j, a[0]));
    return zt_j_of_list(l, J_LIST);
}

FILTER(f_dictsort)
{
    bool exact = truth_of(j, a[0]), by_value = false;
    (void)call;
    if (a[1].kind != J_ABSENT) {
        by_value = a[1].kind == J_STRING && zt_j_text_is(a[1].s, "value");
        if (!by_value && (a[1].kind != J_STRING || !zt_j_text_is(a[1].s, "key")))
            zt_j_fail(j, "dictsort: sorting is by 'key' or 'value'");
    }
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, v);
    if (v.kind != J_DICT)
        zt_j_fail(j, "dictsort: '%s' object is not a mapping", zt_j_type(v));
    jlist *l = zt_j_list(j, v.dict->n);
    jvalue *key = zt_j_array(j, v.dict->n, sizeof *key);
    for (size_t i = 0; i < v.dict->n; i++) {
        const jpair *p = &v.dict->pair[i];
        key[i] = by_value ? p->value : p->key;
        key[i] = exact ? key[i] : ignore_case(j, key[i]);
        zt_j_append(j, l, zt_j_pair(j, p->key, p->value));
    }
    zt_j_sort(j, l->item, key, l->n, truth_of(j, a[2]));
    return zt_j_of_list(l, J_LIST);
}

FILTER(f_unique)
{
    jvalue item;
    jlist *l = zt_j_list(j, 0);
    jdict *seen = zt_j_dict(j);
    jiter *it = zt_j_iter(j, v);
    (void)call;
    while (zt_j_next(j, it, &item)) {
        jvalue key = zt_j_path(j, item, a[1], NULL);
        key = truth_of(j, a[0]) ? key : ignore_case(j, key);
        size_t before = seen->n;
        zt_j_dict_set(j, seen, key, zt_j_none);
        if (seen->n > before)
            zt_j_append(j, l, item);
    }
    return generator_of(j, l, "generator");
}

FILTER(f_batch)
{
    int64_t size = zt_j_as_int(j, a[0], "batch");
    jlist *l = zt_j_list(j, 0), *row = NULL;
    jvalue item;
    jiter *it = zt_j_iter(j, v);
    (void)call;
    while (zt_j_next(j, it, &item)) {
        if (!row || (int64_t)row->n == size) {
            row = zt_j_list(j, 0);
            zt_j_append(j, l, zt_j_of_list(row, J_LIST));
        }
        zt_j_append(j, row, item);
    }
    if (row && a[1].kind != J_ABSENT && a[1].kind != J_NONE)
        while ((int64_t)row->n < size)
            zt_j_append(j, row, a[1]);
    return generator_of(j, l, "generator");
}

FILTER(f_slice)
{
    int64_t slices = zt_j_as_int(j, a[0], "slice");
    jlist *all = zt_j_listed(j, v), *l = zt_j_list(j, 0);
    int64_t n = (int64_t)all->n, at = 0;
    (void)call;
    if (slices == 0)
        zt_j_fail(j, "division by zero");
    for (int64_t i = 0; i < slices; i++) {
        int64_t size = n / slices + (i < n % slices);
        jlist *part = zt_j_list(j, (size_t)size + 1);
        for (int64_t k = 0; k < size; k++)
            zt_j_append(j, part, all->item[at++]);
        if (a[1].kind != J_ABSENT && a[1].kind != J_NONE && i >= n % slices)
            zt_j_append(j, part, a[1]);
        zt_j_append(j, l, zt_j_of_list(part, J_LIST));
    }
    return generator_of(j, l, "generator");
}

/* Runs of equal keys among the items sorted by them: (grouper, list) each. */
FILTER(f_groupby)
{
    bool exact = truth_of(j, a[2]);
    jlist *all = zt_j_listed(j, v), *groups = zt_j_list(j, 0), *group = NULL;
    jvalue *key = zt_j_array(j, all->n, sizeof *key);
    const jvalue *otherwise = a[1].kind == J_ABSENT || a[1].kind == J_NONE ? NULL : &a[1];
    (void)call;
    for (size_t i = 0; i < all->n; i++) {
        key[i] = zt_j_path(j, all->item[i], a[0], otherwise);
        key[i] = exact ? key[i] : ignore_case(j, key[i]);
    }
    zt_j_sort(j, all->item, key, all->n, false);
    for (size_t i = 0; i < all->n; i++) {
        if (i == 0 || !zt_j_equal(j, key[i], key[i - 1])) {
            group = zt_j_list(j, 0);
            jvalue name = zt_j_path(j, all->item[i], a[0], otherwise);
            jvalue pair = zt_j_pair(j, exact ? key[i] : name, zt_j_of_list(group, J_LIST));
            pair.list->group = true;
            zt_j_append(j, groups, pair);
        }
        zt_j_append(j, group, all->item[i]);
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
