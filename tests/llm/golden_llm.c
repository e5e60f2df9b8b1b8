/* golden_llm.c - two real models against golden/llm: the prompt's ids, --exact greedy text and
 * logits, and how far the default path (8-bit activations) is from exact arithmetic.
 *
 * Bars, from golden/llm/README.md: exact logits within 1e-3 and every greedy id equal; by default
 * the mean rms and the mean KL over the prompts not above those of llama.cpp's default path, and
 * ids equal up to the first step whose margin is under .5.
 *
 * Under a sanitizer, where a model takes half an hour, the ids of all prompts are made, but only a
 * few short prompts run, and of each a few steps: every kernel and
 * every thread does its part there.
 */
#include "lib/base/sanitized.h"
#include "tests/common/npy.h"
#include "tests/common/golden.h"
#include "tests/common/real_model.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"
#include <jansson.h>
#include <math.h>

#define MAX_LOGIT_ERROR 1e-3
#define SURE_MARGIN     0.5

typedef struct model {
    zt_ctx *ctx;
    zt_gguf *g;
    zt_vocab *v;
    zt_engine *e;
    zt_llm *m;
    int64_t V;
    float *logits, *scratch;
} model;

static bool model_open(model *o, const char *path, bool exact)
{
    *o = (model){.ctx = zt_ctx_new()};
    o->g = zt_gguf_open(o->ctx, path);
    o->v = o->g ? zt_vocab_open(o->g) : NULL;
    o->e = zt_engine_open(o->ctx, "cpu", &(zt_engine_opts){.isa = zt_isa_best()});
    zt_llm_opts lo = {.engine = o->e, .ctx_len = 4096, .exact = exact, .kv = ZT_DTYPE_COUNT};
    o->m = o->v && o->e ? zt_llm_open(o->g, &lo) : NULL;
    if (!o->m) return false;
    o->V = zt_llm_get(o->m).vocab;
    o->logits = calloc((size_t)o->V, sizeof(float));
    o->scratch = calloc((size_t)o->V * 2, sizeof(float));
    return true;
}

static void model_close(model *o)
{
    free(o->logits);
    free(o->scratch);
    zt_llm_close(o->m);
    zt_engine_close(o->e);
    zt_vocab_free(o->v);
    zt_gguf_close(o->g);
    zt_ctx_free(o->ctx);
}

/* ---- golden ---------------------------------------------------------------------------------- */

static size_t ints_of(const json_t *array, int32_t *out, size_t most)
{
    size_t n = json_array_size(array);
    for (size_t i = 0; i < n && i < most; i++) out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return n < most ? n : most;
}

static double number(const json_t *prompt, const char *group, const char *inner, const char *name)
{
    const json_t *j = json_object_get(prompt, group);
    return json_number_value(json_object_get(json_object_get(j, inner), name));
}

static float *golden_logits(const char *dir, const char *id, int64_t V)
{
    char path[4096];
    int64_t shape[NPY_MAX_RANK];
    int rank;
    snprintf(path, sizeof path, "%s/%s.logits.npy", dir, id);
    float *x = npy_load_f32(path, shape, &rank);
    if (x && (rank != 1 || shape[0] != V)) {
        free(x);
        return NULL;
    }
    return x;
}

/* ---- distances ------------------------------------------------------------------------------- */

typedef struct distance {
    double max, rms, kl; /* kl: of the softmax of y from that of the exact logits */
} distance;

static double log_sum(const float *x, int64_t count)
{
    double most = x[0], sum = 0;
    for (int64_t i = 1; i < count; i++) most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < count; i++) sum += exp(x[i] - most);
    return most + log(sum);
}

static distance distance_of(const float *exact, const float *y, int64_t count)
{
    distance d = {0};
    double a = log_sum(exact, count), b = log_sum(y, count);
    for (int64_t i = 0; i < count; i++) {
        double diff = (double)y[i] - exact[i];
        d.max = fabs(diff) > d.max ? fabs(diff) : d.max;
        d.rms += diff * diff;
        d.kl += exp(exact[i] - a) * ((exact[i] - a) - (y[i] - b));
    }
    d.rms = sqrt(d.rms / (double)count);
    return d;
}

/* ---- one prompt ------------------------------------------------------------------------------ */

typedef struct tally {
    int prompts, ids;     /* prompts, those with equal prompt ids */
    int run, text;        /* those that ran, with equal text */
    int measured, logits; /* with golden logits; close to them */
    int sure;             /* equal up to the first narrow margin */
    double rms, kl, peer_rms, peer_kl, worst;
} tally;

enum { MOST_IDS = 4096, FEW_PROMPTS = 2, SHORT_PROMPT = 16, FEW_STEPS = 3 };

static size_t encode(model *o, const json_t *p, int32_t *out)
{
    zt_ids ids = {0};
    const json_t *text = json_object_get(p, "prompt");
    unsigned flags = json_is_true(json_object_get(p, "add_special")) ? ZT_TOK_BOS_RULE : 0;
    flags |= json_is_true(json_object_get(p, "parse_special")) ? ZT_TOK_SPECIAL : 0;
    zt_vocab_encode(o->v, json_string_value(text), json_string_length(text), flags, &ids);
    size_t n = ids.count < MOST_IDS ? ids.count : MOST_IDS;
    memcpy(out, ids.id, n * sizeof *out);
    zt_ids_fini(o->ctx, &ids);
    return n;
}

/* Greedy from the logits on, as long as the golden text goes; how many ids were equal. */
static size_t generate(model *o, const int32_t *want, size_t n)
{
    zt_sampler greedy = zt_sampler_defaults();
    greedy.temp = 0;
    greedy.repeat_penalty = 1;
    for (size_t i = 0; i < n; i++) {
        int32_t id = zt_sample(&greedy, o->logits, o->V, NULL, 0, 0, o->scratch);
        if (id != want[i]) return i;
        if (i + 1 < n && zt_llm_feed(o->m, &id, 1, false, o->logits) != ZT_OK) return i;
    }
    return n;
}

/* How many ids the margins make sure of. */
static size_t sure_steps(const json_t *margins, size_t n)
{
    size_t i = 0;
    while (i < n && json_number_value(json_array_get(margins, i)) >= SURE_MARGIN) i++;
    return i;
}

static void try_prompt(model *o, const char *dir, const json_t *p, tally *t)
{
    int32_t ids[MOST_IDS], want[MOST_IDS], gen[MOST_IDS];
    const char *id = json_string_value(json_object_get(p, "id"));
    const json_t *greedy = json_object_get(p, "greedy");
    size_t n_want = ints_of(json_object_get(p, "prompt_ids"), want, MOST_IDS);
    size_t count = encode(o, p, ids);
    size_t n_gen = ints_of(json_object_get(greedy, "gen_ids"), gen, MOST_IDS);
    float *exact = golden_logits(dir, id, o->V);
    bool same = count == n_want && memcmp(ids, want, count * sizeof *ids) == 0;
    t->prompts++;
    t->ids += same;
    if (SANITIZED && (n_want > SHORT_PROMPT || t->run == FEW_PROMPTS)) {
        free(exact);
        return;
    }
    if (SANITIZED && n_gen > FEW_STEPS) n_gen = FEW_STEPS;
    t->run++;
    if (zt_llm_rewind(o->m, 0) || zt_llm_feed(o->m, want, n_want, false, o->logits)) {
        diag("%s: %s", id, zt_ctx_error(o->ctx));
        free(exact);
        return;
    }
    distance d = {0};
    if (exact) d = distance_of(exact, o->logits, o->V);
    size_t equal = generate(o, gen, n_gen);
    t->text += equal == n_gen;
    t->sure += equal >= sure_steps(json_object_get(greedy, "margins"), n_gen);
    diag("%s: %zu of %zu ids, max %.2g rms %.3g kl %.2g%s", id, equal, n_gen, d.max, d.rms, d.kl,
         same ? "" : ", other prompt ids");
    if (!exact) return; /* the folder may hold ids without logits */
    t->measured++;
    t->logits += d.max <= MAX_LOGIT_ERROR;
    t->worst = d.max > t->worst ? d.max : t->worst;
    t->rms += d.rms;
    t->kl += d.kl;
    t->peer_rms += number(p, "llamacpp_default", "first_logits_vs_exact", "rms");
    t->peer_kl += number(p, "llamacpp_default", "first_logits_vs_exact", "kl");
    free(exact);
}

/* ---- one model ------------------------------------------------------------------------------- */

static void report(const char *name, bool exact, const tally *t)
{
    int count = t->run, m = t->measured;
    if (SANITIZED) diag("under a sanitizer %d of %d prompts, %d steps each", count, t->prompts, FEW_STEPS);
    if (exact) {
        ok(count > 0 && t->ids == t->prompts, "%s: ids of %d of %d prompts", name, t->ids, t->prompts);
        ok(count > 0 && t->text == count, "%s --exact: greedy ids of %d of %d prompts", name, t->text, count);
        if (m) ok(t->logits == m, "%s --exact: logits within %g: %.2g", name, MAX_LOGIT_ERROR, t->worst);
        return;
    }
    ok(count > 0 && t->sure == count, "%s: ids equal up to a narrow margin, %d of %d prompts", name, t->sure, count);
    if (m == 0) return;
    ok(t->rms <= t->peer_rms, "%s: mean rms %.4f, llama.cpp's %.4f", name, t->rms / m, t->peer_rms / m);
    ok(t->kl <= t->peer_kl, "%s: mean KL %.5f, llama.cpp's %.5f", name, t->kl / m, t->peer_kl / m);
}

static void try_model(const char *name, const char *path, bool exact)
{
    char dir[2048], file[2080];
    tally t = {0};
    model o;
    snprintf(dir, sizeof dir, "%s/llm/%s", golden_folder(), name);
    snprintf(file, sizeof file, "%s/prompts.json", dir);
    json_t *root = json_load_file(file, 0, NULL);
    const json_t *prompts = json_object_get(root, "prompts");
    if (!root) return; /* the folder holds no cases of this model */
    bool opened = model_open(&o, path, exact);
    if (!opened) diag("%s: %s", path, zt_ctx_error(o.ctx));
    for (size_t i = 0; opened && i < json_array_size(prompts); i++) try_prompt(&o, dir, json_array_get(prompts, i), &t);
    report(name, exact, &t);
    model_close(&o);
    json_decref(root);
}

int main(void)
{
    for (int i = 0; i < REAL_MODELS; i++) {
        const char *path = golden_folder() ? real_path(i) : NULL;
        if (!golden_folder()) skip("no golden data");
        if (!path) continue;
        try_model(real_model[i].name, path, true);
        try_model(real_model[i].name, path, false);
    }
    return tap_done();
}
