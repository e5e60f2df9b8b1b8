/* request_messages.c - the conversation of a request: objects with a role and a content, which is a
 * text or a list of parts of text. */
#include "tools/zt-run/request.h"

#include <string.h>

/* ---- members --------------------------------------------------------------------------------- */

typedef struct member {
    const char *name;
    bool known; /* false: a member of OpenAI's API that does not apply here */
} member;

static const member message_members[] = {
    {"role", true},          {"content", true},     {"name", false},
    {"tool_calls", false},   {"tool_call_id", false}, {"function_call", false},
    {"refusal", false},      {"audio", false},      {"annotations", false},
    {"reasoning_content", false},
};

static const member part_members[] = {{"type", true}, {"text", true}};

static zt_status check_member(zt_ctx *ctx, const char *key, const member *m, size_t n)
{
    const char *names[sizeof message_members / sizeof *message_members];
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(m[i].name, key) == 0)
            return m[i].known ? ZT_OK
                              : zt_fail(ctx, ZT_EDATA, "\"%s\" is not supported", key);
        if (m[i].known)
            names[known++] = m[i].name;
    }
    return request_unknown(ctx, key, names, known);
}

/* An object of such members; null is as absent. */
static zt_status check_members(zt_ctx *ctx, const json_t *o, const member *m, size_t n)
{
    zt_status s = ZT_OK;
    const char *key;
    const json_t *value;
    if (!json_is_object(o))
        return request_refuse(ctx, "messages", o, "an object with \"role\" and \"content\"");
    json_object_foreach((json_t *)o, key, value)
        if (s == ZT_OK && !json_is_null(value))
            s = check_member(ctx, key, m, n);
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
    else if (check_members(ctx, part, part_members, 2) == ZT_OK)
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
    zt_status s = check_members(ctx, o, message_members,
                                sizeof message_members / sizeof *message_members);
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

/* ---- the conversation ------------------------------------------------------------------------ */

/* m has room for one more than there are: --system opens a conversation that has no such message. */
static zt_status encode(request *q, zt_arena *a, zt_message *m)
{
    run *r = &q->r;
    int n = 0, count = (int)json_array_size(q->messages);
    zt_status s = run_choose_template(r);
    if (s == ZT_OK && !r->tmpl)
        s = zt_fail(r->ctx, ZT_EUSAGE, "\"messages\" need a chat template");
    if (s == ZT_OK && count == 0)
        s = zt_fail(r->ctx, ZT_EDATA, "\"messages\" is empty");
    for (; n < count && s == ZT_OK; n++)
        s = number_error(r->ctx, n, read_message(r->ctx, a, json_array_get(q->messages, (size_t)n),
                                                 &m[n]));
    bool opened = s == ZT_OK && strcmp(m[0].role, "system") == 0;
    if (opened && json_is_string(json_object_get(q->json, "system")))
        s = zt_fail(r->ctx, ZT_EDATA, "\"system\" beside a message of the role system");
    if (s == ZT_OK && r->o->system && !opened) {
        memmove(m + 1, m, (size_t)n++ * sizeof *m);
        m[0] = (zt_message){"system", r->o->system};
    }
    return s == ZT_OK ? run_encode_messages(r, m, n, &r->ids) : s;
}

zt_status request_encode_messages(request *q)
{
    run *r = &q->r;
    zt_message *m = zt_alloc_array(r->ctx, json_array_size(q->messages) + 1, sizeof *m);
    zt_arena *a = zt_arena_new(r->ctx, 0);
    zt_status s = m && a ? encode(q, a, m) : ZT_ENOMEM;
    r->n_prompt = r->ids.n;
    zt_arena_free(a);
    zt_free(r->ctx, m);
    return s;
}
