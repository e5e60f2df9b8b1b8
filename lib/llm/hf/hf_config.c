/* hf_config.c - config.json: which architecture it describes, its numbers as GGUF's keys by the table of hf_keys.c.
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
    for (const char *candidate = names; *candidate;) {
        size_t length = strcspn(candidate, "|");
        snprintf(name, MAX_NAME, "%.*s", (int)length, candidate);
        const json_t *value = json_object_get(object, name);
        if (value) return value;
        candidate += length + (candidate[length] == '|');
    }
    return NULL;
}

static const json_t *find_value(const hf_import *import, const char *names, char name[MAX_NAME])
{
    const json_t *value = get_in(import->text, names, name);
    return value ? value : get_in(import->config, names, name);
}

const json_t *zt_hf_get(const hf_import *import, const char *names)
{
    char name[MAX_NAME];
    return find_value(import, names, name);
}

zt_status zt_hf_number(const hf_import *import, const json_t *value, const char *what, double *out)
{
    if (!value || json_is_null(value)) return ZT_OK;
    if (!json_is_number(value))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: '%s' is not a number", import->folder.data, what);
    *out = json_number_value(value);
    return ZT_OK;
}

zt_status zt_hf_real(const hf_import *import, const char *names, double *out)
{
    char name[MAX_NAME];
    const json_t *value = find_value(import, names, name);
    return zt_hf_number(import, value, name, out);
}

zt_status zt_hf_int(const hf_import *import, const char *names, int64_t *out)
{
    char name[MAX_NAME];
    double number = (double)*out;
    zt_status status = zt_hf_number(import, find_value(import, names, name), name, &number);
    if (status == ZT_OK && !(number >= 0 && number <= UINT32_MAX && number == floor(number)))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: '%s' is %g, expected an integer from 0 to 4294967295",
                         import->folder.data, name, number);
    if (status == ZT_OK) *out = (int64_t)number;
    return status;
}

bool zt_hf_is(const hf_import *import, hf_set set) { return import->known && (set & HF_SET(import->arch.id)); }

/* ---- keys ------------------------------------------------------------------------------------ */

static const char *full_key(const hf_import *import, const char *suffix, char key[128])
{
    snprintf(key, 128, "%s.%s", import->arch.name, suffix);
    return key;
}

zt_status zt_hf_put_int(hf_import *import, const char *suffix, int64_t value)
{
    char key[128];
    if (value < 0 || value > UINT32_MAX)
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: '%s' would be %lld, expected an integer from 0 to 4294967295",
                       import->folder.data, suffix, (long long)value);
    return zt_gguf_put_int(import->writer, full_key(import, suffix, key), ZT_GGUF_U32, value);
}

zt_status zt_hf_put_real(hf_import *import, const char *suffix, double value)
{
    char key[128];
    return zt_gguf_put_real(import->writer, full_key(import, suffix, key), ZT_GGUF_F32, value);
}

zt_status zt_hf_put_ints(hf_import *import, const char *suffix, const int32_t *number, size_t count)
{
    char key[128];
    return zt_gguf_put_array(import->writer, full_key(import, suffix, key), ZT_GGUF_I32, number, (int64_t)count);
}

zt_status zt_hf_put_reals(hf_import *import, const char *suffix, const float *number, size_t count)
{
    char key[128];
    return zt_gguf_put_array(import->writer, full_key(import, suffix, key), ZT_GGUF_F32, number, (int64_t)count);
}

zt_status zt_hf_put_flags(hf_import *import, const char *suffix, const uint8_t *flag, size_t count)
{
    char key[128];
    return zt_gguf_put_array(import->writer, full_key(import, suffix, key), ZT_GGUF_BOOL, flag, (int64_t)count);
}

zt_status zt_hf_put_text(hf_import *import, const char *suffix, const char *text)
{
    char key[128];
    return zt_gguf_put_str(import->writer, full_key(import, suffix, key), text, strlen(text));
}

/* ---- the architecture ------------------------------------------------------------------------ */

#define CAUSAL(name, type, id, class)                                                                                            \
    {                                                                                                                            \
        name, type, id, class "ForCausalLM", "model.", "model.layers.", HF_NEEDS_NOTHING                                         \
    }
/* The same with a need. */
#define CAUSAL_IF(need, name, type, id, class)                                                                                   \
    {                                                                                                                            \
        name, type, id, class "ForCausalLM", "model.", "model.layers.", need                                                     \
    }

static const hf_arch archs[] = {
    CAUSAL("llama", "llama", HF_LLAMA, "Llama"),
    CAUSAL_IF(HF_NEEDS_WINDOW, "llama", "mistral", HF_MISTRAL, "Mistral"),
    CAUSAL_IF(HF_NEEDS_EXPERTS, "llama", "mixtral", HF_MIXTRAL, "Mixtral"),
    CAUSAL("qwen2", "qwen2", HF_QWEN2, "Qwen2"),
    CAUSAL("qwen3", "qwen3", HF_QWEN3, "Qwen3"),
    CAUSAL("gemma2", "gemma2", HF_GEMMA2, "Gemma2"),
    CAUSAL("gemma3", "gemma3_text", HF_GEMMA3, "Gemma3"),
    CAUSAL("gemma3", "gemma3", HF_GEMMA3, "Gemma3"),
    {"gemma-embedding", "gemma3_text", HF_GEMMA_EMBEDDING, "Gemma3TextModel", "", "layers.", HF_NEEDS_NOTHING},
    CAUSAL("gemma3n", "gemma3n_text", HF_GEMMA3N, "Gemma3n"),
    CAUSAL("gemma3n", "gemma3n", HF_GEMMA3N, "Gemma3n"),
    CAUSAL("gemma4", "gemma4_text", HF_GEMMA4, "Gemma4"),
    CAUSAL("gemma4", "gemma4", HF_GEMMA4, "Gemma4"),
    CAUSAL("phi3", "phi3", HF_PHI3, "Phi3"),
    {"gpt2", "gpt2", HF_GPT2, "GPT2LMHeadModel", "transformer.", "transformer.h.", HF_NEEDS_NOTHING},
    CAUSAL("smollm3", "smollm3", HF_SMOLLM3, "SmolLM3"),
    CAUSAL("olmo2", "olmo2", HF_OLMO2, "Olmo2"),
    CAUSAL_IF(HF_NEEDS_WINDOW, "olmo2", "olmo3", HF_OLMO3, "Olmo3"),
    CAUSAL("granite", "granite", HF_GRANITE, "Granite"),
    CAUSAL("qwen2moe", "qwen2_moe", HF_QWEN2MOE, "Qwen2Moe"),
    CAUSAL("qwen3moe", "qwen3_moe", HF_QWEN3MOE, "Qwen3Moe"),
    CAUSAL("qwen3next", "qwen3_next", HF_QWEN3NEXT, "Qwen3Next"),
    CAUSAL("qwen35", "qwen3_5_text", HF_QWEN35, "Qwen3_5"),
    CAUSAL("qwen35", "qwen3_5", HF_QWEN35, "Qwen3_5"),
    CAUSAL("qwen35moe", "qwen3_5_moe_text", HF_QWEN35MOE, "Qwen3_5Moe"),
    CAUSAL("qwen35moe", "qwen3_5_moe", HF_QWEN35MOE, "Qwen3_5Moe"),
    CAUSAL("lfm2", "lfm2", HF_LFM2, "Lfm2"),
    CAUSAL("lfm2moe", "lfm2_moe", HF_LFM2MOE, "Lfm2Moe"),
    {"mamba", "mamba", HF_MAMBA, "MambaForCausalLM", "backbone.", "backbone.layers.", HF_NEEDS_NOTHING},
    {"mamba", "falcon_mamba", HF_MAMBA, "FalconMambaForCausalLM", "backbone.", "backbone.layers.", HF_NEEDS_NOTHING},
    {"mamba2", "mamba2", HF_MAMBA2, "Mamba2ForCausalLM", "backbone.", "backbone.layers.", HF_NEEDS_NOTHING},
    CAUSAL("rwkv7", "rwkv7", HF_RWKV7, "RWKV7"),
    CAUSAL("arwkv7", "rwkv_hybrid", HF_ARWKV7, "RwkvHybrid"),
    CAUSAL("falcon-h1", "falcon_h1", HF_FALCON_H1, "FalconH1"),
    CAUSAL("granitehybrid", "granitemoehybrid", HF_GRANITE_HYBRID_DENSE, "GraniteMoeHybrid"),
    CAUSAL_IF(HF_NEEDS_EXPERTS, "granitehybrid", "granitemoehybrid", HF_GRANITE_HYBRID, "GraniteMoeHybrid"),
    CAUSAL_IF(HF_NEEDS_ROPE_PAIR, "granitehybrid", "bamba", HF_BAMBA, "Bamba"),
    {"nemotron_h_moe", "nemotron_h", HF_NEMOTRON_H_MOE, "NemotronHForCausalLM", "backbone.", "backbone.layers.",
     HF_NEEDS_NOTHING},
    {"nemotron_h", "nemotron_h", HF_NEMOTRON_H, "NemotronHForCausalLM", "backbone.", "backbone.layers.", HF_NEEDS_NOTHING},
    CAUSAL("llama4", "llama4_text", HF_LLAMA4, "Llama4"),
    CAUSAL("llama4", "llama4", HF_LLAMA4, "Llama4"),
    CAUSAL("olmoe", "olmoe", HF_OLMOE, "Olmoe"),
    CAUSAL("granitemoe", "granitemoe", HF_GRANITEMOE, "GraniteMoe"),
    CAUSAL_IF(HF_NEEDS_SHARED_EXPERTS, "granitemoe", "granitemoeshared", HF_GRANITEMOE, "GraniteMoeShared"),
    CAUSAL("phimoe", "phimoe", HF_PHIMOE, "Phimoe"),
    CAUSAL("ernie4_5-moe", "ernie4_5_moe", HF_ERNIE_MOE, "Ernie4_5_Moe"),
    CAUSAL("glm4moe", "glm4_moe", HF_GLM4MOE, "Glm4Moe"),
    CAUSAL("gpt-oss", "gpt_oss", HF_GPT_OSS, "GptOss"),
    CAUSAL("command-r", "cohere", HF_COHERE, "Cohere"),
    CAUSAL("cohere2", "cohere2", HF_COHERE2, "Cohere2"),
    CAUSAL("stablelm", "stablelm", HF_STABLELM, "StableLm"),
    CAUSAL("stablelm", "stablelm_epoch", HF_STABLELM, "StableLm"),
    CAUSAL("starcoder2", "starcoder2", HF_STARCODER2, "Starcoder2"),
    {"gptneox", "gpt_neox", HF_NEOX, "GPTNeoXForCausalLM", "gpt_neox.", "gpt_neox.layers.", HF_NEEDS_NOTHING},
    {"falcon", "falcon", HF_FALCON, "FalconForCausalLM", "transformer.", "transformer.h.", HF_NEEDS_NOTHING},
    {"falcon", "falcon", HF_FALCON_TWO, "FalconForCausalLM", "transformer.", "transformer.h.", HF_NEEDS_SECOND_NORM},
    CAUSAL("phi2", "phi", HF_PHI2, "Phi"),
    {"exaone", "exaone", HF_EXAONE, "ExaoneForCausalLM", "transformer.", "transformer.h.", HF_NEEDS_NOTHING},
    CAUSAL("exaone4", "exaone4", HF_EXAONE4, "Exaone4"),
    CAUSAL("glm4", "glm4", HF_GLM4, "Glm4"),
    CAUSAL("seed_oss", "seed_oss", HF_SEED_OSS, "SeedOss"),
    CAUSAL("hunyuan-dense", "hunyuan_v1_dense", HF_HUNYUAN, "HunYuanDenseV1"),
    CAUSAL("internlm2", "internlm2", HF_INTERNLM2, "InternLM2"),
    CAUSAL("baichuan", "baichuan", HF_BAICHUAN, "Baichuan"),
    CAUSAL("minicpm", "minicpm", HF_MINICPM, "MiniCPM"),
    CAUSAL("apertus", "apertus", HF_APERTUS, "Apertus"),
    CAUSAL("mistral3", "ministral3", HF_MINISTRAL3, "Ministral3"),
    CAUSAL("deepseek2", "deepseek_v2", HF_DEEPSEEK2, "DeepseekV2"),
    CAUSAL_IF(HF_NEEDS_CHOICE_BIAS, "deepseek2", "deepseek_v3", HF_DEEPSEEK3, "DeepseekV3"),
    CAUSAL("deepseek32", "deepseek_v32", HF_DEEPSEEK32, "DeepseekV32"),
    CAUSAL_IF(HF_NEEDS_CHOICE_BIAS, "deepseek2", "kimi_k2", HF_DEEPSEEK3, "DeepseekV3"),
    CAUSAL_IF(HF_NEEDS_GLM_TOKENS, "deepseek2", "glm4_moe_lite", HF_GLM4_LITE, "Glm4MoeLite"),
    CAUSAL_IF(HF_NEEDS_NO_EXPERTS, "deepseek2", "youtu", HF_YOUTU, "Youtu"),
    CAUSAL("mistral4", "mistral4", HF_MISTRAL4, "Mistral4"),
    CAUSAL("minicpm3", "minicpm3", HF_MINICPM3, "MiniCPM3"),
    {"mpt", "mpt", HF_MPT, "MptForCausalLM", "transformer.", "transformer.blocks.", HF_NEEDS_NOTHING},
    {"bert", "bert", HF_BERT, "BertModel", "", "encoder.layer.", HF_NEEDS_NOTHING},
    {"jina-bert-v2", "bert", HF_JINA, "JinaBertModel", "", "encoder.layer.", HF_NEEDS_NOTHING},
    {"t5encoder", "t5", HF_T5, "T5EncoderModel", "encoder.", "encoder.block.", HF_NEEDS_NOTHING},
    {"t5encoder", "t5", HF_T5_GATED, "T5EncoderModel", "encoder.", "encoder.block.", HF_NEEDS_GATE},
    {"modern-bert", "modernbert", HF_MODERNBERT, "ModernBertModel", "", "layers.", HF_NEEDS_NOTHING},
    {"nomic-bert", "nomic_bert", HF_NOMIC, "NomicBertModel", "", "encoder.layers.", HF_NEEDS_NOTHING},
};

const hf_arch *zt_hf_archs(size_t *count)
{
    *count = sizeof archs / sizeof *archs;
    return archs;
}

/* An encoder in the dress of a language model has another name in GGUF. */
static bool is_bidirectional(const hf_import *import) { return json_is_true(zt_hf_get(import, "use_bidirectional_attention")); }

/* T5 without its decoder, with a gate or not. */
static bool is_encoder_alone(const hf_import *import, bool gated)
{
    const char *curve = json_string_value(zt_hf_get(import, "feed_forward_proj"));
    const char *class = json_string_value(json_array_get(json_object_get(import->config, "architectures"), 0));
    return class && strcmp(class, "T5EncoderModel") == 0 && gated == (curve && strncmp(curve, "gated-", 6) == 0);
}

/* A BERT of Jina's. */
static bool has_linear_biases(const hf_import *import)
{
    const char *type = json_string_value(zt_hf_get(import, "position_embedding_type"));
    return type && strcmp(type, "alibi") == 0;
}

/* Falcon with a norm for attention and one for the feed-forward. */
static bool has_second_norm(const hf_import *import)
{
    const json_t *norms = zt_hf_get(import, "num_ln_in_parallel_attn");
    return json_is_true(zt_hf_get(import, "new_decoder_architecture")) &&
           (json_is_integer(norms) ? json_integer_value(norms) == 2 : true);
}

/* Does a layer of Nemotron-H have experts, by a letter or a word? */
static bool has_expert_layers(const hf_import *import)
{
    const json_t *kinds = zt_hf_get(import, "hybrid_override_pattern|layers_block_type|layer_types");
    const char *letters = json_string_value(kinds);
    if (letters) return strchr(letters, 'E') != NULL;
    for (size_t i = 0; i < json_array_size(kinds); i++) {
        const char *word = json_string_value(json_array_get(kinds, i));
        if (word && strcmp(word, "moe") == 0) return true;
    }
    return false;
}

zt_status zt_hf_find_arch(hf_import *import)
{
    const json_t *type = json_object_get(import->text, "model_type");
    const char *name = json_string_value(type ? type : json_object_get(import->config, "model_type"));
    if (!name) /* the name of a class is better than none: it will be named as not supported */
        name = json_string_value(json_array_get(zt_hf_get(import, "architectures"), 0));
    if (!name || !*name) /* whoever needs one will miss the key */
        return ZT_OK;
    /* Mistral Small with eyes holds a text model of Mistral's, which the converter names by the whole */
    const char *whole = json_string_value(json_object_get(import->config, "model_type"));
    if (whole && strcmp(whole, "mistral3") == 0 && strcmp(name, "mistral") == 0) name = "ministral3";
    import->arch.name = name;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        bool fits = archs[i].need == HF_NEEDS_SECOND_NORM ? has_second_norm(import)
                    : archs[i].id == HF_JINA              ? has_linear_biases(import)
                    : HF_SET(archs[i].id) & HF_T5S        ? is_encoder_alone(import, archs[i].id == HF_T5_GATED)
                    : HF_SET(archs[i].id) & HF_NEMOTRONS  ? has_expert_layers(import) == (archs[i].id == HF_NEMOTRON_H_MOE)
                    : archs[i].id == HF_GRANITE_HYBRID    ? json_integer_value(zt_hf_get(import, "num_local_experts")) > 0
                                                          : true;
        if (strcmp(archs[i].type, name) == 0 && is_bidirectional(import) == (archs[i].id == HF_GEMMA_EMBEDDING) && fits) {
            import->arch = archs[i];
            import->known = true;
        }
    }
    return ZT_OK;
}

/* ---- numbers ---------------------------------------------------------------------------------- */

/* What config.json says, or what holds where it is silent; NAN: neither. Null is not silence: it
 * switches off what would hold. */
static zt_status read_value(const hf_import *import, const hf_key *row, double *out)
{
    const json_t *given = zt_hf_get(import, row->names);
    double otherwise = zt_hf_otherwise(row, import->arch.id);
    int64_t number = 0;
    *out = !given && otherwise > 0 ? otherwise : NAN;
    if (json_is_null(given) && row->kind == 'f' && otherwise > 0)
        *out = 0; /* whose meaning is none, where GGUF's silence means a number (gemma2's caps) */
    if (!given || json_is_null(given) || otherwise == HF_NO) return ZT_OK;
    zt_status status = row->kind == 'u' ? zt_hf_int(import, row->names, &number) : zt_hf_real(import, row->names, out);
    if (row->kind == 'u') *out = (double)number;
    return status;
}

zt_status zt_hf_value(const hf_import *import, const char *suffix, double *out)
{
    double number = NAN;
    zt_status status = ZT_OK;
    size_t count;
    const hf_key *keys = zt_hf_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].suffix, suffix) == 0 && zt_hf_otherwise(&keys[i], import->arch.id) != HF_NO)
            status = read_value(import, &keys[i], &number);
    if (status == ZT_OK && !isnan(number)) *out = number;
    return status;
}

/* Of these transformers says the head's length where config.json does not, and so the converter. */
static zt_status derive_head_length(const hf_import *import, double *value)
{
    double width = 0, heads = 0;
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.head_count", &heads);
    if (status == ZT_OK && heads >= 1 && width >= heads) *value = floor(width / heads);
    return status;
}

static zt_status put_key(hf_import *import, const hf_key *row)
{
    double value;
    zt_status status = read_value(import, row, &value);
    if (status == ZT_OK && isnan(value) && strncmp(row->names, "head_dim", 8) == 0 &&
        zt_hf_is(import, HF_SET(HF_LLAMA) | HF_SET(HF_MISTRAL)))
        status = derive_head_length(import, &value);
    if (status == ZT_OK && strcmp(row->suffix, "block_count") == 0) {
        int64_t further = 0;
        status = zt_hf_is(import, HF_DELTAS) ? zt_hf_further_layers(import, &further) : zt_hf_head_layers(import, &further);
        value += (double)further;
    }
    if (status != ZT_OK || isnan(value)) return status;
    return row->kind == 'u' ? zt_hf_put_int(import, row->suffix, (int64_t)value) : zt_hf_put_real(import, row->suffix, value);
}

/* ---- what the tables cannot say -------------------------------------------------------------- */

/* Where it is not said, four times the width. */
static zt_status put_feed_forward(hf_import *import)
{
    double width = 0, length = NAN;
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK) status = zt_hf_value(import, "feed_forward_length", &length);
    return status == ZT_OK && isnan(length) && import->arch.id != HF_QWEN35MOE && !zt_hf_is(import, HF_SCANS | HF_LFM2S)
               ? zt_hf_put_int(import, "feed_forward_length", 4 * (int64_t)width)
               : status;
}

/* Gemma's attention scale is 1/sqrt(query_pre_attn_scalar). GGUF's key is for what is not the
 * head's length, which the architecture means anyhow. */
static zt_status put_gemma_scale(hf_import *import)
{
    double scalar = 256, head = 0;
    zt_status status = zt_hf_real(import, "query_pre_attn_scalar", &scalar);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.key_length", &head);
    if (status != ZT_OK || !(scalar > 0) || scalar == head) return status;
    return zt_hf_put_real(import, "attention.scale", 1 / sqrt(scalar));
}

/* ---- what must be so ------------------------------------------------------------------------- */

/* The first word is the one that is written. */
static const hf_demand demands[] = {
    {"hidden_act|hidden_activation", " silu swish ",
     HF_LLAMA_LIKE & ~(HF_GEMMAS | HF_LAYERED | HF_NEMOTRONS | HF_SET(HF_STARCODER2) | HF_SET(HF_PHI2) | HF_SET(HF_APERTUS))},
    {"hidden_activation|hidden_act", " gelu_pytorch_tanh gelu ", HF_GEMMAS},
    {"hidden_activation", " gelu_pytorch_tanh ", HF_LAYERED},
    {"altup_correct_scale", " true ", HF_SET(HF_GEMMA3N)},
    {"activation_function", " gelu_new gelu_pytorch_tanh ", HF_SET(HF_GPT2)},
    {"hidden_act", " xielu ", HF_SET(HF_APERTUS)},
    {"hidden_act", " gelu ", HF_SET(HF_JINA)},
    {"position_embedding_type", " alibi ", HF_SET(HF_JINA)},
    {"feed_forward_proj", " relu ", HF_SET(HF_T5)},
    {"feed_forward_proj", " gated-gelu ", HF_SET(HF_T5_GATED)},
    {"feed_forward_type", " geglu ", HF_SET(HF_JINA)},
    {"is_decoder", " false ", HF_SET(HF_JINA)},
    {"hidden_act", " gelu ", HF_SET(HF_BERT) | HF_SET(HF_NEOX)},
    {"hidden_act", " gelu_pytorch_tanh gelu_new ", HF_SET(HF_STARCODER2)},
    {"hidden_act", " gelu_new gelu_pytorch_tanh ", HF_SET(HF_PHI2)},
    {"activation", " gelu ", HF_FALCONS},
    {"use_bias", " true ", HF_SET(HF_STARCODER2)},
    {"attention_bias", " true ", HF_SET(HF_NEOX) | HF_SET(HF_GPT_OSS)},
    {"attention_bias", " false ", HF_LATENTS},
    {"attn_output_gate", " true ", HF_DELTAS},
    {"conv_bias", " false ", HF_LFM2S},
    {"use_expert_bias", " true ", HF_SET(HF_LFM2MOE)},
    {"norm_topk_prob", " true ", HF_SET(HF_LFM2MOE)},
    {"use_bias", " false ", HF_MAMBAS | HF_NEMOTRONS},
    {"mamba_proj_bias", " false ", HF_HYBRIDS | HF_SET(HF_FALCON_H1) | HF_NEMOTRONS | HF_SET(HF_BAMBA)},
    {"projectors_bias", " false ", HF_SET(HF_FALCON_H1)},
    {"mlp_hidden_act", " relu2 ", HF_NEMOTRONS},
    {"hidden_act", " sqrelu ", HF_SET(HF_RWKV7)},
    {"norm_first", " true ", HF_SET(HF_RWKV7)},
    {"norm_bias", " true ", HF_SET(HF_RWKV7)},
    {"mamba_hidden_act", " silu ", HF_NEMOTRONS},
    {"rope_interleave", " true ",
     HF_SET(HF_DEEPSEEK3) | HF_SET(HF_DEEPSEEK32) | HF_SET(HF_GLM4_LITE) | HF_SET(HF_MISTRAL4) | HF_SET(HF_YOUTU)},
    {"topk_method", " group_limited_greedy greedy ", HF_SET(HF_DEEPSEEK2)},
    {"topk_method", " noaux_tc ", HF_SET(HF_DEEPSEEK3) | HF_SET(HF_DEEPSEEK32) | HF_SET(HF_GLM4_LITE)},
    {"qk_layernorm", " false ", HF_SET(HF_STABLELM) | HF_SET(HF_PHI2)},
    {"alibi", " false ", HF_FALCONS},
    {"bias", " false ", HF_FALCONS | HF_SET(HF_INTERNLM2)},
    {"parallel_attn", " true ", HF_FALCONS},
    {"activation_function|hidden_act", " silu swish ", HF_SET(HF_EXAONE)},
    {"activation_function", " swiglu ", HF_SET(HF_NOMIC)},
    {"norm_bias", " false ", HF_SET(HF_MODERNBERT)},
    {"attention_bias", " false ", HF_SET(HF_MODERNBERT)},
    {"mlp_bias", " false ", HF_SET(HF_MODERNBERT)},
    {"position_embedding_type", " absolute ", HF_SET(HF_BERT)},
    {"is_decoder", " false ", HF_SET(HF_BERT)},
    {"scale_attn_by_inverse_layer_idx", " false ", HF_SET(HF_GPT2)},
    {"scale_attn_weights", " true ", HF_SET(HF_GPT2)},
    {"prenorm", " false ", HF_SET(HF_NOMIC)},
    {"causal", " false ", HF_SET(HF_NOMIC)},
    {"rotary_emb_interleaved", " false ", HF_SET(HF_NOMIC)},
};

const hf_demand *zt_hf_demands(size_t *count)
{
    *count = sizeof demands / sizeof *demands;
    return demands;
}

static zt_status check_demands(const hf_import *import)
{
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++) {
        const hf_demand *demand = &demands[i];
        char name[MAX_NAME];
        const json_t *value = zt_hf_is(import, demand->archs) ? find_value(import, demand->names, name) : NULL;
        if (!value || json_is_null(value)) continue;
        const char *word = json_is_boolean(value) ? json_is_true(value) ? "true" : "false" : json_string_value(value);
        char spelled[80], text[64];
        snprintf(spelled, sizeof spelled, " %.60s ", word ? word : "?");
        if (!strstr(demand->words, spelled))
            return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with %s '%s' are not supported",
                           import->folder.data, import->arch.name, name,
                           zt_escape(text, sizeof text, spelled + 1, strlen(spelled) - 2));
    }
    return ZT_OK;
}

/* ---- pooling of encoders, and of decoders that embed (sentence-transformers' modules.json) ------------------------------- */

/* The folder of the module that pools, or NULL. */
static const char *pooling_folder(const json_t *modules)
{
    size_t i;
    json_t *module;
    json_array_foreach(modules, i, module)
    {
        const char *type = json_string_value(json_object_get(module, "type"));
        const char *path = json_string_value(json_object_get(module, "path"));
        size_t length = type ? strlen(type) : 0;
        if (length >= 8 && strcmp(type + length - 8, ".Pooling") == 0 && path && *path && *path != '.' && !strpbrk(path, "/\\"))
            return path;
    }
    return NULL;
}

static zt_status put_pooling(hf_import *import)
{
    static const struct {
        const char *name, *word; /* of a switch, or the value of pooling_mode */
        int64_t type;            /* llama.h's enum */
    } modes[] = {{"pooling_mode_mean_tokens", "mean", 1},
                 {"pooling_mode_cls_token", "cls", 2},
                 {"pooling_mode_lasttoken", "lasttoken", 3}};
    char file[300];
    zt_status status = ZT_OK;
    json_t *modules = zt_hf_load(import, "modules.json", &status);
    const char *folder = pooling_folder(modules);
    snprintf(file, sizeof file, "%s/config.json", folder ? folder : "");
    json_t *pooling = status == ZT_OK && folder && strlen(folder) < 256 ? zt_hf_load(import, file, &status) : NULL;
    const char *word = json_string_value(json_object_get(pooling, "pooling_mode"));
    for (size_t i = 0; status == ZT_OK && i < sizeof modes / sizeof *modes; i++) {
        if (json_is_true(json_object_get(pooling, modes[i].name)) || (word && strcmp(word, modes[i].word) == 0)) {
            status = zt_hf_put_int(import, "pooling_type", modes[i].type);
            break;
        }
    }
    json_decref(pooling);
    json_decref(modules);
    return status;
}

static zt_status put_encoder(hf_import *import)
{
    char key[128];
    int64_t types = 2;
    if (zt_hf_is(import, HF_T5S)) return put_pooling(import);
    zt_gguf_put_int(import->writer, full_key(import, "attention.causal", key), ZT_GGUF_BOOL, 0);
    if (import->arch.id == HF_MODERNBERT) return put_pooling(import);
    zt_status status = zt_hf_int(import, "type_vocab_size", &types);
    if (status == ZT_OK) status = zt_gguf_put_int(import->writer, "tokenizer.ggml.token_type_count", ZT_GGUF_U32, types);
    return status == ZT_OK ? put_pooling(import) : status;
}

/* ---- layers: which see only a window, which rotate ------------------------------------------- */

enum { MAX_LAYERS = 4096 };

/* Does entry index of "layer_types" name a window? -1: neither that nor the whole context. */
static int is_windowed(const json_t *types, size_t index)
{
    const char *type = json_string_value(json_array_get(types, index));
    if (type && strcmp(type, "sliding_attention") == 0) return 1;
    return type && strcmp(type, "full_attention") == 0 ? 0 : -1;
}

/* Which layers see only a window: as listed, or (Qwen) those from the n-th on. */
static zt_status put_window_layers(hf_import *import, const json_t *types, int64_t layers, int64_t from)
{
    size_t count = json_is_array(types) ? json_array_size(types) : (size_t)layers;
    uint8_t *flag = count <= MAX_LAYERS ? zt_alloc(import->ctx, count) : NULL;
    zt_status status = flag ? ZT_OK : zt_ctx_status(import->ctx);
    if (count > MAX_LAYERS)
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: too many layers: %zu", import->folder.data, count);
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        int windowed = json_is_array(types) ? is_windowed(types, i) : (int64_t)i >= from;
        flag[i] = windowed == 1;
        if (windowed < 0)
            status = zt_fail(import->ctx, ZT_ENOTSUP,
                             "%sconfig.json: layer_types other than full_attention "
                             "and sliding_attention are not supported",
                             import->folder.data);
    }
    if (status == ZT_OK) status = zt_hf_put_flags(import, "attention.sliding_window_pattern", flag, count);
    zt_free(import->ctx, flag);
    return status;
}

/* A pattern as letters, "LLLG": layers with a window, and without, in turns. NULL: it is not one. */
static json_t *spelled_types(const hf_import *import, double layers)
{
    const char *pattern = json_string_value(zt_hf_get(import, "sliding_window_pattern"));
    size_t length = pattern ? strlen(pattern) : 0;
    json_t *types = length > 0 && strspn(pattern, "LG") == length && layers <= MAX_LAYERS ? json_array() : NULL;
    for (size_t i = 0; types && i < (size_t)layers; i++)
        json_array_append_new(types, json_string(pattern[i % length] == 'L' ? "sliding_attention" : "full_attention"));
    return types;
}

/* Windows of attention: how far they see, and in which layers where config.json says it. */
static zt_status put_window(hf_import *import)
{
    bool qwen = zt_hf_is(import, HF_QWENS), phi = zt_hf_is(import, HF_PHIS);
    const json_t *used = zt_hf_get(import, "use_sliding_window");
    if (qwen && used && !json_is_boolean(used) && !json_is_null(used))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: use_sliding_window is neither true nor false", import->folder.data);
    if (!zt_hf_is(import, HF_WINDOWED) || (qwen && !json_is_true(used))) return ZT_OK;
    const json_t *given = zt_hf_get(import, "sliding_window"), *types = zt_hf_get(import, "layer_types");
    bool none =
        json_is_null(given) || phi || zt_hf_is(import, HF_SET(HF_MIXTRAL) | HF_SET(HF_STARCODER2) | HF_SET(HF_MINISTRAL3));
    int64_t window = none ? 0 : zt_hf_is(import, HF_SET(HF_GPT_OSS)) ? 128 : 4096, period = 0, from = 28;
    double layers = 0;
    zt_status status = zt_hf_int(import, "sliding_window", &window);
    /* of Phi models, 0 tells that there is none */
    if (status == ZT_OK && (window > 0 || phi)) status = zt_hf_put_int(import, "attention.sliding_window", window);
    if (status == ZT_OK) status = zt_hf_value(import, "block_count", &layers);
    if (status == ZT_OK) status = zt_hf_int(import, "max_window_layers", &from);
    json_t *spelled = window > 0 && !types ? spelled_types(import, layers) : NULL;
    if (status == ZT_OK && window > 0 && (json_is_array(types) || spelled || qwen)) {
        status = put_window_layers(import, spelled ? spelled : types, (int64_t)layers, from);
        json_decref(spelled);
        return status;
    }
    json_decref(spelled);
    if (status == ZT_OK) status = zt_hf_int(import, "sliding_window_pattern|_sliding_window_pattern", &period);
    return status == ZT_OK && period > 0 ? zt_hf_put_int(import, "attention.sliding_window_pattern", period) : status;
}

/* ModernBERT: the first of each so many layers sees the whole text, as a number or as a list. */
static zt_status put_turns(hf_import *import)
{
    int64_t period = 0;
    const json_t *types = zt_hf_get(import, "layer_types");
    zt_status status = zt_hf_int(import, "global_attn_every_n_layers", &period);
    if (status != ZT_OK || period > 0 || !json_is_array(types))
        return status == ZT_OK && period > 0 ? zt_hf_put_int(import, "attention.sliding_window_pattern", period) : status;
    return put_window_layers(import, types, 0, 0);
}

/* SmolLM3: which layers rotate. By a list (1: the layer does), or all but each so many-th. */
static zt_status put_rope_layers(hf_import *import)
{
    const json_t *list = zt_hf_get(import, "no_rope_layers");
    uint8_t flag[MAX_LAYERS];
    size_t count = json_array_size(list);
    int64_t interval = 4;
    zt_status status = zt_hf_int(import, "no_rope_layer_interval", &interval);
    if (status != ZT_OK || !json_is_array(list)) return status ? status : zt_hf_put_int(import, "rope.layer_pattern", interval);
    if (count > MAX_LAYERS)
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: too many layers: %zu", import->folder.data, count);
    for (size_t i = 0; i < count; i++) flag[i] = json_integer_value(json_array_get(list, i)) != 0;
    return zt_hf_put_flags(import, "rope.layer_pattern", flag, count);
}

static zt_status put_layers(hf_import *import)
{
    zt_status status = import->arch.id == HF_MODERNBERT ? put_turns(import) : put_window(import);
    return status == ZT_OK && import->arch.id == HF_SMOLLM3 ? put_rope_layers(import) : status;
}

/* ---- all ------------------------------------------------------------------------------------- */

zt_status zt_hf_put_config(hf_import *import)
{
    size_t count;
    const hf_key *keys = zt_hf_keys(&count);
    zt_status status = check_demands(import);
    for (size_t i = 0; status == ZT_OK && i < count; i++) status = put_key(import, &keys[i]);
    if (status == ZT_OK && !zt_hf_is(import, HF_LAYERED)) status = put_feed_forward(import);
    if (status == ZT_OK && zt_hf_is(import, HF_GEMMAS)) status = put_gemma_scale(import);
    if (status == ZT_OK) status = zt_hf_is(import, HF_LAYERED) ? zt_hf_put_gemma(import) : put_layers(import);
    if (status == ZT_OK) status = zt_hf_put_dense(import);
    if (status == ZT_OK && zt_hf_is(import, HF_LATENTS)) status = zt_hf_put_latent(import);
    if (status == ZT_OK && import->arch.id == HF_BAICHUAN) status = zt_hf_put_baichuan(import);
    if (status == ZT_OK && import->arch.id == HF_LLAMA4) status = zt_hf_put_llama4(import);
    if (status == ZT_OK) status = zt_hf_put_labels(import);
    if (status == ZT_OK && zt_hf_is(import, HF_DELTAS)) status = zt_hf_put_delta(import);
    if (status == ZT_OK && zt_hf_is(import, HF_SCANS | HF_LFM2S)) status = zt_hf_put_mamba(import);
    if (status == ZT_OK && import->arch.id == HF_RWKV7) status = zt_hf_put_rwkv(import);
    if (status == ZT_OK && import->arch.id == HF_ARWKV7) status = zt_hf_put_arwkv(import);
    if (status == ZT_OK) status = zt_hf_put_heads(import);
    if (status == ZT_OK && zt_hf_is(import, HF_POOLED)) status = put_pooling(import);
    if (status == ZT_OK && import->arch.id == HF_GEMMA_EMBEDDING) status = zt_hf_put_dense_modules(import);
    if (status == ZT_OK && zt_hf_is(import, HF_MOES)) status = zt_hf_put_experts(import);
    return status == ZT_OK && zt_hf_is(import, HF_ENCODERS) ? put_encoder(import) : status;
}
