/* weights.c - which tensors a language model has: names, shapes, and whether they may be absent.
 *
 * Names are llama.cpp's (gguf-py/gguf/constants.py), as facts. A shape is written as fields of
 * zt_hyper, so that the same table names the tensors, checks a file and serves the builder.
 */
#include "lib/llm/arch/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIM(field) offsetof(zt_hyper, field)
/* A size of the tensor's own layer: an offset into the first one's sizes. */
#define OWN(field) offsetof(zt_hyper, layer[0].field)

/* Sparse: with experts, whose gate and up are two stacked matrices or one. Head: behind the last. */
typedef enum layer_kind { ANY_LAYER, DENSE_LAYER, SPARSE_LAYER, SPLIT_EXPERTS, FUSED_EXPERTS, HEAD_LAYER } layer_kind;

/* A weight belongs to a model that has all parts in `with`. Then it must be in the file if the model has any part in
 * `must`, and may be there if it has any part in `may`. */
typedef struct weight_row {
    const char *name; /* of a layer: what follows "blk.N." */
    bool layered;
    uint64_t with, must, may;
    int rank;
    size_t dim[4]; /* offsets into zt_hyper, row-major */
    layer_kind layers;
    unsigned kinds; /* of layers that have it: bits of zt_layer_kind; 0: all */
} weight_row;

#define PART(part) ZT_PART_##part
#define ONCE(n, with, must, may, r, ...)                                                                                         \
    {                                                                                                                            \
        n, false, with, must, may, r, { __VA_ARGS__ }                                                                            \
    }
#define EACH(n, with, must, may, r, ...)                                                                                         \
    {                                                                                                                            \
        n, true, with, must, may, r, { __VA_ARGS__ }                                                                             \
    }

/* A norm that a part brings, and its bias. */
#define NORM(n, part, d)   EACH(n, 0, PART(part), 0, 1, DIM(d))
#define NORM_BIAS(n, part) EACH(n, PART(part), PART(NORM_BIAS), 0, 1, DIM(width))
/* Of attention, in layers that have it: a matrix; a bias that a part brings or BIASES may. */
#define KIND(kind) (1u << ZT_LAYER_##kind)
#define ATTENTION(n, w, must_, may_, r, ...)                                                                                     \
    {                                                                                                                            \
        .name = n, .layered = true, .with = w, .must = must_, .may = may_, .rank = r, .dim = {__VA_ARGS__},                      \
        .kinds = KIND(ATTENTION) | KIND(BESIDE_MAMBA2)                                                                           \
    }
#define MATRIX(n, with, rows, cols) ATTENTION(n, with, PART(ALL), 0, 2, rows, cols)
#define BIAS(n, with, part, d)      ATTENTION(n, with, PART(part), PART(BIASES), 1, d)
/* Of layers that are gated delta nets. */
#define DELTA(n, part, r, ...)                                                                                                   \
    {                                                                                                                            \
        .name = n, .layered = true, .with = PART(part), .must = PART(ALL), .rank = r, .dim = {__VA_ARGS__},                      \
        .kinds = KIND(DELTA_NET)                                                                                                 \
    }
/* Of short convolutions and state-space layers. */
#define MIXER(which, n, part, may_part, r, ...)                                                                                  \
    {                                                                                                                            \
        .name = n, .layered = true, .must = part, .may = may_part, .rank = r, .dim = {__VA_ARGS__}, .kinds = which               \
    }
/* Of RWKV-7: a time mix, and of its parts; a channel mix. */
#define TIME(n, r, ...)            MIXER(KIND(TIME_MIX), n, PART(ALL), 0, r, __VA_ARGS__)
#define TIME_PART(n, part, r, ...) MIXER(KIND(TIME_MIX), n, PART(part), 0, r, __VA_ARGS__)
#define CHANNEL(n, r, ...)         MIXER(KIND(TIME_MIX), n, PART(CHANNEL_MIX), 0, r, __VA_ARGS__)
#define MAMBA2                     (KIND(MAMBA2) | KIND(BESIDE_MAMBA2))
#define SCANS                      (KIND(MAMBA) | MAMBA2)
/* Of the feed-forward: in layers without experts, and in layers with them. */
#define DENSE(n, w, must_, may_, r, ...)                                                                                         \
    {                                                                                                                            \
        .name = n, .layered = true, .with = w, .must = must_, .may = may_, .rank = r, .dim = {__VA_ARGS__},                      \
        .layers = DENSE_LAYER                                                                                                    \
    }
#define DENSE_MATRIX(n, with, rows, cols) DENSE(n, with, PART(ALL), 0, 2, rows, cols)
#define DENSE_BIAS(n, with, d)            DENSE(n, with, PART(MORE_BIAS), PART(BIASES), 1, d)
#define SPARSE_IN(kind, n, part, r, ...)                                                                                         \
    {                                                                                                                            \
        .name = n, .layered = true, .with = PART(EXPERTS), .must = PART(part), .rank = r, .dim = {__VA_ARGS__}, .layers = kind   \
    }
#define SPARSE_BIAS(n, r, ...)                                                                                                   \
    {                                                                                                                            \
        .name = n, .layered = true, .with = PART(EXPERTS) | PART(MORE_BIAS), .must = PART(MORE_BIAS), .rank = r,                 \
        .dim = {__VA_ARGS__}, .layers = SPARSE_LAYER                                                                             \
    }

/* Of the head. */
#define HEAD(n, must_, may_, r, ...)                                                                                             \
    {                                                                                                                            \
        .name = n, .layered = true, .must = must_, .may = may_, .rank = r, .dim = {__VA_ARGS__}, .layers = HEAD_LAYER            \
    }

/* Of a layer with experts beside its feed-forward. */
#define BESIDE(n, d)                                                                                                             \
    {                                                                                                                            \
        .name = n, .layered = true, .with = PART(EXPERTS) | PART(BESIDE), .must = PART(ALL), .rank = 1, .dim = {DIM(d)},         \
        .layers = SPARSE_LAYER                                                                                                   \
    }
#define SPARSE(n, part, r, ...) SPARSE_IN(SPARSE_LAYER, n, part, r, __VA_ARGS__)

static const weight_row rows[ZT_WEIGHT_COUNT] = {
    [ZT_W_EMBED] = ONCE("token_embd.weight", 0, PART(ALL), 0, 2, DIM(vocab), DIM(width)),
    [ZT_W_POSITIONS] = ONCE("position_embd.weight", 0, PART(POSITIONS), 0, 2, DIM(ctx_train), DIM(width)),
    [ZT_W_TYPES] = ONCE("token_types.weight", 0, PART(TYPES), PART(TYPES_MAY), 2, DIM(n_types), DIM(width)),
    [ZT_W_PER_LAYER_EMBED] = ONCE("per_layer_token_embd.weight", 0, PART(PER_LAYER), 0, 2, DIM(vocab), DIM(per_layer_width)),
    [ZT_W_PER_LAYER_PROJECTION] = ONCE("per_layer_model_proj.weight", 0, PART(PER_LAYER), 0, 2, DIM(per_layer_width), DIM(width)),
    [ZT_W_PER_LAYER_PROJECTION_NORM] = ONCE("per_layer_proj_norm.weight", 0, PART(PER_LAYER), 0, 1, DIM(per_layer)),
    [ZT_W_STREAMS] = ONCE("altup_proj.weight", 0, PART(ALTUP), 0, 3, DIM(other_streams), DIM(width), DIM(width)),
    [ZT_W_UNSTREAM] = ONCE("altup_unembd_proj.weight", 0, PART(ALTUP), 0, 3, DIM(other_streams), DIM(width), DIM(width)),
    [ZT_W_EMBED_NORM] = ONCE("token_embd_norm.weight", 0, PART(EMBED_NORM), 0, 1, DIM(width)),
    [ZT_W_EMBED_NORM_BIAS] = ONCE("token_embd_norm.bias", PART(EMBED_NORM), PART(NORM_BIAS), 0, 1, DIM(width)),
    [ZT_W_ROPE_TAB] = ONCE("rope_freqs.weight", 0, PART(DIVISORS), PART(ROPE_TAB), 1, DIM(rope_half)),
    [ZT_W_ROPE_LONG] = ONCE("rope_factors_long.weight", 0, 0, PART(ROPE_TAB), 1, DIM(rope_half)),
    [ZT_W_ROPE_SHORT] = ONCE("rope_factors_short.weight", 0, 0, PART(ROPE_TAB), 1, DIM(rope_half)),
    [ZT_W_ATTN_NORM] = NORM("attn_norm.weight", PRE_NORM, width),
    [ZT_W_ATTN_NORM_BIAS] = NORM_BIAS("attn_norm.bias", PRE_NORM),
    [ZT_W_ATTN_NORM_2] = NORM("attn_norm_2.weight", NORM_2, width),
    [ZT_W_ATTN_NORM_2_BIAS] = NORM_BIAS("attn_norm_2.bias", NORM_2),
    [ZT_W_Q] = MATRIX("attn_q.weight", PART(QKV), OWN(q_rows), DIM(width)),
    [ZT_W_Q_BIAS] = BIAS("attn_q.bias", PART(QKV), QKV_BIAS, OWN(q_rows)),
    [ZT_W_K] = MATRIX("attn_k.weight", PART(QKV), OWN(kv_width), DIM(width)),
    [ZT_W_K_BIAS] = BIAS("attn_k.bias", PART(QKV), QKV_BIAS, OWN(kv_width)),
    [ZT_W_V] = MATRIX("attn_v.weight", PART(QKV), OWN(kv_width), DIM(width)),
    [ZT_W_V_BIAS] = BIAS("attn_v.bias", PART(QKV), QKV_BIAS, OWN(kv_width)),
    [ZT_W_QKV] = MATRIX("attn_qkv.weight", PART(FUSED_QKV), OWN(qkv_width), DIM(width)),
    [ZT_W_QKV_BIAS] = BIAS("attn_qkv.bias", PART(FUSED_QKV), QKV_BIAS, OWN(qkv_width)),
    [ZT_W_Q_NORM] = ATTENTION("attn_q_norm.weight", 0, PART(QK_NORM), PART(QK_NORM_MAY), 1, OWN(q_norm)),
    [ZT_W_K_NORM] = ATTENTION("attn_k_norm.weight", 0, PART(QK_NORM), PART(QK_NORM_MAY), 1, OWN(k_norm)),
    [ZT_W_Q_NORMS] = ATTENTION("attn_q_norm.weight", 0, PART(HEAD_NORMS), 0, 2, OWN(n_heads), OWN(head)),
    [ZT_W_K_NORMS] = ATTENTION("attn_k_norm.weight", 0, PART(HEAD_NORMS), 0, 2, OWN(n_kv_heads), OWN(head)),
    [ZT_W_SINKS] = ATTENTION("attn_sinks.weight", 0, PART(SINKS), 0, 1, OWN(n_heads)),
    [ZT_W_Q_WHOLE] = EACH("attn_q.weight", 0, PART(Q_WHOLE), 0, 2, OWN(q_width), DIM(width)),
    [ZT_W_Q_A] = EACH("attn_q_a.weight", 0, PART(Q_RANK), 0, 2, DIM(latent.q_rank), DIM(width)),
    [ZT_W_Q_A_NORM] = EACH("attn_q_a_norm.weight", 0, PART(Q_RANK), 0, 1, DIM(latent.q_rank)),
    [ZT_W_Q_B] = EACH("attn_q_b.weight", 0, PART(Q_RANK), 0, 2, OWN(q_width), DIM(latent.q_rank)),
    [ZT_W_KV_A] = EACH("attn_kv_a_mqa.weight", 0, PART(LATENT), 0, 2, DIM(latent.row), DIM(width)),
    [ZT_W_KV_A_NORM] = EACH("attn_kv_a_norm.weight", 0, PART(LATENT), 0, 1, DIM(latent.rank)),
    [ZT_W_K_B] = EACH("attn_k_b.weight", 0, PART(SPLIT_B), 0, 3, DIM(n_heads), DIM(latent.rank), DIM(latent.plain)),
    [ZT_W_V_B] = EACH("attn_v_b.weight", 0, PART(SPLIT_B), 0, 3, DIM(n_heads), DIM(latent.value), DIM(latent.rank)),
    [ZT_W_KV_B] = EACH("attn_kv_b.weight", 0, PART(WHOLE_B), 0, 2, DIM(latent.key_values), DIM(latent.rank)),
    [ZT_W_INDEX_Q] = EACH("indexer.attn_q_b.weight", 0, PART(INDEXER), 0, 2, DIM(latent.index_width), DIM(latent.q_rank)),
    [ZT_W_INDEX_K] = EACH("indexer.attn_k.weight", 0, PART(INDEXER), 0, 2, DIM(latent.index_head), DIM(width)),
    [ZT_W_INDEX_K_NORM] = EACH("indexer.k_norm.weight", 0, PART(INDEXER), 0, 1, DIM(latent.index_head)),
    [ZT_W_INDEX_K_NORM_BIAS] = EACH("indexer.k_norm.bias", 0, PART(INDEXER), 0, 1, DIM(latent.index_head)),
    [ZT_W_INDEX_WEIGHTS] = EACH("indexer.proj.weight", 0, PART(INDEXER), 0, 2, DIM(latent.index_heads), DIM(width)),
    [ZT_W_RELATIVE] = EACH("attn_rel_b.weight", 0, PART(RELATIVE), 0, 2, DIM(buckets), DIM(n_heads)),
    [ZT_W_O] = MATRIX("attn_output.weight", 0, DIM(width), OWN(o_width)),
    [ZT_W_O_BIAS] = BIAS("attn_output.bias", 0, MORE_BIAS, DIM(width)),
    [ZT_W_ATTN_POST] = NORM("post_attention_norm.weight", POST_NORM, width),
    [ZT_W_ATTN_SUM] = NORM("attn_output_norm.weight", SUM_NORM, width),
    [ZT_W_ATTN_SUM_BIAS] = NORM_BIAS("attn_output_norm.bias", SUM_NORM),
    [ZT_W_FF_NORM] = NORM("ffn_norm.weight", FF_NORM, width),
    [ZT_W_FF_NORM_BIAS] = NORM_BIAS("ffn_norm.bias", FF_NORM),
    [ZT_W_FF_NORM_POST] = NORM("post_attention_norm.weight", FF_NORM_POST, width),
    [ZT_W_FF_NORM_BARE] = NORM("ffn_norm", FF_NORM_BARE, width),
    [ZT_W_DELTA_QKV] = DELTA("attn_qkv.weight", ALL, 2, DIM(delta.width), DIM(width)),
    [ZT_W_DELTA_GATE] = DELTA("attn_gate.weight", ALL, 2, DIM(delta.value_width), DIM(width)),
    [ZT_W_DELTA_CONV] = DELTA("ssm_conv1d.weight", ALL, 2, DIM(delta.width), DIM(delta.filter)),
    [ZT_W_DELTA_DT] = DELTA("ssm_dt.bias", ALL, 1, DIM(delta.heads)),
    [ZT_W_DELTA_A] = DELTA("ssm_a", ALL, 1, DIM(delta.heads)),
    [ZT_W_DELTA_BETA] = DELTA("ssm_beta.weight", BETA, 2, DIM(delta.heads), DIM(width)),
    [ZT_W_DELTA_ALPHA] = DELTA("ssm_alpha.weight", BETA, 2, DIM(delta.heads), DIM(width)),
    [ZT_W_DELTA_BETA_ALPHA] = DELTA("ssm_ba.weight", BETA_ALPHA, 2, DIM(delta.both), DIM(width)),
    [ZT_W_DELTA_NORM] = DELTA("ssm_norm.weight", ALL, 1, DIM(delta.value)),
    [ZT_W_DELTA_OUT] = DELTA("ssm_out.weight", ALL, 2, DIM(width), DIM(delta.value_width)),
    [ZT_W_FF_POST_DENSE] = BESIDE("post_ffw_norm_1.weight", width),
    [ZT_W_FF_NORM_EXPERTS] = BESIDE("pre_ffw_norm_2.weight", width),
    [ZT_W_FF_POST_EXPERTS] = BESIDE("post_ffw_norm_2.weight", width),
    [ZT_W_ROUTER_SCALE] = BESIDE("ffn_gate_inp.scale", width),
    [ZT_W_EXPERT_SCALE] = BESIDE("ffn_down_exps.scale", n_experts),
    [ZT_W_SHORT_IN] = MIXER(KIND(SHORT_CONV), "shortconv.in_proj.weight", PART(ALL), 0, 2, DIM(mamba.in_rows), DIM(width)),
    [ZT_W_SHORT_CONV] = MIXER(KIND(SHORT_CONV), "shortconv.conv.weight", PART(ALL), 0, 2, DIM(width), DIM(mamba.filter)),
    [ZT_W_SHORT_OUT] = MIXER(KIND(SHORT_CONV), "shortconv.out_proj.weight", PART(ALL), 0, 2, DIM(width), DIM(width)),
    [ZT_W_SCAN_IN] = MIXER(SCANS, "ssm_in.weight", PART(ALL), 0, 2, DIM(mamba.in_rows), DIM(width)),
    [ZT_W_SCAN_CONV] = MIXER(SCANS, "ssm_conv1d.weight", PART(ALL), 0, 2, DIM(mamba.mixed), DIM(mamba.filter)),
    [ZT_W_SCAN_CONV_BIAS] = MIXER(SCANS, "ssm_conv1d.bias", 0, PART(ALL), 1, DIM(mamba.mixed)),
    [ZT_W_SCAN_X] = MIXER(KIND(MAMBA), "ssm_x.weight", PART(ALL), 0, 2, DIM(mamba.x_rows), DIM(mamba.inner)),
    [ZT_W_SCAN_DT] = MIXER(KIND(MAMBA), "ssm_dt.weight", PART(ALL), 0, 2, DIM(mamba.inner), DIM(mamba.step_rank)),
    [ZT_W_SCAN_DT_BIAS] = MIXER(KIND(MAMBA), "ssm_dt.bias", PART(ALL), 0, 1, DIM(mamba.inner)),
    [ZT_W_SCAN_A] = MIXER(KIND(MAMBA), "ssm_a", PART(ALL), 0, 2, DIM(mamba.inner), DIM(mamba.numbers)),
    [ZT_W_SCAN_D] = MIXER(KIND(MAMBA), "ssm_d", PART(ALL), 0, 1, DIM(mamba.inner)),
    [ZT_W_SCAN_A_HEADS] = MIXER(MAMBA2, "ssm_a", PART(ALL), 0, 2, DIM(mamba.heads), DIM(one)),
    [ZT_W_SCAN_D_HEADS] = MIXER(MAMBA2, "ssm_d", PART(ALL), 0, 2, DIM(mamba.heads), DIM(one)),
    [ZT_W_SCAN_DT_HEADS] = MIXER(MAMBA2, "ssm_dt.bias", PART(ALL), 0, 1, DIM(mamba.heads)),
    [ZT_W_SCAN_NORM] =
        MIXER(MAMBA2, "ssm_norm.weight", PART(SCAN_NORM), PART(SCAN_NORM_MAY), 2, DIM(mamba.groups), DIM(mamba.per_group)),
    [ZT_W_SCAN_OUT] = MIXER(SCANS, "ssm_out.weight", PART(ALL), 0, 2, DIM(width), DIM(mamba.inner)),
    [ZT_W_TIME_LERP] = TIME("time_mix_lerp_fused.weight", 4, DIM(time_mix.lerps), DIM(one), DIM(one), DIM(width)),
    [ZT_W_TIME_W0] = TIME("time_mix_w0.weight", 1, DIM(width)),
    [ZT_W_TIME_W1] = TIME("time_mix_w1.weight", 2, DIM(time_mix.decay_rank), DIM(width)),
    [ZT_W_TIME_W2] = TIME("time_mix_w2.weight", 2, DIM(width), DIM(time_mix.decay_rank)),
    [ZT_W_TIME_A0] = TIME("time_mix_a0.weight", 1, DIM(width)),
    [ZT_W_TIME_A1] = TIME("time_mix_a1.weight", 2, DIM(time_mix.rate_rank), DIM(width)),
    [ZT_W_TIME_A2] = TIME("time_mix_a2.weight", 2, DIM(width), DIM(time_mix.rate_rank)),
    [ZT_W_TIME_V0] = TIME("time_mix_v0.weight", 1, DIM(width)),
    [ZT_W_TIME_V1] = TIME("time_mix_v1.weight", 2, OWN(share_rank), DIM(width)),
    [ZT_W_TIME_V2] = TIME("time_mix_v2.weight", 2, DIM(width), OWN(share_rank)),
    [ZT_W_TIME_G1] = TIME_PART("time_mix_g1.weight", TIME_GATE, 2, DIM(time_mix.gate_rank), DIM(width)),
    [ZT_W_TIME_G2] = TIME_PART("time_mix_g2.weight", TIME_GATE, 2, DIM(width), DIM(time_mix.gate_rank)),
    [ZT_W_TIME_K_K] = TIME("time_mix_k_k.weight", 1, DIM(width)),
    [ZT_W_TIME_K_A] = TIME("time_mix_k_a.weight", 1, DIM(width)),
    [ZT_W_TIME_R_K] = TIME("time_mix_r_k.weight", 1, DIM(width)),
    [ZT_W_TIME_KEY] = TIME("time_mix_key.weight", 2, DIM(width), DIM(width)),
    [ZT_W_TIME_VALUE] = TIME("time_mix_value.weight", 2, DIM(width), DIM(width)),
    [ZT_W_TIME_RECEPTANCE] = TIME("time_mix_receptance.weight", 2, DIM(width), DIM(width)),
    [ZT_W_TIME_NORM] = TIME_PART("time_mix_ln.weight", TIME_NORM, 1, DIM(width)),
    [ZT_W_TIME_NORM_BIAS] = TIME_PART("time_mix_ln.bias", TIME_NORM, 1, DIM(width)),
    [ZT_W_TIME_OUT] = TIME("time_mix_output.weight", 2, DIM(width), DIM(width)),
    [ZT_W_CHANNEL_NORM] = CHANNEL("attn_norm_2.weight", 1, DIM(width)),
    [ZT_W_CHANNEL_NORM_BIAS] = CHANNEL("attn_norm_2.bias", 1, DIM(width)),
    [ZT_W_CHANNEL_LERP] = CHANNEL("channel_mix_lerp_k.weight", 1, DIM(width)),
    [ZT_W_CHANNEL_KEY] = CHANNEL("channel_mix_key.weight", 2, DIM(time_mix.channels), DIM(width)),
    [ZT_W_CHANNEL_VALUE] = CHANNEL("channel_mix_value.weight", 2, DIM(width), DIM(time_mix.channels)),
    [ZT_W_ROUTER] = SPARSE("ffn_gate_inp.weight", EXPERTS, 2, DIM(n_experts), DIM(width)),
    [ZT_W_ROUTER_BIAS] = SPARSE_BIAS("ffn_gate_inp.bias", 1, DIM(n_experts)),
    [ZT_W_CHOICE_BIAS] = SPARSE("exp_probs_b.bias", CHOICE_BIAS, 1, DIM(n_experts)),
    [ZT_W_EXPERTS_DOWN] = SPARSE("ffn_latent_down.weight", NARROW_EXPERTS, 2, DIM(expert_width), DIM(width)),
    [ZT_W_EXPERTS_UP] = SPARSE("ffn_latent_up.weight", NARROW_EXPERTS, 2, DIM(width), DIM(expert_width)),
    [ZT_W_GATE_EXPERTS] =
        SPARSE_IN(SPLIT_EXPERTS, "ffn_gate_exps.weight", EXPERT_GATES, 3, DIM(n_experts), DIM(expert_ff), DIM(expert_width)),
    [ZT_W_UP_EXPERTS] =
        SPARSE_IN(SPLIT_EXPERTS, "ffn_up_exps.weight", EXPERTS, 3, DIM(n_experts), DIM(expert_ff), DIM(expert_width)),
    [ZT_W_GATE_UP_EXPERTS] =
        SPARSE_IN(FUSED_EXPERTS, "ffn_gate_up_exps.weight", EXPERTS, 3, DIM(n_experts), DIM(expert_up_width), DIM(expert_width)),
    [ZT_W_DOWN_EXPERTS] = SPARSE("ffn_down_exps.weight", EXPERTS, 3, DIM(n_experts), DIM(expert_width), DIM(expert_ff)),
    [ZT_W_GATE_EXPERTS_BIAS] = SPARSE_BIAS("ffn_gate_exps.bias", 2, DIM(n_experts), DIM(expert_ff)),
    [ZT_W_UP_EXPERTS_BIAS] = SPARSE_BIAS("ffn_up_exps.bias", 2, DIM(n_experts), DIM(expert_ff)),
    [ZT_W_DOWN_EXPERTS_BIAS] = SPARSE_BIAS("ffn_down_exps.bias", 2, DIM(n_experts), DIM(width)),
    [ZT_W_SHARED_ROUTER] = SPARSE("ffn_gate_inp_shexp.weight", SHARED_GATE, 1, DIM(width)),
    [ZT_W_GATE_SHARED] = {.name = "ffn_gate_shexp.weight",
                          .layered = true,
                          .with = PART(EXPERTS) | PART(EXPERT_GATES),
                          .must = PART(SHARED),
                          .rank = 2,
                          .dim = {DIM(shared_ff), DIM(width)},
                          .layers = SPARSE_LAYER},
    [ZT_W_UP_SHARED] = SPARSE("ffn_up_shexp.weight", SHARED, 2, DIM(shared_ff), DIM(width)),
    [ZT_W_DOWN_SHARED] = SPARSE("ffn_down_shexp.weight", SHARED, 2, DIM(width), DIM(shared_ff)),
    [ZT_W_GATE] = DENSE_MATRIX("ffn_gate.weight", PART(GATE), OWN(ff), DIM(width)),
    [ZT_W_GATE_BIAS] = DENSE_BIAS("ffn_gate.bias", PART(GATE), OWN(ff)),
    [ZT_W_UP] = DENSE_MATRIX("ffn_up.weight", PART(UP), OWN(ff), DIM(width)),
    [ZT_W_UP_BIAS] = DENSE_BIAS("ffn_up.bias", PART(UP), OWN(ff)),
    [ZT_W_GATE_UP] = DENSE_MATRIX("ffn_up.weight", PART(FUSED_UP), OWN(up_width), DIM(width)),
    [ZT_W_DOWN] = DENSE_MATRIX("ffn_down.weight", 0, DIM(width), OWN(ff)),
    [ZT_W_DOWN_BIAS] = DENSE_BIAS("ffn_down.bias", 0, DIM(width)),
    [ZT_W_FF_POST] = NORM("post_ffw_norm.weight", POST_NORM, width),
    [ZT_W_FF_SUM] = NORM("layer_output_norm.weight", SUM_NORM, width),
    [ZT_W_FF_SUM_BIAS] = NORM_BIAS("layer_output_norm.bias", SUM_NORM),
    [ZT_W_NEXT_EMBED] = HEAD("nextn.embed_tokens.weight", 0, PART(ALL), 2, DIM(vocab), DIM(width)),
    [ZT_W_NEXT_OUT] = HEAD("nextn.shared_head_head.weight", 0, PART(ALL), 2, DIM(vocab), DIM(width)),
    [ZT_W_NEXT_EMBED_NORM] = HEAD("nextn.enorm.weight", PART(ALL), 0, 1, DIM(width)),
    [ZT_W_NEXT_HIDDEN_NORM] = HEAD("nextn.hnorm.weight", PART(ALL), 0, 1, DIM(width)),
    [ZT_W_NEXT_IN] = HEAD("nextn.eh_proj.weight", PART(ALL), 0, 2, DIM(width), DIM(width_2)),
    [ZT_W_NEXT_OUT_NORM] = HEAD("nextn.shared_head_norm.weight", 0, PART(ALL), 1, DIM(width)),
    [ZT_W_PER_LAYER_GATE] = EACH("inp_gate.weight", 0, PART(PER_LAYER), 0, 2, DIM(per_layer), DIM(width)),
    [ZT_W_PER_LAYER_OUT] = EACH("proj.weight", 0, PART(PER_LAYER), 0, 2, DIM(width), DIM(per_layer)),
    [ZT_W_PER_LAYER_POST] = NORM("post_norm.weight", PER_LAYER, width),
    [ZT_W_LAYER_SCALE] = EACH("layer_output_scale.weight", 0, 0, PART(LAYER_SCALE), 1, DIM(one)),
    [ZT_W_STREAM_ROUTER] = EACH("altup_router.weight", 0, PART(ALTUP), 0, 2, DIM(streams), DIM(width)),
    [ZT_W_STREAM_ROUTER_NORM] = NORM("altup_router_norm.weight", ALTUP, width),
    [ZT_W_PREDICT] = EACH("altup_predict_coef.weight", 0, PART(ALTUP), 0, 2, DIM(stream_pairs), DIM(streams)),
    [ZT_W_CORRECT] = EACH("altup_correct_coef.weight", 0, PART(ALTUP), 0, 2, DIM(streams), DIM(streams)),
    [ZT_W_CORRECT_SCALE] = NORM("altup_correct_scale.weight", ALTUP, width),
    [ZT_W_LAUREL_LEFT] = EACH("laurel_l.weight", 0, PART(ALTUP), 0, 2, DIM(laurel_rank), DIM(width)),
    [ZT_W_LAUREL_RIGHT] = EACH("laurel_r.weight", 0, PART(ALTUP), 0, 2, DIM(width), DIM(laurel_rank)),
    [ZT_W_LAUREL_POST] = NORM("laurel_post_norm.weight", ALTUP, width),
    [ZT_W_OUT_NORM] = ONCE("output_norm.weight", 0, PART(LAST_NORM), 0, 1, DIM(width)),
    [ZT_W_OUT_NORM_BIAS] = ONCE("output_norm.bias", PART(LAST_NORM), PART(NORM_BIAS), 0, 1, DIM(width)),
    [ZT_W_OUT_NORM_EMBD] = ONCE("token_embd_norm.weight", 0, PART(LAST_NORM_EMBD), 0, 1, DIM(width)),
    /* absent: the embedding is the output too */
    [ZT_W_OUT] = ONCE("output.weight", 0, 0, PART(HEAD), 2, DIM(vocab), DIM(width)),
    [ZT_W_OUT_BIAS] = ONCE("output.bias", 0, 0, PART(HEAD_BIAS), 1, DIM(vocab)),
    [ZT_W_HEAD] = ONCE("cls.weight", 0, 0, PART(CLASSIFIER), 2, DIM(head_width), DIM(width)),
    [ZT_W_HEAD_BIAS] = ONCE("cls.bias", 0, 0, PART(CLASSIFIER), 1, DIM(head_width)),
    [ZT_W_HEAD_NORM] = ONCE("cls.norm.weight", 0, 0, PART(CLASSIFIER), 1, DIM(head_width)),
    [ZT_W_DENSE_2] = ONCE("dense_2.weight", 0, 0, PART(DENSE), 2, DIM(dense_2), DIM(width)),
    [ZT_W_DENSE_3] = ONCE("dense_3.weight", 0, 0, PART(DENSE), 2, DIM(dense_3), DIM(dense_2)),
    [ZT_W_LABELS] = ONCE("cls.output.weight", 0, 0, PART(CLASSIFIER), 2, DIM(labels), DIM(head_width)),
    [ZT_W_LABELS_BIAS] = ONCE("cls.output.bias", 0, 0, PART(CLASSIFIER), 1, DIM(labels)),
};

static bool has_place(const zt_hyper *hyper, const weight_row *row, int64_t layer)
{
    if (row == &rows[ZT_W_ATTN_NORM] && layer == 0 && hyper->arch->first_unnormed) return false;
    if (row == &rows[ZT_W_RELATIVE] && layer > 0) return false;
    if (row->layered && row->kinds && !(row->kinds >> hyper->layer[layer].kind & 1)) return false;
    if (row->layers == HEAD_LAYER) return layer >= hyper->n_layers;
    bool both = hyper->sparse[layer] && hyper->parts & ZT_PART_BESIDE && row->layers == DENSE_LAYER;
    if (row->layers != ANY_LAYER && !both && hyper->sparse[layer] == (row->layers == DENSE_LAYER)) return false;
    if (row->layers == DENSE_LAYER && hyper->layer[layer].ff == 0) return false;
    if (row->layers >= SPLIT_EXPERTS && hyper->fused_experts != (row->layers == FUSED_EXPERTS)) return false;
    return (row->with & ~hyper->parts) == 0 && (hyper->parts & (row->must | row->may)) != 0;
}

const char *zt_weight_name(zt_weight weight, int64_t layer, char name[ZT_WEIGHT_NAME])
{
    if (rows[weight].layered)
        snprintf(name, ZT_WEIGHT_NAME, "blk.%" PRId64 ".%s", layer, rows[weight].name);
    else
        snprintf(name, ZT_WEIGHT_NAME, "%s", rows[weight].name);
    return name;
}

/* What follows "blk.N.", or the name: T5 has another one for a product. */
static const char *own_name(const zt_hyper *hyper, const weight_row *row)
{
    return row == &rows[ZT_W_O] && hyper->parts & ZT_PART_RELATIVE ? "attn_o.weight" : row->name;
}

enum { FULL_NAME = 2 * ZT_WEIGHT_NAME };

/* With the architecture's prefix. */
static const char *full_name(const zt_hyper *hyper, zt_weight weight, int64_t layer, char name[FULL_NAME])
{
    const weight_row *row = &rows[weight];
    const char *prefix = hyper->arch->prefix && (row->layered || weight == ZT_W_OUT_NORM) ? hyper->arch->prefix : "";
    if (row->layered)
        snprintf(name, FULL_NAME, "%sblk.%" PRId64 ".%s", prefix, layer, own_name(hyper, row));
    else
        snprintf(name, FULL_NAME, "%s%s", prefix, row->name);
    return name;
}

int64_t zt_weight_find(const zt_gguf *gguf, const zt_hyper *hyper, zt_weight weight, int64_t layer)
{
    char name[FULL_NAME];
    if (!has_place(hyper, &rows[weight], layer)) return -1;
    return zt_gguf_find(gguf, full_name(hyper, weight, layer, name));
}

/* ---- check ---------------------------------------------------------------------------------- */

static zt_type expected_type(const zt_hyper *hyper, const weight_row *row, int64_t layer, zt_dtype dtype)
{
    int64_t dim[4] = {0};
    size_t own = offsetof(zt_hyper, layer), size = sizeof *hyper->layer;
    for (int i = 0; i < row->rank; i++) {
        bool of_layer = row->dim[i] >= own && row->dim[i] < own + size;
        memcpy(&dim[i], (const char *)hyper + row->dim[i] + (of_layer ? (size_t)layer * size : 0), sizeof dim[i]);
    }
    return zt_type_make(dtype, row->rank, dim);
}

static zt_status check_found(zt_gguf *gguf, const zt_hyper *hyper, const weight_row *row, int64_t layer, int64_t index)
{
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    zt_type found, wanted;
    char expected_text[ZT_TYPE_TEXT], found_text[ZT_TYPE_TEXT];
    const char *name = zt_gguf_tensor(gguf, index, &found, NULL, NULL);
    if (found.rank < 0) { /* a type that zt does not know: the store says which */
        zt_store store = zt_gguf_store(gguf);
        return store.find(store.user, name, &found, &index);
    }
    wanted = expected_type(hyper, row, layer, found.dtype);
    if (row->layers == SPARSE_LAYER && row->rank == 1 && found.rank == 2 && found.dim[0] == 1) /* some converters keep the row */
        wanted = zt_type_make(found.dtype, 2, (int64_t[]){1, wanted.dim[0]});
    if (!zt_dtype_is_float(found.dtype))
        return zt_fail(ctx, ZT_EDATA, "%s: tensor '%s' is %s, expected a floating-point type", zt_gguf_name(gguf), name,
                       zt_type_text(&found, expected_text));
    if (!zt_type_equal(&found, &wanted))
        return zt_fail(ctx, ZT_EDATA, "%s: tensor '%s': expected %s, found %s", zt_gguf_name(gguf), name,
                       zt_type_text(&wanted, expected_text), zt_type_text(&found, found_text));
    return ZT_OK;
}

/* Of keys and values: a layer that reads another's need not have them, and does not use them. */
static bool makes_keys(zt_weight weight)
{
    static const zt_weight made[] = {ZT_W_K, ZT_W_K_BIAS, ZT_W_V, ZT_W_V_BIAS, ZT_W_K_NORM, ZT_W_K_NORMS};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (made[i] == weight) return true;
    return false;
}

static zt_status check_weight(zt_gguf *gguf, const zt_hyper *hyper, zt_weight weight, int64_t layer, int64_t *used)
{
    char name[FULL_NAME];
    int64_t index = zt_weight_find(gguf, hyper, weight, layer);
    if (index >= 0) {
        ++*used;
        return check_found(gguf, hyper, &rows[weight], layer, index);
    }
    if (!has_place(hyper, &rows[weight], layer) || !(hyper->parts & rows[weight].must)) return ZT_OK;
    if (makes_keys(weight) && hyper->layer[layer].cache != layer) return ZT_OK;
    if (weight == ZT_W_V && hyper->arch->value_may_be_key && !hyper->local[layer]) return ZT_OK;
    return zt_fail(zt_gguf_ctx(gguf), ZT_EDATA, "%s: tensor '%s' is missing (%s, %" PRId64 " layers)", zt_gguf_name(gguf),
                   full_name(hyper, weight, layer, name), hyper->arch->name, hyper->n_layers);
}

/* "3.attn_q.weight" after "blk.": the layer's number, and what follows the point; -1: no layer below `limit`. */
static int64_t layer_of(const char *text, int64_t limit, const char **name)
{
    int64_t layer = 0;
    const char *digit = text;
    for (; *digit >= '0' && *digit <= '9' && layer < limit; digit++) layer = 10 * layer + (*digit - '0');
    *name = digit + 1;
    return digit > text && *digit == '.' && layer < limit ? layer : -1;
}

/* The name without the architecture's prefix. */
static const char *unprefixed(const zt_hyper *hyper, const char *tensor)
{
    size_t length = hyper->arch->prefix ? strlen(hyper->arch->prefix) : 0;
    return length && strncmp(tensor, hyper->arch->prefix, length) == 0 ? tensor + length : tensor;
}

/* Is it of a layer behind the last? */
static bool is_extra(const zt_hyper *hyper, const char *tensor)
{
    const char *name;
    tensor = unprefixed(hyper, tensor);
    if (strncmp(tensor, "blk.", 4) != 0) return false;
    return layer_of(tensor + 4, hyper->n_layers + hyper->extra_layers, &name) >= hyper->n_layers;
}

/* Does the architecture have a tensor of this name, in layers below `layers`? Used only to name an unexpected one. */
static bool is_known(const zt_hyper *hyper, const char *tensor, int64_t layers)
{
    tensor = unprefixed(hyper, tensor);
    bool layered = strncmp(tensor, "blk.", 4) == 0;
    const char *name = tensor;
    int64_t layer = layered ? layer_of(tensor + 4, layers, &name) : 0;
    for (int weight = 0; weight < ZT_WEIGHT_COUNT && layer >= 0; weight++)
        if (rows[weight].layered == layered && has_place(hyper, &rows[weight], layer) &&
            strcmp(name, own_name(hyper, &rows[weight])) == 0)
            return true;
    return false;
}

/* Fails with the first tensor that the architecture does not have: the file holds another model than the row describes. */
static zt_status refuse_extra(const zt_gguf *gguf, const zt_hyper *hyper)
{
    char text[128];
    zt_type type;
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf); i++) {
        const char *name = zt_gguf_tensor(gguf, i, &type, NULL, NULL);
        if (!is_known(hyper, name, hyper->n_layers) && !is_extra(hyper, name))
            return zt_fail(zt_gguf_ctx(gguf), ZT_ENOTSUP, "%s: unexpected tensor '%s' in a %s model of %" PRId64 " layers",
                           zt_gguf_name(gguf), zt_escape(text, sizeof text, name, strlen(name)), hyper->arch->name,
                           hyper->n_layers);
    }
    return ZT_OK;
}

/* Divisors for long contexts and for short ones are a pair. */
static zt_status check_divisors(const zt_gguf *gguf, const zt_hyper *hyper)
{
    bool present[] = {zt_weight_find(gguf, hyper, ZT_W_ROPE_LONG, 0) >= 0, zt_weight_find(gguf, hyper, ZT_W_ROPE_SHORT, 0) >= 0};
    if (present[0] == present[1]) return ZT_OK;
    return zt_fail(zt_gguf_ctx(gguf), ZT_EDATA, "%s: tensor '%s' is missing, but '%s' is present", zt_gguf_name(gguf),
                   rows[present[0] ? ZT_W_ROPE_SHORT : ZT_W_ROPE_LONG].name,
                   rows[present[0] ? ZT_W_ROPE_LONG : ZT_W_ROPE_SHORT].name);
}

/* May the layer be without the weight, where others have it? */
static bool may_lack(const zt_hyper *hyper, zt_weight weight, int64_t layer)
{
    if (!has_place(hyper, &rows[weight], layer)) return true;
    if (makes_keys(weight) && hyper->layer[layer].cache != layer) return true;
    return weight == ZT_W_V && hyper->local[layer]; /* see check_weight: those without a window are alike */
}

/* Of a weight that a model need not have: all layers with a place for it have it, or none. */
static zt_status check_layers(zt_gguf *gguf, const zt_hyper *hyper, zt_weight weight)
{
    char missing[FULL_NAME], present[FULL_NAME];
    int64_t with = -1, without = -1;
    if ((hyper->parts & rows[weight].must) && !(weight == ZT_W_V && hyper->arch->value_may_be_key)) return ZT_OK;
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) {
        if (may_lack(hyper, weight, layer)) continue;
        if (zt_weight_find(gguf, hyper, weight, layer) >= 0)
            with = layer;
        else
            without = layer;
    }
    if (with < 0 || without < 0) return ZT_OK;
    return zt_fail(zt_gguf_ctx(gguf), ZT_EDATA, "%s: tensor '%s' is missing, but '%s' is present", zt_gguf_name(gguf),
                   full_name(hyper, weight, without, missing), full_name(hyper, weight, with, present));
}

zt_status zt_weights_check(zt_gguf *gguf, const zt_hyper *hyper)
{
    int64_t used = 0;
    for (int weight = 0; weight < ZT_WEIGHT_COUNT; weight++) {
        int64_t layers = rows[weight].layered ? hyper->n_layers : 1;
        zt_status status = ZT_OK;
        for (int64_t layer = 0; layer < layers && status == ZT_OK; layer++)
            status = check_weight(gguf, hyper, (zt_weight)weight, layer, &used);
        if (status == ZT_OK && rows[weight].layered) status = check_layers(gguf, hyper, (zt_weight)weight);
        if (status != ZT_OK) return status;
    }
    if (used != zt_gguf_n_tensors(gguf)) return refuse_extra(gguf, hyper);
    return check_divisors(gguf, hyper);
}

/* A tensor of the head that it is not known to have: it would be computed without it. */
static zt_status refuse_further(const zt_gguf *gguf, const zt_hyper *hyper)
{
    char text[128];
    const char *own;
    zt_type type;
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf); i++) {
        const char *name = zt_gguf_tensor(gguf, i, &type, NULL, NULL);
        if (strncmp(name, "blk.", 4) != 0 || layer_of(name + 4, hyper->n_layers + 1, &own) != hyper->n_layers) continue;
        if (!is_known(hyper, name, hyper->n_layers + 1))
            return zt_fail(zt_gguf_ctx(gguf), ZT_ENOTSUP,
                           "%s: unexpected tensor '%s' in the multi-token-prediction head of a %s model", zt_gguf_name(gguf),
                           zt_escape(text, sizeof text, name, strlen(name)), hyper->arch->name);
    }
    return ZT_OK;
}

zt_status zt_weights_check_head(zt_gguf *gguf, const zt_hyper *hyper)
{
    int64_t used = 0;
    zt_status status = ZT_OK;
    for (int weight = 0; weight < ZT_WEIGHT_COUNT && status == ZT_OK; weight++)
        if (rows[weight].layered) status = check_weight(gguf, hyper, (zt_weight)weight, hyper->n_layers, &used);
    return status == ZT_OK ? refuse_further(gguf, hyper) : status;
}
