/* serve_exchange.c - one HTTP request and its answer, which two threads share; and the queue of requests.
 *
 * Both threads hold a reference to an exchange. libmicrohttpd does not look at a suspended connection, so the thread of the
 * model asks the socket whether the client has gone. */
#ifdef ZT_HAVE_MICROHTTPD
#include "tools/zt-run/serve_http.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* ---- both threads, with the lock held ----------------------------------------------------------- */

static void lock_http(serve_http *http) { pthread_mutex_lock(&http->lock); }
static void unlock_http(serve_http *http) { pthread_mutex_unlock(&http->lock); }

static void resume(serve_exchange *exchange)
{
    if (!exchange->suspended) return;
    exchange->suspended = false;
    exchange->http->library.resume_connection(exchange->connection);
}

static void suspend(serve_exchange *exchange)
{
    exchange->suspended = true;
    exchange->http->library.suspend_connection(exchange->connection);
}

static void drop_body(serve_exchange *exchange)
{
    exchange->http->body_bytes -= exchange->held_bytes;
    exchange->held_bytes = 0;
    zt_str_fini(&exchange->body);
}

static void release(serve_exchange *exchange)
{
    serve_http *http = exchange->http;
    if (--exchange->references > 0) return;
    drop_body(exchange);
    zt_str_fini(&exchange->output);
    zt_free(http->ctx, exchange);
}

/* Appends to the output. A reader that is too slow loses what it has not read. */
static bool put_output(serve_exchange *exchange, const char *bytes, size_t size)
{
    zt_str *output = &exchange->output;
    if (exchange->closed || exchange->cut) return false;
    if (exchange->sent_bytes > output->len / 2) {
        memmove(output->data, output->data + exchange->sent_bytes, output->len - exchange->sent_bytes);
        output->len -= exchange->sent_bytes;
        exchange->sent_bytes = 0;
    }
    bool slow = exchange->stream && output->len - exchange->sent_bytes > SERVE_UNSENT_BYTES;
    if (!slow && zt_str_put(output, bytes, size) == ZT_OK) return true;
    zt_ctx_clear(exchange->http->ctx);
    zt_str_fini(output);
    exchange->sent_bytes = 0;
    exchange->cut = true;
    return false;
}

static void put_failure(serve_exchange *exchange, int status, const char *param, const char *code, const char *message)
{
    zt_str text;
    bool begun = exchange->status != 0 && exchange->stream;
    zt_str_init(&text, exchange->http->ctx);
    if (begun) zt_str_puts(&text, "data: ");
    serve_put_error(&text, status, param, code, message);
    if (begun) zt_str_putc(&text, '\n');
    if (!begun) {
        exchange->status = status;
        exchange->stream = false;
        exchange->sent_bytes = 0;
        zt_str_clear(&exchange->output);
    }
    if (text.len) put_output(exchange, text.data, text.len);
    zt_str_fini(&text);
    zt_ctx_clear(exchange->http->ctx);
}

static void end_now(serve_exchange *exchange)
{
    exchange->ended = true;
    resume(exchange);
    release(exchange);
}

/* ---- the thread of libmicrohttpd ---------------------------------------------------------------- */

serve_exchange *serve_exchange_new(serve_http *http, struct MHD_Connection *connection, serve_task task)
{
    const union MHD_ConnectionInfo *info = http->library.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    lock_http(http);
    serve_exchange *exchange = zt_calloc(http->ctx, 1, sizeof *exchange);
    zt_ctx_clear(http->ctx);
    if (exchange) {
        *exchange = (serve_exchange){.http = http,
                                     .connection = connection,
                                     .fd = info ? info->connect_fd : -1,
                                     .task = task,
                                     .began = zt_seconds(),
                                     .references = 1};
        zt_str_init(&exchange->body, http->ctx);
        zt_str_init(&exchange->output, http->ctx);
        http->live_count++;
    }
    unlock_http(http);
    return exchange;
}

void serve_exchange_answer(serve_exchange *exchange, int status, const char *text, size_t size)
{
    exchange->status = status;
    exchange->ended = true;
    if (!put_output(exchange, text, size)) exchange->status = 503;
}

void serve_exchange_upload(serve_exchange *exchange, const char *bytes, size_t size, size_t limit)
{
    serve_http *http = exchange->http;
    char message[128];
    lock_http(http);
    if (exchange->status == 0 && size > limit - exchange->body.len) {
        snprintf(message, sizeof message, "the body has more than %zu bytes (--max-body)", limit);
        put_failure(exchange, 413, NULL, NULL, message);
        exchange->ended = true;
    } else if (exchange->status == 0 &&
               (http->body_bytes + size > SERVE_BODY_BYTES || zt_str_put(&exchange->body, bytes, size) != ZT_OK)) {
        put_failure(exchange, 503, NULL, NULL, "too many bytes of requests wait: try again later");
        exchange->ended = true;
    } else if (exchange->status == 0) {
        exchange->held_bytes += size;
        http->body_bytes += size;
    }
    unlock_http(http);
}

void serve_exchange_submit(serve_exchange *exchange)
{
    serve_http *http = exchange->http;
    exchange->submitted = true;
    if (http->phase == SERVE_STOPPING) {
        put_failure(exchange, 503, NULL, NULL, "the server is stopping");
        exchange->ended = true;
    } else if (http->queue_count >= (size_t)http->options->queue) {
        put_failure(exchange, 429, NULL, "queue_full", "the queue is full: try again later");
        exchange->ended = true;
    } else {
        exchange->references++;
        *http->last = exchange;
        http->last = &exchange->next;
        http->queue_count++;
        suspend(exchange);
        pthread_cond_signal(&http->changed);
        serve_wake(http);
    }
}

ssize_t serve_exchange_read(serve_exchange *exchange, char *bytes, size_t size)
{
    serve_http *http = exchange->http;
    lock_http(http);
    size_t there = exchange->output.len - exchange->sent_bytes, count = there < size ? there : size;
    ssize_t result = (ssize_t)count;
    if (exchange->cut) {
        result = -2;
    } else if (count) {
        memcpy(bytes, exchange->output.data + exchange->sent_bytes, count);
        exchange->sent_bytes += count;
    } else if (exchange->ended) {
        result = -1;
    } else {
        suspend(exchange);
    }
    unlock_http(http);
    return result;
}

/* Not about paths that are asked again and again. */
static void log_answer(serve_http *http, serve_task task, int status, double seconds)
{
    if (task != SERVE_HEALTH && task != SERVE_METRICS)
        zt_log(http->owner, ZT_LOG_INFO, "%s: %d after %.3f s", serve_task_path(task), status, seconds);
}

void serve_exchange_leave(serve_exchange *exchange, bool whole)
{
    serve_http *http = exchange->http;
    lock_http(http);
    serve_task task = exchange->task;
    int status = whole ? exchange->status : 499;
    double began = exchange->began;
    exchange->closed = true;
    serve_count_request(&http->metrics, task, status);
    http->live_count--;
    release(exchange);
    unlock_http(http);
    log_answer(http, task, status, zt_seconds() - began);
    serve_wake(http); /* its texts are to be dropped */
}

/* ---- the thread of the model --------------------------------------------------------------------- */

/* With the lock held. */
static serve_exchange *take_first(serve_http *http)
{
    serve_exchange *exchange = http->first;
    if (exchange) {
        http->first = exchange->next;
        exchange->next = NULL;
        if (!http->first) http->last = &http->first;
        http->queue_count--;
    }
    return exchange;
}

serve_exchange *serve_take(serve_http *http)
{
    lock_http(http);
    serve_exchange *exchange = take_first(http);
    unlock_http(http);
    return exchange;
}

serve_exchange *serve_wait_take(serve_http *http)
{
    serve_exchange *exchange = NULL;
    lock_http(http);
    while (!http->stop_taking && (!http->first || http->taken_count >= http->allowed_count))
        pthread_cond_wait(&http->changed, &http->lock);
    if (!http->stop_taking) exchange = take_first(http);
    http->taken_count += exchange != NULL;
    unlock_http(http);
    return exchange;
}

void serve_allow(serve_http *http, size_t count)
{
    lock_http(http);
    http->allowed_count = count;
    pthread_cond_signal(&http->changed);
    unlock_http(http);
}

void serve_taken(serve_http *http, bool begun)
{
    lock_http(http);
    http->taken_count -= begun;
    pthread_cond_signal(&http->changed);
    unlock_http(http);
    serve_wake(http);
}

void serve_stop_taking(serve_http *http)
{
    lock_http(http);
    http->stop_taking = true;
    pthread_cond_signal(&http->changed);
    unlock_http(http);
}

serve_task serve_exchange_task(const serve_exchange *exchange) { return exchange->task; }
const zt_str *serve_exchange_body(const serve_exchange *exchange) { return &exchange->body; }
void serve_drop_body(serve_exchange *exchange)
{
    lock_http(exchange->http);
    drop_body(exchange);
    unlock_http(exchange->http);
}

double serve_exchange_began(const serve_exchange *exchange) { return exchange->began; }

void serve_begin(serve_exchange *exchange, int status, bool stream)
{
    lock_http(exchange->http);
    exchange->status = status;
    exchange->stream = stream;
    if (stream) resume(exchange);
    unlock_http(exchange->http);
}

bool serve_put(serve_exchange *exchange, const char *bytes, size_t size)
{
    lock_http(exchange->http);
    bool taken = put_output(exchange, bytes, size);
    if (exchange->stream) resume(exchange);
    unlock_http(exchange->http);
    return taken;
}

void serve_fail(serve_exchange *exchange, int status, const char *param, const char *code, const char *message)
{
    lock_http(exchange->http);
    put_failure(exchange, status, param, code, message);
    unlock_http(exchange->http);
}

void serve_end(serve_exchange *exchange)
{
    serve_http *http = exchange->http;
    lock_http(http);
    if (!exchange->closed) serve_observe(&http->metrics.request, zt_seconds() - exchange->began);
    end_now(exchange);
    unlock_http(http);
}

/* With the lock held. A connection that libmicrohttpd looks at it reports itself. */
static bool has_gone(serve_exchange *exchange)
{
    struct pollfd entry = {.fd = exchange->fd, .events = POLLRDHUP};
    if (exchange->suspended && !exchange->closed && poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        exchange->closed = true;
    return exchange->closed || exchange->cut;
}

bool serve_gone(serve_exchange *exchange)
{
    lock_http(exchange->http);
    bool gone = has_gone(exchange);
    unlock_http(exchange->http);
    return gone;
}

void serve_sweep(serve_http *http, double oldest, bool all)
{
    lock_http(http);
    for (serve_exchange **place = &http->first, *exchange; (exchange = *place);) {
        bool gone = has_gone(exchange), late = exchange->began < oldest;
        if (!gone && !late && !all) {
            place = &exchange->next;
            continue;
        }
        *place = exchange->next;
        if (!*place) http->last = place;
        http->queue_count--;
        http->metrics.cancelled += gone;
        if (all)
            put_failure(exchange, 503, NULL, NULL, "the server is stopping");
        else if (late)
            put_failure(exchange, 408, NULL, "timeout", "the request waited for too long (--timeout)");
        end_now(exchange);
    }
    unlock_http(http);
}

void serve_wait(serve_http *http, int milliseconds)
{
    uint64_t count;
    struct pollfd entry = {.fd = http->wake_fd, .events = POLLIN};
    if (poll(&entry, 1, milliseconds) > 0) (void)!read(http->wake_fd, &count, sizeof count);
}

void serve_wake(serve_http *http)
{
    const uint64_t one = 1;
    int error = errno; /* a signal handler may call this */
    (void)!write(http->wake_fd, &one, sizeof one);
    errno = error;
}

serve_metrics *serve_lock_metrics(serve_http *http)
{
    lock_http(http);
    http->metrics.waiting = http->queue_count;
    return &http->metrics;
}

void serve_unlock_metrics(serve_http *http) { unlock_http(http); }
#else
typedef int serve_exchange_absent; /* a file of C has a declaration */
#endif
