/* hf_faults.c - Hugging Face directories that are not as they should be: odd configs, files that
 * lack or lie, shards, an architecture that is not known; and every allocation failing. */
#include <unistd.h>

#include "tests/llm/hf_small.h"

/* What is said of a folder with this config and no weights. */
static zt_status status_of(zt_ctx *ctx, const char *config, char message[300])
{
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", config);
    zt_gguf *gguf = zt_model_open_vocabulary(ctx, directory.path);
    zt_status s = zt_ctx_status(ctx);
    snprintf(message, 300, "%s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    zt_ctx_clear(ctx);
    hfw_end(&directory);
    return s;
}

/* ---- odd configs ----------------------------------------------------------------------------- */

typedef struct bad_case {
    const char *config, *says;
    zt_status want;
} bad_case;

static const bad_case bad[] = {
    {"", "JSON", ZT_EDATA},
    {"[]", "not a JSON object", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"model_type\":\"llama\"}", "duplicate", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"num_hidden_layers\":\"2\"}", "'num_hidden_layers'", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"num_hidden_layers\":-1}", "-1", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"num_hidden_layers\":1e300}", "1e+300", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"num_hidden_layers\":2.5}", "2.5", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"hidden_size\":[8]}", "hidden_size", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"rms_norm_eps\":{}}", "rms_norm_eps", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"hidden_act\":\"relu\"}", "relu", ZT_ENOTSUP},
    {"{\"model_type\":\"llama\",\"quantization_config\":{}}", "without quant_method", ZT_ENOTSUP},
    {"{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":0}}", "llama3", ZT_EDATA},
    {"{\"model_type\":\"llama\",\"head_dim\":4000000000,\"rope_scaling\":{\"rope_type\":\"llama3\"}"
     "}",
     "2000000000 pairs", ZT_EDATA},
    {"{\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1]}}", "'long_factor' has 1", ZT_EDATA},
    {"{\"model_type\":\"phi3\",\"partial_rotary_factor\":7}", "partial_rotary_factor is 7", ZT_EDATA},
    {"{\"model_type\":\"gemma2\",\"layer_types\":[\"strange\"]}", "layer_types", ZT_ENOTSUP},
    {"{\"model_type\":\"gemma2\",\"layer_types\":[1]}", "layer_types", ZT_ENOTSUP},
    {"{\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"num_hidden_layers\":4000000000}", "too many layers: 4000000000",
     ZT_EDATA},
    {"{\"model_type\":\"bert\",\"is_decoder\":true}", "is_decoder", ZT_ENOTSUP},
    {"{\"model_type\":\"qwen3_moe\",\"norm_topk_prob\":\"yes\"}", "norm_topk_prob", ZT_EDATA},
    {"{\"model_type\":\"qwen3_moe\",\"num_experts\":-4}", "-4", ZT_EDATA},
    {"{\"model_type\":\"olmoe\",\"clip_qkv\":8}", "clip_qkv 8", ZT_ENOTSUP},
    {"{\"model_type\":\"phimoe\",\"router_jitter_noise\":0.5}", "router_jitter_noise 0.5", ZT_ENOTSUP},
    {"{\"model_type\":\"ernie4_5_moe\",\"moe_norm_min\":1}", "moe_norm_min 1", ZT_ENOTSUP},
    {"{\"model_type\":\"ernie4_5_moe\",\"num_key_value_heads\":0}", "", ZT_OK},
    {"{\"model_type\":\"phimoe\",\"hidden_size\":8,\"num_attention_heads\":2,\"rope_scaling\":{\"type\":\"longrope\","
     "\"original_max_position_embeddings\":32,\"short_mscale\":1.1,\"long_mscale\":1.2}}",
     "short_mscale", ZT_ENOTSUP},
    {"{\"model_type\":\"gemma4_text\",\"layer_types\":[\"full_attention\"]}", "'layer_types' is not a list of 30 words",
     ZT_EDATA},
    {"{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":1,\"layer_types\":[\"chunked_attention\"]}", "layer_types other than",
     ZT_ENOTSUP},
    {"{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":2,\"num_kv_shared_layers\":2}", "num_kv_shared_layers is 2",
     ZT_EDATA},
    {"{\"model_type\":\"gemma4_text\",\"num_global_key_value_heads\":2}", "without attention_k_eq_v", ZT_ENOTSUP},
    {"{\"model_type\":\"gemma4_text\",\"global_head_dim\":0}", "global_head_dim 0", ZT_EDATA},
    {"{\"model_type\":\"gemma4_text\",\"intermediate_size\":[1,2]}", "'intermediate_size' is not a list", ZT_EDATA},
    {"{\"model_type\":\"gemma4_text\",\"use_bidirectional_attention\":\"all\"}", "use_bidirectional_attention 'all'", ZT_ENOTSUP},
    {"{\"model_type\":\"gemma4_text\",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\",\"partial_rotary_factor\":2}}}",
     "partial_rotary_factor 2", ZT_ENOTSUP},
    {"{\"model_type\":\"gemma3n_text\",\"activation_sparsity_pattern\":1}", "activation_sparsity_pattern has 1", ZT_EDATA},
    {"{\"model_type\":\"gemma3n_text\",\"activation_sparsity_pattern\":[0.5]}",
     "'activation_sparsity_pattern' is not a list of 35 numbers", ZT_EDATA},
    {"{\"model_type\":\"gemma3n_text\",\"altup_num_inputs\":1}", "altup_num_inputs is 1", ZT_EDATA},
    {"{\"model_type\":\"gemma3n_text\",\"altup_correct_scale\":false}", "altup_correct_scale", ZT_ENOTSUP},
    {"{\"model_type\":\"gemma3n_text\",\"intermediate_size\":[0]}", "'intermediate_size' is not a list", ZT_EDATA},
    {"{\"model_type\":\"gemma3n_text\",\"num_hidden_layers\":99999}", "99999 layers", ZT_EDATA},
    {"{\"model_type\":\"gpt_oss\"}", "without rope_parameters or rope_scaling", ZT_ENOTSUP},
    {"{\"model_type\":\"gpt_oss\",\"rope_scaling\":{\"rope_type\":\"yarn\",\"truncate\":1}}", "'truncate' is not", ZT_EDATA},
    {"{\"model_type\":\"gpt_oss\",\"rope_scaling\":{},\"swiglu_limit\":6}", "swiglu_limit 6", ZT_ENOTSUP},
    {"{\"model_type\":\"gpt_oss\",\"rope_scaling\":{},\"swiglu_alpha\":1}", "swiglu_alpha 1", ZT_ENOTSUP},
    {"{\"model_type\":\"gpt_oss\",\"rope_scaling\":{},\"attention_bias\":false}", "attention_bias", ZT_ENOTSUP},
    {"{\"model_type\":\"gpt_oss\",\"quantization_config\":{\"quant_method\":\"hqq\"}}", "quant_method 'hqq'", ZT_ENOTSUP},
    {"{\"model_type\":\"gpt_oss\",\"quantization_config\":{\"quant_method\":4}}", "'quant_method' is not a text", ZT_EDATA},
    {"{\"model_type\":\"qwen3_moe\",\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", "quant_method 'mxfp4'", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v2\",\"norm_topk_prob\":true}", "norm_topk_prob", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v2\",\"n_group\":8,\"topk_method\":\"greedy\"}", "n_group above 1", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v2\",\"topk_method\":\"noaux_tc\"}", "topk_method 'noaux_tc'", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v2\",\"scoring_func\":\"sigmoid\"}", "scoring_func other than softmax", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v3\",\"scoring_func\":\"softmax\"}", "scoring_func other than sigmoid", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v3\",\"rope_interleave\":false}", "rope_interleave", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v3\",\"attention_bias\":true}", "attention_bias", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v3\",\"moe_layer_freq\":2}", "moe_layer_freq 2", ZT_ENOTSUP},
    {"{\"model_type\":\"deepseek_v3\",\"qk_nope_head_dim\":0}", "qk_nope_head_dim 0", ZT_EDATA},
    {"{\"model_type\":\"deepseek_v3\",\"kv_lora_rank\":4000000000}", "kv_lora_rank 4000000000", ZT_EDATA},
    {"{\"model_type\":\"kimi_k2\",\"v_head_dim\":-1}", "-1", ZT_EDATA},
    {"{\"model_type\":\"glm4_moe_lite\",\"mlp_layer_types\":[\"sparse\",\"dense\"]}", "mlp_layer_types", ZT_ENOTSUP},
    {"{\"model_type\":\"mistral4\"}", "without rope_parameters", ZT_ENOTSUP},
    {"{\"model_type\":\"mistral4\",\"rope_parameters\":{},\"n_group\":2}", "n_group above 1", ZT_ENOTSUP},
    {"{\"model_type\":\"minicpm3\",\"scale_depth\":1}", "scale_depth 1", ZT_ENOTSUP},
    {"{\"model_type\":\"minicpm3\",\"dim_model_base\":128}", "dim_model_base 128", ZT_ENOTSUP},
    {"{\"model_type\":\"internlm2\",\"bias\":true}", "bias", ZT_ENOTSUP},
    {"{\"model_type\":\"rwkv_hybrid\",\"wkv_version\":6}", "wkv_version 6", ZT_ENOTSUP},
    {"{\"model_type\":\"rwkv_hybrid\",\"wkv_layers\":[0,1]}", "wkv_layers", ZT_ENOTSUP},
    {"{\"model_type\":\"rwkv_hybrid\",\"head_size_divisor\":16}", "head_size_divisor 16", ZT_ENOTSUP},
    {"{\"model_type\":\"rwkv_hybrid\",\"head_size\":0}", "'head_size' is 0", ZT_EDATA},
    /* nothing is asked of these before the model is run */
    {"{}", "", ZT_OK},
    {"{\"model_type\":\"llama\",\"num_attention_heads\":0}", "", ZT_OK},
    {"{\"model_type\":7}", "", ZT_OK},
};

static void test_bad_configs(zt_ctx *ctx)
{
    char message[300], deep[20001];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_status status = status_of(ctx, bad[i].config, message);
        ok(status == bad[i].want && strstr(message, bad[i].says), "%.80s: %s", bad[i].config, message);
    }
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"model_type\":", 14);
    deep[20000] = 0;
    ok(status_of(ctx, deep, message) == ZT_EDATA, "deep nesting: %s", message);
}

/* Heads of 0 where rows are to be paired, and rows that make no heads. */
static void test_bad_heads(zt_ctx *ctx)
{
    static const char *const heads[] = {"0", "3", "8", "4000000000"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char config[300];
        hfw directory = hfw_new();
        snprintf(config, sizeof config, "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":%s}", heads[i]);
        hfw_text(&directory, "config.json", config);
        put_layer(&directory, "model.");
        hfw_save(&directory, "model.safetensors");
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        ok(!gguf && zt_ctx_status(ctx) == ZT_EDATA, "%s heads: %s", heads[i], zt_ctx_error(ctx));
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        hfw_end(&directory);
    }
}

/* ---- experts --------------------------------------------------------------------------------- */

/* Tensors that are one stacked tensor in GGUF: experts that are not there, not those of config.json, or unlike others. */
static void test_stacks(zt_ctx *ctx)
{
#define EXPERT(n) "model.layers.0.mlp.experts." n ".up_proj.weight"
    static const struct {
        const char *experts, *first, *second, *says;
        int64_t rows;
        int rank;
    } rows[] = {
        {"2", EXPERT("0"), EXPERT("1"), "", 6, 2},
        {"3", EXPERT("0"), EXPERT("1"), "expert 2 of 3 is missing", 6, 2},
        {"2", EXPERT("0"), EXPERT("2"), "expected an expert below 2", 6, 2},
        {"2", EXPERT("0"), EXPERT("999999"), "expected an expert below 2", 6, 2},
        {"2", EXPERT("0"), EXPERT("1000000"), "unexpected tensor", 6, 2},
        {"2", EXPERT("0"), EXPERT("-1"), "unexpected tensor", 6, 2},
        {"2", EXPERT("0"), EXPERT("00"), "occurs twice", 6, 2},
        {"2", EXPERT("0"), EXPERT("1"), "unlike those of other experts", 7, 2},
        {"2", EXPERT("0"), EXPERT("1"), "expected a matrix", 6, 1},
        {"0", EXPERT("0"), EXPERT("1"), "expected an expert below 0", 6, 2},
        {"4000000000", EXPERT("0"), EXPERT("1"), "a layer of 4000000000 experts", 6, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char config[300];
        hfw directory = hfw_new();
        snprintf(config, sizeof config, "{\"model_type\":\"qwen3_moe\"," SIZES ",\"num_experts\":%s}", rows[i].experts);
        hfw_text(&directory, "config.json", config);
        hfw_f32(&directory, rows[i].first, 2, D(6, 8), 0);
        hfw_f32(&directory, rows[i].second, rows[i].rank, D(rows[i].rows, 8), 0);
        hfw_save(&directory, "model.safetensors");
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        const char *error = zt_ctx_error(ctx);
        bool good = *rows[i].says == 0;
        bool said = strstr(error, rows[i].says) != NULL;
        ok(good ? gguf && zt_gguf_n_tensors(gguf) == 1 : !gguf && zt_ctx_status(ctx) != ZT_OK && said, "%s experts, %s: %s",
           rows[i].experts, rows[i].second, error);
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        hfw_end(&directory);
    }
}

/* NAME_blocks and NAME_scales of MXFP4: one of them alone, or of shapes and types that do not fit. */
static void test_mxfp4(zt_ctx *ctx)
{
#define MATRICES "model.layers.0.mlp.experts."
    static const char config[] = "{\"model_type\":\"gpt_oss\",\"rope_scaling\":{\"rope_type\":\"yarn\",\"truncate\":false}}";
    static const struct {
        const char *stem, *says, *dtype;
        bool with_blocks, with_scales, plain; /* plain: a tensor of floats beside them */
        int64_t blocks[4], scales[3];
        int rank; /* of blocks */
    } rows[] = {
        {MATRICES "down_proj", "", "U8", true, true, false, {2, 8, 1, 16}, {2, 8, 1}, 4},
        {MATRICES "gate_up_proj", "", "U8", true, true, false, {2, 8, 1, 16}, {2, 8, 1}, 4},
        {MATRICES "down_proj", "", "U8", true, true, false, {2, 0, 1, 16}, {2, 0, 1}, 4},
        {MATRICES "down_proj", "has no tensor of its scales", "U8", true, false, false, {2, 8, 1, 16}, {0}, 4},
        {MATRICES "down_proj", "has no tensor of its blocks", "U8", false, true, false, {0}, {2, 8, 1}, 4},
        {MATRICES "down_proj", "expected u8[E,R,B,16]", "U8", true, true, false, {2, 8, 1, 16}, {2, 8, 2}, 4},
        {MATRICES "down_proj", "expected u8[E,R,B,16]", "U8", true, true, false, {2, 8, 1, 15}, {2, 8, 1}, 4},
        {MATRICES "down_proj", "expected u8[E,R,B,16]", "U8", true, true, false, {2, 8, 16}, {2, 8, 1}, 3},
        {MATRICES "down_proj", "expected u8[E,R,B,16]", "I8", true, true, false, {2, 8, 1, 16}, {2, 8, 1}, 4},
        {MATRICES "gate_up_proj", "not two halves", "U8", true, true, false, {2, 7, 1, 16}, {2, 7, 1}, 4},
        {MATRICES "down_proj", "'blk.0.ffn_down_exps.weight'", "U8", true, true, true, {2, 8, 1, 16}, {2, 8, 1}, 4},
        {"model.layers.0.self_attn.q_proj", "unexpected tensor", "U8", true, true, false, {2, 8, 1, 16}, {2, 8, 1}, 4},
        {"", "unexpected tensor", "U8", true, true, false, {2, 8, 1, 16}, {2, 8, 1}, 4},
    };
    static const uint8_t bytes[2 * 8 * 2 * 16];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[80];
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json", config);
        size_t count = 1, scales = (size_t)(rows[i].scales[0] * rows[i].scales[1] * rows[i].scales[2]);
        for (int dim = 0; dim < rows[i].rank; dim++) count *= (size_t)rows[i].blocks[dim];
        snprintf(name, sizeof name, "%s_blocks", rows[i].stem);
        if (rows[i].with_blocks) hfw_tensor(&directory, name, rows[i].dtype, rows[i].rank, rows[i].blocks, bytes, count);
        snprintf(name, sizeof name, "%s_scales", rows[i].stem);
        if (rows[i].with_scales) hfw_tensor(&directory, name, "U8", 3, rows[i].scales, bytes, scales);
        if (rows[i].plain) hfw_f32(&directory, rows[i].stem, 3, (int64_t[]){2, 8, 32}, 0);
        hfw_save(&directory, "model.safetensors");
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        const char *error = zt_ctx_error(ctx);
        bool good = *rows[i].says == 0;
        bool said = strstr(error, rows[i].says) != NULL;
        ok(good ? gguf && zt_gguf_n_tensors(gguf) > 0 : !gguf && zt_ctx_status(ctx) != ZT_OK && said, "%s, case %d: %s",
           rows[i].stem, (int)i, error);
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        hfw_end(&directory);
    }
}

/* ---- a curve's numbers ------------------------------------------------------------------------ */

/* A layer of Apertus whose curve's numbers are so; NULL: that one is not there. */
static void check_curve(zt_ctx *ctx, const char *name, int64_t count, const char *says)
{
    static const char *const names[] = {"alpha_n", "alpha_p", "beta", "eps"};
    char tensor[100];
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", "{\"model_type\":\"apertus\"," SIZES "}");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool other = name && strcmp(names[i], name) == 0;
        snprintf(tensor, sizeof tensor, "model.layers.0.mlp.act_fn.%s", names[i]);
        if (!other || count > 0) hfw_f32(&directory, tensor, 1, (int64_t[]){other ? count : 1}, 0.5f);
    }
    hfw_f32(&directory, "model.embed_tokens.weight", 2, (int64_t[]){16, 8}, 0);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    const char *error = zt_ctx_error(ctx);
    ok(*says ? !gguf && zt_ctx_status(ctx) == ZT_EDATA && strstr(error, says) : gguf != NULL, "%s of %d values: %s",
       name ? name : "all", (int)count, error);
    zt_gguf_close(gguf);
    zt_ctx_clear(ctx);
    hfw_end(&directory);
}

static void test_curve_tensors(zt_ctx *ctx)
{
    check_curve(ctx, NULL, 1, "");
    check_curve(ctx, "beta", 0, "");
    check_curve(ctx, "eps", 0, "");
    check_curve(ctx, "alpha_n", 0, "act_fn.alpha_n' is missing");
    check_curve(ctx, "alpha_p", 0, "act_fn.alpha_p' is missing");
    check_curve(ctx, "alpha_n", 2, "act_fn.alpha_n' is not one number");
    check_curve(ctx, "eps", 3, "act_fn.eps' is not one number");
}

/* ---- T5 -------------------------------------------------------------------------------------- */

/* A layer of T5's encoder whose config has `more`, with one tensor gone or of one row more; `says` "": it can be run. */
static void check_t5(zt_ctx *ctx, const char *more, const char *spoilt, bool gone, zt_status want, const char *says)
{
#define ATTENTION "encoder.block.0.layer.0."
#define FED       "encoder.block.0.layer.1."
    static const struct {
        const char *name;
        int rank;
        int64_t dim[2];
    } rows[] = {{"shared.weight", 2, {16, 8}},
                {"encoder.final_layer_norm.weight", 1, {8}},
                {ATTENTION "SelfAttention.q.weight", 2, {8, 8}},
                {ATTENTION "SelfAttention.k.weight", 2, {8, 8}},
                {ATTENTION "SelfAttention.v.weight", 2, {8, 8}},
                {ATTENTION "SelfAttention.o.weight", 2, {8, 8}},
                {ATTENTION "SelfAttention.relative_attention_bias.weight", 2, {8, 2}},
                {ATTENTION "layer_norm.weight", 1, {8}},
                {FED "DenseReluDense.wi.weight", 2, {6, 8}},
                {FED "DenseReluDense.wo.weight", 2, {8, 6}},
                {FED "layer_norm.weight", 1, {8}}};
    char config[400];
    zt_llm_info info;
    hfw directory = hfw_new();
    snprintf(config, sizeof config,
             "{\"model_type\":\"t5\",\"architectures\":[\"T5EncoderModel\"],\"d_model\":8,\"d_kv\":4,\"d_ff\":6,\"num_layers\":1,"
             "\"num_heads\":2,\"feed_forward_proj\":\"relu\"%s}",
             more);
    hfw_text(&directory, "config.json", config);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool other = spoilt && strstr(rows[i].name, spoilt);
        int64_t dim[] = {rows[i].dim[0] + other, rows[i].dim[1]};
        if (!other || !gone) hfw_f32(&directory, rows[i].name, rows[i].rank, dim, 0.5f);
    }
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
    zt_llm_opts opts = {.engine = engine, .kv = ZT_DTYPE_COUNT, .embed = true};
    if (gguf && engine) zt_llm_plan(gguf, &opts, &info);
    ok(zt_ctx_status(ctx) == want && strstr(zt_ctx_error(ctx), says), "t5, %s %s%s: %s", spoilt ? spoilt : "whole",
       gone ? "gone" : "", more, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

static void test_t5(zt_ctx *ctx)
{
    static const char eight[] = ",\"relative_attention_num_buckets\":8";
    static const char *const parts[] = {"q.weight",      "k.weight",  "v.weight",  "o.weight",      "relative_attention_bias",
                                        "0.layer_norm.", "wi.weight", "wo.weight", "1.layer_norm.", "final_layer_norm"};
    check_t5(ctx, eight, NULL, false, ZT_OK, "");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        check_t5(ctx, eight, parts[i], false, ZT_EDATA, "expected f32[");
        check_t5(ctx, eight, parts[i], true, ZT_EDATA, "' is missing");
    }
    check_t5(ctx, ",\"relative_attention_num_buckets\":0", NULL, false, ZT_EDATA, "relative_buckets_count is 0");
    check_t5(ctx, ",\"relative_attention_num_buckets\":6", NULL, false, ZT_EDATA, "not a multiple of 4 (6, 4)");
    check_t5(ctx, ",\"relative_attention_num_buckets\":4294967295", NULL, false, ZT_EDATA,
             "relative_buckets_count is 4294967295");
    check_t5(ctx, ",\"relative_attention_num_buckets\":260", NULL, false, ZT_EDATA, "is 260, expected 1 to 256");
    check_t5(ctx, ",\"relative_attention_num_buckets\":12", NULL, false, ZT_EDATA, "expected f32[12,2]");
    check_t5(ctx, ",\"relative_attention_max_distance\":64", NULL, false, ZT_ENOTSUP, "relative_attention_max_distance 64");
}

/* ---- files ----------------------------------------------------------------------------------- */

static void test_files(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    model_refused(ctx, "/nowhere", ZT_ENOENT, "no such path");
    model_refused(ctx, directory.path, ZT_ENOENT, "no config.json");
    put_layer(&directory, "model.");
    hfw_save(&directory, "model.safetensors");
    model_refused(ctx, hfw_path(&directory, "model.safetensors"), ZT_ENOENT, "weights without config.json");
    hfw_text(&directory, "config.json", LLAMA);
    zt_gguf *gguf = zt_model_open(ctx, hfw_path(&directory, "model.safetensors"));
    ok(gguf && zt_gguf_n_tensors(gguf) == 11, "weights with config.json beside them %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    if (truncate(hfw_path(&directory, "model.safetensors"), 700) == 0)
        model_refused(ctx, directory.path, ZT_EDATA, "weights cut short");
    hfw_text(&directory, "model.safetensors", "GGUF");
    model_refused(ctx, directory.path, ZT_EDATA, "weights that are something else");
    unlink(hfw_path(&directory, "model.safetensors"));
    hfw_text(&directory, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"../model.safetensors\"}}");
    model_refused(ctx, directory.path, ZT_EDATA, "a shard outside of the folder");
    hfw_text(&directory, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"none.safetensors\"}}");
    model_refused(ctx, directory.path, ZT_ENOENT, "a shard that is not there");
    hfw_end(&directory);
}

static void test_shards(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    char map[4000] = "";
    hfw_text(&directory, "config.json", LLAMA);
    put_layer(&directory, "model.");
    hfw_save(&directory, "model-00001-of-00002.safetensors");
    hfw_f32(&directory, "lm_head.weight", 2, D(16, 8), 0);
    hfw_save(&directory, "model-00002-of-00002.safetensors");
    map_layer(map, sizeof map, "model.", "model-00001-of-00002.safetensors");
    hfw_index(&directory, "model.safetensors.index.json", map);
    hfw_map(map, sizeof map, "lm_head.weight", "model-00002-of-00002.safetensors");
    hfw_index(&directory, "model.safetensors.index.json", map);
    const char *const names[] = {"", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                                 "model-00002-of-00002.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zt_gguf *gguf = zt_model_open(ctx, hfw_path(&directory, names[i]));
        ok(gguf && zt_gguf_n_tensors(gguf) == 12 && zt_gguf_find(gguf, "output.weight") >= 0, "'%s': the shards' tensors %s",
           names[i], zt_ctx_error(ctx));
        zt_gguf_close(gguf);
    }
    hfw_f32(&directory, "lm_head.weight", 2, D(16, 8), 0);
    hfw_f32(&directory, "not.in.the.map", 1, D(8), 0);
    hfw_save(&directory, "model-00002-of-00002.safetensors");
    model_refused(ctx, directory.path, ZT_EDATA, "a tensor that the index does not name");
    hfw_text(&directory, "model.safetensors.index.json",
             "{\"weight_map\":{\"lm_head.weight\":\"model-00001-of-00002.safetensors\"}}");
    model_refused(ctx, directory.path, ZT_EDATA, "a tensor in another shard than the index says");
    unlink(hfw_path(&directory, "model.safetensors.index.json"));
    model_refused(ctx, directory.path, ZT_ENOTSUP, "without an index all shards count");
    hfw_f32(&directory, "lm_head.weight", 2, D(16, 8), 0);
    hfw_save(&directory, "model-00002-of-00002.safetensors");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    ok(gguf && zt_gguf_n_tensors(gguf) == 12, "shards without an index %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    hfw_f32(&directory, "lm_head.weight", 2, D(16, 8), 0);
    hfw_save(&directory, "model-00001-of-00002.safetensors");
    model_refused(ctx, directory.path, ZT_EDATA, "a tensor in two shards");
    unlink(hfw_path(&directory, "model-00001-of-00002.safetensors"));
    if (mkfifo(hfw_path(&directory, "model-00001-of-00002.safetensors"), 0600) == 0)
        model_refused(ctx, directory.path, ZT_EDATA, "a shard that is a pipe");
    hfw_end(&directory);
}

/* Two models that differ in nothing but a weight are two models, and one is itself. */
static void test_identity(zt_ctx *ctx)
{
    char id[3][40] = {{0}};
    for (int i = 0; i < 3; i++) {
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json", LLAMA);
        put_layer(&directory, "model.");
        hfw_f32(&directory, "model.norm.weight", 1, D(8), (float)(i / 2));
        hfw_save(&directory, "model.safetensors");
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        if (gguf) snprintf(id[i], sizeof id[i], "%s", zt_gguf_id(gguf));
        zt_gguf_close(gguf);
        hfw_end(&directory);
    }
    ok(*id[0] && strcmp(id[0], id[1]) == 0 && strcmp(id[0], id[2]) != 0,
       "the identity follows the weights, not the folder's name");
}

static void test_unknown(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", "{\"model_type\":\"dinosaur\"}");
    hfw_text(&directory, "tokenizer.json", "{}");
    zt_gguf *gguf = zt_model_open(ctx, directory.path);
    zt_llm_info info = {0};
    ok(gguf && zt_gguf_find(gguf, "x") < 0 && text_key(gguf, "tokenizer.huggingface.json", "{}"),
       "an architecture that is not known has its tokenizer");
    ok(gguf && plan(ctx, gguf, &info) == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), "'dinosaur'"), "%s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    zt_ctx_clear(ctx);
    hfw_end(&directory);
}

static void test_no_memory(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    bool right = true;
    uint64_t nth = 1;
    zt_gguf *gguf = NULL;
    hfw_text(&directory, "config.json", LLAMA);
    hfw_text(&directory, "tokenizer.json", "{}");
    put_layer(&directory, "model.");
    hfw_save(&directory, "model.safetensors");
    for (; !gguf && nth < 5000; nth++) {
        zt_mem_fail(ctx, nth, false);
        gguf = zt_model_open(ctx, directory.path);
        zt_mem_fail(ctx, 0, false);
        right = right && (gguf || zt_ctx_status(ctx) == ZT_ENOMEM);
        zt_ctx_clear(ctx);
        right = right && (gguf || zt_mem_get(ctx).blocks == 0);
    }
    ok(right && gguf && nth > 50, "memory that runs out at any of %d places", (int)nth - 2);
    zt_gguf_close(gguf);
    hfw_end(&directory);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    void (*const tests[])(zt_ctx *) = {test_bad_configs, test_bad_heads, test_stacks,   test_mxfp4,   test_curve_tensors, test_t5,
                                       test_files,       test_shards,    test_identity, test_unknown, test_no_memory};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i](ctx);
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
