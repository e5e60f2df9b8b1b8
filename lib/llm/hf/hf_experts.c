/* hf_experts.c - what config.json says of routed experts beside numbers, read and written: switches that are keys of GGUF
 * where they differ from what the architecture means there, and what zt does not run.
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/), configuration_*.py of transformers; as facts.
 */
#include "lib/llm/hf/hf_export.h"

#include <stdio.h>

#define CHOSEN                                                                                                                   \
    (HF_SET(HF_QWEN2MOE) | HF_SET(HF_QWEN3MOE) | HF_SET(HF_OLMOE) | HF_SET(HF_GLM4MOE) | HF_SET(HF_QWEN3NEXT) | HF_DEEPSEEKS |   \
     HF_SET(HF_NEMOTRON_H_MOE)) /* have norm_topk_prob */

enum { GATING_SIGMOID = 2 }; /* GGUF's number */

/* Whether weights are divided by their sum. Of glm4moe and nemotron_h_moe the key is always written, of others where config.json differs from what
 * GGUF means by silence: that qwen3moe and qwen3next do. */
static zt_status put_norm(hf_import *import)
{
    char key[128];
    bool glm = zt_hf_is(import, HF_SET(HF_GLM4MOE) | HF_SET(HF_NEMOTRON_H_MOE)), next = import->arch.id == HF_QWEN3NEXT;
    bool usual = next || import->arch.id == HF_QWEN3MOE;
    bool normed = glm || next ||
                  zt_hf_is(import, HF_SET(HF_DEEPSEEK3) | HF_SET(HF_DEEPSEEK32) | HF_SET(HF_GLM4_LITE) | HF_SET(HF_MISTRAL4));
    const json_t *given = zt_hf_get(import, "norm_topk_prob");
    if (!zt_hf_is(import, CHOSEN)) return ZT_OK;
    if (given && !json_is_boolean(given) && !json_is_null(given))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'norm_topk_prob' is not true or false", import->folder.data);
    if (json_is_boolean(given)) normed = json_is_true(given);
    if (!glm && normed == usual) return ZT_OK;
    snprintf(key, sizeof key, "%s.expert_weights_norm", import->arch.name);
    return zt_gguf_put_int(import->writer, key, ZT_GGUF_BOOL, normed);
}

typedef struct fixed_number {
    const char *name;
    hf_set archs;
    double value;
} fixed_number;

static const fixed_number fixed_numbers[] = {
    {"router_jitter_noise", HF_SET(HF_PHIMOE), 0.01},
    {"moe_norm_min", HF_SET(HF_ERNIE_MOE), 1e-12},
    {"swiglu_alpha", HF_SET(HF_GPT_OSS), 1.702},
    {"swiglu_limit", HF_SET(HF_GPT_OSS), 7},
    {"clip_qkv", HF_SET(HF_OLMOE), 0}, /* null there */
};

enum { FIXED_NUMBERS = sizeof fixed_numbers / sizeof *fixed_numbers };

/* Numbers that must be what the architecture means, as GGUF has no key for them. */
static zt_status check_numbers(const hf_import *import)
{
    for (size_t i = 0; i < FIXED_NUMBERS; i++) {
        const fixed_number *row = &fixed_numbers[i];
        double value = row->value;
        if (!zt_hf_is(import, row->archs)) continue;
        zt_status status = zt_hf_real(import, row->name, &value);
        if (status != ZT_OK) return status;
        if (value != row->value)
            return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with %s %g are not supported", import->folder.data,
                           import->arch.name, row->name, value);
    }
    return ZT_OK;
}

/* ERNIE's converter writes a length that the tensors need not have; zt reads expert_shared_count instead. */
static zt_status put_shared_length(hf_import *import)
{
    double length = 0, heads = 0, count = 0;
    if (import->arch.id != HF_ERNIE_MOE) return ZT_OK;
    zt_status status = zt_hf_value(import, "feed_forward_length", &length);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.head_count_kv", &heads);
    if (status == ZT_OK) status = zt_hf_value(import, "expert_shared_count", &count);
    if (status != ZT_OK || !(count > 0 && heads > 0)) return status;
    return zt_hf_put_int(import, "expert_shared_feed_forward_length", (int64_t)(length / heads));
}

zt_status zt_hf_put_experts(hf_import *import)
{
    zt_status status = check_numbers(import);
    if (status == ZT_OK) status = put_norm(import);
    if (status == ZT_OK) status = put_shared_length(import);
    return status == ZT_OK && import->arch.id == HF_GLM4MOE ? zt_hf_put_int(import, "expert_gating_func", GATING_SIGMOID)
                                                            : status;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status set(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

static bool is_of(const hf_export *export, hf_set archs) { return archs & HF_SET(export->arch->id); }

/* Of a number with several names the table of keys writes the first; these have another. */
static zt_status rename_numbers(hf_export *export)
{
    static const struct {
        const char *written, *name;
        hf_set archs;
    } rows[] = {
        {"num_experts", "num_local_experts",
         HF_SET(HF_MIXTRAL) | HF_SET(HF_GRANITEMOE) | HF_SET(HF_GRANITE_HYBRID) | HF_SET(HF_PHIMOE) | HF_SET(HF_GPT_OSS) |
             HF_SET(HF_LLAMA4)},
        {"num_experts", "n_routed_experts", HF_SET(HF_GLM4MOE) | HF_DEEPSEEKS | HF_SET(HF_NEMOTRON_H_MOE)},
        {"num_experts", "moe_num_experts", HF_SET(HF_ERNIE_MOE)},
        {"num_experts_per_tok", "moe_k", HF_SET(HF_ERNIE_MOE)},
        {"n_shared_experts", "moe_num_shared_experts", HF_SET(HF_ERNIE_MOE)},
        {"first_k_dense_replace", "moe_layer_start_index", HF_SET(HF_ERNIE_MOE)},
        {"shared_expert_intermediate_size", "shared_intermediate_size", HF_SET(HF_GRANITEMOE) | HF_SET(HF_GRANITE_HYBRID)},
    };
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == ZT_OK; i++) {
        json_t *value = is_of(export, rows[i].archs) ? json_object_get(export->config, rows[i].written) : NULL;
        if (!value) continue;
        status = set(export, rows[i].name, json_incref(value));
        json_object_del(export->config, rows[i].written);
    }
    return status;
}

/* What the architecture means there, and has no name for anything else. */
static zt_status check_routing(const hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    const zt_arch *arch = hyper->arch;
    bool glm = is_of(export, HF_SET(HF_GLM4MOE) | HF_DEEPSEEKS | HF_SET(HF_NEMOTRON_H_MOE));
    zt_gating gating = export->arch->id == HF_DEEPSEEK2 ? ZT_GATING_SOFTMAX : arch->gating;
    const struct {
        const char *what;
        bool fits;
    } rows[] = {
        {"this gating of experts", hyper->gating == gating},
        {"weights of experts that are normalized otherwise",
         is_of(export, CHOSEN) || hyper->normed_experts == arch->normed_experts},
        {"a scale of experts' weights", glm || hyper->expert_scale == 1},
        {"groups of experts", glm || hyper->expert_groups == 1},
        {"experts of another length than the feed-forward's", !arch->expert_ff_alike || hyper->expert_ff == hyper->ff},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].fits)
            return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' %s cannot have %s", export->file, export->arch->type,
                           rows[i].what);
    return ZT_OK;
}

/* Lengths that GGUF need not say. */
static zt_status put_lengths(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    zt_status status = ZT_OK;
    const char *length = export->arch->id == HF_LLAMA4 ? "intermediate_size" : "moe_intermediate_size";
    if (!hyper->arch->expert_ff_alike) status = set(export, length, json_integer(hyper->expert_ff));
    if (status == ZT_OK && is_of(export, HF_SET(HF_QWEN2MOE) | HF_SET(HF_QWEN3NEXT) | HF_SET(HF_QWEN35MOE)))
        status = set(export, "shared_expert_intermediate_size", json_integer(hyper->shared_ff));
    if (status == ZT_OK && is_of(export, HF_SET(HF_ERNIE_MOE) | HF_SET(HF_GLM4MOE) | HF_DEEPSEEKS)) {
        if (hyper->shared_ff % hyper->expert_ff)
            return zt_fail(export->ctx, ZT_ENOTSUP, "%s: shared experts are not as long as a number of experts", export->file);
        status = set(export, export->arch->id == HF_ERNIE_MOE ? "moe_num_shared_experts" : "n_shared_experts",
                     json_integer(hyper->shared_ff / hyper->expert_ff));
    }
    return status;
}

/* Which layers have no experts: of Qwen a list; of others it follows from keys, which must say it. */
static zt_status put_dense_layers(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    int64_t leading = 0, step = 1;
    if (export->arch->id == HF_NEMOTRON_H_MOE) return ZT_OK; /* kinds of layers say it */
    bool listed = is_of(export, HF_SET(HF_QWEN2MOE) | HF_SET(HF_QWEN3MOE) | HF_SET(HF_QWEN3NEXT));
    json_t *list = listed ? json_array() : NULL;
    if (is_of(export, HF_SET(HF_ERNIE_MOE) | HF_SET(HF_GLM4MOE) | HF_DEEPSEEKS | HF_SET(HF_LFM2MOE)))
        zt_export_int(export, "leading_dense_block_count", &leading);
    if (is_of(export, HF_SET(HF_ERNIE_MOE) | HF_SET(HF_LLAMA4))) zt_export_int(export, "interleave_moe_layer_step", &step);
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) {
        if (list && !hyper->sparse[layer]) json_array_append_new(list, json_integer(layer));
        if (!listed && hyper->sparse[layer] != (layer >= leading && (layer + 1) % step == 0))
            return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' %s cannot have layer %lld without experts", export->file,
                           export->arch->type, (long long)layer);
    }
    if (!listed) return ZT_OK;
    zt_status status = set(export, "mlp_only_layers", list);
    return status == ZT_OK ? set(export, "decoder_sparse_step", json_integer(1)) : status;
}

static zt_status put_switches(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    zt_status status = ZT_OK;
    bool glm = export->arch->id == HF_GLM4MOE, phi = export->arch->id == HF_PHIMOE;
    if (is_of(export, CHOSEN)) status = set(export, "norm_topk_prob", json_boolean(hyper->normed_experts));
    for (size_t i = 0; i < FIXED_NUMBERS && status == ZT_OK; i++)
        if (is_of(export, fixed_numbers[i].archs))
            status =
                set(export, fixed_numbers[i].name, fixed_numbers[i].value > 0 ? json_real(fixed_numbers[i].value) : json_null());
    if (status == ZT_OK && glm)
        status = set(export, "use_qk_norm", json_boolean(zt_gguf_find(export->gguf, "blk.0.attn_q_norm.weight") >= 0));
    if (status == ZT_OK && phi)
        status = set(export, "lm_head_bias", json_boolean(zt_gguf_find(export->gguf, "output.bias") >= 0));
    if (status == ZT_OK && export->mxfp4)
        status = set(export, "quantization_config",
                     json_pack("{sss[ssss]}", "quant_method", "mxfp4", "modules_to_not_convert", "model.layers.*.self_attn",
                               "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"));
    if (status == ZT_OK && export->arch->id == HF_ERNIE_MOE)
        status = set(export, "use_bias", json_boolean(zt_gguf_find(export->gguf, "blk.0.attn_q.bias") >= 0));
    return status;
}

zt_status zt_export_experts(hf_export *export)
{
    static zt_status (*const step[])(hf_export *) = {rename_numbers, put_lengths, put_dense_layers, put_switches};
    if (!is_of(export, HF_MOES)) return ZT_OK;
    zt_status status = check_routing(export);
    for (size_t i = 0; status == ZT_OK && i < sizeof step / sizeof *step; i++) status = step[i](export);
    return status;
}
