/* target_prop.h - target propagation: each layer learns from a target of its own, in place of the gradient of the loss.
 *
 *     zt_train_opts t = {.optim = &o, .gradient = make_gradient, ...};   // make_gradient calls zt_target_prop_program
 *
 * Let a(i) be the output of layer i in the forward pass, e the error of the last layer's output y for each sample (the target
 * minus y for the mean squared error, the target's distribution minus softmax(y) for the cross-entropy), and W the matrix
 * [out, in] of a dense layer. The target t of the last layer is y + e. The targets of the layers below:
 *
 *     chain        t(i) = a(i) + scale g(i), where g is e multiplied by the derivatives of the layers above
 *     difference   t(i) = a(i) + (t(i+1) - a(i+1)) W / sum over out of |W|       (difference target propagation: Lee et al.,
 *                                                                             arXiv:1412.7525, with the inverse of `plain`)
 *     plain        t(i) = t(i+1) W / sum over out of |W|                         (openfluke/loom, package poly)
 *
 * Where sum |W| is 0.01 or less, the change is 0 (plain: the target is 0). Layers without such a matrix pass the change on
 * (difference; to an input of another size 0) or stop it (plain). Of each layer:
 *
 *     gap          root of the mean of (t - a)^2
 *     link budget  (1 + cosine of a and t) / 2; 0 where either is 0
 *     rate         0.5 + 0.5 budget, and 0 where the budget is below 0.2
 *
 * A dense layer's W changes by the mean over the samples of rate (t - a)^T x, its input x; with `chain` every weight changes by
 * the mean of rate g^T (da/dw). The optimizer applies this in place of a negative gradient. gap and budget are taken over all
 * samples of the batch. */
#ifndef ZT_TARGET_PROP_H
#define ZT_TARGET_PROP_H

#include "lib/train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zt_target_rule { ZT_TARGET_DIFFERENCE, ZT_TARGET_PLAIN, ZT_TARGET_CHAIN } zt_target_rule;

typedef enum zt_target_kind {
    ZT_TARGET_MATRIX, /* linear in its input, by the weight [out, in], before its activation */
    ZT_TARGET_GAIN,   /* a norm, whose weight [width] is its gain. plain: it changes by 0.01 of the gap's mean */
    ZT_TARGET_PASS    /* no weight of it changes, unless by `chain` */
} zt_target_kind;

/* A layer, in the order in which layers run. Values are named as in the forward program. */
typedef struct zt_target_layer {
    const char *input, *output; /* values */
    const char *weight;         /* of kinds that have one; else NULL */
    zt_target_kind kind;
    int source; /* the layer that computes its input; -1: none. A source that is not before the layer gets no target */
} zt_target_layer;

typedef struct zt_target_prop {
    zt_target_rule rule;
    double scale; /* of chain: 0.1 in the original */
    zt_loss_kind loss;
    const zt_target_layer *layers;
    int layer_count;
    int (*layer_of)(void *user, const char *weight); /* chain: the layer that a weight belongs to */
    void *user;
} zt_target_prop;

/* The program of forward (as zt_train_with_loss made it) with the outputs of zt_train_opts.gradient, and two of its own
 * (n_reported = 2): "gaps" and "link_budgets", both of [layer_count] in the order of the layers. NULL on error. */
zt_prog *zt_target_prop_program(zt_ctx *ctx, const zt_prog *forward, const int *wrt, int n_weights, int n_watched,
                                const zt_grad_opts *options, const zt_target_prop *how);

#ifdef __cplusplus
}
#endif
#endif
