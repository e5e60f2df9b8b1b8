/* dtype.c - owns the dtype table: names, block sizes, and the plain float types' way to and from
 * f32. The block types' decoders are elsewhere (decode.h).
 */
#include "lib/tensor/decode.h"
#include "lib/tensor/encode.h"

#include <math.h>
#include <string.h>

/* ---- half precision ------------------------------------------------------------------------ */

static inline float bits_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Signalling NaNs become quiet and keep their payload, as the processor's own conversion does. */
static inline float half_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 31) return bits_f32(sign | 0x7f800000 | (fraction ? 0x400000 | fraction << 13 : 0));
    if (exponent == 0) { /* zero and subnormals: frac * 2^-24 is exact */
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return bits_f32(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t f32_to_half(float value)
{
    uint32_t bits = f32_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x33000000) /* below half the smallest subnormal */
        return (uint16_t)sign;
    uint32_t shift = 13, keep = magnitude - (112u << 23); /* normal: rebias, drop 13 bits */
    if (magnitude < 0x38800000) {                         /* subnormal: value / 2^-24 */
        shift = 126 - (magnitude >> 23);
        keep = (magnitude & 0x7fffff) | 0x800000;
    }
    uint32_t rounding = 1u << (shift - 1), odd = keep >> shift & 1;
    return (uint16_t)(sign | (keep + rounding - 1 + odd) >> shift); /* a carry moves to the exponent */
}

static inline uint16_t f32_to_brain(float value)
{
    uint32_t bits = f32_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float zt_f16_to_f32(uint16_t half) { return half_to_f32(half); }

uint16_t zt_f32_to_f16(float value) { return f32_to_half(value); }

float zt_bf16_to_f32(uint16_t half) { return bits_f32((uint32_t)half << 16); }

uint16_t zt_f32_to_bf16(float value) { return f32_to_brain(value); }

float zt_f64_to_f32_odd(double x)
{
    float single = (float)x;
    uint32_t bits = f32_bits(single);
    if ((double)single == x || x != x) return single;
    if (fabs((double)single) > fabs(x)) bits--; /* towards zero; infinity to the largest number, odd */
    return bits_f32(bits | 1);
}

/* ---- plain types --------------------------------------------------------------------------- */

static void decode_f64(const void *src, float *dst, int64_t count)
{
    const uint8_t *bytes = src;
    for (int64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, bytes + 8 * i, 8);
        dst[i] = (float)value;
    }
}

static void encode_f64(const float *src, void *dst, int64_t count)
{
    uint8_t *bytes = dst;
    for (int64_t i = 0; i < count; i++) {
        double value = src[i];
        memcpy(bytes + 8 * i, &value, 8);
    }
}

static void decode_f32(const void *src, float *dst, int64_t count) { memmove(dst, src, (size_t)count * 4); }

static void encode_f32(const float *src, void *dst, int64_t count) { memmove(dst, src, (size_t)count * 4); }

static inline uint16_t load_u16(const uint8_t *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, 2);
    return half;
}

static void decode_f16(const void *src, float *dst, int64_t count) { zt_plain_of(zt_isa_best())->decode_f16(src, dst, count); }

static void encode_f16(const float *src, void *dst, int64_t count) { zt_plain_of(zt_isa_best())->encode_f16(src, dst, count); }

static void decode_bf16(const void *src, float *dst, int64_t count)
{
    const uint8_t *bytes = src;
    for (int64_t i = 0; i < count; i++) dst[i] = bits_f32((uint32_t)load_u16(bytes + 2 * i) << 16);
}

static void encode_bf16(const float *src, void *dst, int64_t count)
{
    uint8_t *bytes = dst;
    for (int64_t i = 0; i < count; i++) {
        uint16_t half = f32_to_brain(src[i]);
        memcpy(bytes + 2 * i, &half, 2);
    }
}

/* ---- the table ----------------------------------------------------------------------------- */

/* decode, encode of each dtype: with its line in ZT_DTYPES this is all that a new one needs. */
// clang-format off
#define CODEC_F64 decode_f64, encode_f64
#define CODEC_F32 decode_f32, encode_f32
#define CODEC_F16 decode_f16, encode_f16
#define CODEC_BF16 decode_bf16, encode_bf16
#define CODEC_F8_E4M3 zt_decode_f8_e4m3, zt_encode_f8_e4m3
#define CODEC_F8_E5M2 zt_decode_f8_e5m2, zt_encode_f8_e5m2
#define CODEC_F8_E4M3FNUZ zt_decode_f8_e4m3fnuz, zt_encode_f8_e4m3fnuz
#define CODEC_F8_E5M2FNUZ zt_decode_f8_e5m2fnuz, zt_encode_f8_e5m2fnuz
#define CODEC_F8_E8M0 zt_decode_f8_e8m0, zt_encode_f8_e8m0
#define CODEC_I64 NULL, NULL
#define CODEC_I32 NULL, NULL
#define CODEC_I16 NULL, NULL
#define CODEC_I8 NULL, NULL
#define CODEC_U64 NULL, NULL
#define CODEC_U32 NULL, NULL
#define CODEC_U16 NULL, NULL
#define CODEC_U8 NULL, NULL
#define CODEC_BOOL NULL, NULL
#define CODEC_I4 zt_decode_i4, zt_encode_i4
#define CODEC_U4 zt_decode_u4, zt_encode_u4
#define CODEC_I2 zt_decode_i2, zt_encode_i2
#define CODEC_U2 zt_decode_u2, zt_encode_u2
#define CODEC_F4_E2M1 zt_decode_f4_e2m1, zt_encode_f4_e2m1
#define CODEC_Q4_0 zt_decode_q4_0, NULL
#define CODEC_Q4_1 zt_decode_q4_1, NULL
#define CODEC_Q5_0 zt_decode_q5_0, NULL
#define CODEC_Q5_1 zt_decode_q5_1, NULL
#define CODEC_Q8_0 zt_decode_q8_0, NULL
#define CODEC_IQ4_NL zt_decode_iq4_nl, NULL
#define CODEC_MXFP4 zt_decode_mxfp4, NULL
#define CODEC_NVFP4 zt_decode_nvfp4, NULL
#define CODEC_Q1_0 zt_decode_q1_0, NULL
#define CODEC_Q2_0 zt_decode_q2_0, NULL
#define CODEC_TQ1_0 zt_decode_tq1_0, NULL
#define CODEC_TQ2_0 zt_decode_tq2_0, NULL
#define CODEC_Q2_K zt_decode_q2_k, NULL
#define CODEC_Q3_K zt_decode_q3_k, NULL
#define CODEC_Q4_K zt_decode_q4_k, NULL
#define CODEC_Q5_K zt_decode_q5_k, NULL
#define CODEC_Q6_K zt_decode_q6_k, NULL
#define CODEC_IQ4_XS zt_decode_iq4_xs, NULL
#define CODEC_IQ3_XXS zt_decode_iq3_xxs, NULL
#define CODEC_IQ3_S zt_decode_iq3_s, NULL
#define CODEC_IQ2_XXS zt_decode_iq2_xxs, NULL
#define CODEC_IQ2_XS zt_decode_iq2_xs, NULL
#define CODEC_IQ2_S zt_decode_iq2_s, NULL
#define CODEC_IQ1_S zt_decode_iq1_s, NULL
#define CODEC_IQ1_M zt_decode_iq1_m, NULL
#define CODEC_IQ2_K zt_decode_iq2_k, NULL
#define CODEC_IQ3_K zt_decode_iq3_k, NULL
#define CODEC_IQ4_K zt_decode_iq4_k, NULL
#define CODEC_IQ5_K zt_decode_iq5_k, NULL
#define CODEC_IQ6_K zt_decode_iq6_k, NULL

enum { KIND_F = 'F', KIND_I = 'I', KIND_U = 'U', KIND_B = 'B', KIND_Q = 'Q' };
// clang-format on

static const zt_dtype_info dtype_table[ZT_DTYPE_COUNT] = {
#define X(NAME, text, n, bytes, kind) [ZT_##NAME] = {text, n, bytes, KIND_##kind, CODEC_##NAME},
    ZT_DTYPES(X)
#undef X
};

const zt_dtype_info *zt_dtype_get(zt_dtype dtype) { return (unsigned)dtype < ZT_DTYPE_COUNT ? &dtype_table[dtype] : NULL; }

bool zt_dtype_parse(const char *name, size_t length, zt_dtype *out)
{
    for (int dtype = 0; dtype < ZT_DTYPE_COUNT; dtype++) {
        if (strlen(dtype_table[dtype].name) == length && memcmp(dtype_table[dtype].name, name, length) == 0) {
            *out = (zt_dtype)dtype;
            return true;
        }
    }
    return false;
}

bool zt_dtype_is_float(zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    return info && (info->kind == 'F' || info->kind == 'Q');
}

bool zt_dtype_is_packed(zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    return info && info->kind == 'Q' && info->encode && info->block_bytes == 1;
}

void zt_dtype_range(zt_dtype dtype, double *least, double *most)
{
    if (!least || !most) return;
    if (!zt_dtype_get(dtype)) {
        *least = *most = 0;
        return;
    }
    static const double floats[ZT_DTYPE_COUNT] = {[ZT_F64] = 0x1.fffffffffffffp1023,
                                                  [ZT_F32] = 0x1.fffffep127,
                                                  [ZT_F16] = 65504,
                                                  [ZT_BF16] = 0x1.fep127,
                                                  [ZT_F8_E4M3] = 448,
                                                  [ZT_F8_E5M2] = 57344,
                                                  [ZT_F8_E4M3FNUZ] = 240,
                                                  [ZT_F8_E5M2FNUZ] = 57344,
                                                  [ZT_F8_E8M0] = 0x1p127,
                                                  [ZT_F4_E2M1] = 6};
    const zt_dtype_info *info = zt_dtype_get(dtype);
    int bits = 8 * info->block_bytes / info->block;
    bool sign = info->kind == 'I' || dtype == ZT_I4 || dtype == ZT_I2;
    *most = floats[dtype];
    *least = dtype == ZT_F8_E8M0 ? 0x1p-127 : -floats[dtype];
    if (floats[dtype] != 0 || (info->kind == 'Q' && !zt_dtype_is_packed(dtype))) return;
    *most = info->kind == 'B' ? 1 : ldexp(1, bits - sign) - (bits < 64);
    *least = sign ? -ldexp(1, bits - 1) : 0;
}
