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
        for (int i = 0; i <= T; i++) l->text[b][i] = (int32_t)(zt_uniform(5, (uint64_t)b, (uint64_t)i) * (double)vocab);
        for (int i = 0; i < T; i++) {
            l->ids[b * T + i] = l->text[b][i];
            l->target[b * T + i] = l->text[b][i + 1];
            l->pos[b * T + i] = i;
        }
    }
}

/* The mean of -log p by the model itself, each text alone. */
static double own_loss(zt_gguf *gguf, zt_engine *e, const lesson *l)
{
    zt_llm *model = zt_llm_open(gguf, &(zt_llm_opts){.engine = e, .ctx_len = 64, .exact = true, .kv = ZT_F32});
    zt_score score = {0};
    bool good = model;
    for (int b = 0; b < TEXTS && good; b++) good = zt_llm_score(model, l->text[b], T + 1, 0, &score) == ZT_OK;
    zt_llm_close(model);
    return good ? score.sum / (double)score.count : -1;
}

static double lesson_loss(zt_gguf *gguf, zt_engine *engine, const zt_prog *program, const lesson *l)
{
    zt_store store = zt_gguf_store(gguf);
    zt_session *session = zt_session_open(engine, program, &store, NULL);
    float loss = -1;
    const void *in[] = {l->ids, l->target, l->pos};
    void *out[] = {&loss};
    if (!session || zt_session_step(session, &(zt_binding){"n", TEXTS}, 1, in, out)) loss = -1;
    zt_session_close(session);
    return (double)loss;
}

static void architecture(const char *arch)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    o.type = mkmodel_type("f32");
    ggufw writer = {0};
    const char *why = mkmodel(&o, &writer);
    size_t count = 0;
    char *bytes = why ? NULL : ggufw_bytes(&writer, &count);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *source = zt_source_memory(ctx, arch, bytes, count);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    zt_prog *program = gguf ? zt_llm_training(gguf, T) : NULL;
    lesson l;
    draw(&l, o.vocab);
    double own = gguf ? own_loss(gguf, engine, &l) : -1, got = program ? lesson_loss(gguf, engine, program, &l) : -2;
    ok(own > 0 && fabs(own - got) <= 1e-4 * own, "%s: the loss is %.6g, by its logits %.6g (%s)", arch, got, own,
       zt_ctx_error(ctx));
    int wrt[512], n_wrt = program ? zt_prog_count(program, ZT_VALUE_DATA) : 0;
    for (int i = 0; i < n_wrt; i++) wrt[i] = zt_prog_nth(program, ZT_VALUE_DATA, i);
    zt_prog *d =
        n_wrt ? zt_prog_grad(ctx, program, wrt, n_wrt, &(zt_grad_opts){.sample = &(zt_binding){"n", 2}, .n_sample = 1}) : NULL;
    ok(d, "%s: it has a gradient for %d weights (%s)", arch, n_wrt, zt_ctx_error(ctx));
    zt_prog_free(d);
    zt_prog_free(program);
    zt_engine_close(engine);
    zt_gguf_close(gguf);
    zt_source_close(source);
    zt_ctx_free(ctx);
    free(bytes);
}

static void new_models(zt_ctx *ctx)
{
    static const char text[] = "aab aab aab. The aab is here; the aab is there. aab aab\n";
    zt_llm_shape s = {0};
    int64_t total = 0;
    zt_type type;
    ok(zt_llm_shape_of(ctx, 1000, 300, &s) == ZT_EUSAGE && strstr(zt_ctx_error(ctx), "at least"), "too small: %s",
       zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(!zt_llm_shape_of(ctx, 1000000, 300, &s), "a million parameters");
    s.ctx = 64;
    zt_gguf *gguf = zt_llm_new(ctx, &s, text, sizeof text - 1);
    for (int64_t i = 0; gguf && i < zt_gguf_n_tensors(gguf); i++) {
        zt_gguf_tensor(gguf, i, &type, NULL, NULL);
        total += zt_type_count(&type);
    }
    ok(total > 700000 && total <= 1000000, "%lld parameters", (long long)total);
    zt_vocab *v = gguf ? zt_vocab_open(gguf) : NULL;
    zt_ids ids = {0};
    ok(v && zt_vocab_size(v) > 257 && zt_vocab_size(v) <= 300 && !zt_vocab_encode(v, "aab aab", 7, 0, &ids) && ids.count == 2,
       "%d tokens; 'aab aab' is %zu of them", v ? zt_vocab_size(v) : 0, ids.count);
    ok(!zt_llm_training(gguf, 65) && zt_ctx_status(ctx) == ZT_EUSAGE, "longer than its context: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    s.arch = "gpt2";
    ok(!zt_llm_new(ctx, &s, text, 5) && zt_ctx_status(ctx) == ZT_ENOTSUP, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_ids_fini(ctx, &ids);
    zt_vocab_free(v);
    zt_gguf_close(gguf);
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
