/* onnx_loss.h - how the ops of golden/ops/onnx are spelled in zt: softmax kinds, losses and
 * optimizers. */
#ifndef ZT_SPELL_ONNX_LOSS_H
#define ZT_SPELL_ONNX_LOSS_H

#include "tests/ops/spell/spell.h"

/* ---- losses ---------------------------------------------------------------------------------- */

static zt_enum_string reduction_of(const call *node)
{
    zt_enum_string w = {{0}};
    snprintf(w.s, sizeof w.s, "%s", word_or(node, "reduction", "mean"));
    return w;
}

static int build_entropy_loss(const call *node)
{
    zt_cross_entropy_attrs a = {reduction_of(node), int_or(node, "ignore_index", -100), 0};
    if (node->n_out > 1) node->more[0] = zt_program_log_softmax(node->p, NULL, node->in[0], &(zt_log_softmax_attrs){1});
    return zt_program_cross_entropy(node->p, NULL, node->in[0], node->in[1], given(node, 2) ? node->in[2] : ZT_NONE, &a, NULL);
}

static int build_nll_loss(const call *node)
{
    zt_nll_attrs a = {reduction_of(node), int_or(node, "ignore_index", -100)};
    return zt_program_nll(node->p, NULL, node->in[0], node->in[1], given(node, 2) ? node->in[2] : ZT_NONE, &a);
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Inputs R, T, then n each of what a step has (X, G, ...); outputs n each of what is new. */
static int each_of(const call *node, int kinds) { return (node->n_in - 2) / kinds; }

static int opt_times(const call *node, int x, double by) { return zt_program_scale(node->p, NULL, x, &(zt_scale_attrs){by}); }

static int opt_plus(const call *node, int a, int b) { return zt_program_add(node->p, NULL, a, b); }
static int opt_minus(const call *node, int a, int b) { return zt_program_sub(node->p, NULL, a, b); }
static int opt_product(const call *node, int a, int b) { return zt_program_mul(node->p, NULL, a, b); }
static int opt_ratio(const call *node, int a, int b) { return zt_program_div(node->p, NULL, a, b); }

static int put_new(const call *node, int at, int value, int *first)
{
    *(at ? &node->more[at - 1] : first) = value;
    return value;
}

/* T in the learning rate's dtype. */
static int time_of(const call *node)
{
    zt_cast_attrs to = zt_cast_defaults();
    snprintf(to.to.s, sizeof to.to.s, "%s", zt_dtype_get(node->type[0].dtype)->name);
    return zt_program_cast(node->p, NULL, node->in[1], &to);
}

/* a where T is above 0, else b. */
static int if_later(const call *node, int a, int b)
{
    int t = time_of(node), zero = zt_program_fill_like(node->p, NULL, t, &(zt_fill_like_attrs){0});
    return zt_program_where(node->p, NULL, zt_program_gt(node->p, NULL, t, zero), a, b);
}

/* The gradient with that of norm_coefficient / 2 |x|^2. */
static int regular(const call *node, int x, int g)
{
    return opt_plus(node, opt_times(node, x, number(node, "norm_coefficient")), g);
}

static int adaptive(const call *node, int h)
{
    double eps = number_or(node, "epsilon", 1e-6);
    return zt_program_add_scalar(node->p, NULL, zt_program_sqrt(node->p, NULL, h), &(zt_add_scalar_attrs){eps});
}

static int build_adagrad(const call *node)
{
    int count = each_of(node, 3), first = -1;
    int decay = opt_times(node, time_of(node), number(node, "decay_factor"));
    int rate = opt_ratio(node, node->in[0], zt_program_add_scalar(node->p, NULL, decay, &(zt_add_scalar_attrs){1}));
    for (int i = 0; i < count; i++) {
        int x = node->in[2 + i], g = regular(node, x, node->in[2 + count + i]);
        int h = opt_plus(node, node->in[2 + 2 * count + i], zt_program_square(node->p, NULL, g));
        put_new(node, i, opt_minus(node, x, opt_product(node, rate, opt_ratio(node, g, adaptive(node, h)))), &first);
        put_new(node, count + i, h, &first);
    }
    return first;
}

static int build_momentum(const call *node)
{
    int count = each_of(node, 3), first = -1;
    double alpha = number(node, "alpha");
    int one = zt_program_fill_like(node->p, NULL, node->in[0], &(zt_fill_like_attrs){1});
    int beta = if_later(node, opt_times(node, one, number(node, "beta")), one);
    for (int i = 0; i < count; i++) {
        int x = node->in[2 + i], g = regular(node, x, node->in[2 + count + i]);
        int v = opt_plus(node, opt_times(node, node->in[2 + 2 * count + i], alpha), opt_product(node, beta, g)), way = v;
        if (word_is(node, "mode", "nesterov")) way = opt_plus(node, g, opt_times(node, v, alpha));
        put_new(node, i, opt_minus(node, x, opt_product(node, node->in[0], way)), &first);
        put_new(node, count + i, v, &first);
    }
    return first;
}

/* 1 - base^T */
static int unbias(const call *node, double base)
{
    int t = time_of(node), b = zt_program_fill_like(node->p, NULL, t, &(zt_fill_like_attrs){base});
    int one = zt_program_fill_like(node->p, NULL, t, &(zt_fill_like_attrs){1});
    return opt_minus(node, one, zt_program_pow(node->p, NULL, b, t));
}

static int build_adam(const call *node)
{
    int count = each_of(node, 4), first = -1;
    double alpha = number_or(node, "alpha", 0.9), beta = number_or(node, "beta", 0.999);
    double after = 1 - number(node, "norm_coefficient_post");
    int rate = opt_product(node, node->in[0], zt_program_sqrt(node->p, NULL, unbias(node, beta)));
    rate = if_later(node, opt_ratio(node, rate, unbias(node, alpha)), node->in[0]);
    for (int i = 0; i < count; i++) {
        int x = node->in[2 + i], g = regular(node, x, node->in[2 + count + i]);
        int v = opt_plus(node, opt_times(node, node->in[2 + 2 * count + i], alpha), opt_times(node, g, 1 - alpha));
        int h = opt_times(node, zt_program_square(node->p, NULL, g), 1 - beta);
        h = opt_plus(node, opt_times(node, node->in[2 + 3 * count + i], beta), h);
        x = opt_minus(node, x, opt_product(node, rate, opt_ratio(node, v, adaptive(node, h))));
        put_new(node, i, opt_times(node, x, after), &first);
        put_new(node, count + i, v, &first);
        put_new(node, 2 * count + i, h, &first);
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
