/* budget.c - a knapsack with one choice an item, by Lagrange multiplier and a greedy rest. */
#include "lib/llm/budget.h"

#include <inttypes.h>
#include <math.h>

typedef struct problem {
    const zt_candidate *c;
    int64_t n;
    int k;
    uint64_t limit;
} problem;

/* Each item's least loss + price x bytes; of equals the smaller. The bytes of all. */
static uint64_t pick_at(const problem *p, double price, int *pick)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const zt_candidate *c = p->c + i * p->k;
        int best = -1;
        double least = INFINITY;
        for (int k = 0; k < p->k; k++) {
            double cost = c[k].loss + price * (double)c[k].bytes;
            if (cost < least || (best >= 0 && cost == least && c[k].bytes < c[best].bytes)) {
                best = k;
                least = cost;
            }
        }
        pick[i] = best < 0 ? 0 : best;
        sum += c[pick[i]].bytes;
    }
    return sum;
}

/* Every item's smallest. */
static uint64_t pick_smallest(const problem *p, int *pick)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const zt_candidate *c = p->c + i * p->k;
        int best = -1;
        for (int k = 0; k < p->k; k++)
            if (c[k].loss < INFINITY && (best < 0 || c[k].bytes < c[best].bytes ||
                                         (c[k].bytes == c[best].bytes && c[k].loss < c[best].loss)))
                best = k;
        pick[i] = best < 0 ? 0 : best;
        sum += c[pick[i]].bytes;
    }
    return sum;
}

/* What takes the most loss away for each byte, as long as anything fits. */
static void fill(const problem *p, uint64_t used, int *pick)
{
    for (;;) {
        int64_t item = -1;
        int to = 0;
        double most = 0;
        for (int64_t i = 0; i < p->n; i++) {
            const zt_candidate *c = p->c + i * p->k, *now = &c[pick[i]];
            for (int k = 0; k < p->k; k++) {
                if (!(c[k].loss < now->loss) || used - now->bytes + c[k].bytes > p->limit)
                    continue;
                double more = c[k].bytes > now->bytes ? (double)(c[k].bytes - now->bytes) : 0;
                double rate = (now->loss - c[k].loss) / (more > 0 ? more : 1e-9);
                if (rate > most) {
                    most = rate;
                    item = i;
                    to = k;
                }
            }
        }
        if (item < 0)
            return;
        used = used - p->c[item * p->k + pick[item]].bytes + p->c[item * p->k + to].bytes;
        pick[item] = to;
    }
}

zt_status zt_budget(zt_ctx *ctx, const zt_candidate *c, int64_t n, int k, uint64_t limit, int *pick)
{
    problem p = {c, n, k, limit};
    uint64_t least = pick_smallest(&p, pick);
    double low = 0, high = 1e-12; /* of prices; at the high one all fit */
    if (least > limit)
        return zt_fail(ctx, ZT_EUSAGE,
                       "%" PRIu64 " bytes are too few: at the least it takes %" PRIu64, limit,
                       least);
    if (pick_at(&p, 0, pick) <= limit)
        return ZT_OK;
    while (pick_at(&p, high, pick) > limit && high < 1e300)
        high *= 16;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (pick_at(&p, middle, pick) > limit)
            low = middle;
        else
            high = middle;
    }
    uint64_t used = pick_at(&p, high, pick);
    if (used > limit) /* losses so great that no price counts */
        used = pick_smallest(&p, pick);
    fill(&p, used, pick);
    return ZT_OK;
}
