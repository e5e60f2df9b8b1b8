/* roofline.c - --plot of machine, model and op: operations a second over operations a byte, both on
 * logarithmic axes. Slopes are the bandwidth of a level, levels the rate of a kind of number, of
 * all threads and, broken, of one; a dot is what was measured.
 */
#include "tools/common/svg.h"
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 860, LEFT = 90, TOP = 48, INNER_W = 600, INNER_H = 400, LINE = 16, MOST_DOTS = 24 };

/* A result as a dot: one for each test and number of threads. */
typedef struct dot {
    const bench_result *result;
    double per_byte, rate; /* operations; a second */
} dot;

typedef struct roofline_drawing {
    const zt_roof *roof; /* of the most threads */
    dot dot[MOST_DOTS];
    int dot_count, left_out;
    double most; /* the highest rate of the roof */
    zt_svg_plot plot;
    zt_str out;
} roofline_drawing;

static void find_dots(roofline_drawing *drawing, const bench_list *list, double *scratch)
{
    for (const bench_result *result = list->first; result; result = result->next) {
        bool time = !strcmp(result->unit, "us"), tokens = !strcmp(result->unit, "tokens/s");
        if (!(time || tokens) || !(result->flops > 0) || !(result->bytes > 0)) continue;
        double median = bench_summarize(result->samples, result->count, scratch).median;
        double rate = time ? result->flops / (median * 1e-6) : result->flops * median;
        if (!(rate > 0) || !isfinite(rate)) continue;
        if (drawing->dot_count == MOST_DOTS)
            drawing->left_out++;
        else
            drawing->dot[drawing->dot_count++] = (dot){result, result->flops / result->bytes, rate};
    }
}

static void find_axes(roofline_drawing *drawing)
{
    double smallest = .05, largest = 200, low = INFINITY;
    for (int i = 0; i < drawing->roof->n_peaks; i++)
        drawing->most = fmax(drawing->most, drawing->roof->peak[i].rate[ZT_ROOF_ALL]);
    for (int dot_index = 0; dot_index < drawing->dot_count; dot_index++) {
        smallest = fmin(smallest, drawing->dot[dot_index].per_byte / 2);
        largest = fmax(largest, drawing->dot[dot_index].per_byte * 2);
        low = fmin(low, drawing->dot[dot_index].rate / 2);
    }
    const zt_roof_level *memory = &drawing->roof->level[drawing->roof->n_levels - 1];
    low = fmin(low, memory->read[ZT_ROOF_ONE] * smallest);
    low = fmax(low, drawing->most * 1e-7);
    drawing->plot =
        (zt_svg_plot){.x = LEFT,
                      .y = TOP,
                      .width = INNER_W,
                      .height = INNER_H,
                      .across = {.low = smallest, .high = largest, .log = true, .label = "arithmetic intensity (FLOP/byte)"},
                      .up = {.low = low / 1e9, .high = drawing->most * 1.6 / 1e9, .log = true, .label = "GFLOP/s"}};
}

/* Within the frame: both ends are at or above the lowest rate drawn. */
static void put_line(roofline_drawing *drawing, double positions, double rate, double to_x, double to_rate, const char *colour,
                     bool dashed)
{
    double least = drawing->plot.up.low * 1e9;
    if (rate < least && to_rate > rate) { /* slopes: rate is x times a constant */
        positions *= least / rate;
        rate = least;
    }
    const double points[] = {zt_svg_at_x(&drawing->plot, positions), zt_svg_at_y(&drawing->plot, rate / 1e9),
                             zt_svg_at_x(&drawing->plot, to_x), zt_svg_at_y(&drawing->plot, to_rate / 1e9)};
    zt_svg_line(&drawing->out, points, 2, colour, dashed ? 1 : 2, dashed, NULL);
}

static double find_widest(const zt_roof *roof, int who)
{
    double most = 0;
    for (int i = 0; i < roof->n_levels; i++) most = fmax(most, roof->level[i].read[who]);
    return most;
}

static void put_roof(roofline_drawing *drawing, int who)
{
    const zt_roof *roof = drawing->roof;
    double low = drawing->plot.across.low, high = drawing->plot.across.high, top = 0;
    bool dashed = who == ZT_ROOF_ONE;
    for (int i = 0; i < roof->n_peaks; i++) {
        double rate = roof->peak[i].rate[who], from = fmax(low, rate / find_widest(roof, who));
        top = fmax(top, rate);
        if (rate > 0 && from < high) put_line(drawing, from, rate, high, rate, zt_svg_colour(1), dashed);
    }
    for (int i = 0; i < roof->n_levels; i++) {
        double read = roof->level[i].read[who], end = fmin(high, top / fmax(read, 1));
        if (read > 0 && end > low) put_line(drawing, low, low * read, end, end * read, zt_svg_colour(0), dashed);
    }
}

/* Beside the frame, each at the height of its line, but not over each other. */
static void put_names(roofline_drawing *drawing)
{
    const zt_roof *roof = drawing->roof;
    char text[96];
    double used[ZT_ROOF_PEAKS], left = LEFT + INNER_W + 8;
    for (int i = 0; i < roof->n_peaks; i++) {
        double rate = roof->peak[i].rate[ZT_ROOF_ALL], top = zt_svg_at_y(&drawing->plot, rate / 1e9) + 4;
        for (int pass = 0; pass < i; pass++) /* each moves past one name at least, or is the last */
            for (int k = 0; k < i; k++)
                if (fabs(used[k] - top) < LINE - 5) top = used[k] + LINE - 4;
        used[i] = top;
        snprintf(text, sizeof text, "%s %s %.0f", zt_roof_kind_name(roof->peak[i].kind), roof->peak[i].set, rate / 1e9);
        zt_svg_text(&drawing->out, left, top, ZT_SVG_SMALL, ZT_SVG_START, false, text);
    }
}

static void put_dots(roofline_drawing *drawing, double *scratch)
{
    zt_str text;
    zt_str_init(&text, drawing->out.ctx);
    double position = TOP + INNER_H + 58;
    for (int i = 0; i < drawing->dot_count; i++, position += LINE) {
        const bench_result *result = drawing->dot[i].result;
        double median = bench_summarize(result->samples, result->count, scratch).median;
        zt_str_clear(&text);
        zt_str_printf(&text, "%s, %" PRId64 " thread%s: %.4g %s, %.4g GFLOP/s at %.3g FLOP/byte", result->test, result->threads,
                      result->threads == 1 ? "" : "s", median, result->unit, drawing->dot[i].rate / 1e9,
                      drawing->dot[i].per_byte);
        if (result->roof > 0) zt_str_printf(&text, ", %.1f %% of the roof", 100 * bench_roof_share(result, median));
        if (!text.data) break;
        const char *colour = zt_svg_colour((unsigned)i + 2);
        zt_svg_dot(&drawing->out, zt_svg_at_x(&drawing->plot, drawing->dot[i].per_byte),
                   zt_svg_at_y(&drawing->plot, fmax(drawing->dot[i].rate / 1e9, drawing->plot.up.low)), 5, colour, text.data);
        zt_svg_dot(&drawing->out, LEFT + 4, position - 4, 5, colour, NULL);
        zt_svg_text_within(&drawing->out, LEFT + 14, position, ZT_SVG_SMALL, WIDTH - LEFT - 14, text.data);
    }
    zt_str_fini(&text);
}

static void put_levels(roofline_drawing *drawing)
{
    const zt_roof *roof = drawing->roof;
    zt_str text;
    zt_str_init(&text, drawing->out.ctx);
    zt_str_printf(&text, "GB/s by memory level, %d threads (dashed: 1 thread):", roof->threads);
    for (int i = 0; i < roof->n_levels; i++)
        zt_str_printf(&text, "%s %s %.0f", i ? "," : "", roof->level[i].name, roof->level[i].read[ZT_ROOF_ALL] / 1e9);
    if (text.data) zt_svg_text(&drawing->out, LEFT, TOP - 8, ZT_SVG_SMALL, ZT_SVG_START, false, text.data);
    zt_str_fini(&text);
}

static void draw_roofline(roofline_drawing *drawing, double *scratch)
{
    char title[200], cpu[ZT_CPU_MODEL];
    snprintf(title, sizeof title, "Roofline of %s", zt_cpu_model(cpu));
    zt_svg_begin(&drawing->out, WIDTH, TOP + INNER_H + 66 + drawing->dot_count * LINE, title);
    zt_svg_axes(&drawing->out, &drawing->plot);
    put_levels(drawing);
    if (drawing->roof->threads > 1) put_roof(drawing, ZT_ROOF_ONE);
    put_roof(drawing, ZT_ROOF_ALL);
    put_names(drawing);
    put_dots(drawing, scratch);
    zt_svg_end(&drawing->out);
}

zt_status bench_roofline(zt_cli *cli, const char *path, const bench_list *list)
{
    roofline_drawing drawing = {.dot_count = 0};
    const zt_roof *roof;
    for (int i = 0; (roof = bench_roof_nth(list, i)); i++)
        if (!drawing.roof || roof->threads > drawing.roof->threads) drawing.roof = roof;
    if (!drawing.roof) return zt_fail(cli->ctx, ZT_EUSAGE, "%s: no roofline was measured", path);
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    if (!scratch) return ZT_ENOMEM;
    zt_str_init(&drawing.out, cli->ctx);
    find_dots(&drawing, list, scratch);
    find_axes(&drawing);
    draw_roofline(&drawing, scratch);
    if (drawing.left_out) zt_cli_note(cli, "%s: %d results are not plotted", path, drawing.left_out);
    zt_status status = bench_write_plot(cli, path, &drawing.out);
    zt_str_fini(&drawing.out);
    zt_free(cli->ctx, scratch);
    return status;
}
