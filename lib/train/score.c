/* score.c - deviation metrics: buckets, score, accuracy (openfluke/loom, package poly). */
#include "lib/train/score.h"

#include <math.h>

static const zt_deviation_bucket buckets[ZT_DEVIATION_BUCKETS] = {
    {"0-10%", 0, 10},   {"10-20%", 10, 20},   {"20-30%", 20, 30},      {"30-40%", 30, 40},
    {"40-50%", 40, 50}, {"50-100%", 50, 100}, {"100%+", 100, INFINITY}};

const zt_deviation_bucket *zt_deviation_bucket_at(int index)
{
    return index >= 0 && index < ZT_DEVIATION_BUCKETS ? &buckets[index] : NULL;
}

zt_deviation zt_deviation_of(double expected, double actual)
{
    enum { PER_CENT = 100 };
    double apart = fabs(actual - expected), size = fabs(expected);
    zt_deviation deviation = {.expected = expected, .actual = actual, .deviation = PER_CENT};
    if (isfinite(expected) && isfinite(actual)) deviation.deviation = size < 1e-10 ? apart * PER_CENT : apart / size * PER_CENT;
    while (deviation.deviation > buckets[deviation.bucket].up_to) deviation.bucket++;
    return deviation;
}

void zt_deviations_add(zt_deviations *deviations, const zt_deviation *one)
{
    if (!deviations || !one) return;
    deviations->total++;
    deviations->correct += one->actual == one->expected;
    deviations->buckets[one->bucket]++;
    deviations->deviation_sum += one->deviation;
    deviations->point_sum += fmax(0, 100 - one->deviation);
}

static double mean_of(double sum, int64_t count) { return count ? sum / (double)count : 0; }

double zt_deviations_accuracy(const zt_deviations *deviations)
{
    return deviations ? mean_of(100 * (double)deviations->correct, deviations->total) : 0;
}
double zt_deviations_score(const zt_deviations *deviations)
{
    return deviations ? mean_of(deviations->point_sum, deviations->total) : 0;
}
double zt_deviations_mean(const zt_deviations *deviations)
{
    return deviations ? mean_of(deviations->deviation_sum, deviations->total) : 0;
}

double zt_prediction(const float *row, int64_t count)
{
    if (!row && count) return 0;
    int64_t best = 0;
    if (count == 1) return (double)row[0];
    for (int64_t i = 1; i < count; i++)
        if (row[i] > row[best]) best = i;
    return (double)best;
}
