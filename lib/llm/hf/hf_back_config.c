/* hf_back_config.c - owns config.json as it is written: the keys of a GGUF by hf_config.c's tables,
 * layers of two kinds, and what an encoder says beside them. */
#include "lib/llm/hf/hf_back.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_of(const hf_export *export, unsigned set)
{
    return set & HF_SET(export->arch->id);
}

static zt_status set_member(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

static bool has_tensor(const hf_export *export, const char *tensor)
{
    return zt_gguf_find(export->gguf, tensor) >= 0;
}

/* The first of "a|b". */
static const char *first_of(const char *names, char separator, char word[64])
{
    snprintf(word, 64, "%.*s", (int)(strchr(names, separator) ? strchr(names, separator) - names : 63), names);
    return word;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* GPT-2's feed-forward is four times as wide where nothing is said. */
static bool goes_without(const hf_export *export, const hf_key *row)
{
    return export->arch->id == HF_GPT2 && strcmp(row->suffix, "feed_forward_length") == 0 &&
           export->hyper.ff == 4 * export->hyper.width;
}

static zt_status put_keys(hf_export *export)
{
    size_t count;
    const hf_key *keys = zt_hf_keys(&count);
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        const hf_key *row = &keys[i];
        char word[64];
        int64_t number;
        double real;
        bool gpt2_name = export->arch->id == HF_GPT2 && row->gpt2;
        const char *name = gpt2_name ? row->gpt2 : first_of(row->names, '|', word);
        if (row->otherwise[export->arch->id] < 0 || goes_without(export, row))
            continue;
        if (row->kind == 'u' && zt_export_int(export, row->suffix, &number))
            status = set_member(export, name, json_integer(number));
        else if (row->kind == 'f' && zt_export_real(export, row->suffix, &real))
            status = set_member(export, name, real == 0 ? json_null() : zt_export_number(real));
    }
    return status;
}

/* What the architecture means anyhow. */
static zt_status put_demands(hf_export *export)
{
    size_t count;
    const hf_demand *demands = zt_hf_demands(&count);
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        char name[64], word[64];
        if (!is_of(export, demands[i].archs))
            continue;
        first_of(demands[i].names, '|', name);
        first_of(demands[i].words + 1, ' ', word);
        bool flag = strcmp(word, "true") == 0 || strcmp(word, "false") == 0;
        status = set_member(export, name, flag ? json_boolean(word[0] == 't') : json_string(word));
    }
    return status;
}

/* ---- beside the tables ----------------------------------------------------------------------- */

static zt_status put_class(hf_export *export)
{
    zt_bytes name = {"", 0};
    zt_status status = set_member(export, "architectures", json_pack("[s]", export->arch->class));
    if (status == ZT_OK)
        status = set_member(export, "model_type", json_string(export->arch->type));
    if (status == ZT_OK)
        status = set_member(export, "torch_dtype",
                            json_string(export->dtype == ZT_F16    ? "float16"
                                        : export->dtype == ZT_BF16 ? "bfloat16"
                                                                   : "float32"));
    if (status == ZT_OK && zt_gguf_str(export->gguf, "general.name", &name) && name.n)
        status = zt_export_text(export, export->config, "_name_or_path", name);
    return status;
}

/* Sizes that tensors say, and biases that they are. */
static zt_status put_sizes(hf_export *export)
{
    zt_status status = set_member(export, "vocab_size", json_integer(export->hyper.vocab));
    if (status == ZT_OK && !export->hyper.arch->encoder)
        status = set_member(export, "tie_word_embeddings", json_boolean(!has_tensor(export, "output.weight")));
    if (status == ZT_OK && export->arch->id == HF_GPT2)
        status = set_member(export, "n_ctx", json_integer(export->hyper.ctx_train));
    if (status == ZT_OK && is_of(export, HF_LLAMA_LIKE))
        status = set_member(export, "attention_bias", json_boolean(has_tensor(export, "blk.0.attn_q.bias")));
    if (status == ZT_OK && is_of(export, HF_LLAMA_LIKE))
        status = set_member(export, "mlp_bias", json_boolean(has_tensor(export, "blk.0.ffn_up.bias")));
    return status;
}

/* Gemma scales attention by 1/sqrt(query_pre_attn_scalar). */
static zt_status put_gemma(hf_export *export)
{
    double scale = 0, scalar = 1 / (export->hyper.attn_scale * export->hyper.attn_scale), nearest = rint(scalar);
    if (!is_of(export, HF_GEMMAS))
        return ZT_OK;
    bool given = zt_export_real(export, "attention.scale", &scale) && scale > 0;
    if (!given || (float)(1 / sqrt(nearest)) == (float)scale)
        scalar = nearest;
    return set_member(export, "query_pre_attn_scalar",
                      scalar == nearest ? json_integer((json_int_t)nearest) : zt_export_number(scalar));
}

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status put_layer_types(hf_export *export)
{
    json_t *list = json_array();
    for (int64_t layer = 0; list && layer < export->hyper.n_layers; layer++)
        if (json_array_append_new(list, json_string(export->hyper.local[layer] ? "sliding_attention" : "full_attention")) != 0)
            break;
    return set_member(export, "layer_types", list);
}

/* A pattern of layers is a number or a list. Qwen wants its windows switched on. */
static zt_status put_windows(hf_export *export)
{
    int64_t window = 0, period;
    bool qwen = is_of(export, HF_SET(HF_QWEN2) | HF_SET(HF_QWEN3));
    char key[128];
    zt_gguf_kind kind;
    bool named = zt_export_int(export, "attention.sliding_window", &window) && window > 0;
    if (export->hyper.window > 0 && !is_of(export, HF_WINDOWED))
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: %s models with windows cannot be written", export->file, export->arch->type);
    if (!is_of(export, HF_WINDOWED))
        return ZT_OK;
    zt_status status = qwen ? set_member(export, "use_sliding_window", json_boolean(named)) : ZT_OK;
    if (status == ZT_OK && (named || export->arch->id == HF_PHI3))
        status = set_member(export, "sliding_window", named ? json_integer(window) : json_null());
    if (status != ZT_OK || !named)
        return status;
    if (zt_gguf_array(export->gguf, zt_export_key(export, "attention.sliding_window_pattern", key), &kind, &(int64_t){0}))
        return put_layer_types(export);
    return zt_export_int(export, "attention.sliding_window_pattern", &period)
               ? set_member(export, "sliding_window_pattern", json_integer(period))
               : ZT_OK;
}

/* SmolLM3: which layers rotate. */
static zt_status put_rope_layers(hf_export *export)
{
    int64_t period, count;
    char key[128];
    zt_gguf_kind kind;
    if (export->arch->id != HF_SMOLLM3)
        return ZT_OK;
    if (zt_export_int(export, "rope.layer_pattern", &period))
        return set_member(export, "no_rope_layer_interval", json_integer(period));
    if (!zt_gguf_array(export->gguf, zt_export_key(export, "rope.layer_pattern", key), &kind, &count))
        return ZT_OK;
    json_t *list = json_array();
    for (int64_t layer = 0; list && layer < export->hyper.n_layers; layer++)
        if (json_array_append_new(list, json_integer(export->hyper.rotated[layer])) != 0)
            break;
    return set_member(export, "no_rope_layers", list);
}

/* ---- encoders -------------------------------------------------------------------------------- */

/* As sentence-transformers says how states are pooled. */
static zt_status put_pooling(hf_export *export)
{
    int64_t type;
    if (!zt_export_int(export, "pooling_type", &type) || type < 1 || type > 3)
        return ZT_OK;
    size_t length = export->directory.len;
    zt_status status = zt_str_puts(&export->directory, "1_Pooling");
    if (status == ZT_OK && mkdir(export->directory.data, 0777) != 0)
        status = zt_fail(export->ctx, ZT_ECREATE, "%s: cannot be created", export->directory.data);
    export->directory.len = length;
    export->directory.data[length] = 0;
    json_t *pooling = json_pack("{sisbsbsb}", "word_embedding_dimension", (int)export->hyper.width, "pooling_mode_cls_token",
                                type == 2, "pooling_mode_mean_tokens", type == 1, "pooling_mode_lasttoken", type == 3);
    json_t *modules =
        json_pack("[{sissssss}{sissssss}]", "idx", 0, "name", "0", "path", "", "type",
                  "sentence_transformers.models.Transformer", "idx", 1, "name", "1", "path",
                  "1_Pooling", "type", "sentence_transformers.models.Pooling");
    if (status == ZT_OK)
        status = zt_export_json(export, "1_Pooling/config.json", pooling);
    if (status == ZT_OK)
        status = zt_export_json(export, "modules.json", modules);
    json_decref(pooling);
    json_decref(modules);
    return status;
}

static zt_status put_encoder(hf_export *export)
{
    if (!is_of(export, HF_BERTS))
        return ZT_OK;
    zt_status status = set_member(export, "type_vocab_size", json_integer(export->hyper.n_types));
    return status == ZT_OK ? put_pooling(export) : status;
}

zt_status zt_export_config(hf_export *export)
{
    static zt_status (*const step[])(hf_export *) = {put_class, put_keys,    put_demands,     put_sizes,
                                                     put_gemma, put_windows, put_rope_layers, put_encoder};
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof step / sizeof *step; i++)
        status = step[i](export);
    return status;
}
