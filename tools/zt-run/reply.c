/* reply.c - a generated answer to a conversation: what of it is content, reasoning and tool calls (lib/llm/reply), for
 * the objects of --json, --jsonl and --serve.
 */
#include "tools/zt-run/run.h"

#include <string.h>

/* The tools that the template got: those beside the messages, or of the template's variables. NULL: none. */
static const json_t *offered_tools(const run_state *run, const run_beside *beside)
{
    const json_t *tools = beside ? beside->tools : NULL;
    if (!tools && beside) tools = json_object_get(beside->args, "tools");
    if (!tools) tools = json_object_get(run_template_args(run), "tools");
    return json_array_size(tools) > 0 ? tools : NULL;
}

/* Holds the answer to calls of the tools. An answer that is held to a form already is not: its text is that form's. */
static zt_status hold_to_tools(run_state *run, const zt_reply_opts *opts, const run_calls *calls)
{
    if (run->matcher && calls->required)
        return zt_fail(run->ctx, ZT_EDATA, "\"tool_choice\" asks for a call, but the answer is held to \"%s\"", run->form);
    bool known = zt_reply_holds_calls(opts->template_text);
    if (!known && calls->content && !calls->required) return run_hold_to(run, "json_schema", calls->content, 1);
    if (run->matcher || (!calls->required && !known)) return ZT_OK;
    zt_reply_hold hold = {.template_text = opts->template_text,
                          .prompt = opts->prompt,
                          .tools = opts->tools,
                          .only = calls->only,
                          .only_count = calls->only_count,
                          .required = calls->required,
                          .one = calls->one,
                          .content = calls->content};
    return run_hold_to_calls(run, &hold);
}

/* As much of the prompt as matters to an answer: whether it opens the reasoning. */
static zt_status keep_end(zt_str *end, const zt_str *prompt)
{
    enum { MOST_END = 4096 };
    size_t size = prompt->len < MOST_END ? prompt->len : MOST_END;
    return size ? zt_str_put(end, prompt->data + prompt->len - size, size) : ZT_OK;
}

zt_status run_reply_begin(run_state *run, const zt_str *prompt, const run_beside *beside)
{
    size_t size;
    if (run->prompt_end) return keep_end(run->prompt_end, prompt);
    const run_calls none = {0}, *calls = beside ? &beside->calls : &none;
    const char *text = zt_jinja_text(run->jinja, &size);
    zt_reply_opts opts = {.template_text = {text, size},
                          .prompt = {prompt->len ? prompt->data : "", prompt->len},
                          .tools = offered_tools(run, beside)};
    bool wanted = run->options->json || run_takes_requests(run->options);
    if (run->options->chat || run->options->render) return ZT_OK;
    zt_status status = ZT_OK;
    if (opts.tools)
        status = hold_to_tools(run, &opts, calls);
    else if (calls->required)
        status = zt_fail(run->ctx, ZT_EDATA, "\"tool_choice\" asks for a call, but there are no tools");
    if (status != ZT_OK || !wanted) return status;
    opts.held = run->matcher && strcmp(run->form, "tools") == 0;
    run_reply_free(run);
    run->offers_tools = opts.tools != NULL;
    run->reply = zt_reply_new(run->ctx, &opts);
    return run->reply ? ZT_OK : zt_ctx_status(run->ctx);
}

void run_reply_free(run_state *run)
{
    zt_reply_free(run->reply);
    run->reply = NULL;
}

static void put_member(zt_str *json, const char *key, zt_bytes text)
{
    zt_str_printf(json, ",\"%s\":", key);
    zt_str_put_json(json, text.n ? text.data : "", text.n);
}

/* The arguments are an object; for OpenAI's API (--serve) the text of one. */
static void put_calls(const zt_reply *reply, bool as_text, zt_str *json)
{
    zt_str_puts(json, ",\"tool_calls\":[");
    for (int i = 0; i < zt_reply_call_count(reply); i++) {
        const zt_tool_call *call = zt_reply_call(reply, i);
        zt_str_puts(json, i ? ",{" : "{");
        if (call->id) {
            zt_str_puts(json, "\"id\":");
            zt_str_put_json(json, call->id, strlen(call->id));
            zt_str_putc(json, ',');
        }
        zt_str_puts(json, "\"name\":");
        zt_str_put_json(json, call->name, strlen(call->name));
        zt_str_puts(json, ",\"arguments\":");
        if (as_text)
            zt_str_put_json(json, call->arguments, strlen(call->arguments));
        else
            zt_str_puts(json, call->arguments);
        zt_str_putc(json, '}');
    }
    zt_str_putc(json, ']');
}

void run_put_reply(const run_state *run, zt_str *json)
{
    const zt_reply *reply = run->reply;
    const char *fault = zt_reply_fault(reply);
    if (!reply) return;
    put_member(json, "content", zt_reply_content(reply));
    if (zt_reply_reasoning(reply).n) put_member(json, "reasoning_content", zt_reply_reasoning(reply));
    if (run->offers_tools) put_calls(reply, run->options->serve != NULL, json);
    if (fault) put_member(json, "tool_call_error", (zt_bytes){fault, strlen(fault)});
}
