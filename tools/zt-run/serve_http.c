/* serve_http.c - --serve on libmicrohttpd: connections, paths, keys and bodies. One thread of the library does all of it. */
#ifdef ZT_HAVE_MICROHTTPD
#include "tools/zt-run/serve_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sha2.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 16 << 10 };

/* ---- paths --------------------------------------------------------------------------------------- */

static const struct {
    const char *path, *method;
    serve_task task;
} routes[] = {
    {"/v1/chat/completions", "POST", SERVE_CHAT},
    {"/v1/completions", "POST", SERVE_COMPLETION},
    {"/v1/embeddings", "POST", SERVE_EMBEDDING},
    {"/v1/models", "GET", SERVE_MODELS},
    {"/health", "GET", SERVE_HEALTH},
    {"/metrics", "GET", SERVE_METRICS},
};

enum { ROUTES = sizeof routes / sizeof *routes };

#define MODELS "/v1/models/"

/* ROUTES: none. */
static size_t find_route(const char *url)
{
    size_t i = 0;
    while (i < ROUTES && strcmp(routes[i].path, url) != 0) i++;
    if (i == ROUTES && strncmp(url, MODELS, strlen(MODELS)) == 0)
        for (i = 0; routes[i].task != SERVE_MODELS;) i++;
    return i;
}

static const char *method_of(serve_task task)
{
    size_t i = 0;
    while (i < ROUTES - 1 && routes[i].task != task) i++;
    return routes[i].method;
}

/* ---- keys ----------------------------------------------------------------------------------------- */

static void digest_of(const char *text, size_t size, unsigned char digest[SERVE_DIGEST])
{
    SHA2_CTX state;
    SHA256Init(&state);
    SHA256Update(&state, (const uint8_t *)text, size);
    SHA256Final(digest, &state);
}

/* Digests are compared, all of each of them: the time says nothing about a key. */
static bool has_key(const serve_http *http, const char *header)
{
    unsigned char digest[SERVE_DIGEST];
    unsigned found = 0;
    if (!header || strncasecmp(header, "Bearer ", 7) != 0) return false;
    digest_of(header + 7, strlen(header + 7), digest);
    for (size_t key = 0; key < http->key_count; key++) {
        unsigned different = 0;
        for (size_t i = 0; i < SERVE_DIGEST; i++) different |= (unsigned)(http->keys[key][i] ^ digest[i]);
        found |= (different - 1) >> 31;
    }
    return found != 0;
}

/* A key a line; empty lines and those that begin with # do not count. */
static zt_status read_keys(zt_ctx *ctx, serve_http *http, const char *path)
{
    size_t size;
    char *text = zt_read_all(ctx, path, &size);
    zt_status status = text ? ZT_OK : zt_ctx_status(ctx);
    for (char *save, *line = text ? strtok_r(text, "\r\n", &save) : NULL; line && status == ZT_OK;
         line = strtok_r(NULL, "\r\n", &save)) {
        if (*line == '#') continue;
        if (strpbrk(line, " \t"))
            status = zt_fail(ctx, ZT_EDATA, "--api-key-file: %s: a key has a blank in it", path);
        else if (http->key_count == SERVE_KEYS)
            status = zt_fail(ctx, ZT_EDATA, "--api-key-file: %s: more than %d keys", path, SERVE_KEYS);
        else
            digest_of(line, strlen(line), http->keys[http->key_count++]);
    }
    if (text) explicit_bzero(text, size);
    zt_free(ctx, text);
    if (status == ZT_OK && http->key_count == 0) status = zt_fail(ctx, ZT_EDATA, "--api-key-file: %s: no key in it", path);
    return status;
}

/* ---- what is checked before the body ---------------------------------------------------------------- */

static const char *header_of(serve_exchange *exchange, const char *name)
{
    return exchange->http->library.lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* Is the header Host an address or localhost? A page of the web whose name is made to lead here (DNS rebinding) has
 * another one. */
static bool names_this_machine(const char *host)
{
    struct in6_addr address;
    char name[64];
    const char *begin = *host == '[' ? host + 1 : host;
    size_t length = *host == '[' ? strcspn(begin, "]") : strcspn(begin, ":");
    if (length >= sizeof name) return false;
    memcpy(name, begin, length);
    name[length] = 0;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

static bool is_json(const char *type)
{
    const char json[] = "application/json";
    return type && strncasecmp(type, json, strlen(json)) == 0 && strchr("; \t", type[strlen(json)]);
}

typedef struct refusal {
    int status; /* 0: none */
    const char *code, *message;
} refusal;

static refusal check_head(serve_exchange *exchange, size_t route, const char *method)
{
    const serve_http *http = exchange->http;
    const char *host = header_of(exchange, "Host");
    if (!http->key_count && http->listener->loopback && !http->listener->is_unix && host && !names_this_machine(host))
        return (refusal){421, NULL, "the header Host is neither an address nor localhost"};
    if (route == ROUTES) return (refusal){404, "unknown_url", "unknown path: see zt-run(1), HTTP SERVER"};
    if (http->key_count && exchange->task != SERVE_HEALTH && !has_key(http, header_of(exchange, "Authorization")))
        return (refusal){401, "invalid_api_key", "no valid API key in the header Authorization: Bearer KEY"};
    if (strcmp(method, routes[route].method) != 0) return (refusal){405, NULL, "the path does not have this method"};
    if (strcmp(method, "POST") != 0) return (refusal){0};
    if (!is_json(header_of(exchange, "Content-Type")))
        return (refusal){415, NULL,
                         "the header Content-Type must be application/json (curl: -H 'Content-Type: application/json')"};
    return (refusal){0};
}

/* A body that says that it is too long is refused before it is sent. */
static bool says_too_long(serve_exchange *exchange)
{
    int64_t size;
    const char *text = header_of(exchange, "Content-Length");
    return text && zt_parse_i64(text, &size) && size > 0 && (uint64_t)size > exchange->http->options->max_body;
}

/* ---- answers that need no model ------------------------------------------------------------------- */

static void answer_text(serve_exchange *exchange, int status, const char *text)
{
    serve_exchange_answer(exchange, status, text, strlen(text));
}

static void answer_health(serve_exchange *exchange)
{
    static const char *const texts[] = {[SERVE_LOADING] = "{\"status\":\"loading\"}\n",
                                        [SERVE_READY] = "{\"status\":\"ok\"}\n",
                                        [SERVE_STOPPING] = "{\"status\":\"stopping\"}\n"};
    serve_phase phase = exchange->http->phase;
    answer_text(exchange, phase == SERVE_READY ? 200 : 503, texts[phase]);
}

static void answer_metrics(serve_exchange *exchange)
{
    zt_str text;
    zt_str_init(&text, exchange->http->ctx);
    exchange->http->metrics.waiting = exchange->http->queue_count;
    serve_put_metrics(&text, &exchange->http->metrics);
    serve_exchange_answer(exchange, 200, text.data ? text.data : "", text.len);
    zt_str_fini(&text);
}

static void answer_models(serve_exchange *exchange, const char *url)
{
    const serve_http *http = exchange->http;
    zt_str text;
    bool one = strncmp(url, MODELS, strlen(MODELS)) == 0;
    zt_str_init(&text, http->ctx);
    if (one && strcmp(url + strlen(MODELS), http->model_id) != 0) {
        serve_put_error(&text, 404, "model", "model_not_found", "there is no model of this name: see /v1/models");
    } else {
        zt_str_printf(&text, one ? "%s\n" : "{\"object\":\"list\",\"data\":[%s]}\n", http->model_object);
        one = false;
    }
    serve_exchange_answer(exchange, one ? 404 : 200, text.data ? text.data : "", text.len);
    zt_str_fini(&text);
}

/* ---- responses ------------------------------------------------------------------------------------- */

static ssize_t read_output(void *user, uint64_t position, char *bytes, size_t size)
{
    (void)position;
    ssize_t count = serve_exchange_read(user, bytes, size);
    return count == -1 ? MHD_CONTENT_READER_END_OF_STREAM : count == -2 ? MHD_CONTENT_READER_END_WITH_ERROR : count;
}

/* Without the lock: libmicrohttpd has one of its own for a response, which it holds when it calls read_output. An answer
 * that is no stream is whole, and nobody changes it any more. */
static enum MHD_Result send_answer(serve_exchange *exchange, struct MHD_Connection *connection)
{
    const serve_library *library = &exchange->http->library;
    uint64_t size = exchange->stream ? MHD_SIZE_UNKNOWN : exchange->output.len;
    const char *type = exchange->stream                                             ? "text/event-stream"
                       : exchange->task == SERVE_METRICS && exchange->status == 200 ? "text/plain; version=0.0.4"
                                                                                    : "application/json";
    struct MHD_Response *response = library->create_response_from_callback(size, BLOCK, read_output, exchange, NULL);
    if (!response) return MHD_NO;
    library->add_response_header(response, "Content-Type", type);
    library->add_response_header(response, "Cache-Control", "no-store");
    if (exchange->status == 429 || exchange->status == 503) library->add_response_header(response, "Retry-After", "1");
    if (exchange->status == 401) library->add_response_header(response, "WWW-Authenticate", "Bearer");
    if (exchange->status == 405) library->add_response_header(response, "Allow", method_of(exchange->task));
    if (exchange->status == 408) library->add_response_header(response, "Connection", "close");
    enum MHD_Result result = library->queue_response(connection, (unsigned)exchange->status, response);
    library->destroy_response(response);
    return result;
}

/* Would the client wait with its body, or is the body too long to be read and dropped? */
static bool may_answer_early(serve_exchange *exchange)
{
    int64_t size;
    const char *text = header_of(exchange, "Content-Length");
    return header_of(exchange, "Expect") || (text && zt_parse_i64(text, &size) && size > SERVE_BODY_BYTES);
}

/* A refusal by what was there before the body. It is sent when the body has come, since a client that is still sending may not
 * read it. */
static enum MHD_Result refuse(serve_exchange *exchange, const refusal *why)
{
    serve_http *http = exchange->http;
    zt_str text;
    pthread_mutex_lock(&http->lock);
    zt_str_init(&text, http->ctx);
    serve_put_error(&text, why->status, NULL, why->code, why->message);
    serve_exchange_answer(exchange, why->status, text.data ? text.data : "", text.len);
    zt_str_fini(&text);
    zt_ctx_clear(http->ctx);
    pthread_mutex_unlock(&http->lock);
    return may_answer_early(exchange) ? send_answer(exchange, exchange->connection) : MHD_YES;
}

/* ---- libmicrohttpd's callbacks --------------------------------------------------------------------- */

static enum MHD_Result begin_request(serve_http *http, struct MHD_Connection *connection, const char *url, const char *method,
                                     void **state)
{
    size_t route = find_route(url);
    serve_exchange *exchange = serve_exchange_new(http, connection, route == ROUTES ? SERVE_UNKNOWN : routes[route].task);
    if (!exchange) return MHD_NO;
    *state = exchange;
    refusal why = check_head(exchange, route, method);
    if (why.status == 0 && says_too_long(exchange)) why = (refusal){413, NULL, "the body is longer than --max-body allows"};
    return why.status ? refuse(exchange, &why) : MHD_YES;
}

/* The request is whole, or its connection was resumed. */
static enum MHD_Result go_on(serve_exchange *exchange, const char *url)
{
    serve_http *http = exchange->http;
    pthread_mutex_lock(&http->lock);
    if (exchange->status == 0 && !exchange->submitted) {
        if (exchange->task == SERVE_HEALTH)
            answer_health(exchange);
        else if (exchange->task == SERVE_METRICS)
            answer_metrics(exchange);
        else if (exchange->task == SERVE_MODELS)
            answer_models(exchange, url);
        else
            serve_exchange_submit(exchange);
    }
    bool gone = exchange->closed || (exchange->ended && (exchange->status == 0 || exchange->cut));
    bool begun = exchange->status && (exchange->stream || exchange->ended);
    zt_ctx_clear(http->ctx);
    pthread_mutex_unlock(&http->lock);
    if (gone) return MHD_NO;
    return begun ? send_answer(exchange, exchange->connection) : MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
    serve_http *http = user;
    serve_exchange *exchange = *state;
    (void)version;
    if (!exchange) return begin_request(http, connection, url, method, state);
    if (*upload_size == 0) return go_on(exchange, url);
    serve_exchange_upload(exchange, upload, *upload_size, http->options->max_body);
    *upload_size = 0;
    return zt_seconds() - exchange->began > SERVE_UPLOAD_SECONDS ? MHD_NO : MHD_YES;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    (void)user, (void)connection;
    if (*state) serve_exchange_leave(*state, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *state = NULL;
}

static void ignore_log(void *user, const char *format, va_list arguments) { (void)user, (void)format, (void)arguments; }

/* ---- begin and end ---------------------------------------------------------------------------------- */

static zt_status start_daemon(zt_ctx *ctx, serve_http *http)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    http->daemon = http->library.start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, ignore_log,
                                              NULL, MHD_OPTION_LISTEN_SOCKET, http->listener->fd, MHD_OPTION_NOTIFY_COMPLETED,
                                              on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVE_CONNECTIONS,
                                              MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVE_IDLE_SECONDS, MHD_OPTION_END);
    return http->daemon ? ZT_OK : zt_fail(ctx, ZT_ESYS, "--serve: libmicrohttpd cannot start");
}

serve_http *serve_http_open(zt_ctx *ctx, const serve_http_options *options)
{
    serve_http *http = zt_calloc(ctx, 1, sizeof *http);
    if (!http) return NULL;
    http->owner = ctx;
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->changed, NULL);
    http->options = options->options;
    http->model_id = options->model_id;
    http->model_object = options->model_object;
    http->listener = options->listener;
    http->last = &http->first;
    http->ctx = zt_ctx_new();
    http->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    zt_status status = ZT_OK;
    if (!http->ctx || http->wake_fd < 0) status = zt_fail(ctx, ZT_ESYS, "--serve: eventfd: %s", strerror(errno));
    if (status == ZT_OK) status = serve_library_open(ctx, &http->library);
    if (status == ZT_OK && http->options->api_key_file) status = read_keys(ctx, http, http->options->api_key_file);
    if (status == ZT_OK) status = serve_listen(ctx, http->options->serve, http->listener);
    if (status == ZT_OK) status = start_daemon(ctx, http);
    if (status == ZT_OK) return http;
    serve_http_close(http);
    return NULL;
}

void serve_ready(serve_http *http)
{
    pthread_mutex_lock(&http->lock);
    if (http->phase == SERVE_LOADING) http->phase = SERVE_READY;
    pthread_mutex_unlock(&http->lock);
}

void serve_stop_accepting(serve_http *http)
{
    pthread_mutex_lock(&http->lock);
    bool first = http->phase != SERVE_STOPPING;
    http->phase = SERVE_STOPPING;
    pthread_mutex_unlock(&http->lock);
    if (!first || !http->daemon) return;
    http->library.quiesce_daemon(http->daemon);
    serve_refuse_connections(http->listener);
}

static size_t count_live(serve_http *http)
{
    pthread_mutex_lock(&http->lock);
    size_t count = http->live_count;
    pthread_mutex_unlock(&http->lock);
    return count;
}

void serve_http_close(serve_http *http)
{
    if (!http) return;
    if (http->daemon) {
        double end = zt_seconds() + 2;
        serve_stop_accepting(http);
        serve_sweep(http, 0, true);
        while (count_live(http) > 0 && zt_seconds() < end) serve_wait(http, 20);
        http->library.stop_daemon(http->daemon);
    }
    serve_unlisten(http->listener);
    if (http->wake_fd >= 0) close(http->wake_fd);
    explicit_bzero(http->keys, sizeof http->keys);
    pthread_cond_destroy(&http->changed);
    pthread_mutex_destroy(&http->lock);
    zt_ctx_free(http->ctx);
    zt_free(http->owner, http);
}
#else
typedef int serve_http_absent; /* a file of C has a declaration */
#endif
