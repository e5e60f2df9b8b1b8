/* kl.c - how far one model's probabilities are from another's, token by token (zt_kl in llm.h). */
#include "lib/llm/llm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float largest(const float *x, int64_t V)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < V; i++) max = x[i] > max ? x[i] : max;
    return max;
}

/* With e = exp(a - max a): sum e (a - b) / sum e, less the difference of both log sums. What
 * rounding leaves below 0 is 0; of equal rows it is 0 exactly. */
double zt_kl_row(const float *a, const float *b, int64_t V)
{
    double top_a = largest(a, V), top_b = largest(b, V), sum_a = 0, sum_b = 0, apart = 0;
    if (isinf(top_a) || isinf(top_b)) return NAN;
    for (int64_t i = 0; i < V; i++) {
        double e = isnan(a[i]) ? 0 : exp(a[i] - top_a);
        if (!isnan(b[i])) sum_b += exp(b[i] - top_b);
        if (e == 0) continue;
        sum_a += e;
        apart += isnan(b[i]) ? INFINITY : e * ((double)a[i] - b[i]);
    }
    double kl = apart / sum_a - (top_a + log(sum_a)) + (top_b + log(sum_b));
    return kl < 0 ? 0 : kl;
}

double zt_kl_mean(const zt_kl *kl, double *error)
{
    double sum = 0, off = 0, n = (double)kl->count;
    for (int64_t i = 0; i < kl->count; i++) sum += kl->each[i];
    for (int64_t i = 0; i < kl->count; i++) off += (kl->each[i] - sum / n) * (kl->each[i] - sum / n);
    *error = kl->count > 1 ? sqrt(off / (n - 1) / n) : 0;
    return sum / n;
}

double zt_kl_ratio(const zt_kl *kl, double *error)
{
    double n = (double)kl->count, mean = kl->shift / n, spread = kl->shift2 / n - mean * mean;
    *error = kl->count > 1 && spread > 0 ? exp(mean) * sqrt(spread / (n - 1)) : 0;
    return exp(mean);
}

/* NaN comes last. */
static int ascending(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

void zt_kl_sort(zt_kl *kl)
{
    if (kl->count) qsort(kl->each, (size_t)kl->count, sizeof *kl->each, ascending);
}

double zt_kl_quantile(const zt_kl *kl, double q)
{
    double at = q * (double)(kl->count - 1), below = floor(at);
    int64_t i = (int64_t)below;
    double x = kl->each[i];
    return i + 1 < kl->count && at > below ? x + (at - below) * (kl->each[i + 1] - x) : x;
}

void zt_kl_fini(zt_ctx *ctx, zt_kl *kl)
{
    zt_free(ctx, kl->each);
    *kl = (zt_kl){0};
}
