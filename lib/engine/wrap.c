/* wrap.c - what wrappers share: passing every call on, and one watch around another. */
#include "lib/engine/wrap.h"

void *zt_wrap_new(zt_engine *inner, const zt_engine_vt *vtable, size_t bytes)
{
    if (!inner) return NULL;
    zt_engine *wrapper = zt_calloc(inner->ctx, 1, bytes);
    if (!wrapper) {
        inner->vt->close(inner);
        return NULL;
    }
    *wrapper = (zt_engine){.vt = vtable, .ctx = inner->ctx, .strict_bits = inner->strict_bits, .inner = inner};
    return wrapper;
}

void zt_wrap_close(zt_engine *engine)
{
    zt_engine *inner = engine->inner;
    zt_free(engine->ctx, engine);
    inner->vt->close(inner);
}

bool zt_wrap_has(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[], const zt_type output_types[])
{
    return engine->inner->vt->has(engine->inner, op, attrs, input_types, output_types);
}

size_t zt_wrap_value_bytes(zt_engine *engine, const zt_type *type) { return engine->inner->vt->value_bytes(engine->inner, type); }

zt_ebuf *zt_wrap_alloc(zt_engine *engine, const zt_type *type) { return engine->inner->vt->alloc(engine->inner, type); }

zt_ebuf *zt_wrap_load(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle)
{
    return engine->inner->vt->load(engine->inner, type, store, handle);
}

void zt_wrap_free(zt_engine *engine, zt_ebuf *buffer) { engine->inner->vt->free(engine->inner, buffer); }

zt_status zt_wrap_upload(zt_engine *engine, zt_ebuf *buffer, const void *host)
{
    return engine->inner->vt->upload(engine->inner, buffer, host);
}

zt_status zt_wrap_download(zt_engine *engine, const zt_ebuf *buffer, void *host)
{
    return engine->inner->vt->download(engine->inner, buffer, host);
}

/* Of an engine without these two nothing is read or written in part. */
static zt_status fail_parts(zt_engine *inner)
{
    return zt_fail(inner->ctx, ZT_ENOTSUP, "engine %s cannot read or write a part of a state", inner->vt->name);
}

zt_status zt_wrap_write_part(zt_engine *engine, zt_ebuf *buffer, size_t offset, size_t bytes, const void *host)
{
    zt_engine *inner = engine->inner;
    return inner->vt->write_part ? inner->vt->write_part(inner, buffer, offset, bytes, host) : fail_parts(inner);
}

zt_status zt_wrap_read_part(zt_engine *engine, const zt_ebuf *buffer, size_t offset, size_t bytes, void *host)
{
    zt_engine *inner = engine->inner;
    return inner->vt->read_part ? inner->vt->read_part(inner, buffer, offset, bytes, host) : fail_parts(inner);
}

zt_executable *zt_wrap_prepare(zt_engine *engine, const zt_run_schedule *schedule)
{
    return engine->inner->vt->prepare(engine->inner, schedule);
}

void zt_wrap_unprepare(zt_engine *engine, zt_executable *executable) { engine->inner->vt->unprepare(engine->inner, executable); }

zt_engine_report zt_wrap_report(const zt_engine *engine) { return engine->inner->vt->report(engine->inner); }

/* ---- watches --------------------------------------------------------------------------------- */

typedef struct watch_pair {
    const zt_watch *mine, *callers;
} watch_pair;

static zt_status before_both(void *user, const zt_run_schedule *schedule, int step)
{
    const watch_pair *watches = user;
    zt_status status = watches->mine->before ? watches->mine->before(watches->mine->user, schedule, step) : ZT_OK;
    if (!status && watches->callers && watches->callers->before)
        status = watches->callers->before(watches->callers->user, schedule, step);
    return status;
}

static void after_both(void *user, const zt_run_schedule *schedule, int step, double seconds)
{
    const watch_pair *watches = user;
    if (watches->callers && watches->callers->after) watches->callers->after(watches->callers->user, schedule, step, seconds);
    if (watches->mine->after) watches->mine->after(watches->mine->user, schedule, step, seconds);
}

static void span_both(void *user, const zt_run_schedule *schedule, const zt_span *span)
{
    const watch_pair *watches = user;
    if (watches->callers && watches->callers->span) watches->callers->span(watches->callers->user, schedule, span);
    if (watches->mine->span) watches->mine->span(watches->mine->user, schedule, span);
}

zt_status zt_wrap_replay(zt_engine *engine, zt_executable *executable, const void *const *inputs, void *const *outputs,
                         const zt_watch *mine, const zt_watch *callers)
{
    watch_pair pair = {mine, callers};
    const zt_watch none = {0}, *outer = callers ? callers : &none;
    zt_watch both = {.before = mine->before || outer->before ? before_both : NULL,
                     .after = mine->after || outer->after ? after_both : NULL,
                     .span = mine->span || outer->span ? span_both : NULL,
                     .user = &pair};
    return engine->inner->vt->replay(engine->inner, executable, inputs, outputs, &both);
}
