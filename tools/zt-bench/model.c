/* model.c - zt-bench model: a language model's speed, prompt and generation, per thread count.
 *
 * pp512: 512 tokens as one prompt into an empty context, logits after the last. tg128: 128 steps of
 * one token each, after one to begin with. The tokens are drawn from a fixed seed: their values do
 * not matter to the time, and sampling is not measured. One round of each warms up. With --vs two
 * models are open, and their samples are taken in turn.
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct subject {
    zt_cli *cli;
    const bench_options *o;
    const char *name; /* as it was given */
    zt_gguf *model;
    zt_engine *engine;
    zt_llm *llm;
    bench_counters counters;
    int32_t *ids; /* [longest] */
    float *logits;
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

/* What is measured of a model. */
typedef struct bench_work {
    const char *kind; /* "pp" */
    int64_t tokens;   /* 0: not wanted */
    int64_t fed;      /* in a round, those before time is taken too */
    work_fn *once;
} bench_work;

/* Of each side one round to warm up, then samples in turn. */
static zt_status sample(subject *s, int sides, bench_list *l, const bench_work *w, int64_t threads)
{
    char test[32];
    zt_cli *cli = s->cli;
    int64_t reps = s->o->reps;
    bench_result *r[2] = {NULL, NULL};
    snprintf(test, sizeof test, "%s%" PRId64, w->kind, w->tokens);
    for (int k = 0; k < sides; k++)
        if (!(r[k] = bench_add(cli->ctx, &l[k], test, threads, "tokens/s", bench_most(s->o)))) break;
    zt_status st = zt_ctx_status(cli->ctx);
    for (int64_t i = -1; i < reps && st == ZT_OK; i++) {
        if (i == 0) bench_counters_start(&s->counters, s->engine);
        for (int turn = 0; turn < sides && st == ZT_OK; turn++) {
            int k = bench_turn(sides, i, turn);
            double seconds;
            st = zt_cli_interrupted() ? ZT_EINTR : w->once(&s[k], &seconds);
            if (st == ZT_OK && i >= 0)
                r[k]->samples[r[k]->n++] = (double)w->tokens / (seconds > 0 ? seconds : 1e-9);
        }
        zt_progress(cli, &(zt_work){test, s->name, "runs", (double)(i + 2), (double)(reps + 1)});
        if (st == ZT_OK && i + 1 == reps) st = bench_more(cli, s->o, r[0], r[1], &reps);
    }
    bench_counters_stop(&s->counters, s->engine, (double)(reps * w->fed));
    if (st == ZT_OK) bench_set_counts(r[0], &s->counters);
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

static zt_status load(subject *s, bench_list *l, int64_t threads)
{
    zt_cli *cli = s->cli;
    int64_t longest = s->o->prompt > s->o->generate + 1 ? s->o->prompt : s->o->generate + 1;
    if (!s->o->vs) bench_counters_open(&s->counters); /* before its threads begin */
    zt_llm_opts lo = {.ctx_len = longest, .exact = s->o->exact, .kv = ZT_DTYPE_COUNT,
                      .strict = cli->strict};
    zt_binding b[] = {{"n", 1}, {"m", 1}, {"ctx", (longest / ZT_LLM_BLOCK + 1) * ZT_LLM_BLOCK}};
    zt_prog *p = zt_cli_may_choose(cli) ? zt_llm_program(s->model, &lo) : NULL;
    if (!p) zt_ctx_clear(cli->ctx); /* what is wrong is told when it is opened */
    lo.engine = s->engine = zt_cli_engine_for(cli, threads, p, b, 3);
    zt_prog_free(p);
    s->llm = s->engine ? zt_llm_open(s->model, &lo) : NULL;
    if (!s->llm) return zt_ctx_status(cli->ctx);
    snprintf(l->engine, sizeof l->engine, "%s", s->engine->vt->name);
    return make_inputs(s, longest);
}

static void unload(subject *s)
{
    zt_free(s->cli->ctx, s->ids);
    zt_free(s->cli->ctx, s->logits);
    bench_counters_close(&s->counters);
    zt_llm_close(s->llm);
    zt_engine_close(s->engine);
    s->ids = NULL;
    s->logits = NULL;
    s->llm = NULL;
    s->engine = NULL;
}

static zt_status with_threads(subject *s, int sides, bench_list *l, int64_t threads)
{
    const bench_work work[] = {{"pp", s->o->prompt, s->o->prompt, prompt_once},
                               {"tg", s->o->generate, s->o->generate + 1, generate_once}};
    zt_status st = ZT_OK;
    for (int k = 0; k < sides && st == ZT_OK; k++) st = load(&s[k], &l[k], threads);
    for (int w = 0; w < 2 && st == ZT_OK; w++)
        if (work[w].tokens > 0) st = sample(s, sides, l, &work[w], threads);
    if (st == ZT_OK) st = bench_roof_model(s->cli, s->o, l, s->llm, threads);
    for (int k = 0; k < sides; k++) unload(&s[k]);
    return st;
}

/* ---- models and threads --------------------------------------------------------------------------- */

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

enum { MOST_MODELS = 64 };

/* Those of -m, then operands: with --vs two. */
static zt_status name_models(zt_cli *cli, const bench_options *o, const char **name, int *n)
{
    int given = cli->n_operands - 1 + o->models.n;
    *n = 0;
    if (o->vs && given != 2)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--vs: %d models, not 2", given);
    if (given == 0) return zt_fail(cli->ctx, ZT_EUSAGE, "no model: name one with -m");
    if (!o->vs && given > 1 && cli->n_operands > 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d models: name each with -m, or compare two by --vs",
                       given);
    if (given > MOST_MODELS)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d models: at most %d", given, MOST_MODELS);
    if (given > 1 && o->plot && !o->vs)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--plot draws one model, not %d", given);
    for (int i = 0; i < o->models.n; i++) name[(*n)++] = o->models.item[i];
    for (int i = 1; i < cli->n_operands; i++) name[(*n)++] = cli->operands[i];
    if (o->prompt == 0 && o->generate == 0)
        return zt_fail(cli->ctx, ZT_EUSAGE, "-p 0 and -n 0: nothing to measure");
    return ZT_OK;
}

static zt_status open_model(subject *s, const char *name, bench_list *l)
{
    s->model = zt_model_open(s->cli->ctx, name);
    return s->model ? bench_list_model(s->cli->ctx, l, s->model) : zt_ctx_status(s->cli->ctx);
}

/* Numbers of threads. */
typedef struct counts {
    int64_t at[BENCH_MAX_COUNTS];
    int n;
} counts;

/* One model, or with --vs two, each into its list. */
static zt_status measure(zt_cli *cli, const bench_options *o, const char *const *name,
                         const counts *threads, bench_list *l)
{
    int sides = bench_sides(o);
    subject s[2] = {{.cli = cli, .o = o}, {.cli = cli, .o = o}};
    zt_status st = ZT_OK;
    for (int k = 0; k < sides && st == ZT_OK; k++) {
        s[k].name = name[k];
        st = open_model(&s[k], name[k], &l[k]);
    }
    for (int i = 0; i < threads->n && st == ZT_OK; i++)
        st = with_threads(s, sides, l, threads->at[i]);
    for (int k = 0; k < sides; k++) zt_gguf_close(s[k].model);
    return st;
}

/* Several models, one after the other, in one list; the history has an entry for each. */
static zt_status measure_each(zt_cli *cli, const bench_options *o, const char *const *name, int n,
                              const counts *threads)
{
    bench_list all = {0};
    zt_status st = ZT_OK;
    for (int i = 0; i < n && st == ZT_OK; i++) {
        bench_list one = {0};
        st = measure(cli, o, &name[i], threads, &one);
        if (st == ZT_OK) st = bench_keep(cli, o, &one);
        if (st == ZT_OK) st = bench_list_join(cli->ctx, &all, &one);
        bench_list_free(cli->ctx, &one);
    }
    if (st == ZT_OK) st = bench_print(cli, &all);
    bench_list_free(cli->ctx, &all);
    return st;
}

zt_status bench_model(zt_cli *cli, const bench_options *o)
{
    counts threads = {{zt_cpu_count()}, 1};
    int n = 0;
    const char *name[MOST_MODELS] = {NULL};
    bench_list l[2] = {{0}};
    zt_status st = o->threads ? bench_threads(cli->ctx, o->threads, threads.at, &threads.n) : ZT_OK;
    if (st == ZT_OK) st = name_models(cli, o, name, &n);
    if (st == ZT_OK && n > 1 && !o->vs) return measure_each(cli, o, name, n, &threads);
    if (st == ZT_OK) st = measure(cli, o, name, &threads, l);
    if (st == ZT_OK) st = bench_answer(cli, o, l);
    for (int k = 0; k < 2; k++) bench_list_free(cli->ctx, &l[k]);
    return st;
}
