/* eager_async.c - ops that run ahead of their caller, on an engine that can (zt_engine_vt.enqueue).
 *
 * An op is recorded there and its outputs stay there: their tensors are away (zt_tensor_make_device_resident)
 * until someone asks for the bytes. That hands over what is recorded, waits, and brings them; from
 * then on the tensor is the host's, who may have written to it, and goes up again when an op reads
 * it. Inputs of the host are copied when the op is recorded.
 */
#include "lib/run/eager.h"

#include <string.h>

struct zt_held { /* what a run has away: the bytes of one tensor's buffer */
    zt_device_resident away; /* first: a zt_device_resident * is this */
    zt_run *run;
    zt_engine *engine;
    zt_ebuf *buf;
    size_t bytes;
    zt_held **before, *next; /* in run->held */
};

/* ---- tensors that are away ------------------------------------------------------------------- */

static void drop(zt_device_resident *a)
{
    zt_held *h = (zt_held *)a;
    *h->before = h->next;
    if (h->next) h->next->before = h->before;
    h->engine->vt->free(h->engine, h->buf);
    zt_free(h->run->ctx, h);
}

/* What could not be brought is nothing, not what lay there before. */
static void fetch(zt_device_resident *a)
{
    zt_held *h = (zt_held *)a;
    h->run->waiting = 0;
    zt_status s = h->engine->vt->download(h->engine, h->buf, a->data);
    if (s && h->bytes) memset(a->data, 0, h->bytes);
    drop(a);
}

static zt_held *new_held(zt_run *r, zt_engine *e, const zt_type *t)
{
    zt_held *h = zt_alloc(r->ctx, sizeof *h);
    if (!h) return NULL;
    *h = (zt_held){.away = {.fetch = fetch, .drop = drop}, .run = r, .engine = e};
    h->bytes = zt_type_bytes(t);
    h->buf = e->vt->temp(e, t, NULL);
    if (h->buf) return h;
    zt_free(r->ctx, h);
    return NULL;
}

static void forget(zt_run *r, zt_held *h)
{
    if (!h) return;
    h->engine->vt->free(h->engine, h->buf);
    zt_free(r->ctx, h);
}

static void send_away(zt_run *r, zt_held *h, zt_tensor *t)
{
    h->before = &r->held;
    h->next = r->held;
    if (h->next) h->next->before = &h->next;
    r->held = h;
    zt_tensor_make_device_resident(t, &h->away);
}

void zt_eager_async_bring(zt_run *r)
{
    while (r->held) {
        zt_device_resident *a = &r->held->away;
        *a->at = NULL;
        a->fetch(a);
    }
}

/* ---- one op ---------------------------------------------------------------------------------- */

/* The buffer that holds the whole of t on engine e, or NULL. */
static zt_ebuf *there(zt_run *r, const zt_engine *e, const zt_tensor *t)
{
    const zt_device_resident *a = zt_tensor_device_resident(t);
    const zt_held *h = (const zt_held *)a;
    bool ours = a && a->fetch == fetch && h->run == r && h->engine == e;
    bool whole = ours && a->data == zt_tensor_address(t) && h->bytes == zt_tensor_bytes(t);
    return whole ? h->buf : NULL;
}

zt_status zt_eager_async_op(zt_run *r, zt_engine *e, zt_executable *ready, const zt_opinfo *info,
                     zt_tensor *const *in, zt_tensor *const *out)
{
    zt_ebuf *from[ZT_MAX_IN], *to[ZT_MAX_OUT], *lent[ZT_MAX_IN];
    zt_held *held[ZT_MAX_OUT] = {0};
    int n_in = 0, n_lent = 0;
    bool good = true;
    for (int k = 0; k < info->n_in && good; k++) {
        if (!in[k]) continue;
        from[n_in] = there(r, e, in[k]);
        if (!from[n_in]) {
            const void *bytes = zt_tensor_data(in[k]);
            from[n_in] = lent[n_lent] = e->vt->temp(e, zt_tensor_type(in[k]), bytes);
            good = from[n_in] != NULL;
            n_lent += good;
        }
        n_in++;
    }
    for (int k = 0; k < info->n_out && good; k++) {
        held[k] = new_held(r, e, zt_tensor_type(out[k]));
        good = held[k] != NULL;
        if (good) to[k] = held[k]->buf;
    }
    good = good && zt_ctx_status(r->ctx) == ZT_OK && e->vt->enqueue(e, ready, from, to) == ZT_OK;
    for (int k = 0; k < n_lent; k++) e->vt->free(e, lent[k]);
    for (int k = 0; k < info->n_out; k++)
        if (good)
            send_away(r, held[k], out[k]);
        else
            forget(r, held[k]);
    if (good && r->flush_at > 0 && ++r->waiting >= r->flush_at) return zt_run_flush(r);
    return good ? ZT_OK : zt_ctx_status(r->ctx);
}

/* ---- the run's own --------------------------------------------------------------------------- */

void zt_run_eager(zt_run *r, bool on) { r->eager = on; }
void zt_run_flush_at(zt_run *r, int n) { r->flush_at = n > 0 ? n : 0; }

zt_status zt_run_flush(zt_run *r)
{
    zt_engine *e = r->chain.engine[0];
    r->waiting = 0;
    return e->vt->flush ? e->vt->flush(e) : ZT_OK;
}

zt_status zt_run_sync(zt_run *r)
{
    zt_engine *e = r->chain.engine[0];
    r->waiting = 0;
    return e->vt->sync ? e->vt->sync(e) : ZT_OK;
}
