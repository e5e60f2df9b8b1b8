/* request_messages.c - the conversation of a request: objects with a role and a content, which is a
 * text or a list of parts of text. */
#include "tools/zt-run/request.h"

#include <string.h>

/* ---- members --------------------------------------------------------------------------------- */

/* Where a member of OpenAI's API is known. */
enum { NOWHERE, PROGRAM, ALWAYS }; /* PROGRAM: only to a template that is a program */

typedef struct member {
    const char *name;
    int known;
} member;

static const member message_members[] = {
    {"role", ALWAYS},          {"content", ALWAYS},       {"name", PROGRAM},
    {"tool_calls", PROGRAM},   {"tool_call_id", PROGRAM}, {"reasoning_content", PROGRAM},
    {"reasoning", PROGRAM},    {"thinking", PROGRAM},     {"function_call", NOWHERE},
    {"refusal", NOWHERE},      {"audio", NOWHERE},        {"annotations", NOWHERE},
};

enum { MEMBERS = sizeof message_members / sizeof *message_members };

static const member part_members[] = {{"type", ALWAYS}, {"text", ALWAYS}};

static zt_status check_member(zt_ctx *ctx, const char *key, const member *m, size_t n, int least)
{
    const char *names[sizeof message_members / sizeof *message_members];
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(m[i].name, key) == 0)
            return m[i].known >= least ? ZT_OK
                                       : zt_fail(ctx, ZT_EDATA, "\"%s\" is not supported%s", key,
                                                 m[i].known ? " by a template by rule" : "");
        if (m[i].known >= least)
            names[known++] = m[i].name;
    }
    return request_unknown(ctx, key, names, known);
}

/* An object of such members; null is as absent. */
static zt_status check_members(zt_ctx *ctx, const json_t *o, const member *m, size_t n, int least)
{
    zt_status s = ZT_OK;
    const char *key;
    const json_t *value;
    if (!json_is_object(o))
        return request_refuse(ctx, "messages", o, "an object with \"role\" and \"content\"");
    json_object_foreach((json_t *)o, key, value)
        if (s == ZT_OK && !json_is_null(value))
            s = check_member(ctx, key, m, n, least);
    return s;
}

/* ---- content --------------------------------------------------------------------------------- */

/* The text of {"type": "text", "text": ..}; NULL: the context says what is wrong with it. */
static const char *part_text(zt_ctx *ctx, const json_t *part)
{
    const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    if (!json_is_object(part))
        request_refuse(ctx, "content", part, "an object with \"type\" and \"text\"");
    else if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0)
        request_refuse(ctx, "type", type, "\"text\", the only type of content part supported");
    else if (!json_is_string(text))
        request_refuse(ctx, "text", text, "a text");
    else if (check_members(ctx, part, part_members, 2, ALWAYS) == ZT_OK)
        return json_string_value(text);
    return NULL;
}

/* The texts of a list's parts, a newline between two. */
static const char *join_parts(zt_ctx *ctx, zt_arena *a, const json_t *parts)
{
    zt_str all;
    const char *joined = NULL;
    zt_str_init(&all, ctx);
    for (size_t i = 0; i < json_array_size(parts) && !zt_ctx_status(ctx); i++) {
        const char *text = part_text(ctx, json_array_get(parts, i));
        if (text)
            zt_str_printf(&all, "%s%s", i ? "\n" : "", text);
    }
    if (!zt_ctx_status(ctx) && all.data)
        joined = zt_arena_strndup(a, all.data, all.len);
    zt_str_fini(&all);
    return joined;
}

static const char *content_of(zt_ctx *ctx, zt_arena *a, const json_t *content)
{
    if (json_is_string(content))
        return json_string_value(content);
    if (json_is_array(content) && json_array_size(content) > 0)
        return join_parts(ctx, a, content);
    request_refuse(ctx, "content", content, "a text or a list of parts");
    return NULL;
}

static zt_status read_message(zt_ctx *ctx, zt_arena *a, const json_t *o, zt_message *m)
{
    zt_status s = check_members(ctx, o, message_members, MEMBERS, ALWAYS);
    if (s != ZT_OK)
        return s;
    const json_t *role = json_object_get(o, "role");
    m->role = json_string_value(role);
    if (!m->role)
        return request_refuse(ctx, "role", role, "a text");
    m->content = content_of(ctx, a, json_object_get(o, "content"));
    return m->content ? ZT_OK : zt_ctx_status(ctx);
}

/* What is wrong with the n-th says which it is. */
static zt_status number_error(zt_ctx *ctx, int n, zt_status s)
{
    char why[512];
    if (s != ZT_EDATA)
        return s;
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return zt_fail(ctx, s, "messages[%d]: %s", n, why);
}

/* ---- for a template by rule ------------------------------------------------------------------ */

/* m has room for one more than there are: --system opens a conversation that has no such message. */
static zt_status encode_rows(request *q, zt_arena *a, zt_message *m, bool system)
{
    run *r = &q->r;
    int n = 0, count = (int)json_array_size(q->messages);
    zt_status s = ZT_OK;
    if (q->beside.tools || q->beside.documents || q->beside.args)
        s = zt_fail(r->ctx, ZT_EDATA, "template %s has no place for tools, documents or arguments",
                    zt_template_name(r->tmpl));
    if (system)
        m[n++] = (zt_message){"system", r->o->system};
    for (int i = 0; i < count && s == ZT_OK; i++, n++)
        s = number_error(r->ctx, i, read_message(r->ctx, a, json_array_get(q->messages, (size_t)i),
                                                 &m[n]));
    return s == ZT_OK ? run_encode_messages(r, m, n, &r->ids) : s;
}

/* ---- for a program --------------------------------------------------------------------------- */

/* A message may be without content where it calls tools. */
static zt_status copy_content(run *r, zt_arena *a, const json_t *o, json_t *to)
{
    const json_t *content = json_object_get(o, "content");
    const json_t *calls = json_object_get(o, "tool_calls");
    bool empty = !content || json_is_null(content);
    if (empty && json_array_size(calls) > 0)
        return ZT_OK;
    const char *text = content_of(r->ctx, a, content);
    if (!text)
        return zt_ctx_status(r->ctx);
    json_t *copy = json_is_string(content) ? json_incref((json_t *)(uintptr_t)content)
                                           : json_stringn_nocheck(text, strlen(text));
    return json_object_set_new(to, "content", copy) == 0 ? ZT_OK : ZT_ENOMEM;
}

/* What a model thought goes by three names: reasoning_content, which templates read, the first that is
 * given, and thinking, which some read. */
static int alias_reasoning(json_t *m)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *text = NULL;
    for (int i = 0; i < 3 && !text; i++)
        text = json_object_get(m, names[i]);
    if (!text)
        return 0;
    json_incref(text);
    int bad = json_object_set(m, "reasoning_content", text);
    if (!bad && !json_object_get(m, "thinking"))
        bad = json_object_set(m, "thinking", text);
    json_decref(text);
    return bad;
}

static zt_status copy_message(run *r, zt_arena *a, const json_t *o, json_t *to)
{
    const char *key;
    json_t *value;
    zt_status s = check_members(r->ctx, o, message_members, MEMBERS, PROGRAM);
    const json_t *role = json_object_get(o, "role");
    if (s == ZT_OK && !json_is_string(role))
        s = request_refuse(r->ctx, "role", role, "a text");
    json_object_foreach((json_t *)(uintptr_t)o, key, value) {
        if (s == ZT_OK && strcmp(key, "content") == 0)
            s = copy_content(r, a, o, to);
        else if (s == ZT_OK && !json_is_null(value) && json_object_set(to, key, value) != 0)
            s = ZT_ENOMEM;
    }
    if (s == ZT_OK && json_object_get(to, "tool_calls") && !zt_jinja_mentions(r->jinja, "tool_calls"))
        s = json_array_size(json_object_get(to, "tool_calls")) == 0
                ? ZT_OK
                : zt_fail(r->ctx, ZT_EDATA, "the chat template has no place for tool_calls");
    if (s == ZT_OK && !json_object_get(o, "content"))
        s = copy_content(r, a, o, to);
    if (s == ZT_OK && alias_reasoning(to) != 0)
        s = ZT_ENOMEM;
    return s == ZT_ENOMEM ? zt_fail(r->ctx, s, "no memory for a message") : s;
}

static zt_status encode_program(request *q, zt_arena *a, json_t *all, bool system)
{
    run *r = &q->r;
    zt_status s = ZT_OK;
    if (system && json_array_append_new(all, run_message(r, "system", r->o->system,
                                                         strlen(r->o->system))) != 0)
        s = zt_fail(r->ctx, ZT_ENOMEM, "no memory for a message");
    for (size_t i = 0; s == ZT_OK && i < json_array_size(q->messages); i++) {
        json_t *m = json_object();
        s = m ? copy_message(r, a, json_array_get(q->messages, i), m) : ZT_ENOMEM;
        s = number_error(r->ctx, (int)i, s);
        if (json_array_append_new(all, m) != 0 && s == ZT_OK)
            s = zt_fail(r->ctx, ZT_ENOMEM, "no memory for a message");
    }
    return s == ZT_OK ? run_encode_json(r, all, &q->beside, &r->ids) : s;
}

/* ---- the conversation ------------------------------------------------------------------------ */

static zt_status encode(request *q, zt_arena *a, zt_message *m, json_t *all)
{
    run *r = &q->r;
    const json_t *first = json_array_get(q->messages, 0);
    zt_status s = run_choose_template(r, q->beside.tools != NULL);
    if (s == ZT_OK && !run_has_template(r))
        s = zt_fail(r->ctx, ZT_EUSAGE, "\"messages\" need a chat template");
    if (s == ZT_OK)
        s = run_find_turn(r);
    if (s == ZT_OK && !first)
        s = zt_fail(r->ctx, ZT_EDATA, "\"messages\" is empty");
    const char *role = json_string_value(json_object_get(first, "role"));
    bool opened = role && strcmp(role, "system") == 0;
    if (s == ZT_OK && opened && json_is_string(json_object_get(q->json, "system")))
        s = zt_fail(r->ctx, ZT_EDATA, "\"system\" beside a message of the role system");
    if (s != ZT_OK)
        return s;
    bool system = r->o->system && !opened;
    return r->jinja ? encode_program(q, a, all, system) : encode_rows(q, a, m, system);
}

zt_status request_encode_messages(request *q)
{
    run *r = &q->r;
    zt_message *m = zt_alloc_array(r->ctx, json_array_size(q->messages) + 1, sizeof *m);
    zt_arena *a = zt_arena_new(r->ctx, 0);
    json_t *all = json_array();
    zt_status s = m && a && all ? encode(q, a, m, all) : zt_fail(r->ctx, ZT_ENOMEM, "no memory");
    r->n_prompt = r->ids.count;
    json_decref(all);
    zt_arena_free(a);
    zt_free(r->ctx, m);
    return s;
}
