/* grad.c - the gradient pass: a program becomes one that also computes vector-Jacobian products.
 *
 * The forward ops are copied (those on the way that have no vjp of their own as their expansion),
 * then walked backwards: each op's row writes its gradient through zt_emit, cotangents of one value
 * are added up. There is no other autograd; a gradient is a program, and has a gradient.
 */
#include "lib/run/eager.h"

#include <stdio.h>
#include <string.h>

typedef struct pass {
    zt_ctx *ctx;
    const zt_prog *from;
    zt_prog *to;
    zt_builder *b;
    zt_emit forward; /* emits into `to`, expanding what has no vjp */
    int *map;        /* [values of from]: numbers in `to` */
    bool *asked;     /* [values of from]: is its gradient asked for */
    /* Of values of `to`; cap of them. */
    bool *active; /* does it depend on a value asked about, through what has a gradient */
    int *grad;    /* its cotangent so far, or ZT_NONE */
    int cap;
} pass;

static bool is_real(pass *g, int v)
{
    return zt_dtype_get(zt_builder_type(g->b, v).dtype)->kind == 'F';
}

/* Is v an output that its op keeps for the gradient alone. */
static bool is_saved(const pass *g, int v)
{
    for (int s = 0; s < zt_prog_n_steps(g->to); s++) {
        const zt_step *step = zt_prog_step(g->to, s);
        for (int k = 0; k < zt_op_info(step->op)->n_out; k++)
            if (step->out[k] == v) return zt_op_info(step->op)->def->saved >> k & 1;
    }
    return false;
}

/* Room for what is known of values; new ones are not active and have no cotangent. */
static zt_status grow(pass *g)
{
    int n = zt_prog_n_values(g->to), was = g->cap;
    if (n <= was) return ZT_OK;
    bool *active = zt_realloc(g->ctx, g->active, (size_t)n * 2 * sizeof *active);
    if (!active) return ZT_ENOMEM;
    g->active = active;
    int *grad = zt_realloc(g->ctx, g->grad, (size_t)n * 2 * sizeof *grad);
    if (!grad) return ZT_ENOMEM;
    g->grad = grad;
    g->cap = n * 2;
    for (int v = was; v < g->cap; v++) {
        g->active[v] = false;
        g->grad[v] = ZT_NONE;
    }
    return ZT_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Does a gradient flow from input k: a value on the way, which the row does not take for a
 * constant. */
static bool flows(const pass *g, const zt_opdef *def, const int *inputs, int k)
{
    return inputs[k] >= 0 && g->active[inputs[k]] && !(def->constant >> k & 1);
}

static bool any_flows(const pass *g, const zt_opinfo *info, const int *inputs)
{
    for (int k = 0; k < info->n_in; k++)
        if (flows(g, info->def, inputs, k)) return true;
    return false;
}

/* "v7": made up where nobody gave a name. Here its number is another one. */
static bool is_made_up(const char *name)
{
    size_t digits = strspn(name + 1, "0123456789");
    return name[0] == 'v' && digits > 0 && !name[1 + digits];
}

/* All outputs are wanted: a vjp may read any of them. */
static zt_status add_step(pass *g, zt_op op, const void *attrs, const int *inputs,
                          const char *const *names, int *outputs)
{
    const zt_opinfo *info = zt_op_info(op);
    const char *free_name[ZT_MAX_OUT] = {0};
    for (int k = 0; k < info->n_out && names; k++)
        if (names[k] && !is_made_up(names[k]) && zt_prog_find(g->to, names[k]) < 0)
            free_name[k] = names[k];
    zt_status status = zt_builder_op(g->b, op, attrs, inputs, free_name, outputs);
    if (!status) status = grow(g);
    if (status) return status;
    bool on = any_flows(g, info, inputs);
    for (int k = 0; k < info->n_out; k++) g->active[outputs[k]] = on && is_real(g, outputs[k]);
    return ZT_OK;
}

static zt_status forward_op(pass *g, zt_op op, const void *attrs, const int *inputs,
                            const char *const *names, int *outputs)
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_opdef *def = info->def;
    for (int k = 0; k < info->n_in; k++)
        if (inputs[k] == -1) return zt_fail(g->ctx, ZT_EBUG, "op %s is given what failed", info->name);
    if (def->vjp || !def->expand || !any_flows(g, info, inputs))
        return add_step(g, op, attrs, inputs, names, outputs);
    if (!attrs) attrs = info->defaults;
    for (int k = 0; k < info->n_out; k++) outputs[k] = ZT_NONE;
    def->expand(&g->forward, attrs, inputs, outputs);
    for (int k = 0; k < info->n_out; k++)
        if (outputs[k] == -1) return zt_ctx_status(g->ctx);
    return ZT_OK;
}

static zt_status forward_emit(void *user, zt_op op, const void *attrs, const int *inputs, int *outputs)
{
    zt_status status = forward_op(user, op, attrs, inputs, NULL, outputs);
    for (int k = 0; status && k < zt_op_info(op)->n_out; k++) outputs[k] = -1;
    return status;
}

static zt_type forward_type(void *user, int v)
{
    const zt_emit *e = zt_builder_emit(((pass *)user)->b);
    return e->type(e->user, v);
}

/* From here on, what depends on value v of `from` is on the way. */
static zt_status activate(pass *g, int v)
{
    if (!is_real(g, g->map[v]))
        return zt_fail(g->ctx, ZT_EUSAGE, "'%s' is %s, and has no gradient",
                       zt_prog_value(g->from, v)->name,
                       zt_dtype_get(zt_builder_type(g->b, g->map[v]).dtype)->name);
    g->active[g->map[v]] = true;
    return ZT_OK;
}

static zt_status copy_step(pass *g, const zt_step *step)
{
    const zt_opinfo *info = zt_op_info(step->op);
    const char *names[ZT_MAX_OUT] = {0};
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) inputs[k] = step->in[k] < 0 ? ZT_NONE : g->map[step->in[k]];
    for (int k = 0; k < info->n_out; k++)
        if (step->out[k] >= 0) names[k] = zt_prog_value(g->from, step->out[k])->name;
    zt_status status = forward_op(g, step->op, step->attrs, inputs, names, outputs);
    for (int k = 0; k < info->n_out && !status; k++) {
        if (step->out[k] < 0) continue;
        g->map[step->out[k]] = outputs[k];
        if (outputs[k] < 0)
            status = zt_fail(g->ctx, ZT_ENOTSUP, "op %s: its expansion has no output '%s'", info->name,
                        info->out_name[k]);
        else if (g->asked[step->out[k]])
            status = activate(g, step->out[k]);
    }
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

static zt_status accumulate(pass *g, int v, int dx)
{
    if (g->grad[v] < 0) {
        g->grad[v] = dx;
        return ZT_OK;
    }
    int outputs[ZT_MAX_OUT];
    zt_status status =
        zt_builder_op(g->b, ZT_OP_add, NULL, (const int[]){g->grad[v], dx}, NULL, outputs);
    if (!status) g->grad[v] = outputs[0];
    return status;
}

/* What a row wrote for input k of its step. */
static zt_status take(pass *g, const zt_opinfo *info, const zt_vjp *v, int k)
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    if (!v->want[k] || v->dx[k] == ZT_NONE) return ZT_OK;
    if (v->dx[k] < 0)
        return zt_ctx_status(g->ctx) ? zt_ctx_status(g->ctx)
                                     : zt_fail(g->ctx, ZT_EBUG, "op %s: its vjp fails", info->name);
    zt_type want = zt_builder_type(g->b, v->in[k]), got = zt_builder_type(g->b, v->dx[k]);
    if (!zt_type_equal(&want, &got))
        return zt_fail(g->ctx, ZT_EBUG, "op %s: the gradient of %s is %s, its value %s", info->name,
                       info->in_name[k], zt_type_text(&got, a), zt_type_text(&want, b));
    return accumulate(g, v->in[k], v->dx[k]);
}

static zt_status back_step(pass *g, int s)
{
    const zt_step st = *zt_prog_step(g->to, s);
    const zt_opinfo *info = zt_op_info(st.op);
    zt_vjp v = {.e = zt_builder_emit(g->b), .attrs = st.attrs, .in = st.in, .out = st.out};
    bool asked = false;
    for (int k = 0; k < ZT_MAX_OUT; k++) {
        v.dy[k] = k < info->n_out ? g->grad[st.out[k]] : ZT_NONE;
        asked = asked || v.dy[k] >= 0;
        if (v.dy[k] >= 0 && info->def->saved >> k & 1)
            return zt_fail(g->ctx, ZT_ENOTSUP, "op %s: no gradient goes through its output '%s'",
                           info->name, info->out_name[k]);
    }
    if (!asked || !any_flows(g, info, st.in)) return ZT_OK;
    if (!info->def->vjp) return zt_fail(g->ctx, ZT_ENOTSUP, "op %s has no gradient", info->name);
    for (int k = 0; k < ZT_MAX_IN; k++) {
        v.want[k] = k < info->n_in && flows(g, info->def, st.in, k);
        v.dx[k] = ZT_NONE;
    }
    info->def->vjp(&v);
    if (v.refused[0])
        return zt_fail(g->ctx, ZT_ENOTSUP, "op %s has no gradient: %s", info->name, v.refused);
    zt_status st_ = zt_ctx_status(g->ctx);
    for (int k = 0; k < info->n_in && !st_; k++) st_ = take(g, info, &v, k);
    return st_ ? st_ : grow(g);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static bool is_output(const zt_prog *program, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(program); o++)
        if (!strcmp(zt_prog_output(program, o)->name, name)) return true;
    return false;
}

static int fill(pass *g, int like, double value)
{
    int outputs[ZT_MAX_OUT] = {-1};
    const zt_fill_like_attrs attrs = {value};
    return zt_builder_op(g->b, ZT_OP_fill_like, &attrs, &like, NULL, outputs) ? -1 : outputs[0];
}

/* The cotangent that output `o` starts from: an input of its own, or ones. */
static zt_status seed(pass *g, const zt_output *o, bool given)
{
    char name[300];
    int v = g->map[o->value], dy;
    if (!is_real(g, v) || is_saved(g, v))
        return zt_fail(g->ctx, ZT_EUSAGE, "output '%s' has no gradient: it is %s", o->name,
                       is_real(g, v) ? "kept for the gradient of others" : "not of floats");
    if (given) {
        zt_type type = zt_builder_type(g->b, v);
        if (zt_prog_n_symbols(g->to))
            return zt_fail(g->ctx, ZT_EUSAGE, "the cotangent of '%s' cannot be an input: shapes "
                           "are known only when symbols are bound", o->name);
        snprintf(name, sizeof name, "d.%s", o->name);
        dy = zt_prog_in(g->to, name, type.dtype, type.rank, type.dim);
    } else {
        dy = fill(g, v, 1);
    }
    zt_status status = dy < 0 ? zt_ctx_status(g->ctx) : grow(g);
    return status ? status : accumulate(g, v, dy);
}

static zt_status seed_all(pass *g, const zt_grad_opts *opts)
{
    int found = 0;
    for (int o = 0; o < zt_prog_n_outputs(g->from); o++) {
        const zt_output *out = zt_prog_output(g->from, o);
        bool named = false;
        for (int k = 0; k < opts->n_of; k++) named = named || !strcmp(opts->of[k], out->name);
        int v = g->map[out->value];
        if (opts->n_of ? !named : !is_real(g, v) || is_saved(g, v)) continue;
        zt_status status = seed(g, out, opts->seeds);
        if (status) return status;
        found++;
    }
    if (found && found >= opts->n_of) return grow(g);
    return zt_fail(g->ctx, ZT_EUSAGE, "%d of %d outputs to take the gradient of are there", found,
                   opts->n_of);
}

/* "d.x"; where a gradient of that name is an output already, "d.d.x" and so on. */
static zt_status put_gradient(pass *g, int wrt)
{
    char name[300];
    int v = g->map[wrt], dx = g->grad[v] >= 0 ? g->grad[v] : fill(g, v, 0);
    if (dx < 0) return zt_ctx_status(g->ctx);
    snprintf(name, sizeof name, "d.%s", zt_prog_value(g->from, wrt)->name);
    while (is_output(g->to, name) && strlen(name) + 3 < sizeof name) {
        memmove(name + 2, name, strlen(name) + 1);
        memcpy(name, "d.", 2);
    }
    return zt_prog_out(g->to, name, dx);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static zt_status check(const zt_prog *program, zt_ctx *ctx, const int *wrt, int n)
{
    int state = zt_prog_nth(program, ZT_VALUE_STATE, 0);
    if (state >= 0)
        return zt_fail(ctx, ZT_ENOTSUP, "state '%s': no gradient is taken of a program with states",
                       zt_prog_value(program, state)->name);
    for (int i = 0; i < n; i++)
        if (wrt[i] < 0 || wrt[i] >= zt_prog_n_values(program))
            return zt_fail(ctx, ZT_EUSAGE, "value %d is not in the program", wrt[i]);
    return ZT_OK;
}

static zt_status run_pass(pass *g, const int *wrt, int n, const zt_grad_opts *opts)
{
    zt_status status = grow(g);
    if (status) return status;
    for (int i = 0; i < n && !status; i++) {
        g->asked[wrt[i]] = true;
        if (zt_prog_value(g->from, wrt[i])->kind != ZT_VALUE_OP) status = activate(g, wrt[i]);
    }
    for (int i = 0; i < zt_prog_n_steps(g->from) && !status; i++)
        status = copy_step(g, zt_prog_step(g->from, i));
    int n_forward = zt_prog_n_steps(g->to);
    if (!status) status = seed_all(g, opts);
    for (int i = n_forward; i-- > 0 && !status;) status = back_step(g, i);
    for (int o = 0; o < zt_prog_n_outputs(g->from) && !status; o++) {
        const zt_output *out = zt_prog_output(g->from, o);
        status = zt_prog_out(g->to, out->name, g->map[out->value]);
    }
    for (int i = 0; i < n && !status; i++) status = put_gradient(g, wrt[i]);
    return status;
}

zt_prog *zt_grad_pass(zt_ctx *ctx, const zt_prog *program, const int *wrt, int n,
                      const zt_grad_opts *opts, int *map)
{
    static const zt_grad_opts plain;
    pass g = {.ctx = ctx, .from = program, .map = map};
    if (!opts) opts = &plain;
    if (zt_ctx_status(ctx) || check(program, ctx, wrt, n)) return NULL;
    g.forward = (zt_emit){&g, forward_emit, forward_type};
    g.asked = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *g.asked);
    if (g.asked) g.to = zt_prog_like(program, map);
    if (g.to) g.b = zt_builder_new(g.to, opts->sample, opts->n_sample);
    bool good = g.b && run_pass(&g, wrt, n, opts) == ZT_OK;
    zt_builder_free(g.b);
    zt_free(ctx, g.asked);
    zt_free(ctx, g.active);
    zt_free(ctx, g.grad);
    if (good) return g.to;
    zt_prog_free(g.to);
    return NULL;
}

zt_prog *zt_prog_grad(zt_ctx *ctx, const zt_prog *program, const int *wrt, int n,
                      const zt_grad_opts *opts)
{
    int *map = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *map);
    zt_prog *g = map ? zt_grad_pass(ctx, program, wrt, n, opts, map) : NULL;
    zt_free(ctx, map);
    return g;
}
