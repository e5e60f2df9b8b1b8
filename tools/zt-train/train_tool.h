/* train_tool.h - private to zt-train: its options, what is trained, and where data comes from.
 *
 * What is trained is a learner: a forward program with a loss, and its weights in memory. To add a
 * kind of model: a file that opens a learner, and its row in learner.c.
 */
#ifndef ZT_TRAIN_TOOL_H
#define ZT_TRAIN_TOOL_H

#include "tools/common/subject.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

typedef struct train_options {
    zt_opt_list models;                        /* -m; several with --eval */
    const char *model, *input, *target, *data; /* model: the first of them, or the one at hand */
    const char *make;   /* --new */
    zt_opt_list set;    /* "dModel=64" */
    const char *text, *arch;
    size_t size;        /* parameters */
    int64_t vocab, ctx;
    const char *valid, *valid_target;
    bool eval;
    int64_t ids;          /* that a network takes a sample; 0: by its own numbers */
    bool wide;            /* of --eval: the target has a number for each output */
    int loss;             /* a zt_loss_kind; -1: the default */
    int method;           /* 0: backprop, the one there is */
    const char *optim, *schedule;
    double lr, lr_min, momentum, decay, clip, scale;
    int64_t warmup, epochs, batch, patience, save_every;
    bool ordered;         /* --no-shuffle */
    const char *checkpoint, *plot, *observe;
    bool resume;
} train_options;
extern train_options train_opt;
extern const zt_opt train_option_table[];
extern const zt_shared_opt train_shared_options[];

/* What zt-train does: the modes of its option table. */
enum { TRAIN_NETWORK, TRAIN_TEXT, TRAIN_EVAL, TRAIN_N_MODES };

/* ---- what is trained (learner.c) ------------------------------------------------------------- */

typedef struct train_weight {
    char *name;   /* of the tensor */
    zt_type type; /* f32 */
    float *value;
} train_weight;

/* A layer that --observe looks at. */
typedef struct train_seen {
    const zt_nn_layer *layer;
    int output; /* of forward: what it gives */
} train_seen;

typedef struct train_learner {
    zt_cli *cli;
    zt_prog *forward; /* with a loss */
    bool own_loss;    /* that the program brought itself */
    train_weight *weight;
    int n;
    int *trained;     /* [n]: values of forward, for a trainer */
    zt_store below;   /* data that is no weight; find NULL: none */
    zt_meta *meta;    /* what is written beside the weights; NULL: nothing */
    zt_nn *nn;        /* what forward was lowered from; NULL: no network */
    train_seen *seen; /* [n_seen] */
    int n_seen;
} train_learner;

/* What -m names, or --new makes. NULL: the context says why. */
train_learner *train_learner_open(zt_cli *cli, const train_options *o);
void train_learner_close(train_learner *l);
zt_store train_learner_store(train_learner *l);
/* Weights as the trainer has them now. */
zt_status train_learner_take(train_learner *l, zt_trainer *t);
/* A checkpoint of any container, by the suffix of its name; of a network its JSON where that is not
 * one of another. */
zt_status train_learner_write(train_learner *l, const char *path);

/* For those who open learners: forward is there, or becomes what is trained; weights are those data
 * of f32 that `is_weight` names (NULL: all), as `from` has them, else drawn. */
zt_prog *train_with_loss(zt_cli *cli, zt_prog *p, const train_options *o);
zt_status train_learner_weights(train_learner *l, const zt_store *from,
                                bool (*is_weight)(const train_learner *l, const char *name));
/* network.c */
bool train_is_network(zt_cli *cli, const train_options *o);
zt_status train_open_network(train_learner *l, const train_options *o);
/* Its masters are the learner's: l->below then has what its layers compute with. */
zt_status train_put_network(train_learner *l);
zt_status train_write_network(train_learner *l, const char *path);
/* zt_train_opts.through of a learner of a network: layers learn in their own dtypes. */
int train_network_through(void *user, zt_prog *p, int state, const char *name);

/* What a program predicts: its first output that is not the loss. */
typedef struct train_output {
    int output;      /* its number */
    int64_t n;       /* numbers a row */
    int64_t classes; /* of its last dimension */
    int64_t positions; /* of ids in a row, each of which has a prediction; 1: the row has one */
} train_output;
zt_status train_find_output(const train_learner *l, int64_t batch, train_output *out);

/* ---- texts (text.c) -------------------------------------------------------------------------- */

/* A text's windows of --ctx tokens, and the language model that learns them; *text is to be freed
 * in any case. */
typedef struct train_text train_text;
train_learner *train_text_open(zt_cli *cli, const train_options *o, train_text **text);
void train_text_free(train_text *t);
zt_batches train_text_batches(train_text *t); /* an epoch: as many tokens as the text has */
const void *train_text_bytes(const train_text *t, size_t *n);

/* ---- data (data.c) --------------------------------------------------------------------------- */

/* DATA in any form, and targets in a file of their own (NULL: they are in it). */
zt_samples *train_data_open(train_learner *l, const train_options *o, const char *path,
                            const char *target);
/* The same for a network that takes ids, of which a sample of DATA may have several: where `o` has
 * failed by ZT_EDATA, *l becomes a learner that takes as many as there are. NULL, and the error is
 * what it was: it takes none, or none fit. */
zt_samples *train_data_ids(train_learner **l, const train_options *o);
/* Stdin is kept for those who read it again: no more. */
void train_data_done(zt_ctx *ctx);

/* ---- what is looked at (observe.c) ----------------------------------------------------------- */

/* Events of the layers that l sees, to `to` ("console" "fd:3" "-" or a file): of what they give
 * and, with `backward`, of the loss's gradient by that. ZT_EUSAGE: l is no network. */
typedef struct train_observer train_observer;
train_observer *train_observer_open(const train_learner *l, const char *to, const char *mode,
                                    bool backward, int64_t batch);
void train_observer_free(train_observer *b); /* NULL: nothing */
/* Where a step is to put it: [forward's outputs, then values
 * watched], NULL for what is not seen. */
void *const *train_observer_out(const train_observer *b);
const int *train_observer_watched(const train_observer *b, int *n); /* for zt_train_opts */
zt_status train_observer_tell(train_observer *b, int64_t rows, uint64_t step);
zt_status train_observer_end(train_observer *b); /* a file is there from now on */

/* ---- what --eval prints (scores.c) ----------------------------------------------------------- */

/* Of a network: a deviation each sample, or each sample and output. */
typedef struct train_scores {
    const char *name;
    int64_t rows, n_target;
    int64_t n_values;      /* outputs that are judged one by one; 0: a prediction a sample */
    int64_t classes;       /* of each of these; 0: they are values */
    zt_deviation *each;    /* [rows], [rows, n_values] */
    zt_deviations all;     /* of these */
    zt_deviations *output; /* [n_values] */
} train_scores;
zt_status train_print_scores(zt_cli *cli, const train_scores *scores, int n);

/* ---- what it does ---------------------------------------------------------------------------- */

zt_status train_fit(zt_cli *cli, const train_options *o);  /* fit.c */
zt_status train_eval(zt_cli *cli, const train_options *o); /* eval.c */
/* The loss by epochs as a picture; valid[i] NaN: none (plot.c). */
zt_status train_plot(zt_cli *cli, const char *path, const double *loss, const double *valid,
                     int64_t n);

#endif
