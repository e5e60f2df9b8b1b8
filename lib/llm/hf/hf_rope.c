/* hf_rope.c - rope: config.json's parameters, in their old and new form, as keys and tensors.
 *
 * Old: "rope_theta" beside "rope_scaling" {"type" or "rope_type", ...}. New (transformers 5):
 * "rope_parameters" with both in it, or one such object for each type of layer. Facts:
 * convert_hf_to_gguf.py (conversion/base.py, llama.py, phi.py) and transformers'
 * modeling_rope_utils.py.
 */
#include "lib/llm/hf/hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whose frequency base goes without saying where it is the usual one. */
#define HF_UNSAID_BASE                                                                                                           \
    (HF_SET(HF_GEMMA2) | HF_SET(HF_STABLELM) | HF_SET(HF_NEOX) | HF_FALCONS | HF_SET(HF_PHI2) | HF_SET(HF_MINICPM3))

enum { MAX_PAIRS = 1 << 15 }; /* rotations of a head: factors are made for each */

typedef struct rope_params {
    hf_import *import;
    const json_t *global, *local; /* objects or NULL */
    const char *type;             /* "default" where none is given */
    int64_t head, dims;           /* elements of a head, and those that turn */
} rope_params;

static bool is_type(const rope_params *rope, const char *words)
{
    size_t length = strlen(rope->type);
    const char *found = strstr(words, rope->type);
    return length && found && (found == words || found[-1] == ' ') && (found[length] == 0 || found[length] == ' ');
}

/* A number of rope's own object, or else of config.json. */
static zt_status get_number(const rope_params *rope, const char *name, double *out)
{
    const json_t *value = json_object_get(rope->global, name);
    if (value && !json_is_null(value)) return zt_hf_number(rope->import, value, name, out);
    return zt_hf_real(rope->import, name, out);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static zt_status read_dims(rope_params *rope)
{
    static const double usual[HF_COUNT] = {
        [HF_BAMBA] = 0.5, [HF_GLM4MOE] = 0.5, [HF_GLM4] = 0.5, [HF_PHI2] = 0.5, [HF_STABLELM] = 0.25, [HF_NEOX] = 0.25};
    hf_import *import = rope->import;
    double width = 0, heads = 0, head = 0, part = usual[import->arch.id] > 0 ? usual[import->arch.id] : 1;
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK) status = zt_hf_value(import, "attention.head_count", &heads);
    if (status == ZT_OK && !zt_hf_is(import, HF_NEMOTRONS)) /* whose converter does not look at it */
        status = zt_hf_value(import, "attention.key_length", &head);
    if (status == ZT_OK && zt_hf_is(import, HF_PARTIAL)) status = zt_hf_real(import, "rotary_pct|rope_pct", &part);
    if (status == ZT_OK && zt_hf_is(import, HF_PARTIAL)) status = get_number(rope, "partial_rotary_factor", &part);
    if (status == ZT_OK && !(part > 0 && part <= 1))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: partial_rotary_factor is %g, expected above 0 and at most 1",
                         import->folder.data, part);
    if (status == ZT_OK && zt_hf_is(import, HF_LATENTS)) { /* which rotate part of a head as if it was all */
        status = zt_hf_value(import, "rope.dimension_count", &head);
        rope->head = rope->dims = (int64_t)head;
        return status;
    }
    if (status == ZT_OK && import->arch.id == HF_GEMMA4) status = zt_hf_gemma_heads(import, &head, &(double){0});
    rope->head = head > 0 ? (int64_t)head : heads > 0 ? (int64_t)width / (int64_t)heads : 0;
    rope->dims = (int64_t)(part * (double)rope->head);
    return status;
}

static zt_status put_dims(const rope_params *rope)
{
    const hf_set said = (HF_PAIRED & ~(HF_SET(HF_MINICPM) | HF_SET(HF_INTERNLM2))) | HF_PARTIAL | HF_SET(HF_COHERE2) |
                        HF_SET(HF_APERTUS) | HF_SET(HF_LLAMA4);
    if (!zt_hf_is(rope->import, said) || rope->dims == 0) return ZT_OK;
    return zt_hf_put_int(rope->import, "rope.dimension_count", rope->dims);
}

/* ---- the angle's base ------------------------------------------------------------------------ */

/* HunYuan's "dynamic" scaling with an alpha is a larger base for all lengths. *alpha is 0: it has none. */
static zt_status read_alpha(const rope_params *rope, double *alpha)
{
    *alpha = 0;
    if (rope->import->arch.id != HF_HUNYUAN || !is_type(rope, "dynamic")) return ZT_OK;
    zt_status status = zt_hf_number(rope->import, json_object_get(rope->global, "alpha"), "alpha", alpha);
    if (status == ZT_OK && !(*alpha >= 0 && rope->dims > 2))
        status = zt_fail(rope->import->ctx, ZT_EDATA, "%sconfig.json: invalid dynamic rope: alpha %g, %lld columns",
                         rope->import->folder.data, *alpha, (long long)rope->dims);
    return status;
}

static zt_status stretch_base(const rope_params *rope, double *theta)
{
    double alpha;
    zt_status status = read_alpha(rope, &alpha);
    if (status == ZT_OK && alpha > 0) *theta *= pow(alpha, (double)rope->dims / (double)(rope->dims - 2));
    return status;
}

static zt_status put_theta(const rope_params *rope)
{
    static const double usual[HF_COUNT] = {
        [HF_LLAMA4] = 5e5,  [HF_COHERE] = 5e5,          [HF_EXAONE] = 5e5,    [HF_OLMO3] = 5e5,        [HF_MINISTRAL3] = 1e6,
        [HF_GEMMA3] = 1e6,  [HF_GEMMA_EMBEDDING] = 1e6, [HF_GEMMA3N] = 1e6,   [HF_GEMMA4] = 1e6,       [HF_SMOLLM3] = 2e6,
        [HF_MIXTRAL] = 1e6, [HF_PHIMOE] = 1e6,          [HF_ERNIE_MOE] = 5e5, [HF_MODERNBERT] = 1.6e5, [HF_GPT_OSS] = 1.5e5};
    hf_import *import = rope->import;
    double theta = usual[import->arch.id] > 0 ? usual[import->arch.id] : 1e4, local = 1e4;
    const json_t *given = json_object_get(rope->global, "rope_theta");
    zt_status status = given ? zt_hf_number(import, given, "rope_theta", &theta)
                             : zt_hf_real(import, "rope_theta|rotary_emb_base|global_rope_theta", &theta);
    if (status == ZT_OK) status = stretch_base(rope, &theta);
    /* learned positions have none, nor do models without positions, where it is not said */
    bool none = zt_hf_is(import, HF_HYBRIDS | HF_NEMOTRONS | HF_SET(HF_BAICHUAN)) && !given && !zt_hf_get(import, "rope_theta");
    bool said = !none && !zt_hf_is(import, HF_SET(HF_GPT2) | HF_SET(HF_BERT) | HF_SET(HF_JINA) | HF_SET(HF_MPT) | HF_T5S) &&
                !(zt_hf_is(import, HF_UNSAID_BASE) && theta == 1e4);
    if (status == ZT_OK && said) status = zt_hf_put_real(import, "rope.freq_base", theta);
    if (status != ZT_OK || !zt_hf_is(import, HF_GEMMA3S | HF_LAYERED | HF_SET(HF_OLMO3) | HF_SET(HF_MODERNBERT))) return status;
    if (import->arch.id == HF_OLMO3) local = theta;
    given = json_object_get(rope->local, "rope_theta");
    status = given ? zt_hf_number(import, given, "rope_theta", &local)
                   : zt_hf_real(import, "rope_local_base_freq|local_rope_theta", &local);
    return status == ZT_OK ? zt_hf_put_real(import, "rope.freq_base_swa", local) : status;
}

/* ---- scaling --------------------------------------------------------------------------------- */

/* Positions of the model before it was stretched. */
static zt_status original_positions(const rope_params *rope, double *out)
{
    zt_status status = zt_hf_value(rope->import, "context_length", out);
    return status == ZT_OK ? get_number(rope, "original_max_position_embeddings", out) : status;
}

/* YaRN's amplitude by which queries and keys grow; the reader of the keys has this one of its own.
 */
static double yarn_amplitude(double factor, double multiplier) { return factor > 1 ? 0.1 * multiplier * log(factor) + 1 : 1; }

/* What config.json wants of the amplitude: said as it is, or what only we know how to read from
 * config.json, over what the reader will take. */
static zt_status put_yarn_amplitude(const rope_params *rope)
{
    double factor = 1, wanted = NAN, multiplier = NAN, multiplier_all = NAN;
    zt_status status = get_number(rope, "factor", &factor);
    if (status == ZT_OK)
        status = zt_hf_number(rope->import, json_object_get(rope->global, "attention_factor"), "attention_factor", &wanted);
    if (status == ZT_OK) status = zt_hf_number(rope->import, json_object_get(rope->global, "mscale"), "mscale", &multiplier);
    if (status == ZT_OK)
        status = zt_hf_number(rope->import, json_object_get(rope->global, "mscale_all_dim"), "mscale_all_dim", &multiplier_all);
    if (status == ZT_OK && zt_hf_is(rope->import, HF_SPLIT_B) && !isnan(multiplier_all)) {
        /* its key for what all of q k is scaled by, a tenth of it; the amplitude is then 1 unless it is said */
        status = zt_hf_put_real(rope->import, "rope.scaling.yarn_log_multiplier", 0.1 * multiplier_all);
        if (isnan(wanted) && multiplier > 0 && multiplier_all > 0 && multiplier != multiplier_all)
            wanted = yarn_amplitude(factor, multiplier) / yarn_amplitude(factor, multiplier_all);
        if (isnan(wanted)) return status;
    }
    if (status == ZT_OK && !isnan(wanted)) return zt_hf_put_real(rope->import, "rope.scaling.yarn_attn_factor", wanted);
    if (status == ZT_OK && rope->import->arch.id == HF_MINISTRAL3 && multiplier_all > 0) {
        /* its key for the divisor; what is multiplied by is 1 there */
        if (multiplier > 0 && multiplier != 1)
            zt_hf_put_real(rope->import, "rope.scaling.attn_factor",
                           yarn_amplitude(factor, multiplier) / yarn_amplitude(factor, 1));
        return zt_hf_put_real(rope->import, "rope.scaling.yarn_log_multiplier", multiplier_all);
    }
    if (multiplier > 0 && multiplier_all > 0)
        wanted = yarn_amplitude(factor, multiplier) / yarn_amplitude(factor, multiplier_all);
    if (status != ZT_OK || isnan(wanted)) return status;
    return zt_hf_put_real(rope->import, "rope.scaling.attn_factor", wanted / yarn_amplitude(factor, 1));
}

/* Whether bounds become whole pairs: a key of ours, where it is not what the architecture means. */
static zt_status put_yarn_truncate(const rope_params *rope)
{
    hf_import *import = rope->import;
    char key[128];
    const json_t *given = json_object_get(rope->global, "truncate");
    if (given && !json_is_boolean(given))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'truncate' is not true or false", import->folder.data);
    if (json_is_false(given) == zt_hf_is(import, HF_SET(HF_GPT_OSS))) return ZT_OK;
    snprintf(key, sizeof key, "%s.rope.scaling.yarn_truncate", import->arch.name);
    return zt_gguf_put_int(import->writer, key, ZT_GGUF_BOOL, !json_is_false(given));
}

static zt_status put_yarn(const rope_params *rope)
{
    static const char *const names[][2] = {{"beta_fast", "rope.scaling.yarn_beta_fast"},
                                           {"beta_slow", "rope.scaling.yarn_beta_slow"},
                                           {"extrapolation_factor", "rope.scaling.yarn_ext_factor"}};
    double original = 0;
    zt_status status = original_positions(rope, &original);
    if (status == ZT_OK && !(original >= 1 && original <= UINT32_MAX))
        status = zt_fail(rope->import->ctx, ZT_EDATA, "%sconfig.json: yarn: the original context is %g, expected at least 1",
                         rope->import->folder.data, original);
    if (status == ZT_OK) status = zt_hf_put_int(rope->import, "rope.scaling.original_context_length", (int64_t)original);
    for (size_t i = 0; status == ZT_OK && i < sizeof names / sizeof *names; i++) {
        double number = NAN;
        status = zt_hf_number(rope->import, json_object_get(rope->global, names[i][0]), names[i][0], &number);
        if (status == ZT_OK && !isnan(number)) status = zt_hf_put_real(rope->import, names[i][1], number);
    }
    if (status == ZT_OK) status = put_yarn_truncate(rope);
    return status == ZT_OK ? put_yarn_amplitude(rope) : status;
}

static zt_status add_factors(const rope_params *rope, const char *name, const float *values, int64_t count)
{
    hf_tensor tensor = {.name = name, .source = -1, .from = ZT_F32, .values = values};
    tensor.type = zt_type_make(ZT_F32, 1, &count);
    return zt_hf_tensors_add(rope->import->tensors, &tensor);
}

/* A list of one number for each rotation, as the tensor `name`. */
static zt_status add_list(const rope_params *rope, const char *list, const char *name)
{
    const json_t *list_value = json_object_get(rope->global, list);
    size_t count = json_array_size(list_value);
    if (count == 0 || count > MAX_PAIRS || (int64_t)count != rope->dims / 2)
        return zt_fail(rope->import->ctx, ZT_EDATA, "%sconfig.json: '%s' has %zu numbers, expected %lld",
                       rope->import->folder.data, list, count, (long long)(rope->dims / 2));
    float *factors = zt_alloc_array(rope->import->ctx, count, sizeof *factors);
    zt_status status = factors ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        double number = NAN;
        status = zt_hf_number(rope->import, json_array_get(list_value, i), list, &number);
        factors[i] = (float)number;
        if (status == ZT_OK && !(isfinite(factors[i]) && factors[i] > 0))
            status = zt_fail(rope->import->ctx, ZT_EDATA, "%sconfig.json: '%s' has a number that is not positive",
                             rope->import->folder.data, list);
    }
    if (status == ZT_OK) status = add_factors(rope, name, factors, (int64_t)count);
    zt_free(rope->import->ctx, factors);
    return status;
}

/* Phi-3.5-MoE names the amplitude, once for short contexts and once for long ones. GGUF's key holds for both. */
static zt_status read_mscale(const rope_params *rope, double *amplitude)
{
    double shorter = *amplitude, longer = *amplitude;
    zt_status status = get_number(rope, "short_mscale", &shorter);
    if (status == ZT_OK) status = get_number(rope, "long_mscale", &longer);
    if (status == ZT_OK && shorter != longer && !(isnan(shorter) && isnan(longer)))
        status = zt_fail(rope->import->ctx, ZT_ENOTSUP, "%sconfig.json: short_mscale is %g and long_mscale %g, not the same",
                         rope->import->folder.data, shorter, longer);
    *amplitude = shorter;
    return status;
}

static zt_status put_longrope(const rope_params *rope)
{
    double original = 0, longest = 0, factor = NAN;
    zt_status status = original_positions(rope, &original);
    if (status == ZT_OK) status = zt_hf_value(rope->import, "context_length", &longest);
    if (status == ZT_OK)
        status = zt_hf_number(rope->import, json_object_get(rope->global, "attention_factor"), "attention_factor", &factor);
    if (status == ZT_OK && !(original > 1 && original <= UINT32_MAX && longest >= 1))
        status =
            zt_fail(rope->import->ctx, ZT_EDATA, "%sconfig.json: longrope: invalid context lengths: original %g, extended %g",
                    rope->import->folder.data, original, longest);
    if (status != ZT_OK) return status;
    double scale = longest / original;
    if (rope->import->arch.id == HF_PHIMOE) status = read_mscale(rope, &factor);
    if (status != ZT_OK) return status;
    if (isnan(factor)) factor = scale > 1 ? sqrt(1 + log(scale) / log(original)) : 1;
    bool silent = rope->import->arch.id == HF_MINICPM3; /* of what goes without saying */
    if (!silent || original != longest) zt_hf_put_int(rope->import, "rope.scaling.original_context_length", (int64_t)original);
    if (!silent || factor != 1) zt_hf_put_real(rope->import, "rope.scaling.attn_factor", factor);
    status = add_list(rope, "long_factor", "rope_factors_long.weight");
    return status == ZT_OK ? add_list(rope, "short_factor", "rope_factors_short.weight") : status;
}

float zt_hf_wave(double theta, int64_t pair, int64_t dims)
{
    float angle = 1 / powf((float)theta, (float)(2 * pair) / (float)dims);
    return (float)(2 * acos(-1.0)) / angle;
}

/* Llama 3's smooth way from unscaled (short waves) to scaled (long waves). In f32 as the converter
 * has it, down to the last bit. */
float zt_hf_llama3(float wave, double factor, double low, double high, double original)
{
    if (wave < (float)(original / high)) return 1;
    if (wave > (float)(original / low)) return (float)factor;
    if (high == low) return 1; /* Llama 4: nothing lies between */
    float smooth = ((float)original / wave - (float)low) / (float)(high - low);
    return 1 / ((1 - smooth) / (float)factor + smooth);
}

static zt_status add_llama3(const rope_params *rope)
{
    double factor = 8, low = 1, high = 4, original = 8192, theta = 1e4;
    zt_status status = get_number(rope, "factor", &factor);
    if (status == ZT_OK) status = get_number(rope, "low_freq_factor", &low);
    if (status == ZT_OK) status = get_number(rope, "high_freq_factor", &high);
    if (status == ZT_OK) status = get_number(rope, "original_max_position_embeddings", &original);
    if (status == ZT_OK) status = get_number(rope, "rope_theta", &theta);
    int64_t pairs = rope->dims / 2;
    if (status == ZT_OK &&
        !(factor > 0 && low > 0 && high >= low && original > 0 && theta > 0 && pairs > 0 && pairs <= MAX_PAIRS))
        status = zt_fail(
            rope->import->ctx, ZT_EDATA,
            "%sconfig.json: invalid llama3 rope: factor %g, low_freq_factor %g, high_freq_factor %g, original context %g, rope_theta %g, %lld pairs",
            rope->import->folder.data, factor, low, high, original, theta, (long long)pairs);
    float *divisors = status == ZT_OK ? zt_alloc_array(rope->import->ctx, (size_t)pairs, sizeof *divisors) : NULL;
    if (!divisors) return status == ZT_OK ? ZT_ENOMEM : status;
    for (int64_t i = 0; i < pairs; i++) {
        divisors[i] = zt_hf_llama3(zt_hf_wave(theta, i, rope->dims), factor, low, high, original);
    }
    status = add_factors(rope, "rope_freqs.weight", divisors, pairs);
    zt_free(rope->import->ctx, divisors);
    return status;
}

/* A part of the pairs rotates, as if all did: the others' angles are divided by so much that nothing is left of them. */
static zt_status add_proportional(const rope_params *rope)
{
    double part = 1, factor = 1;
    int64_t pairs = rope->dims / 2;
    zt_status status = get_number(rope, "partial_rotary_factor", &part);
    if (status == ZT_OK) status = get_number(rope, "factor", &factor);
    if (status == ZT_OK && !(part >= 0 && part <= 1 && factor == 1 && pairs > 0 && pairs <= MAX_PAIRS))
        status =
            zt_fail(rope->import->ctx, ZT_ENOTSUP,
                    "%sconfig.json: proportional rope with partial_rotary_factor %g, factor %g and %lld pairs is not supported",
                    rope->import->folder.data, part, factor, (long long)pairs);
    float *divisors = status == ZT_OK ? zt_alloc_array(rope->import->ctx, (size_t)pairs, sizeof *divisors) : NULL;
    if (!divisors) return status == ZT_OK ? ZT_ENOMEM : status;
    int64_t turning = (int64_t)((double)rope->dims * part / 2);
    for (int64_t i = 0; i < pairs; i++) divisors[i] = i < turning ? 1 : ZT_HF_STILL;
    status = add_factors(rope, "rope_freqs.weight", divisors, pairs);
    zt_free(rope->import->ctx, divisors);
    return status;
}

/* As the converter has it: the context that HunYuan is said to have so. */
static zt_status put_stretched(const rope_params *rope)
{
    zt_status status = zt_hf_put_text(rope->import, "rope.scaling.type", "none");
    if (status == ZT_OK) status = zt_hf_put_real(rope->import, "rope.scaling.factor", 1);
    return status == ZT_OK ? zt_hf_put_int(rope->import, "rope.scaling.original_context_length", 1 << 18) : status;
}

static zt_status put_scaling(const rope_params *rope)
{
    double factor = NAN, alpha;
    zt_status read = read_alpha(rope, &alpha);
    if (read != ZT_OK || alpha > 0) return read != ZT_OK ? read : put_stretched(rope);
    bool named = zt_hf_is(rope->import, HF_SET(HF_COHERE) | HF_SET(HF_COHERE2) | HF_SET(HF_MODERNBERT));
    if (is_type(rope, "default none")) return named ? zt_hf_put_text(rope->import, "rope.scaling.type", "none") : ZT_OK;
    if (is_type(rope, "dynamic") && rope->import->arch.id == HF_INTERNLM2) return ZT_OK; /* unscaled up to its context */
    if (is_type(rope, "llama3")) return add_llama3(rope);
    if (is_type(rope, "proportional") && rope->import->arch.id == HF_GEMMA4) return add_proportional(rope);
    if (is_type(rope, "su longrope")) {
        /* of Phi models the two lists of factors say it */
        zt_status status = zt_hf_is(rope->import, HF_PHIS | HF_SET(HF_MINICPM3))
                               ? ZT_OK
                               : zt_hf_put_text(rope->import, "rope.scaling.type", "longrope");
        return status == ZT_OK ? put_longrope(rope) : status;
    }
    /* whatever it is, the reader of the key knows it or refuses it by name */
    zt_hf_put_text(rope->import, "rope.scaling.type", rope->type);
    zt_status status = zt_hf_number(rope->import, json_object_get(rope->global, "factor"), "factor", &factor);
    if (status == ZT_OK && !isnan(factor)) status = zt_hf_put_real(rope->import, "rope.scaling.factor", factor);
    return status == ZT_OK && is_type(rope, "yarn") ? put_yarn(rope) : status;
}

/* Llama 4's and Ministral 3's growth of queries with their position. */
static zt_status put_temperature(const rope_params *rope)
{
    double beta = NAN;
    if (!zt_hf_is(rope->import, HF_SET(HF_MINISTRAL3) | HF_SET(HF_MISTRAL4))) return ZT_OK;
    zt_status status =
        zt_hf_number(rope->import, json_object_get(rope->global, "llama_4_scaling_beta"), "llama_4_scaling_beta", &beta);
    return status == ZT_OK && !isnan(beta) ? zt_hf_put_real(rope->import, "attention.temperature_scale", beta) : status;
}

/* ---- all ------------------------------------------------------------------------------------- */

zt_status zt_hf_put_rope(hf_import *import)
{
    rope_params rope = {.import = import};
    if (zt_hf_is(import, HF_MAMBAS | HF_RWKVS)) return ZT_OK;
    const json_t *params = zt_hf_get(import, "rope_parameters");
    if (!json_is_object(params)) params = zt_hf_get(import, "rope_scaling");
    const json_t *full = json_object_get(params, "full_attention");
    rope.global = json_is_object(full) ? full : params;
    rope.local = json_object_get(params, "sliding_attention");
    const json_t *type = json_object_get(rope.global, "rope_type");
    type = type ? type : json_object_get(rope.global, "type");
    rope.type = json_is_string(type) ? json_string_value(type) : "default";
    if (!json_is_object(rope.global) && zt_hf_is(import, HF_SET(HF_GPT_OSS))) /* which transformers takes for YaRN */
        return zt_fail(import->ctx, ZT_ENOTSUP,
                       "%sconfig.json: gpt-oss models without rope_parameters or rope_scaling are not supported",
                       import->folder.data);
    if (!json_is_object(rope.global) && zt_hf_is(import, HF_SET(HF_MISTRAL4)))
        return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: mistral4 models without rope_parameters are not supported",
                       import->folder.data);
    zt_status status = read_dims(&rope);
    if (status == ZT_OK) status = put_dims(&rope);
    if (status == ZT_OK) status = put_theta(&rope);
    if (status == ZT_OK) status = put_scaling(&rope);
    if (status == ZT_OK) status = put_temperature(&rope);
    /* Phi models read how long its unscaled context was in any case */
    double original = NAN;
    if (status == ZT_OK && zt_hf_is(import, HF_PHIS) && !is_type(&rope, "su longrope yarn"))
        status = get_number(&rope, "original_max_position_embeddings", &original);
    if (status == ZT_OK && original >= 1 && original <= UINT32_MAX)
        status = zt_hf_put_int(import, "rope.scaling.original_context_length", (int64_t)original);
    return status;
}
