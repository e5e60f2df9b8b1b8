/* classifier.c - classifiers of texts in made models: what is missing, of another shape or of an unknown pooling is refused; a
 * model with one makes scores, not text. That the scores are right is for tests/llm/rows: there are transformers'. */
#include "tests/common/made_llm.h"

#include <math.h>

enum { WIDTH = 64, MOST = 8 };

/* f32 [rows, columns], or [rows]. */
static void put_tensor(ggufw *w, const char *name, int64_t rows, int64_t columns)
{
    static float values[MOST * WIDTH * 2];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) values[i] = (float)zt_normal(5, 1, i) / 8;
    int64_t dim[] = {rows, columns};
    ggufw_tensor(w, name, 0, columns ? 2 : 1, dim, values, (size_t)(rows * (columns ? columns : 1)) * sizeof *values);
}

static void labels(ggufw *w) { put_tensor(w, "cls.output.weight", 2, WIDTH); }
static void ranked(ggufw *w)
{
    labels(w);
    ggufw_u32(w, "qwen3.pooling_type", 4);
}
static void pooled(ggufw *w)
{
    labels(w);
    ggufw_u32(w, "qwen3.pooling_type", 3);
}
static void both(ggufw *w)
{
    put_tensor(w, "cls.weight", 5, WIDTH);
    put_tensor(w, "cls.bias", 5, 0);
    put_tensor(w, "cls.output.weight", 3, 5);
    put_tensor(w, "cls.output.bias", 3, 0);
}
static void ranked_without(ggufw *w) { ggufw_u32(w, "qwen3.pooling_type", 4); }
static void pooling_huge(ggufw *w) { ggufw_u32(w, "qwen3.pooling_type", UINT32_MAX); }
static void pooling_five(ggufw *w) { ggufw_u32(w, "qwen3.pooling_type", 5); }
static void narrow(ggufw *w) { put_tensor(w, "cls.output.weight", 2, WIDTH - 1); }
static void flat(ggufw *w) { put_tensor(w, "cls.output.weight", 2, 0); }
static void empty(ggufw *w) { put_tensor(w, "cls.output.weight", 0, WIDTH); }
static void apart(ggufw *w)
{
    put_tensor(w, "cls.weight", 5, WIDTH);
    put_tensor(w, "cls.output.weight", 3, 6);
}
static void long_bias(ggufw *w)
{
    labels(w);
    put_tensor(w, "cls.output.bias", 3, 0);
}
static void bias_alone(ggufw *w) { put_tensor(w, "cls.output.bias", 3, 0); }
static void long_norm(ggufw *w)
{
    both(w);
    put_tensor(w, "cls.norm.weight", 6, 0);
}

static file make_model(const char *arch, extra_fn *extra)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    file f = {0};
    ggufw writer = {0};
    o.type = mkmodel_type("f32");
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    if (extra) extra(&writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

static void test_refused(void)
{
    static const struct {
        const char *arch;
        extra_fn *extra;
        zt_status want;
        const char *word;
    } row[] = {
        {"qwen3", labels, ZT_ENOTSUP, "is a reranker"},
        {"qwen3", ranked, ZT_ENOTSUP, "is a reranker"},
        {"qwen3", ranked_without, ZT_EDATA, "'cls.output.weight' is missing"},
        {"qwen3", pooling_huge, ZT_ENOTSUP, "pooling_type other than"},
        {"qwen3", pooling_five, ZT_ENOTSUP, "pooling_type other than"},
        {"qwen3", narrow, ZT_EDATA, "expected f32[2,64], found f32[2,63]"},
        {"qwen3", flat, ZT_EDATA, "'cls.output.weight' is f32[2], expected a matrix"},
        {"qwen3", empty, ZT_EDATA, "'cls.output.weight' is f32[0,64], expected a matrix"},
        {"qwen3", apart, ZT_EDATA, "expected f32[3,5], found f32[3,6]"},
        {"qwen3", long_bias, ZT_EDATA, "expected f32[2], found f32[3]"},
        {"qwen3", bias_alone, ZT_ENOTSUP, "unexpected tensor 'cls.output.bias'"},
        {"qwen3", long_norm, ZT_EDATA, "expected f32[5], found f32[6]"},
        {"llama", labels, ZT_ENOTSUP, "unexpected tensor 'cls.output.weight'"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_model(row[i].arch, row[i].extra);
        expect(&f, row[i].want, row[i].word, row[i].word);
        free(f.bytes);
    }
}

/* Scores of a text, for any chunk; of another pooling the states. */
static bool embed_text(extra_fn *extra, int64_t chunk, int64_t length, float *out)
{
    static const int32_t ids[] = {3, 9, 27, 81, 5, 25, 125, 7, 49};
    file f = make_model("qwen3", extra);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *source = zt_source_memory(ctx, "made", f.bytes, f.n);
    zt_gguf *gguf = zt_gguf_take(ctx, source);
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    zt_llm_opts opts = {.engine = engine, .chunk = chunk, .ctx_len = 64, .kv = ZT_DTYPE_COUNT, .embed = true};
    zt_llm *opened = gguf ? zt_llm_open(gguf, &opts) : NULL;
    bool good =
        opened && zt_llm_get(opened).vector == length && zt_llm_embed(opened, ids, sizeof ids / sizeof *ids, out) == ZT_OK;
    if (!good) diag("%s", zt_ctx_error(ctx));
    zt_llm_close(opened);
    zt_engine_close(engine);
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
    free(f.bytes);
    return good;
}

static void test_scores(void)
{
    float whole[WIDTH], ones[WIDTH], sevens[WIDTH];
    bool good = embed_text(ranked, 0, 2, whole) && embed_text(ranked, 1, 2, ones) && embed_text(ranked, 7, 2, sevens);
    ok(good && memcmp(whole, ones, 2 * sizeof *whole) == 0 && memcmp(whole, sevens, 2 * sizeof *whole) == 0,
       "two scores, the same bits for chunks of 1, 7 and all");
    ok(good && fabs((double)whole[0] + (double)whole[1] - 1) < 1e-6, "which are shares: %g and %g", (double)whole[0],
       (double)whole[1]);
    ok(embed_text(both, 0, 3, whole), "two matrices: three scores");
    ok(embed_text(pooled, 0, WIDTH, whole), "a file that pools states has a vector of them");
}

int main(void)
{
    test_refused();
    test_scores();
    return tap_done();
}
