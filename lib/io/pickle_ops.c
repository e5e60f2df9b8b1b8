/* pickle_ops.c - owns what each opcode of a pickle does: one function each, and their table. */
#include "lib/io/pickle_machine.h"

#include <string.h>

/* ---- opcodes: plain values ------------------------------------------------------------------- */

static zt_status op_refuse(pickle_reader *pickle, int arg)
{
    (void)arg;
    return zt_pk_fail(pickle, "unknown or unsupported opcode");
}

static zt_status op_proto(pickle_reader *pickle, int arg)
{
    uint64_t value;
    zt_status status = zt_pk_read_le(pickle, arg, &value);
    return status == ZT_OK && value > 5 ? zt_pk_fail(pickle, "unsupported pickle protocol: at most 5 is supported") : status;
}

static zt_status op_frame(pickle_reader *pickle, int arg)
{
    uint64_t value;
    zt_status status = zt_pk_read_le(pickle, arg, &value);
    return status == ZT_OK && value > pickle->end - zt_pk_here(pickle) ? zt_pk_fail(pickle, "frame longer than the file")
                                                                       : status;
}

static zt_status op_none(pickle_reader *pickle, int arg)
{
    (void)arg;
    return zt_pk_push(pickle, (pk_value){.kind = PK_NONE});
}

static zt_status op_bool(pickle_reader *pickle, int arg) { return zt_pk_push(pickle, (pk_value){.kind = PK_BOOL, .i = arg}); }

static zt_status op_float(pickle_reader *pickle, int arg)
{
    uint64_t value;
    zt_status status = zt_pk_read_le(pickle, arg, &value);
    return status == ZT_OK ? op_none(pickle, 0) : status;
}

/* An unsigned number of 1 or 2 bytes, or a signed one of 4. */
static zt_status op_int(pickle_reader *pickle, int arg)
{
    uint64_t value;
    zt_status status = zt_pk_read_le(pickle, arg, &value);
    int64_t number = arg == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
    return status == ZT_OK ? zt_pk_push(pickle, (pk_value){.kind = PK_INT, .i = number}) : status;
}

/* Bytes that are kept; `arg` bytes before them say how many. */
static zt_status read_counted(pickle_reader *pickle, int arg, pk_value *value)
{
    uint64_t length;
    zt_status status = zt_pk_read_le(pickle, arg, &length);
    return status == ZT_OK ? zt_pk_read_text(pickle, length, value) : status;
}

/* An integer of any length, in two's complement; `arg` bytes say how many it has. */
static zt_status op_long(pickle_reader *pickle, int arg)
{
    pk_value value;
    zt_status status = read_counted(pickle, arg, &value);
    if (status != ZT_OK) return status;
    value.kind = PK_LONG;
    if (value.count > 8) return zt_pk_push(pickle, value);
    uint64_t bits = value.count && value.text[value.count - 1] < 0 ? UINT64_MAX : 0;
    for (size_t i = value.count; i-- > 0;) bits = bits << 8 | (uint8_t)value.text[i];
    return zt_pk_push(pickle, (pk_value){.kind = PK_INT, .i = (int64_t)bits});
}

/* Decimal digits beyond 64 bits: the bytes of what they say, little endian. */
static zt_status push_long(pickle_reader *pickle, const char *digits)
{
    size_t capacity = strlen(digits) / 2 + 1, length = 0;
    char *bytes = zt_pk_alloc(pickle, capacity, 1);
    if (!bytes) return zt_pk_why(pickle);
    memset(bytes, 0, capacity);
    for (; *digits; digits++) {
        unsigned carry = (unsigned)(*digits - '0');
        if (carry > 9) return zt_pk_fail(pickle, "invalid number");
        for (size_t k = 0; k < length || carry; k++) {
            carry += 10u * (uint8_t)bytes[k];
            bytes[k] = (char)carry;
            carry >>= 8;
            length = k < length ? length : k + 1;
        }
    }
    return zt_pk_push(pickle, (pk_value){.kind = PK_LONG, .count = (uint32_t)length, .text = bytes});
}

/* A number as text: I (01 and 00 are truth values), L (closed by an L), F. */
static zt_status op_number_line(pickle_reader *pickle, int arg)
{
    char line[PK_LINE];
    size_t length;
    int64_t number;
    double real;
    zt_status status = zt_pk_read_line(pickle, line, &length);
    if (status != ZT_OK) return status;
    if (strlen(line) != length) return zt_pk_fail(pickle, "number contains a zero byte");
    if (arg == 'F') return zt_parse_double(line, &real) ? op_none(pickle, 0) : zt_pk_fail(pickle, "invalid number");
    if (arg == 'I' && (strcmp(line, "00") == 0 || strcmp(line, "01") == 0)) return op_bool(pickle, line[1] - '0');
    if (arg == 'L' && length && line[length - 1] == 'L') line[length - 1] = 0;
    if (!zt_parse_i64(line, &number))
        return *line >= '0' && *line <= '9' ? push_long(pickle, line) : zt_pk_fail(pickle, "invalid number");
    return zt_pk_push(pickle, (pk_value){.kind = PK_INT, .i = number});
}

/* ---- opcodes: texts -------------------------------------------------------------------------- */

/* UTF-8 but for surrogates, which Python writes of bytes that were no text (of file names). */
static bool is_surrogate_text(const char *text, size_t length)
{
    size_t start = 0;
    for (size_t i = 0; i + 3 <= length; i++)
        if ((uint8_t)text[i] == 0xed && (uint8_t)text[i + 1] >= 0xa0 && (text[i + 2] & 0xc0) == 0x80) {
            if (!zt_utf8_valid(text + start, i - start)) return false;
            start = i + 3;
            i += 2;
        }
    return zt_utf8_valid(text + start, length - start);
}

/* A text in UTF-8, whose length is `arg` bytes. One with surrogates is no name. */
static zt_status op_unicode(pickle_reader *pickle, int arg)
{
    pk_value value;
    zt_status status = read_counted(pickle, arg, &value);
    if (status == ZT_OK && !zt_utf8_valid(value.text, value.count)) {
        if (!is_surrogate_text(value.text, value.count)) return zt_pk_fail(pickle, "string is not valid UTF-8");
        value = (pk_value){.kind = PK_NONE};
    }
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* Bytes; Python 2's texts are such, and are names where they are UTF-8. */
static zt_status op_bytes(pickle_reader *pickle, int arg)
{
    pk_value value;
    zt_status status = read_counted(pickle, arg, &value);
    if (status == ZT_OK && !zt_utf8_valid(value.text, value.count)) value = (pk_value){.kind = PK_NONE};
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* A text on a line, V bare or S quoted; with escapes it is no name that PyTorch writes. */
static zt_status op_text_line(pickle_reader *pickle, int arg)
{
    char line[PK_LINE];
    size_t length, skip = arg == 'S';
    zt_status status = zt_pk_read_line(pickle, line, &length);
    if (status != ZT_OK) return status;
    if (skip && (length < 2 || (line[0] != '\'' && line[0] != '"') || line[length - 1] != line[0]))
        return zt_pk_fail(pickle, "string without quotes");
    length -= 2 * skip;
    if (memchr(line + skip, '\\', length) || !zt_utf8_valid(line + skip, length)) return op_none(pickle, 0);
    char *text = zt_pk_alloc(pickle, length + 1, 1);
    if (!text) return zt_pk_why(pickle);
    memcpy(text, line + skip, length);
    text[length] = 0;
    return zt_pk_push(pickle, (pk_value){.kind = PK_TEXT, .count = (uint32_t)length, .text = text});
}

/* ---- opcodes: containers --------------------------------------------------------------------- */

static zt_status op_mark(pickle_reader *pickle, int arg)
{
    (void)arg;
    return zt_pk_push(pickle, (pk_value){.kind = PK_MARK});
}

/* An empty list, dictionary or set. */
static zt_status op_empty(pickle_reader *pickle, int arg)
{
    pk_list *list = zt_pk_list(pickle);
    if (!list) return zt_pk_why(pickle);
    list->set = arg == 'S';
    return zt_pk_push(pickle, (pk_value){.kind = arg == PK_DICT ? PK_DICT : PK_LIST, .list = list});
}

static zt_status make_tuple(pickle_reader *pickle, size_t first, size_t count)
{
    pk_value value = {.kind = PK_TUPLE, .count = (uint32_t)count};
    if (count > UINT32_MAX || !(value.items = zt_pk_alloc(pickle, count, sizeof *value.items))) return zt_pk_why(pickle);
    if (count) memcpy(value.items, pickle->stack + first, count * sizeof *value.items);
    pickle->stack_size = first;
    return zt_pk_push(pickle, value);
}

/* A tuple of the topmost `arg` values. */
static zt_status op_tuple_n(pickle_reader *pickle, int arg)
{
    size_t count = (size_t)arg;
    if (pickle->stack_size < count) return zt_pk_fail(pickle, "stack underflow");
    for (size_t i = pickle->stack_size - count; i < pickle->stack_size; i++)
        if (pickle->stack[i].kind == PK_MARK) return zt_pk_fail(pickle, "stack underflow");
    return make_tuple(pickle, pickle->stack_size - count, count);
}

static zt_status op_tuple(pickle_reader *pickle, int arg)
{
    size_t first = 0;
    zt_status status = zt_pk_above_mark(pickle, &first);
    (void)arg;
    if (status != ZT_OK) return status;
    memmove(pickle->stack + first - 1, pickle->stack + first, (pickle->stack_size - first) * sizeof *pickle->stack);
    pickle->stack_size--;
    return make_tuple(pickle, first - 1, pickle->stack_size - (first - 1));
}

/* The values from `first` on go into a container. */
static zt_status append_all(pickle_reader *pickle, size_t first, int arg, pk_list *into)
{
    if (arg == PK_DICT && (pickle->stack_size - first) % 2) return zt_pk_fail(pickle, "key without a value");
    return zt_pk_append(pickle, into, pickle->stack + first, pickle->stack_size - first);
}

/* What is above the mark becomes a list, dictionary or frozen set. */
static zt_status op_collect(pickle_reader *pickle, int arg)
{
    size_t first = 0;
    zt_status status = zt_pk_above_mark(pickle, &first);
    if (status == ZT_OK) status = op_empty(pickle, arg);
    if (status != ZT_OK) return status;
    pk_value made = pickle->stack[--pickle->stack_size];
    status = append_all(pickle, first, arg, made.list);
    pickle->stack_size = first - 1;
    return status == ZT_OK ? zt_pk_push(pickle, made) : status;
}

/* The list that takes `arg` of the value: items of a list, a set, or a dictionary; NULL: none. An
 * opaque object takes items and pairs. */
static pk_list *find_container(const pk_value *value, int arg)
{
    if (value->kind == PK_OBJECT && arg != 'S') return arg == PK_DICT ? &value->object->pairs : &value->object->items;
    bool fits = value->kind == (uint32_t)(arg == PK_DICT ? PK_DICT : PK_LIST) && value->list->set == (arg == 'S');
    return fits ? value->list : NULL;
}

/* What is above the mark goes into the container below it. */
static zt_status op_extend(pickle_reader *pickle, int arg)
{
    size_t first = 0;
    zt_status status = zt_pk_above_mark(pickle, &first);
    if (status != ZT_OK) return status;
    pk_list *into = first < 2 ? NULL : find_container(&pickle->stack[first - 2], arg);
    if (!into) return zt_pk_fail(pickle, "items appended to an object that is not a matching container");
    status = append_all(pickle, first, arg, into);
    pickle->stack_size = first - 1;
    return status;
}

static zt_status op_append(pickle_reader *pickle, int arg)
{
    pk_value value;
    zt_status status = zt_pk_pop(pickle, &value);
    pk_list *into = status == ZT_OK && pickle->stack_size ? find_container(&pickle->stack[pickle->stack_size - 1], arg) : NULL;
    if (status == ZT_OK && !into) status = zt_pk_fail(pickle, "item appended to an object that is not a list");
    return status == ZT_OK ? zt_pk_append(pickle, into, &value, 1) : status;
}

/* The topmost value, and the one below it. */
static zt_status pop_two(pickle_reader *pickle, pk_value *below, pk_value *top)
{
    zt_status status = zt_pk_pop(pickle, top);
    return status == ZT_OK ? zt_pk_pop(pickle, below) : status;
}

static zt_status op_setitem(pickle_reader *pickle, int arg)
{
    pk_value pair[2];
    zt_status status = pop_two(pickle, &pair[0], &pair[1]);
    pk_list *into = status == ZT_OK && pickle->stack_size ? find_container(&pickle->stack[pickle->stack_size - 1], arg) : NULL;
    if (status == ZT_OK && !into) status = zt_pk_fail(pickle, "item set on an object that is not a dictionary");
    return status == ZT_OK ? zt_pk_append(pickle, into, pair, 2) : status;
}

/* ---- opcodes: stack and memo ----------------------------------------------------------------- */

static zt_status op_pop(pickle_reader *pickle, int arg)
{
    (void)arg;
    if (!pickle->stack_size) return zt_pk_fail(pickle, "stack underflow");
    pickle->stack_size--;
    return ZT_OK;
}

static zt_status op_pop_mark(pickle_reader *pickle, int arg)
{
    size_t first = 0;
    zt_status status = zt_pk_above_mark(pickle, &first);
    (void)arg;
    if (status == ZT_OK) pickle->stack_size = first - 1;
    return status;
}

static zt_status op_dup(pickle_reader *pickle, int arg)
{
    pk_value value;
    zt_status status = zt_pk_pop(pickle, &value);
    (void)arg;
    if (status == ZT_OK) status = zt_pk_push(pickle, value);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* A memo's number: of `arg` bytes, or a line (0). */
static zt_status read_slot(pickle_reader *pickle, int arg, uint64_t *slot)
{
    char line[PK_LINE];
    size_t length;
    int64_t number;
    if (arg) return zt_pk_read_le(pickle, arg, slot);
    zt_status status = zt_pk_read_line(pickle, line, &length);
    if (status == ZT_OK && (strlen(line) != length || !zt_parse_i64(line, &number) || number < 0))
        return zt_pk_fail(pickle, "invalid memo index");
    *slot = status == ZT_OK ? (uint64_t)number : 0;
    return status;
}

/* Slots below memo_n that nothing was put in hold a mark, which is never a value. */
static zt_status memo_put(pickle_reader *pickle, uint64_t slot)
{
    if (!pickle->stack_size || pickle->stack[pickle->stack_size - 1].kind == PK_MARK)
        return zt_pk_fail(pickle, "stack underflow");
    if (slot >= pickle->memo_size) {
        uint64_t capacity = pickle->memo_size ? pickle->memo_size : 64;
        while (capacity <= slot && capacity < UINT64_C(1) << 40) capacity *= 2;
        if (capacity <= slot || !zt_pk_spend(pickle, (size_t)(capacity - pickle->memo_size) * sizeof *pickle->memo))
            return zt_pk_fail(pickle, "memo index too large");
        pk_value *memo = zt_realloc(pickle->ctx, pickle->memo, (size_t)capacity * sizeof *memo);
        if (!memo) return ZT_ENOMEM;
        for (size_t i = pickle->memo_size; i < capacity; i++) memo[i] = (pk_value){.kind = PK_MARK};
        pickle->memo = memo;
        pickle->memo_size = (size_t)capacity;
    }
    pickle->memoized += pickle->memo[slot].kind == PK_MARK;
    pickle->memo[slot] = pickle->stack[pickle->stack_size - 1];
    return ZT_OK;
}

static zt_status op_put(pickle_reader *pickle, int arg)
{
    uint64_t slot;
    zt_status status = read_slot(pickle, arg, &slot);
    return status == ZT_OK ? memo_put(pickle, slot) : status;
}

static zt_status op_get(pickle_reader *pickle, int arg)
{
    uint64_t slot;
    zt_status status = read_slot(pickle, arg, &slot);
    if (status == ZT_OK && (slot >= pickle->memo_size || pickle->memo[slot].kind == PK_MARK))
        return zt_pk_fail(pickle, "memo index not set");
    return status == ZT_OK ? zt_pk_push(pickle, pickle->memo[slot]) : status;
}

static zt_status op_memoize(pickle_reader *pickle, int arg)
{
    (void)arg;
    return memo_put(pickle, pickle->memoized);
}

/* ---- opcodes: names, and what stands for calls ----------------------------------------------- */

static zt_status op_global(pickle_reader *pickle, int arg)
{
    char module[PK_LINE], name[PK_LINE];
    size_t module_length, length = 0;
    pk_value value;
    zt_status status = zt_pk_read_line(pickle, module, &module_length);
    (void)arg;
    if (status == ZT_OK) status = zt_pk_read_line(pickle, name, &length);
    if (status == ZT_OK) status = zt_pk_global(pickle, module, module_length, name, length, &value);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

static zt_status op_stack_global(pickle_reader *pickle, int arg)
{
    pk_value module = {0}, name = {0}, value = {0};
    zt_status status = pop_two(pickle, &module, &name);
    (void)arg;
    if (status == ZT_OK && (module.kind != PK_TEXT || name.kind != PK_TEXT))
        status = zt_pk_fail(pickle, "the name of a global is not a string");
    if (status == ZT_OK) status = zt_pk_global(pickle, module.text, module.count, name.text, name.count, &value);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

static zt_status op_reduce(pickle_reader *pickle, int arg)
{
    pk_value function = {0}, arguments = {0}, value = {0};
    zt_status status = pop_two(pickle, &function, &arguments);
    (void)arg;
    if (status == ZT_OK) status = zt_pk_reduce(pickle, function, arguments, &value);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* A class, a tuple of arguments. */
static zt_status op_newobj(pickle_reader *pickle, int arg)
{
    pk_value type = {0}, arguments = {0}, value = {0};
    zt_status status = pop_two(pickle, &type, &arguments);
    (void)arg;
    if (status == ZT_OK) status = zt_pk_instance(pickle, type, arguments, true, &value);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* And a dictionary of named arguments. */
static zt_status op_newobj_ex(pickle_reader *pickle, int arg)
{
    pk_value type = {0}, arguments = {0}, named = {0}, value = {0};
    zt_status status = pop_two(pickle, &arguments, &named);
    (void)arg;
    if (status == ZT_OK) status = zt_pk_pop(pickle, &type);
    if (status == ZT_OK && named.kind != PK_DICT) status = zt_pk_fail(pickle, "keyword arguments are not a dictionary");
    if (status == ZT_OK) status = zt_pk_instance(pickle, type, arguments, false, &value);
    if (status == ZT_OK) /* may hold tensors, as the others may */
        status = zt_pk_append(pickle, &value.object->state, &named, 1);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* The values above the mark as a tuple, which is popped with the mark. */
static zt_status pop_arguments(pickle_reader *pickle, size_t first, pk_value *arguments)
{
    zt_status status = make_tuple(pickle, first, pickle->stack_size - first);
    if (status == ZT_OK) *arguments = pickle->stack[--pickle->stack_size];
    pickle->stack_size = first - 1;
    return status;
}

static zt_status push_instance(pickle_reader *pickle, pk_value type, pk_value arguments)
{
    pk_value value = {0};
    zt_status status = zt_pk_instance(pickle, type, arguments, false, &value);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* Python 2's: the class is the first value above the mark, */
static zt_status op_obj(pickle_reader *pickle, int arg)
{
    pk_value type = {0}, arguments = {0};
    size_t first = 0;
    zt_status status = zt_pk_above_mark(pickle, &first);
    (void)arg;
    if (status == ZT_OK && first == pickle->stack_size) status = zt_pk_fail(pickle, "stack underflow");
    if (status != ZT_OK) return status;
    type = pickle->stack[first];
    memmove(pickle->stack + first, pickle->stack + first + 1, (pickle->stack_size - first - 1) * sizeof *pickle->stack);
    pickle->stack_size--;
    status = pop_arguments(pickle, first, &arguments);
    return status == ZT_OK ? push_instance(pickle, type, arguments) : status;
}

/* or two lines that name it. */
static zt_status op_inst(pickle_reader *pickle, int arg)
{
    pk_value type = {0}, arguments = {0};
    size_t first = 0;
    zt_status status = op_global(pickle, arg);
    if (status == ZT_OK) status = zt_pk_pop(pickle, &type);
    if (status == ZT_OK) status = zt_pk_above_mark(pickle, &first);
    if (status == ZT_OK) status = pop_arguments(pickle, first, &arguments);
    return status == ZT_OK ? push_instance(pickle, type, arguments) : status;
}

static zt_status op_build(pickle_reader *pickle, int arg)
{
    pk_value state;
    zt_status status = zt_pk_pop(pickle, &state);
    (void)arg;
    if (status == ZT_OK && (!pickle->stack_size || pickle->stack[pickle->stack_size - 1].kind == PK_MARK))
        status = zt_pk_fail(pickle, "stack underflow");
    return status == ZT_OK ? zt_pk_build(pickle, pickle->stack[pickle->stack_size - 1], state) : status;
}

static zt_status op_persistent(pickle_reader *pickle, int arg)
{
    pk_value id, value;
    zt_status status = zt_pk_pop(pickle, &id);
    (void)arg;
    if (status == ZT_OK) status = zt_pk_persistent(pickle, id, &value);
    return status == ZT_OK ? zt_pk_push(pickle, value) : status;
}

/* ---- the table ------------------------------------------------------------------------------- */

const pk_opcode zt_pk_opcodes[256] = {
    ['('] = {op_mark, 0},          ['0'] = {op_pop, 0},           ['1'] = {op_pop_mark, 0},
    ['2'] = {op_dup, 0},           ['F'] = {op_number_line, 'F'}, ['I'] = {op_number_line, 'I'},
    ['L'] = {op_number_line, 'L'}, ['G'] = {op_float, 8},         ['J'] = {op_int, 4},
    ['K'] = {op_int, 1},           ['M'] = {op_int, 2},           ['N'] = {op_none, 0},
    ['P'] = {op_refuse, 0}, /* PERSID */
    ['Q'] = {op_persistent, 0},    ['R'] = {op_reduce, 0},        ['S'] = {op_text_line, 'S'},
    ['V'] = {op_text_line, 'V'},   ['T'] = {op_bytes, 4},         ['U'] = {op_bytes, 1},
    ['B'] = {op_bytes, 4},         ['C'] = {op_bytes, 1},         ['X'] = {op_unicode, 4},
    ['a'] = {op_append, PK_LIST},  ['b'] = {op_build, 0},         ['c'] = {op_global, 0},
    ['d'] = {op_collect, PK_DICT}, ['l'] = {op_collect, PK_LIST}, [']'] = {op_empty, PK_LIST},
    ['}'] = {op_empty, PK_DICT},   ['e'] = {op_extend, PK_LIST},  ['u'] = {op_extend, PK_DICT},
    ['s'] = {op_setitem, PK_DICT}, ['g'] = {op_get, 0},           ['h'] = {op_get, 1},
    ['j'] = {op_get, 4},           ['p'] = {op_put, 0},           ['q'] = {op_put, 1},
    ['r'] = {op_put, 4},           ['t'] = {op_tuple, 0},         [')'] = {op_tuple_n, 0},
    ['i'] = {op_inst, 0},          ['o'] = {op_obj, 0},           [0x80] = {op_proto, 1},
    [0x81] = {op_newobj, 0},       [0x82] = {op_refuse, 0}, /* EXT1 */
    [0x83] = {op_refuse, 0},                                /* EXT2 */
    [0x84] = {op_refuse, 0},                                /* EXT4 */
    [0x85] = {op_tuple_n, 1},      [0x86] = {op_tuple_n, 2},      [0x87] = {op_tuple_n, 3},
    [0x88] = {op_bool, 1},         [0x89] = {op_bool, 0},         [0x8a] = {op_long, 1},
    [0x8b] = {op_long, 4},         [0x8c] = {op_unicode, 1},      [0x8d] = {op_unicode, 8},
    [0x8e] = {op_bytes, 8},        [0x8f] = {op_empty, 'S'},      [0x90] = {op_extend, 'S'},
    [0x91] = {op_collect, 'S'},    [0x92] = {op_newobj_ex, 0},    [0x93] = {op_stack_global, 0},
    [0x94] = {op_memoize, 0},      [0x95] = {op_frame, 8},        [0x96] = {op_bytes, 8}, /* BYTEARRAY8 */
    [0x97] = {op_refuse, 0},                                                              /* NEXT_BUFFER */
    [0x98] = {op_refuse, 0},                                                              /* READONLY_BUFFER */
};
