/* request_messages.c - the conversation of a request: objects with a role and a content, which is a
 * text or a list of parts of text. */
#include "tools/zt-run/request.h"

#include <string.h>

/* ---- members --------------------------------------------------------------------------------- */

/* Where a member of OpenAI's API is known. */
enum { NOWHERE, PROGRAM, ALWAYS }; /* PROGRAM: only to a template that is a program */

typedef struct message_member {
    const char *name;
    int known;
} message_member;

static const message_member message_members[] = {
    {"role", ALWAYS},        {"content", ALWAYS},       {"name", PROGRAM},
    {"tool_calls", PROGRAM}, {"tool_call_id", PROGRAM}, {"reasoning_content", PROGRAM},
    {"reasoning", PROGRAM},  {"thinking", PROGRAM},     {"function_call", NOWHERE},
    {"refusal", NOWHERE},    {"audio", NOWHERE},        {"annotations", NOWHERE},
};

enum { MEMBERS = sizeof message_members / sizeof *message_members };

static const message_member part_members[] = {{"type", ALWAYS}, {"text", ALWAYS}};

static zt_status check_member(zt_ctx *ctx, const char *key, const message_member *members, size_t member_count, int least)
{
    const char *names[sizeof message_members / sizeof *message_members];
    size_t known = 0;
    for (size_t i = 0; i < member_count; i++) {
        if (strcmp(members[i].name, key) == 0)
            return members[i].known >= least ? ZT_OK
                                             : zt_fail(ctx, ZT_EDATA, "\"%s\" is not supported%s", key,
                                                       members[i].known ? " by a template that is not Jinja" : "");
        if (members[i].known >= least) names[known++] = members[i].name;
    }
    return request_unknown(ctx, key, names, known);
}

/* Checks that the value is an object with these members only. A member that is null counts as absent. */
static zt_status check_members(zt_ctx *ctx, const json_t *object, const message_member *members, size_t member_count, int least)
{
    zt_status status = ZT_OK;
    const char *key;
    const json_t *value;
    if (!json_is_object(object)) return request_refuse(ctx, "messages", object, "an object with \"role\" and \"content\"");
    json_object_foreach((json_t *)object, key, value) if (status == ZT_OK && !json_is_null(value)) status =
        check_member(ctx, key, members, member_count, least);
    return status;
}

/* ---- content --------------------------------------------------------------------------------- */

/* The text of {"type": "text", "text": ..}. NULL: it is wrong, the context has the error. */
static const char *part_text(zt_ctx *ctx, const json_t *part)
{
    const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    if (!json_is_object(part))
        request_refuse(ctx, "content", part, "an object with \"type\" and \"text\"");
    else if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0)
        request_refuse(ctx, "type", type, "\"text\", the only type of content part supported");
    else if (!json_is_string(text))
        request_refuse(ctx, "text", text, "a string");
    else if (check_members(ctx, part, part_members, 2, ALWAYS) == ZT_OK)
        return json_string_value(text);
    return NULL;
}

/* The texts of a list's parts, a newline between two. */
static const char *join_parts(zt_ctx *ctx, zt_arena *arena, const json_t *parts)
{
    zt_str all;
    const char *joined = NULL;
    zt_str_init(&all, ctx);
    for (size_t i = 0; i < json_array_size(parts) && !zt_ctx_status(ctx); i++) {
        const char *text = part_text(ctx, json_array_get(parts, i));
        if (text) zt_str_printf(&all, "%s%s", i ? "\n" : "", text);
    }
    if (!zt_ctx_status(ctx) && all.data) joined = zt_arena_strndup(arena, all.data, all.len);
    zt_str_fini(&all);
    return joined;
}

static const char *content_of(zt_ctx *ctx, zt_arena *arena, const json_t *content)
{
    if (json_is_string(content)) return json_string_value(content);
    if (json_is_array(content) && json_array_size(content) > 0) return join_parts(ctx, arena, content);
    request_refuse(ctx, "content", content, "a string or an array of parts");
    return NULL;
}

static zt_status read_message(zt_ctx *ctx, zt_arena *arena, const json_t *object, zt_message *message)
{
    zt_status status = check_members(ctx, object, message_members, MEMBERS, ALWAYS);
    if (status != ZT_OK) return status;
    const json_t *role = json_object_get(object, "role");
    message->role = json_string_value(role);
    if (!message->role) return request_refuse(ctx, "role", role, "a string");
    message->content = content_of(ctx, arena, json_object_get(object, "content"));
    return message->content ? ZT_OK : zt_ctx_status(ctx);
}

/* Puts the index of the message before the error. */
static zt_status number_error(zt_ctx *ctx, int index, zt_status status)
{
    char why[512];
    if (status != ZT_EDATA) return status;
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return zt_fail(ctx, status, "messages[%d]: %s", index, why);
}

/* ---- for a template by rule ------------------------------------------------------------------ */

/* messages: room for one more than request->messages has, for the message of --system. */
static zt_status encode_rows(run_request *request, zt_arena *arena, zt_message *messages, bool system)
{
    run_state *run = &request->run;
    int message_count = 0, count = (int)json_array_size(request->messages);
    zt_status status = ZT_OK;
    if (request->beside.tools || request->beside.documents || request->beside.args)
        status = zt_fail(run->ctx, ZT_EDATA, "template %s does not support tools, documents or template variables",
                         zt_template_name(run->template));
    if (system) messages[message_count++] = (zt_message){"system", run->options->system};
    for (int i = 0; i < count && status == ZT_OK; i++, message_count++)
        status = number_error(
            run->ctx, i, read_message(run->ctx, arena, json_array_get(request->messages, (size_t)i), &messages[message_count]));
    return status == ZT_OK ? run_encode_messages(run, messages, message_count, &run->ids) : status;
}

/* ---- for a program --------------------------------------------------------------------------- */

/* A message that calls tools may have no content. */
static zt_status copy_content(run_state *run, zt_arena *arena, const json_t *object, json_t *copy)
{
    const json_t *content = json_object_get(object, "content");
    const json_t *calls = json_object_get(object, "tool_calls");
    bool empty = !content || json_is_null(content);
    if (empty && json_array_size(calls) > 0) return ZT_OK;
    const char *text = content_of(run->ctx, arena, content);
    if (!text) return zt_ctx_status(run->ctx);
    json_t *content_copy =
        json_is_string(content) ? json_incref((json_t *)(uintptr_t)content) : json_stringn_nocheck(text, strlen(text));
    return json_object_set_new(copy, "content", content_copy) == 0 ? ZT_OK : ZT_ENOMEM;
}

/* The text of a model's reasoning has three names in messages. Templates read reasoning_content, some read
 * thinking: both are set to the one that is given. */
static int alias_reasoning(json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *text = NULL;
    for (int i = 0; i < 3 && !text; i++) text = json_object_get(message, names[i]);
    if (!text) return 0;
    json_incref(text);
    int bad = json_object_set(message, "reasoning_content", text);
    if (!bad && !json_object_get(message, "thinking")) bad = json_object_set(message, "thinking", text);
    json_decref(text);
    return bad;
}

static zt_status copy_message(run_state *run, zt_arena *arena, const json_t *object, json_t *copy)
{
    const char *key;
    json_t *value;
    zt_status status = check_members(run->ctx, object, message_members, MEMBERS, PROGRAM);
    const json_t *role = json_object_get(object, "role");
    if (status == ZT_OK && !json_is_string(role)) status = request_refuse(run->ctx, "role", role, "a string");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (status == ZT_OK && strcmp(key, "content") == 0)
            status = copy_content(run, arena, object, copy);
        else if (status == ZT_OK && !json_is_null(value) && json_object_set(copy, key, value) != 0)
            status = ZT_ENOMEM;
    }
    if (status == ZT_OK && json_object_get(copy, "tool_calls") && !zt_jinja_mentions(run->jinja, "tool_calls"))
        status = json_array_size(json_object_get(copy, "tool_calls")) == 0
                     ? ZT_OK
                     : zt_fail(run->ctx, ZT_EDATA, "the chat template does not support tool_calls");
    if (status == ZT_OK && !json_object_get(object, "content")) status = copy_content(run, arena, object, copy);
    if (status == ZT_OK && alias_reasoning(copy) != 0) status = ZT_ENOMEM;
    return status == ZT_ENOMEM ? zt_fail(run->ctx, status, "out of memory") : status;
}

static zt_status encode_program(run_request *request, zt_arena *arena, json_t *all, bool system)
{
    run_state *run = &request->run;
    zt_status status = ZT_OK;
    if (system && json_array_append_new(all, run_message(run, "system", run->options->system, strlen(run->options->system))) != 0)
        status = zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    for (size_t i = 0; status == ZT_OK && i < json_array_size(request->messages); i++) {
        json_t *message = json_object();
        status = message ? copy_message(run, arena, json_array_get(request->messages, i), message) : ZT_ENOMEM;
        status = number_error(run->ctx, (int)i, status);
        if (json_array_append_new(all, message) != 0 && status == ZT_OK) status = zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    }
    return status == ZT_OK ? run_encode_json(run, all, &request->beside, &run->ids) : status;
}

/* ---- the conversation ------------------------------------------------------------------------ */

static zt_status encode_conversation(run_request *request, zt_arena *arena, zt_message *messages, json_t *all)
{
    run_state *run = &request->run;
    const json_t *first = json_array_get(request->messages, 0);
    zt_status status = run_choose_template(run, request->beside.tools != NULL);
    if (status == ZT_OK && !run_has_template(run)) status = zt_fail(run->ctx, ZT_EUSAGE, "\"messages\" need a chat template");
    if (status == ZT_OK) status = run_find_turn(run);
    if (status == ZT_OK && !first) status = zt_fail(run->ctx, ZT_EDATA, "\"messages\" is empty");
    const char *role = json_string_value(json_object_get(first, "role"));
    bool opened = role && strcmp(role, "system") == 0;
    if (status == ZT_OK && opened && json_is_string(json_object_get(request->json, "system")))
        status = zt_fail(run->ctx, ZT_EDATA, "both \"system\" and a message with the role system are given");
    if (status != ZT_OK) return status;
    bool system = run->options->system && !opened;
    return run->jinja ? encode_program(request, arena, all, system) : encode_rows(request, arena, messages, system);
}

zt_status request_encode_messages(run_request *request)
{
    run_state *run = &request->run;
    zt_message *messages = zt_alloc_array(run->ctx, json_array_size(request->messages) + 1, sizeof *messages);
    zt_arena *arena = zt_arena_new(run->ctx, 0);
    json_t *all = json_array();
    zt_status status = messages && arena && all ? encode_conversation(request, arena, messages, all)
                                                : zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    run->prompt_count = run->ids.count;
    json_decref(all);
    zt_arena_free(arena);
    zt_free(run->ctx, messages);
    return status;
}

zt_status request_take_messages(run_request *request, const request_prompt *prompt)
{
    run_state *run = &request->run;
    zt_status status = run_choose_template(run, request->beside.tools != NULL);
    if (status == ZT_OK) status = run_find_turn(run);
    return status == ZT_OK && run->jinja ? run_reply_begin(run, &prompt->end, &request->beside) : status;
}
