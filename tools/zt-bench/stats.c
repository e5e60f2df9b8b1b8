/* stats.c - what samples say. Medians, because a busy machine disturbs in one direction only. */
#include "tools/zt-bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_numbers(const void *left, const void *right)
{
    double first, second;
    memcpy(&first, left, sizeof first);
    memcpy(&second, right, sizeof second);
    return (first > second) - (first < second);
}

static double median_of_sorted(const double *sorted, int64_t count)
{
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* How many samples the interval leaves out at each end: the most k for which fewer than 2.5 per
 * cent of all draws have fewer than k of count samples below the true median (binomial, p = 1/2).
 * Nothing is assumed of the distribution. Below six samples that is 0: the interval is all. */
static int64_t left_out(int64_t count)
{
    double below = 0, log_half = -(double)count * log(2);
    for (int64_t k = 0; k < count; k++) {
        below += exp(lgamma((double)count + 1) - lgamma((double)k + 1) - lgamma((double)(count - k) + 1) + log_half);
        if (below > 0.025) return k > 0 ? k - 1 : 0;
    }
    return 0;
}

void bench_sort(double *out, const double *values, int64_t count)
{
    memmove(out, values, (size_t)count * sizeof *values);
    qsort(out, (size_t)count, sizeof *out, compare_numbers);
}

bench_summary bench_summarize(const double *values, int64_t count, double *scratch)
{
    bench_summary summary;
    bench_sort(scratch, values, count);
    int64_t out = left_out(count);
    summary.min = scratch[0];
    summary.max = scratch[count - 1];
    summary.median = median_of_sorted(scratch, count);
    summary.ci95[0] = scratch[out];
    summary.ci95[1] = scratch[count - 1 - out];
    for (int64_t i = 0; i < count; i++) scratch[i] = fabs(values[i] - summary.median);
    qsort(scratch, (size_t)count, sizeof *scratch, compare_numbers);
    summary.mad = median_of_sorted(scratch, count);
    return summary;
}
