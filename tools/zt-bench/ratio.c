/* ratio.c - how much more or less: the ratio of two medians, and an interval of it by bootstrap.
 *
 * Samples are drawn again, with replacement, from each side's own; the interval holds the middle of
 * what their medians then say. Three things keep it honest:
 *   - Pairs. Where sample i of both sides was taken side by side, a pair is drawn as one and its
 *     own ratio counts, so that a machine that slows down for a while does so for both.
 *   - Blocks. What follows another in time is like it (a busy neighbour stays for some samples), so
 *     from 15 samples on runs of them are drawn, cbrt(n) long, around the end (Politis and Romano,
 *     1992: the circular block bootstrap).
 *   - Looks. Where more pairs are taken because of what some said, the last interval is one of
 *     several that were looked at, and each leaves out its part of the 5 per cent (Bonferroni).
 *   - Few samples. Percentiles are taken as far out as Student's t asks for (Hesterberg, 2015: the
 *     expanded percentile interval), and what no interval of medians can hold at 95 per cent, fewer
 *     than 4 samples on each side or than 6 pairs, has none: it goes from 0 to infinity.
 *
 * The draws are Philox's of one seed: the same samples have the same interval.
 */
#include "tools/zt-bench/bench.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_SAMPLES = 4, LEAST_PAIRS = 6, BLOCKS_FROM = 15 };
enum { MOST_DRAWS = 10000, LEAST_DRAWS = 1000, WORK = 4000000 }; /* samples drawn in all */

typedef struct sample {
    double value;
    int64_t index; /* in time */
} sample;

typedef struct sample_side {
    int64_t count;
    sample *sorted; /* [count] */
    int64_t *rank;  /* [count] of the sample at a time */
    int64_t *times; /* [count] how often the sample of a rank was drawn */
} sample_side;

static int compare_values(const void *left, const void *right)
{
    const sample *first = left, *second = right;
    if (first->value != second->value) return first->value > second->value ? 1 : -1;
    return (first->index > second->index) - (first->index < second->index);
}

static zt_status side_init(zt_ctx *ctx, sample_side *side, const double *sorted, const double *over, int64_t count)
{
    side->count = count;
    side->sorted = zt_calloc(ctx, (size_t)count, sizeof *side->sorted);
    side->rank = zt_calloc(ctx, (size_t)count, sizeof *side->rank);
    side->times = zt_calloc(ctx, (size_t)count, sizeof *side->times);
    if (!side->sorted || !side->rank || !side->times) return zt_ctx_status(ctx);
    for (int64_t i = 0; i < count; i++) side->sorted[i] = (sample){.value = over ? sorted[i] / over[i] : sorted[i], .index = i};
    qsort(side->sorted, (size_t)count, sizeof *side->sorted, compare_values);
    for (int64_t i = 0; i < count; i++) side->rank[side->sorted[i].index] = i;
    return ZT_OK;
}

static void side_fini(zt_ctx *ctx, sample_side *side)
{
    zt_free(ctx, side->sorted);
    zt_free(ctx, side->rank);
    zt_free(ctx, side->times);
}

/* The median of what `times` says was drawn, n samples in all. */
static double median_drawn(const sample_side *side)
{
    int64_t below = (side->count - 1) / 2, above = side->count / 2, seen = 0, i = 0;
    while (seen + side->times[i] <= below) seen += side->times[i++];
    double low = side->sorted[i].value;
    while (seen + side->times[i] <= above) seen += side->times[i++];
    return (low + side->sorted[i].value) / 2;
}

static double find_median(const sample_side *side)
{
    return (side->sorted[(side->count - 1) / 2].value + side->sorted[side->count / 2].value) / 2;
}

/* The median of a new drawing of the side's samples, in blocks. */
static double draw_resample(sample_side *side, uint64_t seed, uint64_t sequence)
{
    int64_t length = side->count < BLOCKS_FROM ? 1 : (int64_t)(cbrt((double)side->count) + 0.5), left = side->count;
    uint32_t random[4] = {0};
    for (int64_t i = 0; i < side->count; i++) side->times[i] = 0;
    for (uint64_t block = 0; left > 0; block++) {
        if (block % 4 == 0) zt_philox(seed, sequence, block / 4, random);
        int64_t from = (int64_t)((uint64_t)random[block % 4] * (uint64_t)side->count >> 32);
        for (int64_t i = 0; i < length && left > 0; i++, left--) side->times[side->rank[(from + i) % side->count]]++;
    }
    return median_drawn(side);
}

/* Student's t at 97.5 per cent: the first by table, the rest by Fisher and Cornish's series. Of one
 * of several looks at pairs, of which there are enough for the series, where a part of the 2.5 per
 * cent is left out. */
static double student_quantile(int64_t freedom, int looks)
{
    static const double first[] = {12.706, 4.303, 3.182, 2.776};
    static const double normal[BENCH_MOST_LOOKS] = {1.959964, 2.241403, 2.393980};
    double quantile = normal[looks - 1], degrees = (double)freedom;
    if (freedom <= 4) return first[freedom - 1];
    return quantile + (pow(quantile, 3) + quantile) / (4 * degrees) +
           (5 * pow(quantile, 5) + 16 * pow(quantile, 3) + 3 * quantile) / (96 * degrees * degrees);
}

/* The share of drawings that is left out at each end. */
static double count_left_out(int64_t count, int looks)
{
    double quantile = sqrt((double)count / (double)(count - 1)) * student_quantile(count - 1, looks);
    return erfc(quantile / sqrt(2)) / 2;
}

/* One side (of ratios), or the second over the first. */
static zt_status find_interval(zt_ctx *ctx, sample_side *side, int sides, int looks, uint64_t seed, double ci95[2])
{
    int64_t least = sides == 2 && side[1].count < side[0].count ? side[1].count : side[0].count;
    int64_t most = sides == 2 && side[1].count > side[0].count ? side[1].count : side[0].count, draws = WORK / most;
    draws = draws > MOST_DRAWS ? MOST_DRAWS : draws < LEAST_DRAWS ? LEAST_DRAWS : draws;
    double *ratios = zt_calloc(ctx, (size_t)draws, sizeof *ratios);
    if (!ratios) return zt_ctx_status(ctx);
    for (int64_t i = 0; i < draws; i++) {
        ratios[i] = draw_resample(&side[sides - 1], seed, 2 * (uint64_t)i);
        if (sides == 2) ratios[i] /= draw_resample(&side[0], seed, 2 * (uint64_t)i + 1);
    }
    bench_sort(ratios, ratios, draws);
    int64_t out = (int64_t)(count_left_out(least, looks) * (double)draws);
    ci95[0] = ratios[out];
    ci95[1] = ratios[draws - 1 - out];
    zt_free(ctx, ratios);
    return ZT_OK;
}

zt_status bench_ratio_of(zt_ctx *ctx, bench_samples old, bench_samples now, int pairs, uint64_t seed, bench_ratio *ratio)
{
    sample_side both[2] = {{0}, {0}};
    bool paired = pairs > 0;
    int sides = paired ? 1 : 2;
    int64_t least = old.count < now.count ? old.count : now.count;
    zt_status status =
        paired ? side_init(ctx, &both[0], now.values, old.values, least) : side_init(ctx, &both[0], old.values, NULL, old.count);
    if (!status && !paired) status = side_init(ctx, &both[1], now.values, NULL, now.count);
    *ratio = (bench_ratio){1, {0, INFINITY}};
    if (!status) ratio->ratio = paired ? find_median(&both[0]) : find_median(&both[1]) / find_median(&both[0]);
    if (!status && least >= (paired ? LEAST_PAIRS : LEAST_SAMPLES))
        status = find_interval(ctx, both, sides, paired ? pairs : 1, seed, ratio->ci95);
    for (int i = 0; i < 2; i++) side_fini(ctx, &both[i]);
    return status;
}
