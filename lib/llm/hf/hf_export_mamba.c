/* hf_export_mamba.c - short convolutions and state-space layers, written: config.json's lengths and kinds of layers, and what
 * tensors become (hf_mamba.c reads both). Falcon-H1's multipliers are in the matrices: those of config.json are 1.
 */
#include "lib/llm/hf/hf_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_of(const hf_export *export, hf_set archs) { return archs & HF_SET(export->arch->id); }

static zt_status set(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

typedef struct number_row {
    const char *name;
    int64_t value;
} number_row;

static zt_status set_numbers(hf_export *export, const number_row *rows, size_t count)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; i < count && status == ZT_OK; i++) status = set(export, rows[i].name, json_integer(rows[i].value));
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* The word of a layer's kind there. */
static const char *word_of(const hf_export *export, zt_layer_kind kind)
{
    if (is_of(export, HF_LFM2S)) return kind == ZT_LAYER_ATTENTION ? "full_attention" : "conv";
    return kind == ZT_LAYER_ATTENTION ? "attention" : "mamba";
}

static char letter_of(const hf_export *export, zt_layer_kind kind)
{
    const char fed = export->arch->id == HF_NEMOTRON_H_MOE ? 'E' : '-';
    return kind == ZT_LAYER_ATTENTION ? '*' : kind == ZT_LAYER_FEED_FORWARD ? fed : 'M';
}

/* Bamba: the numbers of the layers with attention, and half of each head rotates. */
static zt_status put_indices(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    json_t *list = json_array();
    if (2 * hyper->rope_dims != hyper->head || strcmp(hyper->rope.pair.s, "halves") != 0)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' %s cannot rotate %" PRId64 " of %" PRId64 " columns by %s",
                       export->file, export->arch->type, hyper->rope_dims, hyper->head, hyper->rope.pair.s);
    for (int64_t layer = 0; list && layer < hyper->n_layers; layer++)
        if (hyper->layer[layer].kind == ZT_LAYER_ATTENTION) json_array_append_new(list, json_integer(layer));
    zt_status status = set(export, "attn_layer_indices", list);
    return status == ZT_OK ? set(export, "attn_rotary_emb", json_integer(hyper->rope_dims)) : status;
}

/* The number that all layers of a kind have; 0: there is none. */
static zt_status put_alike(hf_export *export, const char *name, zt_layer_kind kind, bool heads)
{
    const zt_hyper *hyper = &export->hyper;
    int64_t found = 0;
    for (int64_t layer = 0; layer < hyper->n_layers; layer++) {
        const zt_layer_sizes *sizes = &hyper->layer[layer];
        int64_t value = heads ? sizes->n_kv_heads : sizes->ff;
        if (sizes->kind != kind) continue;
        if (found > 0 && value != found)
            return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' %s cannot have layers of different %s", export->file,
                           export->arch->type, name);
        found = value;
    }
    return found > 0 ? set(export, name, json_integer(found)) : ZT_OK;
}

static zt_status put_kinds(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    zt_status status = put_alike(export, "num_key_value_heads", ZT_LAYER_ATTENTION, true);
    if (status != ZT_OK) return status;
    if (export->arch->id == HF_BAMBA) return put_indices(export);
    if (is_of(export, HF_NEMOTRONS)) {
        char pattern[ZT_MAX_LAYERS + 1] = "";
        for (int64_t layer = 0; layer < hyper->n_layers; layer++) pattern[layer] = letter_of(export, hyper->layer[layer].kind);
        status = set(export, "hybrid_override_pattern", json_string(pattern));
        if (status != ZT_OK || export->arch->id == HF_NEMOTRON_H_MOE) return status;
        return put_alike(export, "intermediate_size", ZT_LAYER_FEED_FORWARD, false);
    }
    json_t *list = json_array();
    for (int64_t layer = 0; list && layer < hyper->n_layers; layer++)
        json_array_append_new(list, json_string(word_of(export, hyper->layer[layer].kind)));
    return set(export, "layer_types", list);
}

/* ---- config.json ----------------------------------------------------------------------------- */

static zt_status put_short_conv(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    const number_row rows[] = {{"conv_L_cache", hyper->mamba.filter}, {"conv_dim", hyper->width}},
                     lengths[] = {{"block_ff_dim", hyper->ff}, {"intermediate_size", hyper->ff}, {"block_multiple_of", 1}};
    zt_status status = set_numbers(export, rows, 2);
    if (status == ZT_OK) status = set(export, "norm_eps", zt_export_number(hyper->eps));
    if (status == ZT_OK) status = set(export, "tie_embedding", json_boolean(zt_gguf_find(export->gguf, "output.weight") < 0));
    if (status == ZT_OK && export->arch->id == HF_LFM2) status = set_numbers(export, lengths, 3);
    if (status == ZT_OK && export->arch->id == HF_LFM2) status = set(export, "block_auto_adjust_ff_dim", json_false());
    return status == ZT_OK ? put_kinds(export) : status;
}

static bool has_tensor(const hf_export *export, const char *end)
{
    zt_type type;
    for (int64_t i = 0; i < zt_gguf_n_tensors(export->gguf); i++) {
        const char *name = zt_gguf_tensor(export->gguf, i, &type, NULL, NULL);
        if (strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0) return true;
    }
    return false;
}

static zt_status put_plain(hf_export *export)
{
    const zt_mamba_sizes *sizes = &export->hyper.mamba;
    const bool first = export->arch->id == HF_MAMBA;
    if (sizes->inner % export->hyper.width)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' %s cannot have %" PRId64 " channels at a width of %" PRId64,
                       export->file, export->arch->type, sizes->inner, export->hyper.width);
    const number_row rows[] = {{"state_size", sizes->numbers},
                               {"conv_kernel", sizes->filter},
                               {"expand", sizes->inner / export->hyper.width},
                               {first ? "intermediate_size" : "num_heads", first ? sizes->inner : sizes->heads},
                               {first ? "time_step_rank" : "head_dim", first ? sizes->step_rank : sizes->inner / sizes->heads},
                               {"n_groups", sizes->groups}};
    zt_status status = set_numbers(export, rows, first ? 5 : 6);
    if (status == ZT_OK) status = set(export, "layer_norm_epsilon", zt_export_number(export->hyper.eps));
    if (status == ZT_OK) status = set(export, "use_conv_bias", json_boolean(has_tensor(export, ".ssm_conv1d.bias")));
    if (status == ZT_OK && !first) status = set(export, "rms_norm", json_true());
    if (status != ZT_OK || !sizes->normed) return status;
    status = set(export, "architectures", json_pack("[s]", "FalconMambaForCausalLM"));
    if (status == ZT_OK) status = set(export, "model_type", json_string("falcon_mamba"));
    return status == ZT_OK ? set(export, "mixer_rms_eps", json_real(1e-6)) : status;
}

static zt_status put_multipliers(hf_export *export)
{
    static const char *const names[] = {"embedding_multiplier",    "lm_head_multiplier",       "key_multiplier",
                                        "attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier",
                                        "ssm_out_multiplier"};
    zt_status status = set(export, "mlp_multipliers", json_pack("[ff]", 1.0, 1.0));
    if (status == ZT_OK) status = set(export, "ssm_multipliers", json_pack("[fffff]", 1.0, 1.0, 1.0, 1.0, 1.0));
    for (size_t i = 0; i < sizeof names / sizeof *names && status == ZT_OK; i++) status = set(export, names[i], json_real(1));
    if (status == ZT_OK) status = set(export, "mamba_rms_norm", json_boolean(has_tensor(export, ".ssm_norm.weight")));
    return status == ZT_OK ? set(export, "mamba_norm_before_gate", json_false()) : status;
}

static zt_status put_mixed(hf_export *export)
{
    const zt_mamba_sizes *sizes = &export->hyper.mamba;
    const bool nemotron = is_of(export, HF_NEMOTRONS), falcon = export->arch->id == HF_FALCON_H1;
    const int64_t head = sizes->inner / sizes->heads, width = export->hyper.width;
    const number_row mixed[] = {{"mamba_n_heads", sizes->heads},   {"mamba_d_head", head},
                                {"mamba_d_state", sizes->numbers}, {"mamba_d_conv", sizes->filter},
                                {"mamba_n_groups", sizes->groups}, {"mamba_expand", (sizes->inner + width - 1) / width},
                                {"mamba_d_ssm", sizes->inner}};
    const number_row others[] = {{"mamba_num_heads", sizes->heads},
                                 {"mamba_head_dim", head},
                                 {"ssm_state_size", sizes->numbers},
                                 {"conv_kernel", sizes->filter},
                                 {"n_groups", sizes->groups}};
    zt_status status = nemotron ? set_numbers(export, others, 5) : set_numbers(export, mixed, falcon ? 7 : 6);
    if (status == ZT_OK)
        status =
            set(export, nemotron ? "use_conv_bias" : "mamba_conv_bias", json_boolean(has_tensor(export, ".ssm_conv1d.bias")));
    if (status == ZT_OK && falcon) return put_multipliers(export);
    if (status == ZT_OK && is_of(export, HF_HYBRIDS)) status = set(export, "position_embedding_type", json_string("nope"));
    if (status == ZT_OK && nemotron) status = set(export, "layer_norm_epsilon", zt_export_number(export->hyper.eps));
    if (status == ZT_OK && export->arch->id == HF_GRANITE_HYBRID_DENSE) {
        const number_row dense[] = {
            {"shared_intermediate_size", export->hyper.ff}, {"num_local_experts", 0}, {"num_experts_per_tok", 0}};
        status = set_numbers(export, dense, 3);
        json_object_del(export->config, "num_experts");
    }
    return status == ZT_OK ? put_kinds(export) : status;
}

zt_status zt_export_mamba(hf_export *export)
{
    if (is_of(export, HF_LFM2S)) return put_short_conv(export);
    if (is_of(export, HF_MAMBAS)) return put_plain(export);
    if (is_of(export, HF_HYBRIDS) && export->hyper.rotated[0])
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: %s models that rotate cannot be written", export->file, export->arch->type);
    return is_of(export, HF_SCANS) ? put_mixed(export) : ZT_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

bool zt_export_mixer_type(const char *gguf, const zt_type *from, zt_type *out)
{
    const char *what = strncmp(gguf, "blk.", 4) == 0 ? strchr(gguf + 4, '.') + 1 : gguf;
    const bool plain = from->dtype == ZT_F32 || from->dtype == ZT_F16 || from->dtype == ZT_BF16;
    const zt_dtype dtype = plain ? from->dtype : ZT_F32;
    const bool decays = strcmp(what, "ssm_a") == 0;
    const int64_t count = zt_type_count(from);
    if (from->rank == 2 && strstr(what, "conv") && strstr(what, ".weight"))
        *out = zt_type_make(dtype, 3, (int64_t[]){from->dim[0], 1, from->dim[1]});
    else if ((decays || strcmp(what, "ssm_d") == 0) && from->rank == 2 && from->dim[1] == 1)
        *out = zt_type_make(dtype, 1, &count);
    else if (strcmp(what, "ssm_norm.weight") == 0)
        *out = zt_type_make(dtype, 1, &count);
    else if (decays)
        out->dtype = dtype;
    return decays;
}
