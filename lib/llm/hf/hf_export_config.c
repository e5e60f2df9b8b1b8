/* hf_export_config.c - config.json as it is written: the keys of a GGUF by hf_config.c's tables, layers of two kinds, what an
 * encoder has beside them, and rope, from keys and from the tensors of factors (hf_rope.c reads the same back). */
#include "lib/llm/hf/hf_export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_of(const hf_export *export, hf_set set) { return set & HF_SET(export->arch->id); }

static zt_status set_member(hf_export *export, const char *name, json_t *value)
{
    return zt_export_set(export, export->config, name, value);
}

static bool has_tensor(const hf_export *export, const char *tensor) { return zt_gguf_find(export->gguf, tensor) >= 0; }

/* The first of "a|b". */
static const char *first_of(const char *names, char separator, char word[64])
{
    snprintf(word, 64, "%.*s", (int)(strchr(names, separator) ? strchr(names, separator) - names : 63), names);
    return word;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* GPT-2's feed-forward is four times as wide as the model where config.json gives no width. */
static bool goes_without(const hf_export *export, const hf_key *row)
{
    return export->arch->id == HF_GPT2 && strcmp(row->suffix, "feed_forward_length") == 0 &&
           export->hyper.ff == 4 * export->hyper.width;
}

/* Where transformers' length of a head does not follow from the width, it is written though the file does not have the key. */
static bool needs_head(const hf_export *export, const hf_key *row)
{
    return strcmp(row->suffix, "attention.key_length") == 0 && zt_hf_otherwise(row, export->arch->id) > 0 &&
           is_of(export, HF_LLAMA_LIKE) && export->hyper.head > 0;
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
        if (zt_hf_otherwise(row, export->arch->id) == HF_NO || goes_without(export, row)) continue;
        if (row->kind == 'u' && zt_export_int(export, row->suffix, &number))
            status = set_member(export, name, json_integer(number));
        else if (needs_head(export, row))
            status = set_member(export, name, json_integer(export->hyper.head));
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
        if (!is_of(export, demands[i].archs)) continue;
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
    if (status == ZT_OK) status = set_member(export, "model_type", json_string(export->arch->type));
    if (status == ZT_OK)
        status = set_member(export, "torch_dtype",
                            json_string(export->dtype == ZT_F16    ? "float16"
                                        : export->dtype == ZT_BF16 ? "bfloat16"
                                                                   : "float32"));
    if (status == ZT_OK && zt_gguf_str(export->gguf, "general.name", &name) && name.n)
        status = zt_export_text(export, export->config, "_name_or_path", name);
    return status;
}

/* Sizes that follow from tensors, and which biases there are. */
static zt_status put_sizes(hf_export *export)
{
    zt_status status = set_member(export, "vocab_size", json_integer(export->hyper.vocab));
    if (status == ZT_OK && !export->hyper.arch->encoder)
        status = set_member(export, "tie_word_embeddings", json_boolean(!has_tensor(export, "output.weight")));
    if (status == ZT_OK && export->arch->id == HF_GPT2)
        status = set_member(export, "n_ctx", json_integer(export->hyper.ctx_train));
    if (status == ZT_OK && is_of(export, HF_LLAMA_LIKE))
        status = set_member(export, "attention_bias", json_boolean(has_tensor(export, "blk.0.attn_q.bias")));
    if (status == ZT_OK && is_of(export, HF_LLAMA_LIKE & ~HF_MOES))
        status = set_member(export, "mlp_bias", json_boolean(has_tensor(export, "blk.0.ffn_up.bias")));
    return status;
}

/* Gemma scales attention by 1/sqrt(query_pre_attn_scalar). */
static zt_status put_gemma(hf_export *export)
{
    double scale = 0, scalar = 1 / (export->hyper.layer[0].attn_scale * export->hyper.layer[0].attn_scale),
           nearest = rint(scalar);
    if (!is_of(export, HF_GEMMAS)) return ZT_OK;
    bool given = zt_export_real(export, "attention.scale", &scale) && scale > 0;
    if (!given || (float)(1 / sqrt(nearest)) == (float)scale) scalar = nearest;
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
    bool qwen = is_of(export, HF_QWENS);
    char key[128];
    zt_gguf_kind kind;
    bool named = zt_export_int(export, "attention.sliding_window", &window) && window > 0;
    if (is_of(export, HF_LAYERED)) return ZT_OK;
    if (export->hyper.window > 0 && !is_of(export, HF_WINDOWED | HF_SET(HF_MODERNBERT) | HF_SET(HF_LLAMA4)))
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: %s models with sliding-window attention cannot be written", export->file,
                       export->arch->type);
    if (!is_of(export, HF_WINDOWED)) return ZT_OK;
    zt_status status = qwen ? set_member(export, "use_sliding_window", json_boolean(named)) : ZT_OK;
    if (status == ZT_OK && !named && export->arch->id == HF_EXAONE4) status = put_layer_types(export);
    if (status == ZT_OK && (named || is_of(export, HF_PHIS | HF_SET(HF_EXAONE4))))
        status = set_member(export, "sliding_window", named ? json_integer(window) : json_null());
    if (status != ZT_OK || !named) return status;
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
    if (export->arch->id != HF_SMOLLM3) return ZT_OK;
    if (zt_export_int(export, "rope.layer_pattern", &period))
        return set_member(export, "no_rope_layer_interval", json_integer(period));
    if (!zt_gguf_array(export->gguf, zt_export_key(export, "rope.layer_pattern", key), &kind, &count)) return ZT_OK;
    json_t *list = json_array();
    for (int64_t layer = 0; list && layer < export->hyper.n_layers; layer++)
        if (json_array_append_new(list, json_integer(export->hyper.rotated[layer])) != 0) break;
    return set_member(export, "no_rope_layers", list);
}

/* ---- encoders -------------------------------------------------------------------------------- */

/* How states are pooled, as sentence-transformers writes it. */
static zt_status put_pooling(hf_export *export)
{
    int64_t type;
    if (!zt_export_int(export, "pooling_type", &type) || type < 1 || type > 3) return ZT_OK;
    zt_status status = zt_export_folder(export, "1_Pooling");
    json_t *pooling = json_pack("{sisbsbsb}", "word_embedding_dimension", (int)export->hyper.width, "pooling_mode_cls_token",
                                type == 2, "pooling_mode_mean_tokens", type == 1, "pooling_mode_lasttoken", type == 3);
    json_t *modules =
        json_pack("[{sissssss}{sissssss}]", "idx", 0, "name", "0", "path", "", "type", "sentence_transformers.models.Transformer",
                  "idx", 1, "name", "1", "path", "1_Pooling", "type", "sentence_transformers.models.Pooling");
    if (status == ZT_OK) status = zt_export_json(export, "1_Pooling/config.json", pooling);
    if (status == ZT_OK) status = zt_export_dense_modules(export, modules);
    if (status == ZT_OK) status = zt_export_json(export, "modules.json", modules);
    json_decref(pooling);
    json_decref(modules);
    return status;
}

static zt_status put_encoder(hf_export *export)
{
    if (!is_of(export, HF_ENCODERS | HF_POOLED)) return ZT_OK;
    if (!is_of(export, HF_BERTS)) return put_pooling(export);
    zt_status status = set_member(export, "type_vocab_size", json_integer(export->hyper.n_types));
    return status == ZT_OK ? put_pooling(export) : status;
}

enum { MAX_PAIRS = 1 << 15 };

static zt_status set_real(hf_export *export, json_t *object, const char *name, double value)
{
    return zt_export_set(export, object, name, zt_export_number(value));
}

/* object[name] = the key's value, if the file has the key. */
static zt_status pass_real(hf_export *export, json_t *object, const char *name, const char *suffix)
{
    double value;
    return zt_export_real(export, suffix, &value) ? set_real(export, object, name, value) : ZT_OK;
}

/* ---- rope: Llama 3's divisors ---------------------------------------------------------------------- */

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
        if (!(fabsf(expected - divisor[i]) <= 1e-5f * divisor[i])) return false;
    }
    return true;
}

/* A bound between two waves: a power of two if there is one between them. */
static double power_between(double low, double high)
{
    double power = exp2(ceil(log2(low)));
    return power <= high ? power : sqrt(low * high);
}

/* Finds low_freq_factor and high_freq_factor from the factors of all pairs. Only their ratio matters: low is
 * set to 1. With context = the original context,
 *
 *   share of the unscaled angle (wave) = (context / wave - low) / (high - low)
 *
 * is 0 for long waves, 1 for short ones, and in between a line over 1 / wave. By the number of waves in between:
 *
 *   2 or more    two of them determine the line
 *   1            it determines the line, with high = 4 low as in Llama
 *   0            the bounds only have to lie between the long and the short waves */
static bool solve_llama3(const hf_export *export, const float *divisor, int64_t count, llama3 *params)
{
    double slope, inverse_wave[2] = {0, 0}, share[2] = {0, 0}, short_wave = 1, long_wave = 0;
    int found = 0;
    *params = (llama3){1, 1, 4, 0};
    for (int64_t i = 0; i < count; i++) params->factor = fmax(params->factor, (double)divisor[i]);
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
        if (fabs(params->high - rint(params->high)) < 1e-3) params->high = rint(params->high);
        if (fabs(params->original - rint(params->original)) < 1e-3 * params->original) params->original = rint(params->original);
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
    for (int64_t i = 0; i < count; i++) plain = plain && divisors[i] == 1;
    zt_free(export->ctx, divisors);
    if (!divisors || plain) return divisors ? ZT_OK : ZT_ENOMEM;
    if (!solved)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: tensor 'rope_freqs.weight' is not a RoPE scaling that transformers supports",
                       export->file);
    *scaling = json_pack("{ss}", "rope_type", "llama3");
    zt_status status = set_real(export, *scaling, "factor", params.factor);
    if (status == ZT_OK) status = set_real(export, *scaling, "low_freq_factor", params.low);
    if (status == ZT_OK) status = set_real(export, *scaling, "high_freq_factor", params.high);
    return status == ZT_OK ? zt_export_set(export, *scaling, "original_max_position_embeddings",
                                           json_integer((json_int_t)rint(params.original)))
                           : status;
}

/* ---- rope: lists of factors ------------------------------------------------------------------------ */

static zt_status put_list(hf_export *export, json_t *scaling, const char *name, const char *tensor)
{
    float *factors = zt_alloc_array(export->ctx, MAX_PAIRS, sizeof *factors);
    int64_t count = factors ? zt_export_values(export, tensor, factors, MAX_PAIRS) : 0;
    json_t *list = factors ? json_array() : NULL;
    for (int64_t i = 0; list && i < count; i++) json_array_append_new(list, zt_export_number((double)factors[i]));
    zt_free(export->ctx, factors);
    return zt_export_set(export, scaling, name, list);
}

/* An amplitude that follows from the lengths is not written; but phimoe wants it for both lists. */
static zt_status put_longrope(hf_export *export, json_t **scaling)
{
    double given = 1, longest = (double)export->hyper.ctx_train, original = (double)export->hyper.ctx_orig;
    double usual = longest > original ? sqrt(1 + log(longest / original) / log(original)) : 1;
    *scaling = json_pack("{ss}", "rope_type", "longrope");
    zt_status status = put_list(export, *scaling, "long_factor", "rope_factors_long.weight");
    if (status == ZT_OK) status = put_list(export, *scaling, "short_factor", "rope_factors_short.weight");
    bool named = zt_export_real(export, "rope.scaling.attn_factor", &given);
    if (status == ZT_OK && export->arch->id == HF_PHIMOE) {
        status = set_real(export, *scaling, "short_mscale", given);
        if (status == ZT_OK) status = set_real(export, *scaling, "long_mscale", given);
        if (status == ZT_OK)
            status = zt_export_set(export, *scaling, "original_max_position_embeddings", json_integer(export->hyper.ctx_orig));
        return status;
    }
    if (status == ZT_OK && named && (float)usual != (float)given) status = set_real(export, *scaling, "attention_factor", given);
    if (status != ZT_OK || is_of(export, HF_PHIS)) return status; /* which have it beside their sizes */
    return zt_export_set(export, *scaling, "original_max_position_embeddings", json_integer(export->hyper.ctx_orig));
}

/* ---- rope: keys alone ------------------------------------------------------------------------------ */

/* Ministral 3: the amplitude as two multipliers, of which GGUF has a key for the divisor's, and the ratio to the usual one. */
static zt_status put_mscales(hf_export *export, json_t *scaling, double factor)
{
    double divisor = 0, ratio = 1, usual = 0.1 * log(factor);
    if (!zt_export_real(export, "rope.scaling.yarn_log_multiplier", &divisor) || !(divisor > 0)) return ZT_OK;
    zt_export_real(export, "rope.scaling.attn_factor", &ratio);
    zt_status status = set_real(export, scaling, "mscale_all_dim", divisor);
    return status == ZT_OK ? set_real(export, scaling, "mscale", ratio == 1 ? 1 : (ratio * (usual + 1) - 1) / usual) : status;
}

/* DeepSeek: mscale_all_dim is ten times its key; mscale is the same unless the amplitude is not 1. */
static zt_status put_all_dims(hf_export *export, json_t *scaling)
{
    double tenth = 0, amplitude = 1;
    if (!zt_export_real(export, "rope.scaling.yarn_log_multiplier", &tenth)) return ZT_OK;
    double all = 10 * tenth;
    if (fabs(all - rint(1e4 * all) / 1e4) < 1e-6) all = rint(1e4 * all) / 1e4;
    zt_status status = set_real(export, scaling, "mscale_all_dim", all);
    if (!(all > 0) || zt_export_real(export, "rope.scaling.yarn_attn_factor", &amplitude)) return status;
    return status == ZT_OK ? set_real(export, scaling, "mscale", all) : status;
}

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
    if (status == ZT_OK && export->hyper.yarn_exact) status = zt_export_set(export, scaling, "truncate", json_false());
    if (status == ZT_OK && export->arch->id == HF_MINISTRAL3) return put_mscales(export, scaling, factor);
    /* an amplitude that GGUF says in another way */
    if (status == ZT_OK && is_of(export, HF_SPLIT_B)) return put_all_dims(export, scaling);
    bool other = (zt_export_real(export, "rope.scaling.yarn_log_multiplier", &multiplier) && multiplier > 0) ||
                 zt_export_real(export, "rope.scaling.attn_factor", &given);
    if (status == ZT_OK && other && factor > 0)
        status = set_real(export, scaling, "attention_factor", export->hyper.rope.amplitude);
    return status;
}

static bool type_is(zt_bytes type, const char *word) { return type.n == strlen(word) && memcmp(type.data, word, type.n) == 0; }

static zt_status put_scaled(hf_export *export, json_t **scaling)
{
    zt_bytes type = {"linear", 6};
    char key[128];
    zt_gguf_str(export->gguf, zt_export_key(export, "rope.scaling.type", key), &type);
    if (export->hyper.rope.scale == 1 || type_is(type, "none") || type_is(type, "longrope")) return ZT_OK;
    *scaling = json_object();
    zt_status status = zt_export_text(export, *scaling, "rope_type", type);
    if (status == ZT_OK) status = set_real(export, *scaling, "factor", 1 / export->hyper.rope.scale);
    return status == ZT_OK && type_is(type, "yarn") ? put_yarn(export, *scaling) : status;
}

/* ---- rope: all ------------------------------------------------------------------------------------- */

/* How much of a head rotates, and of Phi models the length of the original context. */
static zt_status put_partial(hf_export *export)
{
    if (!is_of(export, HF_PARTIAL)) return ZT_OK;
    const char *name = export->arch->id == HF_NEOX ? "rotary_pct" : "partial_rotary_factor";
    zt_status status = set_real(export, export->config, name, (double)export->hyper.rope_dims / (double)export->hyper.head);
    if (status != ZT_OK || !is_of(export, HF_PHIS)) return status;
    return zt_export_set(export, export->config, "original_max_position_embeddings", json_integer(export->hyper.ctx_orig));
}

/* HunYuan: a larger base is written as the usual one with an alpha (hf_rope.c), where GGUF has the context that goes with it. */
static bool has_stretched_base(const hf_export *export)
{
    int64_t original = 0;
    return zt_export_int(export, "rope.scaling.original_context_length", &original) && original == 1 << 18 &&
           export->hyper.rope.scale == 1 && export->hyper.rope_dims > 2 && export->hyper.rope.theta > 1e4;
}

static zt_status put_stretched(hf_export *export)
{
    double dims = (double)export->hyper.rope_dims, alpha = pow(export->hyper.rope.theta / 1e4, (dims - 2) / dims);
    if (fabs(alpha - rint(alpha)) < 1e-4 * alpha) alpha = rint(alpha);
    json_t *scaling = json_pack("{sssfsf}", "type", "dynamic", "alpha", alpha, "factor", 1.0);
    zt_status status = set_real(export, export->config, "rope_theta", 1e4);
    return status == ZT_OK ? zt_export_set(export, export->config, "rope_scaling", scaling) : status;
}

/* Ministral 3 has all in one object; `scaling` is taken over. A factor of 0 leaves q as it is. */
static zt_status put_parameters(hf_export *export, json_t *scaling)
{
    json_t *parameters = scaling ? scaling : json_pack("{ss}", "rope_type", "default");
    zt_status status = zt_export_set(export, export->config, "rope_parameters", parameters);
    if (status == ZT_OK) status = set_real(export, parameters, "rope_theta", export->hyper.rope.theta);
    if (status == ZT_OK) status = set_real(export, parameters, "llama_4_scaling_beta", export->hyper.temperature);
    return status == ZT_OK
               ? zt_export_set(export, parameters, "original_max_position_embeddings", json_integer(export->hyper.ctx_orig))
               : status;
}

static zt_status put_rope(hf_export *export)
{
    json_t *scaling = NULL;
    double local = 1e4;
    zt_status status = ZT_OK;
    if (!export->hyper.arch->rope_pair || is_of(export, HF_LAYERED)) return ZT_OK;
    bool silent = !zt_export_real(export, "rope.freq_base", &(double){0});
    if (silent && is_of(export, HF_HYBRIDS)) return ZT_OK;
    if (silent && export->arch->id == HF_BAICHUAN && export->hyper.rope.scale == 1) return ZT_OK;
    if (zt_gguf_find(export->gguf, "rope_freqs.weight") >= 0)
        status = put_llama3(export, &scaling);
    else if (zt_gguf_find(export->gguf, "rope_factors_long.weight") >= 0)
        status = put_longrope(export, &scaling);
    else
        status = put_scaled(export, &scaling);
    if (status == ZT_OK && export->arch->id == HF_HUNYUAN && has_stretched_base(export)) {
        status = put_stretched(export);
        return status == ZT_OK ? put_partial(export) : status;
    }
    if (status == ZT_OK && is_of(export, HF_SET(HF_MINISTRAL3) | HF_SET(HF_MISTRAL4))) return put_parameters(export, scaling);
    bool modern = export->arch->id == HF_MODERNBERT;
    if (status == ZT_OK && !scaling && export->arch->id == HF_GPT_OSS) /* without, transformers takes YaRN */
        scaling = json_pack("{ss}", "rope_type", "default");
    const char *theta = export->arch->id == HF_NEOX ? "rotary_emb_base" : modern ? "global_rope_theta" : "rope_theta";
    if (status == ZT_OK) status = set_real(export, export->config, theta, export->hyper.rope.theta);
    if (status == ZT_OK && export->arch->id == HF_OLMO3 && export->hyper.local_rope.theta != export->hyper.rope.theta)
        status =
            zt_fail(export->ctx, ZT_ENOTSUP, "%s: transformers' olmo3 cannot have rope.freq_base_swa %g beside rope.freq_base %g",
                    export->file, export->hyper.local_rope.theta, export->hyper.rope.theta);
    if (status == ZT_OK && (modern || is_of(export, HF_GEMMA3S))) {
        zt_export_real(export, "rope.freq_base_swa", &local);
        status = set_real(export, export->config, modern ? "local_rope_theta" : "rope_local_base_freq", local);
    }
    if (status == ZT_OK)
        status = zt_export_set(export, export->config, "rope_scaling", scaling ? json_incref(scaling) : json_null());
    json_decref(scaling);
    return status == ZT_OK ? put_partial(export) : status;
}

/* ---- all ------------------------------------------------------------------------------------- */

zt_status zt_export_config(hf_export *export)
{
    static zt_status (*const step[])(hf_export *) = {
        put_class,       put_keys,    put_demands,     put_sizes,        put_gemma,         put_windows,
        put_rope_layers, put_encoder, zt_export_dense, zt_export_latent, zt_export_experts, zt_export_llama4,
        zt_export_gemma, put_rope,    zt_export_delta, zt_export_mamba,  zt_export_rwkv,    zt_export_heads};
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof step / sizeof *step; i++) status = step[i](export);
    return status;
}
