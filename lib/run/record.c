/* record.c - eager ops, recorded as a program.
 *
 * Tensors are told apart by identity, so the recorder keeps each it has seen until the end. One
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
    zt_prog *prog;
    zt_arena *memory;
    zt_map *by_tensor; /* pointer -> address of its `seen` */
    seen **list;
    size_t n, cap;
    int n_in, n_state;
};

zt_recorder *zt_recorder_new(zt_ctx *ctx)
{
    zt_recorder *rec = zt_calloc(ctx, 1, sizeof *rec);
    if (!rec) return NULL;
    rec->ctx = ctx;
    rec->prog = zt_prog_new(ctx);
    rec->memory = zt_arena_new(ctx, 0);
    rec->by_tensor = zt_map_new(ctx, 64);
    if (rec->prog && rec->memory && rec->by_tensor) return rec;
    zt_recorder_free(rec);
    return NULL;
}

void zt_recorder_free(zt_recorder *rec)
{
    if (!rec) return;
    for (size_t i = 0; i < rec->n; i++) zt_tensor_unref(rec->list[i]->tensor);
    zt_free(rec->ctx, rec->list);
    zt_map_free(rec->by_tensor);
    zt_arena_free(rec->memory);
    zt_prog_free(rec->prog);
    zt_free(rec->ctx, rec);
}

static seen *find(const zt_recorder *rec, const zt_tensor *tensor)
{
    int64_t at;
    if (!zt_map_get(rec->by_tensor, (const char *)&tensor, sizeof tensor, &at)) return NULL;
    return rec->list[at];
}

static seen *remember(zt_recorder *rec, zt_tensor *tensor, int value, int state)
{
    if (rec->n == rec->cap) {
        size_t cap = rec->cap ? rec->cap * 2 : 64;
        seen **list = zt_realloc(rec->ctx, rec->list, cap * sizeof *list);
        if (!list) return NULL;
        rec->list = list;
        rec->cap = cap;
    }
    seen *s = zt_arena_alloc(rec->memory, sizeof *s);
    if (!s) return NULL;
    *s = (seen){tensor, value, state, HOLDS};
    if (zt_map_put(rec->by_tensor, (const char *)&s->tensor, sizeof s->tensor, (int64_t)rec->n))
        return NULL;
    zt_tensor_ref(tensor);
    return rec->list[rec->n++] = s;
}

/* The value of an input; of one not seen before, a new declaration. */
static int value_of(zt_recorder *rec, zt_tensor *tensor, bool donated)
{
    char name[32], text[ZT_TYPE_TEXT];
    const seen *s = find(rec, tensor);
    const zt_type *type = zt_tensor_type(tensor);
    if (s && s->fate == HOLDS) return s->value;
    if (s && s->fate == OVERWRITTEN) {
        zt_fail(rec->ctx, ZT_EUSAGE, "a recorded tensor %s is used after an op wrote over it",
                zt_type_text(type, text));
        return -1;
    }
    snprintf(name, sizeof name, donated ? "s%d" : "in%d", donated ? rec->n_state++ : rec->n_in++);
    int v = donated ? zt_prog_state(rec->prog, name, type->dtype, type->rank, type->dim)
                    : zt_prog_in(rec->prog, name, type->dtype, type->rank, type->dim);
    return v < 0 || !remember(rec, tensor, v, donated ? v : -1) ? -1 : v;
}

zt_status zt_recorder_freeze(zt_recorder *rec, zt_tensor *t, const char *tensor)
{
    char name[32];
    const zt_type *type = zt_tensor_type(t);
    if (find(rec, t))
        return zt_fail(rec->ctx, ZT_EUSAGE, "a tensor is frozen before an op uses it, and once");
    snprintf(name, sizeof name, "w%d", zt_prog_count(rec->prog, ZT_VALUE_DATA));
    int v = zt_prog_data(rec->prog, name, type->dtype, type->rank, type->dim, tensor);
    return v < 0 || !remember(rec, t, v, -1) ? zt_ctx_status(rec->ctx) : ZT_OK;
}

static void overwritten(zt_recorder *rec, const zt_tensor *dst, fate how)
{
    for (size_t i = 0; i < rec->n; i++)
        if (rec->list[i]->fate == HOLDS && zt_shares_bytes(rec->list[i]->tensor, dst))
            rec->list[i]->fate = how;
}

void zt_recorder_wrote(zt_recorder *rec, const zt_tensor *dst) { overwritten(rec, dst, CHANGED); }

zt_status zt_recorder_op(zt_recorder *rec, zt_op op, const void *attrs, zt_tensor *const *inputs,
                         zt_tensor *const *outputs, bool into)
{
    const zt_opinfo *info = zt_op_info(op);
    const int donates = info->def->donates;
    int values[ZT_MAX_IN], made[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) {
        values[k] = inputs[k] ? value_of(rec, inputs[k], k < donates) : ZT_NONE;
        if (values[k] == -1) return zt_ctx_status(rec->ctx);
    }
    zt_status status = zt_prog_op(rec->prog, op, attrs, values, NULL, made);
    if (!status && into) overwritten(rec, outputs[0], OVERWRITTEN);
    for (int k = 0; k < info->n_out && !status; k++) {
        seen *from = k < donates ? find(rec, inputs[k]) : NULL, *old = find(rec, outputs[k]);
        int state = from ? from->state : -1;
        if (old) /* written again through zt_run_into */
            *old = (seen){old->tensor, made[k], state, HOLDS};
        else if (!remember(rec, outputs[k], made[k], state))
            status = zt_ctx_status(rec->ctx);
    }
    return status;
}

/* Each state keeps the last value that descends from it. */
static zt_status keep_states(zt_recorder *rec)
{
    for (size_t i = rec->n; i-- > 0;) {
        const seen *s = rec->list[i];
        if (s->state < 0 || s->value == s->state) continue;
        if (zt_prog_value(rec->prog, s->state)->keep >= 0) continue;
        zt_status status = zt_prog_keep(rec->prog, s->state, s->value);
        if (status) return status;
    }
    return ZT_OK;
}

zt_prog *zt_recorder_take(zt_recorder *rec, zt_tensor *const *outs, int n_outs)
{
    char name[32];
    if (zt_ctx_status(rec->ctx) || keep_states(rec)) return NULL;
    for (int i = 0; i < n_outs; i++) {
        int v = outs[i] ? value_of(rec, outs[i], false) : -1;
        snprintf(name, sizeof name, "out%d", i);
        if (v < 0 || zt_prog_out(rec->prog, name, v)) return NULL;
    }
    zt_prog *program = rec->prog;
    rec->prog = NULL;
    return program;
}

/* ---- frozen tensors -------------------------------------------------------------------------- */

/* The tensor of data value v: what it holds must still be that. */
static zt_tensor *frozen(const zt_recorder *rec, int v)
{
    for (size_t i = 0; i < rec->n; i++)
        if (rec->list[i]->value == v && rec->list[i]->fate == HOLDS) return rec->list[i]->tensor;
    zt_fail(rec->ctx, ZT_EUSAGE, "frozen tensor '%s' was written over",
            zt_prog_value(rec->prog, v)->tensor);
    return NULL;
}

static zt_status put_frozen(const zt_recorder *rec, zt_writer *w, int n)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < n && !status; i++) {
        zt_tensor *tensor = frozen(rec, zt_prog_nth(rec->prog, ZT_VALUE_DATA, i));
        const void *data = tensor ? zt_tensor_data(tensor) : NULL;
        status = zt_ctx_status(rec->ctx);
        if (!status) status = zt_writer_put(w, data, zt_tensor_bytes(tensor));
    }
    return status;
}

zt_status zt_recorder_save(const zt_recorder *rec, const char *path, bool force)
{
    int n = zt_prog_count(rec->prog, ZT_VALUE_DATA);
    zt_checkpoint_opts o = {.force = force};
    zt_entry *e = zt_calloc(rec->ctx, (size_t)n + 1, sizeof *e);
    zt_meta *meta = zt_meta_new(rec->ctx);
    for (int i = 0; e && i < n; i++) {
        const zt_value *value = zt_prog_value(rec->prog, zt_prog_nth(rec->prog, ZT_VALUE_DATA, i));
        e[i] = (zt_entry){value->tensor, zt_dtype_get(value->type.dtype)->name, value->type,
                          zt_type_bytes(&value->type)};
    }
    zt_writer *w = e && meta ? zt_writer_open(rec->ctx, path, &o, meta, e, n) : NULL;
    zt_status status = w ? put_frozen(rec, w, n) : zt_ctx_status(rec->ctx);
    if (!status) status = zt_writer_commit(w);
    zt_writer_close(w);
    zt_meta_free(meta);
    zt_free(rec->ctx, e);
    return status;
}

/* ---- looking back ---------------------------------------------------------------------------- */

const zt_prog *zt_recorder_prog(const zt_recorder *rec) { return rec->prog; }

int zt_recorder_value(const zt_recorder *rec, const zt_tensor *tensor)
{
    const seen *s = find(rec, tensor);
    return s && s->fate == HOLDS ? s->value : -1;
}

void zt_recorder_tensors(const zt_recorder *rec, zt_tensor **tensor)
{
    for (int v = 0; v < zt_prog_n_values(rec->prog); v++) tensor[v] = NULL;
    for (size_t i = 0; i < rec->n; i++)
        if (rec->list[i]->fate == HOLDS) tensor[rec->list[i]->value] = rec->list[i]->tensor;
}

bool zt_recorder_lost(const zt_recorder *rec, const zt_tensor *tensor, const int *among)
{
    for (size_t i = 0; i < rec->n; i++) {
        const seen *s = rec->list[i];
        if (s->tensor == tensor && s->fate != HOLDS && among[s->value] >= 0) return true;
    }
    return false;
}
