/* made_llm.h - for tests of language models: made models in memory, opened, fed, and spoilt. */
#ifndef ZT_MADE_LLM_H
#define ZT_MADE_LLM_H

#include "tests/common/mkmodel.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"

#define N_TOKENS 70

/* ---- a made model in memory ------------------------------------------------------------------ */

typedef struct file {
    char *bytes;
    size_t n;
} file;

typedef void extra_fn(ggufw *w);

GGUFW_FN file make_file(const char *arch, const char *type, int64_t layers, extra_fn *extra)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    const mkmodel_kind *k = mkmodel_type(type);
    bool wide = zt_dtype_get(k->dtype)->block == 256;
    file f = {0};
    ggufw writer = {0};
    o.layers = layers;
    o.type = k;
    o.width = o.ffn = wide ? 256 : 64;
    o.head = wide ? 64 : 16;
    o.seed = 7;
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    if (extra) extra(&writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

typedef struct setup {
    const char *engine;
    int threads;
    zt_isa isa;
    bool exact;
    int64_t chunk, ctx_len, n_seq, cache_len;
    bool embed;
    unsigned passes_off;
} setup;

typedef struct model {
    zt_ctx *ctx;
    zt_source *src;
    zt_gguf *g;
    zt_engine *e;
    zt_llm *m;
} model;

GGUFW_FN zt_status model_open(model *o, zt_ctx *ctx, const file *file_data, const setup *options)
{
    *o = (model){.ctx = ctx};
    o->src = zt_source_memory(ctx, "made", file_data->bytes, file_data->n);
    o->g = o->src ? zt_gguf_from(ctx, o->src) : NULL;
    zt_engine_opts eo = {.threads = options->threads, .isa = options->isa};
    if (o->g) o->e = zt_engine_open(ctx, options->engine, &eo);
    zt_llm_opts lo = {.engine = o->e,
                      .exact = options->exact,
                      .chunk = options->chunk,
                      .ctx_len = options->ctx_len,
                      .n_seq = options->n_seq,
                      .cache_len = options->cache_len,
                      .kv = ZT_DTYPE_COUNT,
                      .embed = options->embed,
                      .passes_off = options->passes_off};
    if (o->e) o->m = zt_llm_open(o->g, &lo);
    return o->m ? ZT_OK : zt_ctx_status(ctx);
}

GGUFW_FN void model_close(model *o)
{
    zt_llm_close(o->m);
    zt_engine_close(o->e);
    zt_gguf_close(o->g);
    zt_source_close(o->src);
}

/* The program of an architecture's model reads back as it was printed. Its text goes into `text`. */
GGUFW_FN void check_program(const char *arch, const file *file_data, const setup *options, zt_str *text)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    zt_str again;
    zt_str_init(&again, ctx);
    zt_prog *back = NULL;
    if (model_open(&o, ctx, file_data, options) == ZT_OK && zt_prog_print(zt_llm_prog(o.m), text) == ZT_OK)
        back = zt_prog_parse(ctx, "printed", text->data, text->len);
    ok(back && zt_prog_print(back, &again) == ZT_OK && again.len == text->len && !memcmp(again.data, text->data, again.len),
       "%s: the program reads back as it was printed %s", arch, zt_ctx_error(ctx));
    zt_prog_free(back);
    zt_str_fini(&again);
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", arch);
    zt_ctx_free(ctx);
}

GGUFW_FN int64_t vocab_of(const file *file_data)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "ref", .threads = 1};
    int64_t v = model_open(&o, ctx, file_data, &options) == ZT_OK ? zt_llm_get(o.m).vocab : 0;
    model_close(&o);
    zt_ctx_free(ctx);
    return v;
}

GGUFW_FN void draw_ids(int32_t *ids, int64_t n, int64_t vocab)
{
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)(zt_uniform(3, 1, (uint64_t)i) * (double)vocab);
}

/* Logits of N_TOKENS tokens, all of them; malloc'ed f32[N_TOKENS, V], NULL on failure. */
GGUFW_FN float *all_logits(const file *file_data, const setup *options, int64_t vocab)
{
    int32_t ids[N_TOKENS];
    zt_ctx *ctx = zt_ctx_new();
    model o;
    float *y = calloc((size_t)(N_TOKENS * vocab), sizeof *y);
    draw_ids(ids, N_TOKENS, vocab);
    zt_status st = model_open(&o, ctx, file_data, options);
    if (st == ZT_OK) st = zt_llm_feed(o.m, ids, N_TOKENS, true, y);
    if (st != ZT_OK) {
        diag("%s: %s", options->engine, zt_ctx_error(ctx));
        free(y);
        y = NULL;
    }
    model_close(&o);
    if (zt_mem_get(ctx).blocks != 0) {
        diag("%zu blocks leak", zt_mem_get(ctx).blocks);
        free(y);
        y = NULL;
    }
    zt_ctx_free(ctx);
    return y;
}

/* Normalised mean squared error, 1 when a side is missing. */
GGUFW_FN double nmse(const float *a, const float *b, int64_t count)
{
    double err = 0, sum = 0;
    if (!a || !b) return 1;
    for (int64_t i = 0; i < count; i++) {
        err += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        sum += (double)a[i] * a[i];
    }
    return sum > 0 && sum < 1e30 ? err / sum : 1;
}

/* ---- spoiling ------------------------------------------------------------------------------- */

GGUFW_FN void add_vector(ggufw *w, const char *name, int64_t n, float value)
{
    float x[256];
    for (int64_t i = 0; i < n; i++) x[i] = value;
    ggufw_tensor(w, name, 0, 1, &n, x, (size_t)n * sizeof *x);
}

/* Two texts of count ids each as rows of one step, in turns: row i is token i/2 of sequence i%2. */
GGUFW_FN void in_turns(const int32_t *ids, int count, int32_t *mix, int32_t *pos, int32_t *seq, int32_t *rows)
{
    for (int i = 0; i < 2 * count; i++) {
        mix[i] = ids[i % 2 * count + i / 2];
        pos[i] = i / 2;
        seq[i] = i % 2;
        rows[i] = i;
    }
}

/* Overwrite the number of a key, in place. */
GGUFW_FN void patch(file *f, const char *key, uint32_t value)
{
    char *at = memmem(f->bytes, f->n, key, strlen(key));
    if (at)
        memcpy(at + strlen(key) + 4, &value, sizeof value);
    else
        diag("no key %s", key);
}

/* Overwrite a name by another of the same length. */
GGUFW_FN void rename_to(file *f, const char *from, const char *to)
{
    char *at = memmem(f->bytes, f->n, from, strlen(from));
    if (at)
        memcpy(at, to, strlen(to));
    else
        diag("no name %s", from);
}

/* Opening says `want` with `word`, and so does planning; nothing leaks. */
GGUFW_FN void expect(const file *file_data, zt_status want, const char *word, const char *what)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_llm_info info;
    setup options = {.engine = "ref", .threads = 1};
    model o;
    zt_status got = model_open(&o, ctx, file_data, &options);
    bool said = strstr(zt_ctx_error(ctx), word) && strstr(zt_ctx_error(ctx), "made: ");
    ok(got == want && said, "%s: %s", what, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_llm_opts lo = {.engine = o.e, .kv = ZT_DTYPE_COUNT};
    zt_status plan = o.g ? zt_llm_plan(o.g, &lo, &info) : got;
    ok(plan == want, "%s: the plan says the same", what);
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", what);
    zt_ctx_free(ctx);
}

/* A made model with another number for the key ARCH.key is bad data. */
GGUFW_FN void expect_key(const char *arch, const char *key, uint32_t value, const char *word)
{
    char whole[96], what[128];
    file file_data = make_file(arch, "q8_0", 2, NULL);
    snprintf(whole, sizeof whole, "%s.%s", arch, key);
    snprintf(what, sizeof what, "%s = %u", whole, value);
    patch(&file_data, whole, value);
    expect(&file_data, ZT_EDATA, word, what);
    free(file_data.bytes);
}

#endif
