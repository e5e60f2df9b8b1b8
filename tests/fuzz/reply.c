/* reply.c - a fuzz target for generated texts: any bytes are taken apart, into the same parts whatever the pieces.
 *
 * The first byte chooses the words of a chat template, the second the size of the pieces and whether the prompt opens
 * the reasoning. Drivers: see main.c and make fuzz.
 */
#include "lib/llm/reply/reply.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

// clang-format off
static const char *const templates[] = {
    "<tool_call> <think>", "<tool_call> <function= <think>", "<seed:tool_call> <seed:think>", "<tool_call> <arg_key> </think>",
    "<minimax:tool_call>", "<function name= <param name=", "<\xef\xbd\x9c" "DSML\xef\xbd\x9c" "function_calls>",
    "<\xef\xbd\x9c" "tool\xe2\x96\x81" "call\xe2\x96\x81" "begin\xef\xbd\x9c>", "<|tool_call_argument_begin|>", "[TOOL_CALLS] [THINK]",
    "<|tool_call:begin|>", "<function= </function>", "<|START_ACTION|> <|START_THINKING|>", "<|tool_call|>", "<|tools_prefix|>",
    "functools[", "<|tool_call_start|>", "<|tool_call> <|channel>", "<start_function_call>", "tool_code", "(params_name1",
    "\"name\": \"parameters\": ", "<|start|><|channel|><|message|>", "text", "]<]minimax[>[ <tool_call> <mm:think>", "<|open|> <|close|> <|sep|>", "<tool_call> <tool_sep> <arg_key>",
    "<\xef\xbd\x9c" "DSML\xef\xbd\x9c" "tool_calls>", "<tool_calls>", "<longcat_tool_call> <longcat_arg_key>",
    "<|function_call|>", "'function call' <|role_sep|>", "<function_calls>",
};
// clang-format on

static const char tools_text[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"string\"},"
    " \"n\": {\"type\": \"integer\"}}}}}, {\"name\": \"g\"}]";

static zt_reply *take_apart(zt_ctx *ctx, const char *template, bool opened, const json_t *tools, const char *text, size_t size,
                            size_t piece)
{
    zt_reply_opts opts = {.template_text = {template, strlen(template)}, .prompt = {"<think>", opened ? 7 : 0}, .tools = tools};
    zt_reply *reply = zt_reply_new(ctx, &opts);
    if (!reply) abort();
    for (size_t at = 0; at < size; at += piece)
        if (zt_reply_put(reply, text + at, size - at < piece ? size - at : piece, false) != ZT_OK) abort();
    if (zt_reply_end(reply) != ZT_OK) abort();
    return reply;
}

static bool same(zt_bytes a, zt_bytes b) { return a.n == b.n && memcmp(a.data, b.data, a.n) == 0; }

static void compare(const zt_reply *left, const zt_reply *right)
{
    if (!same(zt_reply_content(left), zt_reply_content(right)) || !same(zt_reply_reasoning(left), zt_reply_reasoning(right)) ||
        zt_reply_call_count(left) != zt_reply_call_count(right) || !zt_reply_fault(left) != !zt_reply_fault(right))
        abort();
    for (int i = 0; i < zt_reply_call_count(left); i++) {
        const zt_tool_call *call = zt_reply_call(left, i);
        json_t *arguments = json_loads(call->arguments, JSON_ALLOW_NUL, NULL);
        if (strcmp(call->arguments, zt_reply_call(right, i)->arguments) != 0 || strchr(call->arguments, '\n')) abort();
        if (*call->arguments != '{' || (strcmp(call->name, "f") != 0 && strcmp(call->name, "g") != 0)) abort();
        json_decref(arguments);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < 2) return 0;
    const char *template = templates[bytes[0] % (sizeof templates / sizeof *templates)], *text = (const char *)bytes + 2;
    json_t *tools = json_loads(tools_text, 0, NULL);
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx || !tools) abort();
    zt_mem_limit(ctx, 1 << 27);
    zt_reply *whole = take_apart(ctx, template, bytes[1] & 1, tools, text, count - 2, count);
    zt_reply *pieces = take_apart(ctx, template, bytes[1] & 1, tools, text, count - 2, 1 + bytes[1] / 2);
    compare(whole, pieces);
    zt_reply_free(whole);
    zt_reply_free(pieces);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    json_decref(tools);
    return 0;
}
