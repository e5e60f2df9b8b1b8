/* jsonl.c - --jsonl: a request a line, an answer a line, in the same order.
 *
 * A request is {"id", "prompt" or "messages", and options by their names}; what it does not say is as
 * the command line says. A bad one is answered by {"id", "error", "status"}, and the next is read.
 * Requests share the KV cache: what the last one's tokens and the next one's begin with alike is not
 * fed again, and the answers are those of runs by themselves.
 */
#include "tools/zt-run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

/* A line's limit; jansson's memory is bounded by it. */
#define MOST_BYTES (64u << 20)
#define PIECE (64u << 10)

typedef struct request {
    run *r;
    run_options o; /* the command line's, with what the request says */
    json_t *json;
    const json_t *messages;
    const char *prompt;
    char *id; /* JSON text of its "id"; malloc'ed by jansson */
} request;

/* ---- what a request may say ------------------------------------------------------------------ */

static zt_status wrong(request *q, const char *key, const char *why)
{
    char shown[64];
    return zt_fail(q->r->ctx, ZT_EDATA, "request: \"%s\" %s",
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
    stop->item = zt_alloc_array(q->r->ctx, (size_t)n, sizeof *stop->item);
    for (int i = 0; stop->item && i < n; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, (size_t)i) : value;
        if (!json_is_string(text))
            return wrong(q, "stop", "is no text and no array of texts");
        stop->item[stop->n++] = json_string_value(text);
    }
    return zt_ctx_status(q->r->ctx);
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
        q->r->seed = (uint64_t)json_integer_value(value);
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
    zt_ctx *ctx = q->r->ctx;
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
    run *r = q->r;
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
    run *r = q->r;
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

static zt_status put_error(request *q, zt_status why)
{
    zt_ctx *ctx = q->r->ctx;
    zt_str s;
    char message[1024];
    zt_escape(message, sizeof message, zt_ctx_error(ctx), strlen(zt_ctx_error(ctx)));
    zt_ctx_clear(ctx);
    zt_str_init(&s, ctx);
    zt_str_printf(&s, "{\"id\":%s,\"error\":", q->id ? q->id : "null");
    zt_str_put_json(&s, message, strlen(message));
    zt_str_printf(&s, ",\"status\":%d}\n", zt_exit_code(why));
    zt_status st = zt_ctx_status(ctx);
    if (st == ZT_OK)
        st = run_write(q->r, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* The request's own fault, or too much for this run's limits: others may still be answered. */
static bool is_theirs(zt_status s)
{
    return s == ZT_EDATA || s == ZT_EUSAGE || s == ZT_ENOMEM || s == ZT_ENOTSUP;
}

static zt_status serve(run *r, const char *line, size_t n, int *failed)
{
    const run_options *own = r->o;
    request q = {.r = r, .o = *own};
    zt_opt_list stops = own->stop;
    r->seed = r->cli->seed;
    zt_status s = parse(&q, line, n);
    r->o = &q.o;
    r->id = q.id;
    if (s == ZT_OK)
        s = encode(&q);
    if (s == ZT_OK)
        s = run_answer(r);
    if (s == ZT_OK)
        s = run_report_json(r);
    else if (is_theirs(s)) {
        ++*failed;
        s = put_error(&q, s);
    }
    r->o = own;
    r->id = NULL;
    if (q.o.stop.item != stops.item)
        zt_free(r->ctx, q.o.stop.item);
    json_decref(q.json);
    free(q.id);
    return s;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* More of the input behind what is there; *n: how much came. */
static zt_status read_more(run *r, int fd, zt_str *in, size_t *n)
{
    char piece[PIECE];
    ssize_t got = read(fd, piece, sizeof piece);
    *n = got > 0 ? (size_t)got : 0;
    if (got < 0 && errno == EINTR && zt_cli_interrupted())
        return ZT_EINTR;
    if (got < 0)
        return zt_fail(r->ctx, ZT_EIO, "%s: %s", r->o->input ? r->o->input : "stdin",
                       strerror(errno));
    if (in->len + *n > MOST_BYTES)
        return zt_fail(r->ctx, ZT_EDATA, "request: a line of more than %u bytes", MOST_BYTES);
    return zt_str_put(in, piece, *n);
}

/* Every whole line of what is there; at the end also the last, which may lack its newline. */
static zt_status serve_lines(run *r, zt_str *in, bool end, int *failed)
{
    size_t at = 0;
    zt_status s = ZT_OK;
    while (s == ZT_OK && at < in->len) {
        const char *line = in->data + at, *stop = memchr(line, '\n', in->len - at);
        if (!stop && !end)
            break;
        size_t n = stop ? (size_t)(stop - line) : in->len - at;
        at += n + (stop != NULL);
        if (zt_cli_interrupted())
            s = ZT_EINTR;
        else if (strspn(line, " \t\r") < n)
            s = serve(r, line, n, failed);
    }
    if (at)
        memmove(in->data, in->data + at, in->len -= at);
    return s;
}

zt_status run_jsonl(run *r)
{
    const char *path = r->o->input;
    bool named = path && strcmp(path, "-") != 0;
    int failed = 0, fd = named ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    zt_str in;
    zt_str_init(&in, r->ctx);
    zt_status s = fd < 0 ? zt_fail(r->ctx, ZT_ENOENT, "%s: %s", path, strerror(errno))
                         : run_open_llm(r, 0, false);
    for (size_t n = 1; s == ZT_OK && n > 0;) {
        s = read_more(r, fd, &in, &n);
        if (s == ZT_OK)
            s = serve_lines(r, &in, n == 0, &failed);
    }
    if (named && fd >= 0)
        close(fd);
    zt_str_fini(&in);
    if (s == ZT_OK && failed)
        s = zt_fail(r->ctx, ZT_EDATA, "%d requests could not be answered", failed);
    return s;
}
