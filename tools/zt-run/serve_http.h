/* serve_http.h - private to serve_http.c and serve_exchange.c: the state that the two threads of --serve share. */
#ifndef ZT_RUN_SERVE_HTTP_H
#define ZT_RUN_SERVE_HTTP_H

#include "tools/zt-run/serve.h"
#include "tools/zt-run/serve_library.h"

#include <pthread.h>

enum { SERVE_DIGEST = 32, SERVE_KEYS = 64 };

typedef enum serve_phase { SERVE_LOADING, SERVE_READY, SERVE_STOPPING } serve_phase;

struct serve_http {
    pthread_mutex_t lock; /* of all that follows, except what does not change after the start */
    zt_ctx *owner;        /* of this struct */
    zt_ctx *ctx;          /* of its own, so that its errors are not the model's */
    serve_library library;
    struct MHD_Daemon *daemon;
    const run_options *options;
    const char *model_id, *model_object;
    serve_listener *listener;
    unsigned char keys[SERVE_KEYS][SERVE_DIGEST]; /* SHA-256 of each key */
    size_t key_count;
    int wake_fd;
    serve_phase phase;
    serve_exchange *first, **last; /* the queue */
    size_t queue_count;
    pthread_cond_t changed;            /* a request came, or may be taken, or none is taken any more */
    size_t allowed_count, taken_count; /* may be taken and not be begun; are */
    bool stop_taking;
    size_t body_bytes; /* of all exchanges */
    size_t live_count; /* exchanges that libmicrohttpd has not ended */
    serve_metrics metrics;
};

struct serve_exchange {
    serve_http *http;
    struct MHD_Connection *connection;
    int fd;
    serve_task task;
    double began;
    zt_str body;
    size_t held_bytes; /* of the body, as counted in http->body_bytes */
    /* under the lock */
    zt_str output; /* [sent_bytes, len) is to be sent */
    size_t sent_bytes;
    int status;     /* of HTTP; 0: the answer has not begun */
    bool stream;    /* it is sent as it comes */
    bool submitted; /* it was in the queue */
    bool suspended; /* libmicrohttpd does not look at the connection */
    bool ended;     /* the answer is whole */
    bool cut;       /* the reader was too slow: nothing more is sent */
    bool closed;    /* the client has gone */
    int references; /* of the two threads */
    serve_exchange *next;
};

/* For the thread of libmicrohttpd. */
serve_exchange *serve_exchange_new(serve_http *http, struct MHD_Connection *connection, serve_task task);
/* Appends to the body; an error is its answer. */
void serve_exchange_upload(serve_exchange *exchange, const char *bytes, size_t size, size_t limit);
/* Puts it into the queue and suspends its connection; or an error is its answer. With the lock held. */
void serve_exchange_submit(serve_exchange *exchange);
/* Copies what is to be sent. 0: it is suspended. -1: that was all; -2: it is cut off. */
ssize_t serve_exchange_read(serve_exchange *exchange, char *bytes, size_t size);
void serve_exchange_leave(serve_exchange *exchange, bool whole); /* the connection is done with it */
/* The whole answer at once. */
void serve_exchange_answer(serve_exchange *exchange, int status, const char *text, size_t size);
#endif
