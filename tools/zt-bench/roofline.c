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
    const bench_result *of;
    double per_byte, rate; /* operations; a second */
} dot;

typedef struct drawing {
    const zt_roof *roof; /* of the most threads */
    dot dot[MOST_DOTS];
    int n, left_out;
    double most; /* the highest rate of the roof */
    zt_svg_plot plot;
    zt_str out;
} drawing;

static void find_dots(drawing *d, const bench_list *l, double *scratch)
{
    for (const bench_result *r = l->first; r; r = r->next) {
        bool time = !strcmp(r->unit, "us"), tokens = !strcmp(r->unit, "tokens/s");
        if (!(time || tokens) || !(r->flops > 0) || !(r->bytes > 0)) continue;
        double median = bench_summarize(r->samples, r->n, scratch).median;
        double rate = time ? r->flops / (median * 1e-6) : r->flops * median;
        if (!(rate > 0) || !isfinite(rate)) continue;
        if (d->n == MOST_DOTS)
            d->left_out++;
        else
            d->dot[d->n++] = (dot){r, r->flops / r->bytes, rate};
    }
}

static void find_axes(drawing *d)
{
    double lo = .05, hi = 200, low = INFINITY;
    for (int i = 0; i < d->roof->n_peaks; i++)
        d->most = fmax(d->most, d->roof->peak[i].rate[ZT_ROOF_ALL]);
    for (int i = 0; i < d->n; i++) {
        lo = fmin(lo, d->dot[i].per_byte / 2);
        hi = fmax(hi, d->dot[i].per_byte * 2);
        low = fmin(low, d->dot[i].rate / 2);
    }
    const zt_roof_level *memory = &d->roof->level[d->roof->n_levels - 1];
    low = fmin(low, memory->read[ZT_ROOF_ONE] * lo);
    low = fmax(low, d->most * 1e-7);
    d->plot = (zt_svg_plot){.x = LEFT, .y = TOP, .width = INNER_W, .height = INNER_H,
                            .across = {.low = lo, .high = hi, .log = true,
                                       .label = "operations a byte"},
                            .up = {.low = low / 1e9, .high = d->most * 1.6 / 1e9, .log = true,
                                   .label = "10^9 operations a second"}};
}

/* Within the frame: both ends are at or above the lowest rate drawn. */
static void put_line(drawing *d, double x, double rate, double to_x, double to_rate,
                     const char *colour, bool dashed)
{
    double least = d->plot.up.low * 1e9;
    if (rate < least && to_rate > rate) { /* slopes: rate is x times a constant */
        x *= least / rate;
        rate = least;
    }
    const double xy[] = {zt_svg_at_x(&d->plot, x), zt_svg_at_y(&d->plot, rate / 1e9),
                         zt_svg_at_x(&d->plot, to_x), zt_svg_at_y(&d->plot, to_rate / 1e9)};
    zt_svg_line(&d->out, xy, 2, colour, dashed ? 1 : 2, dashed, NULL);
}

static double widest(const zt_roof *r, int who)
{
    double most = 0;
    for (int i = 0; i < r->n_levels; i++) most = fmax(most, r->level[i].read[who]);
    return most;
}

static void put_roof(drawing *d, int who)
{
    const zt_roof *r = d->roof;
    double lo = d->plot.across.low, hi = d->plot.across.high, top = 0;
    bool dashed = who == ZT_ROOF_ONE;
    for (int i = 0; i < r->n_peaks; i++) {
        double rate = r->peak[i].rate[who], from = fmax(lo, rate / widest(r, who));
        top = fmax(top, rate);
        if (rate > 0 && from < hi) put_line(d, from, rate, hi, rate, zt_svg_colour(1), dashed);
    }
    for (int i = 0; i < r->n_levels; i++) {
        double read = r->level[i].read[who], to = fmin(hi, top / fmax(read, 1));
        if (read > 0 && to > lo)
            put_line(d, lo, lo * read, to, to * read, zt_svg_colour(0), dashed);
    }
}

/* Beside the frame, each at the height of its line, but not over each other. */
static void put_names(drawing *d)
{
    const zt_roof *r = d->roof;
    char text[96];
    double used[ZT_ROOF_PEAKS], x = LEFT + INNER_W + 8;
    for (int i = 0; i < r->n_peaks; i++) {
        double rate = r->peak[i].rate[ZT_ROOF_ALL], y = zt_svg_at_y(&d->plot, rate / 1e9) + 4;
        for (int pass = 0; pass < i; pass++) /* each moves past one name at least, or is the last */
            for (int k = 0; k < i; k++)
                if (fabs(used[k] - y) < LINE - 5) y = used[k] + LINE - 4;
        used[i] = y;
        snprintf(text, sizeof text, "%s %s %.0f", zt_roof_kind_name(r->peak[i].kind),
                 r->peak[i].set, rate / 1e9);
        zt_svg_text(&d->out, x, y, ZT_SVG_SMALL, ZT_SVG_START, false, text);
    }
}

static void put_dots(drawing *d, double *scratch)
{
    zt_str text;
    zt_str_init(&text, d->out.ctx);
    double y = TOP + INNER_H + 58;
    for (int i = 0; i < d->n; i++, y += LINE) {
        const bench_result *r = d->dot[i].of;
        double median = bench_summarize(r->samples, r->n, scratch).median;
        zt_str_clear(&text);
        zt_str_printf(&text, "%s, %" PRId64 " threads: %.4g %s, %.4g GOP/s at %.3g a byte", r->test,
                      r->threads, median, r->unit, d->dot[i].rate / 1e9, d->dot[i].per_byte);
        if (r->roof > 0)
            zt_str_printf(&text, ", %.1f %% of its roof", 100 * bench_roof_share(r, median));
        if (!text.data) break;
        const char *colour = zt_svg_colour((unsigned)i + 2);
        zt_svg_dot(&d->out, zt_svg_at_x(&d->plot, d->dot[i].per_byte),
                   zt_svg_at_y(&d->plot, fmax(d->dot[i].rate / 1e9, d->plot.up.low)), 5, colour,
                   text.data);
        zt_svg_dot(&d->out, LEFT + 4, y - 4, 5, colour, NULL);
        zt_svg_text(&d->out, LEFT + 14, y, ZT_SVG_SMALL, ZT_SVG_START, false, text.data);
    }
    zt_str_fini(&text);
}

static void put_levels(drawing *d)
{
    const zt_roof *r = d->roof;
    zt_str text;
    zt_str_init(&text, d->out.ctx);
    zt_str_printf(&text, "GB/s, the highest slope first, %d threads (broken: one):", r->threads);
    for (int i = 0; i < r->n_levels; i++)
        zt_str_printf(&text, "%s %s %.0f", i ? "," : "", r->level[i].name,
                      r->level[i].read[ZT_ROOF_ALL] / 1e9);
    if (text.data)
        zt_svg_text(&d->out, LEFT, TOP - 8, ZT_SVG_SMALL, ZT_SVG_START, false, text.data);
    zt_str_fini(&text);
}

static void draw(drawing *d, double *scratch)
{
    char title[200], cpu[ZT_CPU_MODEL];
    snprintf(title, sizeof title, "roofline of %s", zt_cpu_model(cpu));
    zt_svg_begin(&d->out, WIDTH, TOP + INNER_H + 66 + d->n * LINE, title);
    zt_svg_axes(&d->out, &d->plot);
    put_levels(d);
    if (d->roof->threads > 1) put_roof(d, ZT_ROOF_ONE);
    put_roof(d, ZT_ROOF_ALL);
    put_names(d);
    put_dots(d, scratch);
    zt_svg_end(&d->out);
}

zt_status bench_roofline(zt_cli *cli, const char *path, const bench_list *l)
{
    drawing d = {.n = 0};
    const zt_roof *r;
    for (int i = 0; (r = bench_roof_nth(l, i)); i++)
        if (!d.roof || r->threads > d.roof->threads) d.roof = r;
    if (!d.roof)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%s: no roof was measured to draw", path);
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    if (!scratch) return ZT_ENOMEM;
    zt_str_init(&d.out, cli->ctx);
    find_dots(&d, l, scratch);
    find_axes(&d);
    draw(&d, scratch);
    if (d.left_out) zt_cli_note(cli, "%s: %d more results than dots", path, d.left_out);
    zt_status s = bench_write_plot(cli, path, &d.out);
    zt_str_fini(&d.out);
    zt_free(cli->ctx, scratch);
    return s;
}
