/* row_types.h - private to lib: block types of ik_llama.cpp whose rows begin with a scale (dtype_iqk_rows.c).
 *
 *     row = scale, then the blocks of all its elements
 *
 * A zt_dtype has no such prefix, since everything else finds a block by its number alone. So these are no types of values: a file
 * has them, and their numbers are f32.
 */
#ifndef ZT_TENSOR_ROW_TYPES_H
#define ZT_TENSOR_ROW_TYPES_H

#include <stdint.h>

/* `count` elements, a multiple of the block, to f32: of blocks anywhere in the row that begins with `scale`. */
typedef void zt_decode_row_fn(const uint8_t *scale, const uint8_t *blocks, float *dst, int64_t count);
extern zt_decode_row_fn zt_decode_iq1_bn, zt_decode_iq2_bn, zt_decode_iq2_ks, zt_decode_iq2_kl, zt_decode_iq3_ks;
extern zt_decode_row_fn zt_decode_iq4_ks, zt_decode_iq4_kss, zt_decode_iq5_ks;

#endif
