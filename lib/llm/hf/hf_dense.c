/* hf_dense.c - what config.json says of dense models beside numbers, read and written: parallel residuals, how Falcon
 * counts the heads of its keys, MiniCPM's scales; and the numbers of Apertus's curve, which are tensors there.
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

/* MiniCPM's scales, as GGUF has them. */
static zt_status put_minicpm(hf_import *import)
{
    double embedding = 1, depth = 1, base = 1, layers = 0, width = 0;
    if (import->arch.id != HF_MINICPM) return ZT_OK;
    zt_status status = zt_hf_real(import, "scale_emb", &embedding);
    if (status == ZT_OK) status = zt_hf_real(import, "scale_depth", &depth);
    if (status == ZT_OK) status = zt_hf_real(import, "dim_model_base", &base);
    if (status == ZT_OK) status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK) status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK && !(embedding > 0 && depth > 0 && base > 0 && layers > 0))
        status =
            zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: scale_emb %g, scale_depth %g and dim_model_base %g are not positive",
                    import->folder.data, embedding, depth, base);
    if (status == ZT_OK) status = zt_hf_put_real(import, "embedding_scale", embedding);
    if (status == ZT_OK) status = zt_hf_put_real(import, "residual_scale", depth / sqrt(layers));
    return status == ZT_OK ? zt_hf_put_real(import, "logit_scale", width / base) : status;
}

/* GGUF has no key for the distance from which all are alike in T5. */
static zt_status check_distance(hf_import *import)
{
    int64_t distance = 128;
    if (!zt_hf_is(import, HF_T5S)) return ZT_OK;
    zt_status status = zt_hf_int(import, "relative_attention_max_distance", &distance);
    if (status == ZT_OK && distance != 128)
        status = zt_fail(import->ctx, ZT_ENOTSUP,
                         "%sconfig.json: t5 models with relative_attention_max_distance %lld are not supported",
                         import->folder.data, (long long)distance);
    return status;
}

/* MPT: linear biases, and the limit of q, k and v, in an object of their own. */
static zt_status put_mpt(hf_import *import)
{
    const json_t *attention = import->arch.id == HF_MPT ? zt_hf_get(import, "attn_config") : NULL;
    static const char *const refused[] = {"qk_ln", "prefix_lm"};
    double bias = 8, clip = 0, scale = 0, key_heads = 0;
    if (import->arch.id != HF_MPT) return ZT_OK;
    const json_t *alibi = json_object_get(attention, "alibi");
    zt_status status = zt_hf_number(import, json_object_get(attention, "alibi_bias_max"), "alibi_bias_max", &bias);
    if (status == ZT_OK) status = zt_hf_number(import, json_object_get(attention, "clip_qkv"), "clip_qkv", &clip);
    if (status == ZT_OK) status = zt_hf_number(import, json_object_get(attention, "softmax_scale"), "softmax_scale", &scale);
    if (status == ZT_OK) status = zt_hf_number(import, json_object_get(attention, "kv_n_heads"), "kv_n_heads", &key_heads);
    for (size_t i = 0; status == ZT_OK && i < sizeof refused / sizeof *refused; i++)
        if (json_is_true(json_object_get(attention, refused[i])))
            status = zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: mpt models with %s are not supported", import->folder.data,
                             refused[i]);
    if (status == ZT_OK && scale != 0)
        status = zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: mpt models with softmax_scale %g are not supported",
                         import->folder.data, scale);
    if (status == ZT_OK && key_heads > 0) status = zt_hf_put_int(import, "attention.head_count_kv", (int64_t)key_heads);
    if (status == ZT_OK && clip != 0) status = zt_hf_put_real(import, "attention.clamp_kqv", clip);
    return status == ZT_OK ? zt_hf_put_real(import, "attention.max_alibi_bias", json_is_false(alibi) ? 0 : bias) : status;
}

/* Numbers of xIELU: tensors of one value there, keys with one for each layer here. */
static const struct {
    const char *name, *key;
    float otherwise; /* NAN: must be there */
} curve_numbers[] = {{"alpha_n", "xielu.alpha_n", NAN},
                     {"alpha_p", "xielu.alpha_p", NAN},
                     {"beta", "xielu.beta", 0.5f},
                     {"eps", "xielu.eps", -1e-6f}};

enum { CURVE_NUMBERS = sizeof curve_numbers / sizeof *curve_numbers, MAX_LAYERS = 4096 };

static zt_status read_curve_number(const hf_import *import, int64_t layer, const char *name, float *value)
{
    static const char *const prefixes[] = {"model.", ""};
    char text[100], raw[8];
    zt_checkpoint *from = import->tensors->from;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        zt_entry entry;
        snprintf(text, sizeof text, "%slayers.%lld.mlp.act_fn.%s", prefixes[i], (long long)layer, name);
        int64_t index = zt_checkpoint_find(from, text);
        if (index < 0) continue;
        zt_checkpoint_get(from, index, &entry);
        const zt_dtype_info *info =
            entry.type.rank >= 0 && entry.type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(entry.type.dtype) : NULL;
        if (!info || info->kind != 'F' || zt_type_count(&entry.type) != 1)
            return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is not one number", zt_checkpoint_name(from), text);
        zt_status status = zt_checkpoint_read(from, index, 0, raw, (size_t)info->block_bytes);
        if (status == ZT_OK) info->decode(raw, value, 1);
        return status;
    }
    if (!isnan(*value)) return ZT_OK;
    snprintf(text, sizeof text, "model.layers.%lld.mlp.act_fn.%s", (long long)layer, name);
    return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is missing", zt_checkpoint_name(from), text);
}

static zt_status put_xielu(hf_import *import)
{
    double layers = 0;
    if (import->arch.id != HF_APERTUS || !import->tensors->from) return ZT_OK;
    zt_status status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK && layers > MAX_LAYERS)
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: too many layers: %g", import->folder.data, layers);
    float *values = status == ZT_OK ? zt_alloc_array(import->ctx, (size_t)layers, sizeof *values) : NULL;
    if (!values) return zt_ctx_status(import->ctx);
    for (size_t i = 0; status == ZT_OK && i < CURVE_NUMBERS; i++) {
        for (int64_t layer = 0; status == ZT_OK && layer < (int64_t)layers; layer++) {
            values[layer] = curve_numbers[i].otherwise;
            status = read_curve_number(import, layer, curve_numbers[i].name, &values[layer]);
        }
        if (status == ZT_OK)
            status = zt_gguf_put_array(import->writer, curve_numbers[i].key, ZT_GGUF_F32, values, (int64_t)layers);
    }
    zt_free(import->ctx, values);
    return status;
}

zt_status zt_hf_put_dense(hf_import *import)
{
    zt_status status = put_residual(import);
    if (status == ZT_OK) status = put_minicpm(import);
    if (status == ZT_OK) status = put_mpt(import);
    if (status == ZT_OK) status = check_distance(import);
    if (status == ZT_OK) status = put_xielu(import);
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

static zt_status put_scales(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    if (export->arch->id != HF_MINICPM) return ZT_OK;
    zt_status status = set(export, "scale_emb", zt_export_number(hyper->embed_scale));
    if (status == ZT_OK)
        status = set(export, "scale_depth", zt_export_number(hyper->residual_scale * sqrt((double)hyper->n_layers)));
    return status == ZT_OK ? set(export, "dim_model_base", zt_export_number((double)hyper->width * hyper->logit_scale)) : status;
}

/* Of a number with several names the table of keys writes the first; these are written under others. */
static zt_status rename_members(hf_export *export, const char *const names[][2], size_t count)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        json_t *value = json_object_get(export->config, names[i][0]);
        if (value) status = set(export, names[i][1], json_incref(value));
        json_object_del(export->config, names[i][0]);
    }
    return status;
}

static zt_status put_t5(hf_export *export)
{
    static const char *const names[][2] = {{"hidden_size", "d_model"},
                                           {"num_hidden_layers", "num_layers"},
                                           {"num_attention_heads", "num_heads"},
                                           {"max_position_embeddings", "n_positions"},
                                           {"intermediate_size", "d_ff"},
                                           {"head_dim", "d_kv"},
                                           {"layer_norm_eps", "layer_norm_epsilon"}};
    return is_of(export, HF_T5S) ? rename_members(export, names, sizeof names / sizeof *names) : ZT_OK;
}

/* MPT's own names, and its object of attention. */
static zt_status put_attention(hf_export *export)
{
    static const char *const names[][2] = {{"hidden_size", "d_model"},
                                           {"num_hidden_layers", "n_layers"},
                                           {"num_attention_heads", "n_heads"},
                                           {"max_position_embeddings", "max_seq_len"},
                                           {"layer_norm_eps", "layer_norm_epsilon"}};
    const zt_hyper *hyper = &export->hyper;
    if (export->arch->id != HF_MPT) return ZT_OK;
    zt_status status = rename_members(export, names, sizeof names / sizeof *names);
    json_t *attention = json_pack("{sssb}", "attn_type", "multihead_attention", "alibi", 1);
    if (status == ZT_OK) status = zt_export_set(export, attention, "alibi_bias_max", zt_export_number(hyper->alibi));
    if (status == ZT_OK)
        status =
            zt_export_set(export, attention, "clip_qkv", hyper->qkv_clamp > 0 ? zt_export_number(hyper->qkv_clamp) : json_null());
    if (status == ZT_OK && hyper->n_kv_heads != hyper->n_heads)
        status = zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' mpt cannot have %lld key heads for %lld query heads",
                         export->file, (long long)hyper->n_kv_heads, (long long)hyper->n_heads);
    if (status != ZT_OK) {
        json_decref(attention);
        return status;
    }
    return set(export, "attn_config", attention);
}

int64_t zt_export_constants(const hf_export *export)
{
    return export->arch->id == HF_APERTUS ? export->hyper.n_layers * CURVE_NUMBERS : 0;
}

zt_status zt_export_constant(const hf_export *export, int64_t index, zt_str *name, float *value)
{
    int64_t layer = index / CURVE_NUMBERS, which = index % CURVE_NUMBERS;
    const zt_xielu *number = &export->hyper.xielu[layer];
    const double values[] = {number->alpha_n, number->alpha_p, number->beta, number->eps};
    *value = (float)values[which];
    zt_str_clear(name);
    return zt_str_printf(name, "%s%lld.mlp.act_fn.%s", export->arch->layers, (long long)layer, curve_numbers[which].name);
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
    if (status == ZT_OK) status = put_scales(export);
    if (status == ZT_OK) status = put_attention(export);
    if (status == ZT_OK) status = put_t5(export);
    /* a length beside the tokenizer's */
    if (status == ZT_OK && export->arch->id == HF_COHERE)
        status = set(export, "max_position_embeddings", json_integer(export->hyper.ctx_train));
    return status;
}
