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
    zt_status status = h->engine->vt->download(h->engine, h->buf, a->data);
    if (status && h->bytes) memset(a->data, 0, h->bytes);
    drop(a);
}

static zt_held *new_held(zt_run *run, zt_engine *engine, const zt_type *type)
{
    zt_held *h = zt_alloc(run->ctx, sizeof *h);
    if (!h) return NULL;
    *h = (zt_held){.away = {.fetch = fetch, .drop = drop}, .run = run, .engine = engine};
    h->bytes = zt_type_bytes(type);
    h->buf = engine->vt->temp(engine, type, NULL);
    if (h->buf) return h;
    zt_free(run->ctx, h);
    return NULL;
}

static void forget(zt_run *run, zt_held *h)
{
    if (!h) return;
    h->engine->vt->free(h->engine, h->buf);
    zt_free(run->ctx, h);
}

static void send_away(zt_run *run, zt_held *h, zt_tensor *tensor)
{
    h->before = &run->held;
    h->next = run->held;
    if (h->next) h->next->before = &h->next;
    run->held = h;
    zt_tensor_make_device_resident(tensor, &h->away);
}

void zt_eager_async_bring(zt_run *run)
{
    while (run->held) {
        zt_device_resident *a = &run->held->away;
        *a->at = NULL;
        a->fetch(a);
    }
}

/* ---- one op ---------------------------------------------------------------------------------- */

/* The buffer that holds the whole of t on engine e, or NULL. */
static zt_ebuf *there(zt_run *run, const zt_engine *engine, const zt_tensor *tensor)
{
    const zt_device_resident *a = zt_tensor_device_resident(tensor);
    const zt_held *h = (const zt_held *)a;
    bool ours = a && a->fetch == fetch && h->run == run && h->engine == engine;
    bool whole = ours && a->data == zt_tensor_address(tensor) && h->bytes == zt_tensor_bytes(tensor);
    return whole ? h->buf : NULL;
}

zt_status zt_eager_async_op(zt_run *run, zt_engine *engine, zt_executable *ready, const zt_opinfo *info,
                     zt_tensor *const *inputs, zt_tensor *const *outputs)
{
    zt_ebuf *from[ZT_MAX_IN], *to[ZT_MAX_OUT], *lent[ZT_MAX_IN];
    zt_held *held[ZT_MAX_OUT] = {0};
    int n_in = 0, n_lent = 0;
    bool good = true;
    for (int k = 0; k < info->n_in && good; k++) {
        if (!inputs[k]) continue;
        from[n_in] = there(run, engine, inputs[k]);
        if (!from[n_in]) {
            const void *bytes = zt_tensor_data(inputs[k]);
            from[n_in] = lent[n_lent] = engine->vt->temp(engine, zt_tensor_type(inputs[k]), bytes);
            good = from[n_in] != NULL;
            n_lent += good;
        }
        n_in++;
    }
    for (int k = 0; k < info->n_out && good; k++) {
        held[k] = new_held(run, engine, zt_tensor_type(outputs[k]));
        good = held[k] != NULL;
        if (good) to[k] = held[k]->buf;
    }
    good = good && zt_ctx_status(run->ctx) == ZT_OK && engine->vt->enqueue(engine, ready, from, to) == ZT_OK;
    for (int k = 0; k < n_lent; k++) engine->vt->free(engine, lent[k]);
    for (int k = 0; k < info->n_out; k++)
        if (good)
            send_away(run, held[k], outputs[k]);
        else
            forget(run, held[k]);
    if (good && run->flush_at > 0 && ++run->waiting >= run->flush_at) return zt_run_flush(run);
    return good ? ZT_OK : zt_ctx_status(run->ctx);
}

/* ---- the run's own --------------------------------------------------------------------------- */

void zt_run_eager(zt_run *run, bool on) { run->eager = on; }
void zt_run_flush_at(zt_run *run, int n) { run->flush_at = n > 0 ? n : 0; }

zt_status zt_run_flush(zt_run *run)
{
    zt_engine *engine = run->chain.engine[0];
    run->waiting = 0;
    return engine->vt->flush ? engine->vt->flush(engine) : ZT_OK;
}

zt_status zt_run_sync(zt_run *run)
{
    zt_engine *engine = run->chain.engine[0];
    run->waiting = 0;
    return engine->vt->sync ? engine->vt->sync(engine) : ZT_OK;
}
