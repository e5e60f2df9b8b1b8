/* hf_back_config.c - owns config.json as it is written: the keys of a GGUF by hf_config.c's tables,
 * layers of two kinds, and what an encoder says beside them. */
#include "lib/llm/hf/hf_back.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is(const hf_back *b, unsigned set)
{
    return set & HF_SET(b->arch->id);
}

static zt_status set(hf_back *b, const char *name, json_t *v)
{
    return zt_back_set(b, b->config, name, v);
}

static bool has(const hf_back *b, const char *tensor)
{
    return zt_gguf_find(b->g, tensor) >= 0;
}

/* The first of "a|b". */
static const char *first_of(const char *names, char sep, char word[64])
{
    snprintf(word, 64, "%.*s", (int)(strchr(names, sep) ? strchr(names, sep) - names : 63), names);
    return word;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* GPT-2's feed-forward is four times as wide where nothing is said. */
static bool goes_without(const hf_back *b, const hf_key *k)
{
    return b->arch->id == HF_GPT2 && strcmp(k->suffix, "feed_forward_length") == 0 &&
           b->h.ff == 4 * b->h.width;
}

static zt_status put_keys(hf_back *b)
{
    size_t n;
    const hf_key *keys = zt_hf_keys(&n);
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < n; i++) {
        const hf_key *k = &keys[i];
        char word[64];
        int64_t v;
        double x;
        bool own = b->arch->id == HF_GPT2 && k->gpt2;
        const char *name = own ? k->gpt2 : first_of(k->names, '|', word);
        if (k->otherwise[b->arch->id] < 0 || goes_without(b, k))
            continue;
        if (k->kind == 'u' && zt_back_int(b, k->suffix, &v))
            s = set(b, name, json_integer(v));
        else if (k->kind == 'f' && zt_back_real(b, k->suffix, &x))
            s = set(b, name, x == 0 ? json_null() : zt_back_number(x));
    }
    return s;
}

/* What the architecture means anyhow. */
static zt_status put_demands(hf_back *b)
{
    size_t n;
    const hf_demand *d = zt_hf_demands(&n);
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < n; i++) {
        char name[64], word[64];
        if (!is(b, d[i].archs))
            continue;
        first_of(d[i].names, '|', name);
        first_of(d[i].words + 1, ' ', word);
        bool flag = strcmp(word, "true") == 0 || strcmp(word, "false") == 0;
        s = set(b, name, flag ? json_boolean(word[0] == 't') : json_string(word));
    }
    return s;
}

/* ---- beside the tables ----------------------------------------------------------------------- */

static zt_status put_class(hf_back *b)
{
    zt_bytes name = {"", 0};
    zt_status s = set(b, "architectures", json_pack("[s]", b->arch->class));
    if (s == ZT_OK)
        s = set(b, "model_type", json_string(b->arch->type));
    if (s == ZT_OK)
        s = set(b, "torch_dtype",
                json_string(b->dtype == ZT_F16    ? "float16"
                            : b->dtype == ZT_BF16 ? "bfloat16"
                                                  : "float32"));
    if (s == ZT_OK && zt_gguf_str(b->g, "general.name", &name) && name.n)
        s = zt_back_text(b, b->config, "_name_or_path", name);
    return s;
}

/* Sizes that tensors say, and biases that they are. */
static zt_status put_sizes(hf_back *b)
{
    zt_status s = set(b, "vocab_size", json_integer(b->h.vocab));
    if (s == ZT_OK && !b->h.arch->encoder)
        s = set(b, "tie_word_embeddings", json_boolean(!has(b, "output.weight")));
    if (s == ZT_OK && b->arch->id == HF_GPT2)
        s = set(b, "n_ctx", json_integer(b->h.ctx_train));
    if (s == ZT_OK && is(b, HF_LLAMA_LIKE))
        s = set(b, "attention_bias", json_boolean(has(b, "blk.0.attn_q.bias")));
    if (s == ZT_OK && is(b, HF_LLAMA_LIKE))
        s = set(b, "mlp_bias", json_boolean(has(b, "blk.0.ffn_up.bias")));
    return s;
}

/* Gemma scales attention by 1/sqrt(query_pre_attn_scalar). */
static zt_status put_gemma(hf_back *b)
{
    double scale = 0, scalar = 1 / (b->h.attn_scale * b->h.attn_scale), near = rint(scalar);
    if (!is(b, HF_GEMMAS))
        return ZT_OK;
    bool said = zt_back_real(b, "attention.scale", &scale) && scale > 0;
    if (!said || (float)(1 / sqrt(near)) == (float)scale)
        scalar = near;
    return set(b, "query_pre_attn_scalar",
               scalar == near ? json_integer((json_int_t)near) : zt_back_number(scalar));
}

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status put_layer_types(hf_back *b)
{
    json_t *list = json_array();
    for (int64_t l = 0; list && l < b->h.n_layers; l++)
        if (json_array_append_new(
                list, json_string(b->h.local[l] ? "sliding_attention" : "full_attention")) != 0)
            break;
    return set(b, "layer_types", list);
}

/* A pattern of layers is a number or a list. Qwen wants its windows switched on. */
static zt_status put_windows(hf_back *b)
{
    int64_t window = 0, period;
    bool qwen = is(b, HF_SET(HF_QWEN2) | HF_SET(HF_QWEN3));
    char key[128];
    zt_gguf_kind kind;
    bool named = zt_back_int(b, "attention.sliding_window", &window) && window > 0;
    if (b->h.window > 0 && !is(b, HF_WINDOWED))
        return zt_fail(b->ctx, ZT_ENOTSUP, "%s: %s models with windows cannot be written", b->file,
                       b->arch->type);
    if (!is(b, HF_WINDOWED))
        return ZT_OK;
    zt_status s = qwen ? set(b, "use_sliding_window", json_boolean(named)) : ZT_OK;
    if (s == ZT_OK && (named || b->arch->id == HF_PHI3))
        s = set(b, "sliding_window", named ? json_integer(window) : json_null());
    if (s != ZT_OK || !named)
        return s;
    if (zt_gguf_array(b->g, zt_back_key(b, "attention.sliding_window_pattern", key), &kind,
                      &(int64_t){0}))
        return put_layer_types(b);
    return zt_back_int(b, "attention.sliding_window_pattern", &period)
               ? set(b, "sliding_window_pattern", json_integer(period))
               : ZT_OK;
}

/* SmolLM3: which layers rotate. */
static zt_status put_rope_layers(hf_back *b)
{
    int64_t period, n;
    char key[128];
    zt_gguf_kind kind;
    if (b->arch->id != HF_SMOLLM3)
        return ZT_OK;
    if (zt_back_int(b, "rope.layer_pattern", &period))
        return set(b, "no_rope_layer_interval", json_integer(period));
    if (!zt_gguf_array(b->g, zt_back_key(b, "rope.layer_pattern", key), &kind, &n))
        return ZT_OK;
    json_t *list = json_array();
    for (int64_t l = 0; list && l < b->h.n_layers; l++)
        if (json_array_append_new(list, json_integer(b->h.rotated[l])) != 0)
            break;
    return set(b, "no_rope_layers", list);
}

/* ---- encoders -------------------------------------------------------------------------------- */

/* As sentence-transformers says how states are pooled. */
static zt_status put_pooling(hf_back *b)
{
    int64_t type;
    if (!zt_back_int(b, "pooling_type", &type) || type < 1 || type > 3)
        return ZT_OK;
    size_t len = b->dir.len;
    zt_status s = zt_str_puts(&b->dir, "1_Pooling");
    if (s == ZT_OK && mkdir(b->dir.data, 0777) != 0)
        s = zt_fail(b->ctx, ZT_ECREATE, "%s: cannot be created", b->dir.data);
    b->dir.len = len;
    b->dir.data[len] = 0;
    json_t *pooling = json_pack("{sisbsbsb}", "word_embedding_dimension", (int)b->h.width,
                                "pooling_mode_cls_token", type == 2, "pooling_mode_mean_tokens",
                                type == 1, "pooling_mode_lasttoken", type == 3);
    json_t *modules =
        json_pack("[{sissssss}{sissssss}]", "idx", 0, "name", "0", "path", "", "type",
                  "sentence_transformers.models.Transformer", "idx", 1, "name", "1", "path",
                  "1_Pooling", "type", "sentence_transformers.models.Pooling");
    if (s == ZT_OK)
        s = zt_back_json(b, "1_Pooling/config.json", pooling);
    if (s == ZT_OK)
        s = zt_back_json(b, "modules.json", modules);
    json_decref(pooling);
    json_decref(modules);
    return s;
}

static zt_status put_encoder(hf_back *b)
{
    if (!is(b, HF_BERTS))
        return ZT_OK;
    zt_status s = set(b, "type_vocab_size", json_integer(b->h.n_types));
    return s == ZT_OK ? put_pooling(b) : s;
}

zt_status zt_back_config(hf_back *b)
{
    static zt_status (*const step[])(hf_back *) = {put_class,       put_keys,   put_demands,
                                                   put_sizes,       put_gemma,  put_windows,
                                                   put_rope_layers, put_encoder};
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < sizeof step / sizeof *step; i++)
        s = step[i](b);
    return s;
}
