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

typedef struct model_subject {
    zt_cli *cli;
    const bench_options *options;
    const char *name; /* as it was given */
    zt_gguf *model;
    zt_engine *engine;
    zt_llm *llm;
    bench_counters counters;
    int32_t *ids; /* [longest] */
    float *logits;
} model_subject;

typedef zt_status work_fn(model_subject *s, double *seconds);

static zt_status prompt_once(model_subject *subject, double *seconds)
{
    zt_status status = zt_llm_rewind(subject->llm, 0);
    double start = zt_seconds();
    if (status == ZT_OK)
        status = zt_llm_feed(subject->llm, subject->ids, (size_t)subject->options->prompt, false, subject->logits);
    *seconds = zt_seconds() - start;
    return status;
}

static zt_status generate_once(model_subject *subject, double *seconds)
{
    zt_status status = zt_llm_rewind(subject->llm, 0);
    if (status == ZT_OK) status = zt_llm_feed(subject->llm, subject->ids, 1, false, subject->logits);
    double start = zt_seconds();
    for (int64_t i = 1; i <= subject->options->generate && status == ZT_OK; i++)
        status = zt_llm_feed(subject->llm, subject->ids + i, 1, false, subject->logits);
    *seconds = zt_seconds() - start;
    return status;
}

/* What is measured of a model. */
typedef struct bench_work {
    const char *kind; /* "pp" */
    int64_t tokens;   /* 0: not wanted */
    int64_t fed;      /* in a round, those before time is taken too */
    work_fn *once;
} bench_work;

/* Of each side one round to warm up, then samples in turn. */
static zt_status take_samples(model_subject *subject, int sides, bench_list *list, const bench_work *works, int64_t threads)
{
    char test[32];
    zt_cli *cli = subject->cli;
    int64_t reps = subject->options->reps;
    bench_result *results[2] = {NULL, NULL};
    snprintf(test, sizeof test, "%s%" PRId64, works->kind, works->tokens);
    for (int k = 0; k < sides; k++)
        if (!(results[k] = bench_add(cli->ctx, &list[k], test, threads, "tokens/s", bench_most(subject->options)))) break;
    zt_status status = zt_ctx_status(cli->ctx);
    for (int64_t i = -1; i < reps && status == ZT_OK; i++) {
        if (i == 0) bench_counters_start(&subject->counters, subject->engine);
        for (int turn = 0; turn < sides && status == ZT_OK; turn++) {
            int k = bench_turn(sides, i, turn);
            double seconds;
            status = zt_cli_interrupted() ? ZT_EINTR : works->once(&subject[k], &seconds);
            if (status == ZT_OK && i >= 0)
                results[k]->samples[results[k]->count++] = (double)works->tokens / (seconds > 0 ? seconds : 1e-9);
        }
        zt_progress(cli, &(zt_work){test, subject->name, "runs", (double)(i + 2), (double)(reps + 1)});
        if (status == ZT_OK && i + 1 == reps) status = bench_more(cli, subject->options, results[0], results[1], &reps);
    }
    bench_counters_stop(&subject->counters, subject->engine, (double)(reps * works->fed));
    if (status == ZT_OK) bench_set_counts(results[0], &subject->counters);
    return status;
}

static zt_status make_inputs(model_subject *subject, int64_t longest)
{
    int64_t vocab = zt_llm_get(subject->llm).vocab;
    subject->ids = zt_alloc_array(subject->cli->ctx, (size_t)longest, sizeof *subject->ids);
    subject->logits = zt_alloc_array(subject->cli->ctx, (size_t)vocab, sizeof *subject->logits);
    if (!subject->ids || !subject->logits) return zt_ctx_status(subject->cli->ctx);
    for (int64_t i = 0; i < longest; i++) subject->ids[i] = (int32_t)(zt_uniform(1, 0, (uint64_t)i) * (double)vocab);
    return ZT_OK;
}

static zt_status load_model(model_subject *subject, bench_list *list, int64_t threads)
{
    zt_cli *cli = subject->cli;
    int64_t longest =
        subject->options->prompt > subject->options->generate + 1 ? subject->options->prompt : subject->options->generate + 1;
    if (!subject->options->vs) bench_counters_open(&subject->counters); /* before its threads begin */
    zt_llm_opts llm_options = {.ctx_len = longest, .exact = subject->options->exact, .kv = ZT_DTYPE_COUNT, .strict = cli->strict};
    zt_binding bindings[] = {{"n", 1}, {"m", 1}, {"ctx", (longest / ZT_LLM_BLOCK + 1) * ZT_LLM_BLOCK}};
    zt_prog *program = zt_cli_may_choose(cli) ? zt_llm_program(subject->model, &llm_options) : NULL;
    if (!program) zt_ctx_clear(cli->ctx); /* what is wrong is told when it is opened */
    llm_options.engine = subject->engine = zt_cli_engine_for(cli, threads, program, bindings, 3);
    zt_prog_free(program);
    subject->llm = subject->engine ? zt_llm_open(subject->model, &llm_options) : NULL;
    if (!subject->llm) return zt_ctx_status(cli->ctx);
    snprintf(list->engine, sizeof list->engine, "%s", subject->engine->vt->name);
    return make_inputs(subject, longest);
}

static void unload_model(model_subject *subject)
{
    zt_free(subject->cli->ctx, subject->ids);
    zt_free(subject->cli->ctx, subject->logits);
    bench_counters_close(&subject->counters);
    zt_llm_close(subject->llm);
    zt_engine_close(subject->engine);
    subject->ids = NULL;
    subject->logits = NULL;
    subject->llm = NULL;
    subject->engine = NULL;
}

static zt_status with_threads(model_subject *subject, int sides, bench_list *list, int64_t threads)
{
    const bench_work work[] = {{"pp", subject->options->prompt, subject->options->prompt, prompt_once},
                               {"tg", subject->options->generate, subject->options->generate + 1, generate_once}};
    zt_status status = ZT_OK;
    for (int k = 0; k < sides && status == ZT_OK; k++) status = load_model(&subject[k], &list[k], threads);
    for (int index = 0; index < 2 && status == ZT_OK; index++)
        if (work[index].tokens > 0) status = take_samples(subject, sides, list, &work[index], threads);
    if (status == ZT_OK) status = bench_roof_model(subject->cli, subject->options, list, subject->llm, threads);
    for (int k = 0; k < sides; k++) unload_model(&subject[k]);
    return status;
}

/* ---- models and threads --------------------------------------------------------------------------- */

enum { MAX_THREADS = 256 };

zt_status bench_threads(zt_ctx *ctx, const char *text, int64_t *count, int *count_out)
{
    *count_out = 0;
    for (const char *cursor = text, *next; cursor; cursor = next) {
        char one[8];
        size_t len = strcspn(cursor, ",");
        next = cursor[len] ? cursor + len + 1 : NULL;
        snprintf(one, sizeof one, "%.*s", (int)(len < sizeof one ? len : sizeof one), cursor);
        if (*count_out == BENCH_MAX_COUNTS || !zt_parse_i64(one, &count[*count_out]) || count[*count_out] < 1 ||
            count[*count_out] > MAX_THREADS)
            return zt_fail(ctx, ZT_EUSAGE, "-t: '%s' is not a list of numbers from 1 to %d", text, MAX_THREADS);
        ++*count_out;
    }
    return ZT_OK;
}

enum { MOST_MODELS = 64 };

/* Those of -m, then operands: with --vs two. */
static zt_status name_models(zt_cli *cli, const bench_options *options, const char **name, int *count_out)
{
    int given = cli->n_operands - 1 + options->models.n;
    *count_out = 0;
    if (options->vs && given != 2) return zt_fail(cli->ctx, ZT_EUSAGE, "--vs needs 2 models, got %d", given);
    if (given == 0) return zt_fail(cli->ctx, ZT_EUSAGE, "no model: specify one with -m");
    if (!options->vs && given > 1 && cli->n_operands > 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d models: specify each with -m, or compare two with --vs", given);
    if (given > MOST_MODELS) return zt_fail(cli->ctx, ZT_EUSAGE, "%d models, the limit is %d", given, MOST_MODELS);
    if (given > 1 && options->plot && !options->vs) return zt_fail(cli->ctx, ZT_EUSAGE, "--plot draws one model, got %d", given);
    for (int i = 0; i < options->models.n; i++) name[(*count_out)++] = options->models.item[i];
    for (int i = 1; i < cli->n_operands; i++) name[(*count_out)++] = cli->operands[i];
    if (options->prompt == 0 && options->generate == 0) return zt_fail(cli->ctx, ZT_EUSAGE, "-p 0 and -n 0: nothing to measure");
    return ZT_OK;
}

static zt_status open_model(model_subject *subject, const char *name, bench_list *list)
{
    subject->model = zt_model_open(subject->cli->ctx, name);
    return subject->model ? bench_list_model(subject->cli->ctx, list, subject->model) : zt_ctx_status(subject->cli->ctx);
}

/* Numbers of threads. */
typedef struct counts {
    int64_t values[BENCH_MAX_COUNTS];
    int count;
} counts;

/* One model, or with --vs two, each into its list. */
static zt_status measure_models(zt_cli *cli, const bench_options *options, const char *const *name, const counts *threads,
                                bench_list *list)
{
    int sides = bench_sides(options);
    model_subject subjects[2] = {{.cli = cli, .options = options}, {.cli = cli, .options = options}};
    zt_status status = ZT_OK;
    for (int side_index = 0; side_index < sides && status == ZT_OK; side_index++) {
        subjects[side_index].name = name[side_index];
        status = open_model(&subjects[side_index], name[side_index], &list[side_index]);
    }
    for (int i = 0; i < threads->count && status == ZT_OK; i++) status = with_threads(subjects, sides, list, threads->values[i]);
    for (int k = 0; k < sides; k++) zt_gguf_close(subjects[k].model);
    return status;
}

/* Several models, one after the other, in one list; the history has an entry for each. */
static zt_status measure_each(zt_cli *cli, const bench_options *options, const char *const *name, int count,
                              const counts *threads)
{
    bench_list all = {0};
    zt_status status = ZT_OK;
    for (int i = 0; i < count && status == ZT_OK; i++) {
        bench_list one = {0};
        status = measure_models(cli, options, &name[i], threads, &one);
        if (status == ZT_OK) status = bench_keep(cli, options, &one);
        if (status == ZT_OK) status = bench_list_join(cli->ctx, &all, &one);
        bench_list_free(cli->ctx, &one);
    }
    if (status == ZT_OK) status = bench_print(cli, &all);
    bench_list_free(cli->ctx, &all);
    return status;
}

zt_status bench_model(zt_cli *cli, const bench_options *options)
{
    counts threads = {{zt_cpu_count()}, 1};
    int count = 0;
    const char *name[MOST_MODELS] = {NULL};
    bench_list lists[2] = {{0}};
    zt_status status = options->threads ? bench_threads(cli->ctx, options->threads, threads.values, &threads.count) : ZT_OK;
    if (status == ZT_OK) status = name_models(cli, options, name, &count);
    if (status == ZT_OK && count > 1 && !options->vs) return measure_each(cli, options, name, count, &threads);
    if (status == ZT_OK) status = measure_models(cli, options, name, &threads, lists);
    if (status == ZT_OK) status = bench_answer(cli, options, lists);
    for (int k = 0; k < 2; k++) bench_list_free(cli->ctx, &lists[k]);
    return status;
}
