/* blocks.c - the quantizers of formats whose rule leaves nothing to choose: ggml's reference ones
 * (ggml-quants.c, MIT), as facts, in their order of float operations.
 *
 * Scales are rounded to f16 where they are kept; codes are those of the scale before that.
 */
#include "lib/tensor/isa/encoders.h"
#include "lib/tensor/isa/lanes.h"

#include <math.h>

typedef int8_t v16b __attribute__((vector_size(16)));

/* 1 / d, and 0 where that is too large to be a number: of such a d nothing is left as f16. */
INLINE float inverse(float d) { return fabsf(d) < 0x1p-126f ? 0 : 1 / d; }

/* Over all lanes, pairs eight apart first: v becomes V of both halves of a. */
#define HALVE(T, a, v, V)                                                                          \
    do {                                                                                           \
        T low, high;                                                                               \
        memcpy(&low, &(a), sizeof low);                                                            \
        memcpy(&high, (const char *)&(a) + sizeof low, sizeof high);                               \
        (v) = V;                                                                                   \
    } while (0)

typedef int32_t v8 __attribute__((vector_size(32)));
typedef int32_t v4 __attribute__((vector_size(16)));

/* Floats as integers that are ordered as they are; and back. */
INLINE vi ordered(vf a) { return (vi)a ^ ((vi)a >> 31 & 0x7fffffff); }

INLINE float largest(vf x)
{
    vi a = ordered(x);
    v8 b;
    v4 c;
    int32_t v[4];
    HALVE(v8, a, b, ((low > high) & low) | (~(low > high) & high));
    HALVE(v4, b, c, ((low > high) & low) | (~(low > high) & high));
    memcpy(v, &c, sizeof v);
    int32_t d = v[0] > v[2] ? v[0] : v[2], e = v[1] > v[3] ? v[1] : v[3];
    float most;
    d = d > e ? d : e;
    d ^= d >> 31 & 0x7fffffff;
    memcpy(&most, &d, 4);
    return most;
}

INLINE uint32_t any_bits(vi a)
{
    v8 b;
    v4 c;
    uint32_t v[4];
    HALVE(v8, a, b, low | high);
    HALVE(v4, b, c, low | high);
    memcpy(v, &c, sizeof v);
    return v[0] | v[1] | v[2] | v[3];
}

/* Of 32 numbers the one of the largest magnitude, of equal ones the first. */
INLINE float signed_largest(const float *x)
{
    vf a = vf_load(x), b = vf_load(x + LANES);
    float most = largest(vf_max(a, b)), least = -largest(vf_max(-a, -b));
    if (most > -least) return most > 0 ? most : 0;
    if (most < -least) return least;
    for (int j = 0; j < 32; j++)
        if (x[j] == most || x[j] == least) return most > 0 ? x[j] : 0;
    return 0;
}

/* Sixteen whole numbers to bytes. */
INLINE void put_bytes(uint8_t *out, vi a)
{
    v16b b = __builtin_convertvector(a, v16b);
    memcpy(out, &b, sizeof b);
}

/* 32 codes of four bits, and the fifth bits where high is not NULL. */
INLINE void put_codes(vi a, vi b, uint8_t *low, uint8_t *high)
{
    static const vi place = {1, 2, 4, 8, 16, 32, 64, 128, 1 << 8, 1 << 9, 1 << 10, 1 << 11,
                             1 << 12, 1 << 13, 1 << 14, 1 << 15};
    put_bytes(low, (a & 15) | (b & 15) << 4);
    if (!high) return;
    uint32_t word = any_bits((((a & 16) != 0) & place) | (((b & 16) != 0) & place << 16));
    memcpy(high, &word, 4);
}

/* One scale: x is (code - half) d; `high` says that there are fifth bits. */
INLINE void one_scale(const float *x, int half, bool high, uint8_t *out)
{
    float d = signed_largest(x) / (float)-half, id = inverse(d);
    vi top = vi_set(2 * half - 1), code[2];
    for (int k = 0; k < 2; k++) {
        code[k] = __builtin_convertvector(vf_load(x + k * LANES) * id + ((float)half + 0.5f), vi);
        vi over = code[k] > top;
        code[k] = (over & top) | (~over & code[k]);
    }
    zt_put_half(out, d);
    put_codes(code[0], code[1], out + (high ? 6 : 2), high ? out + 2 : NULL);
}

/* A scale and a minimum: x is code d + m. */
INLINE void scale_and_least(const float *x, int top, bool high, uint8_t *out)
{
    vf a = vf_load(x), b = vf_load(x + LANES);
    float least = -largest(vf_max(-a, -b)), d = (largest(vf_max(a, b)) - least) / (float)top;
    float id = inverse(d);
    for (int j = 0; least == 0; j++) /* 0 or -0, whichever comes first */
        if (x[j] == 0) {
            least = x[j];
            break;
        }
    vi code[2] = {__builtin_convertvector((a - least) * id + 0.5f, vi),
                  __builtin_convertvector((b - least) * id + 0.5f, vi)};
    for (int k = 0; k < 2; k++) {
        vi over = code[k] > top;
        code[k] = (over & top) | (~over & code[k]);
    }
    zt_put_half(out, d);
    zt_put_half(out + 2, least);
    put_codes(code[0], code[1], out + (high ? 8 : 4), high ? out + 4 : NULL);
}

#define BLOCKS32(NAME, BYTES, CALL)                                                                \
    void ZT_ENCODER(exact_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)         \
    {                                                                                              \
        (void)w;                                                                                   \
        for (; n > 0; n -= 32, x += 32, out += BYTES) CALL;                                        \
    }
BLOCKS32(q4_0, 18, one_scale(x, 8, false, out))
BLOCKS32(q5_0, 22, one_scale(x, 16, true, out))
BLOCKS32(q4_1, 20, scale_and_least(x, 15, false, out))
BLOCKS32(q5_1, 24, scale_and_least(x, 31, true, out))

/* To the nearest, halves away from 0. */
INLINE vi away(vf a)
{
    vi whole = __builtin_convertvector(a, vi);
    vf rest = a - __builtin_convertvector(whole, vf);
    return whole - (rest >= 0.5f) + (rest <= -0.5f);
}

INLINE void eight(const float *x, uint8_t *out)
{
    vf a = vf_load(x), b = vf_load(x + LANES);
    float d = largest(vf_max(vf_abs(a), vf_abs(b))) / 127, id = inverse(d);
    zt_put_half(out, d);
    put_bytes(out + 2, away(a * id));
    put_bytes(out + 2 + LANES, away(b * id));
}
BLOCKS32(q8_0, 34, eight(x, out))

/* ---- floats of four bits --------------------------------------------------------------------- */

/* The exponent is that of the largest number, less the two of 4 = 2^2, the largest power of two that
 * a code has. Ties go to the smaller magnitude, and what becomes 0 has no sign. */
INLINE void e2m1(const float *x, uint8_t *out)
{
    static const float between[] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10}; /* codes' values, twice */
    vf v[2] = {vf_load(x), vf_load(x + LANES)};
    float most = largest(vf_max(vf_abs(v[0]), vf_abs(v[1])));
    int e = most > 0 ? (int)floorf((float)log2((double)most)) + 125 : 0;
    out[0] = (uint8_t)(e < 0 ? 0 : e > 252 ? 252 : e); /* above it 12 times the scale is no number */
    float d = ldexpf(1, out[0] - 128);
    vi code[2];
    for (int k = 0; k < 2; k++) {
        vi c = vi_set(0);
        for (int i = 0; i < 7; i++) c -= vf_abs(v[k]) > between[i] * d;
        code[k] = c | (((c > 0) & (v[k] < 0)) & 8);
    }
    put_codes(code[0], code[1], out + 1, NULL);
}
BLOCKS32(mxfp4, 17, e2m1(x, out))

/* ---- -1, 0 and 1 ----------------------------------------------------------------------------- */

/* 256 codes 0, 1, 2; the scale is the largest magnitude. */
INLINE float thirds(const float *x, uint8_t code[256])
{
    vf most = vf_set(0);
    for (int j = 0; j < 256; j += LANES) most = vf_max(most, vf_abs(vf_load(x + j)));
    float d = largest(most), id = inverse(d);
    for (int j = 0; j < 256; j += LANES) put_bytes(code + j, away(vf_load(x + j) * id) + 1);
    return d;
}

/* `count` bytes of `digits` base-3 digits, the first digits of all bytes first, as a fraction of 256
 * rounded up. */
static void put_trits(const uint8_t *code, int count, int digits, uint8_t *out)
{
    for (int i = 0; i < count; i++) {
        unsigned q = 0;
        for (int k = 0; k < 5; k++) q = q * 3 + (k < digits ? code[i + k * count] : 0);
        out[i] = (uint8_t)((q * 256 + 242) / 243);
    }
}

void ZT_ENCODER(exact_tq1_0)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    uint8_t code[256];
    (void)w;
    for (; n > 0; n -= 256, x += 256, out += 54) {
        zt_put_half(out + 52, thirds(x, code));
        put_trits(code, 32, 5, out);
        put_trits(code + 160, 16, 5, out + 32);
        put_trits(code + 240, 4, 4, out + 48);
    }
}

void ZT_ENCODER(exact_tq2_0)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    uint8_t code[256];
    (void)w;
    for (; n > 0; n -= 256, x += 256, out += 66) {
        zt_put_half(out + 64, thirds(x, code));
        for (int i = 0; i < 64; i++) {
            const uint8_t *c = code + i / 32 * 128 + i % 32;
            out[i] = (uint8_t)(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
        }
    }
}
