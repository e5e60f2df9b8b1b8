/* hf_back_rope.c - owns rope as config.json has it, from keys and from the tensors of factors: the
 * other way of hf_rope.c. */
#include "lib/llm/hf/hf_back.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_PAIRS = 1 << 15 };

static zt_status set_real(hf_export *export, json_t *object, const char *name, double value)
{
    return zt_export_set(export, object, name, zt_export_number(value));
}

/* object[name] = the key, where the file has it. */
static zt_status pass_real(hf_export *export, json_t *object, const char *name, const char *suffix)
{
    double value;
    return zt_export_real(export, suffix, &value) ? set_real(export, object, name, value) : ZT_OK;
}

/* ---- Llama 3's divisors ---------------------------------------------------------------------- */

typedef struct llama3 {
    double factor, low, high, original;
} llama3;

static float pair_wave(const hf_export *export, int64_t pair)
{
    return zt_hf_wave(export->hyper.rope.theta, pair, export->hyper.rope_dims);
}

static bool reproduces_divisors(const hf_export *export, const llama3 *params, const float *divisor, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float expected = zt_hf_llama3(pair_wave(export, i), params->factor, params->low, params->high, params->original);
        if (!(fabsf(expected - divisor[i]) <= 1e-5f * divisor[i]))
            return false;
    }
    return true;
}

/* A bound between two waves: of numbers there, the one that reads best, a power of two. */
static double power_between(double low, double high)
{
    double power = exp2(ceil(log2(low)));
    return power <= high ? power : sqrt(low * high);
}

/* low is 1: only ratios matter. Between the bounds the share of the unscaled angle is a line over
 * 1/wave: two waves there give the line, one gives it with high = 4 low as Llama has it, and where
 * there is none the bounds only have to lie between the two kinds. */
static bool solve_llama3(const hf_export *export, const float *divisor, int64_t count, llama3 *params)
{
    double slope, inverse_wave[2] = {0, 0}, share[2] = {0, 0}, short_wave = 1, long_wave = 0;
    int found = 0;
    *params = (llama3){1, 1, 4, 0};
    for (int64_t i = 0; i < count; i++)
        params->factor = fmax(params->factor, (double)divisor[i]);
    for (int64_t i = 0; i < count; i++) {
        double factor_here = (double)divisor[i], wave = (double)pair_wave(export, i);
        if (factor_here <= 1) {
            short_wave = wave;
        } else if (factor_here < params->factor) {
            inverse_wave[found > 0] = 1 / wave;
            share[found > 0] = (1 / factor_here - 1 / params->factor) / (1 - 1 / params->factor);
            found++;
        } else if (long_wave == 0) {
            long_wave = wave;
        }
    }
    if (found >= 2) {
        slope = (share[0] - share[1]) / (inverse_wave[0] - inverse_wave[1]);
        double base = slope * inverse_wave[0] - share[0]; /* low / (high - low) */
        params->high = 1 + 1 / base;
        params->original = slope * (params->high - 1);
        if (fabs(params->high - rint(params->high)) < 1e-3)
            params->high = rint(params->high);
        if (fabs(params->original - rint(params->original)) < 1e-3 * params->original)
            params->original = rint(params->original);
    } else if (found == 1) {
        params->original = rint((share[0] * 3 + 1) / inverse_wave[0]);
    } else if (long_wave > 0) {
        params->original = power_between(short_wave, long_wave);
        params->high = 1 + 1e-6;
    }
    return params->factor > 1 && reproduces_divisors(export, params, divisor, count);
}

static zt_status put_llama3(hf_export *export, json_t **scaling)
{
    float *divisors = zt_alloc_array(export->ctx, MAX_PAIRS, sizeof *divisors);
    int64_t count = divisors ? zt_export_values(export, "rope_freqs.weight", divisors, MAX_PAIRS) : 0;
    llama3 params;
    bool solved = count > 0 && solve_llama3(export, divisors, count, &params), plain = count > 0;
    for (int64_t i = 0; i < count; i++)
        plain = plain && divisors[i] == 1;
    zt_free(export->ctx, divisors);
    if (!divisors || plain)
        return divisors ? ZT_OK : ZT_ENOMEM;
    if (!solved)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: tensor 'rope_freqs.weight' is no scaling that transformers knows",
                       export->file);
    *scaling = json_pack("{ss}", "rope_type", "llama3");
    zt_status status = set_real(export, *scaling, "factor", params.factor);
    if (status == ZT_OK)
        status = set_real(export, *scaling, "low_freq_factor", params.low);
    if (status == ZT_OK)
        status = set_real(export, *scaling, "high_freq_factor", params.high);
    return status == ZT_OK ? zt_export_set(export, *scaling, "original_max_position_embeddings",
                                           json_integer((json_int_t)rint(params.original)))
                           : status;
}

/* ---- lists of factors ------------------------------------------------------------------------ */

static zt_status put_list(hf_export *export, json_t *scaling, const char *name, const char *tensor)
{
    float *factors = zt_alloc_array(export->ctx, MAX_PAIRS, sizeof *factors);
    int64_t count = factors ? zt_export_values(export, tensor, factors, MAX_PAIRS) : 0;
    json_t *list = factors ? json_array() : NULL;
    for (int64_t i = 0; list && i < count; i++)
        json_array_append_new(list, zt_export_number((double)factors[i]));
    zt_free(export->ctx, factors);
    return zt_export_set(export, scaling, name, list);
}

/* The amplitude that follows from the lengths is not said. */
static zt_status put_longrope(hf_export *export, json_t **scaling)
{
    double given = 1, longest = (double)export->hyper.ctx_train, original = (double)export->hyper.ctx_orig;
    double usual = longest > original ? sqrt(1 + log(longest / original) / log(original)) : 1;
    *scaling = json_pack("{ss}", "rope_type", "longrope");
    zt_status status = put_list(export, *scaling, "long_factor", "rope_factors_long.weight");
    if (status == ZT_OK)
        status = put_list(export, *scaling, "short_factor", "rope_factors_short.weight");
    if (status == ZT_OK && zt_export_real(export, "rope.scaling.attn_factor", &given) && (float)usual != (float)given)
        status = set_real(export, *scaling, "attention_factor", given);
    return status;
}

/* ---- keys alone ------------------------------------------------------------------------------ */

static zt_status put_yarn(hf_export *export, json_t *scaling)
{
    static const char *const pairs[][2] = {
        {"beta_fast", "rope.scaling.yarn_beta_fast"},
        {"beta_slow", "rope.scaling.yarn_beta_slow"},
        {"extrapolation_factor", "rope.scaling.yarn_ext_factor"},
        {"attention_factor", "rope.scaling.yarn_attn_factor"},
    };
    double factor = 1 / export->hyper.rope.scale, multiplier, given;
    zt_status status = zt_export_set(export, scaling, "original_max_position_embeddings", json_integer(export->hyper.ctx_orig));
    for (size_t i = 0; status == ZT_OK && i < sizeof pairs / sizeof *pairs; i++)
        status = pass_real(export, scaling, pairs[i][0], pairs[i][1]);
    /* an amplitude that GGUF says in another way */
    bool other = (zt_export_real(export, "rope.scaling.yarn_log_multiplier", &multiplier) && multiplier > 0) ||
                 zt_export_real(export, "rope.scaling.attn_factor", &given);
    if (status == ZT_OK && other && factor > 0)
        status = set_real(export, scaling, "attention_factor", export->hyper.rope.amplitude);
    return status;
}

static bool type_is(zt_bytes type, const char *word)
{
    return type.n == strlen(word) && memcmp(type.data, word, type.n) == 0;
}

static zt_status put_scaled(hf_export *export, json_t **scaling)
{
    zt_bytes type = {"linear", 6};
    char key[128];
    zt_gguf_str(export->gguf, zt_export_key(export, "rope.scaling.type", key), &type);
    if (export->hyper.rope.scale == 1 || type_is(type, "none") || type_is(type, "longrope"))
        return ZT_OK;
    *scaling = json_object();
    zt_status status = zt_export_text(export, *scaling, "rope_type", type);
    if (status == ZT_OK)
        status = set_real(export, *scaling, "factor", 1 / export->hyper.rope.scale);
    return status == ZT_OK && type_is(type, "yarn") ? put_yarn(export, *scaling) : status;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Phi-3 says how many columns turn, and how long the context was, in any case. */
static zt_status put_phi3(hf_export *export)
{
    if (export->arch->id != HF_PHI3)
        return ZT_OK;
    zt_status status =
        set_real(export, export->config, "partial_rotary_factor", (double)export->hyper.rope_dims / (double)export->hyper.head);
    return status == ZT_OK
               ? zt_export_set(export, export->config, "original_max_position_embeddings", json_integer(export->hyper.ctx_orig))
               : status;
}

zt_status zt_export_rope(hf_export *export)
{
    json_t *scaling = NULL;
    double local = 1e4;
    zt_status status = ZT_OK;
    if (!export->hyper.arch->rope_pair)
        return ZT_OK;
    if (zt_gguf_find(export->gguf, "rope_freqs.weight") >= 0)
        status = put_llama3(export, &scaling);
    else if (zt_gguf_find(export->gguf, "rope_factors_long.weight") >= 0)
        status = put_longrope(export, &scaling);
    else
        status = put_scaled(export, &scaling);
    if (status == ZT_OK)
        status = set_real(export, export->config, "rope_theta", export->hyper.rope.theta);
    if (status == ZT_OK && export->arch->id == HF_GEMMA3) {
        zt_export_real(export, "rope.freq_base_swa", &local);
        status = set_real(export, export->config, "rope_local_base_freq", local);
    }
    if (status == ZT_OK)
        status = zt_export_set(export, export->config, "rope_scaling", scaling ? json_incref(scaling) : json_null());
    json_decref(scaling);
    return status == ZT_OK ? put_phi3(export) : status;
}
