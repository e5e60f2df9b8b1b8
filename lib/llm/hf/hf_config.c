/* hf_config.c - owns config.json: which architecture it describes, and its numbers as GGUF's keys.
 *
 * Names and meaning of keys: convert_hf_to_gguf.py of llama.cpp (conversion/), what holds where
 * config.json is silent: configuration_*.py of transformers; both as facts. Of a number we only ask
 * that it is one and fits its key: the reader of the keys (arch.c) checks what it means.
 */
#include "lib/llm/hf/hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

#define MAX_NAME 64

/* The first of "a|b" that the object has, and its name. */
static const json_t *get_in(const json_t *object, const char *names, char name[MAX_NAME])
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        snprintf(name, MAX_NAME, "%.*s", (int)n, p);
        const json_t *v = json_object_get(object, name);
        if (v)
            return v;
        p += n + (p[n] == '|');
    }
    return NULL;
}

static const json_t *find(const hf *m, const char *names, char name[MAX_NAME])
{
    const json_t *v = get_in(m->text, names, name);
    return v ? v : get_in(m->config, names, name);
}

const json_t *zt_hf_get(const hf *m, const char *names)
{
    char name[MAX_NAME];
    return find(m, names, name);
}

zt_status zt_hf_number(const hf *m, const json_t *v, const char *what, double *out)
{
    if (!v || json_is_null(v))
        return ZT_OK;
    if (!json_is_number(v))
        return zt_fail(m->ctx, ZT_EDATA, "%sconfig.json: '%s' is not a number", m->folder.data,
                       what);
    *out = json_number_value(v);
    return ZT_OK;
}

zt_status zt_hf_real(const hf *m, const char *names, double *out)
{
    char name[MAX_NAME];
    const json_t *v = find(m, names, name);
    return zt_hf_number(m, v, name, out);
}

zt_status zt_hf_int(const hf *m, const char *names, int64_t *out)
{
    char name[MAX_NAME];
    double d = (double)*out;
    zt_status s = zt_hf_number(m, find(m, names, name), name, &d);
    if (s == ZT_OK && !(d >= 0 && d <= UINT32_MAX && d == floor(d)))
        s = zt_fail(m->ctx, ZT_EDATA, "%sconfig.json: '%s' is %g, not a count below 2^32",
                    m->folder.data, name, d);
    if (s == ZT_OK)
        *out = (int64_t)d;
    return s;
}

bool zt_hf_is(const hf *m, unsigned set)
{
    return m->known && (set & HF_SET(m->arch.id));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const char *key_of(const hf *m, const char *suffix, char key[128])
{
    snprintf(key, 128, "%s.%s", m->arch.name, suffix);
    return key;
}

zt_status zt_hf_put_int(hf *m, const char *suffix, int64_t v)
{
    char key[128];
    return zt_gguf_put_int(m->w, key_of(m, suffix, key), ZT_GGUF_U32, v);
}

zt_status zt_hf_put_real(hf *m, const char *suffix, double v)
{
    char key[128];
    return zt_gguf_put_real(m->w, key_of(m, suffix, key), ZT_GGUF_F32, v);
}

zt_status zt_hf_put_flags(hf *m, const char *suffix, const uint8_t *flag, size_t n)
{
    char key[128];
    return zt_gguf_put_array(m->w, key_of(m, suffix, key), ZT_GGUF_BOOL, flag, (int64_t)n);
}

zt_status zt_hf_put_text(hf *m, const char *suffix, const char *text)
{
    char key[128];
    return zt_gguf_put_str(m->w, key_of(m, suffix, key), text, strlen(text));
}

/* ---- the architecture ------------------------------------------------------------------------ */

#define CAUSAL(name, type, id, class)                                                              \
    {name, type, id, class "ForCausalLM", "model.", "model.layers."}

static const hf_arch archs[] = {
    CAUSAL("llama", "llama", HF_LLAMA, "Llama"),
    CAUSAL("llama", "mistral", HF_MISTRAL, "Mistral"),
    CAUSAL("qwen2", "qwen2", HF_QWEN2, "Qwen2"),
    CAUSAL("qwen3", "qwen3", HF_QWEN3, "Qwen3"),
    CAUSAL("gemma2", "gemma2", HF_GEMMA2, "Gemma2"),
    CAUSAL("gemma3", "gemma3_text", HF_GEMMA3, "Gemma3"),
    CAUSAL("gemma3", "gemma3", HF_GEMMA3, "Gemma3"),
    CAUSAL("phi3", "phi3", HF_PHI3, "Phi3"),
    {"gpt2", "gpt2", HF_GPT2, "GPT2LMHeadModel", "transformer.", "transformer.h."},
    CAUSAL("smollm3", "smollm3", HF_SMOLLM3, "SmolLM3"),
    CAUSAL("olmo2", "olmo2", HF_OLMO2, "Olmo2"),
    CAUSAL("granite", "granite", HF_GRANITE, "Granite"),
    {"bert", "bert", HF_BERT, "BertModel", "", "encoder.layer."},
    {"nomic-bert", "nomic_bert", HF_NOMIC, "NomicBertModel", "", "encoder.layers."},
};

const hf_arch *zt_hf_archs(size_t *n)
{
    *n = sizeof archs / sizeof *archs;
    return archs;
}

/* An encoder in the dress of a language model has another name in GGUF. */
static bool is_bidirectional(const hf *m)
{
    return json_is_true(zt_hf_get(m, "use_bidirectional_attention"));
}

zt_status zt_hf_find_arch(hf *m)
{
    const json_t *type = json_object_get(m->text, "model_type");
    const char *name = json_string_value(type ? type : json_object_get(m->config, "model_type"));
    if (!name) /* the name of a class is better than none: it will be named as not supported */
        name = json_string_value(json_array_get(zt_hf_get(m, "architectures"), 0));
    if (!name || !*name) /* whoever needs one will miss the key */
        return ZT_OK;
    m->arch.name = name;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (strcmp(archs[i].type, name) == 0 && !is_bidirectional(m)) {
            m->arch = archs[i];
            m->known = true;
        }
    }
    return ZT_OK;
}

/* ---- numbers: a row a key, a column an architecture ------------------------------------------ */

#define NO  HF_NO
#define MAY HF_MAY

static const hf_key keys[] = {
    /* llama mistral qwen2 qwen3 gemma2 gemma3 phi3 gpt2 smollm3 olmo2 granite bert nomic */
    {"block_count",
     "num_hidden_layers|n_layer|n_layers|num_layers",
     'u',
     {32, 32, 32, 32, 26, 26, 32, 12, 36, 32, 32, 12, 12},
     "n_layer"},
    {"context_length", /* nomic-embed-text: the 2048 of training, not 8192 positions */
     "max_position_embeddings|max_trained_positions|n_positions|n_ctx|max_length|"
     "max_sequence_length",
     'u',
     {2048, 131072, 32768, 32768, 8192, 131072, 4096, 1024, 32768, 2048, 2048, 512, 2048},
     "n_positions"},
    {"embedding_length",
     "hidden_size|n_embd|dim",
     'u',
     {4096, 4096, 4096, 4096, 2304, 2304, 3072, 768, 2048, 4096, 4096, 768, 768},
     "n_embd"},
    {"feed_forward_length",
     "intermediate_size|n_inner|hidden_dim",
     'u',
     {11008, 14336, 22016, 22016, 9216, 9216, 8192, MAY, 11008, 11008, 11008, 3072, MAY},
     "n_inner"},
    {"attention.head_count",
     "num_attention_heads|n_head|n_heads",
     'u',
     {32, 32, 32, 32, 8, 8, 32, 12, 16, 32, 32, 12, 12},
     "n_head"},
    {"attention.head_count_kv",
     "num_key_value_heads|n_kv_heads|n_head_kv",
     'u',
     {MAY, 8, 32, 32, 4, 4, MAY, NO, 4, MAY, MAY, NO, NO}, NULL},
    {"attention.key_length",
     "head_dim",
     'u',
     {MAY, MAY, MAY, 128, 256, 256, MAY, NO, MAY, MAY, NO, NO, NO}, NULL},
    {"attention.value_length",
     "head_dim",
     'u',
     {MAY, MAY, MAY, 128, 256, 256, MAY, NO, MAY, MAY, NO, NO, NO}, NULL},
    {"attention.layer_norm_rms_epsilon",
     "rms_norm_eps|norm_eps",
     'f',
     {1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-5, NO, 1e-6, 1e-5, 1e-6, NO, NO}, NULL},
    {"attention.layer_norm_epsilon",
     "layer_norm_eps|layer_norm_epsilon|norm_epsilon",
     'f',
     {NO, NO, NO, NO, NO, NO, NO, 1e-5, NO, NO, NO, 1e-12, 1e-12},
     "layer_norm_epsilon"},
    {"attn_logit_softcapping",
     "attn_logit_softcapping",
     'f',
     {NO, NO, NO, NO, 50, MAY, NO, NO, NO, NO, NO, NO, NO}, NULL},
    {"final_logit_softcapping",
     "final_logit_softcapping",
     'f',
     {NO, NO, NO, NO, 30, MAY, NO, NO, NO, NO, NO, NO, NO}, NULL},
    {"attention.scale",
     "attention_multiplier",
     'f',
     {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 1, NO, NO}, NULL},
    {"embedding_scale",
     "embedding_multiplier",
     'f',
     {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 1, NO, NO}, NULL},
    {"residual_scale",
     "residual_multiplier",
     'f',
     {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 1, NO, NO}, NULL},
    {"logit_scale",
     "logits_scaling",
     'f',
     {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 1, NO, NO}, NULL},
    {"vocab_size",
     "vocab_size",
     'u',
     {MAY, MAY, NO, NO, NO, NO, NO, NO, MAY, NO, MAY, NO, NO}, NULL},
};

const hf_key *zt_hf_keys(size_t *n)
{
    *n = sizeof keys / sizeof *keys;
    return keys;
}

/* What config.json says, or what holds where it is silent; NAN: neither. Null is not silence: it
 * switches off what would hold. */
static zt_status value_of(const hf *m, const hf_key *k, double *out)
{
    const json_t *given = zt_hf_get(m, k->names);
    double otherwise = k->otherwise[m->arch.id];
    int64_t n = 0;
    *out = !given && otherwise > 0 ? otherwise : NAN;
    if (json_is_null(given) && k->kind == 'f' && otherwise > 0)
        *out = 0; /* whose meaning is none, where GGUF's silence means a number (gemma2's caps) */
    if (!given || json_is_null(given) || otherwise < 0)
        return ZT_OK;
    zt_status s = k->kind == 'u' ? zt_hf_int(m, k->names, &n) : zt_hf_real(m, k->names, out);
    if (k->kind == 'u')
        *out = (double)n;
    return s;
}

zt_status zt_hf_value(const hf *m, const char *suffix, double *out)
{
    double v = NAN;
    zt_status s = ZT_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].suffix, suffix) == 0)
            s = value_of(m, &keys[i], &v);
    if (s == ZT_OK && !isnan(v))
        *out = v;
    return s;
}

/* Of these transformers says the head's length where config.json does not, and so the converter. */
static zt_status head_of(const hf *m, double *v)
{
    double width = 0, heads = 0;
    zt_status s = zt_hf_value(m, "embedding_length", &width);
    if (s == ZT_OK)
        s = zt_hf_value(m, "attention.head_count", &heads);
    if (s == ZT_OK && heads >= 1 && width >= heads)
        *v = floor(width / heads);
    return s;
}

static zt_status put_key(hf *m, const hf_key *k)
{
    double v;
    zt_status s = value_of(m, k, &v);
    if (s == ZT_OK && isnan(v) && strcmp(k->names, "head_dim") == 0 &&
        zt_hf_is(m, HF_SET(HF_LLAMA) | HF_SET(HF_MISTRAL)))
        s = head_of(m, &v);
    if (s != ZT_OK || isnan(v))
        return s;
    return k->kind == 'u' ? zt_hf_put_int(m, k->suffix, (int64_t)v)
                          : zt_hf_put_real(m, k->suffix, v);
}

/* ---- what the tables cannot say -------------------------------------------------------------- */

/* Where it is not said, four times the width. */
static zt_status put_feed_forward(hf *m)
{
    double width = 0, n = NAN;
    zt_status s = zt_hf_value(m, "embedding_length", &width);
    if (s == ZT_OK)
        s = zt_hf_value(m, "feed_forward_length", &n);
    return s == ZT_OK && isnan(n) ? zt_hf_put_int(m, "feed_forward_length", 4 * (int64_t)width) : s;
}

/* Gemma's attention scale is 1/sqrt(query_pre_attn_scalar). GGUF's key is for what is not the
 * head's length, which the architecture means anyhow. */
static zt_status put_gemma_scale(hf *m)
{
    double scalar = 256, head = 0;
    zt_status s = zt_hf_real(m, "query_pre_attn_scalar", &scalar);
    if (s == ZT_OK)
        s = zt_hf_value(m, "attention.key_length", &head);
    if (s != ZT_OK || !(scalar > 0) || scalar == head)
        return s;
    return zt_hf_put_real(m, "attention.scale", 1 / sqrt(scalar));
}

/* ---- what must be so ------------------------------------------------------------------------- */

/* The first word is the one that is written. */
static const hf_demand demands[] = {
    {"hidden_act|hidden_activation", " silu swish ", HF_LLAMA_LIKE & ~HF_GEMMAS},
    {"hidden_activation|hidden_act", " gelu_pytorch_tanh gelu ", HF_GEMMAS},
    {"activation_function", " gelu_new gelu_pytorch_tanh ", HF_SET(HF_GPT2)},
    {"hidden_act", " gelu ", HF_SET(HF_BERT)},
    {"activation_function", " swiglu ", HF_SET(HF_NOMIC)},
    {"position_embedding_type", " absolute ", HF_SET(HF_BERT)},
    {"is_decoder", " false ", HF_SET(HF_BERT)},
    {"scale_attn_by_inverse_layer_idx", " false ", HF_SET(HF_GPT2)},
    {"scale_attn_weights", " true ", HF_SET(HF_GPT2)},
    {"prenorm", " false ", HF_SET(HF_NOMIC)},
    {"causal", " false ", HF_SET(HF_NOMIC)},
    {"rotary_emb_interleaved", " false ", HF_SET(HF_NOMIC)},
};

const hf_demand *zt_hf_demands(size_t *n)
{
    *n = sizeof demands / sizeof *demands;
    return demands;
}

static zt_status check_demands(const hf *m)
{
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++) {
        const hf_demand *d = &demands[i];
        char name[MAX_NAME];
        const json_t *v = zt_hf_is(m, d->archs) ? find(m, d->names, name) : NULL;
        if (!v || json_is_null(v))
            continue;
        const char *word =
            json_is_boolean(v) ? json_is_true(v) ? "true" : "false" : json_string_value(v);
        char is[80], text[64];
        snprintf(is, sizeof is, " %.60s ", word ? word : "?");
        if (!strstr(d->words, is))
            return zt_fail(m->ctx, ZT_ENOTSUP,
                           "%sconfig.json: %s models with %s '%s' are not supported",
                           m->folder.data, m->arch.name, name,
                           zt_escape(text, sizeof text, is + 1, strlen(is) - 2));
    }
    if (json_is_object(zt_hf_get(m, "quantization_config")))
        return zt_fail(m->ctx, ZT_ENOTSUP,
                       "%sconfig.json: weights with a quantization_config are not supported",
                       m->folder.data);
    return ZT_OK;
}

/* ---- pooling of encoders (sentence-transformers' modules.json) ------------------------------- */

/* The folder of the module that pools, or NULL. */
static const char *pooling_folder(const json_t *modules)
{
    size_t i;
    json_t *module;
    json_array_foreach(modules, i, module)
    {
        const char *type = json_string_value(json_object_get(module, "type"));
        const char *path = json_string_value(json_object_get(module, "path"));
        size_t n = type ? strlen(type) : 0;
        if (n >= 8 && strcmp(type + n - 8, ".Pooling") == 0 && path && *path && *path != '.' &&
            !strpbrk(path, "/\\"))
            return path;
    }
    return NULL;
}

static zt_status put_pooling(hf *m)
{
    static const struct {
        const char *name;
        int64_t type; /* llama.h's enum */
    } modes[] = {{"pooling_mode_mean_tokens", 1},
                 {"pooling_mode_cls_token", 2},
                 {"pooling_mode_lasttoken", 3}};
    char file[300];
    zt_status s = ZT_OK;
    json_t *modules = zt_hf_load(m, "modules.json", &s);
    const char *folder = pooling_folder(modules);
    snprintf(file, sizeof file, "%s/config.json", folder ? folder : "");
    json_t *pooling = s == ZT_OK && folder && strlen(folder) < 256 ? zt_hf_load(m, file, &s) : NULL;
    for (size_t i = 0; s == ZT_OK && i < sizeof modes / sizeof *modes; i++) {
        if (json_is_true(json_object_get(pooling, modes[i].name))) {
            s = zt_hf_put_int(m, "pooling_type", modes[i].type);
            break;
        }
    }
    json_decref(pooling);
    json_decref(modules);
    return s;
}

static zt_status put_encoder(hf *m)
{
    char key[128];
    int64_t types = 2;
    zt_gguf_put_int(m->w, key_of(m, "attention.causal", key), ZT_GGUF_BOOL, 0);
    zt_status s = zt_hf_int(m, "type_vocab_size", &types);
    if (s == ZT_OK)
        s = zt_gguf_put_int(m->w, "tokenizer.ggml.token_type_count", ZT_GGUF_U32, types);
    return s == ZT_OK ? put_pooling(m) : s;
}

/* ---- all ------------------------------------------------------------------------------------- */

zt_status zt_hf_put_config(hf *m)
{
    zt_status s = check_demands(m);
    for (size_t i = 0; s == ZT_OK && i < sizeof keys / sizeof *keys; i++)
        s = put_key(m, &keys[i]);
    if (s == ZT_OK)
        s = put_feed_forward(m);
    if (s == ZT_OK && zt_hf_is(m, HF_GEMMAS))
        s = put_gemma_scale(m);
    if (s == ZT_OK)
        s = zt_hf_put_layers(m);
    return s == ZT_OK && zt_hf_is(m, HF_BERTS) ? put_encoder(m) : s;
}
