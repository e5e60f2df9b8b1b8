/* merge_rank.h - private to lib/dna: which values of a tensor are of what rank by magnitude. */
#ifndef ZT_MERGE_RANK_H
#define ZT_MERGE_RANK_H

#include "lib/dna/merge_internal.h"

/* Of one list of n values, in the order of their magnitudes, of equal ones of their places: those
 * from..to-1 are kept. Found: magnitudes lo..hi, and where more than are kept have just that, how
 * many of the first at lo are not, and of those at hi are. */
typedef struct merge_range {
    int64_t first_rank, end_rank;
    float low, high;
    int64_t skip_low, take_high; /* among the equal ones */
    bool some_low, some_high;    /* does it matter */
    int64_t *equal;              /* [pieces][2]: equal ones of earlier pieces, where it matters */
} merge_range;

/* The lists' values in a piece: v[i] for each, in the piece's room. */
typedef void merge_list_fn(merge_work *w, const merge_piece *p, const float **v, void *arg);

/* Finds lo, hi and the rest of each of count ranges (from < to). */
zt_status zt_merge_ranges(merge_work *work, merge_range *ranges, int count, merge_list_fn *list_values, void *arg);
void zt_merge_ranges_free(merge_work *work, merge_range *ranges, int count);
/* d's values of a piece that are not kept become 0; `by` are those that were ranked. */
void zt_merge_range_keep(const merge_range *range, const merge_piece *piece, const float *ranked, float *values);

#endif
