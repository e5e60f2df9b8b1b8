/* optim.c - owns the table of optimizers: each writes its update as ops on one weight.
 *
 * Definitions: torch.optim's (weight decay is added to the gradient, adamw's is decoupled).
 */
#include "lib/train/optim.h"

#include <math.h>
#include <string.h>

/* ---- small sums ------------------------------------------------------------------------------ */

static int times(zt_prog *p, int x, double by)
{
    return by == 1 ? x : zt_program_scale(p, NULL, x, &(zt_scale_attrs){.by = by});
}

/* a x + b y */
static int mixed(zt_prog *p, double a, int x, double b, int y)
{
    return zt_program_add(p, NULL, times(p, x, a), times(p, y, b));
}

static int plus(zt_prog *p, int x, double by)
{
    return by == 0 ? x : zt_program_add_scalar(p, NULL, x, &(zt_add_scalar_attrs){.by = by});
}

/* 1 - beta^t, rank 0. */
static int corrected(const zt_update *u, double beta)
{
    return zt_program_neg(u->p, NULL, zt_program_expm1(u->p, NULL, times(u->p, u->step, log(beta))));
}

static int decayed(const zt_update *u, int w, int g)
{
    return u->o->decay == 0 ? g : mixed(u->p, 1, g, u->o->decay, w);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *one_if_momentum(const zt_optim *o) { return o->momentum != 0 ? "m" : ""; }
static const char *square(const zt_optim *o) { return (void)o, "v"; }
static const char *both(const zt_optim *o) { return (void)o, "mv"; }

static int along(const zt_update *u, int w, int g)
{
    return zt_program_sub(u->p, NULL, w, zt_program_mul(u->p, NULL, g, u->lr));
}

static int sgd(zt_update *u, int w, int g)
{
    g = decayed(u, w, g);
    if (u->o->momentum == 0) return along(u, w, g);
    u->made[0] = mixed(u->p, u->o->momentum, u->moment[0], 1, g);
    return along(u, w, u->made[0]);
}

static int nesterov(zt_update *u, int w, int g)
{
    g = decayed(u, w, g);
    if (u->o->momentum == 0) return along(u, w, g);
    u->made[0] = mixed(u->p, u->o->momentum, u->moment[0], 1, g);
    return along(u, w, mixed(u->p, 1, g, u->o->momentum, u->made[0]));
}

static int rmsprop(zt_update *u, int w, int g)
{
    zt_prog *p = u->p;
    g = decayed(u, w, g);
    u->made[0] = mixed(p, u->o->alpha, u->moment[0], 1 - u->o->alpha, zt_program_square(p, NULL, g));
    int size = plus(p, zt_program_sqrt(p, NULL, u->made[0]), u->o->eps);
    return along(u, w, zt_program_div(p, NULL, g, size));
}

static int adam_step(zt_update *u, int w, int g)
{
    zt_prog *p = u->p;
    const zt_optim *o = u->o;
    int m = u->made[0] = mixed(p, o->beta1, u->moment[0], 1 - o->beta1, g);
    int v = u->made[1] = mixed(p, o->beta2, u->moment[1], 1 - o->beta2, zt_program_square(p, NULL, g));
    int root = zt_program_sqrt(p, NULL, corrected(u, o->beta2));
    int size = plus(p, zt_program_div(p, NULL, zt_program_sqrt(p, NULL, v), root), o->eps);
    int by = zt_program_div(p, NULL, u->lr, corrected(u, o->beta1));
    return zt_program_sub(p, NULL, w, zt_program_mul(p, NULL, zt_program_div(p, NULL, m, size), by));
}

static int adam(zt_update *u, int w, int g) { return adam_step(u, w, decayed(u, w, g)); }

static int adamw(zt_update *u, int w, int g)
{
    if (u->o->decay == 0) return adam_step(u, w, g);
    int by = times(u->p, u->lr, u->o->decay);
    return adam_step(u, zt_program_sub(u->p, NULL, w, zt_program_mul(u->p, NULL, w, by)), g);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ADAM .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
static const zt_optimizer optimizers[] = {
    {"sgd", {.lr = 0.01}, one_if_momentum, sgd},
    {"momentum", {.lr = 0.01, .momentum = 0.9}, one_if_momentum, sgd},
    {"nesterov", {.lr = 0.01, .momentum = 0.9}, one_if_momentum, nesterov},
    {"rmsprop", {.lr = 0.001, .alpha = 0.99, .eps = 1e-8}, square, rmsprop},
    {"adam", {.lr = 0.001, ADAM}, both, adam},
    {"adamw", {.lr = 0.001, .decay = 0.01, ADAM}, both, adamw},
};

const zt_optimizer *zt_optimizer_at(int i)
{
    return i >= 0 && i < (int)(sizeof optimizers / sizeof *optimizers) ? &optimizers[i] : NULL;
}

const zt_optimizer *zt_optimizer_named(const char *name)
{
    for (int i = 0; zt_optimizer_at(i); i++)
        if (!strcmp(optimizers[i].name, name)) return &optimizers[i];
    return NULL;
}

const char *zt_optimizer_name(const zt_optimizer *o) { return o->name; }

zt_optim zt_optim_default(const zt_optimizer *method)
{
    zt_optim o = method->defaults;
    o.method = method;
    return o;
}
