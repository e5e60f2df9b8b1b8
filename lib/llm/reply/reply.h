/* reply.h - what a model generated in answer to a conversation, taken apart: content, reasoning and tool calls.
 *
 * Models write tool calls and reasoning in forms of their own (<tool_call>{...}</tool_call>,
 * [TOOL_CALLS][...], <think>...</think>, channels). The form is found from the text of the chat template by a
 * table (formats.c). Text is put in pieces of any size, as it is generated:
 *
 *     zt_reply_opts opts = {.template_text = template, .prompt = prompt, .tools = tools};
 *     zt_reply *reply = zt_reply_new(ctx, &opts);
 *     while (...) zt_reply_put(reply, piece, size, is_control_token);
 *     zt_reply_end(reply);
 *     ... zt_reply_content(reply), zt_reply_reasoning(reply), zt_reply_call(reply, i)
 *
 * All three only grow, so that they can be sent on while the model generates: what is uncertain (the
 * beginning of a mark, a call that is not complete) is held back.
 *
 * A call is reported only where it is complete, its arguments are a JSON object, and its name is that of a tool
 * that was offered. The text of any other stays in the content, and zt_reply_fault says why. The text is hostile:
 * what is held is bounded, and the time is linear in it.
 */
#ifndef ZT_REPLY_H
#define ZT_REPLY_H

#include "lib/io/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_reply zt_reply;
struct json_t; /* jansson's */

typedef struct zt_reply_opts {
    zt_bytes template_text; /* of the chat template; empty: none, all text is content */
    zt_bytes prompt;        /* the rendered prompt: it may end inside of the reasoning */
    /* An array as in OpenAI's API: {"type": "function", "function": {"name", "parameters"}}, or the inner
     * objects. NULL: no tools are offered, and nothing is a call. Borrowed until zt_reply_free. */
    const struct json_t *tools;
    bool held; /* the reply is held to zt_reply_grammar: what begins otherwise than its calls is not a call */
} zt_reply_opts;

/* What replies are held to: their calls have the form of the template, the names of tools, and arguments that are valid by
 * the tool's "parameters". "strict" changes nothing. */
typedef struct zt_reply_hold {
    zt_bytes template_text, prompt;        /* as in zt_reply_opts */
    const struct json_t *tools;            /* not empty */
    const char *const *only;               /* [only_count]: names of the tools that may be called */
    size_t only_count;                     /* 0: all may */
    bool required;                         /* the reply is a call, after its reasoning at most */
    bool one;                              /* no more than one call */
    const struct zt_grammar_part *content; /* what a reply is that does not call, besides its reasoning; NULL: any text */
} zt_reply_hold;

/* The grammar of such replies: their whole text, reasoning included. Nothing of *hold is borrowed. NULL: ZT_EDATA where the
 * form is unknown, or a schema or name is not supported, ZT_ENOMEM. */
struct zt_grammar *zt_reply_grammar(zt_ctx *ctx, const zt_reply_hold *hold);

/* NULL: ZT_ENOMEM. template_text and prompt are not needed afterwards. */
zt_reply *zt_reply_new(zt_ctx *ctx, const zt_reply_opts *opts);
void zt_reply_free(zt_reply *reply); /* NULL: nothing */

/* Goes on by size bytes; they may end in the middle of a character. `hidden`: they are a control token's, and
 * count as a mark or not at all. ZT_ENOMEM; ZT_EUSAGE after the end. */
zt_status zt_reply_put(zt_reply *reply, const char *text, size_t size, bool hidden);
/* The text is complete. What was held back is decided. */
zt_status zt_reply_end(zt_reply *reply);

/* What is certain so far. The bytes are valid until the next put. */
zt_bytes zt_reply_content(const zt_reply *reply);
zt_bytes zt_reply_reasoning(const zt_reply *reply); /* without the white space around it */

typedef struct zt_tool_call {
    const char *id;        /* that the model wrote; NULL: none */
    const char *name;      /* one of the tools' */
    const char *arguments; /* a JSON object on one line */
} zt_tool_call;

int zt_reply_call_count(const zt_reply *reply); /* number of complete calls so far; 0 for NULL */
/* NULL: no such call. It is valid until zt_reply_free. */
const zt_tool_call *zt_reply_call(const zt_reply *reply, int index);
/* The call that is being written, of a reply that is held: the next that zt_reply_call will have, unless the text ends before.
 * Its arguments are those so far, and only grow. NULL: there is none, or its arguments are not written as JSON. It is valid until the next put. */
const zt_tool_call *zt_reply_open_call(const zt_reply *reply);
/* Why text that looked like a call is none: one sentence, of the first. NULL: there is no such text. */
const char *zt_reply_fault(const zt_reply *reply);

/* The name of the form in which the template has tool calls, as in the table; NULL: none is known. */
const char *zt_reply_call_form(zt_bytes template_text);
/* Can calls in the template's form be held to a grammar (zt_reply_grammar)? */
bool zt_reply_holds_calls(zt_bytes template_text);
/* The name of the form of the reasoning. */
const char *zt_reply_reasoning_form(zt_bytes template_text);

#ifdef __cplusplus
}
#endif
#endif
