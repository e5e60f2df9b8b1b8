/* quant_fp4.c - quantizers of blocks of four-bit floats: nvfp4, and mxfp4 where columns have weights.
 *
 * A group's scale has few values, a float of a byte or a power of two: those about the one that
 * puts the largest magnitude on the largest level are tried, and the one that leaves the least
 * error is taken.
 */
#include "lib/tensor/isa/batch.h"
#include "lib/tensor/isa/encoders.h"

#include "lib/tensor/decode.h"

#include <math.h>

/* The levels, twice the floats, and where the nearest changes from one to the next. */
#define E2M1(X) X(0, 1) X(1, 2) X(2, 3) X(3, 4) X(4, 6) X(6, 8) X(8, 12)

INLINE vf level_of(vf magnitude)
{
    vf y = vf_set(0);
#define X(a, b) y += (vf)((magnitude > 0.5f * ((a) + (b))) & (vi)vf_set((b) - (a)));
    E2M1(X)
#undef X
    return y;
}

/* With the sign of x in its upper bit, but for 0. */
INLINE vf code_of(vf x, vf inverse)
{
    vi y = vi_set(0);
    vf magnitude = vf_abs(x) * inverse;
#define X(a, b) y -= magnitude > 0.5f * ((a) + (b));
    E2M1(X)
#undef X
    return __builtin_convertvector(y | ((x < 0) & (y > 0) & 8), vf);
}

/* 1 / scale, as large as a float may be: of 2^-128 it is none. */
INLINE vf inverse_of(vf scale) { return vf_min(vf_ratio(vf_set(1), scale), vf_set(0x1p127f)); }

INLINE vf error_of(const batch *b, vf scale)
{
    vf inverse = inverse_of(scale), error = vf_set(0);
    for (int j = 0; j < b->size; j++) {
        vf x = vf_abs(b->x[j]), r = x - scale * level_of(x * inverse);
        error += b->w[j] * r * r;
    }
    return error;
}

/* Half of the float of a byte, as nvfp4 has it, and of 2^(c - 127). */
static float nv_scale(int c)
{
    uint8_t byte = (uint8_t)c;
    float f;
    zt_decode_f8_e4m3(&byte, &f, 1);
    return f / 2;
}

static int nv_code(float f)
{
    uint8_t byte;
    f *= 2;
    zt_encode_f8_e4m3(&f, &byte, 1);
    return byte;
}

static float mx_scale(int c) { return ldexpf(1, c - 128); }

static int mx_code(float f) { return f > 0 ? (int)floor(log2((double)f)) + 128 : 0; }

/* How scales are told: their codes run from 0 to `most`, larger for larger ones. */
typedef struct kind {
    float (*scale_of)(int code);
    int (*code_of)(float scale);
    int most, below, above; /* so many codes below and above are tried */
    int size;
} kind;

/* Codes of the scales of least error; *scale gets the scales. */
INLINE void find_scales(const batch *b, const kind *k, int code[LANES], vf *scale)
{
    float most[LANES];
    int about[LANES];
    vf error = vf_set(INFINITY);
    vf_store(most, b->magnitude);
    for (int l = 0; l < LANES; l++) about[l] = k->code_of(most[l] / 12);
    *scale = vf_set(0);
    for (int by = -k->below; by <= k->above; by++) {
        float s[LANES];
        int32_t at[LANES], less[LANES];
        for (int l = 0; l < LANES; l++) {
            at[l] = about[l] + by < 0 ? 0 : about[l] + by > k->most ? k->most : about[l] + by;
            s[l] = k->scale_of(at[l]);
        }
        vf left = error_of(b, vf_load(s));
        vi better = left < error;
        memcpy(less, &better, sizeof less);
        for (int l = 0; l < LANES; l++)
            if (less[l]) code[l] = at[l];
        *scale = vf_choose(better, vf_load(s), *scale);
        error = vf_choose(better, left, error);
    }
}

typedef void put_group(int scale, const uint8_t *code, int64_t at, uint8_t *out);

INLINE void quantize(const kind *k, const float *x, const float *w, int64_t n, uint8_t *out,
                     put_group *put)
{
    int64_t groups = n / k->size;
    for (int64_t at = 0; at < groups; at += LANES) {
        int here = groups - at < LANES ? (int)(groups - at) : LANES, scale[LANES] = {0};
        batch b;
        vf step, code[GROUP];
        uint8_t codes[LANES * GROUP];
        batch_load(&b, k->size, x + at * k->size, w ? w + at * k->size : NULL,
                   (weighing){0, 0}, here);
        find_scales(&b, k, scale, &step);
        vf inverse = inverse_of(step);
        for (int j = 0; j < k->size; j++) code[j] = code_of(b.x[j], inverse);
        batch_codes(code, k->size, here, codes);
        for (int l = 0; l < here; l++) put(scale[l], codes + l * k->size, at + l, out);
    }
}

/* Layouts as dtype_blocks.c draws them. */
static void put_nvfp4(int scale, const uint8_t *code, int64_t at, uint8_t *out)
{
    uint8_t *block = out + at / 4 * 36, *q = block + 4 + at % 4 * 8;
    block[at % 4] = (uint8_t)scale;
    for (int j = 0; j < 8; j++) q[j] = (uint8_t)(code[j] | code[8 + j] << 4);
}

static void put_mxfp4(int scale, const uint8_t *code, int64_t at, uint8_t *out)
{
    uint8_t *block = out + at * 17;
    block[0] = (uint8_t)scale;
    for (int j = 0; j < 16; j++) block[1 + j] = (uint8_t)(code[j] | code[16 + j] << 4);
}

void ZT_ENCODER(search_nvfp4)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    static const kind k = {nv_scale, nv_code, 0x7e, 4, 8, 16};
    quantize(&k, x, w, n, out, put_nvfp4);
}

void ZT_ENCODER(search_mxfp4)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    static const kind k = {mx_scale, mx_code, 252, 1, 2, 32};
    quantize(&k, x, w, n, out, put_mxfp4);
}
