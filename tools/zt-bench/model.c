/* model.c - zt-bench model: a language model's speed, prompt and generation, by depth and thread count.
 *
 *     pp512         512 tokens as one prompt into an empty context, logits after the last
 *     tg128         128 steps of one token each, after one token
 *     pp512@d4096   the same, but with 4096 tokens in the context before
 *     tg128@d4096
 *
 * The tokens are drawn from a fixed seed: their values do not matter to the time, and sampling is not measured. Each position
 * always has the same token, so that what a test leaves in the cache serves the next one. One round of each test warms up, and
 * fills the context up to the depth. With --vs two models are open, and their samples are taken in turn.
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is measured: every prompt and every number of tokens to generate, at every depth, with every number of threads. */
typedef struct model_tests {
    bench_numbers prompts, generates, depths, threads;
} model_tests;

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
    int64_t filled; /* a rewind to so many tokens leaves nothing to compute again; 0: unknown */
} model_subject;

/* A test of a model: `tokens` after `depth` others, as one prompt or one by one. */
typedef struct model_test {
    bool is_prompt;
    int64_t depth, tokens;
} model_test;

/* Tokens in the context before time is taken: a token is generated after another one. */
static int64_t tokens_before(const model_test *test) { return test->is_prompt || test->depth > 0 ? test->depth : 1; }

/* Feeds what is missing of the first `count` tokens. */
static zt_status feed_until(model_subject *subject, int64_t count)
{
    int64_t position = zt_llm_position(subject->llm);
    return zt_llm_feed(subject->llm, subject->ids + position, (size_t)(count - position), false, subject->logits);
}

/* Leaves the first `count` tokens in the context, and the states of recurrent layers behind them. These cannot be rewound, but the
 * one before the last token of a prompt is kept, until another prompt comes. So a prompt of two tokens comes last, and one is
 * dropped: no sample then computes the context again. */
static zt_status fill_context(model_subject *subject, int64_t count)
{
    int64_t position = zt_llm_position(subject->llm), before = count > 0 ? count - 1 : 0;
    if (count == 0 || (count == subject->filled && position >= count)) return zt_llm_rewind(subject->llm, count);
    zt_status status = position > before ? zt_llm_rewind(subject->llm, before) : feed_until(subject, before);
    if (!status) status = feed_until(subject, count + 1);
    if (!status) status = zt_llm_rewind(subject->llm, count);
    subject->filled = status ? 0 : count;
    return status;
}

static zt_status run_test(model_subject *subject, const model_test *test, double *seconds)
{
    const int64_t before = tokens_before(test);
    zt_status status = fill_context(subject, before);
    double start = zt_seconds();
    const int64_t step = test->is_prompt ? test->tokens : 1;
    for (int64_t i = 0; i < test->tokens && status == ZT_OK; i += step)
        status = zt_llm_feed(subject->llm, subject->ids + before + i, (size_t)step, false, subject->logits);
    *seconds = zt_seconds() - start;
    if (test->is_prompt) subject->filled = 0;
    return status;
}

enum { TEST_NAME = 64 };

static void write_name(const model_test *test, char name[TEST_NAME])
{
    int length = snprintf(name, TEST_NAME, "%s%" PRId64, test->is_prompt ? "pp" : "tg", test->tokens);
    if (test->depth > 0) snprintf(name + length, (size_t)(TEST_NAME - length), "@d%" PRId64, test->depth);
}

/* Of each side one round to warm up, then samples in turn. */
static zt_status take_samples(model_subject *subject, int sides, bench_list *list, const model_test *test, int64_t threads)
{
    char name[TEST_NAME];
    zt_cli *cli = subject->cli;
    int64_t reps = subject->options->reps;
    bench_result *results[2] = {NULL, NULL};
    write_name(test, name);
    for (int k = 0; k < sides; k++)
        if (!(results[k] = bench_add(cli->ctx, &list[k], name, threads, "tokens/s", bench_most(subject->options)))) break;
    zt_status status = zt_ctx_status(cli->ctx);
    for (int64_t i = -1; i < reps && status == ZT_OK; i++) {
        if (i == 0) bench_counters_start(&subject->counters, subject->engine);
        for (int turn = 0; turn < sides && status == ZT_OK; turn++) {
            int k = bench_turn(sides, i, turn);
            double seconds;
            status = zt_cli_interrupted() ? ZT_EINTR : run_test(&subject[k], test, &seconds);
            if (status == ZT_OK && i >= 0)
                results[k]->samples[results[k]->count++] = (double)test->tokens / (seconds > 0 ? seconds : 1e-9);
        }
        zt_progress(cli, &(zt_work){name, subject->name, "runs", (double)(i + 2), (double)(reps + 1)});
        if (status == ZT_OK && i + 1 == reps) status = bench_more(cli, subject->options, results[0], results[1], &reps);
    }
    bench_counters_stop(&subject->counters, subject->engine, (double)(reps * test->tokens));
    if (status) return status;
    bench_set_counts(results[0], &subject->counters);
    const zt_roof *roof = bench_roof(cli, subject->engine, subject->options, list, (int)threads);
    return roof ? bench_roof_model(subject->llm, results[0], roof, test->depth, test->tokens, test->is_prompt) : ZT_OK;
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

/* Tokens of the longest test. */
static int64_t longest_of(const model_tests *tests)
{
    int64_t deepest = 0, most = 0;
    for (int i = 0; i < tests->depths.count; i++)
        if (tests->depths.values[i] > deepest) deepest = tests->depths.values[i];
    for (int i = 0; i < tests->prompts.count; i++)
        if (tests->prompts.values[i] > most) most = tests->prompts.values[i];
    for (int i = 0; i < tests->generates.count; i++)
        if (tests->generates.values[i] >= most) most = tests->generates.values[i] + 1;
    return deepest + most;
}

static zt_status load_model(model_subject *subject, bench_list *list, int64_t longest, int64_t threads)
{
    zt_cli *cli = subject->cli;
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

static zt_status run_tests(model_subject *subject, int sides, bench_list *list, const model_tests *tests, int64_t threads)
{
    const bench_numbers *tokens[2] = {&tests->prompts, &tests->generates};
    zt_status status = ZT_OK;
    for (int depth = 0; depth < tests->depths.count; depth++)
        for (int kind = 0; kind < 2; kind++)
            for (int i = 0; i < tokens[kind]->count && status == ZT_OK; i++) {
                const model_test test = {kind == 0, tests->depths.values[depth], tokens[kind]->values[i]};
                if (test.tokens > 0) status = take_samples(subject, sides, list, &test, threads);
            }
    return status;
}

static zt_status with_threads(model_subject *subject, int sides, bench_list *list, const model_tests *tests, int64_t threads)
{
    zt_status status = ZT_OK;
    for (int k = 0; k < sides && status == ZT_OK; k++) status = load_model(&subject[k], &list[k], longest_of(tests), threads);
    if (status == ZT_OK) status = run_tests(subject, sides, list, tests, threads);
    for (int k = 0; k < sides; k++) unload_model(&subject[k]);
    return status;
}

/* ---- models and tests ----------------------------------------------------------------------------- */

/* Is any test of this kind wanted? */
static bool has_tokens(const bench_numbers *tokens)
{
    for (int i = 0; i < tokens->count; i++)
        if (tokens->values[i] > 0) return true;
    return false;
}

static zt_status read_tests(zt_ctx *ctx, const bench_options *options, model_tests *tests)
{
    enum { MOST = 1 << 24 };
    zt_status status = bench_threads_of(ctx, options, &tests->threads);
    if (!status) status = bench_numbers_of(ctx, "-p", options->prompt, 0, MOST, &tests->prompts);
    if (!status) status = bench_numbers_of(ctx, "-n", options->generate, 0, MOST, &tests->generates);
    if (!status) status = bench_numbers_of(ctx, "-d", options->depth, 0, MOST, &tests->depths);
    if (status || has_tokens(&tests->prompts) || has_tokens(&tests->generates)) return status;
    return zt_fail(ctx, ZT_EUSAGE, "-p 0 and -n 0: nothing to measure");
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
    return ZT_OK;
}

static zt_status open_model(model_subject *subject, const char *name, bench_list *list)
{
    subject->model = zt_model_open(subject->cli->ctx, name);
    return subject->model ? bench_list_model(subject->cli->ctx, list, subject->model) : zt_ctx_status(subject->cli->ctx);
}

/* One model, or with --vs two, each into its list. */
static zt_status measure_models(zt_cli *cli, const bench_options *options, const char *const *name, const model_tests *tests,
                                bench_list *list)
{
    int sides = bench_sides(options);
    model_subject subjects[2] = {{.cli = cli, .options = options}, {.cli = cli, .options = options}};
    zt_status status = ZT_OK;
    for (int side_index = 0; side_index < sides && status == ZT_OK; side_index++) {
        subjects[side_index].name = name[side_index];
        status = open_model(&subjects[side_index], name[side_index], &list[side_index]);
    }
    for (int i = 0; i < tests->threads.count && status == ZT_OK; i++)
        status = with_threads(subjects, sides, list, tests, tests->threads.values[i]);
    for (int k = 0; k < sides; k++) zt_gguf_close(subjects[k].model);
    return status;
}

/* Several models, one after the other, in one list; the history has an entry for each. */
static zt_status measure_each(zt_cli *cli, const bench_options *options, const char *const *name, int count,
                              const model_tests *tests)
{
    bench_list all = {0};
    zt_status status = ZT_OK;
    for (int i = 0; i < count && status == ZT_OK; i++) {
        bench_list one = {0};
        status = measure_models(cli, options, &name[i], tests, &one);
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
    model_tests tests;
    int count = 0;
    const char *name[MOST_MODELS] = {NULL};
    bench_list lists[2] = {{0}};
    zt_status status = read_tests(cli->ctx, options, &tests);
    if (status == ZT_OK) status = name_models(cli, options, name, &count);
    if (status == ZT_OK && count > 1 && !options->vs) return measure_each(cli, options, name, count, &tests);
    if (status == ZT_OK) status = measure_models(cli, options, name, &tests, lists);
    if (status == ZT_OK) status = bench_answer(cli, options, lists);
    for (int k = 0; k < 2; k++) bench_list_free(cli->ctx, &lists[k]);
    return status;
}
