/* kl.c - how far one model's probabilities are from another's, token by token (zt_kl in llm.h). */
#include "lib/llm/llm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float largest_logit(const float *x, int64_t V)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < V; i++) max = x[i] > max ? x[i] : max;
    return max;
}

/* With weight[i] = exp(base[i] - max base):
 *
 *     KL = sum(weight * (base - other)) / sum(weight) - log_sum_exp(base) + log_sum_exp(other)
 *
 * A result below 0 by rounding becomes 0; equal rows give 0 exactly. */
double zt_kl_row(const float *base, const float *other, int64_t V)
{
    double base_max = largest_logit(base, V), other_max = largest_logit(other, V), base_sum = 0, other_sum = 0, difference = 0;
    if (isinf(base_max) || isinf(other_max))
        return NAN;
    for (int64_t i = 0; i < V; i++) {
        double weight = isnan(base[i]) ? 0 : exp(base[i] - base_max);
        if (!isnan(other[i]))
            other_sum += exp(other[i] - other_max);
        if (weight == 0)
            continue;
        base_sum += weight;
        difference += isnan(other[i]) ? INFINITY : weight * ((double)base[i] - other[i]);
    }
    double kl = difference / base_sum - (base_max + log(base_sum)) + (other_max + log(other_sum));
    return kl < 0 ? 0 : kl;
}

double zt_kl_mean(const zt_kl *kl, double *error)
{
    double sum = 0, squares = 0, count = (double)kl->count;
    for (int64_t i = 0; i < kl->count; i++) sum += kl->each[i];
    for (int64_t i = 0; i < kl->count; i++)
        squares += (kl->each[i] - sum / count) * (kl->each[i] - sum / count);
    *error = kl->count > 1 ? sqrt(squares / (count - 1) / count) : 0;
    return sum / count;
}

double zt_kl_ratio(const zt_kl *kl, double *error)
{
    double count = (double)kl->count, mean = kl->shift / count, spread = kl->shift2 / count - mean * mean;
    *error = kl->count > 1 && spread > 0 ? exp(mean) * sqrt(spread / (count - 1)) : 0;
    return exp(mean);
}

/* NaN comes last. */
static int compare_ascending(const void *a, const void *b)
{
    double left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    if (isnan(left) || isnan(right))
        return isnan(left) - isnan(right);
    return (left > right) - (left < right);
}

void zt_kl_sort(zt_kl *kl)
{
    if (kl->count)
        qsort(kl->each, (size_t)kl->count, sizeof *kl->each, compare_ascending);
}

double zt_kl_quantile(const zt_kl *kl, double fraction)
{
    double at = fraction * (double)(kl->count - 1), below = floor(at);
    int64_t index = (int64_t)below;
    double value = kl->each[index];
    return index + 1 < kl->count && at > below ? value + (at - below) * (kl->each[index + 1] - value) : value;
}

void zt_kl_fini(zt_ctx *ctx, zt_kl *kl)
{
    zt_free(ctx, kl->each);
    *kl = (zt_kl){0};
}
