/* record.c - eager ops, recorded as a program.
 *
 * Tensors are distinguished by identity, so the recorder keeps each it has seen until the end. One
 * that no recorded op made becomes an input; one that an op used up becomes a state, whose last
 * update is kept.
 *
 * An op may write into a tensor there is already (zt_run_into). Then that tensor stands for the new
 * value. Any other over the same bytes no longer holds what was recorded of it: after a recorded
 * write it cannot be used again; after one while recording was paused it is a new input.
 */
#include "lib/io/checkpoint.h"
#include "lib/run/eager.h"

#include <stdio.h>

typedef enum fate { HOLDS, OVERWRITTEN, CHANGED } fate; /* CHANGED: while recording was paused */

typedef struct seen {
    zt_tensor *tensor; /* the map's key is this pointer's own bytes */
    int value, state;  /* state: the state value it descends from, or -1 */
    fate fate;         /* does it still hold its value */
} seen;

struct zt_recorder {
    zt_ctx *ctx;
    zt_prog *program;
    zt_arena *memory;
    zt_map *by_tensor; /* pointer -> address of its `seen` */
    seen **entries;
    size_t seen_count, capacity;
    int n_in, n_state;
};

zt_recorder *zt_recorder_new(zt_ctx *ctx)
{
    zt_recorder *recorder = zt_calloc(ctx, 1, sizeof *recorder);
    if (!recorder) return NULL;
    recorder->ctx = ctx;
    recorder->program = zt_prog_new(ctx);
    recorder->memory = zt_arena_new(ctx, 0);
    recorder->by_tensor = zt_map_new(ctx, 64);
    if (recorder->program && recorder->memory && recorder->by_tensor) return recorder;
    zt_recorder_free(recorder);
    return NULL;
}

void zt_recorder_free(zt_recorder *recorder)
{
    if (!recorder) return;
    for (size_t i = 0; i < recorder->seen_count; i++) zt_tensor_unref(recorder->entries[i]->tensor);
    zt_free(recorder->ctx, recorder->entries);
    zt_map_free(recorder->by_tensor);
    zt_arena_free(recorder->memory);
    zt_prog_free(recorder->program);
    zt_free(recorder->ctx, recorder);
}

static seen *find_seen(const zt_recorder *recorder, const zt_tensor *tensor)
{
    int64_t address;
    if (!zt_map_get(recorder->by_tensor, (const char *)&tensor, sizeof tensor, &address)) return NULL;
    return recorder->entries[address];
}

static seen *add_seen(zt_recorder *recorder, zt_tensor *tensor, int value, int state)
{
    if (recorder->seen_count == recorder->capacity) {
        size_t cap = recorder->capacity ? recorder->capacity * 2 : 64;
        seen **list = zt_realloc(recorder->ctx, recorder->entries, cap * sizeof *list);
        if (!list) return NULL;
        recorder->entries = list;
        recorder->capacity = cap;
    }
    seen *entry = zt_arena_alloc(recorder->memory, sizeof *entry);
    if (!entry) return NULL;
    *entry = (seen){tensor, value, state, HOLDS};
    if (zt_map_put(recorder->by_tensor, (const char *)&entry->tensor, sizeof entry->tensor, (int64_t)recorder->seen_count))
        return NULL;
    zt_tensor_ref(tensor);
    return recorder->entries[recorder->seen_count++] = entry;
}

/* The value of an input; of one not seen before, a new declaration. */
static int value_of(zt_recorder *recorder, zt_tensor *tensor, bool donated)
{
    char name[32], text[ZT_TYPE_TEXT];
    const seen *entry = find_seen(recorder, tensor);
    const zt_type *type = zt_tensor_type(tensor);
    if (entry && entry->fate == HOLDS) return entry->value;
    if (entry && entry->fate == OVERWRITTEN) {
        zt_fail(recorder->ctx, ZT_EUSAGE, "the recorded tensor %s is used after an op overwrote it", zt_type_text(type, text));
        return -1;
    }
    snprintf(name, sizeof name, donated ? "s%d" : "in%d", donated ? recorder->n_state++ : recorder->n_in++);
    int value_id = donated ? zt_prog_state(recorder->program, name, type->dtype, type->rank, type->dim)
                           : zt_prog_in(recorder->program, name, type->dtype, type->rank, type->dim);
    return value_id < 0 || !add_seen(recorder, tensor, value_id, donated ? value_id : -1) ? -1 : value_id;
}

zt_status zt_recorder_freeze(zt_recorder *recorder, zt_tensor *frozen, const char *tensor)
{
    char name[32];
    const zt_type *type = zt_tensor_type(frozen);
    if (find_seen(recorder, frozen))
        return zt_fail(recorder->ctx, ZT_EUSAGE, "a tensor can be frozen only once, before the first op uses it");
    snprintf(name, sizeof name, "w%d", zt_prog_count(recorder->program, ZT_VALUE_DATA));
    int value_id = zt_prog_data(recorder->program, name, type->dtype, type->rank, type->dim, tensor);
    return value_id < 0 || !add_seen(recorder, frozen, value_id, -1) ? zt_ctx_status(recorder->ctx) : ZT_OK;
}

static void mark_overwritten(zt_recorder *recorder, const zt_tensor *target, fate how)
{
    for (size_t i = 0; i < recorder->seen_count; i++)
        if (recorder->entries[i]->fate == HOLDS && zt_shares_bytes(recorder->entries[i]->tensor, target))
            recorder->entries[i]->fate = how;
}

void zt_recorder_wrote(zt_recorder *recorder, const zt_tensor *dst) { mark_overwritten(recorder, dst, CHANGED); }

zt_status zt_recorder_op(zt_recorder *recorder, zt_op op, const void *attrs, zt_tensor *const *inputs, zt_tensor *const *outputs,
                         bool into)
{
    const zt_opinfo *op_info = zt_op_info(op);
    const int donates = op_info->def->donates;
    int values[ZT_MAX_IN], made[ZT_MAX_OUT];
    for (int input = 0; input < op_info->n_in; input++) {
        values[input] = inputs[input] ? value_of(recorder, inputs[input], input < donates) : ZT_NONE;
        if (values[input] == -1) return zt_ctx_status(recorder->ctx);
    }
    zt_status status = zt_prog_op(recorder->program, op, attrs, values, NULL, made);
    if (!status && into) mark_overwritten(recorder, outputs[0], OVERWRITTEN);
    for (int output = 0; output < op_info->n_out && !status; output++) {
        seen *from = output < donates ? find_seen(recorder, inputs[output]) : NULL, *old = find_seen(recorder, outputs[output]);
        int state = from ? from->state : -1;
        if (old) /* written again through zt_run_into */
            *old = (seen){old->tensor, made[output], state, HOLDS};
        else if (!add_seen(recorder, outputs[output], made[output], state))
            status = zt_ctx_status(recorder->ctx);
    }
    return status;
}

/* Each state keeps the last value that descends from it. */
static zt_status keep_states(zt_recorder *recorder)
{
    for (size_t i = recorder->seen_count; i-- > 0;) {
        const seen *entry = recorder->entries[i];
        if (entry->state < 0 || entry->value == entry->state) continue;
        if (zt_prog_value(recorder->program, entry->state)->keep >= 0) continue;
        zt_status status = zt_prog_keep(recorder->program, entry->state, entry->value);
        if (status) return status;
    }
    return ZT_OK;
}

zt_prog *zt_recorder_take(zt_recorder *recorder, zt_tensor *const *outs, int n_outs)
{
    char name[32];
    if (zt_ctx_status(recorder->ctx) || keep_states(recorder)) return NULL;
    for (int i = 0; i < n_outs; i++) {
        int value_id = outs[i] ? value_of(recorder, outs[i], false) : -1;
        snprintf(name, sizeof name, "out%d", i);
        if (value_id < 0 || zt_prog_out(recorder->program, name, value_id)) return NULL;
    }
    zt_prog *program = recorder->program;
    recorder->program = NULL;
    return program;
}

/* ---- frozen tensors -------------------------------------------------------------------------- */

/* The tensor of a data value: what it holds must still be that. */
static zt_tensor *find_frozen(const zt_recorder *recorder, int value_id)
{
    for (size_t i = 0; i < recorder->seen_count; i++)
        if (recorder->entries[i]->value == value_id && recorder->entries[i]->fate == HOLDS) return recorder->entries[i]->tensor;
    zt_fail(recorder->ctx, ZT_EUSAGE, "frozen tensor '%s' was overwritten", zt_prog_value(recorder->program, value_id)->tensor);
    return NULL;
}

static zt_status put_frozen(const zt_recorder *recorder, zt_writer *writer, int count)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < count && !status; i++) {
        zt_tensor *tensor = find_frozen(recorder, zt_prog_nth(recorder->program, ZT_VALUE_DATA, i));
        const void *data = tensor ? zt_tensor_data(tensor) : NULL;
        status = zt_ctx_status(recorder->ctx);
        if (!status) status = zt_writer_put(writer, data, zt_tensor_bytes(tensor));
    }
    return status;
}

zt_status zt_recorder_save(const zt_recorder *recorder, const char *path, bool force)
{
    int data_count = zt_prog_count(recorder->program, ZT_VALUE_DATA);
    zt_checkpoint_opts options = {.force = force};
    zt_entry *entries = zt_calloc(recorder->ctx, (size_t)data_count + 1, sizeof *entries);
    zt_meta *meta = zt_meta_new(recorder->ctx);
    for (int data_index = 0; entries && data_index < data_count; data_index++) {
        const zt_value *value = zt_prog_value(recorder->program, zt_prog_nth(recorder->program, ZT_VALUE_DATA, data_index));
        entries[data_index] =
            (zt_entry){value->tensor, zt_dtype_get(value->type.dtype)->name, value->type, zt_type_bytes(&value->type)};
    }
    zt_writer *writer = entries && meta ? zt_writer_open(recorder->ctx, path, &options, meta, entries, data_count) : NULL;
    zt_status status = writer ? put_frozen(recorder, writer, data_count) : zt_ctx_status(recorder->ctx);
    if (!status) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_meta_free(meta);
    zt_free(recorder->ctx, entries);
    return status;
}

/* ---- looking back ---------------------------------------------------------------------------- */

const zt_prog *zt_recorder_prog(const zt_recorder *recorder) { return recorder->program; }

int zt_recorder_value(const zt_recorder *recorder, const zt_tensor *tensor)
{
    const seen *entry = find_seen(recorder, tensor);
    return entry && entry->fate == HOLDS ? entry->value : -1;
}

void zt_recorder_tensors(const zt_recorder *recorder, zt_tensor **tensor)
{
    for (int value_id = 0; value_id < zt_prog_n_values(recorder->program); value_id++) tensor[value_id] = NULL;
    for (size_t i = 0; i < recorder->seen_count; i++)
        if (recorder->entries[i]->fate == HOLDS) tensor[recorder->entries[i]->value] = recorder->entries[i]->tensor;
}

bool zt_recorder_lost(const zt_recorder *recorder, const zt_tensor *tensor, const int *among)
{
    for (size_t i = 0; i < recorder->seen_count; i++) {
        const seen *entry = recorder->entries[i];
        if (entry->tensor == tensor && entry->fate != HOLDS && among[entry->value] >= 0) return true;
    }
    return false;
}
