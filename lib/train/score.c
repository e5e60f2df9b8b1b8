/* score.c - deviation metrics: buckets, score, accuracy (openfluke/loom, package poly). */
#include "lib/train/score.h"

#include <math.h>

static const zt_deviation_bucket buckets[ZT_DEVIATION_BUCKETS] = {
    {"0-10%", 0, 10},   {"10-20%", 10, 20},  {"20-30%", 20, 30},          {"30-40%", 30, 40},
    {"40-50%", 40, 50}, {"50-100%", 50, 100}, {"100%+", 100, INFINITY}};

const zt_deviation_bucket *zt_deviation_bucket_at(int i)
{
    return i >= 0 && i < ZT_DEVIATION_BUCKETS ? &buckets[i] : NULL;
}

zt_deviation zt_deviation_of(double expected, double actual)
{
    enum { PER_CENT = 100 };
    double apart = fabs(actual - expected), size = fabs(expected);
    zt_deviation d = {.expected = expected, .actual = actual, .deviation = PER_CENT};
    if (isfinite(expected) && isfinite(actual))
        d.deviation = size < 1e-10 ? apart * PER_CENT : apart / size * PER_CENT;
    while (d.deviation > buckets[d.bucket].up_to) d.bucket++;
    return d;
}

void zt_deviations_add(zt_deviations *d, const zt_deviation *one)
{
    d->total++;
    d->correct += one->actual == one->expected;
    d->bucket[one->bucket]++;
    d->sum += one->deviation;
    d->points += fmax(0, 100 - one->deviation);
}

static double mean(double sum, int64_t n) { return n ? sum / (double)n : 0; }

double zt_deviations_accuracy(const zt_deviations *d)
{
    return mean(100 * (double)d->correct, d->total);
}
double zt_deviations_score(const zt_deviations *d) { return mean(d->points, d->total); }
double zt_deviations_mean(const zt_deviations *d) { return mean(d->sum, d->total); }

double zt_prediction(const float *row, int64_t n)
{
    int64_t best = 0;
    if (n == 1) return (double)row[0];
    for (int64_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return (double)best;
}
