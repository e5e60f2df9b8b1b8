/* arch.c - the table of architectures.
 *
 * What each architecture does is a fact from llama.cpp (src/llama-arch.cpp, src/llama-model.cpp,
 * src/models) and from transformers (models/NAME/modeling_NAME.py). Where the two differ, files are
 * run as the model was trained, which is transformers' way: phi3 and Mistral with their windows,
 * bert, modern-bert, jina-bert-v2, gptneox, falcon and mpt with the exact gelu, starcoder2 with its window, gpt-oss with YaRN's bounds as they come (llama.cpp
 * rounds them to whole pairs), phimoe with its router (SparseMixer; llama.cpp takes a softmax of all experts). Latent attention has an
 * epsilon of its own in its norms, 1e-6 (llama.cpp: that of the other norms), llama4 rotates all layers where none has a window (llama.cpp: not
 * the last), DeepSeek V2 takes the groups whose best expert
 * scores highest (llama.cpp: whose two best do together, which is V3's way).
 */
#include "lib/llm/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- curves of the feed-forward -------------------------------------------------------------- */

static int act_silu(zt_prog *program, const char *name, int gate, int up)
{
    return up == ZT_NONE ? zt_program_silu(program, name, gate) : zt_program_swiglu(program, name, gate, up);
}

static int act_gelu_tanh(zt_prog *program, const char *name, int gate, int up)
{
    return up == ZT_NONE ? zt_program_gelu(program, name, gate, NULL) : zt_program_geglu(program, name, gate, up, NULL);
}

static int act_gelu_erf(zt_prog *program, const char *name, int gate, int up)
{
    static const zt_gelu_attrs one = {.form = {"erf"}};
    static const zt_geglu_attrs two = {.form = {"erf"}};
    return up == ZT_NONE ? zt_program_gelu(program, name, gate, &one) : zt_program_geglu(program, name, gate, up, &two);
}

static int act_relu(zt_prog *program, const char *name, int gate, int up)
{
    (void)up;
    return zt_program_relu(program, name, gate);
}

/* Of classifiers, which have no gate. */
static int act_tanh(zt_prog *program, const char *name, int gate, int up)
{
    (void)up;
    return zt_program_tanh(program, name, gate);
}

zt_act *zt_act_of(zt_bytes name)
{
    static const struct {
        const char *name;
        zt_act *act;
    } acts[] = {{"gelu", act_gelu_erf}, {"gelu_pytorch_tanh", act_gelu_tanh}, {"gelu_new", act_gelu_tanh}, {"silu", act_silu}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (strlen(acts[i].name) == name.n && memcmp(acts[i].name, name.data, name.n) == 0) return acts[i].act;
    return NULL;
}

/* gpt-oss: gate sigmoid(alpha gate) (up + 1), with gate at most, and up at most and at least, a limit. Numbers as in
 * configuration_gpt_oss.py of transformers and ggml's swiglu_oai; GGUF has no keys for them. */
#define CLAMPED_ALPHA 1.702
#define CLAMPED_LIMIT 7.0

static const char *part_of(char part[40], const char *name, char what)
{
    snprintf(part, 40, "%.30s_%c", name, what);
    return part;
}

static int act_clamped(zt_prog *program, const char *name, int gate, int up)
{
    char part[40];
    gate = zt_program_clamp(program, part_of(part, name, 'g'), gate, &(zt_clamp_attrs){-INFINITY, CLAMPED_LIMIT});
    int curve = zt_program_scale(program, part_of(part, name, 'a'), gate, &(zt_scale_attrs){CLAMPED_ALPHA});
    curve = zt_program_sigmoid(program, part_of(part, name, 's'), curve);
    curve = zt_program_mul(program, up == ZT_NONE ? name : part_of(part, name, 'c'), gate, curve);
    if (up == ZT_NONE) return curve;
    up = zt_program_clamp(program, part_of(part, name, 'u'), up, &(zt_clamp_attrs){-CLAMPED_LIMIT, CLAMPED_LIMIT});
    up = zt_program_add_scalar(program, part_of(part, name, 'o'), up, &(zt_add_scalar_attrs){1});
    return zt_program_mul(program, name, curve, up);
}

/* The square of relu; without an up. */
static int act_relu_squared(zt_prog *program, const char *name, int gate, int up)
{
    char part[40];
    int y = zt_program_relu(program, part_of(part, name, 'r'), gate);
    y = zt_program_mul(program, up == ZT_NONE ? name : part_of(part, name, 's'), y, y);
    return up == ZT_NONE ? y : zt_program_mul(program, name, y, up);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What nearly all have: norms before, three matrices for q, k and v, a gate, biases and divisors of
 * the rotations where the file has them. */
#define BASE                                                                                                                     \
    (ZT_PART_ALL | ZT_PART_QKV | ZT_PART_GATE | ZT_PART_UP | ZT_PART_LAST_NORM | ZT_PART_HEAD | ZT_PART_BIASES | ZT_PART_ROPE_TAB)
#define PRE_NORMS (ZT_PART_PRE_NORM | ZT_PART_FF_NORM)
/* Without a gate, and with biases on the norms. */
#define UNGATED (ZT_PART_ALL | ZT_PART_UP | ZT_PART_LAST_NORM | ZT_PART_HEAD | ZT_PART_NORM_BIAS)
#define ENCODER (ZT_PART_ALL | ZT_PART_EMBED_NORM | ZT_PART_SUM_NORM | ZT_PART_NORM_BIAS | ZT_PART_UP)

static const zt_arch archs[] = {
    /* Llama 1 to 3, Mistral, TinyLlama, Yi, SmolLM 1 and 2; Mixtral: that one has experts */
    {.name = "llama",
     .parts = BASE | PRE_NORMS | ZT_PART_EXPERTS_MAY,
     .rope_pair = "neighbours",
     .act = act_silu,
     .normed_experts = true,
     .expert_ff_alike = true},
    {.name = "internlm2", .parts = BASE | PRE_NORMS, .rope_pair = "neighbours", .act = act_silu},
    {.name = "qwen2", .parts = BASE | PRE_NORMS | ZT_PART_QKV_BIAS, .rope_pair = "halves", .act = act_silu},
    /* Qwen 3, and its rerankers: these have a classifier */
    {.name = "qwen3",
     .parts = BASE | PRE_NORMS | ZT_PART_QK_NORM,
     .rope_pair = "halves",
     .act = act_silu,
     .head_act = act_tanh,
     .head_softmax = true},
    {.name = "gemma2",
     .parts = BASE | PRE_NORMS | ZT_PART_POST_NORM,
     .rope_pair = "halves",
     .act = act_gelu_tanh,
     .embed_scale = true,
     .window_period = 2,
     .window = 4096,
     .attn_cap = 50,
     .final_cap = 30,
     .width_scaled_layers = 46},
    {.name = "gemma3",
     .parts = BASE | PRE_NORMS | ZT_PART_POST_NORM | ZT_PART_QK_NORM,
     .rope_pair = "halves",
     .act = act_gelu_tanh,
     .embed_scale = true,
     .window_period = 6,
     .local_theta = 1e4,
     .local_plain = true,
     .width_scaled_layers = 62},
    /* EmbeddingGemma: Gemma 3's layers, of which every token sees those around it */
    {.name = "gemma-embedding",
     .parts = (BASE & ~(uint64_t)ZT_PART_HEAD) | PRE_NORMS | ZT_PART_POST_NORM | ZT_PART_QK_NORM | ZT_PART_DENSE,
     .rope_pair = "halves",
     .act = act_gelu_tanh,
     .embed_scale = true,
     .encoder = true,
     .window_period = 6,
     .window_around = true,
     .local_theta = 1e4,
     .local_plain = true},
    {.name = "gemma3n",
     .parts = BASE | PRE_NORMS | ZT_PART_POST_NORM | ZT_PART_QK_NORM | ZT_PART_PER_LAYER | ZT_PART_ALTUP,
     .rope_pair = "halves",
     .act = act_gelu_tanh,
     .embed_scale = true,
     .window_period = 5,
     .needs_window = true,
     .local_theta = 1e4,
     .local_plain = true,
     .attn_scale = 1,
     .value_norm = true,
     .needs_shared = true},
    /* Gemma 4: E2B and E4B have embeddings of each layer, 26B-A4B has experts */
    {.name = "gemma4",
     .parts = BASE | PRE_NORMS | ZT_PART_POST_NORM | ZT_PART_QK_NORM | ZT_PART_PER_LAYER | ZT_PART_LAYER_SCALE |
              ZT_PART_DIVISORS | ZT_PART_EXPERTS_MAY | ZT_PART_BESIDE,
     .rope_pair = "halves",
     .act = act_gelu_tanh,
     .embed_scale = true,
     .window_period = 6,
     .needs_window = true,
     .local_theta = 1e4,
     .local_plain = true,
     .attn_scale = 1,
     .value_norm = true,
     .value_may_be_key = true,
     .needs_shared = true,
     .normed_experts = true},
    {.name = "phi3",
     .parts = (BASE & ~(uint64_t)(ZT_PART_QKV | ZT_PART_GATE | ZT_PART_UP)) | PRE_NORMS | ZT_PART_FUSED_QKV | ZT_PART_FUSED_UP,
     .rope_pair = "halves",
     .act = act_silu},
    {.name = "gpt2",
     .parts = ZT_PART_ALL | ZT_PART_FUSED_QKV | ZT_PART_UP | ZT_PART_LAST_NORM | ZT_PART_HEAD | PRE_NORMS | ZT_PART_NORM_BIAS |
              ZT_PART_QKV_BIAS | ZT_PART_MORE_BIAS | ZT_PART_POSITIONS,
     .act = act_gelu_tanh,
     .layer_norm = true},
    {.name = "smollm3", .parts = BASE | PRE_NORMS, .rope_pair = "neighbours", .no_rope_every = 4, .act = act_silu},
    /* OLMo 2, and 3: that one has windows */
    {.name = "olmo2",
     .parts = BASE | ZT_PART_POST_NORM | ZT_PART_QK_NORM,
     .rope_pair = "halves",
     .act = act_silu,
     .qk_norm_whole = true,
     .window_period = 4,
     .local_plain = true},
    {.name = "granite",
     .parts = BASE | PRE_NORMS,
     .rope_pair = "neighbours",
     .act = act_silu,
     .divides_logits = true,
     .rope_switch = true},
    {.name = "qwen2moe",
     .parts = BASE | PRE_NORMS | ZT_PART_QKV_BIAS | ZT_PART_EXPERTS | ZT_PART_SHARED | ZT_PART_SHARED_GATE,
     .rope_pair = "halves",
     .act = act_silu},
    {.name = "qwen3moe",
     .parts = BASE | PRE_NORMS | ZT_PART_QK_NORM | ZT_PART_EXPERTS,
     .rope_pair = "halves",
     .act = act_silu,
     .normed_experts = true},
    {.name = "qwen3next",
     .parts = BASE | ZT_PART_PRE_NORM | ZT_PART_FF_NORM_POST | ZT_PART_QK_NORM | ZT_PART_BETA_ALPHA | ZT_PART_EXPERTS |
              ZT_PART_SHARED | ZT_PART_SHARED_GATE,
     .rope_pair = "halves",
     .act = act_silu,
     .heads = ZT_HEADS_NORMED,
     .recurrent = ZT_LAYER_DELTA_NET,
     .gated_attention = true,
     .normed_experts = true},
    {.name = "qwen35",
     .parts = BASE | ZT_PART_PRE_NORM | ZT_PART_FF_NORM_POST | ZT_PART_QK_NORM | ZT_PART_BETA,
     .rope_pair = "halves",
     .act = act_silu,
     .heads = ZT_HEADS_NORMED,
     .recurrent = ZT_LAYER_DELTA_NET,
     .gated_attention = true,
     .tiled_heads = true},
    {.name = "qwen35moe",
     .parts = BASE | ZT_PART_PRE_NORM | ZT_PART_FF_NORM_POST | ZT_PART_QK_NORM | ZT_PART_BETA | ZT_PART_EXPERTS | ZT_PART_SHARED |
              ZT_PART_SHARED_GATE,
     .rope_pair = "halves",
     .act = act_silu,
     .heads = ZT_HEADS_NORMED,
     .recurrent = ZT_LAYER_DELTA_NET,
     .gated_attention = true,
     .tiled_heads = true,
     .normed_experts = true},
    {.name = "olmoe",
     .parts = BASE | PRE_NORMS | ZT_PART_QK_NORM | ZT_PART_EXPERTS,
     .rope_pair = "halves",
     .act = act_silu,
     .qk_norm_whole = true,
     .expert_ff_alike = true},
    {.name = "granitemoe",
     .parts = BASE | PRE_NORMS | ZT_PART_EXPERTS | ZT_PART_SHARED,
     .rope_pair = "neighbours",
     .act = act_silu,
     .divides_logits = true,
     .rope_switch = true,
     .normed_experts = true,
     .expert_ff_alike = true},
    {.name = "phimoe",
     .parts = BASE | PRE_NORMS | ZT_PART_NORM_BIAS | ZT_PART_HEAD_BIAS | ZT_PART_EXPERTS,
     .rope_pair = "halves",
     .act = act_silu,
     .layer_norm = true,
     .gating = ZT_GATING_SPARSEMIXER,
     .expert_ff_alike = true},
    {.name = "ernie4_5-moe",
     .parts = BASE | PRE_NORMS | ZT_PART_EXPERTS | ZT_PART_CHOICE_BIAS | ZT_PART_SHARED,
     .rope_pair = "neighbours",
     .act = act_silu,
     .normed_experts = true,
     .least_sum = 1e-12},
    {.name = "glm4moe",
     .parts = BASE | ZT_PART_PRE_NORM | ZT_PART_FF_NORM_POST | ZT_PART_QK_NORM_MAY | ZT_PART_EXPERTS | ZT_PART_CHOICE_BIAS |
              ZT_PART_SHARED,
     .rope_pair = "halves",
     .act = act_silu,
     .heads = ZT_HEADS_PLAIN,
     .gating = ZT_GATING_SIGMOID,
     .least_sum = 1e-20},
    {.name = "gpt-oss",
     .parts =
         BASE | ZT_PART_PRE_NORM | ZT_PART_FF_NORM_POST | ZT_PART_QKV_BIAS | ZT_PART_MORE_BIAS | ZT_PART_SINKS | ZT_PART_EXPERTS,
     .rope_pair = "halves",
     .act = act_clamped,
     .window_period = 2,
     .needs_window = true,
     .yarn_exact = true,
     .gating = ZT_GATING_SOFTMAX_CHOSEN,
     .expert_ff_alike = true},
    /* Llama 4: Scout, and Maverick, whose layers take turns with and without experts */
    {.name = "llama4",
     .parts = BASE | PRE_NORMS | ZT_PART_EXPERTS | ZT_PART_SHARED,
     .rope_pair = "neighbours",
     .no_rope_every = 4,
     .act = act_silu,
     .tempered = true,
     .temperature = 0.1,
     .temper_length = 8192,
     .unit_norms = true,
     .window_period = 4,
     .window = 8192,
     .chunked = true,
     .gating = ZT_GATING_SIGMOID,
     .weighs_input = true,
     .shared_alike = true},
    /* DeepSeek V2, V3 and R1, Kimi K2, GLM 4.7 Flash */
    {.name = "deepseek2",
     .parts = (BASE & ~(uint64_t)ZT_PART_QKV) | PRE_NORMS | ZT_PART_LATENT | ZT_PART_EXPERTS_MAY | ZT_PART_CHOICE_BIAS |
              ZT_PART_SHARED,
     .rope_pair = "neighbours",
     .act = act_silu,
     .heads = ZT_HEADS_PLAIN,
     .tempered = true,
     .gating = ZT_GATING_SIGMOID,
     .least_sum = 1e-20,
     .bias_or_softmax = true,
     .latent_eps = 1e-6,
     .yarn_all_dims = true},
    /* DeepSeek V3.2, whose indexer chooses keys */
    {.name = "deepseek32",
     .parts = (BASE & ~(uint64_t)ZT_PART_QKV) | PRE_NORMS | ZT_PART_LATENT | ZT_PART_INDEXER | ZT_PART_EXPERTS_MAY |
              ZT_PART_CHOICE_BIAS | ZT_PART_SHARED,
     .rope_pair = "neighbours",
     .act = act_silu,
     .heads = ZT_HEADS_PLAIN,
     .tempered = true,
     .gating = ZT_GATING_SIGMOID,
     .least_sum = 1e-20,
     .bias_or_softmax = true,
     .latent_eps = 1e-6,
     .yarn_all_dims = true},
    {.name = "mistral4",
     .parts = (BASE & ~(uint64_t)ZT_PART_QKV) | PRE_NORMS | ZT_PART_LATENT | ZT_PART_EXPERTS_MAY | ZT_PART_SHARED,
     .rope_pair = "neighbours",
     .act = act_silu,
     .tempered = true,
     .least_sum = 1e-20,
     .latent_eps = 1e-6,
     .yarn_all_dims = true},
    {.name = "minicpm3",
     .parts = (BASE & ~(uint64_t)ZT_PART_QKV) | PRE_NORMS | ZT_PART_LATENT,
     .rope_pair = "halves",
     .act = act_silu,
     .latent_eps = 1e-6,
     .embed_factor = 12,
     .residual_factor = 1.4,
     .logit_width = 256},
    /* Command R, and R+: that one has norms on q and k */
    {.name = "command-r",
     .parts = BASE | ZT_PART_PRE_NORM | ZT_PART_HEAD_NORMS,
     .rope_pair = "neighbours",
     .act = act_silu,
     .layer_norm = true,
     .residual = ZT_RESIDUAL_PARALLEL,
     .multiplies_logits = true},
    {.name = "cohere2",
     .parts = BASE | ZT_PART_PRE_NORM,
     .rope_pair = "neighbours",
     .act = act_silu,
     .layer_norm = true,
     .residual = ZT_RESIDUAL_PARALLEL,
     .window_period = 4,
     .needs_window = true,
     .rotates_local = true,
     .multiplies_logits = true},
    {.name = "stablelm",
     .parts = BASE | PRE_NORMS | ZT_PART_NORM_BIAS | ZT_PART_HEAD_NORMS,
     .rope_pair = "halves",
     .act = act_silu,
     .layer_norm = true,
     .residual = ZT_RESIDUAL_BY_NORM},
    {.name = "starcoder2",
     .parts = UNGATED | PRE_NORMS | ZT_PART_QKV | ZT_PART_QKV_BIAS | ZT_PART_MORE_BIAS,
     .rope_pair = "halves",
     .act = act_gelu_tanh,
     .layer_norm = true},
    {.name = "gptneox",
     .parts = UNGATED | PRE_NORMS | ZT_PART_FUSED_QKV | ZT_PART_QKV_BIAS | ZT_PART_MORE_BIAS,
     .rope_pair = "halves",
     .act = act_gelu_erf,
     .layer_norm = true,
     .residual = ZT_RESIDUAL_BY_KEY},
    {.name = "falcon",
     .parts = UNGATED | ZT_PART_PRE_NORM | ZT_PART_NORM_2 | ZT_PART_FUSED_QKV,
     .rope_pair = "halves",
     .act = act_gelu_erf,
     .layer_norm = true,
     .residual = ZT_RESIDUAL_PARALLEL},
    {.name = "phi2",
     .parts = UNGATED | ZT_PART_PRE_NORM | ZT_PART_QKV | ZT_PART_QKV_BIAS | ZT_PART_MORE_BIAS | ZT_PART_HEAD_BIAS,
     .rope_pair = "halves",
     .act = act_gelu_tanh,
     .layer_norm = true,
     .residual = ZT_RESIDUAL_PARALLEL},
    {.name = "exaone", .parts = BASE | PRE_NORMS, .rope_pair = "halves", .act = act_silu},
    {.name = "exaone4",
     .parts = BASE | ZT_PART_POST_NORM | ZT_PART_QK_NORM,
     .rope_pair = "halves",
     .act = act_silu,
     .window_period = 4,
     .rotates_local = true},
    {.name = "glm4",
     .parts = (BASE & ~(uint64_t)(ZT_PART_GATE | ZT_PART_UP)) | PRE_NORMS | ZT_PART_POST_NORM | ZT_PART_FUSED_UP,
     .rope_pair = "neighbours",
     .act = act_silu},
    {.name = "seed_oss", .parts = BASE | ZT_PART_PRE_NORM | ZT_PART_FF_NORM_POST, .rope_pair = "halves", .act = act_silu},
    {.name = "hunyuan-dense",
     .parts = BASE | PRE_NORMS | ZT_PART_QK_NORM,
     .rope_pair = "halves",
     .act = act_silu,
     .qk_norm_last = true},
    {.name = "mpt",
     .parts = (UNGATED & ~(uint64_t)ZT_PART_NORM_BIAS) | PRE_NORMS | ZT_PART_FUSED_QKV | ZT_PART_BIASES,
     .act = act_gelu_erf,
     .layer_norm = true,
     .alibi_named = true},
    /* Baichuan 1 of 7 and of 13 thousand million weights; the latter has 40 layers, and does not rotate */
    {.name = "baichuan", .parts = BASE | PRE_NORMS, .rope_pair = "neighbours", .act = act_silu, .alibi = 8, .alibi_layers = 40},
    /* MiniCPM 1 and 2; MiniCPM 4 */
    {.name = "minicpm", .parts = BASE | PRE_NORMS, .rope_pair = "neighbours", .act = act_silu, .divides_logits = true},
    {.name = "apertus",
     .parts = (BASE & ~(uint64_t)ZT_PART_GATE) | PRE_NORMS | ZT_PART_QK_NORM,
     .rope_pair = "halves",
     .act = act_silu,
     .xielu = true},
    /* Ministral 3, Mistral Small 3.1 and later */
    {.name = "mistral3", .parts = BASE | PRE_NORMS, .rope_pair = "neighbours", .act = act_silu, .tempered = true},
    /* LFM2: short convolutions and attention */
    {.name = "lfm2",
     .parts = (BASE & ~(uint64_t)ZT_PART_LAST_NORM) | PRE_NORMS | ZT_PART_QK_NORM | ZT_PART_LAST_NORM_EMBD,
     .rope_pair = "halves",
     .act = act_silu,
     .recurrent = ZT_LAYER_SHORT_CONV,
     .kinds = ZT_KINDS_BY_HEADS},
    {.name = "lfm2moe",
     .parts = (BASE & ~(uint64_t)ZT_PART_LAST_NORM) | PRE_NORMS | ZT_PART_QK_NORM | ZT_PART_LAST_NORM_EMBD | ZT_PART_EXPERTS |
              ZT_PART_CHOICE_BIAS,
     .rope_pair = "halves",
     .act = act_silu,
     .recurrent = ZT_LAYER_SHORT_CONV,
     .kinds = ZT_KINDS_BY_HEADS,
     .gating = ZT_GATING_SIGMOID,
     .normed_experts = true,
     .added_sum = 1e-6},
    /* Mamba, and FalconMamba: that one has norms on steps, b and c */
    {.name = "mamba",
     .parts = ZT_PART_ALL | ZT_PART_PRE_NORM | ZT_PART_LAST_NORM | ZT_PART_HEAD,
     .act = act_silu,
     .recurrent = ZT_LAYER_MAMBA,
     .kinds = ZT_KINDS_ALL},
    {.name = "mamba2",
     .parts = ZT_PART_ALL | ZT_PART_PRE_NORM | ZT_PART_LAST_NORM | ZT_PART_HEAD | ZT_PART_SCAN_NORM,
     .act = act_silu,
     .recurrent = ZT_LAYER_MAMBA2,
     .kinds = ZT_KINDS_ALL},
    /* RWKV-7, "Goose" */
    {.name = "rwkv7",
     .parts = ZT_PART_ALL | ZT_PART_EMBED_NORM | ZT_PART_PRE_NORM | ZT_PART_LAST_NORM | ZT_PART_NORM_BIAS | ZT_PART_HEAD |
              ZT_PART_TIME_GATE | ZT_PART_TIME_NORM | ZT_PART_CHANNEL_MIX,
     .act = act_relu_squared,
     .layer_norm = true,
     .recurrent = ZT_LAYER_TIME_MIX,
     .kinds = ZT_KINDS_ALL},
    /* ARWKV, and RWKV-7 in the place of attention in Qwen 2.5 */
    {.name = "arwkv7",
     .parts = ZT_PART_ALL | PRE_NORMS | ZT_PART_GATE | ZT_PART_UP | ZT_PART_LAST_NORM | ZT_PART_HEAD | ZT_PART_TIME_GATE |
              ZT_PART_TIME_NORM,
     .act = act_silu,
     .recurrent = ZT_LAYER_TIME_MIX,
     .kinds = ZT_KINDS_ALL,
     .time_norm_may = true},
    {.name = "falcon-h1",
     .parts = BASE | ZT_PART_PRE_NORM | ZT_PART_FF_NORM_BARE | ZT_PART_SCAN_NORM_MAY,
     .rope_pair = "halves",
     .act = act_silu,
     .recurrent = ZT_LAYER_BESIDE_MAMBA2,
     .kinds = ZT_KINDS_ALL},
    /* Granite 4, and Bamba: that one rotates half of each head */
    {.name = "granitehybrid",
     .parts = BASE | PRE_NORMS | ZT_PART_SCAN_NORM | ZT_PART_EXPERTS_MAY | ZT_PART_SHARED,
     .rope_pair = "neighbours",
     .act = act_silu,
     .recurrent = ZT_LAYER_MAMBA2,
     .kinds = ZT_KINDS_BY_HEADS,
     .divides_logits = true,
     .logits_may = true,
     .pair_named = true,
     .rope_switch = true,
     .normed_experts = true,
     .expert_ff_alike = true},
    /* Nemotron 3, whose feed-forwards are experts */
    {.name = "nemotron_h_moe",
     .parts = ZT_PART_ALL | ZT_PART_PRE_NORM | ZT_PART_QKV | ZT_PART_UP | ZT_PART_LAST_NORM | ZT_PART_HEAD | ZT_PART_BIASES |
              ZT_PART_SCAN_NORM | ZT_PART_EXPERTS | ZT_PART_CHOICE_BIAS | ZT_PART_SHARED,
     .act = act_relu_squared,
     .either_epsilon = true,
     .recurrent = ZT_LAYER_MAMBA2,
     .kinds = ZT_KINDS_BY_HEADS,
     .sole_feed_forward = true,
     .gating = ZT_GATING_SIGMOID,
     .least_sum = 1e-20,
     .shared_measured = true,
     .ungated_experts = true},
    {.name = "nemotron_h",
     .parts = ZT_PART_ALL | ZT_PART_PRE_NORM | ZT_PART_QKV | ZT_PART_UP | ZT_PART_LAST_NORM | ZT_PART_HEAD | ZT_PART_BIASES |
              ZT_PART_SCAN_NORM,
     .act = act_relu_squared,
     .either_epsilon = true,
     .recurrent = ZT_LAYER_MAMBA2,
     .kinds = ZT_KINDS_BY_HEADS,
     .sole_feed_forward = true},
    {.name = "bert",
     .parts = ENCODER | ZT_PART_QKV | ZT_PART_QKV_BIAS | ZT_PART_MORE_BIAS | ZT_PART_POSITIONS | ZT_PART_TYPES,
     .act = act_gelu_erf,
     .layer_norm = true,
     .encoder = true,
     .head_act = act_tanh},
    {.name = "nomic-bert",
     .parts = ENCODER | ZT_PART_FUSED_QKV | ZT_PART_GATE | ZT_PART_BIASES | ZT_PART_TYPES_MAY,
     .rope_pair = "halves",
     .act = act_silu,
     .layer_norm = true,
     .encoder = true},
    {.name = "t5encoder",
     .parts = ZT_PART_ALL | PRE_NORMS | ZT_PART_QKV | ZT_PART_GATE | ZT_PART_UP | ZT_PART_LAST_NORM | ZT_PART_RELATIVE,
     .prefix = "enc.",
     .act = act_gelu_tanh,
     .ungated_act = act_relu,
     .encoder = true,
     .attn_scale = 1},
    {.name = "jina-bert-v2",
     .parts =
         (ENCODER & ~(uint64_t)ZT_PART_UP) | ZT_PART_QKV | ZT_PART_QKV_BIAS | ZT_PART_FUSED_UP | ZT_PART_BIASES | ZT_PART_TYPES,
     .act = act_gelu_erf,
     .layer_norm = true,
     .encoder = true,
     .alibi = 8},
    {.name = "modern-bert",
     .parts = ZT_PART_ALL | ZT_PART_EMBED_NORM | PRE_NORMS | ZT_PART_LAST_NORM | ZT_PART_FUSED_QKV | ZT_PART_FUSED_UP,
     .rope_pair = "halves",
     .act = act_gelu_erf,
     .act_named = true,
     .layer_norm = true,
     .encoder = true,
     .head_act = act_gelu_erf,
     .window_period = 3,
     .window_later = true,
     .window_around = true,
     .local_theta = 1e4,
     .first_unnormed = true},
};

const zt_arch *zt_arch_at(size_t i) { return i < sizeof archs / sizeof *archs ? &archs[i] : NULL; }

const zt_arch *zt_arch_of(const zt_gguf *gguf)
{
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    zt_bytes name;
    if (!zt_gguf_str(gguf, "general.architecture", &name)) {
        zt_fail(ctx, ZT_EDATA, "%s: key 'general.architecture' is missing: not a model", zt_gguf_name(gguf));
        return NULL;
    }
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strlen(archs[i].name) == name.n && memcmp(archs[i].name, name.data, name.n) == 0) return &archs[i];
    char text[96];
    zt_fail(ctx, ZT_ENOTSUP, "%s: architecture '%s' is not supported", zt_gguf_name(gguf),
            zt_escape(text, sizeof text, name.data, name.n));
    return NULL;
}
