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

static void *room(zt_interpreter *interpreter, int v)
{
    if (!interpreter->value[v])
        interpreter->value[v] = zt_calloc(interpreter->ctx, 1, zt_type_bytes(&interpreter->bound->type[v]) + 1);
    return interpreter->value[v];
}

static zt_status check(const zt_interpreter *interpreter, int v)
{
    if (v >= 0 && v < interpreter->bound->n_values) return ZT_OK;
    return zt_fail(interpreter->ctx, ZT_EUSAGE, "value %d is not in the program", v);
}

zt_status zt_interpreter_put(zt_interpreter *interpreter, int v, const void *bytes)
{
    zt_status status = check(interpreter, v);
    if (status) return status;
    if (zt_prog_value(interpreter->prog, v)->kind == ZT_VALUE_DATA)
        return zt_fail(interpreter->ctx, ZT_EUSAGE, "'%s' is data: it comes from the store",
                       zt_prog_value(interpreter->prog, v)->name);
    if (!room(interpreter, v)) return ZT_ENOMEM;
    memcpy(interpreter->value[v], bytes, zt_type_bytes(&interpreter->bound->type[v]));
    return ZT_OK;
}

static void *read_data(zt_interpreter *interpreter, int v)
{
    int64_t handle;
    const zt_type *type = &interpreter->bound->type[v];
    const char *tensor = zt_prog_value(interpreter->prog, v)->tensor;
    zt_status status = room(interpreter, v) ? ZT_OK : ZT_ENOMEM;
    if (!status && zt_is_derived(tensor))
        status = zt_constant_data_read(interpreter->chain.engine[0], tensor, type, &interpreter->store, interpreter->value[v]);
    else if (!status) {
        status = zt_store_weight(interpreter->ctx, &interpreter->store, tensor, type, &handle);
        if (!status)
            status = interpreter->store.read(interpreter->store.user, handle, 0, interpreter->value[v], zt_type_bytes(type));
    }
    if (!status) return interpreter->value[v];
    zt_free(interpreter->ctx, interpreter->value[v]);
    return interpreter->value[v] = NULL;
}

const void *zt_interpreter_get(zt_interpreter *interpreter, int v)
{
    if (check(interpreter, v)) return NULL;
    if (interpreter->value[v]) return interpreter->value[v];
    const zt_value *value = zt_prog_value(interpreter->prog, v);
    if (value->kind == ZT_VALUE_DATA) return read_data(interpreter, v);
    if (value->kind == ZT_VALUE_STATE) return room(interpreter, v);
    zt_fail(interpreter->ctx, ZT_EUSAGE, value->kind == ZT_VALUE_IN ? "input '%s' has no value"
                                                        : "'%s' is not made yet", value->name);
    return NULL;
}

bool zt_interpreter_has(const zt_interpreter *interpreter, int v)
{
    if (v < 0 || v >= interpreter->bound->n_values) return false;
    zt_value_kind kind = zt_prog_value(interpreter->prog, v)->kind;
    return interpreter->value[v] || kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE;
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

static bool donates(const zt_step *step, int k)
{
    return k < zt_op_info(step->op)->def->donates;
}

/* Bytes that an op uses up, in a buffer of their own. */
static zt_ebuf *upload(zt_interpreter *interpreter, zt_engine *engine, int v)
{
    const void *bytes = zt_interpreter_get(interpreter, v);
    zt_ebuf *buffer = bytes ? engine->vt->alloc(engine, &interpreter->bound->type[v]) : NULL;
    if (!buffer || engine->vt->upload(engine, buffer, bytes) == ZT_OK) return buffer;
    engine->vt->free(engine, buffer);
    return NULL;
}

static zt_ebuf *load(zt_interpreter *interpreter, zt_engine *engine, int v)
{
    int64_t handle;
    const zt_type *type = &interpreter->bound->type[v];
    const char *tensor = zt_prog_value(interpreter->prog, v)->tensor;
    if (zt_is_derived(tensor)) return zt_constant_data_load(engine, tensor, type, &interpreter->store);
    if (zt_store_weight(interpreter->ctx, &interpreter->store, tensor, type, &handle)) return NULL;
    return engine->vt->load(engine, type, &interpreter->store, handle);
}

/* Operand number of input k, with its place. */
static zt_status add_input(zt_interpreter *interpreter, one *o, const zt_step *step, int k)
{
    int v = step->in[k], i = 0;
    o->step.in[k] = ZT_NONE;
    if (v < 0) return ZT_OK;
    while (i < o->n && o->value[i] != v) i++;
    o->step.in[k] = i;
    if (i < o->n) return ZT_OK;
    o->value[o->n] = v;
    o->type[o->n] = interpreter->bound->type[v];
    zt_place *at = &o->place[o->n++];
    if (donates(step, k) || zt_prog_value(interpreter->prog, v)->kind == ZT_VALUE_DATA) {
        zt_ebuf *buffer = donates(step, k) ? upload(interpreter, o->engine, v) : load(interpreter, o->engine, v);
        if (!buffer) return zt_ctx_status(interpreter->ctx) ? zt_ctx_status(interpreter->ctx) : ZT_ENOMEM;
        *at = (zt_place){.kind = ZT_PLACE_BUF, .index = o->plan.n_bufs};
        o->buf[o->plan.n_bufs++] = buffer;
        return ZT_OK;
    }
    *at = (zt_place){.kind = ZT_PLACE_IN, .index = o->plan.n_in};
    o->in[o->plan.n_in++] = zt_interpreter_get(interpreter, v);
    return o->in[o->plan.n_in - 1] ? ZT_OK : zt_ctx_status(interpreter->ctx);
}

static zt_status add_output(zt_interpreter *interpreter, one *o, const zt_step *step, int k)
{
    int v = step->out[k];
    o->step.out[k] = v < 0 ? ZT_NONE : o->n;
    if (v < 0) return ZT_OK;
    if (!room(interpreter, v)) return ZT_ENOMEM;
    o->value[o->n] = v;
    o->type[o->n] = interpreter->bound->type[v];
    zt_place *at = &o->place[o->n++];
    if (donates(step, k)) {
        *at = o->place[o->step.in[k]];
        return ZT_OK;
    }
    *at = (zt_place){.kind = ZT_PLACE_OUT, .index = o->plan.n_out};
    o->out[o->plan.n_out++] = interpreter->value[v];
    return ZT_OK;
}

/* What used-up values became, back to the host. */
static zt_status fetch(zt_interpreter *interpreter, const one *o)
{
    zt_status status = ZT_OK;
    for (int k = 0; k < ZT_MAX_OUT && !status; k++) {
        int i = o->step.out[k];
        if (k < zt_op_info(o->step.op)->n_out && i >= 0 && o->place[i].kind == ZT_PLACE_BUF)
            status = o->engine->vt->download(o->engine, o->buf[o->place[i].index],
                                        interpreter->value[o->value[i]]);
    }
    return status;
}

static zt_status run(zt_interpreter *interpreter, one *o, const zt_step *step)
{
    const zt_opinfo *info = zt_op_info(step->op);
    zt_engine *engine = o->engine;
    zt_status status = ZT_OK;
    for (int k = 0; k < info->n_in && !status; k++) status = add_input(interpreter, o, step, k);
    for (int k = 0; k < info->n_out && !status; k++) status = add_output(interpreter, o, step, k);
    if (status) return status;
    o->plan.n_values = o->n;
    o->plan.type = o->type;
    o->plan.place = o->place;
    o->plan.n_steps = 1;
    o->plan.step = &o->step;
    o->plan.buf = o->buf;
    zt_executable *executable = engine->vt->prepare(engine, &o->plan);
    if (!executable) return zt_ctx_status(interpreter->ctx);
    status = engine->vt->replay(engine, executable, o->in, o->out, NULL);
    if (!status) status = fetch(interpreter, o);
    engine->vt->unprepare(engine, executable);
    return status;
}

/* The engine of the chain that has a kernel for step s. */
static zt_engine *pick(zt_interpreter *interpreter, int s, const zt_step *step)
{
    const zt_opinfo *info = zt_op_info(step->op);
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT] = {0};
    for (int k = 0; k < info->n_in; k++) input_types[k] = step->in[k] < 0 ? NULL : &interpreter->bound->type[step->in[k]];
    if (zt_op_infer(interpreter->ctx, step->op, interpreter->bound->attrs[s], input_types, out)) return NULL;
    int i = zt_chain_pick(&interpreter->chain, interpreter->strict, step->op, interpreter->bound->attrs[s], input_types, out);
    if (i < 0) return NULL;
    interpreter->engine[s] = interpreter->chain.name[i];
    interpreter->fallbacks += i > 0;
    return interpreter->chain.engine[i];
}

/* A view has its input's bytes. */
static zt_status copy_view(zt_interpreter *interpreter, const zt_step *step)
{
    const void *bytes = zt_interpreter_get(interpreter, step->in[0]);
    return bytes ? zt_interpreter_put(interpreter, step->out[0], bytes) : zt_ctx_status(interpreter->ctx);
}

static zt_status run_step(zt_interpreter *interpreter, int s)
{
    const zt_step *step = zt_prog_step(interpreter->prog, s);
    one o = {.step = {.op = step->op, .attrs = interpreter->bound->attrs[s]}};
    if (zt_op_info(step->op)->def->flags & ZT_OPF_VIEW) return copy_view(interpreter, step);
    o.engine = pick(interpreter, s, step);
    zt_status bad = o.engine ? run(interpreter, &o, step) : zt_ctx_status(interpreter->ctx);
    for (int i = 0; i < o.plan.n_bufs; i++) o.engine->vt->free(o.engine, o.buf[i]);
    return bad;
}

zt_status zt_interpreter_step(zt_interpreter *interpreter, int s)
{
    char why[1024];
    if (s < 0 || s >= interpreter->bound->n_steps)
        return zt_fail(interpreter->ctx, ZT_EUSAGE, "step %d is not in the program", s);
    if (zt_ctx_status(interpreter->ctx)) return zt_ctx_status(interpreter->ctx);
    zt_status bad = run_step(interpreter, s);
    if (!bad) return ZT_OK;
    snprintf(why, sizeof why, "%s", zt_ctx_error(interpreter->ctx));
    zt_ctx_clear(interpreter->ctx);
    return zt_fail(interpreter->ctx, bad, "step %d, '%s': %s", s,
                   zt_prog_value(interpreter->prog, zt_prog_step(interpreter->prog, s)->out[0])->name, why);
}

/* ---- open and close -------------------------------------------------------------------------- */

zt_interpreter *zt_interpreter_open(zt_engine *engine, const zt_prog *program, const zt_store *store, const zt_binding *bindings,
                      int n, bool strict)
{
    zt_interpreter *interpreter = zt_calloc(engine->ctx, 1, sizeof *interpreter);
    if (!interpreter) return NULL;
    interpreter->ctx = engine->ctx;
    interpreter->prog = program;
    interpreter->strict = strict;
    if (store) interpreter->store = *store;
    zt_chain_init(&interpreter->chain, engine);
    interpreter->bound = zt_prog_bind(program, bindings, n);
    if (interpreter->bound) {
        interpreter->value = zt_calloc(interpreter->ctx, (size_t)interpreter->bound->n_values + 1, sizeof *interpreter->value);
        interpreter->engine = zt_calloc(interpreter->ctx, (size_t)interpreter->bound->n_steps + 1, sizeof *interpreter->engine);
    }
    if (interpreter->value && interpreter->engine) return interpreter;
    zt_interpreter_close(interpreter);
    return NULL;
}

void zt_interpreter_close(zt_interpreter *interpreter)
{
    if (!interpreter) return;
    for (int v = 0; interpreter->value && v < interpreter->bound->n_values; v++) zt_free(interpreter->ctx, interpreter->value[v]);
    zt_free(interpreter->ctx, interpreter->value);
    zt_free(interpreter->ctx, interpreter->engine);
    zt_bound_free(interpreter->bound);
    zt_chain_fini(&interpreter->chain);
    zt_free(interpreter->ctx, interpreter);
}

zt_ctx *zt_interpreter_ctx(const zt_interpreter *interpreter) { return interpreter->ctx; }
const zt_prog *zt_interpreter_prog(const zt_interpreter *interpreter) { return interpreter->prog; }
const zt_bound *zt_interpreter_bound(const zt_interpreter *interpreter) { return interpreter->bound; }

const char *zt_interpreter_engine(const zt_interpreter *interpreter, int s)
{
    return s >= 0 && s < interpreter->bound->n_steps && interpreter->engine[s] ? interpreter->engine[s] : "";
}

int zt_interpreter_fallbacks(const zt_interpreter *interpreter) { return interpreter->fallbacks; }
