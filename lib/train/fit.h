/* fit.h - training by epochs: a schedule, batches, history, early stop, checkpoints.
 *
 * Everything a run depends on is in zt_fit_state and in the trainer's states: both from a
 * checkpoint, and the run goes on to the same bits as if it had never stopped.
 */
#ifndef ZT_TRAIN_FIT_H
#define ZT_TRAIN_FIT_H

#include "lib/train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the learning rate ----------------------------------------------------------------------- */

/* How it falls from `lr` to `least` over all steps of a run; rows of one table: "constant" "linear"
 * "cosine". */
typedef struct zt_schedule {
    const char *name;
    double (*falls)(double x); /* 1 at x = 0, 0 at x = 1 */
} zt_schedule;
const zt_schedule *zt_schedule_at(int i); /* NULL past the last */
const zt_schedule *zt_schedule_named(const char *name); /* NULL: there is none */

typedef struct zt_rate {
    const zt_schedule *schedule;
    double lr, least;
    uint64_t warmup; /* steps in which it rises from lr / warmup to lr */
    uint64_t steps;  /* of the whole run */
} zt_rate;
double zt_rate_at(const zt_rate *r, uint64_t step); /* step from 0 */

/* ---- batches --------------------------------------------------------------------------------- */

enum { ZT_FIT_INPUTS = 64 }; /* of a forward program at most, the weights not counted */

/* Where batches come from. in[i] is the i-th input of the forward program that is no weight; it and
 * the symbols in b[] are good until the next call. The same (epoch, batch) gives the same bytes. */
typedef struct zt_batches {
    void *user;
    int64_t per_epoch;
    zt_status (*get)(void *user, uint64_t epoch, int64_t batch, const void **in, zt_binding *b,
                     int *n, int64_t *samples);
} zt_batches;

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct zt_fit_state {
    uint64_t epochs, steps;       /* done */
    uint64_t batch;               /* of the epoch under way, done */
    double loss, norm;            /* of these batches: sums over samples, and over batches */
    double samples, seconds;      /* likewise */
    double best;                  /* the least loss of an epoch; infinity before the first */
    uint64_t stale;               /* epochs since then */
} zt_fit_state;
zt_fit_state zt_fit_begin(void); /* of a run in which nothing is done yet */

/* An epoch that is over. */
typedef struct zt_epoch {
    uint64_t epoch, steps; /* from 1; of the run so far */
    double loss;           /* the mean over its samples, each before its batch's step */
    double grad_norm;      /* the mean over its batches */
    double lr;             /* of its last step */
    double seconds, samples;
    double valid; /* what `validate` said; NaN without it */
} zt_epoch;

/* A step that is over. */
typedef struct zt_fit_step {
    zt_trained got;
    double lr;
    int64_t samples;
} zt_fit_step;

typedef struct zt_fit_opts {
    zt_rate rate;
    uint64_t epochs;
    uint64_t patience; /* epochs without a new best (of valid, else of the loss) that end the run;
                        * 0: none do */
    uint64_t save_every; /* steps between checkpoints, besides those after epochs; 0: none */
    void *user;          /* of the functions below, each of which may be NULL */
    zt_status (*step)(void *user, const zt_fit_state *p, const zt_fit_step *s);
    zt_status (*validate)(void *user, double *loss);
    zt_status (*epoch)(void *user, const zt_epoch *e);
    zt_status (*save)(void *user, const zt_fit_state *p);
    void *const *out;    /* of each step, as zt_trainer_step has it; NULL: none */
    bool (*stop)(void); /* asked after each step: what was done is saved, and ZT_EINTR comes back */
} zt_fit_opts;

/* From where p stands to the end of the last epoch, or until patience is over. */
zt_status zt_fit(zt_trainer *t, const zt_batches *data, const zt_fit_opts *o, zt_fit_state *p);

/* ---- checkpoints (save.c) -------------------------------------------------------------------- */

/* Where a run stands, as a file: whole or not at all, whenever the process dies. What was at `path`
 * before is at PATH.before then. `run`: what the run is, in the caller's words (data, options):
 * another's checkpoint is refused. */
zt_status zt_train_save(zt_trainer *t, const zt_fit_state *p, const char *run, const char *path);
/* Back again. ZT_ENOENT without a message: there is neither file. One that is damaged is passed
 * over for PATH.before, and *why says so (zt_free it; NULL else). ZT_EDATA: both are damaged;
 * ZT_EUSAGE: it is another run's. Of a file that is not sound nothing is taken. */
zt_status zt_train_load(zt_trainer *t, zt_fit_state *p, const char *run, const char *path,
                        char **why);

#ifdef __cplusplus
}
#endif
#endif
