/* one_op.h - for tests: one op on one engine, as a plan of one step, without lib/run. */
#ifndef ZT_ONE_OP_H
#define ZT_ONE_OP_H

#include "lib/engine/engine.h"
#include "tests/common/tap.h"

#include <string.h>

typedef struct oneop {
    zt_op op;
    const void *attrs;
    const zt_type *in[ZT_MAX_IN]; /* NULL: absent */
    const void *data[ZT_MAX_IN];
    zt_type out[ZT_MAX_OUT];
    void *result[ZT_MAX_OUT]; /* host memory for the outputs; NULL: not wanted */
    zt_watch *watch;
} oneop;

/* Which inputs are loaded like weights of a model, as bits. */
static unsigned oneop_weights(zt_op op) { return op == ZT_OP_gather ? 1 : zt_op_info(op)->def->weights; }

static int oneop_donates(zt_op op) { return zt_op_info(op)->def->donates; }

typedef struct oneop_memory {
    const char *bytes;
    size_t n;
} oneop_memory;

static zt_status oneop_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const oneop_memory *m = user;
    if (handle != 7 || offset > m->n || n > m->n - offset) return ZT_EBUG;
    memcpy(dst, m->bytes + offset, n);
    return ZT_OK;
}

static zt_ebuf *oneop_load(zt_engine *e, const zt_type *t, const void *bytes)
{
    oneop_memory m = {bytes, zt_type_bytes(t)};
    zt_store store = {.user = &m, .read = oneop_read};
    return e->vt->load(e, t, &store, 7);
}

static zt_ebuf *oneop_state(zt_engine *e, const zt_type *t, const void *bytes)
{
    zt_ebuf *b = e->vt->alloc(e, t);
    if (!b || e->vt->upload(e, b, bytes) == ZT_OK) return b;
    e->vt->free(e, b);
    return NULL;
}

static inline bool oneop_has(zt_engine *e, const oneop *o) { return e->vt->has(e, o->op, o->attrs, o->in, o->out); }

/* The plan: inputs are values 0.., outputs come after them. */
static zt_status oneop_run(zt_engine *engine, const oneop *call)
{
    const zt_opinfo *info = zt_op_info(call->op);
    zt_type type[ZT_MAX_IN + ZT_MAX_OUT] = {0};
    zt_place place[ZT_MAX_IN + ZT_MAX_OUT] = {0};
    zt_step step = {.op = call->op, .attrs = call->attrs};
    const void *in[ZT_MAX_IN];
    void *out[ZT_MAX_OUT];
    zt_ebuf *buf[ZT_MAX_IN];
    zt_status s = ZT_OK;
    zt_run_schedule plan = {
        .n_values = info->n_in + info->n_out, .type = type, .place = place, .n_steps = 1, .step = &step, .buf = buf};
    int donates = oneop_donates(call->op);
    unsigned stays = donates ? (1u << donates) - 1 : oneop_weights(call->op);
    for (int k = 0; k < info->n_in; k++) {
        step.in[k] = call->in[k] ? k : ZT_NONE;
        if (!call->in[k]) continue;
        type[k] = *call->in[k];
        if (stays >> k & 1) {
            zt_ebuf *b =
                donates ? oneop_state(engine, call->in[k], call->data[k]) : oneop_load(engine, call->in[k], call->data[k]);
            place[k] = (zt_place){.kind = ZT_PLACE_BUF, .index = plan.n_bufs};
            if (b) buf[plan.n_bufs++] = b;
            if (!b) s = zt_ctx_status(engine->ctx) ? zt_ctx_status(engine->ctx) : ZT_EBUG;
        } else {
            in[plan.n_in] = call->data[k];
            place[k] = (zt_place){.kind = ZT_PLACE_IN, .index = plan.n_in++};
        }
    }
    for (int k = 0; k < info->n_out; k++) {
        int v = info->n_in + k;
        step.out[k] = call->result[k] ? v : ZT_NONE;
        type[v] = call->out[k];
        if (!call->result[k]) continue;
        if (k < donates) {
            place[v] = place[k];
            continue;
        }
        out[plan.n_out] = call->result[k];
        place[v] = (zt_place){.kind = ZT_PLACE_OUT, .index = plan.n_out++};
    }
    zt_executable *r = s ? NULL : engine->vt->prepare(engine, &plan);
    if (!s) s = r ? engine->vt->replay(engine, r, in, out, call->watch) : zt_ctx_status(engine->ctx);
    for (int k = 0; k < donates && !s; k++)
        if (call->result[k]) s = engine->vt->download(engine, buf[k], call->result[k]);
    if (r) engine->vt->unprepare(engine, r);
    for (int k = 0; k < plan.n_bufs; k++) engine->vt->free(engine, buf[k]);
    return s;
}

/* The case's f32 inputs in another dtype; false: it has none. */
static inline bool retyped(zt_case *op_case, zt_dtype as)
{
    bool any = false;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (op_case->fill[k] == ZT_FILL_ABSENT || op_case->in[k].dtype != ZT_F32) continue;
        op_case->in[k].dtype = as;
        any = true;
    }
    return any;
}

/* With the types of its outputs inferred; false after a line that says why not. */
static inline bool oneop_made(zt_engine *e, oneop *o)
{
    if (!zt_op_infer(e->ctx, o->op, o->attrs, o->in, o->out) && !oneop_run(e, o)) return true;
    diag("%s", zt_ctx_error(e->ctx));
    return false;
}

#endif
