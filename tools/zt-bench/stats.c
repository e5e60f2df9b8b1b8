/* stats.c - what samples say. Medians, because a busy machine disturbs in one direction only. */
#include "tools/zt-bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static double median_of_sorted(const double *x, int64_t n)
{
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* How many samples the interval leaves out at each end: the most k for which fewer than 2.5 per
 * cent of all draws have fewer than k of n samples below the true median (binomial, p = 1/2).
 * Nothing is assumed of the distribution. Below six samples that is 0: the interval is all. */
static int64_t left_out(int64_t n)
{
    double below = 0, log_half = -(double)n * log(2);
    for (int64_t k = 0; k < n; k++) {
        below += exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) +
                     log_half);
        if (below > 0.025)
            return k > 0 ? k - 1 : 0;
    }
    return 0;
}

void bench_sort(double *to, const double *x, int64_t n)
{
    memmove(to, x, (size_t)n * sizeof *x);
    qsort(to, (size_t)n, sizeof *to, ascending);
}

bench_summary bench_summarize(const double *x, int64_t n, double *scratch)
{
    bench_summary s;
    bench_sort(scratch, x, n);
    int64_t out = left_out(n);
    s.min = scratch[0];
    s.max = scratch[n - 1];
    s.median = median_of_sorted(scratch, n);
    s.ci95[0] = scratch[out];
    s.ci95[1] = scratch[n - 1 - out];
    for (int64_t i = 0; i < n; i++)
        scratch[i] = fabs(x[i] - s.median);
    qsort(scratch, (size_t)n, sizeof *scratch, ascending);
    s.mad = median_of_sorted(scratch, n);
    return s;
}
