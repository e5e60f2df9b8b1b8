/* merge.c - the loops of merging, compiled once for each instruction set.
 *
 * What is done to a value is the same in lanes and in the rest behind them, and nothing is fused:
 * the same bits everywhere. dot adds in sixteen f64 lanes, and dots in sixteen f32 lanes, whatever the registers.
 */
#include "lib/dna/merge_internal.h"
#include "lib/tensor/isa/lanes.h"

#include <math.h>

#define CAT_(a, b) a##_##b
#define CAT(a, b)  CAT_(a, b)

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef double f64x8 __attribute__((vector_size(64)));

static void combine(float *result, const float *const *parents, const float *coef, int parent_count, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf sum = vf_load(parents[0] + i) * coef[0];
        for (int j = 1; j < parent_count; j++) sum += vf_load(parents[j] + i) * coef[j];
        vf_store(result + i, sum);
    }
    for (; i < count; i++) {
        float sum = parents[0][i] * coef[0];
        for (int j = 1; j < parent_count; j++) sum += parents[j][i] * coef[j];
        result[i] = sum;
    }
}

static void combine_from(float *result, const float *base, const float *const *parents, const float *coef, int parent_count,
                         int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf from = vf_load(base + i), sum = vf_set(0);
        for (int j = 0; j < parent_count; j++) sum += (vf_load(parents[j] + i) - from) * coef[j];
        vf_store(result + i, from + sum);
    }
    for (; i < count; i++) {
        float sum = 0;
        for (int j = 0; j < parent_count; j++) sum += (parents[j][i] - base[i]) * coef[j];
        result[i] = base[i] + sum;
    }
}

static void combine_on(float *result, const float *base, float *const *deltas, const float *coef, int parent_count, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf sum = vf_set(0);
        for (int j = 0; j < parent_count; j++) sum += vf_load(deltas[j] + i) * coef[j];
        vf_store(result + i, vf_load(base + i) + sum);
    }
    for (; i < count; i++) {
        float sum = 0;
        for (int j = 0; j < parent_count; j++) sum += deltas[j][i] * coef[j];
        result[i] = base[i] + sum;
    }
}

static void subtract(float *delta, const float *x, const float *base, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) vf_store(delta + i, vf_load(x + i) - vf_load(base + i));
    for (; i < count; i++) delta[i] = x[i] - base[i];
}

static void add(float *result, const float *x, float coef, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) vf_store(result + i, vf_load(result + i) + vf_load(x + i) * coef);
    for (; i < count; i++) result[i] += x[i] * coef;
}

INLINE f64x8 load_as_f64(const float *p)
{
    f32x8 floats;
    memcpy(&floats, p, sizeof floats);
    return __builtin_convertvector(floats, f64x8);
}

static double dot(const float *x, const float *y, int64_t count)
{
    f64x8 low = {0}, high = {0};
    double lane[16], remainder = 0;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        low += load_as_f64(x + i) * load_as_f64(y + i);
        high += load_as_f64(x + i + 8) * load_as_f64(y + i + 8);
    }
    for (; i < count; i++) remainder += (double)x[i] * y[i];
    memcpy(lane, &low, sizeof low);
    memcpy(lane + 8, &high, sizeof high);
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0] + remainder;
}

INLINE f32x8 load_eight(const float *p)
{
    f32x8 lanes;
    memcpy(&lanes, p, sizeof lanes);
    return lanes;
}

/* Halves are added to halves, as in dot. */
INLINE float sum_lanes(f32x8 low, f32x8 high)
{
    f32x4 fours[2];
    low += high;
    memcpy(fours, &low, sizeof fours);
    fours[0] += fours[1];
    return (fours[0][0] + fours[0][2]) + (fours[0][1] + fours[0][3]);
}

/* Compilers keep pairs of eight lanes in registers, but not vectors of sixteen. */
static void dots(float *result, const float *rows, int64_t row_count, const float *const *x, int64_t count)
{
    for (int64_t r = 0; r < row_count; r++, rows += count, result += 4) {
        f32x8 low0 = {0}, low1 = {0}, low2 = {0}, low3 = {0}, high0 = {0}, high1 = {0}, high2 = {0}, high3 = {0};
        int64_t i = 0;
        for (; i + 16 <= count; i += 16) {
            f32x8 low = load_eight(rows + i), high = load_eight(rows + i + 8);
            low0 += low * load_eight(x[0] + i);
            low1 += low * load_eight(x[1] + i);
            low2 += low * load_eight(x[2] + i);
            low3 += low * load_eight(x[3] + i);
            high0 += high * load_eight(x[0] + i + 8);
            high1 += high * load_eight(x[1] + i + 8);
            high2 += high * load_eight(x[2] + i + 8);
            high3 += high * load_eight(x[3] + i + 8);
        }
        result[0] = sum_lanes(low0, high0);
        result[1] = sum_lanes(low1, high1);
        result[2] = sum_lanes(low2, high2);
        result[3] = sum_lanes(low3, high3);
        for (; i < count; i++)
            for (int j = 0; j < 4; j++) result[j] += rows[i] * x[j][i];
    }
}

static void keep(float *delta, float low, float high, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf value = vf_load(delta + i), magnitude = vf_abs(value);
        vf_store(delta + i, vf_select((magnitude >= low) & (magnitude <= high), value, vf_set(0)));
    }
    for (; i < count; i++) delta[i] = fabsf(delta[i]) >= low && fabsf(delta[i]) <= high ? delta[i] : 0;
}

/* One value; the lanes do the same. */
INLINE float consensus_value(float base, float *const *deltas, const float *weight, int parent_count, bool normalize, float scale,
                             int64_t i)
{
    float sum = 0, agreeing = 0, weight_sum = 0;
    for (int j = 0; j < parent_count; j++) sum += deltas[j][i] * weight[j];
    for (int j = 0; j < parent_count; j++) {
        float term = deltas[j][i] * weight[j];
        bool agrees = sum >= 0 ? term > 0 : term < 0;
        agreeing += agrees ? term : 0;
        weight_sum += agrees ? weight[j] : 0;
    }
    if (normalize) agreeing = agreeing / (weight_sum == 0 ? 1 : weight_sum);
    return base + agreeing * scale;
}

static void consensus(float *result, const float *base, float *const *deltas, const float *weight, int parent_count,
                      bool normalize, float scale, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf sum = vf_set(0), agreeing = sum, weight_sum = sum;
        for (int j = 0; j < parent_count; j++) sum += vf_load(deltas[j] + i) * weight[j];
        vi up = sum >= 0;
        for (int j = 0; j < parent_count; j++) {
            vf term = vf_load(deltas[j] + i) * weight[j];
            vi agrees = (up & (term > 0)) | (~up & (term < 0));
            agreeing += vf_select(agrees, term, vf_set(0));
            weight_sum += vf_select(agrees, vf_set(weight[j]), vf_set(0));
        }
        if (normalize) agreeing = agreeing / vf_select(weight_sum == 0, vf_set(1), weight_sum);
        vf_store(result + i, vf_load(base + i) + agreeing * scale);
    }
    for (; i < count; i++) result[i] = consensus_value(base[i], deltas, weight, parent_count, normalize, scale, i);
}

static void nearswap(float *result, const float *a, const float *b, float threshold, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf near_value = vf_load(a + i), other = vf_load(b + i), distance = vf_abs(near_value - other);
        vf weight = vf_between(threshold / vf_select(distance < 1e-6f, vf_set(1e-6f), distance), 0, 1);
        vf_store(result + i, weight * other + (1 - weight) * near_value);
    }
    for (; i < count; i++) {
        float distance = fabsf(a[i] - b[i]), weight = threshold / (distance < 1e-6f ? 1e-6f : distance);
        weight = weight > 0 ? weight : 0;
        weight = weight < 1 ? weight : 1;
        result[i] = weight * b[i] + (1 - weight) * a[i];
    }
}

const merge_loops CAT(zt_merge_loops, ZT_ISA) = {
    .combine = combine,
    .combine_from = combine_from,
    .combine_on = combine_on,
    .subtract = subtract,
    .add = add,
    .dot = dot,
    .dots = dots,
    .keep = keep,
    .consensus = consensus,
    .nearswap = nearswap,
};
