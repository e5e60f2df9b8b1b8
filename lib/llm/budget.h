/* budget.h - choose one of several candidates for each item so that the sizes fit a limit and the sum of losses is small.
 *
 *     zt_candidate c[2][3] = {{{bytes, loss}, ...}, ...};    // 2 items, 3 candidates each
 *     int pick[2];
 *     zt_status s = zt_budget(ctx, &c[0][0], 2, 3, limit, pick);
 *
 * Method: each item takes the candidate of least loss + price * bytes, at the lowest price at which all fit (the
 * Lagrange multiplier; optimal for its total size). The remaining bytes are then spent greedily, by loss saved
 * per byte.
 */
#ifndef ZT_BUDGET_H
#define ZT_BUDGET_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_candidate {
    uint64_t bytes;
    double loss; /* at least 0; infinity: never chosen */
} zt_candidate;

/* candidates: [item_count][choices]. pick: [item_count], receives the index of the chosen candidate of each item.
 * ZT_EUSAGE: the smallest possible size, given in the message, exceeds the limit. */
zt_status zt_budget(zt_ctx *ctx, const zt_candidate *candidates, int64_t item_count, int choices, uint64_t limit, int *pick);

#ifdef __cplusplus
}
#endif
#endif
