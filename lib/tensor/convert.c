/* convert.c - owns values of one dtype as another, by way of f32, as the table's codecs have it. */
#include "lib/tensor/tensor.h"

#include <string.h>

enum { STEP = 1024 }; /* elements at a time: a multiple of every block */

bool zt_dtype_converts(zt_dtype from, zt_dtype to)
{
    if (!zt_dtype_get(from) || !zt_dtype_get(to)) return false;
    return from == to || (zt_dtype_get(from)->decode && zt_dtype_get(to)->encode);
}

/* Of f64 to f32 without rounding twice where a narrower type follows. */
static void encode_from_f64(const char *src, zt_dtype to, char *dst, int64_t count)
{
    float singles[STEP];
    for (int64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, src + 8 * i, 8);
        singles[i] = to == ZT_F32 ? (float)value : zt_f64_to_f32_odd(value);
    }
    zt_dtype_get(to)->encode(singles, dst, count);
}

void zt_dtype_convert(zt_dtype from, const void *src, zt_dtype to, void *dst, int64_t count)
{
    if (!src || !dst || !zt_dtype_converts(from, to)) return;
    if (!src || (!dst && count)) return;
    const zt_dtype_info *source_info = zt_dtype_get(from), *target_info = zt_dtype_get(to);
    const char *input = src;
    char *output = dst;
    float singles[STEP];
    for (int64_t step; count > 0; count -= step) {
        step = count < STEP ? count : STEP;
        size_t input_bytes = (size_t)((step + source_info->block - 1) / source_info->block) * (size_t)source_info->block_bytes;
        size_t output_bytes = (size_t)((step + target_info->block - 1) / target_info->block) * (size_t)target_info->block_bytes;
        if (from == to) {
            memcpy(output, input, input_bytes);
        } else if (from == ZT_F64) {
            encode_from_f64(input, to, output, step);
        } else if (from == ZT_F32) {
            memcpy(singles, input, input_bytes);
            target_info->encode(singles, output, step);
        } else {
            source_info->decode(input, singles, step);
            target_info->encode(singles, output, step);
        }
        input += input_bytes;
        output += output_bytes;
    }
}
