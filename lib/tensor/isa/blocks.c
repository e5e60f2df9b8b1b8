/* blocks.c - the quantizers of formats whose rule leaves nothing to choose: ggml's reference ones
 * (ggml-quants.c, MIT), as facts, in their order of float operations.
 *
 * Scales are rounded to f16 where they are kept; codes are those of the scale before that.
 */
#include "lib/tensor/isa/encoders.h"
#include "lib/tensor/isa/lanes.h"

#include <math.h>

typedef int8_t bytes __attribute__((vector_size(LANES)));
typedef int32_t four __attribute__((vector_size(16)));

enum { WIDE = 32 / LANES }; /* registers of a block */

/* 1 / d, and 0 where that is too large to be a number: of such a d nothing is left as f16. */
INLINE float inverse(float d) { return fabsf(d) < 0x1p-126f ? 0 : 1 / d; }

/* Of all lanes. Floats are compared as integers that are ordered as they are. */
INLINE float largest(vf x)
{
    vi a = (vi)x ^ ((vi)x >> 31 & 0x7fffffff);
    four c, next;
    int32_t v[4];
    memcpy(&c, &a, sizeof c);
    for (int i = 1; i < LANES / 4; i++) {
        memcpy(&next, (const char *)&a + i * (int)sizeof next, sizeof next);
        c = ((c > next) & c) | (~(c > next) & next);
    }
    memcpy(v, &c, sizeof v);
    int32_t d = v[0] > v[2] ? v[0] : v[2], e = v[1] > v[3] ? v[1] : v[3];
    float most;
    d = d > e ? d : e;
    d ^= d >> 31 & 0x7fffffff;
    memcpy(&most, &d, 4);
    return most;
}

INLINE void load(const float *x, vf v[WIDE])
{
    for (int i = 0; i < WIDE; i++) v[i] = vf_load(x + i * LANES);
}

/* The largest of 32 numbers, the least, and the largest magnitude. */
INLINE float most_of(const vf v[WIDE])
{
    vf most = v[0];
    for (int i = 1; i < WIDE; i++) most = vf_max(most, v[i]);
    return largest(most);
}

INLINE float least_of(const vf v[WIDE])
{
    vf least = v[0];
    for (int i = 1; i < WIDE; i++) least = vf_min(least, v[i]);
    return -largest(-least);
}

INLINE float magnitude_of(const vf v[WIDE])
{
    vf most = vf_abs(v[0]);
    for (int i = 1; i < WIDE; i++) most = vf_max(most, vf_abs(v[i]));
    return largest(most);
}

/* Of 32 numbers the one of the largest magnitude, of equal ones the first. */
INLINE float signed_largest(const float *x, const vf v[WIDE])
{
    float most = most_of(v), least = least_of(v);
    if (most > -least) return most > 0 ? most : 0;
    if (most < -least) return least;
    for (int j = 0; j < 32; j++)
        if (x[j] == most || x[j] == least) return most > 0 ? x[j] : 0;
    return 0;
}

/* Whole numbers to bytes. */
INLINE void put_bytes(uint8_t *out, vi a)
{
    bytes b = __builtin_convertvector(a, bytes);
    memcpy(out, &b, sizeof b);
}

INLINE vi at_most(vi a, int top) { return ((a > top) & top) | (~(a > top) & a); }

/* 32 codes of four bits. */
INLINE void put_codes(const vi c[WIDE], uint8_t *out)
{
    for (int i = 0; i < WIDE / 2; i++)
        put_bytes(out + i * LANES, (c[i] & 15) | (c[i + WIDE / 2] & 15) << 4);
}

/* Their fifth bits. */
INLINE void put_fifth(const vi c[WIDE], uint8_t *out)
{
    uint32_t word = 0;
    vi place, all = vi_set(0);
    for (int l = 0; l < LANES; l++) ((int32_t *)&place)[l] = (int32_t)1 << l;
    for (int i = 0; i < WIDE; i++) all |= ((c[i] & 16) != 0) & place << i * LANES;
    for (int l = 0; l < LANES / 4; l++) {
        uint32_t v[4];
        memcpy(v, (const char *)&all + 16 * l, 16);
        word |= v[0] | v[1] | v[2] | v[3];
    }
    memcpy(out, &word, 4);
}

/* One scale: x is (code - half) d; `high` says that there are fifth bits. */
INLINE void one_scale(const float *x, int half, bool high, uint8_t *out)
{
    vf v[WIDE];
    vi code[WIDE];
    load(x, v);
    float d = signed_largest(x, v) / (float)-half, id = inverse(d);
    for (int i = 0; i < WIDE; i++)
        code[i] =
            at_most(__builtin_convertvector(v[i] * id + ((float)half + 0.5f), vi), 2 * half - 1);
    zt_put_half(out, d);
    if (high) put_fifth(code, out + 2);
    put_codes(code, out + (high ? 6 : 2));
}

/* A scale and a minimum: x is code d + m. */
INLINE void scale_and_least(const float *x, int top, bool high, uint8_t *out)
{
    vf v[WIDE];
    vi code[WIDE];
    load(x, v);
    float least = least_of(v), d = (most_of(v) - least) / (float)top, id = inverse(d);
    for (int j = 0; least == 0; j++) /* 0 or -0, whichever comes first */
        if (x[j] == 0) {
            least = x[j];
            break;
        }
    for (int i = 0; i < WIDE; i++)
        code[i] = at_most(__builtin_convertvector((v[i] - least) * id + 0.5f, vi), top);
    zt_put_half(out, d);
    zt_put_half(out + 2, least);
    if (high) put_fifth(code, out + 4);
    put_codes(code, out + (high ? 8 : 4));
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
    vf v[WIDE];
    load(x, v);
    float d = magnitude_of(v) / 127, id = inverse(d);
    zt_put_half(out, d);
    for (int i = 0; i < WIDE; i++) put_bytes(out + 2 + i * LANES, away(v[i] * id));
}
BLOCKS32(q8_0, 34, eight(x, out))

/* ---- floats of four bits --------------------------------------------------------------------- */

/* The exponent is that of the largest number, less the two of 4 = 2^2, the largest power of two
 * that a code has. Ties go to the smaller magnitude, and what becomes 0 has no sign. */
INLINE void e2m1(const float *x, uint8_t *out)
{
    static const float between[] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10}; /* codes' values, twice */
    vf v[WIDE];
    vi code[WIDE];
    load(x, v);
    float most = magnitude_of(v);
    int e = most > 0 ? (int)floorf((float)log2((double)most)) + 125 : 0;
    e = e > 252 ? 252 : e; /* above it 12 times the scale is no number */
    out[0] = (uint8_t)(e < 0 ? 0 : e);
    float d = ldexpf(1, out[0] - 128);
    for (int k = 0; k < WIDE; k++) {
        vi c = vi_set(0);
        for (int i = 0; i < 7; i++) c -= vf_abs(v[k]) > between[i] * d;
        code[k] = c | (((c > 0) & (v[k] < 0)) & 8);
    }
    put_codes(code, out + 1);
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

/* `count` bytes of `digits` base-3 digits, the first digits of all bytes first, as a fraction of
 * 256 rounded up. */
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

/* ---- one bit --------------------------------------------------------------------------------- */

/* d or -d. The mean magnitude is the d of least error, so that importance leaves nothing else to
 * choose. Sums of sixteen, each over every sixteenth number, then of pairs eight apart, four ... */
static float mean_magnitude(const float *x, const float *w)
{
    float sum[16] = {0}, all[16] = {0};
    for (int j = 0; j < 128; j++) {
        float u = w ? w[j] : 1;
        sum[j % 16] += u * fabsf(x[j]);
        all[j % 16] += u;
    }
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) {
            sum[i] += sum[i + half];
            all[i] += all[i + half];
        }
    return sum[0] / all[0];
}

void ZT_ENCODER(search_q1_0)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    for (; n > 0; n -= 128, x += 128, w += w ? 128 : 0, out += 18) {
        zt_put_half(out, mean_magnitude(x, w));
        memset(out + 2, 0, 16);
        for (int j = 0; j < 128; j++) out[2 + j / 8] |= (uint8_t)((x[j] >= 0) << j % 8);
    }
}
