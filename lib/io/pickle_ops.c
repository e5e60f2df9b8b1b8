/* pickle_ops.c - owns what each opcode of a pickle does: one function each, and their table. */
#include "lib/io/pickle_machine.h"

#include <string.h>

/* ---- opcodes: plain values ------------------------------------------------------------------- */

static zt_status op_refuse(pickle *p, int arg)
{
    (void)arg;
    return zt_pk_fail(p, "an opcode that makes objects, or none at all");
}

static zt_status op_proto(pickle *p, int arg)
{
    uint64_t v;
    zt_status st = zt_pk_read_le(p, arg, &v);
    return st == ZT_OK && v > 5 ? zt_pk_fail(p, "a protocol above 5") : st;
}

static zt_status op_frame(pickle *p, int arg)
{
    uint64_t v;
    zt_status st = zt_pk_read_le(p, arg, &v);
    return st == ZT_OK && v > p->end - zt_pk_here(p) ? zt_pk_fail(p, "a frame longer than the file")
                                                     : st;
}

static zt_status op_none(pickle *p, int arg)
{
    (void)arg;
    return zt_pk_push(p, (pk_value){.kind = PK_NONE});
}

static zt_status op_bool(pickle *p, int arg)
{
    return zt_pk_push(p, (pk_value){.kind = PK_BOOL, .i = arg});
}

static zt_status op_float(pickle *p, int arg)
{
    uint64_t v;
    zt_status st = zt_pk_read_le(p, arg, &v);
    return st == ZT_OK ? op_none(p, 0) : st;
}

/* An unsigned number of 1 or 2 bytes, or a signed one of 4. */
static zt_status op_int(pickle *p, int arg)
{
    uint64_t v;
    zt_status st = zt_pk_read_le(p, arg, &v);
    int64_t i = arg == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
    return st == ZT_OK ? zt_pk_push(p, (pk_value){.kind = PK_INT, .i = i}) : st;
}

/* Bytes that are kept; `arg` bytes before them say how many. */
static zt_status read_counted(pickle *p, int arg, pk_value *v)
{
    uint64_t n;
    zt_status st = zt_pk_read_le(p, arg, &n);
    return st == ZT_OK ? zt_pk_read_text(p, n, v) : st;
}

/* An integer of any length, in two's complement; `arg` bytes say how many it has. */
static zt_status op_long(pickle *p, int arg)
{
    pk_value v;
    zt_status st = read_counted(p, arg, &v);
    if (st != ZT_OK)
        return st;
    v.kind = PK_LONG;
    if (v.n > 8)
        return zt_pk_push(p, v);
    uint64_t bits = v.n && v.text[v.n - 1] < 0 ? UINT64_MAX : 0;
    for (size_t i = v.n; i-- > 0;)
        bits = bits << 8 | (uint8_t)v.text[i];
    return zt_pk_push(p, (pk_value){.kind = PK_INT, .i = (int64_t)bits});
}

/* Decimal digits beyond 64 bits: the bytes of what they say, little endian. */
static zt_status push_long(pickle *p, const char *digits)
{
    size_t most = strlen(digits) / 2 + 1, n = 0;
    char *b = zt_pk_alloc(p, most, 1);
    if (!b)
        return zt_pk_why(p);
    memset(b, 0, most);
    for (; *digits; digits++) {
        unsigned carry = (unsigned)(*digits - '0');
        if (carry > 9)
            return zt_pk_fail(p, "no number");
        for (size_t k = 0; k < n || carry; k++) {
            carry += 10u * (uint8_t)b[k];
            b[k] = (char)carry;
            carry >>= 8;
            n = k < n ? n : k + 1;
        }
    }
    return zt_pk_push(p, (pk_value){.kind = PK_LONG, .n = (uint32_t)n, .text = b});
}

/* A number as text: I (01 and 00 are truth values), L (closed by an L), F. */
static zt_status op_number_line(pickle *p, int arg)
{
    char line[PK_LINE];
    size_t n;
    int64_t i;
    double d;
    zt_status st = zt_pk_read_line(p, line, &n);
    if (st != ZT_OK)
        return st;
    if (strlen(line) != n)
        return zt_pk_fail(p, "a number with a zero byte");
    if (arg == 'F')
        return zt_parse_double(line, &d) ? op_none(p, 0) : zt_pk_fail(p, "no number");
    if (arg == 'I' && (strcmp(line, "00") == 0 || strcmp(line, "01") == 0))
        return op_bool(p, line[1] - '0');
    if (arg == 'L' && n && line[n - 1] == 'L')
        line[n - 1] = 0;
    if (!zt_parse_i64(line, &i))
        return *line >= '0' && *line <= '9' ? push_long(p, line) : zt_pk_fail(p, "no number");
    return zt_pk_push(p, (pk_value){.kind = PK_INT, .i = i});
}

/* ---- opcodes: texts -------------------------------------------------------------------------- */

/* UTF-8 but for surrogates, which Python writes of bytes that were no text (of file names). */
static bool is_surrogate_text(const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i + 3 <= n; i++)
        if ((uint8_t)s[i] == 0xed && (uint8_t)s[i + 1] >= 0xa0 && (s[i + 2] & 0xc0) == 0x80) {
            if (!zt_utf8_valid(s + from, i - from))
                return false;
            from = i + 3;
            i += 2;
        }
    return zt_utf8_valid(s + from, n - from);
}

/* A text in UTF-8, whose length is `arg` bytes. One with surrogates is no name. */
static zt_status op_unicode(pickle *p, int arg)
{
    pk_value v;
    zt_status st = read_counted(p, arg, &v);
    if (st == ZT_OK && !zt_utf8_valid(v.text, v.n)) {
        if (!is_surrogate_text(v.text, v.n))
            return zt_pk_fail(p, "a text that is no UTF-8");
        v = (pk_value){.kind = PK_NONE};
    }
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* Bytes; Python 2's texts are such, and are names where they are UTF-8. */
static zt_status op_bytes(pickle *p, int arg)
{
    pk_value v;
    zt_status st = read_counted(p, arg, &v);
    if (st == ZT_OK && !zt_utf8_valid(v.text, v.n))
        v = (pk_value){.kind = PK_NONE};
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* A text on a line, V bare or S quoted; with escapes it is no name that PyTorch writes. */
static zt_status op_text_line(pickle *p, int arg)
{
    char line[PK_LINE];
    size_t n, skip = arg == 'S';
    zt_status st = zt_pk_read_line(p, line, &n);
    if (st != ZT_OK)
        return st;
    if (skip && (n < 2 || (line[0] != '\'' && line[0] != '"') || line[n - 1] != line[0]))
        return zt_pk_fail(p, "a text without quotes");
    n -= 2 * skip;
    if (memchr(line + skip, '\\', n) || !zt_utf8_valid(line + skip, n))
        return op_none(p, 0);
    char *s = zt_pk_alloc(p, n + 1, 1);
    if (!s)
        return zt_pk_why(p);
    memcpy(s, line + skip, n);
    s[n] = 0;
    return zt_pk_push(p, (pk_value){.kind = PK_TEXT, .n = (uint32_t)n, .text = s});
}

/* ---- opcodes: containers --------------------------------------------------------------------- */

static zt_status op_mark(pickle *p, int arg)
{
    (void)arg;
    return zt_pk_push(p, (pk_value){.kind = PK_MARK});
}

/* An empty list, dictionary or set. */
static zt_status op_empty(pickle *p, int arg)
{
    pk_list *l = zt_pk_list(p);
    if (!l)
        return zt_pk_why(p);
    l->set = arg == 'S';
    return zt_pk_push(p, (pk_value){.kind = arg == PK_DICT ? PK_DICT : PK_LIST, .list = l});
}

static zt_status make_tuple(pickle *p, size_t first, size_t n)
{
    pk_value v = {.kind = PK_TUPLE, .n = (uint32_t)n};
    if (n > UINT32_MAX || !(v.item = zt_pk_alloc(p, n, sizeof *v.item)))
        return zt_pk_why(p);
    if (n)
        memcpy(v.item, p->stack + first, n * sizeof *v.item);
    p->n = first;
    return zt_pk_push(p, v);
}

/* A tuple of the topmost `arg` values. */
static zt_status op_tuple_n(pickle *p, int arg)
{
    size_t n = (size_t)arg;
    if (p->n < n)
        return zt_pk_fail(p, "a value is missing on the stack");
    for (size_t i = p->n - n; i < p->n; i++)
        if (p->stack[i].kind == PK_MARK)
            return zt_pk_fail(p, "a value is missing on the stack");
    return make_tuple(p, p->n - n, n);
}

static zt_status op_tuple(pickle *p, int arg)
{
    size_t first = 0;
    zt_status st = zt_pk_above_mark(p, &first);
    (void)arg;
    if (st != ZT_OK)
        return st;
    memmove(p->stack + first - 1, p->stack + first, (p->n - first) * sizeof *p->stack);
    p->n--;
    return make_tuple(p, first - 1, p->n - (first - 1));
}

/* The values from `first` on go into a container. */
static zt_status add_all(pickle *p, size_t first, int arg, pk_list *into)
{
    if (arg == PK_DICT && (p->n - first) % 2)
        return zt_pk_fail(p, "a key without a value");
    return zt_pk_append(p, into, p->stack + first, p->n - first);
}

/* What is above the mark becomes a list, dictionary or frozen set. */
static zt_status op_collect(pickle *p, int arg)
{
    size_t first = 0;
    zt_status st = zt_pk_above_mark(p, &first);
    if (st == ZT_OK)
        st = op_empty(p, arg);
    if (st != ZT_OK)
        return st;
    pk_value made = p->stack[--p->n];
    st = add_all(p, first, arg, made.list);
    p->n = first - 1;
    return st == ZT_OK ? zt_pk_push(p, made) : st;
}

/* The list that takes `arg` of the value v: items of a list, a set, or a dictionary; NULL: none. An
 * opaque object takes items and pairs. */
static pk_list *container_of(const pk_value *v, int arg)
{
    if (v->kind == PK_OBJECT && arg != 'S')
        return arg == PK_DICT ? &v->object->pairs : &v->object->items;
    bool right =
        v->kind == (uint32_t)(arg == PK_DICT ? PK_DICT : PK_LIST) && v->list->set == (arg == 'S');
    return right ? v->list : NULL;
}

/* What is above the mark goes into the container below it. */
static zt_status op_extend(pickle *p, int arg)
{
    size_t first = 0;
    zt_status st = zt_pk_above_mark(p, &first);
    if (st != ZT_OK)
        return st;
    pk_list *into = first < 2 ? NULL : container_of(&p->stack[first - 2], arg);
    if (!into)
        return zt_pk_fail(p, "items for what is no container of theirs");
    st = add_all(p, first, arg, into);
    p->n = first - 1;
    return st;
}

static zt_status op_append(pickle *p, int arg)
{
    pk_value v;
    zt_status st = zt_pk_pop(p, &v);
    pk_list *into = st == ZT_OK && p->n ? container_of(&p->stack[p->n - 1], arg) : NULL;
    if (st == ZT_OK && !into)
        st = zt_pk_fail(p, "an item for what is no list");
    return st == ZT_OK ? zt_pk_append(p, into, &v, 1) : st;
}

/* The topmost value, and the one below it. */
static zt_status pop_two(pickle *p, pk_value *below, pk_value *top)
{
    zt_status st = zt_pk_pop(p, top);
    return st == ZT_OK ? zt_pk_pop(p, below) : st;
}

static zt_status op_setitem(pickle *p, int arg)
{
    pk_value pair[2];
    zt_status st = pop_two(p, &pair[0], &pair[1]);
    pk_list *into = st == ZT_OK && p->n ? container_of(&p->stack[p->n - 1], arg) : NULL;
    if (st == ZT_OK && !into)
        st = zt_pk_fail(p, "an item for what is no dictionary");
    return st == ZT_OK ? zt_pk_append(p, into, pair, 2) : st;
}

/* ---- opcodes: stack and memo ----------------------------------------------------------------- */

static zt_status op_pop(pickle *p, int arg)
{
    (void)arg;
    if (!p->n)
        return zt_pk_fail(p, "a value is missing on the stack");
    p->n--;
    return ZT_OK;
}

static zt_status op_pop_mark(pickle *p, int arg)
{
    size_t first = 0;
    zt_status st = zt_pk_above_mark(p, &first);
    (void)arg;
    if (st == ZT_OK)
        p->n = first - 1;
    return st;
}

static zt_status op_dup(pickle *p, int arg)
{
    pk_value v;
    zt_status st = zt_pk_pop(p, &v);
    (void)arg;
    if (st == ZT_OK)
        st = zt_pk_push(p, v);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* A memo's number: of `arg` bytes, or a line (0). */
static zt_status read_slot(pickle *p, int arg, uint64_t *slot)
{
    char line[PK_LINE];
    size_t n;
    int64_t i;
    if (arg)
        return zt_pk_read_le(p, arg, slot);
    zt_status st = zt_pk_read_line(p, line, &n);
    if (st == ZT_OK && (strlen(line) != n || !zt_parse_i64(line, &i) || i < 0))
        return zt_pk_fail(p, "no number of the memo");
    *slot = st == ZT_OK ? (uint64_t)i : 0;
    return st;
}

/* Slots below memo_n that nothing was put in hold a mark, which is never a value. */
static zt_status memo_put(pickle *p, uint64_t slot)
{
    if (!p->n || p->stack[p->n - 1].kind == PK_MARK)
        return zt_pk_fail(p, "a value is missing on the stack");
    if (slot >= p->memo_n) {
        uint64_t n = p->memo_n ? p->memo_n : 64;
        while (n <= slot && n < UINT64_C(1) << 40)
            n *= 2;
        if (n <= slot || !zt_pk_spend(p, (size_t)(n - p->memo_n) * sizeof *p->memo))
            return zt_pk_fail(p, "a number of the memo that is too large");
        pk_value *memo = zt_realloc(p->ctx, p->memo, (size_t)n * sizeof *memo);
        if (!memo)
            return ZT_ENOMEM;
        for (size_t i = p->memo_n; i < n; i++)
            memo[i] = (pk_value){.kind = PK_MARK};
        p->memo = memo;
        p->memo_n = (size_t)n;
    }
    p->memoized += p->memo[slot].kind == PK_MARK;
    p->memo[slot] = p->stack[p->n - 1];
    return ZT_OK;
}

static zt_status op_put(pickle *p, int arg)
{
    uint64_t slot;
    zt_status st = read_slot(p, arg, &slot);
    return st == ZT_OK ? memo_put(p, slot) : st;
}

static zt_status op_get(pickle *p, int arg)
{
    uint64_t slot;
    zt_status st = read_slot(p, arg, &slot);
    if (st == ZT_OK && (slot >= p->memo_n || p->memo[slot].kind == PK_MARK))
        return zt_pk_fail(p, "nothing is at that number of the memo");
    return st == ZT_OK ? zt_pk_push(p, p->memo[slot]) : st;
}

static zt_status op_memoize(pickle *p, int arg)
{
    (void)arg;
    return memo_put(p, p->memoized);
}

/* ---- opcodes: names, and what stands for calls ----------------------------------------------- */

static zt_status op_global(pickle *p, int arg)
{
    char module[PK_LINE], name[PK_LINE];
    size_t m, n = 0;
    pk_value v;
    zt_status st = zt_pk_read_line(p, module, &m);
    (void)arg;
    if (st == ZT_OK)
        st = zt_pk_read_line(p, name, &n);
    if (st == ZT_OK)
        st = zt_pk_global(p, module, m, name, n, &v);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

static zt_status op_stack_global(pickle *p, int arg)
{
    pk_value module = {0}, name = {0}, v = {0};
    zt_status st = pop_two(p, &module, &name);
    (void)arg;
    if (st == ZT_OK && (module.kind != PK_TEXT || name.kind != PK_TEXT))
        st = zt_pk_fail(p, "a name that is no text");
    if (st == ZT_OK)
        st = zt_pk_global(p, module.text, module.n, name.text, name.n, &v);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

static zt_status op_reduce(pickle *p, int arg)
{
    pk_value f = {0}, args = {0}, v = {0};
    zt_status st = pop_two(p, &f, &args);
    (void)arg;
    if (st == ZT_OK)
        st = zt_pk_reduce(p, f, args, &v);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* A class, a tuple of arguments. */
static zt_status op_newobj(pickle *p, int arg)
{
    pk_value type = {0}, args = {0}, v = {0};
    zt_status st = pop_two(p, &type, &args);
    (void)arg;
    if (st == ZT_OK)
        st = zt_pk_instance(p, type, args, true, &v);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* And a dictionary of named arguments. */
static zt_status op_newobj_ex(pickle *p, int arg)
{
    pk_value type = {0}, args = {0}, named = {0}, v = {0};
    zt_status st = pop_two(p, &args, &named);
    (void)arg;
    if (st == ZT_OK)
        st = zt_pk_pop(p, &type);
    if (st == ZT_OK && named.kind != PK_DICT)
        st = zt_pk_fail(p, "named arguments that are no dictionary");
    if (st == ZT_OK)
        st = zt_pk_instance(p, type, args, false, &v);
    if (st == ZT_OK) /* may hold tensors, as the others may */
        st = zt_pk_append(p, &v.object->state, &named, 1);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* The values above the mark as a tuple, which is popped with the mark. */
static zt_status pop_arguments(pickle *p, size_t first, pk_value *args)
{
    zt_status st = make_tuple(p, first, p->n - first);
    if (st == ZT_OK)
        *args = p->stack[--p->n];
    p->n = first - 1;
    return st;
}

static zt_status push_instance(pickle *p, pk_value type, pk_value args)
{
    pk_value v = {0};
    zt_status st = zt_pk_instance(p, type, args, false, &v);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* Python 2's: the class is the first value above the mark, */
static zt_status op_obj(pickle *p, int arg)
{
    pk_value type = {0}, args = {0};
    size_t first = 0;
    zt_status st = zt_pk_above_mark(p, &first);
    (void)arg;
    if (st == ZT_OK && first == p->n)
        st = zt_pk_fail(p, "a value is missing on the stack");
    if (st != ZT_OK)
        return st;
    type = p->stack[first];
    memmove(p->stack + first, p->stack + first + 1, (p->n - first - 1) * sizeof *p->stack);
    p->n--;
    st = pop_arguments(p, first, &args);
    return st == ZT_OK ? push_instance(p, type, args) : st;
}

/* or two lines that name it. */
static zt_status op_inst(pickle *p, int arg)
{
    pk_value type = {0}, args = {0};
    size_t first = 0;
    zt_status st = op_global(p, arg);
    if (st == ZT_OK)
        st = zt_pk_pop(p, &type);
    if (st == ZT_OK)
        st = zt_pk_above_mark(p, &first);
    if (st == ZT_OK)
        st = pop_arguments(p, first, &args);
    return st == ZT_OK ? push_instance(p, type, args) : st;
}

static zt_status op_build(pickle *p, int arg)
{
    pk_value state;
    zt_status st = zt_pk_pop(p, &state);
    (void)arg;
    if (st == ZT_OK && (!p->n || p->stack[p->n - 1].kind == PK_MARK))
        st = zt_pk_fail(p, "a value is missing on the stack");
    return st == ZT_OK ? zt_pk_build(p, p->stack[p->n - 1], state) : st;
}

static zt_status op_persistent(pickle *p, int arg)
{
    pk_value id, v;
    zt_status st = zt_pk_pop(p, &id);
    (void)arg;
    if (st == ZT_OK)
        st = zt_pk_persistent(p, id, &v);
    return st == ZT_OK ? zt_pk_push(p, v) : st;
}

/* ---- the table ------------------------------------------------------------------------------- */

const pk_opcode zt_pk_opcodes[256] = {
    ['('] = {op_mark, 0},          ['0'] = {op_pop, 0},
    ['1'] = {op_pop_mark, 0},      ['2'] = {op_dup, 0},
    ['F'] = {op_number_line, 'F'}, ['I'] = {op_number_line, 'I'},
    ['L'] = {op_number_line, 'L'}, ['G'] = {op_float, 8},
    ['J'] = {op_int, 4},           ['K'] = {op_int, 1},
    ['M'] = {op_int, 2},           ['N'] = {op_none, 0},
    ['P'] = {op_refuse, 0}, /* PERSID */
    ['Q'] = {op_persistent, 0},    ['R'] = {op_reduce, 0},
    ['S'] = {op_text_line, 'S'},   ['V'] = {op_text_line, 'V'},
    ['T'] = {op_bytes, 4},         ['U'] = {op_bytes, 1},
    ['B'] = {op_bytes, 4},         ['C'] = {op_bytes, 1},
    ['X'] = {op_unicode, 4},       ['a'] = {op_append, PK_LIST},
    ['b'] = {op_build, 0},         ['c'] = {op_global, 0},
    ['d'] = {op_collect, PK_DICT}, ['l'] = {op_collect, PK_LIST},
    [']'] = {op_empty, PK_LIST},   ['}'] = {op_empty, PK_DICT},
    ['e'] = {op_extend, PK_LIST},  ['u'] = {op_extend, PK_DICT},
    ['s'] = {op_setitem, PK_DICT}, ['g'] = {op_get, 0},
    ['h'] = {op_get, 1},           ['j'] = {op_get, 4},
    ['p'] = {op_put, 0},           ['q'] = {op_put, 1},
    ['r'] = {op_put, 4},           ['t'] = {op_tuple, 0},
    [')'] = {op_tuple_n, 0},       ['i'] = {op_inst, 0},
    ['o'] = {op_obj, 0},           [0x80] = {op_proto, 1},
    [0x81] = {op_newobj, 0},       [0x82] = {op_refuse, 0}, /* EXT1 */
    [0x83] = {op_refuse, 0},                                /* EXT2 */
    [0x84] = {op_refuse, 0},                                /* EXT4 */
    [0x85] = {op_tuple_n, 1},      [0x86] = {op_tuple_n, 2},
    [0x87] = {op_tuple_n, 3},      [0x88] = {op_bool, 1},
    [0x89] = {op_bool, 0},         [0x8a] = {op_long, 1},
    [0x8b] = {op_long, 4},         [0x8c] = {op_unicode, 1},
    [0x8d] = {op_unicode, 8},      [0x8e] = {op_bytes, 8},
    [0x8f] = {op_empty, 'S'},      [0x90] = {op_extend, 'S'},
    [0x91] = {op_collect, 'S'},    [0x92] = {op_newobj_ex, 0},
    [0x93] = {op_stack_global, 0}, [0x94] = {op_memoize, 0},
    [0x95] = {op_frame, 8},        [0x96] = {op_bytes, 8}, /* BYTEARRAY8 */
    [0x97] = {op_refuse, 0},                               /* NEXT_BUFFER */
    [0x98] = {op_refuse, 0},                               /* READONLY_BUFFER */
};
