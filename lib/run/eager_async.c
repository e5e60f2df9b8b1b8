/* eager_async.c - ops that run ahead of their caller, on an engine that can (zt_engine_vt.enqueue).
 *
 * An op is recorded there and its outputs stay there: their tensors are away (zt_tensor_make_device_resident)
 * until someone asks for the bytes. That hands over what is recorded, waits, and brings them; from
 * then on the tensor is the host's, who may have written to it, and goes up again when an op reads
 * it. Inputs of the host are copied when the op is recorded.
 */
#include "lib/run/eager.h"

#include <string.h>

struct zt_held {                 /* what a run has away: the bytes of one tensor's buffer */
    zt_device_resident resident; /* first: a zt_device_resident * is this */
    zt_run *run;
    zt_engine *engine;
    zt_ebuf *buffer;
    size_t bytes;
    zt_held **link, *next; /* in run->held */
};

/* ---- tensors that are away ------------------------------------------------------------------- */

static void drop_resident(zt_device_resident *resident)
{
    zt_held *held = (zt_held *)resident;
    *held->link = held->next;
    if (held->next) held->next->link = held->link;
    held->engine->vt->free(held->engine, held->buffer);
    zt_free(held->run->ctx, held);
}

/* What could not be brought is nothing, not what lay there before. */
static void fetch_resident(zt_device_resident *resident)
{
    zt_held *held = (zt_held *)resident;
    held->run->waiting = 0;
    zt_status status = held->engine->vt->download(held->engine, held->buffer, resident->data);
    if (status && held->bytes) memset(resident->data, 0, held->bytes);
    drop_resident(resident);
}

static zt_held *new_held(zt_run *run, zt_engine *engine, const zt_type *type)
{
    zt_held *held = zt_alloc(run->ctx, sizeof *held);
    if (!held) return NULL;
    *held = (zt_held){.resident = {.fetch = fetch_resident, .drop = drop_resident}, .run = run, .engine = engine};
    held->bytes = zt_type_bytes(type);
    held->buffer = engine->vt->temp(engine, type, NULL);
    if (held->buffer) return held;
    zt_free(run->ctx, held);
    return NULL;
}

static void forget_held(zt_run *run, zt_held *held)
{
    if (!held) return;
    held->engine->vt->free(held->engine, held->buffer);
    zt_free(run->ctx, held);
}

static void send_away(zt_run *run, zt_held *held, zt_tensor *tensor)
{
    held->link = &run->held;
    held->next = run->held;
    if (held->next) held->next->link = &held->next;
    run->held = held;
    zt_tensor_make_device_resident(tensor, &held->resident);
}

void zt_eager_async_bring(zt_run *run)
{
    while (run->held) {
        zt_device_resident *resident = &run->held->resident;
        *resident->attached = NULL;
        resident->fetch(resident);
    }
}

/* ---- one op ---------------------------------------------------------------------------------- */

/* The buffer that holds the whole of tensor on the engine, or NULL. */
static zt_ebuf *find_resident(zt_run *run, const zt_engine *engine, const zt_tensor *tensor)
{
    const zt_device_resident *resident = zt_tensor_device_resident(tensor);
    const zt_held *held = (const zt_held *)resident;
    bool ours = resident && resident->fetch == fetch_resident && held->run == run && held->engine == engine;
    bool whole = ours && resident->data == zt_tensor_address(tensor) && held->bytes == zt_tensor_bytes(tensor);
    return whole ? held->buffer : NULL;
}

zt_status zt_eager_async_op(zt_run *run, zt_engine *engine, zt_executable *executable, const zt_opinfo *op_info,
                            zt_tensor *const *inputs, zt_tensor *const *outputs)
{
    zt_ebuf *input_buffers[ZT_MAX_IN], *output_buffers[ZT_MAX_OUT], *lent_buffers[ZT_MAX_IN];
    zt_held *held[ZT_MAX_OUT] = {0};
    int n_in = 0, n_lent = 0;
    bool good = true;
    for (int input = 0; input < op_info->n_in && good; input++) {
        if (!inputs[input]) continue;
        input_buffers[n_in] = find_resident(run, engine, inputs[input]);
        if (!input_buffers[n_in]) {
            const void *bytes = zt_tensor_data(inputs[input]);
            input_buffers[n_in] = lent_buffers[n_lent] = engine->vt->temp(engine, zt_tensor_type(inputs[input]), bytes);
            good = input_buffers[n_in] != NULL;
            n_lent += good;
        }
        n_in++;
    }
    for (int output = 0; output < op_info->n_out && good; output++) {
        held[output] = new_held(run, engine, zt_tensor_type(outputs[output]));
        good = held[output] != NULL;
        if (good) output_buffers[output] = held[output]->buffer;
    }
    good = good && zt_ctx_status(run->ctx) == ZT_OK &&
           engine->vt->enqueue(engine, executable, input_buffers, output_buffers) == ZT_OK;
    for (int k = 0; k < n_lent; k++) engine->vt->free(engine, lent_buffers[k]);
    for (int output = 0; output < op_info->n_out; output++)
        if (good)
            send_away(run, held[output], outputs[output]);
        else
            forget_held(run, held[output]);
    if (good && run->flush_at > 0 && ++run->waiting >= run->flush_at) return zt_run_flush(run);
    return good ? ZT_OK : zt_ctx_status(run->ctx);
}

/* ---- the run's own --------------------------------------------------------------------------- */

void zt_run_eager(zt_run *run, bool on)
{
    if (!run) return;
    run->eager = on;
}
void zt_run_flush_at(zt_run *run, int n)
{
    if (!run) return;
    run->flush_at = n > 0 ? n : 0;
}

zt_status zt_run_flush(zt_run *run)
{
    if (!run) return ZT_EUSAGE;
    zt_engine *engine = run->chain.engines[0];
    run->waiting = 0;
    return engine->vt->flush ? engine->vt->flush(engine) : ZT_OK;
}

zt_status zt_run_sync(zt_run *run)
{
    if (!run) return ZT_EUSAGE;
    zt_engine *engine = run->chain.engines[0];
    run->waiting = 0;
    return engine->vt->sync ? engine->vt->sync(engine) : ZT_OK;
}
