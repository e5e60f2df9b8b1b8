/* train_internal.h - private to lib/train: programs copied behind others, optimizers, and how readers fill data sets. */
#ifndef ZT_TRAIN_INTERNAL_H
#define ZT_TRAIN_INTERNAL_H

#include "lib/train/samples.h"

/* ---- programs (step.c) ----------------------------------------------------------------------- */

/* Copies all ops of `from`, in order. map[v], for every value v of from: its value in `to`; given for declarations, filled in
 * for the results of ops. */
zt_status zt_train_copy_ops(zt_ctx *ctx, const zt_prog *from, zt_prog *to, int *map);

/* The step of zt_train_program in two programs, for gradients that are summed between them. The first has no update:
 *     states    weights
 *     inputs    the forward program's, except weights
 *     outputs   the forward program's; "d.NAME" for each value watched; then "d.NAME" for each state */
zt_prog *zt_train_gradient_program(zt_ctx *ctx, const zt_prog *forward, const zt_train_opts *options);
/* The second is the update, of the states of the first:
 *     states    weights as in the first; then moments
 *     inputs    "d.NAME" for each weight; then "lr" and "step"
 *     outputs   "grad_norm" */
zt_prog *zt_train_update_program(zt_ctx *ctx, const zt_prog *gradient, const zt_train_opts *options);

/* ---- micro-batches (accumulate.c) -------------------------------------------------------------- */

/* Gradients of a batch, by parts of its rows. */
typedef struct zt_micro zt_micro;

/* Opens a session of the gradient program (borrowed) of `forward`, whose weights are set before each step. NULL with ZT_EUSAGE:
 * an input has no rows. */
zt_micro *zt_micro_open(zt_engine *engine, const zt_prog *gradient, const zt_prog *forward, const zt_store *store,
                        int loss_output, const zt_train_opts *options);
void zt_micro_close(zt_micro *micro);
zt_session *zt_micro_session(zt_micro *micro);
/* Computes the loss and the gradients of a batch with the weights of `update`, the session of the update program. inputs and
 * out: as in zt_trainer_step. gradients[i] becomes the address of the i-th gradient, valid until the next call; of several
 * ranks on rank 0, and so does the loss. */
zt_status zt_micro_step(zt_micro *micro, zt_session *update, const zt_binding *bindings, int binding_count,
                        const void *const *inputs, void *const *out, const void **gradients, double *loss);
/* The weights of the update changed other than by a step. */
void zt_micro_changed(zt_micro *micro);

/* ---- optimizers (optim.c) --------------------------------------------------------------------- */

enum { ZT_MAX_MOMENTS = 2 };

/* What an optimizer works on: values of the step's program. */
typedef struct zt_update {
    zt_prog *program;
    const zt_optim *optim;
    int learning_rate, step;         /* rank 0 */
    int moments[ZT_MAX_MOMENTS];     /* moments before the step */
    int new_moments[ZT_MAX_MOMENTS]; /* moments after the step, set by the optimizer */
} zt_update;

struct zt_optimizer {
    const char *name;
    zt_optim defaults;
    /* Prefixes of the moments that it keeps, one letter each: "m", "v", "mv"; "": none. */
    const char *(*moments)(const zt_optim *optim);
    int (*update)(zt_update *update, int weight, int gradient); /* the weight after the step */
};

/* ---- data sets (samples*.c) -------------------------------------------------------------------- */

/* Is the input the number of the batch (`counter`, samples.h)? */
bool zt_input_counts_batches(const zt_value *input);

/* Appends a number; false: not a value of the field's type (a fraction, out of range), or no memory. */
bool zt_field_put(zt_field *field, double number);
const char *zt_field_wants(const zt_field *field); /* "number" or "integer" */
/* The k-th name by which an input is looked up; NULL past the last. */
const char *zt_field_name(const zt_samples *samples, int index, int k);

#endif
