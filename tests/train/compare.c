/* compare.c - the best of several training methods, and how sure that is. */
#include "lib/zt/train.h"
#include "tests/common/tap.h"

#include <math.h>

static void test_best(void)
{
    ok(zt_best_method((const double[]){90, 95, 80}, (const double[]){.1, .5, .01}, 3) == 1, "the most accurate");
    ok(zt_best_method((const double[]){94.5, 95, 94}, (const double[]){.1, .5, .3}, 3) == 0,
       "within 1 per cent, the lowest loss");
    ok(zt_best_method((const double[]){94, 95, 93.9}, (const double[]){.2, .5, .1}, 3) == 0,
       "1 per cent below is near, more is not");
    ok(zt_best_method((const double[]){93.9, 95, 94}, (const double[]){.1, .5, .2}, 3) == 2, "in any order");
    ok(zt_best_method((const double[]){NAN, NAN}, (const double[]){.3, .2}, 2) == 1, "without accuracies, the lowest loss");
    ok(zt_best_method((const double[]){NAN, 50}, (const double[]){.1, .2}, 2) == 1, "one without an accuracy is behind");
    ok(zt_best_method((const double[]){95, 95}, (const double[]){NAN, 9}, 2) == 1, "no loss is the worst");
    ok(zt_best_method((const double[]){95, 95}, (const double[]){.1, .1}, 2) == 0, "the first of equals");
    ok(zt_best_method(NULL, NULL, 0) == -1, "none of none");
}

static void test_verdict(zt_ctx *ctx)
{
    /* three methods, four seeds: the second is always better than the first by 2; the third is worse */
    const double accuracy[] = {90, 91, 92, 93, 92, 93, 94, 95, 50, 60, 70, 95};
    const double loss[] = {.4, .4, .4, .4, .3, .3, .3, .3, .9, .9, .9, .1};
    double probabilities[3];
    zt_method_verdict verdict;
    zt_status status = zt_compare_methods(ctx, accuracy, loss, 3, 4, 1, &verdict, probabilities);
    ok(!status && verdict.best == 1 && verdict.runner_up == 0, "best and runner-up");
    ok(fabs(verdict.accuracy.mean - 2) < 1e-12 && fabs(verdict.accuracy.low - 2) < 1e-12 &&
           fabs(verdict.accuracy.high - 2) < 1e-12,
       "seeds are the same for every method: a constant difference has no spread");
    /* the third is the best only where all four draws are its last seed, 1 of 256 */
    ok(fabs(probabilities[2] - 1.0 / 256) < 0.005 && fabs(probabilities[0]) < 1e-12 &&
           fabs(verdict.probability - probabilities[1]) < 1e-9,
       "probabilities: %g %g %g", probabilities[0], probabilities[1], probabilities[2]);
    double sum = probabilities[0] + probabilities[1] + probabilities[2];
    ok(fabs(sum - 1) < 1e-9, "they add up to 1");
    zt_method_verdict again;
    zt_compare_methods(ctx, accuracy, loss, 3, 4, 1, &again, NULL);
    ok(again.probability == verdict.probability, "the same seed, the same resamples");
}

static void test_edges(zt_ctx *ctx)
{
    double probabilities[2];
    zt_method_verdict verdict;
    ok(!zt_compare_methods(ctx, (const double[]){90, 80}, (const double[]){1, 2}, 2, 1, 0, &verdict, probabilities) &&
           verdict.best == 0 && isnan(verdict.probability) && isnan(verdict.accuracy.low) && verdict.accuracy.mean == 10 &&
           isnan(probabilities[0]),
       "one seed has no uncertainty");
    ok(!zt_compare_methods(ctx, (const double[]){90, 80}, (const double[]){1, 2}, 1, 2, 0, &verdict, probabilities) &&
           verdict.best == 0 && verdict.runner_up == -1 && verdict.probability == 1 && isnan(verdict.accuracy.mean),
       "one method is the best");
    ok(zt_compare_methods(ctx, NULL, NULL, 1, 1, 0, &verdict, NULL) == ZT_EUSAGE, "nothing to compare");
    zt_ctx_clear(ctx);
    for (uint64_t fail = 1; fail <= 3; fail++) {
        zt_mem_fail(ctx, fail, false);
        ok(zt_compare_methods(ctx, (const double[]){90, 80}, (const double[]){1, 2}, 2, 1, 0, &verdict, NULL) == ZT_ENOMEM,
           "allocation %d fails", (int)fail);
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
    }
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_best();
    test_verdict(ctx);
    test_edges(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
