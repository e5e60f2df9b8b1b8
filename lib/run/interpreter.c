/* interpreter.c - a program run one op at a time: each step a one-step schedule on host values. */
#include "lib/run/interpreter.h"

#include "lib/run/schedule.h"

#include <stdio.h>
#include <string.h>

struct zt_interpreter {
    zt_ctx *ctx;
    zt_chain chain;
    const zt_prog *prog;
    zt_store store;
    zt_bound *bound;
    bool strict;
    void **value;        /* [n_values]: host memory, NULL: not there yet */
    const char **engine; /* [n_steps] */
    int fallbacks;
};

/* ---- values ---------------------------------------------------------------------------------- */

static void *room(zt_interpreter *w, int v)
{
    if (!w->value[v]) w->value[v] = zt_calloc(w->ctx, 1, zt_type_bytes(&w->bound->type[v]) + 1);
    return w->value[v];
}

static zt_status check(const zt_interpreter *w, int v)
{
    if (v >= 0 && v < w->bound->n_values) return ZT_OK;
    return zt_fail(w->ctx, ZT_EUSAGE, "value %d is not in the program", v);
}

zt_status zt_interpreter_put(zt_interpreter *w, int v, const void *bytes)
{
    zt_status s = check(w, v);
    if (s) return s;
    if (zt_prog_value(w->prog, v)->kind == ZT_VALUE_DATA)
        return zt_fail(w->ctx, ZT_EUSAGE, "'%s' is data: it comes from the store",
                       zt_prog_value(w->prog, v)->name);
    if (!room(w, v)) return ZT_ENOMEM;
    memcpy(w->value[v], bytes, zt_type_bytes(&w->bound->type[v]));
    return ZT_OK;
}

static void *read_data(zt_interpreter *w, int v)
{
    int64_t handle;
    const zt_type *t = &w->bound->type[v];
    const char *tensor = zt_prog_value(w->prog, v)->tensor;
    zt_status s = room(w, v) ? ZT_OK : ZT_ENOMEM;
    if (!s && zt_is_derived(tensor))
        s = zt_constant_data_read(w->chain.engine[0], tensor, t, &w->store, w->value[v]);
    else if (!s) {
        s = zt_store_weight(w->ctx, &w->store, tensor, t, &handle);
        if (!s) s = w->store.read(w->store.user, handle, 0, w->value[v], zt_type_bytes(t));
    }
    if (!s) return w->value[v];
    zt_free(w->ctx, w->value[v]);
    return w->value[v] = NULL;
}

const void *zt_interpreter_get(zt_interpreter *w, int v)
{
    if (check(w, v)) return NULL;
    if (w->value[v]) return w->value[v];
    const zt_value *val = zt_prog_value(w->prog, v);
    if (val->kind == ZT_VALUE_DATA) return read_data(w, v);
    if (val->kind == ZT_VALUE_STATE) return room(w, v);
    zt_fail(w->ctx, ZT_EUSAGE, val->kind == ZT_VALUE_IN ? "input '%s' has no value"
                                                        : "'%s' is not made yet", val->name);
    return NULL;
}

bool zt_interpreter_has(const zt_interpreter *w, int v)
{
    if (v < 0 || v >= w->bound->n_values) return false;
    zt_value_kind kind = zt_prog_value(w->prog, v)->kind;
    return w->value[v] || kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE;
}

/* ---- one step -------------------------------------------------------------------------------- */

/* A plan's operands, inputs first; a value that is given twice is one operand. */
enum { MAX_OPERANDS = ZT_MAX_IN + ZT_MAX_OUT };

typedef struct one {
    zt_engine *engine;
    zt_type type[MAX_OPERANDS];
    zt_place place[MAX_OPERANDS];
    int value[MAX_OPERANDS]; /* the program's number */
    int n;
    zt_step step;
    const void *in[MAX_OPERANDS];
    void *out[MAX_OPERANDS];
    zt_ebuf *buf[MAX_OPERANDS];
    zt_run_schedule plan;
} one;

static bool donates(const zt_step *st, int k)
{
    return k < zt_op_info(st->op)->def->donates;
}

/* Bytes that an op uses up, in a buffer of their own. */
static zt_ebuf *upload(zt_interpreter *w, zt_engine *e, int v)
{
    const void *bytes = zt_interpreter_get(w, v);
    zt_ebuf *b = bytes ? e->vt->alloc(e, &w->bound->type[v]) : NULL;
    if (!b || e->vt->upload(e, b, bytes) == ZT_OK) return b;
    e->vt->free(e, b);
    return NULL;
}

static zt_ebuf *load(zt_interpreter *w, zt_engine *e, int v)
{
    int64_t handle;
    const zt_type *t = &w->bound->type[v];
    const char *tensor = zt_prog_value(w->prog, v)->tensor;
    if (zt_is_derived(tensor)) return zt_constant_data_load(e, tensor, t, &w->store);
    if (zt_store_weight(w->ctx, &w->store, tensor, t, &handle)) return NULL;
    return e->vt->load(e, t, &w->store, handle);
}

/* Operand number of input k, with its place. */
static zt_status add_input(zt_interpreter *w, one *o, const zt_step *st, int k)
{
    int v = st->in[k], i = 0;
    o->step.in[k] = ZT_NONE;
    if (v < 0) return ZT_OK;
    while (i < o->n && o->value[i] != v) i++;
    o->step.in[k] = i;
    if (i < o->n) return ZT_OK;
    o->value[o->n] = v;
    o->type[o->n] = w->bound->type[v];
    zt_place *at = &o->place[o->n++];
    if (donates(st, k) || zt_prog_value(w->prog, v)->kind == ZT_VALUE_DATA) {
        zt_ebuf *b = donates(st, k) ? upload(w, o->engine, v) : load(w, o->engine, v);
        if (!b) return zt_ctx_status(w->ctx) ? zt_ctx_status(w->ctx) : ZT_ENOMEM;
        *at = (zt_place){.kind = ZT_PLACE_BUF, .index = o->plan.n_bufs};
        o->buf[o->plan.n_bufs++] = b;
        return ZT_OK;
    }
    *at = (zt_place){.kind = ZT_PLACE_IN, .index = o->plan.n_in};
    o->in[o->plan.n_in++] = zt_interpreter_get(w, v);
    return o->in[o->plan.n_in - 1] ? ZT_OK : zt_ctx_status(w->ctx);
}

static zt_status add_output(zt_interpreter *w, one *o, const zt_step *st, int k)
{
    int v = st->out[k];
    o->step.out[k] = v < 0 ? ZT_NONE : o->n;
    if (v < 0) return ZT_OK;
    if (!room(w, v)) return ZT_ENOMEM;
    o->value[o->n] = v;
    o->type[o->n] = w->bound->type[v];
    zt_place *at = &o->place[o->n++];
    if (donates(st, k)) {
        *at = o->place[o->step.in[k]];
        return ZT_OK;
    }
    *at = (zt_place){.kind = ZT_PLACE_OUT, .index = o->plan.n_out};
    o->out[o->plan.n_out++] = w->value[v];
    return ZT_OK;
}

/* What used-up values became, back to the host. */
static zt_status fetch(zt_interpreter *w, const one *o)
{
    zt_status s = ZT_OK;
    for (int k = 0; k < ZT_MAX_OUT && !s; k++) {
        int i = o->step.out[k];
        if (k < zt_op_info(o->step.op)->n_out && i >= 0 && o->place[i].kind == ZT_PLACE_BUF)
            s = o->engine->vt->download(o->engine, o->buf[o->place[i].index],
                                        w->value[o->value[i]]);
    }
    return s;
}

static zt_status run(zt_interpreter *w, one *o, const zt_step *st)
{
    const zt_opinfo *info = zt_op_info(st->op);
    zt_engine *e = o->engine;
    zt_status s = ZT_OK;
    for (int k = 0; k < info->n_in && !s; k++) s = add_input(w, o, st, k);
    for (int k = 0; k < info->n_out && !s; k++) s = add_output(w, o, st, k);
    if (s) return s;
    o->plan.n_values = o->n;
    o->plan.type = o->type;
    o->plan.place = o->place;
    o->plan.n_steps = 1;
    o->plan.step = &o->step;
    o->plan.buf = o->buf;
    zt_executable *r = e->vt->prepare(e, &o->plan);
    if (!r) return zt_ctx_status(w->ctx);
    s = e->vt->replay(e, r, o->in, o->out, NULL);
    if (!s) s = fetch(w, o);
    e->vt->unprepare(e, r);
    return s;
}

/* The engine of the chain that has a kernel for step s. */
static zt_engine *pick(zt_interpreter *w, int s, const zt_step *st)
{
    const zt_opinfo *info = zt_op_info(st->op);
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {0};
    for (int k = 0; k < info->n_in; k++) in[k] = st->in[k] < 0 ? NULL : &w->bound->type[st->in[k]];
    if (zt_op_infer(w->ctx, st->op, w->bound->attrs[s], in, out)) return NULL;
    int i = zt_chain_pick(&w->chain, w->strict, st->op, w->bound->attrs[s], in, out);
    if (i < 0) return NULL;
    w->engine[s] = w->chain.name[i];
    w->fallbacks += i > 0;
    return w->chain.engine[i];
}

/* A view has its input's bytes. */
static zt_status copy_view(zt_interpreter *w, const zt_step *st)
{
    const void *bytes = zt_interpreter_get(w, st->in[0]);
    return bytes ? zt_interpreter_put(w, st->out[0], bytes) : zt_ctx_status(w->ctx);
}

static zt_status run_step(zt_interpreter *w, int s)
{
    const zt_step *st = zt_prog_step(w->prog, s);
    one o = {.step = {.op = st->op, .attrs = w->bound->attrs[s]}};
    if (zt_op_info(st->op)->def->flags & ZT_OPF_VIEW) return copy_view(w, st);
    o.engine = pick(w, s, st);
    zt_status bad = o.engine ? run(w, &o, st) : zt_ctx_status(w->ctx);
    for (int i = 0; i < o.plan.n_bufs; i++) o.engine->vt->free(o.engine, o.buf[i]);
    return bad;
}

zt_status zt_interpreter_step(zt_interpreter *w, int s)
{
    char why[1024];
    if (s < 0 || s >= w->bound->n_steps)
        return zt_fail(w->ctx, ZT_EUSAGE, "step %d is not in the program", s);
    if (zt_ctx_status(w->ctx)) return zt_ctx_status(w->ctx);
    zt_status bad = run_step(w, s);
    if (!bad) return ZT_OK;
    snprintf(why, sizeof why, "%s", zt_ctx_error(w->ctx));
    zt_ctx_clear(w->ctx);
    return zt_fail(w->ctx, bad, "step %d, '%s': %s", s,
                   zt_prog_value(w->prog, zt_prog_step(w->prog, s)->out[0])->name, why);
}

/* ---- open and close -------------------------------------------------------------------------- */

zt_interpreter *zt_interpreter_open(zt_engine *e, const zt_prog *p, const zt_store *store, const zt_binding *b,
                      int n, bool strict)
{
    zt_interpreter *w = zt_calloc(e->ctx, 1, sizeof *w);
    if (!w) return NULL;
    w->ctx = e->ctx;
    w->prog = p;
    w->strict = strict;
    if (store) w->store = *store;
    zt_chain_init(&w->chain, e);
    w->bound = zt_prog_bind(p, b, n);
    if (w->bound) {
        w->value = zt_calloc(w->ctx, (size_t)w->bound->n_values + 1, sizeof *w->value);
        w->engine = zt_calloc(w->ctx, (size_t)w->bound->n_steps + 1, sizeof *w->engine);
    }
    if (w->value && w->engine) return w;
    zt_interpreter_close(w);
    return NULL;
}

void zt_interpreter_close(zt_interpreter *w)
{
    if (!w) return;
    for (int v = 0; w->value && v < w->bound->n_values; v++) zt_free(w->ctx, w->value[v]);
    zt_free(w->ctx, w->value);
    zt_free(w->ctx, w->engine);
    zt_bound_free(w->bound);
    zt_chain_fini(&w->chain);
    zt_free(w->ctx, w);
}

zt_ctx *zt_interpreter_ctx(const zt_interpreter *w) { return w->ctx; }
const zt_prog *zt_interpreter_prog(const zt_interpreter *w) { return w->prog; }
const zt_bound *zt_interpreter_bound(const zt_interpreter *w) { return w->bound; }

const char *zt_interpreter_engine(const zt_interpreter *w, int s)
{
    return s >= 0 && s < w->bound->n_steps && w->engine[s] ? w->engine[s] : "";
}

int zt_interpreter_fallbacks(const zt_interpreter *w) { return w->fallbacks; }
