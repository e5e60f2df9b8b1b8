/* request_members.c - what the line of a request may say: the options by their names, and OpenAI's
 * names for them beside. What is not known, or known and not supported, is an error by its name. */
#include "lib/base/near.h"
#include "tools/zt-run/request.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages -------------------------------------------------------------------------------- */

enum { SHOWN = 72 };

static const char *show(char shown[SHOWN], const char *text)
{
    return zt_escape(shown, SHOWN, text, strlen(text));
}

static const char *show_json(char shown[SHOWN], const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    show(shown, text ? text : "?");
    free(text);
    return shown;
}

zt_status request_refuse(zt_ctx *ctx, const char *key, const json_t *value, const char *wanted)
{
    char name[SHOWN], shown[SHOWN];
    show(name, key);
    if (!value)
        return zt_fail(ctx, ZT_EDATA, "\"%s\" is missing: %s is needed", name, wanted);
    return zt_fail(ctx, ZT_EDATA, "\"%s\": %s is not %s", name, show_json(shown, value), wanted);
}

zt_status request_unknown(zt_ctx *ctx, const char *key, const char *const *names, size_t n)
{
    char shown[SHOWN];
    const char **list = zt_calloc(ctx, n + 1, sizeof *list); /* NULL last */
    if (!list) return ZT_ENOMEM;
    memcpy(list, names, n * sizeof *list);
    const char *near = zt_near_name(key, strlen(key), zt_near_list, list);
    zt_str all;
    zt_str_init(&all, ctx);
    zt_near_put(&all, (int)n, zt_near_list, list);
    zt_status s = zt_ctx_status(ctx);
    show(shown, key);
    if (s == ZT_OK && near)
        s = zt_fail(ctx, ZT_EDATA, "unknown member \"%s\" (did you mean \"%s\"?)", shown, near);
    else if (s == ZT_OK)
        s = zt_fail(ctx, ZT_EDATA, "unknown member \"%s\": known are %s", shown,
                    all.data ? all.data : "");
    zt_str_fini(&all);
    zt_free(ctx, list);
    return s;
}

/* ---- the members that take effect ------------------------------------------------------------ */

typedef struct member member;
typedef zt_status take_fn(request *q, const member *m, const json_t *value);

struct member {
    const char *name; /* with _ for - */
    take_fn *take;
    size_t at; /* in the request: members of one place are names for one thing */
    int64_t least, most;
};

static zt_status take_bool(request *q, const member *m, const json_t *value)
{
    if (!json_is_boolean(value))
        return request_refuse(q->r.ctx, m->name, value, "true or false");
    *(bool *)((char *)q + m->at) = json_is_true(value);
    return ZT_OK;
}

static zt_status check_integer(request *q, const member *m, const json_t *value)
{
    char wanted[96];
    bool in_range = json_is_integer(value) && json_integer_value(value) >= m->least &&
                    json_integer_value(value) <= m->most;
    snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)m->least,
             (long long)m->most);
    return in_range ? ZT_OK : request_refuse(q->r.ctx, m->name, value, wanted);
}

static zt_status take_integer(request *q, const member *m, const json_t *value)
{
    zt_status s = check_integer(q, m, value);
    if (s == ZT_OK)
        *(int64_t *)((char *)q + m->at) = json_integer_value(value);
    return s;
}

static zt_status take_number(request *q, const member *m, const json_t *value)
{
    if (!json_is_number(value))
        return request_refuse(q->r.ctx, m->name, value, "a number");
    *(double *)((char *)q + m->at) = json_number_value(value);
    return ZT_OK;
}

static zt_status take_text(request *q, const member *m, const json_t *value)
{
    if (!json_is_string(value))
        return request_refuse(q->r.ctx, m->name, value, "a text");
    *(const char **)((char *)q + m->at) = json_string_value(value);
    return ZT_OK;
}

static zt_status take_messages(request *q, const member *m, const json_t *value)
{
    if (!json_is_array(value))
        return request_refuse(q->r.ctx, m->name, value, "an array of messages");
    q->messages = value;
    return ZT_OK;
}

/* Objects: of functions, or of texts to answer from. */
static zt_status take_objects(request *q, const member *m, const json_t *value)
{
    bool fits = json_is_array(value);
    for (size_t i = 0; fits && i < json_array_size(value); i++)
        fits = json_is_object(json_array_get(value, i));
    if (!fits)
        return request_refuse(q->r.ctx, m->name, value, "an array of objects");
    if (json_array_size(value) > 0)
        *(const json_t **)((char *)q + m->at) = value;
    return ZT_OK;
}

static zt_status take_args(request *q, const member *m, const json_t *value)
{
    if (!json_is_object(value))
        return request_refuse(q->r.ctx, m->name, value, "an object");
    if (json_object_get(value, "messages"))
        return zt_fail(q->r.ctx, ZT_EDATA, "\"%s\": messages are a member of the request", m->name);
    *(const json_t **)((char *)q + m->at) = value;
    return ZT_OK;
}

static zt_status take_id(request *q, const member *m, const json_t *value)
{
    (void)q, (void)m, (void)value; /* it is read before all others, so that errors have it */
    return ZT_OK;
}

/* A text or an array of them. The list is ours, its texts the request's. */
static zt_status take_stops(request *q, const member *m, const json_t *value)
{
    zt_opt_list *stop = &q->o.stop;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    stop->n = 0;
    q->own_stops = true;
    stop->item = zt_alloc_array(q->r.ctx, n + 1, sizeof *stop->item);
    for (size_t i = 0; stop->item && i < n; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_string_length(text) == 0)
            return request_refuse(q->r.ctx, m->name, value,
                                  "a text or an array of texts, of which none is empty");
        stop->item[stop->n++] = json_string_value(text);
    }
    return zt_ctx_status(q->r.ctx);
}

/* Whether they are wanted, as in OpenAI's chats, or how many in each place. */
static zt_status take_logprobs(request *q, const member *m, const json_t *value)
{
    *(const json_t **)((char *)q + m->at) = value;
    bool wanted = json_is_boolean(value) && m->at == offsetof(request, logprobs);
    return wanted ? ZT_OK : check_integer(q, m, value);
}

/* Is `text` a name of the model that runs: its file's with or without folder and what follows a dot
 * (m.q4_1.gguf, m.q4_1, m), or its general.name, or its id? */
static bool names_model(const run *r, const char *text)
{
    const char *file = zt_gguf_name(r->gguf), *base = file;
    size_t n = strlen(text);
    for (const char *c = file; *c; c++) /* a directory's name may end in a slash */
        if (*c == '/' && c[1] && c[1] != '/')
            base = c + 1;
    zt_bytes name;
    bool begins = n && strncmp(text, base, n) == 0 && (!base[n] || base[n] == '.' || base[n] == '/');
    return begins || strcmp(text, file) == 0 || strcmp(text, r->o->model) == 0 ||
           strcmp(text, zt_gguf_id(r->gguf)) == 0 ||
           (zt_gguf_str(r->gguf, "general.name", &name) && name.n == n &&
            memcmp(name.data, text, n) == 0);
}

static zt_status take_model(request *q, const member *m, const json_t *value)
{
    char wanted[96 + SHOWN], shown[SHOWN];
    const char *name = zt_gguf_name(q->r.gguf);
    if (json_is_string(value) && names_model(&q->r, json_string_value(value)))
        return ZT_OK;
    snprintf(wanted, sizeof wanted, "the model that runs, \"%s\"", show(shown, name));
    return request_refuse(q->r.ctx, m->name, value, wanted);
}

#define AT(field) offsetof(request, field)
#define ANY INT64_MIN, INT64_MAX

static const member members[] = {
    {"id", take_id, AT(id), 0, 0},
    {"prompt", take_text, AT(prompt), 0, 0},
    {"messages", take_messages, AT(messages), 0, 0},
    {"tools", take_objects, AT(beside.tools), 0, 0},
    {"documents", take_objects, AT(beside.documents), 0, 0},
    {"chat_template_kwargs", take_args, AT(beside.args), 0, 0},
    {"model", take_model, AT(r.gguf), 0, 0},
    {"n", take_integer, AT(o.n), 0, INT32_MAX},
    {"max_tokens", take_integer, AT(o.n), 0, INT32_MAX},
    {"max_completion_tokens", take_integer, AT(o.n), 0, INT32_MAX},
    {"temp", take_number, AT(o.sampler.temp), 0, 0},
    {"temperature", take_number, AT(o.sampler.temp), 0, 0},
    {"top_k", take_integer, AT(o.sampler.top_k), ANY},
    {"top_p", take_number, AT(o.sampler.top_p), 0, 0},
    {"min_p", take_number, AT(o.sampler.min_p), 0, 0},
    {"repeat_penalty", take_number, AT(o.sampler.repeat_penalty), 0, 0},
    {"repeat_last", take_integer, AT(o.sampler.repeat_last), ANY},
    {"frequency_penalty", take_number, AT(o.sampler.frequency_penalty), 0, 0},
    {"presence_penalty", take_number, AT(o.sampler.presence_penalty), 0, 0},
    {"seed", take_integer, AT(r.seed), 0, INT64_MAX},
    {"stop", take_stops, AT(o.stop), 0, 0},
    {"logprobs", take_logprobs, AT(logprobs), 0, MOST_LOGPROBS},
    {"top_logprobs", take_logprobs, AT(top_logprobs), 0, MOST_LOGPROBS},
    {"system", take_text, AT(o.system), 0, 0},
    {"raw", take_bool, AT(o.raw), 0, 0},
    {"special", take_bool, AT(o.special), 0, 0},
    {"ignore_eos", take_bool, AT(o.ignore_eos), 0, 0},
};

enum { MEMBERS = sizeof members / sizeof *members };

/* ---- those of OpenAI's that do not ----------------------------------------------------------- */

/* They may have the one value that asks for nothing. */
static const struct {
    const char *name, *nothing; /* as JSON; NULL: there is none but null */
} unsupported[] = {
    {"audio", NULL},
    {"best_of", "1"},
    {"echo", "false"},
    {"function_call", "\"none\""},
    {"functions", "[]"},
    {"logit_bias", "{}"},
    {"metadata", "{}"},
    {"modalities", "[\"text\"]"},
    {"parallel_tool_calls", "false"},
    {"prediction", NULL},
    {"prompt_cache_key", NULL},
    {"reasoning_effort", NULL},
    {"response_format", "{\"type\":\"text\"}"},
    {"safety_identifier", NULL},
    {"service_tier", NULL},
    {"store", "false"},
    {"stream", "false"},
    {"stream_options", NULL},
    {"suffix", "\"\""},
    {"tool_choice", "\"none\""},
    {"user", NULL},
    {"verbosity", NULL},
    {"web_search_options", NULL},
};

enum { UNSUPPORTED = sizeof unsupported / sizeof *unsupported };

static bool asks_for_nothing(const json_t *value, const char *nothing)
{
    json_t *usual = nothing ? json_loads(nothing, JSON_DECODE_ANY, NULL) : NULL;
    bool same = usual && json_equal(value, usual);
    json_decref(usual);
    return same;
}

/* ---- a line ---------------------------------------------------------------------------------- */

/* Keys may be written with - for _. */
static bool is_name(const char *key, const char *name)
{
    while (*name && (*name == *key || (*name == '_' && *key == '-')))
        name++, key++;
    return !*name && !*key;
}

static zt_status take_other(request *q, const char *key, const json_t *value)
{
    const char *names[MEMBERS];
    char shown[SHOWN];
    zt_ctx *ctx = q->r.ctx;
    for (size_t i = 0; i < UNSUPPORTED; i++) {
        const char *nothing = unsupported[i].nothing;
        if (!is_name(key, unsupported[i].name))
            continue;
        if (asks_for_nothing(value, nothing))
            return ZT_OK;
        return zt_fail(ctx, ZT_EDATA, "\"%s\": %s is not supported%s%s", key, show_json(shown, value),
                       nothing ? ": only " : "", nothing ? nothing : "");
    }
    for (size_t i = 0; i < MEMBERS; i++)
        names[i] = members[i].name;
    return request_unknown(ctx, key, names, MEMBERS);
}

static bool same_value(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b)
                                                  : json_equal(a, b);
}

/* Two names of one thing, or two spellings of a name, whose values differ. */
static zt_status refuse_both(zt_ctx *ctx, const char *name, const json_t *value, const char *other,
                             const json_t *another)
{
    char first[SHOWN], second[SHOWN];
    show_json(first, value);
    show_json(second, another);
    return zt_fail(ctx, ZT_EDATA, "\"%s\": %s and \"%s\": %s mean the same, and differ", name, first,
                   other, second);
}

/* given: what came before, by member. */
static zt_status take(request *q, const char *key, const json_t *value, const json_t **given)
{
    size_t i = 0;
    while (i < MEMBERS && !is_name(key, members[i].name))
        i++;
    if (i == MEMBERS)
        return take_other(q, key, value);
    for (size_t k = 0; k < MEMBERS; k++)
        if (given[k] && members[k].at == members[i].at && !same_value(given[k], value))
            return refuse_both(q->r.ctx, members[k].name, given[k], key, value);
    given[i] = value;
    return members[i].take(q, &members[i], value);
}

/* logprobs: true wants them as top_logprobs says, or the command line; a number says it by itself. */
static zt_status settle_logprobs(request *q)
{
    const json_t *wanted = q->logprobs, *top = q->top_logprobs;
    int64_t usual = q->o.logprobs, n = json_is_integer(wanted) ? json_integer_value(wanted)
                                      : json_is_false(wanted) ? -1
                                      : json_is_true(wanted) && usual < 0 ? 0
                                                                          : usual;
    if (top && n < 0 && json_integer_value(top) == 0)
        return ZT_OK;
    if (top && (n < 0 || (json_is_integer(wanted) && json_integer_value(top) != n)))
        return zt_fail(q->r.ctx, ZT_EDATA, "\"top_logprobs\" needs \"logprobs\": true");
    q->o.logprobs = top ? json_integer_value(top) : n;
    return ZT_OK;
}

static zt_status load(request *q, const char *text, size_t n)
{
    json_error_t e;
    char shown[128];
    zt_ctx *ctx = q->r.ctx;
    q->json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!q->json)
        return zt_fail(ctx, ZT_EDATA, "column %d: not JSON: %s", e.column,
                       zt_escape(shown, sizeof shown, e.text, strlen(e.text)));
    if (!json_is_object(q->json))
        return zt_fail(ctx, ZT_EDATA, "not a JSON object");
    if (json_object_get(q->json, "id"))
        q->id = json_dumps(json_object_get(q->json, "id"), JSON_ENCODE_ANY | JSON_COMPACT);
    return ZT_OK;
}

zt_status request_parse(request *q, const char *text, size_t n)
{
    const char *key;
    const json_t *value, *given[MEMBERS] = {0};
    zt_status s = load(q, text, n);
    if (s != ZT_OK)
        return s;
    json_object_foreach(q->json, key, value)
        if (s == ZT_OK && !json_is_null(value))
            s = take(q, key, value, given);
    if (s == ZT_OK && !q->prompt == !q->messages)
        s = zt_fail(q->r.ctx, ZT_EDATA, "either \"prompt\" or \"messages\" is needed");
    if (s == ZT_OK && q->o.raw && json_is_string(json_object_get(q->json, "system")))
        s = zt_fail(q->r.ctx, ZT_EDATA, "\"system\" is of a chat template, and \"raw\" uses none");
    if (s == ZT_OK && q->prompt && (q->beside.tools || q->beside.documents || q->beside.args))
        s = zt_fail(q->r.ctx, ZT_EDATA, "\"tools\", \"documents\" and \"chat_template_kwargs\" go "
                    "with \"messages\"");
    if (s == ZT_OK)
        s = settle_logprobs(q);
    return s == ZT_OK ? zt_sampler_check(q->r.ctx, &q->o.sampler) : s;
}
