/* train.h - training: a program with a loss becomes one program that takes a step of training.
 *
 *     zt_optim o = zt_optim_default(zt_optimizer_named("adam"));
 *     zt_train_opts t = {.optim = &o, .clip = 1, .sample = &n, .n_sample = 1};
 *     zt_trainer *r = zt_trainer_open(engine, forward, &t, &store);   // weights: forward's data
 *     for (each batch)
 *         zt_trainer_step(r, &n, 1, in, o.lr, NULL, &result);
 *     zt_trainer_get(r, i, host);
 *     zt_trainer_close(r);
 *
 * The step has forward pass, loss, gradient, clipping and the optimizer's update. Weights and moments are its states;
 * learning rate and step number are inputs, so that every step is a replay of the same program. The result depends only on
 * states and inputs: the same bits for any number of threads, and after states were saved and restored.
 */
#ifndef ZT_TRAIN_H
#define ZT_TRAIN_H

#include "lib/base/ranks.h"
#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Rows of one table: "sgd" "momentum" "nesterov" "rmsprop" "adam" "adamw". */
typedef struct zt_optimizer zt_optimizer;
const zt_optimizer *zt_optimizer_named(const char *name);     /* NULL: no such optimizer */
const zt_optimizer *zt_optimizer_at(int index);               /* NULL past the last */
const char *zt_optimizer_name(const zt_optimizer *optimizer); /* "adam"; static */

/* The definitions are those of torch.optim. g: the gradient after clipping and, except for adamw, weight decay (g + decay w).
 *     sgd, momentum   m = momentum m + g;  w -= lr m        (momentum 0: no moment is kept)
 *     nesterov        m = momentum m + g;  w -= lr (g + momentum m)
 *     rmsprop         v = alpha v + (1 - alpha) g^2;  w -= lr g / (sqrt(v) + eps)
 *     adam            m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
 *                     w -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *     adamw           the same, after w -= lr decay w */
typedef struct zt_optim {
    const zt_optimizer *method;
    double lr; /* usual for the method; a step takes its own */
    double momentum, decay, beta1, beta2, alpha, eps;
} zt_optim;
zt_optim zt_optim_default(const zt_optimizer *method); /* the method with its usual values */

/* ---- losses ---------------------------------------------------------------------------------- */

typedef enum zt_loss_kind {
    ZT_LOSS_MSE,          /* mean squared error; the target has the output's shape */
    ZT_LOSS_CROSS_ENTROPY /* mean cross-entropy of logits [.., C]; the target is class numbers, i32[..] */
} zt_loss_kind;

/* The program with an input "target" after its own inputs, and the loss of its output `name` (NULL: the first) as an output
 * "loss". The target has as many rows as the program's first input. NULL on error. */
zt_prog *zt_train_with_loss(zt_ctx *ctx, const zt_prog *program, const char *name, zt_loss_kind kind, const zt_binding *sample,
                            int n_sample);

/* ---- the step as a program ------------------------------------------------------------------- */

typedef struct zt_train_opts {
    const zt_optim *optim;
    double clip;        /* maximum of the global gradient norm; 0: no clipping */
    const char *loss;   /* the output to minimize, a float of rank 0; NULL: "loss" */
    const int *weights; /* values of the program, inputs or data of floats of one type; NULL with
                         * n_weights 0: all data of f32 or f64 */
    int n_weights;
    /* Adds ops on a weight's state and returns the value that the forward pass uses in its place, -1 on error. The gradient
     * with respect to that value is applied to the state (straight-through estimator). NULL: the state itself is used. */
    int (*through)(void *user, zt_prog *p, int state, const char *name);
    /* Another method than backpropagation: returns the program of forward with, after its outputs, an output d.NAME for each
     * of the n_weights and then the n_watched values wrt[], and then outputs of its own. The optimizer takes the first for
     * gradients. forward has the values of the program under their names. NULL: zt_prog_grad. */
    zt_prog *(*gradient)(void *user, zt_ctx *ctx, const zt_prog *forward, const int *wrt, int n_weights, int n_watched,
                         const zt_grad_opts *options);
    void *user;
    const zt_binding *sample; /* a number for each symbol, preferably those of a batch */
    int n_sample;
    const int *watched; /* values of the program whose gradients become outputs; no duplicates */
    int n_watched;
    bool strict;        /* trainer: an op that the engine lacks is an error; no fallback engine */
    int64_t accumulate; /* trainer: gradient accumulation. The rows of a batch are split into so many micro-batches, whose
                         * gradients are summed in a fixed order, weighted by their rows: the loss must be a mean over rows. 0
                         * and 1: not split */
    zt_ranks *ranks; /* trainer: these deal the micro-batches among them, of which there must be as many (ZT_EUSAGE). All take the
                      * same steps on the same batches. Rank 0 has the states, and its weights are those of all. NULL: alone */
} zt_train_opts;

/* The program of a training step:
 *     states    weights under their names, in the program's order; then moments, "m.NAME" and "v.NAME"
 *     inputs    the program's, except weights; then "lr" and "step" (from 1), of the weights' type
 *     outputs   the program's; then "grad_norm", before clipping; then "d.NAME" for each value watched; then the method's
 * NULL with ZT_EUSAGE: weights or loss do not fit. */
zt_prog *zt_train_program(zt_ctx *ctx, const zt_prog *forward, const zt_train_opts *options);

/* ---- steps on an engine ---------------------------------------------------------------------- */

typedef struct zt_trainer zt_trainer;

typedef struct zt_trained {
    double loss, grad_norm; /* of the batch, before the update */
} zt_trained;

/* Opens a session of the step's program, after the passes. Initial weights are read from the store, by the name of the
 * data's tensor or of the input, and converted; moments are 0. Engine, forward program and store are borrowed. */
zt_trainer *zt_trainer_open(zt_engine *engine, const zt_prog *forward, const zt_train_opts *options, const zt_store *store);
void zt_trainer_close(zt_trainer *trainer);        /* does not close engine, program or store. NULL: no effect */
zt_ctx *zt_trainer_ctx(const zt_trainer *trainer); /* its engine's */

/* One step. inputs[i]: the i-th input of forward that is not a weight. out: NULL, or an entry for each output of forward, then
 * for each value watched, then for each output of `gradient`; NULL entries are not wanted. Adds 1 to the step count. */
zt_status zt_trainer_step(zt_trainer *trainer, const zt_binding *bindings, int binding_count, const void *const *inputs,
                          double learning_rate, void *const *out, zt_trained *result);
uint64_t zt_trainer_steps(const zt_trainer *trainer);           /* steps done */
void zt_trainer_set_steps(zt_trainer *trainer, uint64_t steps); /* from a checkpoint */

int zt_trainer_n_weights(const zt_trainer *trainer); /* states 0 to this - 1 are weights */
/* States by index: weights, then moments. Types as declared. */
int zt_trainer_n_states(const zt_trainer *trainer);
const char *zt_trainer_state_name(const zt_trainer *trainer, int index); /* "w", "m.w"; NULL: out of range */
zt_type zt_trainer_state_type(const zt_trainer *trainer, int index);     /* rank -1: out of range */
/* Copies state i to or from host memory, contiguous, zt_type_bytes of its type; of several ranks on rank 0, before the first
 * step or on all ranks at the same step. ZT_EUSAGE: i is out of range. */
zt_status zt_trainer_get(zt_trainer *trainer, int index, void *host);
zt_status zt_trainer_set(zt_trainer *trainer, int index, const void *host); /* the same */
/* The program after its passes; with accumulation, the part of it that computes gradients. */
const zt_prog *zt_trainer_program(const zt_trainer *trainer);
/* A hash of everything but the inputs that determines the bits of a step: the engine, the step's program without outputs
 * other than the loss and without values watched, and accumulation. */
const uint64_t *zt_trainer_id(const zt_trainer *trainer); /* [2] */
zt_session *zt_trainer_session(zt_trainer *trainer);      /* that of this program, for profiling and reports */

#ifdef __cplusplus
}
#endif
#endif
