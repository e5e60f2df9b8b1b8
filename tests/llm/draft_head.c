/* draft_head.c - the head that predicts further tokens: what it computes does not depend on chunks or on whose weights it reads, a model
 * that keeps hidden states has the logits of one that does not, a file without a head or with another one is refused by name, and
 * memory that is not there is an error and nothing else. What transformers computes: golden_architectures.c. */
#include "lib/llm/draft_model.h"
#include "lib/llm/llm_internal.h"
#include "tests/common/made_llm.h"

#include <string.h>

enum { LENGTH = 40, CONTEXT = 128 };

static const char *const archs[] = {"qwen3next", "qwen35", "qwen35moe", "glm4moe", "deepseek2", "deepseek32"};
enum { ARCHS = sizeof archs / sizeof *archs };

static file make_next(const char *arch, int64_t next, extra_fn *extra)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    file f = {0};
    ggufw writer = {0};
    o.next = next;
    o.untied = true;
    o.seed = 5;
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    if (extra) extra(&writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

static void draw_text(int32_t *ids)
{
    for (int i = 0; i < LENGTH; i++) ids[i] = 3 + (i * i * 7 + i) % 250;
}

/* A model of the file, and its head. */
typedef struct pair {
    zt_ctx *ctx;
    zt_source *source;
    zt_gguf *gguf;
    zt_engine *engine;
    zt_llm *model, *head;
} pair;

static bool open_pair(pair *p, zt_ctx *ctx, const file *made_file, int64_t chunk, bool lends)
{
    *p = (pair){.ctx = ctx, .source = zt_source_memory(ctx, "made", made_file->bytes, made_file->n)};
    p->gguf = p->source ? zt_gguf_from(ctx, p->source) : NULL;
    p->engine = p->gguf ? zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1}) : NULL;
    zt_llm_opts opts = {.engine = p->engine, .ctx_len = CONTEXT, .chunk = chunk, .kv = ZT_DTYPE_COUNT, .hidden = true};
    p->model = p->engine ? zt_llm_open(p->gguf, &opts) : NULL;
    opts.hidden = false;
    opts.head = true;
    opts.lender = lends ? p->model : NULL;
    p->head = p->model ? zt_llm_open(p->gguf, &opts) : NULL;
    return p->head;
}

static void close_pair(pair *p)
{
    zt_llm_close(p->head);
    zt_llm_close(p->model);
    zt_engine_close(p->engine);
    zt_gguf_close(p->gguf);
    zt_source_close(p->source);
}

/* What a head makes of a text and, a step further, of one token more; f32[LENGTH, vocab], malloc'ed. bytes: of weights that it
 * loaded. */
static float *head_logits(const file *made_file, int64_t chunk, bool lends, int64_t *vocab, size_t *bytes)
{
    zt_ctx *ctx = zt_ctx_new();
    pair p;
    int32_t ids[LENGTH];
    float *logits = NULL, *state = NULL;
    draw_text(ids);
    bool good = open_pair(&p, ctx, made_file, chunk, lends) && zt_llm_feed(p.model, ids, LENGTH, false, NULL) == ZT_OK;
    if (good) {
        *vocab = zt_llm_get(p.model).vocab;
        logits = calloc((size_t)(LENGTH * *vocab), sizeof *logits);
        state = calloc((size_t)zt_llm_get(p.model).width, sizeof *state);
        const size_t rest = LENGTH - 1;
        good =
            zt_llm_feed_head(p.head, ids + 1, zt_hidden_at(p.model->hidden, 0), rest, true, logits, NULL) == ZT_OK &&
            zt_llm_rewind(p.head, LENGTH - 2) == ZT_OK &&
            zt_llm_feed_head(p.head, ids + LENGTH - 1, zt_hidden_at(p.model->hidden, LENGTH - 2), 1, false, NULL, state) == ZT_OK;
        good = good && zt_llm_rewind(p.head, LENGTH - 2) == ZT_OK &&
               zt_llm_feed_head(p.head, ids + LENGTH - 1, zt_hidden_at(p.model->hidden, LENGTH - 2), 1, false,
                                logits + (LENGTH - 1) * *vocab, state) == ZT_OK &&
               memcmp(logits + (LENGTH - 1) * *vocab, logits + (LENGTH - 2) * *vocab, (size_t)*vocab * sizeof *logits) == 0 &&
               zt_llm_feed_head(p.head, ids + 3, state, 1, false, logits + (LENGTH - 1) * *vocab, state) == ZT_OK;
    }
    *bytes = zt_session_get(zt_llm_session(p.head)).weight_bytes;
    if (!good) diag("%s", zt_ctx_error(ctx));
    close_pair(&p);
    free(state);
    if (zt_mem_get(ctx).blocks) good = false;
    zt_ctx_free(ctx);
    if (good) return logits;
    free(logits);
    return NULL;
}

static void test_bits(const file *made_file, const char *name)
{
    int64_t vocab = 0;
    size_t borrowed, bytes = 0;
    float *whole = head_logits(made_file, 0, true, &vocab, &borrowed);
    bool same = whole;
    const struct {
        int64_t chunk;
        bool lends;
    } others[] = {{1, true}, {7, true}, {0, false}};
    for (size_t i = 0; i < sizeof others / sizeof *others && same; i++) {
        float *other = head_logits(made_file, others[i].chunk, others[i].lends, &vocab, &bytes);
        same = other && memcmp(whole, other, (size_t)(LENGTH * vocab) * sizeof *whole) == 0;
        free(other);
    }
    float spread = 0;
    for (int64_t i = 0; same && i < LENGTH * vocab; i++) spread = fmaxf(spread, fabsf(whole[i]));
    ok(same && spread > 1, "%s: the same bits for chunks of 1, 7 and all, and with weights of its own; logits up to %.1f", name,
       (double)spread);
    const int64_t row = mkmodel_defaults(name).width / 32 * 34; /* bytes, in q8_0 */
    ok(bytes - borrowed >= (size_t)(2 * vocab * row),
       "%s: %zu bytes are borrowed, the embedding and the output matrix among them", name, bytes - borrowed);
    free(whole);
}

/* Logits of all tokens, and those of the last alone, with hidden states kept or not. */
static void test_model(const file *made_file, const char *name)
{
    float *logits[2] = {NULL, NULL};
    int32_t ids[LENGTH];
    int64_t vocab = 0;
    bool good = true;
    draw_text(ids);
    for (int kept = 0; kept < 2; kept++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_source *source = zt_source_memory(ctx, "made", made_file->bytes, made_file->n);
        zt_gguf *gguf = zt_gguf_from(ctx, source);
        zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
        zt_llm_opts opts = {.engine = engine, .ctx_len = CONTEXT, .kv = ZT_DTYPE_COUNT, .hidden = kept};
        zt_llm *opened = zt_llm_open(gguf, &opts);
        vocab = zt_llm_get(opened).vocab;
        logits[kept] = calloc((size_t)((LENGTH + 1) * vocab), sizeof **logits);
        good = good && opened && zt_llm_feed(opened, ids, LENGTH, true, logits[kept]) == ZT_OK &&
               zt_llm_rewind(opened, 0) == ZT_OK &&
               zt_llm_feed(opened, ids, LENGTH, false, logits[kept] + LENGTH * vocab) == ZT_OK;
        if (!good) diag("%s", zt_ctx_error(ctx));
        zt_llm_close(opened);
        zt_engine_close(engine);
        zt_gguf_close(gguf);
        zt_source_close(source);
        zt_ctx_free(ctx);
    }
    ok(good && memcmp(logits[0], logits[1], (size_t)((LENGTH + 1) * vocab) * sizeof **logits) == 0,
       "%s: hidden states that are kept change no logits", name);
    free(logits[0]);
    free(logits[1]);
}

/* ---- files that do not fit ------------------------------------------------------------------- */

static void another_tensor(ggufw *w)
{
    const int64_t count = 64;
    const float ones[64] = {1};
    ggufw_tensor(w, "blk.2.nextn.other.weight", 0, 1, &count, ones, sizeof ones);
}

static void test_refused(void)
{
    static const struct {
        const char *arch;
        int64_t next;
        extra_fn *extra;
        zt_status status;
        const char *says;
        const char *rename; /* a tensor that is then missing */
    } cases[] = {
        {"qwen35", 0, NULL, ZT_EDATA, "made: the model has no multi-token-prediction head", NULL},
        {"llama", 1, NULL, ZT_ENOTSUP, "multi-token-prediction heads of llama models are not supported", NULL},
        {"qwen35", 1, another_tensor, ZT_ENOTSUP, "unexpected tensor 'blk.2.nextn.other.weight'", NULL},
        {"qwen35", 2, NULL, ZT_EDATA, "tensor 'blk.2.nextn.eh_proj.weight' is missing", "blk.2.nextn.eh_proj.weight"},
        {"qwen35", 2, NULL, ZT_EDATA, "tensor 'blk.2.attn_k.weight' is missing", "blk.2.attn_k.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file f = make_next(cases[i].arch, cases[i].next, cases[i].extra);
        char *found = cases[i].rename ? memmem(f.bytes, f.n, cases[i].rename, strlen(cases[i].rename)) : NULL;
        if (found) memcpy(found, "blk.3.x", 7); /* of a layer that is not run */
        zt_ctx *ctx = zt_ctx_new();
        zt_source *source = zt_source_memory(ctx, "made", f.bytes, f.n);
        zt_gguf *gguf = zt_gguf_from(ctx, source);
        zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
        for (int head = 0; head < 2; head++) {
            zt_llm_opts opts = {.engine = engine, .ctx_len = CONTEXT, .kv = ZT_DTYPE_COUNT, .hidden = !head, .head = head};
            zt_llm *opened = zt_llm_open(gguf, &opts);
            const char *said = zt_ctx_error(ctx);
            ok(!opened && zt_ctx_status(ctx) == cases[i].status && strstr(said, cases[i].says), "%s", said);
            zt_llm_close(opened);
            zt_ctx_clear(ctx);
        }
        zt_engine_close(engine);
        zt_gguf_close(gguf);
        zt_source_close(source);
        zt_ctx_free(ctx);
        free(f.bytes);
    }
}

/* Another mode with a head; and drafts of what is not the model's head. */
static void test_misuse(const file *made_file)
{
    zt_ctx *ctx = zt_ctx_new();
    pair p;
    bool good = open_pair(&p, ctx, made_file, 0, true);
    zt_vocab *vocab = good ? zt_vocab_open(p.gguf) : NULL;
    zt_llm_opts opts = {.engine = p.engine, .kv = ZT_DTYPE_COUNT, .hidden = true, .embed = true};
    zt_llm *opened = zt_llm_open(p.gguf, &opts);
    ok(!opened && zt_ctx_status(ctx) == ZT_EUSAGE, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_draft_model_opts wrong = {.model = p.head, .head_of = p.head, .model_vocab = vocab, .vocab = vocab};
    ok(!zt_draft_model_open(&wrong) && zt_ctx_status(ctx) == ZT_EUSAGE, "a head that is not the model's is refused");
    zt_ctx_clear(ctx);
    wrong.model = wrong.head_of = p.model;
    ok(!zt_draft_model_open(&wrong) && zt_ctx_status(ctx) == ZT_EUSAGE, "a head that is not the model's is refused");
    zt_vocab_free(vocab);
    close_pair(&p);
    zt_ctx_free(ctx);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Opens both, feeds, and drafts. Of what is refused once, the next try has it. */
static bool draft_once(zt_ctx *ctx, const file *made_file, int32_t *drafted, size_t *count)
{
    pair p;
    int32_t ids[LENGTH];
    const int32_t *draft = NULL;
    draw_text(ids);
    bool good = open_pair(&p, ctx, made_file, 0, true) && zt_llm_feed(p.model, ids, LENGTH - 1, false, NULL) == ZT_OK;
    zt_vocab *vocab = good ? zt_vocab_open(p.gguf) : NULL;
    zt_draft_model_opts opts = {.model = p.head, .head_of = p.model, .model_vocab = vocab, .vocab = vocab, .length = 5};
    zt_draft_model *drafts = vocab ? zt_draft_model_open(&opts) : NULL;
    *count = drafts ? zt_draft_model_next(drafts, ids, LENGTH, 5, NULL, &draft) : 0;
    for (size_t i = 0; i < *count; i++) drafted[i] = draft[i];
    zt_draft_model_free(drafts);
    zt_vocab_free(vocab);
    close_pair(&p);
    return *count > 0;
}

static void test_faults(const file *made_file)
{
    zt_ctx *ctx = zt_ctx_new();
    int32_t expected[8], drafted[8];
    size_t wanted = 0, count = 0;
    bool good = draft_once(ctx, made_file, expected, &wanted);
    int failed = 0;
    uint64_t k = 1;
    for (bool done = false; good && !done && k < 100000; k++) {
        zt_mem_fail(ctx, k, false);
        bool drafts = draft_once(ctx, made_file, drafted, &count);
        zt_mem_fail(ctx, 0, false);
        done = zt_ctx_status(ctx) == ZT_OK;
        failed += zt_ctx_status(ctx) == ZT_ENOMEM;
        if (drafts && (count != wanted || memcmp(drafted, expected, count * sizeof *drafted) != 0)) good = false;
        if (!done && zt_ctx_status(ctx) != ZT_ENOMEM) good = false;
        if (zt_mem_get(ctx).blocks) good = false;
        zt_ctx_clear(ctx);
    }
    ok(good && wanted == 5 && failed > 100, "each of %d allocations refused: an error or the same draft, and nothing is left",
       failed);
    zt_ctx_free(ctx);
}

int main(void)
{
    for (int i = 0; i < ARCHS; i++) {
        file f = make_next(archs[i], 1, NULL);
        test_bits(&f, archs[i]);
        test_model(&f, archs[i]);
        free(f.bytes);
    }
    file qwen = make_next("qwen35", 1, NULL);
    test_refused();
    test_misuse(&qwen);
    test_faults(&qwen);
    free(qwen.bytes);
    return tap_done();
}
