/* serve_prepare.c - a thread of --serve that reads the bodies of requests, renders conversations and makes tokens of prompts, so that a long
 * prompt does not delay texts that are being generated.
 *
 * Vocabulary, templates and errors are its own: it opens the model's file once more, without its tensors. A model that cannot be
 * read twice, or a template from a pipe, is used by the thread of the model alone. */
#ifdef ZT_HAVE_MICROHTTPD
#include "tools/zt-run/serve.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

struct serve_preparer {
    run_state *model; /* the model's own state */
    serve_http *http;
    run_state run; /* of this thread; its ctx is NULL where there is no thread */
    pthread_t thread;
    pthread_mutex_t lock; /* of the list */
    serve_prepared *first, **last;
};

/* ---- one request ------------------------------------------------------------------------------------- */

/* Remembers the error of the context, and clears it. */
static void keep_error(zt_ctx *ctx, serve_prepared *prepared, zt_status status)
{
    prepared->status = status;
    zt_escape(prepared->message, sizeof prepared->message, zt_ctx_error(ctx), strlen(zt_ctx_error(ctx)));
    zt_ctx_clear(ctx);
}

static zt_status encode_prompts(run_state *run, serve_prepared *prepared)
{
    const serve_body *body = &prepared->body;
    zt_status status = ZT_OK;
    prepared->prompts = zt_calloc(run->ctx, body->prompt_count, sizeof *prepared->prompts);
    if (!prepared->prompts) return ZT_ENOMEM;
    for (size_t i = 0; i < body->prompt_count && status == ZT_OK; i++) {
        zt_str_init(&prepared->prompts[i].end, run->ctx);
        status = serve_body_encode(run, body, i, &prepared->prompts[i]);
    }
    return status == ZT_OK ? serve_body_forget(run, &prepared->body) : status;
}

static serve_prepared *prepare_exchange(run_state *run, serve_exchange *exchange)
{
    serve_prepared *prepared = zt_calloc(run->ctx, 1, sizeof *prepared);
    if (!prepared) {
        serve_fail(exchange, 503, NULL, NULL, "no memory for a request");
        serve_end(exchange);
        zt_ctx_clear(run->ctx);
        return NULL;
    }
    *prepared = (serve_prepared){.ctx = run->ctx, .exchange = exchange};
    serve_task task = serve_exchange_task(exchange);
    zt_status status = serve_body_read(run, task, serve_exchange_body(exchange), &prepared->body);
    serve_drop_body(exchange);
    if (status == ZT_OK && task != SERVE_EMBEDDING) status = encode_prompts(run, prepared);
    if (status != ZT_OK) keep_error(run->ctx, prepared, status);
    return prepared;
}

void serve_prepared_free(serve_prepared *prepared)
{
    if (!prepared) return;
    zt_ctx *ctx = prepared->ctx;
    for (size_t i = 0; prepared->prompts && i < prepared->body.prompt_count; i++) {
        zt_ids_fini(ctx, &prepared->prompts[i].ids);
        zt_str_fini(&prepared->prompts[i].end);
    }
    zt_free(ctx, prepared->prompts);
    serve_body_free(&prepared->body);
    zt_free(ctx, prepared);
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

static void *prepare_all(void *user)
{
    serve_preparer *preparer = user;
    for (serve_exchange *exchange; (exchange = serve_wait_take(preparer->http));) {
        serve_prepared *prepared = prepare_exchange(&preparer->run, exchange);
        pthread_mutex_lock(&preparer->lock);
        if (prepared) {
            *preparer->last = prepared;
            preparer->last = &prepared->next;
        }
        pthread_mutex_unlock(&preparer->lock);
        serve_taken(preparer->http, prepared == NULL);
    }
    return NULL;
}

/* Can it be read a second time? */
static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

/* A state with what encoding needs. */
static bool open_state(serve_preparer *preparer)
{
    const run_options *options = preparer->model->options;
    struct stat info;
    bool piped = options->template && stat(options->template, &info) == 0 && !S_ISREG(info.st_mode);
    if (!is_file(options->model) || piped) return false;
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return false;
    run_state *run = &preparer->run;
    *run = (run_state){.cli = preparer->model->cli, .ctx = ctx, .options = options, .llm = preparer->model->llm};
    run->gguf = zt_model_open_vocabulary(ctx, options->model);
    run->vocab = run->gguf ? zt_vocab_open_pre(run->gguf, options->pre_tokenizer) : NULL;
    run->templates = run->vocab ? run_templates_new(run) : NULL;
    return run->templates != NULL;
}

static void close_state(run_state *run)
{
    if (!run->ctx) return;
    run_templates_free(run);
    zt_vocab_free(run->vocab);
    zt_gguf_close(run->gguf);
    zt_ctx_free(run->ctx);
    *run = (run_state){0};
}

serve_preparer *serve_preparer_open(run_state *run, serve_http *http)
{
    serve_preparer *preparer = zt_calloc(run->ctx, 1, sizeof *preparer);
    if (!preparer) return NULL;
    *preparer = (serve_preparer){.model = run, .http = http};
    preparer->last = &preparer->first;
    pthread_mutex_init(&preparer->lock, NULL);
    if (!open_state(preparer) || pthread_create(&preparer->thread, NULL, prepare_all, preparer) != 0) close_state(&preparer->run);
    return preparer;
}

serve_prepared *serve_preparer_take(serve_preparer *preparer, size_t most)
{
    if (!preparer->run.ctx) {
        serve_exchange *exchange = most > 0 ? serve_take(preparer->http) : NULL;
        return exchange ? prepare_exchange(preparer->model, exchange) : NULL;
    }
    serve_allow(preparer->http, most);
    pthread_mutex_lock(&preparer->lock);
    serve_prepared *prepared = preparer->first;
    if (prepared) preparer->first = prepared->next;
    if (!preparer->first) preparer->last = &preparer->first;
    pthread_mutex_unlock(&preparer->lock);
    if (prepared) serve_taken(preparer->http, true);
    return prepared;
}

void serve_preparer_close(serve_preparer *preparer)
{
    if (!preparer) return;
    if (preparer->run.ctx) {
        serve_stop_taking(preparer->http);
        pthread_join(preparer->thread, NULL);
    }
    for (serve_prepared *prepared = preparer->first, *next; prepared; prepared = next) {
        next = prepared->next;
        serve_fail(prepared->exchange, 503, NULL, NULL, "the server is stopping");
        serve_end(prepared->exchange);
        serve_prepared_free(prepared);
    }
    close_state(&preparer->run);
    pthread_mutex_destroy(&preparer->lock);
    zt_free(preparer->model->ctx, preparer);
}
#else
typedef int serve_prepare_absent; /* a file of C has a declaration */
#endif
