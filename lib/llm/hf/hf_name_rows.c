/* hf_name_rows.c - the tables of names: which GGUF tensor each one of a Hugging Face model is, and what is done to its values.
 *
 * Names are facts from llama.cpp (gguf-py/gguf/tensor_mapping.py, conversion/).
 */
#include "lib/llm/hf/hf.h"

#define PAIR_Q    HF_PAIR_Q
#define PAIR_K    HF_PAIR_K
#define TRANSPOSE HF_TRANSPOSE
#define NORM      HF_NORM

#define LLAMAS  HF_LLAMA_LIKE
#define GPT_OSS HF_SET(HF_GPT_OSS)
/* In name: of glm4moe, seed_oss and gpt-oss it is the feed-forward's. */
#define POST_NORMED                                                                                                              \
    (HF_GEMMAS | HF_LAYERED | HF_SET(HF_OLMO2) | HF_SET(HF_GLM4MOE) | HF_SET(HF_EXAONE4) | HF_SET(HF_SEED_OSS) |                 \
     HF_SET(HF_OLMO3) | GPT_OSS | HF_DELTAS)
#define GPT2       HF_SET(HF_GPT2)
#define BERT       HF_SET(HF_BERT)
#define NOMIC      HF_SET(HF_NOMIC)
#define GRANITEMOE (HF_SET(HF_GRANITEMOE) | HF_SET(HF_GRANITE_HYBRID))
#define PLAIN_FF   HF_SET(HF_GRANITE_HYBRID_DENSE) /* under the names of a shared expert */
#define ERNIE      HF_SET(HF_ERNIE_MOE)
#define GLM4MOE    HF_SET(HF_GLM4MOE)
#define NEOX       HF_SET(HF_NEOX)
#define PHI2       HF_SET(HF_PHI2)
#define GLM4       HF_SET(HF_GLM4)
#define MODERN     HF_SET(HF_MODERNBERT)
#define EXAONE     HF_SET(HF_EXAONE)
#define DELTAS     HF_DELTAS
#define NEXT       HF_SET(HF_QWEN3NEXT)
#define QWEN35S    HF_QWEN35S
#define LFM2S      HF_LFM2S
#define LFM2MOE    HF_SET(HF_LFM2MOE)
#define MAMBAS     HF_MAMBAS
#define HYBRIDS    HF_HYBRIDS
#define FALCON_H1  HF_SET(HF_FALCON_H1)
#define NEMOTRON   HF_NEMOTRONS
#define NEMOTRON_E HF_SET(HF_NEMOTRON_H_MOE)
#define BAMBA      HF_SET(HF_BAMBA)
#define MIXERS     (MAMBAS | NEMOTRON)           /* whose state-space layers are "mixer", */
#define INNER      (HYBRIDS | FALCON_H1 | BAMBA) /* or "mamba" */
#define BACKBONES  (MAMBAS | NEMOTRON)
#define RWKV7      HF_SET(HF_RWKV7)
#define DEEPSEEKS  HF_DEEPSEEKS
#define BAICHUAN   HF_SET(HF_BAICHUAN)
#define LLAMA4     HF_SET(HF_LLAMA4)
#define MISTRAL4   HF_SET(HF_MISTRAL4)
#define NOAUX      (HF_SET(HF_DEEPSEEK3) | HF_SET(HF_DEEPSEEK32) | HF_SET(HF_GLM4_LITE)) /* a bias on the choice of experts */
#define GEMMA3N    HF_SET(HF_GEMMA3N)
#define GEMMA4     HF_SET(HF_GEMMA4)
#define MPT        HF_SET(HF_MPT)
#define JINA       HF_SET(HF_JINA)
#define T5         HF_T5S
#define W_EXPERTS  (HF_SET(HF_MIXTRAL) | HF_SET(HF_PHIMOE)) /* w1, w2 and w3 */
#define MLP_EXPERTS                                                                                                              \
    (HF_MOES &                                                                                                                   \
     ~(W_EXPERTS | GRANITEMOE | GPT_OSS | HF_SET(HF_QWEN35MOE) | MISTRAL4 | LLAMA4 | NEMOTRON_E)) /* gate, up and down */

static const hf_name layered[] = {
    {"ln_1", "attn_norm", GPT2 | EXAONE, 0},
    {"attn.c_attn", "attn_qkv", GPT2, TRANSPOSE},
    {"attn.c_proj", "attn_output", GPT2, TRANSPOSE},
    {"ln_2", "ffn_norm", GPT2 | EXAONE, 0},
    {"mlp.c_fc", "ffn_up", GPT2, TRANSPOSE},
    {"mlp.c_proj", "ffn_down", GPT2, TRANSPOSE},
    {"attention.self.query", "attn_q", BERT | JINA, 0},
    {"attention.self.key", "attn_k", BERT | JINA, 0},
    {"attention.self.value", "attn_v", BERT | JINA, 0},
    {"attention.output.dense", "attn_output", BERT | JINA, 0},
    {"attention.output.LayerNorm", "attn_output_norm", BERT | JINA, 0},
    {"mlp.gated_layers", "ffn_up", JINA, 0},
    {"mlp.wo", "ffn_down", JINA, 0},
    {"mlp.layernorm", "layer_output_norm", JINA, 0},
    {"layer.0.SelfAttention.q", "attn_q", T5, 0},
    {"layer.0.SelfAttention.k", "attn_k", T5, 0},
    {"layer.0.SelfAttention.v", "attn_v", T5, 0},
    {"layer.0.SelfAttention.o", "attn_o", T5, 0},
    {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b", T5, 0},
    {"layer.0.layer_norm", "attn_norm", T5, 0},
    {"layer.1.DenseReluDense.wi", "ffn_up", HF_SET(HF_T5), 0},
    {"layer.1.DenseReluDense.wi_1", "ffn_up", HF_SET(HF_T5_GATED), 0},
    {"layer.1.DenseReluDense.wi_0", "ffn_gate", HF_SET(HF_T5_GATED), 0},
    {"layer.1.DenseReluDense.wo", "ffn_down", T5, 0},
    {"layer.1.layer_norm", "ffn_norm", T5, 0},
    {"norm_1", "attn_norm", MPT, 0},
    {"attn.Wqkv", "attn_qkv", MPT, 0},
    {"attn.out_proj", "attn_output", MPT, 0},
    {"norm_2", "ffn_norm", MPT, 0},
    {"ffn.up_proj", "ffn_up", MPT, 0},
    {"ffn.down_proj", "ffn_down", MPT, 0},
    {"intermediate.dense", "ffn_up", BERT, 0},
    {"output.dense", "ffn_down", BERT, 0},
    {"output.LayerNorm", "layer_output_norm", BERT, 0},
    {"attn.Wqkv", "attn_qkv", NOMIC, 0},
    {"attn.out_proj", "attn_output", NOMIC, 0},
    {"norm1", "attn_output_norm", NOMIC, 0},
    {"post_attention_layernorm", "attn_output_norm", NOMIC, 0},
    {"mlp.fc11", "ffn_up", NOMIC, 0},
    {"mlp.fc12", "ffn_gate", NOMIC, 0},
    {"mlp.fc2", "ffn_down", NOMIC, 0},
    {"norm2", "layer_output_norm", NOMIC, 0},
    {"post_mlp_layernorm", "layer_output_norm", NOMIC, 0},
    {"attention.query_key_value", "attn_qkv", NEOX, HF_GROUPED},
    {"attention.dense", "attn_output", NEOX, 0},
    {"self_attention.query_key_value", "attn_qkv", HF_FALCONS, HF_GROUPED},
    {"self_attention.dense", "attn_output", HF_FALCONS, 0},
    {"mlp.dense_h_to_4h", "ffn_up", NEOX | HF_FALCONS, 0},
    {"mlp.dense_4h_to_h", "ffn_down", NEOX | HF_FALCONS, 0},
    {"ln_attn", "attn_norm_2", HF_SET(HF_FALCON_TWO), 0},
    {"ln_mlp", "attn_norm", HF_SET(HF_FALCON_TWO), 0},
    {"attn.Wqkv", "attn_qkv", MODERN, 0},
    {"attn.attention.q_proj", "attn_q", EXAONE, 0},
    {"attn.attention.k_proj", "attn_k", EXAONE, 0},
    {"attn.attention.v_proj", "attn_v", EXAONE, 0},
    {"attn.attention.out_proj", "attn_output", EXAONE, 0},
    {"mlp.c_fc_0", "ffn_gate", EXAONE, 0},
    {"mlp.c_fc_1", "ffn_up", EXAONE, 0},
    {"mlp.c_proj", "ffn_down", EXAONE, 0},
    {"attn.Wo", "attn_output", MODERN, 0},
    {"attn_norm", "attn_norm", MODERN, 0},
    {"mlp_norm", "ffn_norm", MODERN, 0},
    {"mlp.Wi", "ffn_up", MODERN, 0},
    {"mlp.Wo", "ffn_down", MODERN, 0},
    {"operator_norm", "attn_norm", LFM2S, 0},
    {"ffn_norm", "ffn_norm", LFM2S, 0},
    {"self_attn.q_layernorm", "attn_q_norm", LFM2S, 0},
    {"self_attn.k_layernorm", "attn_k_norm", LFM2S, 0},
    {"self_attn.out_proj", "attn_output", LFM2S, 0},
    {"conv.conv", "shortconv.conv", LFM2S, HF_MIXER},
    {"conv.in_proj", "shortconv.in_proj", LFM2S, 0},
    {"conv.out_proj", "shortconv.out_proj", LFM2S, 0},
    {"feed_forward.w1", "ffn_gate", LFM2S, 0},
    {"feed_forward.w3", "ffn_up", LFM2S, 0},
    {"feed_forward.w2", "ffn_down", LFM2S, 0},
    {"feed_forward.gate", "ffn_gate_inp", LFM2MOE, 0},
    {"feed_forward.expert", "exp_probs_b", LFM2MOE, HF_UNDERSCORE},
    {"feed_forward.experts.*.w1", "ffn_gate_exps", LFM2MOE, HF_STACKED},
    {"feed_forward.experts.*.w3", "ffn_up_exps", LFM2MOE, HF_STACKED},
    {"feed_forward.experts.*.w2", "ffn_down_exps", LFM2MOE, HF_STACKED},
    {"pre_norm", "token_embd_norm", RWKV7, HF_RWKV},
    {"attn_norm", "attn_norm", RWKV7, 0},
    {"ffn_norm", "attn_norm_2", RWKV7, 0},
    {"attn.x_r", "time_mix_lerp_fused", RWKV7, HF_RWKV | HF_BARE},
    {"attn.x_w", "time_mix_lerp_w", RWKV7, HF_RWKV | HF_BARE}, /* read with the first */
    {"attn.x_k", "time_mix_lerp_k", RWKV7, HF_RWKV | HF_BARE},
    {"attn.x_v", "time_mix_lerp_v", RWKV7, HF_RWKV | HF_BARE},
    {"attn.x_a", "time_mix_lerp_a", RWKV7, HF_RWKV | HF_BARE},
    {"attn.x_g", "time_mix_lerp_g", RWKV7, HF_RWKV | HF_BARE},
    {"attn.k_k", "time_mix_k_k", RWKV7, HF_RWKV | HF_BARE},
    {"attn.k_a", "time_mix_k_a", RWKV7, HF_RWKV | HF_BARE},
    {"attn.r_k", "time_mix_r_k", RWKV7, HF_RWKV | HF_BARE},
    {"attn.w_lora.lora.0", "time_mix_w1", RWKV7, 0},
    {"attn.w_lora.lora.2", "time_mix_w2", RWKV7, HF_LOW_RANK},
    {"attn.a_lora.lora.0", "time_mix_a1", RWKV7, HF_RWKV},
    {"attn.a_lora.lora.2", "time_mix_a2", RWKV7, HF_RWKV | HF_LOW_RANK},
    {"attn.v_lora.lora.0", "time_mix_v1", RWKV7, HF_RWKV},
    {"attn.v_lora.lora.2", "time_mix_v2", RWKV7, HF_RWKV | HF_LOW_RANK},
    {"attn.g_lora.lora.0", "time_mix_g1", RWKV7, 0},
    {"attn.g_lora.lora.2", "time_mix_g2", RWKV7, 0},
    {"attn.r_proj", "time_mix_receptance", RWKV7, 0},
    {"attn.k_proj", "time_mix_key", RWKV7, 0},
    {"attn.v_proj", "time_mix_value", RWKV7, 0},
    {"attn.o_proj", "time_mix_output", RWKV7, 0},
    {"attn.g_norm", "time_mix_ln", RWKV7, 0},
    {"ffn.x_k", "channel_mix_lerp_k", RWKV7, HF_RWKV | HF_BARE},
    {"ffn.key", "channel_mix_key", RWKV7, 0},
    {"ffn.value", "channel_mix_value", RWKV7, 0},
    {"norm", "attn_norm", MIXERS, 0},
    {"mixer.in_proj", "ssm_in", MIXERS, 0},
    {"mixer.conv1d", "ssm_conv1d", MIXERS, HF_MIXER},
    {"mixer.x_proj", "ssm_x", HF_SET(HF_MAMBA), 0},
    {"mixer.dt_proj", "ssm_dt", HF_SET(HF_MAMBA), 0},
    {"mixer.dt", "ssm_dt", MIXERS, HF_UNDERSCORE},
    {"mixer.A_log", "ssm_a", MIXERS, HF_MIXER | HF_BARE},
    {"mixer.D", "ssm_d", MIXERS, HF_MIXER | HF_BARE},
    {"mixer.norm", "ssm_norm", MIXERS, HF_MIXER},
    {"mixer.out_proj", "ssm_out", MIXERS, 0},
    {"mixer.q_proj", "attn_q", NEMOTRON, PAIR_Q},
    {"mixer.k_proj", "attn_k", NEMOTRON, PAIR_K},
    {"mixer.v_proj", "attn_v", NEMOTRON, 0},
    {"mixer.o_proj", "attn_output", NEMOTRON, 0},
    {"mixer.up_proj", "ffn_up", NEMOTRON, 0},
    {"mixer.down_proj", "ffn_down", NEMOTRON, 0},
    {"mixer.gate", "ffn_gate_inp", NEMOTRON_E, 0},
    {"mixer.gate.e_score_correction", "exp_probs_b", NEMOTRON_E, HF_UNDERSCORE},
    {"mixer.experts.*.up_proj", "ffn_up_exps", NEMOTRON_E, HF_STACKED},
    {"mixer.experts.*.down_proj", "ffn_down_exps", NEMOTRON_E, HF_STACKED},
    {"mixer.experts.up_proj", "ffn_up_exps", NEMOTRON_E, HF_BARE},
    {"mixer.experts.down_proj", "ffn_down_exps", NEMOTRON_E, HF_BARE},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp", NEMOTRON_E, 0},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp", NEMOTRON_E, 0},
    {"mixer.fc1_latent_proj", "ffn_latent_down", NEMOTRON_E, 0},
    {"mixer.fc2_latent_proj", "ffn_latent_up", NEMOTRON_E, 0},
    {"mamba.in_proj", "ssm_in", HYBRIDS | BAMBA, 0},
    {"mamba.in_proj", "ssm_in", FALCON_H1, HF_MIXER},
    {"mamba.conv1d", "ssm_conv1d", INNER, HF_MIXER},
    {"mamba.dt", "ssm_dt", INNER, HF_UNDERSCORE},
    {"mamba.A_log", "ssm_a", INNER, HF_MIXER | HF_BARE},
    {"mamba.D", "ssm_d", INNER, HF_MIXER | HF_BARE},
    {"mamba.norm", "ssm_norm", INNER, HF_MIXER},
    {"mamba.out_proj", "ssm_out", HYBRIDS | BAMBA, 0},
    {"mamba.out_proj", "ssm_out", FALCON_H1, HF_MIXER},
    {"self_attn.q_proj", "attn_q", FALCON_H1, HF_MIXER},
    {"self_attn.k_proj", "attn_k", FALCON_H1, HF_MIXER},
    {"self_attn.v_proj", "attn_v", FALCON_H1, HF_MIXER},
    {"self_attn.o_proj", "attn_output", FALCON_H1, HF_MIXER},
    {"pre_ff_layernorm", "ffn_norm", FALCON_H1, HF_MIXER},
    {"pre_ff_layernorm", "ffn_norm", BAMBA, 0},
    {"feed_forward.gate_proj", "ffn_gate", FALCON_H1, HF_MIXER},
    {"feed_forward.up_proj", "ffn_up", FALCON_H1, 0},
    {"feed_forward.down_proj", "ffn_down", FALCON_H1, HF_MIXER},
    {"input_layernorm", "attn_norm", NEOX | HF_SET(HF_FALCON), 0},
    {"post_attention_layernorm", "ffn_norm", NEOX, 0},
    {"self_attn.dense", "attn_output", PHI2, 0},
    {"mlp.fc1", "ffn_up", PHI2, 0},
    {"mlp.fc2", "ffn_down", PHI2, 0},
    {"mlp.c_fc", "ffn_up", HF_SET(HF_STARCODER2), 0},
    {"mlp.c_proj", "ffn_down", HF_SET(HF_STARCODER2), 0},
    {"post_self_attn_layernorm", "post_attention_norm", GLM4, 0},
    {"post_mlp_layernorm", "post_ffw_norm", GLM4, 0},
    {"attention_layernorm", "attn_norm", HF_SET(HF_APERTUS), 0},
    {"feedforward_layernorm", "ffn_norm", HF_SET(HF_APERTUS), 0},
    {"self_attn.W_pack", "attn_q", BAICHUAN, HF_THIRDS},
    {"self_attn.W_pack", "attn_k", BAICHUAN, HF_SECOND_HALF}, /* written with the first */
    {"self_attn.W_pack", "attn_v", BAICHUAN, HF_SECOND_HALF},
    {"input_layernorm", "attn_norm", LLAMAS, NORM},
    {"self_attn.q_proj", "attn_q", LLAMAS | BERT | NOMIC, PAIR_Q},
    {"self_attn.k_proj", "attn_k", LLAMAS | BERT | NOMIC, PAIR_K},
    {"self_attn.v_proj", "attn_v", LLAMAS | BERT | NOMIC, 0},
    {"self_attn.qkv_proj", "attn_qkv", LLAMAS & ~DELTAS, 0},
    {"self_attn.o_proj", "attn_output", LLAMAS | BERT | NOMIC, 0},
    {"self_attn.q_a_proj", "attn_q_a", HF_LATENTS, 0},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", HF_LATENTS, 0},
    {"self_attn.q_b_proj", "attn_q_b", HF_LATENTS, 0},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", HF_LATENTS, 0},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", HF_LATENTS, 0},
    {"self_attn.kv_b_proj", "attn_k_b", HF_SPLIT_B, HF_HEADS | HF_FIRST_HALF},
    {"self_attn.kv_b_proj", "attn_v_b", HF_SPLIT_B, HF_HEADS | HF_SECOND_HALF},
    {"self_attn.kv_b_proj", "attn_kv_b", HF_LATENTS, 0},
    {"self_attn.indexer.wq_b", "indexer.attn_q_b", HF_SET(HF_DEEPSEEK32), 0},
    {"self_attn.indexer.wk", "indexer.attn_k", HF_SET(HF_DEEPSEEK32), 0},
    {"self_attn.indexer.k_norm", "indexer.k_norm", HF_SET(HF_DEEPSEEK32), 0},
    {"self_attn.indexer.weights_proj", "indexer.proj", HF_SET(HF_DEEPSEEK32), 0},
    {"self_attn.query_layernorm", "attn_q_norm", HF_SET(HF_HUNYUAN), 0},
    {"self_attn.key_layernorm", "attn_k_norm", HF_SET(HF_HUNYUAN), 0},
    {"self_attn.q_norm", "attn_q_norm", LLAMAS, NORM},
    {"self_attn.k_norm", "attn_k_norm", LLAMAS, NORM},
    {"post_attention_layernorm", "ffn_norm", LLAMAS & ~POST_NORMED, NORM},
    {"post_attention_layernorm", "post_attention_norm", POST_NORMED, NORM},
    {"pre_feedforward_layernorm", "ffn_norm", HF_GEMMAS | HF_LAYERED, NORM},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1", GEMMA4, 0},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2", GEMMA4, 0},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2", GEMMA4, 0},
    {"router.proj", "ffn_gate_inp", GEMMA4, 0},
    {"router.scale", "ffn_gate_inp", GEMMA4, HF_BARE | HF_SCALE},
    {"router.per_expert_scale", "ffn_down_exps", GEMMA4, HF_BARE | HF_SCALE},
    {"experts.gate_up_proj", "ffn_gate_up_exps", GEMMA4, HF_BARE},
    {"experts.gate_up_proj", "ffn_gate_exps", GEMMA4, HF_BARE | HF_FIRST_HALF}, /* of files that have them apart */
    {"experts.gate_up_proj", "ffn_up_exps", GEMMA4, HF_BARE | HF_SECOND_HALF},
    {"experts.down_proj", "ffn_down_exps", GEMMA4, HF_BARE},
    {"layer_scalar", "layer_output_scale", GEMMA4, HF_BARE},
    {"per_layer_input_gate", "inp_gate", HF_LAYERED, 0},
    {"per_layer_projection", "proj", HF_LAYERED, 0},
    {"post_per_layer_input_norm", "post_norm", HF_LAYERED, 0},
    {"altup.modality_router", "altup_router", GEMMA3N, 0},
    {"altup.router_norm", "altup_router_norm", GEMMA3N, 0},
    {"altup.prediction_coefs", "altup_predict_coef", GEMMA3N, 0},
    {"altup.correction_coefs", "altup_correct_coef", GEMMA3N, 0},
    {"altup.correct_output_scale", "altup_correct_scale", GEMMA3N, HF_BARE},
    {"laurel.linear_left", "laurel_l", GEMMA3N, 0},
    {"laurel.linear_right", "laurel_r", GEMMA3N, 0},
    {"laurel.post_laurel_norm", "laurel_post_norm", GEMMA3N, 0},
    {"post_feedforward_layernorm", "post_ffw_norm", POST_NORMED, NORM},
    {"mlp.gate", "ffn_gate_inp", MLP_EXPERTS | MISTRAL4 | HF_SET(HF_QWEN35MOE), 0},
    {"mlp.gate.e_score_correction", "exp_probs_b", GLM4MOE | NOAUX, HF_UNDERSCORE},
    {"mlp.moe_statics.e_score_correction", "exp_probs_b", ERNIE, HF_FLAT | HF_UNDERSCORE},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", MLP_EXPERTS, HF_STACKED},
    {"mlp.experts.*.up_proj", "ffn_up_exps", MLP_EXPERTS, HF_STACKED},
    {"mlp.experts.*.down_proj", "ffn_down_exps", MLP_EXPERTS, HF_STACKED},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", HF_SET(HF_QWEN2MOE) | DELTAS, HF_FLAT},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", HF_SET(HF_QWEN2MOE) | DELTAS, 0},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", HF_SET(HF_QWEN2MOE) | DELTAS, 0},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", HF_SET(HF_QWEN2MOE) | DELTAS, 0},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", ERNIE | GLM4MOE | DEEPSEEKS, 0},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp", ERNIE | GLM4MOE | DEEPSEEKS, 0},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", ERNIE | GLM4MOE | DEEPSEEKS, 0},
    {"block_sparse_moe.gate", "ffn_gate_inp", W_EXPERTS, 0},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps", W_EXPERTS, HF_STACKED},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps", W_EXPERTS, HF_STACKED},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps", W_EXPERTS, HF_STACKED},
    {"block_sparse_moe.router.layer", "ffn_gate_inp", GRANITEMOE, 0},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", GRANITEMOE, HF_FIRST_HALF},
    {"block_sparse_moe.input_linear", "ffn_up_exps", GRANITEMOE, HF_SECOND_HALF},
    {"block_sparse_moe.output_linear", "ffn_down_exps", GRANITEMOE, 0},
    {"shared_mlp.input_linear", "ffn_gate_shexp", GRANITEMOE, HF_FIRST_HALF},
    {"shared_mlp.input_linear", "ffn_up_shexp", GRANITEMOE, HF_SECOND_HALF},
    {"shared_mlp.output_linear", "ffn_down_shexp", GRANITEMOE, 0},
    {"shared_mlp.input_linear", "ffn_gate", PLAIN_FF, HF_FIRST_HALF},
    {"shared_mlp.input_linear", "ffn_up", PLAIN_FF, HF_SECOND_HALF},
    {"shared_mlp.output_linear", "ffn_down", PLAIN_FF, 0},
    {"self_attn.sinks", "attn_sinks", GPT_OSS, HF_BARE},
    {"mlp.router", "ffn_gate_inp", GPT_OSS, 0},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps", GPT_OSS, HF_BARE | HF_TURNED | HF_IN_TURNS | HF_FIRST_HALF},
    {"mlp.experts.gate_up_proj", "ffn_up_exps", GPT_OSS, HF_BARE | HF_TURNED | HF_IN_TURNS | HF_SECOND_HALF},
    {"mlp.experts.down_proj", "ffn_down_exps", GPT_OSS, HF_BARE | HF_TURNED},
    {"feed_forward.router", "ffn_gate_inp", LLAMA4, 0},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps", LLAMA4, HF_BARE | HF_TURNED | HF_FIRST_HALF},
    {"feed_forward.experts.gate_up_proj", "ffn_up_exps", LLAMA4, HF_BARE | HF_TURNED | HF_SECOND_HALF},
    {"feed_forward.experts.down_proj", "ffn_down_exps", LLAMA4, HF_BARE | HF_TURNED},
    {"feed_forward.experts.*.gate_proj", "ffn_gate_exps", LLAMA4, HF_STACKED}, /* of quantized models */
    {"feed_forward.experts.*.up_proj", "ffn_up_exps", LLAMA4, HF_STACKED},
    {"feed_forward.experts.*.down_proj", "ffn_down_exps", LLAMA4, HF_STACKED},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", LLAMA4, 0},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp", LLAMA4, 0},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp", LLAMA4, 0},
    {"feed_forward.gate_proj", "ffn_gate", LLAMA4 | BAMBA, 0},
    {"feed_forward.up_proj", "ffn_up", LLAMA4 | BAMBA, 0},
    {"feed_forward.down_proj", "ffn_down", LLAMA4 | BAMBA, 0},
    {"linear_attn.in_proj_qkvz", "attn_qkv", NEXT, HF_DELTA},
    {"linear_attn.in_proj_ba", "ssm_ba", NEXT, 0},
    {"linear_attn.in_proj_qkv", "attn_qkv", QWEN35S, HF_DELTA},
    {"linear_attn.in_proj_z", "attn_gate", QWEN35S, HF_DELTA},
    {"linear_attn.in_proj_b", "ssm_beta", QWEN35S, HF_DELTA},
    {"linear_attn.in_proj_a", "ssm_alpha", QWEN35S, HF_DELTA},
    {"linear_attn.A_log", "ssm_a", DELTAS, HF_DELTA | HF_BARE},
    {"linear_attn.dt", "ssm_dt", DELTAS, HF_DELTA | HF_UNDERSCORE},
    {"linear_attn.conv1d", "ssm_conv1d", DELTAS, HF_DELTA},
    {"linear_attn.norm", "ssm_norm", DELTAS, 0},
    {"linear_attn.out_proj", "ssm_out", DELTAS, HF_DELTA},
    {"eh_proj", "nextn.eh_proj", DELTAS, 0},
    {"enorm", "nextn.enorm", DELTAS, NORM},
    {"hnorm", "nextn.hnorm", DELTAS, NORM},
    {"shared_head.norm", "nextn.shared_head_norm", DELTAS, NORM},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps", HF_SET(HF_QWEN35MOE), HF_BARE | HF_FIRST_HALF},
    {"mlp.experts.gate_up_proj", "ffn_up_exps", HF_SET(HF_QWEN35MOE), HF_BARE | HF_SECOND_HALF},
    {"mlp.experts.down_proj", "ffn_down_exps", HF_SET(HF_QWEN35MOE), HF_BARE},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", HF_SET(HF_QWEN35MOE), HF_STACKED},
    {"mlp.experts.*.up_proj", "ffn_up_exps", HF_SET(HF_QWEN35MOE), HF_STACKED},
    {"mlp.experts.*.down_proj", "ffn_down_exps", HF_SET(HF_QWEN35MOE), HF_STACKED},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps", MISTRAL4, HF_BARE},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps", MISTRAL4, HF_BARE | HF_FIRST_HALF}, /* written alone */
    {"mlp.experts.gate_up_proj", "ffn_up_exps", MISTRAL4, HF_BARE | HF_SECOND_HALF},
    {"mlp.experts.down_proj", "ffn_down_exps", MISTRAL4, HF_BARE},
    {"mlp.gate_up_proj", "ffn_up", HF_SET(HF_PHI3) | GLM4, 0},
    {"mlp.gate_proj", "ffn_gate", LLAMAS | NOMIC, 0},
    {"mlp.up_proj", "ffn_up", LLAMAS | NOMIC, 0},
    {"mlp.down_proj", "ffn_down", LLAMAS | NOMIC, 0},
};

static const hf_name once[] = {
    {"shared", "token_embd", T5, 0},
    {"encoder.embed_tokens", "token_embd", T5, 0},
    {"final_layer_norm", "enc.output_norm", T5, 0},
    {"embedding_norm", "token_embd_norm", LFM2S, 0},
    {"embed_tokens", "token_embd", FALCON_H1, HF_MIXER},
    {"lm_head", "output", FALCON_H1, HF_MIXER},
    {"final_layernorm", "output_norm", FALCON_H1 | BAMBA, 0},
    {"embeddings", "token_embd", BACKBONES | RWKV7, 0},
    {"norm", "output_norm", RWKV7, 0},
    {"norm_f", "output_norm", BACKBONES | MPT, 0},
    {"embed_tokens", "token_embd", LLAMAS, HF_PADDED},
    {"embed_tokens_per_layer", "per_layer_token_embd", HF_LAYERED, HF_PADDED},
    {"per_layer_model_projection", "per_layer_model_proj", HF_LAYERED, 0},
    {"per_layer_projection_norm", "per_layer_proj_norm", HF_LAYERED, 0},
    {"altup_projections.*", "altup_proj", GEMMA3N, HF_STACKED},
    {"altup_unembed_projections.*", "altup_unembd_proj", GEMMA3N, HF_STACKED},
    {"final_layernorm", "output_norm", PHI2, 0},
    {"norm", "output_norm", LLAMAS, NORM},
    {"embed_out", "output", NEOX, 0},
    {"lm_head", "output", HF_ALL & ~(HF_ENCODERS | HF_SET(HF_GEMMA_EMBEDDING)), 0},
    {"embed_in", "token_embd", NEOX, 0},
    {"final_layer_norm", "output_norm", NEOX, 0},
    {"word_embeddings", "token_embd", HF_FALCONS, 0},
    {"ln_f", "output_norm", HF_FALCONS, 0},
    {"wte", "token_embd", GPT2 | EXAONE | MPT, 0},
    {"wpe", "position_embd", GPT2, 0},
    {"ln_f", "output_norm", GPT2 | EXAONE, 0},
    {"embeddings.tok_embeddings", "token_embd", MODERN, 0},
    {"embeddings.norm", "token_embd_norm", MODERN, 0},
    {"final_norm", "output_norm", MODERN, 0},
    {"embeddings.word_embeddings", "token_embd", HF_BERTS, 0},
    {"embeddings.position_embeddings", "position_embd", BERT, 0},
    {"embeddings.token_type_embeddings", "token_types", HF_BERTS, 0},
    {"emb_ln", "token_embd_norm", NOMIC, 0},
    {"embeddings.LayerNorm", "token_embd_norm", HF_BERTS, 0},
    {"score", "cls.output", HF_SET(HF_QWEN3), 0},
    {"pooler.dense", "cls", BERT, 0},
    {"head.dense", "cls", MODERN, 0},
    {"head.norm", "cls.norm", MODERN, 0},
    {"classifier", "cls.output", BERT | MODERN, 0},
};

const hf_name *zt_hf_layer_names(size_t *count)
{
    *count = sizeof layered / sizeof *layered;
    return layered;
}

const hf_name *zt_hf_other_names(size_t *count)
{
    *count = sizeof once / sizeof *once;
    return once;
}
