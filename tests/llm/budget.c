/* budget.c - tests of the choice that fits: against trying everything, at scale, and at the edges.
 */
#include "lib/llm/budget.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 6, KINDS = 4 };

static double loss_of(const zt_candidate *c, const int *pick, int64_t count, int k, uint64_t *bytes)
{
    double sum = 0;
    *bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += c[i * k + pick[i]].loss;
        *bytes += c[i * k + pick[i]].bytes;
    }
    return sum;
}

static double best_of_all(const zt_candidate *c, uint64_t limit)
{
    double best = INFINITY;
    for (int code = 0; code < 4096; code++) {
        int pick[ITEMS];
        uint64_t bytes;
        for (int i = 0; i < ITEMS; i++) pick[i] = code >> (2 * i) & 3;
        double loss = loss_of(c, pick, ITEMS, KINDS, &bytes);
        if (bytes <= limit && loss < best) best = loss;
    }
    return best;
}

/* Items of many sizes, each with types from 2 to 8 bits and errors of about 4^-bits. */
static void draw(zt_candidate *c, int64_t count, int k, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        double size = pow(2, 10 + 8 * zt_uniform(seed, 0, (uint64_t)i));
        double weight = pow(10, 2 * zt_uniform(seed, 1, (uint64_t)i));
        for (int b = 0; b < k; b++) {
            double bits = 2 + 6.0 * b / (k - 1);
            c[i * k + b].bytes = (uint64_t)(size * bits);
            c[i * k + b].loss = weight * pow(4, -bits) * (1 + zt_uniform(seed, 2, (uint64_t)(i * k + b)));
        }
    }
}

static void test_small(zt_ctx *ctx)
{
    double worst = 1, sum = 0, best = 0;
    int over = 0, cases = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        zt_candidate c[ITEMS * KINDS];
        int pick[ITEMS];
        uint64_t bytes, most = 0;
        draw(c, ITEMS, KINDS, seed);
        for (int i = 0; i < ITEMS; i++) most += c[i * KINDS + KINDS - 1].bytes;
        uint64_t limit = (uint64_t)((double)most * (0.3 + 0.6 * zt_uniform(seed, 3, 0)));
        if (zt_budget(ctx, c, ITEMS, KINDS, limit, pick)) continue;
        double got = loss_of(c, pick, ITEMS, KINDS, &bytes), want = best_of_all(c, limit);
        over += bytes > limit;
        worst = fmax(worst, got / want);
        sum += got;
        best += want;
        cases++;
    }
    ok(cases == 200 && over == 0, "%d of them fit", cases);
    ok(sum < 1.3 * best, "losses are %.3f times the best possible, at worst %.2f", sum / best, worst);
}

static void test_large(zt_ctx *ctx)
{
    enum { N = 300, K = 9 };
    static zt_candidate c[N * K];
    int pick[N];
    uint64_t most = 0, bytes, even;
    draw(c, N, K, 7);
    for (int i = 0; i < N; i++) most += c[i * K + K - 1].bytes;
    int same[N];
    for (int i = 0; i < N; i++) same[i] = 4;
    double uniform = loss_of(c, same, N, K, &even);
    ok(zt_budget(ctx, c, N, K, even, pick) == ZT_OK, "as large as one type for all");
    double got = loss_of(c, pick, N, K, &bytes);
    ok(bytes <= even && (double)bytes > 0.999 * (double)even, "%.4f of the room is filled", (double)bytes / (double)even);
    ok(got < 0.6 * uniform, "and loses %.2f of what that does", got / uniform);
    ok(zt_budget(ctx, c, N, K, most, pick) == ZT_OK, "room for all");
    int best = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < K; k++) best += c[i * K + k].loss < c[i * K + pick[i]].loss;
    ok(best == 0, "is room for the best of each");
}

static void test_edges(zt_ctx *ctx)
{
    zt_candidate c[] = {{10, 5}, {20, INFINITY}, {30, 0}, {10, 1}, {20, 0.5}, {30, INFINITY}};
    int pick[2];
    ok(zt_budget(ctx, c, 2, 3, 19, pick) == ZT_EUSAGE && strstr(zt_ctx_error(ctx), "20"), "too little: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(!zt_budget(ctx, c, 2, 3, 20, pick) && pick[0] == 0 && pick[1] == 0, "just enough");
    ok(!zt_budget(ctx, c, 2, 3, 45, pick) && pick[0] == 2 && pick[1] == 0, "the better use of it");
    ok(!zt_budget(ctx, c, 2, 3, 100, pick) && pick[0] == 2 && pick[1] == 1, "never what must not be");
    ok(!zt_budget(ctx, c, 0, 3, 0, pick), "nothing to choose");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_small(ctx);
    test_large(ctx);
    test_edges(ctx);
    zt_ctx_free(ctx);
    return tap_done();
}
