/* imatrix.h - importance matrices: how much each column of a weight is used, as the mean square of
 * what it was multiplied by. Read and written in both forms of llama.cpp's (tools/imatrix).
 *
 * GGUF: general.type is "imatrix"; imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size; for a
 * weight W tensors W.in_sum2 f32[matrices, columns], sums of squares, and W.counts
 * f32[matrices, 1], over how many rows. Several matrices: a layer's experts.
 * The older one (.dat), little endian: i32 entries; of each i32 length of the name, name, i32
 * calls, i32 values, f32 values, each the mean square times calls; then, if the file goes on, i32
 * chunks, i32 length, name of the data set. It states no dimensions: the values of the experts of a
 * layer follow one another, those of expert e at [e * columns, (e + 1) * columns). A GGUF made from
 * such a file has one matrix with all of them.
 *
 * A matrix that was never used (its count is 0, or all its values are) has the importance 1 in each
 * column, as in llama-quantize: its columns count alike.
 *
 *     zt_imatrix *imatrix = zt_imatrix_open(ctx, "m.imatrix");
 *     const float *importance = zt_imatrix_find(imatrix, "blk.0.attn_q.weight", 0, 576);
 *     zt_imatrix_close(imatrix);
 */
#ifndef ZT_IMATRIX_H
#define ZT_IMATRIX_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_imatrix zt_imatrix;

zt_imatrix *zt_imatrix_open(zt_ctx *ctx, const char *path);  /* either format, detected by content */
zt_imatrix *zt_imatrix_from(zt_ctx *ctx, zt_source *source); /* borrows the source */
zt_imatrix *zt_imatrix_new(zt_ctx *ctx);                     /* empty */
void zt_imatrix_close(zt_imatrix *imatrix);                  /* NULL: nothing */

typedef struct zt_imatrix_entry {
    const char *name; /* of the weight */
    int64_t matrices, columns;
    const float *mean; /* [matrices, columns] mean squares; 1 for a matrix that was never used */
} zt_imatrix_entry;

int64_t zt_imatrix_count(const zt_imatrix *imatrix); /* weights that have an entry */
/* i from 0 to the count; what it points to is m's. */
zt_imatrix_entry zt_imatrix_get(const zt_imatrix *imatrix, int64_t i);
/* States the shape of a weight: `matrices` matrices whose rows have `columns`. An entry of one matrix
 * with the values of all is split. *has: is there an entry of this name? ZT_EDATA when it has
 * another number of values; the message names both. */
zt_status zt_imatrix_fit(zt_imatrix *imatrix, const char *name, int64_t matrices, int64_t columns, bool *has);
/* The importance [columns] of matrix `matrix` of a weight; m's. NULL: no such entry, or it
 * has another shape: zt_imatrix_fit first. */
const float *zt_imatrix_find(const zt_imatrix *imatrix, const char *name, int64_t matrix, int64_t columns);
int64_t zt_imatrix_chunks(const zt_imatrix *imatrix);      /* 0: not known */
const char *zt_imatrix_dataset(const zt_imatrix *imatrix); /* NULL: not known */

/* Adds `rows` rows that were multiplied by matrix `matrix` of the `matrices` of a weight. ZT_ESHAPE
 * when its entry has another shape. */
zt_status zt_imatrix_add(zt_imatrix *imatrix, const char *name, int64_t matrices, int64_t matrix, int64_t columns,
                         const float *activations, int64_t rows);
/* The same where the squares have been summed up already. sum: f64[columns]. */
zt_status zt_imatrix_add_sums(zt_imatrix *imatrix, const char *name, int64_t matrices, int64_t matrix, int64_t columns,
                              const double *sum, int64_t rows);
/* What was read and in how many pieces of how many tokens, for the file. */
zt_status zt_imatrix_about(zt_imatrix *imatrix, const char *dataset, int64_t chunks, int64_t chunk_size);

/* Writes GGUF to the sink, which the caller commits. Fails as zt_sink_write does. */
zt_status zt_imatrix_write(const zt_imatrix *imatrix, zt_sink *out);
/* The same in the older form, which loses counts. */
zt_status zt_imatrix_write_dat(const zt_imatrix *imatrix, zt_sink *out);

#ifdef __cplusplus
}
#endif
#endif
