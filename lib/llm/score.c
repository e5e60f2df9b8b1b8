/* score.c - how likely the model finds what it reads: log probabilities, perplexity of a window.
 *
 * Probabilities are those of the logits as the model gives them, before any sampler. A logit that is
 * no number has none.
 */
#include "lib/llm/llm.h"

#include <math.h>

/* A window's logits are looked at in pieces of about this size. */
#define PIECE_BYTES (32u << 20)

/* log of the sum of all exp(x). exp in f32 is good to 1e-7 of each term; the sum is f64. */
double zt_log_sum_exp(const float *x, int64_t V)
{
    float max = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < V; i++)
        max = x[i] > max ? x[i] : max;
    if (isinf(max))
        return max;
    for (int64_t i = 0; i < V; i++)
        if (!isnan(x[i]))
            sum += expf(x[i] - max);
    return max + log(sum);
}

int zt_likeliest(const float *logits, int64_t V, int n, int32_t *id)
{
    int have = 0;
    for (int64_t i = 0; i < V && n > 0; i++) {
        if (isnan(logits[i]) || (have == n && logits[i] <= logits[id[n - 1]]))
            continue;
        int at = have < n ? have++ : n - 1; /* ties stay in the order of ids */
        for (; at > 0 && logits[i] > logits[id[at - 1]]; at--)
            id[at] = id[at - 1];
        id[at] = (int32_t)i;
    }
    return have;
}

/* ---- windows ----------------------------------------------------------------------------------- */

static void add(zt_score *score, const float *logits, int64_t V, int32_t next)
{
    double nll = zt_log_sum_exp(logits, V) - logits[next];
    score->n++;
    score->sum += nll;
    score->sum2 += nll * nll;
}

zt_status zt_llm_score(zt_llm *m, const int32_t *ids, size_t n, size_t from, zt_score *score)
{
    int64_t V = zt_llm_get(m).vocab;
    size_t most = PIECE_BYTES / ((size_t)V * sizeof(float)) + 1;
    zt_ctx *ctx = zt_llm_ctx(m);
    float *logits = zt_alloc_array(ctx, most, (size_t)V * sizeof(float));
    zt_status s = logits ? zt_llm_rewind(m, 0) : ZT_ENOMEM;
    if (s == ZT_OK)
        s = zt_llm_feed(m, ids, from, false, NULL);
    for (size_t at = from, step; s == ZT_OK && at + 1 < n; at += step) {
        step = n - 1 - at < most ? n - 1 - at : most;
        s = zt_llm_feed(m, ids + at, step, true, logits);
        for (size_t i = 0; s == ZT_OK && i < step; i++)
            add(score, logits + i * (size_t)V, V, ids[at + i + 1]);
    }
    zt_free(ctx, logits);
    return s;
}

double zt_score_perplexity(const zt_score *score, double *error)
{
    double n = (double)score->n, mean = score->sum / n;
    double spread = score->sum2 / n - mean * mean;
    *error = score->n > 1 && spread > 0 ? exp(mean) * sqrt(spread / (n - 1)) : 0;
    return exp(mean);
}
