/* quantize.h - rows of floats to a quantization type, with little error.
 *
 * Each type's quantizer chooses scales, minima and codes that make the sum of squared errors small,
 * each column's error counted by its importance where that is given. q4_0 q4_1 q5_0 q5_1 q8_0 tq1_0
 * tq2_0 mxfp4, f16 and bf16 without importance are the formats' own rules, which leave nothing to
 * choose: the same bytes as every other writer's; but with `search` they leave the least error too.
 *
 *     zt_quantizer quantizer = {.dtype = ZT_Q4_K, .columns = 1024, .name = "blk.0.attn_q.weight"};
 *     zt_status status = zt_quantize_rows(ctx, &quantizer, values, rows, out);
 *
 * A row's bytes depend on that row alone: not on its neighbours, on who calls, nor on the
 * instruction set. Calls may run on several threads at once; nothing is allocated.
 */
#ifndef ZT_QUANTIZE_H
#define ZT_QUANTIZE_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_quantizer {
    zt_dtype dtype;
    int64_t columns;         /* a multiple of the type's block */
    const float *importance; /* `columns` numbers, not negative, not all 0; NULL: all columns alike */
    const char *name;        /* the tensor's, for messages; NULL: none */
    int64_t first_row;       /* of the tensor, is x's first: for messages */
    bool search;             /* the least error, importance or not */
} zt_quantizer;

/* Is there a quantizer of this type: plain floats, and the block types that can be written. */
bool zt_quantize_has(zt_dtype dtype);
/* Does the type have anything to choose by importance. */
bool zt_quantize_weighs(zt_dtype dtype);
/* Has the format a rule of its own, which is taken without importance and `search`. */
bool zt_quantize_has_rule(zt_dtype dtype);
/* The largest magnitude that the type's scales can express: what is above it is refused. */
float zt_quantize_most(zt_dtype dtype);

/* rows x columns floats to rows x columns / block blocks. ZT_EDATA, naming row and column, for NaN, infinity,
 * what is above zt_quantize_most, and an importance that is none; ZT_ESHAPE for columns that are not
 * whole blocks; ZT_ENOTSUP for a type that has no quantizer. */
zt_status zt_quantize_rows(zt_ctx *ctx, const zt_quantizer *quantizer, const float *values, int64_t rows, void *out);

/* An importance of `columns` columns where none is known, from some rows of the matrix, best a hundred or
 * more: what is small in all rows counts more, by the power 1 or 2. *any: are not all alike, which
 * of few rows is never said. `values` may be anything, also what is refused later. */
zt_status zt_column_weights(zt_ctx *ctx, const float *values, int64_t rows, int64_t columns, int power, float *weights,
                            bool *any);

/* What is lost: sums over `count` elements, to which more may be added. Zero-initialised. */
typedef struct zt_loss_of {
    int64_t count;
    double error2, x2, y2, xy; /* sums of (y - x)^2, x^2, y^2 and x y; x the original, y the result */
    double most;               /* the largest |y - x| */
} zt_loss_of;
/* Adds `count` elements: originals[count] and their quantized values results[count]. */
void zt_loss_add(zt_loss_of *loss, const float *originals, const float *results, int64_t count);
double zt_loss_rmse(const zt_loss_of *loss);   /* root mean square error; 0 of no elements */
double zt_loss_cosine(const zt_loss_of *loss); /* 1 where both are 0 */
double zt_loss_snr(const zt_loss_of *loss);    /* in dB, of the originals over the error; infinity: no error */

#ifdef __cplusplus
}
#endif
#endif
