/* request.h - private to zt-run: one request of --jsonl, from its line to its answer. */
#ifndef ZT_RUN_REQUEST_H
#define ZT_RUN_REQUEST_H

#include "tools/zt-run/run.h"

#include <jansson.h>

typedef struct request {
    run r;         /* its own: options, ids, text and times; the rest is borrowed */
    run_options o; /* the command line's, with what the request says */
    json_t *json;  /* o borrows texts of it */
    const json_t *messages;
    const char *prompt;
    char *id; /* JSON text of its "id"; malloc'ed by jansson */
    bool own_stops;
    bool done, failed; /* then there is the answer, a line */
    zt_str answer;
    size_t bytes; /* of its line */
} request;

#define REQUEST_STRINGS(q)                                                                         \
    &(q)->r.held, &(q)->r.shown, &(q)->r.text, &(q)->r.logprobs, &(q)->r.likeliest, &(q)->answer

/* From its line: r.ids is the prompt, or it is done, since it cannot be answered or wants nothing.
 * NULL for what is not the request's fault. */
request *request_new(run *base, const char *line, size_t n);
void request_free(request *q);
/* A zt_batch_next: chooses a token of r.logits or r.next, and ends the request after its last. */
zt_status request_next(void *text, float *logits, int32_t best, bool *more);
/* Writes the answer, of a request that ended so. Another status than ZT_OK is not the request's. */
zt_status request_end(request *q, zt_status s);
/* The request's own fault, or too much for this run's limits: others may still be answered. */
bool request_is_theirs(zt_status s);

#endif
