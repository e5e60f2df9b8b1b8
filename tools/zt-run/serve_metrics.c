/* serve_metrics.c - what /metrics says, in Prometheus' text format, version 0.0.4. */
#include "tools/zt-run/serve.h"

#include <inttypes.h>

static const char *const task_names[SERVE_TASKS] = {
    [SERVE_CHAT] = "/v1/chat/completions",
    [SERVE_COMPLETION] = "/v1/completions",
    [SERVE_EMBEDDING] = "/v1/embeddings",
    [SERVE_MODELS] = "/v1/models",
    [SERVE_HEALTH] = "/health",
    [SERVE_METRICS] = "/metrics",
    [SERVE_UNKNOWN] = "other",
};

/* 499: the client closed its connection before the answer. */
static const int status_codes[SERVE_STATUSES] = {200, 400, 401, 403, 404, 405, 408, 411, 413, 415, 421, 429, 499, 500, 503, 0};

/* Upper bounds, in seconds. */
static const double bounds[SERVE_BUCKETS] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 120};

const char *serve_task_path(serve_task task) { return task_names[task]; }

void serve_count_request(serve_metrics *metrics, serve_task task, int status)
{
    int index = 0;
    while (index < SERVE_STATUSES - 1 && status_codes[index] != status) index++;
    metrics->requests[task][index]++;
}

void serve_observe(serve_histogram *histogram, double seconds)
{
    int bucket = 0;
    while (bucket < SERVE_BUCKETS && seconds > bounds[bucket]) bucket++;
    histogram->buckets[bucket]++;
    histogram->sum += seconds;
}

static void put_head(zt_str *out, const char *name, const char *type, const char *help)
{
    zt_str_printf(out, "# HELP zt_%s %s\n# TYPE zt_%s %s\n", name, help, name, type);
}

static void put_number(zt_str *out, const char *name, const char *type, const char *help, uint64_t value)
{
    put_head(out, name, type, help);
    zt_str_printf(out, "zt_%s %" PRIu64 "\n", name, value);
}

static void put_histogram(zt_str *out, const char *name, const char *help, const serve_histogram *histogram)
{
    uint64_t count = 0;
    put_head(out, name, "histogram", help);
    for (int i = 0; i <= SERVE_BUCKETS; i++) {
        count += histogram->buckets[i];
        if (i < SERVE_BUCKETS)
            zt_str_printf(out, "zt_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], count);
        else
            zt_str_printf(out, "zt_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, count);
    }
    zt_str_printf(out, "zt_%s_sum %.9g\nzt_%s_count %" PRIu64 "\n", name, histogram->sum, name, count);
}

void serve_put_metrics(zt_str *out, const serve_metrics *metrics)
{
    put_head(out, "requests_total", "counter", "HTTP requests answered, by path and status.");
    for (int task = 0; task < SERVE_TASKS; task++)
        for (int i = 0; i < SERVE_STATUSES; i++)
            if (metrics->requests[task][i])
                zt_str_printf(out, "zt_requests_total{path=\"%s\",code=\"%d\"} %" PRIu64 "\n", task_names[task], status_codes[i],
                              metrics->requests[task][i]);
    const zt_batch_count *batch = &metrics->batch;
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"prompt_tokens_total", "counter", "Tokens of prompts.", metrics->prompt_tokens},
        {"generated_tokens_total", "counter", "Tokens generated.", metrics->generated_tokens},
        {"cached_tokens_total", "counter", "Tokens that were in the KV cache already.", batch->shared},
        {"requests_cancelled_total", "counter", "Requests whose client closed its connection.", metrics->cancelled},
        {"batch_steps_total", "counter", "Steps of the batch.", batch->steps},
        {"batch_rows_total", "counter", "Tokens fed by the steps of the batch.", batch->rows},
        {"texts_put_back_total", "counter", "Texts that had to wait again because the KV cache was full.", batch->put_back},
        {"requests_waiting", "gauge", "HTTP requests in the queue.", metrics->waiting},
        {"texts_open", "gauge", "Texts that are not done.", metrics->running},
        {"texts_running", "gauge", "Texts whose tokens are in the KV cache.", batch->running},
        {"cache_blocks", "gauge", "Blocks of the KV cache.", (uint64_t)batch->pages.blocks},
        {"cache_blocks_used", "gauge", "Blocks of the KV cache in use.", (uint64_t)batch->pages.used},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        put_number(out, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
    put_histogram(out, "time_to_first_token_seconds", "From the request to its first token.", &metrics->first_token);
    put_histogram(out, "time_per_token_seconds", "Between tokens of a text, on average.", &metrics->token);
    put_histogram(out, "request_seconds", "From the request to the end of its answer.", &metrics->request);
}
