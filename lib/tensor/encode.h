/* encode.h - private to lib/tensor: the quantizers of block types and f16's conversions, compiled
 * once for each instruction set from lib/tensor/isa/.
 *
 * All sums are of sixteen lanes, or of one, in an order that is written down, and no multiply-add
 * is fused: every instruction set gives the same bytes.
 */
#ifndef ZT_TENSOR_ENCODE_H
#define ZT_TENSOR_ENCODE_H

#include "lib/tensor/tensor.h"

/* `count` elements, whole blocks, to `out`; `weights`, one each, are not negative, of mean 1 or about it; NULL:
 * all are 1. Blocks do not see each other. */
typedef void zt_quantize_fn(const float *values, const float *weights, int64_t count, uint8_t *out);

/* Either may be NULL. */
typedef struct zt_encoder {
    zt_dtype dtype;
    float most;             /* the largest |x| */
    zt_quantize_fn *exact;  /* the format's own rule, where there are no weights */
    zt_quantize_fn *search; /* the least error that it finds */
} zt_encoder;

/* The list of an instruction set, up to one of ZT_DTYPE_COUNT: isa/encoders.c. */
extern const zt_encoder zt_encoders_scalar[], zt_encoders_avx2[], zt_encoders_avx512[], zt_encoders_neon[], zt_encoders_dotprod[];

const zt_encoder *zt_encoder_find(zt_isa isa, zt_dtype dtype); /* NULL: none */

/* Plain numbers by an instruction set: isa/plain.c. */
typedef struct zt_plain {
    void (*decode_f16)(const void *src, float *dst, int64_t n);
    void (*encode_f16)(const float *src, void *dst, int64_t n);
    bool (*any_above)(const float *values, int64_t count, float limit); /* |value|, or NaN */
} zt_plain;
extern const zt_plain zt_plain_scalar, zt_plain_avx2, zt_plain_avx512, zt_plain_neon, zt_plain_dotprod;

const zt_plain *zt_plain_of(zt_isa isa);

#endif
