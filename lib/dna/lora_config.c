/* lora_config.c - owns adapter_config.json: which of PEFT's settings change what an adapter is, and
 * which of them are refused.
 *
 * Source: PEFT 0.21.2, src/peft/tuners/lora/config.py and model.py (as facts). A setting is known
 * and of no meaning once an adapter is trained, or is applied here, or is refused by name.
 */
#include "lib/dna/lora_part.h"

#include <math.h>
#include <string.h>

enum { MOST_CONFIG = 4 << 20, DEFAULT_R = 8, DEFAULT_ALPHA = 8 };

/* Settings that are over once it is trained, or that are read below. */
static const char *const known_settings[] = {"alpha_pattern",
                                             "alora_invocation_tokens",
                                             "arrow_config",
                                             "auto_mapping",
                                             "base_model_name_or_path",
                                             "bias",
                                             "corda_config",
                                             "ensure_weight_tying",
                                             "eva_config",
                                             "exclude_modules",
                                             "fan_in_fan_out",
                                             "inference_mode",
                                             "init_lora_weights",
                                             "kasa_config",
                                             "layer_replication",
                                             "layers_pattern",
                                             "layers_to_transform",
                                             "loftq_config",
                                             "lora_alpha",
                                             "lora_bias",
                                             "lora_dropout",
                                             "lora_ga_config",
                                             "megatron_config",
                                             "megatron_core",
                                             "modules_to_save",
                                             "monteclora_config",
                                             "peft_type",
                                             "peft_version",
                                             "qalora_group_size",
                                             "r",
                                             "rank_pattern",
                                             "revision",
                                             "runtime_config",
                                             "target_modules",
                                             "target_parameters",
                                             "task_type",
                                             "trainable_token_indices",
                                             "use_bdlora",
                                             "use_dora",
                                             "use_qalora",
                                             "use_rslora",
                                             "velora_config"};

/* Those that make an adapter something else than W + scale B A. */
static const char *const refused_settings[] = {"alora_invocation_tokens", "arrow_config",      "kasa_config", "layer_replication",
                                               "monteclora_config",       "target_parameters", "use_bdlora",  "use_qalora"};

/* Initialisations that leave the base as it is; others train on a base that they changed. */
static const char *const plain_inits[] = {"gaussian", "eva", "orthogonal", "mica"};

static bool is_among(const char *const *list, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], word)) return true;
    return false;
}

#define AMONG(list, word) is_among(list, sizeof(list) / sizeof *(list), word)

/* As Python's truth: not null, false, 0, "" or empty. */
static bool is_set(const json_t *value)
{
    return value && !json_is_null(value) && !json_is_false(value) && !(json_is_number(value) && json_number_value(value) == 0) &&
           !(json_is_string(value) && !*json_string_value(value)) && !(json_is_array(value) && !json_array_size(value)) &&
           !(json_is_object(value) && !json_object_size(value));
}

/* ---- members --------------------------------------------------------------------------------- */

static zt_status get_bool(zt_ctx *ctx, const lora_config *config, const char *key, bool *out)
{
    const json_t *value = json_object_get(config->json, key);
    *out = json_is_true(value);
    if (!value || json_is_null(value) || json_is_boolean(value)) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "%s: '%s' is not true or false", config->file, key);
}

static zt_status check_type(zt_ctx *ctx, const lora_config *config)
{
    const json_t *type = json_object_get(config->json, "peft_type");
    const char *word = json_string_value(type);
    char shown[80];
    if (!type || (word && !strcmp(word, "LORA"))) return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "%s: peft_type '%s': only LORA is read", config->file,
                   word ? zt_escape(shown, sizeof shown, word, strlen(word)) : "?");
}

static zt_status check_init(zt_ctx *ctx, const lora_config *config)
{
    const char *key = "init_lora_weights";
    const json_t *value = json_object_get(config->json, key);
    const char *word = json_string_value(value);
    char shown[80];
    if (!value || json_is_boolean(value) || json_is_null(value) || (word && AMONG(plain_inits, word))) return ZT_OK;
    if (!word) return zt_fail(ctx, ZT_EDATA, "%s: '%s' is not true, false or a name", config->file, key);
    return zt_fail(ctx, ZT_ENOTSUP,
                   "%s: %s '%s' trains on a base with changed weights: convert the adapter with "
                   "PEFT's path_initial_model_for_weight_conversion",
                   config->file, key, zt_escape(shown, sizeof shown, word, strlen(word)));
}

static zt_status check_members(zt_ctx *ctx, const lora_config *config)
{
    for (size_t i = 0; i < sizeof refused_settings / sizeof *refused_settings; i++)
        if (is_set(json_object_get(config->json, refused_settings[i])))
            return zt_fail(ctx, ZT_ENOTSUP, "%s: '%s' is not supported", config->file, refused_settings[i]);
    return check_init(ctx, config);
}

static zt_status read_numbers(zt_ctx *ctx, lora_config *config)
{
    const json_t *alpha = json_object_get(config->json, "lora_alpha"), *rank = json_object_get(config->json, "r");
    if (!json_is_number(alpha) && !json_is_number(rank))
        return zt_fail(ctx, ZT_EDATA, "%s: has neither lora_alpha nor r", config->file);
    if ((alpha && !json_is_number(alpha)) || (alpha && !isfinite(json_number_value(alpha))))
        return zt_fail(ctx, ZT_EDATA, "%s: 'lora_alpha' is not a number", config->file);
    if (rank && (!json_is_integer(rank) || json_integer_value(rank) < 1))
        return zt_fail(ctx, ZT_EDATA, "%s: 'r' is not a whole number above 0", config->file);
    config->alpha = alpha ? json_number_value(alpha) : DEFAULT_ALPHA;
    config->rank = rank ? json_integer_value(rank) : DEFAULT_R;
    return ZT_OK;
}

static zt_status read_lists(zt_ctx *ctx, lora_config *config)
{
    const json_t *saved = json_object_get(config->json, "modules_to_save");
    const json_t *token = json_object_get(config->json, "trainable_token_indices");
    size_t i;
    json_t *value;
    if (saved && !json_is_null(saved) && !json_is_array(saved))
        return zt_fail(ctx, ZT_EDATA, "%s: 'modules_to_save' is not a list", config->file);
    json_array_foreach(saved, i, value)
    {
        if (!json_is_string(value)) return zt_fail(ctx, ZT_EDATA, "%s: 'modules_to_save': a name is not a string", config->file);
    }
    if (token && !json_is_null(token) && !json_is_array(token) && !json_is_object(token))
        return zt_fail(ctx, ZT_EDATA, "%s: 'trainable_token_indices' is not a list or an object", config->file);
    config->saved_modules = json_is_array(saved) ? saved : NULL;
    config->token_rows = is_set(token) ? token : NULL;
    return ZT_OK;
}

zt_status zt_lora_config_read(zt_ctx *ctx, const char *path, lora_config *config)
{
    *config = (lora_config){.file = path};
    config->json = zt_json_file(ctx, path, MOST_CONFIG);
    if (!config->json) return zt_ctx_status(ctx);
    if (!json_is_object(config->json)) return zt_fail(ctx, ZT_EDATA, "%s: is not a JSON object", path);
    zt_status status = check_type(ctx, config);
    if (status == ZT_OK) status = check_members(ctx, config);
    if (status == ZT_OK) status = read_numbers(ctx, config);
    if (status == ZT_OK) status = get_bool(ctx, config, "use_rslora", &config->rank_stabilized);
    if (status == ZT_OK) status = get_bool(ctx, config, "fan_in_fan_out", &config->transposed);
    if (status == ZT_OK) status = get_bool(ctx, config, "use_dora", &config->dora);
    if (status == ZT_OK) status = get_bool(ctx, config, "ensure_weight_tying", &config->tied);
    if (status == ZT_OK) status = read_lists(ctx, config);
    if (status == ZT_OK)
        config->alphas =
            zt_lora_patterns_read(ctx, path, "alpha_pattern", json_object_get(config->json, "alpha_pattern"), &status);
    if (status == ZT_OK)
        config->ranks = zt_lora_patterns_read(ctx, path, "rank_pattern", json_object_get(config->json, "rank_pattern"), &status);
    return status;
}

void zt_lora_config_fini(lora_config *config)
{
    zt_lora_patterns_free(config->alphas);
    zt_lora_patterns_free(config->ranks);
    json_decref(config->json);
    *config = (lora_config){0};
}

const char *zt_lora_unknown(const zt_lora *adapter, int index)
{
    const char *key;
    json_t *value;
    int count = 0;
    if (adapter->gguf) return NULL;
    json_object_foreach(adapter->config.json, key, value)
    {
        if (!AMONG(known_settings, key) && is_set(value) && count++ == index) return key;
    }
    return NULL;
}

/* ---- of a module ----------------------------------------------------------------------------- */

/* Is the module of that name: the last of its parts? */
static bool ends_in(const char *module, const char *name)
{
    size_t length = strlen(module), end_length = strlen(name);
    return end_length && end_length <= length && !strcmp(module + length - end_length, name) &&
           (end_length == length || module[length - end_length - 1] == '.');
}

bool zt_lora_config_saves(const lora_config *config, const char *module)
{
    size_t i;
    json_t *value;
    json_array_foreach(config->saved_modules, i, value)
    {
        if (ends_in(module, json_string_value(value))) return true;
    }
    return false;
}

zt_status zt_lora_config_scale(zt_ctx *ctx, const lora_config *config, const char *module, int64_t actual_rank, double *scale)
{
    const json_t *alpha, *rank;
    char shown[160];
    zt_status status = zt_lora_patterns_find(config->alphas, module, &alpha);
    if (status == ZT_OK) status = zt_lora_patterns_find(config->ranks, module, &rank);
    if (status != ZT_OK) return status;
    double wanted = rank ? json_number_value(rank) : (double)config->rank;
    double divisor = alpha ? json_number_value(alpha) : config->alpha;
    *scale = divisor / (config->rank_stabilized ? sqrt((double)actual_rank) : (double)actual_rank);
    zt_escape(shown, sizeof shown, module, strlen(module));
    if (wanted != (double)actual_rank)
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' has the rank %lld, by its matrices it is %lld", config->file, shown,
                       (long long)wanted, (long long)actual_rank);
    return isfinite(*scale) ? ZT_OK : zt_fail(ctx, ZT_EDATA, "%s: the alpha of '%s' is not a finite number", config->file, shown);
}

/* The indices for a module: the list, or the member whose name it ends in. */
static const json_t *find_token_rows(const lora_config *config, const char *module)
{
    const char *key;
    json_t *value;
    if (json_is_array(config->token_rows)) return config->token_rows;
    json_object_foreach((json_t *)(uintptr_t)config->token_rows, key, value)
    {
        if (ends_in(module, key)) return value;
    }
    return NULL;
}

zt_status zt_lora_config_rows(zt_ctx *ctx, const lora_config *config, const char *module, int64_t count, zt_arena *arena,
                              const int64_t **row)
{
    const json_t *list = config->token_rows ? find_token_rows(config, module) : NULL;
    char shown[160];
    zt_escape(shown, sizeof shown, module, strlen(module));
    if (!json_is_array(list) || json_array_size(list) != (size_t)count)
        return zt_fail(ctx, ZT_EDATA, "%s: trainable_token_indices has %zu indices for '%s', which has %lld rows", config->file,
                       json_array_size(list), shown, (long long)count);
    int64_t *out = zt_arena_alloc(arena, (size_t)(count + 1) * sizeof *out);
    if (!out) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return zt_fail(ctx, ZT_EDATA, "%s: trainable_token_indices: number %lld is not an index", config->file, (long long)i);
        out[i] = json_integer_value(value);
    }
    *row = out;
    return ZT_OK;
}
