/* blocks.c - the quantizers of formats whose rule leaves nothing to choose: ggml's reference ones
 * (ggml-quants.c, MIT), as facts, in their order of float operations.
 *
 * Scales are rounded to f16 where they are kept; codes are those of the scale before that.
 */
#include "lib/tensor/isa/encoders.h"
#include "lib/tensor/isa/lanes.h"

#include <math.h>

typedef int8_t byte_lanes __attribute__((vector_size(LANES)));
typedef int32_t lanes4 __attribute__((vector_size(16)));

enum { BLOCK_REGISTERS = 32 / LANES }; /* registers of a block */

/* 1 / d, and 0 where that is too large to be a number: of such a d nothing is left as f16. */
INLINE float inverse(float scale) { return fabsf(scale) < 0x1p-126f ? 0 : 1 / scale; }

/* The largest of all lanes. Floats are compared as integers of the same order. */
INLINE float largest_lane(vf x)
{
    vi ordered = (vi)x ^ ((vi)x >> 31 & 0x7fffffff);
    lanes4 top, next;
    int32_t lane[4];
    memcpy(&top, &ordered, sizeof top);
    for (int i = 1; i < LANES / 4; i++) {
        memcpy(&next, (const char *)&ordered + i * (int)sizeof next, sizeof next);
        top = ((top > next) & top) | (~(top > next) & next);
    }
    memcpy(lane, &top, sizeof lane);
    int32_t first = lane[0] > lane[2] ? lane[0] : lane[2], second = lane[1] > lane[3] ? lane[1] : lane[3];
    float most;
    first = first > second ? first : second;
    first ^= first >> 31 & 0x7fffffff;
    memcpy(&most, &first, 4);
    return most;
}

INLINE void load_block(const float *x, vf x_lanes[BLOCK_REGISTERS])
{
    for (int i = 0; i < BLOCK_REGISTERS; i++) x_lanes[i] = vf_load(x + i * LANES);
}

/* The largest of 32 numbers, the least, and the largest magnitude. */
INLINE float most_of(const vf x_lanes[BLOCK_REGISTERS])
{
    vf most = x_lanes[0];
    for (int i = 1; i < BLOCK_REGISTERS; i++) most = vf_max(most, x_lanes[i]);
    return largest_lane(most);
}

INLINE float least_of(const vf x_lanes[BLOCK_REGISTERS])
{
    vf least = x_lanes[0];
    for (int i = 1; i < BLOCK_REGISTERS; i++) least = vf_min(least, x_lanes[i]);
    return -largest_lane(-least);
}

INLINE float magnitude_of(const vf x_lanes[BLOCK_REGISTERS])
{
    vf most = vf_abs(x_lanes[0]);
    for (int i = 1; i < BLOCK_REGISTERS; i++) most = vf_max(most, vf_abs(x_lanes[i]));
    return largest_lane(most);
}

/* Of 32 numbers the one of the largest magnitude, of equal ones the first. */
INLINE float signed_largest(const float *x, const vf x_lanes[BLOCK_REGISTERS])
{
    float most = most_of(x_lanes), least = least_of(x_lanes);
    if (most > -least) return most > 0 ? most : 0;
    if (most < -least) return least;
    for (int j = 0; j < 32; j++)
        if (x[j] == most || x[j] == least) return most > 0 ? x[j] : 0;
    return 0;
}

/* Whole numbers to bytes. */
INLINE void store_bytes(uint8_t *out, vi integers)
{
    byte_lanes lanes = __builtin_convertvector(integers, byte_lanes);
    memcpy(out, &lanes, sizeof lanes);
}

INLINE vi limit_above(vi value, int top) { return ((value > top) & top) | (~(value > top) & value); }

/* 32 codes of four bits. */
INLINE void put_nibbles(const vi code[BLOCK_REGISTERS], uint8_t *out)
{
    for (int i = 0; i < BLOCK_REGISTERS / 2; i++)
        store_bytes(out + i * LANES, (code[i] & 15) | (code[i + BLOCK_REGISTERS / 2] & 15) << 4);
}

/* Their fifth bits. */
INLINE void put_fifth_bits(const vi code[BLOCK_REGISTERS], uint8_t *out)
{
    uint32_t word = 0;
    vi place, all = vi_set(0);
    for (int l = 0; l < LANES; l++) ((int32_t *)&place)[l] = (int32_t)1 << l;
    for (int i = 0; i < BLOCK_REGISTERS; i++) all |= ((code[i] & 16) != 0) & place << i * LANES;
    for (int l = 0; l < LANES / 4; l++) {
        uint32_t words[4];
        memcpy(words, (const char *)&all + 16 * l, 16);
        word |= words[0] | words[1] | words[2] | words[3];
    }
    memcpy(out, &word, 4);
}

/* One scale: x is (code - half) d; `high` says that there are fifth bits. */
INLINE void quantize_scale(const float *x, int half, bool high, uint8_t *out)
{
    vf numbers[BLOCK_REGISTERS];
    vi code[BLOCK_REGISTERS];
    load_block(x, numbers);
    float scale = signed_largest(x, numbers) / (float)-half, inverse_scale = inverse(scale);
    for (int i = 0; i < BLOCK_REGISTERS; i++)
        code[i] = limit_above(__builtin_convertvector(numbers[i] * inverse_scale + ((float)half + 0.5f), vi), 2 * half - 1);
    zt_put_half(out, scale);
    if (high) put_fifth_bits(code, out + 2);
    put_nibbles(code, out + (high ? 6 : 2));
}

/* A scale and a minimum: x is code d + m. */
INLINE void quantize_affine(const float *x, int top, bool high, uint8_t *out)
{
    vf numbers[BLOCK_REGISTERS];
    vi code[BLOCK_REGISTERS];
    load_block(x, numbers);
    float least = least_of(numbers), scale = (most_of(numbers) - least) / (float)top, inverse_scale = inverse(scale);
    for (int j = 0; least == 0; j++) /* 0 or -0, whichever comes first */
        if (x[j] == 0) {
            least = x[j];
            break;
        }
    for (int i = 0; i < BLOCK_REGISTERS; i++)
        code[i] = limit_above(__builtin_convertvector((numbers[i] - least) * inverse_scale + 0.5f, vi), top);
    zt_put_half(out, scale);
    zt_put_half(out + 2, least);
    if (high) put_fifth_bits(code, out + 4);
    put_nibbles(code, out + (high ? 8 : 4));
}

// clang-format off
#define BLOCKS32(NAME, BYTES, CALL)                                                                \
    void ZT_ENCODER(exact_##NAME)(const float *x, const float *w, int64_t n, uint8_t *out)         \
    {                                                                                              \
        (void)w;                                                                                   \
        for (; n > 0; n -= 32, x += 32, out += BYTES) CALL;                                        \
    }
// clang-format on
BLOCKS32(q4_0, 18, quantize_scale(x, 8, false, out))
BLOCKS32(q5_0, 22, quantize_scale(x, 16, true, out))
BLOCKS32(q4_1, 20, quantize_affine(x, 15, false, out))
BLOCKS32(q5_1, 24, quantize_affine(x, 31, true, out))

/* To the nearest, halves away from 0. */
INLINE vi round_half_away(vf value)
{
    vi whole = __builtin_convertvector(value, vi);
    vf fraction = value - __builtin_convertvector(whole, vf);
    return whole - (fraction >= 0.5f) + (fraction <= -0.5f);
}

INLINE void quantize_q8_0(const float *x, uint8_t *out)
{
    vf numbers[BLOCK_REGISTERS];
    load_block(x, numbers);
    float scale = magnitude_of(numbers) / 127, inverse_scale = inverse(scale);
    zt_put_half(out, scale);
    for (int i = 0; i < BLOCK_REGISTERS; i++) store_bytes(out + 2 + i * LANES, round_half_away(numbers[i] * inverse_scale));
}
BLOCKS32(q8_0, 34, quantize_q8_0(x, out))

/* ---- floats of four bits --------------------------------------------------------------------- */

/* The exponent is that of the largest number, less the two of 4 = 2^2, the largest power of two
 * that a code has. Ties go to the smaller magnitude, and what becomes 0 has no sign. */
INLINE void quantize_mxfp4(const float *x, uint8_t *out)
{
    static const float between[] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10}; /* codes' values, twice */
    vf numbers[BLOCK_REGISTERS];
    vi code[BLOCK_REGISTERS];
    load_block(x, numbers);
    float most = magnitude_of(numbers);
    int exponent = most > 0 ? (int)floorf((float)log2((double)most)) + 125 : 0;
    exponent = exponent > 252 ? 252 : exponent; /* above it 12 times the scale is infinite */
    out[0] = (uint8_t)(exponent < 0 ? 0 : exponent);
    float scale = ldexpf(1, out[0] - 128);
    for (int k = 0; k < BLOCK_REGISTERS; k++) {
        vi codes = vi_set(0);
        for (int i = 0; i < 7; i++) codes -= vf_abs(numbers[k]) > between[i] * scale;
        code[k] = codes | (((codes > 0) & (numbers[k] < 0)) & 8);
    }
    put_nibbles(code, out + 1);
}
BLOCKS32(mxfp4, 17, quantize_mxfp4(x, out))

/* ---- -1, 0 and 1 ----------------------------------------------------------------------------- */

/* 256 codes 0, 1, 2; the scale is the largest magnitude. */
INLINE float quantize_ternary(const float *x, uint8_t code[256])
{
    vf most = vf_set(0);
    for (int j = 0; j < 256; j += LANES) most = vf_max(most, vf_abs(vf_load(x + j)));
    float scale = largest_lane(most), inverse_scale = inverse(scale);
    for (int j = 0; j < 256; j += LANES) store_bytes(code + j, round_half_away(vf_load(x + j) * inverse_scale) + 1);
    return scale;
}

/* `count` bytes of `digits` base-3 digits, the first digits of all bytes first, as a fraction of
 * 256 rounded up. */
static void put_trits(const uint8_t *code, int count, int digits, uint8_t *out)
{
    for (int i = 0; i < count; i++) {
        unsigned number = 0;
        for (int digit = 0; digit < 5; digit++) number = number * 3 + (digit < digits ? code[i + digit * count] : 0);
        out[i] = (uint8_t)((number * 256 + 242) / 243);
    }
}

void ZT_ENCODER(exact_tq1_0)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    uint8_t code[256];
    (void)w;
    for (; n > 0; n -= 256, x += 256, out += 54) {
        zt_put_half(out + 52, quantize_ternary(x, code));
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
        zt_put_half(out + 64, quantize_ternary(x, code));
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
    float sum[16] = {0}, weights[16] = {0};
    for (int j = 0; j < 128; j++) {
        float weight = w ? w[j] : 1;
        sum[j % 16] += weight * fabsf(x[j]);
        weights[j % 16] += weight;
    }
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) {
            sum[i] += sum[i + half];
            weights[i] += weights[i + half];
        }
    return sum[0] / weights[0];
}

void ZT_ENCODER(search_q1_0)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    for (; n > 0; n -= 128, x += 128, w += w ? 128 : 0, out += 18) {
        zt_put_half(out, mean_magnitude(x, w));
        memset(out + 2, 0, 16);
        for (int j = 0; j < 128; j++) out[2 + j / 8] |= (uint8_t)((x[j] >= 0) << j % 8);
    }
}
