/* prepare.c - from a schedule to tasks, which replay.c captures as one graph.
 *
 * Each step's `emit` runs once with `sizing` set and with addresses that are not used: so it is known
 * which kernels, scratch memory and tables all steps need. These are made here; a replay allocates nothing.
 */
#include "lib/engine/cuda/persistent_kernel.h"

#include <string.h>

enum { ALIGN = 256 };

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- memory of the executable ---------------------------------------------------------------- */

static zt_status lay_out(zt_cu_engine *engine, zt_executable *executable, zt_place_kind kind, int count, zt_layout *layout,
                         size_t *total)
{
    return zt_run_schedule_lay_out(engine->base.ctx, executable->memory, &executable->schedule, kind, count, ALIGN, layout,
                                   total);
}

static zt_status want_arena(zt_cu_engine *engine, size_t bytes)
{
    if (engine->arena.address && bytes <= engine->arena.bytes) return ZT_OK;
    zt_cu_mem fresh;
    zt_status status = zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, bytes, &fresh);
    if (status) return status;
    zt_cu_release(engine, &engine->arena); /* nothing lives there between steps of the stream */
    engine->arena = fresh;
    engine->moved++;
    return ZT_OK;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Where a value is; 0: nowhere. */
static zt_cu_ptr address_of(const zt_cu_engine *engine, const zt_executable *executable, int value_id, const zt_cu_where *where,
                            bool packed)
{
    if (value_id < 0) return 0;
    const zt_place *place = &executable->schedule.place[value_id];
    switch (place->kind) {
    case ZT_PLACE_ARENA: return engine->arena.address + place->offset;
    case ZT_PLACE_IN:
        return where->inputs ? where->inputs[place->index]->memory.address
                             : executable->device.address + executable->inputs.at[place->index];
    case ZT_PLACE_OUT:
        return where->outputs ? where->outputs[place->index]->memory.address
                              : executable->device.address + executable->outputs.at[place->index];
    case ZT_PLACE_BUF: {
        const zt_ebuf *buffer = executable->schedule.buf[place->index];
        return buffer->pack && !packed ? buffer->plain.address : buffer->memory.address;
    }
    case ZT_PLACE_NOWHERE: break;
    }
    return 0;
}

static bool is_there(const zt_executable *executable, int value_id)
{
    return value_id >= 0 && executable->schedule.place[value_id].kind != ZT_PLACE_NOWHERE;
}

static const zt_ebuf *buffer_of(const zt_executable *executable, int value_id)
{
    bool in_buffer = value_id >= 0 && executable->schedule.place[value_id].kind == ZT_PLACE_BUF;
    return in_buffer ? executable->schedule.buf[executable->schedule.place[value_id].index] : NULL;
}

/* The call of a task, but for addresses: the same when it is sized and when it runs. */
static void describe_call(zt_cu_engine *engine, const zt_executable *executable, const zt_cu_task *task, zt_cu_call *call)
{
    const zt_step *step = &executable->schedule.step[task->step];
    const zt_opinfo *info = zt_op_info(step->op);
    *call = (zt_cu_call){.engine = engine, .op = step->op, .attrs = step->attrs};
    for (int input = 0; input < info->n_in; input++) {
        if (!is_there(executable, step->in[input])) continue;
        call->input_types[input] = &executable->schedule.type[step->in[input]];
        const zt_ebuf *buffer = buffer_of(executable, step->in[input]);
        if (task->packed[input]) call->packed[input] = buffer->pack;
        if (buffer && buffer->model) call->model |= 1u << input;
    }
    for (int output = 0; output < info->n_out; output++)
        if (is_there(executable, step->out[output])) call->output_types[output] = &executable->schedule.type[step->out[output]];
}

/* ---- a task run, or captured ----------------------------------------------------------------- */

zt_status zt_cu_run_task(zt_cu_engine *engine, const zt_executable *executable, int task_index, const zt_cu_where *where)
{
    const zt_cu_task *task = &executable->tasks[task_index];
    const zt_step *step = &executable->schedule.step[task->step];
    const zt_opinfo *info = zt_op_info(step->op);
    zt_status status = ZT_OK;
    zt_cu_call call;
    describe_call(engine, executable, task, &call);
    call.persistent = where->persistent;
    call.sizing = where->persistent && !where->persistent->captures;
    for (int output = 0; output < info->n_out; output++)
        call.outputs[output] = address_of(engine, executable, step->out[output], where, false);
    for (int input = 0; input < info->n_in; input++)
        call.inputs[input] = task->apart >> input & 1
                                 ? call.outputs[input]
                                 : address_of(engine, executable, step->in[input], where, task->packed[input]);
    for (int k = 0; k < zt_op_shares(step->op) && !status; k++)
        if (task->apart >> k & 1)
            status = zt_cu_move(&call, call.outputs[k], address_of(engine, executable, step->in[k], where, false),
                                zt_type_bytes(&executable->schedule.type[step->in[k]]));
    call.error = where->errors + (size_t)task_index * sizeof(zt_cu_runtime_error);
    call.scratch = engine->arena.address + round_up(executable->schedule.arena_bytes);
    call.tables = executable->tables.address;
    call.table_bytes = task->table_at;
    return status || !task->row ? status : task->row->emit(&call);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Input k in an engine's buffer: packed where the row reads that, else plain. */
static zt_status choose_form(zt_cu_engine *engine, const zt_executable *executable, zt_cu_task *task, int k, int value_id)
{
    zt_ebuf *buffer = (zt_ebuf *)(uintptr_t)buffer_of(executable, value_id);
    if (!buffer || !buffer->pack) return ZT_OK;
    task->packed[k] =
        task->row && task->row->weights >> k & 1 && zt_type_equal(&buffer->type, &executable->schedule.type[value_id]);
    return task->packed[k] ? ZT_OK : zt_cu_plain(engine, buffer);
}

static zt_status find_row(zt_cu_engine *engine, const zt_executable *executable, zt_cu_task *task)
{
    const zt_step *step = &executable->schedule.step[task->step];
    const zt_opinfo *info = zt_op_info(step->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {{0}};
    if (info->def->flags & ZT_OPF_VIEW) return ZT_OK;
    for (int input = 0; input < info->n_in; input++)
        input_types[input] = is_there(executable, step->in[input]) ? &executable->schedule.type[step->in[input]] : NULL;
    zt_status status = zt_op_infer(engine->base.ctx, step->op, step->attrs, input_types, out);
    if (!status) task->row = zt_cu_find(engine, step->op, step->attrs, input_types, out);
    if (status || task->row) return status;
    return zt_fail(engine->base.ctx, ZT_ENOTSUP, "op %s (step %d): engine %s has no kernel", info->name, task->step,
                   engine->base.vt->name);
}

/* What all steps need, gathered. */
static zt_status size_task(zt_cu_engine *engine, zt_executable *executable, zt_cu_task *task, zt_cu_call *all)
{
    zt_cu_call call;
    describe_call(engine, executable, task, &call);
    call.sizing = true;
    for (int input = 0; input < ZT_MAX_IN; input++) call.inputs[input] = call.input_types[input] ? ALIGN : 0;
    for (int output = 0; output < ZT_MAX_OUT; output++) call.outputs[output] = call.output_types[output] ? ALIGN : 0;
    call.error = ALIGN;
    task->table_at = call.table_bytes = all->table_bytes;
    call.table = all->table;
    call.table_room = all->table_room;
    zt_status status = task->row ? task->row->emit(&call) : ZT_OK;
    all->table = call.table;
    all->table_room = call.table_room;
    all->table_bytes = call.table_bytes;
    if (executable->scratch_bytes < call.scratch_bytes) executable->scratch_bytes = call.scratch_bytes;
    executable->launches += call.launches;
    return status;
}

static zt_status make_tasks(zt_cu_engine *engine, zt_executable *executable, zt_cu_call *all)
{
    executable->tasks =
        zt_arena_alloc(executable->memory, (size_t)(executable->schedule.n_steps + 1) * sizeof *executable->tasks);
    if (!executable->tasks) return ZT_ENOMEM;
    for (int step_index = 0; step_index < executable->schedule.n_steps; step_index++) {
        const zt_step *step = &executable->schedule.step[step_index];
        zt_cu_task *task = &executable->tasks[executable->n_tasks++];
        *task = (zt_cu_task){.step = step_index};
        for (int k = 0; k < zt_op_shares(step->op); k++)
            if (is_there(executable, step->out[k]) &&
                !zt_place_same(&executable->schedule.place[step->in[k]], &executable->schedule.place[step->out[k]]))
                task->apart |= 1u << k;
        zt_status status = find_row(engine, executable, task);
        for (int input = 0; input < zt_op_info(step->op)->n_in && !status; input++)
            status = choose_form(engine, executable, task, input, step->in[input]);
        if (!status) status = size_task(engine, executable, task, all);
        if (status) return status;
    }
    return ZT_OK;
}

/* ---- the executable -------------------------------------------------------------------------- */

/* Memory for inputs and outputs, and one error block a task. Each error block holds the address
 * of a flag word, which a kernel sets when it writes an error. */
static zt_status make_io(zt_cu_engine *engine, zt_executable *executable)
{
    size_t blocks = (size_t)executable->n_tasks * sizeof(zt_cu_runtime_error), whole = executable->flag_at + ALIGN;
    executable->errors_at = whole;
    zt_status status = zt_cu_alloc(engine, ZT_CU_HOST_MEM, whole, &executable->host);
    if (!status) status = zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, whole + blocks, &executable->device);
    if (!status) memset(executable->host.host, 0, whole);
    if (!status) status = zt_cu_clear(engine, executable->device.address + executable->flag_at, ALIGN);
    return status ? status
                  : zt_cu_clear_runtime_errors(engine, executable->device.address + executable->errors_at, executable->n_tasks,
                                               executable->device.address + executable->flag_at);
}

static zt_status fill_executable(zt_cu_engine *engine, zt_executable *executable, const zt_run_schedule *schedule)
{
    zt_cu_call all = {0};
    size_t total = 0;
    zt_status status = zt_run_schedule_copy(executable->memory, schedule, &executable->schedule);
    if (!status) status = lay_out(engine, executable, ZT_PLACE_IN, schedule->n_in, &executable->inputs, &total);
    executable->in_total = total;
    if (!status) status = lay_out(engine, executable, ZT_PLACE_OUT, schedule->n_out, &executable->outputs, &total);
    executable->flag_at = total;
    if (!status) status = make_tasks(engine, executable, &all);
    if (!status && all.table_bytes) {
        status = zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, all.table_bytes, &executable->tables);
        if (!status) status = zt_cu_write(engine, executable->tables.address, all.table, all.table_bytes);
    }
    zt_free(engine->base.ctx, all.table);
    if (!status && !schedule->queued) status = make_io(engine, executable);
    if (!status) status = want_arena(engine, round_up(schedule->arena_bytes) + executable->scratch_bytes);
    return status || schedule->queued ? status : zt_cu_capture(engine, executable);
}

zt_executable *zt_cu_prepare(zt_engine *base, const zt_run_schedule *schedule)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_executable *executable = zt_cu_enter(engine) ? NULL : zt_calloc(base->ctx, 1, sizeof *executable);
    if (!executable) return NULL;
    engine->executables++;
    executable->memory = zt_arena_new(base->ctx, 0);
    if (executable->memory && fill_executable(engine, executable, schedule) == ZT_OK) return executable;
    zt_cu_unprepare(base, executable);
    return NULL;
}

void zt_cu_unprepare(zt_engine *base, zt_executable *executable)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    if (!executable) return;
    engine->cu.CtxSetCurrent(engine->context);
    if (executable->exec) engine->cu.GraphExecDestroy(executable->exec);
    for (int task_index = 0; executable->times && task_index <= executable->n_tasks; task_index++)
        if (executable->times[task_index]) engine->cu.EventDestroy(executable->times[task_index]);
    zt_free(base->ctx, executable->times);
    zt_cu_release(engine, &executable->host);
    zt_cu_release(engine, &executable->device);
    zt_cu_release(engine, &executable->tables);
    if (executable->persistent) zt_cu_persistent_kernel_free(engine, executable->persistent);
    if (--engine->executables == 0) zt_cu_release(engine, &engine->arena);
    zt_arena_free(executable->memory);
    zt_free(base->ctx, executable);
}
