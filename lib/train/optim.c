/* optim.c - owns the table of optimizers: each writes its update as ops on one weight.
 *
 * Definitions: torch.optim's (weight decay is added to the gradient, adamw's is decoupled).
 */
#include "lib/train/train_internal.h"

#include <math.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static int scale_value(zt_prog *program, int value, double factor)
{
    return factor == 1 ? value : zt_program_scale(program, NULL, value, &(zt_scale_attrs){.by = factor});
}

/* factor_x x + factor_y y */
static int add_weighted(zt_prog *program, double factor_x, int value_x, double factor_y, int value_y)
{
    return zt_program_add(program, NULL, scale_value(program, value_x, factor_x), scale_value(program, value_y, factor_y));
}

static int add_number(zt_prog *program, int value, double number)
{
    return number == 0 ? value : zt_program_add_scalar(program, NULL, value, &(zt_add_scalar_attrs){.by = number});
}

/* 1 - beta^t, rank 0. */
static int bias_correction(const zt_update *update, double beta)
{
    return zt_program_neg(update->program, NULL,
                          zt_program_expm1(update->program, NULL, scale_value(update->program, update->step, log(beta))));
}

static int add_decay(const zt_update *update, int weight, int gradient)
{
    return update->optim->decay == 0 ? gradient : add_weighted(update->program, 1, gradient, update->optim->decay, weight);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *list_momentum(const zt_optim *optim) { return optim->momentum != 0 ? "m" : ""; }
static const char *list_square(const zt_optim *optim) { return (void)optim, "v"; }
static const char *list_both(const zt_optim *optim) { return (void)optim, "mv"; }

static int step_along(const zt_update *update, int weight, int gradient)
{
    return zt_program_sub(update->program, NULL, weight, zt_program_mul(update->program, NULL, gradient, update->learning_rate));
}

static int update_sgd(zt_update *update, int weight, int gradient)
{
    gradient = add_decay(update, weight, gradient);
    if (update->optim->momentum == 0) return step_along(update, weight, gradient);
    update->new_moments[0] = add_weighted(update->program, update->optim->momentum, update->moments[0], 1, gradient);
    return step_along(update, weight, update->new_moments[0]);
}

static int update_nesterov(zt_update *update, int weight, int gradient)
{
    gradient = add_decay(update, weight, gradient);
    if (update->optim->momentum == 0) return step_along(update, weight, gradient);
    update->new_moments[0] = add_weighted(update->program, update->optim->momentum, update->moments[0], 1, gradient);
    return step_along(update, weight,
                      add_weighted(update->program, 1, gradient, update->optim->momentum, update->new_moments[0]));
}

static int update_rmsprop(zt_update *update, int weight, int gradient)
{
    zt_prog *program = update->program;
    gradient = add_decay(update, weight, gradient);
    update->new_moments[0] = add_weighted(program, update->optim->alpha, update->moments[0], 1 - update->optim->alpha,
                                          zt_program_square(program, NULL, gradient));
    int size = add_number(program, zt_program_sqrt(program, NULL, update->new_moments[0]), update->optim->eps);
    return step_along(update, weight, zt_program_div(program, NULL, gradient, size));
}

static int write_adam(zt_update *update, int weight, int gradient)
{
    zt_prog *program = update->program;
    const zt_optim *optim = update->optim;
    int mean = update->new_moments[0] = add_weighted(program, optim->beta1, update->moments[0], 1 - optim->beta1, gradient);
    int variance = update->new_moments[1] =
        add_weighted(program, optim->beta2, update->moments[1], 1 - optim->beta2, zt_program_square(program, NULL, gradient));
    int root = zt_program_sqrt(program, NULL, bias_correction(update, optim->beta2));
    int size = add_number(program, zt_program_div(program, NULL, zt_program_sqrt(program, NULL, variance), root), optim->eps);
    int rate = zt_program_div(program, NULL, update->learning_rate, bias_correction(update, optim->beta1));
    return zt_program_sub(program, NULL, weight, zt_program_mul(program, NULL, zt_program_div(program, NULL, mean, size), rate));
}

static int update_adam(zt_update *update, int weight, int gradient)
{
    return write_adam(update, weight, add_decay(update, weight, gradient));
}

static int update_adamw(zt_update *update, int weight, int gradient)
{
    if (update->optim->decay == 0) return write_adam(update, weight, gradient);
    int rate = scale_value(update->program, update->learning_rate, update->optim->decay);
    return write_adam(update, zt_program_sub(update->program, NULL, weight, zt_program_mul(update->program, NULL, weight, rate)),
                      gradient);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ADAM .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
static const zt_optimizer optimizers[] = {
    {"sgd", {.lr = 0.01}, list_momentum, update_sgd},
    {"momentum", {.lr = 0.01, .momentum = 0.9}, list_momentum, update_sgd},
    {"nesterov", {.lr = 0.01, .momentum = 0.9}, list_momentum, update_nesterov},
    {"rmsprop", {.lr = 0.001, .alpha = 0.99, .eps = 1e-8}, list_square, update_rmsprop},
    {"adam", {.lr = 0.001, ADAM}, list_both, update_adam},
    {"adamw", {.lr = 0.001, .decay = 0.01, ADAM}, list_both, update_adamw},
};

const zt_optimizer *zt_optimizer_at(int index)
{
    return index >= 0 && index < (int)(sizeof optimizers / sizeof *optimizers) ? &optimizers[index] : NULL;
}

const zt_optimizer *zt_optimizer_named(const char *name)
{
    if (!name) return NULL;
    for (int i = 0; zt_optimizer_at(i); i++)
        if (!strcmp(optimizers[i].name, name)) return &optimizers[i];
    return NULL;
}

const char *zt_optimizer_name(const zt_optimizer *optimizer) { return optimizer ? optimizer->name : NULL; }

zt_optim zt_optim_default(const zt_optimizer *method)
{
    if (!method) return (zt_optim){0};
    zt_optim optim = method->defaults;
    optim.method = method;
    return optim;
}
