/* value.c - values: lists, dicts, iteration, attributes, items and slices. */
#include "lib/llm/jinja/internal.h"

#include <math.h>
#include <string.h>

const jvalue zt_j_none = {.kind = J_NONE}, zt_j_absent = {.kind = J_ABSENT};

jvalue zt_j_bool(bool boolean) { return (jvalue){.kind = J_BOOL, .boolean = boolean}; }

jvalue zt_j_int(int64_t integer) { return (jvalue){.kind = J_INT, .integer = integer}; }

jvalue zt_j_float(double number) { return (jvalue){.kind = J_FLOAT, .number = number}; }

static const char *const type_names[J_KINDS] = {
    [J_UNDEFINED] = "Undefined", [J_NONE] = "NoneType", [J_BOOL] = "bool",         [J_INT] = "int",
    [J_FLOAT] = "float",         [J_STRING] = "str",    [J_LIST] = "list",         [J_TUPLE] = "tuple",
    [J_DICT] = "dict",           [J_RANGE] = "range",   [J_VIEW] = "dict view",    [J_ITER] = "generator",
    [J_NAMESPACE] = "Namespace", [J_MACRO] = "Macro",   [J_FUNCTION] = "function", [J_METHOD] = "method",
    [J_LOOP] = "LoopContext",    [J_CYCLER] = "Cycler", [J_JOINER] = "Joiner"};

const char *zt_j_type(jvalue value) { return type_names[value.kind]; }

/* ---- undefined ------------------------------------------------------------------------------- */

static jvalue make_undefined(jmachine *machine, jundefined reason)
{
    jvalue value = {.kind = J_UNDEFINED};
    value.undefined = zt_j_alloc(machine, sizeof reason);
    *value.undefined = reason;
    return value;
}

jvalue zt_j_undefined(jmachine *machine, const char *hint, const char *name)
{
    return make_undefined(machine, (jundefined){.hint = hint, .name = name, .owner_kind = J_ABSENT});
}

void zt_j_fail_undefined(jmachine *machine, jvalue value)
{
    const jundefined *reason = value.undefined;
    if (reason->hint && reason->name) zt_j_fail(machine, reason->hint, reason->name);
    if (reason->hint) zt_j_fail(machine, "%s", reason->hint);
    if (reason->owner_kind == J_ABSENT) zt_j_fail(machine, "'%s' is undefined", reason->name);
    if (reason->name) zt_j_fail(machine, "'%s object' has no attribute '%s'", type_names[reason->owner_kind], reason->name);
    zt_j_fail(machine, "%s object has no element %s", type_names[reason->owner_kind],
              zt_j_zero(machine, zt_j_repr(machine, *reason->key)));
}

static jvalue no_attribute(jmachine *machine, jvalue of, const char *name, size_t size)
{
    char *copy = zt_j_alloc(machine, size + 1);
    memcpy(copy, name, size);
    return make_undefined(machine, (jundefined){.name = copy, .owner_kind = (jkind)of.kind});
}

static jvalue refuse_attribute(jmachine *machine, const char *name, size_t size)
{
    char *copy = zt_j_alloc(machine, size + 1);
    memcpy(copy, name, size);
    return zt_j_undefined(machine, "access to attribute '%s' is not allowed", copy);
}

/* ---- lists ----------------------------------------------------------------------------------- */

jlist *zt_j_list(jmachine *machine, size_t capacity)
{
    jlist *list = zt_j_alloc(machine, sizeof *list);
    list->capacity = capacity;
    list->items = capacity ? zt_j_array(machine, capacity, sizeof *list->items) : NULL;
    return list;
}

void zt_j_append(jmachine *machine, jlist *list, jvalue value)
{
    zt_j_step(machine, 1);
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 8;
        jvalue *more = zt_j_array(machine, capacity, sizeof *more);
        if (list->count) memcpy(more, list->items, list->count * sizeof *more);
        list->items = more;
        list->capacity = capacity;
    }
    list->items[list->count++] = value;
}

jvalue zt_j_of_list(jlist *list, jkind kind) { return (jvalue){.kind = (uint8_t)kind, .list = list}; }

jvalue zt_j_pair(jmachine *machine, jvalue first, jvalue second)
{
    jlist *tuple = zt_j_list(machine, 2);
    zt_j_append(machine, tuple, first);
    zt_j_append(machine, tuple, second);
    return zt_j_of_list(tuple, J_TUPLE);
}

/* ---- dicts ----------------------------------------------------------------------------------- */

enum { FEW = 8 }; /* pairs that are searched one by one */

bool zt_j_hashable(jmachine *machine, jvalue value)
{
    bool all = true;
    if (value.kind == J_TUPLE) {
        zt_j_enter(machine);
        for (size_t i = 0; all && i < value.list->count; i++) all = zt_j_hashable(machine, value.list->items[i]);
        zt_j_leave(machine);
    }
    return all && value.kind != J_LIST && value.kind != J_DICT && value.kind != J_VIEW;
}

static uint64_t mix_hash(uint64_t hash, uint64_t bits)
{
    hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Equal numbers are equal keys, whatever their type. */
static uint64_t hash_float(double number)
{
    uint64_t bits;
    if (number == floor(number) && number >= -9.2e18 && number <= 9.2e18) return mix_hash(1, (uint64_t)(int64_t)number);
    memcpy(&bits, &number, sizeof bits);
    return mix_hash(2, bits);
}

static uint64_t hash_value(jmachine *machine, jvalue value)
{
    uint64_t hash = mix_hash(value.kind, 7);
    switch ((jkind)value.kind) {
    case J_BOOL: return mix_hash(1, value.boolean);
    case J_INT: return mix_hash(1, (uint64_t)value.integer);
    case J_FLOAT: return hash_float(value.number);
    case J_STRING:
        zt_j_step(machine, value.text.size / 16);
        for (size_t i = 0; i < value.text.size; i++)
            hash = (hash ^ (unsigned char)zt_j_data(value.text)[i]) * UINT64_C(0x100000001b3);
        return mix_hash(hash, value.text.size);
    case J_TUPLE:
        zt_j_enter(machine);
        for (size_t i = 0; i < value.list->count; i++) hash = mix_hash(hash, hash_value(machine, value.list->items[i]));
        zt_j_leave(machine);
        return hash;
    default: return hash;
    }
}

jdict *zt_j_dict(jmachine *machine) { return zt_j_alloc(machine, sizeof(jdict)); }

/* Where the key is, or a free slot for it. */
static size_t find_slot(jmachine *machine, const jdict *dict, jvalue key, uint64_t hash)
{
    size_t slot = hash & dict->mask;
    for (; dict->slots[slot]; slot = (slot + 1) & dict->mask) {
        const jpair *pair = &dict->pairs[dict->slots[slot] - 1];
        zt_j_step(machine, 1);
        if (pair->hash == hash && zt_j_equal(machine, pair->key, key)) break;
    }
    return slot;
}

static jpair *find_pair(jmachine *machine, const jdict *dict, jvalue key, uint64_t hash)
{
    if (dict->slots) {
        size_t slot = find_slot(machine, dict, key, hash);
        return dict->slots[slot] ? &dict->pairs[dict->slots[slot] - 1] : NULL;
    }
    for (size_t i = 0; i < dict->count; i++)
        if (dict->pairs[i].hash == hash && zt_j_equal(machine, dict->pairs[i].key, key)) return &dict->pairs[i];
    return NULL;
}

static void grow_dict(jmachine *machine, jdict *dict)
{
    size_t capacity = dict->capacity ? dict->capacity * 2 : FEW;
    jpair *more = zt_j_array(machine, capacity, sizeof *more);
    if (dict->count) memcpy(more, dict->pairs, dict->count * sizeof *more);
    dict->pairs = more;
    dict->capacity = capacity;
    if (capacity <= FEW) return;
    dict->mask = capacity * 2 - 1;
    dict->slots = zt_j_array(machine, capacity * 2, sizeof *dict->slots);
    for (size_t i = 0; i < dict->count; i++)
        dict->slots[find_slot(machine, dict, dict->pairs[i].key, dict->pairs[i].hash)] = (uint32_t)i + 1;
}

void zt_j_dict_set(jmachine *machine, jdict *dict, jvalue key, jvalue value)
{
    if (!zt_j_hashable(machine, key)) zt_j_fail(machine, "unhashable type: '%s'", zt_j_type(key));
    uint64_t hash = hash_value(machine, key);
    jpair *pair = find_pair(machine, dict, key, hash);
    zt_j_step(machine, 1);
    if (pair) {
        pair->value = value;
        return;
    }
    if (dict->count == dict->capacity) grow_dict(machine, dict);
    if (dict->slots) dict->slots[find_slot(machine, dict, key, hash)] = (uint32_t)dict->count + 1;
    dict->pairs[dict->count++] = (jpair){key, value, hash};
}

jvalue *zt_j_dict_get(jmachine *machine, const jdict *dict, jvalue key)
{
    jpair *pair = zt_j_hashable(machine, key) ? find_pair(machine, dict, key, hash_value(machine, key)) : NULL;
    return pair ? &pair->value : NULL;
}

static jvalue *find_text(jmachine *machine, const jdict *dict, const char *key, size_t size)
{
    /* A buffer of the right size without its marks, which nobody reads. */
    return zt_j_dict_get(machine, dict, zt_j_string(zt_j_text(machine, key, size, false)));
}

jvalue *zt_j_dict_find(jmachine *machine, const jdict *dict, const char *key)
{
    return find_text(machine, dict, key, strlen(key));
}

/* ---- truth, numbers, length ------------------------------------------------------------------ */

bool zt_j_truth(jmachine *machine, jvalue value)
{
    int64_t length;
    switch ((jkind)value.kind) {
    case J_UNDEFINED:
    case J_NONE: return false;
    case J_BOOL: return value.boolean;
    case J_INT: return value.integer != 0;
    case J_FLOAT: return value.number != 0;
    default: return !zt_j_length(machine, value, &length) || length > 0;
    }
}

bool zt_j_is_number(jvalue value) { return value.kind == J_INT || value.kind == J_BOOL || value.kind == J_FLOAT; }

int64_t zt_j_as_int(jmachine *machine, jvalue value, const char *what)
{
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(machine, value);
    if (value.kind != J_INT && value.kind != J_BOOL)
        zt_j_fail(machine, "%s: '%s' cannot be interpreted as an integer", what, zt_j_type(value));
    return value.kind == J_BOOL ? value.boolean : value.integer;
}

double zt_j_as_float(jvalue value)
{
    return value.kind == J_FLOAT ? value.number : value.kind == J_BOOL ? value.boolean : (double)value.integer;
}

bool zt_j_length(jmachine *machine, jvalue value, int64_t *length)
{
    *length = 0;
    switch ((jkind)value.kind) {
    case J_UNDEFINED: return true;
    case J_STRING: /* empty or not is known at once */
        *length = value.text.size ? (int64_t)zt_j_chars(machine, value.text) : 0;
        return true;
    case J_LIST:
    case J_TUPLE: *length = (int64_t)value.list->count; return true;
    case J_DICT: *length = (int64_t)value.dict->count; return true;
    case J_VIEW: *length = (int64_t)value.view->dict->count; return true;
    case J_RANGE: *length = value.range->count; return true;
    case J_LOOP: *length = zt_j_loop_length(machine, value.loop); return true;
    default: return false;
    }
}

/* ---- iteration ------------------------------------------------------------------------------- */

static bool next_char(jmachine *machine, jiter *iterator, jvalue *out)
{
    jtext text = iterator->source.text;
    if (iterator->position >= text.size) return false;
    size_t length = zt_j_char_bytes(zt_j_data(text) + iterator->position, text.size - iterator->position);
    (void)machine;
    *out = zt_j_string(zt_j_part(text, iterator->position, length));
    iterator->position += length;
    return true;
}

static bool next_item(jmachine *machine, jiter *iterator, jvalue *out)
{
    (void)machine;
    if (iterator->position >= iterator->source.list->count) return false;
    *out = iterator->source.list->items[iterator->position++];
    return true;
}

static bool next_pair(jmachine *machine, jiter *iterator, jvalue *out)
{
    const jdict *dict = iterator->source.kind == J_VIEW ? iterator->source.view->dict : iterator->source.dict;
    int what = iterator->source.kind == J_VIEW ? iterator->source.view->part : 'k';
    if (iterator->position >= dict->count) return false;
    const jpair *pair = &dict->pairs[iterator->position++];
    *out = what == 'k' ? pair->key : what == 'v' ? pair->value : zt_j_pair(machine, pair->key, pair->value);
    return true;
}

static bool next_number(jmachine *machine, jiter *iterator, jvalue *out)
{
    (void)machine;
    if ((int64_t)iterator->position >= iterator->source.range->count) return false;
    *out = zt_j_range_item(iterator->source.range, (int64_t)iterator->position++);
    return true;
}

static bool next_none(jmachine *machine, jiter *iterator, jvalue *out)
{
    (void)machine;
    (void)iterator;
    (void)out;
    return false;
}

static bool (*const nexts[J_KINDS])(jmachine *machine, jiter *iterator, jvalue *out) = {
    [J_UNDEFINED] = next_none, [J_STRING] = next_char, [J_LIST] = next_item,   [J_TUPLE] = next_item,
    [J_DICT] = next_pair,      [J_VIEW] = next_pair,   [J_RANGE] = next_number};

bool zt_j_iterable(jvalue value) { return value.kind == J_ITER || nexts[value.kind]; }

jvalue zt_j_generator(jmachine *machine, const char *name, bool (*next)(jmachine *machine, jiter *iterator, jvalue *out),
                      jvalue source, void *state)
{
    jvalue value = {.kind = J_ITER};
    value.iter = zt_j_alloc(machine, sizeof *value.iter);
    *value.iter = (jiter){.next = next, .name = name, .source = source, .state = state};
    return value;
}

jiter *zt_j_iter(jmachine *machine, jvalue value)
{
    if (value.kind == J_ITER) return value.iter;
    if (!nexts[value.kind]) zt_j_fail(machine, "'%s' object is not iterable", zt_j_type(value));
    return zt_j_generator(machine, "iterator", nexts[value.kind], value, NULL).iter;
}

bool zt_j_next(jmachine *machine, jiter *iterator, jvalue *out)
{
    zt_j_enter(machine);
    bool more = iterator->next(machine, iterator, out);
    zt_j_leave(machine);
    return more;
}

jlist *zt_j_listed(jmachine *machine, jvalue value)
{
    jvalue item;
    jlist *list = zt_j_list(machine, 0);
    jiter *iterator = zt_j_iter(machine, value);
    while (zt_j_next(machine, iterator, &item)) zt_j_append(machine, list, item);
    return list;
}

jvalue zt_j_range_item(const jrange *range, int64_t index) { return zt_j_int(range->start + index * range->step); }

/* ---- attributes and items -------------------------------------------------------------------- */

static bool is_underscored(const char *name, size_t size) { return size > 0 && name[0] == '_'; }

/* Names that every object of Python's has: they are not shown. */
static bool is_dunder(const char *name, size_t size)
{
    return size > 4 && memcmp(name, "__", 2) == 0 && memcmp(name + size - 2, "__", 2) == 0;
}

static jvalue bind_method(jmachine *machine, jvalue of, const jbuiltin *fn)
{
    jvalue value = {.kind = J_METHOD};
    value.method = zt_j_alloc(machine, sizeof *value.method);
    *value.method = (jmethod){of, fn};
    return value;
}

/* What is an attribute in Python: a method, or what the kind has. J_ABSENT: there is none. */
static jvalue own_attribute(jmachine *machine, jvalue of, jtext name)
{
    bool changes = false;
    const char *text = zt_j_data(name);
    if (of.kind == J_LOOP) return zt_j_loop_attribute(machine, of, text, name.size);
    if (of.kind == J_NAMESPACE) {
        jvalue *found = zt_j_dict_get(machine, of.dict, zt_j_string(name));
        return found ? *found : zt_j_absent;
    }
    if (of.kind == J_CYCLER && zt_j_text_is(name, "current")) return of.cycler->items->items[of.cycler->position];
    if (of.kind == J_TUPLE && of.list->group && zt_j_text_is(name, "grouper")) return of.list->items[0];
    if (of.kind == J_TUPLE && of.list->group && zt_j_text_is(name, "list")) return of.list->items[1];
    if (of.kind == J_MACRO && zt_j_text_is(name, "name"))
        return of.macro->node->name ? zt_j_literal(machine, of.macro->node->name) : zt_j_none;
    const jbuiltin *fn = of.kind == J_FUNCTION ? zt_j_function_method(of.function, text, name.size)
                                               : zt_j_method((jkind)of.kind, text, name.size, &changes);
    if (changes) return refuse_attribute(machine, text, name.size);
    return fn ? bind_method(machine, of, fn) : zt_j_absent;
}

static jvalue find_attribute(jmachine *machine, jvalue of, jtext name)
{
    const char *text = zt_j_data(name);
    if (is_dunder(text, name.size)) return refuse_attribute(machine, text, name.size);
    return is_underscored(text, name.size) ? zt_j_absent : own_attribute(machine, of, name);
}

jvalue zt_j_attribute(jmachine *machine, jvalue of, jtext name)
{
    zt_j_step(machine, 1);
    if (of.kind == J_UNDEFINED) zt_j_fail_undefined(machine, of);
    jvalue value = find_attribute(machine, of, name);
    if (value.kind != J_ABSENT) return value;
    if (of.kind == J_DICT) {
        jvalue *item = zt_j_dict_get(machine, of.dict, zt_j_string(name));
        if (item) return *item;
    }
    return no_attribute(machine, of, zt_j_data(name), name.size);
}

/* of[index] of what is numbered; J_ABSENT: out of range. */
static jvalue item_by_number(jmachine *machine, jvalue of, int64_t index)
{
    int64_t length = 0;
    zt_j_length(machine, of, &length);
    index += index < 0 ? length : 0;
    if (index < 0 || index >= length) return zt_j_absent;
    if (of.kind == J_RANGE) return zt_j_range_item(of.range, index);
    if (of.kind != J_STRING) return of.list->items[index];
    size_t offset = zt_j_char_at(machine, of.text, (size_t)index);
    return zt_j_string(zt_j_part(of.text, offset, zt_j_char_bytes(zt_j_data(of.text) + offset, of.text.size - offset)));
}

jvalue zt_j_item(jmachine *machine, jvalue of, jvalue key)
{
    jvalue value = zt_j_absent;
    zt_j_step(machine, 1);
    if (of.kind == J_UNDEFINED) zt_j_fail_undefined(machine, of);
    if (of.kind == J_DICT) {
        jvalue *item = zt_j_dict_get(machine, of.dict, key);
        if (item) return *item;
    } else if ((of.kind == J_STRING || of.kind == J_LIST || of.kind == J_TUPLE || of.kind == J_RANGE) &&
               (key.kind == J_INT || key.kind == J_BOOL)) {
        value = item_by_number(machine, of, key.kind == J_INT ? key.integer : key.boolean);
    }
    if (value.kind == J_ABSENT && key.kind == J_STRING) {
        value = find_attribute(machine, of, key.text);
        if (value.kind == J_ABSENT) return no_attribute(machine, of, zt_j_data(key.text), key.text.size);
    }
    if (value.kind != J_ABSENT) return value;
    jvalue *copy = zt_j_alloc(machine, sizeof *copy);
    *copy = key;
    return make_undefined(machine, (jundefined){.key = copy, .owner_kind = (jkind)of.kind});
}

/* ---- slices ---------------------------------------------------------------------------------- */

static int64_t slice_bound(jmachine *machine, jvalue value, int64_t length, int64_t smallest, int64_t largest, int64_t otherwise)
{
    if (value.kind == J_NONE || value.kind == J_ABSENT) return otherwise;
    int64_t position = zt_j_as_int(machine, value, "slice");
    if (position < 0) position = position < -length ? smallest : position + length;
    return position < smallest ? smallest : position > largest ? largest : position;
}

int64_t zt_j_slice_of(jmachine *machine, int64_t length, jvalue start, jvalue stop, jvalue wanted_step, int64_t *from,
                      int64_t *to, int64_t *step)
{
    *step = wanted_step.kind == J_NONE || wanted_step.kind == J_ABSENT ? 1 : zt_j_as_int(machine, wanted_step, "slice");
    if (*step == 0) zt_j_fail(machine, "slice step cannot be zero");
    if (*step < -INT64_MAX) *step = -INT64_MAX;
    bool back = *step < 0;
    int64_t smallest = back ? -1 : 0, largest = back ? length - 1 : length;
    *from = slice_bound(machine, start, length, smallest, largest, back ? largest : 0);
    *to = slice_bound(machine, stop, length, smallest, largest, back ? -1 : length);
    int64_t span = back ? *from - *to : *to - *from, size = back ? -*step : *step;
    return span > 0 ? (span - 1) / size + 1 : 0;
}

static jvalue slice_text(jmachine *machine, jtext text, int64_t from, int64_t step, int64_t count)
{
    jout out = {NULL};
    if (step == 1) {
        size_t offset = zt_j_char_at(machine, text, (size_t)from);
        jtext rest = zt_j_part(text, offset, text.size - offset);
        return zt_j_string(zt_j_part(rest, 0, zt_j_char_at(machine, rest, (size_t)count)));
    }
    jlist *chars = zt_j_listed(machine, zt_j_string(text));
    for (int64_t index = 0; index < count; index++) zt_j_put_text(machine, &out, chars->items[from + index * step].text);
    return zt_j_string(zt_j_done(machine, &out));
}

jvalue zt_j_slice(jmachine *machine, jvalue of, jvalue start, jvalue stop, jvalue step)
{
    int64_t length = 0, from, to, stride;
    if (of.kind == J_UNDEFINED) zt_j_fail_undefined(machine, of);
    if (of.kind != J_STRING && of.kind != J_LIST && of.kind != J_TUPLE && of.kind != J_RANGE)
        zt_j_fail(machine, "'%s' object cannot be sliced", zt_j_type(of));
    zt_j_length(machine, of, &length);
    int64_t count = zt_j_slice_of(machine, length, start, stop, step, &from, &to, &stride);
    if (of.kind == J_STRING) {
        jvalue value = slice_text(machine, of.text, from, stride, count);
        value.safe = of.safe;
        return value;
    }
    if (of.kind == J_RANGE) {
        jvalue value = {.kind = J_RANGE};
        value.range = zt_j_alloc(machine, sizeof *value.range);
        const jrange *range = of.range;
        *value.range = (jrange){range->start + from * range->step, range->start + to * range->step, range->step * stride, count};
        return value;
    }
    jlist *list = zt_j_list(machine, (size_t)count);
    for (int64_t index = 0; index < count; index++) zt_j_append(machine, list, of.list->items[from + index * stride]);
    return zt_j_of_list(list, (jkind)of.kind);
}

/* ---- paths of filters ------------------------------------------------------------------------ */

static bool all_digits(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] < '0' || data[i] > '9') return false;
    return size > 0 && size < 18;
}

jvalue zt_j_path(jmachine *machine, jvalue item, jvalue path, const jvalue *otherwise)
{
    if (path.kind == J_NONE || path.kind == J_ABSENT) return item;
    if (path.kind != J_STRING) {
        item = zt_j_item(machine, item, path);
        return item.kind == J_UNDEFINED && otherwise ? *otherwise : item;
    }
    jtext point = zt_j_text(machine, ".", 1, false);
    for (size_t from = 0; from <= path.text.size;) {
        size_t dot = zt_j_find_text(machine, path.text, from, point);
        jtext part = zt_j_part(path.text, from, (dot == SIZE_MAX ? path.text.size : dot) - from);
        if (all_digits(zt_j_data(part), part.size)) {
            int64_t number = 0;
            for (size_t digit = 0; digit < part.size; digit++) number = number * 10 + (zt_j_data(part)[digit] - '0');
            item = zt_j_item(machine, item, zt_j_int(number));
        } else {
            item = zt_j_item(machine, item, zt_j_string(part));
        }
        if (item.kind == J_UNDEFINED && otherwise) item = *otherwise;
        from += part.size + 1;
    }
    return item;
}
