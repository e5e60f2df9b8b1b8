/* lr_find.c - the learning-rate finder (L. Smith, "Cyclical Learning Rates for Training Neural Networks", 2017): steps whose
 * learning rates rise geometrically, their losses, and the rate at which the smoothed loss falls fastest.
 */
#include "tools/common/svg.h"
#include "tools/zt-train/train_tool.h"

#include <inttypes.h>
#include <math.h>

/* Rates; the part of the average that stays at each step; the rise over the lowest average at which the sweep ends; the share of
 * the steps at its beginning of which none is suggested. */
static const double lowest_rate = 1e-7, highest_rate = 10, kept_share = .95, most_rise = 4, skipped_share = .1;

typedef struct rate_step {
    double rate, loss, smoothed;
} rate_step;

typedef struct rate_sweep {
    zt_cli *cli;
    int64_t planned, count; /* steps */
    rate_step *steps;
    int64_t suggested; /* -1: none */
} rate_sweep;

zt_status train_check_find_rate(zt_cli *cli)
{
    static const char *const unused[] = {"output", "lr",       "lr-min",     "schedule", "warmup", "epochs",
                                         "valid",  "patience", "checkpoint", "observe",  "report"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        if (zt_cli_refuse_given(cli, unused[i], "--lr-find; it applies to training")) return ZT_EUSAGE;
    return cli->ranks ? zt_cli_refuse_ranks(cli, "--lr-find") : ZT_OK;
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static void put_number(zt_str *text, const char *key, double number)
{
    zt_str_printf(text, "\"%s\":", key);
    if (isfinite(number))
        zt_str_put_double(text, number);
    else
        zt_str_puts(text, "null");
}

static zt_status write_line(zt_cli *cli, zt_str *text)
{
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = zt_cli_write(cli, text->data, text->len);
    if (!status) status = zt_cli_flush(cli);
    zt_str_fini(text);
    return status;
}

static zt_status report_step(const rate_sweep *sweep, const rate_step *step)
{
    zt_str text;
    zt_str_init(&text, sweep->cli->ctx);
    zt_str_printf(&text, "{\"step\":%" PRId64 ",", sweep->count);
    put_number(&text, "lr", step->rate);
    zt_str_putc(&text, ',');
    put_number(&text, "loss", step->loss);
    zt_str_putc(&text, ',');
    put_number(&text, "smoothed", step->smoothed);
    zt_str_puts(&text, "}\n");
    return write_line(sweep->cli, &text);
}

/* The averages are exponential, divided by the weight of the steps so far. */
static zt_status take_steps(rate_sweep *sweep, zt_trainer *trainer, const zt_batches *batches)
{
    const void *inputs[ZT_FIT_INPUTS];
    zt_binding bindings[ZT_MAX_SYMBOLS];
    double average = 0, least = INFINITY;
    bool over = false;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < sweep->planned && !over && !status; i++) {
        int binding_count = 0;
        int64_t samples;
        zt_trained trained = {0};
        double rate = lowest_rate * pow(highest_rate / lowest_rate, (double)i / (double)(sweep->planned - 1));
        status = batches->get(batches->user, (uint64_t)(i / batches->per_epoch), i % batches->per_epoch, inputs, bindings,
                              &binding_count, &samples);
        if (!status) status = zt_trainer_step(trainer, bindings, binding_count, inputs, rate, NULL, &trained);
        if (status) break;
        average = kept_share * average + (1 - kept_share) * trained.loss;
        rate_step *step = &sweep->steps[sweep->count++];
        *step = (rate_step){rate, trained.loss, average / (1 - pow(kept_share, (double)(i + 1)))};
        if (step->smoothed < least) least = step->smoothed;
        over = !isfinite(step->smoothed) ||
               ((double)i > skipped_share * (double)sweep->planned && step->smoothed > most_rise * least);
        status = report_step(sweep, step);
        zt_progress(sweep->cli, &(zt_work){"learning rates", NULL, "steps", (double)sweep->count, (double)sweep->planned});
        if (!status && zt_cli_interrupted()) status = zt_fail(sweep->cli->ctx, ZT_EINTR, "interrupted");
    }
    return status;
}

/* Where the smoothed loss falls most from the step before to the one after, all steps being as far from each other in log(rate). */
static void suggest_rate(rate_sweep *sweep)
{
    double steepest = 0;
    sweep->suggested = -1;
    for (int64_t i = (int64_t)(skipped_share * (double)sweep->planned) + 1; i + 1 < sweep->count; i++) {
        double slope = sweep->steps[i + 1].smoothed - sweep->steps[i - 1].smoothed;
        if (!(slope < steepest)) continue;
        steepest = slope;
        sweep->suggested = i;
    }
}

static zt_status report_suggestion(const rate_sweep *sweep)
{
    zt_str text;
    zt_str_init(&text, sweep->cli->ctx);
    zt_str_puts(&text, "{");
    put_number(&text, "suggested_lr", sweep->suggested < 0 ? NAN : sweep->steps[sweep->suggested].rate);
    zt_str_printf(&text, ",\"steps\":%" PRId64 "}\n", sweep->count);
    if (sweep->suggested < 0) zt_cli_note(sweep->cli, "no learning rate is suggested: the loss does not fall");
    return write_line(sweep->cli, &text);
}

/* ---- the plot -------------------------------------------------------------------------------- */

static zt_status draw_sweep(const rate_sweep *sweep, const char *path)
{
    zt_ctx *ctx = sweep->cli->ctx;
    double most = 1e-12, *points = zt_alloc_array(ctx, (size_t)sweep->count + 1, 2 * sizeof *points);
    size_t count = 0;
    zt_str text;
    if (!points) return ZT_ENOMEM;
    for (int64_t i = 0; i < sweep->count; i++)
        if (isfinite(sweep->steps[i].smoothed)) most = fmax(most, sweep->steps[i].smoothed);
    const zt_svg_plot plot = {.x = 84,
                              .y = 40,
                              .width = 540,
                              .height = 300,
                              .across = {lowest_rate, highest_rate, .log = true, .label = "learning rate"},
                              .up = {0, most, .label = "smoothed loss"}};
    zt_str_init(&text, ctx);
    zt_svg_begin(&text, 650, 400, "loss by learning rate");
    zt_svg_axes(&text, &plot);
    for (int64_t i = 0; i < sweep->count; i++) {
        if (!isfinite(sweep->steps[i].smoothed)) continue;
        points[2 * count] = zt_svg_at_x(&plot, sweep->steps[i].rate);
        points[2 * count++ + 1] = zt_svg_at_y(&plot, sweep->steps[i].smoothed);
    }
    if (count) zt_svg_line(&text, points, count, zt_svg_colour(0), 2, false, NULL);
    if (sweep->suggested >= 0) {
        const rate_step *step = &sweep->steps[sweep->suggested];
        zt_svg_dot(&text, zt_svg_at_x(&plot, step->rate), zt_svg_at_y(&plot, step->smoothed), 5, zt_svg_colour(1), "suggested");
        zt_svg_text(&text, 600, 56, ZT_SVG_SMALL, ZT_SVG_STOP, false, "orange: suggested learning rate");
    }
    zt_svg_end(&text);
    zt_status status = zt_ctx_status(ctx);
    if (!status) status = zt_sink_put_file(ctx, path, sweep->cli->force, text.data, text.len);
    zt_str_fini(&text);
    zt_free(ctx, points);
    return status;
}

zt_status train_find_rate(zt_cli *cli, const train_options *options, zt_trainer *trainer, const zt_batches *batches)
{
    rate_sweep sweep = {.cli = cli, .planned = options->lr_find, .suggested = -1};
    if (batches->per_epoch < 1) return zt_fail(cli->ctx, ZT_EDATA, "no training samples");
    sweep.steps = zt_calloc(cli->ctx, (size_t)sweep.planned + 1, sizeof *sweep.steps);
    zt_status status = sweep.steps ? take_steps(&sweep, trainer, batches) : ZT_ENOMEM;
    suggest_rate(&sweep);
    if (!status) status = report_suggestion(&sweep);
    if (!status && options->plot) status = draw_sweep(&sweep, options->plot);
    zt_free(cli->ctx, sweep.steps);
    return status;
}
