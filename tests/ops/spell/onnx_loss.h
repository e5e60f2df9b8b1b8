/* onnx_loss.h - how the ops of golden/ops/onnx are spelled in zt: softmax kinds, losses and
 * optimizers. */
#ifndef ZT_SPELL_ONNX_LOSS_H
#define ZT_SPELL_ONNX_LOSS_H

#include "tests/ops/spell/spell.h"

/* ---- losses ---------------------------------------------------------------------------------- */

static zt_enum_string reduction_of(const call *c)
{
    zt_enum_string w = {{0}};
    snprintf(w.s, sizeof w.s, "%s", word_or(c, "reduction", "mean"));
    return w;
}

static int build_entropy_loss(const call *c)
{
    zt_cross_entropy_attrs a = {reduction_of(c), int_or(c, "ignore_index", -100), 0};
    if (c->n_out > 1)
        c->more[0] = zt_program_log_softmax(c->p, NULL, c->in[0], &(zt_log_softmax_attrs){1});
    return zt_program_cross_entropy(c->p, NULL, c->in[0], c->in[1], given(c, 2) ? c->in[2] : ZT_NONE,
                                 &a, NULL);
}

static int build_nll_loss(const call *c)
{
    zt_nll_attrs a = {reduction_of(c), int_or(c, "ignore_index", -100)};
    return zt_program_nll(c->p, NULL, c->in[0], c->in[1], given(c, 2) ? c->in[2] : ZT_NONE, &a);
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Inputs R, T, then n each of what a step has (X, G, ...); outputs n each of what is new. */
static int each_of(const call *c, int kinds) { return (c->n_in - 2) / kinds; }

static int opt_times(const call *c, int x, double by)
{
    return zt_program_scale(c->p, NULL, x, &(zt_scale_attrs){by});
}

static int opt_plus(const call *c, int a, int b) { return zt_program_add(c->p, NULL, a, b); }
static int opt_minus(const call *c, int a, int b) { return zt_program_sub(c->p, NULL, a, b); }
static int opt_product(const call *c, int a, int b) { return zt_program_mul(c->p, NULL, a, b); }
static int opt_ratio(const call *c, int a, int b) { return zt_program_div(c->p, NULL, a, b); }

static int put_new(const call *c, int at, int value, int *first)
{
    *(at ? &c->more[at - 1] : first) = value;
    return value;
}

/* T in the learning rate's dtype. */
static int time_of(const call *c)
{
    zt_cast_attrs to = zt_cast_defaults();
    snprintf(to.to.s, sizeof to.to.s, "%s", zt_dtype_get(c->type[0].dtype)->name);
    return zt_program_cast(c->p, NULL, c->in[1], &to);
}

/* a where T is above 0, else b. */
static int if_later(const call *c, int a, int b)
{
    int t = time_of(c), zero = zt_program_fill_like(c->p, NULL, t, &(zt_fill_like_attrs){0});
    return zt_program_where(c->p, NULL, zt_program_gt(c->p, NULL, t, zero), a, b);
}

/* The gradient with that of norm_coefficient / 2 |x|^2. */
static int regular(const call *c, int x, int g)
{
    return opt_plus(c, opt_times(c, x, number(c, "norm_coefficient")), g);
}

static int adaptive(const call *c, int h)
{
    double eps = number_or(c, "epsilon", 1e-6);
    return zt_program_add_scalar(c->p, NULL, zt_program_sqrt(c->p, NULL, h), &(zt_add_scalar_attrs){eps});
}

static int build_adagrad(const call *c)
{
    int count = each_of(c, 3), first = -1;
    int decay = opt_times(c, time_of(c), number(c, "decay_factor"));
    int rate =
        opt_ratio(c, c->in[0], zt_program_add_scalar(c->p, NULL, decay, &(zt_add_scalar_attrs){1}));
    for (int i = 0; i < count; i++) {
        int x = c->in[2 + i], g = regular(c, x, c->in[2 + count + i]);
        int h = opt_plus(c, c->in[2 + 2 * count + i], zt_program_square(c->p, NULL, g));
        put_new(c, i, opt_minus(c, x, opt_product(c, rate, opt_ratio(c, g, adaptive(c, h)))),
                &first);
        put_new(c, count + i, h, &first);
    }
    return first;
}

static int build_momentum(const call *c)
{
    int count = each_of(c, 3), first = -1;
    double alpha = number(c, "alpha");
    int one = zt_program_fill_like(c->p, NULL, c->in[0], &(zt_fill_like_attrs){1});
    int beta = if_later(c, opt_times(c, one, number(c, "beta")), one);
    for (int i = 0; i < count; i++) {
        int x = c->in[2 + i], g = regular(c, x, c->in[2 + count + i]);
        int v = opt_plus(c, opt_times(c, c->in[2 + 2 * count + i], alpha), opt_product(c, beta, g)),
            way = v;
        if (word_is(c, "mode", "nesterov")) way = opt_plus(c, g, opt_times(c, v, alpha));
        put_new(c, i, opt_minus(c, x, opt_product(c, c->in[0], way)), &first);
        put_new(c, count + i, v, &first);
    }
    return first;
}

/* 1 - base^T */
static int unbias(const call *c, double base)
{
    int t = time_of(c), b = zt_program_fill_like(c->p, NULL, t, &(zt_fill_like_attrs){base});
    int one = zt_program_fill_like(c->p, NULL, t, &(zt_fill_like_attrs){1});
    return opt_minus(c, one, zt_program_pow(c->p, NULL, b, t));
}

static int build_adam(const call *c)
{
    int count = each_of(c, 4), first = -1;
    double alpha = number_or(c, "alpha", 0.9), beta = number_or(c, "beta", 0.999);
    double after = 1 - number(c, "norm_coefficient_post");
    int rate = opt_product(c, c->in[0], zt_program_sqrt(c->p, NULL, unbias(c, beta)));
    rate = if_later(c, opt_ratio(c, rate, unbias(c, alpha)), c->in[0]);
    for (int i = 0; i < count; i++) {
        int x = c->in[2 + i], g = regular(c, x, c->in[2 + count + i]);
        int v = opt_plus(c, opt_times(c, c->in[2 + 2 * count + i], alpha), opt_times(c, g, 1 - alpha));
        int h = opt_times(c, zt_program_square(c->p, NULL, g), 1 - beta);
        h = opt_plus(c, opt_times(c, c->in[2 + 3 * count + i], beta), h);
        x = opt_minus(c, x, opt_product(c, rate, opt_ratio(c, v, adaptive(c, h))));
        put_new(c, i, opt_times(c, x, after), &first);
        put_new(c, count + i, v, &first);
        put_new(c, 2 * count + i, h, &first);
    }
    return first;
}

static const spelling onnx_loss_ops[] = {
    {"Softmax", .op = ZT_OP_softmax},
    {"LogSoftmax", .op = ZT_OP_log_softmax},
    {"SoftmaxCrossEntropyLoss", .build = build_entropy_loss, .ids = true},
    {"NegativeLogLikelihoodLoss", .build = build_nll_loss, .ids = true},
    {"Adagrad", .build = build_adagrad},
    {"Momentum", .build = build_momentum},
    {"Adam", .build = build_adam},
};

#endif
