/* batch.h - private to isa/: as many groups of numbers searched at once as there are lanes.
 *
 * A group is the part of a block that has a scale of its own: 16 to 64 numbers. Its sums run over
 * its numbers in order, in its own lane, so that what it gets does not depend on the others. Blocks
 * of several groups are worked on sixteen groups at a time, in PARTS batches.
 */
#ifndef ZT_TENSOR_BATCH_H
#define ZT_TENSOR_BATCH_H

#include "lib/tensor/isa/lanes.h"
#include "lib/tensor/tensor.h"

#define GROUP   64 /* numbers of the largest group */
#define SIXTEEN 16
#define PARTS   (SIXTEEN / LANES)

typedef struct batch {
    int size;       /* numbers of a group */
    vf x[GROUP];    /* number j of each group */
    vf w[GROUP];    /* its weight */
    vf sw, sx, sxx; /* sums of w, w x and w x^2 */
    vf least, most; /* of x */
    vf magnitude;   /* the largest |x| */
} batch;

/* What numbers weigh where no importance is given: |x|^power and `flat` times its mean in the
 * group. All alike would leave the least error, but where a column's numbers are large, what it is
 * multiplied by is too: in SmolLM2's ffn_down of layer 3, whose column 1 of 1536 has nine tenths of
 * the squares, iq4_nl then left 1.65 of llama-quantize's error in what comes out. {1, 4} is hardly
 * more error than all alike, and 1.03 there at most. */
typedef struct weighing {
    int power; /* 1 or 2; 0: all weigh 1 */
    float flat;
} weighing;

INLINE void batch_weigh(batch *b, weighing how)
{
    vf mean = vf_set(0);
    if (how.power == 0) return;
    for (int j = 0; j < b->size; j++) {
        vf a = vf_abs(b->x[j]);
        b->w[j] = how.power == 2 ? a * a : a;
        mean += b->w[j];
    }
    mean = mean / (float)b->size;
    for (int j = 0; j < b->size; j++)
        b->w[j] = vf_choose(mean > 0x1p-100f, b->w[j] + how.flat * mean, vf_set(1));
}

/* Number j of each of `groups` groups of `size` numbers to to[j]; lanes past them are `rest`. */
INLINE void batch_spread(vf *to, int size, const float *x, int groups, float rest)
{
    for (int j = 0; j < size; j += LANES, to += LANES) {
        for (int l = 0; l < LANES; l++)
            to[l] = l < groups ? vf_load(x + l * size + j) : vf_set(rest);
        vf_transpose(to);
    }
}

INLINE void batch_load(batch *b, int size, const float *x, const float *w, weighing how, int groups)
{
    b->size = size;
    batch_spread(b->x, size, x, groups, 0);
    for (int j = 0; !w && j < size; j++) b->w[j] = vf_set(1);
    if (w)
        batch_spread(b->w, size, w, groups, 1);
    else
        batch_weigh(b, how);
    b->sw = b->sx = b->sxx = vf_set(0);
    b->least = b->most = b->x[0];
    for (int j = 0; j < size; j++) {
        vf x1 = b->x[j], wx = b->w[j] * x1;
        b->sw += b->w[j];
        b->sx += wx;
        b->sxx += wx * x1;
        b->least = vf_min(b->least, x1);
        b->most = vf_max(b->most, x1);
    }
    b->magnitude = vf_max(b->most, -b->least);
}

/* Codes of each group to bytes, code j of group l to out[l * size + j]. */
INLINE void batch_codes(const vf *code, int size, int groups, uint8_t *out)
{
    for (int j = 0; j < size; j += 4) {
        vi four = vi_set(0);
        int32_t v[LANES];
        for (int k = 0; k < 4; k++) four |= __builtin_convertvector(code[j + k], vi) << 8 * k;
        memcpy(v, &four, sizeof v);
        for (int l = 0; l < groups; l++) memcpy(out + l * size + j, &v[l], 4);
    }
}

/* The sum and the largest of n numbers, or 0; in order. */
INLINE double sum_of(const float *v, int n)
{
    double sum = 0;
    for (int l = 0; l < n; l++) sum += (double)v[l];
    return sum;
}

INLINE float most_of(const float *v, int n)
{
    float most = 0;
    for (int l = 0; l < n; l++) most = v[l] > most ? v[l] : most;
    return most;
}

INLINE void set_all(float *v, int n, float x)
{
    for (int l = 0; l < n; l++) v[l] = x;
}

/* As f16 keeps it, the largest of which is the end. */
INLINE float half_of(float f)
{
    return zt_f16_to_f32(zt_f32_to_f16(f > 65504 ? 65504 : f < -65504 ? -65504 : f));
}

/* Makes of batches b, with `units` units, what is written to out. */
typedef void batch_quantize(const batch *b, int units, uint8_t *out);

/* Units of `groups` groups of `size` numbers; x and w (NULL: no importance) have n of these: as
 * many units at a time as there are lanes, or as sixteen groups are; lanes past the last are 0.
 * `bytes` of out are a unit's. */
INLINE void batch_each(batch_quantize *quantize, int groups, int size, weighing weigh,
                       const float *x, const float *w, int64_t n, uint8_t *out, int bytes)
{
    int parts = groups == 1 ? 1 : PARTS, step = parts * LANES / groups, unit = groups * size;
    for (int64_t left = n / unit; left > 0; left -= step) {
        int here = left < step ? (int)left : step;
        batch b[PARTS];
        for (int p = 0; p < parts; p++) {
            int at = p * LANES, g = here * groups - at < LANES ? here * groups - at : LANES;
            batch_load(&b[p], size, x + at * size, w ? w + at * size : NULL, weigh, g < 0 ? 0 : g);
        }
        quantize(b, here, out);
        out += here * bytes;
        x += unit * here;
        if (w) w += unit * here;
    }
}

/* Of 32 codes the lower four bits, those of 0..15 below those of 16..31, to 16 bytes; and the fifth
 * bits to four. */
INLINE void put_halves(const uint8_t *code, uint8_t *out)
{
    for (int j = 0; j < 16; j++) out[j] = (uint8_t)((code[j] & 15) | (code[16 + j] & 15) << 4);
}

INLINE void put_fifth_bits(const uint8_t *code, uint8_t *out)
{
    for (int j = 0; j < 32; j += 8) {
        uint64_t eight;
        memcpy(&eight, code + j, 8);
        /* Bit 8 i times 2^(56 - 7 i) is bit 56 + i; the other products are elsewhere. */
        out[j / 8] = (uint8_t)((eight >> 4 & 0x0101010101010101) * 0x0102040810204080 >> 56);
    }
}

#endif
