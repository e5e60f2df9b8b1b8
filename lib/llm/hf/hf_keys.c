/* hf_keys.c - numbers of config.json that are keys of GGUF: their names on both sides, and what holds where config.json is
 * silent.
 *
 * Names and meaning of keys: convert_hf_to_gguf.py of llama.cpp (conversion/), what holds otherwise: configuration_*.py of
 * transformers; both as facts.
 */
#include "lib/llm/hf/hf.h"

#include <stddef.h>

#define NO  HF_NO
#define MAY HF_MAY

/* ---- the sizes that every model has ---------------------------------------------------------- */

typedef struct hf_sizes {
    double layers, context, width, ff, heads, key_heads, head, rms, norm; /* the last two: epsilons of RMS and layer norms */
} hf_sizes;

/* nomic-embed-text: the context of training, not 8192 positions */
static const hf_sizes sizes[HF_COUNT] = {
    [HF_LLAMA] = {32, 2048, 4096, 11008, 32, MAY, MAY, 1e-6, NO},
    [HF_MISTRAL] = {32, 131072, 4096, 14336, 32, 8, MAY, 1e-6, NO},
    [HF_QWEN2] = {32, 32768, 4096, 22016, 32, 32, MAY, 1e-6, NO},
    [HF_QWEN3] = {32, 32768, 4096, 22016, 32, 32, 128, 1e-6, NO},
    [HF_GEMMA2] = {26, 8192, 2304, 9216, 8, 4, 256, 1e-6, NO},
    [HF_GEMMA3] = {26, 131072, 2304, 9216, 8, 4, 256, 1e-6, NO},
    [HF_PHI3] = {32, 4096, 3072, 8192, 32, MAY, MAY, 1e-5, NO},
    [HF_GPT2] = {12, 1024, 768, MAY, 12, NO, NO, NO, 1e-5},
    [HF_SMOLLM3] = {36, 32768, 2048, 11008, 16, 4, MAY, 1e-6, NO},
    [HF_OLMO2] = {32, 2048, 4096, 11008, 32, MAY, MAY, 1e-5, NO},
    [HF_GRANITE] = {32, 2048, 4096, 11008, 32, MAY, NO, 1e-6, NO},
    [HF_BERT] = {12, 512, 768, 3072, 12, NO, NO, NO, 1e-12},
    [HF_NOMIC] = {12, 2048, 768, MAY, 12, NO, NO, NO, 1e-12},
    [HF_MIXTRAL] = {32, 131072, 4096, 14336, 32, 8, MAY, 1e-5, NO},
    [HF_QWEN2MOE] = {24, 32768, 2048, 5632, 16, 16, MAY, 1e-6, NO},
    [HF_QWEN3MOE] = {24, 32768, 2048, 6144, 32, 4, MAY, 1e-6, NO},
    [HF_OLMOE] = {16, 4096, 2048, 2048, 16, MAY, MAY, 1e-5, NO},
    [HF_GRANITEMOE] = {32, 2048, 4096, 11008, 32, MAY, NO, 1e-6, NO},
    [HF_PHIMOE] = {32, 131072, 4096, 6400, 32, 8, NO, 1e-5, NO},
    [HF_ERNIE_MOE] = {28, 131072, 2560, 12288, 20, 4, MAY, 1e-5, NO},
    [HF_GLM4MOE] = {46, 131072, 4096, 10944, 96, 8, MAY, 1e-5, NO},
    [HF_COHERE] = {40, NO, 8192, 22528, 64, MAY, MAY, NO, 1e-5},
    [HF_COHERE2] = {40, 8192, 8192, 22528, 64, MAY, MAY, NO, 1e-5},
    [HF_STABLELM] = {32, 4096, 2560, 6912, 32, 32, NO, NO, 1e-5},
    [HF_STARCODER2] = {30, 4096, 3072, 12288, 24, 2, MAY, NO, NO},
    [HF_NEOX] = {44, 2048, 6144, 24576, 64, NO, NO, NO, 1e-5},
    [HF_FALCON] = {32, 2048, 4544, NO, 71, NO, NO, NO, NO},
    [HF_FALCON_TWO] = {32, 2048, 4544, NO, 71, NO, NO, NO, NO},
    [HF_PHI2] = {24, 2048, 2048, 8192, 32, MAY, NO, NO, 1e-5},
    [HF_EXAONE4] = {32, 2048, 4096, 16384, 32, 32, MAY, 1e-5, NO},
    [HF_GLM4] = {40, 131072, 4096, 13696, 32, 2, 128, 1.5625e-7, NO},
    [HF_SEED_OSS] = {64, 524288, 4096, 27648, 80, 8, 128, 1e-6, NO},
    [HF_HUNYUAN] = {32, 2048, 4096, 11008, 32, MAY, MAY, 1e-5, NO},
    [HF_MINISTRAL3] = {34, 262144, 4096, 14336, 32, 8, 128, 1e-5, NO},
    [HF_OLMO3] = {32, 2048, 4096, 11008, 32, MAY, MAY, 1e-5, NO},
    [HF_MODERNBERT] = {22, 8192, 768, 1152, 12, NO, NO, NO, MAY},
};

#define SIZE(field) (1 + offsetof(hf_sizes, field) / sizeof(double))

/* ---- the keys: by a size, or with a number for each architecture that has the key ------------ */

static const hf_key keys[] = {
    {.suffix = "block_count",
     .names = "num_hidden_layers|n_layer|n_layers|num_layers",
     .kind = 'u',
     .size = SIZE(layers),
     .gpt2 = "n_layer"},
    {.suffix = "context_length",
     .names = "max_position_embeddings|max_trained_positions|n_positions|n_ctx|max_length|max_sequence_length",
     .kind = 'u',
     .size = SIZE(context),
     .gpt2 = "n_positions"},
    {.suffix = "embedding_length", .names = "hidden_size|n_embd|dim", .kind = 'u', .size = SIZE(width), .gpt2 = "n_embd"},
    {.suffix = "feed_forward_length",
     .names = "intermediate_size|n_inner|hidden_dim",
     .kind = 'u',
     .size = SIZE(ff),
     .gpt2 = "n_inner"},
    {.suffix = "attention.head_count",
     .names = "num_attention_heads|n_head|n_heads",
     .kind = 'u',
     .size = SIZE(heads),
     .gpt2 = "n_head"},
    {.suffix = "attention.head_count_kv",
     .names = "num_key_value_heads|n_kv_heads|n_head_kv",
     .kind = 'u',
     .size = SIZE(key_heads)},
    {.suffix = "attention.key_length", .names = "head_dim", .kind = 'u', .size = SIZE(head)},
    {.suffix = "attention.value_length", .names = "head_dim", .kind = 'u', .size = SIZE(head)},
    {.suffix = "attention.layer_norm_rms_epsilon", .names = "rms_norm_eps|norm_eps", .kind = 'f', .size = SIZE(rms)},
    {.suffix = "attention.layer_norm_epsilon",
     .names = "layer_norm_eps|layer_norm_epsilon|norm_epsilon",
     .kind = 'f',
     .size = SIZE(norm),
     .gpt2 = "layer_norm_epsilon"},
    {.suffix = "attn_logit_softcapping",
     .names = "attn_logit_softcapping",
     .kind = 'f',
     .otherwise = {[HF_GEMMA2] = 50, [HF_GEMMA3] = MAY}},
    {.suffix = "final_logit_softcapping",
     .names = "final_logit_softcapping",
     .kind = 'f',
     .otherwise = {[HF_GEMMA2] = 30, [HF_GEMMA3] = MAY}},
    {.suffix = "attention.scale",
     .names = "attention_multiplier",
     .kind = 'f',
     .otherwise = {[HF_GRANITE] = 1, [HF_GRANITEMOE] = 1}},
    {.suffix = "embedding_scale",
     .names = "embedding_multiplier",
     .kind = 'f',
     .otherwise = {[HF_GRANITE] = 1, [HF_GRANITEMOE] = 1}},
    {.suffix = "residual_scale",
     .names = "residual_multiplier",
     .kind = 'f',
     .otherwise = {[HF_GRANITE] = 1, [HF_GRANITEMOE] = 1}},
    {.suffix = "logit_scale", .names = "logits_scaling", .kind = 'f', .otherwise = {[HF_GRANITE] = 1, [HF_GRANITEMOE] = 1}},
    {.suffix = "logit_scale", .names = "logit_scale", .kind = 'f', .otherwise = {[HF_COHERE] = 0.0625, [HF_COHERE2] = 0.0625}},
    {.suffix = "context_length",
     .names = "model_max_length|max_position_embeddings",
     .kind = 'u',
     .otherwise = {[HF_COHERE] = 8192}},
    {.suffix = "feed_forward_length",
     .names = "ffn_hidden_size",
     .kind = 'u',
     .otherwise = {[HF_FALCON] = MAY, [HF_FALCON_TWO] = MAY}},
    {.suffix = "attention.layer_norm_epsilon", .names = "norm_epsilon", .kind = 'f', .otherwise = {[HF_STARCODER2] = 1e-5}},
    {.suffix = "attention.layer_norm_epsilon",
     .names = "layer_norm_epsilon",
     .kind = 'f',
     .otherwise = {[HF_FALCON] = 1e-5, [HF_FALCON_TWO] = 1e-5}},
    {.suffix = "vocab_size",
     .names = "vocab_size",
     .kind = 'u',
     .otherwise = {[HF_LLAMA] = MAY,
                   [HF_MISTRAL] = MAY,
                   [HF_SMOLLM3] = MAY,
                   [HF_GRANITE] = MAY,
                   [HF_MIXTRAL] = MAY,
                   [HF_GRANITEMOE] = MAY,
                   [HF_COHERE2] = MAY,
                   [HF_EXAONE4] = MAY,
                   [HF_MINISTRAL3] = MAY,
                   [HF_MODERNBERT] = 50368}},
    {.suffix = "attention.layer_norm_rms_epsilon", .names = "norm_eps", .kind = 'f', .otherwise = {[HF_MODERNBERT] = 1e-5}},
    {.suffix = "attention.sliding_window", .names = "local_attention", .kind = 'u', .otherwise = {[HF_MODERNBERT] = 128}},
    {.suffix = "expert_count",
     .names = "num_experts|num_local_experts|n_routed_experts|moe_num_experts",
     .kind = 'u',
     .otherwise = {[HF_MIXTRAL] = 8,
                   [HF_QWEN2MOE] = 60,
                   [HF_QWEN3MOE] = 128,
                   [HF_OLMOE] = 64,
                   [HF_GRANITEMOE] = 8,
                   [HF_PHIMOE] = 16,
                   [HF_ERNIE_MOE] = 64,
                   [HF_GLM4MOE] = 128}},
    {.suffix = "expert_used_count",
     .names = "num_experts_per_tok|num_experts_per_token|moe_k",
     .kind = 'u',
     .otherwise = {[HF_MIXTRAL] = 2,
                   [HF_QWEN2MOE] = 4,
                   [HF_QWEN3MOE] = 8,
                   [HF_OLMOE] = 8,
                   [HF_GRANITEMOE] = 2,
                   [HF_PHIMOE] = 2,
                   [HF_ERNIE_MOE] = 6,
                   [HF_GLM4MOE] = 8}},
    {.suffix = "expert_feed_forward_length",
     .names = "moe_intermediate_size",
     .kind = 'u',
     .otherwise = {[HF_QWEN2MOE] = 1408, [HF_QWEN3MOE] = 768, [HF_ERNIE_MOE] = 1536, [HF_GLM4MOE] = 1408}},
    {.suffix = "expert_shared_feed_forward_length",
     .names = "shared_expert_intermediate_size|shared_intermediate_size",
     .kind = 'u',
     .otherwise = {[HF_QWEN2MOE] = 5632, [HF_GRANITEMOE] = MAY}},
    {.suffix = "expert_shared_count",
     .names = "n_shared_experts|moe_num_shared_experts",
     .kind = 'u',
     .otherwise = {[HF_ERNIE_MOE] = 2, [HF_GLM4MOE] = 1}},
    {.suffix = "expert_group_count", .names = "n_group", .kind = 'u', .otherwise = {[HF_GLM4MOE] = 1}},
    {.suffix = "expert_group_used_count", .names = "topk_group", .kind = 'u', .otherwise = {[HF_GLM4MOE] = 1}},
    {.suffix = "expert_weights_scale", .names = "routed_scaling_factor", .kind = 'f', .otherwise = {[HF_GLM4MOE] = 1}},
    {.suffix = "leading_dense_block_count",
     .names = "first_k_dense_replace|moe_layer_start_index",
     .kind = 'u',
     .otherwise = {[HF_ERNIE_MOE] = 1, [HF_GLM4MOE] = 1}},
    {.suffix = "interleave_moe_layer_step", .names = "moe_layer_interval", .kind = 'u', .otherwise = {[HF_ERNIE_MOE] = 1}},
};

const hf_key *zt_hf_keys(size_t *count)
{
    *count = sizeof keys / sizeof *keys;
    return keys;
}

double zt_hf_otherwise(const hf_key *key, hf_id id)
{
    return key->size ? ((const double *)&sizes[id])[key->size - 1] : key->otherwise[id];
}
