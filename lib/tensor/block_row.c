/* block_row.c - owns which types a KV cache may have, and how its rows are quantized. */
#include "lib/tensor/block_row.h"
#include "lib/tensor/encode.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32, PIECE = 16 * BLOCK }; /* of all these types; numbers that are quantized at once: a search has 16 lanes */

bool zt_is_block_cache(zt_dtype dtype)
{
    return dtype == ZT_Q8_0 || dtype == ZT_Q5_1 || dtype == ZT_Q5_0 || dtype == ZT_Q4_1 || dtype == ZT_Q4_0 || dtype == ZT_IQ4_NL;
}

bool zt_is_cache_type(zt_dtype dtype) { return dtype == ZT_F32 || dtype == ZT_F16 || zt_is_block_cache(dtype); }

/* Blocks whose numbers the type cannot hold get a scale, and a minimum where there is one, of NaN. */
static void mark_blocks(zt_dtype dtype, float most, const float *values, int64_t count, uint8_t *out)
{
    static const uint8_t nan_halves[4] = {0x00, 0x7e, 0x00, 0x7e};
    const size_t bytes = (size_t)zt_dtype_get(dtype)->block_bytes, marked = dtype == ZT_Q4_1 || dtype == ZT_Q5_1 ? 4 : 2;
    for (int64_t i = 0; i < count; i += BLOCK, out += bytes)
        if (zt_plain_of(zt_isa_best())->any_above(values + i, BLOCK, most)) memcpy(out, nan_halves, marked);
}

void zt_block_row_encode(zt_dtype dtype, const float *values, int64_t count, void *out)
{
    static const float ones[PIECE] = {
#define FOUR  1, 1, 1, 1,
#define SIXTY FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR FOUR
        SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY
#undef SIXTY
#undef FOUR
    };
    const zt_encoder *encoder = zt_encoder_find(zt_isa_best(), dtype);
    const zt_dtype_info *info = zt_dtype_get(dtype);
    uint8_t *to = out;
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t part = count - i < PIECE ? count - i : PIECE;
        if (dtype == ZT_Q8_0)
            encoder->exact(values + i, NULL, part, to);
        else
            encoder->search(values + i, ones, part, to);
        if (zt_plain_of(zt_isa_best())->any_above(values + i, part, encoder->most))
            mark_blocks(dtype, encoder->most, values + i, part, to);
        to += part / BLOCK * info->block_bytes;
    }
}
