/* history_trend.c - zt-bench history --trend: a row for each test of the history, with its last values as a sparkline, and the last
 * one beside the one before and the best. Runs of one commit (--commit) that follow each other are one value, their median.
 */
#include "tools/zt-bench/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trend_run {
    const char *commit; /* "": not known */
    double median;
    struct trend_run *next;
} trend_run;

/* A test with its threads and unit, of one engine, model and processor. */
typedef struct trend_case {
    const char *test, *unit, *engine, *model;
    int64_t threads, run_count;
    trend_run *first, **last;
    struct trend_case *next;
} trend_case;

/* A value of a case: of a run, or of runs of one commit. */
typedef struct trend_value {
    const char *commit;
    double median;
} trend_value;

typedef struct trend_view {
    zt_cli *cli;
    const bench_options *options;
    zt_arena *arena; /* of everything below */
    zt_map *by_name;
    trend_case *first, **last;
} trend_view;

/* ---- cases ------------------------------------------------------------------------------------ */

static const char *keep(const trend_view *view, const char *text) { return zt_arena_strndup(view->arena, text, strlen(text)); }

static trend_case *add_case(trend_view *view, const bench_past *past)
{
    trend_case *added = zt_arena_alloc(view->arena, sizeof *added);
    if (!added) return NULL;
    *added = (trend_case){.test = keep(view, past->test),
                          .unit = keep(view, past->unit),
                          .engine = keep(view, past->engine),
                          .model = keep(view, past->model),
                          .threads = past->threads};
    added->last = &added->first;
    *view->last = added;
    view->last = &added->next;
    return added;
}

static trend_case *find_case(trend_view *view, const bench_past *past)
{
    zt_str name;
    int64_t place;
    trend_case *found = NULL;
    zt_str_init(&name, view->cli->ctx);
    bench_past_name(&name, past);
    if (name.data && zt_map_get(view->by_name, name.data, name.len, &place))
        found = (trend_case *)(intptr_t)place;
    else if (name.data && (found = add_case(view, past))) {
        const char *key = zt_arena_strndup(view->arena, name.data, name.len);
        if (!key || zt_map_put(view->by_name, key, name.len, (int64_t)(intptr_t)found)) found = NULL;
    }
    zt_str_fini(&name);
    return found;
}

static zt_status add_past(void *user, const bench_past *past)
{
    trend_view *view = user;
    if (!isfinite(past->median)) return ZT_OK;
    trend_case *one = find_case(view, past);
    trend_run *added = one ? zt_arena_alloc(view->arena, sizeof *added) : NULL;
    if (!added) return zt_ctx_status(view->cli->ctx);
    *added = (trend_run){keep(view, past->commit), past->median, NULL};
    *one->last = added;
    one->last = &added->next;
    one->run_count++;
    return zt_ctx_status(view->cli->ctx);
}

/* ---- values ----------------------------------------------------------------------------------- */

/* The value of the runs from `run` on that have its commit; *next: the run after them. medians, scratch: room for all runs. */
static trend_value value_of(const trend_run *run, const trend_run **next, double *medians, double *scratch)
{
    const trend_run *end = run;
    int64_t count = 0;
    do {
        medians[count++] = end->median;
        end = end->next;
    } while (end && *run->commit && !strcmp(end->commit, run->commit));
    *next = end;
    return (trend_value){run->commit, bench_summarize(medians, count, scratch).median};
}

static int64_t list_values(const trend_case *one, trend_value *values, double *medians)
{
    int64_t count = 0;
    for (const trend_run *run = one->first; run;) values[count++] = value_of(run, &run, medians, medians + one->run_count);
    return count;
}

static int64_t best_of(const trend_case *one, const trend_value *values, int64_t count)
{
    const double sign = bench_less_is_better(one->unit) ? -1 : 1;
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (sign * values[i].median > sign * values[best].median) best = i;
    return best;
}

/* ---- the table -------------------------------------------------------------------------------- */

/* Does the locale have UTF-8? The variables are those of setlocale(3), in its order. */
static bool shows_utf8(void)
{
    const char *locale = getenv("LC_ALL");
    if (!locale || !*locale) locale = getenv("LC_CTYPE");
    if (!locale || !*locale) locale = getenv("LANG");
    return locale && (strcasestr(locale, "UTF-8") || strcasestr(locale, "UTF8"));
}

/* Eight levels from the least to the largest of the values; all in the middle, if they are equal. */
static void put_spark(zt_str *text, const trend_value *values, int64_t count, bool ascii)
{
    static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const characters[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        low = fmin(low, values[i].median);
        high = fmax(high, values[i].median);
    }
    for (int64_t i = 0; i < count; i++) {
        int level = high > low ? (int)((values[i].median - low) / (high - low) * 7.999) : 3;
        zt_str_puts(text, (ascii ? characters : blocks)[level]);
    }
}

enum { N_COLUMNS = 14 };
static const char *const columns[N_COLUMNS] = {"test",  "#threads",  "unit",   "engine", "model",       "#runs",       "commit",
                                               "#last", "#previous", "#ratio", "#best",  "best_commit", "#ratio_best", "trend"};

static zt_status add_row(const trend_view *view, zt_table *table, const trend_case *one, const trend_value *values, int64_t count)
{
    char threads[24], runs[24], last[BENCH_NUMBER], previous[BENCH_NUMBER] = "", ratio[BENCH_NUMBER] = "", best[BENCH_NUMBER],
                                                    ratio_best[BENCH_NUMBER];
    const trend_value *now = &values[count - 1], *top = &values[best_of(one, values, count)];
    const int64_t shown = count < view->options->last ? count : view->options->last;
    zt_str spark;
    zt_str_init(&spark, view->cli->ctx);
    put_spark(&spark, values + count - shown, shown, view->options->ascii || !shows_utf8());
    snprintf(threads, sizeof threads, "%" PRId64, one->threads);
    snprintf(runs, sizeof runs, "%" PRId64, one->run_count);
    if (count > 1) bench_number(previous, now[-1].median, 5);
    if (count > 1) bench_number(ratio, now->median / now[-1].median, 4);
    const char *cells[N_COLUMNS] = {one->test,
                                    threads,
                                    one->unit,
                                    one->engine,
                                    one->model,
                                    runs,
                                    now->commit,
                                    bench_number(last, now->median, 5),
                                    previous,
                                    ratio,
                                    bench_number(best, top->median, 5),
                                    top->commit,
                                    bench_number(ratio_best, now->median / top->median, 4),
                                    spark.data ? spark.data : ""};
    zt_status status = zt_ctx_status(view->cli->ctx);
    if (!status) status = zt_table_row(table, cells);
    zt_str_fini(&spark);
    return status;
}

static zt_status add_case_row(const trend_view *view, zt_table *table, const trend_case *one)
{
    zt_ctx *ctx = view->cli->ctx;
    trend_value *values = zt_calloc(ctx, (size_t)one->run_count, sizeof *values);
    double *medians = zt_calloc(ctx, 2 * (size_t)one->run_count, sizeof *medians);
    zt_status status = zt_ctx_status(ctx);
    if (!status) status = add_row(view, table, one, values, list_values(one, values, medians));
    zt_free(ctx, values);
    zt_free(ctx, medians);
    return status;
}

zt_status bench_trend(zt_cli *cli, const bench_options *options)
{
    trend_view view = {.cli = cli, .options = options, .arena = zt_arena_new(cli->ctx, 0), .by_name = zt_map_new(cli->ctx, 64)};
    zt_table *table = zt_table_new(cli, "bench.trend", columns, N_COLUMNS);
    view.last = &view.first;
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = bench_history_read(cli, cli->operands[1], add_past, &view);
    for (const trend_case *one = view.first; one && !status; one = one->next)
        if (one->run_count > 0) status = add_case_row(&view, table, one);
    if (!status) status = bench_write_table(cli, table);
    zt_table_free(table);
    zt_map_free(view.by_name);
    zt_arena_free(view.arena);
    return status;
}
