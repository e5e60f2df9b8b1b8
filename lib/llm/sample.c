/* sample.c - chooses the next token from logits.
 *
 * Order: the penalties; temperature 0 takes the best; else top-k, top-p, min-p, then temperature,
 * softmax and one draw. Truncation comes before temperature, as in llama.cpp: a high temperature
 * then flattens only what is worth saying.
 *
 * Candidates are keys in a heap, ids their places: lib/tensor/ranked.h. They leave it best first, only
 * as many as are looked at: with all of 262144 tokens few ever are.
 */
#include "lib/base/require.h"
#include "lib/llm/llm.h"
#include "lib/tensor/ranked.h"

#include <float.h>
#include <math.h>
#include <string.h>

zt_sampler zt_sampler_defaults(void)
{
    return (zt_sampler){.temp = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05, .repeat_penalty = 1, .repeat_last = 64};
}

zt_status zt_sampler_check(zt_ctx *ctx, const zt_sampler *sampler)
{
    ZT_REQUIRE(ctx, sampler, ZT_EUSAGE);
    if (!(sampler->temp >= 0) || isinf(sampler->temp))
        return zt_fail(ctx, ZT_EUSAGE, "temperature is %g, expected a finite number of at least 0", sampler->temp);
    if (sampler->top_k < 0) return zt_fail(ctx, ZT_EUSAGE, "top-k is %lld, expected at least 0", (long long)sampler->top_k);
    if (!(sampler->top_p > 0 && sampler->top_p <= 1))
        return zt_fail(ctx, ZT_EUSAGE, "top-p is %g, expected above 0 and at most 1", sampler->top_p);
    if (!(sampler->min_p >= 0 && sampler->min_p <= 1))
        return zt_fail(ctx, ZT_EUSAGE, "min-p is %g, expected 0 to 1", sampler->min_p);
    if (!(sampler->repeat_penalty > 0) || isinf(sampler->repeat_penalty))
        return zt_fail(ctx, ZT_EUSAGE, "repeat penalty is %g, expected above 0", sampler->repeat_penalty);
    if (sampler->repeat_last < -1)
        return zt_fail(ctx, ZT_EUSAGE, "repeat-last is %lld, expected at least -1", (long long)sampler->repeat_last);
    if (!(fabs(sampler->frequency_penalty) <= FLT_MAX))
        return zt_fail(ctx, ZT_EUSAGE, "frequency penalty is %g, expected a finite number", sampler->frequency_penalty);
    if (!(fabs(sampler->presence_penalty) <= FLT_MAX))
        return zt_fail(ctx, ZT_EUSAGE, "presence penalty is %g, expected a finite number", sampler->presence_penalty);
    return ZT_OK;
}

bool zt_sampler_penalises(const zt_sampler *sampler)
{
    if (!sampler) return false;
    return sampler->repeat_penalty != 1 || sampler->frequency_penalty != 0 || sampler->presence_penalty != 0;
}

enum { LANES = 16, BLOCK = 512 }; /* logits looked at side by side, and in one go */

/* ---- candidates: a heap in the scratch memory, which is aligned for floats only --------------- */

/* All logits as candidates. logits may be the first half of the pool's memory: key i lies at or after
 * logit i, so that going down reads each logit before its place is taken. */
static void rank_all(zt_ranked *ranked, const float *logits, int64_t V)
{
    ranked->count = V;
    for (int64_t i = V; i-- > 0;) {
        float logit;
        memcpy(&logit, (const unsigned char *)logits + 4 * i, sizeof logit);
        zt_ranked_set(ranked, i, zt_ranked_key(logit, i));
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < V; i++)
        if (zt_ranked_get(ranked, i)) zt_ranked_set(ranked, kept++, zt_ranked_get(ranked, i));
    ranked->count = kept;
}

/* The largest of count numbers, NaN passed over; -inf where there is none. count is a multiple of LANES. */
static float largest_logit(const float *logits, int64_t count)
{
    float top[LANES], largest = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) top[lane] = -INFINITY;
    for (int64_t i = 0; i < count; i += LANES)
        for (int lane = 0; lane < LANES; lane++) top[lane] = logits[i + lane] > top[lane] ? logits[i + lane] : top[lane];
    for (int lane = 0; lane < LANES; lane++) largest = top[lane] > largest ? top[lane] : largest;
    return largest;
}

/* The `limit` best logits, as a min-heap of keys. Most logits fail the one comparison with its top, and most blocks fail
 * it by their largest. */
static void rank_best(zt_ranked *ranked, const float *logits, int64_t V, int64_t limit)
{
    const uint64_t down = ~UINT64_C(0);
    int64_t i = 0;
    for (ranked->count = 0; ranked->count < limit && i < V; i++)
        if (!isnan(logits[i])) zt_ranked_set(ranked, ranked->count++, zt_ranked_key(logits[i], i));
    zt_ranked_heap(ranked, down);
    float bar = i < V ? (float)zt_ranked_number(zt_ranked_get(ranked, 0)) : 0;
    for (; i < V; i++) {
        if (i % BLOCK == 0 && V - i >= BLOCK && !(largest_logit(logits + i, BLOCK) >= bar)) {
            i += BLOCK - 1;
            continue;
        }
        if (!(logits[i] >= bar) || zt_ranked_key(logits[i], i) < zt_ranked_get(ranked, 0)) continue;
        zt_ranked_sink(ranked, 0, zt_ranked_key(logits[i], i), down);
        bar = (float)zt_ranked_number(zt_ranked_get(ranked, 0));
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* How often each token of a history is in it: count[id], f32[V], of which no other is written. */
static void count_tokens(const int32_t *history, size_t length, int64_t V, float *count)
{
    for (size_t i = 0; i < length; i++)
        if (history[i] >= 0 && history[i] < V) count[history[i]] = 0;
    for (size_t i = 0; i < length; i++)
        if (history[i] >= 0 && history[i] < V) count[history[i]]++;
}

/* For each token among the last ones the classical penalty (Keskar et al., CTRL, 2019), then those
 * of frequency and presence, as OpenAI's API and llama.cpp define them. out and count: f32[V]. */
static void apply_penalties(const zt_sampler *sampler, const float *logits, int64_t V, const int32_t *history, size_t length,
                            float *out, float *count)
{
    size_t last = sampler->repeat_last < 0 || (uint64_t)sampler->repeat_last > length ? length : (size_t)sampler->repeat_last;
    float penalty = (float)sampler->repeat_penalty, each = (float)sampler->frequency_penalty,
          once = (float)sampler->presence_penalty;
    memcpy(out, logits, (size_t)V * sizeof *out);
    count_tokens(history + (length - last), last, V, count);
    for (size_t i = length - last; i < length; i++) {
        int32_t id = history[i];
        if (id < 0 || id >= V) continue;
        float penalized = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
        out[id] = penalized - (count[id] * each + once);
    }
}

/* Index of the largest of logits[best] (best -1: none) and logits[from..to-1], the first of equals. */
static int64_t better_index(const float *logits, int64_t from, int64_t to, int64_t best)
{
    for (int64_t i = from; i < to; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = i;
    return best;
}

/* Finds the block with the largest logit first, then searches that block and the incomplete last one. */
static int32_t pick_greedy(const float *logits, int64_t V)
{
    int64_t whole = V / BLOCK * BLOCK, first = 0, end = whole;
    float best = -INFINITY;
    for (int64_t block = 0; block < whole; block += BLOCK) {
        float top = largest_logit(logits + block, BLOCK);
        if (!(top > best)) continue;
        best = top;
        first = block;
        end = block + BLOCK;
    }
    return (int32_t)better_index(logits, whole, V, better_index(logits, first, end, -1));
}

/* exp((logit - max) / temp); the best weighs 1 even where it is infinite. */
static double candidate_weight(uint64_t key, double max, double temp)
{
    double logit = zt_ranked_number(key);
    return logit == max ? 1 : exp((logit - max) / temp);
}

/* Sum of the weights of the candidates from `least` up, in the order in which they lie. */
static double total_weight(const zt_ranked *ranked, uint64_t least, double max, double temp)
{
    double sum = 0;
    for (int64_t i = ranked->count; i-- > 0;)
        if (zt_ranked_get(ranked, i) >= least) sum += candidate_weight(zt_ranked_get(ranked, i), max, temp);
    return sum;
}

/* The least candidate of the fewest that have top_p of all weight from `least` up. */
static uint64_t cut_top_p(zt_ranked *ranked, double top_p, uint64_t least, double max)
{
    double target = top_p * total_weight(ranked, least, max, 1), sum = 0;
    uint64_t key = least;
    for (int64_t rank = 0; rank < ranked->count && sum < target && zt_ranked_best(ranked, rank) >= least; rank++) {
        key = zt_ranked_best(ranked, rank);
        sum += candidate_weight(key, max, 1);
    }
    return key;
}

/* A key that is below every candidate of weight min_p or more, and above all others. */
static uint64_t cut_min_p(double min_p, double max)
{
    double least = max + log(min_p);
    if (least < -(double)FLT_MAX) return 0;
    float bound = (float)least;
    if (bound < least) bound = nextafterf(bound, INFINITY);
    return zt_ranked_key(bound, 0xffffffff);
}

static int32_t draw_candidate(zt_ranked *ranked, uint64_t least, double max, double temp, double uniform)
{
    double target = uniform * total_weight(ranked, least, max, temp), sum = 0;
    uint64_t key = zt_ranked_best(ranked, 0);
    for (int64_t rank = 0; rank < ranked->count && zt_ranked_best(ranked, rank) >= least; rank++) {
        key = zt_ranked_best(ranked, rank);
        sum += candidate_weight(key, max, temp);
        if (sum > target) break;
    }
    return zt_ranked_place(key);
}

int32_t zt_sample(const zt_sampler *sampler, const float *logits, int64_t V, const int32_t *history, size_t n_history,
                  int64_t position, float *scratch)
{
    if (!sampler || !logits || (!scratch && (sampler->temp != 0 || zt_sampler_penalises(sampler)))) return -1;
    const float *penalized = logits;
    if (zt_sampler_penalises(sampler)) {
        apply_penalties(sampler, logits, V, history, n_history, scratch, scratch + V);
        penalized = scratch;
    }
    if (sampler->temp == 0) return pick_greedy(penalized, V);
    bool limited = sampler->top_k > 0 && sampler->top_k <= V / 2; /* so that they fit behind the logits */
    zt_ranked ranked = {.keys = (unsigned char *)(limited ? scratch + V : scratch)};
    if (limited)
        rank_best(&ranked, penalized, V, sampler->top_k);
    else
        rank_all(&ranked, penalized, V);
    if (ranked.count == 0) return -1;
    zt_ranked_heap(&ranked, 0);
    double max = zt_ranked_number(zt_ranked_best(&ranked, 0));
    uint64_t least = sampler->top_k > 0 && sampler->top_k < ranked.count ? zt_ranked_best(&ranked, sampler->top_k - 1) : 0;
    if (sampler->top_p < 1) least = cut_top_p(&ranked, sampler->top_p, least, max);
    uint64_t bar = sampler->min_p > 0 ? cut_min_p(sampler->min_p, max) : 0;
    double uniform = zt_uniform(sampler->seed, sampler->sequence, (uint64_t)position);
    return draw_candidate(&ranked, bar > least ? bar : least, max, sampler->temp, uniform);
}
