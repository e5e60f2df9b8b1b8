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
    double x;
    int64_t at; /* in time */
} sample;

typedef struct side {
    int64_t n;
    sample *sorted; /* [n] */
    int64_t *rank;  /* [n] of the sample at a time */
    int64_t *times; /* [n] how often the sample of a rank was drawn */
} side;

static int by_value(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    if (x->x != y->x) return x->x > y->x ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

static zt_status side_init(zt_ctx *ctx, side *s, const double *x, const double *over, int64_t n)
{
    s->n = n;
    s->sorted = zt_calloc(ctx, (size_t)n, sizeof *s->sorted);
    s->rank = zt_calloc(ctx, (size_t)n, sizeof *s->rank);
    s->times = zt_calloc(ctx, (size_t)n, sizeof *s->times);
    if (!s->sorted || !s->rank || !s->times) return zt_ctx_status(ctx);
    for (int64_t i = 0; i < n; i++)
        s->sorted[i] = (sample){.x = over ? x[i] / over[i] : x[i], .at = i};
    qsort(s->sorted, (size_t)n, sizeof *s->sorted, by_value);
    for (int64_t i = 0; i < n; i++) s->rank[s->sorted[i].at] = i;
    return ZT_OK;
}

static void side_fini(zt_ctx *ctx, side *s)
{
    zt_free(ctx, s->sorted);
    zt_free(ctx, s->rank);
    zt_free(ctx, s->times);
}

/* The median of what `times` says was drawn, n samples in all. */
static double median_drawn(const side *s)
{
    int64_t below = (s->n - 1) / 2, above = s->n / 2, seen = 0, i = 0;
    while (seen + s->times[i] <= below) seen += s->times[i++];
    double low = s->sorted[i].x;
    while (seen + s->times[i] <= above) seen += s->times[i++];
    return (low + s->sorted[i].x) / 2;
}

static double median(const side *s)
{
    return (s->sorted[(s->n - 1) / 2].x + s->sorted[s->n / 2].x) / 2;
}

/* The median of a new drawing of the side's samples, in blocks. */
static double draw(side *s, uint64_t seed, uint64_t sequence)
{
    int64_t length = s->n < BLOCKS_FROM ? 1 : (int64_t)(cbrt((double)s->n) + 0.5), left = s->n;
    uint32_t random[4] = {0};
    for (int64_t i = 0; i < s->n; i++) s->times[i] = 0;
    for (uint64_t block = 0; left > 0; block++) {
        if (block % 4 == 0) zt_philox(seed, sequence, block / 4, random);
        int64_t from = (int64_t)((uint64_t)random[block % 4] * (uint64_t)s->n >> 32);
        for (int64_t i = 0; i < length && left > 0; i++, left--)
            s->times[s->rank[(from + i) % s->n]]++;
    }
    return median_drawn(s);
}

/* Student's t at 97.5 per cent: the first by table, the rest by Fisher and Cornish's series. Of one
 * of several looks at pairs, of which there are enough for the series, where a part of the 2.5 per
 * cent is left out. */
static double student(int64_t freedom, int looks)
{
    static const double first[] = {12.706, 4.303, 3.182, 2.776};
    static const double normal[BENCH_MOST_LOOKS] = {1.959964, 2.241403, 2.393980};
    double z = normal[looks - 1], v = (double)freedom;
    if (freedom <= 4) return first[freedom - 1];
    return z + (pow(z, 3) + z) / (4 * v) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * v * v);
}

/* The share of drawings that is left out at each end. */
static double left_out(int64_t n, int looks)
{
    double z = sqrt((double)n / (double)(n - 1)) * student(n - 1, looks);
    return erfc(z / sqrt(2)) / 2;
}

/* One side (of ratios), or the second over the first. */
static zt_status interval(zt_ctx *ctx, side *s, int sides, int looks, uint64_t seed,
                          double ci95[2])
{
    int64_t least = sides == 2 && s[1].n < s[0].n ? s[1].n : s[0].n;
    int64_t most = sides == 2 && s[1].n > s[0].n ? s[1].n : s[0].n, draws = WORK / most;
    draws = draws > MOST_DRAWS ? MOST_DRAWS : draws < LEAST_DRAWS ? LEAST_DRAWS : draws;
    double *x = zt_calloc(ctx, (size_t)draws, sizeof *x);
    if (!x) return zt_ctx_status(ctx);
    for (int64_t i = 0; i < draws; i++) {
        x[i] = draw(&s[sides - 1], seed, 2 * (uint64_t)i);
        if (sides == 2) x[i] /= draw(&s[0], seed, 2 * (uint64_t)i + 1);
    }
    bench_sort(x, x, draws);
    int64_t out = (int64_t)(left_out(least, looks) * (double)draws);
    ci95[0] = x[out];
    ci95[1] = x[draws - 1 - out];
    zt_free(ctx, x);
    return ZT_OK;
}

zt_status bench_ratio_of(zt_ctx *ctx, bench_samples old, bench_samples now, int pairs,
                         uint64_t seed, bench_ratio *r)
{
    side s[2] = {{0}, {0}};
    bool paired = pairs > 0;
    int sides = paired ? 1 : 2;
    int64_t least = old.n < now.n ? old.n : now.n;
    zt_status st = paired ? side_init(ctx, &s[0], now.x, old.x, least)
                          : side_init(ctx, &s[0], old.x, NULL, old.n);
    if (!st && !paired) st = side_init(ctx, &s[1], now.x, NULL, now.n);
    *r = (bench_ratio){1, {0, INFINITY}};
    if (!st) r->ratio = paired ? median(&s[0]) : median(&s[1]) / median(&s[0]);
    if (!st && least >= (paired ? LEAST_PAIRS : LEAST_SAMPLES))
        st = interval(ctx, s, sides, paired ? pairs : 1, seed, r->ci95);
    for (int i = 0; i < 2; i++) side_fini(ctx, &s[i]);
    return st;
}
