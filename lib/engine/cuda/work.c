/* work.c - executables that run asynchronously: their kernels are launched as they come, and the
 * stream keeps their order. What a step found wrong is in its error block, of which there are
 * ZT_CU_AHEAD; they are looked at when the host next waits, or when no block is left. */
#include "lib/engine/cuda/cu.h"

#include <string.h>

/* The word that says that a block is used lies behind the blocks. */
static zt_cu_ptr flag_of(const zt_cu_engine *engine) { return engine->ahead.address + ZT_CU_AHEAD * sizeof(zt_cu_runtime_error); }

static zt_status alloc_ahead(zt_cu_engine *engine)
{
    size_t bytes = ZT_CU_AHEAD * sizeof(zt_cu_runtime_error) + sizeof(uint32_t);
    if (engine->ahead.address) return ZT_OK;
    zt_status status = engine->ahead_host.address ? ZT_OK : zt_cu_alloc(engine, ZT_CU_HOST_MEM, bytes, &engine->ahead_host);
    if (!status) status = zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, bytes, &engine->ahead);
    if (!status) status = zt_cu_clear_runtime_errors(engine, engine->ahead.address, ZT_CU_AHEAD, flag_of(engine));
    if (status) zt_cu_release(engine, &engine->ahead);
    return status;
}

zt_status zt_cu_enqueue(zt_engine *base, zt_executable *executable, zt_ebuf *const *inputs, zt_ebuf *const *outputs)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_status status = zt_cu_enter(engine);
    if (!status) status = alloc_ahead(engine);
    if (executable->n_tasks > ZT_CU_AHEAD)
        return zt_fail(base->ctx, ZT_ENOTSUP, "%s: too many steps (%d)", base->vt->name, executable->n_tasks);
    if (!status && engine->n_ahead + executable->n_tasks > ZT_CU_AHEAD) status = zt_cu_sync(base);
    if (status) return status;
    const zt_cu_where where = {.inputs = inputs,
                               .outputs = outputs,
                               .errors = engine->ahead.address + (size_t)engine->n_ahead * sizeof(zt_cu_runtime_error)};
    engine->pending = true;
    for (int task_index = 0; task_index < executable->n_tasks && !status; task_index++) {
        engine->ahead_op[engine->n_ahead++] = executable->schedule.step[executable->tasks[task_index].step].op;
        status = zt_cu_run_task(engine, executable, task_index, &where);
    }
    engine->report.submits++;
    engine->report.kernels += executable->launches;
    engine->report.replays++;
    return status;
}

/* What is launched is handed over already. */
zt_status zt_cu_flush(zt_engine *base) { return zt_cu_enter((zt_cu_engine *)base); }

/* Blocks of what ran ahead, once all of it is done. */
static zt_status check_ahead(zt_cu_engine *engine)
{
    size_t flag_offset = ZT_CU_AHEAD * sizeof(zt_cu_runtime_error);
    uint8_t *host = engine->ahead_host.host;
    uint32_t flag;
    zt_status status = ZT_OK;
    memcpy(&flag, host + flag_offset, sizeof flag);
    int ahead_count = engine->n_ahead;
    engine->n_ahead = 0;
    if (!flag) return ZT_OK;
    status = zt_cu_try(engine, engine->cu.MemcpyDtoHAsync(host, engine->ahead.address, flag_offset, engine->stream),
                       "MemcpyDtoHAsync");
    if (!status) status = zt_cu_clear_runtime_errors(engine, engine->ahead.address, ZT_CU_AHEAD, flag_of(engine));
    if (!status) status = zt_cu_done(engine, engine->cu.StreamSynchronize(engine->stream), "StreamSynchronize");
    for (int i = 0; i < ahead_count && !status; i++)
        status = zt_cu_report_runtime_error(engine->base.ctx, (const zt_cu_runtime_error *)host + i, engine->ahead_op[i], -1);
    return status;
}

zt_status zt_cu_sync(zt_engine *base)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    size_t flag_offset = ZT_CU_AHEAD * sizeof(zt_cu_runtime_error);
    if (!engine->pending) return ZT_OK;
    zt_status status = zt_cu_enter(engine);
    if (!status && engine->n_ahead)
        status = zt_cu_try(
            engine,
            engine->cu.MemcpyDtoHAsync(engine->ahead_host.host + flag_offset, flag_of(engine), sizeof(uint32_t), engine->stream),
            "MemcpyDtoHAsync");
    zt_status waited = status ? status : zt_cu_done(engine, engine->cu.StreamSynchronize(engine->stream), "StreamSynchronize");
    if (!status) status = waited;
    if (!status) engine->pending = false;
    return status || !engine->n_ahead ? status : check_ahead(engine);
}
