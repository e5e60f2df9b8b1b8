/* latent.c - multi-head latent attention, over made models: the cache is one row a token, keys and values from one matrix or
 * two are the same bits, and what keys change or are refused by name. That the formulas are right is for tests/llm/latent to
 * say: there are transformers' logits. */
#include "tests/common/made_llm.h"

enum { HEADS = 4, HEAD = 16, LATENT = 32, ROPE = 8, LAYERS = 2, CTX = 128 };

static file make_latent(const char *arch, const char *type, bool whole, extra_fn *extra)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    file f = {0};
    ggufw writer = {0};
    o.type = mkmodel_type(type);
    o.whole_b = whole;
    o.seed = 7;
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    if (extra) extra(&writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

static float *logits_of(const file *file_data, const char *engine, int64_t chunk, bool exact)
{
    setup options = {.engine = engine, .threads = 2, .isa = zt_isa_best(), .exact = exact, .chunk = chunk};
    return all_logits(file_data, &options, vocab_of(file_data));
}

static bool same_logits(const file *file_data, const float *left, const float *right)
{
    return left && right && memcmp(left, right, (size_t)(N_TOKENS * vocab_of(file_data)) * sizeof *left) == 0;
}

/* ---- the cache ------------------------------------------------------------------------------- */

static void test_cache(const char *arch)
{
    file f = make_latent(arch, "q8_0", false, NULL);
    zt_ctx *ctx = zt_ctx_new();
    model o;
    setup options = {.engine = "cpu", .threads = 1, .ctx_len = CTX};
    bool opened = model_open(&o, ctx, &f, &options) == ZT_OK;
    zt_llm_info info = opened ? zt_llm_get(o.m) : (zt_llm_info){0};
    int states = opened ? zt_prog_count(zt_llm_prog(o.m), ZT_VALUE_STATE) : 0;
    ok(info.kv_bytes == (size_t)LAYERS * CTX * (LATENT + ROPE) * 2, "%s: a cache of %zu bytes: f16 of latent and rope alone",
       arch, info.kv_bytes);
    ok(states == LAYERS && info.n_kv_heads == 1 && info.n_heads == HEADS && info.head == HEAD,
       "%s: one state a layer, one key head", arch);
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", arch);
    zt_ctx_free(ctx);
    free(f.bytes);
}

/* ---- one matrix or two ----------------------------------------------------------------------- */

static void test_layouts(void)
{
    static const char *const engines[] = {"cpu", "ref"};
    file two = make_latent("deepseek2", "f32", false, NULL), one = make_latent("deepseek2", "f32", true, NULL);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        float *split = logits_of(&two, engines[i], 0, true), *whole = logits_of(&one, engines[i], 0, true);
        ok(same_logits(&one, split, whole), "%s: attn_kv_b gives the bits of attn_k_b and attn_v_b", engines[i]);
        float *ones = logits_of(&one, engines[i], 1, true), *sevens = logits_of(&one, engines[i], 7, true);
        ok(same_logits(&one, whole, ones) && same_logits(&one, whole, sevens), "%s: the same bits for chunks of 1, 7 and all",
           engines[i]);
        free(split);
        free(whole);
        free(ones);
        free(sevens);
    }
    free(two.bytes);
    free(one.bytes);
}

static void test_types(void)
{
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q5_1", "iq4_nl"};
    static const char *const archs[] = {"deepseek2", "minicpm3"};
    for (size_t i = 0; i < sizeof types / sizeof *types * 2; i++) {
        file f = make_latent(archs[i % 2], types[i / 2], false, NULL);
        float *whole = logits_of(&f, "cpu", 0, false), *ones = logits_of(&f, "cpu", 1, false),
              *sevens = logits_of(&f, "cpu", 7, false);
        ok(same_logits(&f, whole, ones) && same_logits(&f, whole, sevens), "%s in %s: the same bits for any chunk", archs[i % 2],
           types[i / 2]);
        free(whole);
        free(ones);
        free(sevens);
        free(f.bytes);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void yarn(ggufw *w)
{
    ggufw_str(w, "deepseek2.rope.scaling.type", "yarn");
    ggufw_f32(w, "deepseek2.rope.scaling.factor", 4);
    ggufw_u32(w, "deepseek2.rope.scaling.original_context_length", 32);
}

static void all_dims(ggufw *w)
{
    yarn(w);
    ggufw_f32(w, "deepseek2.rope.scaling.yarn_log_multiplier", 0.0707f);
}

static void temperature(ggufw *w) { ggufw_f32(w, "deepseek2.attention.temperature_scale", 0.5f); }

static void temperature_late(ggufw *w)
{
    ggufw_u32(w, "deepseek2.rope.scaling.original_context_length", 128);
    temperature(w);
}

static void temperature_soon(ggufw *w)
{
    ggufw_u32(w, "deepseek2.rope.scaling.original_context_length", 16);
    temperature(w);
}

static void cap(ggufw *w) { ggufw_f32(w, "deepseek2.attn_logit_softcapping", 1); }

static void test_keys(void)
{
    static const struct {
        const char *what;
        extra_fn *extra;
        bool changes;
    } row[] = {
        {"YaRN", yarn, true},
        {"YaRN that scales all of q k", all_dims, true},
        {"queries that grow from position 16 on", temperature_soon, true},
        {"queries that grow behind the text", temperature_late, false},
        {"a cap of scores", cap, true},
    };
    file plain = make_latent("deepseek2", "f32", false, NULL);
    float *before = logits_of(&plain, "cpu", 0, true);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_latent("deepseek2", "f32", false, row[i].extra);
        float *after = logits_of(&f, "cpu", 0, true), *sevens = logits_of(&f, "cpu", 7, true);
        ok(before && after && same_logits(&plain, before, after) == !row[i].changes && same_logits(&f, after, sevens),
           "%s %s, the same for any chunk", row[i].what, row[i].changes ? "changes the logits" : "changes no logit");
        free(after);
        free(sevens);
        free(f.bytes);
    }
    free(before);
    free(plain.bytes);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_numbers(void)
{
    static const struct {
        const char *arch, *key;
        uint32_t value;
        const char *word;
    } row[] = {
        {"deepseek2", "attention.key_length_mla", 0, "key_length_mla is 0"},
        {"deepseek2", "attention.key_length_mla", 8, "not below the head length"},
        {"deepseek2", "attention.key_length_mla", 20, "attn_q_b.weight"},
        {"deepseek2", "attention.key_length_mla", 0xffffffffu, "key_length_mla is"},
        {"deepseek2", "attention.key_length_mla", 1 << 24, "too large"},
        {"deepseek2", "attention.value_length_mla", 0, "value_length_mla is 0"},
        {"deepseek2", "attention.value_length_mla", 17, "attn_v_b.weight"},
        {"deepseek2", "attention.value_length_mla", 0xffffffffu, "value_length_mla is"},
        {"deepseek2", "attention.value_length_mla", 1 << 24, "too large"},
        {"deepseek2", "attention.kv_lora_rank", 0, "kv_lora_rank is 0"},
        {"deepseek2", "attention.kv_lora_rank", 33, "attn_kv_a_mqa.weight"},
        {"deepseek2", "attention.kv_lora_rank", 0xffffffffu, "kv_lora_rank is"},
        {"deepseek2", "attention.kv_lora_rank", 1 << 24, "too large"},
        {"deepseek2", "attention.q_lora_rank", 0, "'blk.0.attn_q.weight' is missing"},
        {"deepseek2", "attention.q_lora_rank", 33, "attn_q_a.weight"},
        {"deepseek2", "attention.q_lora_rank", 0xffffffffu, "q_lora_rank is"},
        {"deepseek2", "attention.head_count", 1 << 24, "too large"},
        {"deepseek2", "attention.head_count_kv", 2, "neither 1"},
        {"deepseek2", "rope.dimension_count", 0, "rope.dimension_count is 0"},
        {"deepseek2", "rope.dimension_count", 7, "odd"},
        {"deepseek2", "rope.dimension_count", 16, "not below the head length"},
        {"deepseek2", "rope.dimension_count", 4, "attn_kv_a_mqa.weight"},
        {"deepseek2", "leading_dense_block_count", 3, "leading_dense_block_count"},
        {"deepseek2", "expert_count", 0, "ffn_gate"},
        {"deepseek2", "expert_shared_count", 0xffffffffu, "expert_shared_count"},
        {"minicpm3", "attention.key_length", 0, "key_length is 0"},
        {"minicpm3", "attention.key_length", 8, "not below the head length"},
        {"minicpm3", "attention.key_length", 18, "attn_q_b.weight"},
        {"minicpm3", "attention.kv_lora_rank", 16, "attn_kv_a_mqa.weight"},
        {"minicpm3", "attention.kv_lora_rank", 1 << 24, "too large"},
        {"minicpm3", "rope.dimension_count", 32, "not below the head length"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) expect_key(row[i].arch, row[i].key, row[i].value, row[i].word);
}

static void stray_key(ggufw *w) { add_vector(w, "blk.0.attn_k.weight", 64, 1); }
static void window(ggufw *w) { ggufw_u32(w, "deepseek2.attention.sliding_window", 8); }
static void shared_caches(ggufw *w) { ggufw_u32(w, "deepseek2.attention.shared_kv_layers", 1); }

static void test_shapes(void)
{
    static const struct {
        extra_fn *extra;
        const char *from, *to;
        zt_status want;
        const char *word;
    } row[] = {
        {NULL, "blk.0.attn_k_b.weight", "blk.0.attn_k_c.weight", ZT_EDATA, "'blk.0.attn_k_b.weight' is missing"},
        {NULL, "blk.1.attn_v_b.weight", "blk.1.attn_v_c.weight", ZT_EDATA, "'blk.1.attn_v_b.weight' is missing"},
        {NULL, "blk.1.exp_probs_b.bias", "blk.1.exp_probs_c.bias", ZT_EDATA, "'blk.1.exp_probs_b.bias' is missing"},
        {NULL, "deepseek2.attention.kv_lora_rank", "deepseek2.attention.kv_lora_rang", ZT_EDATA, "kv_lora_rank' is missing"},
        {NULL, "deepseek2.attention.key_length_mla", "deepseek2.attention.key_length_mlb", ZT_EDATA, "attn_q_b.weight"},
        {NULL, "deepseek2.attention.value_length_mla", "deepseek2.attention.value_length_mlb", ZT_EDATA,
         "value_length_mla' is missing"},
        {stray_key, "", "", ZT_ENOTSUP, "blk.0.attn_k.weight"},
        {window, "", "", ZT_ENOTSUP, "sliding-window"},
        {shared_caches, "", "", ZT_ENOTSUP, "shared caches"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file file_data = make_file("deepseek2", "q8_0", 2, row[i].extra);
        rename_to(&file_data, row[i].from, row[i].to);
        expect(&file_data, row[i].want, row[i].word, row[i].word);
        free(file_data.bytes);
    }
}

int main(void)
{
    test_cache("deepseek2");
    test_cache("minicpm3");
    test_layouts();
    test_types();
    test_keys();
    test_numbers();
    test_shapes();
    return tap_done();
}
