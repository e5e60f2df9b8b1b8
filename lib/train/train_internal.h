/* train_internal.h - private to lib/train: programs copied behind others, optimizers, and how readers fill data sets. */
#ifndef ZT_TRAIN_INTERNAL_H
#define ZT_TRAIN_INTERNAL_H

#include "lib/train/samples.h"

/* ---- programs (step.c) ----------------------------------------------------------------------- */

/* Copies all ops of `from`, in order. map[v], for every value v of from: its value in `to`; given for declarations, filled in
 * for the results of ops. */
zt_status zt_train_copy_ops(zt_ctx *ctx, const zt_prog *from, zt_prog *to, int *map);

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

/* Appends a number; false: not a value of the field's type (a fraction, out of range), or no memory. */
bool zt_field_put(zt_field *field, double number);
const char *zt_field_wants(const zt_field *field); /* "number" or "integer" */
/* The k-th name by which an input is looked up; NULL past the last. */
const char *zt_field_name(const zt_samples *samples, int index, int k);

#endif
