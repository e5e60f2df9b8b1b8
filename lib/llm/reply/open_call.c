/* open_call.c - the call that a model is writing: its name, and its arguments as far as they are there. Only of replies that are held to a
 * grammar (hold.c), which makes sure that the rest follows; and only where the arguments are a JSON object behind the name:
 *
 *     {"name": "f", "arguments": {...      f[ARGS]{...      to=functions.f <|message|>{...
 */
#include "lib/llm/reply/reply_internal.h"

#include <string.h>

/* Skips white space and a text. false: something else, or less of it, is there. */
static bool skip_part(zt_bytes *text, const char *part)
{
    zt_reply_skip_space(text);
    return zt_reply_skip(text, part);
}

/* {"name": "NAME", "arguments": up to the arguments. */
static bool read_object_header(zt_bytes *text, zt_bytes *name)
{
    if (!skip_part(text, "{") || !skip_part(text, "\"name\"") || !skip_part(text, ":") || !skip_part(text, "\"")) return false;
    const char *end = zt_reply_find(*text, "\"");
    if (!end) return false;
    *name = part_of(text->data, end);
    *text = part_of(end + 1, text->data + text->n);
    if (!skip_part(text, ",") || !(zt_reply_skip_space(text), true)) return false;
    return (zt_reply_skip(text, "\"arguments\"") || zt_reply_skip(text, "\"parameters\"")) && skip_part(text, ":");
}

/* Where the arguments begin in the text of a call; its name and id. false: not there yet, or not a call that is followed. */
static bool find_arguments(const zt_reply *reply, zt_bytes text, size_t *begin, zt_bytes *name, zt_bytes *id)
{
    zt_bytes rest = text;
    if (reply->state == IN_MESSAGE) {
        *name = (zt_bytes){reply->recipient, strlen(reply->recipient)};
    } else if (reply->form->body == BODY_JSON) {
        if (!read_object_header(&rest, name)) return false;
    } else if (reply->form->body == BODY_NAMED && reply->value) {
        zt_reply_named_parts(reply->form, (zt_bytes){text.data, reply->value}, name, id);
        rest = (zt_bytes){text.data + reply->value, text.n - reply->value};
    } else {
        return false;
    }
    zt_reply_skip_space(&rest);
    *begin = text.n - rest.n;
    return rest.n && *rest.data == '{';
}

static zt_status begin_open_call(zt_reply *reply, zt_bytes text)
{
    open_call *open = &reply->open;
    zt_bytes name = {0}, id = {0};
    bool found;
    if (!find_arguments(reply, text, &open->offset, &name, &id)) return ZT_OK;
    zt_reply_tool(reply, name, &found);
    if (!found) return ZT_OK;
    open->call.id = id.n ? zt_arena_strndup(reply->arena, id.data, id.n) : NULL;
    open->call.name = zt_arena_strndup(reply->arena, name.data, name.n);
    open->known = open->call.name && (!id.n || open->call.id);
    return open->known ? ZT_OK : ZT_ENOMEM;
}

/* Appends what is new of the arguments, without white space between their parts. */
static zt_status follow_arguments(open_call *open, zt_bytes text)
{
    zt_status status = ZT_OK;
    for (; !open->whole && status == ZT_OK && open->offset < text.n; open->offset++) {
        char byte = text.data[open->offset];
        bool was_string = open->string;
        if (was_string) {
            open->string = byte != '"' || open->escaped;
            open->escaped = byte == '\\' && !open->escaped;
        } else {
            open->string = byte == '"';
            open->depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
        }
        if (was_string || !zt_reply_is_space(byte)) status = zt_str_putc(&open->text, byte);
        open->whole = open->depth == 0;
    }
    return status;
}

zt_status zt_reply_follow_call(zt_reply *reply)
{
    open_call *open = &reply->open;
    bool in_call = reply->state == IN_CALL || (reply->state == IN_MESSAGE && reply->channel == CHANNEL_CALL);
    zt_bytes text = zt_reply_rest(reply);
    if (open->known && (!in_call || open->index != reply->call_count)) {
        zt_str text_memory = open->text;
        *open = (open_call){.text = text_memory};
        zt_str_clear(&open->text);
    }
    if (!reply->held || !in_call || (reply->state == IN_CALL && text.n < reply->body)) return ZT_OK;
    if (reply->state == IN_CALL) text = (zt_bytes){text.data + reply->body, text.n - reply->body};
    zt_status status = open->known ? ZT_OK : begin_open_call(reply, text);
    open->index = reply->call_count;
    return status == ZT_OK && open->known ? follow_arguments(open, text) : status;
}

const zt_tool_call *zt_reply_open_call(const zt_reply *reply)
{
    if (!reply || !reply->open.known || reply->open.index != reply->call_count) return NULL;
    zt_tool_call *call = (zt_tool_call *)(uintptr_t)&reply->open.call;
    call->arguments = reply->open.text.len ? reply->open.text.data : "";
    return call;
}
