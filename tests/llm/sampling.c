/* sampling.c - tests of sampling: against a plain implementation that sorts everything, frequencies
 * against probabilities and against Loom's, and the values that are
 * not numbers; log probabilities. */
#include "lib/llm/llm.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include <float.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const zt_sampler greedy = {.temp = 0, .top_p = 1, .repeat_penalty = 1};
static const zt_sampler plain = {.temp = 1, .top_p = 1, .repeat_penalty = 1};

static int32_t sample(const zt_sampler *s, const float *x, int64_t V, int64_t position)
{
    float *scratch = malloc(sizeof *scratch * 2 * (size_t)V);
    int32_t id = zt_sample(s, x, V, NULL, 0, position, scratch);
    free(scratch);
    return id;
}

/* ---- greedy ---------------------------------------------------------------------------------- */

static void test_greedy(void)
{
    static const struct {
        const char *what;
        float x[5];
        int32_t id;
    } cases[] = {
        {"the best", {1, 5, 3, -2, 4}, 1},
        {"ties go to the lower id", {1, 5, 5, 5, 4}, 1},
        {"both zeros are one", {-0.0f, 0.0f, -1, -1, -1}, 0},
        {"NaN is passed over", {NAN, NAN, 3, NAN, 4}, 4},
        {"all NaN", {NAN, NAN, NAN, NAN, NAN}, -1},
        {"infinity", {1, 2, INFINITY, 4, INFINITY}, 2},
        {"all minus infinity", {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0},
        {"NaN and minus infinity", {NAN, -INFINITY, NAN, NAN, NAN}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zt_sampler one = plain;
        one.top_k = 1;
        ok(sample(&greedy, cases[i].x, 5, 0) == cases[i].id, "greedy: %s", cases[i].what);
        ok(sample(&one, cases[i].x, 5, 0) == cases[i].id, "top-k 1: %s", cases[i].what);
        one = plain;
        one.temp = 1e-300;
        if (i == 0 || i == 3) ok(sample(&one, cases[i].x, 5, 0) == cases[i].id, "next to no heat: %s", cases[i].what);
        if (cases[i].id < 0) ok(sample(&plain, cases[i].x, 5, 0) == -1, "sampled: %s", cases[i].what);
    }
}

static void test_penalty(void)
{
    static const float x[] = {4, 3.5f, -1, -1.5f};
    static const int32_t history[] = {0, 1, 1, 1, 99, -5};
    float scratch[8];
    zt_sampler sampler = greedy;
    sampler.repeat_penalty = 2;
    sampler.repeat_last = -1;
    ok(zt_sample(&sampler, x, 4, history, 6, 0, scratch) == 0, "once for each token, whatever its count");
    sampler.repeat_last = 3;
    ok(zt_sample(&sampler, x, 4, history, 4, 0, scratch) == 0, "only the last ones count");
    sampler.repeat_last = 4;
    ok(zt_sample(&sampler, x, 4, history, 1, 0, scratch) == 1, "a history shorter than that");
    sampler.repeat_last = 0;
    ok(zt_sample(&sampler, x, 4, history, 6, 0, scratch) == 0, "none of them");
    static const float low[] = {-1, -1.5f};
    sampler.repeat_last = -1;
    ok(zt_sample(&sampler, low, 2, history, 1, 0, scratch) == 1, "a negative logit falls too");
}

/* Where the penalties are counted by hand: 0 is there once, 1 three times. */
static void test_counted_penalties(void)
{
    static const float x[] = {4, 5, 3.25f, NAN};
    static const int32_t history[] = {1, 0, 1, 1, 99, -5, 3};
    static const struct {
        const char *what;
        double frequency, presence, repeat;
        int64_t last;
        int32_t id;
    } cases[] = {
        {"frequency: 0.25 of each of three times", 0.25, 0, 1, -1, 1},
        {"frequency: 0.5 of each of three times", 0.5, 0, 1, -1, 0},
        {"frequency: 1 of each", 1, 0, 1, -1, 2},
        {"frequency: only the last ones count", 0.9, 0, 1, 4, 1},
        {"frequency: none of them counts", 100, 0, 1, 0, 1},
        {"presence: once, whatever the count", 0, 1.5, 1, -1, 1},
        {"presence: more than the gap", 0, 2, 1, -1, 2},
        {"below 0 a token becomes more probable", -0.5, 0, 1, 5, 1},
        {"after the repeat penalty, which divides", 0.05, 0.2, 1.5, -1, 2},
        {"all three", 0.05, 0.1, 1.2, -1, 1},
    };
    float scratch[8];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zt_sampler sampler = greedy;
        sampler.frequency_penalty = cases[i].frequency;
        sampler.presence_penalty = cases[i].presence;
        sampler.repeat_penalty = cases[i].repeat;
        sampler.repeat_last = cases[i].last;
        int32_t id = zt_sample(&sampler, x, 4, history, 7, 0, scratch);
        ok(id == cases[i].id && zt_sampler_penalises(&sampler), "%s: token %d", cases[i].what, (int)id);
    }
    ok(!zt_sampler_penalises(&greedy), "no penalty by default");
}

static void test_check(void)
{
    static const struct {
        const char *says;
        zt_sampler s;
    } cases[] = {
        {"temperature is -1,", {.temp = -1, .top_p = 1, .repeat_penalty = 1}},
        {"temperature is inf,", {.temp = INFINITY, .top_p = 1, .repeat_penalty = 1}},
        {"temperature is nan,", {.temp = NAN, .top_p = 1, .repeat_penalty = 1}},
        {"top-k is -1,", {.top_k = -1, .top_p = 1, .repeat_penalty = 1}},
        {"top-p is 0,", {.repeat_penalty = 1}},
        {"top-p is 1.5,", {.top_p = 1.5, .repeat_penalty = 1}},
        {"min-p is 2,", {.top_p = 1, .min_p = 2, .repeat_penalty = 1}},
        {"repeat penalty is 0,", {.top_p = 1}},
        {"repeat-last is -2,", {.top_p = 1, .repeat_penalty = 1, .repeat_last = -2}},
        {"frequency penalty is inf,", {.top_p = 1, .repeat_penalty = 1, .frequency_penalty = INFINITY}},
        {"presence penalty is nan,", {.top_p = 1, .repeat_penalty = 1, .presence_penalty = NAN}},
    };
    zt_ctx *ctx = zt_ctx_new();
    zt_sampler s = zt_sampler_defaults();
    ok(!zt_sampler_check(ctx, &s) && s.repeat_penalty == 1 && s.seed == 0, "defaults are sound");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zt_ctx_clear(ctx);
        ok(zt_sampler_check(ctx, &cases[i].s) == ZT_EUSAGE &&
               strncmp(zt_ctx_error(ctx), cases[i].says, strlen(cases[i].says)) == 0,
           "refused: %s", zt_ctx_error(ctx));
    }
    zt_ctx_free(ctx);
}

/* ---- against sorting everything -------------------------------------------------------------- */

enum { LARGE = 1300 }; /* more than a block of logits that are looked at in one go */

typedef struct cand {
    double x;
    int32_t id;
} cand;

static int by_logit(const void *a, const void *b)
{
    const cand *p = a, *q = b;
    return p->x != q->x ? (p->x < q->x ? 1 : -1) : p->id - q->id;
}

static int32_t slow_sample(const zt_sampler *sampler, const float *x, int64_t V, const int32_t *history, size_t n_history,
                           int64_t position)
{
    static cand c[LARGE];
    int64_t total = 0;
    for (int64_t i = 0; i < V; i++) {
        float v = x[i], p = (float)sampler->repeat_penalty, count = 0;
        for (size_t j = n_history; j-- > 0;)
            count += history[j] == i && (sampler->repeat_last < 0 || n_history - j <= (size_t)sampler->repeat_last);
        if (count > 0)
            v = (v > 0 ? v / p : v * p) - (count * (float)sampler->frequency_penalty + (float)sampler->presence_penalty);
        if (!isnan(v)) c[total++] = (cand){v, (int32_t)i};
    }
    qsort(c, (size_t)total, sizeof *c, by_logit);
    if (total == 0 || sampler->temp == 0) return total ? c[0].id : -1;
    if (sampler->top_k && sampler->top_k < total) total = sampler->top_k;
    double sum = 0, part = 0;
    for (int64_t i = 0; i < total; i++) sum += exp(c[i].x - c[0].x);
    int64_t kept = 0;
    while (kept < total && (sampler->top_p == 1 || part < sampler->top_p * sum)) part += exp(c[kept++].x - c[0].x);
    while (kept > 1 && exp(c[kept - 1].x - c[0].x) < sampler->min_p) kept--;
    sum = part = 0;
    for (int64_t i = 0; i < kept; i++) sum += exp((c[i].x - c[0].x) / sampler->temp);
    double u = zt_uniform(sampler->seed, sampler->sequence, (uint64_t)position);
    for (int64_t i = 0; i < kept; i++) {
        part += exp((c[i].x - c[0].x) / sampler->temp);
        if (part > u * sum) return c[i].id;
    }
    return c[kept - 1].id;
}

static int64_t pick(uint64_t i, uint64_t j, int64_t n) { return (int64_t)(zt_uniform(5, i, j) * (double)n); }

static void test_slow(void)
{
    static const double temps[] = {0, 0.2, 0.8, 1, 3}, top_ps[] = {1, 0.05, 0.5, 0.95}, min_ps[] = {0, 0.01, 0.3, 1},
                        penalties[] = {1, 1.3}, counted[] = {0, 0, 0.7, -0.3};
    static const int64_t top_ks[] = {0, 1, 2, 40, 199, 300}, lasts[] = {-1, 0, 5};
    static float x[LARGE], before[LARGE], scratch[2 * LARGE];
    int32_t history[20];
    int wrong = 0, changed = 0;
    for (uint64_t i = 0; i < 6000; i++) {
        int64_t V = 1 + pick(i, 0, i % 8 ? 300 : LARGE);
        zt_sampler sampler = {.temp = temps[pick(i, 1, 5)],
                              .top_k = top_ks[pick(i, 2, 6)],
                              .top_p = top_ps[pick(i, 3, 4)],
                              .min_p = min_ps[pick(i, 4, 4)],
                              .repeat_penalty = penalties[pick(i, 5, 2)],
                              .repeat_last = lasts[pick(i, 6, 3)],
                              .frequency_penalty = counted[pick(i, 7, 4)],
                              .presence_penalty = counted[pick(i, 8, 4)],
                              .seed = i,
                              .sequence = i / 7};
        double wide = zt_uniform(6, i, 0) * 8;
        for (int64_t j = 0; j < V; j++) { /* some equal, now and then not a number */
            x[j] = (float)(wide * zt_normal(7, i, (uint64_t)j));
            x[j] = pick(i, (uint64_t)(100 + j), 5) ? x[j] : roundf(x[j]);
            x[j] = pick(i, (uint64_t)(500 + j), 40) ? x[j] : NAN;
        }
        for (int j = 0; j < 20; j++) history[j] = (int32_t)pick(i, (uint64_t)(1000 + j), V);
        memcpy(before, x, sizeof x);
        int32_t got = zt_sample(&sampler, x, V, history, 20, (int64_t)i, scratch);
        int32_t want = slow_sample(&sampler, x, V, history, 20, (int64_t)i);
        if (got != want && !wrong++)
            diag("case %d: V %d top-k %d top-p %g min-p %g temp %g: %d, expected %d", (int)i, (int)V, (int)sampler.top_k,
                 sampler.top_p, sampler.min_p, sampler.temp, got, want);
        changed += memcmp(before, x, sizeof x) != 0;
    }
    ok(!wrong, "6000 random cases choose as sorting everything does");
    ok(!changed, "and leave the logits as they were");
}

/* ---- chance ---------------------------------------------------------------------------------- */

static void test_chance(void)
{
    static const double p[] = {0.5, 0.25, 0.125, 0.0625, 0.0625};
    float x[5];
    enum { N = 20000 };
    int count[5] = {0}, other = 0, again = 0;
    zt_sampler sampler = plain, t = plain;
    t.seed = 1;
    for (int i = 0; i < 5; i++) x[i] = (float)log(p[i]) + 3;
    for (int64_t i = 0; i < N; i++) {
        int32_t id = sample(&sampler, x, 5, i);
        count[id]++;
        other += id != sample(&t, x, 5, i);
        again += id != sample(&sampler, x, 5, i);
    }
    for (int i = 0; i < 5; i++) { /* five deviations of a binomial */
        double d = fabs(count[i] - N * p[i]) / sqrt(N * p[i] * (1 - p[i]));
        ok(d < 5, "token %d comes as often as its probability %g says: %d of %d", i, p[i], count[i], N);
    }
    ok(other > N / 4, "another seed draws otherwise");
    ok(!again, "the same names draw the same");
}

static void test_extremes(void)
{
    enum { V = 262144 };
    float *x = malloc(sizeof *x * V), *scratch = malloc(2 * sizeof *x * V);
    zt_sampler sampler = plain, k = plain, m = plain;
    int differ = 0, far = 0;
    for (int64_t i = 0; i < V; i++) x[i] = (float)zt_normal(8, 0, (uint64_t)i);
    k.top_k = V;
    m.top_k = 40;
    m.top_p = 0.95;
    for (int64_t i = 0; i < 10; i++) {
        int32_t a = zt_sample(&sampler, x, V, NULL, 0, i, scratch);
        differ += a != zt_sample(&k, x, V, NULL, 0, i, scratch);
        far += x[zt_sample(&m, x, V, NULL, 0, i, scratch)] < 3;
    }
    ok(!differ, "top-k of all is all");
    ok(!far, "top-k 40 of 262144 takes only the best");
    float two[] = {INFINITY, INFINITY, 5}, flat[] = {-INFINITY, -INFINITY};
    bool seen[3] = {0};
    for (int64_t i = 0; i < 64; i++) seen[sample(&sampler, two, 3, i)] = true;
    ok(seen[0] && seen[1] && !seen[2], "among infinities the draw decides");
    ok(sample(&sampler, flat, 2, 0) >= 0, "minus infinity alone is still chosen");
    float wide[] = {FLT_MAX, -FLT_MAX};
    sampler.min_p = DBL_MIN;
    ok(sample(&sampler, wide, 2, 0) == 0, "the widest gap there is");
    free(x);
    free(scratch);
}

/* ---- golden ---------------------------------------------------------------------------------- */

enum { MOST = 4096 };

/* How far two counts of as many draws are from one distribution: chi-square, in deviations. */
static double apart(const int *a, const int *b, int64_t V)
{
    double chi = 0;
    int cells = 0;
    for (int64_t i = 0; i < V; i++) {
        if (a[i] + b[i] == 0) continue;
        chi += (double)(a[i] - b[i]) * (a[i] - b[i]) / (a[i] + b[i]);
        cells++;
    }
    return cells > 1 ? (chi - (cells - 1)) / sqrt(2.0 * (cells - 1)) : chi;
}

static void golden_case(const char *path)
{
    json_t *item = json_load_file(path, 0, NULL);
    const json_t *logits = json_object_get(item, "logits"), *counts = json_object_get(item, "counts");
    int64_t V = (int64_t)json_array_size(logits), draws = json_integer_value(json_object_get(item, "draws"));
    static float x[MOST];
    static int want[MOST], got[MOST];
    zt_sampler sampler = plain;
    memset(got, 0, sizeof got);
    for (int64_t i = 0; i < V && i < MOST; i++) {
        x[i] = (float)json_number_value(json_array_get(logits, (size_t)i));
        want[i] = (int)json_integer_value(json_array_get(counts, (size_t)i));
    }
    ok(V > 0 && V <= MOST && sample(&greedy, x, V, 0) == json_integer_value(json_object_get(item, "greedy")), "%s: greedy", path);
    sampler.temp = json_number_value(json_object_get(item, "temperature"));
    sampler.temp = sampler.temp > 0 ? sampler.temp : 0;
    sampler.top_k = json_integer_value(json_object_get(item, "top_k"));
    for (int64_t i = 0; i < draws; i++) got[sample(&sampler, x, V, i)]++;
    double far = apart(want, got, V);
    bool both = true; /* nothing is drawn often by one and never by the other */
    for (int64_t i = 0; i < V; i++) both = both && !(want[i] > 20 && got[i] == 0) && !(got[i] > 20 && want[i] == 0);
    if (!ok(both && far < 6, "%s: %d draws", path, (int)draws)) diag("%g deviations apart", far);
    json_decref(item);
}

static void test_golden(void)
{
    char folder[480], pattern[512];
    glob_t g;
    if (!golden_holds("loom/sampling", folder)) return;
    snprintf(pattern, sizeof pattern, "%s/*.json", folder);
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) golden_case(g.gl_pathv[i]);
    globfree(&g);
}

/* ---- log probabilities ----------------------------------------------------------------------- */

static void test_scores(void)
{
    static const float x[] = {1, 3, -INFINITY, 3, NAN, 2};
    int32_t id[6];
    double all = zt_log_sum_exp(x, 6), want = log(exp(1) + 2 * exp(3) + exp(2));
    ok(fabs(all - want) < 1e-6, "the sum of exp passes over what is no number");
    int total = zt_likeliest(x, 6, 3, id);
    ok(total == 3 && id[0] == 1 && id[1] == 3 && id[2] == 5, "the likeliest, ties by id");
    total = zt_likeliest(x, 6, 6, id);
    ok(total == 5 && id[3] == 0 && id[4] == 2, "all that have a probability");
    ok(zt_likeliest(x, 6, 0, id) == 0, "none wanted, none given");
    static const float huge[] = {1e30f, -1e30f}, none[] = {NAN, NAN};
    ok(zt_log_sum_exp(huge, 2) == 1e30f && isinf(zt_log_sum_exp(none, 2)), "huge logits, and none");
    zt_score score = {.count = 4, .sum = 4 * log(8), .sum2 = 4 * log(8) * log(8)};
    double error, p = zt_score_perplexity(&score, &error);
    ok(fabs(p - 8) < 1e-9 && error < 1e-6, "the perplexity of one in eight is 8");
    score = (zt_score){.count = 2, .sum = 2, .sum2 = 4}; /* 0 and 2 */
    p = zt_score_perplexity(&score, &error);
    ok(fabs(p - exp(1)) < 1e-9 && fabs(error - exp(1)) < 1e-9, "its standard error");
}

int main(void)
{
    test_golden();
    test_scores();
    test_greedy();
    test_penalty();
    test_counted_penalties();
    test_check();
    test_slow();
    test_chance();
    test_extremes();
    return tap_done();
}
