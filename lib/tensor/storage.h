/* storage.h - storage types of a network's weights, with one scale per tensor:
 * y = code x scale.
 *
 * Two rules select the code of a weight. The usual rule, ZT_RULE_FIELD:
 *
 *   f64 f32 f16 bf16           rounded to nearest, ties to even; scale 1
 *   fp8e4m3 fp8e5m2 fp4        x / scale to nearest even, saturated (OCP 8-bit
 *                              floating point and microscaling formats); scale: the largest
 *                              magnitude becomes the type's
 *   i64 .. i2, u64 .. u2       x / scale to the nearest integer, ties to even, saturated to the
 *                              type's range (u: negative gives 0); scale as above
 *   ternary                    the same to -1, 0, 1; scale: the mean magnitude (arXiv:2402.17764)
 *   binary                     -1 below 0, else 1; scale: the mean magnitude (arXiv:1603.05279)
 *
 * and that of Loom's poly package, ZT_RULE_LOOM, by a scale of the caller's: f64, f32 and f16 keep
 * f32's values, bf16 the upper 16 bits; all others, fp8 and fp4 too, are x / scale towards zero, of
 * which the low bits are kept (8 where the type has fewer, until it is packed), as signed integers;
 * binary is 1 above 0, else -1.
 *
 * Packed codes are, by the field's rule, in the order of zt_dtype's packed types, the first element
 * in the lowest bits of a byte; by Loom's in the highest, f16 and bf16 there taking the 32 bits of
 * an f32. Bits that a last byte does not need are 0.
 *
 *     float scale = zt_storage_scale(ZT_STORE_I4, values, count);
 *     zt_storage_encode(ctx, ZT_STORE_I4, ZT_RULE_FIELD, values, count, scale, codes);
 *     zt_storage_decode(ZT_STORE_I4, ZT_RULE_FIELD, codes, count, scale, decoded);
 */
#ifndef ZT_STORAGE_H
#define ZT_STORAGE_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loom's numbers. */
typedef enum zt_storage {
    ZT_STORE_F64,
    ZT_STORE_F32,
    ZT_STORE_F16,
    ZT_STORE_BF16,
    ZT_STORE_FP8E4M3,
    ZT_STORE_FP8E5M2,
    ZT_STORE_I64,
    ZT_STORE_I32,
    ZT_STORE_I16,
    ZT_STORE_I8,
    ZT_STORE_U64,
    ZT_STORE_U32,
    ZT_STORE_U16,
    ZT_STORE_U8,
    ZT_STORE_I4,
    ZT_STORE_U4,
    ZT_STORE_FP4,
    ZT_STORE_I2,
    ZT_STORE_U2,
    ZT_STORE_TERNARY,
    ZT_STORE_BINARY,
    ZT_STORE_COUNT
} zt_storage;

typedef enum zt_storage_rule { ZT_RULE_FIELD, ZT_RULE_LOOM } zt_storage_rule;

typedef struct zt_storage_info {
    const char *name;      /* "i8" */
    const char *loom_name; /* "int8" */
    int bits;              /* of a code */
    zt_dtype dtype;        /* that has these codes by the field's rule; of ternary i2, where there is
                       none ZT_DTYPE_COUNT */
} zt_storage_info;

const zt_storage_info *zt_storage_get(zt_storage storage);               /* NULL: none */
bool zt_storage_parse(const char *name, size_t length, zt_storage *out); /* by either name */

size_t zt_storage_bytes(zt_storage storage, zt_storage_rule rule, int64_t count); /* that `count` codes take */
/* The field's scale for `count` weights; 1 where they are all 0. */
float zt_storage_scale(zt_storage storage, const float *values, int64_t count);

/* ZT_EDATA, naming the index, for NaN and infinity; ZT_EUSAGE for a scale that is not above 0. */
zt_status zt_storage_encode(zt_ctx *ctx, zt_storage storage, zt_storage_rule rule, const float *values, int64_t count,
                            float scale, void *out);
/* `count` codes to values[count], with the scale that encoded them. Any bytes are valid codes. */
void zt_storage_decode(zt_storage storage, zt_storage_rule rule, const void *codes, int64_t count, float scale, float *values);

/* Loom's codes before they are packed, times their scale: what its layers compute with. */
float zt_loom_morph(zt_storage storage, float value, float scale);
/* Loom's SimulatePrecision, which is another rule: the 32- and 64-bit integers keep `value`, 16 bits wrap
 * at 8, four bits do not wrap, two bits have halves, ternary is -1, 0 or 1. */
float zt_loom_simulate(zt_storage storage, float value, float scale);

/* Loom's blocks of 32 codes of four bits, -8 .. 7, the even elements in the low halves: not q4_0.
 */
typedef struct zt_loom_q4 {
    float scale;
    uint8_t codes[16];
} zt_loom_q4;
/* (count + 31) / 32 blocks; what the last lacks is 0. */
void zt_loom_q4_encode(const float *values, int64_t count, zt_loom_q4 *out);
/* `count` codes to values[count]; reads (count + 31) / 32 blocks. */
void zt_loom_q4_decode(const zt_loom_q4 *blocks, int64_t count, float *values);

#ifdef __cplusplus
}
#endif
#endif
