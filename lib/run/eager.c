/* eager.c - eager ops: every op that is run by itself passes zt_run_op.
 *
 * check arity, dtype, shape; place the outputs; fault point; kernel; record; counters. An op is a
 * schedule of one step, kept prepared in a bounded cache keyed by op, attributes and types. A
 * donating op gets a copy of the tensor it uses up: eager tensors are values, they do not change.
 */
#include "lib/base/require.h"
#include "lib/run/eager.h"

#include <stdlib.h>
#include <string.h>

struct zt_entry {
    zt_op op;
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8];
    zt_arena *texts; /* of attributes that are strings; NULL: there are none */
    zt_type in[ZT_MAX_IN], out[ZT_MAX_OUT];
    bool has_input[ZT_MAX_IN];
    bool may_run_ahead;     /* where its engine can run ahead, it shall */
    bool past_first_engine; /* the first engine has no memory for it */
    zt_engine *engine;
    zt_executable *executable;
    zt_ebuf *donated[ZT_MAX_DONATED]; /* where inputs that are used up go to be updated */
    uint64_t used;
    bool fell_back;
};
typedef zt_entry entry;

/* ---- scopes ---------------------------------------------------------------------------------- */

zt_status zt_run_grow(zt_ctx *ctx, void *array, size_t count, size_t *capacity, size_t size)
{
    void **slot = array;
    if (count < *capacity) return ZT_OK;
    size_t want = *capacity ? *capacity * 2 : 16;
    void *grown = zt_realloc(ctx, *slot, want * size);
    if (!grown) return ZT_ENOMEM;
    *slot = grown;
    *capacity = want;
    return ZT_OK;
}

void zt_scope_begin(zt_run *run)
{
    if (!run) return;
    if (run->unopened || zt_run_grow(run->ctx, &run->scope, run->n_scopes, &run->cap_scopes, sizeof *run->scope))
        run->unopened++;
    else
        run->scope[run->n_scopes++] = run->n_kept;
}

void zt_scope_end(zt_run *run)
{
    if (!run) return;
    if (run->unopened > 0) {
        run->unopened--;
        return;
    }
    size_t floor = run->n_scopes ? run->scope[--run->n_scopes] : 0;
    while (run->n_kept > floor) zt_tensor_unref(run->kept[--run->n_kept]);
}

zt_status zt_run_take(zt_run *run, zt_tensor *tensor)
{
    if (!tensor) return zt_ctx_status(run->ctx);
    if (zt_run_grow(run->ctx, &run->kept, run->n_kept, &run->cap_kept, sizeof *run->kept)) {
        zt_tensor_unref(tensor);
        return ZT_ENOMEM;
    }
    run->kept[run->n_kept++] = tensor;
    return ZT_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

zt_run *zt_run_new(zt_engine *engine, bool strict)
{
    if (!engine) return NULL;
    zt_run *run = zt_calloc(engine->ctx, 1, sizeof *run);
    if (!run) return NULL;
    run->ctx = engine->ctx;
    run->strict = strict;
    zt_chain_init(&run->chain, engine);
    return run;
}

static void entry_free(zt_run *run, entry *cached)
{
    if (!cached) return;
    if (cached->executable) cached->engine->vt->unprepare(cached->engine, cached->executable);
    for (int k = 0; k < ZT_MAX_DONATED; k++)
        if (cached->donated[k]) cached->engine->vt->free(cached->engine, cached->donated[k]);
    zt_arena_free(cached->texts);
    zt_free(run->ctx, cached);
}

void zt_run_free(zt_run *run)
{
    if (!run) return;
    run->n_scopes = run->unopened = 0;
    zt_scope_end(run);
    for (size_t i = 0; i < run->n_leaves; i++) {
        zt_tensor_unref(run->leaves[i].tensor);
        zt_tensor_unref(run->leaves[i].gradient);
    }
    zt_recorder_free(run->recorder);
    zt_tensor_unref(run->into);
    zt_eager_async_bring(run);
    zt_run_sync(run);
    for (int i = 0; i < ZT_MAX_CACHED; i++) entry_free(run, run->cache[i]);
    zt_chain_fini(&run->chain);
    zt_free(run->ctx, run->leaves);
    zt_free(run->ctx, run->kept);
    zt_free(run->ctx, run->scope);
    zt_free(run->ctx, run);
}

void zt_run_into(zt_run *run, zt_tensor *dst)
{
    if (!run) return;
    zt_tensor_unref(run->into);
    run->into = dst ? zt_tensor_ref(dst) : NULL;
}

void zt_run_fail(zt_run *run, uint64_t nth, bool onwards)
{
    if (!run) return;
    run->fault = (zt_fault){.at = ZT_FAULT_KERNEL, .nth = nth, .onwards = onwards};
}

void zt_run_fault(zt_run *run, const zt_fault *fault)
{
    if (!run) return;
    run->fault = fault ? *fault : (zt_fault){0};
}

uint64_t zt_run_count(const zt_run *run, zt_op op) { return run && (unsigned)op < ZT_OP_COUNT ? run->count[op] : 0; }
uint64_t zt_run_fallbacks(const zt_run *run) { return run ? run->fallbacks : 0; }

/* ---- one op, prepared ------------------------------------------------------------------------ */

static bool runs_ahead(const entry *cached) { return cached->may_run_ahead && cached->engine->vt->enqueue; }

static int donated_count(zt_op op) { return zt_op_info(op)->def->donates; }

static zt_status entry_prepare(zt_run *run, entry *cached)
{
    const zt_opinfo *op_info = zt_op_info(cached->op);
    zt_type type[ZT_MAX_IN + ZT_MAX_OUT];
    zt_place place[ZT_MAX_IN + ZT_MAX_OUT];
    zt_step step = {.op = cached->op, .attrs = cached->attrs};
    int n_in = 0, n_out = 0;
    memset(place, 0, sizeof place);
    for (int input = 0; input < op_info->n_in; input++) {
        step.in[input] = cached->has_input[input] ? input : ZT_NONE;
        type[input] = cached->in[input];
        if (!cached->has_input[input] || input < donated_count(cached->op)) continue;
        place[input] = (zt_place){.kind = ZT_PLACE_IN, .index = n_in++};
    }
    for (int output = 0; output < op_info->n_out; output++) {
        step.out[output] = ZT_MAX_IN + output;
        type[ZT_MAX_IN + output] = cached->out[output];
        if (output < donated_count(cached->op)) continue;
        place[ZT_MAX_IN + output] = (zt_place){.kind = ZT_PLACE_OUT, .index = n_out++};
    }
    for (int input = op_info->n_in; input < ZT_MAX_IN; input++) type[input] = zt_type_make(ZT_F32, 0, NULL);
    for (int donated = 0; donated < donated_count(cached->op); donated++) {
        place[donated] = place[ZT_MAX_IN + donated] = (zt_place){.kind = ZT_PLACE_BUF, .index = donated};
        cached->donated[donated] = cached->engine->vt->alloc(cached->engine, &cached->in[donated]);
        if (!cached->donated[donated]) return zt_ctx_status(run->ctx);
    }
    zt_run_schedule schedule = {.n_values = ZT_MAX_IN + op_info->n_out,
                                .type = type,
                                .place = place,
                                .n_steps = 1,
                                .step = &step,
                                .n_in = n_in,
                                .n_out = n_out,
                                .n_bufs = donated_count(cached->op),
                                .buf = cached->donated,
                                .queued = runs_ahead(cached)};
    cached->executable = cached->engine->vt->prepare(cached->engine, &schedule);
    return cached->executable ? ZT_OK : zt_ctx_status(run->ctx);
}

static bool entry_matches(const entry *cached, const entry *key)
{
    const zt_opinfo *op_info = zt_op_info(key->op);
    if (cached->op != key->op || cached->may_run_ahead != key->may_run_ahead ||
        cached->past_first_engine != key->past_first_engine)
        return false;
    if (!zt_attrs_same(key->op, cached->attrs, key->attrs)) return false;
    for (int input = 0; input < op_info->n_in; input++) {
        if (cached->has_input[input] != key->has_input[input]) return false;
        if (key->has_input[input] && !zt_type_equal(&cached->in[input], &key->in[input])) return false;
    }
    return true;
}

/* Strings are the caller's: the entry takes its own. */
static zt_status own_texts(zt_run *run, entry *cached)
{
    const zt_opinfo *op_info = zt_op_info(cached->op);
    bool any = false;
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) any |= op_info->attrs[attr_index].kind == ZT_ATTR_str;
    if (!any) return ZT_OK;
    cached->texts = zt_arena_new(run->ctx, 0);
    const void *own = cached->texts ? zt_op_attrs_copy(cached->texts, cached->op, cached->attrs) : NULL;
    if (own) memcpy(cached->attrs, own, op_info->attr_bytes);
    return own ? ZT_OK : ZT_ENOMEM;
}

static entry *get_entry(zt_run *run, const entry *key)
{
    int oldest = 0;
    for (int i = 0; i < ZT_MAX_CACHED; i++) {
        if (run->cache[i] && entry_matches(run->cache[i], key)) return run->cache[i];
        if (!run->cache[i] || (run->cache[oldest] && run->cache[i]->used < run->cache[oldest]->used)) oldest = i;
    }
    const zt_type *input_types[ZT_MAX_IN];
    for (int input = 0; input < ZT_MAX_IN; input++) input_types[input] = key->has_input[input] ? &key->in[input] : NULL;
    run->chain.skip_first = key->past_first_engine;
    int engine_index = zt_chain_pick(&run->chain, run->strict, key->op, key->attrs, input_types, key->out);
    run->chain.skip_first = false;
    entry *cached = engine_index < 0 ? NULL : zt_alloc(run->ctx, sizeof *cached);
    if (!cached) return NULL;
    *cached = *key;
    cached->engine = run->chain.engines[engine_index];
    cached->fell_back = engine_index > 0;
    if (own_texts(run, cached) || entry_prepare(run, cached)) {
        entry_free(run, cached);
        return NULL;
    }
    entry_free(run, run->cache[oldest]);
    return run->cache[oldest] = cached;
}

/* ---- outputs --------------------------------------------------------------------------------- */

bool zt_shares_bytes(const zt_tensor *first, const zt_tensor *second)
{
    uintptr_t first_address = (uintptr_t)zt_tensor_address(first), second_address = (uintptr_t)zt_tensor_address(second);
    return first_address < second_address + zt_tensor_bytes(second) && second_address < first_address + zt_tensor_bytes(first);
}

/* May `dst` be the first output? Its type must match; an input may lie under it only where the op
 * works in place on the whole of it. */
static zt_status check_into(zt_run *run, const entry *key, zt_tensor *const *inputs, const zt_tensor *dst)
{
    const zt_opinfo *op_info = zt_op_info(key->op);
    char want[ZT_TYPE_TEXT], has[ZT_TYPE_TEXT];
    if (!zt_type_equal(zt_tensor_type(dst), &key->out[0]))
        return zt_fail(run->ctx, ZT_ESHAPE, "op %s: dst has type %s, but the output has type %s", op_info->name,
                       zt_type_text(zt_tensor_type(dst), has), zt_type_text(&key->out[0], want));
    for (int input = 0; input < op_info->n_in; input++) {
        if (!inputs[input] || !zt_shares_bytes(inputs[input], dst)) continue;
        bool whole = zt_tensor_address(inputs[input]) == zt_tensor_address(dst) &&
                     zt_type_equal(zt_tensor_type(inputs[input]), zt_tensor_type(dst));
        if (!whole || !(op_info->def->flags & ZT_OPF_INPLACE || input < donated_count(key->op)))
            return zt_fail(run->ctx, ZT_EUSAGE, "op %s: dst shares memory with input %s", op_info->name, op_info->in_name[input]);
    }
    return ZT_OK;
}

static zt_tensor *place_output(zt_run *run, const entry *key, int k, zt_tensor *const *inputs)
{
    if (k > 0 || !run->into) return zt_tensor_new(run->ctx, &key->out[k]);
    return check_into(run, key, inputs, run->into) ? NULL : zt_tensor_ref(run->into);
}

/* ---- one op ---------------------------------------------------------------------------------- */

static zt_status check_call(zt_run *run, zt_op op, const void *attrs, zt_tensor *const *inputs, entry *key)
{
    const zt_opinfo *op_info = zt_op_info(op);
    const zt_type *types[ZT_MAX_IN] = {0};
    memset(key, 0, sizeof *key);
    key->op = op;
    key->may_run_ahead = !run->eager && !run->into && !donated_count(op);
    memcpy(key->attrs, attrs ? attrs : op_info->defaults, op_info->attr_bytes);
    for (int input = 0; input < op_info->n_in; input++) {
        if (!inputs[input] && input < op_info->def->n_required)
            return zt_fail(run->ctx, ZT_EUSAGE, "op %s: missing input %s", op_info->name, op_info->in_name[input]);
        key->has_input[input] = inputs[input] != NULL;
        if (inputs[input]) key->in[input] = *(types[input] = zt_tensor_type(inputs[input]));
    }
    return zt_op_infer(run->ctx, op, key->attrs, types, key->out);
}

/* One event of an op: `tensor` is what it is about to allocate (NULL) or has written. */
static zt_status fault_point(zt_run *run, zt_fault_at event, zt_op op, const zt_tensor *tensor)
{
    static const zt_status fails_with[] = {ZT_ENOMEM, ZT_ESYS, ZT_ENOMEM, ZT_ESYS};
    const char *name = zt_op_info(op)->name;
    zt_fault *fault = &run->fault;
    if (fault->nth == 0 || fault->at != event || (fault->op && strcmp(fault->op, name))) return ZT_OK;
    if ((fault->dst && fault->dst != tensor) || --fault->nth > 0) return ZT_OK;
    if (fault->onwards) fault->nth = 1;
    return zt_fail(run->ctx, fails_with[event], "op %s: injected failure", name);
}

static zt_status report_written(zt_run *run, zt_op op, zt_tensor *const *made)
{
    zt_status status = ZT_OK;
    for (int output = 0; output < zt_op_info(op)->n_out && !status; output++)
        status = fault_point(run, ZT_FAULT_OUTPUT, op, made[output]);
    return status;
}

void zt_run_metrics(zt_ctx *ctx, zt_op op, const zt_type *output_types, bool fell_back)
{
    const zt_opinfo *op_info = zt_op_info(op);
    uint64_t bytes = 0;
    for (int output = 0; output < op_info->n_out; output++) bytes += zt_type_bytes(&output_types[output]);
    zt_count(ctx, "op", op_info->name, 1);
    zt_count(ctx, "bytes", op_info->name, bytes);
    if (fell_back) zt_count(ctx, "fallback", op_info->name, 1);
}

static zt_status run_entry(zt_run *run, const entry *key, zt_tensor *const *inputs, zt_tensor *const *outputs)
{
    const zt_opinfo *op_info = zt_op_info(key->op);
    entry *cached = get_entry(run, key);
    const void *from[ZT_MAX_IN];
    void *output_bytes[ZT_MAX_OUT];
    int n_in = 0, n_out = 0, first = donated_count(key->op);
    if (!cached) return zt_ctx_status(run->ctx);
    cached->used = ++run->clock;
    run->fallbacks += cached->fell_back;
    if (runs_ahead(cached)) return zt_eager_async_op(run, cached->engine, cached->executable, op_info, inputs, outputs);
    for (int input = first; input < op_info->n_in; input++)
        if (inputs[input]) from[n_in++] = zt_tensor_data(inputs[input]);
    for (int output = first; output < op_info->n_out; output++) output_bytes[n_out++] = zt_tensor_data(outputs[output]);
    zt_engine *engine = cached->engine;
    zt_status status = ZT_OK;
    for (int k = 0; k < first && !status; k++) status = engine->vt->upload(engine, cached->donated[k], zt_tensor_data(inputs[k]));
    if (!status) status = engine->vt->replay(engine, cached->executable, from, output_bytes, NULL);
    for (int k = 0; k < first && !status; k++)
        status = engine->vt->download(engine, cached->donated[k], zt_tensor_data(outputs[k]));
    return status;
}

static zt_status run_kernel(zt_run *run, const entry *key, zt_tensor *const *inputs, zt_tensor *const *outputs)
{
    zt_status status = run_entry(run, key, inputs, outputs);
    if (!status || !zt_chain_spill(&run->chain, run->strict, status, zt_op_info(key->op)->name)) return status;
    entry past = *key;
    past.past_first_engine = true;
    return run_entry(run, &past, inputs, outputs);
}

static zt_status record_call(zt_run *run, const entry *key, zt_tensor *const *inputs, zt_tensor *const *made)
{
    if (run->paused == 0) return zt_recorder_op(run->recorder, key->op, key->attrs, inputs, made, run->into != NULL);
    if (run->into) zt_recorder_wrote(run->recorder, run->into);
    return ZT_OK;
}

zt_status zt_run_op(zt_run *run, zt_op op, const void *attrs, zt_tensor *const *inputs, zt_tensor **outputs)
{
    if (!run) return ZT_EUSAGE;
    ZT_REQUIRE(run->ctx, inputs && outputs && zt_op_info(op), ZT_EUSAGE);
    const zt_opinfo *op_info = zt_op_info(op);
    bool view = op_info->def->flags & ZT_OPF_VIEW;
    entry key;
    zt_tensor *made[ZT_MAX_OUT] = {0};
    bool ran = false;
    uint64_t fallbacks = run->fallbacks;
    zt_status status = zt_ctx_status(run->ctx);
    for (int output = 0; output < op_info->n_out; output++) outputs[output] = NULL;
    if (!status) status = check_call(run, op, attrs, inputs, &key);
    for (int output = 0; output < op_info->n_out && !status; output++) {
        status = fault_point(run, ZT_FAULT_ALLOC, op, NULL);
        if (status) break;
        made[output] =
            view && !run->into ? zt_tensor_view(inputs[0], &key.out[output], 0) : place_output(run, &key, output, inputs);
        status = zt_run_take(run, made[output]);
    }
    if (!status) status = fault_point(run, ZT_FAULT_KERNEL, op, NULL);
    ran = status == ZT_OK;
    if (!status && view && run->into) memmove(zt_tensor_data(made[0]), zt_tensor_data(inputs[0]), zt_tensor_bytes(made[0]));
    if (!status && !view) status = run_kernel(run, &key, inputs, made);
    if (!status) status = report_written(run, op, made);
    if (!status && run->recorder) status = record_call(run, &key, inputs, made);
    if (status && ran && run->recorder && run->into) zt_recorder_wrote(run->recorder, run->into);
    zt_run_into(run, NULL);
    if (status) return status;
    run->count[op]++;
    if (zt_metrics_on(run->ctx)) zt_run_metrics(run->ctx, op, key.out, run->fallbacks > fallbacks);
    for (int output = 0; output < op_info->n_out; output++) outputs[output] = made[output];
    return ZT_OK;
}

/* ---- recording ------------------------------------------------------------------------------- */

zt_status zt_record_begin(zt_run *run)
{
    if (!run) return ZT_EUSAGE;
    if (run->recorder) return zt_fail(run->ctx, ZT_EUSAGE, "recording has already started");
    run->recorder = zt_recorder_new(run->ctx);
    return run->recorder ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_record_clear(zt_run *run)
{
    if (!run) return ZT_EUSAGE;
    if (!run->recorder) return zt_fail(run->ctx, ZT_EUSAGE, "recording has not started");
    zt_recorder *fresh = zt_recorder_new(run->ctx);
    if (!fresh) return ZT_ENOMEM;
    zt_recorder_free(run->recorder);
    run->recorder = fresh;
    return ZT_OK;
}

int zt_record_steps(const zt_run *run)
{
    return run ? (run->recorder ? zt_prog_n_steps(zt_recorder_prog(run->recorder)) : -1) : -1;
}

const zt_prog *zt_record_prog(const zt_run *run) { return run ? (run->recorder ? zt_recorder_prog(run->recorder) : NULL) : NULL; }

int zt_record_slot(const zt_run *run, const zt_tensor *tensor)
{
    return run ? (run->recorder ? zt_recorder_value(run->recorder, tensor) : -1) : -1;
}

zt_status zt_record_freeze(zt_run *run, zt_tensor *frozen, const char *name)
{
    if (!run) return ZT_EUSAGE;
    if (run->recorder) return zt_recorder_freeze(run->recorder, frozen, name);
    return zt_fail(run->ctx, ZT_EUSAGE, "recording has not started");
}

zt_status zt_record_save(const zt_run *run, const char *path, bool force)
{
    if (!run) return ZT_EUSAGE;
    ZT_REQUIRE(run->ctx, path, ZT_EUSAGE);
    if (run->recorder) return zt_recorder_save(run->recorder, path, force);
    return zt_fail(run->ctx, ZT_EUSAGE, "recording has not started");
}

void zt_record_pause(zt_run *run)
{
    if (!run) return;
    run->paused++;
}
void zt_record_resume(zt_run *run)
{
    if (!run) return;
    run->paused -= run->paused > 0;
}

zt_prog *zt_record_end(zt_run *run, zt_tensor *const *outs, int n_outs)
{
    if (!run) return NULL;
    if (!run->recorder) {
        zt_fail(run->ctx, ZT_EUSAGE, "recording has not started");
        return NULL;
    }
    zt_prog *program = zt_recorder_take(run->recorder, outs, n_outs);
    zt_recorder_free(run->recorder);
    run->recorder = NULL;
    return program;
}
