/* request_tools.c - the tools of a request, and which of them the answer calls:
 *
 *     "tool_choice": "none"                                            no tools are offered
 *                    "auto" (if absent)                                text, or calls
 *                    "required"                                        calls
 *                    {"type": "function", "function": {"name": N}}     calls of N
 *                    {"type": "allowed_tools", "allowed_tools": {"mode": "auto" or "required", "tools": [...]}}
 *     "parallel_tool_calls": false                                     one call at most
 */
#include "tools/zt-run/request.h"

#include <string.h>

/* ---- tools --------------------------------------------------------------------------------------- */

static zt_status check_known(zt_ctx *ctx, const json_t *object, const char *const *names, size_t count)
{
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(names[i], key) != 0) i++;
        if (i == count) return request_unknown(ctx, key, names, count);
    }
    return ZT_OK;
}

/* {"name", "description", "parameters", "strict"}; "return" is of templates. */
static zt_status check_function(zt_ctx *ctx, const json_t *function)
{
    const json_t *name = json_object_get(function, "name"), *parameters = json_object_get(function, "parameters"),
                 *strict = json_object_get(function, "strict");
    if (!json_is_object(function)) return request_refuse(ctx, "function", function, "an object with \"name\"");
    if (!json_is_string(name)) return request_refuse(ctx, "name", name, "a text");
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return request_refuse(ctx, "parameters", parameters, "a JSON Schema");
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return request_refuse(ctx, "strict", strict, "true or false");
    return ZT_OK;
}

/* {"type": "function", "function": {...}}, or the inner object. */
static zt_status check_tool(zt_ctx *ctx, const json_t *tool)
{
    static const char *const names[] = {"type", "function"};
    const json_t *type = json_object_get(tool, "type"), *function = json_object_get(tool, "function");
    const char *word = json_string_value(type);
    if (!function && !type) return check_function(ctx, tool);
    if (!word || strcmp(word, "function") != 0)
        return request_refuse(ctx, "type", type, "\"function\", the type of tools supported");
    zt_status status = check_known(ctx, tool, names, 2);
    return status == ZT_OK ? check_function(ctx, function) : status;
}

static zt_status number_error(zt_ctx *ctx, size_t index, zt_status status)
{
    char why[512];
    if (status != ZT_EDATA) return status;
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return zt_fail(ctx, status, "tools[%zu]: %s", index, why);
}

static const char *name_of(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function");
    return json_string_value(json_object_get(function ? function : tool, "name"));
}

static bool is_offered(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (strcmp(name_of(json_array_get(tools, i)), name) == 0) return true;
    return false;
}

/* ---- which of them is called ----------------------------------------------------------------------- */

static zt_status refuse_choice(const run_request *request)
{
    return request_refuse(request->run.ctx, "tool_choice", request->tool_choice,
                          "\"none\", \"auto\", \"required\", or an object of type \"function\" or \"allowed_tools\"");
}

/* Allows the tool of {"type": "function", "function": {"name": N}}. */
static zt_status allow_tool(run_request *request, const json_t *choice)
{
    const json_t *type = json_object_get(choice, "type"), *name = json_object_get(json_object_get(choice, "function"), "name");
    const char *word = json_string_value(type), *text = json_string_value(name);
    char shown[80];
    if (!word || strcmp(word, "function") != 0 || !text) return refuse_choice(request);
    if (!is_offered(request->beside.tools, text))
        return zt_fail(request->run.ctx, ZT_EDATA, "\"tool_choice\": '%s' is not one of the tools",
                       zt_escape(shown, sizeof shown, text, strlen(text)));
    request->only[request->beside.calls.only_count++] = text;
    return ZT_OK;
}

static zt_status read_object(run_request *request, const json_t *choice)
{
    const char *type = json_string_value(json_object_get(choice, "type"));
    const json_t *allowed = json_object_get(choice, "allowed_tools"), *tools = json_object_get(allowed, "tools");
    const char *mode = json_string_value(json_object_get(allowed, "mode"));
    size_t count = json_array_size(tools);
    bool list = type && strcmp(type, "allowed_tools") == 0;
    if (list && (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0) || count == 0))
        return refuse_choice(request);
    request->only = zt_calloc(request->run.ctx, count + 1, sizeof *request->only);
    if (!request->only) return ZT_ENOMEM;
    request->beside.calls.only = request->only;
    request->beside.calls.required = !list || strcmp(mode, "required") == 0;
    zt_status status = list ? ZT_OK : allow_tool(request, choice);
    for (size_t i = 0; list && i < count && status == ZT_OK; i++) status = allow_tool(request, json_array_get(tools, i));
    return status;
}

zt_status request_choose_tools(run_request *request)
{
    const json_t *tools = request->beside.tools, *choice = request->tool_choice;
    const char *word = json_string_value(choice);
    zt_ctx *ctx = request->run.ctx;
    zt_status status = ZT_OK;
    for (size_t i = 0; i < json_array_size(tools) && status == ZT_OK; i++)
        status = number_error(ctx, i, check_tool(ctx, json_array_get(tools, i)));
    if (status != ZT_OK) return status;
    request->beside.calls.one = json_is_false(request->parallel_tool_calls);
    if (word && strcmp(word, "none") == 0) request->beside.tools = NULL;
    if (word && strcmp(word, "required") == 0) request->beside.calls.required = true;
    if (word && strcmp(word, "none") != 0 && strcmp(word, "required") != 0 && strcmp(word, "auto") != 0)
        return refuse_choice(request);
    if (choice && !word && !json_is_object(choice)) return refuse_choice(request);
    if (choice && !tools && !(word && strcmp(word, "required") != 0))
        return zt_fail(ctx, ZT_EDATA, "\"tool_choice\" asks for a call, but there are no \"tools\"");
    return choice && !word ? read_object(request, choice) : ZT_OK;
}
