/* pickle.c - owns the machine that pickles are programs for: its bytes, its stack, its memory, and the opaque
 * objects that stand for instances of unknown classes: what they are given is kept, nothing is called. */
#include "lib/io/pickle_machine.h"
#include "lib/io/pickle.h"

#include <string.h>

/* ---- faults and memory ----------------------------------------------------------------------- */

uint64_t zt_pk_here(const pickle_reader *pickle) { return pickle->position - (pickle->buffered - pickle->next); }

zt_status zt_pk_fail(pickle_reader *pickle, const char *what)
{
    return zt_fail(pickle->ctx, ZT_EDATA, "%s: pickle, byte %llu: %s", pickle->file, (unsigned long long)zt_pk_here(pickle),
                   what);
}

bool zt_pk_spend(pickle_reader *pickle, size_t bytes)
{
    if (bytes <= pickle->budget) {
        pickle->budget -= bytes;
        return true;
    }
    zt_pk_fail(pickle, "too many values for the size of the file");
    return false;
}

void *zt_pk_alloc(pickle_reader *pickle, size_t count, size_t size)
{
    size_t bytes;
    if (!zt_mul_size(count, size, &bytes) || bytes > SIZE_MAX - 16) {
        zt_pk_fail(pickle, "too many values");
        return NULL;
    }
    return zt_pk_spend(pickle, bytes + 16) ? zt_arena_alloc(pickle->arena, bytes) : NULL;
}

/* Why a NULL came back. */
zt_status zt_pk_why(const pickle_reader *pickle) { return zt_ctx_status(pickle->ctx); }

/* ---- bytes ----------------------------------------------------------------------------------- */

static zt_status refill_buffer(pickle_reader *pickle)
{
    uint64_t left = pickle->end - pickle->position;
    size_t size = left < PK_BUFFER ? (size_t)left : PK_BUFFER;
    if (size == 0) return zt_pk_fail(pickle, "truncated");
    zt_status status = pickle->fetch(pickle->user, pickle->position, pickle->buffer, size);
    if (status != ZT_OK) return status;
    pickle->position += size;
    pickle->next = 0;
    pickle->buffered = size;
    return ZT_OK;
}

static zt_status read_bytes(pickle_reader *pickle, void *dst, size_t size)
{
    uint8_t *output = dst;
    while (size) {
        zt_status status = pickle->next == pickle->buffered ? refill_buffer(pickle) : ZT_OK;
        if (status != ZT_OK) return status;
        size_t step = pickle->buffered - pickle->next < size ? pickle->buffered - pickle->next : size;
        memcpy(output, pickle->buffer + pickle->next, step);
        pickle->next += step;
        output += step;
        size -= step;
    }
    return ZT_OK;
}

zt_status zt_pk_read_le(pickle_reader *pickle, int width, uint64_t *value)
{
    uint8_t raw[8];
    zt_status status = read_bytes(pickle, raw, (size_t)width);
    *value = 0;
    for (int i = width; status == ZT_OK && i-- > 0;) *value = *value << 8 | raw[i];
    return status;
}

/* A line of text, without its end; closed by a zero. */
zt_status zt_pk_read_line(pickle_reader *pickle, char line[PK_LINE], size_t *length)
{
    zt_status status;
    for (*length = 0; (status = read_bytes(pickle, line + *length, 1)) == ZT_OK && line[*length] != '\n'; ++*length)
        if (*length + 2 > PK_LINE) return zt_pk_fail(pickle, "text line too long");
    line[*length] = 0;
    return status;
}

/* `length` bytes that are kept, closed by a zero. */
zt_status zt_pk_read_text(pickle_reader *pickle, uint64_t length, pk_value *out)
{
    if (length > pickle->end - zt_pk_here(pickle) || length > UINT32_MAX)
        return zt_pk_fail(pickle, "string longer than the file");
    char *text = zt_pk_alloc(pickle, (size_t)length + 1, 1);
    if (!text) return zt_pk_why(pickle);
    text[length] = 0;
    *out = (pk_value){.kind = PK_TEXT, .count = (uint32_t)length, .text = text};
    return read_bytes(pickle, text, (size_t)length);
}

/* ---- stack ----------------------------------------------------------------------------------- */

zt_status zt_pk_push(pickle_reader *pickle, pk_value value)
{
    if (pickle->stack_size == pickle->stack_capacity) {
        size_t capacity = pickle->stack_capacity ? 2 * pickle->stack_capacity : 64;
        if (!zt_pk_spend(pickle, (capacity - pickle->stack_capacity) * sizeof *pickle->stack)) return zt_pk_why(pickle);
        pk_value *stack = zt_realloc(pickle->ctx, pickle->stack, capacity * sizeof *stack);
        if (!stack) return ZT_ENOMEM;
        pickle->stack = stack;
        pickle->stack_capacity = capacity;
    }
    pickle->stack[pickle->stack_size++] = value;
    return ZT_OK;
}

/* The topmost value, which must be no mark. */
zt_status zt_pk_pop(pickle_reader *pickle, pk_value *value)
{
    if (!pickle->stack_size || pickle->stack[pickle->stack_size - 1].kind == PK_MARK)
        return zt_pk_fail(pickle, "stack underflow");
    *value = pickle->stack[--pickle->stack_size];
    return ZT_OK;
}

/* Where the values above the last mark begin; the mark is taken away. */
zt_status zt_pk_above_mark(pickle_reader *pickle, size_t *first)
{
    size_t i = pickle->stack_size;
    while (i && pickle->stack[i - 1].kind != PK_MARK) i--;
    if (!i) return zt_pk_fail(pickle, "no mark on the stack");
    *first = i;
    return ZT_OK;
}

pk_list *zt_pk_list(pickle_reader *pickle)
{
    pk_list *list = zt_pk_alloc(pickle, 1, sizeof *list);
    if (list) *list = (pk_list){0};
    return list;
}

zt_status zt_pk_append(pickle_reader *pickle, pk_list *list, const pk_value *values, size_t count)
{
    if (list->capacity - list->count < count) {
        size_t capacity = count > list->capacity ? list->count + count : 2 * list->capacity;
        pk_value *items = zt_pk_alloc(pickle, capacity, sizeof *items);
        if (!items) return zt_pk_why(pickle);
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    if (count) memcpy(list->items + list->count, values, count * sizeof *values);
    list->count += count;
    return ZT_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static zt_status run_opcodes(pickle_reader *pickle, pk_value *out)
{
    for (;;) {
        uint8_t op;
        zt_status status = read_bytes(pickle, &op, 1);
        if (status != ZT_OK) return status;
        pickle->ops++;
        if (op == '.') break;
        status =
            zt_pk_opcodes[op].run ? zt_pk_opcodes[op].run(pickle, zt_pk_opcodes[op].arg) : zt_pk_fail(pickle, "unknown opcode");
        if (status != ZT_OK) return status;
    }
    if (pickle->stack_size != 1 || pickle->stack[0].kind == PK_MARK)
        return zt_pk_fail(pickle, "not exactly one value on the stack at the end");
    *out = pickle->stack[0];
    return ZT_OK;
}

zt_status zt_pickle_read(pickle_reader *pickle, pk_value *out)
{
    pickle->stack = pickle->memo = NULL;
    pickle->stack_size = pickle->stack_capacity = pickle->memo_size = pickle->memoized = pickle->ops = pickle->next =
        pickle->buffered = 0;
    zt_status status = run_opcodes(pickle, out);
    pickle->position = zt_pk_here(pickle);
    pickle->next = pickle->buffered = 0;
    zt_free(pickle->ctx, pickle->stack);
    zt_free(pickle->ctx, pickle->memo);
    pickle->stack = pickle->memo = NULL;
    return status;
}

void zt_pickle_end(pickle_reader *pickle)
{
    zt_map_free(pickle->names);
    pickle->names = NULL;
}

/* ---- opaque objects -------------------------------------------------------------------------- */

zt_status zt_pk_object(pickle_reader *pickle, const pk_global *type, pk_value args, pk_value *out)
{
    pk_object *object = zt_pk_alloc(pickle, 1, sizeof *object);
    if (!object) return zt_ctx_status(pickle->ctx);
    *object = (pk_object){.type = type, .arguments = args};
    *out = (pk_value){.kind = PK_OBJECT, .object = object};
    return ZT_OK;
}

/* `known_too`: a known class may be made so, as PyTorch's safe reader allows it for NEWOBJ. */
zt_status zt_pk_instance(pickle_reader *pickle, pk_value type, pk_value args, bool known_too, pk_value *out)
{
    bool unknown = type.kind == PK_OBJECT || (type.kind == PK_GLOBAL && type.global->what == PK_UNKNOWN);
    return unknown || known_too ? zt_pk_reduce(pickle, type, args, out)
                                : zt_pk_fail(pickle, "this class cannot be instantiated by this opcode");
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Attributes, names and values in turn. Those of Python itself are no data. */
static bool are_attributes(pk_value value)
{
    for (size_t i = 0; value.kind == PK_DICT && i < value.list->count; i += 2) {
        const pk_value *key = &value.list->items[i];
        if (key->kind != PK_TEXT || (key->count > 1 && memcmp(key->text, "__", 2) == 0)) return false;
    }
    return value.kind == PK_DICT;
}

/* An OrderedDict's attributes, such as _metadata of a module's state. */
static zt_status build_dict(pickle_reader *pickle, pk_value dict, pk_value state)
{
    if (!are_attributes(state)) return zt_pk_fail(pickle, "the state of a dictionary is not a dictionary of attributes");
    if (!dict.list->attr && !(dict.list->attr = zt_pk_list(pickle))) return zt_ctx_status(pickle->ctx);
    return zt_pk_append(pickle, dict.list->attr, state.list->items, state.list->count);
}

/* torch.Tensor() of long ago: (storage, offset, size, stride) follow as its state. */
static zt_status build_tensor(pickle_reader *pickle, pk_object *object, pk_value state)
{
    pk_value view = {0};
    if (state.kind != PK_TUPLE || state.count != 4)
        return zt_pk_fail(pickle, "the state of a tensor is not a tuple of 4 elements");
    zt_status status = zt_pk_view(pickle, state.items, NULL, &view);
    object->tensor = status == ZT_OK ? view.tensor : NULL;
    return status;
}

/* A state is kept as it is; a pair of attributes and slots as the two that it is. */
static zt_status build_object(pickle_reader *pickle, pk_object *object, pk_value state)
{
    if (object->type->what == PK_TENSOR_CLASS) return build_tensor(pickle, object, state);
    bool pair = state.kind == PK_TUPLE && state.count == 2;
    for (uint32_t i = 0; pair && i < 2; i++) pair = state.items[i].kind == PK_NONE || state.items[i].kind == PK_DICT;
    return pair ? zt_pk_append(pickle, &object->state, state.items, 2) : zt_pk_append(pickle, &object->state, &state, 1);
}

zt_status zt_pk_build(pickle_reader *pickle, pk_value object, pk_value state)
{
    if (object.kind == PK_OBJECT) return build_object(pickle, object.object, state);
    if (object.kind == PK_DICT && object.list->ordered) return build_dict(pickle, object, state);
    return zt_pk_fail(pickle, "setting the state of this object is not allowed");
}
