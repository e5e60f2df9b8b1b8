/* fault.c - an engine that fails its n-th allocation, upload or kernel, to try what follows. A
 * weight that is loaded is an allocation and an upload. */
#include "lib/engine/wrap.h"

typedef struct fault_engine {
    zt_wrap wrap;
    zt_fault_at at;
    uint64_t left; /* events until the one that fails; 0: none fails any more */
    bool onwards;
} fault_engine;

static const char *const what[] = {"allocation", "upload", "kernel"};
static const zt_status fails_with[] = {ZT_ENOMEM, ZT_ESYS, ZT_ESYS};

static zt_status event(zt_engine *e, zt_fault_at at)
{
    fault_engine *f = (fault_engine *)e;
    if (f->at != at || f->left == 0) return ZT_OK;
    if (--f->left > 0) return ZT_OK;
    if (f->onwards) f->left = 1;
    return zt_fail(e->ctx, fails_with[at], "engine fault: %s made to fail", what[at]);
}

static zt_ebuf *fault_alloc(zt_engine *e, const zt_type *t)
{
    return event(e, ZT_FAULT_ALLOC) ? NULL : zt_wrap_alloc(e, t);
}

static zt_ebuf *fault_load(zt_engine *e, const zt_type *t, const zt_store *s, int64_t handle)
{
    if (event(e, ZT_FAULT_ALLOC) || event(e, ZT_FAULT_UPLOAD)) return NULL;
    return zt_wrap_load(e, t, s, handle);
}

static zt_status fault_upload(zt_engine *e, zt_ebuf *b, const void *host)
{
    zt_status s = event(e, ZT_FAULT_UPLOAD);
    return s ? s : zt_wrap_upload(e, b, host);
}

static zt_status before(void *user, const zt_plan *plan, int step)
{
    (void)plan, (void)step;
    return event(user, ZT_FAULT_KERNEL);
}

static zt_status fault_replay(zt_engine *e, zt_ready *r, const void *const *in, void *const *out,
                              const zt_watch *watch)
{
    zt_watch mine = {.before = before, .user = e};
    return zt_wrap_replay(e, r, in, out, &mine, watch);
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

zt_engine *zt_engine_fault(zt_engine *inner, zt_fault_at at, uint64_t nth, bool onwards)
{
    fault_engine *f = zt_wrap_new(inner, &fault_vt, sizeof *f);
    if (!f) return NULL;
    f->at = at;
    f->left = nth;
    f->onwards = onwards;
    return &f->wrap.base;
}
