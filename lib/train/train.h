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
 * The step holds forward pass, loss, gradient, clipping and the optimizer's update. Weights and
 * moments are its states; learning rate and the number of the step are inputs, so that a replay
 * prepares nothing anew. What a step leaves depends on nothing but what it was given: the same bits
 * for any number of threads, and after states were read out and put back.
 */
#ifndef ZT_TRAIN_H
#define ZT_TRAIN_H

#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Rows of one table: "sgd" "momentum" "nesterov" "rmsprop" "adam" "adamw". */
typedef struct zt_optimizer zt_optimizer;
const zt_optimizer *zt_optimizer_named(const char *name); /* NULL: there is none */
const zt_optimizer *zt_optimizer_at(int i);               /* NULL past the last */
const char *zt_optimizer_name(const zt_optimizer *o); /* "adam"; static */

/* What each means is torch.optim's. With g the gradient after clipping and, but for adamw, weight
 * decay (g + decay w):
 *     sgd, momentum   m = momentum m + g;  w -= lr m        (momentum 0: no moment is kept)
 *     nesterov        m = momentum m + g;  w -= lr (g + momentum m)
 *     rmsprop         v = alpha v + (1 - alpha) g^2;  w -= lr g / (sqrt(v) + eps)
 *     adam            m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
 *                     w -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *     adamw           the same, after w -= lr decay w */
typedef struct zt_optim {
    const zt_optimizer *method;
    double lr; /* what the method is mostly used with; a step is given its own */
    double momentum, decay, beta1, beta2, alpha, eps;
} zt_optim;
zt_optim zt_optim_default(const zt_optimizer *method); /* the method with its usual numbers */

/* ---- losses ---------------------------------------------------------------------------------- */

typedef enum zt_loss_kind {
    ZT_LOSS_MSE,          /* the mean of squares; the target is of the output's shape */
    ZT_LOSS_CROSS_ENTROPY /* of logits [..,C], mean; the target is i32[..]: classes */
} zt_loss_kind;

/* p with an input "target" after its own, and the loss of its output `name` (NULL: the first) as
 * its output "loss". Rows of the target are as many as those of p's first input. */
zt_prog *zt_train_with_loss(zt_ctx *ctx, const zt_prog *p, const char *name, zt_loss_kind kind,
                            const zt_binding *sample, int n_sample);

/* ---- the step as a program ------------------------------------------------------------------- */

typedef struct zt_train_opts {
    const zt_optim *optim;
    double clip;          /* the gradients' norm, all together, is at most this; 0: not bounded */
    const char *loss;     /* the output that falls, a float of rank 0; NULL: "loss" */
    const int *weights;   /* values of the program, inputs or data of floats of one type; NULL with
                           * n_weights 0: all data of f32 or f64 */
    int n_weights;
    /* What the forward pass computes with in the place of a weight, as ops on its state; -1 fails.
     * The gradient by it is taken for the state's: straight through. NULL: the state itself. */
    int (*through)(void *user, zt_prog *p, int state, const char *name);
    void *user;
    const zt_binding *sample; /* some number for each symbol, best those of a batch */
    int n_sample;
    const int *watched;    /* values of the program whose gradients are outputs too, each once */
    int n_watched;
    bool strict; /* of a trainer: what its engine lacks is an error, no other engine runs it */
} zt_train_opts;

/* Weights become states of the same names, in the program's order; moments are states after them
 * ("m.NAME", "v.NAME").
 * Inputs: the program's that are no weights, then "lr" and "step" (from 1), of the weights' type.
 * Outputs: the program's, then "grad_norm", before clipping, then "d.NAME" for each value watched.
 * ZT_EUSAGE says what does not fit. */
zt_prog *zt_train_program(zt_ctx *ctx, const zt_prog *forward, const zt_train_opts *o);

/* ---- steps on an engine ---------------------------------------------------------------------- */

typedef struct zt_trainer zt_trainer;

typedef struct zt_trained {
    double loss, grad_norm; /* of the batch, before the step */
} zt_trained;

/* The step's program after its passes, in a session. Weights begin as `store` has them, by the
 * name of their tensor (data) or their own (inputs), in any type that converts; moments are 0.
 * Borrows engine, forward and what the store stands on. */
zt_trainer *zt_trainer_open(zt_engine *e, const zt_prog *forward, const zt_train_opts *o,
                            const zt_store *store);
void zt_trainer_close(zt_trainer *t); /* not engine, program or store. NULL: nothing */
zt_ctx *zt_trainer_ctx(const zt_trainer *t); /* its engine's */

/* in[i]: the i-th input of forward that is no weight; `out` NULL, or an entry for each of forward's
 * outputs and then each value watched (NULL: not wanted). Counts the step. */
zt_status zt_trainer_step(zt_trainer *t, const zt_binding *b, int n, const void *const *in,
                          double lr, void *const *out, zt_trained *result);
uint64_t zt_trainer_steps(const zt_trainer *t); /* steps done */
void zt_trainer_set_steps(zt_trainer *t, uint64_t steps); /* as a checkpoint says */

int zt_trainer_n_weights(const zt_trainer *t); /* states 0 to this - 1 are weights */
/* States by number: weights, then moments. Types are declared ones. */
int zt_trainer_n_states(const zt_trainer *t);
const char *zt_trainer_state_name(const zt_trainer *t, int i); /* "w", "m.w"; NULL: out of range */
zt_type zt_trainer_state_type(const zt_trainer *t, int i); /* rank -1: out of range */
/* Copies state i to or from host memory, contiguous, zt_type_bytes of its type. ZT_EUSAGE: i is out
 * of range. */
zt_status zt_trainer_get(zt_trainer *t, int i, void *host);
zt_status zt_trainer_set(zt_trainer *t, int i, const void *host); /* the same */
const zt_prog *zt_trainer_program(const zt_trainer *t); /* after its passes */
/* What decides a step's bits but for its inputs: two are alike whose engine is, and whose step is,
 * but for outputs besides the loss and values watched. */
const uint64_t *zt_trainer_id(const zt_trainer *t); /* [2] */
zt_session *zt_trainer_session(zt_trainer *t);          /* for watching and reports */

#ifdef __cplusplus
}
#endif
#endif
