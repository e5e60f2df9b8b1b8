/* step.c - owns how a forward program becomes a step of training: its gradient pass, with weights
 * turned into states, and clipping and the optimizer's update written behind it. */
#include "lib/prog/states.h"
#include "lib/train/copy.h"
#include "lib/train/optim.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WEIGHTS = 1 << 16, NAME = 300 };

typedef struct step {
    zt_ctx *ctx;
    const zt_train_opts *o;
    const zt_prog *forward;
    zt_prog *grad; /* forward and d.NAME for each weight */
    zt_prog *to;
    int *map;      /* [values of grad]: its number in `to` */
    int *weight;   /* [n]: values of forward, then (after the gradient pass) of `to` */
    int *gradient; /* [n]: values of `to` */
    int *wrt;      /* values of forward: the n weights, then those watched */
    int n, grad_outputs;
    zt_update u;
} step;

/* ---- what is trained ------------------------------------------------------------------------- */

static bool is_real(const zt_value *v)
{
    return v->type.dtype == ZT_F32 || v->type.dtype == ZT_F64;
}

static zt_status check_weight(const step *s, int v)
{
    const zt_value *w =
        v >= 0 && v < zt_prog_n_values(s->forward) ? zt_prog_value(s->forward, v) : NULL;
    if (!w || (w->kind != ZT_VALUE_IN && w->kind != ZT_VALUE_DATA))
        return zt_fail(s->ctx, ZT_EUSAGE, "weight '%s' is neither an input nor data of the program",
                       w ? w->name : "?");
    if (!is_real(w))
        return zt_fail(s->ctx, ZT_EUSAGE, "weight '%s' is %s: f32 and f64 are trained", w->name,
                       zt_dtype_get(w->type.dtype)->name);
    if (w->type.dtype != zt_prog_value(s->forward, s->weight[0])->type.dtype)
        return zt_fail(s->ctx, ZT_EUSAGE, "weight '%s' is %s, the first %s", w->name,
                       zt_dtype_get(w->type.dtype)->name,
                       zt_dtype_get(zt_prog_value(s->forward, s->weight[0])->type.dtype)->name);
    for (int d = 0; d < w->type.rank; d++)
        if (w->type.dim[d] < 0)
            return zt_fail(s->ctx, ZT_EUSAGE, "weight '%s' has no fixed shape", w->name);
    return ZT_OK;
}

static zt_status find_weights(step *s)
{
    const zt_prog *p = s->forward;
    int most = s->o->n_weights ? s->o->n_weights : zt_prog_count(p, ZT_VALUE_DATA);
    if (most > MAX_WEIGHTS)
        return zt_fail(s->ctx, ZT_EUSAGE, "%d weights are more than %d", most, MAX_WEIGHTS);
    s->weight = zt_calloc(s->ctx, (size_t)most + 1, sizeof *s->weight);
    s->gradient = zt_calloc(s->ctx, (size_t)most + 1, sizeof *s->gradient);
    if (!s->weight || !s->gradient) return ZT_ENOMEM;
    for (int i = 0; i < most; i++) {
        int v = s->o->n_weights ? s->o->weights[i] : zt_prog_nth(p, ZT_VALUE_DATA, i);
        if (s->o->n_weights || is_real(zt_prog_value(p, v))) s->weight[s->n++] = v;
    }
    if (!s->n) return zt_fail(s->ctx, ZT_EUSAGE, "the program has no weights that can be trained");
    zt_status st = ZT_OK;
    for (int i = 0; i < s->n && !st; i++) {
        st = check_weight(s, s->weight[i]);
        for (int k = 0; k < i && !st; k++)
            if (s->weight[k] == s->weight[i])
                st = zt_fail(s->ctx, ZT_EUSAGE, "weight '%s' is named twice",
                             zt_prog_value(p, s->weight[i])->name);
    }
    return st;
}

/* ---- the gradient, with states --------------------------------------------------------------- */

static int output_of(const zt_prog *p, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(p); o++)
        if (!strcmp(zt_prog_output(p, o)->name, name)) return o;
    return -1;
}

static zt_status differentiate(step *s)
{
    const char *loss = s->o->loss ? s->o->loss : "loss";
    if (output_of(s->forward, loss) < 0)
        return zt_fail(s->ctx, ZT_EUSAGE, "the program has no output '%s' to train by", loss);
    zt_grad_opts g = {.of = &loss, .n_of = 1, .sample = s->o->sample, .n_sample = s->o->n_sample};
    s->wrt = zt_alloc_array(s->ctx, (size_t)(s->n + s->o->n_watched), sizeof *s->wrt);
    if (!s->wrt) return ZT_ENOMEM;
    memcpy(s->wrt, s->weight, (size_t)s->n * sizeof *s->wrt);
    for (int i = 0; i < s->o->n_watched; i++) s->wrt[s->n + i] = s->o->watched[i];
    s->grad = zt_prog_grad(s->ctx, s->forward, s->wrt, s->n + s->o->n_watched, &g);
    s->grad_outputs = zt_prog_n_outputs(s->forward);
    return s->grad ? ZT_OK : zt_ctx_status(s->ctx);
}

/* The gradient's program again, weights as states. The pass numbers declarations as forward does
 * among themselves, so they are found by name. */
static zt_status turn(step *s)
{
    int n = zt_prog_n_values(s->grad);
    bool *state = zt_calloc(s->ctx, (size_t)n + 1, sizeof *state);
    s->map = zt_calloc(s->ctx, (size_t)n + 1, sizeof *s->map);
    if (!state || !s->map) {
        zt_free(s->ctx, state);
        return ZT_ENOMEM;
    }
    for (int i = 0; i < s->n; i++) {
        s->weight[i] = zt_prog_find(s->grad, zt_prog_value(s->forward, s->weight[i])->name);
        state[s->weight[i]] = true;
    }
    s->to = zt_prog_like_states(s->grad, state, s->map);
    zt_free(s->ctx, state);
    zt_status st = s->to ? ZT_OK : zt_ctx_status(s->ctx);
    for (int i = 0; i < s->n && !st; i++) {
        int was = s->weight[i], *used = &s->map[was];
        s->weight[i] = *used;
        if (s->o->through)
            *used = s->o->through(s->o->user, s->to, *used, zt_prog_value(s->grad, was)->name);
        if (*used < 0) st = zt_ctx_status(s->ctx);
    }
    if (!st) st = zt_train_copy_ops(s->ctx, s->grad, s->to, s->map);
    for (int i = 0; i < s->n && !st; i++)
        s->gradient[i] = s->map[zt_prog_output(s->grad, s->grad_outputs + i)->value];
    return st;
}

/* ---- clipping and the update ----------------------------------------------------------------- */

/* The norm of all gradients together. */
static int norm_of(const step *s)
{
    int sum = -1;
    for (int i = 0; i < s->n; i++) {
        int one = zt_program_sum(s->to, NULL, zt_program_square(s->to, NULL, s->gradient[i]), NULL);
        sum = i ? zt_program_add(s->to, NULL, sum, one) : one;
    }
    return zt_program_sqrt(s->to, "grad_norm", sum);
}

/* Gradients by min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it. */
static void clip(step *s, int norm)
{
    zt_prog *p = s->to;
    int by = zt_program_recip(p, NULL,
                           zt_program_add_scalar(p, NULL, norm, &(zt_add_scalar_attrs){.by = 1e-6}));
    by = zt_program_scale(p, NULL, by, &(zt_scale_attrs){.by = s->o->clip});
    by = zt_program_clamp(p, NULL, by, &(zt_clamp_attrs){.lo = 0, .hi = 1});
    for (int i = 0; i < s->n; i++) s->gradient[i] = zt_program_mul(p, NULL, s->gradient[i], by);
}

static int moment_state(const step *s, char prefix, const zt_value *w)
{
    char name[NAME];
    snprintf(name, sizeof name, "%c.%s", prefix, w->name);
    return zt_prog_state(s->to, name, w->type.dtype, w->type.rank, w->type.dim);
}

static zt_status update(step *s, int i)
{
    const zt_optimizer *m = s->u.o->method;
    const char *moments = m->moments(s->u.o);
    const zt_value w = *zt_prog_value(s->to, s->weight[i]);
    for (int k = 0; moments[k]; k++)
        if ((s->u.moment[k] = moment_state(s, moments[k], &w)) < 0) return zt_ctx_status(s->ctx);
    int made = m->update(&s->u, s->weight[i], s->gradient[i]);
    zt_status st = made < 0 ? zt_ctx_status(s->ctx) : zt_prog_keep(s->to, s->weight[i], made);
    for (int k = 0; moments[k] && !st; k++) st = zt_prog_keep(s->to, s->u.moment[k], s->u.made[k]);
    return st;
}

static zt_status write_update(step *s)
{
    zt_dtype t = zt_prog_value(s->to, s->weight[0])->type.dtype;
    s->u = (zt_update){.p = s->to, .o = s->o->optim};
    s->u.lr = zt_prog_in(s->to, "lr", t, 0, NULL);
    s->u.step = s->u.lr < 0 ? -1 : zt_prog_in(s->to, "step", t, 0, NULL);
    int norm = s->u.step < 0 ? -1 : norm_of(s);
    if (norm < 0) return zt_ctx_status(s->ctx);
    if (s->o->clip > 0) clip(s, norm);
    zt_status st = zt_ctx_status(s->ctx);
    for (int i = 0; i < s->n && !st; i++) st = update(s, i);
    for (int o = 0; o < s->grad_outputs && !st; o++) {
        const zt_output *out = zt_prog_output(s->grad, o);
        st = zt_prog_out(s->to, out->name, s->map[out->value]);
    }
    if (!st) st = zt_prog_out(s->to, "grad_norm", norm);
    for (int i = 0; i < s->o->n_watched && !st; i++) {
        const zt_output *out = zt_prog_output(s->grad, s->grad_outputs + s->n + i);
        st = zt_prog_out(s->to, out->name, s->map[out->value]);
    }
    return st;
}

zt_prog *zt_train_program(zt_ctx *ctx, const zt_prog *forward, const zt_train_opts *o)
{
    step s = {.ctx = ctx, .o = o, .forward = forward};
    zt_status st = zt_ctx_status(ctx);
    if (!st) st = find_weights(&s);
    if (!st) st = differentiate(&s);
    if (!st) st = turn(&s);
    if (!st) st = write_update(&s);
    if (st) zt_prog_free(s.to);
    zt_prog_free(s.grad);
    zt_free(ctx, s.map);
    zt_free(ctx, s.weight);
    zt_free(ctx, s.wrt);
    zt_free(ctx, s.gradient);
    return st ? NULL : s.to;
}
