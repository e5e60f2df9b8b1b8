/* calls.c - the tools that are offered, and the calls that were found. */
#include "lib/io/json.h"
#include "lib/llm/reply/reply_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

bool zt_reply_is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

zt_bytes zt_reply_trimmed(zt_bytes text)
{
    zt_reply_skip_space(&text);
    while (text.n && zt_reply_is_space(text.data[text.n - 1])) text.n--;
    return text;
}

void zt_reply_skip_space(zt_bytes *text)
{
    while (text->n && zt_reply_is_space(*text->data)) text->data++, text->n--;
}

bool zt_reply_begins(zt_bytes text, const char *mark)
{
    size_t size = strlen(mark);
    return size <= text.n && memcmp(text.data, mark, size) == 0;
}

const char *zt_reply_find(zt_bytes text, const char *mark)
{
    return text.n ? memmem(text.data, text.n, mark, strlen(mark)) : NULL;
}

bool zt_reply_skip(zt_bytes *text, const char *mark)
{
    if (!mark || !zt_reply_begins(*text, mark)) return false;
    text->data += strlen(mark);
    text->n -= strlen(mark);
    return true;
}

reply_step zt_reply_refuse(zt_reply *reply, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!reply->fault) reply->fault = zt_arena_strndup(reply->arena, text, strlen(text));
    return STEP_WRONG;
}

/* ---- tools ----------------------------------------------------------------------------------- */

const json_t *zt_reply_function(const json_t *tool)
{
    const json_t *inner = json_object_get(tool, "function");
    return json_is_object(inner) ? inner : tool;
}

const json_t *zt_reply_tool(const zt_reply *reply, zt_bytes name, bool *found)
{
    for (size_t i = 0; i < json_array_size(reply->tools); i++) {
        const json_t *function = zt_reply_function(json_array_get(reply->tools, i)), *own = json_object_get(function, "name");
        if (!json_is_string(own) || json_string_length(own) != name.n || memcmp(json_string_value(own), name.data, name.n) != 0)
            continue;
        *found = true;
        const json_t *parameters = json_object_get(function, "parameters");
        return json_is_object(parameters) ? parameters : NULL;
    }
    *found = false;
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

zt_status zt_reply_compact(zt_bytes json, zt_str *out)
{
    zt_status status = ZT_OK;
    bool string = false, escaped = false;
    for (size_t i = 0, begin = 0; status == ZT_OK && i <= json.n; i++) {
        if (i == json.n || (!string && zt_reply_is_space(json.data[i]))) {
            status = zt_str_put(out, json.data + begin, i - begin);
            begin = i + 1;
        } else if (!escaped && json.data[i] == '"') {
            string = !string;
        }
        escaped = i < json.n && string && !escaped && json.data[i] == '\\';
    }
    return status;
}

static bool is_json(zt_bytes text)
{
    const char *end = text.data + text.n;
    return text.n && zt_json_value_end(text.data, end, MOST_DEPTH) == end && zt_utf8_valid(text.data, text.n);
}

/* Python's spelling of a constant, where the schema does not want a text. NULL: it is not one. */
static const char *python_constant(zt_bytes text)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text.n == strlen(words[i][0]) && memcmp(text.data, words[i][0], text.n) == 0) return words[i][1];
    return NULL;
}

zt_status zt_reply_put_as(const json_t *schema, const json_t *own, zt_bytes text, zt_str *out)
{
    zt_bytes trimmed = zt_reply_trimmed(text);
    const char *constant = python_constant(trimmed);
    gtext_kind kind = own ? zt_g_text_kind(schema, own) : G_NOT_TEXT;
    if (kind != G_ALWAYS_TEXT && trimmed.n == 4 && memcmp(trimmed.data, "null", 4) == 0) return zt_str_puts(out, "null");
    if (kind != G_NOT_TEXT) return zt_str_put_json(out, text.data, text.n);
    if (constant) return zt_str_puts(out, constant);
    if (is_json(trimmed)) return zt_reply_compact(trimmed, out);
    return zt_str_put_json(out, text.data, text.n);
}

zt_status zt_reply_put_value(const json_t *schema, zt_bytes key, zt_bytes text, zt_str *out)
{
    char name[MOST_NAME];
    snprintf(name, sizeof name, "%.*s", (int)(key.n < sizeof name ? key.n : sizeof name - 1), key.data);
    return zt_reply_put_as(schema, json_object_get(json_object_get(schema, "properties"), name), text, out);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static zt_tool_call *next_call(zt_reply *reply)
{
    if (reply->call_count == reply->call_capacity) {
        int capacity = reply->call_capacity ? 2 * reply->call_capacity : 4;
        zt_tool_call *grown = zt_realloc(reply->ctx, reply->calls, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        reply->calls = grown;
        reply->call_capacity = capacity;
    }
    return &reply->calls[reply->call_count];
}

static zt_status keep_call(zt_reply *reply, zt_bytes id, zt_bytes name, const zt_str *arguments)
{
    zt_tool_call *call = next_call(reply);
    if (!call) return ZT_ENOMEM;
    call->id = id.n ? zt_arena_strndup(reply->arena, id.data, id.n) : NULL;
    call->name = zt_arena_strndup(reply->arena, name.data, name.n);
    call->arguments = zt_arena_strndup(reply->arena, arguments->data, arguments->len);
    if ((id.n && !call->id) || !call->name || !call->arguments) return ZT_ENOMEM;
    reply->call_count++;
    return ZT_OK;
}

/* The object that is written inside of a JSON string. Appended to `out`, empty where it is not one. */
static zt_status unwrap_arguments(zt_reply *reply, zt_bytes arguments, zt_str *out)
{
    zt_status status = zt_json_string(reply->ctx, "arguments", arguments.data, arguments.n, out);
    if (status != ZT_EDATA) return status;
    zt_ctx_clear(reply->ctx);
    zt_str_clear(out);
    return ZT_OK;
}

/* Appends the arguments as an object on one line; *fits is false where they are not one. */
static zt_status put_arguments(zt_reply *reply, zt_bytes arguments, zt_str *out, bool *fits)
{
    zt_str inner;
    zt_status status = ZT_OK;
    zt_str_init(&inner, reply->ctx);
    arguments = zt_reply_trimmed(arguments);
    if (arguments.n && *arguments.data == '"' && is_json(arguments)) {
        status = unwrap_arguments(reply, arguments, &inner);
        arguments = zt_reply_trimmed((zt_bytes){inner.data ? inner.data : "", inner.len});
    }
    bool nothing = arguments.n == 0 || (arguments.n == 4 && memcmp(arguments.data, "null", 4) == 0);
    *fits = nothing || (*arguments.data == '{' && is_json(arguments));
    if (status == ZT_OK && *fits) status = nothing ? zt_str_puts(out, "{}") : zt_reply_compact(arguments, out);
    zt_str_fini(&inner);
    return status;
}

reply_step zt_reply_add_call(zt_reply *reply, zt_bytes id, zt_bytes name, zt_bytes arguments, zt_status *status)
{
    char shown[80];
    bool found, fits = false;
    zt_str object;
    name = zt_reply_trimmed(name);
    zt_escape(shown, sizeof shown, name.data, name.n);
    zt_reply_tool(reply, name, &found);
    if (!found) return zt_reply_refuse(reply, "tool call: '%s' is not one of the tools", shown);
    if (reply->call_count == MOST_CALLS) return zt_reply_refuse(reply, "tool call: more than %d calls", MOST_CALLS);
    zt_str_init(&object, reply->ctx);
    *status = put_arguments(reply, arguments, &object, &fits);
    if (*status == ZT_OK && fits) *status = keep_call(reply, id, name, &object);
    zt_str_fini(&object);
    return fits ? STEP_ON : zt_reply_refuse(reply, "tool call: the arguments of '%s' are not a JSON object", shown);
}
