/* samples.h - data sets: rows for the inputs of a program, from CSV, NDJSON or arrays.
 *
 *     zt_samples *s = zt_samples_new(ctx, forward, NULL, 0);
 *     zt_samples_csv(s, "digits.csv", text, n);          // or _ndjson, or _arrays
 *     zt_samples_batches(s, &(zt_shuffle){.batch = 32, .seed = 1}, &batches);
 *     zt_samples_free(s);
 *
 * Every input of the program has rows first; a sample is a row of each. But `counter`, an i64 without
 * rows, is not of samples: it is the batch's number, from the first epoch's first on, so that what
 * is drawn by it (zt_random_uniform) is drawn anew in each step. What a file says is taken
 * as the program's types: whole numbers for integers, or ZT_EDATA with the place.
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
    zt_type row;      /* of one sample: the input's without its first dimension */
    size_t bytes;     /* of a row */
    int input;        /* its number among all */
    zt_str data;      /* rows one after the other */
} zt_field;

typedef struct zt_samples {
    zt_ctx *ctx;
    const zt_prog *prog;
    int n;            /* inputs that samples have */
    zt_field *field;
    int counter;      /* the input that counts batches, among all; -1: none */
    int64_t count;
    int64_t rows;
    /* of batches */
    int64_t batch, *order;
    uint64_t seed, epoch; /* of which `order` is */
    bool shuffles, ordered;
    char **room;          /* [n]: a batch */
} zt_samples;

/* For the inputs of p, which is borrowed, but the `n_weights` values that are trained. ZT_EUSAGE
 * where an input has no rows, or a row of unknown size. */
zt_samples *zt_samples_new(zt_ctx *ctx, const zt_prog *p, const int *weights, int n_weights);
void zt_samples_free(zt_samples *s); /* and the batch it gave last. NULL: nothing */

/* Each appends rows. `name` is for messages.
 * CSV: numbers with commas between; the columns are those of the
 * first input, then of the second and so on. A first line in which no
 * cell is a number is one of names; empty lines are passed over. */
zt_status zt_samples_csv(zt_samples *s, const char *name, const char *text, size_t n);
/* A line a sample: an object with a member for each input, by its name ("input" is the first and
 * "label" or "target" the last too), numbers or lists of them, nested in any way; or one list, as a
 * line of CSV has it. */
zt_status zt_samples_ndjson(zt_samples *s, const char *name, const char *text, size_t n);
/* Arrays by the inputs' names (the same other names), each of all rows; an array alone in its file
 * is the first input's. `only`: of that input and no other; NULL: of all. */
zt_status zt_samples_arrays(zt_samples *s, zt_checkpoint *c, const char *only);
/* The first input times `by`, where it is of floats. */
void zt_samples_scale(zt_samples *s, double by);
/* Have all inputs equally many rows, and is there one? Before batches are asked for. */
zt_status zt_samples_check(zt_samples *s, const char *name);

typedef struct zt_shuffle {
    int64_t batch; /* rows; the last of an epoch may have fewer */
    bool shuffle;  /* each epoch in an order of its own: Philox(seed, epoch, .) */
    uint64_t seed;
} zt_shuffle;
/* Batches of these samples for zt_fit, valid until s is freed; one set at a time. ZT_EUSAGE: a batch
 * below 1, or a program with other symbols than its rows. ZT_ENOMEM. */
zt_status zt_samples_batches(zt_samples *s, const zt_shuffle *o, zt_batches *out);

#ifdef __cplusplus
}
#endif
#endif
