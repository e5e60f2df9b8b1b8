/* jsonl.c - --jsonl: a request a line, an answer a line, in the same order.
 *
 * Requests run together (lib/llm/batch.h) and an answer leaves as soon as it and all before it are
 * there. Input is waited for only when there is nothing else to do. A bad request is answered by
 * {"id", "line", "error", "status"} in its place. The answers are those of runs by themselves.
 */
#include "tools/zt-run/request.h"

#include "lib/llm/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A line's limit, and that of all lines whose requests are open; jansson's memory is bounded by it. */
#define MOST_BYTES (64u << 20)
#define PIECE (64u << 10)

enum {
    SEQUENCES = 64,       /* that run at once, at most */
    CACHE_TOKENS = 16384, /* of all of them, unless one may have more, or memory is short */
    OPEN = 256            /* requests read and not yet written, at most */
};

typedef struct queue {
    run *r;
    zt_batch *batch;
    int fd;
    bool end;          /* of the input, */
    zt_status trouble; /* and why, if it was not its end */
    char why[512];
    zt_str in; /* read; at: what of it is done with */
    size_t at;
    size_t lines;        /* taken from it */
    request *open[OPEN]; /* in order */
    size_t n, bytes;     /* of their lines */
    int failed;
} queue;

/* ---- in -------------------------------------------------------------------------------------- */

/* More of the input behind what is there. What is open is answered also when that fails. */
static zt_status read_more(queue *q)
{
    char piece[PIECE];
    zt_ctx *ctx = q->r->ctx;
    const char *path = q->r->o->input;
    if (q->at) /* before the first byte there is no data */
        memmove(q->in.data, q->in.data + q->at, q->in.len - q->at);
    q->in.len -= q->at;
    q->at = 0;
    ssize_t got = read(q->fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR)
        return zt_cli_interrupted() ? ZT_EINTR : ZT_OK;
    q->end = got <= 0;
    if (got < 0)
        zt_fail(ctx, ZT_EIO, "%s: %s", path ? path : "stdin", strerror(errno));
    else if (q->in.len + (size_t)got > MOST_BYTES)
        zt_fail(ctx, ZT_EDATA, "line %zu: more than %u bytes", q->lines + 1, MOST_BYTES);
    else
        zt_str_put(&q->in, piece, (size_t)got);
    q->trouble = zt_ctx_status(ctx);
    if (q->trouble == ZT_OK)
        return ZT_OK;
    snprintf(q->why, sizeof q->why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    q->end = true;
    q->in.len = 0;
    return ZT_OK;
}

/* The next whole line of what was read; at the end also the last, which may lack its newline. */
static const char *next_line(queue *q, size_t *n)
{
    const char *line = q->in.data + q->at;
    size_t left = q->in.len - q->at;
    const char *stop = left ? memchr(line, '\n', left) : NULL;
    if (left == 0 || (!stop && !q->end))
        return NULL;
    *n = stop ? (size_t)(stop - line) : left;
    q->at += *n + (stop != NULL);
    q->lines++;
    return line;
}

/* Its tokens are the likeliest, or drawn by the engine, or of its logits. */
static zt_status add_text(queue *q, request *one)
{
    zt_sampler s;
    zt_draw d;
    const zt_ids *ids = &one->r.ids;
    if (run_engine_chooses(&one->r))
        return zt_batch_add(q->batch, one, ids, false);
    if (run_engine_draws(&one->r, &s, &d))
        return zt_batch_add_drawn(q->batch, one, ids, &d);
    if (run_wants_best(&one->r))
        return zt_batch_add_best(q->batch, one, ids, one->r.ends.id, one->r.ends.count);
    return zt_batch_add(q->batch, one, ids, true);
}

static zt_status add_line(queue *q, const char *line, size_t n)
{
    if (strspn(line, " \t\r") >= n)
        return ZT_OK;
    request *one = request_new(q->r, line, n, q->lines);
    if (!one)
        return zt_ctx_status(q->r->ctx);
    one->bytes = n;
    q->bytes += n;
    q->open[q->n++] = one;
    if (one->done)
        return ZT_OK;
    zt_status s = add_text(q, one);
    return s == ZT_OK ? s : request_end(one, s);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* Requests as far as they are there and have room; the first is waited for. */
static zt_status take_requests(queue *q)
{
    zt_status s = ZT_OK;
    while (s == ZT_OK && q->n < OPEN && q->bytes < MOST_BYTES) {
        size_t n;
        const char *line = next_line(q, &n);
        if (zt_cli_interrupted())
            return ZT_EINTR;
        if (line)
            s = add_line(q, line, n);
        else if (q->end || (q->n > 0 && !readable(q->fd)))
            break;
        else
            s = read_more(q);
    }
    return s;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* The answers that are next. */
static zt_status write_answers(queue *q)
{
    zt_status s = ZT_OK;
    size_t n = 0;
    for (; n < q->n && q->open[n]->done && s == ZT_OK; n++) {
        request *one = q->open[n];
        s = run_write(q->r, one->answer.data, one->answer.len);
        q->failed += one->failed;
        q->bytes -= one->bytes;
        request_free(one);
    }
    q->n -= n;
    memmove(q->open, q->open + n, q->n * sizeof *q->open);
    return s;
}

/* A step of all that run. What cannot be done for the first alone is its error. */
static zt_status step(queue *q)
{
    zt_status s = zt_batch_step(q->batch);
    if (s == ZT_OK || !request_is_theirs(s))
        return s;
    zt_batch_drop(q->batch, q->open[0]);
    return request_end(q->open[0], s);
}

static zt_status serve(queue *q)
{
    zt_status s = ZT_OK;
    while (s == ZT_OK && !(q->end && q->n == 0 && q->at == q->in.len)) {
        s = take_requests(q);
        if (s == ZT_OK)
            s = write_answers(q);
        if (s == ZT_OK && q->n > 0)
            s = step(q);
        if (s == ZT_OK)
            s = write_answers(q);
    }
    return s;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* How many tokens the cache holds is what memory allows; so many texts run as have room in it. */
zt_status run_size_batch(run *r, zt_llm_opts *opts)
{
    zt_llm_info i;
    if (r->plan)
        return ZT_OK; /* it is of one sequence */
    opts->n_seq = SEQUENCES;
    zt_status s = zt_llm_plan(r->gguf, opts, &i);
    if (s != ZT_OK)
        return s;
    /* Scratch twice, for it moves when it grows. */
    size_t have = run_available_bytes(r->cli), want = i.weight_bytes + 2 * i.scratch_bytes +
                  (size_t)(i.n_seq * i.vocab) * sizeof(float);
    have = r->cli->mem_limit ? have - have / 8 : have / 2;
    size_t token = i.kv_bytes / (size_t)i.cache_len, fit = have > want ? (have - want) / token : 0;
    opts->cache_len = CACHE_TOKENS < SEQUENCES * i.ctx_len ? CACHE_TOKENS : SEQUENCES * i.ctx_len;
    if ((size_t)opts->cache_len > fit)
        opts->cache_len = (int64_t)fit;
    return ZT_OK;
}

static void log_batch(const queue *q)
{
    zt_batch_count c = zt_batch_counted(q->batch);
    zt_log(q->r->ctx, ZT_LOG_INFO,
           "%llu steps of %llu tokens in all; %llu were there already; %lld of %lld blocks used at "
           "most; %llu times a request had to wait again",
           (unsigned long long)c.steps, (unsigned long long)c.rows, (unsigned long long)c.shared,
           (long long)c.pages.peak, (long long)c.pages.blocks, (unsigned long long)c.put_back);
}

static zt_status serve_all(queue *q)
{
    zt_batch_opts opts = {.next = request_next, .forget = q->r->o->no_kv_cache};
    zt_status s = run_open_llm(q->r, 0, false);
    if (s == ZT_OK)
        q->batch = zt_batch_open(q->r->llm, &opts);
    if (!q->batch)
        return zt_ctx_status(q->r->ctx);
    s = serve(q);
    log_batch(q);
    zt_batch_close(q->batch);
    for (size_t i = 0; i < q->n; i++)
        request_free(q->open[i]);
    if (s == ZT_OK && q->trouble)
        s = zt_fail(q->r->ctx, q->trouble, "%s", q->why);
    if (s == ZT_OK && q->failed)
        s = zt_fail(q->r->ctx, ZT_EDATA, "%d request%s could not be answered",
                    q->failed, q->failed == 1 ? "" : "s");
    return s;
}

zt_status run_jsonl(run *r)
{
    const char *path = r->o->input;
    bool named = path && strcmp(path, "-") != 0;
    queue q = {.r = r, .fd = named ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO};
    zt_str_init(&q.in, r->ctx);
    struct stat st;
    zt_status s = ZT_OK;
    if (q.fd < 0)
        s = zt_fail(r->ctx, ZT_ENOENT, "%s: %s", path, strerror(errno));
    else if (fstat(q.fd, &st) == 0 && S_ISDIR(st.st_mode))
        s = zt_fail(r->ctx, ZT_ENOENT, "%s: is a directory", named ? path : "stdin");
    else
        s = serve_all(&q);
    if (named && q.fd >= 0)
        close(q.fd);
    zt_str_fini(&q.in);
    return s;
}
