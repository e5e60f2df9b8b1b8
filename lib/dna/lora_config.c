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
static const char *const known[] = {
    "alpha_pattern", "alora_invocation_tokens", "arrow_config", "auto_mapping",
    "base_model_name_or_path", "bias", "corda_config", "ensure_weight_tying", "eva_config",
    "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights", "kasa_config",
    "layer_replication", "layers_pattern", "layers_to_transform", "loftq_config", "lora_alpha",
    "lora_bias", "lora_dropout", "lora_ga_config", "megatron_config", "megatron_core",
    "modules_to_save", "monteclora_config", "peft_type", "peft_version", "qalora_group_size", "r",
    "rank_pattern", "revision", "runtime_config", "target_modules", "target_parameters",
    "task_type", "trainable_token_indices", "use_bdlora", "use_dora", "use_qalora", "use_rslora",
    "velora_config"};

/* Those that make an adapter something else than W + scale B A. */
static const char *const refused[] = {"alora_invocation_tokens", "arrow_config",
                                      "kasa_config",             "layer_replication",
                                      "monteclora_config",       "target_parameters",
                                      "use_bdlora",              "use_qalora"};

/* Initialisations that leave the base as it is; others train on a base that they changed. */
static const char *const plain_inits[] = {"gaussian", "eva", "orthogonal", "mica"};

static bool is_among(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], word)) return true;
    return false;
}

#define AMONG(list, word) is_among(list, sizeof(list) / sizeof *(list), word)

/* As Python's truth: not null, false, 0, "" or empty. */
static bool is_set(const json_t *v)
{
    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_number(v) && json_number_value(v) == 0) &&
           !(json_is_string(v) && !*json_string_value(v)) &&
           !(json_is_array(v) && !json_array_size(v)) &&
           !(json_is_object(v) && !json_object_size(v));
}

/* ---- members --------------------------------------------------------------------------------- */

static zt_status get_bool(zt_ctx *ctx, const lora_config *c, const char *key, bool *out)
{
    const json_t *v = json_object_get(c->json, key);
    *out = json_is_true(v);
    if (!v || json_is_null(v) || json_is_boolean(v)) return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "%s: '%s' is not true or false", c->file, key);
}

static zt_status check_type(zt_ctx *ctx, const lora_config *c)
{
    const json_t *type = json_object_get(c->json, "peft_type");
    const char *word = json_string_value(type);
    char shown[80];
    if (!type || (word && !strcmp(word, "LORA"))) return ZT_OK;
    return zt_fail(ctx, ZT_ENOTSUP, "%s: peft_type '%s': only LORA is read", c->file,
                   word ? zt_escape(shown, sizeof shown, word, strlen(word)) : "?");
}

static zt_status check_init(zt_ctx *ctx, const lora_config *c)
{
    const char *key = "init_lora_weights";
    const json_t *v = json_object_get(c->json, key);
    const char *word = json_string_value(v);
    char shown[80];
    if (!v || json_is_boolean(v) || json_is_null(v) || (word && AMONG(plain_inits, word)))
        return ZT_OK;
    if (!word) return zt_fail(ctx, ZT_EDATA, "%s: '%s' is not true, false or a name", c->file, key);
    return zt_fail(ctx, ZT_ENOTSUP,
                   "%s: %s '%s' trains on a base with changed weights: convert the adapter with "
                   "PEFT's path_initial_model_for_weight_conversion",
                   c->file, key, zt_escape(shown, sizeof shown, word, strlen(word)));
}

static zt_status check_members(zt_ctx *ctx, const lora_config *c)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_set(json_object_get(c->json, refused[i])))
            return zt_fail(ctx, ZT_ENOTSUP, "%s: '%s' is not supported", c->file, refused[i]);
    return check_init(ctx, c);
}

static zt_status read_numbers(zt_ctx *ctx, lora_config *c)
{
    const json_t *alpha = json_object_get(c->json, "lora_alpha"), *r = json_object_get(c->json, "r");
    if (!json_is_number(alpha) && !json_is_number(r))
        return zt_fail(ctx, ZT_EDATA, "%s: has neither lora_alpha nor r", c->file);
    if ((alpha && !json_is_number(alpha)) || (alpha && !isfinite(json_number_value(alpha))))
        return zt_fail(ctx, ZT_EDATA, "%s: 'lora_alpha' is not a number", c->file);
    if (r && (!json_is_integer(r) || json_integer_value(r) < 1))
        return zt_fail(ctx, ZT_EDATA, "%s: 'r' is not a whole number above 0", c->file);
    c->alpha = alpha ? json_number_value(alpha) : DEFAULT_ALPHA;
    c->r = r ? json_integer_value(r) : DEFAULT_R;
    return ZT_OK;
}

static zt_status read_lists(zt_ctx *ctx, lora_config *c)
{
    const json_t *saved = json_object_get(c->json, "modules_to_save");
    const json_t *token = json_object_get(c->json, "trainable_token_indices");
    size_t i;
    json_t *v;
    if (saved && !json_is_null(saved) && !json_is_array(saved))
        return zt_fail(ctx, ZT_EDATA, "%s: 'modules_to_save' is not a list", c->file);
    json_array_foreach(saved, i, v)
    {
        if (!json_is_string(v))
            return zt_fail(ctx, ZT_EDATA, "%s: 'modules_to_save': a name is not a string", c->file);
    }
    if (token && !json_is_null(token) && !json_is_array(token) && !json_is_object(token))
        return zt_fail(ctx, ZT_EDATA, "%s: 'trainable_token_indices' is not a list or an object",
                       c->file);
    c->saved = json_is_array(saved) ? saved : NULL;
    c->token = is_set(token) ? token : NULL;
    return ZT_OK;
}

zt_status zt_lora_config_read(zt_ctx *ctx, const char *path, lora_config *c)
{
    *c = (lora_config){.file = path};
    c->json = zt_json_file(ctx, path, MOST_CONFIG);
    if (!c->json) return zt_ctx_status(ctx);
    if (!json_is_object(c->json))
        return zt_fail(ctx, ZT_EDATA, "%s: is not a JSON object", path);
    zt_status s = check_type(ctx, c);
    if (s == ZT_OK) s = check_members(ctx, c);
    if (s == ZT_OK) s = read_numbers(ctx, c);
    if (s == ZT_OK) s = get_bool(ctx, c, "use_rslora", &c->root);
    if (s == ZT_OK) s = get_bool(ctx, c, "fan_in_fan_out", &c->transposed);
    if (s == ZT_OK) s = get_bool(ctx, c, "use_dora", &c->dora);
    if (s == ZT_OK) s = get_bool(ctx, c, "ensure_weight_tying", &c->tied);
    if (s == ZT_OK) s = read_lists(ctx, c);
    if (s == ZT_OK)
        c->alphas = zt_lora_patterns_read(ctx, path, "alpha_pattern",
                                          json_object_get(c->json, "alpha_pattern"), &s);
    if (s == ZT_OK)
        c->ranks = zt_lora_patterns_read(ctx, path, "rank_pattern",
                                         json_object_get(c->json, "rank_pattern"), &s);
    return s;
}

void zt_lora_config_fini(lora_config *c)
{
    zt_lora_patterns_free(c->alphas);
    zt_lora_patterns_free(c->ranks);
    json_decref(c->json);
    *c = (lora_config){0};
}

const char *zt_lora_unknown(const zt_lora *l, int i)
{
    const char *key;
    json_t *v;
    int n = 0;
    if (l->gguf) return NULL;
    json_object_foreach(l->config.json, key, v)
    {
        if (!AMONG(known, key) && is_set(v) && n++ == i) return key;
    }
    return NULL;
}

/* ---- of a module ----------------------------------------------------------------------------- */

/* Is the module of that name: the last of its parts? */
static bool ends_in(const char *module, const char *name)
{
    size_t n = strlen(module), k = strlen(name);
    return k && k <= n && !strcmp(module + n - k, name) && (k == n || module[n - k - 1] == '.');
}

bool zt_lora_config_saves(const lora_config *c, const char *module)
{
    size_t i;
    json_t *v;
    json_array_foreach(c->saved, i, v)
    {
        if (ends_in(module, json_string_value(v))) return true;
    }
    return false;
}

zt_status zt_lora_config_scale(zt_ctx *ctx, const lora_config *c, const char *module, int64_t r,
                               double *scale)
{
    const json_t *alpha, *rank;
    char shown[160];
    zt_status s = zt_lora_patterns_find(c->alphas, module, &alpha);
    if (s == ZT_OK) s = zt_lora_patterns_find(c->ranks, module, &rank);
    if (s != ZT_OK) return s;
    double wanted = rank ? json_number_value(rank) : (double)c->r;
    double of = alpha ? json_number_value(alpha) : c->alpha;
    *scale = of / (c->root ? sqrt((double)r) : (double)r);
    zt_escape(shown, sizeof shown, module, strlen(module));
    if (wanted != (double)r)
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' has the rank %lld, by its matrices it is %lld",
                       c->file, shown, (long long)wanted, (long long)r);
    return isfinite(*scale) ? ZT_OK
                            : zt_fail(ctx, ZT_EDATA, "%s: the alpha of '%s' is not a finite number",
                                      c->file, shown);
}

/* The indices for a module: the list, or the member whose name it ends in. */
static const json_t *indices_of(const lora_config *c, const char *module)
{
    const char *key;
    json_t *v;
    if (json_is_array(c->token)) return c->token;
    json_object_foreach((json_t *)(uintptr_t)c->token, key, v)
    {
        if (ends_in(module, key)) return v;
    }
    return NULL;
}

zt_status zt_lora_config_rows(zt_ctx *ctx, const lora_config *c, const char *module, int64_t n,
                              zt_arena *arena, const int64_t **row)
{
    const json_t *list = c->token ? indices_of(c, module) : NULL;
    char shown[160];
    zt_escape(shown, sizeof shown, module, strlen(module));
    if (!json_is_array(list) || json_array_size(list) != (size_t)n)
        return zt_fail(ctx, ZT_EDATA,
                       "%s: trainable_token_indices has %zu indices for '%s', which has %lld rows",
                       c->file, json_array_size(list), shown, (long long)n);
    int64_t *out = zt_arena_alloc(arena, (size_t)(n + 1) * sizeof *out);
    if (!out) return ZT_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return zt_fail(ctx, ZT_EDATA, "%s: trainable_token_indices: number %lld is not an index",
                           c->file, (long long)i);
        out[i] = json_integer_value(v);
    }
    *row = out;
    return ZT_OK;
}
