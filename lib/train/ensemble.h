/* ensemble.h - several models on the same samples: where they complement each other, and what they say together.
 *
 * Definitions of openfluke/loom's package poly. A mask has for each sample whether the model predicted it correctly.
 *
 *     coverage     share of the samples that at least one model of a pair predicts correctly
 *     overlap      share that both predict correctly
 *     similarity   cosine of the two masks as vectors of 0 and 1; 0 if one has no 1
 */
#ifndef ZT_TRAIN_ENSEMBLE_H
#define ZT_TRAIN_ENSEMBLE_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_ensemble_pair {
    int a, b; /* indices of models, a below b */
    double coverage, overlap, similarity;
} zt_ensemble_pair;

/* Of two masks of count samples; all 0 without samples, or if a mask is NULL. a and b of the result are 0. */
zt_ensemble_pair zt_ensemble_compare(const bool *mask_a, const bool *mask_b, int64_t count);
/* All pairs of model_count masks of count samples, into pairs[model_count (model_count - 1) / 2]: sorted by falling coverage,
 * then rising overlap, then by a and b. Returns how many of them, the first ones, have a coverage of at least min_coverage. */
int zt_ensemble_pairs(const bool *const *masks, int model_count, int64_t count, double min_coverage, zt_ensemble_pair *pairs);

/* Majority vote on one sample: the value that most of the votes have; of several such values, that of the first vote for one
 * of them. *supporters_out: how many votes it has. NaN votes are not counted. NaN and 0 without votes. */
double zt_majority_vote(const double *votes, int count, int *supporters_out);

#ifdef __cplusplus
}
#endif
#endif
