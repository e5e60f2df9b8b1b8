/* dtype.c - owns the dtype table: names, block sizes, and each float type's way to and from f32.
 *
 * Block layouts are those of ggml-common.h, decoded as ggml-quants.c does it, in its order of
 * float operations, so that the values are the same to the bit. All files are little endian, and
 * so is every machine that zt runs on; what is unaligned is read by memcpy.
 */
#include "lib/tensor/tensor.h"

#include <string.h>

/* ---- half precision ------------------------------------------------------------------------ */

static inline float bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Signalling NaNs become quiet and keep their payload, as the processor's own conversion does. */
static inline float half_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, frac = h & 0x3ff;
    if (exp == 31)
        return bits_f32(sign | 0x7f800000 | (frac ? 0x400000 | frac << 13 : 0));
    if (exp == 0) { /* zero and subnormals: frac * 2^-24 is exact */
        float f = (float)frac * 0x1p-24f;
        return sign ? -f : f;
    }
    return bits_f32(sign | (exp + 112) << 23 | frac << 13);
}

static inline uint16_t f32_to_half(float f)
{
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x33000000) /* below half the smallest subnormal */
        return (uint16_t)sign;
    uint32_t shift = 13, keep = a - (112u << 23); /* normal: rebias, drop 13 bits */
    if (a < 0x38800000) {                         /* subnormal: value / 2^-24 */
        shift = 126 - (a >> 23);
        keep = (a & 0x7fffff) | 0x800000;
    }
    uint32_t half = 1u << (shift - 1), odd = keep >> shift & 1;
    return (uint16_t)(sign | (keep + half - 1 + odd) >> shift); /* a carry moves to the exponent */
}

static inline uint16_t f32_to_brain(float f)
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float zt_f16_to_f32(uint16_t h)
{
    return half_to_f32(h);
}

uint16_t zt_f32_to_f16(float f)
{
    return f32_to_half(f);
}

float zt_bf16_to_f32(uint16_t h)
{
    return bits_f32((uint32_t)h << 16);
}

uint16_t zt_f32_to_bf16(float f)
{
    return f32_to_brain(f);
}

/* ---- plain types --------------------------------------------------------------------------- */

static void decode_f64(const void *src, float *dst, int64_t n)
{
    const uint8_t *s = src;
    for (int64_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, s + 8 * i, 8);
        dst[i] = (float)x;
    }
}

static void encode_f64(const float *src, void *dst, int64_t n)
{
    uint8_t *d = dst;
    for (int64_t i = 0; i < n; i++) {
        double x = src[i];
        memcpy(d + 8 * i, &x, 8);
    }
}

static void decode_f32(const void *src, float *dst, int64_t n)
{
    memmove(dst, src, (size_t)n * 4);
}

static void encode_f32(const float *src, void *dst, int64_t n)
{
    memmove(dst, src, (size_t)n * 4);
}

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return h;
}

static void decode_f16(const void *src, float *dst, int64_t n)
{
    const uint8_t *s = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = half_to_f32(load16(s + 2 * i));
}

static void encode_f16(const float *src, void *dst, int64_t n)
{
    uint8_t *d = dst;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = f32_to_half(src[i]);
        memcpy(d + 2 * i, &h, 2);
    }
}

static void decode_bf16(const void *src, float *dst, int64_t n)
{
    const uint8_t *s = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = bits_f32((uint32_t)load16(s + 2 * i) << 16);
}

static void encode_bf16(const float *src, void *dst, int64_t n)
{
    uint8_t *d = dst;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = f32_to_brain(src[i]);
        memcpy(d + 2 * i, &h, 2);
    }
}

/* ---- blocks of 32 -------------------------------------------------------------------------- */

static inline float load_half(const uint8_t *p)
{
    return half_to_f32(load16(p));
}

/* f16 d, 16 bytes of codes: the low halves are elements 0..15, the high halves 16..31. */
static void decode_q4_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 18) {
        float d = load_half(b);
        for (int j = 0; j < 16; j++) {
            dst[i + j] = (float)((b[2 + j] & 15) - 8) * d;
            dst[i + 16 + j] = (float)((b[2 + j] >> 4) - 8) * d;
        }
    }
}

/* f16 d, f16 m, codes. */
static void decode_q4_1(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 20) {
        float d = load_half(b), m = load_half(b + 2);
        for (int j = 0; j < 16; j++) {
            dst[i + j] = (float)(b[4 + j] & 15) * d + m;
            dst[i + 16 + j] = (float)(b[4 + j] >> 4) * d + m;
        }
    }
}

/* Code j of 32 of five bits: 16 bytes of halves at q, the fifth bits in `high`. */
static inline int code5(const uint8_t *q, uint32_t high, int j)
{
    int low = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
    return low | (int)(high >> j & 1) << 4;
}

/* f16 d, u32 of fifth bits, codes. */
static void decode_q5_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 22) {
        float d = load_half(b);
        uint32_t high;
        memcpy(&high, b + 2, 4);
        for (int j = 0; j < 32; j++)
            dst[i + j] = (float)(code5(b + 6, high, j) - 16) * d;
    }
}

/* f16 d, f16 m, u32 of fifth bits, codes. */
static void decode_q5_1(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 24) {
        float d = load_half(b), m = load_half(b + 2);
        uint32_t high;
        memcpy(&high, b + 4, 4);
        for (int j = 0; j < 32; j++)
            dst[i + j] = (float)code5(b + 8, high, j) * d + m;
    }
}

/* f16 d, 32 signed codes. */
static void decode_q8_0(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 34) {
        float d = load_half(b);
        for (int j = 0; j < 32; j++)
            dst[i + j] = (float)(int8_t)b[2 + j] * d;
    }
}

/* f16 d, codes as in q4_0, which are places in a table of values that are denser near 0. */
static void decode_iq4_nl(const void *src, float *dst, int64_t n)
{
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 32, b += 18) {
        float d = load_half(b);
        for (int j = 0; j < 16; j++) {
            dst[i + j] = (float)values[b[2 + j] & 15] * d;
            dst[i + 16 + j] = (float)values[b[2 + j] >> 4] * d;
        }
    }
}

/* ---- blocks of 256 ------------------------------------------------------------------------- */

/* q4_k and q5_k keep 8 scales and 8 minima of 6 bits in 12 bytes: the first four in the low six
 * bits of bytes 0..3 and 4..7, the others in the halves of bytes 8..11 with their upper two bits
 * on top of bytes 0..7. */
static inline void scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* f16 d, f16 dmin, 12 bytes of scales; for each pair of 32 elements 32 bytes of codes, the first
 * of the pair in the low halves. */
static void decode_q4_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 144) {
        float d = load_half(b), dmin = load_half(b + 2);
        for (int k = 0; k < 8; k++) {
            int sc, mn;
            scale_min(b + 4, k, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *q = b + 16 + k / 2 * 32;
            for (int j = 0; j < 32; j++)
                dst[i + 32 * k + j] = scale * (float)(q[j] >> (k & 1) * 4 & 15) - min;
        }
    }
}

/* The same with 32 bytes before the codes whose bit k is the fifth bit of elements 32 k + j. */
static void decode_q5_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 176) {
        float d = load_half(b), dmin = load_half(b + 2);
        for (int k = 0; k < 8; k++) {
            int sc, mn;
            scale_min(b + 4, k, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *high = b + 16, *q = b + 48 + k / 2 * 32;
            for (int j = 0; j < 32; j++) {
                int code = (q[j] >> (k & 1) * 4 & 15) | (high[j] >> k & 1) << 4;
                dst[i + 32 * k + j] = scale * (float)code - min;
            }
        }
    }
}

/* 128 bytes of low halves, 64 bytes of upper two bits, 16 signed scales (one for 16 elements),
 * f16 d. Each half of the block has 64 low bytes and 32 high bytes: quarter k of it (32 elements)
 * takes low bytes 32 (k & 1) + j, the high half of the byte for k >= 2, and bits 2 k of high byte
 * j. */
static void decode_q6_k(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += 256, b += 210) {
        float d = load_half(b + 208);
        for (int e = 0; e < 256; e++) {
            int half = e / 128, k = e / 32 % 4, j = e % 32;
            int low = b[64 * half + 32 * (k & 1) + j] >> (k / 2) * 4 & 15;
            int high = b[128 + 32 * half + j] >> 2 * k & 3;
            float scale = d * (float)(int8_t)b[192 + e / 16];
            dst[i + e] = scale * (float)((low | high << 4) - 32);
        }
    }
}

/* ---- the table ----------------------------------------------------------------------------- */

/* decode, encode of each dtype: with its line in ZT_DTYPES this is all that a new one needs. */
#define CODEC_F64 decode_f64, encode_f64
#define CODEC_F32 decode_f32, encode_f32
#define CODEC_F16 decode_f16, encode_f16
#define CODEC_BF16 decode_bf16, encode_bf16
#define CODEC_I64 NULL, NULL
#define CODEC_I32 NULL, NULL
#define CODEC_I16 NULL, NULL
#define CODEC_I8 NULL, NULL
#define CODEC_U8 NULL, NULL
#define CODEC_BOOL NULL, NULL
#define CODEC_Q4_0 decode_q4_0, NULL
#define CODEC_Q4_1 decode_q4_1, NULL
#define CODEC_Q5_0 decode_q5_0, NULL
#define CODEC_Q5_1 decode_q5_1, NULL
#define CODEC_Q8_0 decode_q8_0, NULL
#define CODEC_IQ4_NL decode_iq4_nl, NULL
#define CODEC_Q4_K decode_q4_k, NULL
#define CODEC_Q5_K decode_q5_k, NULL
#define CODEC_Q6_K decode_q6_k, NULL

enum { KIND_F = 'F', KIND_I = 'I', KIND_U = 'U', KIND_B = 'B', KIND_Q = 'Q' };

static const zt_dtype_info table[ZT_DTYPE_COUNT] = {
#define X(NAME, text, n, bytes, kind) [ZT_##NAME] = {text, n, bytes, KIND_##kind, CODEC_##NAME},
    ZT_DTYPES(X)
#undef X
};

const zt_dtype_info *zt_dtype_get(zt_dtype t)
{
    return (unsigned)t < ZT_DTYPE_COUNT ? &table[t] : NULL;
}

bool zt_dtype_parse(const char *name, size_t n, zt_dtype *out)
{
    for (int t = 0; t < ZT_DTYPE_COUNT; t++) {
        if (strlen(table[t].name) == n && memcmp(table[t].name, name, n) == 0) {
            *out = (zt_dtype)t;
            return true;
        }
    }
    return false;
}

bool zt_dtype_is_float(zt_dtype t)
{
    const zt_dtype_info *d = zt_dtype_get(t);
    return d && (d->kind == 'F' || d->kind == 'Q');
}
