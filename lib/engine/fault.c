/* fault.c - an engine that fails its n-th allocation, upload, kernel or output, of all or of those
 * of one op, weight or value, to try what follows. A weight that is loaded is an allocation and an
 * upload. */
#include "lib/base/require.h"
#include "lib/engine/wrap.h"

#include <string.h>

typedef struct fault_engine {
    zt_engine base;
    zt_fault fault; /* nth: events until the one that fails; 0: none fails any more */
} fault_engine;

static const char *const what[] = {"allocation", "upload", "kernel", "output"};
static const zt_status fails_with[] = {ZT_ENOMEM, ZT_ESYS, ZT_ESYS, ZT_ESYS};

/* One more event that counts; of op `op` (NULL: of none). */
static zt_status count_event(zt_engine *engine, const char *op)
{
    zt_fault *fault = &((fault_engine *)engine)->fault;
    if (fault->nth == 0 || --fault->nth > 0) return ZT_OK;
    if (fault->onwards) fault->nth = 1;
    return zt_fail(engine->ctx, fails_with[fault->at], "injected engine failure: %s%s%s", what[fault->at], op ? " of op " : "",
                   op ? op : "");
}

/* Does an event on a state (store NULL) or a weight count? */
static bool counts_store(zt_engine *engine, zt_fault_at at, const zt_store *store, int64_t handle)
{
    const zt_fault *fault = &((fault_engine *)engine)->fault;
    zt_type type;
    int64_t its;
    if (fault->at != at) return false;
    if (!fault->tensor) return true;
    return store && store->find && store->find(store->user, fault->tensor, &type, &its) == ZT_OK && its == handle;
}

static zt_ebuf *fault_alloc(zt_engine *engine, const zt_type *type)
{
    if (counts_store(engine, ZT_FAULT_ALLOC, NULL, 0) && count_event(engine, NULL)) return NULL;
    return zt_wrap_alloc(engine, type);
}

static zt_ebuf *fault_load(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle)
{
    if (counts_store(engine, ZT_FAULT_ALLOC, store, handle) && count_event(engine, NULL)) return NULL;
    if (counts_store(engine, ZT_FAULT_UPLOAD, store, handle) && count_event(engine, NULL)) return NULL;
    return zt_wrap_load(engine, type, store, handle);
}

static zt_status fault_upload(zt_engine *engine, zt_ebuf *buffer, const void *host)
{
    zt_status status = counts_store(engine, ZT_FAULT_UPLOAD, NULL, 0) ? count_event(engine, NULL) : ZT_OK;
    return status ? status : zt_wrap_upload(engine, buffer, host);
}

static zt_status before_step(void *user, const zt_run_schedule *schedule, int step)
{
    const zt_fault *fault = &((fault_engine *)user)->fault;
    const zt_step *failing_step = &schedule->step[step];
    const zt_opinfo *op_info = zt_op_info(failing_step->op);
    if (fault->op && strcmp(fault->op, op_info->name)) return ZT_OK;
    if (fault->at == ZT_FAULT_KERNEL) return count_event(user, op_info->name);
    for (int output = 0; output < op_info->n_out && fault->at == ZT_FAULT_OUTPUT; output++) {
        if (failing_step->out[output] < 0 || (fault->one_value && failing_step->out[output] != fault->value)) continue;
        zt_status status = count_event(user, op_info->name);
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status fault_replay(zt_engine *engine, zt_executable *executable, const void *const *inputs, void *const *outputs,
                              const zt_watch *watch)
{
    zt_watch mine = {.before = before_step, .user = engine};
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
    .write_part = zt_wrap_write_part,
    .read_part = zt_wrap_read_part,
    .prepare = zt_wrap_prepare,
    .unprepare = zt_wrap_unprepare,
    .replay = fault_replay,
    .report = zt_wrap_report,
};

zt_engine *zt_engine_fault_point(zt_engine *inner, const zt_fault *fault)
{
    if (!inner) return NULL;
    ZT_REQUIRE(inner->ctx, fault, NULL);
    fault_engine *wrapper = zt_wrap_new(inner, &fault_vt, sizeof *wrapper);
    if (!wrapper) return NULL;
    wrapper->fault = *fault;
    return &wrapper->base;
}

zt_engine *zt_engine_fault(zt_engine *inner, zt_fault_at at, uint64_t nth, bool onwards)
{
    return zt_engine_fault_point(inner, &(zt_fault){.at = at, .nth = nth, .onwards = onwards});
}
