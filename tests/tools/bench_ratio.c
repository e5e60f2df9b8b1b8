/* bench_ratio.c - zt-bench's interval of a ratio: what it holds, how often, and when nothing. */
#include "tools/zt-bench/ratio.c"

#include "tests/common/tap.h"

#include <string.h>

static zt_ctx *ctx;

static bench_ratio ratio(const double *old, int64_t n_old, const double *now, int64_t n_now, bool paired)
{
    bench_ratio r = {0, {0, 0}};
    ok(bench_ratio_of(ctx, (bench_samples){old, n_old}, (bench_samples){now, n_now}, paired, 7, &r) == ZT_OK &&
           r.ci95[0] <= r.ratio && r.ratio <= r.ci95[1],
       "%lld samples and %lld%s: %g in [%g, %g]", (long long)n_old, (long long)n_now, paired ? ", pairs" : "", r.ratio, r.ci95[0],
       r.ci95[1]);
    return r;
}

static void test_known(void)
{
    const double one[] = {2, 2, 2, 2, 2, 2, 2, 2}, three[] = {3, 3, 3, 3, 3, 3, 3, 3};
    const double even[] = {1, 2, 3, 10}, odd[] = {5, 1, 100};
    bench_ratio r = ratio(one, 8, three, 8, false);
    ok(r.ratio == 1.5 && r.ci95[0] == 1.5 && r.ci95[1] == 1.5, "without noise there is none");
    r = ratio(one, 8, three, 8, true);
    ok(r.ratio == 1.5 && r.ci95[0] == 1.5 && r.ci95[1] == 1.5, "of pairs neither");
    ok(ratio(one, 4, even, 4, false).ratio == 1.25, "of an even number the mean of two");
    ok(ratio(one, 3, odd, 3, false).ratio == 2.5, "of an odd number the middle");
    for (int n = 1; n <= 7; n++) {
        ok(isinf(ratio(one, n, three, 8, false).ci95[1]) == (n < 4), "%d old samples", n);
        ok(isinf(ratio(one, 8, three, n, false).ci95[1]) == (n < 4), "%d new samples", n);
        ok(isinf(ratio(one, n, three, n, true).ci95[1]) == (n < 6), "%d pairs", n);
    }
}

static void test_draws(void)
{
    double a[40], b[40];
    bench_ratio r[3];
    bench_samples old = {a, 40}, now = {b, 40};
    for (int i = 0; i < 40; i++) {
        a[i] = exp(.1 * zt_normal(1, 0, (uint64_t)i));
        b[i] = exp(.1 * zt_normal(2, 0, (uint64_t)i));
    }
    for (int i = 0; i < 3; i++) bench_ratio_of(ctx, old, now, false, i ? 9 : 8, &r[i]);
    ok(!memcmp(&r[1], &r[2], sizeof r[1]), "one seed, one answer");
    ok(r[0].ratio == r[1].ratio && memcmp(r[0].ci95, r[1].ci95, sizeof r[0].ci95), "another seed draws others");
    ok(fabs(r[0].ci95[0] - r[1].ci95[0]) < .01 && fabs(r[0].ci95[1] - r[1].ci95[1]) < .01, "that say nearly the same");
}

/* ---- how often the interval holds the truth -------------------------------------------------- */

typedef double noise_fn(uint64_t seed, uint64_t i);

static double plain(uint64_t seed, uint64_t i) { return 1 + .03 * zt_normal(seed, 0, i); }

/* Mostly quiet, and a fifth of the samples late: what a busy machine does. */
static double spikes(uint64_t seed, uint64_t i)
{
    double late = zt_uniform(seed, 1, i) < .2 ? -.3 * log(1 - zt_uniform(seed, 2, i)) : 0;
    return 1 + .005 * zt_normal(seed, 0, i) + late;
}

/* Two speeds, as of a page that lies well or not. */
static double two_speeds(uint64_t seed, uint64_t i)
{
    return 1 + .005 * zt_normal(seed, 0, i) + (zt_uniform(seed, 1, i) < .5 ? .05 : 0);
}

/* The share of experiments whose interval holds 1, where the truth is 1. drift: both sides of a
 * pair become slower together, by as much, from first to last. */
static double share_held(noise_fn *noise, int count, bool paired, double drift)
{
    enum { EXPERIMENTS = 100 };
    double a[64], b[64];
    int in = 0;
    for (uint64_t e = 0; e < EXPERIMENTS; e++) {
        for (int i = 0; i < count; i++) {
            double slow = 1 + drift * i / count;
            a[i] = slow * noise(2 * e, (uint64_t)i);
            b[i] = slow * noise(2 * e + 1, (uint64_t)i);
        }
        bench_ratio r;
        bench_samples old = {a, count}, now = {b, count};
        if (bench_ratio_of(ctx, old, now, paired, e, &r)) return 0;
        in += r.ci95[0] <= 1 && 1 <= r.ci95[1];
    }
    return (double)in / EXPERIMENTS;
}

static void test_held(void)
{
    static const struct {
        const char *name;
        noise_fn *noise;
    } kinds[] = {{"plain", plain}, {"spikes", spikes}, {"two speeds", two_speeds}};
    static const int sizes[] = {6, 20};
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 2; s++)
            for (int paired = 0; paired < 2; paired++) {
                double share = share_held(kinds[k].noise, sizes[s], paired, 0);
                ok(share >= .91, "%s, %d samples%s: the truth is within in %.1f%%", kinds[k].name, sizes[s],
                   paired ? " in pairs" : "", 100 * share);
            }
    ok(share_held(plain, 20, true, .5) >= .91, "a machine half as slow again at the end: pairs hold it");
}

/* As compare --vs takes pairs: 20, 40, 80, until the interval lies on one side of a twentieth slower
 * than before, which here it is: what it says then holds the truth, though it was waited for. */
static void test_looks(void)
{
    enum { EXPERIMENTS = 200, FIRST = 20, LAST = FIRST << (BENCH_MOST_LOOKS - 1) };
    double a[LAST], b[LAST];
    int in = 0;
    for (uint64_t e = 0; e < EXPERIMENTS; e++) {
        bench_ratio r = {1, {0, INFINITY}};
        for (int i = 0; i < LAST; i++) {
            a[i] = plain(2 * e, (uint64_t)i);
            b[i] = 1.05 * plain(2 * e + 1, (uint64_t)i);
        }
        for (int n = FIRST; n <= LAST && r.ci95[0] <= 1.05 && r.ci95[1] >= 1.05; n *= 2) {
            bench_samples old = {a, n}, now = {b, n};
            if (bench_ratio_of(ctx, old, now, BENCH_MOST_LOOKS, e, &r)) break;
        }
        in += r.ci95[0] <= 1.05 && 1.05 <= r.ci95[1];
    }
    ok(in >= .93 * EXPERIMENTS, "at the threshold, up to %d looks: the truth is within in %d of %d", BENCH_MOST_LOOKS, in,
       EXPERIMENTS);
    double width[BENCH_MOST_LOOKS];
    for (int looks = 1; looks <= BENCH_MOST_LOOKS; looks++) {
        bench_ratio r;
        bench_samples old = {a, 40}, now = {b, 40};
        bench_ratio_of(ctx, old, now, looks, 7, &r);
        width[looks - 1] = r.ci95[1] - r.ci95[0];
    }
    ok(width[0] < width[1] && width[1] < width[2], "an interval of more looks is wider: %g, %g, %g", width[0], width[1],
       width[2]);
}

/* A machine that becomes slower hides a tenth from two heaps of samples, not from pairs. */
static void test_drift(void)
{
    double a[20], b[20];
    bench_ratio heap, pairs;
    for (int i = 0; i < 20; i++) {
        double slow = 1 + .5 * i / 20;
        a[i] = slow * (1 + .01 * zt_normal(3, 0, (uint64_t)i));
        b[i] = 1.1 * slow * (1 + .01 * zt_normal(4, 0, (uint64_t)i));
    }
    heap = ratio(a, 20, b, 20, false);
    pairs = ratio(a, 20, b, 20, true);
    ok(heap.ci95[0] < 1.05, "unpaired the interval goes down to %g", heap.ci95[0]);
    ok(pairs.ci95[0] > 1.08 && pairs.ci95[1] < 1.12, "of pairs it is [%g, %g]", pairs.ci95[0], pairs.ci95[1]);
}

static void test_memory(void)
{
    const double x[] = {1, 2, 3, 4, 5, 6};
    int refused = 0;
    for (uint64_t nth = 1; nth < 20; nth++) {
        bench_ratio r;
        zt_mem_fail(ctx, nth, false);
        bench_samples same = {x, 6};
        zt_status status = bench_ratio_of(ctx, same, same, false, 0, &r);
        refused += status == ZT_ENOMEM;
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
    }
    ok(refused == 7 && zt_mem_get(ctx).blocks == 0, "out of memory is told, %d times", refused);
}

int main(void)
{
    ctx = zt_ctx_new();
    test_known();
    test_draws();
    test_held();
    test_looks();
    test_drift();
    test_memory();
    zt_ctx_free(ctx);
    return tap_done();
}
