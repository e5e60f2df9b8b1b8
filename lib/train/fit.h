/* fit.h - training by epochs: a schedule, batches, history, early stopping, checkpoints.
 *
 * Everything that a run depends on is in zt_fit_state and in the trainer's states. Restored from a checkpoint, the run
 * continues bit-exactly.
 */
#ifndef ZT_TRAIN_FIT_H
#define ZT_TRAIN_FIT_H

#include "lib/train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the learning rate ----------------------------------------------------------------------- */

/* How the learning rate decreases from `lr` to `minimum` over the steps of a run. Rows of one table: "constant", "linear",
 * "cosine". */
typedef struct zt_schedule {
    const char *name;
    double (*curve)(double x); /* 1 at x = 0, 0 at x = 1 */
} zt_schedule;
const zt_schedule *zt_schedule_at(int index);           /* NULL past the last */
const zt_schedule *zt_schedule_named(const char *name); /* NULL: no such schedule */

typedef struct zt_rate {
    const zt_schedule *schedule;
    double lr, minimum;
    uint64_t warmup; /* steps in which it increases from lr / warmup to lr */
    uint64_t steps;  /* of the run */
} zt_rate;
double zt_rate_at(const zt_rate *rate, uint64_t step); /* step from 0 */

/* ---- batches --------------------------------------------------------------------------------- */

enum { ZT_FIT_INPUTS = 64 }; /* maximum number of inputs of a forward program, weights not counted */

/* A source of batches. get sets inputs[i], the i-th input of the forward program that is not a weight, the symbols in
 * bindings[], and the number of samples; all valid until the next call. The same (epoch, batch) gives the same bytes. */
typedef struct zt_batches {
    void *user;
    int64_t per_epoch;
    zt_status (*get)(void *user, uint64_t epoch, int64_t batch, const void **inputs, zt_binding *bindings, int *binding_count,
                     int64_t *samples);
} zt_batches;

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct zt_fit_state {
    uint64_t epochs, steps;     /* done */
    uint64_t batches;           /* done in the current epoch */
    double loss_sum, norm_sum;  /* of these batches: sum over samples; over batches */
    double sample_sum, seconds; /* of these batches */
    double best_loss;           /* lowest loss of an epoch; infinity before the first */
    uint64_t stale_epochs;      /* epochs since the best */
} zt_fit_state;
zt_fit_state zt_fit_begin(void); /* the state at the start of a run */

/* A finished epoch. */
typedef struct zt_epoch {
    uint64_t epoch, steps; /* epoch: from 1; steps: of the run so far */
    double loss;           /* mean over its samples, each before the update of its batch */
    double grad_norm;      /* mean over its batches */
    double lr;             /* of its last step */
    double seconds, samples;
    double valid; /* result of `validate`; NaN without it */
} zt_epoch;

/* A finished step. */
typedef struct zt_fit_step {
    zt_trained got;
    double lr;
    int64_t samples;
} zt_fit_step;

typedef struct zt_fit_opts {
    zt_rate rate;
    uint64_t epochs;
    uint64_t patience;   /* early stopping: end after so many epochs without a lower loss (of `validate`, if given);
                          * 0: never */
    uint64_t save_every; /* steps between checkpoints, besides those after epochs; 0: none */
    void *user;          /* for the functions below, each of which may be NULL */
    zt_status (*step)(void *user, const zt_fit_state *state, const zt_fit_step *step);
    zt_status (*validate)(void *user, double *loss);
    zt_status (*epoch)(void *user, const zt_epoch *epoch);
    zt_status (*save)(void *user, const zt_fit_state *state);
    void *const *out;       /* outputs of each step, as in zt_trainer_step; NULL: none */
    zt_ranks *ranks;        /* those of the trainer. On other ranks than 0 the functions above are NULL, and the loss of rank 0's
                         * `validate` counts. NULL: alone */
    bool (*save_now)(void); /* polled after each step; true: the state is saved */
    bool (*stop)(void);     /* polled after each step; true: the state is saved, zt_fit returns ZT_EINTR */
} zt_fit_opts;

/* Trains from `state` to the end of the last epoch, or until early stopping. */
zt_status zt_fit(zt_trainer *trainer, const zt_batches *data, const zt_fit_opts *options, zt_fit_state *state);

/* ---- checkpoints (save.c) -------------------------------------------------------------------- */

/* Saves a run to a file, completely or not at all, even if the process is killed. The file that was at `path` is kept as
 * PATH.before. run: a text that identifies the run (data, options); a checkpoint of another run is not loaded. */
zt_status zt_train_save(zt_trainer *trainer, const zt_fit_state *state, const char *run, const char *path);
/* Restores a run. If the file is damaged, PATH.before is loaded and *why has the reason (free it with zt_free; else NULL).
 * ZT_ENOENT, without a message: neither file exists; ZT_EDATA: both are damaged; ZT_EUSAGE: a checkpoint of another run. On
 * error neither trainer nor state is changed by a damaged file. */
zt_status zt_train_load(zt_trainer *trainer, zt_fit_state *state, const char *run, const char *path, char **why);

#ifdef __cplusplus
}
#endif
#endif
