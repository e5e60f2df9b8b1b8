/* block_row.h - private to the library: rows that are quantized while a program runs, as those of a KV cache are.
 *
 * q8_0 by the format's own rule, the other types by the search for the least error. Blocks do not see each other, and every
 * instruction set gives the same bytes. A block with a number that is not finite, or too large for the type, becomes one of NaN.
 */
#ifndef ZT_BLOCK_ROW_H
#define ZT_BLOCK_ROW_H

#include "lib/tensor/tensor.h"

/* For messages. */
#define ZT_CACHE_TYPES "f32, f16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl"
/* May a KV cache have this type? */
bool zt_is_cache_type(zt_dtype dtype);
/* Is it one of those with blocks? */
bool zt_is_block_cache(zt_dtype dtype);
/* `count` numbers, whole blocks, to a block type that a cache may have. */
void zt_block_row_encode(zt_dtype dtype, const float *values, int64_t count, void *out);

#endif
