/* budget.c - a knapsack with one choice for each item: Lagrange multiplier, then a greedy fill of what is left. */
#include "lib/base/require.h"
#include "lib/llm/budget.h"

#include <inttypes.h>
#include <math.h>

typedef struct budget_problem {
    const zt_candidate *candidates;
    int64_t item_count;
    int choice_count;
    uint64_t limit;
} budget_problem;

/* For each item the candidate of least loss + price * bytes, the smaller one of equals. Returns the total bytes. */
static uint64_t pick_at(const budget_problem *problem, double price, int *pick)
{
    uint64_t sum = 0;
    for (int64_t item = 0; item < problem->item_count; item++) {
        const zt_candidate *candidate = problem->candidates + item * problem->choice_count;
        int best = -1;
        double least = INFINITY;
        for (int choice = 0; choice < problem->choice_count; choice++) {
            double cost = candidate[choice].loss + price * (double)candidate[choice].bytes;
            if (cost < least || (best >= 0 && cost == least && candidate[choice].bytes < candidate[best].bytes)) {
                best = choice;
                least = cost;
            }
        }
        pick[item] = best < 0 ? 0 : best;
        sum += candidate[pick[item]].bytes;
    }
    return sum;
}

/* The smallest candidate of each item. Returns the total bytes. */
static uint64_t pick_smallest(const budget_problem *problem, int *pick)
{
    uint64_t sum = 0;
    for (int64_t item = 0; item < problem->item_count; item++) {
        const zt_candidate *candidate = problem->candidates + item * problem->choice_count;
        int best = -1;
        for (int choice = 0; choice < problem->choice_count; choice++)
            if (candidate[choice].loss < INFINITY &&
                (best < 0 || candidate[choice].bytes < candidate[best].bytes ||
                 (candidate[choice].bytes == candidate[best].bytes && candidate[choice].loss < candidate[best].loss)))
                best = choice;
        pick[item] = best < 0 ? 0 : best;
        sum += candidate[pick[item]].bytes;
    }
    return sum;
}

/* Repeats the change that saves the most loss per added byte, as long as one fits. */
static void fill_remainder(const budget_problem *problem, uint64_t used, int *pick)
{
    for (;;) {
        int64_t best_item = -1;
        int best_choice = 0;
        double best_rate = 0;
        for (int64_t item = 0; item < problem->item_count; item++) {
            const zt_candidate *candidate = problem->candidates + item * problem->choice_count, *current = &candidate[pick[item]];
            for (int choice = 0; choice < problem->choice_count; choice++) {
                if (!(candidate[choice].loss < current->loss) || used - current->bytes + candidate[choice].bytes > problem->limit)
                    continue;
                double extra_bytes =
                    candidate[choice].bytes > current->bytes ? (double)(candidate[choice].bytes - current->bytes) : 0;
                double rate = (current->loss - candidate[choice].loss) / (extra_bytes > 0 ? extra_bytes : 1e-9);
                if (rate > best_rate) {
                    best_rate = rate;
                    best_item = item;
                    best_choice = choice;
                }
            }
        }
        if (best_item < 0) return;
        used = used - problem->candidates[best_item * problem->choice_count + pick[best_item]].bytes +
               problem->candidates[best_item * problem->choice_count + best_choice].bytes;
        pick[best_item] = best_choice;
    }
}

zt_status zt_budget(zt_ctx *ctx, const zt_candidate *candidates, int64_t item_count, int choices, uint64_t limit, int *pick)
{
    ZT_REQUIRE(ctx, (candidates || !item_count) && pick, ZT_EUSAGE);
    budget_problem problem = {candidates, item_count, choices, limit};
    uint64_t least = pick_smallest(&problem, pick);
    double low = 0, high = 1e-12; /* of prices; at the high one all fit */
    if (least > limit)
        return zt_fail(ctx, ZT_EUSAGE, "%" PRIu64 " bytes are too few, at least %" PRIu64 " are needed", limit, least);
    if (pick_at(&problem, 0, pick) <= limit) return ZT_OK;
    while (pick_at(&problem, high, pick) > limit && high < 1e300) high *= 16;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (pick_at(&problem, middle, pick) > limit)
            low = middle;
        else
            high = middle;
    }
    uint64_t used = pick_at(&problem, high, pick);
    if (used > limit) /* losses so great that no price counts */
        used = pick_smallest(&problem, pick);
    fill_remainder(&problem, used, pick);
    return ZT_OK;
}
