/* compare.h - which of several training methods is best, and how sure that is after some seeds. */
#ifndef ZT_TRAIN_COMPARE_H
#define ZT_TRAIN_COMPARE_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The best of count methods, by the rule of openfluke/loom's DetermineBest: of the methods whose accuracy (in per cent) is at
 * most 1 below the highest, the one with the lowest loss. Where no accuracy is a number, the one with the lowest loss; a loss
 * that is NaN is the highest. The first of equals. -1: count is 0. */
int zt_best_method(const double *accuracy, const double *loss, int count);

typedef struct zt_interval {
    double mean, low, high; /* low and high: NaN with one seed */
} zt_interval;

typedef struct zt_method_verdict {
    int best, runner_up;        /* by the means over the seeds; runner_up: the best of the others, -1 with one method */
    double probability;         /* share of the resamples in which `best` is the best; NaN with one seed */
    zt_interval accuracy, loss; /* of best minus runner_up: 95 per cent interval of the resamples; NaN with one method */
} zt_method_verdict;

/* accuracy and loss: [methods][seeds], every method with the same seeds. The uncertainty is that of a bootstrap over seeds:
 * 2000 times as many seeds are drawn with replacement, the same for every method, by Philox(seed). probabilities
 * [methods]: share of the resamples in which each is the best; NULL: not wanted. ZT_ENOMEM. */
zt_status zt_compare_methods(zt_ctx *ctx, const double *accuracy, const double *loss, int methods, int seeds, uint64_t seed,
                             zt_method_verdict *verdict, double *probabilities);

#ifdef __cplusplus
}
#endif
#endif
