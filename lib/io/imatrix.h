/* imatrix.h - importance matrices: how much each column of a model's matrices counts.
 *
 * A file holds, for each matrix, the mean of x^2 over the tokens of some text, x being what it is
 * multiplied with. Two forms are read: llama-imatrix's GGUF (tensors NAME.in_sum2 and NAME.counts)
 * and the one before it (llama.cpp, tools/imatrix and tools/quantize, as facts); the first is
 * written. Files are hostile: every count and length is checked against the file.
 *
 *     zt_imatrix *m = zt_imatrix_open(ctx, "imatrix.gguf");
 *     const zt_imatrix_of *of = zt_imatrix_find(m, "blk.0.attn_q.weight");   // NULL: no such
 *     zt_imatrix_close(m);
 */
#ifndef ZT_IMATRIX_H
#define ZT_IMATRIX_H

#include "lib/io/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_imatrix zt_imatrix;

typedef struct zt_imatrix_of {
    const char *name;  /* of the matrix */
    int64_t n;         /* numbers: columns, as often as there are experts */
    const float *mean; /* [n]; an expert that no token came to has ones */
} zt_imatrix_of;

zt_imatrix *zt_imatrix_open(zt_ctx *ctx, const char *path); /* or "-" */
void zt_imatrix_close(zt_imatrix *m);

int64_t zt_imatrix_count(const zt_imatrix *m);
const zt_imatrix_of *zt_imatrix_get(const zt_imatrix *m, int64_t i);
const zt_imatrix_of *zt_imatrix_find(const zt_imatrix *m, const char *name); /* NULL: none */
/* The text it is of, and in how many windows; NULL and 0 where the file does not say. */
const char *zt_imatrix_dataset(const zt_imatrix *m);
int64_t zt_imatrix_chunks(const zt_imatrix *m);

typedef struct zt_imatrix_sum { /* to be written */
    const char *name;
    int64_t n;         /* columns */
    const double *sum; /* [n] of x^2 */
    int64_t tokens;
} zt_imatrix_sum;

/* As llama-imatrix writes it, matrices by name. The file is whole or absent. */
zt_status zt_imatrix_write(zt_ctx *ctx, const char *path, bool force, const zt_imatrix_sum *of,
                           int64_t n, const char *dataset, int64_t chunks, int64_t chunk_size);

#ifdef __cplusplus
}
#endif
#endif
