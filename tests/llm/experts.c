/* experts.c - routed experts, over made models: what keys change, what is refused by name, and that an expert that no row
 * names is not read. That the formulas are right is for tests/llm/archs to say: there are transformers' logits. */
#include "tests/common/made_llm.h"
#include "tests/common/one_op.h"

#include <math.h>

/* ---- made models ----------------------------------------------------------------------------- */

/* `arch` with experts, also llama. */
static file make_sparse(const char *arch, const char *type, int64_t experts, extra_fn *extra)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    file f = {0};
    ggufw writer = {0};
    o.type = mkmodel_type(type);
    o.experts = experts;
    o.seed = 7;
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    if (extra) extra(&writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

static float *logits_of(const file *file_data, int64_t chunk, int threads, bool exact)
{
    setup options = {.engine = "cpu", .threads = threads, .isa = zt_isa_best(), .exact = exact, .chunk = chunk};
    return all_logits(file_data, &options, vocab_of(file_data));
}

static void test_mixtral(void)
{
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q5_1", "iq4_nl"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        file f = make_sparse("llama", types[i], 5, NULL);
        size_t bytes = (size_t)(N_TOKENS * vocab_of(&f)) * sizeof(float);
        float *whole = logits_of(&f, 0, 1, false), *ones = logits_of(&f, 1, 2, false), *sevens = logits_of(&f, 7, 3, false);
        ok(whole && ones && sevens && memcmp(whole, ones, bytes) == 0 && memcmp(whole, sevens, bytes) == 0,
           "llama with experts in %s: the same bits for any chunk and threads", types[i]);
        free(whole);
        free(ones);
        free(sevens);
        free(f.bytes);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void norm_on(ggufw *w) { ggufw_bool(w, "qwen2moe.expert_weights_norm", true); }
static void norm_off(ggufw *w) { ggufw_bool(w, "qwen2moe.expert_weights_norm", false); }
static void scale_two(ggufw *w) { ggufw_f32(w, "qwen2moe.expert_weights_scale", 2); }
static void scale_none(ggufw *w) { ggufw_f32(w, "qwen2moe.expert_weights_scale", 0); }
static void sigmoid(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_gating_func", 2); }
static void softmax(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_gating_func", 1); }
static void softmax_chosen(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_gating_func", 3); }
static void unsaid(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_gating_func", 0); }
static void one_group(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_group_count", 1); }
static void groups(ggufw *w, int64_t used)
{
    ggufw_u32(w, "qwen2moe.expert_group_count", 2);
    ggufw_u32(w, "qwen2moe.expert_group_used_count", (uint32_t)used);
}
static void both_groups(ggufw *w) { groups(w, 2); }
static void half_the_groups(ggufw *w) { groups(w, 1); }
static void length(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_feed_forward_length", 64); }
static void step_one(ggufw *w) { ggufw_u32(w, "qwen2moe.interleave_moe_layer_step", 1); }

static void test_keys(void)
{
    static const struct {
        const char *what;
        extra_fn *extra;
        bool changes;
    } row[] = {
        {"weights that sum to 1", norm_on, true},
        {"weights as they are", norm_off, false},
        {"weights times 2", scale_two, true},
        {"a scale of 0: none", scale_none, false},
        {"sigmoid", sigmoid, true},
        {"softmax, as it is", softmax, false},
        {"softmax of the chosen", softmax_chosen, true},
        {"a gating that is not said", unsaid, false},
        {"one group", one_group, false},
        {"two groups, both used", both_groups, false},
        {"two groups, one used", half_the_groups, true},
        {"the length that they have", length, false},
        {"experts in every layer", step_one, false},
    };
    file plain = make_sparse("qwen2moe", "f32", 4, NULL);
    size_t bytes = (size_t)(N_TOKENS * vocab_of(&plain)) * sizeof(float);
    float *a = logits_of(&plain, 0, 1, true);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_sparse("qwen2moe", "f32", 4, row[i].extra);
        float *b = logits_of(&f, 0, 1, true);
        bool same = a && b && memcmp(a, b, bytes) == 0;
        ok(a && b && same != row[i].changes, "%s: %s", row[i].what, row[i].changes ? "another answer" : "the same answer");
        free(b);
        free(f.bytes);
    }
    free(a);
    free(plain.bytes);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void i32_key(ggufw *w, const char *key, int32_t value) { ggufw_plain(w, key, 5, &value, 4); }
static void gating_four(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_gating_func", 4); }
static void gating_below(ggufw *w) { i32_key(w, "qwen2moe.expert_gating_func", -1); }
static void scale_below(ggufw *w) { ggufw_f32(w, "qwen2moe.expert_weights_scale", -1); }
static void scale_nan(ggufw *w) { ggufw_f32(w, "qwen2moe.expert_weights_scale", NAN); }
static void three_groups(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_group_count", 3); }
static void single_groups(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_group_count", 4); }
static void groups_below(ggufw *w) { i32_key(w, "qwen2moe.expert_group_count", -2); }
static void used_too_many(ggufw *w) { groups(w, 3); }
static void length_zero(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_feed_forward_length", 0); }
static void length_other(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_feed_forward_length", 65); }
static void length_huge(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_feed_forward_length", UINT32_MAX); }
static void shared_below(ggufw *w) { i32_key(w, "qwen2moe.expert_shared_count", -1); }
static void shared_huge(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_shared_count", UINT32_MAX); }
static void shared_none(ggufw *w) { ggufw_u32(w, "qwen2moe.expert_shared_count", 0); }
static void leading_below(ggufw *w) { i32_key(w, "qwen2moe.leading_dense_block_count", -1); }
static void leading_more(ggufw *w) { ggufw_u32(w, "qwen2moe.leading_dense_block_count", 3); }
static void leading_one(ggufw *w) { ggufw_u32(w, "qwen2moe.leading_dense_block_count", 1); }
static void step_zero(ggufw *w) { ggufw_u32(w, "qwen2moe.interleave_moe_layer_step", 0); }
static void extra_layers(ggufw *w) { ggufw_u32(w, "qwen2moe.nextn_predict_layers", 2); }
static void extra_below(ggufw *w) { i32_key(w, "qwen2moe.nextn_predict_layers", -1); }

static void test_refusals(void)
{
    static const struct {
        extra_fn *extra;
        zt_status want;
        const char *word;
    } row[] = {
        {gating_four, ZT_ENOTSUP, "expert_gating_func"},
        {gating_below, ZT_ENOTSUP, "expert_gating_func"},
        {scale_below, ZT_EDATA, "expert_weights_scale is -1"},
        {scale_nan, ZT_EDATA, "expert_weights_scale is nan"},
        {three_groups, ZT_EDATA, "expert_group_count does not divide expert_count (3, 4)"},
        {single_groups, ZT_EDATA, "fewer than two (1, 2)"},
        {groups_below, ZT_EDATA, "expert_group_count is -2"},
        {used_too_many, ZT_EDATA, "expert_group_used_count is more than expert_group_count (3, 2)"},
        {length_zero, ZT_EDATA, "expert_feed_forward_length is 0"},
        {length_other, ZT_EDATA, "expected q8_0[4,65,64]"},
        {length_huge, ZT_EDATA, "expert_feed_forward_length is 4294967295"},
        {shared_below, ZT_EDATA, "expert_shared_count"},
        {shared_huge, ZT_EDATA, "expert_shared_count"},
        {shared_none, ZT_ENOTSUP, "unexpected tensor 'blk.0.ffn_g"},
        {leading_below, ZT_EDATA, "leading_dense_block_count"},
        {leading_more, ZT_EDATA, "leading_dense_block_count is not a number of layers (3, 2)"},
        {leading_one, ZT_EDATA, "'blk.0.ffn_gate.weight' is missing"},
        {step_zero, ZT_EDATA, "interleave_moe_layer_step is 0"},
        {extra_layers, ZT_EDATA, "nextn_predict_layers is not below block_count (2, 2)"},
        {extra_below, ZT_EDATA, "nextn_predict_layers is not below block_count (-1, 2)"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_sparse("qwen2moe", "q8_0", 4, row[i].extra);
        expect(&f, row[i].want, row[i].word, row[i].word);
        free(f.bytes);
    }
}

/* Counts that are there, with another value; UINT32_MAX as a signed number is -1. */
static void test_counts(void)
{
    static const struct {
        const char *arch, *key;
        uint32_t value;
        const char *word;
    } row[] = {
        {"qwen2moe", "expert_count", 0, "expert_count is 0, expected 1 to 65536"},
        {"qwen2moe", "expert_count", 5, "expected f32[5,64]"},
        {"qwen2moe", "expert_count", 1, "expert_used_count is more than expert_count (2, 1)"},
        {"qwen2moe", "expert_count", 0x7fffffff, "expert_count is 2147483647"},
        {"qwen2moe", "expert_count", UINT32_MAX, "expert_count is 4294967295"},
        {"qwen2moe", "expert_used_count", 0, "expert_used_count is 0"},
        {"qwen2moe", "expert_used_count", 5, "expert_used_count is more than expert_count (5, 4)"},
        {"qwen2moe", "expert_used_count", UINT32_MAX, "expert_used_count is 4294967295"},
        {"qwen2moe", "expert_shared_feed_forward_length", UINT32_MAX, "expert_shared_feed_forward_length"},
        {"phimoe", "expert_used_count", 3, "expert_used_count is not 2 (3, 2)"},
        {"glm4moe", "expert_shared_count", 2, "expected q8_0[128,64]"},
        {"gpt-oss", "attention.sliding_window", 0, "sliding_window is 0"},
        {"gpt-oss", "attention.sliding_window", UINT32_MAX, "sliding_window is 4294967295"},
        {"gpt-oss", "attention.head_count", 2, "'blk.0.attn_"},
        {"gpt-oss", "expert_count", 3, "'blk.0.ffn_gate_inp"},
        {"gpt-oss", "expert_used_count", 0, "expert_used_count is 0"},
        {"gpt-oss", "feed_forward_length", 64, "'blk.0.ffn_gate_exps"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char whole[96];
        file f = make_sparse(row[i].arch, "q8_0", 4, NULL);
        snprintf(whole, sizeof whole, "%s.%s", row[i].arch, row[i].key);
        patch(&f, whole, row[i].value);
        expect(&f, ZT_EDATA, row[i].word, row[i].word);
        free(f.bytes);
    }
}

static void mixture(ggufw *w) { ggufw_u32(w, "gpt2.expert_count", 8); }

static void test_other_architectures(void)
{
    file f = make_sparse("gpt2", "q8_0", 0, mixture);
    expect(&f, ZT_ENOTSUP, "gpt2 models with a mixture of experts", "experts where the architecture has none");
    free(f.bytes);
}

/* ---- gate over up in one tensor -------------------------------------------------------------- */

/* The tensor's bytes at `out`. */
static bool read_tensor(zt_gguf *gguf, const char *name, char *out)
{
    zt_store store = zt_gguf_store(gguf);
    zt_type type;
    int64_t handle;
    return store.find(store.user, name, &type, &handle) == ZT_OK &&
           store.read(store.user, handle, 0, out, zt_type_bytes(&type)) == ZT_OK;
}

/* The same model, each expert's gate and up in one tensor, q8_0[E, 2 M, K]; made by mkmodel, whose tensors are read back. */
static file fuse_experts(const file *plain)
{
    enum { E = 4, M = 64, K = 64, BYTES = M * K / 32 * 34 };
    static char gate[E * BYTES], up[E * BYTES], both[2 * E * BYTES];
    mkmodel_opts o = mkmodel_defaults("qwen3moe");
    ggufw keys = {0};
    file f = {0};
    o.seed = 7;
    mkmodel(&o, &keys);
    free(keys.infos.data);
    free(keys.data.data);
    ggufw w = {.keys = keys.keys, .n_keys = keys.n_keys};
    zt_ctx *ctx = zt_ctx_new();
    zt_source *source = zt_source_memory(ctx, "plain", plain->bytes, plain->n);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    for (int64_t i = 0; gguf && i < zt_gguf_n_tensors(gguf); i++) {
        zt_type type;
        char name[64], *data;
        snprintf(name, sizeof name, "%s", zt_gguf_tensor(gguf, i, &type, NULL, NULL));
        if (strstr(name, "ffn_up_exps")) continue;
        bool fused = strstr(name, "ffn_gate_exps") != NULL;
        data = malloc(zt_type_bytes(&type));
        if (!data || !read_tensor(gguf, name, data)) diag("%s: %s", name, zt_ctx_error(ctx));
        if (fused) {
            memcpy(gate, data, sizeof gate);
            snprintf(name, sizeof name, "blk.%c.ffn_up_exps.weight", name[4]);
            if (!read_tensor(gguf, name, up)) diag("%s: %s", name, zt_ctx_error(ctx));
            for (int e = 0; e < E; e++) {
                memcpy(both + 2 * e * BYTES, gate + e * BYTES, BYTES);
                memcpy(both + (2 * e + 1) * BYTES, up + e * BYTES, BYTES);
            }
            snprintf(name, sizeof name, "blk.%c.ffn_gate_up_exps.weight", name[4]);
            ggufw_tensor(&w, name, 8, 3, (int64_t[]){E, 2 * M, K}, both, sizeof both);
        } else {
            ggufw_tensor(&w, name, type.dtype == ZT_F32 ? 0 : 8, type.rank, type.dim, data, zt_type_bytes(&type));
        }
        free(data);
    }
    zt_gguf_close(gguf);
    zt_source_close(source);
    zt_ctx_free(ctx);
    f.bytes = ggufw_bytes(&w, &f.n);
    return f;
}

static void test_fused(void)
{
    file plain = make_sparse("qwen3moe", "q8_0", 4, NULL), fused = fuse_experts(&plain);
    size_t bytes = (size_t)(N_TOKENS * vocab_of(&plain)) * sizeof(float);
    float *a = logits_of(&plain, 0, 1, false), *b = logits_of(&fused, 0, 1, false), *c = logits_of(&fused, 1, 2, false);
    ok(a && b && c && memcmp(a, b, bytes) == 0 && memcmp(a, c, bytes) == 0, "gate over up in one tensor: the same bits");
    free(a);
    free(b);
    free(c);
    free(plain.bytes);
    free(fused.bytes);
}

/* ---- what is read ---------------------------------------------------------------------------- */

/* Experts 1 and 3 hold NaN alone, and no row names them. */
static void test_unused(zt_ctx *ctx, int64_t tokens)
{
    enum { K = 64, E = 5, M = 24, MOST = 100 };
    static float x[MOST * K], w[E * M * K], y[MOST * 2 * M];
    static int32_t index[MOST * 2];
    const int32_t named[] = {0, 2, 4};
    for (int64_t i = 0; i < tokens * K; i++) x[i] = (float)zt_normal(3, 0, (uint64_t)i);
    for (int64_t i = 0; i < E * M * K; i++) w[i] = i / (M * K) % 2 ? NAN : (float)zt_normal(4, 0, (uint64_t)i);
    for (int64_t i = 0; i < tokens * 2; i++) index[i] = named[i % 3];
    const zt_type types[] = {zt_type_make(ZT_F32, 2, (int64_t[]){tokens, K}), zt_type_make(ZT_F32, 3, (int64_t[]){E, M, K}),
                             zt_type_make(ZT_I32, 2, (int64_t[]){tokens, 2})};
    oneop call = {.op = ZT_OP_expert_linear, .attrs = &(zt_expert_linear_attrs){{"f32"}}, .result = {y}};
    const void *data[] = {x, w, index};
    for (int k = 0; k < 3; k++) call.in[k] = &types[k], call.data[k] = data[k];
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    bool good = engine && zt_op_infer(ctx, call.op, call.attrs, call.in, call.out) == ZT_OK && oneop_run(engine, &call) == ZT_OK;
    for (int64_t i = 0; i < tokens * 2 * M && good; i++) good = isfinite(y[i]);
    ok(good, "%lld tokens: experts that no row names are not read %s", (long long)tokens, zt_ctx_error(ctx));
    index[tokens] = E;
    zt_status status = engine ? oneop_run(engine, &call) : ZT_OK;
    ok(status == ZT_EDATA && strstr(zt_ctx_error(ctx), "expert 5 is out of range"), "an expert past the last: %s",
       zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
}

/* A token reads the weights of its experts, and 5 per cent more at most; a prompt all of them, once. */
static void test_cost(void)
{
    const zt_type w = zt_type_make(ZT_Q4_K, 3, (int64_t[]){128, 768, 2048});
    double each = (double)zt_type_bytes(&w) / 128;
    static const int64_t tokens[] = {1, 2, 16, 512};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        int64_t n = tokens[i];
        const zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){n, 2048}), index = zt_type_make(ZT_I32, 2, (int64_t[]){n, 8});
        const zt_type *in[ZT_MAX_IN] = {&x, &w, &index};
        zt_type out[ZT_MAX_OUT];
        zt_op_infer(NULL, ZT_OP_expert_linear, NULL, in, out);
        double bytes = zt_op_bytes(ZT_OP_expert_linear, NULL, in, out), weights = each * (double)(n < 16 ? 8 * n : 128);
        double rest = (double)(zt_type_bytes(&x) + zt_type_bytes(&index) + zt_type_bytes(&out[0]));
        ok(bytes == weights + rest && (n > 1 || bytes <= 1.05 * weights), "%d tokens: %.0f bytes", (int)n, bytes);
    }
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_mixtral();
    test_keys();
    test_refusals();
    test_counts();
    test_other_architectures();
    test_fused();
    test_cost();
    test_unused(ctx, 3);
    test_unused(ctx, 100);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
