/* model.c - zt-bench model: the speed of language models, prompt and generation, by engine, depth, threads, cache type and
 * chunk.
 *
 *     pp512         512 tokens as one prompt into an empty context, logits after the last
 *     tg128         128 steps of one token each, after one token
 *     pp512@d4096   the same, but with 4096 tokens in the context before
 *     tg128@d4096
 *
 * A cell is a test of a subject (a model with engine, threads, cache type and chunk). Rounds go over all cells: one to warm up, then one
 * for each sample. So a change of the machine's speed during the run is a change of all cells, not of some. Every second round goes
 * backwards: cells are met in changing order, and a context that is filled to the greatest depth is emptied step by step.
 * Subjects are open together as far as memory allows; those that do not fit follow in a group of their own.
 */
#include "tools/zt-bench/energy.h"
#include "tools/zt-bench/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEST_NAME = 96, MOST_MODELS = 64, MOST_ENGINES = 16, ENGINE_NAME = 24, MOST_TYPES = 16, MOST_CELLS = 4096 };

/* What is measured: every combination. */
typedef struct model_lists {
    bench_numbers prompts, generates, depths, threads, chunks;
    zt_dtype kv[MOST_TYPES]; /* [kv_count] */
    int kv_count;
    char engines[MOST_ENGINES][ENGINE_NAME]; /* [engine_count], as --engine names them */
    int engine_count;
} model_lists;

typedef struct model_cell {
    model_subject *subject;
    const model_test *test;
    bench_result *result;
    int64_t wanted;            /* samples */
    double sums[BENCH_COUNTS]; /* of the counters, over all samples */
    double joules, seconds;    /* of all samples */
} model_cell;

typedef struct model_bench {
    zt_cli *cli;
    const bench_options *options;
    model_lists values;
    model_test *tests;              /* [test_count], a depth after the other */
    model_subject *subjects;        /* [subject_count], a model after the other, and of each an engine after the other */
    model_cell *cells;              /* [subject_count * test_count], a subject after the other */
    const char *names[MOST_MODELS]; /* [model_count] */
    zt_gguf *models[MOST_MODELS];
    bench_list *lists; /* [model_count * engine_count], in the order of subjects */
    int test_count, subject_count, model_count;
    int64_t longest; /* tokens of the longest test */
    bench_counters counters;
    bench_energy energy; /* of no zones without --energy */
} model_bench;

/* ---- rounds ----------------------------------------------------------------------------------- */

static zt_status measure_cell(model_bench *bench, model_cell *cell, bool warm_up)
{
    double seconds = 0;
    if (zt_cli_interrupted()) return ZT_EINTR;
    zt_status status = bench_subject_fill(cell->subject, cell->test);
    bench_counters_start(&bench->counters, cell->subject->engine);
    const double joules = bench_energy_joules(&bench->energy);
    if (!status) status = bench_subject_run(cell->subject, cell->test, &seconds);
    if (status || warm_up) return status;
    cell->joules += bench_energy_joules(&bench->energy) - joules;
    cell->seconds += seconds;
    bench_counters_add(&bench->counters, cell->subject->engine, cell->sums);
    bench_result *result = cell->result;
    result->samples[result->count++] = (double)cell->test->tokens / (seconds > 0 ? seconds : 1e-9);
    return ZT_OK;
}

/* The cell at a place of a round over the subjects from `first` on: tests in order, and of each all subjects. With --vs, where all are
 * open, the two models of a variant come side by side. */
static model_cell *cell_at(const model_bench *bench, int first, int count, int place)
{
    int test = place / count, k = place % count;
    int subject = bench->options->vs ? k % 2 * (count / 2) + k / 2 : first + k;
    return &bench->cells[(int64_t)subject * bench->test_count + test];
}

/* With --vs: cells that are still unsure after `rounds` samples get more. */
static zt_status add_rounds(model_bench *bench, int64_t rounds)
{
    const int64_t half = (int64_t)bench->subject_count / 2 * bench->test_count;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < half && !status; i++) {
        model_cell *old = &bench->cells[i], *now = &bench->cells[half + i];
        int64_t wanted = rounds;
        if (old->wanted != rounds) continue;
        status = bench_more(bench->cli, bench->options, old->result, now->result, &wanted);
        old->wanted = now->wanted = wanted;
    }
    return status;
}

/* One round; *any: did a cell want a sample? */
static zt_status run_round(model_bench *bench, int first, int count, int64_t round, bool *any)
{
    const int places = count * bench->test_count;
    zt_status status = ZT_OK;
    for (int turn = 0; turn < places && !status; turn++) {
        model_cell *cell = cell_at(bench, first, count, (round + 1) & 1 ? places - 1 - turn : turn);
        if (round >= cell->wanted) continue;
        *any = true;
        status = measure_cell(bench, cell, round < 0);
        zt_progress(bench->cli, &(zt_work){cell->result->test, zt_gguf_name(cell->subject->gguf), "runs",
                                           (double)((round + 1) * places + turn + 1), (double)((cell->wanted + 1) * places)});
    }
    return status;
}

static zt_status run_rounds(model_bench *bench, int first, int count)
{
    bool any = true;
    zt_status status = ZT_OK;
    for (int64_t round = -1; any && !status; round++) {
        any = false;
        status = run_round(bench, first, count, round, &any);
        if (!status && bench->options->vs && any && round >= 0) status = add_rounds(bench, round + 1);
    }
    return status;
}

/* ---- groups of subjects ----------------------------------------------------------------------- */

/* Opens subjects from `first` on, as many as memory allows; *count: how many. Of the memory of devices nothing is known: one. */
static zt_status open_group(model_bench *bench, int first, int *count)
{
    size_t available = zt_cli_available_bytes(bench->cli), used = 0, bytes = 0;
    available -= available / 8; /* buffers of the process, and roundings */
    zt_status status = ZT_OK;
    for (*count = 0; first + *count < bench->subject_count; ++*count) {
        model_subject *subject = &bench->subjects[first + *count];
        status = bench_subject_engine(subject, bench->longest, &bytes);
        bool alone = !status && strcmp(subject->engine->vt->name, "cpu") && strcmp(subject->engine->vt->name, "ref");
        if (!status && *count && !bench->options->vs && (alone || (available && used + bytes > available))) {
            zt_cli_note(bench->cli, "%s, %" PRId64 " threads: measured after the others, %.0f MB do not fit beside them",
                        zt_gguf_name(subject->gguf), subject->variant.threads, (double)bytes / 1e6);
            bench_subject_close(subject);
            return ZT_OK;
        }
        if (!status) status = bench_subject_load(subject, bench->longest);
        if (status) {
            ++*count; /* it is closed with the others */
            return status;
        }
        used += bytes;
    }
    return ZT_OK;
}

static void set_energy(const bench_energy *energy, const model_cell *cell)
{
    bench_result *result = cell->result;
    result->has_energy = energy->count > 0;
    result->joules = cell->joules / (double)(result->count * cell->test->tokens);
    result->watts = cell->seconds > 0 ? cell->joules / cell->seconds : 0;
}

static zt_status finish_cell(model_bench *bench, const model_cell *cell)
{
    const model_subject *subject = cell->subject;
    const model_test *test = cell->test;
    const int threads = (int)subject->variant.threads;
    bench_set_counts(cell->result, &bench->counters, cell->sums, (double)(cell->result->count * test->tokens));
    set_energy(&bench->energy, cell);
    const zt_roof *roof = bench_roof(bench->cli, subject->engine, bench->options, subject->list, threads);
    return roof ? bench_roof_model(subject->llm, cell->result, roof, test->depth, test->tokens, test->is_prompt) : ZT_OK;
}

static zt_status measure_group(model_bench *bench, int first, int *count)
{
    if (!bench->options->vs) bench_counters_open(&bench->counters); /* before the threads of engines begin */
    zt_status status = open_group(bench, first, count);
    if (!status) status = run_rounds(bench, first, *count);
    for (int i = 0; i < *count * bench->test_count && !status; i++)
        status = finish_cell(bench, &bench->cells[(int64_t)first * bench->test_count + i]);
    for (int i = 0; i < *count; i++) bench_subject_close(&bench->subjects[first + i]);
    bench_counters_close(&bench->counters);
    return status;
}

static zt_status measure_all(model_bench *bench)
{
    zt_status status = ZT_OK;
    for (int first = 0, count = 0; first < bench->subject_count && !status; first += count)
        status = measure_group(bench, first, &count);
    return status;
}

/* ---- options ---------------------------------------------------------------------------------- */

/* Is any test of this kind wanted? */
static bool has_tokens(const bench_numbers *tokens)
{
    for (int i = 0; i < tokens->count; i++)
        if (tokens->values[i] > 0) return true;
    return false;
}

/* "f16,q8_0"; without the option the default alone. */
static zt_status read_types(zt_ctx *ctx, const char *text, model_lists *values)
{
    values->kv[0] = ZT_DTYPE_COUNT;
    values->kv_count = !text;
    for (const char *cursor = text; cursor;) {
        size_t length = strcspn(cursor, ",");
        if (values->kv_count == MOST_TYPES || !zt_dtype_parse(cursor, length, &values->kv[values->kv_count]))
            return zt_fail(ctx, ZT_EUSAGE, "--kv: '%s' is not a list of at most %d data types, such as f16,f32", text,
                           MOST_TYPES);
        values->kv_count++;
        cursor = cursor[length] ? cursor + length + 1 : NULL;
    }
    return ZT_OK;
}

/* "cpu,vulkan:1". The names are checked when they are opened. */
static zt_status read_engines(zt_cli *cli, const bench_options *options, model_lists *values)
{
    char shown[96];
    zt_escape(shown, sizeof shown, cli->engine, strnlen(cli->engine, 90));
    for (const char *cursor = cli->engine; cursor;) {
        size_t length = strcspn(cursor, ",");
        char *name = values->engines[values->engine_count];
        if (length == 0 || length >= ENGINE_NAME || values->engine_count == MOST_ENGINES - 1)
            return zt_fail(cli->ctx, ZT_EUSAGE, "--engine: '%s' is not a list of at most %d engines, such as cpu,vulkan", shown,
                           MOST_ENGINES - 1);
        snprintf(name, ENGINE_NAME, "%.*s", (int)length, cursor);
        for (int i = 0; i < values->engine_count; i++)
            if (!strcmp(values->engines[i], name))
                return zt_fail(cli->ctx, ZT_EUSAGE, "--engine: '%s' names %s twice", shown, name);
        values->engine_count++;
        cursor = cursor[length] ? cursor + length + 1 : NULL;
    }
    if (options->vs && values->engine_count > 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--vs compares two models on one engine, --engine names %d: '%s'",
                       values->engine_count, shown);
    return ZT_OK;
}

static zt_status read_lists(zt_cli *cli, const bench_options *options, model_lists *values)
{
    enum { MOST = 1 << 24 };
    zt_ctx *ctx = cli->ctx;
    values->chunks = (bench_numbers){{0}, 1};
    zt_status status = bench_threads_of(ctx, options, &values->threads);
    if (!status) status = bench_numbers_of(ctx, "-p", options->prompt, 0, MOST, &values->prompts);
    if (!status) status = bench_numbers_of(ctx, "-n", options->generate, 0, MOST, &values->generates);
    if (!status) status = bench_numbers_of(ctx, "-d", options->depth, 0, MOST, &values->depths);
    if (!status && options->chunk) status = bench_numbers_of(ctx, "--chunk", options->chunk, 1, MOST, &values->chunks);
    if (!status) status = read_types(ctx, options->kv, values);
    if (!status) status = read_engines(cli, options, values);
    if (status || has_tokens(&values->prompts) || has_tokens(&values->generates)) return status;
    return zt_fail(ctx, ZT_EUSAGE, "-p 0 and -n 0: nothing to measure");
}

/* Those of -m, then operands: with --vs two. */
static zt_status read_names(model_bench *bench)
{
    zt_cli *cli = bench->cli;
    const bench_options *options = bench->options;
    int given = cli->n_operands - 1 + options->models.n;
    if (options->vs && given != 2) return zt_fail(cli->ctx, ZT_EUSAGE, "--vs needs 2 models, got %d", given);
    if (given == 0) return zt_fail(cli->ctx, ZT_EUSAGE, "no model: specify one with -m");
    if (!options->vs && given > 1 && cli->n_operands > 1)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d models: specify each with -m, or compare two with --vs", given);
    if (given > MOST_MODELS) return zt_fail(cli->ctx, ZT_EUSAGE, "%d models, the limit is %d", given, MOST_MODELS);
    if (given * bench->values.engine_count > 1 && options->plot && !bench_plots_depths(cli, options))
        return zt_fail(cli->ctx, ZT_EUSAGE,
                       "--plot draws the roofline of one model on one engine, or with several depths (-d) curves; got %d model%s "
                       "and %d engine%s",
                       given, given == 1 ? "" : "s", bench->values.engine_count, bench->values.engine_count == 1 ? "" : "s");
    for (int i = 0; i < options->models.n; i++) bench->names[bench->model_count++] = options->models.item[i];
    for (int i = 1; i < cli->n_operands; i++) bench->names[bench->model_count++] = cli->operands[i];
    return ZT_OK;
}

/* ---- tests, subjects and cells ---------------------------------------------------------------- */

static zt_status list_tests(model_bench *bench)
{
    const model_lists *values = &bench->values;
    const bench_numbers *tokens[2] = {&values->prompts, &values->generates};
    size_t most = (size_t)values->depths.count * (size_t)(values->prompts.count + values->generates.count);
    bench->tests = zt_calloc(bench->cli->ctx, most, sizeof *bench->tests);
    if (!bench->tests) return ZT_ENOMEM;
    for (int depth = 0; depth < values->depths.count; depth++)
        for (int kind = 0; kind < 2; kind++)
            for (int i = 0; i < tokens[kind]->count; i++) {
                const model_test test = {kind == 0, values->depths.values[depth], tokens[kind]->values[i]};
                int64_t length = test.depth + test.tokens + (kind == 1); /* a token is generated after another one */
                if (test.tokens == 0) continue;
                bench->tests[bench->test_count++] = test;
                if (length > bench->longest) bench->longest = length;
            }
    return ZT_OK;
}

static zt_status list_subjects(model_bench *bench)
{
    const model_lists *values = &bench->values;
    const int64_t of_engine = (int64_t)values->threads.count * values->kv_count * values->chunks.count;
    const int64_t variants = values->engine_count * of_engine;
    int64_t rows = bench->model_count * variants * bench->test_count;
    if (rows > MOST_CELLS)
        return zt_fail(bench->cli->ctx, ZT_EUSAGE, "%" PRId64 " combinations to measure, the limit is %d", rows, MOST_CELLS);
    bench->subjects = zt_calloc(bench->cli->ctx, (size_t)(bench->model_count * variants), sizeof *bench->subjects);
    for (int i = 0; i < bench->model_count * variants && bench->subjects; i++) {
        int list = (int)(i / of_engine), rest = (int)(i % of_engine);
        model_variant variant = {.engine = values->engines[list % values->engine_count],
                                 .chunk = values->chunks.values[rest % values->chunks.count],
                                 .kv = values->kv[rest / values->chunks.count % values->kv_count],
                                 .threads = values->threads.values[rest / values->chunks.count / values->kv_count]};
        bench->subjects[bench->subject_count++] = (model_subject){.cli = bench->cli,
                                                                  .options = bench->options,
                                                                  .gguf = bench->models[list / values->engine_count],
                                                                  .list = &bench->lists[list],
                                                                  .variant = variant};
    }
    return zt_ctx_status(bench->cli->ctx);
}

/* What differs within the run is in the name, as with --parameter-scan of zt-bench run. */
static void write_name(const model_bench *bench, const model_subject *subject, const model_test *test, char name[TEST_NAME])
{
    size_t length = (size_t)snprintf(name, TEST_NAME, "%s%" PRId64, test->is_prompt ? "pp" : "tg", test->tokens);
    if (test->depth > 0) length += (size_t)snprintf(name + length, TEST_NAME - length, "@d%" PRId64, test->depth);
    if (bench->values.kv_count > 1)
        length += (size_t)snprintf(name + length, TEST_NAME - length, " kv=%s", zt_dtype_get(subject->variant.kv)->name);
    if (bench->values.chunks.count > 1) snprintf(name + length, TEST_NAME - length, " chunk=%" PRId64, subject->variant.chunk);
}

static zt_status list_cells(model_bench *bench)
{
    const int64_t count = (int64_t)bench->subject_count * bench->test_count;
    zt_ctx *ctx = bench->cli->ctx;
    bench->cells = zt_calloc(ctx, (size_t)count, sizeof *bench->cells);
    for (int64_t i = 0; i < count && bench->cells && !zt_ctx_status(ctx); i++) {
        model_cell *cell = &bench->cells[i];
        char name[TEST_NAME];
        *cell = (model_cell){.subject = &bench->subjects[i / bench->test_count],
                             .test = &bench->tests[i % bench->test_count],
                             .wanted = bench->options->reps};
        write_name(bench, cell->subject, cell->test, name);
        cell->result =
            bench_add(ctx, cell->subject->list, name, cell->subject->variant.threads, "tokens/s", bench_most(bench->options));
    }
    return zt_ctx_status(ctx);
}

static zt_status open_models(model_bench *bench)
{
    zt_ctx *ctx = bench->cli->ctx;
    const int engines = bench->values.engine_count;
    bench->lists = zt_calloc(ctx, (size_t)(bench->model_count * engines), sizeof *bench->lists);
    zt_status status = zt_ctx_status(ctx);
    for (int i = 0; i < bench->model_count && !status; i++) {
        bench->models[i] = zt_model_open(ctx, bench->names[i]);
        status = zt_ctx_status(ctx);
        for (int k = 0; k < engines && !status; k++)
            status = bench_list_model(ctx, &bench->lists[i * engines + k], bench->models[i]);
    }
    return status;
}

/* ---- the command ------------------------------------------------------------------------------ */

/* The name of the engine that measured a list, as the table of several has it: what "auto" chose, or what --engine names. */
static const char *engine_of(const bench_list *list, const char *given) { return strcmp(given, "auto") ? given : list->engine; }

/* Several models or engines: the history has an entry for each, the table and the plot have all. */
static zt_status answer_all(model_bench *bench)
{
    bench_list all = {0};
    bench_options each = *bench->options;
    zt_status status = ZT_OK;
    each.plot = NULL;
    const model_lists *values = &bench->values;
    const int count = bench->model_count * values->engine_count;
    for (int i = 0; i < count && !status; i++) status = bench_keep(bench->cli, &each, &bench->lists[i]);
    for (int i = 0; i < count && !status; i++) {
        const char *engine = engine_of(&bench->lists[i], values->engines[i % values->engine_count]);
        status = bench_list_join(bench->cli->ctx, &all, &bench->lists[i], bench->model_count > 1,
                                 values->engine_count > 1 ? engine : NULL);
    }
    if (!status && bench->options->plot) status = bench_plot_depths(bench->cli, bench->options->plot, &all);
    if (!status) status = bench_print(bench->cli, &all);
    bench_list_free(bench->cli->ctx, &all);
    return status;
}

static void close_bench(model_bench *bench)
{
    zt_ctx *ctx = bench->cli->ctx;
    bench_energy_close(&bench->energy);
    for (int i = 0; i < bench->model_count; i++) zt_gguf_close(bench->models[i]);
    for (int i = 0; i < bench->model_count * bench->values.engine_count && bench->lists; i++)
        bench_list_free(ctx, &bench->lists[i]);
    zt_free(ctx, bench->lists);
    zt_free(ctx, bench->cells);
    zt_free(ctx, bench->subjects);
    zt_free(ctx, bench->tests);
}

zt_status bench_model(zt_cli *cli, const bench_options *options)
{
    model_bench bench = {.cli = cli, .options = options};
    const char *engines = cli->engine;
    zt_status status = read_lists(cli, options, &bench.values);
    if (!status) status = read_names(&bench);
    if (!status && options->energy) status = bench_energy_open(cli->ctx, &bench.energy);
    if (!status) status = open_models(&bench);
    if (!status) status = list_tests(&bench);
    if (!status) status = list_subjects(&bench);
    if (!status) status = list_cells(&bench);
    if (!status) status = measure_all(&bench);
    const bool several = !options->vs && bench.model_count * bench.values.engine_count > 1;
    if (!status) status = several ? answer_all(&bench) : bench_answer(cli, options, bench.lists);
    close_bench(&bench);
    cli->engine = engines;
    return status;
}
