/* wrap.c - what wrappers share: passing every call on, and one watch around another. */
#include "lib/engine/wrap.h"

void *zt_wrap_new(zt_engine *inner, const zt_engine_vt *vt, size_t bytes)
{
    if (!inner) return NULL;
    zt_engine *w = zt_calloc(inner->ctx, 1, bytes);
    if (!w) {
        inner->vt->close(inner);
        return NULL;
    }
    *w = (zt_engine){.vt = vt, .ctx = inner->ctx, .inner = inner};
    return w;
}

void zt_wrap_close(zt_engine *e)
{
    zt_engine *inner = e->inner;
    zt_free(e->ctx, e);
    inner->vt->close(inner);
}

bool zt_wrap_has(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[],
                 const zt_type out[])
{
    return e->inner->vt->has(e->inner, op, attrs, in, out);
}

size_t zt_wrap_value_bytes(zt_engine *e, const zt_type *t)
{
    return e->inner->vt->value_bytes(e->inner, t);
}

zt_ebuf *zt_wrap_alloc(zt_engine *e, const zt_type *t)
{
    return e->inner->vt->alloc(e->inner, t);
}

zt_ebuf *zt_wrap_load(zt_engine *e, const zt_type *t, const zt_store *s, int64_t handle)
{
    return e->inner->vt->load(e->inner, t, s, handle);
}

void zt_wrap_free(zt_engine *e, zt_ebuf *b) { e->inner->vt->free(e->inner, b); }

zt_status zt_wrap_upload(zt_engine *e, zt_ebuf *b, const void *host)
{
    return e->inner->vt->upload(e->inner, b, host);
}

zt_status zt_wrap_download(zt_engine *e, const zt_ebuf *b, void *host)
{
    return e->inner->vt->download(e->inner, b, host);
}

zt_executable *zt_wrap_prepare(zt_engine *e, const zt_run_schedule *plan)
{
    return e->inner->vt->prepare(e->inner, plan);
}

void zt_wrap_unprepare(zt_engine *e, zt_executable *r) { e->inner->vt->unprepare(e->inner, r); }

zt_engine_report zt_wrap_report(const zt_engine *e)
{
    return e->inner->vt->report(e->inner);
}

/* ---- watches --------------------------------------------------------------------------------- */

typedef struct watch_pair {
    const zt_watch *mine, *callers;
} watch_pair;

static zt_status before_both(void *user, const zt_run_schedule *plan, int step)
{
    const watch_pair *w = user;
    zt_status s = w->mine->before ? w->mine->before(w->mine->user, plan, step) : ZT_OK;
    if (!s && w->callers && w->callers->before)
        s = w->callers->before(w->callers->user, plan, step);
    return s;
}

static void after_both(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    const watch_pair *w = user;
    if (w->callers && w->callers->after) w->callers->after(w->callers->user, plan, step, seconds);
    if (w->mine->after) w->mine->after(w->mine->user, plan, step, seconds);
}

static void span_both(void *user, const zt_run_schedule *plan, const zt_span *span)
{
    const watch_pair *w = user;
    if (w->callers && w->callers->span) w->callers->span(w->callers->user, plan, span);
    if (w->mine->span) w->mine->span(w->mine->user, plan, span);
}

zt_status zt_wrap_replay(zt_engine *e, zt_executable *r, const void *const *in, void *const *out,
                         const zt_watch *mine, const zt_watch *callers)
{
    watch_pair pair = {mine, callers};
    const zt_watch none = {0}, *c = callers ? callers : &none;
    zt_watch both = {.before = mine->before || c->before ? before_both : NULL,
                     .after = mine->after || c->after ? after_both : NULL,
                     .span = mine->span || c->span ? span_both : NULL, .user = &pair};
    return e->inner->vt->replay(e->inner, r, in, out, &both);
}
