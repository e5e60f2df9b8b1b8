/* score.h - deviation of predictions from expected values: openfluke/loom's metrics.
 *
 *     deviation   |actual - expected| / |expected|, in per cent; |actual - expected| if expected is 0; 100 if either is not
 * finite buckets     seven ranges of deviations score       mean of max(0, 100 - deviation) accuracy    share of predictions that
 * are equal to the expected value
 */
#ifndef ZT_TRAIN_SCORE_H
#define ZT_TRAIN_SCORE_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_DEVIATION_BUCKETS = 7 };

typedef struct zt_deviation_bucket {
    const char *name;    /* "0-10%" ... "100%+" */
    double above, up_to; /* per cent; the first includes 0, the last is unbounded */
} zt_deviation_bucket;
const zt_deviation_bucket *zt_deviation_bucket_at(int index); /* NULL past the last */

typedef struct zt_deviation {
    double expected, actual, deviation; /* per cent */
    int bucket;
} zt_deviation;
zt_deviation zt_deviation_of(double expected, double actual); /* of one prediction */

typedef struct zt_deviations { /* zero-initialized; sums over predictions */
    int64_t total, correct, buckets[ZT_DEVIATION_BUCKETS];
    double deviation_sum, point_sum; /* of deviations; of max(0, 100 - deviation) */
} zt_deviations;
void zt_deviations_add(zt_deviations *deviations, const zt_deviation *one); /* adds one prediction */
double zt_deviations_accuracy(const zt_deviations *deviations); /* per cent of exact predictions; 0 without predictions */
double zt_deviations_score(const zt_deviations *deviations);    /* the score */
double zt_deviations_mean(const zt_deviations *deviations);     /* the mean deviation, per cent */

/* The prediction of a row of outputs: its only number, or the index of its (first) largest. */
double zt_prediction(const float *row, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
