/* replay.c - a plan captured as one graph, and run: inputs into pinned memory, one launch, outputs
 * out of it. Watched, its steps run one by one with an event between them. */
#include "lib/engine/cuda/persistent_kernel.h"

#include <stdio.h>
#include <string.h>

/* ---- troubles -------------------------------------------------------------------------------- */

static const char *const words[ZT_CU_TROUBLES] = {
    [ZT_CU_INDEX] = "index",   [ZT_CU_POSITION] = "position",
    [ZT_CU_SEQUENCE] = "sequence", [ZT_CU_BLOCK] = "block",
    [ZT_CU_LENGTH] = "length", [ZT_CU_TARGET] = "target",
    [ZT_CU_DIVISION] = "an integer is divided by zero",
};

zt_status zt_cu_report_runtime_error(zt_ctx *ctx, const zt_cu_runtime_error *t, zt_op op, int step)
{
    char where[32] = "";
    if (t->kind == 0) return ZT_OK;
    const char *name = zt_op_info(op)->name;
    const char *what = words[t->kind < ZT_CU_TROUBLES ? t->kind : ZT_CU_INDEX];
    if (step >= 0) snprintf(where, sizeof where, " (step %d)", step);
    if (t->kind == ZT_CU_DIVISION) return zt_fail(ctx, ZT_EDATA, "op %s%s: %s", name, where, what);
    if (t->value < 0)
        return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %lld is below 0", name, where, what,
                       (long long)t->value);
    return zt_fail(ctx, ZT_EDATA, "op %s%s: %s %lld is not below %lld", name, where, what,
                   (long long)t->value, (long long)t->limit);
}

zt_status zt_cu_clear_runtime_errors(zt_cu_engine *e, zt_cu_ptr blocks, int n, zt_cu_ptr flag)
{
    zt_status s = zt_cu_clear(e, flag, sizeof(uint32_t));
    for (int i = 0; i < n && !s;) {
        size_t bytes = (size_t)(n - i) * sizeof(zt_cu_runtime_error);
        uint8_t *p = zt_cu_half(e, &bytes);
        if (!p) return zt_ctx_status(e->base.ctx);
        int part = (int)(bytes / sizeof(zt_cu_runtime_error));
        for (int k = 0; k < part; k++) ((zt_cu_runtime_error *)p)[k] = (zt_cu_runtime_error){.flag = flag};
        s = zt_cu_half_send(e, blocks + (size_t)i * sizeof(zt_cu_runtime_error),
                            (size_t)part * sizeof(zt_cu_runtime_error));
        i += part;
    }
    return s;
}

/* The flag was set: some block holds why. The first step's is told, and all are clean again. */
static zt_status find_trouble(zt_cu_engine *e, zt_executable *r)
{
    zt_cu_ptr blocks = r->device.at + r->trouble_at;
    zt_cu_runtime_error *all = zt_alloc_array(e->base.ctx, (size_t)r->n_tasks, sizeof *all);
    zt_status s = all ? zt_cu_read(e, blocks, all, (size_t)r->n_tasks * sizeof *all) : ZT_ENOMEM;
    if (!s) s = zt_cu_clear_runtime_errors(e, blocks, r->n_tasks, r->device.at + r->flag_at);
    for (int i = 0; i < r->n_tasks && !s; i++) {
        int step = r->task[i].step;
        s = zt_cu_report_runtime_error(e->base.ctx, &all[i], r->plan.step[step].op, step);
    }
    zt_free(e->base.ctx, all);
    return s;
}

/* ---- as a graph ------------------------------------------------------------------------------ */

static zt_status bring(zt_cu_engine *e, const zt_executable *r)
{
    if (r->in_total == 0) return ZT_OK;
    return zt_cu_try(
        e, e->cu.MemcpyHtoDAsync(r->device.at, r->host.host, r->in_total, e->stream),
        "MemcpyHtoDAsync");
}

static zt_status fetch(zt_cu_engine *e, const zt_executable *r)
{
    size_t from = r->in_total, n = r->flag_at + sizeof(uint32_t) - from;
    return zt_cu_try(
        e, e->cu.MemcpyDtoHAsync(r->host.host + from, r->device.at + from, n, e->stream),
        "MemcpyDtoHAsync");
}

static zt_cu_where own_places(const zt_executable *r)
{
    return (zt_cu_where){.troubles = r->device.at + r->trouble_at};
}

static zt_status run_tasks(zt_cu_engine *e, zt_executable *r, const zt_cu_where *w)
{
    zt_status s = ZT_OK;
    for (int i = 0; i < r->n_tasks && !s; i++) s = zt_cu_run_task(e, r, i, w);
    return s ? s : zt_cu_persistent_kernel_cut(e, w->tape);
}

/* The tape of a plan that is captured, and which of its launches go on it. */
static zt_status write_tape(zt_cu_engine *e, zt_executable *r, zt_cu_where *w)
{
    if (!zt_cu_persistent_kernel_fits(e)) return ZT_OK;
    if (!r->tape) {
        r->tape = zt_arena_alloc(r->memory, sizeof *r->tape);
        if (!r->tape) return ZT_ENOMEM;
        *r->tape = (zt_cu_persistent_kernel){0};
    }
    w->tape = r->tape;
    zt_cu_persistent_kernel_begin(r->tape, false);
    zt_status s = run_tasks(e, r, w);
    if (!s) s = zt_cu_persistent_kernel_send(e, r->tape);
    zt_cu_persistent_kernel_begin(r->tape, true);
    return s;
}

zt_status zt_cu_capture(zt_cu_engine *e, zt_executable *r)
{
    zt_cu_graph graph = NULL;
    zt_cu_where w = own_places(r);
    zt_status wrote = write_tape(e, r, &w);
    if (wrote) return wrote;
    r->moved = UINT64_MAX; /* until it is whole */
    if (r->exec) e->cu.GraphExecDestroy(r->exec);
    r->exec = NULL;
    /* Libraries load their kernels when these are first called, which may be here. */
    int mode = e->blas || e->fft ? ZT_CU_CAPTURE_RELAXED : ZT_CU_CAPTURE_THREAD_LOCAL;
    zt_status s = zt_cu_try(e, e->cu.StreamBeginCapture(e->stream, mode), "StreamBeginCapture");
    if (s) return s;
    s = bring(e, r);
    if (!s) s = run_tasks(e, r, &w);
    if (!s) s = fetch(e, r);
    int ended = e->cu.StreamEndCapture(e->stream, &graph);
    if (!s) s = zt_cu_try(e, ended, "StreamEndCapture");
    if (!s) s = zt_cu_try(e, e->cu.GraphInstantiate(&r->exec, graph, 0), "GraphInstantiate");
    if (s) r->exec = NULL;
    if (graph) e->cu.GraphDestroy(graph);
    if (!s) r->moved = e->moved;
    if (!s && r->tape) r->launches = r->tape->launches;
    return s;
}

static zt_status run_graph(zt_cu_engine *e, zt_executable *r)
{
    zt_status s = r->moved == e->moved ? ZT_OK : zt_cu_capture(e, r);
    return s ? s : zt_cu_try(e, e->cu.GraphLaunch(r->exec, e->stream), "GraphLaunch");
}

/* ---- watched --------------------------------------------------------------------------------- */

/* All steps are asked before any runs. */
static zt_status ask_before(zt_cu_engine *e, zt_executable *r, const zt_watch *watch)
{
    zt_status s = ZT_OK;
    for (int i = 0; watch->before && i < r->plan.n_steps && !s; i++)
        s = watch->before(watch->user, &r->plan, i);
    if (!r->times && !s)
        r->times = zt_calloc(e->base.ctx, (size_t)r->n_tasks + 1, sizeof *r->times);
    if (!r->times && !s) return ZT_ENOMEM;
    for (int i = 0; i <= r->n_tasks && !s; i++)
        if (!r->times[i]) s = zt_cu_try(e, e->cu.EventCreate(&r->times[i], 0), "EventCreate");
    return s;
}

static zt_status run_steps(zt_cu_engine *e, zt_executable *r)
{
    zt_cu_where w = own_places(r);
    zt_status s = bring(e, r);
    if (!s) s = zt_cu_try(e, e->cu.EventRecord(r->times[0], e->stream), "EventRecord");
    for (int i = 0; i < r->n_tasks && !s; i++) {
        s = zt_cu_run_task(e, r, i, &w);
        if (!s) s = zt_cu_try(e, e->cu.EventRecord(r->times[i + 1], e->stream), "EventRecord");
    }
    return s ? s : fetch(e, r);
}

/* Their times, laid so that the first begins with `submitted`. */
static zt_status tell_after(zt_cu_engine *e, zt_executable *r, const zt_watch *watch, double submitted)
{
    zt_status s = ZT_OK;
    double at = submitted;
    for (int i = 0; i < r->n_tasks && !s; i++) {
        float ms = 0;
        s = zt_cu_try(e, e->cu.EventElapsedTime(&ms, r->times[i], r->times[i + 1]),
                      "EventElapsedTime");
        zt_span span = {.step = r->task[i].step, .begin = at, .end = at + (double)ms * 1e-3};
        at = span.end;
        if (s) break;
        if (watch->span) watch->span(watch->user, &r->plan, &span);
        if (watch->after) watch->after(watch->user, &r->plan, span.step, (double)ms * 1e-3);
    }
    return s;
}

/* ---- the replay ------------------------------------------------------------------------------ */

static uint32_t flag_of(const zt_executable *r)
{
    uint32_t flag;
    memcpy(&flag, r->host.host + r->flag_at, sizeof flag);
    return flag;
}

zt_status zt_cu_replay(zt_engine *base, zt_executable *r, const void *const *in, void *const *out,
                       const zt_watch *watch)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_status s = zt_cu_enter(e);
    if (!s) s = zt_cu_sync(base);
    if (!s && watch) s = ask_before(e, r, watch);
    if (s) return s;
    for (int i = 0; i < r->plan.n_in; i++)
        if (r->in.bytes[i]) memcpy(r->host.host + r->in.at[i], in[i], r->in.bytes[i]);
    double submitted = watch ? zt_seconds() : 0;
    s = watch ? run_steps(e, r) : run_graph(e, r);
    zt_status waited = zt_cu_done(e, e->cu.StreamSynchronize(e->stream), "StreamSynchronize");
    if (!s) s = waited;
    if (!s && flag_of(r)) s = find_trouble(e, r);
    for (int i = 0; i < r->plan.n_out && !s; i++)
        if (r->out.bytes[i]) memcpy(out[i], r->host.host + r->out.at[i], r->out.bytes[i]);
    e->report.submits++;
    e->report.downloads += r->plan.n_out > 0;
    e->report.replays++;
    e->report.kernels += r->launches;
    return s || !watch ? s : tell_after(e, r, watch, submitted);
}
