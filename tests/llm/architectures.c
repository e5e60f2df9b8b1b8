/* architectures.c - every architecture of the table, over made models: ref and cpu agree, bits depend on
 * neither chunk nor threads, programs print and read back, and each tensor is missed by its name.
 * Keys that change what a model computes do, and those that say nothing new do not. That the
 * formulas are right is for tests/llm/hf_models.c and tests/llm/archs to say: there are transformers' logits. */
#include "tests/common/made_llm.h"

enum { MAX = 600 };

static bool encoder(const char *arch) { return mkmodel_has(arch, MK_SUM | MK_ENCODER); }

/* What a model says of N_TOKENS tokens: all logits, or of an encoder the embedding; f32[*count],
 * malloc'ed, or NULL. */
static float *logits_of_arch(const file *file_data, const char *arch, const setup *options, int64_t *count)
{
    int32_t ids[N_TOKENS];
    if (!encoder(arch)) {
        int64_t V = vocab_of(file_data);
        *count = N_TOKENS * V;
        return all_logits(file_data, options, V);
    }
    zt_ctx *ctx = zt_ctx_new();
    setup e = *options;
    model o;
    float *y = calloc(MAX, sizeof *y);
    *count = 64;
    e.embed = true;
    draw_ids(ids, N_TOKENS, 300);
    zt_status st = model_open(&o, ctx, file_data, &e);
    if (st == ZT_OK) st = zt_llm_embed(o.m, ids, N_TOKENS, y);
    if (st != ZT_OK) {
        diag("%s: %s", arch, zt_ctx_error(ctx));
        free(y);
        y = NULL;
    }
    model_close(&o);
    zt_ctx_free(ctx);
    return y;
}

/* ---- engines and bits ------------------------------------------------------------------------ */

static void test_engines(const char *arch)
{
    file file_data = make_file(arch, "q8_0", 2, NULL);
    int64_t total = 0;
    setup ref = {.engine = "ref", .threads = 1, .exact = true};
    setup cpu = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .exact = true};
    float *a = logits_of_arch(&file_data, arch, &ref, &total), *b = logits_of_arch(&file_data, arch, &cpu, &total);
    double e = nmse(a, b, total);
    ok(e <= 1e-9, "%s: cpu --exact is ref: NMSE %.2g", arch, e);
    cpu.exact = false;
    float *c = logits_of_arch(&file_data, arch, &cpu, &total);
    e = nmse(a, c, total);
    const double near = mkmodel_has(arch, MK_INDEXER) ? 5e-2 : mkmodel_has(arch, MK_EXPERTS) ? 2e-2 : 2e-3;
    ok(e <= near, /* a token between two experts may take the other, and another key of two with near scores */
       "%s: cpu with 8-bit activations is near: NMSE %.2g", arch, e);
    free(a);
    free(b);
    free(c);
    free(file_data.bytes);
}

static void test_bits(const char *arch)
{
    static const struct {
        int64_t chunk;
        int threads;
    } way[] = {{1, 2}, {7, 3}, {64, 2}};
    file file_data = make_file(arch, "q8_0", 2, NULL);
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        setup options = {.engine = "cpu", .threads = 1, .isa = (zt_isa)isa};
        int64_t total = 0;
        float *want = logits_of_arch(&file_data, arch, &options, &total);
        bool same = want != NULL;
        for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
            options.chunk = way[i].chunk;
            options.threads = way[i].threads;
            float *got = logits_of_arch(&file_data, arch, &options, &total);
            same = same && got && memcmp(want, got, (size_t)total * 4) == 0;
            free(got);
        }
        ok(same, "%s %s: the same bits for any chunk and threads", arch, zt_isa_name((zt_isa)isa));
        free(want);
    }
    free(file_data.bytes);
}

static void test_program(const char *arch)
{
    file file_data = make_file(arch, "f16", 5, NULL);
    setup options = {.engine = "ref", .threads = 1, .embed = encoder(arch)};
    zt_ctx *ctx = zt_ctx_new();
    zt_str text;
    zt_str_init(&text, ctx);
    check_program(arch, &file_data, &options, &text);
    zt_str_fini(&text);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* What the plan says of a model: its message, in `text`. */
static zt_status planned(const file *file_data, char *text, size_t total)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_source *src = zt_source_memory(ctx, "made", file_data->bytes, file_data->n);
    zt_gguf *gguf = zt_gguf_from(ctx, src);
    zt_engine *e = zt_engine_open(ctx, "ref", &(zt_engine_opts){.threads = 1});
    zt_llm_opts lo = {.engine = e, .kv = ZT_DTYPE_COUNT, .embed = true};
    zt_llm_info info;
    zt_status st = gguf ? zt_llm_plan(gguf, &lo, &info) : zt_ctx_status(ctx);
    snprintf(text, total, "%s", zt_ctx_error(ctx));
    zt_engine_close(e);
    zt_gguf_close(gguf);
    zt_source_close(src);
    if (zt_mem_get(ctx).blocks) {
        diag("%zu blocks leak", zt_mem_get(ctx).blocks);
        st = ZT_OK; /* which no caller wants */
    }
    zt_ctx_free(ctx);
    return st;
}

/* Each tensor under another name: it is missed, by its own name. */
static void test_missing(const char *arch)
{
    file file_data = make_file(arch, "q8_0", 2, NULL);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *src = zt_source_memory(ctx, "made", file_data.bytes, file_data.n);
    zt_gguf *gguf = zt_gguf_from(ctx, src);
    bool good = gguf != NULL;
    for (int64_t i = 0; gguf && i < zt_gguf_n_tensors(gguf); i++) {
        char name[64], other[64], text[512];
        zt_type type;
        snprintf(name, sizeof name, "%s", zt_gguf_tensor(gguf, i, &type, NULL, NULL));
        snprintf(other, sizeof other, "%s", name);
        other[0] = '_';
        rename_to(&file_data, name, other);
        zt_status st = planned(&file_data, text, sizeof text);
        bool may = (strcmp(arch, "nomic-bert") == 0 && strcmp(name, "token_types.weight") == 0) ||
                   (strcmp(arch, "arwkv7") == 0 && strcmp(name, "blk.0.time_mix_ln.weight") == 0); /* the layers have none then */
        if (!strstr(text, may ? other : name) || st != (may ? ZT_ENOTSUP : ZT_EDATA)) {
            diag("%s: %s", name, text);
            good = false;
        }
        rename_to(&file_data, other, name);
    }
    ok(good, "%s: every tensor is missed by its name", arch);
    zt_gguf_close(gguf);
    zt_source_close(src);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

static void test_sizes(const char *arch)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *word;
    } row[] = {
        {"feed_forward_length", 96, "expected"},        {"embedding_length", 128, "expected"},
        {"attention.head_count", 0, "head_count is 0"}, {"attention.head_count_kv", 0, "head_count_kv is 0"},
        {"attention.head_count_kv", 3, "multiple"},     {"block_count", 3, "blk.2."},
        {"block_count", 0, "block_count is 0"},
    };
    if (mkmodel_has(arch, MK_LAYERED)) return; /* lists: layer_sizes.c */
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!(mkmodel_has(arch, MK_TIME_MIX) && strstr(row[i].key, "head_count"))) /* which it does not have */
            expect_key(arch, row[i].key, row[i].value, row[i].word);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void key_f32(ggufw *w, const char *arch, const char *key, float v)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", arch, key);
    ggufw_f32(w, name, v);
}

static void yarn(ggufw *w)
{
    ggufw_str(w, "llama.rope.scaling.type", "yarn");
    ggufw_f32(w, "llama.rope.scaling.factor", 4);
    ggufw_u32(w, "llama.rope.scaling.original_context_length", 32);
}
static void yarn_off(ggufw *w)
{
    yarn(w);
    key_f32(w, "llama", "rope.scaling.yarn_ext_factor", 0);
}
static void linear(ggufw *w) { key_f32(w, "llama", "rope.scaling.factor", 4); }
static void yarn_betas(ggufw *w)
{
    yarn(w);
    key_f32(w, "llama", "rope.scaling.yarn_beta_fast", 4);
    key_f32(w, "llama", "rope.scaling.yarn_beta_slow", 0.5f);
}
static void yarn_log(ggufw *w)
{
    yarn(w);
    key_f32(w, "llama", "rope.scaling.yarn_log_multiplier", 1);
}
static void yarn_said(ggufw *w)
{
    yarn(w);
    key_f32(w, "llama", "rope.scaling.attn_factor", 1);
    key_f32(w, "llama", "rope.scaling.yarn_beta_fast", 32);
    key_f32(w, "llama", "rope.scaling.yarn_beta_slow", 1);
}
static void window(ggufw *w) { ggufw_u32(w, "llama.attention.sliding_window", 9); }
static void wide_window(ggufw *w) { ggufw_u32(w, "llama.attention.sliding_window", 999); }
static void window_of_none(ggufw *w)
{
    static const uint8_t flag[2] = {0, 0};
    window(w);
    ggufw_array(w, "llama.attention.sliding_window_pattern", 7, 2, flag, 2);
}
static void window_of_one(ggufw *w)
{
    static const uint8_t flag[2] = {0, 1};
    window(w);
    ggufw_array(w, "llama.attention.sliding_window_pattern", 7, 2, flag, 2);
}
static void window_period(ggufw *w)
{
    window(w);
    ggufw_u32(w, "llama.attention.sliding_window_pattern", 1);
}
static void attention_scale(ggufw *w) { key_f32(w, "llama", "attention.scale", 0.25f); }
static void other_scale(ggufw *w) { key_f32(w, "llama", "attention.scale", 0.5f); }
static void gemma2_caps(ggufw *w)
{
    key_f32(w, "gemma2", "attn_logit_softcapping", 50);
    key_f32(w, "gemma2", "final_logit_softcapping", 30);
}
static void gemma2_low_cap(ggufw *w) { key_f32(w, "gemma2", "final_logit_softcapping", 2); }
static void gemma2_no_pattern(ggufw *w) { ggufw_u32(w, "gemma2.attention.sliding_window_pattern", 1); }
static void smollm3_plain(ggufw *w) { ggufw_str(w, "smollm3.rope.scaling.type", "none"); }
static void smollm3_layers(ggufw *w)
{
    static const uint8_t flag[2] = {1, 1};
    ggufw_array(w, "smollm3.rope.layer_pattern", 7, 2, flag, 2);
}
static void smollm3_every_second(ggufw *w) { ggufw_u32(w, "smollm3.rope.layer_pattern", 2); }
static void granite_rope(ggufw *w) { ggufw_bool(w, "granite.rope.scaling.finetuned", true); }
static void granite_none(ggufw *w) { ggufw_bool(w, "granite.rope.scaling.finetuned", false); }
static void divisors(ggufw *w, int64_t original)
{
    ggufw_str(w, "phi3.rope.scaling.type", "longrope");
    ggufw_u32(w, "phi3.rope.scaling.original_context_length", (uint32_t)original);
    add_vector(w, "rope_factors_long.weight", 8, 2);
    add_vector(w, "rope_factors_short.weight", 8, 1);
}
static void long_context(ggufw *w) { divisors(w, 128); }
static void short_context(ggufw *w) { divisors(w, 256); }
static void pooled_first(ggufw *w) { (void)w; } /* the key is there: patched */

static void test_keys(void)
{
    static const struct {
        const char *what, *arch;
        extra_fn *extra, *other; /* NULL: the model without */
        bool changes;
    } row[] = {
        {"YaRN", "llama", yarn, NULL, true},
        {"YaRN is not linear scaling", "llama", yarn, linear, true},
        {"YaRN with nothing extended is linear scaling", "llama", yarn_off, linear, false},
        {"YaRN's betas", "llama", yarn_betas, yarn, true},
        {"YaRN's amplitude", "llama", yarn_log, yarn, true},
        {"YaRN's defaults", "llama", yarn_said, yarn, false},
        {"a window", "llama", window, NULL, true},
        {"a window wider than the text", "llama", wide_window, NULL, false},
        {"a window that no layer has", "llama", window_of_none, NULL, false},
        {"a window that one layer has", "llama", window_of_one, NULL, true},
        {"one layer is not all", "llama", window_of_one, window, true},
        {"a period of 1: no layer", "llama", window_period, NULL, false},
        {"1/sqrt(head)", "llama", attention_scale, NULL, false},
        {"another scale", "llama", other_scale, NULL, true},
        {"gemma2's caps are 50 and 30", "gemma2", gemma2_caps, NULL, false},
        {"another cap", "gemma2", gemma2_low_cap, NULL, true},
        {"gemma2's layers take turns", "gemma2", gemma2_no_pattern, NULL, true},
        {"no scaling", "smollm3", smollm3_plain, NULL, false},
        {"two layers rotate, as they do", "smollm3", smollm3_layers, NULL, false},
        {"the second does not", "smollm3", smollm3_every_second, NULL, true},
        {"rope for granite", "granite", granite_rope, NULL, false},
        {"no rope for granite", "granite", granite_none, NULL, true},
        {"divisors for long contexts", "phi3", long_context, NULL, true},
        {"and short ones", "phi3", short_context, NULL, false},
        {"CLS pooling", "nomic-bert", pooled_first, NULL, true},
    };
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int64_t total = 0;
        file file_data = make_file(row[i].arch, "f32", 2, row[i].other);
        file g = make_file(row[i].arch, "f32", 2, row[i].extra);
        if (row[i].extra == pooled_first) patch(&g, "nomic-bert.pooling_type", 2);
        float *a = logits_of_arch(&file_data, row[i].arch, &options, &total),
              *b = logits_of_arch(&g, row[i].arch, &options, &total);
        bool same = a && b && memcmp(a, b, (size_t)total * 4) == 0;
        ok(a && b && same != row[i].changes, "%s: %s", row[i].what, row[i].changes ? "another answer" : "the same answer");
        free(a);
        free(b);
        free(file_data.bytes);
        free(g.bytes);
    }
}

static void rank(ggufw *w) { ggufw_u32(w, "llama.pooling_type", 4); }
static void pattern_short(ggufw *w)
{
    static const uint8_t flag[3] = {0, 1, 1};
    window(w);
    ggufw_array(w, "llama.attention.sliding_window_pattern", 7, 3, flag, 3);
}
static void pattern_below(ggufw *w)
{
    int32_t below = -2;
    window(w);
    ggufw_plain(w, "llama.attention.sliding_window_pattern", 5, &below, 4);
}
static void pattern_words(ggufw *w)
{
    char *words[2] = {"full", "sliding"};
    window(w);
    ggufw_strs(w, "llama.attention.sliding_window_pattern", words, 2);
}
static void window_below(ggufw *w)
{
    int32_t below = -9;
    ggufw_plain(w, "llama.attention.sliding_window", 5, &below, 4);
}
static void one_divisor(ggufw *w) { add_vector(w, "rope_factors_long.weight", 8, 1); }
static void few_divisors(ggufw *w)
{
    add_vector(w, "rope_factors_long.weight", 7, 1);
    add_vector(w, "rope_factors_short.weight", 8, 1);
}
static void slow(ggufw *w)
{
    yarn(w);
    key_f32(w, "llama", "rope.scaling.yarn_beta_slow", -1);
}
static void low_theta(ggufw *w) { yarn(w); }
static void both_layouts(ggufw *w) { add_vector(w, "blk.0.attn_qkv.weight", 64, 1); }

/* Keys of which each changes what the model means: they must be there, and of a size that can be. */
static void test_needed_keys(void)
{
    static const struct {
        const char *arch, *key;
    } row[] = {
        {"gptneox", "use_parallel_residual"},
        {"cohere2", "attention.sliding_window"},
        {"cohere2", "logit_scale"},
        {"command-r", "logit_scale"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char key[96], other[96], text[512];
        file file_data = make_file(row[i].arch, "q8_0", 2, NULL);
        snprintf(key, sizeof key, "%s.%s", row[i].arch, row[i].key);
        snprintf(other, sizeof other, "%s", key);
        other[strlen(other) - 1] = '_';
        rename_to(&file_data, key, other);
        ok(planned(&file_data, text, sizeof text) == ZT_EDATA && strstr(text, key), "%s", text);
        free(file_data.bytes);
    }
    expect_key("cohere2", "attention.sliding_window", 0, "sliding_window is 0");
    expect_key("command-r", "logit_scale", 0xbf800000u, "logit_scale is -1");
    expect_key("command-r", "logit_scale", 0x7fc00000u, "logit_scale is nan");
    expect_key("mistral3", "attention.temperature_scale", 0xbf000000u, "temperature_scale is -0.5");
    expect_key("mistral3", "rope.scaling.original_context_length", 0, "original_context_length is 0");
}

static void relu(ggufw *w) { ggufw_str(w, "modern-bert.hidden_activation", "relu"); }

static void test_activation(void)
{
    char text[512];
    file file_data = make_file("modern-bert", "q8_0", 2, relu);
    ok(planned(&file_data, text, sizeof text) == ZT_ENOTSUP && strstr(text, "hidden_activation"), "%s", text);
    free(file_data.bytes);
}

/* InternLM 2 is llama's graph under another name (llama.cpp's src/models/internlm2.cpp). */
static void test_alike(const char *arch, const char *other)
{
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    file one = make_file(arch, "f32", 2, NULL), two = make_file(other, "f32", 2, NULL);
    int64_t total = 0;
    float *a = logits_of_arch(&one, arch, &options, &total), *b = logits_of_arch(&two, other, &options, &total);
    ok(a && b && memcmp(a, b, (size_t)total * 4) == 0, "%s computes what %s does", arch, other);
    free(a);
    free(b);
    free(one.bytes);
    free(two.bytes);
}

/* Parallel or not: another answer. */
static void test_residual(void)
{
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .exact = true};
    static const char key[] = "gptneox.use_parallel_residual";
    file one = make_file("gptneox", "f32", 2, NULL), two = make_file("gptneox", "f32", 2, NULL);
    int64_t total = 0;
    char *at = memmem(two.bytes, two.n, key, strlen(key));
    if (at) at[strlen(key) + 4] = 0; /* behind the kind: false */
    float *a = logits_of_arch(&one, "gptneox", &options, &total), *b = logits_of_arch(&two, "gptneox", &options, &total);
    ok(a && b && memcmp(a, b, (size_t)total * 4) != 0, "gptneox: use_parallel_residual counts");
    free(a);
    free(b);
    free(one.bytes);
    free(two.bytes);
}

static void test_refusals(void)
{
    static const struct {
        extra_fn *extra;
        zt_status want;
        const char *word;
    } row[] = {
        {rank, ZT_EDATA, "pooling_type is 4 (rank), but tensor 'cls.output.weight' is missing"},
        {pattern_short, ZT_EDATA, "one entry per layer (3, 2)"},
        {pattern_below, ZT_EDATA, "not a number of layers (-2"},
        {pattern_words, ZT_EDATA, "not 0 or 1"},
        {window_below, ZT_EDATA, "sliding_window is -9"},
        {one_divisor, ZT_EDATA, "'rope_factors_short.weight' is missing"},
        {few_divisors, ZT_EDATA, "expected f32[8], found f32[7]"},
        {slow, ZT_EDATA, "yarn_beta_slow is -1"},
        {low_theta, ZT_EDATA, "freq_base is not greater than 1"},
        {both_layouts, ZT_ENOTSUP, "unexpected tensor 'blk.0.attn_qkv.weight'"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file file_data = make_file("llama", "q8_0", 2, row[i].extra);
        if (row[i].extra == low_theta) patch(&file_data, "llama.rope.freq_base", 0x3f000000u); /* 0.5 */
        expect(&file_data, row[i].want, row[i].word, row[i].word);
        free(file_data.bytes);
    }
}

/* ---- encoders -------------------------------------------------------------------------------- */

/* Rows after the text are padding: they change nothing. */
static void test_padding(const char *arch)
{
    enum { N = 11, PAD = 29, W = 64 };
    file file_data = make_file(arch, "q8_0", 2, NULL);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .embed = true};
    zt_ctx *ctx = zt_ctx_new();
    model o;
    int32_t ids[PAD], types[PAD] = {0}, pos[PAD], last[PAD];
    float alone[N * W], padded[PAD * W];
    draw_ids(ids, PAD, 300);
    for (int i = 0; i < PAD; i++) {
        pos[i] = i;
        last[i] = N - 1;
    }
    const void *in[] = {ids, types, pos, last};
    zt_status st = model_open(&o, ctx, &file_data, &options);
    if (st == ZT_OK) st = zt_session_step(zt_llm_session(o.m), &(zt_binding){"n", N}, 1, in, (void *[]){alone});
    if (st == ZT_OK) st = zt_session_step(zt_llm_session(o.m), &(zt_binding){"n", PAD}, 1, in, (void *[]){padded});
    ok(st == ZT_OK && memcmp(alone, padded, sizeof alone) == 0, "%s: padding is not seen %s", arch, zt_ctx_error(ctx));
    types[0] = 1;
    if (st == ZT_OK) st = zt_session_step(zt_llm_session(o.m), &(zt_binding){"n", N}, 1, in, (void *[]){padded});
    ok(st == ZT_OK && (memcmp(alone, padded, sizeof alone) != 0) == mkmodel_has(arch, MK_TYPES),
       "%s: a token's type counts where there are any", arch);
    model_close(&o);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

static void causal(ggufw *w) { ggufw_bool(w, "nomic-bert.attention.causal", true); }

static void test_encoder(const char *arch)
{
    file file_data = make_file(arch, "q8_0", 2, NULL);
    int32_t ids[41];
    float y[64], first[64];
    draw_ids(ids, 41, 300);
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = 40};
    ok(model_open(&o, ctx, &file_data, &options) == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), "encoder"), "%s: no text: %s", arch,
       zt_ctx_error(ctx));
    model_close(&o);
    zt_ctx_clear(ctx);
    options.embed = true;
    ok(model_open(&o, ctx, &file_data, &options) == ZT_OK && zt_llm_get(o.m).kv_bytes == 0, "%s: no cache %s", arch,
       zt_ctx_error(ctx));
    ok(o.m && zt_llm_embed(o.m, ids, 40, first) == ZT_OK, "as many tokens as the context");
    ok(o.m && zt_llm_embed(o.m, ids, 41, y) == ZT_ENOMEM && strstr(zt_ctx_error(ctx), "40"), "one more: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ids[39] = (ids[39] + 1) % 300;
    ok(o.m && zt_llm_embed(o.m, ids, 40, y) == ZT_OK && memcmp(y, first, sizeof y) != 0, "the last token counts");
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", arch);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

static void test_learned_positions(void)
{
    file file_data = make_file("gpt2", "q8_0", 2, NULL);
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = 257};
    ok(model_open(&o, ctx, &file_data, &options) == ZT_EUSAGE && strstr(zt_ctx_error(ctx), "256 positions"),
       "no more context than positions: %s", zt_ctx_error(ctx));
    model_close(&o);
    zt_ctx_free(ctx);
    free(file_data.bytes);
    file_data = make_file("nomic-bert", "q8_0", 2, causal);
    rename_to(&file_data, "nomic-bert.attention.causal", "nomic-bert.attention.casual");
    char text[512];
    ok(planned(&file_data, text, sizeof text) == ZT_ENOTSUP && strstr(text, "causal"), "%s", text);
    free(file_data.bytes);
}

/* ---- depth ----------------------------------------------------------------------------------- */

/* Of many layers no value has the name of another, in the forward pass and in training. */
static void test_depth(const char *arch)
{
    mkmodel_opts options = mkmodel_defaults(arch);
    ggufw writer = {0};
    size_t size;
    options.layers = mkmodel_has(arch, MK_LAYERED) ? 60 : 112;
    if (!mkmodel_has(arch, MK_LAYERED)) options.width = options.ffn = 32;
    options.type = mkmodel_type("f32");
    const char *why = mkmodel(&options, &writer);
    char *bytes = ggufw_bytes(&writer, &size);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *source = zt_source_memory(ctx, "deep", bytes, size);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    zt_prog *forward = gguf ? zt_llm_program(gguf, &(zt_llm_opts){.kv = ZT_DTYPE_COUNT, .embed = encoder(arch)}) : NULL;
    ok(!why && forward, "%s of many layers %s %s", arch, why ? why : "", zt_ctx_error(ctx));
    zt_prog_free(forward);
    bool learns = !encoder(arch) && !mkmodel_has(arch, MK_INDEXER);
    zt_prog *training = gguf && learns ? zt_llm_training(gguf, 8) : NULL;
    ok(training || !learns, "%s of many layers: trained %s", arch, zt_ctx_error(ctx));
    zt_prog_free(training);
    zt_gguf_close(gguf);
    zt_source_close(source);
    zt_ctx_free(ctx);
    free(bytes);
}

int main(void)
{
    for (size_t i = 0; i < sizeof mkmodel_archs / sizeof *mkmodel_archs; i++) {
        const char *arch = mkmodel_archs[i].name;
        test_engines(arch);
        test_bits(arch);
        test_program(arch);
        test_missing(arch);
        test_sizes(arch);
        test_depth(arch);
        if (!encoder(arch)) continue;
        test_padding(arch);
        test_encoder(arch);
    }
    test_keys();
    test_needed_keys();
    test_residual();
    test_activation();
    test_alike("internlm2", "llama");
    test_refusals();
    test_learned_positions();
    return tap_done();
}
