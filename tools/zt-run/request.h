/* request.h - private to zt-run: one request of --jsonl, from its line to its answer. */
#ifndef ZT_RUN_REQUEST_H
#define ZT_RUN_REQUEST_H

#include "lib/llm/batch.h"
#include "tools/zt-run/run.h"

#include <jansson.h>

/* The members that say what the answer is held to. */
enum { FORM_RESPONSE_FORMAT, FORM_JSON_SCHEMA, FORM_GRAMMAR, FORM_CHOICES, FORM_REGEX, REQUEST_FORMS };

typedef struct run_request {
    run_state run;           /* its own: options, ids, text and times; the rest is borrowed */
    run_options options;     /* the command line's, with what the request says */
    size_t line_number;      /* of the input, from 1 */
    json_t *json;            /* options borrow texts of it */
    const char **only;       /* of beside.calls: allocated */
    zt_grammar_part content; /* of beside.calls */
    char *content_text;      /* of content, malloc'ed by jansson */
    const json_t *messages;
    run_beside beside; /* what is given beside the messages */
    const char *prompt;
    const json_t *prompt_ids;                                           /* in place of it: an array of integers */
    const json_t *logprobs, *top_logprobs;                              /* as given; NULL: not given */
    const json_t *tool_choice, *parallel_tool_calls, *reasoning_effort; /* likewise */
    const json_t *form[REQUEST_FORMS]; /* what the answer is held to, by each of the members; NULL: not given */
    char *json_id;                     /* JSON text of its "id"; malloc'ed by jansson */
    bool own_stops;                    /* the list options.stop_texts belongs to the request */
    bool done, failed;                 /* done: `answer` is there */
    zt_str answer;                     /* a line */
    const int32_t *draft;              /* [draft_count]: what was fed behind draft_from tokens; the drafter's */
    size_t draft_from, draft_count;
    size_t line_bytes;
} run_request;

#define REQUEST_STRINGS(request)                                                                                                 \
    &(request)->run.held_text, &(request)->run.held_shown, &(request)->run.answer_text, &(request)->run.logprobs,                \
        &(request)->run.likeliest, &(request)->answer

/* A prompt that was encoded. */
typedef struct request_prompt {
    zt_ids ids;
    zt_str end; /* of a conversation: the last bytes of what the template wrote */
} request_prompt;

/* The prompt of a line, and nothing else of it: prompt->end is initialized. ZT_EDATA, ZT_EUSAGE: what is wrong. */
zt_status request_encode(run_state *base, const char *text, size_t size, request_prompt *prompt);
/* As request_new, with a prompt that was encoded by request_encode; "prompt" or "messages" of the line mean nothing. */
run_request *request_new_encoded(run_state *base, const char *text, size_t size, const request_prompt *prompt);
/* From a line of the input; line 0: it comes from elsewhere. run.ids is the prompt; or the request is done, since it is wrong, and the error
 * is its answer. NULL: an error that is not the request's fault. */
run_request *request_new(run_state *base, const char *text, size_t size, size_t line);
void request_free(run_request *request);
/* A zt_batch_next: chooses a token of run.logits or run.next_ids, and ends the request after its last. */
zt_status request_next(void *text, float *logits, int32_t best, bool *more);
/* Of zt_batch_opts: a draft of --draft, and the time of a step. `text`: the request. */
zt_batch_draft request_draft;
zt_batch_took request_took;
/* Adds it to the batch as `text`, with the way in which its tokens are chosen (see run.h). */
zt_status request_add(run_request *request, zt_batch *batch, void *text);
/* Makes the answer of a request that ended with this status. A status other than ZT_OK that it returns is
 * not the request's fault. */
zt_status request_end(run_request *request, zt_status status);
/* The request's own fault, or too much for this run's limits: others may still be answered. */
bool request_is_theirs(zt_status status);

/* request_members.c: reads the request's line into options, messages, prompt and json_id. A member that is
 * null counts as absent. ZT_EDATA names the member that is wrong. */
zt_status request_parse(run_request *request, const char *text, size_t size);
/* Is `text` a name of the model that runs: its file's with or without folder and what follows a dot (m.q4_1.gguf, m.q4_1,
 * m), or its general.name, or its id? */
bool request_names_model(const run_state *run, const char *text);
/* Appends an array of integers to ids, if all are token ids. ZT_EDATA names the first that is not. */
zt_status request_read_ids(const run_state *run, const char *key, const json_t *value, zt_ids *ids);
/* "KEY: VALUE is not WANTED", with the value as JSON, cut where it is long. ZT_EDATA. */
zt_status request_refuse(zt_ctx *ctx, const char *key, const json_t *value, const char *wanted);
/* "unknown member KEY", with the nearest of the names, or all of them where none is near. ZT_EDATA. */
zt_status request_unknown(zt_ctx *ctx, const char *key, const char *const *names, size_t name_count);

/* request_tools.c: checks "tools", and sets beside.tools and beside.calls by "tool_choice" and "parallel_tool_calls". */
zt_status request_choose_tools(run_request *request);

/* request_form.c: holds the answer to what the request says, or else to what the command line says. */
zt_status request_hold(run_request *request);

/* request_messages.c: encodes request->messages into run.ids; or takes a conversation that was encoded. */
zt_status request_encode_messages(run_request *request);
zt_status request_take_messages(run_request *request, const request_prompt *prompt);

#endif
