/* score.h - how far predictions are from what was expected: openfluke/loom's deviation metrics.
 *
 * A deviation is |actual - expected| / |expected| in per cent, of what is expected to be 0
 * |actual - expected| in per cent, and 100 where one of the two is no finite number. Seven buckets
 * by it; a score from 0 to 100; accuracy counts what is equal.
 */
#ifndef ZT_TRAIN_SCORE_H
#define ZT_TRAIN_SCORE_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_DEVIATION_BUCKETS = 7 };

typedef struct zt_deviation_bucket {
    const char *name;      /* "0-10%" ... "100%+" */
    double above, up_to;   /* per cent; the first has 0 too, the last goes to infinity */
} zt_deviation_bucket;
const zt_deviation_bucket *zt_deviation_bucket_at(int i); /* NULL past the last */

typedef struct zt_deviation {
    double expected, actual, deviation; /* per cent */
    int bucket;
} zt_deviation;
zt_deviation zt_deviation_of(double expected, double actual); /* of one prediction */

typedef struct zt_deviations { /* zero-initialised; grows prediction by prediction */
    int64_t total, correct, bucket[ZT_DEVIATION_BUCKETS];
    double sum, points; /* of deviations; of 100 less each, 0 at least */
} zt_deviations;
void zt_deviations_add(zt_deviations *d, const zt_deviation *one); /* counts one prediction in d */
double zt_deviations_accuracy(const zt_deviations *d); /* per cent of what was exact; 0 of none */
double zt_deviations_score(const zt_deviations *d);    /* the mean of the points */
double zt_deviations_mean(const zt_deviations *d);     /* the mean deviation, per cent */

/* What a row of outputs says: its only number, or the place of its first largest. */
double zt_prediction(const float *row, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
