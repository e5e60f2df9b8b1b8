/* hf_dense.c - what config.json says of dense models beside numbers, read and written: parallel residuals, and how Falcon
 * counts the heads of its keys.
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/), configuration_*.py of transformers; as facts.
 */
#include "lib/llm/hf/hf_export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BY_SWITCH (HF_SET(HF_STABLELM) | HF_SET(HF_NEOX)) /* have use_parallel_residual */

/* The converter's true, where config.json is silent. Of stablelm that is not transformers' default, and not what is read:
 * there a parallel model is one without norms of the feed-forward. */
static zt_status put_residual(hf_import *import)
{
    char key[128];
    const json_t *given = zt_hf_get(import, "use_parallel_residual");
    if (!zt_hf_is(import, BY_SWITCH)) return ZT_OK;
    if (given && !json_is_boolean(given))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'use_parallel_residual' is not true or false", import->folder.data);
    snprintf(key, sizeof key, "%s.use_parallel_residual", import->arch.name);
    return zt_gguf_put_int(import->writer, key, ZT_GGUF_BOOL, !json_is_false(given));
}

/* As transformers counts: the newer layout says how many, the older has one or as many as there are heads. */
zt_status zt_hf_falcon_groups(const hf_import *import, double *groups)
{
    double heads = 0, named = NAN;
    bool newer = json_is_true(zt_hf_get(import, "new_decoder_architecture"));
    bool one = !newer && !json_is_false(zt_hf_get(import, "multi_query"));
    zt_status status = zt_hf_value(import, "attention.head_count", &heads);
    if (status == ZT_OK && newer) status = zt_hf_real(import, "num_kv_heads|n_head_kv", &named);
    *groups = one ? 1 : isnan(named) ? heads : named;
    if (status == ZT_OK && !(*groups >= 1 && *groups <= heads && *groups == floor(*groups)))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: num_kv_heads is %g, expected 1 to %g", import->folder.data,
                         *groups, heads);
    return status;
}

static zt_status put_key_heads(hf_import *import)
{
    double heads = 0, key_heads = NAN;
    zt_status status = zt_hf_value(import, "attention.head_count", &heads);
    if (status == ZT_OK && zt_hf_is(import, HF_FALCONS)) {
        status = zt_hf_put_text(import, "tensor_data_layout", "jploski"); /* llama.cpp's word for rows that are not grouped */
        if (status == ZT_OK) status = zt_hf_falcon_groups(import, &key_heads);
        return status == ZT_OK ? zt_hf_put_int(import, "attention.head_count_kv", (int64_t)key_heads) : status;
    }
    if (import->arch.id != HF_PHI2 || status != ZT_OK) return status;
    status = zt_hf_value(import, "attention.head_count_kv", &key_heads);
    return status == ZT_OK && isnan(key_heads) ? zt_hf_put_int(import, "attention.head_count_kv", (int64_t)heads) : status;
}

enum { POOLED_MEAN = 1, POOLED_FIRST = 2 }; /* llama.h's numbers */

/* ModernBERT's curve, which the reader of the key knows or refuses by name; and how its classifiers, which are not run, pool. */
static zt_status put_curve(hf_import *import)
{
    const json_t *given = zt_hf_get(import, "hidden_activation");
    const char *name = given ? json_string_value(given) : "gelu";
    if (import->arch.id != HF_MODERNBERT) return ZT_OK;
    if (!name) return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'hidden_activation' is not a text", import->folder.data);
    zt_status status = zt_hf_put_text(import, "hidden_activation", name);
    const char *pooling = json_string_value(zt_hf_get(import, "classifier_pooling"));
    bool mean = pooling && strcmp(pooling, "mean") == 0;
    return status == ZT_OK ? zt_hf_put_int(import, "classifier.pooling_type", mean ? POOLED_MEAN : POOLED_FIRST) : status;
}

zt_status zt_hf_put_dense(hf_import *import)
{
    zt_status status = put_residual(import);
    if (status == ZT_OK) status = put_curve(import);
    return status == ZT_OK ? put_key_heads(import) : status;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status set(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

static bool is_of(const hf_export *export, hf_set archs) { return archs & HF_SET(export->arch->id); }

static bool has_tensor(const hf_export *export, const char *tensor) { return zt_gguf_find(export->gguf, tensor) >= 0; }

static zt_status put_switches(hf_export *export)
{
    const struct {
        const char *name;
        hf_set archs;
        bool value;
    } switches[] = {
        {"use_parallel_residual", BY_SWITCH, export->hyper.parallel},
        {"use_qkv_bias", HF_SET(HF_STABLELM), has_tensor(export, "blk.0.attn_q.bias")},
        {"use_qk_norm", HF_SET(HF_COHERE), has_tensor(export, "blk.0.attn_q_norm.weight")},
        {"attention_out_bias", HF_SET(HF_SEED_OSS), has_tensor(export, "blk.0.attn_output.bias")},
    };
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof switches / sizeof *switches && status == ZT_OK; i++)
        if (is_of(export, switches[i].archs)) status = set(export, switches[i].name, json_boolean(switches[i].value));
    return status;
}

/* One key head is the older layout's, several the newer one's, which has two norms unless it says one. */
static zt_status put_falcon(hf_export *export)
{
    bool two = export->arch->id == HF_FALCON_TWO, one_key = export->hyper.n_kv_heads == 1;
    bool newer = two || (!one_key && export->hyper.n_kv_heads != export->hyper.n_heads);
    if (!is_of(export, HF_FALCONS)) return ZT_OK;
    zt_status status = set(export, "new_decoder_architecture", json_boolean(newer));
    if (status == ZT_OK) status = set(export, "multi_query", json_boolean(one_key));
    if (status == ZT_OK && newer) status = set(export, "num_kv_heads", json_integer(export->hyper.n_kv_heads));
    return status == ZT_OK && newer ? set(export, "num_ln_in_parallel_attn", json_integer(two ? 2 : 1)) : status;
}

/* ModernBERT: its curve, and which layers see the whole text. */
static zt_status put_modern(hf_export *export)
{
    char key[128];
    zt_bytes name = {"gelu", 4};
    zt_gguf_kind kind;
    int64_t count = 0, period = 3, pooled = POOLED_FIRST;
    if (export->arch->id != HF_MODERNBERT) return ZT_OK;
    zt_gguf_str(export->gguf, zt_export_key(export, "hidden_activation", key), &name);
    zt_status status = zt_export_text(export, export->config, "hidden_activation", name);
    zt_export_int(export, "classifier.pooling_type", &pooled);
    if (status == ZT_OK) status = set(export, "classifier_pooling", json_string(pooled == POOLED_MEAN ? "mean" : "cls"));
    if (status != ZT_OK) return status;
    if (!zt_gguf_array(export->gguf, zt_export_key(export, "attention.sliding_window_pattern", key), &kind, &count)) {
        zt_export_int(export, "attention.sliding_window_pattern", &period);
        return set(export, "global_attn_every_n_layers", json_integer(period));
    }
    json_t *types = json_array();
    for (int64_t layer = 0; types && layer < export->hyper.n_layers; layer++)
        if (json_array_append_new(types, json_string(export->hyper.local[layer] ? "sliding_attention" : "full_attention")) != 0)
            break;
    return set(export, "layer_types", types);
}

zt_status zt_export_dense(hf_export *export)
{
    if (export->arch->id == HF_STABLELM && export->hyper.parts & ZT_PART_HEAD_NORMS)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: stablelm models with norms on q and k cannot be written", export->file);
    if (export->arch->id == HF_NEOX && export->hyper.n_kv_heads != export->hyper.n_heads)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' gpt_neox cannot have %lld key heads for %lld query heads",
                       export->file, (long long)export->hyper.n_kv_heads, (long long)export->hyper.n_heads);
    zt_status status = put_switches(export);
    if (status == ZT_OK) status = put_falcon(export);
    if (status == ZT_OK) status = put_modern(export);
    /* a length beside the tokenizer's */
    if (status == ZT_OK && export->arch->id == HF_COHERE)
        status = set(export, "max_position_embeddings", json_integer(export->hyper.ctx_train));
    return status;
}
