/* observe_http.c - events to an HTTP server, as bodies of NDJSON that a thread of its own sends.
 *
 *     training thread    appends lines to `waiting`, and never waits: what has no room is lost, and counted
 *     sending thread     takes all of `waiting` at most ten times a second, and posts it; what no server takes in three tries is lost
 *
 * At the end of a run the thread has five seconds to send what is left.
 */
#include "tools/zt-train/observe.h"

#include <string.h>
#include <strings.h>

bool train_is_url(const char *name) { return !strncasecmp(name, "http://", 7) || !strncasecmp(name, "https://", 8); }

#ifdef ZT_HAVE_CURL
#include "tools/zt-train/observe_curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

enum { ROOM = 1 << 20, TRIES = 3 };
static const double connect_seconds = 2, post_seconds = 5, end_seconds = 5, batch_seconds = 0.1, first_pause = 0.1;

typedef struct body {
    char *text;
    size_t length;
    uint64_t events;
} body;

typedef struct http_target {
    zt_cli *cli;
    const char *url;
    observe_curl curl;
    CURL *easy;
    struct curl_slist *headers;
    zt_str line; /* events of a step, by the training thread */
    pthread_t thread;
    bool runs; /* the thread was started */
    body sending;
    /* shared, with the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    body waiting;
    uint64_t events, lost;
    bool ended;
    double deadline; /* of zt_seconds, once ended */
    char why[160];   /* of the last loss */
} http_target;

zt_status observe_curl_open(zt_ctx *ctx, observe_curl *library)
{
    void *symbol;
    library->handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library->handle) return zt_fail(ctx, ZT_ENOTSUP, "--observe: a URL needs libcurl: install the package libcurl4");
/* POSIX lets a function's address come through a pointer to an object. */
#define LOAD(name)                                                                                                               \
    symbol = dlsym(library->handle, #name);                                                                                      \
    if (!symbol) return zt_fail(ctx, ZT_ENOTSUP, "--observe: libcurl has no function " #name);                                   \
    memcpy(&library->name, &symbol, sizeof symbol);
    OBSERVE_CURL(LOAD)
#undef LOAD
    return ZT_OK;
}

/* ---- the sending thread ------------------------------------------------------------------------ */

/* Waits for the time, the end of the run or, with `filling`, until half of the room is in use; with the lock. */
static void wait_seconds(http_target *http, double seconds, bool filling)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long nanoseconds = until.tv_nsec + (long)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    while (!http->ended && !(filling && http->waiting.length > ROOM / 2) &&
           pthread_cond_timedwait(&http->changed, &http->lock, &until) == 0) {
    }
}

static bool is_late(http_target *http)
{
    pthread_mutex_lock(&http->lock);
    bool late = http->ended && zt_seconds() > http->deadline;
    pthread_mutex_unlock(&http->lock);
    return late;
}

/* For libcurl, a few times a second: other than 0 ends the transfer. */
static int check_transfer(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return is_late(user);
}

static size_t discard_answer(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes, (void)user;
    return size * count;
}

/* Posts the body. *again: another try may help. why: of a failure. */
static bool post_body(http_target *http, bool *again, char why[160])
{
    long code = 0;
    http->curl.curl_easy_setopt(http->easy, CURLOPT_POSTFIELDS, http->sending.text);
    http->curl.curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE, (long)http->sending.length);
    CURLcode result = http->curl.curl_easy_perform(http->easy);
    http->curl.curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &code);
    *again = result != CURLE_OK || code >= 500;
    if (result != CURLE_OK)
        snprintf(why, 160, "%s", http->curl.curl_easy_strerror(result));
    else
        snprintf(why, 160, "the server answered %ld", code);
    return result == CURLE_OK && code >= 200 && code < 300;
}

static void send_body(http_target *http)
{
    char why[160] = "no time was left at the end of the run";
    bool again = true, sent = false;
    double pause = first_pause;
    for (int i = 0; i < TRIES && again && !sent && !is_late(http); i++) {
        if (i) {
            pthread_mutex_lock(&http->lock);
            wait_seconds(http, pause, false);
            pthread_mutex_unlock(&http->lock);
            pause *= 4;
        }
        sent = post_body(http, &again, why);
    }
    if (sent) return;
    pthread_mutex_lock(&http->lock);
    http->lost += http->sending.events;
    snprintf(http->why, sizeof http->why, "%s", why);
    pthread_mutex_unlock(&http->lock);
}

static void *send_events(void *user)
{
    http_target *http = user;
    for (bool last = false; !last;) {
        pthread_mutex_lock(&http->lock);
        wait_seconds(http, batch_seconds, true);
        last = http->ended;
        body empty = http->sending;
        http->sending = http->waiting;
        http->waiting = (body){.text = empty.text};
        pthread_mutex_unlock(&http->lock);
        if (http->sending.events) send_body(http);
    }
    return NULL;
}

/* ---- the training thread ----------------------------------------------------------------------- */

static zt_status tell_server(void *user, const train_event *events, int count)
{
    http_target *http = user;
    zt_str_clear(&http->line);
    for (int i = 0; i < count; i++) train_event_put_json(&http->line, &events[i]);
    if (zt_ctx_status(http->cli->ctx)) return zt_ctx_status(http->cli->ctx);
    pthread_mutex_lock(&http->lock);
    bool room = http->waiting.length + http->line.len <= ROOM;
    if (room) {
        memcpy(http->waiting.text + http->waiting.length, http->line.data, http->line.len);
        http->waiting.length += http->line.len;
        http->waiting.events += (uint64_t)count;
        if (http->waiting.length > ROOM / 2) pthread_cond_signal(&http->changed);
    } else {
        http->lost += (uint64_t)count;
        if (!*http->why) snprintf(http->why, sizeof http->why, "the server is too slow");
    }
    http->events += (uint64_t)count;
    pthread_mutex_unlock(&http->lock);
    return ZT_OK;
}

static void join_thread(http_target *http, double seconds)
{
    if (!http->runs) return;
    pthread_mutex_lock(&http->lock);
    http->ended = true;
    http->deadline = zt_seconds() + seconds;
    pthread_cond_signal(&http->changed);
    pthread_mutex_unlock(&http->lock);
    pthread_join(http->thread, NULL);
    http->runs = false;
}

/* The URL without a user's name and password. */
static const char *show_url(const char *url, char shown[256])
{
    const char *host = strstr(url, "://") + 3, *end = host + strcspn(host, "/?#"), *at = memrchr(host, '@', (size_t)(end - host));
    char whole[256];
    snprintf(whole, sizeof whole, "%.*s%s", (int)(host - url), url, at ? at + 1 : host);
    return zt_escape(shown, 256, whole, strlen(whole));
}

static zt_status end_server(void *user)
{
    http_target *http = user;
    char shown[256];
    join_thread(http, end_seconds);
    if (http->lost)
        zt_cli_note(http->cli, "warning: --observe: %llu of %llu events were not delivered to %s: %s",
                    (unsigned long long)http->lost, (unsigned long long)http->events, show_url(http->url, shown), http->why);
    return ZT_OK;
}

static void close_server(void *user)
{
    http_target *http = user;
    join_thread(http, 0);
    if (http->easy) http->curl.curl_easy_cleanup(http->easy);
    if (http->headers) http->curl.curl_slist_free_all(http->headers);
    pthread_mutex_destroy(&http->lock);
    pthread_cond_destroy(&http->changed);
    zt_str_fini(&http->line);
    zt_free(http->cli->ctx, http->waiting.text);
    zt_free(http->cli->ctx, http->sending.text);
    zt_free(http->cli->ctx, http);
}

/* ---- opening ----------------------------------------------------------------------------------- */

static bool is_valid(const http_target *http)
{
    CURLU *url = http->curl.curl_url();
    bool valid = url && !http->curl.curl_url_set(url, CURLUPART_URL, http->url, 0);
    if (url) http->curl.curl_url_cleanup(url);
    return valid;
}

static bool set_options(http_target *http)
{
    const observe_curl *curl = &http->curl;
    CURL *easy = http->easy;
    http->headers = curl->curl_slist_append(NULL, "Content-Type: application/x-ndjson");
    struct curl_slist *more = http->headers ? curl->curl_slist_append(http->headers, "Expect:") : NULL;
    return more && !curl->curl_easy_setopt(easy, CURLOPT_URL, http->url) &&
           !curl->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, more) &&
           !curl->curl_easy_setopt(easy, CURLOPT_USERAGENT, "zt-train/" ZT_VERSION) &&
           !curl->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
           !curl->curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_seconds * 1000)) &&
           !curl->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(post_seconds * 1000)) &&
           !curl->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, discard_answer) &&
           !curl->curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) &&
           !curl->curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, check_transfer) &&
           !curl->curl_easy_setopt(easy, CURLOPT_XFERINFODATA, http);
}

static zt_status start_thread(http_target *http)
{
    int error = pthread_create(&http->thread, NULL, send_events, http);
    http->runs = !error;
    return error ? zt_fail(http->cli->ctx, ZT_ESYS, "--observe: a thread cannot be started: %s", strerror(error)) : ZT_OK;
}

zt_status train_http_open(zt_cli *cli, const char *url, train_target *target)
{
    http_target *http = zt_calloc(cli->ctx, 1, sizeof *http);
    pthread_condattr_t monotonic;
    char shown[256];
    if (!http) return ZT_ENOMEM;
    *http = (http_target){.cli = cli, .url = url};
    *target = (train_target){http, tell_server, end_server, close_server};
    zt_str_init(&http->line, cli->ctx);
    pthread_mutex_init(&http->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&http->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    http->waiting.text = zt_alloc(cli->ctx, ROOM);
    http->sending.text = zt_alloc(cli->ctx, ROOM);
    zt_status status = http->waiting.text && http->sending.text ? observe_curl_open(cli->ctx, &http->curl) : ZT_ENOMEM;
    if (!status && !is_valid(http))
        status = zt_fail(cli->ctx, ZT_EUSAGE, "--observe: invalid URL '%s'", zt_escape(shown, sizeof shown, url, strlen(url)));
    if (!status) http->easy = http->curl.curl_easy_init();
    if (!status && (!http->easy || !set_options(http)))
        status = zt_fail(cli->ctx, ZT_ESYS, "--observe: libcurl cannot be set up");
    return status ? status : start_thread(http);
}

#else
zt_status train_http_open(zt_cli *cli, const char *url, train_target *target)
{
    (void)url;
    *target = (train_target){0};
    return zt_fail(cli->ctx, ZT_ENOTSUP,
                   "--observe: zt was built without libcurl: install libcurl4-openssl-dev, and build again");
}
#endif
