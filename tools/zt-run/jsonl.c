/* jsonl.c - --jsonl: a request a line, an answer a line, in the same order.
 *
 * Requests run together (lib/llm/batch.h). An answer is written as soon as it and all before it are there.
 * Input is waited for only when there is nothing else to do. A bad request is answered by
 * {"id", "line", "error", "status"} in its place. Each answer is the same as if its request ran alone.
 */
#include "tools/zt-run/request.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest size of a line, and of all lines whose requests are open. It bounds jansson's memory. */
#define MOST_BYTES (64u << 20)
#define PIECE      (64u << 10)

enum {
    SEQUENCES = 64,       /* requests that run at once, at most */
    CACHE_TOKENS = 16384, /* of all sequences together, unless memory is short */
    OPEN = 256            /* requests read and not yet written, at most */
};

typedef struct request_queue {
    run_state *run;
    zt_batch *batch;
    int fd;
    bool input_ended;       /* there is no more to read */
    zt_status input_status; /* the error that ended it, if any */
    char input_error[512];
    zt_str input; /* what was read of it; [position, end) is to be done */
    size_t position;
    size_t line_count;           /* taken from it so far */
    run_request *requests[OPEN]; /* open requests, in order */
    size_t count, line_bytes;    /* line_bytes: of all lines of open requests */
    int failed_count;
} request_queue;

/* ---- in -------------------------------------------------------------------------------------- */

/* Reads more of the input. An error ends the input; requests that are open are answered nevertheless. */
static zt_status read_more(request_queue *queue)
{
    char piece[PIECE];
    zt_ctx *ctx = queue->run->ctx;
    const char *path = queue->run->options->input;
    if (queue->position) /* before the first byte there is no data */
        memmove(queue->input.data, queue->input.data + queue->position, queue->input.len - queue->position);
    queue->input.len -= queue->position;
    queue->position = 0;
    ssize_t read_size = read(queue->fd, piece, sizeof piece);
    if (read_size < 0 && errno == EINTR) return zt_cli_interrupted() ? ZT_EINTR : ZT_OK;
    queue->input_ended = read_size <= 0;
    if (read_size < 0)
        zt_fail(ctx, ZT_EIO, "%s: %s", path ? path : "stdin", strerror(errno));
    else if (queue->input.len + (size_t)read_size > MOST_BYTES)
        zt_fail(ctx, ZT_EDATA, "line %zu: more than %u bytes", queue->line_count + 1, MOST_BYTES);
    else
        zt_str_put(&queue->input, piece, (size_t)read_size);
    queue->input_status = zt_ctx_status(ctx);
    if (queue->input_status == ZT_OK) return ZT_OK;
    snprintf(queue->input_error, sizeof queue->input_error, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    queue->input_ended = true;
    zt_str_clear(&queue->input);
    return ZT_OK;
}

/* The next whole line of what was read; at the end also the last, which may lack its newline. */
static const char *next_line(request_queue *queue, size_t *size)
{
    const char *line = queue->input.data + queue->position;
    size_t left = queue->input.len - queue->position;
    const char *stop = left ? memchr(line, '\n', left) : NULL;
    if (left == 0 || (!stop && !queue->input_ended)) return NULL;
    *size = stop ? (size_t)(stop - line) : left;
    queue->position += *size + (stop != NULL);
    queue->line_count++;
    return line;
}

static zt_status add_line(request_queue *queue, const char *line, size_t size)
{
    if (strspn(line, " \t\r") >= size) return ZT_OK;
    run_request *request = request_new(queue->run, line, size, queue->line_count);
    if (!request) return zt_ctx_status(queue->run->ctx);
    request->line_bytes = size;
    queue->line_bytes += size;
    queue->requests[queue->count++] = request;
    if (request->done) return ZT_OK;
    zt_status status = request_add(request, queue->batch, request);
    return status == ZT_OK ? status : request_end(request, status);
}

static bool is_readable(int fd)
{
    struct pollfd poll_entry = {.fd = fd, .events = POLLIN};
    return poll(&poll_entry, 1, 0) > 0;
}

/* Takes requests from the input as long as there are any and they have room. Waits only for the first. */
static zt_status take_requests(request_queue *queue)
{
    zt_status status = ZT_OK;
    while (status == ZT_OK && queue->count < OPEN && queue->line_bytes < MOST_BYTES) {
        size_t size;
        const char *line = next_line(queue, &size);
        if (zt_cli_interrupted()) return ZT_EINTR;
        if (line)
            status = add_line(queue, line, size);
        else if (queue->input_ended || (queue->count > 0 && !is_readable(queue->fd)))
            break;
        else
            status = read_more(queue);
    }
    return status;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Writes the answers whose turn it is. */
static zt_status write_answers(request_queue *queue)
{
    zt_status status = ZT_OK;
    size_t written = 0;
    for (; written < queue->count && queue->requests[written]->done && status == ZT_OK; written++) {
        run_request *request = queue->requests[written];
        status = run_write(queue->run, request->answer.data, request->answer.len);
        queue->failed_count += request->failed;
        queue->line_bytes -= request->line_bytes;
        request_free(request);
    }
    queue->count -= written;
    memmove(queue->requests, queue->requests + written, queue->count * sizeof *queue->requests);
    return status;
}

/* A step of all requests that run. A failure that a request can cause is taken as the first one's error. */
static zt_status step_batch(request_queue *queue)
{
    zt_status status = zt_batch_step(queue->batch);
    if (status == ZT_OK || !request_is_theirs(status)) return status;
    zt_batch_drop(queue->batch, queue->requests[0]);
    return request_end(queue->requests[0], status);
}

static zt_status serve_requests(request_queue *queue)
{
    zt_status status = ZT_OK;
    while (status == ZT_OK && !(queue->input_ended && queue->count == 0 && queue->position == queue->input.len)) {
        status = take_requests(queue);
        if (status == ZT_OK) status = write_answers(queue);
        if (status == ZT_OK && queue->count > 0) status = step_batch(queue);
        if (status == ZT_OK) status = write_answers(queue);
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The cache holds as many tokens as memory allows. As many requests run at once as have room in it. */
zt_status run_size_batch(run_state *run, zt_llm_opts *opts)
{
    zt_llm_info info;
    if (run->plan) return ZT_OK; /* a plan has one sequence */
    opts->n_seq = SEQUENCES;
    zt_status status = zt_llm_plan(run->gguf, opts, &info);
    if (status != ZT_OK) return status;
    /* Scratch counts twice: while it grows, the old and the new one exist. */
    size_t available = zt_cli_available_bytes(run->cli), wanted = info.weight_bytes + info.recurrent_bytes +
                                                                  2 * info.scratch_bytes +
                                                                  (size_t)(info.n_seq * info.vocab) * sizeof(float);
    available = run->cli->mem_limit ? available - available / 8 : available / 2;
    size_t token_bytes = info.kv_bytes / (size_t)info.cache_len,
           fitting = available > wanted ? (available - wanted) / (token_bytes ? token_bytes : 1) : 0;
    opts->cache_len = CACHE_TOKENS < SEQUENCES * info.ctx_len ? CACHE_TOKENS : SEQUENCES * info.ctx_len;
    if ((size_t)opts->cache_len > fitting) opts->cache_len = (int64_t)fitting;
    return ZT_OK;
}

static void log_batch(const request_queue *queue)
{
    zt_batch_count counts = zt_batch_counted(queue->batch);
    zt_log(queue->run->ctx, ZT_LOG_INFO,
           "%llu steps, %llu tokens computed, %llu tokens reused; peak cache use %lld of %lld blocks; %llu preemptions",
           (unsigned long long)counts.steps, (unsigned long long)counts.rows, (unsigned long long)counts.shared,
           (long long)counts.pages.peak, (long long)counts.pages.blocks, (unsigned long long)counts.put_back);
    if (run_drafts(queue->run))
        zt_log(queue->run->ctx, ZT_LOG_INFO, "%llu tokens drafted, %llu accepted", (unsigned long long)counts.drafted,
               (unsigned long long)counts.accepted);
}

static zt_status serve_all(request_queue *queue)
{
    zt_batch_opts opts = {.next = request_next, .took = request_took, .forget = queue->run->options->no_kv_cache};
    zt_status status = run_open_llm(queue->run, 0, false);
    opts.store = queue->run->kv_store;
    if (run_drafts(queue->run)) opts.draft = request_draft;
    if (status == ZT_OK) queue->batch = zt_batch_open(queue->run->llm, &opts);
    if (!queue->batch) return zt_ctx_status(queue->run->ctx);
    status = serve_requests(queue);
    log_batch(queue);
    zt_batch_close(queue->batch);
    for (size_t i = 0; i < queue->count; i++) request_free(queue->requests[i]);
    if (status == ZT_OK && queue->input_status) status = zt_fail(queue->run->ctx, queue->input_status, "%s", queue->input_error);
    if (status == ZT_OK && queue->failed_count)
        status =
            zt_fail(queue->run->ctx, ZT_EDATA, "%d request%s failed", queue->failed_count, queue->failed_count == 1 ? "" : "s");
    return status;
}

zt_status run_jsonl(run_state *run)
{
    const char *path = run->options->input;
    bool named = path && strcmp(path, "-") != 0;
    request_queue queue = {.run = run, .fd = named ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO};
    zt_str_init(&queue.input, run->ctx);
    struct stat info;
    zt_status status = ZT_OK;
    if (queue.fd < 0)
        status = zt_fail(run->ctx, ZT_ENOENT, "%s: %s", path, strerror(errno));
    else if (fstat(queue.fd, &info) == 0 && S_ISDIR(info.st_mode))
        status = zt_fail(run->ctx, ZT_ENOENT, "%s: is a directory", named ? path : "stdin");
    else
        status = serve_all(&queue);
    if (named && queue.fd >= 0) close(queue.fd);
    zt_str_fini(&queue.input);
    return status;
}
