/* compare_print.c - what zt-train compare prints: a table, or all of it as JSON, and the plot of the losses. */
#include "tools/common/svg.h"
#include "tools/zt-train/compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CELL = 32, COLUMNS = 13 };

#define MEGABYTE 1e6

/* ---- means over seeds ------------------------------------------------------------------------- */

static const compare_run *runs_of(const compare_work *work, int index) { return &work->runs[index * work->seed_count]; }

typedef struct moments {
    double mean, deviation; /* NAN: of no number, or of one */
    int count;              /* of those that are numbers */
} moments;

static moments moments_of(const double *values, int count)
{
    moments result = {NAN, NAN, 0};
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) sum += isfinite(values[i]) ? (result.count++, values[i]) : 0;
    if (result.count) result.mean = sum / result.count;
    for (int i = 0; i < count; i++) squares += isfinite(values[i]) ? pow(values[i] - result.mean, 2) : 0;
    if (result.count > 1) result.deviation = sqrt(squares / (result.count - 1));
    return result;
}

static double steps_of(const compare_work *work, const compare_run *run) { return (void)work, (double)run->steps; }
static double time_of(const compare_work *work, const compare_run *run) { return (void)work, compare_total_time(run); }
static double memory_of(const compare_work *work, const compare_run *run) { return (void)work, run->memory / MEGABYTE; }
static double target_of(const compare_work *work, const compare_run *run)
{
    return compare_time_to(run, work->options->target_accuracy);
}

static moments moments_by(const compare_work *work, int index, double (*number)(const compare_work *, const compare_run *))
{
    double values[1000];
    for (int seed = 0; seed < work->seed_count; seed++) values[seed] = number(work, &runs_of(work, index)[seed]);
    return moments_of(values, work->seed_count);
}

/* ---- table ------------------------------------------------------------------------------------ */

static void put_cell(char *cell, double number)
{
    if (isfinite(number))
        snprintf(cell, CELL, "%.6g", number);
    else
        *cell = 0;
}

static zt_status put_row(const compare_work *work, zt_table *table, int index)
{
    char text[COLUMNS][CELL];
    const char *cells[COLUMNS];
    moments accuracy = moments_of(work->accuracy + index * work->seed_count, work->seed_count);
    moments loss = moments_of(work->loss + index * work->seed_count, work->seed_count);
    moments to_target = moments_by(work, index, target_of);
    const double numbers[COLUMNS] = {0,
                                     work->seed_count,
                                     moments_by(work, index, steps_of).mean,
                                     accuracy.mean,
                                     accuracy.deviation,
                                     loss.mean,
                                     loss.deviation,
                                     moments_by(work, index, time_of).mean,
                                     to_target.mean,
                                     to_target.count,
                                     moments_by(work, index, memory_of).mean,
                                     work->probabilities[index],
                                     0};
    for (int i = 1; i < COLUMNS - 1; i++) {
        put_cell(text[i], numbers[i]);
        cells[i] = text[i];
    }
    cells[0] = train_method_names(NULL, work->methods[index].method);
    cells[COLUMNS - 1] = index == work->verdict.best ? "best" : "";
    return zt_table_row(table, cells);
}

static zt_status print_table(const compare_work *work)
{
    static const char *const columns[COLUMNS] = {
        "method",      "#seeds",          "#steps",   "#accuracy",       "#accuracy_sd",      "#loss",  "#loss_sd",
        "#time_total", "#time_to_target", "#reached", "#memory_peak_mb", "#probability_best", "verdict"};
    zt_table *table = zt_table_new(work->cli, "zt.compare/1", columns, COLUMNS);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int index = 0; index < work->method_count && !status; index++) status = put_row(work, table, index);
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void put_member(zt_str *text, const char *key, double number)
{
    zt_str_putc(text, ',');
    train_put_number(text, key, number);
}

static void put_history(zt_str *text, const char *key, const compare_run *run, size_t offset)
{
    zt_str_printf(text, ",\"%s\":[", key);
    for (int64_t i = 0; i < run->epoch_count; i++) {
        double number;
        memcpy(&number, (const char *)&run->epochs[i] + offset, sizeof number);
        if (i) zt_str_putc(text, ',');
        if (isfinite(number))
            zt_str_put_double(text, number);
        else
            zt_str_puts(text, "null");
    }
    zt_str_putc(text, ']');
}

/* The members of openfluke/loom's TrainingMetrics, times in seconds, and the histories. */
static void put_run(const compare_work *work, zt_str *text, int index)
{
    const compare_run *run = &work->runs[index];
    zt_str_printf(text, "{\"method\":\"%s\",\"seed\":%" PRIu64 ",\"diverged\":%s,\"steps\":%" PRIu64,
                  train_method_names(NULL, run->method), run->seed, run->diverged ? "true" : "false", run->steps);
    put_member(text, "accuracy", work->accuracy[index]);
    put_member(text, "loss", work->loss[index]);
    put_member(text, "time_total", compare_total_time(run));
    put_member(text, "time_to_target", compare_time_to(run, work->options->target_accuracy));
    put_member(text, "memory_peak_mb", run->memory / MEGABYTE);
    zt_str_puts(text, ",\"milestones\":{");
    for (int i = 1; i <= COMPARE_MILESTONES; i++) {
        char key[8];
        snprintf(key, sizeof key, "%d", 10 * i);
        if (i > 1) zt_str_putc(text, ',');
        train_put_number(text, key, compare_time_to(run, 10 * i));
    }
    zt_str_putc(text, '}');
    put_history(text, "loss_history", run, offsetof(compare_epoch, loss));
    put_history(text, "valid_loss_history", run, offsetof(compare_epoch, valid_loss));
    put_history(text, "accuracy_history", run, offsetof(compare_epoch, accuracy));
    put_history(text, "time_history", run, offsetof(compare_epoch, time));
    zt_str_putc(text, '}');
}

static void put_interval(zt_str *text, const char *key, const zt_interval *interval)
{
    zt_str_printf(text, ",\"%s\":{", key);
    train_put_number(text, "mean", interval->mean);
    put_member(text, "low", interval->low);
    put_member(text, "high", interval->high);
    zt_str_putc(text, '}');
}

static void put_verdict(const compare_work *work, zt_str *text)
{
    const zt_method_verdict *verdict = &work->verdict;
    zt_str_printf(text, "{\"best\":\"%s\"", train_method_names(NULL, work->methods[verdict->best].method));
    put_member(text, "probability", verdict->probability);
    if (verdict->runner_up >= 0) {
        zt_str_printf(text, ",\"runner_up\":\"%s\"", train_method_names(NULL, work->methods[verdict->runner_up].method));
        put_interval(text, "accuracy_difference", &verdict->accuracy);
        put_interval(text, "loss_difference", &verdict->loss);
    }
    zt_str_putc(text, '}');
}

static zt_status print_json(const compare_work *work, bool lines)
{
    zt_str text;
    zt_str_init(&text, work->cli->ctx);
    if (!lines) {
        zt_str_puts(&text, "{\"schema\":\"zt.compare/1\",\"name\":");
        zt_str_put_json(&text, work->name, strlen(work->name));
        zt_str_printf(&text, ",\"num_layers\":%" PRId64 ",\"runs\":[", work->layers);
    }
    for (int i = 0; i < work->method_count * work->seed_count; i++) {
        if (i && !lines) zt_str_putc(&text, ',');
        put_run(work, &text, i);
        if (lines) zt_str_putc(&text, '\n');
    }
    zt_str_puts(&text, lines ? "{\"verdict\":" : "],\"verdict\":");
    put_verdict(work, &text);
    zt_str_puts(&text, "}\n");
    zt_status status = zt_ctx_status(work->cli->ctx);
    if (!status) status = zt_cli_write(work->cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

zt_status compare_print(const compare_work *work)
{
    bool lines = work->cli->format == ZT_FMT_NDJSON;
    return lines || work->cli->format == ZT_FMT_JSON ? print_json(work, lines) : print_table(work);
}

/* ---- plot ------------------------------------------------------------------------------------- */

/* The mean over seeds of the validation loss after an epoch; NAN: a run has no such epoch. */
static double mean_loss(const compare_work *work, int index, int64_t epoch)
{
    double sum = 0;
    for (int seed = 0; seed < work->seed_count; seed++) {
        const compare_run *run = &runs_of(work, index)[seed];
        sum += epoch < run->epoch_count ? run->epochs[epoch].valid_loss : NAN;
    }
    return sum / work->seed_count;
}

static void draw_method(const compare_work *work, zt_str *out, const zt_svg_plot *plot, int index)
{
    int64_t epochs = work->options->epochs;
    double *points = zt_alloc_array(work->cli->ctx, (size_t)epochs + 1, 2 * sizeof *points);
    size_t count = 0;
    for (int64_t epoch = 0; points && epoch < epochs; epoch++) {
        double loss = mean_loss(work, index, epoch);
        if (!isfinite(loss)) continue;
        points[2 * count] = zt_svg_at_x(plot, (double)(epoch + 1));
        points[2 * count++ + 1] = zt_svg_at_y(plot, loss);
    }
    if (count) zt_svg_line(out, points, count, zt_svg_colour((unsigned)index), 2, false, NULL);
    zt_free(work->cli->ctx, points);
}

zt_status compare_plot(const compare_work *work)
{
    enum { LEGEND = 18 };
    zt_cli *cli = work->cli;
    double highest = 1e-12;
    zt_str text;
    for (int index = 0; index < work->method_count; index++)
        for (int64_t epoch = 0; epoch < work->options->epochs; epoch++) {
            double loss = mean_loss(work, index, epoch);
            if (isfinite(loss) && loss > highest) highest = loss;
        }
    zt_str_init(&text, cli->ctx);
    zt_svg_plot plot = {.x = 84,
                        .y = 40,
                        .width = 540,
                        .height = 300,
                        .across = {0, work->options->epochs > 1 ? (double)work->options->epochs : 1, .label = "epoch"},
                        .up = {0, highest, .label = "validation loss"}};
    zt_svg_begin(&text, 650, 400, "validation loss by method");
    zt_svg_axes(&text, &plot);
    for (int index = 0; index < work->method_count; index++) {
        double y = 56 + LEGEND * index, line[] = {430, y - 4, 455, y - 4};
        draw_method(work, &text, &plot, index);
        zt_svg_line(&text, line, 2, zt_svg_colour((unsigned)index), 2, false, NULL);
        zt_svg_text(&text, 462, y, ZT_SVG_SMALL, ZT_SVG_START, false, train_method_names(NULL, work->methods[index].method));
    }
    zt_svg_end(&text);
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = zt_sink_put_file(cli->ctx, work->options->plot, cli->force, text.data, text.len);
    zt_str_fini(&text);
    return status;
}
