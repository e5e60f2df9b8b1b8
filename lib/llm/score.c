/* score.c - log probabilities of a text, perplexity of windows, the divergence of two models.
 *
 * Probabilities come from the model's logits, before any sampler. A logit that is NaN has probability 0.
 */
#include "lib/base/require.h"
#include "lib/llm/llm.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A window's logits are looked at in pieces of about this size. */
#define PIECE_BYTES (32u << 20)

/* log of the sum of all exp(logits). exp in f32 is good to 1e-7 of each term; the sum is f64. */
double zt_log_sum_exp(const float *logits, int64_t V)
{
    if (!logits) return 0;
    float max = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < V; i++) max = logits[i] > max ? logits[i] : max;
    if (isinf(max)) return max;
    for (int64_t i = 0; i < V; i++)
        if (!isnan(logits[i])) sum += expf(logits[i] - max);
    return max + log(sum);
}

int zt_likeliest(const float *logits, int64_t V, int limit, int32_t *ids)
{
    if (!logits || !ids) return 0;
    int count = 0;
    for (int64_t i = 0; i < V && limit > 0; i++) {
        if (isnan(logits[i]) || (count == limit && logits[i] <= logits[ids[limit - 1]])) continue;
        int place = count < limit ? count++ : limit - 1; /* ties stay in the order of ids */
        for (; place > 0 && logits[i] > logits[ids[place - 1]]; place--) ids[place] = ids[place - 1];
        ids[place] = (int32_t)i;
    }
    return count;
}

/* ---- windows --------------------------------------------------------------------------------- */

static void add_token_score(zt_score *score, double nll)
{
    score->count++;
    score->sum += nll;
    score->sum2 += nll * nll;
}

/* The one or two models that score a window, and where their results go. */
typedef struct scored_models {
    zt_llm *model[2]; /* the second may be NULL */
    zt_score *score[2];
    zt_kl *kl;
    int64_t V;
} scored_models;

/* shift: of the token's negative log probability, from a to b. */
static zt_status add_pair(const scored_models *scored, const float *const row[2], double shift)
{
    zt_kl *kl = scored->kl;
    int32_t best[2] = {-1, -1};
    if (kl->count == kl->capacity) {
        int64_t cap = kl->capacity ? 2 * kl->capacity : 1024;
        double *each = zt_realloc(zt_llm_ctx(scored->model[0]), kl->each, (size_t)cap * sizeof *each);
        if (!each) return ZT_ENOMEM;
        kl->each = each;
        kl->capacity = cap;
    }
    for (int which = 0; which < 2; which++) zt_likeliest(row[which], scored->V, 1, &best[which]);
    kl->each[kl->count++] = zt_kl_row(row[0], row[1], scored->V);
    kl->same_top += best[0] == best[1];
    kl->shift += shift;
    kl->shift2 += shift * shift;
    return ZT_OK;
}

static zt_status add_row(const scored_models *scored, const float *const row[2], int32_t next)
{
    double nll[2] = {0, 0};
    for (int which = 0; which < 2 && scored->model[which]; which++) {
        nll[which] = zt_log_sum_exp(row[which], scored->V) - row[which][next];
        add_token_score(scored->score[which], nll[which]);
    }
    return scored->kl ? add_pair(scored, row, nll[1] - nll[0]) : ZT_OK;
}

/* Tokens [at, at + token_count) to each model, and their rows. logits: [2][most rows, V]. */
static zt_status score_piece(const scored_models *scored, const int32_t *ids, size_t first, size_t token_count,
                             float *const logits[2])
{
    zt_status status = ZT_OK;
    for (int which = 0; which < 2 && scored->model[which] && status == ZT_OK; which++)
        status = zt_llm_feed(scored->model[which], ids + first, token_count, true, logits[which]);
    for (size_t i = 0; status == ZT_OK && i < token_count; i++) {
        size_t row = i * (size_t)scored->V;
        status =
            add_row(scored, (const float *[2]){logits[0] + row, logits[1] + (scored->model[1] ? row : 0)}, ids[first + i + 1]);
    }
    return status;
}

static zt_status score_sides(const scored_models *scored, const int32_t *ids, size_t token_count, size_t from)
{
    size_t max_rows = PIECE_BYTES / ((size_t)scored->V * sizeof(float)) + 1;
    int model_count = scored->model[1] ? 2 : 1;
    zt_ctx *ctx = zt_llm_ctx(scored->model[0]);
    float *memory = zt_alloc_array(ctx, model_count * max_rows, (size_t)scored->V * sizeof(float));
    float *const logits[2] = {memory, memory ? memory + (size_t)(model_count - 1) * max_rows * (size_t)scored->V : NULL};
    zt_status status = memory ? ZT_OK : ZT_ENOMEM;
    for (int which = 0; which < model_count && status == ZT_OK; which++) {
        status = zt_llm_rewind(scored->model[which], 0);
        if (status == ZT_OK) status = zt_llm_feed(scored->model[which], ids, from, false, NULL);
    }
    for (size_t first = from, step; status == ZT_OK && first + 1 < token_count; first += step) {
        step = token_count - 1 - first < max_rows ? token_count - 1 - first : max_rows;
        status = score_piece(scored, ids, first, step, logits);
    }
    zt_free(ctx, memory);
    return status;
}

zt_status zt_llm_score(zt_llm *model, const int32_t *ids, size_t token_count, size_t from, zt_score *score)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(zt_llm_ctx(model), ids || !token_count, ZT_EUSAGE);
    scored_models scored = {.model = {model}, .score = {score}, .V = zt_llm_get(model).vocab};
    return score_sides(&scored, ids, token_count, from);
}

zt_status zt_llm_score_pair(zt_llm *base, zt_llm *other, const int32_t *ids, size_t token_count, size_t from,
                            zt_score *base_score, zt_score *other_score, zt_kl *kl)
{
    if (!base) return ZT_EUSAGE;
    ZT_REQUIRE(zt_llm_ctx(base), other && (ids || !token_count), ZT_EUSAGE);
    scored_models scored = {{base, other}, {base_score, other_score}, kl, zt_llm_get(base).vocab};
    int64_t other_vocab = zt_llm_get(other).vocab;
    if (other_vocab != scored.V)
        return zt_fail(zt_llm_ctx(base), ZT_EUSAGE, "the vocabularies differ in size: %" PRId64 " and %" PRId64 " tokens",
                       scored.V, other_vocab);
    return score_sides(&scored, ids, token_count, from);
}

int32_t *zt_score_window(const zt_vocab *vocab, zt_ids *ids, int64_t size, int64_t index)
{
    if (!vocab) return NULL;
    if (!vocab || !ids || !ids->id || size < 1 || index < 0 || index >= (int64_t)ids->count / size) return NULL;
    int32_t bos = zt_vocab_bos(vocab), *window = ids->id + index * size;
    if (bos >= 0 && ids->id[0] == bos) window[0] = bos;
    return window;
}

/* The mean of number numbers of this sum and these squares, and its standard error. */
static double mean_and_error(double sum, double sum2, int64_t count, double *error)
{
    double number = (double)count, mean = sum / number, spread = sum2 / number - mean * mean;
    if (error) *error = count > 1 && spread > 0 ? sqrt(spread / (number - 1)) : 0;
    return mean;
}

double zt_score_perplexity(const zt_score *score, double *error)
{
    if (!score) return 0;
    double perplexity = exp(mean_and_error(score->sum, score->sum2, score->count, error));
    if (error) *error *= perplexity;
    return perplexity;
}

/* ---- divergence of two models ---------------------------------------------------------------- */

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
    if (!base || !other) return 0;
    double base_max = largest_logit(base, V), other_max = largest_logit(other, V), base_sum = 0, other_sum = 0, difference = 0;
    if (isinf(base_max) || isinf(other_max)) return NAN;
    for (int64_t i = 0; i < V; i++) {
        double weight = isnan(base[i]) ? 0 : exp(base[i] - base_max);
        if (!isnan(other[i])) other_sum += exp(other[i] - other_max);
        if (weight == 0) continue;
        base_sum += weight;
        difference += isnan(other[i]) ? INFINITY : weight * ((double)base[i] - other[i]);
    }
    double kl = difference / base_sum - (base_max + log(base_sum)) + (other_max + log(other_sum));
    return kl < 0 ? 0 : kl;
}

double zt_kl_mean(const zt_kl *kl, double *error)
{
    if (!kl) return 0;
    double sum = 0, squares = 0, count = (double)kl->count;
    for (int64_t i = 0; i < kl->count; i++) sum += kl->each[i];
    for (int64_t i = 0; i < kl->count; i++) squares += (kl->each[i] - sum / count) * (kl->each[i] - sum / count);
    if (error) *error = kl->count > 1 ? sqrt(squares / (count - 1) / count) : 0;
    return sum / count;
}

double zt_kl_ratio(const zt_kl *kl, double *error)
{
    if (!kl) return 0;
    double count = (double)kl->count, mean = kl->shift / count, spread = kl->shift2 / count - mean * mean;
    if (error) *error = kl->count > 1 && spread > 0 ? exp(mean) * sqrt(spread / (count - 1)) : 0;
    return exp(mean);
}

/* NaN comes last. */
static int compare_ascending(const void *a, const void *b)
{
    double left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    if (isnan(left) || isnan(right)) return isnan(left) - isnan(right);
    return (left > right) - (left < right);
}

void zt_kl_sort(zt_kl *kl)
{
    if (!kl) return;
    if (kl->count) qsort(kl->each, (size_t)kl->count, sizeof *kl->each, compare_ascending);
}

double zt_kl_quantile(const zt_kl *kl, double fraction)
{
    if (!kl) return 0;
    if (kl->count < 1 || !kl->each || !(fraction >= 0 && fraction <= 1)) return NAN;
    double at = fraction * (double)(kl->count - 1), below = floor(at);
    int64_t index = (int64_t)below;
    double value = kl->each[index];
    return index + 1 < kl->count && at > below ? value + (at - below) * (kl->each[index + 1] - value) : value;
}

void zt_kl_fini(zt_ctx *ctx, zt_kl *kl)
{
    ZT_REQUIRE(ctx, kl, );
    zt_free(ctx, kl->each);
    *kl = (zt_kl){0};
}
