/* sample.c - chooses the next token from logits.
 *
 * Order: the penalties; temperature 0 takes the best; else top-k, top-p, min-p, then temperature,
 * softmax and one draw. Truncation comes before temperature, as in llama.cpp: a high temperature
 * then flattens only what is worth saying.
 *
 * Candidates are keys in a heap, ids their places: lib/tensor/ranked.h. They leave it best first, only
 * as many as are looked at: with all of 262144 tokens few ever are.
 */
#include "lib/llm/llm.h"
#include "lib/tensor/ranked.h"

#include <float.h>
#include <math.h>
#include <string.h>

zt_sampler zt_sampler_defaults(void)
{
    return (zt_sampler){.temp = 0.8,
                        .top_k = 40,
                        .top_p = 0.95,
                        .min_p = 0.05,
                        .repeat_penalty = 1,
                        .repeat_last = 64};
}

zt_status zt_sampler_check(zt_ctx *ctx, const zt_sampler *s)
{
    if (!(s->temp >= 0) || isinf(s->temp))
        return zt_fail(ctx, ZT_EUSAGE, "temperature %g: 0 or more expected", s->temp);
    if (s->top_k < 0)
        return zt_fail(ctx, ZT_EUSAGE, "top-k %lld: 0 or more expected", (long long)s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return zt_fail(ctx, ZT_EUSAGE, "top-p %g: above 0, at most 1 expected", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return zt_fail(ctx, ZT_EUSAGE, "min-p %g: between 0 and 1 expected", s->min_p);
    if (!(s->repeat_penalty > 0) || isinf(s->repeat_penalty))
        return zt_fail(ctx, ZT_EUSAGE, "repeat penalty %g: above 0 expected", s->repeat_penalty);
    if (s->repeat_last < -1)
        return zt_fail(ctx, ZT_EUSAGE, "repeat-last %lld: -1 or more expected",
                       (long long)s->repeat_last);
    if (!(fabs(s->frequency_penalty) <= FLT_MAX))
        return zt_fail(ctx, ZT_EUSAGE, "frequency penalty %g: a finite number expected",
                       s->frequency_penalty);
    if (!(fabs(s->presence_penalty) <= FLT_MAX))
        return zt_fail(ctx, ZT_EUSAGE, "presence penalty %g: a finite number expected",
                       s->presence_penalty);
    return ZT_OK;
}

bool zt_sampler_penalises(const zt_sampler *s)
{
    return s->repeat_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0;
}

enum { LANES = 16, BLOCK = 512 }; /* logits looked at side by side, and in one go */

/* ---- candidates: a heap in the scratch memory, which is aligned for floats only --------------- */

/* All logits as candidates. x may be the first half of the pool's memory: key i lies at or after
 * logit i, so that going down reads each logit before its place is taken. */
static void take_all(zt_ranked *p, const float *x, int64_t V)
{
    p->n = V;
    for (int64_t i = V; i-- > 0;) {
        float f;
        memcpy(&f, (const unsigned char *)x + 4 * i, sizeof f);
        zt_ranked_set(p, i, zt_ranked_key(f, i));
    }
    int64_t n = 0;
    for (int64_t i = 0; i < V; i++)
        if (zt_ranked_get(p, i))
            zt_ranked_set(p, n++, zt_ranked_get(p, i));
    p->n = n;
}

/* The largest of n numbers, NaN passed over; -inf where there is none. n is a multiple of LANES. */
static float largest(const float *x, int64_t n)
{
    float top[LANES], all = -INFINITY;
    for (int k = 0; k < LANES; k++) top[k] = -INFINITY;
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES; k++) top[k] = x[i + k] > top[k] ? x[i + k] : top[k];
    for (int k = 0; k < LANES; k++) all = top[k] > all ? top[k] : all;
    return all;
}

/* The k best logits: a min-heap of k keys; most logits fail the one comparison with its top,
 * and most blocks of them that of their largest. */
static void take_best(zt_ranked *p, const float *x, int64_t V, int64_t k)
{
    const uint64_t down = ~UINT64_C(0);
    int64_t i = 0;
    for (p->n = 0; p->n < k && i < V; i++)
        if (!isnan(x[i]))
            zt_ranked_set(p, p->n++, zt_ranked_key(x[i], i));
    zt_ranked_heap(p, down);
    float bar = i < V ? (float)zt_ranked_number(zt_ranked_get(p, 0)) : 0;
    for (; i < V; i++) {
        if (i % BLOCK == 0 && V - i >= BLOCK && !(largest(x + i, BLOCK) >= bar)) {
            i += BLOCK - 1;
            continue;
        }
        if (!(x[i] >= bar) || zt_ranked_key(x[i], i) < zt_ranked_get(p, 0))
            continue;
        zt_ranked_sink(p, 0, zt_ranked_key(x[i], i), down);
        bar = (float)zt_ranked_number(zt_ranked_get(p, 0));
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* How often each token of a history is in it: count[id], f32[V], of which no other is written. */
static void count_tokens(const int32_t *history, size_t n, int64_t V, float *count)
{
    for (size_t i = 0; i < n; i++)
        if (history[i] >= 0 && history[i] < V)
            count[history[i]] = 0;
    for (size_t i = 0; i < n; i++)
        if (history[i] >= 0 && history[i] < V)
            count[history[i]]++;
}

/* For each token among the last ones the classical penalty (Keskar et al., CTRL, 2019), then those
 * of frequency and presence, as OpenAI's API and llama.cpp define them. out and count: f32[V]. */
static void penalise(const zt_sampler *s, const float *logits, int64_t V, const int32_t *history,
                     size_t n, float *out, float *count)
{
    size_t last = s->repeat_last < 0 || (uint64_t)s->repeat_last > n ? n : (size_t)s->repeat_last;
    float p = (float)s->repeat_penalty, each = (float)s->frequency_penalty,
          once = (float)s->presence_penalty;
    memcpy(out, logits, (size_t)V * sizeof *out);
    count_tokens(history + (n - last), last, V, count);
    for (size_t i = n - last; i < n; i++) {
        int32_t id = history[i];
        if (id < 0 || id >= V)
            continue;
        float x = logits[id] > 0 ? logits[id] / p : logits[id] * p;
        out[id] = x - (count[id] * each + once);
    }
}

/* Of x[at] (-1: none) and those from `from` to below `to` the largest, the first of equals. */
static int64_t better(const float *x, int64_t from, int64_t to, int64_t at)
{
    for (int64_t i = from; i < to; i++)
        if (!isnan(x[i]) && (at < 0 || x[i] > x[at]))
            at = i;
    return at;
}

/* Of whole blocks only the largest is asked for: then one is looked
 * through, and what is no block. */
static int32_t greedy(const float *x, int64_t V)
{
    int64_t whole = V / BLOCK * BLOCK, first = 0, end = whole;
    float best = -INFINITY;
    for (int64_t b = 0; b < whole; b += BLOCK) {
        float top = largest(x + b, BLOCK);
        if (!(top > best))
            continue;
        best = top;
        first = b;
        end = b + BLOCK;
    }
    return (int32_t)better(x, whole, V, better(x, first, end, -1));
}

/* exp((x - max) / temp); the best weighs 1 even where it is infinite. */
static double weight(uint64_t key, double max, double temp)
{
    double x = zt_ranked_number(key);
    return x == max ? 1 : exp((x - max) / temp);
}

/* Sum of the weights of the candidates from `least` up, in the order in which they lie. */
static double total(const zt_ranked *p, uint64_t least, double max, double temp)
{
    double sum = 0;
    for (int64_t i = p->n; i-- > 0;)
        if (zt_ranked_get(p, i) >= least)
            sum += weight(zt_ranked_get(p, i), max, temp);
    return sum;
}

/* The least candidate of the fewest that have top_p of all weight from `least` up. */
static uint64_t cut_top_p(zt_ranked *p, double top_p, uint64_t least, double max)
{
    double want = top_p * total(p, least, max, 1), sum = 0;
    uint64_t key = least;
    for (int64_t j = 0; j < p->n && sum < want && zt_ranked_best(p, j) >= least; j++) {
        key = zt_ranked_best(p, j);
        sum += weight(key, max, 1);
    }
    return key;
}

/* A key under all whose weight is min_p or more, and above all others. */
static uint64_t cut_min_p(double min_p, double max)
{
    double least = max + log(min_p);
    if (least < -(double)FLT_MAX)
        return 0;
    float f = (float)least;
    if (f < least)
        f = nextafterf(f, INFINITY);
    return zt_ranked_key(f, 0xffffffff);
}

static int32_t draw(zt_ranked *p, uint64_t least, double max, double temp, double u)
{
    double want = u * total(p, least, max, temp), sum = 0;
    uint64_t key = zt_ranked_best(p, 0);
    for (int64_t j = 0; j < p->n && zt_ranked_best(p, j) >= least; j++) {
        key = zt_ranked_best(p, j);
        sum += weight(key, max, temp);
        if (sum > want)
            break;
    }
    return zt_ranked_place(key);
}

int32_t zt_sample(const zt_sampler *s, const float *logits, int64_t V, const int32_t *history,
                  size_t n_history, int64_t position, float *scratch)
{
    const float *x = logits;
    if (zt_sampler_penalises(s)) {
        penalise(s, logits, V, history, n_history, scratch, scratch + V);
        x = scratch;
    }
    if (s->temp == 0)
        return greedy(x, V);
    bool some = s->top_k > 0 && s->top_k <= V / 2; /* so that they fit behind the logits */
    zt_ranked p = {.at = (unsigned char *)(some ? scratch + V : scratch)};
    if (some)
        take_best(&p, x, V, s->top_k);
    else
        take_all(&p, x, V);
    if (p.n == 0)
        return -1;
    zt_ranked_heap(&p, 0);
    double max = zt_ranked_number(zt_ranked_best(&p, 0));
    uint64_t least = s->top_k > 0 && s->top_k < p.n ? zt_ranked_best(&p, s->top_k - 1) : 0;
    if (s->top_p < 1)
        least = cut_top_p(&p, s->top_p, least, max);
    uint64_t bar = s->min_p > 0 ? cut_min_p(s->min_p, max) : 0;
    double u = zt_uniform(s->seed, s->sequence, (uint64_t)position);
    return draw(&p, bar > least ? bar : least, max, s->temp, u);
}
