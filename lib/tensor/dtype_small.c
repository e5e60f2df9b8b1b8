/* dtype_small.c - owns the floats of a byte and less, and the types that pack several elements in a
 * byte, the first in its lowest bits.
 *
 * A float of `fraction` fraction bits and this exponent bias; formats as of the OCP 8-bit floating
 * point and microscaling specifications, and for fnuz of arXiv:2206.02915.
 */
#include "lib/tensor/decode.h"

#include <math.h>

typedef struct small_float {
    int bits, fraction, bias;
    uint8_t most;     /* the code of the largest finite number */
    uint8_t overflow; /* what is larger, once rounded, becomes this, with its sign */
    uint8_t nan;      /* every code from here on (without sign) is NaN, but for `infinity` */
    uint8_t infinity; /* 0: there is none */
    bool nuz;         /* no negative zero: its code is the one NaN */
} small_float;

static const small_float e4m3 = {8, 3, 7, 0x7e, 0x7f, 0x7f, 0, false};
static const small_float e5m2 = {8, 2, 15, 0x7b, 0x7c, 0x7e, 0x7c, false};
static const small_float e4m3fnuz = {8, 3, 8, 0x7f, 0x80, 0x80, 0, true};
static const small_float e5m2fnuz = {8, 2, 16, 0x7f, 0x80, 0x80, 0, true};
static const small_float e2m1 = {4, 1, 1, 7, 7, 8, 0, false}; /* no NaN: it becomes -0 */

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline float decode_one(const small_float *format, uint32_t code)
{
    uint32_t sign = code >> (format->bits - 1), magnitude = code & ((1u << (format->bits - 1)) - 1);
    uint32_t exponent = magnitude >> format->fraction, fraction = magnitude & ((1u << format->fraction) - 1);
    if (format->nuz && code == format->nan) return NAN;
    if (!format->nuz && format->bits == 8 && magnitude >= format->overflow)
        return magnitude != format->infinity ? NAN : sign ? -INFINITY : INFINITY;
    float value = exponent
                      ? float_from_bits((exponent + 127 - (uint32_t)format->bias) << 23 | fraction << (23 - format->fraction))
                      : ldexpf((float)fraction, 1 - format->bias - format->fraction);
    return sign ? -value : value;
}

static inline uint8_t encode_one(const small_float *format, float value)
{
    uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffff, drop = 23 - (uint32_t)format->fraction;
    uint8_t sign = (uint8_t)(bits >> 31 << (format->bits - 1));
    if (magnitude > 0x7f800000) return (uint8_t)(format->nuz || format->bits < 8 ? format->nan : sign | format->nan);
    uint32_t keep = magnitude - ((127 - (uint32_t)format->bias) << 23), normal = 128 - (uint32_t)format->bias;
    if (magnitude >> 23 < normal) { /* a multiple of the smallest number; far below it is 0 */
        drop += normal - (magnitude >> 23);
        keep = (magnitude & 0x7fffff) | 0x800000;
        if (drop > 24) drop = 31;
    }
    uint32_t code = (keep + (1u << (drop - 1)) - 1 + (keep >> drop & 1)) >> drop;
    if (code > format->most) return format->nuz ? format->overflow : (uint8_t)(sign | format->overflow);
    return format->nuz && code == 0 ? 0 : (uint8_t)(sign | code);
}

// clang-format off
#define BYTE_FLOAT(NAME)                                                                           \
    void zt_decode_f8_##NAME(const void *src, float *dst, int64_t n)                               \
    {                                                                                              \
        const uint8_t *s = src;                                                                    \
        for (int64_t i = 0; i < n; i++) dst[i] = decode_one(&NAME, s[i]);                          \
    }                                                                                              \
    void zt_encode_f8_##NAME(const float *src, void *dst, int64_t n)                               \
    {                                                                                              \
        uint8_t *d = dst;                                                                          \
        for (int64_t i = 0; i < n; i++) d[i] = encode_one(&NAME, src[i]);                          \
    }
// clang-format on
BYTE_FLOAT(e4m3)
BYTE_FLOAT(e5m2)
BYTE_FLOAT(e4m3fnuz)
BYTE_FLOAT(e5m2fnuz)

/* 2^(code - 127), no sign, no zero; 255 is NaN. */
void zt_decode_f8_e8m0(const void *src, float *dst, int64_t count)
{
    const uint8_t *codes = src;
    for (int64_t i = 0; i < count; i++)
        dst[i] = codes[i] == 255 ? NAN : float_from_bits(codes[i] ? (uint32_t)codes[i] << 23 : 0x400000);
}

/* To the nearest power of two, halves up; 0 to 2^-127, what is larger than that to 2^-126 at least
 * (as PyTorch and ml_dtypes have it). What is negative, infinite or too large is NaN. */
void zt_encode_f8_e8m0(const float *src, void *dst, int64_t count)
{
    uint8_t *codes = dst;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = float_bits(src[i]), code = (bits + 0x400000) >> 23;
        if (bits >> 23 == 0) code = bits > 0x400000;
        codes[i] = bits == 0x80000000 ? 0 : bits >= 0x7f800000 || code > 254 ? 255 : (uint8_t)code;
    }
}

/* ---- packed ---------------------------------------------------------------------------------- */

/* The low bits that the type keeps of a number, towards zero; of NaN and what no i64 holds 0. */
static inline uint32_t keep_low_bits(float value, int bits)
{
    return fabsf(value) < 0x1p62f ? (uint32_t)(uint64_t)(int64_t)value & ((1u << bits) - 1) : 0;
}

static inline float signed_value(uint32_t code, int bits) { return (float)((int)code - (code >> (bits - 1) ? 1 << bits : 0)); }

static inline float unsigned_value(uint32_t code, int bits)
{
    (void)bits;
    return (float)code;
}

static inline float e2m1_value(uint32_t code, int bits)
{
    (void)bits;
    return decode_one(&e2m1, code);
}

static inline uint32_t e2m1_bits(float value, int bits)
{
    (void)bits;
    return encode_one(&e2m1, value);
}

/* The count may end within a byte, whose other bits are then 0. */
// clang-format off
#define PACKED(NAME, BITS, OF, TO)                                                                 \
    void zt_decode_##NAME(const void *src, float *dst, int64_t n)                                  \
    {                                                                                              \
        const uint8_t *s = src;                                                                    \
        const int each = 8 / BITS;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            dst[i] = OF((uint32_t)(s[i / each] >> i % each * BITS) & ((1u << BITS) - 1), BITS);    \
    }                                                                                              \
    void zt_encode_##NAME(const float *src, void *dst, int64_t n)                                  \
    {                                                                                              \
        uint8_t *d = dst;                                                                          \
        const int each = 8 / BITS;                                                                 \
        for (int64_t i = 0; i < n; i += each) {                                                    \
            uint32_t byte = 0;                                                                     \
            for (int j = 0; j < each && i + j < n; j++) byte |= TO(src[i + j], BITS) << j * BITS;  \
            d[i / each] = (uint8_t)byte;                                                           \
        }                                                                                          \
    }
// clang-format on
PACKED(i4, 4, signed_value, keep_low_bits)
PACKED(u4, 4, unsigned_value, keep_low_bits)
PACKED(i2, 2, signed_value, keep_low_bits)
PACKED(u2, 2, unsigned_value, keep_low_bits)
PACKED(f4_e2m1, 4, e2m1_value, e2m1_bits)
