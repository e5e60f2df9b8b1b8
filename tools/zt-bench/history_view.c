/* history_view.c - zt-bench history: what --history has kept, as a table, and drawn by --plot: a panel for
 * each series (a test with its threads and unit, of one engine, model and processor), the medians
 * of its runs with their intervals.
 */
#include "tools/common/svg.h"
#include "tools/zt-bench/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PANELS = 64, WIDTH = 800, LEFT = 90, PANEL = 96, GAP = 52, TOP = 64 };

typedef struct run_point {
    int64_t run;
    double median, low, high;
    char *title; /* of the mouse */
    struct run_point *next;
} run_point;

typedef struct run_series {
    const char *name;
    run_point *first, **last;
    int64_t count;
    double low, high; /* of all numbers in it */
} run_series;

typedef struct history_view {
    zt_cli *cli;
    zt_table *table;
    zt_arena *arena; /* NULL: no plot is wanted */
    zt_map *by_name;
    run_series *series; /* [series_count], room for cap */
    int64_t series_count, series_capacity;
    int64_t first_run, last_run;
} history_view;

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 15 };
static const char *const columns[N_COLUMNS] = {"#run",   "at",      "command",   "test",       "#threads",
                                               "unit",   "#median", "#ci95_low", "#ci95_high", "#samples",
                                               "engine", "model",   "version",   "cpu",        "commit"};

static const char *format_number(char text[32], double number)
{
    snprintf(text, 32, "%.6g", number);
    return text;
}

static zt_status add_row(history_view *history, const bench_past *past)
{
    char run[24], threads[24], samples[24], number[3][32];
    snprintf(run, sizeof run, "%" PRId64, past->run);
    snprintf(threads, sizeof threads, "%" PRId64, past->threads);
    snprintf(samples, sizeof samples, "%" PRId64, past->samples);
    const char *cell[N_COLUMNS] = {run,
                                   past->time,
                                   past->command,
                                   past->test,
                                   threads,
                                   past->unit,
                                   format_number(number[0], past->median),
                                   format_number(number[1], past->low),
                                   format_number(number[2], past->high),
                                   samples,
                                   past->engine,
                                   past->model,
                                   past->version,
                                   past->cpu,
                                   past->commit};
    return zt_table_row(history->table, cell);
}

/* ---- series ---------------------------------------------------------------------------------- */

static run_series *find_series(history_view *history, const char *name, size_t length)
{
    int64_t i;
    if (zt_map_get(history->by_name, name, length, &i)) return &history->series[i];
    if (history->series_count == history->series_capacity) {
        int64_t cap = history->series_capacity ? 2 * history->series_capacity : 16;
        run_series *more = zt_realloc(history->cli->ctx, history->series, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        history->series = more;
        history->series_capacity = cap;
    }
    char *kept = zt_arena_strndup(history->arena, name, length);
    if (!kept || zt_map_put(history->by_name, kept, length, history->series_count)) return NULL;
    history->series[history->series_count] = (run_series){.name = kept, .low = INFINITY, .high = -INFINITY};
    return &history->series[history->series_count++];
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Two models of one name are told apart by their ids. */
void bench_past_name(zt_str *text, const bench_past *past)
{
    zt_str_printf(text, "%s, %s", past->test, past->unit[0] ? past->unit : "1");
    if (past->threads) zt_str_printf(text, ", %" PRId64 " thread%s", past->threads, past->threads == 1 ? "" : "s");
    if (past->model[0]) zt_str_printf(text, "; %s %.8s", base_name(past->model), past->model_id);
    if (past->engine[0]) zt_str_printf(text, "; %s", past->engine);
    zt_str_printf(text, "; %s", past->cpu);
}

static void extend_range(run_series *series, double value)
{
    if (!isfinite(value)) return;
    series->low = value < series->low ? value : series->low;
    series->high = value > series->high ? value : series->high;
}

static zt_status add_point(history_view *history, const bench_past *past)
{
    char title[256];
    zt_str name;
    zt_str_init(&name, history->cli->ctx);
    bench_past_name(&name, past);
    run_series *series = name.data ? find_series(history, name.data, name.len) : NULL;
    zt_str_fini(&name);
    run_point *added = series ? zt_arena_alloc(history->arena, sizeof *added) : NULL;
    if (!added) return zt_ctx_status(history->cli->ctx);
    snprintf(title, sizeof title, "run %" PRId64 ", %.40s, %.40s: %.6g (%.6g to %.6g)", past->run, past->time, past->version,
             past->median, past->low, past->high);
    *added =
        (run_point){past->run, past->median, past->low, past->high, zt_arena_strndup(history->arena, title, strlen(title)), NULL};
    if (!series->count++) series->last = &series->first, series->first = NULL;
    *series->last = added;
    series->last = &added->next;
    const double values[] = {past->median, past->low, past->high};
    for (int i = 0; i < 3; i++) extend_range(series, values[i]);
    return zt_ctx_status(history->cli->ctx);
}

static zt_status add_past(void *user, const bench_past *past)
{
    history_view *history = user;
    zt_status status = add_row(history, past);
    if (!history->last_run || past->run < history->first_run) history->first_run = past->run;
    if (past->run > history->last_run) history->last_run = past->run;
    return !status && history->arena ? add_point(history, past) : status;
}

/* ---- the drawing ----------------------------------------------------------------------------- */

static void put_line(zt_str *out, double from_x, double from_y, double to_x, double to_y, const char *colour)
{
    zt_svg_line(out, (double[]){from_x, from_y, to_x, to_y}, 2, colour, 1.2, false, NULL);
}

static void put_panel(const history_view *history, const run_series *series, int index, bool last_panel, zt_str *out)
{
    double air = series->high > series->low ? (series->high - series->low) * .1 : fabs(series->high) * .1 + 1e-300;
    bool single = history->first_run == history->last_run;
    zt_svg_plot plot = {.x = LEFT,
                        .y = TOP + index * (PANEL + GAP),
                        .width = WIDTH - LEFT - 30,
                        .height = PANEL,
                        .across = {.low = (double)history->first_run - single,
                                   .high = (double)history->last_run + single,
                                   .unit = ZT_SVG_WHOLE,
                                   .label = last_panel ? "run" : NULL},
                        .up = {.low = series->low - air, .high = series->high + air}};
    const char *colour = zt_svg_colour((unsigned)index);
    zt_svg_text_within(out, plot.x, plot.y - 7, ZT_SVG_SMALL, plot.width, series->name);
    zt_svg_axes(out, &plot);
    double before[2] = {0, 0};
    const run_point *last = NULL;
    for (const run_point *point = series->first; point; point = point->next) {
        if (!isfinite(point->median)) continue;
        double point_x = zt_svg_at_x(&plot, (double)point->run), point_y = zt_svg_at_y(&plot, point->median);
        if (isfinite(point->low) && isfinite(point->high))
            put_line(out, point_x, zt_svg_at_y(&plot, point->low), point_x, zt_svg_at_y(&plot, point->high), colour);
        if (last) put_line(out, before[0], before[1], point_x, point_y, colour);
        zt_svg_dot(out, point_x, point_y, 3, colour, point->title);
        before[0] = point_x;
        before[1] = point_y;
        last = point;
    }
}

static zt_status draw_history(history_view *history, const char *path)
{
    zt_str out;
    int shown = 0;
    zt_str_init(&out, history->cli->ctx);
    int64_t panels = history->series_count < MOST_PANELS ? history->series_count : MOST_PANELS;
    zt_svg_begin(&out, WIDTH, TOP + (double)panels * (PANEL + GAP), "medians of the runs, with their intervals");
    for (int64_t i = 0; i < panels; i++)
        if (history->series[i].low <= history->series[i].high)
            put_panel(history, &history->series[i], shown++, i == panels - 1, &out);
    zt_svg_end(&out);
    if (history->series_count > panels)
        zt_cli_note(history->cli, "%s: only the first %" PRId64 " of %" PRId64 " series are plotted", path, panels,
                    history->series_count);
    zt_status status = bench_write_plot(history->cli, path, &out);
    zt_str_fini(&out);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

zt_status bench_past_show(zt_cli *cli, const bench_options *options)
{
    if (cli->n_operands != 2) return zt_fail(cli->ctx, ZT_EUSAGE, "history needs one file: history FILE.sqlite");
    if (options->trend) return bench_trend(cli, options);
    history_view history = {.cli = cli, .table = zt_table_new(cli, "bench.history", columns, N_COLUMNS)};
    if (options->plot) history.arena = zt_arena_new(cli->ctx, 0);
    if (options->plot) history.by_name = zt_map_new(cli->ctx, 64);
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = bench_history_read(cli, cli->operands[1], add_past, &history);
    if (!status && options->plot) status = draw_history(&history, options->plot);
    if (!status) status = bench_write_table(cli, history.table);
    zt_table_free(history.table);
    zt_map_free(history.by_name);
    zt_arena_free(history.arena);
    zt_free(cli->ctx, history.series);
    return status;
}
