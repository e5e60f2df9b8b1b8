/* reply_internal.h - private to lib/llm/reply: the forms of tool calls and reasoning, and the parser's state.
 *
 *   formats.c     the tables, and which row a chat template has
 *   reply.c       the parser: content, reasoning, where a call begins
 *   channels.c    the same for gpt-oss, whose text is a row of messages
 *   call_json.c   calls whose arguments are JSON
 *   call_text.c   calls as tags and as expressions of Python
 *   calls.c       the list of calls, the tools that are offered
 *   hold.c        the grammar that a reply is held to
 *   open_call.c   the call that is being written
 */
#ifndef ZT_REPLY_INTERNAL_H
#define ZT_REPLY_INTERNAL_H

#include "lib/llm/grammar/expression.h"
#include "lib/llm/reply/reply.h"

#include <jansson.h>

enum {
    MOST_CALL = 1 << 20, /* bytes of one call, or of a list of calls in one text */
    MOST_CALLS = 256,
    MOST_NAME = 256, /* bytes of a name and what is around it */
    MOST_DEPTH = 200 /* of arguments */
};

/* ---- forms ----------------------------------------------------------------------------------- */

typedef enum call_body {
    BODY_JSON,   /* {"name": .., "arguments": ..}, or a list of such */
    BODY_NAMED,  /* a name, marks, then the arguments as JSON */
    BODY_TAGS,   /* a name, then each argument between tags */
    BODY_PYTHON, /* name(argument=value), or a list of such */
    BODY_PAIRS   /* call:name{argument:value} */
} call_body;

/* What stands around the parts of a call of BODY_TAGS; NULL or "": nothing. */
typedef struct tag_marks {
    const char *function, *function_end; /* around the name */
    const char *argument, *argument_end; /* around an argument's name; `argument_end` may have attributes before it */
    const char *value;                   /* before its value, */
    const char *value_end;               /* and after it */
    const char *close;                   /* after the last argument */
    const char *attributes_end;          /* where a mark of a name ends with '"': ends the attributes after it. NULL: ">" */
    const char *is_text, *is_json; /* attributes that say how a value is written; NULL: none does. is_text is looked for first */
    const char *json, *json_end;   /* around all arguments as one JSON object, instead of them */
    const char *nested;            /* begins the mark that ends a value, NAME> the rest of it; a value may hold further
                                            arguments, of which `item` is an element of a list. NULL: values end with value_end */
} tag_marks;

/* How calls are written, for a grammar. In these texts %n is a name, %a the arguments, %i an id of letters and digits, %d a
 * number, ~ white space as in JSON; all else are marks. Calls are written as open, call, (more, call)*, close. */
typedef struct call_writing {
    const char *in_template; /* it is in templates with this; NULL: in the others */
    const char *open;        /* NULL: nothing */
    const char *call;        /* NULL: this entry is not used */
    const char *more;        /* between two calls; NULL: another call begins with the marks of the first */
    const char *close;       /* NULL: nothing */
} call_writing;

typedef struct call_form {
    const char *name;
    const char *in_template[3]; /* a template with all of these has this form */
    call_body body;
    const char *begin;      /* NULL: the reply itself is the call */
    const char *end;        /* NULL: where the body ends */
    bool repeats;           /* BODY_JSON: several may stand between begin and end */
    const char *between[3]; /* marks before, between and after calls, which mean nothing */
    const char *separator;  /* BODY_NAMED: between two names, of which one is the call's */
    bool name_first;        /* ... it is the first */
    const char *name_end;   /* BODY_NAMED: what follows the name or the id, up to the arguments */
    const char *quote;      /* BODY_PAIRS: around a text */
    const tag_marks *tags;
    call_writing writing[3];     /* the first whose in_template is in the template */
    const garguments *arguments; /* how a grammar writes arguments; NULL: as JSON */
} call_form;

typedef struct reasoning_form {
    const char *name;
    const char *in_template; /* NULL: `end` */
    const char *begin, *end;
    const char *around[3]; /* marks around the content and the whole reply, which mean nothing */
} reasoning_form;

const call_form *zt_reply_find_form(zt_bytes template_text);           /* NULL: none */
const reasoning_form *zt_reply_find_reasoning(zt_bytes template_text); /* NULL: none */
bool zt_reply_has_channels(zt_bytes template_text);                    /* gpt-oss */

/* ---- the parser ------------------------------------------------------------------------------ */

typedef enum reply_state {
    IN_CONTENT,
    IN_REASONING,
    IN_CALL,    /* pending begins with the mark before the call */
    AFTER_CALL, /* white space, marks, or another call */
    IN_HEADER,  /* channels: before <|message|> */
    IN_MESSAGE
} reply_state;

typedef enum channel { CHANNEL_CONTENT, CHANNEL_REASONING, CHANNEL_CALL } channel;

/* How far the brackets of a value have been followed. */
typedef struct bracket_scan {
    size_t offset; /* in the pending text */
    int depth;
    bool begun, string, escaped;
    char quote;  /* find_marked: of the string */
    bool failed; /* channels: the end is known, or there is no JSON value */
} bracket_scan;

/* The call that is being written (open_call.c). */
typedef struct open_call {
    bool known;    /* name and arguments have begun */
    bool whole;    /* the arguments are complete */
    int index;     /* among the calls */
    size_t offset; /* of what was not looked at yet, in the call's text */
    int depth;
    bool string, escaped;
    zt_tool_call call;
    zt_str text; /* of the arguments */
} open_call;

struct zt_reply {
    open_call open;
    zt_ctx *ctx;
    const call_form *form; /* NULL: nothing is a call */
    const reasoning_form *thinks;
    bool channels;
    const json_t *tools;
    zt_str pending, hidden; /* text that is not decided; for each byte, whether it is a control token's */
    size_t position;        /* what is before it was decided */
    zt_str content, reasoning;
    zt_tool_call *calls;
    int call_count, call_capacity;
    zt_arena *arena; /* of the calls' texts, and of the fault */
    const char *fault;
    reply_state state;
    size_t body;        /* IN_CALL: where the call's text begins in pending */
    size_t scanned;     /* IN_CALL: no mark that ends it begins before this offset of the call's text */
    size_t value;       /* IN_CALL, BODY_NAMED: where the arguments begin in the call's text; 0: not found yet */
    bracket_scan scan;  /* IN_CALL */
    bool no_more_calls; /* all that follows is text */
    bool held;          /* by zt_reply_grammar */
    bool drop_space;    /* white space that comes next is not content */
    bool ended;
    channel channel;           /* IN_MESSAGE */
    char recipient[MOST_NAME]; /* ... the tool that it calls */
};

/* The outcome of looking at text. */
typedef enum reply_step { STEP_MORE, STEP_ON, STEP_WRONG } reply_step; /* more text is needed; goes on; not a call */

static inline zt_bytes part_of(const char *begin, const char *end) { return (zt_bytes){begin, (size_t)(end - begin)}; }
zt_bytes zt_reply_trimmed(zt_bytes text); /* without white space around it */
bool zt_reply_begins(zt_bytes text, const char *mark);
const char *zt_reply_find(zt_bytes text, const char *mark); /* NULL: not there */
bool zt_reply_is_space(char byte);
/* Removes the mark from the beginning of *text, if it is there. */
bool zt_reply_skip(zt_bytes *text, const char *mark);
void zt_reply_skip_space(zt_bytes *text);

/* reply.c */
zt_bytes zt_reply_rest(const zt_reply *reply); /* pending text that is not decided */
/* Appends the first `size` bytes of it to content or reasoning, and moves on. Those of control tokens only with `all`. */
zt_status zt_reply_emit(zt_reply *reply, zt_str *to, size_t size, bool all);
/* The number of bytes at the end of the text that may be the beginning of the mark. */
size_t zt_reply_partial(zt_bytes text, const char *mark);
/* The number of bytes of the text without the white space at its end. A long run of white space counts as text. */
size_t zt_reply_solid(zt_bytes text);

/* Does the prompt end with the mark that begins the reasoning? */
bool zt_reply_opens(const reasoning_form *thinks, zt_bytes prompt);

/* hold.c: the arguments of a tool's call as JSON; may the tool be called? */
gexpr *zt_reply_call_arguments(gbuilder *builder, const zt_reply_hold *hold, const json_t *tool);
bool zt_reply_may_call(const zt_reply_hold *hold, const json_t *tool);
/* channels.c: the grammar of a reply of gpt-oss. */
gexpr *zt_reply_hold_channels(gbuilder *builder, const zt_reply_hold *hold);

/* channels.c: a step of the parser, of IN_HEADER and IN_MESSAGE. */
reply_step zt_reply_step_channels(zt_reply *reply, zt_status *status);

/* call_json.c, call_text.c: the text of one call or a list of calls. STEP_WRONG: it is not one, and the fault says why. */
reply_step zt_reply_read_json(zt_reply *reply, zt_bytes text, zt_status *status);
reply_step zt_reply_read_tags(zt_reply *reply, zt_bytes text, zt_status *status);
reply_step zt_reply_read_python(zt_reply *reply, zt_bytes text, zt_status *status);
reply_step zt_reply_read_pairs(zt_reply *reply, zt_bytes text, zt_status *status);
/* The name and what is around it, up to the arguments: those of BODY_NAMED. */
reply_step zt_reply_read_named(zt_reply *reply, zt_bytes header, zt_bytes arguments, zt_status *status);
/* The name and the id in them. */
void zt_reply_named_parts(const call_form *form, zt_bytes header, zt_bytes *name, zt_bytes *id);
/* open_call.c: after a piece of text. */
zt_status zt_reply_follow_call(zt_reply *reply);
/* Follows the brackets of a value from scan->offset on. STEP_ON: it ends before scan->offset. */
reply_step zt_reply_scan_value(bracket_scan *scan, zt_bytes text);
/* Appends the JSON without white space between its parts. */
zt_status zt_reply_compact(zt_bytes json, zt_str *out);

/* calls.c */
/* The object with the name and the parameters of a tool: it may be inside of "function". */
const json_t *zt_reply_function(const json_t *tool);
/* The parameters' schema of the tool; *found says whether there is such a tool. NULL: none. */
const json_t *zt_reply_tool(const zt_reply *reply, zt_bytes name, bool *found);
/* Adds a call; `arguments` is JSON, an object or the text of one. STEP_WRONG: it does not fit, and nothing is added. */
reply_step zt_reply_add_call(zt_reply *reply, zt_bytes id, zt_bytes name, zt_bytes arguments, zt_status *status);
/* Appends the value of an argument that was written as bare text, as JSON of the type in the schema. */
zt_status zt_reply_put_value(const json_t *schema, zt_bytes key, zt_bytes text, zt_str *out);
/* The same for a value whose own schema is `own` (NULL: none), within `schema`. */
zt_status zt_reply_put_as(const json_t *schema, const json_t *own, zt_bytes text, zt_str *out);
/* Remembers the first reason. Returns STEP_WRONG. */
reply_step zt_reply_refuse(zt_reply *reply, const char *format, ...) ZT_PRINTF(2, 3);

#endif
