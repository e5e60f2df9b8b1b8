/* value.c - values: lists, dicts, iteration, attributes, items and slices. */
#include "lib/llm/jinja/internal.h"

#include <math.h>
#include <string.h>

const jvalue zt_j_none = {.kind = J_NONE}, zt_j_absent = {.kind = J_ABSENT};

jvalue zt_j_bool(bool b)
{
    return (jvalue){.kind = J_BOOL, .b = b};
}

jvalue zt_j_int(int64_t i)
{
    return (jvalue){.kind = J_INT, .i = i};
}

jvalue zt_j_float(double f)
{
    return (jvalue){.kind = J_FLOAT, .f = f};
}

static const char *const type_names[J_KINDS] = {
    [J_UNDEFINED] = "Undefined", [J_NONE] = "NoneType", [J_BOOL] = "bool", [J_INT] = "int",
    [J_FLOAT] = "float", [J_STRING] = "str", [J_LIST] = "list", [J_TUPLE] = "tuple",
    [J_DICT] = "dict", [J_RANGE] = "range", [J_VIEW] = "dict view", [J_ITER] = "generator",
    [J_NAMESPACE] = "Namespace", [J_MACRO] = "Macro", [J_FUNCTION] = "function",
    [J_METHOD] = "method", [J_LOOP] = "LoopContext", [J_CYCLER] = "Cycler", [J_JOINER] = "Joiner"};

const char *zt_j_type(jvalue v)
{
    return type_names[v.kind];
}

/* ---- undefined ------------------------------------------------------------------------------- */

static jvalue undefined_of(jmachine *j, jundefined u)
{
    jvalue v = {.kind = J_UNDEFINED};
    v.undefined = zt_j_alloc(j, sizeof u);
    *v.undefined = u;
    return v;
}

jvalue zt_j_undefined(jmachine *j, const char *hint, const char *name)
{
    return undefined_of(j, (jundefined){.hint = hint, .name = name, .of = J_ABSENT});
}

void zt_j_fail_undefined(jmachine *j, jvalue v)
{
    const jundefined *u = v.undefined;
    if (u->hint && u->name)
        zt_j_fail(j, u->hint, u->name);
    if (u->hint)
        zt_j_fail(j, "%s", u->hint);
    if (u->of == J_ABSENT)
        zt_j_fail(j, "'%s' is undefined", u->name);
    if (u->name)
        zt_j_fail(j, "'%s object' has no attribute '%s'", type_names[u->of], u->name);
    zt_j_fail(j, "%s object has no element %s", type_names[u->of],
              zt_j_zero(j, zt_j_repr(j, *u->key)));
}

static jvalue no_attribute(jmachine *j, jvalue of, const char *name, size_t n)
{
    char *copy = zt_j_alloc(j, n + 1);
    memcpy(copy, name, n);
    return undefined_of(j, (jundefined){.name = copy, .of = (jkind)of.kind});
}

static jvalue unsafe(jmachine *j, const char *name, size_t n)
{
    char *copy = zt_j_alloc(j, n + 1);
    memcpy(copy, name, n);
    return zt_j_undefined(j, "access to attribute '%s' is not allowed", copy);
}

/* ---- lists ----------------------------------------------------------------------------------- */

jlist *zt_j_list(jmachine *j, size_t cap)
{
    jlist *l = zt_j_alloc(j, sizeof *l);
    l->cap = cap;
    l->item = cap ? zt_j_array(j, cap, sizeof *l->item) : NULL;
    return l;
}

void zt_j_append(jmachine *j, jlist *l, jvalue v)
{
    zt_j_step(j, 1);
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        jvalue *more = zt_j_array(j, cap, sizeof *more);
        if (l->n)
            memcpy(more, l->item, l->n * sizeof *more);
        l->item = more;
        l->cap = cap;
    }
    l->item[l->n++] = v;
}

jvalue zt_j_of_list(jlist *l, jkind kind)
{
    return (jvalue){.kind = (uint8_t)kind, .list = l};
}

jvalue zt_j_pair(jmachine *j, jvalue a, jvalue b)
{
    jlist *l = zt_j_list(j, 2);
    zt_j_append(j, l, a);
    zt_j_append(j, l, b);
    return zt_j_of_list(l, J_TUPLE);
}

/* ---- dicts ----------------------------------------------------------------------------------- */

enum { FEW = 8 }; /* pairs that are searched one by one */

bool zt_j_hashable(jmachine *j, jvalue v)
{
    bool all = true;
    if (v.kind == J_TUPLE) {
        zt_j_enter(j);
        for (size_t i = 0; all && i < v.list->n; i++)
            all = zt_j_hashable(j, v.list->item[i]);
        zt_j_leave(j);
    }
    return all && v.kind != J_LIST && v.kind != J_DICT && v.kind != J_VIEW;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Equal numbers are equal keys, whatever their type. */
static uint64_t hash_float(double f)
{
    uint64_t bits;
    if (f == floor(f) && f >= -9.2e18 && f <= 9.2e18)
        return mix(1, (uint64_t)(int64_t)f);
    memcpy(&bits, &f, sizeof bits);
    return mix(2, bits);
}

static uint64_t hash(jmachine *j, jvalue v)
{
    uint64_t h = mix(v.kind, 7);
    switch ((jkind)v.kind) {
    case J_BOOL:
        return mix(1, v.b);
    case J_INT:
        return mix(1, (uint64_t)v.i);
    case J_FLOAT:
        return hash_float(v.f);
    case J_STRING:
        zt_j_step(j, v.s.n / 16);
        for (size_t i = 0; i < v.s.n; i++)
            h = (h ^ (unsigned char)zt_j_data(v.s)[i]) * UINT64_C(0x100000001b3);
        return mix(h, v.s.n);
    case J_TUPLE:
        zt_j_enter(j);
        for (size_t i = 0; i < v.list->n; i++)
            h = mix(h, hash(j, v.list->item[i]));
        zt_j_leave(j);
        return h;
    default:
        return h;
    }
}

jdict *zt_j_dict(jmachine *j)
{
    return zt_j_alloc(j, sizeof(jdict));
}

/* Where the key is, or a free slot for it. */
static size_t slot_of(jmachine *j, const jdict *d, jvalue key, uint64_t h)
{
    size_t at = h & d->mask;
    for (; d->slot[at]; at = (at + 1) & d->mask) {
        const jpair *p = &d->pair[d->slot[at] - 1];
        zt_j_step(j, 1);
        if (p->hash == h && zt_j_equal(j, p->key, key))
            break;
    }
    return at;
}

static jpair *find_pair(jmachine *j, const jdict *d, jvalue key, uint64_t h)
{
    if (d->slot) {
        size_t at = slot_of(j, d, key, h);
        return d->slot[at] ? &d->pair[d->slot[at] - 1] : NULL;
    }
    for (size_t i = 0; i < d->n; i++)
        if (d->pair[i].hash == h && zt_j_equal(j, d->pair[i].key, key))
            return &d->pair[i];
    return NULL;
}

static void grow(jmachine *j, jdict *d)
{
    size_t cap = d->cap ? d->cap * 2 : FEW;
    jpair *more = zt_j_array(j, cap, sizeof *more);
    if (d->n)
        memcpy(more, d->pair, d->n * sizeof *more);
    d->pair = more;
    d->cap = cap;
    if (cap <= FEW)
        return;
    d->mask = cap * 2 - 1;
    d->slot = zt_j_array(j, cap * 2, sizeof *d->slot);
    for (size_t i = 0; i < d->n; i++)
        d->slot[slot_of(j, d, d->pair[i].key, d->pair[i].hash)] = (uint32_t)i + 1;
}

void zt_j_dict_set(jmachine *j, jdict *d, jvalue key, jvalue value)
{
    if (!zt_j_hashable(j, key))
        zt_j_fail(j, "unhashable type: '%s'", zt_j_type(key));
    uint64_t h = hash(j, key);
    jpair *p = find_pair(j, d, key, h);
    zt_j_step(j, 1);
    if (p) {
        p->value = value;
        return;
    }
    if (d->n == d->cap)
        grow(j, d);
    if (d->slot)
        d->slot[slot_of(j, d, key, h)] = (uint32_t)d->n + 1;
    d->pair[d->n++] = (jpair){key, value, h};
}

jvalue *zt_j_dict_get(jmachine *j, const jdict *d, jvalue key)
{
    jpair *p = zt_j_hashable(j, key) ? find_pair(j, d, key, hash(j, key)) : NULL;
    return p ? &p->value : NULL;
}

static jvalue *find_text(jmachine *j, const jdict *d, const char *key, size_t n)
{
    /* A buffer of the right size without its marks, which nobody reads. */
    return zt_j_dict_get(j, d, zt_j_string(zt_j_text(j, key, n, false)));
}

jvalue *zt_j_dict_find(jmachine *j, const jdict *d, const char *key)
{
    return find_text(j, d, key, strlen(key));
}

/* ---- truth, numbers, length ------------------------------------------------------------------ */

bool zt_j_truth(jmachine *j, jvalue v)
{
    int64_t n;
    switch ((jkind)v.kind) {
    case J_UNDEFINED:
    case J_NONE:
        return false;
    case J_BOOL:
        return v.b;
    case J_INT:
        return v.i != 0;
    case J_FLOAT:
        return v.f != 0;
    default:
        return !zt_j_length(j, v, &n) || n > 0;
    }
}

bool zt_j_is_number(jvalue v)
{
    return v.kind == J_INT || v.kind == J_BOOL || v.kind == J_FLOAT;
}

int64_t zt_j_as_int(jmachine *j, jvalue v, const char *what)
{
    if (v.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, v);
    if (v.kind != J_INT && v.kind != J_BOOL)
        zt_j_fail(j, "%s: '%s' cannot be interpreted as an integer", what, zt_j_type(v));
    return v.kind == J_BOOL ? v.b : v.i;
}

double zt_j_as_float(jvalue v)
{
    return v.kind == J_FLOAT ? v.f : v.kind == J_BOOL ? v.b : (double)v.i;
}

bool zt_j_length(jmachine *j, jvalue v, int64_t *n)
{
    *n = 0;
    switch ((jkind)v.kind) {
    case J_UNDEFINED:
        return true;
    case J_STRING: /* empty or not is known at once */
        *n = v.s.n ? (int64_t)zt_j_chars(j, v.s) : 0;
        return true;
    case J_LIST:
    case J_TUPLE:
        *n = (int64_t)v.list->n;
        return true;
    case J_DICT:
        *n = (int64_t)v.dict->n;
        return true;
    case J_VIEW:
        *n = (int64_t)v.view->dict->n;
        return true;
    case J_RANGE:
        *n = v.range->n;
        return true;
    case J_LOOP:
        *n = zt_j_loop_length(j, v.loop);
        return true;
    default:
        return false;
    }
}

/* ---- iteration ------------------------------------------------------------------------------- */

static bool next_char(jmachine *j, jiter *it, jvalue *out)
{
    jtext s = it->source.s;
    if (it->i >= s.n)
        return false;
    size_t k = zt_j_char_bytes(zt_j_data(s) + it->i, s.n - it->i);
    (void)j;
    *out = zt_j_string(zt_j_part(s, it->i, k));
    it->i += k;
    return true;
}

static bool next_item(jmachine *j, jiter *it, jvalue *out)
{
    (void)j;
    if (it->i >= it->source.list->n)
        return false;
    *out = it->source.list->item[it->i++];
    return true;
}

static bool next_pair(jmachine *j, jiter *it, jvalue *out)
{
    const jdict *d = it->source.kind == J_VIEW ? it->source.view->dict : it->source.dict;
    int what = it->source.kind == J_VIEW ? it->source.view->what : 'k';
    if (it->i >= d->n)
        return false;
    const jpair *p = &d->pair[it->i++];
    *out = what == 'k' ? p->key : what == 'v' ? p->value : zt_j_pair(j, p->key, p->value);
    return true;
}

static bool next_number(jmachine *j, jiter *it, jvalue *out)
{
    (void)j;
    if ((int64_t)it->i >= it->source.range->n)
        return false;
    *out = zt_j_range_item(it->source.range, (int64_t)it->i++);
    return true;
}

static bool next_none(jmachine *j, jiter *it, jvalue *out)
{
    (void)j;
    (void)it;
    (void)out;
    return false;
}

static bool (*const nexts[J_KINDS])(jmachine *j, jiter *it, jvalue *out) = {
    [J_UNDEFINED] = next_none, [J_STRING] = next_char, [J_LIST] = next_item, [J_TUPLE] = next_item,
    [J_DICT] = next_pair, [J_VIEW] = next_pair, [J_RANGE] = next_number};

bool zt_j_iterable(jvalue v)
{
    return v.kind == J_ITER || nexts[v.kind];
}

jvalue zt_j_generator(jmachine *j, const char *name,
                      bool (*next)(jmachine *j, jiter *it, jvalue *out), jvalue source, void *state)
{
    jvalue v = {.kind = J_ITER};
    v.iter = zt_j_alloc(j, sizeof *v.iter);
    *v.iter = (jiter){.next = next, .name = name, .source = source, .state = state};
    return v;
}

jiter *zt_j_iter(jmachine *j, jvalue v)
{
    if (v.kind == J_ITER)
        return v.iter;
    if (!nexts[v.kind])
        zt_j_fail(j, "'%s' object is not iterable", zt_j_type(v));
    return zt_j_generator(j, "iterator", nexts[v.kind], v, NULL).iter;
}

bool zt_j_next(jmachine *j, jiter *it, jvalue *out)
{
    zt_j_enter(j);
    bool more = it->next(j, it, out);
    zt_j_leave(j);
    return more;
}

jlist *zt_j_listed(jmachine *j, jvalue v)
{
    jvalue item;
    jlist *l = zt_j_list(j, 0);
    jiter *it = zt_j_iter(j, v);
    while (zt_j_next(j, it, &item))
        zt_j_append(j, l, item);
    return l;
}

jvalue zt_j_range_item(const jrange *r, int64_t i)
{
    return zt_j_int(r->start + i * r->step);
}

/* ---- attributes and items -------------------------------------------------------------------- */

static bool underscored(const char *name, size_t n)
{
    return n > 0 && name[0] == '_';
}

/* Names that every object of Python's has: they are not shown. */
static bool is_dunder(const char *name, size_t n)
{
    return n > 4 && memcmp(name, "__", 2) == 0 && memcmp(name + n - 2, "__", 2) == 0;
}

static jvalue bound(jmachine *j, jvalue of, const jbuiltin *fn)
{
    jvalue v = {.kind = J_METHOD};
    v.method = zt_j_alloc(j, sizeof *v.method);
    *v.method = (jmethod){of, fn};
    return v;
}

/* What is an attribute in Python: a method, or what the kind has. J_ABSENT: there is none. */
static jvalue own_attribute(jmachine *j, jvalue of, jtext name)
{
    bool changes = false;
    const char *text = zt_j_data(name);
    if (of.kind == J_LOOP)
        return zt_j_loop_attribute(j, of, text, name.n);
    if (of.kind == J_NAMESPACE) {
        jvalue *v = zt_j_dict_get(j, of.dict, zt_j_string(name));
        return v ? *v : zt_j_absent;
    }
    if (of.kind == J_CYCLER && zt_j_text_is(name, "current"))
        return of.cycler->items->item[of.cycler->pos];
    if (of.kind == J_TUPLE && of.list->group && zt_j_text_is(name, "grouper"))
        return of.list->item[0];
    if (of.kind == J_TUPLE && of.list->group && zt_j_text_is(name, "list"))
        return of.list->item[1];
    if (of.kind == J_MACRO && zt_j_text_is(name, "name"))
        return of.macro->node->name ? zt_j_literal(j, of.macro->node->name) : zt_j_none;
    const jbuiltin *fn = of.kind == J_FUNCTION
                             ? zt_j_function_method(of.function, text, name.n)
                             : zt_j_method((jkind)of.kind, text, name.n, &changes);
    if (changes)
        return unsafe(j, text, name.n);
    return fn ? bound(j, of, fn) : zt_j_absent;
}

static jvalue found(jmachine *j, jvalue of, jtext name)
{
    const char *text = zt_j_data(name);
    if (is_dunder(text, name.n))
        return unsafe(j, text, name.n);
    return underscored(text, name.n) ? zt_j_absent : own_attribute(j, of, name);
}

jvalue zt_j_attribute(jmachine *j, jvalue of, jtext name)
{
    zt_j_step(j, 1);
    if (of.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, of);
    jvalue v = found(j, of, name);
    if (v.kind != J_ABSENT)
        return v;
    if (of.kind == J_DICT) {
        jvalue *item = zt_j_dict_get(j, of.dict, zt_j_string(name));
        if (item)
            return *item;
    }
    return no_attribute(j, of, zt_j_data(name), name.n);
}

/* of[i] of what is numbered; J_ABSENT: out of range. */
static jvalue numbered(jmachine *j, jvalue of, int64_t i)
{
    int64_t n = 0;
    zt_j_length(j, of, &n);
    i += i < 0 ? n : 0;
    if (i < 0 || i >= n)
        return zt_j_absent;
    if (of.kind == J_RANGE)
        return zt_j_range_item(of.range, i);
    if (of.kind != J_STRING)
        return of.list->item[i];
    size_t at = zt_j_char_at(j, of.s, (size_t)i);
    return zt_j_string(zt_j_part(of.s, at, zt_j_char_bytes(zt_j_data(of.s) + at, of.s.n - at)));
}

jvalue zt_j_item(jmachine *j, jvalue of, jvalue key)
{
    jvalue v = zt_j_absent;
    zt_j_step(j, 1);
    if (of.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, of);
    if (of.kind == J_DICT) {
        jvalue *item = zt_j_dict_get(j, of.dict, key);
        if (item)
            return *item;
    } else if ((of.kind == J_STRING || of.kind == J_LIST || of.kind == J_TUPLE ||
                of.kind == J_RANGE) &&
               (key.kind == J_INT || key.kind == J_BOOL)) {
        v = numbered(j, of, key.kind == J_INT ? key.i : key.b);
    }
    if (v.kind == J_ABSENT && key.kind == J_STRING) {
        v = found(j, of, key.s);
        if (v.kind == J_ABSENT)
            return no_attribute(j, of, zt_j_data(key.s), key.s.n);
    }
    if (v.kind != J_ABSENT)
        return v;
    jvalue *copy = zt_j_alloc(j, sizeof *copy);
    *copy = key;
    return undefined_of(j, (jundefined){.key = copy, .of = (jkind)of.kind});
}

/* ---- slices ---------------------------------------------------------------------------------- */

static int64_t bound_of(jmachine *j, jvalue v, int64_t n, int64_t least, int64_t most,
                        int64_t otherwise)
{
    if (v.kind == J_NONE || v.kind == J_ABSENT)
        return otherwise;
    int64_t i = zt_j_as_int(j, v, "slice");
    if (i < 0)
        i = i < -n ? least : i + n;
    return i < least ? least : i > most ? most : i;
}

int64_t zt_j_slice_of(jmachine *j, int64_t n, jvalue start, jvalue stop, jvalue step, int64_t *from,
                      int64_t *by)
{
    *by = step.kind == J_NONE || step.kind == J_ABSENT ? 1 : zt_j_as_int(j, step, "slice");
    if (*by == 0)
        zt_j_fail(j, "slice step cannot be zero");
    if (*by < -INT64_MAX)
        *by = -INT64_MAX;
    bool back = *by < 0;
    int64_t least = back ? -1 : 0, most = back ? n - 1 : n;
    *from = bound_of(j, start, n, least, most, back ? most : 0);
    int64_t to = bound_of(j, stop, n, least, most, back ? -1 : n);
    int64_t span = back ? *from - to : to - *from, size = back ? -*by : *by;
    return span > 0 ? (span - 1) / size + 1 : 0;
}

static jvalue slice_text(jmachine *j, jtext t, int64_t from, int64_t by, int64_t count)
{
    jout o = {NULL};
    if (by == 1) {
        size_t at = zt_j_char_at(j, t, (size_t)from);
        jtext rest = zt_j_part(t, at, t.n - at);
        return zt_j_string(zt_j_part(rest, 0, zt_j_char_at(j, rest, (size_t)count)));
    }
    jlist *chars = zt_j_listed(j, zt_j_string(t));
    for (int64_t i = 0; i < count; i++)
        zt_j_put_text(j, &o, chars->item[from + i * by].s);
    return zt_j_string(zt_j_done(j, &o));
}

jvalue zt_j_slice(jmachine *j, jvalue of, jvalue start, jvalue stop, jvalue step)
{
    int64_t n = 0, from, by;
    if (of.kind == J_UNDEFINED)
        zt_j_fail_undefined(j, of);
    if (of.kind != J_STRING && of.kind != J_LIST && of.kind != J_TUPLE && of.kind != J_RANGE)
        zt_j_fail(j, "'%s' object cannot be sliced", zt_j_type(of));
    zt_j_length(j, of, &n);
    int64_t count = zt_j_slice_of(j, n, start, stop, step, &from, &by);
    if (of.kind == J_STRING) {
        jvalue v = slice_text(j, of.s, from, by, count);
        v.safe = of.safe;
        return v;
    }
    if (of.kind == J_RANGE) {
        jvalue v = {.kind = J_RANGE};
        v.range = zt_j_alloc(j, sizeof *v.range);
        int64_t first = of.range->start + from * of.range->step, size = of.range->step * by;
        *v.range = (jrange){first, first + count * size, size, count};
        return v;
    }
    jlist *l = zt_j_list(j, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        zt_j_append(j, l, of.list->item[from + i * by]);
    return zt_j_of_list(l, (jkind)of.kind);
}

/* ---- paths of filters ------------------------------------------------------------------------ */

static bool all_digits(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return n > 0 && n < 18;
}

jvalue zt_j_path(jmachine *j, jvalue item, jvalue path, const jvalue *otherwise)
{
    if (path.kind == J_NONE || path.kind == J_ABSENT)
        return item;
    if (path.kind != J_STRING) {
        item = zt_j_item(j, item, path);
        return item.kind == J_UNDEFINED && otherwise ? *otherwise : item;
    }
    jtext point = zt_j_text(j, ".", 1, false);
    for (size_t from = 0; from <= path.s.n;) {
        size_t dot = zt_j_find_text(j, path.s, from, point);
        jtext part = zt_j_part(path.s, from, (dot == SIZE_MAX ? path.s.n : dot) - from);
        if (all_digits(zt_j_data(part), part.n)) {
            int64_t i = 0;
            for (size_t k = 0; k < part.n; k++)
                i = i * 10 + (zt_j_data(part)[k] - '0');
            item = zt_j_item(j, item, zt_j_int(i));
        } else {
            item = zt_j_item(j, item, zt_j_string(part));
        }
        if (item.kind == J_UNDEFINED && otherwise)
            item = *otherwise;
        from += part.n + 1;
    }
    return item;
}
