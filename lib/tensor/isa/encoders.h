/* encoders.h - private to isa/: the quantizers by name, each with its instruction set's ending.
 *
 * Files: blocks.c the formats' own rules, affine.c scales with minima, scaled.c scales alone,
 * quant_fp4.c floats of four bits, quant_grid.c vectors of a grid, plain.c numbers outside blocks.
 */
#ifndef ZT_TENSOR_ENCODERS_H
#define ZT_TENSOR_ENCODERS_H

#include "lib/tensor/encode.h"

#define ZT_ENCODE_CAT_(a, b) a##_##b
#define ZT_ENCODE_CAT(a, b)  ZT_ENCODE_CAT_(a, b)
#define ZT_ENCODER(name)     ZT_ENCODE_CAT(zt_##name, ZT_ISA) /* zt_exact_q4_0_avx512 */

extern zt_quantize_fn ZT_ENCODER(exact_q4_0), ZT_ENCODER(exact_q4_1), ZT_ENCODER(exact_q5_0);
extern zt_quantize_fn ZT_ENCODER(exact_q5_1), ZT_ENCODER(exact_q8_0), ZT_ENCODER(exact_tq1_0);
extern zt_quantize_fn ZT_ENCODER(exact_tq2_0), ZT_ENCODER(exact_mxfp4);
extern zt_quantize_fn ZT_ENCODER(search_q2_k), ZT_ENCODER(search_q4_k), ZT_ENCODER(search_q5_k);
extern zt_quantize_fn ZT_ENCODER(search_q4_0), ZT_ENCODER(search_q5_0), ZT_ENCODER(search_q8_0);
extern zt_quantize_fn ZT_ENCODER(search_iq4_nl), ZT_ENCODER(search_q3_k), ZT_ENCODER(search_q6_k);
extern zt_quantize_fn ZT_ENCODER(search_iq4_xs);
extern zt_quantize_fn ZT_ENCODER(search_q4_1), ZT_ENCODER(search_q5_1);
extern zt_quantize_fn ZT_ENCODER(search_q1_0), ZT_ENCODER(search_q2_0);
extern zt_quantize_fn ZT_ENCODER(search_nvfp4), ZT_ENCODER(search_mxfp4);
extern zt_quantize_fn ZT_ENCODER(search_iq2_xxs), ZT_ENCODER(search_iq2_xs), ZT_ENCODER(search_iq2_s);
extern zt_quantize_fn ZT_ENCODER(search_iq3_xxs), ZT_ENCODER(search_iq3_s);
extern zt_quantize_fn ZT_ENCODER(search_iq1_s), ZT_ENCODER(search_iq1_m);

static inline void zt_put_half(uint8_t *p, float f)
{
    uint16_t h = zt_f32_to_f16(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

#endif
