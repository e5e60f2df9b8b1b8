/* request.c - a request of --jsonl: what its line may say, its prompt's tokens, and its answer.
 *
 * Each has a run of its own, which borrows the model and what goes with it from the tool's.
 */
#include "tools/zt-run/request.h"

#include <string.h>

/* ---- what a request may say ------------------------------------------------------------------ */

static zt_status wrong(request *q, const char *key, const char *why)
{
    char shown[64];
    return zt_fail(q->r.ctx, ZT_EDATA, "request: \"%s\" %s",
                   zt_escape(shown, sizeof shown, key, strlen(key)), why);
}

typedef enum kind { KIND_BOOL, KIND_INT, KIND_DOUBLE, KIND_TEXT, KIND_SEED, KIND_STOP } kind;

typedef struct member {
    const char *name; /* with _ for - */
    kind kind;
    size_t at; /* in run_options */
    int64_t least;
} member;

#define AT(field) offsetof(run_options, field)

static const member members[] = {
    {"n", KIND_INT, AT(n), 0},
    {"logprobs", KIND_INT, AT(logprobs), 0},
    {"temp", KIND_DOUBLE, AT(sampler.temp), 0},
    {"top_k", KIND_INT, AT(sampler.top_k), INT64_MIN},
    {"top_p", KIND_DOUBLE, AT(sampler.top_p), 0},
    {"min_p", KIND_DOUBLE, AT(sampler.min_p), 0},
    {"repeat_penalty", KIND_DOUBLE, AT(sampler.repeat_penalty), 0},
    {"repeat_last", KIND_INT, AT(sampler.repeat_last), INT64_MIN},
    {"seed", KIND_SEED, 0, 0},
    {"stop", KIND_STOP, 0, 0},
    {"system", KIND_TEXT, AT(system), 0},
    {"raw", KIND_BOOL, AT(raw), 0},
    {"special", KIND_BOOL, AT(special), 0},
    {"ignore_eos", KIND_BOOL, AT(ignore_eos), 0},
};

static const member *find_member(const char *key)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const char *a = members[i].name, *b = key;
        while (*a && (*a == *b || (*a == '_' && *b == '-')))
            a++, b++;
        if (!*a && !*b)
            return &members[i];
    }
    return NULL;
}

/* A text or an array of them. The list is ours, its texts the request's. */
static zt_status take_stops(request *q, const json_t *value)
{
    zt_opt_list *stop = &q->o.stop;
    int n = json_is_array(value) ? (int)json_array_size(value) : 1;
    stop->n = 0;
    q->own_stops = true;
    stop->item = zt_alloc_array(q->r.ctx, (size_t)n, sizeof *stop->item);
    for (int i = 0; stop->item && i < n; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, (size_t)i) : value;
        if (!json_is_string(text))
            return wrong(q, "stop", "is no text and no array of texts");
        stop->item[stop->n++] = json_string_value(text);
    }
    return zt_ctx_status(q->r.ctx);
}

static zt_status take_member(request *q, const member *m, const json_t *value)
{
    char *at = (char *)&q->o + m->at;
    bool fits = m->kind == KIND_BOOL     ? json_is_boolean(value)
                : m->kind == KIND_DOUBLE ? json_is_number(value)
                : m->kind == KIND_TEXT   ? json_is_string(value)
                                         : json_is_integer(value) || m->kind == KIND_STOP;
    if (!fits || (m->kind == KIND_INT && json_integer_value(value) < m->least))
        return wrong(q, m->name, "has no value that it can have");
    switch (m->kind) {
    case KIND_BOOL:
        *(bool *)at = json_is_true(value);
        break;
    case KIND_INT:
        *(int64_t *)at = json_integer_value(value);
        break;
    case KIND_DOUBLE:
        *(double *)at = json_number_value(value);
        break;
    case KIND_TEXT:
        *(const char **)at = json_string_value(value);
        break;
    case KIND_SEED:
        q->r.seed = (uint64_t)json_integer_value(value);
        break;
    case KIND_STOP:
        return take_stops(q, value);
    }
    return ZT_OK;
}

static zt_status take(request *q, const char *key, const json_t *value)
{
    const member *m = find_member(key);
    if (strcmp(key, "id") == 0)
        return ZT_OK;
    if (strcmp(key, "messages") == 0) {
        q->messages = value;
        return json_is_array(value) ? ZT_OK : wrong(q, key, "is not an array");
    }
    if (strcmp(key, "prompt") == 0) {
        q->prompt = json_string_value(value);
        return q->prompt ? ZT_OK : wrong(q, key, "is not a text");
    }
    return m ? take_member(q, m, value) : wrong(q, key, "is no option of a request");
}

/* ---- a request ------------------------------------------------------------------------------- */

static zt_status parse(request *q, const char *line, size_t n)
{
    json_error_t e;
    const char *key;
    const json_t *value;
    char shown[128];
    zt_ctx *ctx = q->r.ctx;
    q->json = json_loadb(line, n, JSON_REJECT_DUPLICATES, &e);
    if (!q->json)
        return zt_fail(ctx, ZT_EDATA, "request: %s",
                       zt_escape(shown, sizeof shown, e.text, strlen(e.text)));
    if (!json_is_object(q->json))
        return zt_fail(ctx, ZT_EDATA, "request: not a JSON object");
    if (json_object_get(q->json, "id"))
        q->id = json_dumps(json_object_get(q->json, "id"), JSON_ENCODE_ANY | JSON_COMPACT);
    zt_status s = ZT_OK;
    json_object_foreach(q->json, key, value)
        if (s == ZT_OK)
            s = take(q, key, value);
    if (s == ZT_OK && !q->prompt == !q->messages)
        s = zt_fail(ctx, ZT_EDATA, "request: either \"prompt\" or \"messages\" is needed");
    return s == ZT_OK ? zt_sampler_check(ctx, &q->o.sampler) : s;
}

/* {"role": .., "content": ..} each; --system opens them where they have none. */
static zt_status encode_messages(request *q)
{
    run *r = &q->r;
    int n = 0, count = (int)json_array_size(q->messages);
    zt_message *m = zt_alloc_array(r->ctx, (size_t)count + 1, sizeof *m);
    zt_status s = m ? run_choose_template(r) : ZT_ENOMEM;
    if (s == ZT_OK && !r->tmpl)
        s = zt_fail(r->ctx, ZT_EUSAGE, "request: messages need a chat template");
    for (int i = 0; i < count && s == ZT_OK; i++) {
        const json_t *o = json_array_get(q->messages, (size_t)i);
        m[n].role = json_string_value(json_object_get(o, "role"));
        m[n].content = json_string_value(json_object_get(o, "content"));
        if (!m[n].role || !m[n].content)
            s = wrong(q, "messages", "has one without the texts role and content");
        n++;
    }
    if (s == ZT_OK && r->o->system && (n == 0 || strcmp(m[0].role, "system") != 0)) {
        memmove(m + 1, m, (size_t)n++ * sizeof *m);
        m[0] = (zt_message){"system", r->o->system};
    }
    if (s == ZT_OK && n == 0)
        s = wrong(q, "messages", "is empty");
    if (s == ZT_OK)
        s = run_encode_messages(r, m, n, &r->ids);
    r->n_prompt = r->ids.n;
    zt_free(r->ctx, m);
    return s;
}

static zt_status encode(request *q)
{
    run *r = &q->r;
    r->ids.n = 0;
    r->tmpl = r->tmpl_file; /* a file of --template stays open; else by each request's options */
    if (q->messages)
        return encode_messages(q);
    if (!*q->prompt)
        return zt_fail(r->ctx, ZT_EUSAGE, "the prompt is empty");
    r->input = (char *)q->prompt;
    r->input_bytes = strlen(q->prompt);
    zt_status s = run_encode_prompt(r);
    r->input = NULL;
    return s;
}

/* ---- its answer ------------------------------------------------------------------------------ */

static zt_status put_error(request *q, zt_status why)
{
    zt_ctx *ctx = q->r.ctx;
    char message[1024];
    zt_escape(message, sizeof message, zt_ctx_error(ctx), strlen(zt_ctx_error(ctx)));
    zt_ctx_clear(ctx);
    zt_str_clear(&q->answer);
    zt_str_printf(&q->answer, "{\"id\":%s,\"error\":", q->id ? q->id : "null");
    zt_str_put_json(&q->answer, message, strlen(message));
    zt_str_printf(&q->answer, ",\"status\":%d}\n", zt_exit_code(why));
    return zt_ctx_status(ctx);
}

bool request_is_theirs(zt_status s)
{
    return s == ZT_EDATA || s == ZT_EUSAGE || s == ZT_ENOMEM || s == ZT_ENOTSUP;
}

zt_status request_end(request *q, zt_status s)
{
    if (s == ZT_OK)
        s = run_text_end(&q->r);
    q->r.ended = zt_seconds();
    if (s == ZT_OK)
        s = run_put_json(&q->r, &q->answer);
    q->failed = s != ZT_OK;
    q->done = true;
    return request_is_theirs(s) ? put_error(q, s) : s;
}

zt_status request_next(void *text, float *logits, int32_t best, bool *more)
{
    request *q = text;
    if (q->r.prompted == 0)
        q->r.prompted = zt_seconds();
    q->r.logits = logits;
    q->r.next[0] = best;
    zt_status s = run_next_token(&q->r);
    *more = s == ZT_OK && !q->r.stop;
    return *more ? ZT_OK : request_end(q, s);
}

/* ---- a line ---------------------------------------------------------------------------------- */

static void begin(request *q, run *base)
{
    *q = (request){.r = *base, .o = *base->o};
    q->r.o = &q->o;
    q->r.seed = base->cli->seed;
    q->r.ids = q->r.fed = (zt_ids){0};
    q->r.first = q->r.prompted = 0;
    q->r.asked = zt_seconds();
    zt_str *const strings[] = {REQUEST_STRINGS(q)};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        zt_str_init(strings[i], base->ctx);
}

request *request_new(run *base, const char *line, size_t n)
{
    request *q = zt_alloc(base->ctx, sizeof *q);
    if (!q)
        return NULL;
    begin(q, base);
    run_text_begin(&q->r);
    zt_status s = parse(q, line, n);
    q->r.id = q->id;
    if (s == ZT_OK)
        s = encode(q);
    base->tmpl_file = q->r.tmpl_file; /* opened once, for all */
    if (s == ZT_OK)
        s = run_check_room(&q->r);
    if (s == ZT_OK && q->o.n == 0)
        q->r.stop = "length";
    if ((s == ZT_OK && !q->r.stop) || request_end(q, s) == ZT_OK)
        return q;
    request_free(q);
    return NULL;
}

void request_free(request *q)
{
    zt_ctx *ctx = q->r.ctx;
    zt_str *const strings[] = {REQUEST_STRINGS(q)};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        zt_str_fini(strings[i]);
    zt_ids_fini(ctx, &q->r.ids);
    if (q->own_stops)
        zt_free(ctx, q->o.stop.item);
    json_decref(q->json);
    free(q->id);
    zt_free(ctx, q);
}
