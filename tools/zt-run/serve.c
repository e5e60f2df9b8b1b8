/* serve.c - --serve: requests of OpenAI's API through the batch of --jsonl. This is the thread of the model; see serve.h.
 *
 * A job is a request that was taken from the queue. A choice is one text of it, which is a request of --jsonl, so that it gets
 * the same tokens as there. After each step of the batch, what is new is handed to the job's exchange. */
#include "tools/zt-run/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

zt_status run_check_serve(zt_ctx *ctx, const run_options *options)
{
    if (options->max_body > SERVE_BODY_BYTES)
        return zt_fail(ctx, ZT_EUSAGE, "--max-body: %zu is more than 64MiB", options->max_body);
    return serve_check_address(ctx, options->serve);
}

#ifdef ZT_HAVE_MICROHTTPD

enum {
    OPEN = 64,                  /* texts in the batch; while there are so many, requests stay in the queue */
    EMBEDDED_NUMBERS = 1 << 21, /* of an answer, at most */
};

#define LOOK_SECONDS .05 /* between two looks for clients that have gone */

typedef struct serve_job serve_job;

typedef struct serve_choice {
    serve_job *job;
    run_request *request;
    size_t sent_text, sent_logprobs; /* bytes of the content and of logprobs that were put, */
    size_t sent_reasoning;           /* and of the reasoning */
    int sent_calls;                  /* of tools, complete */
    size_t sent_arguments;           /* bytes of the next one's arguments */
    bool call_begun;                 /* its name was sent */
    bool in_batch, finished;
} serve_choice;

struct serve_job {
    serve_job *next;
    serve_exchange *exchange;
    serve_prepared *prepared;
    serve_reply reply;
    serve_choice *choices;
    size_t choice_count, finished_count;
    serve_usage usage;
    json_t *answers;     /* of a request that is not a stream: the elements of "choices" */
    size_t answer_bytes; /* of texts and log probabilities in `answers` */
    size_t input_count;  /* embeddings that are in `embedded` */
    zt_str embedded;
};

typedef struct serve_state {
    run_state *run;
    serve_http *http;
    zt_batch *batch; /* NULL: the model makes embeddings only */
    serve_embedder embedder;
    serve_preparer *preparer;
    char model_id[256];
    serve_job *jobs;   /* in the order in which they came */
    size_t open_count; /* texts in the batch */
    uint64_t job_count;
    time_t start_time;
    double looked, stop_by; /* stop_by: when what still runs is cut; 0: the server is not stopping */
} serve_state;

/* ---- signals ----------------------------------------------------------------------------------------- */

static atomic_int signal_count, first_signal;
static _Atomic(serve_http *) signalled_http;

/* The first signal ends the server when running requests are done, the second one cuts them, the third one kills. */
static void on_signal(int number)
{
    serve_http *http = atomic_load(&signalled_http);
    int none = 0;
    atomic_compare_exchange_strong(&first_signal, &none, number);
    if (atomic_fetch_add(&signal_count, 1) >= 1) signal(number, SIG_DFL);
    if (http) serve_wake(http);
}

/* Not where it is ignored, as in a job that a script has put into the background. */
static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction previous, action = {.sa_handler = on_signal};
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &previous) == 0 && previous.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
}

/* ---- the end of a job ---------------------------------------------------------------------------------- */

/* Also of a text that was not finished. */
static void count_tokens(serve_state *serve, const run_state *run)
{
    serve_metrics *metrics = serve_lock_metrics(serve->http);
    metrics->prompt_tokens += run->prompt_count;
    metrics->generated_tokens += run->ids.count - run->prompt_count;
    serve_unlock_metrics(serve->http);
}

static void drop_choice(serve_state *serve, serve_choice *choice)
{
    if (choice->in_batch) {
        count_tokens(serve, &choice->request->run);
        if (!choice->request->done) zt_batch_drop(serve->batch, choice);
        serve->open_count--;
    }
    choice->in_batch = false;
    if (choice->request) request_free(choice->request);
    choice->request = NULL;
}

/* Ends the exchange with what was put, and takes the job out of the list. */
static void close_job(serve_state *serve, serve_job *job)
{
    serve_job **place = &serve->jobs;
    while (*place && *place != job) place = &(*place)->next;
    if (*place) *place = job->next;
    for (size_t i = 0; i < job->choice_count; i++) drop_choice(serve, &job->choices[i]);
    serve_end(job->exchange);
    zt_free(serve->run->ctx, job->choices);
    json_decref(job->answers);
    zt_str_fini(&job->embedded);
    serve_prepared_free(job->prepared);
    zt_free(serve->run->ctx, job);
}

static void fail_job(serve_state *serve, serve_job *job, int status, const char *code, const char *message)
{
    char name[64];
    const char *param = status < 500 && job->prepared->body.json ? serve_named_member(&job->prepared->body, message, name) : NULL;
    serve_fail(job->exchange, status, param, code, message);
    close_job(serve, job);
}

/* The HTTP status for one of the library. */
static int http_status(zt_status status)
{
    return status == ZT_EDATA || status == ZT_EUSAGE || status == ZT_ENOTSUP ? 400 : status == ZT_ENOMEM ? 503 : 500;
}

/* Answers with the context's error. What is not the request's fault goes on to the caller. */
static zt_status fail_with_error(serve_state *serve, serve_job *job, zt_status status)
{
    char message[1024];
    zt_ctx *ctx = serve->run->ctx;
    int refused = job->prepared->body.status && status == ZT_EDATA ? job->prepared->body.status : http_status(status);
    zt_escape(message, sizeof message, zt_ctx_error(ctx), strlen(zt_ctx_error(ctx)));
    fail_job(serve, job, refused, job->prepared->body.code, message);
    if (!request_is_theirs(status)) return status;
    zt_ctx_clear(ctx);
    return ZT_OK;
}

/* ---- the end of a choice --------------------------------------------------------------------------------- */

/* Of a text that could not be generated: {"error", "status"}. */
static void fail_choice(serve_state *serve, serve_choice *choice, const json_t *answer)
{
    const run_state *run = &choice->request->run;
    const char *message = json_string_value(json_object_get(answer, "error"));
    json_int_t code = json_integer_value(json_object_get(answer, "status"));
    bool too_long = run->prompt_count > 0 && (int64_t)run->prompt_count > zt_llm_get(run->llm).ctx_len;
    int status = too_long || code == 64 || code == 65 || code == 69 ? 400 : code == 75 ? 503 : 500;
    fail_job(serve, choice->job, status, too_long ? "context_length_exceeded" : NULL, message ? message : "internal error");
}

static void count_choice(serve_state *serve, const serve_choice *choice)
{
    const run_state *run = &choice->request->run;
    size_t made = run->ids.count - run->prompt_count;
    serve_metrics *metrics = serve_lock_metrics(serve->http);
    if (run->first_token_time > 0)
        serve_observe(&metrics->first_token, run->first_token_time - serve_exchange_began(choice->job->exchange));
    if (made > 1) serve_observe(&metrics->token, (run->end_time - run->first_token_time) / (double)(made - 1));
    serve_unlock_metrics(serve->http);
}

static zt_bytes bytes_after(const zt_str *text, size_t from)
{
    return text->len > from ? (zt_bytes){text->data + from, text->len - from} : (zt_bytes){"", 0};
}

/* The text that is the content so far: that of a conversation without reasoning and tool calls. */
static zt_bytes content_of(const run_state *run)
{
    if (run->reply) return zt_reply_content(run->reply);
    return (zt_bytes){run->answer_text.len ? run->answer_text.data : "", run->answer_text.len};
}

static zt_status put_new_reasoning(serve_state *serve, serve_choice *choice, zt_str *out)
{
    zt_bytes reasoning = zt_reply_reasoning(choice->request->run.reply);
    size_t from = choice->sent_reasoning;
    if (reasoning.n == from) return ZT_OK;
    choice->sent_reasoning = reasoning.n;
    return serve_put_reasoning(serve->run, out, &choice->job->reply, (size_t)(choice - choice->job->choices),
                               (zt_bytes){reasoning.data + from, reasoning.n - from});
}

static zt_status put_call(serve_choice *choice, const zt_tool_call *call, zt_str *out)
{
    size_t size = strlen(call->arguments);
    serve_call fresh = {
        .call = call, .index = (size_t)choice->sent_calls, .from = choice->sent_arguments, .begun = choice->call_begun};
    if (choice->call_begun && size <= choice->sent_arguments) return ZT_OK;
    choice->call_begun = true;
    choice->sent_arguments = size;
    return serve_put_call(out, &choice->job->reply, (size_t)(choice - choice->job->choices), &fresh);
}

/* Calls that are complete, and the one that is being written. */
static zt_status put_new_calls(serve_choice *choice, zt_str *out)
{
    const zt_reply *reply = choice->request->run.reply;
    const zt_tool_call *open = zt_reply_open_call(reply);
    zt_status status = ZT_OK;
    while (status == ZT_OK && choice->sent_calls < zt_reply_call_count(reply)) {
        status = put_call(choice, zt_reply_call(reply, choice->sent_calls), out);
        choice->sent_calls++;
        choice->sent_arguments = 0;
        choice->call_begun = false;
    }
    return status == ZT_OK && open ? put_call(choice, open, out) : status;
}

/* Did a call of which a part was sent end before it was complete? Its text is content then, and is not sent again. */
static bool was_cut(const serve_choice *choice)
{
    const zt_reply *reply = choice->request->run.reply;
    return choice->call_begun && zt_reply_call_count(reply) == choice->sent_calls && !zt_reply_open_call(reply);
}

/* Puts what has been generated since the last time. */
static zt_status put_new_text(serve_state *serve, serve_choice *choice, zt_str *out)
{
    const serve_job *job = choice->job;
    const run_state *run = &choice->request->run;
    zt_bytes content = content_of(run);
    size_t text_bytes = content.n, logprob_bytes = run->logprobs.len;
    zt_status status = run->reply ? put_new_reasoning(serve, choice, out) : ZT_OK;
    if (status != ZT_OK ||
        (text_bytes == choice->sent_text && (!choice->request->done || logprob_bytes == choice->sent_logprobs)))
        return status;
    if (was_cut(choice)) choice->sent_text = text_bytes;
    size_t from = choice->sent_logprobs + (choice->sent_logprobs > 0 && logprob_bytes > choice->sent_logprobs); /* a comma */
    zt_bytes text = {content.data + choice->sent_text, text_bytes - choice->sent_text},
             logprobs = bytes_after(&run->logprobs, from);
    choice->sent_text = text_bytes;
    choice->sent_logprobs = logprob_bytes;
    return serve_put_text(serve->run, out, &job->reply, (size_t)(choice - job->choices), text, logprobs);
}

/* *failed: the job is closed. */
static zt_status finish_choice(serve_state *serve, serve_choice *choice, zt_str *out, bool *failed)
{
    serve_job *job = choice->job;
    const run_request *request = choice->request;
    size_t index = (size_t)(choice - job->choices);
    json_t *answer = json_loadb(request->answer.data, request->answer.len, JSON_ALLOW_NUL, NULL);
    zt_status status = answer ? ZT_OK : zt_fail(serve->run->ctx, ZT_ENOMEM, "no memory for an answer");
    *failed = status == ZT_OK && request->failed;
    if (*failed) {
        fail_choice(serve, choice, answer);
    } else if (status == ZT_OK) {
        count_choice(serve, choice);
        if (index % job->prepared->body.choices == 0) job->usage.prompt_tokens += request->run.prompt_count;
        job->usage.generated_tokens += request->run.ids.count - request->run.prompt_count;
        if (job->prepared->body.stream)
            status = serve_put_finish(out, &job->reply, index, answer);
        else if (json_array_append_new(job->answers, serve_choice_object(serve->run, &job->reply, index, answer)) != 0)
            status = zt_fail(serve->run->ctx, ZT_ENOMEM, "no memory for an answer");
        if (!job->prepared->body.stream) job->answer_bytes += request->run.answer_text.len + request->run.logprobs.len;
        choice->finished = true;
        job->finished_count++;
        drop_choice(serve, choice);
    }
    json_decref(answer);
    return status;
}

static int compare_index(const void *first, const void *second)
{
    const json_t *const *a = first, *const *b = second;
    json_int_t left = json_integer_value(json_object_get(*a, "index")), right = json_integer_value(json_object_get(*b, "index"));
    return (left > right) - (left < right);
}

/* The choices by their index; they ended in another order. */
static json_t *sort_choices(const json_t *choices)
{
    json_t *list[SERVE_CHOICES], *sorted = json_array();
    size_t count = json_array_size(choices);
    for (size_t i = 0; i < count; i++) list[i] = json_array_get(choices, i);
    qsort(list, count, sizeof *list, compare_index);
    for (size_t i = 0; i < count; i++) json_array_append(sorted, list[i]);
    return sorted;
}

static zt_status put_end(serve_job *job, zt_str *out)
{
    if (!job->prepared->body.stream) return serve_put_answer(out, &job->reply, sort_choices(job->answers), job->usage);
    zt_status status = job->prepared->body.usage ? serve_put_usage(out, &job->reply, job->usage) : ZT_OK;
    return status == ZT_OK ? serve_put_done(out) : status;
}

/* ---- a job as it goes on ---------------------------------------------------------------------------------- */

static void cancel_job(serve_state *serve, serve_job *job)
{
    serve_metrics *metrics = serve_lock_metrics(serve->http);
    metrics->cancelled++;
    serve_unlock_metrics(serve->http);
    close_job(serve, job);
}

/* Texts and log probabilities of all choices that are not finished. */
static size_t held_bytes(const serve_job *job)
{
    size_t bytes = job->answer_bytes;
    for (size_t i = 0; i < job->choice_count; i++)
        if (!job->choices[i].finished)
            bytes += job->choices[i].request->run.answer_text.len + job->choices[i].request->run.logprobs.len;
    return bytes;
}

/* Hands on what the last step has made. The job may be closed afterwards. */
static zt_status advance_job(serve_state *serve, serve_job *job)
{
    if (held_bytes(job) > SERVE_ANSWER_BYTES) {
        fail_job(serve, job, 400, NULL,
                 "the answer has more than 16 MiB: fewer tokens, answers or log probabilities are possible");
        return ZT_OK;
    }
    zt_str out;
    bool failed = false, read = true;
    zt_status status = ZT_OK;
    zt_str_init(&out, serve->run->ctx);
    for (size_t i = 0; !failed && status == ZT_OK && i < job->choice_count; i++) { /* a failed job is closed */
        serve_choice *choice = &job->choices[i];
        if (choice->finished) continue;
        if (job->prepared->body.stream && !choice->request->failed) status = put_new_text(serve, choice, &out);
        if (job->prepared->body.stream && !choice->request->failed && status == ZT_OK) status = put_new_calls(choice, &out);
        if (status == ZT_OK && choice->request->done) status = finish_choice(serve, choice, &out, &failed);
    }
    bool whole = status == ZT_OK && !failed && job->finished_count == job->choice_count;
    if (whole) {
        if (!job->prepared->body.stream) serve_begin(job->exchange, 200, false);
        status = put_end(job, &out);
    }
    if (status == ZT_OK && !failed && out.len) read = serve_put(job->exchange, out.data, out.len);
    zt_str_fini(&out);
    if (status != ZT_OK) return fail_with_error(serve, job, status);
    if (failed) return ZT_OK;
    if (whole && read)
        close_job(serve, job);
    else if (!read)
        cancel_job(serve, job);
    return ZT_OK;
}

static zt_status put_embeddings(serve_state *serve, serve_job *job)
{
    zt_str out;
    zt_str_init(&out, serve->run->ctx);
    zt_str_puts(&out, "{\"object\":\"list\",\"data\":[");
    zt_str_put(&out, job->embedded.data, job->embedded.len);
    zt_str_puts(&out, "],\"model\":");
    zt_str_put_json(&out, serve->model_id, strlen(serve->model_id));
    zt_status status = zt_str_printf(&out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}\n", job->usage.prompt_tokens,
                                     job->usage.prompt_tokens);
    serve_begin(job->exchange, 200, false);
    if (status == ZT_OK) serve_put(job->exchange, out.data, out.len);
    zt_str_fini(&out);
    if (status != ZT_OK) return fail_with_error(serve, job, status);
    serve_metrics *metrics = serve_lock_metrics(serve->http);
    metrics->prompt_tokens += job->usage.prompt_tokens;
    serve_unlock_metrics(serve->http);
    close_job(serve, job);
    return ZT_OK;
}

/* Embeds one text of the job. */
static zt_status advance_embedding(serve_state *serve, serve_job *job)
{
    const json_t *text = serve_body_prompt(&job->prepared->body, job->input_count);
    zt_status status = serve_embed(serve->run, &serve->embedder, text, job->input_count, job->prepared->body.base64,
                                   &job->embedded, &job->usage.prompt_tokens);
    if (status != ZT_OK) return fail_with_error(serve, job, status);
    return ++job->input_count == job->prepared->body.prompt_count ? put_embeddings(serve, job) : ZT_OK;
}

/* After a step: what is new of all jobs, and a text to embed of each. */
static zt_status advance_jobs(serve_state *serve)
{
    zt_status status = ZT_OK;
    for (serve_job *job = serve->jobs, *next; job && status == ZT_OK; job = next) {
        next = job->next;
        status = (job->prepared->body.task == SERVE_EMBEDDING ? advance_embedding : advance_job)(serve, job);
    }
    return status;
}

/* Ends jobs whose client has gone, and those that have taken too long. */
static void look_after_jobs(serve_state *serve)
{
    double now = zt_seconds(), oldest = now - (double)serve->run->options->timeout;
    if (now - serve->looked < LOOK_SECONDS) return;
    serve->looked = now;
    for (serve_job *job = serve->jobs, *next; job; job = next) {
        next = job->next;
        if (serve_gone(job->exchange))
            cancel_job(serve, job);
        else if (serve_exchange_began(job->exchange) < oldest)
            fail_job(serve, job, 408, "timeout", "the request took too long (--timeout)");
    }
    serve_sweep(serve->http, oldest, false);
}

/* ---- a new job ------------------------------------------------------------------------------------------------ */

static zt_status next_token(void *text, float *logits, int32_t best, bool *more)
{
    serve_choice *choice = text;
    return request_next(choice->request, logits, best, more);
}

static size_t draft_of(void *text, size_t limit, const int32_t **draft)
{
    return request_draft(((serve_choice *)text)->request, limit, draft);
}

static void took_draft(void *text, size_t rows, double seconds) { request_took(((serve_choice *)text)->request, rows, seconds); }

static zt_status make_choices(serve_state *serve, serve_job *job)
{
    size_t count = job->prepared->body.prompt_count * job->prepared->body.choices;
    job->choices = zt_calloc(serve->run->ctx, count, sizeof *job->choices);
    job->answers = json_array();
    if (!job->choices || !job->answers) return zt_fail(serve->run->ctx, ZT_ENOMEM, "no memory for a request");
    for (size_t i = 0; i < count; i++) {
        serve_choice *choice = &job->choices[job->choice_count++];
        choice->job = job;
        choice->request =
            serve_body_request(serve->run, &job->prepared->body, &job->prepared->prompts[i / job->prepared->body.choices],
                               i % job->prepared->body.choices);
        if (!choice->request) return zt_ctx_status(serve->run->ctx);
        if (choice->request->done) return ZT_OK; /* it is wrong */
    }
    job->reply.logprobs = job->choices[0].request->options.logprobs >= 0;
    return ZT_OK;
}

static zt_status begin_stream(serve_state *serve, serve_job *job)
{
    zt_str out;
    zt_str_init(&out, serve->run->ctx);
    zt_status status = ZT_OK;
    for (size_t i = 0; i < job->choice_count && status == ZT_OK; i++) status = serve_put_role(&out, &job->reply, i);
    if (status == ZT_OK) {
        serve_begin(job->exchange, 200, true);
        serve_put(job->exchange, out.data ? out.data : "", out.len);
    }
    zt_str_fini(&out);
    return status;
}

static zt_status add_choices(serve_state *serve, serve_job *job)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; i < job->choice_count && status == ZT_OK; i++) {
        serve_choice *choice = &job->choices[i];
        status = request_add(choice->request, serve->batch, choice);
        choice->in_batch = status == ZT_OK;
        serve->open_count += choice->in_batch;
    }
    return status;
}

/* A job for texts. The first choice that is wrong is its answer. */
static zt_status begin_texts(serve_state *serve, serve_job *job)
{
    if (!serve->batch) {
        fail_job(serve, job, 400, NULL, "the model is an encoder: it computes embeddings, not text");
        return ZT_OK;
    }
    zt_status status = make_choices(serve, job);
    if (status != ZT_OK) return fail_with_error(serve, job, status);
    if (job->choices[job->choice_count - 1].request->done) return advance_job(serve, job);
    if (job->prepared->body.stream) status = begin_stream(serve, job);
    if (status == ZT_OK) status = add_choices(serve, job);
    return status == ZT_OK ? ZT_OK : fail_with_error(serve, job, status);
}

static zt_status begin_embeddings(serve_state *serve, serve_job *job)
{
    zt_status status = serve_embedder_open(serve->run, &serve->embedder);
    size_t width = status == ZT_OK ? (size_t)zt_llm_get(serve->embedder.model).vector : 0;
    if (status == ZT_OK && job->prepared->body.prompt_count * width > EMBEDDED_NUMBERS)
        status = zt_fail(serve->run->ctx, ZT_EDATA, "\"input\": %zu texts of width %zu: at most %d numbers are answered at once",
                         job->prepared->body.prompt_count, width, EMBEDDED_NUMBERS);
    return status == ZT_OK ? ZT_OK : fail_with_error(serve, job, status);
}

/* NULL: no memory, and the exchange is ended. */
static serve_job *new_job(serve_state *serve, serve_prepared *prepared)
{
    serve_job *job = zt_calloc(serve->run->ctx, 1, sizeof *job), **place = &serve->jobs;
    if (!job) {
        serve_fail(prepared->exchange, 503, NULL, NULL, "no memory for a request");
        serve_end(prepared->exchange);
        serve_prepared_free(prepared);
        zt_ctx_clear(serve->run->ctx);
        return NULL;
    }
    job->exchange = prepared->exchange;
    job->prepared = prepared;
    zt_str_init(&job->embedded, serve->run->ctx);
    job->reply =
        (serve_reply){.task = serve_exchange_task(job->exchange), .model = serve->model_id, .created = (long long)time(NULL)};
    snprintf(job->reply.id, sizeof job->reply.id, "%s-%llx%08llx", job->reply.task == SERVE_CHAT ? "chatcmpl" : "cmpl",
             (unsigned long long)serve->start_time, (unsigned long long)serve->job_count++);
    while (*place) place = &(*place)->next;
    *place = job;
    return job;
}

static zt_status begin_job(serve_state *serve, serve_prepared *prepared)
{
    serve_job *job = new_job(serve, prepared);
    if (!job) return ZT_OK;
    if (serve_gone(job->exchange)) {
        cancel_job(serve, job);
        return ZT_OK;
    }
    if (prepared->status != ZT_OK)
        return fail_with_error(serve, job, zt_fail(serve->run->ctx, prepared->status, "%s", prepared->message));
    return (job->prepared->body.task == SERVE_EMBEDDING ? begin_embeddings : begin_texts)(serve, job);
}

static zt_status take_jobs(serve_state *serve)
{
    zt_status status = ZT_OK;
    serve_prepared *prepared;
    for (bool more = true; status == ZT_OK && more;) {
        more = serve->open_count < OPEN && (prepared = serve_preparer_take(serve->preparer, OPEN - serve->open_count));
        if (more) status = begin_job(serve, prepared);
    }
    if (serve->open_count >= OPEN) serve_allow(serve->http, 0);
    return status;
}

/* ---- the server ------------------------------------------------------------------------------------------------- */

/* A failure that a request can cause is taken as the first one's error. */
static zt_status step_batch(serve_state *serve)
{
    zt_status status = serve->batch && serve->open_count ? zt_batch_step(serve->batch) : ZT_OK;
    if (status == ZT_OK || !request_is_theirs(status)) return status;
    serve_job *job = serve->jobs;
    while (job && job->prepared->body.task == SERVE_EMBEDDING) job = job->next;
    return job ? fail_with_error(serve, job, status) : status;
}

/* Stops after a signal. true: nothing is left to do. */
static bool stop_jobs(serve_state *serve)
{
    int count = atomic_load(&signal_count);
    if (count == 0) return false;
    if (serve->stop_by == 0) {
        serve->stop_by = zt_seconds() + SERVE_GRACE_SECONDS;
        serve_stop_accepting(serve->http);
        serve_sweep(serve->http, 0, true);
    }
    while (serve->jobs && (count > 1 || zt_seconds() > serve->stop_by))
        fail_job(serve, serve->jobs, 503, NULL, "the server is stopping");
    return !serve->jobs;
}

static void publish_counts(serve_state *serve)
{
    serve_metrics *metrics = serve_lock_metrics(serve->http);
    metrics->batch = zt_batch_counted(serve->batch);
    metrics->running = serve->open_count;
    serve_unlock_metrics(serve->http);
}

static zt_status serve_requests(serve_state *serve)
{
    zt_status status = ZT_OK;
    while (status == ZT_OK && !stop_jobs(serve)) {
        status = take_jobs(serve);
        if (status == ZT_OK) status = step_batch(serve);
        if (status == ZT_OK) status = advance_jobs(serve);
        look_after_jobs(serve);
        publish_counts(serve);
        if (!serve->jobs && status == ZT_OK) serve_wait(serve->http, -1);
    }
    return status;
}

/* Does the model compute embeddings, and no text? What else is wrong with it is an error when it is opened. */
static bool is_encoder(run_state *run)
{
    zt_llm_info info;
    zt_llm_opts opts = run_llm_opts(run);
    opts.engine = run->engine;
    if (zt_llm_plan(run->gguf, &opts, &info) == ZT_OK) return false;
    zt_ctx_clear(run->ctx);
    opts.embed = true;
    bool embeds = zt_llm_plan(run->gguf, &opts, &info) == ZT_OK;
    zt_ctx_clear(run->ctx);
    return embeds;
}

/* The model for text; or, of an encoder, for embeddings. */
static zt_status open_model(serve_state *serve)
{
    run_state *run = serve->run;
    zt_batch_opts opts = {.next = next_token, .took = took_draft, .forget = run->options->no_kv_cache};
    if (!run->options->plan && run_open_engine(run) != ZT_OK) return zt_ctx_status(run->ctx);
    if (!run->options->plan && is_encoder(run)) {
        zt_status status = run_open_llm(run, 0, true);
        serve->embedder.model = run->llm;
        if (status == ZT_OK)
            serve->embedder.vector = zt_alloc_array(run->ctx, (size_t)zt_llm_get(run->llm).vector, sizeof(float));
        return zt_ctx_status(run->ctx);
    }
    zt_status status = run_open_llm(run, 0, false);
    opts.store = run->kv_store;
    if (run_drafts(run)) opts.draft = draft_of;
    if (status == ZT_OK) serve->batch = zt_batch_open(run->llm, &opts);
    return zt_ctx_status(run->ctx);
}

/* The file's name without its folder and .gguf. */
static void name_model(serve_state *serve)
{
    const char *file = zt_gguf_name(serve->run->gguf), *end = file + strlen(file), *begin;
    while (end > file + 1 && end[-1] == '/') end--;
    for (begin = end; begin > file && begin[-1] != '/';) begin--;
    if (end - begin > 5 && strncmp(end - 5, ".gguf", 5) == 0) end -= 5;
    snprintf(serve->model_id, sizeof serve->model_id, "%.*s", (int)(end - begin), begin);
}

static void put_model(serve_state *serve, zt_str *out)
{
    struct stat info;
    bool known = stat(serve->run->options->model, &info) == 0;
    zt_str_puts(out, "{\"id\":");
    zt_str_put_json(out, serve->model_id, strlen(serve->model_id));
    zt_str_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"zt\"}",
                  (long long)(known ? info.st_mtime : serve->start_time));
}

static void note_address(const run_state *run, const serve_listener *listener)
{
    zt_cli_note(run->cli, "listening on %s", listener->url);
    if (!listener->loopback && !run->options->api_key_file)
        zt_cli_note(run->cli, "warning: without --api-key-file everybody who reaches %s can use the model", listener->url);
}

static zt_status serve_model(serve_state *serve, serve_listener *listener)
{
    run_state *run = serve->run;
    zt_str object;
    zt_str_init(&object, run->ctx);
    name_model(serve);
    put_model(serve, &object);
    serve_http_options options = {
        .options = run->options, .model_id = serve->model_id, .model_object = object.data, .listener = listener};
    serve->http = object.data ? serve_http_open(run->ctx, &options) : NULL;
    zt_status status = zt_ctx_status(run->ctx);
    if (serve->http) {
        atomic_store(&signalled_http, serve->http);
        note_address(run, listener);
        if (atomic_load(&signal_count) == 0) status = open_model(serve);
        if (status == ZT_OK) serve->preparer = serve_preparer_open(run, serve->http);
        if (status == ZT_OK) status = zt_ctx_status(run->ctx);
        if (status == ZT_OK) serve_ready(serve->http);
        if (status == ZT_OK) zt_log(run->ctx, ZT_LOG_INFO, "ready after %.3f s", zt_seconds() - run->start_time);
        if (status == ZT_OK) status = serve_requests(serve);
        while (serve->jobs) fail_job(serve, serve->jobs, 503, NULL, "the server is stopping");
        serve_preparer_close(serve->preparer);
        atomic_store(&signalled_http, NULL);
        serve_http_close(serve->http);
    }
    zt_str_fini(&object);
    return status;
}

zt_status run_serve(run_state *run)
{
    serve_listener listener = {.fd = -1};
    serve_state serve = {.run = run, .start_time = time(NULL)};
    catch_signals();
    zt_status status = serve_model(&serve, &listener);
    zt_batch_close(serve.batch);
    serve_embedder_close(run, &serve.embedder);
    return status == ZT_OK && atomic_load(&first_signal) == SIGINT ? ZT_EINTR : status;
}

#else

zt_status run_serve(run_state *run)
{
    return zt_fail(run->ctx, ZT_ENOTSUP,
                   "--serve: zt was built without libmicrohttpd: install libmicrohttpd-dev, and build again");
}

#endif
