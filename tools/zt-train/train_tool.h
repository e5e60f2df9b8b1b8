/* train_tool.h - private to zt-train: its options, what is trained, and where data comes from.
 *
 * What is trained is a learner: a forward program with a loss, and its weights in memory. To add a
 * kind of model: a file that opens a learner, and its row in learner.c.
 */
#ifndef ZT_TRAIN_TOOL_H
#define ZT_TRAIN_TOOL_H

#include "lib/train/cluster.h"
#include "tools/common/subject.h"

#include <math.h>

/* ---- options (options.c) --------------------------------------------------------------------- */

#define WORDS     ZT_OPTION_WORDS
#define LIB_WORDS ZT_OPTION_LIB_WORDS
#include "tools/zt-train/options.def"

typedef struct train_options {
#define OPTION ZT_OPTION_FIELD
#include "tools/zt-train/options.def"
    const char *model; /* the first of models, or the one at hand */
    int method;        /* of method_name: TRAIN_BACKPROP ... */
    int64_t ids;       /* ids per sample of a network; 0: from its own numbers */
    bool wide;         /* --eval: the target has a number for each output */
    bool forward_only; /* cluster: the program has no loss */
} train_options;
extern train_options train_opt;
extern const zt_opt train_option_table[];
extern const zt_shared_opt train_shared_options[];

/* Training methods (methods.c). */
enum { TRAIN_BACKPROP, TRAIN_TARGET_CHAIN, TRAIN_TARGET, TRAIN_SYSTOLIC, TRAIN_SYSTOLIC_TARGET };

/* The modes of the option table. To add one: its number here, its row in main.c. */
enum { TRAIN_NETWORK, TRAIN_TEXT, TRAIN_EVAL, TRAIN_CLUSTER, TRAIN_COMPARE, TRAIN_N_MODES };

/* A row of the table of modes (main.c). */
typedef struct train_mode {
    zt_mode mode; /* selected by its option, or a command: operand 0 is its name */
    const char *synopsis;
    bool text;        /* -i, -m and --new are not required */
    bool many_models; /* -m may be repeated */
    bool model_optional;
    bool needs_output; /* -o is required */
    zt_status (*run_mode)(zt_cli *cli, const train_options *options);
    bool ranks; /* runs on the ranks of mpirun */
} train_mode;

/* ---- learners: a program and its weights (learner.c) ------------------------------------------ */

typedef struct train_weight {
    char *name;   /* the tensor's */
    zt_type type; /* f32 */
    float *values;
} train_weight;

/* A layer that --observe reports. */
typedef struct train_seen {
    const zt_nn_layer *layer;
    int output;  /* output of forward with the layer's values */
    char *input; /* name of the value that it reads */
    int source;  /* index in `observed` of the layer that computes that value; -1: none */
} train_seen;

typedef struct train_learner {
    zt_cli *cli;
    zt_prog *forward; /* with a loss */
    bool own_loss;    /* the loss is the program's own */
    train_weight *weights;
    int weight_count;
    int kept_count;                /* behind the weights: tensors of a model that are not learned, but written with it */
    int *trained;                  /* [weight_count]: values of forward, for a trainer */
    zt_store below;                /* data other than weights; find NULL: none */
    zt_meta *meta;                 /* metadata to write with the weights; NULL: none */
    zt_nn *network;                /* the network that forward was lowered from; NULL: not a network */
    struct train_adapter *adapter; /* the weights are of an adapter (adapter.c); NULL: they are not */
    train_seen *observed;          /* [observed_count] */
    int observed_count;
    zt_target_prop targets; /* of methods with targets; layers NULL: none */
} train_learner;

/* Opens the file of -m, or makes the network of --new. NULL on error. */
train_learner *train_learner_open(zt_cli *cli, const train_options *options);
void train_learner_close(train_learner *learner);
zt_store train_learner_store(train_learner *learner);
/* Copies the weights from the trainer. */
zt_status train_learner_take(train_learner *learner, zt_trainer *trainer);
/* Adds a tensor to those that are written with the weights, as f32. ZT_EDATA: its values are not numbers. */
zt_status train_learner_keep(train_learner *learner, const zt_entry *entry, const zt_store *from);
/* Writes a checkpoint, in the container of the name's suffix; a network, unless the suffix is another container's, as JSON. */
zt_status train_learner_write(train_learner *learner, const char *path);

/* For the functions that open learners. train_with_loss adds the loss of --loss. train_learner_weights makes weights of the f32
 * data of forward for which is_weight is true (NULL: all), with values from the store, else drawn. */
zt_prog *train_with_loss(zt_cli *cli, zt_prog *program, const train_options *options);
zt_status train_learner_weights(train_learner *learner, const zt_store *from,
                                bool (*is_weight)(const train_learner *learner, const char *name));
/* network.c */
bool train_is_network(zt_cli *cli, const train_options *options);
zt_status train_open_network(train_learner *learner, const train_options *options);
/* Its masters are the learner's: learner->below then has what its layers compute with. */
zt_status train_put_network(train_learner *learner);
zt_status train_write_network(train_learner *learner, const char *path);
/* zt_train_opts.through of a learner of a network: layers learn in their own dtypes. */
int train_network_through(void *user, zt_prog *program, int state, const char *name);

/* methods.c: training methods other than backpropagation. */
bool train_has_targets(const train_options *options); /* the method has targets, so that it needs the outputs of layers */
/* The cycles of a network's clock: --cycles, by default as many as places for methods with a clock; 0: none. */
int64_t train_cycles(const zt_nn *network, const train_options *options);
/* Refuses options of other methods, and models or layers that the method cannot train. */
zt_status train_check_method(zt_cli *cli, const train_options *options);
/* Describes the observed layers to zt_target_prop_program. */
zt_status train_describe_targets(train_learner *learner, const train_options *options);
void train_free_targets(train_learner *learner);
/* zt_train_opts.gradient of a learner with targets. */
zt_prog *train_target_gradient(void *user, zt_ctx *ctx, const zt_prog *forward, const int *wrt, int n_weights, int n_watched,
                               const zt_grad_opts *options);

/* The prediction of a program: its first output other than the loss. */
typedef struct train_output {
    int output;        /* index of the output */
    int64_t count;     /* numbers per row */
    int64_t classes;   /* of its last dimension */
    int64_t positions; /* ids per row, each with a prediction; 1: one prediction per row */
} train_output;
zt_status train_find_output(const train_learner *learner, int64_t batch, train_output *out);

/* ---- adapters (adapter.c) -------------------------------------------------------------------- */

/* Makes the learner that of an adapter of --lora: its program, and weights as PEFT initializes them. gguf is taken over. */
zt_status train_adapter_open(train_learner *learner, const train_options *options, zt_gguf *gguf);
void train_adapter_close(train_learner *learner);
/* Prints its size, and the memory that weights, moments and base take. */
void train_adapter_report(const train_learner *learner, zt_trainer *trainer);
/* Writes the adapter to cli->output: a GGUF, or a directory as PEFT does where the name ends in '/'. */
zt_status train_adapter_write(train_learner *learner);

/* ---- texts (text.c) -------------------------------------------------------------------------- */

/* Opens a text as windows of --ctx tokens, and the language model to train on them. Free *text on error too. */
typedef struct train_text train_text;
train_learner *train_text_open(zt_cli *cli, const train_options *options, train_text **text);
void train_text_free(train_text *corpus);
zt_batches train_text_batches(train_text *corpus); /* one epoch has as many tokens as the text */
const void *train_text_bytes(const train_text *corpus, size_t *size_out);

/* ---- data (data.c) --------------------------------------------------------------------------- */

/* Opens DATA in any format; target: the file of targets, NULL: they are in DATA. */
zt_samples *train_data_open(train_learner *learner, const train_options *options, const char *path, const char *target);
/* The same for a network that takes ids, of which a sample of DATA may have several: where `options` has
 * failed by ZT_EDATA, *learner becomes a learner that takes as many as there are. NULL, and the error is
 * what it was: it takes none, or none fit. */
zt_samples *train_data_ids(train_learner **learner, const train_options *options);
/* Samples without a model: rows of as many numbers as the first one has, without the label of --labels, and then that label. The
 * program whose inputs they are goes to *program; free it after the samples. NULL on error. */
zt_samples *train_data_rows(zt_cli *cli, const train_options *options, zt_prog **program);
/* Frees the copies of stdin and of pipes that are kept for reading them again. */
void train_data_done(zt_ctx *ctx);
/* Reads `path` into such a copy if it can be read once, in the context that train_data_done gets. */
zt_status train_data_hold(zt_ctx *ctx, const char *path);

/* ---- validation (validate.c) ------------------------------------------------------------------------ */

/* The mean loss of samples, and the per cent of their classes that the learner finds; NAN: targets are no classes. */
zt_status train_validate(train_learner *learner, zt_engine *engine, zt_samples *samples, int64_t batch, double *loss,
                         double *accuracy);

/* ---- a page that shows a run (report.c) -------------------------------------------------------------- */

/* The folder of --report: index.html, and run.js with the data, which is written anew after each epoch. The folder is made. ZT_ECREATE:
 * it has a run already, without --force. */
typedef struct train_report train_report;
train_report *train_report_open(const train_learner *learner, const train_options *options);
zt_status train_report_epoch(train_report *report, const char *json, size_t length); /* a line of the history */
zt_status train_report_end(train_report *report);                                    /* the run ended well */
void train_report_free(train_report *report);                                        /* NULL: no effect */

/* ---- observing layers (observe.c) -------------------------------------------------------------- */

/* Events of the layers that the learner observes, to the targets of `options` and to the report (NULL: none): of what they give and,
 * with `backward`, of the gradient of the loss by that. ZT_EUSAGE: the learner has no network. */
typedef struct train_observer train_observer;
train_observer *train_observer_open(const train_learner *learner, const train_options *options, train_report *report,
                                    const char *mode, bool backward, int64_t batch);
void train_observer_free(train_observer *observer); /* NULL: no effect */
/* Where a step puts the values: [outputs of forward, then values watched], NULL for what is not observed. */
void *const *train_observer_out(const train_observer *observer);
const int *train_observer_watched(const train_observer *observer, int *count_out); /* for zt_train_opts */
zt_status train_observer_tell(train_observer *observer, int64_t rows, uint64_t step);
zt_status train_observer_end(train_observer *observer); /* the run ended well: files are committed */

/* ---- output of --eval (scores.c) --------------------------------------------------------------- */

/* The scores of one network: a deviation per sample, or per sample and output. */
typedef struct train_scores {
    const char *name;
    int64_t rows, n_target;
    int64_t n_values;      /* outputs that are scored separately; 0: one prediction per sample */
    int64_t classes;       /* classes of each; 0: they are values */
    bool are_classes;      /* predictions are classes, by n_values separate outputs or one per sample */
    zt_deviation *each;    /* [rows], [rows, n_values] */
    zt_deviations all;     /* of these */
    zt_deviations *output; /* [n_values] */
} train_scores;
zt_status train_print_scores(zt_cli *cli, const train_options *options, const train_scores *scores, int count);
/* The same of one network, as a table. */
zt_status train_print_measures(zt_cli *cli, const zt_deviations *deviations);

/* ensemble.c: several networks. */
typedef struct train_ensemble train_ensemble;
/* NULL on error. ZT_EUSAGE: the networks have predictions of different kinds. */
train_ensemble *train_ensemble_open(zt_cli *cli, const train_scores *scores, int count, double min_coverage);
void train_ensemble_free(train_ensemble *ensemble); /* NULL: no effect */
/* Prints what --ensemble selects. */
zt_status train_print_ensemble(const train_ensemble *ensemble, int what);
/* Appends ,"ensemble":{...}. */
void train_put_ensemble(const train_ensemble *ensemble, zt_str *text);
/* scores.c: "key":number; null where it is not finite. And the measures of deviations, without braces. */
void train_put_number(zt_str *text, const char *key, double number);
void train_put_measures(zt_str *text, const zt_deviations *deviations);

/* ---- modes ------------------------------------------------------------------------------------ */

/* options.c: the words of --new, for zt_opt.values. */
const char *train_network_names(const void *user, int i);
const char *train_architecture_names(const void *user, int i);
/* fit.c: the words of --optim and --schedule, for zt_opt.values. */
const char *train_optimizer_names(const void *user, int index);
const char *train_method_names(const void *user, int index); /* methods.c: the words of --method */
/* ZT_EUSAGE: unknown; the message names the option. */
zt_status train_find_method(zt_cli *cli, const char *option, const char *name, int *method);
const char *train_schedule_names(const void *user, int index);
/* Tracking of adaptation (track.c): --track and --tasks. NULL on error. */
typedef struct train_tracking train_tracking;
train_tracking *train_track_open(train_learner *learner, const train_options *options, const zt_samples *samples);
void train_track_free(train_tracking *tracking); /* NULL: no effect */
/* Sets the entry of out, [forward's outputs], in which it wants a step's predictions. */
void train_track_outputs(const train_tracking *tracking, void **out);
zt_status train_track_step(train_tracking *tracking, int64_t rows); /* after a step on the next rows of the data */
zt_status train_track_print(const train_tracking *tracking);        /* a line of JSON */

/* What a run of compare leaves (fit.c). */
typedef struct train_recorder {
    void *user;
    zt_status (*epoch)(void *user, const zt_epoch *epoch, double valid_accuracy);
    bool diverged; /* a loss was not finite, which ends the run with ZT_EDATA */
    int64_t layers;
} train_recorder;
/* A run that prints and writes nothing. */
zt_status train_fit_recorded(zt_cli *cli, const train_options *options, train_recorder *recorder);
zt_status train_compare(zt_cli *cli, const train_options *options); /* compare.c */
zt_status train_fit(zt_cli *cli, const train_options *options);     /* fit.c */
zt_status train_eval(zt_cli *cli, const train_options *options);    /* eval.c */
zt_status train_cluster(zt_cli *cli, const train_options *options); /* cluster.c */
/* The learning-rate finder (lr_find.c): steps with rising learning rates, and the one that it suggests. */
zt_status train_check_find_rate(zt_cli *cli); /* refuses options that it does not use */
zt_status train_find_rate(zt_cli *cli, const train_options *options, zt_trainer *trainer, const zt_batches *batches);
/* Draws the loss by epoch; valid[i] NaN: no value (plot.c). */
zt_status train_plot(zt_cli *cli, const char *path, const double *loss, const double *valid, int64_t count);

#endif
