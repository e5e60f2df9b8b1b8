/* trace.c - an engine that calls a function after every step. */
#include "lib/engine/wrap.h"

typedef struct trace_engine {
    zt_engine base;
    zt_trace_fn *fn;
    void *user;
} trace_engine;

static zt_status trace_replay(zt_engine *engine, zt_executable *executable, const void *const *inputs, void *const *outputs,
                              const zt_watch *watch)
{
    const trace_engine *trace = (const trace_engine *)engine;
    zt_watch mine = {.after = trace->fn, .user = trace->user};
    return zt_wrap_replay(engine, executable, inputs, outputs, &mine, watch);
}

static const zt_engine_vt trace_vt = {
    .name = "trace",
    .close = zt_wrap_close,
    .has = zt_wrap_has,
    .value_bytes = zt_wrap_value_bytes,
    .alloc = zt_wrap_alloc,
    .load = zt_wrap_load,
    .free = zt_wrap_free,
    .upload = zt_wrap_upload,
    .download = zt_wrap_download,
    .write_part = zt_wrap_write_part,
    .read_part = zt_wrap_read_part,
    .prepare = zt_wrap_prepare,
    .unprepare = zt_wrap_unprepare,
    .replay = trace_replay,
    .report = zt_wrap_report,
};

zt_engine *zt_engine_trace(zt_engine *inner, zt_trace_fn *fn, void *user)
{
    trace_engine *trace = zt_wrap_new(inner, &trace_vt, sizeof *trace);
    if (!trace) return NULL;
    trace->fn = fn;
    trace->user = user;
    return &trace->base;
}
