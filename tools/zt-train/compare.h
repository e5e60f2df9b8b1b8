/* compare.h - private to zt-train compare: its runs, and what is printed of them (compare_print.c). */
#ifndef ZT_TRAIN_TOOL_COMPARE_H
#define ZT_TRAIN_TOOL_COMPARE_H

#include "tools/zt-train/train_tool.h"

enum { COMPARE_METHODS = 8, COMPARE_MILESTONES = 10 };

/* An epoch of a run. */
typedef struct compare_epoch {
    double loss, valid_loss, accuracy; /* accuracy: in per cent; NAN: targets are not classes */
    double time;                       /* seconds of training so far, without validation */
} compare_epoch;

/* One method with one seed. */
typedef struct compare_run {
    int method;
    uint64_t seed;
    bool diverged;
    uint64_t steps;
    int64_t epoch_count;
    compare_epoch *epochs;
    double memory; /* peak, in bytes */
} compare_run;

typedef struct compare_method {
    int method; /* TRAIN_BACKPROP ... */
    double lr;  /* below 0: --lr, or the optimizer's */
} compare_method;

typedef struct compare_work {
    zt_cli *cli;
    const train_options *options;
    const char *name; /* of the network */
    int64_t layers;
    compare_method methods[COMPARE_METHODS];
    int method_count, seed_count;
    compare_run *runs;       /* [method_count][seed_count] */
    double *accuracy, *loss; /* the same: of the last epoch */
    double *probabilities;   /* [method_count] */
    zt_method_verdict verdict;
} compare_work;

/* Seconds until the accuracy was first at least so high; NAN: never. */
double compare_time_to(const compare_run *run, double accuracy);
double compare_total_time(const compare_run *run);
zt_status compare_print(const compare_work *work);
/* The mean validation loss by epoch of each method, to the file of --plot. */
zt_status compare_plot(const compare_work *work);

#endif
