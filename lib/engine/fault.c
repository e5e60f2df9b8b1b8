/* fault.c - an engine that fails its n-th allocation, upload, kernel or output, of all or of those
 * of one op, weight or value, to try what follows. A weight that is loaded is an allocation and an
 * upload. */
#include "lib/engine/wrap.h"

#include <string.h>

typedef struct fault_engine {
    zt_engine base;
    zt_fault fault; /* nth: events until the one that fails; 0: none fails any more */
} fault_engine;

static const char *const what[] = {"allocation", "upload", "kernel", "output"};
static const zt_status fails_with[] = {ZT_ENOMEM, ZT_ESYS, ZT_ESYS, ZT_ESYS};

/* One more event that counts; of op `op` (NULL: of none). */
static zt_status event(zt_engine *engine, const char *op)
{
    zt_fault *f = &((fault_engine *)engine)->fault;
    if (f->nth == 0 || --f->nth > 0) return ZT_OK;
    if (f->onwards) f->nth = 1;
    return zt_fail(engine->ctx, fails_with[f->at], "engine fault: %s%s%s made to fail", what[f->at],
                   op ? " of op " : "", op ? op : "");
}

/* Does an event on a state (s NULL) or a weight count? */
static bool counts(zt_engine *engine, zt_fault_at at, const zt_store *store, int64_t handle)
{
    const zt_fault *f = &((fault_engine *)engine)->fault;
    zt_type type;
    int64_t its;
    if (f->at != at) return false;
    if (!f->tensor) return true;
    return store && store->find && store->find(store->user, f->tensor, &type, &its) == ZT_OK && its == handle;
}

static zt_ebuf *fault_alloc(zt_engine *engine, const zt_type *type)
{
    if (counts(engine, ZT_FAULT_ALLOC, NULL, 0) && event(engine, NULL)) return NULL;
    return zt_wrap_alloc(engine, type);
}

static zt_ebuf *fault_load(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle)
{
    if (counts(engine, ZT_FAULT_ALLOC, store, handle) && event(engine, NULL)) return NULL;
    if (counts(engine, ZT_FAULT_UPLOAD, store, handle) && event(engine, NULL)) return NULL;
    return zt_wrap_load(engine, type, store, handle);
}

static zt_status fault_upload(zt_engine *engine, zt_ebuf *buffer, const void *host)
{
    zt_status status = counts(engine, ZT_FAULT_UPLOAD, NULL, 0) ? event(engine, NULL) : ZT_OK;
    return status ? status : zt_wrap_upload(engine, buffer, host);
}

static zt_status before(void *user, const zt_run_schedule *plan, int step)
{
    const zt_fault *f = &((fault_engine *)user)->fault;
    const zt_step *st = &plan->step[step];
    const zt_opinfo *info = zt_op_info(st->op);
    if (f->op && strcmp(f->op, info->name)) return ZT_OK;
    if (f->at == ZT_FAULT_KERNEL) return event(user, info->name);
    for (int k = 0; k < info->n_out && f->at == ZT_FAULT_OUTPUT; k++) {
        if (st->out[k] < 0 || (f->one_value && st->out[k] != f->value)) continue;
        zt_status status = event(user, info->name);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status fault_replay(zt_engine *engine, zt_executable *executable, const void *const *inputs, void *const *outputs,
                              const zt_watch *watch)
{
    zt_watch mine = {.before = before, .user = engine};
    return zt_wrap_replay(engine, executable, inputs, outputs, &mine, watch);
}

static const zt_engine_vt fault_vt = {
    .name = "fault",
    .close = zt_wrap_close,
    .has = zt_wrap_has,
    .value_bytes = zt_wrap_value_bytes,
    .alloc = fault_alloc,
    .load = fault_load,
    .free = zt_wrap_free,
    .upload = fault_upload,
    .download = zt_wrap_download,
    .prepare = zt_wrap_prepare,
    .unprepare = zt_wrap_unprepare,
    .replay = fault_replay,
    .report = zt_wrap_report,
};

zt_engine *zt_engine_fault_point(zt_engine *inner, const zt_fault *fault)
{
    fault_engine *f = zt_wrap_new(inner, &fault_vt, sizeof *f);
    if (!f) return NULL;
    f->fault = *fault;
    return &f->base;
}

zt_engine *zt_engine_fault(zt_engine *inner, zt_fault_at at, uint64_t nth, bool onwards)
{
    return zt_engine_fault_point(inner, &(zt_fault){.at = at, .nth = nth, .onwards = onwards});
}
