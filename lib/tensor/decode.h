/* decode.h - private to lib/tensor: the decoders of block types, of which dtype.c's table is made.
 *
 * Files: dtype_blocks.c blocks with one scale or two, dtype_k.c the K-quants, dtype_iq.c the types
 * whose codes stand for vectors of a grid, grids.c those grids; dtype_iqk.c the types of
 * ik_llama.cpp, and dtype_iqk_rows.c those whose rows begin with a scale (row_types.h); dtype_small.c, with encoders too, floats of a byte and what is packed in bytes.
 *
 * Block layouts are those of ggml-common.h, decoded as ggml-quants.c does it, in its order of
 * float operations, so that the values are the same to the bit. All files are little endian, and
 * so is every machine that zt runs on; what is unaligned is read by memcpy.
 */
#ifndef ZT_TENSOR_DECODE_H
#define ZT_TENSOR_DECODE_H

#include "lib/tensor/tensor.h"

#include <string.h>

static inline float zt_load_half(const uint8_t *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, 2);
    return zt_f16_to_f32(half);
}

static inline uint16_t zt_load_u16(const uint8_t *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, 2);
    return value;
}

static inline uint32_t zt_load_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, 4);
    return value;
}

/* Elements, a multiple of the block, from src to f32: zt_decode_q4_0 ... */
typedef void zt_decode_fn(const void *src, float *dst, int64_t n);
extern zt_decode_fn zt_decode_q4_0, zt_decode_q4_1, zt_decode_q5_0, zt_decode_q5_1, zt_decode_q8_0;
extern zt_decode_fn zt_decode_iq4_nl, zt_decode_mxfp4, zt_decode_nvfp4, zt_decode_q1_0;
extern zt_decode_fn zt_decode_q2_0, zt_decode_tq1_0, zt_decode_tq2_0;
extern zt_decode_fn zt_decode_q2_k, zt_decode_q3_k, zt_decode_q4_k, zt_decode_q5_k, zt_decode_q6_k;
extern zt_decode_fn zt_decode_iq4_xs, zt_decode_iq2_xxs, zt_decode_iq2_xs, zt_decode_iq2_s;
extern zt_decode_fn zt_decode_iq3_xxs, zt_decode_iq3_s, zt_decode_iq1_s, zt_decode_iq1_m;
extern zt_decode_fn zt_decode_iq2_k, zt_decode_iq3_k, zt_decode_iq4_k, zt_decode_iq5_k, zt_decode_iq6_k;

typedef void zt_encode_fn(const float *src, void *dst, int64_t n);
extern zt_decode_fn zt_decode_f8_e4m3, zt_decode_f8_e5m2, zt_decode_f8_e4m3fnuz;
extern zt_decode_fn zt_decode_f8_e5m2fnuz, zt_decode_f8_e8m0, zt_decode_f4_e2m1;
extern zt_decode_fn zt_decode_i4, zt_decode_u4, zt_decode_i2, zt_decode_u2;
extern zt_encode_fn zt_encode_f8_e4m3, zt_encode_f8_e5m2, zt_encode_f8_e4m3fnuz;
extern zt_encode_fn zt_encode_f8_e5m2fnuz, zt_encode_f8_e8m0, zt_encode_f4_e2m1;
extern zt_encode_fn zt_encode_i4, zt_encode_u4, zt_encode_i2, zt_encode_u2;

/* The sixteen values of iq4_nl and iq4_xs. */
extern const int8_t zt_iq4_values[16];

extern const uint16_t zt_grid_iq2_xxs[256], zt_grid_iq2_xs[512], zt_grid_iq2_s[1024];
extern const uint16_t zt_grid_iq3_xxs[256], zt_grid_iq3_s[512], zt_grid_iq1_s[2048];

#endif
