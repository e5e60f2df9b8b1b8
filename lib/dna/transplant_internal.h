/* transplant_internal.h - private to lib/dna: a transplant's files.
 *
 *     transplant.c        tensors and metadata of the result
 *     transplant_match.c  tokens of the donor that the model has too
 *     transplant_rows.c   rows of the others
 */
#ifndef ZT_TRANSPLANT_INTERNAL_H
#define ZT_TRANSPLANT_INTERNAL_H

#include "lib/dna/transplant.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

/* ids[donor->count]: the model's token; -1: it has none. exact[donor->count]: the same text or role, not a byte's other token. */
zt_status zt_transplant_match(zt_ctx *ctx, const zt_transplant_vocab *model, const zt_transplant_vocab *donor, int64_t *ids,
                              bool *exact);

/* ---- rows ------------------------------------------------------------------------------------ */

/* A matrix with a row for each token. */
typedef struct transplant_source {
    zt_checkpoint *checkpoint; /* NULL: there is none */
    int64_t tensor;
    zt_entry entry;
    int64_t rows, width;
    size_t row_bytes;
} transplant_source;

/* count rows from `first` on, as f32[count, width]. */
zt_status zt_transplant_read(zt_ctx *ctx, const transplant_source *source, int64_t first, int64_t count, float *values);

typedef struct transplant_work {
    zt_ctx *ctx;
    const zt_transplant_opts *options;
    const transplant_source *model, *donor;
    const int64_t *shared_model, *shared_donor; /* [shared_count] rows of tokens that both have */
    int64_t shared_count;
    const int64_t *targets; /* [target_count] rows of the donor, which are ids of its tokens */
    int64_t target_count;
    const zt_transplant_vocab *vocab; /* the donor's */
    char *rows;                       /* [target_count, model->row_bytes] the result, in the model's type */
} transplant_work;

zt_status zt_transplant_rows(const transplant_work *work);

#endif
