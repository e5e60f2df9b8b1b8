/* request.h - private to zt-run: one request of --jsonl, from its line to its answer. */
#ifndef ZT_RUN_REQUEST_H
#define ZT_RUN_REQUEST_H

#include "tools/zt-run/run.h"

#include <jansson.h>

typedef struct request {
    run r;         /* its own: options, ids, text and times; the rest is borrowed */
    run_options o; /* the command line's, with what the request says */
    size_t line;   /* of the input, from 1 */
    json_t *json;  /* o borrows texts of it */
    const json_t *messages;
    run_beside beside; /* the messages; NULL: not given */
    const char *prompt;
    const json_t *logprobs, *top_logprobs; /* as given; NULL: not */
    char *id; /* JSON text of its "id"; malloc'ed by jansson */
    bool own_stops;
    bool done, failed; /* then there is the answer, a line */
    zt_str answer;
    size_t bytes; /* of its line */
} request;

#define REQUEST_STRINGS(q)                                                                         \
    &(q)->r.held, &(q)->r.shown, &(q)->r.text, &(q)->r.logprobs, &(q)->r.likeliest, &(q)->answer

/* From the input's line of that number: r.ids is the prompt, or it is done, since it cannot be
 * answered. NULL for what is not the request's fault. */
request *request_new(run *base, const char *text, size_t n, size_t line);
void request_free(request *q);
/* A zt_batch_next: chooses a token of r.logits or r.next, and ends the request after its last. */
zt_status request_next(void *text, float *logits, int32_t best, bool *more);
/* Writes the answer, of a request that ended so. Another status than ZT_OK is not the request's. */
zt_status request_end(request *q, zt_status s);
/* The request's own fault, or too much for this run's limits: others may still be answered. */
bool request_is_theirs(zt_status s);

/* request_members.c: the request's line, of n bytes, into o, messages, prompt and id. A member that
 * is null is as one that is absent. ZT_EDATA names the member that is wrong. */
zt_status request_parse(request *q, const char *text, size_t n);
/* "KEY: VALUE is not WANTED", with the value as JSON, cut where it is long. ZT_EDATA. */
zt_status request_refuse(zt_ctx *ctx, const char *key, const json_t *value, const char *wanted);
/* "unknown member KEY", with the nearest of n names, or all of them where none is near. ZT_EDATA. */
zt_status request_unknown(zt_ctx *ctx, const char *key, const char *const *names, size_t n);

/* request_messages.c: the conversation of q->messages, of which none is read before, into r.ids. */
zt_status request_encode_messages(request *q);

#endif
