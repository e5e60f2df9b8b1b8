/* score.c - how likely the model finds what it reads: log probabilities, perplexity of a window.
 *
 * Probabilities are those of the logits as the model gives them,
 * before any sampler. A logit that is no number has none.
 */
#include "lib/llm/llm.h"

#include <inttypes.h>
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

/* ---- windows --------------------------------------------------------------------------------- */

static void add(zt_score *score, double nll)
{
    score->count++;
    score->sum += nll;
    score->sum2 += nll * nll;
}

/* What a window's rows of logits go to: one of each model, and the token that came next. */
typedef struct sides {
    zt_llm *m[2]; /* the second may be NULL */
    zt_score *score[2];
    zt_kl *kl;
    int64_t V;
} sides;

/* shift: of the token's negative log probability, from a to b. */
static zt_status add_pair(const sides *s, const float *const row[2], double shift)
{
    zt_kl *kl = s->kl;
    int32_t top[2] = {-1, -1};
    if (kl->count == kl->capacity) {
        int64_t cap = kl->capacity ? 2 * kl->capacity : 1024;
        double *each = zt_realloc(zt_llm_ctx(s->m[0]), kl->each, (size_t)cap * sizeof *each);
        if (!each) return ZT_ENOMEM;
        kl->each = each;
        kl->capacity = cap;
    }
    for (int k = 0; k < 2; k++) zt_likeliest(row[k], s->V, 1, &top[k]);
    kl->each[kl->count++] = zt_kl_row(row[0], row[1], s->V);
    kl->same_top += top[0] == top[1];
    kl->shift += shift;
    kl->shift2 += shift * shift;
    return ZT_OK;
}

static zt_status add_row(const sides *s, const float *const row[2], int32_t next)
{
    double nll[2] = {0, 0};
    for (int k = 0; k < 2 && s->m[k]; k++) {
        nll[k] = zt_log_sum_exp(row[k], s->V) - row[k][next];
        add(s->score[k], nll[k]);
    }
    return s->kl ? add_pair(s, row, nll[1] - nll[0]) : ZT_OK;
}

/* Tokens [at, at + n) to each model, and their rows. logits: [2][most rows, V]. */
static zt_status score_piece(const sides *s, const int32_t *ids, size_t at, size_t n,
                             float *const logits[2])
{
    zt_status st = ZT_OK;
    for (int k = 0; k < 2 && s->m[k] && st == ZT_OK; k++)
        st = zt_llm_feed(s->m[k], ids + at, n, true, logits[k]);
    for (size_t i = 0; st == ZT_OK && i < n; i++) {
        size_t row = i * (size_t)s->V;
        st = add_row(s, (const float *[2]){logits[0] + row, logits[1] + (s->m[1] ? row : 0)},
                     ids[at + i + 1]);
    }
    return st;
}

static zt_status score_sides(const sides *s, const int32_t *ids, size_t n, size_t from)
{
    size_t most = PIECE_BYTES / ((size_t)s->V * sizeof(float)) + 1;
    int two = s->m[1] ? 2 : 1;
    zt_ctx *ctx = zt_llm_ctx(s->m[0]);
    float *room = zt_alloc_array(ctx, two * most, (size_t)s->V * sizeof(float));
    float *const logits[2] = {room, room ? room + (size_t)(two - 1) * most * (size_t)s->V : NULL};
    zt_status st = room ? ZT_OK : ZT_ENOMEM;
    for (int k = 0; k < two && st == ZT_OK; k++) {
        st = zt_llm_rewind(s->m[k], 0);
        if (st == ZT_OK) st = zt_llm_feed(s->m[k], ids, from, false, NULL);
    }
    for (size_t at = from, step; st == ZT_OK && at + 1 < n; at += step) {
        step = n - 1 - at < most ? n - 1 - at : most;
        st = score_piece(s, ids, at, step, logits);
    }
    zt_free(ctx, room);
    return st;
}

zt_status zt_llm_score(zt_llm *m, const int32_t *ids, size_t n, size_t from, zt_score *score)
{
    sides s = {.m = {m}, .score = {score}, .V = zt_llm_get(m).vocab};
    return score_sides(&s, ids, n, from);
}

zt_status zt_llm_score_pair(zt_llm *a, zt_llm *b, const int32_t *ids, size_t n, size_t from,
                            zt_score *score_a, zt_score *score_b, zt_kl *kl)
{
    sides s = {{a, b}, {score_a, score_b}, kl, zt_llm_get(a).vocab};
    int64_t other = zt_llm_get(b).vocab;
    if (other != s.V)
        return zt_fail(zt_llm_ctx(a), ZT_EUSAGE,
                       "vocabularies of %" PRId64 " and of %" PRId64 " tokens", s.V, other);
    return score_sides(&s, ids, n, from);
}

int32_t *zt_score_window(const zt_vocab *v, zt_ids *ids, int64_t size, int64_t i)
{
    int32_t bos = zt_vocab_bos(v), *window = ids->id + i * size;
    if (bos >= 0 && ids->id[0] == bos) window[0] = bos;
    return window;
}

/* The mean of n numbers of this sum and these squares, and its standard error. */
static double mean_of(double sum, double sum2, int64_t count, double *error)
{
    double n = (double)count, mean = sum / n, spread = sum2 / n - mean * mean;
    *error = count > 1 && spread > 0 ? sqrt(spread / (n - 1)) : 0;
    return mean;
}

double zt_score_perplexity(const zt_score *score, double *error)
{
    double perplexity = exp(mean_of(score->sum, score->sum2, score->count, error));
    *error *= perplexity;
    return perplexity;
}
