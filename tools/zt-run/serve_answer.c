/* serve_answer.c - the objects that OpenAI's API answers with, made of the answers that --jsonl would write. */
#include "tools/zt-run/serve.h"

#include <stdlib.h>
#include <string.h>

/* What the probability 0 is written as. */
#define LEAST_LOGPROB (-9999.0)

enum { ARGUMENT_PIECE = 32 }; /* bytes of the arguments of a call in an event */

static zt_status no_memory(zt_ctx *ctx) { return zt_fail(ctx, ZT_ENOMEM, "no memory for an answer"); }

/* Appends the object as a line, or as an event of a stream; takes it. */
static zt_status put_object(zt_str *out, json_t *object, bool event)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text) return no_memory(out->ctx);
    if (event) zt_str_puts(out, "data: ");
    zt_str_puts(out, text);
    free(text);
    return zt_str_puts(out, event ? "\n\n" : "\n");
}

/* ---- errors ------------------------------------------------------------------------------------------------ */

static const char *error_type(int status)
{
    if (status == 401 || status == 421) return "authentication_error";
    if (status == 429) return "rate_limit_error";
    return status >= 500 || status == 408 ? "server_error" : "invalid_request_error";
}

static void put_text_or_null(zt_str *out, const char *text)
{
    if (text)
        zt_str_put_json(out, text, strlen(text));
    else
        zt_str_puts(out, "null");
}

zt_status serve_put_error(zt_str *out, int status, const char *param, const char *code, const char *message)
{
    zt_str_puts(out, "{\"error\":{\"message\":");
    put_text_or_null(out, message);
    zt_str_printf(out, ",\"type\":\"%s\",\"param\":", error_type(status));
    put_text_or_null(out, param);
    zt_str_puts(out, ",\"code\":");
    put_text_or_null(out, code);
    return zt_str_puts(out, "}}\n");
}

/* ---- log probabilities --------------------------------------------------------------------------------------- */

static double logprob_of(const json_t *token)
{
    const json_t *value = json_object_get(token, "logprob");
    return json_is_number(value) ? json_number_value(value) : LEAST_LOGPROB;
}

/* The bytes of a token, which may be part of a character. */
static json_t *bytes_of(run_state *run, const json_t *token)
{
    zt_str bytes;
    json_t *list = json_array();
    zt_str_init(&bytes, run->ctx);
    zt_vocab_decode(run->vocab, (int32_t)json_integer_value(json_object_get(token, "id")), true, false, &bytes);
    for (size_t i = 0; i < bytes.len; i++) json_array_append_new(list, json_integer((unsigned char)bytes.data[i]));
    zt_str_fini(&bytes);
    return list;
}

static json_t *chat_token(run_state *run, const json_t *token)
{
    return json_pack("{s:O,s:f,s:o}", "token", json_object_get(token, "text"), "logprob", logprob_of(token), "bytes",
                     bytes_of(run, token));
}

/* {"content": [{"token", "logprob", "bytes", "top_logprobs"}, ...]} */
static json_t *chat_logprobs(run_state *run, const json_t *tokens)
{
    size_t index, rank;
    const json_t *token, *top;
    json_t *content = json_array();
    json_array_foreach(tokens, index, token)
    {
        json_t *object = chat_token(run, token), *tops = json_array();
        json_array_foreach(json_object_get(token, "top"), rank, top) json_array_append_new(tops, chat_token(run, top));
        json_object_set_new(object, "top_logprobs", tops);
        json_array_append_new(content, object);
    }
    return json_pack("{s:o}", "content", content);
}

/* {"tokens", "token_logprobs", "top_logprobs", "text_offset"}: arrays as long as the tokens. The offset, in characters,
 * is from the first of these tokens. */
static json_t *completion_logprobs(const json_t *tokens)
{
    size_t index, rank, offset = 0;
    const json_t *token, *top;
    json_t *texts = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array();
    json_array_foreach(tokens, index, token)
    {
        json_t *text = json_object_get(token, "text"), *likeliest = json_object();
        json_array_append(texts, text);
        json_array_append_new(values, json_real(logprob_of(token)));
        json_array_foreach(json_object_get(token, "top"), rank, top)
            json_object_set_new_nocheck(likeliest, json_string_value(json_object_get(top, "text")), json_real(logprob_of(top)));
        json_array_append_new(tops, likeliest);
        json_array_append_new(offsets, json_integer((json_int_t)offset));
        offset += zt_utf8_count(json_string_value(text), json_string_length(text));
    }
    return json_pack("{s:o,s:o,s:o,s:o}", "tokens", texts, "token_logprobs", values, "top_logprobs", tops, "text_offset",
                     offsets);
}

/* Of the elements of the array of --jsonl; JSON null where none are wanted. */
static json_t *logprobs_of(run_state *run, const serve_reply *reply, const json_t *tokens)
{
    if (!reply->logprobs) return json_null();
    return reply->task == SERVE_CHAT ? chat_logprobs(run, tokens) : completion_logprobs(tokens);
}

/* ---- choices -------------------------------------------------------------------------------------------------- */

/* Why the text ended, in OpenAI's words. */
static const char *finish_of(const json_t *answer)
{
    const char *stop = json_string_value(json_object_get(answer, "stop"));
    if (json_array_size(json_object_get(answer, "tool_calls")) > 0) return "tool_calls";
    return stop && (strcmp(stop, "length") == 0 || strcmp(stop, "ctx") == 0) ? "length" : "stop";
}

/* The id of a call, where the model wrote none. */
static const char *make_call_id(const serve_reply *reply, size_t choice, size_t index, char made[64])
{
    snprintf(made, 64, "call_%.32s_%zu_%zu", reply->id, choice, index);
    return made;
}

/* A call in OpenAI's shape: the arguments are a string, and there is an id. */
static json_t *call_object(const serve_reply *reply, size_t choice, size_t index, const json_t *call)
{
    char made[64];
    const char *id = json_string_value(json_object_get(call, "id"));
    return json_pack("{s:s,s:s,s:{s:O,s:O}}", "id", id ? id : make_call_id(reply, choice, index, made), "type", "function",
                     "function", "name", json_object_get(call, "name"), "arguments", json_object_get(call, "arguments"));
}

/* The calls of an answer; NULL: none. */
static json_t *calls_of(const serve_reply *reply, size_t choice, const json_t *answer)
{
    const json_t *calls = json_object_get(answer, "tool_calls"), *call;
    json_t *list = json_array_size(calls) > 0 ? json_array() : NULL;
    size_t index;
    json_array_foreach(calls, index, call) json_array_append_new(list, call_object(reply, choice, index, call));
    return list;
}

/* "content" is null where the answer has tool calls and no text. */
static json_t *message_of(const serve_reply *reply, size_t choice, const json_t *answer)
{
    json_t *text = json_object_get(answer, "content"), *calls = calls_of(reply, choice, answer);
    json_t *reasoning = json_object_get(answer, "reasoning_content");
    if (!text) text = json_object_get(answer, "text");
    json_t *message = json_pack("{s:s,s:O?}", "role", "assistant", "content", calls && !json_string_length(text) ? NULL : text);
    if (reasoning) json_object_set(message, "reasoning_content", reasoning);
    if (calls) json_object_set_new(message, "tool_calls", calls);
    return message;
}

json_t *serve_choice_object(run_state *run, const serve_reply *reply, size_t index, const json_t *answer)
{
    bool chat = reply->task == SERVE_CHAT;
    json_t *content = chat ? message_of(reply, index, answer) : json_incref(json_object_get(answer, "text"));
    json_t *choice = json_pack("{s:I,s:o,s:o,s:s}", "index", (json_int_t)index, chat ? "message" : "text", content, "logprobs",
                               logprobs_of(run, reply, json_object_get(answer, "logprobs")), "finish_reason", finish_of(answer));
    if (!choice) no_memory(run->ctx);
    return choice;
}

static json_t *usage_object(serve_usage usage)
{
    return json_pack("{s:I,s:I,s:I}", "prompt_tokens", (json_int_t)usage.prompt_tokens, "completion_tokens",
                     (json_int_t)usage.generated_tokens, "total_tokens",
                     (json_int_t)(usage.prompt_tokens + usage.generated_tokens));
}

/* Takes choices. */
static json_t *reply_object(const serve_reply *reply, json_t *choices, bool chunk)
{
    const char *kind = reply->task == SERVE_COMPLETION ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", reply->id, "object", kind, "created", (json_int_t)reply->created, "model",
                     reply->model, "choices", choices);
}

zt_status serve_put_answer(zt_str *out, const serve_reply *reply, json_t *choices, serve_usage usage)
{
    json_t *object = reply_object(reply, choices, false);
    if (object) json_object_set_new(object, "usage", usage_object(usage));
    return put_object(out, object, false);
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

/* An event with one choice; takes delta (a text for completions) and logprobs. */
static zt_status put_event(zt_str *out, const serve_reply *reply, size_t index, json_t *delta, json_t *logprobs,
                           const char *finish)
{
    json_t *choice = json_pack("{s:I,s:o,s:o,s:s?}", "index", (json_int_t)index, reply->task == SERVE_CHAT ? "delta" : "text",
                               delta, "logprobs", logprobs, "finish_reason", finish);
    return put_object(out, reply_object(reply, json_pack("[o]", choice), true), true);
}

zt_status serve_put_role(zt_str *out, const serve_reply *reply, size_t index)
{
    if (reply->task != SERVE_CHAT) return ZT_OK;
    return put_event(out, reply, index, json_pack("{s:s,s:s}", "role", "assistant", "content", ""), json_null(), NULL);
}

/* Bytes as a JSON string; broken UTF-8 becomes U+FFFD. */
static json_t *text_of(zt_ctx *ctx, zt_bytes text)
{
    zt_str quoted;
    zt_str_init(&quoted, ctx);
    zt_str_put_json(&quoted, text.n ? text.data : "", text.n);
    json_t *value = json_loadb(quoted.data, quoted.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    zt_str_fini(&quoted);
    return value;
}

/* "[elements]" */
static json_t *elements_of(zt_ctx *ctx, zt_bytes elements)
{
    zt_str list;
    zt_str_init(&list, ctx);
    zt_str_putc(&list, '[');
    zt_str_put(&list, elements.n ? elements.data : "", elements.n);
    zt_str_putc(&list, ']');
    json_t *value = json_loadb(list.data, list.len, JSON_ALLOW_NUL, NULL);
    zt_str_fini(&list);
    return value;
}

zt_status serve_put_text(run_state *run, zt_str *out, const serve_reply *reply, size_t index, zt_bytes text, zt_bytes logprobs)
{
    json_t *content = text_of(run->ctx, text), *tokens = reply->logprobs ? elements_of(run->ctx, logprobs) : NULL;
    json_t *delta = reply->task == SERVE_CHAT ? json_pack("{s:o}", "content", content) : content;
    zt_status status = put_event(out, reply, index, delta, logprobs_of(run, reply, tokens), NULL);
    json_decref(tokens);
    return status;
}

zt_status serve_put_reasoning(run_state *run, zt_str *out, const serve_reply *reply, size_t index, zt_bytes text)
{
    json_t *delta = json_pack("{s:o}", "reasoning_content", text_of(run->ctx, text));
    return put_event(out, reply, index, delta, json_null(), NULL);
}

/* The largest number of bytes up to `most` that do not end in the middle of a character. */
static size_t whole_characters(const char *text, size_t size, size_t most)
{
    size_t count = size < most ? size : most;
    while (count > 0 && count < size && (text[count] & 0xc0) == 0x80) count--;
    return count;
}

zt_status serve_put_call(zt_str *out, const serve_reply *reply, size_t index, const serve_call *call)
{
    char made[64];
    const zt_tool_call *tool = call->call;
    const char *id = tool->id ? tool->id : make_call_id(reply, index, call->index, made);
    zt_status status = ZT_OK;
    if (!call->begun) {
        json_t *begun = json_pack("{s:[{s:I,s:s,s:s,s:{s:s,s:s}}]}", "tool_calls", "index", (json_int_t)call->index, "id", id,
                                  "type", "function", "function", "name", tool->name, "arguments", "");
        status = put_event(out, reply, index, begun, json_null(), NULL);
    }
    size_t size = strlen(tool->arguments);
    for (size_t at = call->from, count; at < size && status == ZT_OK; at += count) {
        count = whole_characters(tool->arguments + at, size - at, ARGUMENT_PIECE);
        json_t *piece = json_pack("{s:[{s:I,s:{s:s%}}]}", "tool_calls", "index", (json_int_t)call->index, "function", "arguments",
                                  tool->arguments + at, count);
        status = put_event(out, reply, index, piece, json_null(), NULL);
    }
    return status;
}

/* The calls have been sent. */
zt_status serve_put_finish(zt_str *out, const serve_reply *reply, size_t index, const json_t *answer)
{
    return put_event(out, reply, index, reply->task == SERVE_CHAT ? json_object() : json_string(""), json_null(),
                     finish_of(answer));
}

zt_status serve_put_usage(zt_str *out, const serve_reply *reply, serve_usage usage)
{
    json_t *object = reply_object(reply, json_array(), true);
    if (object) json_object_set_new(object, "usage", usage_object(usage));
    return put_object(out, object, true);
}

zt_status serve_put_done(zt_str *out) { return zt_str_puts(out, "data: [DONE]\n\n"); }
