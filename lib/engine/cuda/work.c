/* work.c - plans that run ahead of the caller: their kernels are launched as they come, and the
 * stream keeps their order. What a step found wrong is in its trouble block, of which there are
 * ZT_CU_AHEAD; they are looked at when the host next waits, or when no block is left. */
#include "lib/engine/cuda/cu.h"

#include <string.h>

/* The word that says that a block is used lies behind the blocks. */
static zt_cu_ptr flag_of(const zt_cu_engine *e)
{
    return e->ahead.at + ZT_CU_AHEAD * sizeof(zt_cu_runtime_error);
}

static zt_status equip(zt_cu_engine *e)
{
    size_t bytes = ZT_CU_AHEAD * sizeof(zt_cu_runtime_error) + sizeof(uint32_t);
    if (e->ahead.at) return ZT_OK;
    zt_status s = e->ahead_host.at ? ZT_OK
                                   : zt_cu_alloc(e, ZT_CU_HOST_MEM, bytes, &e->ahead_host);
    if (!s) s = zt_cu_alloc(e, ZT_CU_DEVICE_MEM, bytes, &e->ahead);
    if (!s) s = zt_cu_clear_runtime_errors(e, e->ahead.at, ZT_CU_AHEAD, flag_of(e));
    if (s) zt_cu_release(e, &e->ahead);
    return s;
}

zt_status zt_cu_enqueue(zt_engine *base, zt_executable *r, zt_ebuf *const *in, zt_ebuf *const *out)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_status s = zt_cu_enter(e);
    if (!s) s = equip(e);
    if (r->n_tasks > ZT_CU_AHEAD)
        return zt_fail(base->ctx, ZT_ENOTSUP, "%s: a plan of %d steps", base->vt->name,
                       r->n_tasks);
    if (!s && e->n_ahead + r->n_tasks > ZT_CU_AHEAD) s = zt_cu_sync(base);
    if (s) return s;
    const zt_cu_where w = {.in = in,
                           .out = out,
                           .troubles = e->ahead.at + (size_t)e->n_ahead * sizeof(zt_cu_runtime_error)};
    e->pending = true;
    for (int i = 0; i < r->n_tasks && !s; i++) {
        e->ahead_op[e->n_ahead++] = r->plan.step[r->task[i].step].op;
        s = zt_cu_run_task(e, r, i, &w);
    }
    e->report.submits++;
    e->report.kernels += r->launches;
    e->report.replays++;
    return s;
}

/* What is launched is handed over already. */
zt_status zt_cu_flush(zt_engine *base) { return zt_cu_enter((zt_cu_engine *)base); }

/* Blocks of what ran ahead, once all of it is done. */
static zt_status look(zt_cu_engine *e)
{
    size_t at = ZT_CU_AHEAD * sizeof(zt_cu_runtime_error);
    uint8_t *host = e->ahead_host.host;
    uint32_t flag;
    zt_status s = ZT_OK;
    memcpy(&flag, host + at, sizeof flag);
    int n = e->n_ahead;
    e->n_ahead = 0;
    if (!flag) return ZT_OK;
    s = zt_cu_try(e, e->cu.MemcpyDtoHAsync(host, e->ahead.at, at, e->stream), "MemcpyDtoHAsync");
    if (!s) s = zt_cu_clear_runtime_errors(e, e->ahead.at, ZT_CU_AHEAD, flag_of(e));
    if (!s) s = zt_cu_done(e, e->cu.StreamSynchronize(e->stream), "StreamSynchronize");
    for (int i = 0; i < n && !s; i++)
        s = zt_cu_report_runtime_error(e->base.ctx, (const zt_cu_runtime_error *)host + i, e->ahead_op[i], -1);
    return s;
}

zt_status zt_cu_sync(zt_engine *base)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    size_t at = ZT_CU_AHEAD * sizeof(zt_cu_runtime_error);
    if (!e->pending) return ZT_OK;
    zt_status s = zt_cu_enter(e);
    if (!s && e->n_ahead)
        s = zt_cu_try(e, e->cu.MemcpyDtoHAsync(e->ahead_host.host + at, flag_of(e),
                                               sizeof(uint32_t), e->stream),
                      "MemcpyDtoHAsync");
    zt_status waited =
        s ? s : zt_cu_done(e, e->cu.StreamSynchronize(e->stream), "StreamSynchronize");
    if (!s) s = waited;
    if (!s) e->pending = false;
    return s || !e->n_ahead ? s : look(e);
}
