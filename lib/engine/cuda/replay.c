/* replay.c - a schedule captured as one graph, and run: inputs into pinned memory, one launch, outputs
 * out of it. Watched, its steps run one by one with an event between them. */
#include "lib/engine/cuda/persistent_kernel.h"

#include <stdio.h>
#include <string.h>

/* ---- runtime errors -------------------------------------------------------------------------- */

static const char *const words[ZT_CU_TROUBLES] = {
    [ZT_CU_INDEX] = "index",   [ZT_CU_POSITION] = "position", [ZT_CU_SEQUENCE] = "sequence",
    [ZT_CU_BLOCK] = "block",   [ZT_CU_LENGTH] = "length",     [ZT_CU_TARGET] = "target",
    [ZT_CU_EXPERT] = "expert", [ZT_CU_STATE] = "state slot",  [ZT_CU_DIVISION] = "integer division by zero",
};

zt_status zt_cu_report_runtime_error(zt_ctx *ctx, const zt_cu_runtime_error *error, zt_op op, int step)
{
    char where[32] = "";
    if (error->kind == 0) return ZT_OK;
    const char *name = zt_op_info(op)->name;
    const char *what = words[error->kind < ZT_CU_TROUBLES ? error->kind : ZT_CU_INDEX];
    if (step >= 0) snprintf(where, sizeof where, " (step %d)", step);
    if (error->kind == ZT_CU_DIVISION) return zt_fail(ctx, ZT_EDATA, "op %s%s: %s", name, where, what);
    if (error->value < 0)
        return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %lld is out of range: must be nonnegative", name, where, what,
                       (long long)error->value);
    return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %lld is out of range: must be less than %lld", name, where, what,
                   (long long)error->value, (long long)error->limit);
}

zt_status zt_cu_clear_runtime_errors(zt_cu_engine *engine, zt_cu_ptr blocks, int count, zt_cu_ptr flag)
{
    zt_status status = zt_cu_clear(engine, flag, sizeof(uint32_t));
    for (int i = 0; i < count && !status;) {
        size_t bytes = (size_t)(count - i) * sizeof(zt_cu_runtime_error);
        uint8_t *staging = zt_cu_half(engine, &bytes);
        if (!staging) return zt_ctx_status(engine->base.ctx);
        int part = (int)(bytes / sizeof(zt_cu_runtime_error));
        for (int k = 0; k < part; k++) ((zt_cu_runtime_error *)staging)[k] = (zt_cu_runtime_error){.flag = flag};
        status =
            zt_cu_half_send(engine, blocks + (size_t)i * sizeof(zt_cu_runtime_error), (size_t)part * sizeof(zt_cu_runtime_error));
        i += part;
    }
    return status;
}

/* The flag was set: some block holds why. The first step's is reported, and all are cleared. */
static zt_status find_runtime_error(zt_cu_engine *engine, zt_executable *executable)
{
    zt_cu_ptr blocks = executable->device.address + executable->errors_at;
    zt_cu_runtime_error *all = zt_alloc_array(engine->base.ctx, (size_t)executable->n_tasks, sizeof *all);
    zt_status status = all ? zt_cu_read(engine, blocks, all, (size_t)executable->n_tasks * sizeof *all) : ZT_ENOMEM;
    if (!status)
        status =
            zt_cu_clear_runtime_errors(engine, blocks, executable->n_tasks, executable->device.address + executable->flag_at);
    for (int task_index = 0; task_index < executable->n_tasks && !status; task_index++) {
        int step = executable->tasks[task_index].step;
        status = zt_cu_report_runtime_error(engine->base.ctx, &all[task_index], executable->schedule.step[step].op, step);
    }
    zt_free(engine->base.ctx, all);
    return status;
}

/* ---- as a graph ------------------------------------------------------------------------------ */

static zt_status copy_inputs(zt_cu_engine *engine, const zt_executable *executable)
{
    if (executable->in_total == 0) return ZT_OK;
    return zt_cu_try(
        engine,
        engine->cu.MemcpyHtoDAsync(executable->device.address, executable->host.host, executable->in_total, engine->stream),
        "MemcpyHtoDAsync");
}

static zt_status copy_outputs(zt_cu_engine *engine, const zt_executable *executable)
{
    size_t from = executable->in_total, byte_count = executable->flag_at + sizeof(uint32_t) - from;
    return zt_cu_try(
        engine,
        engine->cu.MemcpyDtoHAsync(executable->host.host + from, executable->device.address + from, byte_count, engine->stream),
        "MemcpyDtoHAsync");
}

static zt_cu_where own_places(const zt_executable *executable)
{
    return (zt_cu_where){.errors = executable->device.address + executable->errors_at};
}

static zt_status run_tasks(zt_cu_engine *engine, zt_executable *executable, const zt_cu_where *where)
{
    zt_status status = ZT_OK;
    for (int task_index = 0; task_index < executable->n_tasks && !status; task_index++)
        status = zt_cu_run_task(engine, executable, task_index, where);
    return status ? status : zt_cu_persistent_kernel_cut(engine, where->persistent);
}

/* The first pass of a capture: which launches become stages of the persistent kernel. */
static zt_status record_stages(zt_cu_engine *engine, zt_executable *executable, zt_cu_where *where)
{
    if (!zt_cu_persistent_kernel_fits(engine)) return ZT_OK;
    if (!executable->persistent) {
        executable->persistent = zt_arena_alloc(executable->memory, sizeof *executable->persistent);
        if (!executable->persistent) return ZT_ENOMEM;
        *executable->persistent = (zt_cu_persistent_kernel){0};
    }
    where->persistent = executable->persistent;
    zt_cu_persistent_kernel_begin(executable->persistent, false);
    zt_status status = run_tasks(engine, executable, where);
    if (!status) status = zt_cu_persistent_kernel_send(engine, executable->persistent);
    zt_cu_persistent_kernel_begin(executable->persistent, true);
    return status;
}

zt_status zt_cu_capture(zt_cu_engine *engine, zt_executable *executable)
{
    zt_cu_graph graph = NULL;
    zt_cu_where where = own_places(executable);
    zt_status wrote = record_stages(engine, executable, &where);
    if (wrote) return wrote;
    executable->moved = UINT64_MAX; /* until it is whole */
    if (executable->exec) engine->cu.GraphExecDestroy(executable->exec);
    executable->exec = NULL;
    /* Libraries load their kernels when these are first called, which may be here. */
    int mode = engine->blas || engine->fft ? ZT_CU_CAPTURE_RELAXED : ZT_CU_CAPTURE_THREAD_LOCAL;
    zt_status status = zt_cu_try(engine, engine->cu.StreamBeginCapture(engine->stream, mode), "StreamBeginCapture");
    if (status) return status;
    status = copy_inputs(engine, executable);
    if (!status) status = run_tasks(engine, executable, &where);
    if (!status) status = copy_outputs(engine, executable);
    int ended = engine->cu.StreamEndCapture(engine->stream, &graph);
    if (!status) status = zt_cu_try(engine, ended, "StreamEndCapture");
    if (!status) status = zt_cu_try(engine, engine->cu.GraphInstantiate(&executable->exec, graph, 0), "GraphInstantiate");
    if (status) executable->exec = NULL;
    if (graph) engine->cu.GraphDestroy(graph);
    if (!status) executable->moved = engine->moved;
    if (!status && executable->persistent) executable->launches = executable->persistent->launches;
    return status;
}

static zt_status run_graph(zt_cu_engine *engine, zt_executable *executable)
{
    zt_status status = executable->moved == engine->moved ? ZT_OK : zt_cu_capture(engine, executable);
    return status ? status : zt_cu_try(engine, engine->cu.GraphLaunch(executable->exec, engine->stream), "GraphLaunch");
}

/* ---- watched --------------------------------------------------------------------------------- */

/* All steps are asked before any runs. */
static zt_status call_before(zt_cu_engine *engine, zt_executable *executable, const zt_watch *watch)
{
    zt_status status = ZT_OK;
    for (int step_index = 0; watch->before && step_index < executable->schedule.n_steps && !status; step_index++)
        status = watch->before(watch->user, &executable->schedule, step_index);
    if (!executable->times && !status)
        executable->times = zt_calloc(engine->base.ctx, (size_t)executable->n_tasks + 1, sizeof *executable->times);
    if (!executable->times && !status) return ZT_ENOMEM;
    for (int task_index = 0; task_index <= executable->n_tasks && !status; task_index++)
        if (!executable->times[task_index])
            status = zt_cu_try(engine, engine->cu.EventCreate(&executable->times[task_index], 0), "EventCreate");
    return status;
}

static zt_status run_steps(zt_cu_engine *engine, zt_executable *executable)
{
    zt_cu_where where = own_places(executable);
    zt_status status = copy_inputs(engine, executable);
    if (!status) status = zt_cu_try(engine, engine->cu.EventRecord(executable->times[0], engine->stream), "EventRecord");
    for (int task_index = 0; task_index < executable->n_tasks && !status; task_index++) {
        status = zt_cu_run_task(engine, executable, task_index, &where);
        if (!status)
            status = zt_cu_try(engine, engine->cu.EventRecord(executable->times[task_index + 1], engine->stream), "EventRecord");
    }
    return status ? status : copy_outputs(engine, executable);
}

/* Their times, laid so that the first begins with `submitted`. */
static zt_status report_times(zt_cu_engine *engine, zt_executable *executable, const zt_watch *watch, double submitted)
{
    zt_status status = ZT_OK;
    double start = submitted;
    for (int task_index = 0; task_index < executable->n_tasks && !status; task_index++) {
        float milliseconds = 0;
        status = zt_cu_try(
            engine, engine->cu.EventElapsedTime(&milliseconds, executable->times[task_index], executable->times[task_index + 1]),
            "EventElapsedTime");
        zt_span span = {.step = executable->tasks[task_index].step, .begin = start, .end = start + (double)milliseconds * 1e-3};
        start = span.end;
        if (status) break;
        if (watch->span) watch->span(watch->user, &executable->schedule, &span);
        if (watch->after) watch->after(watch->user, &executable->schedule, span.step, (double)milliseconds * 1e-3);
    }
    return status;
}

/* ---- the replay ------------------------------------------------------------------------------ */

static uint32_t flag_of(const zt_executable *executable)
{
    uint32_t flag;
    memcpy(&flag, executable->host.host + executable->flag_at, sizeof flag);
    return flag;
}

zt_status zt_cu_replay(zt_engine *base, zt_executable *executable, const void *const *inputs, void *const *outputs,
                       const zt_watch *watch)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_status status = zt_cu_enter(engine);
    if (!status) status = zt_cu_sync(base);
    if (!status && watch) status = call_before(engine, executable, watch);
    if (status) return status;
    for (int input = 0; input < executable->schedule.n_in; input++)
        if (executable->inputs.bytes[input])
            memcpy(executable->host.host + executable->inputs.at[input], inputs[input], executable->inputs.bytes[input]);
    double submitted = watch ? zt_seconds() : 0;
    status = watch ? run_steps(engine, executable) : run_graph(engine, executable);
    zt_status waited = zt_cu_done(engine, engine->cu.StreamSynchronize(engine->stream), "StreamSynchronize");
    if (!status) status = waited;
    if (!status && flag_of(executable)) status = find_runtime_error(engine, executable);
    for (int output = 0; output < executable->schedule.n_out && !status; output++)
        if (executable->outputs.bytes[output])
            memcpy(outputs[output], executable->host.host + executable->outputs.at[output], executable->outputs.bytes[output]);
    engine->report.submits++;
    engine->report.downloads += executable->schedule.n_out > 0;
    engine->report.replays++;
    engine->report.kernels += executable->launches;
    return status || !watch ? status : report_times(engine, executable, watch, submitted);
}
