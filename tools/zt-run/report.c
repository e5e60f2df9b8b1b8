/* report.c - what zt-run tells about a run: the --json object, --stats, and --dry-run. */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- json ------------------------------------------------------------------------------------ */

static void put_ids(zt_str *json, const int32_t *ids, size_t count)
{
    zt_str_puts(json, "[");
    for (size_t i = 0; i < count; i++) zt_str_printf(json, "%s%" PRId32, i ? "," : "", ids[i]);
    zt_str_puts(json, "]");
}

static void put_seconds(zt_str *json, const char *key, double seconds)
{
    zt_str_printf(json, ",\"%s\":%.6f", key, seconds > 0 ? seconds : 0);
}

/* The beginning of a token's object in "logprobs": {"id":..,"text":"..","logprob":.. */
static void put_likely(run_state *run, zt_str *json, int32_t id, double logprob)
{
    zt_str text;
    zt_str_init(&text, run->ctx);
    zt_vocab_decode(run->vocab, id, true, false, &text);
    zt_str_printf(json, "{\"id\":%" PRId32 ",\"text\":", id);
    zt_str_put_json(json, text.data ? text.data : "", text.len);
    if (isfinite(logprob))
        zt_str_printf(json, ",\"logprob\":%.9g", logprob);
    else
        zt_str_puts(json, ",\"logprob\":null");
    zt_str_fini(&text);
}

zt_status run_note_likeliest(run_state *run)
{
    int wanted = run->options->logprobs < run->choices ? (int)run->options->logprobs : (int)run->choices;
    int32_t *best = zt_alloc_array(run->ctx, (size_t)wanted, sizeof *best);
    int found = best ? zt_likeliest(run_logits(run), run->choices, wanted, best) : 0;
    run->log_sum = zt_log_sum_exp(run_logits(run), run->choices);
    zt_str_clear(&run->likeliest);
    for (int i = 0; i < found; i++) {
        zt_str_puts(&run->likeliest, i ? "," : "");
        put_likely(run, &run->likeliest, best[i], run_logits(run)[best[i]] - run->log_sum);
        zt_str_putc(&run->likeliest, '}');
    }
    zt_free(run->ctx, best);
    return zt_ctx_status(run->ctx);
}

zt_status run_put_logprobs(run_state *run, int32_t id)
{
    zt_str *json = &run->logprobs;
    zt_str_puts(json, json->len ? "," : "");
    put_likely(run, json, id, run_logits(run)[id] - run->log_sum);
    zt_str_printf(json, ",\"top\":[%s]}", run->likeliest.data ? run->likeliest.data : "");
    return zt_ctx_status(run->ctx);
}

/* The largest context of the run; the cache may be smaller. */
static int64_t context_of(const run_state *run)
{
    int64_t trained = zt_llm_get(run->llm).ctx_train;
    if (run->options->context_tokens > 0) return run->options->context_tokens;
    return trained < USUAL_CTX ? trained : USUAL_CTX;
}

static void put_texts(zt_str *json, const char *key, const zt_opt_list *texts)
{
    zt_str_printf(json, ",\"%s\":[", key);
    for (int i = 0; i < texts->n; i++) {
        zt_str_puts(json, i ? "," : "");
        zt_str_put_json(json, texts->item[i], strlen(texts->item[i]));
    }
    zt_str_puts(json, "]");
}

/* The settings of the sampler and the texts that end an answer, by the names that they have in requests of
 * --jsonl; except "stop_texts", since "stop" says why the text ended. */
static void put_settings(run_state *run, zt_str *json)
{
    const run_options *options = run->options;
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"temp", options->sampler.temp},
        {"top_k", (double)options->sampler.top_k},
        {"top_p", options->sampler.top_p},
        {"min_p", options->sampler.min_p},
        {"repeat_penalty", options->sampler.repeat_penalty},
        {"repeat_last", (double)options->sampler.repeat_last},
        {"frequency_penalty", options->sampler.frequency_penalty},
        {"presence_penalty", options->sampler.presence_penalty},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        zt_str_printf(json, ",\"%s\":", numbers[i].name);
        zt_str_put_double(json, numbers[i].value);
    }
    zt_str_printf(json, ",\"seed\":%" PRIu64 ",\"n\":", run->seed);
    if (options->new_tokens < 0)
        zt_str_puts(json, "null");
    else
        zt_str_printf(json, "%" PRId64, options->new_tokens);
    put_texts(json, "stop_texts", &options->stop_texts);
    zt_str_puts(json, ",\"eos\":");
    if (options->eos)
        put_ids(json, run->end_ids.id, run->end_ids.count);
    else
        zt_str_puts(json, "null");
    zt_str_printf(json, ",\"ignore_eos\":%s,\"ctx\":%" PRId64, options->ignore_eos ? "true" : "false", context_of(run));
    if (options->adapters.n) put_texts(json, "lora", &options->adapters);
}

/* "id" is null where the request has none. */
zt_status run_put_json(run_state *run, zt_str *json)
{
    size_t made_count = run->ids.count - run->prompt_count;
    const char *model_name = zt_gguf_name(run->gguf);
    zt_str_printf(json, "{\"id\":%s,\"text\":", run->request_id ? run->request_id : "null");
    zt_str_put_json(json, run->answer_text.data ? run->answer_text.data : "", run->answer_text.len);
    run_put_reply(run, json);
    zt_str_puts(json, ",\"ids\":");
    put_ids(json, run->ids.id + run->prompt_count, made_count);
    zt_str_printf(json, ",\"prompt_tokens\":%zu,\"generated_tokens\":%zu,\"stop\":\"%s\"", run->prompt_count, made_count,
                  run->stop_reason);
    if (run->matcher) zt_str_printf(json, ",\"form\":\"%s\",\"complete\":%s", run->form, run_is_complete(run) ? "true" : "false");
    if (run->options->logprobs >= 0) zt_str_printf(json, ",\"logprobs\":[%s]", run->logprobs.data ? run->logprobs.data : "");
    if (run_drafts(run))
        zt_str_printf(json, ",\"drafted\":%zu,\"accepted\":%zu,\"batches\":%zu", run->drafted_count, run->accepted_count,
                      run->draft_batches);
    put_seconds(json, "load_s", run->loaded_time - run->start_time);
    put_seconds(json, "prompt_s", run->prompt_time - run->asked_time);
    put_seconds(json, "generate_s", run->end_time - run->prompt_time);
    put_settings(run, json);
    zt_str_printf(json, ",\"engine\":\"%s\",\"model\":", zt_engine_inmost(run->engine)->vt->name);
    zt_str_put_json(json, model_name, strlen(model_name));
    zt_str_printf(json, ",\"model_id\":\"%s\"}\n", zt_gguf_id(run->gguf));
    return zt_ctx_status(run->ctx);
}

zt_status run_report_json(run_state *run)
{
    zt_str json;
    zt_str_init(&json, run->ctx);
    zt_status status = run_put_json(run, &json);
    if (status == ZT_OK) status = run_write(run, json.data, json.len);
    zt_str_fini(&json);
    return status;
}

/* ---- stats ----------------------------------------------------------------------------------- */

static double tokens_per_second(size_t tokens, double seconds) { return seconds > 0 ? (double)tokens / seconds : 0; }

/* Where stdout and stderr are one pipe or file, the text before the statistics may lack its newline. */
static void begin_line(const run_state *run)
{
    struct stat text, messages;
    bool ended = run->sink || run->terminal || run->options->json || run->options->ids || run->ids.count == run->prompt_count;
    if (ended || run->cli->quiet || fstat(STDOUT_FILENO, &text) || fstat(STDERR_FILENO, &messages)) return;
    if (text.st_dev == messages.st_dev && text.st_ino == messages.st_ino && !zt_cli_flush(run->cli)) fputc('\n', stderr);
}

void run_report_stats(run_state *run)
{
    begin_line(run);
    /* The first token comes from the prompt's logits: only the steps after it are generation. */
    size_t made_count = run->ids.count - run->prompt_count, step_count = made_count ? made_count - 1 : 0;
    zt_session_report report = zt_session_get(zt_llm_session(run->llm));
    zt_llm_info info = zt_llm_get(run->llm);
    zt_cli_note(run->cli, "load         %9.3f s", run->loaded_time - run->start_time);
    if (run->first_token_time > 0) zt_cli_note(run->cli, "first token  %9.3f s", run->first_token_time - run->start_time);
    zt_cli_note(run->cli, "prompt       %9.1f tokens/s  (%zu tokens)",
                tokens_per_second(run->prompt_count - run->reused_count, run->prompt_time - run->asked_time), run->prompt_count);
    if (run->reused_count > 0)
        zt_cli_note(run->cli, "%-12s %9zu tokens    of the prompt reused", run->kv_store ? "KV store" : "session",
                    run->reused_count);
    if (step_count > 0)
        zt_cli_note(run->cli, "generation   %9.1f tokens/s  (%zu tokens)",
                    tokens_per_second(step_count, run->end_time - run->first_token_time), made_count);
    if (run_drafts(run))
        zt_cli_note(run->cli, "speculation  %9zu tokens    drafted (%zu accepted, %zu batches)", run->drafted_count,
                    run->accepted_count, run->draft_batches);
    zt_cli_note(run->cli, "peak memory  %9.1f MB        (weights %.1f, cache %.1f, scratch %.1f)",
                (double)zt_proc_bytes("/proc/self/status", "VmHWM:") / 1e6, (double)info.weight_bytes / 1e6,
                (double)info.kv_bytes / 1e6, (double)report.arena_bytes / 1e6);
    zt_cli_note(run->cli, "engine       %9s           (%" PRId64 " threads, %s, %d fallbacks)",
                zt_engine_inmost(run->engine)->vt->name, run->cli->threads ? run->cli->threads : zt_cpu_count(),
                zt_isa_name(run->cli->isa), report.fallbacks);
    zt_cli_note_device(run->cli, run->engine);
    run_report_times(run);
}

/* ---- dry run --------------------------------------------------------------------------------- */

static void add_row(zt_table *table, const char *what, size_t bytes)
{
    char number[32];
    snprintf(number, sizeof number, "%zu", bytes);
    zt_table_row(table, (const char *const[]){what, number});
}

static size_t total_bytes(const zt_llm_info *info)
{
    return info->weight_bytes + info->kv_bytes + info->recurrent_bytes + info->scratch_bytes;
}

static zt_status print_needs(run_state *run, const zt_llm_info *info, size_t draft, size_t total, size_t available)
{
    zt_table *table = zt_table_new(run->cli, "run", (const char *const[]){"what", "#bytes"}, 2);
    if (!table) return zt_ctx_status(run->ctx);
    add_row(table, "weights", info->weight_bytes);
    add_row(table, "kv", info->kv_bytes);
    if (info->recurrent_bytes) add_row(table, "states", info->recurrent_bytes);
    add_row(table, "scratch", info->scratch_bytes);
    if (run->draft) add_row(table, "draft", draft);
    add_row(table, "total", total);
    add_row(table, "available", available);
    zt_status status = zt_ctx_status(run->ctx);
    if (status == ZT_OK) status = run_write_table(run, table);
    zt_table_free(table);
    return status;
}

zt_status run_dry(run_state *run)
{
    zt_llm_info info, draft = {0};
    zt_llm_opts opts = run_llm_opts(run);
    if (run_open_engine(run) != ZT_OK) return zt_ctx_status(run->ctx);
    opts.engine = run->engine;
    opts.hidden = run_head_drafts(run->options);
    zt_status status = zt_llm_plan(run->gguf, &opts, &info);
    if (status == ZT_OK && run->draft) status = run_draft_plan(run, info.ctx_len, &draft);
    if (status != ZT_OK) return status;
    const size_t ahead = total_bytes(&draft) + info.hidden_bytes, total = total_bytes(&info) + ahead;
    size_t available = zt_cli_available_bytes(run->cli);
    status = print_needs(run, &info, ahead, total, available);
    if (status == ZT_OK && total > available) zt_cli_no(run->cli);
    return status;
}
