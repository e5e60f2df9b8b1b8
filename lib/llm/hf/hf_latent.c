/* hf_latent.c - multi-head latent attention, read and written: lengths of heads, what is fixed, and the matrix of keys and
 * values, which GGUF has as two for DeepSeek's architecture.
 *
 *     kv_b_proj    of each head the rows of its keys, then those of its values: [heads * (plain + value), latent]
 *     attn_k_b     [heads, latent, plain]: transposed
 *     attn_v_b     [heads, value, latent]
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/deepseek.py, glm.py, minicpm.py), configuration_*.py of
 * transformers; as facts.
 */
#include "lib/llm/hf/hf_export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- lengths --------------------------------------------------------------------------------- */

typedef struct latent_lengths {
    int64_t heads, plain, rope, value, latent;
} latent_lengths;

enum { MOST_LENGTH = 1 << 24 };

/* Columns of a head that do not rotate, and of its value; MiniCPM3's values share the width. */
static const struct {
    hf_set archs;
    int64_t plain, value; /* 0: width / heads */
} usual[] = {{HF_SET(HF_DEEPSEEK2) | HF_SET(HF_DEEPSEEK3) | HF_SET(HF_DEEPSEEK32) | HF_SET(HF_YOUTU), 128, 128},
             {HF_SET(HF_GLM4_LITE), 192, 256},
             {HF_SET(HF_MISTRAL4), 64, 128},
             {HF_SET(HF_MINICPM3), 64, 0}};

static zt_status read_lengths(const hf_import *import, latent_lengths *lengths)
{
    double width = 0, heads = 0, rope = 0, latent = 0;
    *lengths = (latent_lengths){0};
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.head_count", &heads);
    if (status == ZT_OK) status = zt_hf_value(import, "rope.dimension_count", &rope);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.kv_lora_rank", &latent);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (zt_hf_is(import, usual[i].archs)) lengths->plain = usual[i].plain, lengths->value = usual[i].value;
    if (lengths->value == 0 && heads >= 1) lengths->value = (int64_t)(width / heads);
    if (status == ZT_OK) status = zt_hf_int(import, "qk_nope_head_dim", &lengths->plain);
    if (status == ZT_OK) status = zt_hf_int(import, "v_head_dim", &lengths->value);
    lengths->heads = (int64_t)heads, lengths->rope = (int64_t)rope, lengths->latent = (int64_t)latent;
    const int64_t all[] = {lengths->heads, lengths->plain, lengths->rope, lengths->value, lengths->latent};
    for (size_t i = 0; i < sizeof all / sizeof *all && status == ZT_OK; i++)
        if (all[i] < 1 || all[i] > MOST_LENGTH)
            status = zt_fail(import->ctx, ZT_EDATA,
                             "%sconfig.json: invalid latent attention: %lld heads, qk_nope_head_dim %lld, qk_rope_head_dim %lld, "
                             "v_head_dim %lld, kv_lora_rank %lld",
                             import->folder.data, (long long)all[0], (long long)all[1], (long long)all[2], (long long)all[3],
                             (long long)all[4]);
    return status;
}

static zt_status put_lengths(hf_import *import)
{
    latent_lengths lengths;
    zt_status status = read_lengths(import, &lengths);
    if (status != ZT_OK) return status;
    int64_t head = lengths.plain + lengths.rope;
    if (import->arch.id == HF_MINICPM3) return zt_hf_put_int(import, "attention.key_length", head);
    const struct {
        const char *suffix;
        int64_t value;
    } keys[] = {{"attention.head_count_kv", 1},
                {"attention.key_length", lengths.latent + lengths.rope},
                {"attention.value_length", lengths.latent},
                {"attention.key_length_mla", head},
                {"attention.value_length_mla", lengths.value}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == ZT_OK; i++)
        status = zt_hf_put_int(import, keys[i].suffix, keys[i].value);
    return status;
}

/* ---- what is fixed --------------------------------------------------------------------------- */

typedef struct fixed_number {
    const char *name;
    hf_set archs;
    double value;
} fixed_number;

static const fixed_number fixed_numbers[] = {
    {"scale_emb", HF_SET(HF_MINICPM3), 12},
    {"scale_depth", HF_SET(HF_MINICPM3), 1.4},
    {"dim_model_base", HF_SET(HF_MINICPM3), 256},
    {"moe_layer_freq", HF_DEEPSEEKS, 1},
};

enum { FIXED_NUMBERS = sizeof fixed_numbers / sizeof *fixed_numbers };

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

static zt_status refuse(const hf_import *import, const char *what)
{
    return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with %s are not supported", import->folder.data,
                   import->arch.type, what);
}

/* DeepSeek V2's own code normalizes weights instead of scaling them, and chooses among groups where the method names them. */
static zt_status check_choice(const hf_import *import)
{
    const char *method = json_string_value(zt_hf_get(import, "topk_method"));
    int64_t groups = 1;
    if (!zt_hf_is(import, HF_SET(HF_DEEPSEEK2) | HF_SET(HF_MISTRAL4))) return ZT_OK;
    zt_status status = zt_hf_int(import, "n_group", &groups);
    if (status != ZT_OK) return status;
    if (import->arch.id == HF_MISTRAL4) return groups > 1 ? refuse(import, "n_group above 1") : ZT_OK;
    if (json_is_true(zt_hf_get(import, "norm_topk_prob"))) return refuse(import, "norm_topk_prob");
    bool grouped = method && strcmp(method, "group_limited_greedy") == 0;
    return groups > 1 && !grouped ? refuse(import, "n_group above 1 and topk_method 'greedy'") : ZT_OK;
}

/* GLM lists which layers have experts, which must be all behind the first ones. */
static zt_status check_layer_types(const hf_import *import)
{
    const json_t *types = zt_hf_get(import, "mlp_layer_types");
    double leading = 0;
    if (!json_is_array(types) || import->arch.id != HF_GLM4_LITE) return ZT_OK;
    zt_status status = zt_hf_value(import, "leading_dense_block_count", &leading);
    for (size_t i = 0; i < json_array_size(types) && status == ZT_OK; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool sparse = type && strcmp(type, "sparse") == 0;
        if ((!sparse && (!type || strcmp(type, "dense") != 0)) || sparse != ((double)i >= leading))
            status = refuse(import, "mlp_layer_types other than those of first_k_dense_replace");
    }
    return status;
}

/* Which function scores experts, as a key, where config.json says it; where it does not, a bias on the choice tells. */
static zt_status put_gating(hf_import *import)
{
    static const char *const words[] = {"softmax", "sigmoid"}; /* GGUF's numbers from 1 on */
    const json_t *given = zt_hf_get(import, "scoring_func");
    int number = zt_hf_is(import, HF_SET(HF_DEEPSEEK2) | HF_SET(HF_MISTRAL4)) ? 0 : 1;
    const char *word = json_string_value(given);
    char text[80];
    if (!zt_hf_is(import, HF_DEEPSEEKS) || !given || json_is_null(given)) return ZT_OK;
    if (!word || strcmp(word, words[number]) != 0) {
        snprintf(text, sizeof text, "a scoring_func other than %s", words[number]);
        return refuse(import, text);
    }
    return zt_hf_put_int(import, "expert_gating_func", number + 1);
}

/* A model without experts, as the converter has it: all layers are leading ones. */
static zt_status put_dense(hf_import *import)
{
    double layers = 0, length = 0;
    if (import->arch.id != HF_YOUTU) return ZT_OK;
    zt_status status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK) status = zt_hf_value(import, "feed_forward_length", &length);
    if (status == ZT_OK) status = zt_hf_put_int(import, "leading_dense_block_count", (int64_t)layers);
    if (status == ZT_OK) status = zt_hf_put_int(import, "expert_feed_forward_length", (int64_t)length);
    return status == ZT_OK ? zt_hf_put_int(import, "expert_shared_count", 0) : status;
}

/* Where layers that predict further tokens are left out, the converter's key says that there are none. */
static zt_status put_further(hf_import *import)
{
    bool said = import->arch.id == HF_DEEPSEEK32 && json_is_integer(zt_hf_get(import, "num_nextn_predict_layers"));
    int64_t heads = 0;
    zt_status status = zt_hf_head_layers(import, &heads);
    return status == ZT_OK && said && heads == 0 ? zt_hf_put_int(import, "nextn_predict_layers", 0) : status;
}

zt_status zt_hf_put_latent(hf_import *import)
{
    zt_status status = check_numbers(import);
    if (status == ZT_OK) status = check_choice(import);
    if (status == ZT_OK) status = check_layer_types(import);
    if (status == ZT_OK) status = put_lengths(import);
    if (status == ZT_OK) status = put_dense(import);
    if (status == ZT_OK) status = put_further(import);
    return status == ZT_OK ? put_gating(import) : status;
}

/* ---- keys and values ------------------------------------------------------------------------- */

zt_status zt_hf_split_heads(const hf_import *import, hf_tensor *tensor, bool values)
{
    latent_lengths lengths;
    char text[ZT_TYPE_TEXT];
    zt_status status = read_lengths(import, &lengths);
    if (status != ZT_OK) return status;
    int64_t each = lengths.plain + lengths.value;
    zt_type whole = zt_type_make(tensor->type.dtype, 2, (int64_t[]){lengths.heads * each, lengths.latent});
    if (!values && !zt_type_equal(&tensor->type, &whole))
        return zt_fail(import->ctx, ZT_EDATA,
                       "%s: tensor '%s' is %s, expected %lld rows (%lld heads of %lld and %lld) of %lld columns", import->path,
                       tensor->name, zt_type_text(&tensor->type, text), (long long)whole.dim[0], (long long)lengths.heads,
                       (long long)lengths.plain, (long long)lengths.value, (long long)lengths.latent);
    tensor->each = each;
    tensor->skipped = values ? lengths.plain : 0;
    tensor->transposed = !values;
    tensor->type = values ? zt_type_make(whole.dtype, 3, (int64_t[]){lengths.heads, lengths.value, lengths.latent})
                          : zt_type_make(whole.dtype, 3, (int64_t[]){lengths.heads, lengths.latent, lengths.plain});
    return ZT_OK;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status set(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

static bool is_of(const hf_export *export, hf_set archs) { return archs & HF_SET(export->arch->id); }

static zt_status set_lengths(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"num_key_value_heads", hyper->n_heads}, {"qk_nope_head_dim", hyper->latent.plain},
                {"qk_rope_head_dim", hyper->rope_dims},  {"v_head_dim", hyper->latent.value},
                {"kv_lora_rank", hyper->latent.rank},    {"head_dim", hyper->rope_dims}};
    zt_status status = set(export, "q_lora_rank", hyper->latent.q_rank ? json_integer(hyper->latent.q_rank) : json_null());
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == ZT_OK; i++)
        status = set(export, rows[i].name, json_integer(rows[i].value));
    for (size_t i = 0; i < FIXED_NUMBERS && status == ZT_OK; i++)
        if (is_of(export, fixed_numbers[i].archs)) status = set(export, fixed_numbers[i].name, json_real(fixed_numbers[i].value));
    return status;
}

/* The method of the choice follows from the architecture and the groups; of the function that scores, whether GGUF says it. */
static zt_status set_choice(hf_export *export)
{
    bool v2 = export->arch->id == HF_DEEPSEEK2, mistral = export->arch->id == HF_MISTRAL4;
    int64_t gating = 0;
    if (!is_of(export, HF_DEEPSEEKS)) return ZT_OK;
    const char *method = !v2 ? "noaux_tc" : export->hyper.expert_groups > 1 ? "group_limited_greedy" : "greedy";
    zt_status status = mistral ? ZT_OK : set(export, "topk_method", json_string(method));
    if (status == ZT_OK && zt_export_int(export, "expert_gating_func", &gating) && gating != 0)
        status = set(export, "scoring_func", json_string(v2 || mistral ? "softmax" : "sigmoid"));
    if (status == ZT_OK && !v2 && !mistral)
        status = set(export, "num_nextn_predict_layers", json_integer(export->hyper.extra_layers));
    /* where GGUF's silence means other numbers than that of config.json */
    int64_t leading = 0;
    zt_export_int(export, "leading_dense_block_count", &leading);
    if (status == ZT_OK) status = set(export, "n_group", json_integer(export->hyper.expert_groups));
    if (status == ZT_OK) status = set(export, "topk_group", json_integer(export->hyper.groups_used));
    if (status == ZT_OK) status = set(export, "first_k_dense_replace", json_integer(leading));
    return status == ZT_OK ? set(export, "routed_scaling_factor", zt_export_number(export->hyper.expert_scale)) : status;
}

/* GLM lists its layers. */
static zt_status set_layer_types(hf_export *export)
{
    json_t *types = export->arch->id == HF_GLM4_LITE ? json_array() : NULL;
    if (export->arch->id != HF_GLM4_LITE) return ZT_OK;
    for (int64_t layer = 0; types && layer < export->hyper.n_layers; layer++)
        if (json_array_append_new(types, json_string(export->hyper.sparse[layer] ? "sparse" : "dense")) != 0) break;
    return set(export, "mlp_layer_types", types);
}

zt_status zt_export_latent(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    if (!is_of(export, HF_LATENTS)) return ZT_OK;
    const char *what = hyper->temperature != 0 && export->arch->id != HF_MISTRAL4        ? "queries that grow with their position"
                       : is_of(export, HF_DEEPSEEKS) && hyper->n_experts == 0            ? "no experts"
                       : export->arch->id == HF_DEEPSEEK2 && hyper->normed_experts       ? "normalized weights of experts"
                       : is_of(export, HF_SET(HF_MINICPM3)) && hyper->latent.q_rank == 0 ? "one matrix of queries"
                                                                                         : NULL;
    if (what)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: %s models with %s cannot be written", export->file, export->arch->type,
                       what);
    zt_status status = set_lengths(export);
    if (status == ZT_OK) status = set_choice(export);
    return status == ZT_OK ? set_layer_types(export) : status;
}
