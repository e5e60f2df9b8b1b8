/* receipt_read.c - a receipt from a file that anyone may have written: each value is checked before it is used. */
#include "tools/zt-run/receipt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 28, MOST_EVERY = 1 << 20 };

static zt_status refuse(zt_ctx *ctx, const receipt_record *record, const char *member, const char *wanted)
{
    return zt_fail(ctx, ZT_EDATA, "%s: not a receipt: \"%s\" is not %s", record->name, member, wanted);
}

/* ---- values ----------------------------------------------------------------------------------- */

static zt_status read_integer(zt_ctx *ctx, const receipt_record *record, const json_t *object, const char *name, int64_t least,
                              int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(object, name);
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= least && *out <= most) return ZT_OK;
    char wanted[80];
    snprintf(wanted, sizeof wanted, "an integer from %" PRId64 " to %" PRId64, least, most);
    return refuse(ctx, record, name, wanted);
}

static zt_status read_number(zt_ctx *ctx, const receipt_record *record, json_t *object, const char *name, double *out)
{
    const json_t *value = json_object_get(object, name);
    *out = json_number_value(value);
    if (!json_is_number(value) || !isfinite(*out)) return refuse(ctx, record, name, "a number");
    /* Other programs may write 1.0 as 1, which is the same head. */
    return json_object_set_new(object, name, json_real(*out)) ? ZT_ENOMEM : ZT_OK;
}

static zt_status read_flag(zt_ctx *ctx, const receipt_record *record, const json_t *object, const char *name, bool *out)
{
    const json_t *value = json_object_get(object, name);
    *out = json_is_true(value);
    return json_is_boolean(value) ? ZT_OK : refuse(ctx, record, name, "true or false");
}

static zt_status read_text(zt_ctx *ctx, const receipt_record *record, const json_t *object, const char *name, const char **out)
{
    *out = json_string_value(json_object_get(object, name));
    return *out ? ZT_OK : refuse(ctx, record, name, "a text");
}

static zt_status read_ids(zt_ctx *ctx, const receipt_record *record, const char *name, zt_ids *out)
{
    const json_t *list = json_object_get(record->json, name);
    zt_status status = json_is_array(list) ? ZT_OK : refuse(ctx, record, name, "a list of token ids");
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t id = json_integer_value(value);
        status = json_is_integer(value) && id >= 0 && id <= INT32_MAX ? zt_ids_push(ctx, out, (int32_t)id)
                                                                      : refuse(ctx, record, name, "a list of token ids");
    }
    return status;
}

/* ---- the settings ----------------------------------------------------------------------------- */

static zt_status read_sampler(zt_ctx *ctx, const receipt_record *record, json_t *settings, zt_sampler *sampler)
{
    const struct {
        const char *name;
        double *value;
    } numbers[] = {{"temp", &sampler->temp},
                   {"top_p", &sampler->top_p},
                   {"min_p", &sampler->min_p},
                   {"repeat_penalty", &sampler->repeat_penalty},
                   {"frequency_penalty", &sampler->frequency_penalty},
                   {"presence_penalty", &sampler->presence_penalty}};
    zt_status status = read_integer(ctx, record, settings, "top_k", 0, INT32_MAX, &sampler->top_k);
    if (!status) status = read_integer(ctx, record, settings, "repeat_last", -1, INT32_MAX, &sampler->repeat_last);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++)
        status = read_number(ctx, record, settings, numbers[i].name, numbers[i].value);
    if (status || !zt_sampler_check(ctx, sampler)) return status;
    char reason[160];
    snprintf(reason, sizeof reason, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return zt_fail(ctx, ZT_EDATA, "%s: not a receipt: %s", record->name, reason);
}

/* The text of --eos. */
static zt_status read_ends(zt_ctx *ctx, receipt_record *record, const json_t *settings)
{
    const json_t *list = json_object_get(settings, "ends");
    zt_status status = json_is_array(list) ? ZT_OK : refuse(ctx, record, "ends", "a list of token ids");
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return refuse(ctx, record, "ends", "a list of token ids");
        status = zt_str_printf(&record->ends, "%s%" JSON_INTEGER_FORMAT, i ? "," : "", json_integer_value(id));
    }
    if (!status && record->ends.len) record->options.eos = record->ends.data;
    return status;
}

static zt_status read_stops(zt_ctx *ctx, receipt_record *record, const json_t *settings)
{
    const json_t *list = json_object_get(settings, "stop"), *turn = json_object_get(settings, "turn");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > 1024) return refuse(ctx, record, "stop", "a list of at most 1024 texts");
    if (!json_is_null(turn) && !json_is_string(turn)) return refuse(ctx, record, "turn", "a text or null");
    record->turn = json_string_value(turn);
    record->stops = zt_alloc_array(ctx, count + 1, sizeof *record->stops);
    if (!record->stops) return ZT_ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (!(record->stops[i] = json_string_value(json_array_get(list, i))) || !*record->stops[i])
            return refuse(ctx, record, "stop", "a list of texts that are not empty");
    record->options.stop_texts = (zt_opt_list){.item = record->stops, .n = (int)count};
    return ZT_OK;
}

static zt_status find_cache_type(zt_ctx *ctx, const receipt_record *record, const char *key, const char *word, int *type)
{
    static const char *const words[] = {RUN_CACHE_TYPES(ZT_WORD_ONLY)};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], word)) {
            *type = (int)i;
            return ZT_OK;
        }
    return refuse(ctx, record, key, "a data type of the KV cache");
}

static zt_status read_settings(zt_ctx *ctx, receipt_record *record)
{
    json_t *settings = json_object_get(record->json, "settings");
    run_options *options = &record->options;
    const char *kv = NULL, *values = NULL;
    if (!json_is_object(settings)) return refuse(ctx, record, "settings", "an object");
    zt_status status = read_integer(ctx, record, settings, "ctx", 1, INT32_MAX - 64, &options->context_tokens);
    options->new_tokens = -1;
    if (!status && !json_is_null(json_object_get(settings, "n")))
        status = read_integer(ctx, record, settings, "n", 0, INT32_MAX, &options->new_tokens);
    if (!status) status = read_flag(ctx, record, settings, "exact", &options->exact);
    if (!status) status = read_flag(ctx, record, settings, "ignore_eos", &options->ignore_eos);
    if (!status) status = read_text(ctx, record, settings, "kv", &kv);
    if (!status) status = find_cache_type(ctx, record, "kv", kv, &options->kv_type);
    options->kv_values = -1;
    if (!status && json_object_get(settings, "kv_values")) {
        status = read_text(ctx, record, settings, "kv_values", &values);
        if (!status) status = find_cache_type(ctx, record, "kv_values", values, &options->kv_values);
    }
    if (!status) status = read_sampler(ctx, record, settings, &options->sampler);
    if (!status) status = read_ends(ctx, record, settings);
    if (!status) status = read_stops(ctx, record, settings);
    return status ? status : receipt_form_check(ctx, record, settings);
}

/* ---- the whole -------------------------------------------------------------------------------- */

static zt_status read_chain(zt_ctx *ctx, receipt_record *record)
{
    const json_t *list = json_object_get(record->json, "chain");
    record->link_count = (record->tokens.count + (size_t)record->every - 1) / (size_t)record->every;
    if (!json_is_array(list) || json_array_size(list) != record->link_count + 1)
        return zt_fail(ctx, ZT_EDATA, "%s: not a receipt: \"chain\" is not a list of %zu digests, which %zu tokens have",
                       record->name, record->link_count + 1, record->tokens.count);
    record->chain = zt_alloc_array(ctx, record->link_count + 1, RECEIPT_LINK);
    if (!record->chain) return ZT_ENOMEM;
    for (size_t i = 0; i <= record->link_count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || !zt_digest_parse(text, record->chain + i * RECEIPT_LINK))
            return refuse(ctx, record, "chain", "a list of digests of 64 hex digits");
    }
    return ZT_OK;
}

/* The receipt without what follows its head. */
static zt_status take_head(zt_ctx *ctx, receipt_record *record)
{
    static const char *const behind[] = {"tokens", "stop", "isa", "chain"};
    record->head = json_copy(record->json);
    if (!record->head) return zt_fail(ctx, ZT_ENOMEM, "%s: out of memory", record->name);
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) json_object_del(record->head, behind[i]);
    return ZT_OK;
}

static zt_status check_versions(zt_ctx *ctx, receipt_record *record)
{
    const char *schema = NULL;
    int64_t arithmetic;
    zt_status status = read_text(ctx, record, record->json, "schema", &schema);
    if (!status && strcmp(schema, RECEIPT_SCHEMA)) status = refuse(ctx, record, "schema", "'" RECEIPT_SCHEMA "'");
    if (!status) status = read_integer(ctx, record, record->json, "arithmetic", 1, INT32_MAX, &arithmetic);
    if (!status && arithmetic != ZT_ARITHMETIC)
        status = zt_fail(ctx, ZT_ENOTSUP, "%s: a receipt of arithmetic %" PRId64 ": this zt-run has arithmetic %d", record->name,
                         arithmetic, ZT_ARITHMETIC);
    return status;
}

/* All 64 bits: JSON's integers have 63 here. */
static bool parse_seed(const char *text, uint64_t *seed)
{
    char *end;
    if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return !errno && !*end;
}

static zt_status read_members(zt_ctx *ctx, receipt_record *record)
{
    const char *model = NULL, *seed = NULL;
    zt_status status = check_versions(ctx, record);
    if (!status) status = read_text(ctx, record, record->json, "model", &model);
    if (!status && !zt_digest_parse(model, record->model)) status = refuse(ctx, record, "model", "a digest of 64 hex digits");
    if (!status) status = read_text(ctx, record, record->json, "seed", &seed);
    if (!status && !parse_seed(seed, &record->seed)) status = refuse(ctx, record, "seed", "an integer from 0, as a text");
    if (!status) status = read_integer(ctx, record, record->json, "every", 1, MOST_EVERY, &record->every);
    if (!status) status = read_text(ctx, record, record->json, "stop", &record->stop);
    if (!status) status = read_text(ctx, record, record->json, "isa", &record->isa);
    if (!status) status = read_ids(ctx, record, "prompt", &record->prompt);
    if (!status && !record->prompt.count) status = refuse(ctx, record, "prompt", "a list of at least one token id");
    if (!status) status = read_ids(ctx, record, "tokens", &record->tokens);
    if (!status) status = read_settings(ctx, record);
    if (!status) status = read_chain(ctx, record);
    return status ? status : take_head(ctx, record);
}

zt_status receipt_read(run_state *run, const char *path, receipt_record *record)
{
    size_t length;
    json_error_t error;
    *record = (receipt_record){.name = strcmp(path, "-") ? path : "stdin", .options = *run->options};
    zt_str_init(&record->ends, run->ctx);
    char *text = zt_read_all(run->ctx, path, &length);
    if (!text) return zt_ctx_status(run->ctx);
    zt_status status = ZT_OK;
    if (length > MOST_BYTES)
        status = zt_fail(run->ctx, ZT_EDATA, "%s: %zu bytes: a receipt has at most %d", record->name, length, MOST_BYTES);
    if (!status) record->json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!status && !record->json)
        status = zt_fail(run->ctx, ZT_EDATA, "%s:%d: not JSON: %s", record->name, error.line, error.text);
    else if (!status && !json_is_object(record->json))
        status = zt_fail(run->ctx, ZT_EDATA, "%s: not a receipt: the JSON is not an object", record->name);
    zt_free(run->ctx, text);
    return status ? status : read_members(run->ctx, record);
}

void receipt_record_free(zt_ctx *ctx, receipt_record *record)
{
    json_decref(record->json);
    json_decref(record->head);
    zt_str_fini(&record->ends);
    zt_free(ctx, record->stops);
    zt_free(ctx, record->chain);
    zt_ids_fini(ctx, &record->prompt);
    zt_ids_fini(ctx, &record->tokens);
}
