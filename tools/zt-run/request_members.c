/* request_members.c - the members of a request's JSON object: the options by their names, and by those that
 * OpenAI's API has for them. A member that is unknown or not supported is an error that names it. */
#include "lib/base/near.h"
#include "tools/zt-run/request.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages -------------------------------------------------------------------------------- */

enum { SHOWN = 72 };

static const char *show_text(char shown[SHOWN], const char *text) { return zt_escape(shown, SHOWN, text, strlen(text)); }

static const char *show_json(char shown[SHOWN], const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    show_text(shown, text ? text : "?");
    free(text);
    return shown;
}

zt_status request_refuse(zt_ctx *ctx, const char *key, const json_t *value, const char *wanted)
{
    char name[SHOWN], shown[SHOWN];
    show_text(name, key);
    if (!value) return zt_fail(ctx, ZT_EDATA, "\"%s\" is missing, expected %s", name, wanted);
    return zt_fail(ctx, ZT_EDATA, "\"%s\": %s is not %s", name, show_json(shown, value), wanted);
}

zt_status request_unknown(zt_ctx *ctx, const char *key, const char *const *names, size_t name_count)
{
    char shown[SHOWN];
    const char **list = zt_calloc(ctx, name_count + 1, sizeof *list); /* NULL last */
    if (!list) return ZT_ENOMEM;
    memcpy(list, names, name_count * sizeof *list);
    const char *near = zt_near_name(key, strlen(key), zt_near_list, list);
    zt_str all;
    zt_str_init(&all, ctx);
    zt_near_put(&all, (int)name_count, zt_near_list, list);
    zt_status status = zt_ctx_status(ctx);
    show_text(shown, key);
    if (status == ZT_OK && near)
        status = zt_fail(ctx, ZT_EDATA, "unknown member \"%s\" (did you mean \"%s\"?)", shown, near);
    else if (status == ZT_OK)
        status = zt_fail(ctx, ZT_EDATA, "unknown member \"%s\": expected %s", shown, all.data ? all.data : "");
    zt_str_fini(&all);
    zt_free(ctx, list);
    return status;
}

/* ---- the members that take effect ------------------------------------------------------------ */

typedef struct request_member request_member;
typedef zt_status read_member_fn(run_request *q, const request_member *m, const json_t *value);

struct request_member {
    const char *name; /* with _ for - */
    read_member_fn *read;
    size_t offset; /* in run_request; members with the same offset are names for the same thing */
    int64_t least, most;
};

static zt_status read_bool(run_request *request, const request_member *member, const json_t *value)
{
    if (!json_is_boolean(value)) return request_refuse(request->run.ctx, member->name, value, "true or false");
    *(bool *)((char *)request + member->offset) = json_is_true(value);
    return ZT_OK;
}

static zt_status check_integer(run_request *request, const request_member *member, const json_t *value)
{
    char wanted[96];
    bool in_range =
        json_is_integer(value) && json_integer_value(value) >= member->least && json_integer_value(value) <= member->most;
    snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)member->least, (long long)member->most);
    return in_range ? ZT_OK : request_refuse(request->run.ctx, member->name, value, wanted);
}

static zt_status read_integer(run_request *request, const request_member *member, const json_t *value)
{
    zt_status status = check_integer(request, member, value);
    if (status == ZT_OK) *(int64_t *)((char *)request + member->offset) = json_integer_value(value);
    return status;
}

static zt_status read_number(run_request *request, const request_member *member, const json_t *value)
{
    if (!json_is_number(value)) return request_refuse(request->run.ctx, member->name, value, "a number");
    *(double *)((char *)request + member->offset) = json_number_value(value);
    return ZT_OK;
}

static zt_status read_text(run_request *request, const request_member *member, const json_t *value)
{
    if (!json_is_string(value)) return request_refuse(request->run.ctx, member->name, value, "a string");
    *(const char **)((char *)request + member->offset) = json_string_value(value);
    return ZT_OK;
}

/* A text, or an array of token ids. */
static zt_status read_prompt(run_request *request, const request_member *member, const json_t *value)
{
    bool ids = json_array_size(value) > 0;
    for (size_t i = 0; ids && i < json_array_size(value); i++) ids = json_is_integer(json_array_get(value, i));
    if (!ids && !json_is_string(value))
        return request_refuse(request->run.ctx, member->name, value, "a string or an array of token ids");
    request->prompt = json_string_value(value);
    request->prompt_ids = ids ? value : NULL;
    return ZT_OK;
}

static zt_status read_messages(run_request *request, const request_member *member, const json_t *value)
{
    if (!json_is_array(value)) return request_refuse(request->run.ctx, member->name, value, "an array of messages");
    request->messages = value;
    return ZT_OK;
}

/* An array of objects: tools, or documents. */
static zt_status read_objects(run_request *request, const request_member *member, const json_t *value)
{
    bool fits = json_is_array(value);
    for (size_t i = 0; fits && i < json_array_size(value); i++) fits = json_is_object(json_array_get(value, i));
    if (!fits) return request_refuse(request->run.ctx, member->name, value, "an array of objects");
    if (json_array_size(value) > 0) *(const json_t **)((char *)request + member->offset) = value;
    return ZT_OK;
}

static zt_status read_args(run_request *request, const request_member *member, const json_t *value)
{
    if (!json_is_object(value)) return request_refuse(request->run.ctx, member->name, value, "an object");
    if (json_object_get(value, "messages"))
        return zt_fail(request->run.ctx, ZT_EDATA, "\"%s\": \"messages\" is a member of the request, not a template variable",
                       member->name);
    *(const json_t **)((char *)request + member->offset) = value;
    return ZT_OK;
}

/* Is read by request_hold. */
static zt_status read_form(run_request *request, const request_member *member, const json_t *value)
{
    *(const json_t **)((char *)request + member->offset) = value;
    return ZT_OK;
}

/* Is read by request_choose_tools. */
static zt_status read_tool_choice(run_request *request, const request_member *member, const json_t *value)
{
    (void)member;
    request->tool_choice = value;
    return ZT_OK;
}

static zt_status read_parallel(run_request *request, const request_member *member, const json_t *value)
{
    request->parallel_tool_calls = value;
    return json_is_boolean(value) ? ZT_OK : request_refuse(request->run.ctx, member->name, value, "true or false");
}

static zt_status read_effort(run_request *request, const request_member *member, const json_t *value)
{
    request->reasoning_effort = value;
    return json_is_string(value) ? ZT_OK : request_refuse(request->run.ctx, member->name, value, "a string");
}

static zt_status read_id(run_request *request, const request_member *member, const json_t *value)
{
    (void)request, (void)member, (void)value; /* it is read before all others, so that error answers have it */
    return ZT_OK;
}

/* A text or an array of them. The list is allocated, its texts belong to the JSON object. */
static zt_status read_stops(run_request *request, const request_member *member, const json_t *value)
{
    zt_opt_list *stops = &request->options.stop_texts;
    size_t text_count = json_is_array(value) ? json_array_size(value) : 1;
    stops->n = 0;
    request->own_stops = true;
    stops->item = zt_alloc_array(request->run.ctx, text_count + 1, sizeof *stops->item);
    for (size_t i = 0; stops->item && i < text_count; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_string_length(text) == 0)
            return request_refuse(request->run.ctx, member->name, value, "a non-empty string or an array of non-empty strings");
        stops->item[stops->n++] = json_string_value(text);
    }
    return zt_ctx_status(request->run.ctx);
}

/* logprobs: true or false, as in OpenAI's chat API, or a number of tokens; top_logprobs: a number of tokens. */
static zt_status read_logprobs(run_request *request, const request_member *member, const json_t *value)
{
    *(const json_t **)((char *)request + member->offset) = value;
    bool wanted = json_is_boolean(value) && member->offset == offsetof(run_request, logprobs);
    return wanted ? ZT_OK : check_integer(request, member, value);
}

bool request_names_model(const run_state *run, const char *text)
{
    const char *file = zt_gguf_name(run->gguf), *base = file;
    size_t length = strlen(text);
    for (const char *letter = file; *letter; letter++) /* a directory's name may end in a slash */
        if (*letter == '/' && letter[1] && letter[1] != '/') base = letter + 1;
    zt_bytes name;
    bool begins = length && strncmp(text, base, length) == 0 && (!base[length] || base[length] == '.' || base[length] == '/');
    return begins || strcmp(text, file) == 0 || strcmp(text, run->options->model) == 0 ||
           strcmp(text, zt_gguf_id(run->gguf)) == 0 ||
           (zt_gguf_str(run->gguf, "general.name", &name) && name.n == length && memcmp(name.data, text, length) == 0);
}

static zt_status read_model(run_request *request, const request_member *member, const json_t *value)
{
    char wanted[96 + SHOWN], shown[SHOWN];
    const char *name = zt_gguf_name(request->run.gguf);
    if (json_is_string(value) && request_names_model(&request->run, json_string_value(value))) return ZT_OK;
    snprintf(wanted, sizeof wanted, "the loaded model, \"%s\"", show_text(shown, name));
    return request_refuse(request->run.ctx, member->name, value, wanted);
}

#define AT(field) offsetof(run_request, field)
#define ANY       INT64_MIN, INT64_MAX

static const request_member member_table[] = {
    {"id", read_id, AT(json_id), 0, 0},
    {"prompt", read_prompt, AT(prompt), 0, 0},
    {"messages", read_messages, AT(messages), 0, 0},
    {"tools", read_objects, AT(beside.tools), 0, 0},
    {"documents", read_objects, AT(beside.documents), 0, 0},
    {"tool_choice", read_tool_choice, AT(tool_choice), 0, 0},
    {"parallel_tool_calls", read_parallel, AT(parallel_tool_calls), 0, 0},
    {"reasoning_effort", read_effort, AT(reasoning_effort), 0, 0},
    {"chat_template_kwargs", read_args, AT(beside.args), 0, 0},
    {"model", read_model, AT(run.gguf), 0, 0},
    {"n", read_integer, AT(options.new_tokens), 0, INT32_MAX},
    {"max_tokens", read_integer, AT(options.new_tokens), 0, INT32_MAX},
    {"max_completion_tokens", read_integer, AT(options.new_tokens), 0, INT32_MAX},
    {"temp", read_number, AT(options.sampler.temp), 0, 0},
    {"temperature", read_number, AT(options.sampler.temp), 0, 0},
    {"top_k", read_integer, AT(options.sampler.top_k), ANY},
    {"top_p", read_number, AT(options.sampler.top_p), 0, 0},
    {"min_p", read_number, AT(options.sampler.min_p), 0, 0},
    {"repeat_penalty", read_number, AT(options.sampler.repeat_penalty), 0, 0},
    {"repeat_last", read_integer, AT(options.sampler.repeat_last), ANY},
    {"frequency_penalty", read_number, AT(options.sampler.frequency_penalty), 0, 0},
    {"presence_penalty", read_number, AT(options.sampler.presence_penalty), 0, 0},
    {"seed", read_integer, AT(run.seed), 0, INT64_MAX},
    {"stop", read_stops, AT(options.stop_texts), 0, 0},
    {"logprobs", read_logprobs, AT(logprobs), 0, MOST_LOGPROBS},
    {"top_logprobs", read_logprobs, AT(top_logprobs), 0, MOST_LOGPROBS},
    {"response_format", read_form, AT(form[FORM_RESPONSE_FORMAT]), 0, 0},
    {"json_schema", read_form, AT(form[FORM_JSON_SCHEMA]), 0, 0},
    {"grammar", read_form, AT(form[FORM_GRAMMAR]), 0, 0},
    {"choices", read_form, AT(form[FORM_CHOICES]), 0, 0},
    {"regex", read_form, AT(form[FORM_REGEX]), 0, 0},
    {"system", read_text, AT(options.system), 0, 0},
    {"raw", read_bool, AT(options.raw), 0, 0},
    {"special", read_bool, AT(options.special), 0, 0},
    {"ignore_eos", read_bool, AT(options.ignore_eos), 0, 0},
};

enum { MEMBERS = sizeof member_table / sizeof *member_table };

/* ---- members of OpenAI's API without effect -------------------------------------------------- */

/* They are accepted only with the value that asks for nothing. */
static const struct {
    const char *name, *nothing; /* nothing: that value as JSON; NULL: only null */
} unsupported_members[] = {
    {"audio", NULL},
    {"best_of", "1"},
    {"echo", "false"},
    {"function_call", "\"none\""},
    {"functions", "[]"},
    {"logit_bias", "{}"},
    {"metadata", "{}"},
    {"modalities", "[\"text\"]"},
    {"prediction", NULL},
    {"prompt_cache_key", NULL},
    {"safety_identifier", NULL},
    {"service_tier", NULL},
    {"store", "false"},
    {"stream", "false"},
    {"stream_options", NULL},
    {"suffix", "\"\""},
    {"user", NULL},
    {"verbosity", NULL},
    {"web_search_options", NULL},
};

enum { UNSUPPORTED = sizeof unsupported_members / sizeof *unsupported_members };

static bool asks_for_nothing(const json_t *value, const char *nothing)
{
    json_t *usual = nothing ? json_loads(nothing, JSON_DECODE_ANY, NULL) : NULL;
    bool same = usual && json_equal(value, usual);
    json_decref(usual);
    return same;
}

/* ---- a line ---------------------------------------------------------------------------------- */

/* Is the key this name? It may be written with - instead of _. */
static bool is_name(const char *key, const char *name)
{
    while (*name && (*name == *key || (*name == '_' && *key == '-'))) name++, key++;
    return !*name && !*key;
}

static zt_status refuse_other(run_request *request, const char *key, const json_t *value)
{
    const char *names[MEMBERS];
    char shown[SHOWN];
    zt_ctx *ctx = request->run.ctx;
    for (size_t i = 0; i < UNSUPPORTED; i++) {
        const char *nothing = unsupported_members[i].nothing;
        if (!is_name(key, unsupported_members[i].name)) continue;
        if (asks_for_nothing(value, nothing)) return ZT_OK;
        return zt_fail(ctx, ZT_EDATA, "\"%s\": %s is not supported%s%s", key, show_json(shown, value), nothing ? ": only " : "",
                       nothing ? nothing : "");
    }
    for (size_t i = 0; i < MEMBERS; i++) names[i] = member_table[i].name;
    return request_unknown(ctx, key, names, MEMBERS);
}

static bool same_value(const json_t *first, const json_t *second)
{
    return json_is_number(first) && json_is_number(second) ? json_number_value(first) == json_number_value(second)
                                                           : json_equal(first, second);
}

/* Two names of one thing, or two spellings of a name, whose values differ. */
static zt_status refuse_both(zt_ctx *ctx, const char *name, const json_t *value, const char *other, const json_t *another)
{
    char shown_value[SHOWN], shown_other[SHOWN];
    show_json(shown_value, value);
    show_json(shown_other, another);
    return zt_fail(ctx, ZT_EDATA, "conflicting values: \"%s\": %s and \"%s\": %s", name, shown_value, other, shown_other);
}

/* given: the values that were read before, by their index in member_table; NULL: not given. */
static zt_status read_member(run_request *request, const char *key, const json_t *value, const json_t **given)
{
    size_t i = 0;
    while (i < MEMBERS && !is_name(key, member_table[i].name)) i++;
    if (i == MEMBERS) return refuse_other(request, key, value);
    for (size_t other = 0; other < MEMBERS; other++)
        if (given[other] && member_table[other].offset == member_table[i].offset && !same_value(given[other], value))
            return refuse_both(request->run.ctx, member_table[other].name, given[other], key, value);
    given[i] = value;
    return member_table[i].read(request, &member_table[i], value);
}

/* Sets options.logprobs:
 *
 *   "logprobs"    "top_logprobs" given           not given
 *   a number      must be the same number        that number
 *   true          top_logprobs                   the command line's, or 0
 *   false         must be 0                      none
 *   not given     top_logprobs if --logprobs     the command line's
 *                 is given, else must be 0
 */
static zt_status settle_logprobs(run_request *request)
{
    const json_t *wanted = request->logprobs, *top = request->top_logprobs;
    int64_t usual = request->options.logprobs, count = json_is_integer(wanted)             ? json_integer_value(wanted)
                                                       : json_is_false(wanted)             ? -1
                                                       : json_is_true(wanted) && usual < 0 ? 0
                                                                                           : usual;
    bool none = count < 0 && json_integer_value(top) == 0; /* "top_logprobs": 0 asks for nothing */
    if (top && !none && (count < 0 || (json_is_integer(wanted) && json_integer_value(top) != count)))
        return zt_fail(request->run.ctx, ZT_EDATA, "\"top_logprobs\" needs \"logprobs\": true");
    request->options.logprobs = top && !none ? json_integer_value(top) : count;
    return ZT_OK;
}

/* "reasoning_effort" is a variable of the template. */
static zt_status settle_effort(run_request *request)
{
    static const char key[] = "reasoning_effort", variables[] = "chat_template_kwargs";
    if (!request->reasoning_effort) return ZT_OK;
    json_t *args = request->beside.args ? json_copy((json_t *)(uintptr_t)request->beside.args) : json_object();
    const json_t *given = json_object_get(args, key);
    if (given && !json_equal(given, request->reasoning_effort)) {
        zt_status status = refuse_both(request->run.ctx, key, request->reasoning_effort, variables, given);
        json_decref(args);
        return status;
    }
    request->beside.args = args;
    if (json_object_set(args, key, (json_t *)(uintptr_t)request->reasoning_effort) == 0 &&
        json_object_set_new(request->json, variables, args) == 0)
        return ZT_OK;
    return zt_fail(request->run.ctx, ZT_ENOMEM, "out of memory");
}

/* A line with an integer that is too large: names the member, if it is one of the line's object. */
static zt_status refuse_overflow(zt_ctx *ctx, const char *text, size_t size, const json_error_t *error)
{
    const char *key;
    const json_t *value;
    char shown[128];
    zt_escape(shown, sizeof shown, error->text, strlen(error->text));
    json_t *object = json_loadb(text, size, JSON_DECODE_INT_AS_REAL, NULL);
    json_object_foreach(object, key, value)
    {
        if (!json_is_real(value) || json_real_value(value) < 0x1p63) continue;
        snprintf(shown, sizeof shown, "\"%.40s\" is out of range: the largest integer is %lld", key, (long long)INT64_MAX);
        break;
    }
    json_decref(object);
    return zt_fail(ctx, ZT_EDATA, "column %d: %s", error->column, shown);
}

static zt_status load_json(run_request *request, const char *text, size_t size)
{
    json_error_t error;
    char shown[128];
    zt_ctx *ctx = request->run.ctx;
    request->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!request->json && json_error_code(&error) == json_error_numeric_overflow) return refuse_overflow(ctx, text, size, &error);
    if (!request->json)
        return zt_fail(ctx, ZT_EDATA, "column %d: not JSON: %s", error.column,
                       zt_escape(shown, sizeof shown, error.text, strlen(error.text)));
    if (!json_is_object(request->json)) return zt_fail(ctx, ZT_EDATA, "not a JSON object");
    if (json_object_get(request->json, "id"))
        request->json_id = json_dumps(json_object_get(request->json, "id"), JSON_ENCODE_ANY | JSON_COMPACT);
    return ZT_OK;
}

zt_status request_parse(run_request *request, const char *text, size_t size)
{
    const char *key;
    const json_t *value, *given[MEMBERS] = {0};
    zt_status status = load_json(request, text, size);
    if (status != ZT_OK) return status;
    json_object_foreach(request->json, key, value) if (status == ZT_OK && !json_is_null(value)) status =
        read_member(request, key, value, given);
    bool prompt = request->prompt || request->prompt_ids;
    if (status == ZT_OK && prompt == (request->messages != NULL))
        status = zt_fail(request->run.ctx, ZT_EDATA, "exactly one of \"prompt\" and \"messages\" is required");
    if (status == ZT_OK && request->options.raw && json_is_string(json_object_get(request->json, "system")))
        status = zt_fail(request->run.ctx, ZT_EDATA, "\"system\" needs a chat template, but \"raw\" disables it");
    if (status == ZT_OK && request->prompt_ids && json_is_string(json_object_get(request->json, "system")))
        status =
            zt_fail(request->run.ctx, ZT_EDATA, "\"system\" needs a text or messages, but \"prompt\" is an array of token ids");
    if (status == ZT_OK && prompt && (request->beside.tools || request->beside.documents || request->beside.args))
        status = zt_fail(request->run.ctx, ZT_EDATA, "\"tools\", \"documents\" and \"chat_template_kwargs\" need \"messages\"");
    if (status == ZT_OK) status = settle_logprobs(request);
    if (status == ZT_OK) status = request_choose_tools(request);
    if (status == ZT_OK) status = settle_effort(request);
    return status == ZT_OK ? zt_sampler_check(request->run.ctx, &request->options.sampler) : status;
}
