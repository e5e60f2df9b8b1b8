/* ensemble.c - owns measures of several models on the same samples (openfluke/loom, package poly). */
#include "lib/train/ensemble.h"

#include <math.h>
#include <stdlib.h>

zt_ensemble_pair zt_ensemble_compare(const bool *mask_a, const bool *mask_b, int64_t count)
{
    int64_t in_a = 0, in_b = 0, both = 0;
    if (!mask_a || !mask_b || count <= 0) return (zt_ensemble_pair){0};
    for (int64_t i = 0; i < count; i++) {
        in_a += mask_a[i];
        in_b += mask_b[i];
        both += mask_a[i] && mask_b[i];
    }
    return (zt_ensemble_pair){.coverage = (double)(in_a + in_b - both) / (double)count,
                              .overlap = (double)both / (double)count,
                              .similarity = in_a && in_b ? (double)both / (sqrt((double)in_a) * sqrt((double)in_b)) : 0};
}

static int compare_pairs(const void *left, const void *right)
{
    const zt_ensemble_pair *a = left, *b = right;
    if (a->coverage != b->coverage) return a->coverage > b->coverage ? -1 : 1;
    if (a->overlap != b->overlap) return a->overlap < b->overlap ? -1 : 1;
    return a->a != b->a ? a->a - b->a : a->b - b->b;
}

int zt_ensemble_pairs(const bool *const *masks, int model_count, int64_t count, double min_coverage, zt_ensemble_pair *pairs)
{
    int pair_count = 0, enough = 0;
    if (!masks || !pairs) return 0;
    for (int a = 0; a < model_count; a++)
        for (int b = a + 1; b < model_count; b++) {
            pairs[pair_count] = zt_ensemble_compare(masks[a], masks[b], count);
            pairs[pair_count].a = a;
            pairs[pair_count++].b = b;
        }
    qsort(pairs, (size_t)pair_count, sizeof *pairs, compare_pairs);
    while (enough < pair_count && pairs[enough].coverage >= min_coverage) enough++;
    return enough;
}

double zt_majority_vote(const double *votes, int count, int *supporters_out)
{
    double winner = NAN;
    int most = 0;
    for (int i = 0; votes && i < count; i++) {
        int supporters = 0;
        for (int k = 0; k < count; k++) supporters += votes[k] == votes[i];
        if (supporters > most) {
            most = supporters;
            winner = votes[i];
        }
    }
    if (supporters_out) *supporters_out = most;
    return winner;
}
