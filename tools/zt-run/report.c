/* report.c - what zt-run tells about a run: the --json object, --stats, and --dry-run. */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Kilobytes after `key` in a file of /proc, as bytes; 0 where there is none. */
static size_t proc_bytes(const char *path, const char *key)
{
    char line[256];
    unsigned long long kb = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return (size_t)kb << 10;
}

/* ---- json ------------------------------------------------------------------------------------ */

static void put_ids(zt_str *s, const int32_t *id, size_t n)
{
    zt_str_puts(s, "[");
    for (size_t i = 0; i < n; i++)
        zt_str_printf(s, "%s%" PRId32, i ? "," : "", id[i]);
    zt_str_puts(s, "]");
}

static void put_seconds(zt_str *s, const char *key, double seconds)
{
    zt_str_printf(s, ",\"%s\":%.6f", key, seconds > 0 ? seconds : 0);
}

/* A token as --logprobs tells it: {"id":..,"text":"..","logprob":.. */
static void put_likely(run *r, zt_str *s, int32_t id, double logprob)
{
    zt_str text;
    zt_str_init(&text, r->ctx);
    zt_vocab_decode(r->vocab, id, true, false, &text);
    zt_str_printf(s, "{\"id\":%" PRId32 ",\"text\":", id);
    zt_str_put_json(s, text.data ? text.data : "", text.len);
    if (isfinite(logprob))
        zt_str_printf(s, ",\"logprob\":%.9g", logprob);
    else
        zt_str_puts(s, ",\"logprob\":null");
    zt_str_fini(&text);
}

zt_status run_note_likeliest(run *r)
{
    int want = r->o->logprobs < r->choices ? (int)r->o->logprobs : (int)r->choices;
    int32_t *best = zt_alloc_array(r->ctx, (size_t)want, sizeof *best);
    int have = best ? zt_likeliest(run_logits(r), r->choices, want, best) : 0;
    r->log_sum = zt_log_sum_exp(run_logits(r), r->choices);
    zt_str_clear(&r->likeliest);
    for (int i = 0; i < have; i++) {
        zt_str_puts(&r->likeliest, i ? "," : "");
        put_likely(r, &r->likeliest, best[i], run_logits(r)[best[i]] - r->log_sum);
        zt_str_putc(&r->likeliest, '}');
    }
    zt_free(r->ctx, best);
    return zt_ctx_status(r->ctx);
}

zt_status run_put_logprobs(run *r, int32_t id)
{
    zt_str *s = &r->logprobs;
    zt_str_puts(s, s->len ? "," : "");
    put_likely(r, s, id, run_logits(r)[id] - r->log_sum);
    zt_str_printf(s, ",\"top\":[%s]}", r->likeliest.data ? r->likeliest.data : "");
    return zt_ctx_status(r->ctx);
}

/* The context that the run may fill, of which its cache may be only a part. */
static int64_t context_of(const run *r)
{
    int64_t trained = zt_llm_get(r->llm).ctx_train;
    if (r->o->ctx > 0)
        return r->o->ctx;
    return trained < USUAL_CTX ? trained : USUAL_CTX;
}

static void put_texts(zt_str *s, const char *key, const zt_opt_list *texts)
{
    zt_str_printf(s, ",\"%s\":[", key);
    for (int i = 0; i < texts->n; i++) {
        zt_str_puts(s, i ? "," : "");
        zt_str_put_json(s, texts->item[i], strlen(texts->item[i]));
    }
    zt_str_puts(s, "]");
}

/* What the tokens were drawn by, under the names that requests of --jsonl have; "stop" is why the text
 * ended. */
static void put_settings(run *r, zt_str *s)
{
    const run_options *o = r->o;
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"temp", o->sampler.temp},
        {"top_k", (double)o->sampler.top_k},
        {"top_p", o->sampler.top_p},
        {"min_p", o->sampler.min_p},
        {"repeat_penalty", o->sampler.repeat_penalty},
        {"repeat_last", (double)o->sampler.repeat_last},
        {"frequency_penalty", o->sampler.frequency_penalty},
        {"presence_penalty", o->sampler.presence_penalty},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        zt_str_printf(s, ",\"%s\":", numbers[i].name);
        zt_str_put_double(s, numbers[i].value);
    }
    zt_str_printf(s, ",\"seed\":%" PRIu64 ",\"n\":", r->seed);
    if (o->n < 0)
        zt_str_puts(s, "null");
    else
        zt_str_printf(s, "%" PRId64, o->n);
    put_texts(s, "stop_texts", &o->stop);
    zt_str_puts(s, ",\"eos\":");
    if (o->eos)
        put_ids(s, r->ends.id, r->ends.count);
    else
        zt_str_puts(s, "null");
    zt_str_printf(s, ",\"ignore_eos\":%s,\"ctx\":%" PRId64, o->ignore_eos ? "true" : "false",
                  context_of(r));
    if (o->lora.n)
        put_texts(s, "lora", &o->lora);
}

/* id is null where the request has no name. */
zt_status run_put_json(run *r, zt_str *s)
{
    size_t made = r->ids.count - r->n_prompt;
    const char *name = zt_gguf_name(r->gguf);
    zt_str_printf(s, "{\"id\":%s,\"text\":", r->id ? r->id : "null");
    zt_str_put_json(s, r->text.data ? r->text.data : "", r->text.len);
    zt_str_puts(s, ",\"ids\":");
    put_ids(s, r->ids.id + r->n_prompt, made);
    zt_str_printf(s, ",\"prompt_tokens\":%zu,\"generated_tokens\":%zu,\"stop\":\"%s\"",
                  r->n_prompt, made, r->stop);
    if (r->o->logprobs >= 0)
        zt_str_printf(s, ",\"logprobs\":[%s]", r->logprobs.data ? r->logprobs.data : "");
    if (r->drafts)
        zt_str_printf(s, ",\"drafted\":%zu,\"accepted\":%zu,\"batches\":%zu", r->drafted,
                      r->accepted, r->batches);
    put_seconds(s, "load_s", r->loaded - r->start);
    put_seconds(s, "prompt_s", r->prompted - r->asked);
    put_seconds(s, "generate_s", r->ended - r->prompted);
    put_settings(r, s);
    zt_str_printf(s, ",\"engine\":\"%s\",\"model\":", zt_engine_inmost(r->engine)->vt->name);
    zt_str_put_json(s, name, strlen(name));
    zt_str_printf(s, ",\"model_id\":\"%s\"}\n", zt_gguf_id(r->gguf));
    return zt_ctx_status(r->ctx);
}

zt_status run_report_json(run *r)
{
    zt_str s;
    zt_str_init(&s, r->ctx);
    zt_status st = run_put_json(r, &s);
    if (st == ZT_OK)
        st = run_write(r, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- stats ----------------------------------------------------------------------------------- */

static double rate(size_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : 0;
}

/* Of an engine with a device: what was asked of it, and its memory. */
static void report_device(run *r)
{
    zt_engine_report e = r->engine->vt->report(r->engine);
    if (e.submits == 0)
        return;
    zt_cli_note(r->cli, "device       %9" PRIu64 " submits   (%" PRIu64 " replays, %" PRIu64
                " downloads)", e.submits, e.replays, e.downloads);
    zt_cli_note(r->cli, "its memory   %9.1f MB        (peak %.1f, allocated in all %.1f, %" PRIu64
                " buffers)", (double)e.held / 1e6, (double)e.peak / 1e6, (double)e.allocated / 1e6,
                e.buffers);
    zt_cli_note(r->cli, "its pool     %9" PRIu64 " hits      (%" PRIu64 " misses, %" PRIu64
                " allocated, %" PRIu64 " released, %" PRIu64 " waiting)", e.pool_hits,
                e.pool_misses, e.pool_allocated, e.pool_released, e.pooled);
}

void run_report_stats(run *r)
{
    /* The first token comes out of the prompt's logits: generation is the steps after it. */
    size_t made = r->ids.count - r->n_prompt, steps = made ? made - 1 : 0;
    zt_session_report rep = zt_session_get(zt_llm_session(r->llm));
    zt_llm_info info = zt_llm_get(r->llm);
    zt_cli_note(r->cli, "load         %9.3f s", r->loaded - r->start);
    if (r->first > 0)
        zt_cli_note(r->cli, "first token  %9.3f s", r->first - r->start);
    zt_cli_note(r->cli, "prompt       %9.1f tokens/s  (%zu tokens)",
                rate(r->n_prompt - r->reused, r->prompted - r->asked), r->n_prompt);
    if (r->reused > 0)
        zt_cli_note(r->cli, "session      %9zu tokens    of the prompt were there", r->reused);
    if (steps > 0)
        zt_cli_note(r->cli, "generation   %9.1f tokens/s  (%zu tokens)",
                    rate(steps, r->ended - r->first), made);
    if (r->drafts)
        zt_cli_note(r->cli,
                    "speculation  %9zu tokens    drafted (%zu of them accepted, %zu batches)",
                    r->drafted, r->accepted, r->batches);
    zt_cli_note(r->cli, "peak memory  %9.1f MB        (weights %.1f, cache %.1f, scratch %.1f)",
                (double)proc_bytes("/proc/self/status", "VmHWM:") / 1e6,
                (double)info.weight_bytes / 1e6, (double)info.kv_bytes / 1e6,
                (double)rep.arena_bytes / 1e6);
    zt_cli_note(r->cli, "engine       %9s           (%" PRId64 " threads, %s, %d fallbacks)",
                zt_engine_inmost(r->engine)->vt->name,
                r->cli->threads ? r->cli->threads : zt_cpu_count(), zt_isa_name(r->cli->isa),
                rep.fallbacks);
    report_device(r);
    run_report_times(r);
}

/* ---- dry run --------------------------------------------------------------------------------- */

size_t run_available_bytes(const zt_cli *cli)
{
    size_t free_bytes = proc_bytes("/proc/meminfo", "MemAvailable:");
    if (cli->mem_limit && (cli->mem_limit < free_bytes || !free_bytes))
        return cli->mem_limit;
    return free_bytes;
}

static void add_row(zt_table *t, const char *what, size_t bytes)
{
    char number[32];
    snprintf(number, sizeof number, "%zu", bytes);
    zt_table_row(t, (const char *const[]){what, number});
}

static zt_status print_needs(run *r, const zt_llm_info *info, size_t total, size_t available)
{
    zt_table *t = zt_table_new(r->cli, "run", (const char *const[]){"what", "#bytes"}, 2);
    if (!t)
        return zt_ctx_status(r->ctx);
    add_row(t, "weights", info->weight_bytes);
    add_row(t, "kv", info->kv_bytes);
    add_row(t, "scratch", info->scratch_bytes);
    add_row(t, "total", total);
    add_row(t, "available", available);
    zt_status s = zt_ctx_status(r->ctx);
    if (s == ZT_OK)
        s = run_write_table(r, t);
    zt_table_free(t);
    return s;
}

zt_status run_dry(run *r)
{
    zt_llm_info info;
    zt_llm_opts opts = run_llm_opts(r->cli, r->o);
    if (run_open_engine(r) != ZT_OK)
        return zt_ctx_status(r->ctx);
    opts.engine = r->engine;
    zt_status s = zt_llm_plan(r->gguf, &opts, &info);
    if (s != ZT_OK)
        return s;
    size_t total = info.weight_bytes + info.kv_bytes + info.scratch_bytes;
    size_t available = run_available_bytes(r->cli);
    s = print_needs(r, &info, total, available);
    if (s == ZT_OK && total > available)
        zt_cli_no(r->cli);
    return s;
}
