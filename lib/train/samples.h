/* samples.h - data sets: rows for the inputs of a program, from CSV, NDJSON or arrays.
 *
 *     zt_samples *s = zt_samples_new(ctx, forward, NULL, 0);
 *     zt_samples_csv(s, "digits.csv", text, n);          // or _ndjson, or _arrays
 *     zt_samples_batches(s, &(zt_shuffle){.batch = 32, .seed = 1}, &batches);
 *     zt_samples_free(s);
 *
 * The first dimension of every input is rows; a sample is one row of each input. The exception is `counter`, an i64 of rank
 * 0: it is the number of the batch, counted over all epochs, so that random ops that take it (zt_random_uniform) draw new
 * numbers in each step. Values are converted to the program's types. ZT_EDATA, with the position: a fraction for an integer
 * input.
 */
#ifndef ZT_TRAIN_SAMPLES_H
#define ZT_TRAIN_SAMPLES_H

#include "lib/io/checkpoint.h"
#include "lib/train/fit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_field {
    const char *name; /* of the input */
    zt_type row;      /* type of one sample: the input's without the first dimension */
    size_t bytes;     /* of one row */
    int input;        /* index among all inputs */
    zt_str data;      /* all rows */
} zt_field;

typedef struct zt_samples {
    zt_ctx *ctx;
    const zt_prog *program;
    int field_count; /* inputs that have samples */
    zt_field *fields;
    int counter; /* index of the input `counter` among all inputs; -1: none */
    int64_t sample_count;
    int64_t rows;
    /* for batches */
    int64_t batch_size, *order;
    uint64_t seed, epoch; /* epoch: that `order` is for */
    bool shuffles, ordered;
    char **buffers; /* [field_count]: a batch */
} zt_samples;

/* A data set for the inputs of a program except the weights. The program is borrowed. NULL with ZT_EUSAGE: an input has no
 * rows, or a row of unknown size. */
zt_samples *zt_samples_new(zt_ctx *ctx, const zt_prog *program, const int *weights, int n_weights);
void zt_samples_free(zt_samples *samples); /* the last batch becomes invalid. NULL: no effect */

/* Each of these appends rows. `name` is for messages.
 * CSV: numbers separated by commas; first the columns of the first input, then of the second, and so on. A first line in which
 * no cell is a number is a header; empty lines are skipped. */
zt_status zt_samples_csv(zt_samples *samples, const char *name, const char *text, size_t length);
/* NDJSON: one sample per line. An object with a member for each input, by its name ("input" also names the first, "label" and
 * "target" the last): numbers or nested lists of numbers. Or one list, in the order of a CSV line. */
zt_status zt_samples_ndjson(zt_samples *samples, const char *name, const char *text, size_t length);
/* Arrays, each with all rows of an input, found by the input's names as in NDJSON; a single array in a file is the first
 * input's. only: read this input only; NULL: all. */
zt_status zt_samples_arrays(zt_samples *samples, zt_checkpoint *checkpoint, const char *only);
/* Multiplies the first input by factor, if it is of floats. */
void zt_samples_scale(zt_samples *samples, double factor);
/* Checks that all inputs have the same number of rows, at least one. Call it before zt_samples_batches. */
zt_status zt_samples_check(zt_samples *samples, const char *name);

typedef struct zt_shuffle {
    int64_t batch; /* rows per batch; the last of an epoch may have fewer */
    bool shuffle;  /* a new order in each epoch: Philox(seed, epoch, .) */
    uint64_t seed;
} zt_shuffle;
/* Batches of these samples for zt_fit, valid until samples is freed; one set at a time. ZT_EUSAGE: a batch
 * below 1, or a program with other symbols than its rows. ZT_ENOMEM. */
zt_status zt_samples_batches(zt_samples *samples, const zt_shuffle *options, zt_batches *out);

#ifdef __cplusplus
}
#endif
#endif
