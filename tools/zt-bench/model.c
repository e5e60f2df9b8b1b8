/* model.c - zt-bench model: a language model's speed, prompt and generation, per thread count.
 *
 * pp512: 512 tokens as one prompt into an empty context, logits after the last. tg128: 128 steps of
 * one token each, after one to begin with. The tokens are drawn from a fixed seed: their values do
 * not matter to the time, and sampling is not measured. One round of each warms up.
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct subject {
    zt_cli *cli;
    const bench_options *o;
    zt_llm *llm;
    int32_t *ids; /* [longest] */
    float *logits;
    double done, total; /* rounds, for the bar */
} subject;

typedef zt_status work_fn(subject *s, double *seconds);

static zt_status prompt_once(subject *s, double *seconds)
{
    zt_status st = zt_llm_rewind(s->llm, 0);
    double start = zt_seconds();
    if (st == ZT_OK)
        st = zt_llm_feed(s->llm, s->ids, (size_t)s->o->prompt, false, s->logits);
    *seconds = zt_seconds() - start;
    return st;
}

static zt_status generate_once(subject *s, double *seconds)
{
    zt_status st = zt_llm_rewind(s->llm, 0);
    if (st == ZT_OK)
        st = zt_llm_feed(s->llm, s->ids, 1, false, s->logits);
    double start = zt_seconds();
    for (int64_t i = 1; i <= s->o->generate && st == ZT_OK; i++)
        st = zt_llm_feed(s->llm, s->ids + i, 1, false, s->logits);
    *seconds = zt_seconds() - start;
    return st;
}

/* One round to warm up, then the samples. */
static zt_status sample(subject *s, bench_list *l, const char *kind, int64_t tokens,
                        int64_t threads, work_fn *work)
{
    char test[32];
    snprintf(test, sizeof test, "%s%" PRId64, kind, tokens);
    bench_result *r = NULL;
    if (tokens > 0) r = bench_add(s->cli->ctx, l, test, threads, "tokens/s", s->o->reps);
    zt_status st = zt_ctx_status(s->cli->ctx);
    for (int64_t i = -1; r && i < s->o->reps && st == ZT_OK; i++) {
        double seconds;
        st = zt_cli_interrupted() ? ZT_EINTR : work(s, &seconds);
        if (st == ZT_OK && i >= 0)
            r->samples[r->n++] = (double)tokens / (seconds > 0 ? seconds : 1e-9);
        zt_progress(s->cli, test, ++s->done, s->total);
    }
    return st;
}

static zt_status make_inputs(subject *s, int64_t longest)
{
    int64_t V = zt_llm_get(s->llm).vocab;
    s->ids = zt_alloc_array(s->cli->ctx, (size_t)longest, sizeof *s->ids);
    s->logits = zt_alloc_array(s->cli->ctx, (size_t)V, sizeof *s->logits);
    if (!s->ids || !s->logits)
        return zt_ctx_status(s->cli->ctx);
    for (int64_t i = 0; i < longest; i++)
        s->ids[i] = (int32_t)(zt_uniform(1, 0, (uint64_t)i) * (double)V);
    return ZT_OK;
}

static zt_status with_threads(subject *s, bench_list *l, zt_gguf *g, int64_t threads)
{
    zt_cli *cli = s->cli;
    zt_engine_opts eo = {.threads = (int)threads, .isa = cli->isa};
    int64_t longest = s->o->prompt > s->o->generate + 1 ? s->o->prompt : s->o->generate + 1;
    zt_engine *e = zt_engine_open(cli->ctx, cli->engine, &eo);
    zt_llm_opts lo = {.engine = e, .ctx_len = longest, .exact = s->o->exact,
                      .kv = ZT_DTYPE_COUNT, .strict = cli->strict};
    s->llm = e ? zt_llm_open(g, &lo) : NULL;
    zt_status st = s->llm ? make_inputs(s, longest) : zt_ctx_status(cli->ctx);
    if (st == ZT_OK)
        snprintf(l->engine, sizeof l->engine, "%s", e->vt->name);
    if (st == ZT_OK)
        st = sample(s, l, "pp", s->o->prompt, threads, prompt_once);
    if (st == ZT_OK)
        st = sample(s, l, "tg", s->o->generate, threads, generate_once);
    zt_free(cli->ctx, s->ids);
    zt_free(cli->ctx, s->logits);
    zt_llm_close(s->llm);
    zt_engine_close(e);
    s->ids = NULL;
    s->logits = NULL;
    return st;
}

/* ---- thread counts --------------------------------------------------------------------------- */

enum { MAX_THREADS = 256 };

zt_status bench_threads(zt_ctx *ctx, const char *text, int64_t *count, int *n)
{
    *n = 0;
    for (const char *c = text, *next; c; c = next) {
        char one[8];
        size_t len = strcspn(c, ",");
        next = c[len] ? c + len + 1 : NULL;
        snprintf(one, sizeof one, "%.*s", (int)(len < sizeof one ? len : sizeof one), c);
        if (*n == BENCH_MAX_COUNTS || !zt_parse_i64(one, &count[*n]) || count[*n] < 1 ||
            count[*n] > MAX_THREADS)
            return zt_fail(ctx, ZT_EUSAGE, "-t '%s': not numbers from 1 to %d", text, MAX_THREADS);
        ++*n;
    }
    return ZT_OK;
}

zt_status bench_model(zt_cli *cli, const bench_options *o)
{
    int64_t count[BENCH_MAX_COUNTS] = {zt_cpu_count()};
    int n = 1;
    bench_list list = {0};
    zt_status s = o->threads ? bench_threads(cli->ctx, o->threads, count, &n) : ZT_OK;
    if (s == ZT_OK && !o->model)
        s = zt_fail(cli->ctx, ZT_EUSAGE, "no model: name one with -m");
    if (s == ZT_OK && o->prompt == 0 && o->generate == 0)
        s = zt_fail(cli->ctx, ZT_EUSAGE, "-p 0 and -n 0: nothing to measure");
    if (s != ZT_OK)
        return s;
    zt_gguf *g = zt_model_open(cli->ctx, o->model);
    if (!g)
        return zt_ctx_status(cli->ctx);
    subject sub = {.cli = cli, .o = o};
    sub.total = (double)(n * ((o->prompt > 0) + (o->generate > 0)) * (o->reps + 1));
    s = bench_list_model(cli->ctx, &list, g);
    for (int i = 0; i < n && s == ZT_OK; i++)
        s = with_threads(&sub, &list, g, count[i]);
    if (s == ZT_OK)
        s = bench_keep(cli, o, &list);
    if (s == ZT_OK)
        s = bench_print(cli, &list);
    bench_list_free(cli->ctx, &list);
    zt_gguf_close(g);
    return s;
}
