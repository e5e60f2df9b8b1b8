/* interpreter.c - a program run one op at a time: each step a one-step schedule on host values. */
#include "lib/base/require.h"
#include "lib/run/interpreter.h"

#include "lib/run/partition.h"

#include <stdio.h>
#include <string.h>

struct zt_interpreter {
    zt_ctx *ctx;
    zt_chain chain;
    const zt_prog *program;
    zt_store store;
    zt_bound *bound;
    bool strict;
    void **values;             /* [n_values]: host memory, NULL: not there yet */
    const char **engine_names; /* [n_steps] */
    int fallbacks;
};

/* ---- values ---------------------------------------------------------------------------------- */

static void *alloc_value(zt_interpreter *interpreter, int value_id)
{
    if (!interpreter->values[value_id])
        interpreter->values[value_id] = zt_calloc(interpreter->ctx, 1, zt_type_bytes(&interpreter->bound->type[value_id]) + 1);
    return interpreter->values[value_id];
}

static zt_status check_value(const zt_interpreter *interpreter, int value_id)
{
    if (value_id >= 0 && value_id < interpreter->bound->n_values) return ZT_OK;
    return zt_fail(interpreter->ctx, ZT_EUSAGE, "value %d is not in the program", value_id);
}

zt_status zt_interpreter_put(zt_interpreter *interpreter, int value_id, const void *bytes)
{
    if (!interpreter) return ZT_EUSAGE;
    ZT_REQUIRE(interpreter->ctx, bytes, ZT_EUSAGE);
    zt_status status = check_value(interpreter, value_id);
    if (status) return status;
    if (zt_prog_value(interpreter->program, value_id)->kind == ZT_VALUE_DATA)
        return zt_fail(interpreter->ctx, ZT_EUSAGE, "'%s' is data and comes from the store",
                       zt_prog_value(interpreter->program, value_id)->name);
    if (!alloc_value(interpreter, value_id)) return ZT_ENOMEM;
    memcpy(interpreter->values[value_id], bytes, zt_type_bytes(&interpreter->bound->type[value_id]));
    return ZT_OK;
}

static void *read_data(zt_interpreter *interpreter, int value_id)
{
    int64_t handle;
    const zt_type *type = &interpreter->bound->type[value_id];
    const char *tensor = zt_prog_value(interpreter->program, value_id)->tensor;
    zt_status status = alloc_value(interpreter, value_id) ? ZT_OK : ZT_ENOMEM;
    if (!status && zt_is_derived(tensor))
        status = zt_constant_data_read(interpreter->chain.engines[0], tensor, type, &interpreter->store,
                                       interpreter->values[value_id]);
    else if (!status) {
        status = zt_store_weight(interpreter->ctx, &interpreter->store, tensor, type, &handle);
        if (!status)
            status =
                interpreter->store.read(interpreter->store.user, handle, 0, interpreter->values[value_id], zt_type_bytes(type));
    }
    if (!status) return interpreter->values[value_id];
    zt_free(interpreter->ctx, interpreter->values[value_id]);
    return interpreter->values[value_id] = NULL;
}

const void *zt_interpreter_get(zt_interpreter *interpreter, int value_id)
{
    if (!interpreter) return NULL;
    if (check_value(interpreter, value_id)) return NULL;
    if (interpreter->values[value_id]) return interpreter->values[value_id];
    const zt_value *value = zt_prog_value(interpreter->program, value_id);
    if (value->kind == ZT_VALUE_DATA) return read_data(interpreter, value_id);
    if (value->kind == ZT_VALUE_STATE) return alloc_value(interpreter, value_id);
    zt_fail(interpreter->ctx, ZT_EUSAGE, value->kind == ZT_VALUE_IN ? "no value for input '%s'" : "'%s' is not computed yet",
            value->name);
    return NULL;
}

bool zt_interpreter_has(const zt_interpreter *interpreter, int value_id)
{
    if (!interpreter) return false;
    if (value_id < 0 || value_id >= interpreter->bound->n_values) return false;
    zt_value_kind kind = zt_prog_value(interpreter->program, value_id)->kind;
    return interpreter->values[value_id] || kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE;
}

/* ---- one step -------------------------------------------------------------------------------- */

/* A schedule's operands, inputs first; a value that is given twice is one operand. */
enum { MAX_OPERANDS = ZT_MAX_IN + ZT_MAX_OUT };

typedef struct single_step {
    zt_engine *engine;
    zt_type types[MAX_OPERANDS];
    zt_place places[MAX_OPERANDS];
    int value_ids[MAX_OPERANDS]; /* the program's number */
    int operand_count;
    zt_step step;
    const void *inputs[MAX_OPERANDS];
    void *outputs[MAX_OPERANDS];
    zt_ebuf *buffers[MAX_OPERANDS];
    zt_run_schedule schedule;
} single_step;

static bool is_donated(const zt_step *step, int k) { return k < zt_op_info(step->op)->def->donates; }

/* Bytes that an op uses up, in a buffer of their own. */
static zt_ebuf *upload_copy(zt_interpreter *interpreter, zt_engine *engine, int value_id)
{
    const void *bytes = zt_interpreter_get(interpreter, value_id);
    zt_ebuf *buffer = bytes ? engine->vt->alloc(engine, &interpreter->bound->type[value_id]) : NULL;
    if (!buffer || engine->vt->upload(engine, buffer, bytes) == ZT_OK) return buffer;
    engine->vt->free(engine, buffer);
    return NULL;
}

static zt_ebuf *load_data(zt_interpreter *interpreter, zt_engine *engine, int value_id)
{
    int64_t handle;
    const zt_type *type = &interpreter->bound->type[value_id];
    const char *tensor = zt_prog_value(interpreter->program, value_id)->tensor;
    if (zt_is_derived(tensor)) return zt_constant_data_load(engine, tensor, type, &interpreter->store);
    if (zt_store_weight(interpreter->ctx, &interpreter->store, tensor, type, &handle)) return NULL;
    return engine->vt->load(engine, type, &interpreter->store, handle);
}

/* Operand number of input k, with its place. */
static zt_status add_input(zt_interpreter *interpreter, single_step *single, const zt_step *step, int k)
{
    int value_id = step->in[k], operand = 0;
    single->step.in[k] = ZT_NONE;
    if (value_id < 0) return ZT_OK;
    while (operand < single->operand_count && single->value_ids[operand] != value_id) operand++;
    single->step.in[k] = operand;
    if (operand < single->operand_count) return ZT_OK;
    single->value_ids[single->operand_count] = value_id;
    single->types[single->operand_count] = interpreter->bound->type[value_id];
    zt_place *place = &single->places[single->operand_count++];
    if (is_donated(step, k) || zt_prog_value(interpreter->program, value_id)->kind == ZT_VALUE_DATA) {
        zt_ebuf *buffer = is_donated(step, k) ? upload_copy(interpreter, single->engine, value_id)
                                              : load_data(interpreter, single->engine, value_id);
        if (!buffer) return zt_ctx_status(interpreter->ctx) ? zt_ctx_status(interpreter->ctx) : ZT_ENOMEM;
        *place = (zt_place){.kind = ZT_PLACE_BUF, .index = single->schedule.n_bufs};
        single->buffers[single->schedule.n_bufs++] = buffer;
        return ZT_OK;
    }
    *place = (zt_place){.kind = ZT_PLACE_IN, .index = single->schedule.n_in};
    single->inputs[single->schedule.n_in++] = zt_interpreter_get(interpreter, value_id);
    return single->inputs[single->schedule.n_in - 1] ? ZT_OK : zt_ctx_status(interpreter->ctx);
}

static zt_status add_output(zt_interpreter *interpreter, single_step *single, const zt_step *step, int k)
{
    int value_id = step->out[k];
    single->step.out[k] = value_id < 0 ? ZT_NONE : single->operand_count;
    if (value_id < 0) return ZT_OK;
    if (!alloc_value(interpreter, value_id)) return ZT_ENOMEM;
    single->value_ids[single->operand_count] = value_id;
    single->types[single->operand_count] = interpreter->bound->type[value_id];
    zt_place *place = &single->places[single->operand_count++];
    if (is_donated(step, k)) {
        *place = single->places[single->step.in[k]];
        return ZT_OK;
    }
    *place = (zt_place){.kind = ZT_PLACE_OUT, .index = single->schedule.n_out};
    single->outputs[single->schedule.n_out++] = interpreter->values[value_id];
    return ZT_OK;
}

/* What used-up values became, back to the host. */
static zt_status fetch_donated(zt_interpreter *interpreter, const single_step *single)
{
    zt_status status = ZT_OK;
    for (int output = 0; output < ZT_MAX_OUT && !status; output++) {
        int i = single->step.out[output];
        if (output < zt_op_info(single->step.op)->n_out && i >= 0 && single->places[i].kind == ZT_PLACE_BUF)
            status = single->engine->vt->download(single->engine, single->buffers[single->places[i].index],
                                                  interpreter->values[single->value_ids[i]]);
    }
    return status;
}

static zt_status run_single(zt_interpreter *interpreter, single_step *single, const zt_step *step)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    zt_engine *engine = single->engine;
    zt_status status = ZT_OK;
    for (int input = 0; input < op_info->n_in && !status; input++) status = add_input(interpreter, single, step, input);
    for (int output = 0; output < op_info->n_out && !status; output++) status = add_output(interpreter, single, step, output);
    if (status) return status;
    single->schedule.n_values = single->operand_count;
    single->schedule.type = single->types;
    single->schedule.place = single->places;
    single->schedule.n_steps = 1;
    single->schedule.step = &single->step;
    single->schedule.buf = single->buffers;
    zt_executable *executable = engine->vt->prepare(engine, &single->schedule);
    if (!executable) return zt_ctx_status(interpreter->ctx);
    status = engine->vt->replay(engine, executable, single->inputs, single->outputs, NULL);
    if (!status) status = fetch_donated(interpreter, single);
    engine->vt->unprepare(engine, executable);
    return status;
}

/* The engine of the chain that has a kernel for the step. */
static zt_engine *pick_engine(zt_interpreter *interpreter, int step_index, const zt_step *step)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type output_types[ZT_MAX_OUT] = {0};
    for (int input = 0; input < op_info->n_in; input++)
        input_types[input] = step->in[input] < 0 ? NULL : &interpreter->bound->type[step->in[input]];
    if (zt_op_infer(interpreter->ctx, step->op, interpreter->bound->attrs[step_index], input_types, output_types)) return NULL;
    int i = zt_chain_pick(&interpreter->chain, interpreter->strict, step->op, interpreter->bound->attrs[step_index], input_types,
                          output_types);
    if (i < 0) return NULL;
    interpreter->engine_names[step_index] = interpreter->chain.names[i];
    interpreter->fallbacks += i > 0;
    return interpreter->chain.engines[i];
}

/* A view has its input's bytes. */
static zt_status copy_view(zt_interpreter *interpreter, const zt_step *step)
{
    const void *bytes = zt_interpreter_get(interpreter, step->in[0]);
    return bytes ? zt_interpreter_put(interpreter, step->out[0], bytes) : zt_ctx_status(interpreter->ctx);
}

static zt_status run_step(zt_interpreter *interpreter, int step_index)
{
    const zt_step *step = zt_prog_step(interpreter->program, step_index);
    single_step single = {.step = {.op = step->op, .attrs = interpreter->bound->attrs[step_index]}};
    if (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW) return copy_view(interpreter, step);
    single.engine = pick_engine(interpreter, step_index, step);
    zt_status bad = single.engine ? run_single(interpreter, &single, step) : zt_ctx_status(interpreter->ctx);
    for (int i = 0; i < single.schedule.n_bufs; i++) single.engine->vt->free(single.engine, single.buffers[i]);
    return bad;
}

zt_status zt_interpreter_step(zt_interpreter *interpreter, int step_index)
{
    if (!interpreter) return ZT_EUSAGE;
    char why[1024];
    if (step_index < 0 || step_index >= interpreter->bound->n_steps)
        return zt_fail(interpreter->ctx, ZT_EUSAGE, "step %d is not in the program", step_index);
    if (zt_ctx_status(interpreter->ctx)) return zt_ctx_status(interpreter->ctx);
    zt_status bad = run_step(interpreter, step_index);
    if (!bad) return ZT_OK;
    snprintf(why, sizeof why, "%s", zt_ctx_error(interpreter->ctx));
    zt_ctx_clear(interpreter->ctx);
    return zt_fail(interpreter->ctx, bad, "step %d, '%s': %s", step_index,
                   zt_prog_value(interpreter->program, zt_prog_step(interpreter->program, step_index)->out[0])->name, why);
}

/* ---- open and close -------------------------------------------------------------------------- */

zt_interpreter *zt_interpreter_open(zt_engine *engine, const zt_prog *program, const zt_store *store, const zt_binding *bindings,
                                    int binding_count, bool strict)
{
    if (!engine) return NULL;
    ZT_REQUIRE(engine->ctx, program, NULL);
    zt_interpreter *interpreter = zt_calloc(engine->ctx, 1, sizeof *interpreter);
    if (!interpreter) return NULL;
    interpreter->ctx = engine->ctx;
    interpreter->program = program;
    interpreter->strict = strict;
    if (store) interpreter->store = *store;
    zt_chain_init(&interpreter->chain, engine);
    interpreter->bound = zt_prog_bind(program, bindings, binding_count);
    if (interpreter->bound) {
        interpreter->values = zt_calloc(interpreter->ctx, (size_t)interpreter->bound->n_values + 1, sizeof *interpreter->values);
        interpreter->engine_names =
            zt_calloc(interpreter->ctx, (size_t)interpreter->bound->n_steps + 1, sizeof *interpreter->engine_names);
    }
    if (interpreter->values && interpreter->engine_names) return interpreter;
    zt_interpreter_close(interpreter);
    return NULL;
}

void zt_interpreter_close(zt_interpreter *interpreter)
{
    if (!interpreter) return;
    for (int value_id = 0; interpreter->values && value_id < interpreter->bound->n_values; value_id++)
        zt_free(interpreter->ctx, interpreter->values[value_id]);
    zt_free(interpreter->ctx, interpreter->values);
    zt_free(interpreter->ctx, interpreter->engine_names);
    zt_bound_free(interpreter->bound);
    zt_chain_fini(&interpreter->chain);
    zt_free(interpreter->ctx, interpreter);
}

zt_ctx *zt_interpreter_ctx(const zt_interpreter *interpreter) { return interpreter ? interpreter->ctx : NULL; }
const zt_prog *zt_interpreter_prog(const zt_interpreter *interpreter) { return interpreter ? interpreter->program : NULL; }
const zt_bound *zt_interpreter_bound(const zt_interpreter *interpreter) { return interpreter ? interpreter->bound : NULL; }

const char *zt_interpreter_engine(const zt_interpreter *interpreter, int step_index)
{
    if (!interpreter) return NULL;
    return step_index >= 0 && step_index < interpreter->bound->n_steps && interpreter->engine_names[step_index]
               ? interpreter->engine_names[step_index]
               : "";
}

int zt_interpreter_fallbacks(const zt_interpreter *interpreter) { return interpreter ? interpreter->fallbacks : 0; }
