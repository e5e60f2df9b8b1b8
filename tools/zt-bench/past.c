/* past.c - zt-bench history: what --history has kept, as a table, and drawn by --plot: a panel for
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

typedef struct point {
    int64_t run;
    double median, low, high;
    char *title; /* of the mouse */
    struct point *next;
} point;

typedef struct series {
    const char *name;
    point *first, **last;
    int64_t n;
    double lo, hi; /* of all numbers in it */
} series;

typedef struct past {
    zt_cli *cli;
    zt_table *table;
    zt_arena *arena; /* NULL: no plot is wanted */
    zt_map *of_name;
    series *each; /* [n], room for cap */
    int64_t n, cap;
    int64_t first_run, last_run;
} past;

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 14 };
static const char *const columns[N_COLUMNS] = {
    "#run", "at", "command", "test", "#threads", "unit", "#median",
    "#ci95_low", "#ci95_high", "#samples", "engine", "model", "version", "cpu"};

static const char *figure(char text[32], double x)
{
    snprintf(text, 32, "%.6g", x);
    return text;
}

static zt_status add_row(past *h, const bench_past *p)
{
    char run[24], threads[24], samples[24], number[3][32];
    snprintf(run, sizeof run, "%" PRId64, p->run);
    snprintf(threads, sizeof threads, "%" PRId64, p->threads);
    snprintf(samples, sizeof samples, "%" PRId64, p->samples);
    const char *cell[N_COLUMNS] = {
        run, p->at, p->command, p->test, threads, p->unit, figure(number[0], p->median),
        figure(number[1], p->low), figure(number[2], p->high), samples, p->engine, p->model,
        p->version, p->cpu};
    return zt_table_row(h->table, cell);
}

/* ---- series ---------------------------------------------------------------------------------- */

static series *series_of(past *h, const char *name, size_t n)
{
    int64_t i;
    if (zt_map_get(h->of_name, name, n, &i)) return &h->each[i];
    if (h->n == h->cap) {
        int64_t cap = h->cap ? 2 * h->cap : 16;
        series *more = zt_realloc(h->cli->ctx, h->each, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        h->each = more;
        h->cap = cap;
    }
    char *kept = zt_arena_strndup(h->arena, name, n);
    if (!kept || zt_map_put(h->of_name, kept, n, h->n)) return NULL;
    h->each[h->n] = (series){.name = kept, .lo = INFINITY, .hi = -INFINITY};
    return &h->each[h->n++];
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Two models of one name are told apart by their ids. */
static void put_name(zt_str *s, const bench_past *p)
{
    zt_str_printf(s, "%s, %s", p->test, p->unit[0] ? p->unit : "1");
    if (p->threads) zt_str_printf(s, ", %" PRId64 " threads", p->threads);
    if (p->model[0]) zt_str_printf(s, "; %s %.8s", base_name(p->model), p->model_id);
    if (p->engine[0]) zt_str_printf(s, "; %s", p->engine);
    zt_str_printf(s, "; %s", p->cpu);
}

static void widen(series *s, double x)
{
    if (!isfinite(x)) return;
    s->lo = x < s->lo ? x : s->lo;
    s->hi = x > s->hi ? x : s->hi;
}

static zt_status add_point(past *h, const bench_past *p)
{
    char title[256];
    zt_str name;
    zt_str_init(&name, h->cli->ctx);
    put_name(&name, p);
    series *s = name.data ? series_of(h, name.data, name.len) : NULL;
    zt_str_fini(&name);
    point *q = s ? zt_arena_alloc(h->arena, sizeof *q) : NULL;
    if (!q) return zt_ctx_status(h->cli->ctx);
    snprintf(title, sizeof title, "run %" PRId64 ", %.40s, %.40s: %.6g (%.6g to %.6g)", p->run,
             p->at, p->version, p->median, p->low, p->high);
    *q = (point){p->run, p->median, p->low, p->high,
                 zt_arena_strndup(h->arena, title, strlen(title)), NULL};
    if (!s->n++) s->last = &s->first, s->first = NULL;
    *s->last = q;
    s->last = &q->next;
    const double x[] = {p->median, p->low, p->high};
    for (int i = 0; i < 3; i++) widen(s, x[i]);
    return zt_ctx_status(h->cli->ctx);
}

static zt_status on_past(void *user, const bench_past *p)
{
    past *h = user;
    zt_status s = add_row(h, p);
    if (!h->last_run || p->run < h->first_run) h->first_run = p->run;
    if (p->run > h->last_run) h->last_run = p->run;
    return !s && h->arena ? add_point(h, p) : s;
}

/* ---- the drawing ----------------------------------------------------------------------------- */

static void put_line(zt_str *out, double x, double y, double to_x, double to_y, const char *colour)
{
    zt_svg_line(out, (double[]){x, y, to_x, to_y}, 2, colour, 1.2, false, NULL);
}

static void put_panel(const past *h, const series *s, int at, zt_str *out)
{
    double air = s->hi > s->lo ? (s->hi - s->lo) * .1 : fabs(s->hi) * .1 + 1e-300;
    bool single = h->first_run == h->last_run;
    zt_svg_plot plot = {.x = LEFT, .y = TOP + at * (PANEL + GAP),
                        .width = WIDTH - LEFT - 30, .height = PANEL,
                        .across = {.low = (double)h->first_run - single,
                                   .high = (double)h->last_run + single},
                        .up = {.low = s->lo - air, .high = s->hi + air}};
    const char *colour = zt_svg_colour((unsigned)at);
    zt_svg_text(out, plot.x, plot.y - 7, ZT_SVG_SMALL, ZT_SVG_START, false, s->name);
    zt_svg_axes(out, &plot);
    double before[2] = {0, 0};
    const point *last = NULL;
    for (const point *p = s->first; p; p = p->next) {
        if (!isfinite(p->median)) continue;
        double x = zt_svg_at_x(&plot, (double)p->run), y = zt_svg_at_y(&plot, p->median);
        if (isfinite(p->low) && isfinite(p->high))
            put_line(out, x, zt_svg_at_y(&plot, p->low), x, zt_svg_at_y(&plot, p->high), colour);
        if (last) put_line(out, before[0], before[1], x, y, colour);
        zt_svg_dot(out, x, y, 3, colour, p->title);
        before[0] = x;
        before[1] = y;
        last = p;
    }
}

static zt_status draw(past *h, const char *path)
{
    zt_str out;
    int shown = 0;
    zt_str_init(&out, h->cli->ctx);
    int64_t panels = h->n < MOST_PANELS ? h->n : MOST_PANELS;
    zt_svg_begin(&out, WIDTH, TOP + (double)panels * (PANEL + GAP),
                 "medians of the runs, with their intervals");
    for (int64_t i = 0; i < panels; i++)
        if (h->each[i].lo <= h->each[i].hi) put_panel(h, &h->each[i], shown++, &out);
    zt_svg_end(&out);
    if (h->n > panels)
        zt_cli_note(h->cli, "%s: the first %" PRId64 " of %" PRId64 " series", path, panels, h->n);
    zt_status s = bench_write_plot(h->cli, path, &out);
    zt_str_fini(&out);
    return s;
}

/* ---- the command ----------------------------------------------------------------------------- */

zt_status bench_past_show(zt_cli *cli, const bench_options *o)
{
    if (cli->n_operands != 2)
        return zt_fail(cli->ctx, ZT_EUSAGE, "history wants one file: history FILE.sqlite");
    past h = {.cli = cli, .table = zt_table_new(cli, "bench.history", columns, N_COLUMNS)};
    if (o->plot) h.arena = zt_arena_new(cli->ctx, 0);
    if (o->plot) h.of_name = zt_map_new(cli->ctx, 64);
    zt_status s = zt_ctx_status(cli->ctx);
    if (!s) s = bench_history_read(cli, cli->operands[1], on_past, &h);
    if (!s && o->plot) s = draw(&h, o->plot);
    if (!s) s = bench_write_table(cli, h.table);
    zt_table_free(h.table);
    zt_map_free(h.of_name);
    zt_arena_free(h.arena);
    zt_free(cli->ctx, h.each);
    return s;
}
