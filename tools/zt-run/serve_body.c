/* serve_body.c - the body of a request of OpenAI's API, read into lines of --jsonl: what a line may have is what a body may
 * have (request_members.c), but for the members of the tables below. */
#include "tools/zt-run/serve.h"

#include <string.h>

/* ---- members that a line of --jsonl does not have, or has for something else ------------------------ */

enum { CHAT = 1 << SERVE_CHAT, COMPLETION = 1 << SERVE_COMPLETION, EMBEDDING = 1 << SERVE_EMBEDDING };

typedef enum member_use {
    HERE,      /* it is read here */
    NO_EFFECT, /* it does not change the text */
    IF_TRUE,   /* true changes nothing; another value is the line's */
    REFUSED,   /* it is of another path, or of --jsonl alone */
} member_use;

static const struct {
    const char *name;
    unsigned tasks;
    member_use use;
} body_members[] = {
    {"n", CHAT | COMPLETION, HERE},
    {"best_of", COMPLETION, HERE},
    {"stream", CHAT | COMPLETION, HERE},
    {"stream_options", CHAT | COMPLETION, HERE},
    {"prompt", COMPLETION, HERE},
    {"input", EMBEDDING, HERE},
    {"encoding_format", EMBEDDING, HERE},
    {"dimensions", EMBEDDING, HERE},
    {"model", EMBEDDING, HERE},
    {"user", CHAT | COMPLETION | EMBEDDING, NO_EFFECT},
    {"metadata", CHAT | COMPLETION, NO_EFFECT},
    {"store", CHAT | COMPLETION, NO_EFFECT},
    {"service_tier", CHAT | COMPLETION, NO_EFFECT},
    {"safety_identifier", CHAT | COMPLETION, NO_EFFECT},
    {"prompt_cache_key", CHAT | COMPLETION, NO_EFFECT},
    {"prompt_cache_retention", CHAT | COMPLETION, NO_EFFECT},
    {"id", CHAT | COMPLETION, REFUSED},
    {"raw", COMPLETION, REFUSED},
    {"prompt", CHAT, REFUSED},
    {"messages", COMPLETION, REFUSED},
};

enum { MEMBERS = sizeof body_members / sizeof *body_members };

/* MEMBERS: it is a member of the line. */
static size_t find_member(serve_task task, const char *key)
{
    size_t i = 0;
    while (i < MEMBERS && !(body_members[i].tasks & 1u << task && strcmp(body_members[i].name, key) == 0)) i++;
    return i;
}

static zt_status sort_member(run_state *run, serve_body *body, const char *key, json_t *value)
{
    const char *names[MEMBERS];
    size_t count = 0, i = find_member(body->task, key);
    member_use use = i < MEMBERS ? body_members[i].use : IF_TRUE;
    if (use == HERE || use == NO_EFFECT || (i < MEMBERS && use == IF_TRUE && json_is_true(value))) return ZT_OK;
    if (use == REFUSED) return zt_fail(run->ctx, ZT_EDATA, "unknown member \"%s\": this path does not have it", key);
    if (body->task != SERVE_EMBEDDING)
        return json_object_set(body->line, key, value) == 0 ? ZT_OK : zt_fail(run->ctx, ZT_ENOMEM, "no memory for a request");
    for (size_t k = 0; k < MEMBERS; k++)
        if (body_members[k].tasks & EMBEDDING) names[count++] = body_members[k].name;
    return request_unknown(run->ctx, key, names, count);
}

/* ---- members that are read here ----------------------------------------------------------------------- */

static const json_t *member_of(const serve_body *body, const char *key)
{
    const json_t *value = json_object_get(body->json, key);
    return json_is_null(value) ? NULL : value;
}

static zt_status read_flag(run_state *run, const json_t *value, const char *key, bool *flag)
{
    if (value && !json_is_boolean(value)) return request_refuse(run->ctx, key, value, "true or false");
    if (value) *flag = json_is_true(value);
    return ZT_OK;
}

static zt_status read_stream(run_state *run, serve_body *body)
{
    const json_t *options = member_of(body, "stream_options"), *value;
    const char *key;
    bool obfuscation = false;
    zt_status status = read_flag(run, member_of(body, "stream"), "stream", &body->stream);
    if (status != ZT_OK || !options) return status;
    if (!json_is_object(options)) return request_refuse(run->ctx, "stream_options", options, "an object");
    if (!body->stream) return zt_fail(run->ctx, ZT_EDATA, "\"stream_options\" goes with \"stream\": true");
    json_object_foreach((json_t *)(uintptr_t)options, key, value)
    {
        bool usage = strcmp(key, "include_usage") == 0;
        if (!usage && strcmp(key, "include_obfuscation") != 0)
            return request_unknown(run->ctx, key, (const char *const[]){"include_usage", "include_obfuscation"}, 2);
        status = read_flag(run, json_is_null(value) ? NULL : value, key, usage ? &body->usage : &obfuscation);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

/* An array of integers. */
static bool is_ids(const json_t *value)
{
    bool ids = json_array_size(value) > 0;
    for (size_t i = 0; ids && i < json_array_size(value); i++) ids = json_is_integer(json_array_get(value, i));
    return ids;
}

/* A text or an array of token ids, or an array of one kind of them. */
static zt_status read_texts(run_state *run, serve_body *body, const char *key, size_t most)
{
    const json_t *value = member_of(body, key);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "a text or an array of token ids, or an array of 1 to %zu of them", most);
    bool one = json_is_string(value) || is_ids(value);
    size_t count = one ? 1 : json_array_size(value), texts = 0, lists = 0;
    for (size_t i = 0; !one && i < count; i++) {
        texts += json_is_string(json_array_get(value, i));
        lists += is_ids(json_array_get(value, i));
    }
    if (!one && (count == 0 || count > most || (texts != count && lists != count)))
        return request_refuse(run->ctx, key, value, wanted);
    body->prompts = value;
    body->several = !one;
    body->prompt_count = count;
    return ZT_OK;
}

/* n, and best_of, which may only be the same. */
static zt_status read_choices(run_state *run, serve_body *body)
{
    const json_t *n = member_of(body, "n"), *best = body->task == SERVE_COMPLETION ? member_of(body, "best_of") : NULL;
    char wanted[96];
    size_t most = SERVE_CHOICES / body->prompt_count;
    snprintf(wanted, sizeof wanted, "an integer from 1 to %zu, the number of answers%s", most,
             body->prompt_count > 1 ? " to each prompt" : "");
    if (n && !(json_is_integer(n) && json_integer_value(n) >= 1 && (size_t)json_integer_value(n) <= most))
        return request_refuse(run->ctx, "n", n, wanted);
    if (n) body->choices = (size_t)json_integer_value(n);
    if (best && !(json_is_integer(best) && json_integer_value(best) == (json_int_t)body->choices))
        return request_refuse(run->ctx, "best_of", best, "\"n\", all that is supported");
    return ZT_OK;
}

static zt_status read_model(run_state *run, serve_body *body)
{
    const json_t *model = member_of(body, "model");
    char shown[72];
    if (!model) return ZT_OK;
    if (!json_is_string(model)) return request_refuse(run->ctx, "model", model, "a text");
    if (request_names_model(run, json_string_value(model))) return ZT_OK;
    body->status = 404;
    body->code = "model_not_found";
    return zt_fail(run->ctx, ZT_EDATA, "\"model\": '%s' is not the loaded model: see /v1/models",
                   zt_escape(shown, sizeof shown, json_string_value(model), json_string_length(model)));
}

static zt_status read_encoding(run_state *run, serve_body *body)
{
    const json_t *format = member_of(body, "encoding_format"), *dimensions = member_of(body, "dimensions");
    const char *word = format ? json_string_value(format) : "float";
    body->base64 = word && strcmp(word, "base64") == 0;
    if (!word || (!body->base64 && strcmp(word, "float") != 0))
        return request_refuse(run->ctx, "encoding_format", format, "\"float\" or \"base64\"");
    int64_t width = run->llm ? zt_llm_get(run->llm).vector : 0;
    if (!dimensions || (json_is_integer(dimensions) && json_integer_value(dimensions) == width)) return ZT_OK;
    char wanted[96];
    snprintf(wanted, sizeof wanted, "%lld, the width of the model", (long long)width);
    return request_refuse(run->ctx, "dimensions", dimensions, wanted);
}

static zt_status read_members(run_state *run, serve_body *body)
{
    const char *key;
    json_t *value;
    zt_status status = read_model(run, body);
    json_object_foreach(body->json, key, value) if (status == ZT_OK && !json_is_null(value)) status =
        sort_member(run, body, key, value);
    if (status != ZT_OK) return status;
    if (body->task == SERVE_EMBEDDING) {
        status = read_encoding(run, body);
        return status == ZT_OK ? read_texts(run, body, "input", SERVE_INPUTS) : status;
    }
    status = read_stream(run, body);
    if (status == ZT_OK && body->task == SERVE_COMPLETION) status = read_texts(run, body, "prompt", SERVE_CHOICES);
    if (status == ZT_OK) status = read_choices(run, body);
    if (status == ZT_OK && body->task == SERVE_COMPLETION && json_object_set_new(body->line, "raw", json_true()) != 0)
        status = zt_fail(run->ctx, ZT_ENOMEM, "no memory for a request");
    return status;
}

zt_status serve_body_read(run_state *run, serve_task task, const zt_str *text, serve_body *body)
{
    json_error_t error;
    char shown[128];
    *body = (serve_body){.task = task, .status = 400, .prompt_count = 1, .choices = 1};
    body->json = json_loadb(text->data ? text->data : "", text->len, JSON_REJECT_DUPLICATES, &error);
    if (!body->json)
        return zt_fail(run->ctx, ZT_EDATA, "the body is not JSON: line %d, column %d: %s", error.line, error.column,
                       zt_escape(shown, sizeof shown, error.text, strlen(error.text)));
    if (!json_is_object(body->json)) return zt_fail(run->ctx, ZT_EDATA, "the body is not a JSON object");
    body->line = json_object();
    return body->line ? read_members(run, body) : zt_fail(run->ctx, ZT_ENOMEM, "no memory for a request");
}

void serve_body_free(serve_body *body)
{
    json_decref(body->json);
    json_decref(body->line);
    *body = (serve_body){0};
}

/* ---- lines ---------------------------------------------------------------------------------------------- */

/* A seed that is not a number of --jsonl's range is left for its reader to refuse. */
static int set_seed(run_state *run, const serve_body *body, json_t *line, size_t choice)
{
    const json_t *given = member_of(body, "seed");
    if (choice == 0 || (given && !json_is_integer(given))) return 0;
    uint64_t seed = given ? (uint64_t)json_integer_value(given) : run->cli->seed;
    return json_object_set_new(line, "seed", json_integer((json_int_t)((seed + choice) & INT64_MAX)));
}

const json_t *serve_body_prompt(const serve_body *body, size_t index)
{
    return body->several ? json_array_get(body->prompts, index) : body->prompts;
}

/* A line of --jsonl, with a prompt, or with the seed of a choice. Allocated by jansson; NULL: no memory. */
static char *write_line(run_state *run, const serve_body *body, const json_t *prompt, size_t choice)
{
    json_t *line = json_copy(body->line);
    bool bad = !line || (prompt && json_object_set(line, "prompt", (json_t *)(uintptr_t)prompt) != 0) ||
               set_seed(run, body, line, choice) != 0;
    char *written = bad ? NULL : json_dumps(line, JSON_COMPACT);
    if (!written) zt_fail(run->ctx, ZT_ENOMEM, "no memory for a request");
    json_decref(line);
    return written;
}

zt_status serve_body_encode(run_state *run, const serve_body *body, size_t prompt, request_prompt *encoded)
{
    char *line = write_line(run, body, serve_body_prompt(body, prompt), 0);
    zt_status status = line ? request_encode(run, line, strlen(line), encoded) : ZT_ENOMEM;
    free(line);
    return status;
}

zt_status serve_body_forget(const run_state *run, serve_body *body)
{
    bool chat = body->task == SERVE_CHAT;
    if (json_object_set_new(body->line, chat ? "messages" : "prompt", chat ? json_array() : json_string("-")) == 0) return ZT_OK;
    return zt_fail(run->ctx, ZT_ENOMEM, "no memory for a request");
}

run_request *serve_body_request(run_state *run, const serve_body *body, const request_prompt *prompt, size_t choice)
{
    char *line = write_line(run, body, NULL, choice);
    run_request *request = line ? request_new_encoded(run, line, strlen(line), prompt) : NULL;
    free(line);
    return request;
}

const char *serve_named_member(const serve_body *body, const char *message, char name[64])
{
    const char *quote = strchr(message, '"'), *end = quote ? strchr(quote + 1, '"') : NULL;
    snprintf(name, 64, "%.*s", (int)strcspn(message, ":["), message); /* "grammar: line 1: ...", "messages[0]: ..." */
    if (json_object_get(body->json, name)) return name;
    if (!end || end - quote > 63) return NULL;
    snprintf(name, 64, "%.*s", (int)(end - quote - 1), quote + 1);
    return json_object_get(body->json, name) || strncmp(end, "\" is missing", 12) == 0 ? name : NULL;
}
