/* vulkan_models.c - the real models on Vulkan, a few tokens of each: logits near the cpu's, its
 * text, the same bits one token at a time and again, and what a prompt and a token cost. Skipped,
 * aloud, without an adapter or without models (scripts/model). */
#include "lib/zt/all.h"
#include "tests/engine/device.h"
#include "tests/common/real_model.h"

#include <math.h>
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
    zt_llm_opts opts = {.engine = o->e, .exact = exact, .kv = ZT_DTYPE_COUNT, .strict = true, .ctx_len = 64};
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

typedef struct apart {
    double most, nmse;
} apart;

static apart apart_of(const float *a, const float *b, int64_t count)
{
    double most = 0, num = 0, den = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)a[i] - b[i];
        most = fabs(d) <= most ? most : fabs(d);
        num += d * d;
        den += (double)a[i] * a[i];
    }
    return (apart){most, num / den};
}

static void try_model(const char *name, const char *path)
{
    answer cpu[2], gpu[2]; /* by default, and exact */
    int64_t V = 0;
    bool good = true;
    for (int exact = 0; exact < 2; exact++) {
        good = answer_of(path, "cpu", exact, &cpu[exact], &V) && good;
        good = answer_of(path, "vulkan", exact, &gpu[exact], &V) && good;
        const char *how = exact ? ", exact" : "";
        if (!ok(good, "%s%s: on both engines, no step falls back", name, how)) continue;
        bool same = !memcmp(cpu[exact].id, gpu[exact].id, sizeof gpu->id);
        ok(same, "%s%s: the cpu's text", name, how);
        ok(gpu[exact].one, "%s%s: a prompt and a token are one submit, one download", name, how);
        ok(gpu[exact].same, "%s%s: the same bits token by token", name, how);
    }
    if (good) {
        apart exact = apart_of(cpu[1].y, gpu[1].y, V), by_default = apart_of(cpu[1].y, gpu[0].y, V);
        double rounded = apart_of(cpu[1].y, cpu[0].y, V).nmse;
        ok(exact.most <= 1e-3, "%s: logits %.2g from the cpu's with --exact", name, exact.most);
        ok(by_default.nmse <= 4 * rounded, "%s: by default %.2g of exact ones, the cpu's are %.2g", name, by_default.nmse,
           rounded);
    }
    for (int exact = 0; exact < 2; exact++) {
        free(cpu[exact].y);
        free(gpu[exact].y);
    }
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *e = device_open(ctx, "vulkan");
    for (int i = 0; e && i < REAL_MODELS; i++) {
        const char *path = real_path(i);
        if (path) try_model(real_model[i].name, path);
    }
    return device_done(ctx, e);
}
