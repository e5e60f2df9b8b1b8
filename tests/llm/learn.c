/* learn.c - the program that a language model learns by: of every architecture its loss is what the
 * model's own logits say, its gradient is there; and new models are as they were asked for. */
#include "lib/llm/learn.h"
#include "tests/common/mkmodel.h"
#include "tests/common/tap.h"

enum { TEXTS = 2, T = 24 };

typedef struct lesson {
    int32_t ids[TEXTS * T], target[TEXTS * T], pos[TEXTS * T], text[TEXTS][T + 1];
} lesson;

static void draw(lesson *l, int64_t vocab)
{
    for (int b = 0; b < TEXTS; b++) {
        for (int i = 0; i <= T; i++)
            l->text[b][i] = (int32_t)(zt_uniform(5, (uint64_t)b, (uint64_t)i) * (double)vocab);
        for (int i = 0; i < T; i++) {
            l->ids[b * T + i] = l->text[b][i];
            l->target[b * T + i] = l->text[b][i + 1];
            l->pos[b * T + i] = i;
        }
    }
}

/* The mean of -log p by the model itself, each text alone. */
static double own_loss(zt_gguf *g, zt_engine *e, const lesson *l)
{
    zt_llm *m =
        zt_llm_open(g, &(zt_llm_opts){.engine = e, .ctx_len = 64, .exact = true, .kv = ZT_F32});
    zt_score score = {0};
    bool good = m;
    for (int b = 0; b < TEXTS && good; b++)
        good = zt_llm_score(m, l->text[b], T + 1, 0, &score) == ZT_OK;
    zt_llm_close(m);
    return good ? score.sum / (double)score.count : -1;
}

static double lesson_loss(zt_gguf *g, zt_engine *e, const zt_prog *p, const lesson *l)
{
    zt_store store = zt_gguf_store(g);
    zt_session *s = zt_session_open(e, p, &store, NULL);
    float loss = -1;
    const void *in[] = {l->ids, l->target, l->pos};
    void *out[] = {&loss};
    if (!s || zt_session_step(s, &(zt_binding){"n", TEXTS}, 1, in, out)) loss = -1;
    zt_session_close(s);
    return (double)loss;
}

static void architecture(const char *arch)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    o.type = mkmodel_type("f32");
    ggufw w = {0};
    const char *why = mkmodel(&o, &w);
    size_t n = 0;
    char *bytes = why ? NULL : ggufw_bytes(&w, &n);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *source = zt_source_memory(ctx, arch, bytes, n);
    zt_gguf *g = zt_gguf_from(ctx, source);
    zt_engine *e =
        zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    zt_prog *p = g ? zt_llm_training(g, T) : NULL;
    lesson l;
    draw(&l, o.vocab);
    double own = g ? own_loss(g, e, &l) : -1, got = p ? lesson_loss(g, e, p, &l) : -2;
    ok(own > 0 && fabs(own - got) <= 1e-4 * own, "%s: the loss is %.6g, by its logits %.6g (%s)",
       arch, got, own, zt_ctx_error(ctx));
    int wrt[512], n_wrt = p ? zt_prog_count(p, ZT_VALUE_DATA) : 0;
    for (int i = 0; i < n_wrt; i++) wrt[i] = zt_prog_nth(p, ZT_VALUE_DATA, i);
    zt_prog *d = n_wrt
                     ? zt_prog_grad(ctx, p, wrt, n_wrt,
                                    &(zt_grad_opts){.sample = &(zt_binding){"n", 2}, .n_sample = 1})
                     : NULL;
    ok(d, "%s: it has a gradient for %d weights (%s)", arch, n_wrt, zt_ctx_error(ctx));
    zt_prog_free(d);
    zt_prog_free(p);
    zt_engine_close(e);
    zt_gguf_close(g);
    zt_source_close(source);
    zt_ctx_free(ctx);
    free(bytes);
}

static void new_models(zt_ctx *ctx)
{
    static const char text[] = "aab aab aab. The aab is here; the aab is there. aab aab\n";
    zt_llm_shape s = {0};
    int64_t n = 0;
    zt_type t;
    ok(zt_llm_shape_of(ctx, 1000, 300, &s) == ZT_EUSAGE && strstr(zt_ctx_error(ctx), "at least"),
       "too small: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(!zt_llm_shape_of(ctx, 1000000, 300, &s), "a million parameters");
    s.ctx = 64;
    zt_gguf *g = zt_llm_new(ctx, &s, text, sizeof text - 1);
    for (int64_t i = 0; g && i < zt_gguf_n_tensors(g); i++) {
        zt_gguf_tensor(g, i, &t, NULL, NULL);
        n += zt_type_count(&t);
    }
    ok(n > 700000 && n <= 1000000, "%lld parameters", (long long)n);
    zt_vocab *v = g ? zt_vocab_open(g) : NULL;
    zt_ids ids = {0};
    ok(v && zt_vocab_size(v) > 257 && zt_vocab_size(v) <= 300 &&
           !zt_vocab_encode(v, "aab aab", 7, 0, &ids) && ids.count == 2,
       "%d tokens; 'aab aab' is %zu of them", v ? zt_vocab_size(v) : 0, ids.count);
    ok(!zt_llm_training(g, 65) && zt_ctx_status(ctx) == ZT_EUSAGE, "longer than its context: %s",
       zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    s.arch = "gpt2";
    ok(!zt_llm_new(ctx, &s, text, 5) && zt_ctx_status(ctx) == ZT_ENOTSUP, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_ids_fini(ctx, &ids);
    zt_vocab_free(v);
    zt_gguf_close(g);
}

int main(void)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3",   "gemma2", "gemma3",
                                        "phi3",  "gpt2",  "smollm3", "olmo2",  "granite"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) architecture(archs[i]);
    zt_ctx *ctx = zt_ctx_new();
    new_models(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
