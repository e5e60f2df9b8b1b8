/* sample.c - chooses the next token from logits.
 *
 * Order: repeat penalty; temperature 0 takes the best; else top-k, top-p, min-p, then temperature,
 * softmax and one draw. Truncation comes before temperature, as in llama.cpp: a high temperature
 * then flattens only what is worth saying.
 *
 * A candidate is one 64-bit key: the logit as an integer of the same order above, the id turned
 * round below. Keys are all different, so that every order here is total: ties go to the lower id,
 * and equal logits give equal bits whatever was sorted before. Candidates lie in a heap and leave
 * it best first, only as many as are looked at: with all of 262144 tokens few ever are.
 */
#include "lib/llm/llm.h"

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
    return ZT_OK;
}

enum { LANES = 16, BLOCK = 512 }; /* logits looked at side by side, and in one go */

/* ---- keys ------------------------------------------------------------------------------------ */

static uint64_t key_of(float logit, int64_t id)
{
    uint32_t bits;
    float f = logit + 0.0f; /* -0 is 0 */
    memcpy(&bits, &f, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (0xffffffffu - (uint32_t)id);
}

static double logit_of(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    float f;
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static int32_t id_of(uint64_t key)
{
    return (int32_t)(0xffffffffu - (uint32_t)key);
}

/* ---- candidates: a max-heap in the scratch memory, which is aligned for floats only ---------- */

typedef struct pool {
    unsigned char *at;
    int64_t left; /* still in the heap: keys 0 .. left - 1 */
    int64_t n;    /* all: those that left lie behind, the best last */
} pool;

static uint64_t get(const pool *p, int64_t i)
{
    uint64_t key;
    memcpy(&key, p->at + 8 * i, sizeof key);
    return key;
}

static void set(pool *p, int64_t i, uint64_t key)
{
    memcpy(p->at + 8 * i, &key, sizeof key);
}

/* `flip` turns the order round: all ones makes the smallest key the top. */
static void sift_down(pool *p, int64_t n, int64_t i, uint64_t key, uint64_t flip)
{
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && (get(p, c + 1) ^ flip) > (get(p, c) ^ flip))
            c++;
        if ((get(p, c) ^ flip) <= (key ^ flip))
            break;
        set(p, i, get(p, c));
    }
    set(p, i, key);
}

static void make_heap(pool *p, uint64_t flip)
{
    for (int64_t i = p->n / 2; i-- > 0;)
        sift_down(p, p->n, i, get(p, i), flip);
}

/* The j-th best candidate. */
static uint64_t best(pool *p, int64_t j)
{
    while (p->left > 0 && p->n - p->left <= j) {
        uint64_t top = get(p, 0);
        p->left--;
        sift_down(p, p->left, 0, get(p, p->left), 0);
        set(p, p->left, top);
    }
    return get(p, p->n - 1 - j);
}

/* All logits as candidates. x may be the first half of the pool's memory: key i lies at or after
 * logit i, so that going down reads each logit before its place is taken. */
static void take_all(pool *p, const float *x, int64_t V)
{
    p->n = V;
    for (int64_t i = V; i-- > 0;) {
        float f;
        memcpy(&f, (const unsigned char *)x + 4 * i, sizeof f);
        set(p, i, isnan(f) ? 0 : key_of(f, i));
    }
    int64_t n = 0;
    for (int64_t i = 0; i < V; i++)
        if (get(p, i))
            set(p, n++, get(p, i));
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
static void take_best(pool *p, const float *x, int64_t V, int64_t k)
{
    const uint64_t down = ~UINT64_C(0);
    int64_t i = 0;
    for (p->n = 0; p->n < k && i < V; i++)
        if (!isnan(x[i]))
            set(p, p->n++, key_of(x[i], i));
    make_heap(p, down);
    float bar = i < V ? (float)logit_of(get(p, 0)) : 0;
    for (; i < V; i++) {
        if (i % BLOCK == 0 && V - i >= BLOCK && !(largest(x + i, BLOCK) >= bar)) {
            i += BLOCK - 1;
            continue;
        }
        if (!(x[i] >= bar) || key_of(x[i], i) < get(p, 0))
            continue;
        sift_down(p, k, 0, key_of(x[i], i), down);
        bar = (float)logit_of(get(p, 0));
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* The classical penalty (Keskar et al., CTRL, 2019), once for each token among the last ones. */
static void penalise(const zt_sampler *s, const float *logits, int64_t V, const int32_t *history,
                     size_t n, float *out)
{
    size_t last = s->repeat_last < 0 || (uint64_t)s->repeat_last > n ? n : (size_t)s->repeat_last;
    float p = (float)s->repeat_penalty;
    memcpy(out, logits, (size_t)V * sizeof *out);
    for (size_t i = n - last; i < n; i++) {
        int32_t id = history[i];
        if (id >= 0 && id < V)
            out[id] = logits[id] > 0 ? logits[id] / p : logits[id] * p;
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
    double x = logit_of(key);
    return x == max ? 1 : exp((x - max) / temp);
}

/* Sum of the weights of the candidates from `least` up, in the order in which they lie. */
static double total(const pool *p, uint64_t least, double max, double temp)
{
    double sum = 0;
    for (int64_t i = p->n; i-- > 0;)
        if (get(p, i) >= least)
            sum += weight(get(p, i), max, temp);
    return sum;
}

/* The least candidate of the fewest that have top_p of all weight from `least` up. */
static uint64_t cut_top_p(pool *p, double top_p, uint64_t least, double max)
{
    double want = top_p * total(p, least, max, 1), sum = 0;
    uint64_t key = least;
    for (int64_t j = 0; j < p->n && sum < want && best(p, j) >= least; j++) {
        key = best(p, j);
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
    return key_of(f, 0xffffffff);
}

static int32_t draw(pool *p, uint64_t least, double max, double temp, double u)
{
    double want = u * total(p, least, max, temp), sum = 0;
    uint64_t key = best(p, 0);
    for (int64_t j = 0; j < p->n && best(p, j) >= least; j++) {
        key = best(p, j);
        sum += weight(key, max, temp);
        if (sum > want)
            break;
    }
    return id_of(key);
}

int32_t zt_sample(const zt_sampler *s, const float *logits, int64_t V, const int32_t *history,
                  size_t n_history, int64_t position, float *scratch)
{
    const float *x = logits;
    if (s->repeat_penalty != 1) {
        penalise(s, logits, V, history, n_history, scratch);
        x = scratch;
    }
    if (s->temp == 0)
        return greedy(x, V);
    bool some = s->top_k > 0 && s->top_k <= V / 2; /* so that they fit behind the logits */
    pool p = {.at = (unsigned char *)(some ? scratch + V : scratch)};
    if (some)
        take_best(&p, x, V, s->top_k);
    else
        take_all(&p, x, V);
    if (p.n == 0)
        return -1;
    make_heap(&p, 0);
    p.left = p.n;
    double max = logit_of(best(&p, 0));
    uint64_t least = s->top_k > 0 && s->top_k < p.n ? best(&p, s->top_k - 1) : 0;
    if (s->top_p < 1)
        least = cut_top_p(&p, s->top_p, least, max);
    uint64_t bar = s->min_p > 0 ? cut_min_p(s->min_p, max) : 0;
    double u = zt_uniform(s->seed, s->sequence, (uint64_t)position);
    return draw(&p, bar > least ? bar : least, max, s->temp, u);
}
