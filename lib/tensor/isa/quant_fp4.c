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

INLINE vf nearest_level(vf magnitude)
{
    vf sum = vf_set(0);
#define X(a, b) sum += (vf)((magnitude > 0.5f * ((a) + (b))) & (vi)vf_set((b) - (a)));
    E2M1(X)
#undef X
    return sum;
}

/* With the sign of x in its upper bit, but for 0. */
INLINE vf code_of_number(vf x, vf inverse)
{
    vi sum = vi_set(0);
    vf magnitude = vf_abs(x) * inverse;
#define X(a, b) sum -= magnitude > 0.5f * ((a) + (b));
    E2M1(X)
#undef X
    return __builtin_convertvector(sum | ((x < 0) & (sum > 0) & 8), vf);
}

/* 1 / scale, as large as a float may be: of 2^-128 it is none. */
INLINE vf inverse_scale(vf scale) { return vf_min(vf_ratio(vf_set(1), scale), vf_set(0x1p127f)); }

INLINE vf error_of_scale(const lane_batch *batch, vf scale)
{
    vf inverse = inverse_scale(scale), error = vf_set(0);
    for (int j = 0; j < batch->size; j++) {
        vf x = vf_abs(batch->x[j]), left = x - scale * nearest_level(x * inverse);
        error += batch->w[j] * left * left;
    }
    return error;
}

/* Half of the float of a byte, as nvfp4 has it, and of 2^(c - 127). */
static float nv_scale(int code)
{
    uint8_t byte = (uint8_t)code;
    float value;
    zt_decode_f8_e4m3(&byte, &value, 1);
    return value / 2;
}

static int nv_code(float scale)
{
    uint8_t byte;
    scale *= 2;
    zt_encode_f8_e4m3(&scale, &byte, 1);
    return byte;
}

static float mx_scale(int code) { return ldexpf(1, code - 128); }

static int mx_code(float scale) { return scale > 0 ? (int)floor(log2((double)scale)) + 128 : 0; }

/* How scales are stored: codes from 0 to `most`, larger for larger scales. */
typedef struct scale_kind {
    float (*scale_of)(int code);
    int (*code_of_number)(float scale);
    int most, below, above; /* so many codes below and above are tried */
    int size;
} scale_kind;

/* Codes of the scales of least error; *scale gets the scales. */
INLINE void find_best_scales(const lane_batch *batch, const scale_kind *kind, int code[LANES], vf *scale)
{
    float most[LANES];
    int about[LANES];
    vf error = vf_set(INFINITY);
    vf_store(most, batch->magnitude);
    for (int lane = 0; lane < LANES; lane++) about[lane] = kind->code_of_number(most[lane] / 12);
    *scale = vf_set(0);
    for (int step = -kind->below; step <= kind->above; step++) {
        float scales[LANES];
        int32_t codes[LANES], is_better[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            codes[lane] = about[lane] + step < 0 ? 0 : about[lane] + step > kind->most ? kind->most : about[lane] + step;
            scales[lane] = kind->scale_of(codes[lane]);
        }
        vf error_left = error_of_scale(batch, vf_load(scales));
        vi better = error_left < error;
        memcpy(is_better, &better, sizeof is_better);
        for (int lane = 0; lane < LANES; lane++)
            if (is_better[lane]) code[lane] = codes[lane];
        *scale = vf_select(better, vf_load(scales), *scale);
        error = vf_select(better, error_left, error);
    }
}

typedef void put_group(int scale, const uint8_t *code, int64_t at, uint8_t *out);

INLINE void quantize_groups(const scale_kind *kind, const float *x, const float *w, int64_t n, uint8_t *out, put_group *put)
{
    int64_t groups = n / kind->size;
    for (int64_t at = 0; at < groups; at += LANES) {
        int groups_here = groups - at < LANES ? (int)(groups - at) : LANES, scale[LANES] = {0};
        lane_batch batch;
        vf step, code[GROUP];
        uint8_t codes[LANES * GROUP];
        batch_load(&batch, kind->size, x + at * kind->size, w ? w + at * kind->size : NULL, (weight_rule){0, 0}, groups_here);
        find_best_scales(&batch, kind, scale, &step);
        vf inverse = inverse_scale(step);
        for (int j = 0; j < kind->size; j++) code[j] = code_of_number(batch.x[j], inverse);
        batch_codes(code, kind->size, groups_here, codes);
        for (int lane = 0; lane < groups_here; lane++) put(scale[lane], codes + lane * kind->size, at + lane, out);
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
    static const scale_kind k = {nv_scale, nv_code, 0x7e, 4, 8, 16};
    quantize_groups(&k, x, w, n, out, put_nvfp4);
}

void ZT_ENCODER(search_mxfp4)(const float *x, const float *w, int64_t n, uint8_t *out)
{
    static const scale_kind k = {mx_scale, mx_code, 252, 1, 2, 32};
    quantize_groups(&k, x, w, n, out, put_mxfp4);
}
