/* vulkan_models.c - the real models on Vulkan: the cpu's logits to the bit, its text (48 tokens after a prompt of
 * SmolLM2), the same bits one token at a time and again, and what a prompt and a token cost. Gemma 3 --exact, and 24
 * prompts of each model, by default and --exact, need ZT_LONG=1. Skipped, aloud, without an adapter or without models
 * (scripts/model). */
#include "lib/zt/all.h"
#include "tests/engine/device.h"
#include "tests/common/real_model.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 32, MORE = 4 };
static const char text[] = "The capital of France is";

typedef struct model {
    zt_ctx *ctx;
    zt_gguf *g;
    zt_vocab *v;
    zt_engine *e;
    zt_llm *m;
    int64_t V;
    zt_ids ids; /* of the prompt */
} model;

static bool model_open(model *o, const char *path, const char *engine, bool exact)
{
    *o = (model){.ctx = zt_ctx_new()};
    o->g = zt_gguf_open(o->ctx, path);
    o->v = o->g ? zt_vocab_open(o->g) : NULL;
    o->e = o->v ? zt_engine_open(o->ctx, engine, &(zt_engine_opts){.isa = zt_isa_best()}) : NULL;
    zt_llm_opts opts = {.engine = o->e, .exact = exact, .kv = ZT_DTYPE_COUNT, .strict = true, .ctx_len = 96};
    o->m = o->e ? zt_llm_open(o->g, &opts) : NULL;
    if (!o->m || zt_vocab_encode(o->v, text, strlen(text), ZT_TOK_BOS_RULE, &o->ids)) {
        diag("%s: %s", engine, zt_ctx_error(o->ctx));
        return false;
    }
    o->V = zt_llm_get(o->m).vocab;
    return true;
}

static void model_close(model *o)
{
    zt_ids_fini(o->ctx, &o->ids);
    zt_llm_close(o->m);
    zt_engine_close(o->e);
    zt_vocab_free(o->v);
    zt_gguf_close(o->g);
    zt_ctx_free(o->ctx);
}

/* After the prompt: the logits, and MORE likeliest tokens. `one`: a prompt and a token are each a
 * submit and a download. */
typedef struct answer {
    float *y;
    int32_t id[MORE];
    bool one, same; /* the same bits by single tokens */
} answer;

static bool costs_one(const model *o, zt_engine_report before)
{
    zt_engine_report now = o->e->vt->report(o->e);
    return now.submits - before.submits == 1 && now.downloads - before.downloads == 1;
}

static bool ask_model(model *o, answer *a)
{
    bool good = true;
    a->one = true;
    zt_llm_rewind(o->m, 0);
    for (int i = 0; i < MORE && good; i++) {
        zt_engine_report before = o->e->vt->report(o->e);
        good = !zt_llm_next(o->m, i ? a->id + i - 1 : o->ids.id, i ? 1 : o->ids.count, a->id + i);
        a->one = a->one && costs_one(o, before);
    }
    zt_llm_rewind(o->m, 0);
    return good && !zt_llm_feed(o->m, o->ids.id, o->ids.count, false, a->y);
}

static bool same_by_tokens(model *o, const answer *a)
{
    float *y = calloc((size_t)o->V, sizeof *y);
    zt_llm_rewind(o->m, 0);
    bool good = true;
    for (size_t i = 0; i < o->ids.count && good; i++)
        good = !zt_llm_feed(o->m, o->ids.id + i, 1, false, i + 1 == o->ids.count ? y : NULL);
    good = good && !memcmp(y, a->y, (size_t)o->V * sizeof *y);
    free(y);
    return good;
}

static bool answer_of(const char *path, const char *engine, bool exact, answer *a, int64_t *V)
{
    model o;
    bool good = model_open(&o, path, engine, exact) && o.ids.count < MOST;
    a->y = calloc((size_t)o.V + 1, sizeof *a->y);
    good = good && ask_model(&o, a);
    a->same = good && same_by_tokens(&o, a);
    if (!good) diag("%s: %s", engine, zt_ctx_error(o.ctx));
    *V = o.V;
    model_close(&o);
    return good;
}

/* How many logits differ; the device has the cpu's order of every sum. */
static int64_t count_apart(const answer *a, const answer *b, int64_t V)
{
    int64_t count = 0;
    for (int64_t i = 0; i < V; i++) count += memcmp(&a->y[i], &b->y[i], sizeof a->y[i]) != 0;
    return count;
}

static void try_model(const char *name, const char *path, bool in_full)
{
    for (int exact = 0; exact <= in_full; exact++) {
        answer cpu, gpu;
        int64_t V = 0;
        bool good = answer_of(path, "cpu", exact, &cpu, &V);
        good = answer_of(path, "vulkan", exact, &gpu, &V) && good;
        const char *how = exact ? ", exact" : "";
        if (ok(good, "%s%s: on both engines, no step falls back", name, how)) {
            const int64_t apart = count_apart(&cpu, &gpu, V);
            ok(!memcmp(cpu.id, gpu.id, sizeof gpu.id), "%s%s: the cpu's text", name, how);
            if (!ok(apart == 0, "%s%s: the cpu's logits to the bit", name, how))
                diag("%lld of %lld differ", (long long)apart, (long long)V);
            ok(gpu.one, "%s%s: a prompt and a token are one submit, one download", name, how);
            ok(gpu.same, "%s%s: the same bits token by token", name, how);
        }
        free(cpu.y);
        free(gpu.y);
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

enum { TOKENS = 48, FEW_PROMPTS = 1 };
static const char *const prompts[] = {
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):",
    "1, 1, 2, 3, 5, 8,",
    "The three laws of motion are",
    "Dear Sir or Madam,",
    "Water boils at",
    "To bake bread you need",
    "SELECT name FROM users WHERE",
    "The quick brown fox",
    "In 1969, humans",
    "A list of colours: red,",
    "Photosynthesis is",
    "He opened the door and",
    "The opposite of hot is",
    "#include <stdio.h>",
    "Das Wetter in Berlin ist",
    "La vie est",
    "Newton was born in",
    "My favourite book is",
    "The sum of two and two is",
    "Once the rain had stopped,",
    "Breaking news:",
    "Q: What is the largest planet? A:",
};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

/* The likeliest TOKENS tokens after a prompt. */
static bool continue_prompt(model *o, const char *prompt, int32_t *id)
{
    zt_ids ids = {0};
    bool good = !zt_vocab_encode(o->v, prompt, strlen(prompt), ZT_TOK_BOS_RULE, &ids);
    zt_llm_rewind(o->m, 0);
    for (int i = 0; i < TOKENS && good; i++) good = !zt_llm_next(o->m, i ? id + i - 1 : ids.id, i ? 1 : ids.count, id + i);
    zt_ids_fini(o->ctx, &ids);
    return good;
}

static void try_text(const char *name, const char *path, bool exact, int count)
{
    model cpu, gpu;
    bool good = model_open(&cpu, path, "cpu", exact);
    good = model_open(&gpu, path, "vulkan", exact) && good;
    int same = 0;
    for (int i = 0; i < count && good; i++) {
        int32_t id[2][TOKENS];
        good = continue_prompt(&cpu, prompts[i], id[0]) && continue_prompt(&gpu, prompts[i], id[1]);
        if (good && !memcmp(id[0], id[1], sizeof id[0]))
            same++;
        else
            diag("%s: other text after '%s'%s", name, prompts[i], exact ? ", exact" : "");
    }
    ok(good && same == count, "%s%s: the cpu's text, %d tokens after each of %d prompts", name, exact ? ", exact" : "", TOKENS,
       count);
    model_close(&cpu);
    model_close(&gpu);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *e = device_open(ctx, "vulkan");
    for (int i = 0; e && i < REAL_MODELS; i++) {
        const char *path = real_path(i);
        if (!path) continue;
        const bool in_full = getenv("ZT_LONG") != NULL, is_small = i == 0;
        try_model(real_model[i].name, path, in_full || is_small);
        if (in_full || is_small) try_text(real_model[i].name, path, false, in_full ? PROMPTS : FEW_PROMPTS);
        if (in_full) try_text(real_model[i].name, path, true, PROMPTS);
    }
    return device_done(ctx, e);
}
