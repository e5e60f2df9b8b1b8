/* hf_models.c - Hugging Face directories as models: keys, names and values that llama.cpp's converter
 * would have written; what may be missing. What is wrong with them: hf_faults.c. That the models
 * run right is for golden_arch. */
#include <math.h>

#include "tests/llm/hf_small.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static int64_t int_key(const zt_gguf *g, const char *key)
{
    int64_t v = -1;
    return g && zt_gguf_i64(g, key, &v) ? v : -1;
}

static double real_key(const zt_gguf *g, const char *key)
{
    double v = NAN;
    return g && zt_gguf_f64(g, key, &v) ? v : NAN;
}

/* The f32 values of a tensor; its shape "f32[8]". Read whole, and again in pieces of 3 bytes. */
static bool values_are(zt_gguf *gguf, const char *name, const char *shape, const float *want)
{
    zt_store store = zt_gguf_store(gguf);
    zt_type type;
    int64_t handle;
    char text[ZT_TYPE_TEXT];
    float x[256], pieces[256];
    if (store.find(store.user, name, &type, &handle) != ZT_OK || strcmp(zt_type_text(&type, text), shape) != 0 ||
        zt_type_bytes(&type) > sizeof x)
        return false;
    size_t size = zt_type_bytes(&type);
    bool done = store.read(store.user, handle, 0, x, size) == ZT_OK;
    for (size_t at = 0; at < size; at += 3)
        done = done && store.read(store.user, handle, at, (char *)pieces + at, size - at < 3 ? size - at : 3) == ZT_OK;
    return done && memcmp(x, want, size) == 0 && memcmp(pieces, want, size) == 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

typedef struct key_case {
    const char *config, *key;
    double want; /* NAN: there is no such key */
} key_case;

static const key_case keys[] = {
    {LLAMA, "llama.block_count", 1},
    {LLAMA, "llama.embedding_length", 8},
    {LLAMA, "llama.feed_forward_length", 6},
    {LLAMA, "llama.attention.head_count_kv", 1},
    {LLAMA, "llama.attention.layer_norm_rms_epsilon", 0.25},
    {LLAMA, "llama.rope.dimension_count", 4},
    {LLAMA, "llama.rope.freq_base", 1e4},
    {LLAMA, "llama.attention.sliding_window", NAN},
    /* what config.json need not say */
    {"{\"model_type\":\"mistral\"}", "llama.attention.head_count_kv", 8},
    {"{\"model_type\":\"mistral\"}", "llama.attention.sliding_window", 4096},
    {"{\"model_type\":\"mistral\",\"sliding_window\":null}", "llama.attention.sliding_window", NAN},
    {"{\"model_type\":\"qwen3\"}", "qwen3.attention.key_length", 128},
    {"{\"model_type\":\"qwen2\"}", "qwen2.attention.sliding_window", NAN},
    {"{\"model_type\":\"qwen2\",\"use_sliding_window\":true}", "qwen2.attention.sliding_window", 4096},
    {"{\"model_type\":\"gemma2\"}", "gemma2.attn_logit_softcapping", 50},
    {"{\"model_type\":\"gemma2\",\"attn_logit_softcapping\":null}", "gemma2.attn_logit_softcapping", 0},
    {"{\"model_type\":\"gemma3_text\"}", "gemma3.rope.freq_base", 1e6},
    {"{\"model_type\":\"gemma3_text\"}", "gemma3.rope.freq_base_swa", 1e4},
    {"{\"model_type\":\"gemma3_text\"}", "gemma3.attention.scale", NAN},
    {"{\"model_type\":\"gemma3_text\",\"query_pre_attn_scalar\":64}", "gemma3.attention.scale", 0.125},
    {"{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":24}}", "gemma3.embedding_length", 24},
    {"{\"model_type\":\"gemma3_text\",\"sliding_window_pattern\":4}", "gemma3.attention.sliding_window_pattern", 4},
    {"{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_inner\":null}", "gpt2.feed_forward_length", 48},
    {"{\"model_type\":\"granite\"}", "granite.attention.scale", 1},
    {"{\"model_type\":\"bert\"}", "bert.attention.layer_norm_epsilon", 1e-12f},
    {"{\"model_type\":\"bert\"}", "bert.attention.causal", 0},
    {"{\"model_type\":\"phi3\"}", "phi3.attention.sliding_window", 0},
    {"{\"model_type\":\"phi3\",\"partial_rotary_factor\":0.5}", "phi3.rope.dimension_count", 48},
    /* rope, as it was and as it is */
    {"{\"model_type\":\"llama\",\"rope_theta\":5}", "llama.rope.freq_base", 5},
    {"{\"model_type\":\"llama\",\"rope_parameters\":{\"rope_theta\":6}}", "llama.rope.freq_base", 6},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}", "llama.rope.scaling.factor", 4},
    {"{\"model_type\":\"gemma3_text\",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":7},"
     "\"sliding_attention\":{\"rope_theta\":8}}}",
     "gemma3.rope.freq_base_swa", 8},
    {"{\"model_type\":\"qwen2\",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
     "\"original_max_position_embeddings\":99}}",
     "qwen2.rope.scaling.original_context_length", 99},
    {"{\"model_type\":\"nomic_bert\",\"rotary_emb_base\":1000}", "nomic-bert.rope.freq_base", 1000},
};

static void test_keys(zt_ctx *ctx)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json", keys[i].config);
        zt_gguf *gguf = zt_model_open_vocabulary(ctx, directory.path);
        double is = real_key(gguf, keys[i].key);
        ok(gguf && (isnan(keys[i].want) ? isnan(is) : is == keys[i].want), "%.90s: %s is %g %s", keys[i].config, keys[i].key, is,
           zt_ctx_error(ctx));
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        hfw_end(&directory);
    }
}

static void test_layer_types(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    int64_t flag[3] = {-1, -1, -1};
    hfw_text(&directory, "config.json",
             "{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":3,\"layer_types\":"
             "[\"full_attention\",\"sliding_attention\",\"sliding_attention\"]}");
    zt_gguf *gguf = zt_model_open_vocabulary(ctx, directory.path);
    ok(gguf && zt_gguf_array_i64(gguf, "gemma3.attention.sliding_window_pattern", flag, 3) && !flag[0] && flag[1] == 1 &&
           flag[2] == 1,
       "layer_types, one by one");
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void test_paired(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    uint16_t half[8] = {0x3c00, 0x4000, 0, 0, 0, 0, 0, 0xc000};
    static const float norm[8] = {1, 2, 0, 0, 0, 0, 0, -2};
    static const float bias[8] = {1, 3, 2, 4, 5, 7, 6, 8};
    static const int row[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    float q[64];
    hfw_text(&directory, "config.json", LLAMA);
    hfw_f32(&directory, "model.embed_tokens.weight", 2, D(16, 8), 0);
    hfw_f32(&directory, "model.layers.0.self_attn.q_proj.weight", 2, D(8, 8), 0);
    hfw_f32(&directory, "model.layers.0.self_attn.q_proj.bias", 1, D(8), 1);
    hfw_f32(&directory, "model.layers.0.self_attn.v_proj.bias", 1, D(4), 1);
    hfw_tensor(&directory, "model.norm.weight", "F16", 1, D(8), half, sizeof half);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    for (int i = 0; i < 64; i++) q[i] = (float)(8 * row[i / 8] + i % 8);
    ok(gguf && values_are(gguf, "blk.0.attn_q.weight", "f32[8,8]", q), "q's rows: halves of a head become neighbours %s",
       zt_ctx_error(ctx));
    ok(gguf && values_are(gguf, "blk.0.attn_q.bias", "f32[8]", bias), "and q's bias");
    ok(gguf && values_are(gguf, "blk.0.attn_v.bias", "f32[4]", (float[]){1, 2, 3, 4}), "v stays");
    ok(gguf && values_are(gguf, "output_norm.weight", "f32[8]", norm), "a norm of F16 is f32");
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

static void test_gemma(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", "{\"model_type\":\"gemma3_text\"," SIZES ",\"head_dim\":4}");
    hfw_f32(&directory, "model.embed_tokens.weight", 2, D(16, 2), 0);
    hfw_f32(&directory, "lm_head.weight", 2, D(16, 2), 9);
    hfw_f32(&directory, "model.layers.0.self_attn.k_norm.weight", 1, D(4), 0.5);
    hfw_f32(&directory, "vision_tower.encoder.layers.0.self_attn.q_proj.weight", 1, D(4), 1);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    ok(gguf && values_are(gguf, "blk.0.attn_k_norm.weight", "f32[4]", (float[]){1.5, 2.5, 3.5, 4.5}),
       "gemma's norms are one more than what is saved %s", zt_ctx_error(ctx));
    ok(gguf && values_are(gguf, "output_norm.weight", "f32[2]", (float[]){1, 1}), "a final norm that is missing is all ones");
    ok(gguf && zt_gguf_find(gguf, "output.weight") < 0 && zt_gguf_n_tensors(gguf) == 3,
       "a tied head and the vision tower are left out");
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

static void test_transposed(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    float want[80 * 3];
    uint16_t mask = 1;
    hfw_text(&directory, "config.json", "{\"model_type\":\"gpt2\",\"n_embd\":3,\"n_head\":1,\"n_layer\":1}");
    hfw_f32(&directory, "transformer.wte.weight", 2, D(2, 3), 0);
    hfw_f32(&directory, "transformer.h.0.mlp.c_proj.weight", 2, D(80, 3), 0);
    hfw_f32(&directory, "transformer.h.0.mlp.c_fc.weight", 2, D(3, 2), 0);
    hfw_tensor(&directory, "transformer.h.0.attn.bias", "U16", 1, D(1), &mask, 2);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    for (int i = 0; i < 240; i++) want[i] = (float)(i % 80 * 3 + i / 80);
    ok(gguf && values_are(gguf, "blk.0.ffn_down.weight", "f32[3,80]", want), "GPT-2's matrices turn %s", zt_ctx_error(ctx));
    ok(gguf && values_are(gguf, "blk.0.ffn_up.weight", "f32[2,3]", (float[]){0, 2, 4, 1, 3, 5}) &&
           values_are(gguf, "blk.0.ffn_down.weight", "f32[3,80]", want),
       "one after the other, and the first again");
    ok(gguf && zt_gguf_find(gguf, "output_norm.bias") >= 0 && zt_gguf_n_tensors(gguf) == 5,
       "the mask is left out, the final norm is made");
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

static void test_factors(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json",
             "{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"rope_type\":\"llama3\","
             "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
             "\"original_max_position_embeddings\":32}}");
    hfw_f32(&directory, "model.embed_tokens.weight", 2, D(16, 8), 0);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    ok(gguf && values_are(gguf, "rope_freqs.weight", "f32[2]", (float[]){1, 8}),
       "Llama 3's divisors: short waves stay, long ones are 8 times as long %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    hfw_text(&directory, "config.json",
             "{\"model_type\":\"phi3\"," SIZES ",\"original_max_position_embeddings\":16,"
             "\"rope_scaling\":{\"type\":\"su\",\"long_factor\":[2,3],\"short_factor\":[1,1]}}");
    gguf = zt_model_open(ctx, directory.path);
    ok(gguf && values_are(gguf, "rope_factors_long.weight", "f32[2]", (float[]){2, 3}) &&
           real_key(gguf, "phi3.rope.scaling.attn_factor") == (float)sqrt(1 + log(4) / log(16)),
       "Phi-3's long factors and how much attention grows %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

/* A head is the embedding too if that is missing, unless config.json says that it is not. */
static void test_head_alone(zt_ctx *ctx)
{
    for (int tied = 0; tied < 2; tied++) {
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json",
                 tied ? "{\"model_type\":\"llama\"," SIZES "}"
                      : "{\"model_type\":\"llama\"," SIZES ",\"tie_word_embeddings\":false}");
        hfw_f32(&directory, "lm_head.weight", 2, D(16, 8), 0);
        hfw_f32(&directory, "model.norm.weight", 1, D(8), 0);
        hfw_save(&directory, "model.safetensors");
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        ok(gguf && (zt_gguf_find(gguf, "token_embd.weight") >= 0) == tied, "a head without an embedding, %s %s",
           tied ? "which it is" : "which it is not", zt_ctx_error(ctx));
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        hfw_end(&directory);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static void test_prefixes(zt_ctx *ctx)
{
    static const char *const prefixes[] = {"", "model.", "language_model.model.", "a.b.c.model."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json", LLAMA);
        put_layer(&directory, prefixes[i]);
        hfw_save(&directory, "model.safetensors");
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        zt_llm_info info = {0};
        ok(gguf && zt_gguf_n_tensors(gguf) == 11 && plan(ctx, gguf, &info) == ZT_OK && info.vocab == 16,
           "prefix '%s', no head, no final norm: a whole model %s", prefixes[i], zt_ctx_error(ctx));
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        hfw_end(&directory);
    }
}

static void test_head_only(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", "{\"model_type\":\"llama\"," SIZES ",\"tie_word_embeddings\":true}");
    hfw_f32(&directory, "lm_head.weight", 2, D(16, 8), 0);
    hfw_f32(&directory, "model.norm.weight", 1, D(8), 0);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    ok(gguf && zt_gguf_find(gguf, "token_embd.weight") >= 0 && zt_gguf_find(gguf, "output.weight") < 0,
       "of tied weights the head alone was saved: it is the embedding %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

static void test_names(zt_ctx *ctx)
{
    static const struct {
        const char *a, *b, *says;
        zt_status want;
    } cases[] = {
        {"model.norm.weight", "norm.weight", "two tensors map to 'output_norm.weight'", ZT_EDATA},
        {"model.norm.weight", "model.strange.weight", "unexpected tensor 'model.strange.weight'", ZT_ENOTSUP},
        {"model.norm.weight", "model.layers.0.weight", "'model.layers.0.weight'", ZT_ENOTSUP},
        {"model.norm.weight", "layers.123456789012.mlp.up_proj.weight", "unexpected tensor", ZT_ENOTSUP},
        {"model.norm.weight", "x\\u001b[2J.weight", "'x\\x1b[2J.weight'", ZT_ENOTSUP},
        {"model.norm.weight", "", "''", ZT_ENOTSUP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json", LLAMA);
        hfw_f32(&directory, cases[i].a, 1, D(8), 0);
        hfw_f32(&directory, cases[i].b, 1, D(8), 0);
        hfw_save(&directory, "model.safetensors");
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        ok(!gguf && zt_ctx_status(ctx) == cases[i].want && strstr(zt_ctx_error(ctx), cases[i].says), "%s", zt_ctx_error(ctx));
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        hfw_end(&directory);
    }
}

static void test_types(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    int64_t eight[8] = {0};
    hfw_text(&directory, "config.json", LLAMA);
    hfw_tensor(&directory, "model.norm.weight", "F8_E4M3", 1, D(8), eight, 8);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    ok(!gguf && zt_ctx_status(ctx) == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), "f8_e4m3"), "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    hfw_tensor(&directory, "model.norm.weight", "F64", 1, D(8), (double[]){1, 2, 3, 4, 5, 6, 7, 8}, 64);
    hfw_save(&directory, "model.safetensors");
    gguf = zt_model_open(ctx, directory.path);
    ok(gguf && values_are(gguf, "output_norm.weight", "f32[8]", (float[]){1, 2, 3, 4, 5, 6, 7, 8}), "F64 is read as f32 %s",
       zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

/* ---- tokenizer and templates ----------------------------------------------------------------- */

static void test_tokenizer(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    int64_t ends[2] = {0};
    hfw_text(&directory, "config.json",
             "{\"model_type\":\"llama\"," SIZES ",\"bos_token_id\":3,\"pad_token_id\":-1,\"eos_token_id\":4}");
    hfw_text(&directory, "generation_config.json", "{\"eos_token_id\":[5,6]}");
    hfw_text(&directory, "tokenizer_config.json",
             "{\"bos_token\":{\"content\":\"<b>\"},\"unk_token\":\"<u>\",\"add_bos_token\":true,"
             "\"added_tokens_decoder\":{\"7\":{\"content\":\"<b>\"},\"8\":{\"content\":\"<u>\"}},"
             "\"chat_template\":[{\"name\":\"tool\",\"template\":\"T\"},"
             "{\"name\":\"default\",\"template\":\"D\"}]}");
    hfw_text(&directory, "tokenizer.json", "{\"model\":{}}");
    zt_gguf *gguf = zt_model_open_vocabulary(ctx, directory.path);
    ok(text_key(gguf, "tokenizer.huggingface.json", "{\"model\":{}}"), "tokenizer.json, whole %s", zt_ctx_error(ctx));
    ok(int_key(gguf, "tokenizer.ggml.bos_token_id") == 7, "BOS by its text, before config.json's id");
    ok(int_key(gguf, "tokenizer.ggml.unknown_token_id") == 8, "a token that is a plain string");
    ok(int_key(gguf, "tokenizer.ggml.eos_token_id") == 5 && zt_gguf_array_i64(gguf, "tokenizer.ggml.eos_token_ids", ends, 2) &&
           ends[1] == 6,
       "all that end a generation");
    ok(int_key(gguf, "tokenizer.ggml.add_bos_token") == 1, "add_bos_token");
    ok(text_key(gguf, "tokenizer.chat_template", "D") && text_key(gguf, "tokenizer.chat_template.tool", "T"),
       "of several templates the default and the others");
    zt_gguf_close(gguf);
    hfw_text(&directory, "chat_template.jinja", "J");
    gguf = zt_model_open_vocabulary(ctx, directory.path);
    ok(text_key(gguf, "tokenizer.chat_template", "J") && !text_key(gguf, "tokenizer.chat_template.tool", "T"),
       "chat_template.jinja comes first, and alone");
    zt_gguf_close(gguf);
    char folder[128];
    snprintf(folder, sizeof folder, "%s/additional_chat_templates", directory.path);
    mkdir(folder, 0755);
    hfw_text(&directory, "additional_chat_templates/tool_use.jinja", "A");
    hfw_text(&directory, "additional_chat_templates/notes.txt", "N");
    gguf = zt_model_open_vocabulary(ctx, directory.path);
    ok(text_key(gguf, "tokenizer.chat_template.tool_use", "A") && text_key(gguf, "tokenizer.chat_template", "J"),
       "additional_chat_templates are its variants");
    zt_gguf_close(gguf);
    hfw_text(&directory, "generation_config.json", "{\"eos_token_id\":[\"x\"]}");
    put_layer(&directory, "model.");
    hfw_save(&directory, "model.safetensors");
    model_refused(ctx, directory.path, ZT_EDATA, "an end that is no id");
    hfw_end(&directory);
}

static void test_pooling(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", "{\"model_type\":\"bert\"}");
    hfw_text(&directory, "modules.json", "[{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"1_Pooling\"}]");
    mkdir(hfw_path(&directory, "1_Pooling"), 0700);
    hfw_text(&directory, "1_Pooling/config.json", "{\"pooling_mode_cls_token\":true}");
    zt_gguf *gguf = zt_model_open_vocabulary(ctx, directory.path);
    ok(int_key(gguf, "bert.pooling_type") == 2, "pooling as its module says %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    hfw_text(&directory, "modules.json", "[{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"../x\"}]");
    gguf = zt_model_open_vocabulary(ctx, directory.path);
    ok(gguf && int_key(gguf, "bert.pooling_type") == -1, "not from outside of the folder");
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    void (*const tests[])(zt_ctx *) = {test_keys,    test_layer_types, test_paired,    test_gemma,      test_transposed,
                                       test_factors, test_prefixes,    test_head_only, test_head_alone, test_names,
                                       test_types,   test_tokenizer,   test_pooling};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i](ctx);
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
