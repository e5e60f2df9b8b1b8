/* budget.h - of several candidates for each item one, so that the sizes fit and the losses sum to
 * little.
 *
 *     zt_candidate c[2][3] = {{{bytes, loss}, ...}, ...};    // 2 items, 3 candidates each
 *     int pick[2];
 *     zt_status s = zt_budget(ctx, &c[0][0], 2, 3, limit, pick);
 *
 * Lagrange's way first: each item takes the least loss + price x bytes, at the lowest price at
 * which all fit; this is the best of its size. What room is left is then filled, best loss a byte
 * first.
 */
#ifndef ZT_BUDGET_H
#define ZT_BUDGET_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_candidate {
    uint64_t bytes;
    double loss; /* not negative; infinity: not to be taken */
} zt_candidate;

/* c: [n][k]; pick: [n] gets the chosen. ZT_EUSAGE, with the least possible size, where that is
 * above the limit. */
zt_status zt_budget(zt_ctx *ctx, const zt_candidate *c, int64_t n, int k, uint64_t limit,
                    int *pick);

#ifdef __cplusplus
}
#endif
#endif
