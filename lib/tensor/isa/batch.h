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

typedef struct lane_batch {
    int size;       /* numbers of a group */
    vf x[GROUP];    /* number j of each group */
    vf w[GROUP];    /* its weight */
    vf sw, sx, sxx; /* sums of w, w x and w x^2 */
    vf least, most; /* of x */
    vf magnitude;   /* the largest |x| */
} lane_batch;

/* What numbers weigh where no importance is given: |x|^power and `flat` times its mean in the
 * group. All alike would leave the least error, but where a column's numbers are large, what it is
 * multiplied by is too: in SmolLM2's ffn_down of layer 3, whose column 1 of 1536 has nine tenths of
 * the squares, iq4_nl then left 1.65 of llama-quantize's error in what comes out. {1, 4} is hardly
 * more error than all alike, and 1.03 there at most. */
typedef struct weight_rule {
    int power; /* 1 or 2; 0: all weigh 1 */
    float flat;
} weight_rule;

INLINE void set_batch_weights(lane_batch *batch, weight_rule rule)
{
    vf mean = vf_set(0);
    if (rule.power == 0) return;
    for (int j = 0; j < batch->size; j++) {
        vf magnitude = vf_abs(batch->x[j]);
        batch->w[j] = rule.power == 2 ? magnitude * magnitude : magnitude;
        mean += batch->w[j];
    }
    mean = mean / (float)batch->size;
    for (int j = 0; j < batch->size; j++) batch->w[j] = vf_select(mean > 0x1p-100f, batch->w[j] + rule.flat * mean, vf_set(1));
}

/* Number j of each of `groups` groups of `size` numbers to to[j]; lanes past them are `rest`. */
INLINE void batch_spread(vf *lanes, int size, const float *x, int groups, float rest)
{
    for (int j = 0; j < size; j += LANES, lanes += LANES) {
        for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane < groups ? vf_load(x + lane * size + j) : vf_set(rest);
        vf_transpose(lanes);
    }
}

INLINE void batch_load(lane_batch *batch, int size, const float *x, const float *w, weight_rule rule, int groups)
{
    batch->size = size;
    batch_spread(batch->x, size, x, groups, 0);
    for (int j = 0; !w && j < size; j++) batch->w[j] = vf_set(1);
    if (w)
        batch_spread(batch->w, size, w, groups, 1);
    else
        set_batch_weights(batch, rule);
    batch->sw = batch->sx = batch->sxx = vf_set(0);
    batch->least = batch->most = batch->x[0];
    for (int j = 0; j < size; j++) {
        vf number = batch->x[j], weighted = batch->w[j] * number;
        batch->sw += batch->w[j];
        batch->sx += weighted;
        batch->sxx += weighted * number;
        batch->least = vf_min(batch->least, number);
        batch->most = vf_max(batch->most, number);
    }
    batch->magnitude = vf_max(batch->most, -batch->least);
}

/* Codes of each group to bytes, code j of group l to out[l * size + j]. */
INLINE void batch_codes(const vf *code, int size, int groups, uint8_t *out)
{
    for (int j = 0; j < size; j += 4) {
        vi four = vi_set(0);
        int32_t words[LANES];
        for (int byte = 0; byte < 4; byte++) four |= __builtin_convertvector(code[j + byte], vi) << 8 * byte;
        memcpy(words, &four, sizeof words);
        for (int lane = 0; lane < groups; lane++) memcpy(out + lane * size + j, &words[lane], 4);
    }
}

/* The sum and the largest of n numbers, or 0; in order. */
INLINE double sum_in_order(const float *values, int count)
{
    double sum = 0;
    for (int lane = 0; lane < count; lane++) sum += (double)values[lane];
    return sum;
}

INLINE float largest_of(const float *values, int count)
{
    float most = 0;
    for (int lane = 0; lane < count; lane++) most = values[lane] > most ? values[lane] : most;
    return most;
}

INLINE void fill(float *values, int count, float x)
{
    for (int lane = 0; lane < count; lane++) values[lane] = x;
}

/* As f16 keeps it, the largest of which is the end. */
INLINE float round_to_f16(float value)
{
    return zt_f16_to_f32(zt_f32_to_f16(value > 65504 ? 65504 : value < -65504 ? -65504 : value));
}

/* Makes of batches b, with `units` units, what is written to out. */
typedef void batch_quantize(const lane_batch *b, int units, uint8_t *out);

/* Units of `groups` groups of `size` numbers; x and w (NULL: no importance) have n of these: as
 * many units at a time as there are lanes, or as sixteen groups are; lanes past the last are 0.
 * `bytes` of out are a unit's. */
INLINE void batch_each(batch_quantize *quantize, int groups, int size, weight_rule weigh, const float *x, const float *w,
                       int64_t count, uint8_t *out, int bytes)
{
    int parts = groups == 1 ? 1 : PARTS, step = parts * LANES / groups, unit = groups * size;
    for (int64_t left = count / unit; left > 0; left -= step) {
        int units = left < step ? (int)left : step;
        lane_batch batches[PARTS];
        for (int part = 0; part < parts; part++) {
            int at = part * LANES, part_groups = units * groups - at < LANES ? units * groups - at : LANES;
            batch_load(&batches[part], size, x + at * size, w ? w + at * size : NULL, weigh, part_groups < 0 ? 0 : part_groups);
        }
        quantize(batches, units, out);
        out += units * bytes;
        x += unit * units;
        if (w) w += unit * units;
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
