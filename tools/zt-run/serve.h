/* serve.h - private to zt-run: --serve, OpenAI's API over HTTP. Three threads share the work:
 *
 *     the thread of libmicrohttpd                     the thread of the model
 *     serve_http.c, serve_exchange.c                  serve.c, serve_answer.c
 *
 *     reads a request; checks path, key and size
 *     puts it into the queue and suspends it   --->   takes it from a third thread (serve_prepare.c, serve_body.c), which
 *                                                     has read it and made tokens of its prompts; makes requests of
 *                                                     --jsonl of it (request.h), adds these to the batch, runs steps
 *     sends what is there, suspends again      <---   puts pieces of the answer
 *     marks a client that has gone             --->   drops its texts
 *
 * What they share is a serve_exchange, one HTTP request and its answer. */
#ifndef ZT_RUN_SERVE_H
#define ZT_RUN_SERVE_H

#include "lib/llm/batch.h"
#include "tools/zt-run/request.h"

#include <jansson.h>

/* ---- limits ---------------------------------------------------------------------------------- */

enum {
    SERVE_CHOICES = 128,          /* texts of one HTTP request, at most: prompts times n */
    SERVE_INPUTS = 2048,          /* texts of one request for embeddings, at most */
    SERVE_CONNECTIONS = 512,      /* open at once, at most */
    SERVE_IDLE_SECONDS = 30,      /* a connection without traffic is closed after them */
    SERVE_UPLOAD_SECONDS = 60,    /* within them a request's body has to arrive */
    SERVE_GRACE_SECONDS = 10,     /* running requests may end within them after a signal */
    SERVE_ANSWER_BYTES = 1 << 24, /* of the texts and log probabilities of a request that are held */
    SERVE_UNSENT_BYTES = 1 << 18, /* of a stream; a client that reads no faster is cut off */
};
/* Of all requests whose bodies are held. */
#define SERVE_BODY_BYTES (64u << 20)

/* ---- where it listens (serve_listen.c) --------------------------------------------------------- */

typedef struct serve_listener {
    int fd;         /* -1: none */
    char url[160];  /* for messages */
    bool is_unix;   /* path: removed at the end */
    bool loopback;  /* reached from this machine only */
    char path[108]; /* of a unix: socket */
    uint64_t device, inode;
} serve_listener;

/* `address` is ADDR:PORT, PORT or :PORT (loopback), ADDR, unix:PATH or "" (127.0.0.1:8080). ZT_EUSAGE: it is
 * neither. */
zt_status serve_check_address(zt_ctx *ctx, const char *address);
/* Opens and binds the socket, and listens. ZT_ECREATE: it is in use, or cannot be made. */
zt_status serve_listen(zt_ctx *ctx, const char *address, serve_listener *listener);
void serve_refuse_connections(serve_listener *listener); /* nobody reaches the socket any more; its file is removed */
void serve_unlisten(serve_listener *listener);           /* the same, and closes it */

/* ---- metrics (serve_metrics.c) ----------------------------------------------------------------- */

typedef enum serve_task {
    SERVE_CHAT,
    SERVE_COMPLETION,
    SERVE_EMBEDDING,
    SERVE_MODELS,
    SERVE_HEALTH,
    SERVE_METRICS,
    SERVE_UNKNOWN,
    SERVE_TASKS
} serve_task;

enum { SERVE_STATUSES = 16, SERVE_BUCKETS = 14 };

typedef struct serve_histogram {
    uint64_t buckets[SERVE_BUCKETS + 1]; /* the last: above all bounds */
    double sum;
} serve_histogram;

typedef struct serve_metrics {
    uint64_t requests[SERVE_TASKS][SERVE_STATUSES]; /* answered, by HTTP status */
    uint64_t prompt_tokens, generated_tokens, cancelled;
    uint64_t running; /* texts in the batch */
    uint64_t waiting; /* requests in the queue */
    zt_batch_count batch;
    serve_histogram first_token, request, token; /* seconds */
} serve_metrics;

const char *serve_task_path(serve_task task); /* "/v1/models" */
void serve_count_request(serve_metrics *metrics, serve_task task, int status);
void serve_observe(serve_histogram *histogram, double seconds);
/* In Prometheus' text format. */
void serve_put_metrics(zt_str *out, const serve_metrics *metrics);

/* ---- an exchange, and the queue (serve_exchange.c) ---------------------------------------------- */

typedef struct serve_http serve_http;
typedef struct serve_exchange serve_exchange;

/* The next request of the queue; NULL: none. It has to be ended. */
serve_exchange *serve_take(serve_http *http);
/* For a thread that takes requests: waits until there is one and it may be taken. NULL: there is nothing to take any more. */
serve_exchange *serve_wait_take(serve_http *http);
void serve_allow(serve_http *http, size_t count); /* so many may be taken and not be begun */
void serve_taken(serve_http *http, bool begun);   /* one that was taken is ready; or it has begun or ended */
void serve_stop_taking(serve_http *http);         /* serve_wait_take returns NULL from now on */
serve_task serve_exchange_task(const serve_exchange *exchange);
const zt_str *serve_exchange_body(const serve_exchange *exchange);
void serve_drop_body(serve_exchange *exchange);              /* it was read, and its memory is freed */
double serve_exchange_began(const serve_exchange *exchange); /* when its first line came, as zt_seconds has it */
/* Begins the answer. A `stream` is sent as it comes, anything else once it is ended. */
void serve_begin(serve_exchange *exchange, int status, bool stream);
/* Appends to the answer. false: nobody reads it, or not fast enough. */
bool serve_put(serve_exchange *exchange, const char *bytes, size_t size);
/* The whole answer, an error in OpenAI's form; or in a stream that has begun, its last event. param: NULL or the
 * member that is wrong; code: NULL or OpenAI's word for it. Does not end the exchange. */
void serve_fail(serve_exchange *exchange, int status, const char *param, const char *code, const char *message);
void serve_end(serve_exchange *exchange);  /* the answer is whole; the exchange is not the caller's any more */
bool serve_gone(serve_exchange *exchange); /* has the client closed its connection? */
/* Answers requests of the queue that have waited for too long, or with `all` each; drops those whose client has
 * gone. */
void serve_sweep(serve_http *http, double oldest, bool all);
/* Waits for a request, for a signal, or so many milliseconds (-1: no limit). */
void serve_wait(serve_http *http, int milliseconds);
/* A piece of the metrics is changed under the lock. */
serve_metrics *serve_lock_metrics(serve_http *http);
void serve_unlock_metrics(serve_http *http);

/* The error object of OpenAI's API. */
zt_status serve_put_error(zt_str *out, int status, const char *param, const char *code, const char *message);

/* ---- HTTP (serve_http.c) ------------------------------------------------------------------------ */

typedef struct serve_http_options {
    const run_options *options;
    const char *model_id, *model_object; /* object: as /v1/models has it, JSON */
    serve_listener *listener;
} serve_http_options;

/* Starts the thread of libmicrohttpd: /health says "loading" until serve_ready. ZT_ENOTSUP: the library is not
 * there. */
serve_http *serve_http_open(zt_ctx *ctx, const serve_http_options *options);
void serve_ready(serve_http *http);
void serve_stop_accepting(serve_http *http); /* no new connections; requests on old ones are refused */
void serve_wake(serve_http *http);           /* ends serve_wait; a signal handler may call it */
/* Waits for answers on their way, for two seconds at most. Every exchange that was taken has been ended. */
void serve_http_close(serve_http *http);

/* ---- a request's body (serve_body.c) ------------------------------------------------------------ */

typedef struct serve_body {
    serve_task task;
    json_t *json;               /* the whole body, an object */
    const json_t *prompts;      /* of completions, or the `input` of embeddings: a text, token ids, or an array of such */
    bool several;               /* ... it is an array of such */
    size_t prompt_count;        /* 1 for a conversation */
    size_t choices;             /* n, of each prompt */
    bool stream, usage, base64; /* usage: at the end of the stream, too */
    json_t *line;               /* the request as --jsonl has it, but for prompt and seed */
    int status;                 /* of HTTP, where it is refused */
    const char *code;           /* OpenAI's word for what is wrong, or NULL */
} serve_body;

/* ZT_EDATA with a message in the context, and `status` and `code`. In any case serve_body_free. */
zt_status serve_body_read(run_state *run, serve_task task, const zt_str *text, serve_body *body);
void serve_body_free(serve_body *body);
/* The tokens of a prompt. */
zt_status serve_body_encode(run_state *run, const serve_body *body, size_t prompt, request_prompt *encoded);
/* Puts something short in place of the prompt or the messages in `line`. */
zt_status serve_body_forget(const run_state *run, serve_body *body);
const json_t *serve_body_prompt(const serve_body *body,
                                size_t index); /* a text or an array of token ids; NULL: of a conversation */
/* A choice of a prompt that was encoded, from a body that was forgotten, as a line of --jsonl. */
run_request *serve_body_request(run_state *run, const serve_body *body, const request_prompt *prompt, size_t choice);
/* The member of the body that a message begins with or names; NULL: none. */
const char *serve_named_member(const serve_body *body, const char *message, char name[64]);

/* ---- requests that are ready (serve_prepare.c) ------------------------------------------------------------- */

typedef struct serve_prepared serve_prepared;
struct serve_prepared {
    serve_prepared *next;
    zt_ctx *ctx; /* of its memory */
    serve_exchange *exchange;
    serve_body body;
    request_prompt *prompts; /* [body.prompt_count]; NULL: embeddings */
    zt_status status;        /* other than ZT_OK: why it is refused */
    char message[1024];
};

typedef struct serve_preparer serve_preparer;
serve_preparer *serve_preparer_open(run_state *run, serve_http *http); /* after the model. NULL: no memory */
/* The next request that is ready; up to `most` more are made ready. Its exchange has to be ended. NULL: there is none. */
serve_prepared *serve_preparer_take(serve_preparer *preparer, size_t most);
void serve_prepared_free(serve_prepared *prepared);
void serve_preparer_close(serve_preparer *preparer); /* NULL: nothing */

/* ---- embeddings (serve_embed.c) ------------------------------------------------------------------ */

typedef struct serve_embedder {
    zt_llm *model; /* NULL: it is opened when it is first asked for */
    bool own;      /* beside the model that generates */
    float *vector; /* f32[width] */
} serve_embedder;

zt_status serve_embedder_open(run_state *run, serve_embedder *embedder);
void serve_embedder_close(run_state *run, serve_embedder *embedder);
/* Appends an element of "data", and adds the text's tokens to *tokens. */
zt_status serve_embed(run_state *run, serve_embedder *embedder, const json_t *text, size_t index, bool base64, zt_str *out,
                      size_t *tokens);

/* ---- an answer (serve_answer.c) ------------------------------------------------------------------ */

typedef struct serve_reply {
    serve_task task;
    char id[64];
    const char *model;
    long long created;
    bool logprobs;
} serve_reply;

typedef struct serve_usage {
    size_t prompt_tokens, generated_tokens;
} serve_usage;

/* An element of "choices", of the answer that --jsonl would write. NULL: no memory. */
json_t *serve_choice_object(run_state *run, const serve_reply *reply, size_t index, const json_t *answer);
/* The whole answer. Takes the array of choices. */
zt_status serve_put_answer(zt_str *out, const serve_reply *reply, json_t *choices, serve_usage usage);
/* Events of a stream. `text` and `logprobs` (elements of the array of --jsonl) are what is new. */
zt_status serve_put_role(zt_str *out, const serve_reply *reply, size_t index);
zt_status serve_put_reasoning(run_state *run, zt_str *out, const serve_reply *reply, size_t index, zt_bytes text);
zt_status serve_put_text(run_state *run, zt_str *out, const serve_reply *reply, size_t index, zt_bytes text, zt_bytes logprobs);
/* What is new of a call of a tool: its name, and its arguments from a byte on, in pieces. */
typedef struct serve_call {
    const zt_tool_call *call;
    size_t index, from;
    bool begun; /* the name was sent */
} serve_call;
zt_status serve_put_call(zt_str *out, const serve_reply *reply, size_t index, const serve_call *call);
/* The last event of a choice. */
zt_status serve_put_finish(zt_str *out, const serve_reply *reply, size_t index, const json_t *answer);
zt_status serve_put_usage(zt_str *out, const serve_reply *reply, serve_usage usage);
zt_status serve_put_done(zt_str *out);
#endif
