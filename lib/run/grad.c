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
        const zt_step *st = zt_prog_step(g->to, s);
        for (int k = 0; k < zt_op_info(st->op)->n_out; k++)
            if (st->out[k] == v) return zt_op_info(st->op)->def->saved >> k & 1;
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
static bool flows(const pass *g, const zt_opdef *def, const int *in, int k)
{
    return in[k] >= 0 && g->active[in[k]] && !(def->constant >> k & 1);
}

static bool any_flows(const pass *g, const zt_opinfo *info, const int *in)
{
    for (int k = 0; k < info->n_in; k++)
        if (flows(g, info->def, in, k)) return true;
    return false;
}

/* "v7": made up where nobody gave a name. Here its number is another one. */
static bool is_made_up(const char *name)
{
    size_t digits = strspn(name + 1, "0123456789");
    return name[0] == 'v' && digits > 0 && !name[1 + digits];
}

/* All outputs are wanted: a vjp may read any of them. */
static zt_status add_step(pass *g, zt_op op, const void *attrs, const int *in,
                          const char *const *names, int *out)
{
    const zt_opinfo *info = zt_op_info(op);
    const char *free_name[ZT_MAX_OUT] = {0};
    for (int k = 0; k < info->n_out && names; k++)
        if (names[k] && !is_made_up(names[k]) && zt_prog_find(g->to, names[k]) < 0)
            free_name[k] = names[k];
    zt_status s = zt_builder_op(g->b, op, attrs, in, free_name, out);
    if (!s) s = grow(g);
    if (s) return s;
    bool on = any_flows(g, info, in);
    for (int k = 0; k < info->n_out; k++) g->active[out[k]] = on && is_real(g, out[k]);
    return ZT_OK;
}

static zt_status forward_op(pass *g, zt_op op, const void *attrs, const int *in,
                            const char *const *names, int *out)
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_opdef *def = info->def;
    for (int k = 0; k < info->n_in; k++)
        if (in[k] == -1) return zt_fail(g->ctx, ZT_EBUG, "op %s is given what failed", info->name);
    if (def->vjp || !def->expand || !any_flows(g, info, in))
        return add_step(g, op, attrs, in, names, out);
    if (!attrs) attrs = info->defaults;
    for (int k = 0; k < info->n_out; k++) out[k] = ZT_NONE;
    def->expand(&g->forward, attrs, in, out);
    for (int k = 0; k < info->n_out; k++)
        if (out[k] == -1) return zt_ctx_status(g->ctx);
    return ZT_OK;
}

static zt_status forward_emit(void *user, zt_op op, const void *attrs, const int *in, int *out)
{
    zt_status s = forward_op(user, op, attrs, in, NULL, out);
    for (int k = 0; s && k < zt_op_info(op)->n_out; k++) out[k] = -1;
    return s;
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

static zt_status copy_step(pass *g, const zt_step *st)
{
    const zt_opinfo *info = zt_op_info(st->op);
    const char *names[ZT_MAX_OUT] = {0};
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) in[k] = st->in[k] < 0 ? ZT_NONE : g->map[st->in[k]];
    for (int k = 0; k < info->n_out; k++)
        if (st->out[k] >= 0) names[k] = zt_prog_value(g->from, st->out[k])->name;
    zt_status s = forward_op(g, st->op, st->attrs, in, names, out);
    for (int k = 0; k < info->n_out && !s; k++) {
        if (st->out[k] < 0) continue;
        g->map[st->out[k]] = out[k];
        if (out[k] < 0)
            s = zt_fail(g->ctx, ZT_ENOTSUP, "op %s: its expansion has no output '%s'", info->name,
                        info->out_name[k]);
        else if (g->asked[st->out[k]])
            s = activate(g, st->out[k]);
    }
    return s;
}

/* ---- backward -------------------------------------------------------------------------------- */

static zt_status accumulate(pass *g, int v, int dx)
{
    if (g->grad[v] < 0) {
        g->grad[v] = dx;
        return ZT_OK;
    }
    int out[ZT_MAX_OUT];
    zt_status s =
        zt_builder_op(g->b, ZT_OP_add, NULL, (const int[]){g->grad[v], dx}, NULL, out);
    if (!s) g->grad[v] = out[0];
    return s;
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

static bool is_output(const zt_prog *p, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(p); o++)
        if (!strcmp(zt_prog_output(p, o)->name, name)) return true;
    return false;
}

static int fill(pass *g, int like, double value)
{
    int out[ZT_MAX_OUT] = {-1};
    const zt_fill_like_attrs a = {value};
    return zt_builder_op(g->b, ZT_OP_fill_like, &a, &like, NULL, out) ? -1 : out[0];
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
        zt_type t = zt_builder_type(g->b, v);
        if (zt_prog_n_symbols(g->to))
            return zt_fail(g->ctx, ZT_EUSAGE, "the cotangent of '%s' cannot be an input: shapes "
                           "are known only when symbols are bound", o->name);
        snprintf(name, sizeof name, "d.%s", o->name);
        dy = zt_prog_in(g->to, name, t.dtype, t.rank, t.dim);
    } else {
        dy = fill(g, v, 1);
    }
    zt_status s = dy < 0 ? zt_ctx_status(g->ctx) : grow(g);
    return s ? s : accumulate(g, v, dy);
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
        zt_status s = seed(g, out, opts->seeds);
        if (s) return s;
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

static zt_status check(const zt_prog *p, zt_ctx *ctx, const int *wrt, int n)
{
    int state = zt_prog_nth(p, ZT_VALUE_STATE, 0);
    if (state >= 0)
        return zt_fail(ctx, ZT_ENOTSUP, "state '%s': no gradient is taken of a program with states",
                       zt_prog_value(p, state)->name);
    for (int i = 0; i < n; i++)
        if (wrt[i] < 0 || wrt[i] >= zt_prog_n_values(p))
            return zt_fail(ctx, ZT_EUSAGE, "value %d is not in the program", wrt[i]);
    return ZT_OK;
}

static zt_status run_pass(pass *g, const int *wrt, int n, const zt_grad_opts *opts)
{
    zt_status s = grow(g);
    if (s) return s;
    for (int i = 0; i < n && !s; i++) {
        g->asked[wrt[i]] = true;
        if (zt_prog_value(g->from, wrt[i])->kind != ZT_VALUE_OP) s = activate(g, wrt[i]);
    }
    for (int i = 0; i < zt_prog_n_steps(g->from) && !s; i++)
        s = copy_step(g, zt_prog_step(g->from, i));
    int n_forward = zt_prog_n_steps(g->to);
    if (!s) s = seed_all(g, opts);
    for (int i = n_forward; i-- > 0 && !s;) s = back_step(g, i);
    for (int o = 0; o < zt_prog_n_outputs(g->from) && !s; o++) {
        const zt_output *out = zt_prog_output(g->from, o);
        s = zt_prog_out(g->to, out->name, g->map[out->value]);
    }
    for (int i = 0; i < n && !s; i++) s = put_gradient(g, wrt[i]);
    return s;
}

zt_prog *zt_grad_pass(zt_ctx *ctx, const zt_prog *p, const int *wrt, int n,
                      const zt_grad_opts *opts, int *map)
{
    static const zt_grad_opts plain;
    pass g = {.ctx = ctx, .from = p, .map = map};
    if (!opts) opts = &plain;
    if (zt_ctx_status(ctx) || check(p, ctx, wrt, n)) return NULL;
    g.forward = (zt_emit){&g, forward_emit, forward_type};
    g.asked = zt_calloc(ctx, (size_t)zt_prog_n_values(p) + 1, sizeof *g.asked);
    if (g.asked) g.to = zt_prog_like(p, map);
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

zt_prog *zt_prog_grad(zt_ctx *ctx, const zt_prog *p, const int *wrt, int n,
                      const zt_grad_opts *opts)
{
    int *map = zt_calloc(ctx, (size_t)zt_prog_n_values(p) + 1, sizeof *map);
    zt_prog *g = map ? zt_grad_pass(ctx, p, wrt, n, opts, map) : NULL;
    zt_free(ctx, map);
    return g;
}
