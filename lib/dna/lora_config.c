/* lora_config.c - owns adapter_config.json: which of PEFT's settings change the result of an adapter, and which are not
 * supported.
 *
 * Source: PEFT 0.21.2, src/peft/tuners/lora/config.py and model.py (as facts). Each setting is irrelevant after training,
 * or applied here, or refused by name.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/pcre.h"
#include "lib/dna/lora_internal.h"

#include <ctype.h>
#include <math.h>
#include <pcre2.h>
#include <string.h>

enum { MOST_CONFIG = 4 << 20, DEFAULT_R = 8, DEFAULT_ALPHA = 8 };

/* Settings that are irrelevant after training, or that are read below. */
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

/* Settings that make an adapter something other than W + scale B A. */
static const char *const refused_settings[] = {"alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication",
                                               "monteclora_config",       "use_bdlora",   "use_qalora"};

/* Initializations that do not change the base; with others the adapter belongs to a changed base. */
static const char *const plain_inits[] = {"gaussian", "eva", "orthogonal", "mica"};

static bool is_among(const char *const *list, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], word)) return true;
    return false;
}

#define AMONG(list, word) is_among(list, sizeof(list) / sizeof *(list), word)

/* Python's truth value: not null, false, 0, "" or empty. */
static bool is_set(const json_t *value)
{
    return value && !json_is_null(value) && !json_is_false(value) && !(json_is_number(value) && json_number_value(value) == 0) &&
           !(json_is_string(value) && !*json_string_value(value)) && !(json_is_array(value) && !json_array_size(value)) &&
           !(json_is_object(value) && !json_object_size(value));
}

/* ---- patterns: rank_pattern, alpha_pattern ------------------------------------------------------- */

/* PEFT (utils/other.py, get_pattern_key, as facts) takes the first key, in the file's order, for
 * which Python's re.match(r'(.*\.)?(KEY)$', module) matches. PCRE2 runs the same expression. What
 * the two read differently is refused by name: escapes and groups that Python does not have or that
 * mean something else there.
 */
enum { MOST_KEYS = 1 << 14, MOST_KEY = 1 << 12, MOST_STEPS = 100000, MOST_HEAP_KIB = 16 << 10 };

struct lora_patterns {
    zt_ctx *ctx;
    const char *file, *member;
    const json_t *object;
    pcre2_general_context *memory;
    pcre2_compile_context *how;
    pcre2_match_context *limits;
    pcre2_match_data *match;
    pcre2_code **codes;
    const json_t **values;
    int count;
};

/* ---- expressions that Python and PCRE2 read alike --------------------------------------------- */

/* Behind a backslash. *cursor: its character; moved to the last that belongs to it. */
static bool is_same_escape(const char **cursor)
{
    const char *escape = *cursor;
    if (*escape == 'x') {
        if (!isxdigit((unsigned char)escape[1]) || !isxdigit((unsigned char)escape[2])) return false;
        *cursor = escape + 2;
        return true;
    }
    return *escape && (!isalnum((unsigned char)*escape) || isdigit((unsigned char)*escape) || strchr("AbBdDsSwWZnrtfa", *escape));
}

/* Behind "(": what kind of a group it is. */
static bool is_same_group(const char *text)
{
    if (*text == '*') return false;
    if (*text != '?') return true;
    text++;
    if (strchr(":=!>#(", *text) && *text) return true;
    if (*text == '<') return text[1] == '=' || text[1] == '!';
    if (*text == 'P') return text[1] == '<' || text[1] == '=';
    size_t flags = strspn(text, "imsx-");
    return flags && text[flags] == ':';
}

/* Behind "{": not a quantifier that only one of them reads as one. */
static bool is_same_braces(const char *text)
{
    size_t length = strcspn(text, "}");
    return *text != ',' && (!text[length] || !memchr(text, ' ', length));
}

/* The first place that both do not read alike; NULL: there is none. */
static const char *find_other_meaning(const char *key)
{
    bool set = false;
    for (const char *cursor = key; *cursor; cursor++) {
        const char *start = cursor;
        if (*cursor == '\\') {
            cursor++;
            if (!is_same_escape(&cursor)) return start;
        } else if (set) {
            if (*cursor == '[' && cursor[1] && strchr(":.=", cursor[1])) return start;
            set = *cursor != ']';
        } else if (*cursor == '[') {
            set = true;
            if (cursor[1] == '^') cursor++;
            if (cursor[1] == ']') cursor++; /* the first is itself */
        } else if ((*cursor == '(' && !is_same_group(cursor + 1)) || (*cursor == '{' && !is_same_braces(cursor + 1))) {
            return start;
        }
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static zt_status fail_pattern(const lora_patterns *patterns, const char *key, const char *why)
{
    char shown[160];
    return zt_fail(patterns->ctx, ZT_EDATA, "%s: %s: '%s': %s", patterns->file, patterns->member,
                   zt_escape(shown, sizeof shown, key, strlen(key)), why);
}

static zt_status compile_pattern(lora_patterns *patterns, const char *key)
{
    int code;
    PCRE2_SIZE error_offset;
    PCRE2_UCHAR why[120];
    char text[200];
    const char *other = strlen(key) > MOST_KEY ? key : find_other_meaning(key);
    if (other) {
        char shown[24];
        snprintf(text, sizeof text, "'%s' is not supported in a regular expression",
                 zt_escape(shown, sizeof shown, other, strnlen(other, 3)));
        return fail_pattern(patterns, key, text);
    }
    zt_str whole;
    zt_str_init(&whole, patterns->ctx);
    zt_status status = zt_str_printf(&whole, "(.*\\.)?(%s)$", key);
    if (status == ZT_OK)
        patterns->codes[patterns->count] = pcre2_compile(
            (PCRE2_SPTR)whole.data, whole.len, PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP, &code, &error_offset, patterns->how);
    zt_str_fini(&whole);
    if (status != ZT_OK) return status;
    if (patterns->codes[patterns->count++]) return ZT_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED) return zt_fail(patterns->ctx, ZT_ENOMEM, "%s", patterns->file);
    pcre2_get_error_message(code, why, sizeof why);
    return fail_pattern(patterns, key, (const char *)why);
}

static zt_status read_keys(lora_patterns *patterns)
{
    const char *key;
    json_t *value;
    size_t length = json_object_size(patterns->object);
    if (length > MOST_KEYS)
        return zt_fail(patterns->ctx, ZT_EDATA, "%s: %s has %zu keys: at most %d are supported", patterns->file, patterns->member,
                       length, MOST_KEYS);
    patterns->memory = pcre2_general_context_create(zt_pcre_alloc, zt_pcre_free, patterns->ctx);
    patterns->how = patterns->memory ? pcre2_compile_context_create(patterns->memory) : NULL;
    patterns->limits = patterns->how ? pcre2_match_context_create(patterns->memory) : NULL;
    patterns->match = patterns->limits ? pcre2_match_data_create(1, patterns->memory) : NULL;
    patterns->codes = zt_calloc(patterns->ctx, length, sizeof(pcre2_code *));
    patterns->values = zt_calloc(patterns->ctx, length, sizeof(json_t *));
    if (!patterns->match || !patterns->codes || !patterns->values) return ZT_ENOMEM;
    pcre2_set_newline(patterns->how, PCRE2_NEWLINE_LF);
    pcre2_set_match_limit(patterns->limits, MOST_STEPS);
    pcre2_set_heap_limit(patterns->limits, MOST_HEAP_KIB);
    json_object_foreach((json_t *)(uintptr_t)patterns->object, key, value)
    {
        if (!json_is_number(value)) return fail_pattern(patterns, key, "the value is not a number");
        patterns->values[patterns->count] = value;
        zt_status status = compile_pattern(patterns, key);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

static void free_patterns(lora_patterns *patterns)
{
    if (!patterns) return;
    for (int i = 0; patterns->codes && i < patterns->count; i++) pcre2_code_free(patterns->codes[i]);
    pcre2_match_data_free(patterns->match);
    pcre2_match_context_free(patterns->limits);
    pcre2_compile_context_free(patterns->how);
    pcre2_general_context_free(patterns->memory);
    zt_free(patterns->ctx, patterns->codes);
    zt_free(patterns->ctx, patterns->values);
    zt_free(patterns->ctx, patterns);
}

static lora_patterns *read_patterns(zt_ctx *ctx, const char *file, const char *member, const json_t *object, zt_status *status)
{
    *status = ZT_OK;
    if (!object || json_is_null(object)) return NULL;
    if (!json_is_object(object)) {
        *status = zt_fail(ctx, ZT_EDATA, "%s: '%s' is not an object", file, member);
        return NULL;
    }
    if (!json_object_size(object)) return NULL;
    lora_patterns *patterns = zt_calloc(ctx, 1, sizeof *patterns);
    *status = patterns ? ZT_OK : ZT_ENOMEM;
    if (!patterns) return NULL;
    *patterns = (lora_patterns){.ctx = ctx, .file = file, .member = member, .object = object};
    *status = read_keys(patterns);
    if (*status == ZT_OK) return patterns;
    free_patterns(patterns);
    return NULL;
}

/* ---- matching -------------------------------------------------------------------------------- */

static zt_status find_pattern(const lora_patterns *patterns, const char *module, const json_t **value)
{
    *value = NULL;
    for (int i = 0; patterns && i < patterns->count; i++) {
        int matched =
            pcre2_match(patterns->codes[i], (PCRE2_SPTR)module, strlen(module), 0, 0, patterns->match, patterns->limits);
        char shown[160];
        if (matched >= 0) {
            *value = patterns->values[i];
            return ZT_OK;
        }
        if (matched != PCRE2_ERROR_NOMATCH)
            return zt_fail(patterns->ctx, ZT_EDATA, "%s: %s: matching '%s' takes too many steps", patterns->file,
                           patterns->member, zt_escape(shown, sizeof shown, module, strlen(module)));
    }
    /* PEFT looks the module's own name up where no pattern matches */
    if (patterns) *value = json_object_get(patterns->object, module);
    return ZT_OK;
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
    return zt_fail(ctx, ZT_ENOTSUP, "%s: unsupported peft_type '%s': must be LORA", config->file,
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
        return zt_fail(ctx, ZT_EDATA, "%s: missing lora_alpha or r", config->file);
    if ((alpha && !json_is_number(alpha)) || (alpha && !isfinite(json_number_value(alpha))))
        return zt_fail(ctx, ZT_EDATA, "%s: 'lora_alpha' is not a number", config->file);
    if (rank && (!json_is_integer(rank) || json_integer_value(rank) < 1))
        return zt_fail(ctx, ZT_EDATA, "%s: 'r' is not a positive integer", config->file);
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
    if (!json_is_object(config->json)) return zt_fail(ctx, ZT_EDATA, "%s: not a JSON object", path);
    zt_status status = check_type(ctx, config);
    if (status == ZT_OK) status = check_members(ctx, config);
    if (status == ZT_OK) status = read_numbers(ctx, config);
    if (status == ZT_OK) status = get_bool(ctx, config, "use_rslora", &config->rank_stabilized);
    if (status == ZT_OK) status = get_bool(ctx, config, "fan_in_fan_out", &config->transposed);
    if (status == ZT_OK) status = get_bool(ctx, config, "use_dora", &config->dora);
    if (status == ZT_OK) status = get_bool(ctx, config, "ensure_weight_tying", &config->tied);
    if (status == ZT_OK) status = read_lists(ctx, config);
    if (status == ZT_OK) status = zt_lora_parameters_read(ctx, config);
    if (status == ZT_OK)
        config->alphas = read_patterns(ctx, path, "alpha_pattern", json_object_get(config->json, "alpha_pattern"), &status);
    if (status == ZT_OK)
        config->ranks = read_patterns(ctx, path, "rank_pattern", json_object_get(config->json, "rank_pattern"), &status);
    return status;
}

void zt_lora_config_fini(lora_config *config)
{
    free_patterns(config->alphas);
    free_patterns(config->ranks);
    json_decref(config->json);
    *config = (lora_config){0};
}

const char *zt_lora_unknown(const zt_lora *adapter, int index)
{
    if (!adapter) return NULL;
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

bool zt_lora_config_saves(const lora_config *config, const char *module)
{
    size_t i;
    json_t *value;
    json_array_foreach(config->saved_modules, i, value)
    {
        if (zt_name_ends_in(module, json_string_value(value))) return true;
    }
    return false;
}

zt_status zt_lora_config_scale(zt_ctx *ctx, const lora_config *config, const char *module, int64_t actual_rank, double *scale)
{
    const json_t *alpha, *rank;
    char shown[160];
    zt_status status = find_pattern(config->alphas, module, &alpha);
    if (status == ZT_OK) status = find_pattern(config->ranks, module, &rank);
    if (status != ZT_OK) return status;
    double wanted = rank ? json_number_value(rank) : (double)config->rank;
    double divisor = alpha ? json_number_value(alpha) : config->alpha;
    *scale = divisor / (config->rank_stabilized ? sqrt((double)actual_rank) : (double)actual_rank);
    zt_escape(shown, sizeof shown, module, strlen(module));
    if (wanted != (double)actual_rank)
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' has rank %lld, but its matrices have rank %lld", config->file, shown,
                       (long long)wanted, (long long)actual_rank);
    return isfinite(*scale) ? ZT_OK : zt_fail(ctx, ZT_EDATA, "%s: the alpha of '%s' is not a finite number", config->file, shown);
}

zt_status zt_lora_config_rank(zt_ctx *ctx, const lora_config *config, const char *module, int64_t *rank)
{
    const json_t *given;
    char shown[160];
    zt_status status = find_pattern(config->ranks, module, &given);
    double number = given ? json_number_value(given) : (double)config->rank;
    if (status == ZT_OK && !(number >= 1 && number <= 1 << 24 && number == floor(number)))
        status = zt_fail(ctx, ZT_EDATA, "%s: '%s' has rank %g, expected a whole number from 1 to 16777216", config->file,
                         zt_escape(shown, sizeof shown, module, strlen(module)), number);
    *rank = status == ZT_OK ? (int64_t)number : 1;
    return status;
}

/* The indices for a module: the list, or the member whose name it ends in. */
static const json_t *find_token_rows(const lora_config *config, const char *module)
{
    const char *key;
    json_t *value;
    if (json_is_array(config->token_rows)) return config->token_rows;
    json_object_foreach((json_t *)(uintptr_t)config->token_rows, key, value)
    {
        if (zt_name_ends_in(module, key)) return value;
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
        return zt_fail(ctx, ZT_EDATA, "%s: trainable_token_indices has %zu indices, but '%s' has %lld rows", config->file,
                       json_array_size(list), shown, (long long)count);
    int64_t *out = zt_arena_alloc(arena, (size_t)(count + 1) * sizeof *out);
    if (!out) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return zt_fail(ctx, ZT_EDATA, "%s: trainable_token_indices: element %lld is not a valid index", config->file,
                           (long long)i);
        out[i] = json_integer_value(value);
    }
    *row = out;
    return ZT_OK;
}
