/* depth_plot.c - tokens per second over depth as SVG: a panel for prompts and one for generation, a curve for each test with its
 * model and number of threads. Of a run of zt-bench model, or of files of results (zt-bench plot).
 */
#include "tools/common/svg.h"
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 800, LEFT = 90, RIGHT = 30, TOP = 40, PANEL = 260, HEADING = 18, BELOW = 44, LINE = 16, MOST_CURVES = 40 };

typedef struct depth_point {
    int64_t depth;
    double median, low, high; /* tokens/s */
    int curve;
    int64_t number; /* in the order of the results */
} depth_point;

typedef struct depth_curve {
    const char *label;
    int panel;
} depth_curve;

typedef struct depth_plot {
    zt_cli *cli;
    zt_arena *arena; /* of labels */
    zt_str out;
    depth_point *points; /* [count], room for capacity */
    int64_t count, capacity, left_out;
    depth_curve curves[MOST_CURVES];
    int curve_count;
} depth_plot;

enum { PROMPT, GENERATION, BOTH, N_PANELS };
static const char *const headings[N_PANELS] = {"prompt", "generation", "prompt and generation"};

/* ---- names ------------------------------------------------------------------------------------ */

/* A test's name in parts: "MODEL pp512@d4096 kv=f16" is before "MODEL ", test "pp512", depth 4096, after " kv=f16". */
typedef struct depth_name {
    const char *test, *after;
    size_t before, length; /* bytes before the test, and of it */
    int64_t depth;
    int panel;
} depth_name;

/* Goes past a prefix and digits. */
static bool skip_count(const char **text, const char *prefix)
{
    size_t length = strlen(prefix), digits = strncmp(*text, prefix, length) ? 0 : strspn(*text + length, "0123456789");
    if (digits) *text += length + digits;
    return digits > 0;
}

/* Is the word at `text` the name of a test of zt-bench model? */
static bool parse_test(const char *text, depth_name *name)
{
    const char *cursor = text, *depth;
    bool prompt = skip_count(&cursor, "pp"), generation = skip_count(&cursor, prompt ? "+tg" : "tg");
    if (!prompt && !generation) return false;
    name->test = text;
    name->length = (size_t)(cursor - text);
    name->panel = !prompt ? GENERATION : generation ? BOTH : PROMPT;
    depth = cursor;
    name->depth = skip_count(&cursor, "@d") ? strtoll(depth + 2, NULL, 10) : 0;
    name->after = cursor;
    return *cursor == 0 || *cursor == ' ';
}

static bool parse_name(const char *text, depth_name *name)
{
    for (const char *word = text; word; word = strchr(word, ' ')) {
        word += *word == ' ';
        name->before = (size_t)(word - text);
        if (parse_test(word, name)) return true;
    }
    return false;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- points ----------------------------------------------------------------------------------- */

/* -1: there are too many curves, or out of memory. */
static int find_curve(depth_plot *plot, const char *label, int panel)
{
    for (int i = 0; i < plot->curve_count; i++)
        if (plot->curves[i].panel == panel && !strcmp(plot->curves[i].label, label)) return i;
    if (plot->curve_count == MOST_CURVES) return -1;
    const char *kept = zt_arena_strndup(plot->arena, label, strlen(label));
    if (!kept) return -1;
    plot->curves[plot->curve_count] = (depth_curve){kept, panel};
    return plot->curve_count++;
}

static zt_status add_point(depth_plot *plot, const depth_point *point)
{
    if (plot->count == plot->capacity) {
        int64_t capacity = plot->capacity ? 2 * plot->capacity : 64;
        depth_point *more = zt_realloc(plot->cli->ctx, plot->points, (size_t)capacity * sizeof *more);
        if (!more) return ZT_ENOMEM;
        plot->points = more;
        plot->capacity = capacity;
    }
    plot->points[plot->count] = *point;
    plot->points[plot->count].number = plot->count;
    plot->count++;
    return ZT_OK;
}

/* "FILE: MODEL ENGINE pp512 kv=f16, 2 threads". */
static void put_label(zt_str *label, const char *file, const bench_list *list, const bench_result *result, const depth_name *name)
{
    const char *model = result->model ? result->model : list->model;
    if (file) zt_str_printf(label, "%s: ", base_name(file));
    if (model) zt_str_printf(label, "%s ", base_name(model));
    if (result->engine) zt_str_printf(label, "%s ", result->engine);
    zt_str_put(label, result->test, name->before);
    zt_str_put(label, name->test, name->length);
    zt_str_puts(label, name->after);
    if (result->threads) zt_str_printf(label, ", %" PRId64 " thread%s", result->threads, result->threads == 1 ? "" : "s");
}

static zt_status add_result(depth_plot *plot, const char *file, const bench_list *list, const bench_result *result,
                            double *scratch)
{
    depth_name name;
    if (strcmp(result->unit, "tokens/s") || !parse_name(result->test, &name)) return ZT_OK;
    bench_summary summary = bench_summarize(result->samples, result->count, scratch);
    zt_str label;
    zt_str_init(&label, plot->cli->ctx);
    put_label(&label, file, list, result, &name);
    int curve = label.data ? find_curve(plot, label.data, name.panel) : -1;
    zt_str_fini(&label);
    zt_status status = zt_ctx_status(plot->cli->ctx);
    if (!status && curve < 0) plot->left_out++;
    if (status || curve < 0) return status;
    return add_point(plot, &(depth_point){name.depth, summary.median, summary.ci95[0], summary.ci95[1], curve, 0});
}

static zt_status add_list(depth_plot *plot, const char *file, const bench_list *list)
{
    double *scratch = zt_calloc(plot->cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    zt_status status = scratch ? ZT_OK : ZT_ENOMEM;
    for (const bench_result *result = list->first; result && !status; result = result->next)
        status = add_result(plot, file, list, result, scratch);
    zt_free(plot->cli->ctx, scratch);
    return status;
}

/* By curve, then by depth. */
static int compare_points(const void *left, const void *right)
{
    const depth_point *first = left, *second = right;
    if (first->curve != second->curve) return first->curve < second->curve ? -1 : 1;
    if (first->depth != second->depth) return first->depth < second->depth ? -1 : 1;
    return (first->number > second->number) - (first->number < second->number);
}

/* ---- the drawing ------------------------------------------------------------------------------ */

static void put_line(zt_str *out, const double points[4], const char *colour, double width)
{
    zt_svg_line(out, points, 2, colour, width, false, NULL);
}

static void put_point(depth_plot *plot, const zt_svg_plot *axes, int64_t index, const char *colour)
{
    const depth_point *point = &plot->points[index], *last = index ? point - 1 : NULL;
    char title[160];
    double x = zt_svg_at_x(axes, (double)point->depth), y = zt_svg_at_y(axes, point->median);
    put_line(&plot->out, (double[]){x, zt_svg_at_y(axes, point->low), x, zt_svg_at_y(axes, point->high)}, colour, 1);
    if (last && last->curve == point->curve)
        put_line(&plot->out, (double[]){zt_svg_at_x(axes, (double)last->depth), zt_svg_at_y(axes, last->median), x, y}, colour,
                 1.6);
    snprintf(title, sizeof title, "depth %" PRId64 ": %.5g tokens/s (%.5g to %.5g)", point->depth, point->median, point->low,
             point->high);
    zt_svg_dot(&plot->out, x, y, 3.5, colour, title);
}

/* The legend is below the axes, a line for each curve. Returns the height. */
static double put_panel(depth_plot *plot, int panel, double top)
{
    double high = 0, deepest = 0, legend = top + HEADING + PANEL + BELOW + LINE;
    unsigned shown = 0;
    for (int64_t i = 0; i < plot->count; i++) {
        deepest = fmax(deepest, (double)plot->points[i].depth);
        if (plot->curves[plot->points[i].curve].panel == panel) high = fmax(high, plot->points[i].high);
    }
    const zt_svg_plot axes = {
        .x = LEFT,
        .y = top + HEADING,
        .width = WIDTH - LEFT - RIGHT,
        .height = PANEL,
        .across = {.low = 0, .high = deepest > 0 ? deepest : 1, .unit = ZT_SVG_WHOLE, .label = "depth (tokens in the context)"},
        .up = {.low = 0, .high = high > 0 ? high * 1.08 : 1, .label = "tokens/s"}};
    zt_svg_text(&plot->out, LEFT, top + HEADING - 6, ZT_SVG_LABEL, ZT_SVG_START, false, headings[panel]);
    zt_svg_axes(&plot->out, &axes);
    for (int64_t i = 0; i < plot->count; i++) {
        const depth_curve *curve = &plot->curves[plot->points[i].curve];
        bool first = i == 0 || plot->points[i - 1].curve != plot->points[i].curve;
        if (curve->panel != panel) continue;
        if (first) {
            const char *colour = zt_svg_colour(shown);
            put_line(&plot->out, (double[]){LEFT, legend - 4, LEFT + 22, legend - 4}, colour, 2.5);
            zt_svg_text_within(&plot->out, LEFT + 28, legend, ZT_SVG_SMALL, WIDTH - LEFT - 28 - 12, curve->label);
            legend += LINE;
            shown++;
        }
        put_point(plot, &axes, i, zt_svg_colour(shown - 1));
    }
    return legend - top;
}

static int count_curves(const depth_plot *plot, int panel)
{
    int count = 0;
    for (int i = 0; i < plot->curve_count; i++) count += plot->curves[i].panel == panel;
    return count;
}

static void draw(depth_plot *plot, const char *cpu)
{
    char title[200];
    double height = TOP, top = TOP;
    for (int panel = 0; panel < N_PANELS; panel++) {
        int curves = count_curves(plot, panel);
        if (curves) height += HEADING + PANEL + BELOW + LINE * (curves + 1);
    }
    if (plot->count) qsort(plot->points, (size_t)plot->count, sizeof *plot->points, compare_points);
    snprintf(title, sizeof title, "Speed by depth, %s", cpu);
    zt_svg_begin(&plot->out, WIDTH, height, title);
    for (int panel = 0; panel < N_PANELS; panel++)
        if (count_curves(plot, panel)) top += put_panel(plot, panel, top);
    zt_svg_end(&plot->out);
}

static zt_status open_plot(zt_cli *cli, depth_plot *plot)
{
    *plot = (depth_plot){.cli = cli, .arena = zt_arena_new(cli->ctx, 0)};
    zt_str_init(&plot->out, cli->ctx);
    return plot->arena ? ZT_OK : ZT_ENOMEM;
}

static void close_plot(depth_plot *plot)
{
    if (plot->left_out)
        zt_cli_note(plot->cli, "%" PRId64 " results are not plotted, the limit is %d curves", plot->left_out, MOST_CURVES);
    zt_free(plot->cli->ctx, plot->points);
    zt_arena_free(plot->arena);
    zt_str_fini(&plot->out);
}

/* ---- of a run, and of files ------------------------------------------------------------------- */

bool bench_plots_depths(zt_cli *cli, const bench_options *options)
{
    bench_numbers depths;
    if (!options->plot || strcmp(cli->operands[0], "model")) return false;
    bool valid = !bench_numbers_of(cli->ctx, "-d", options->depth, 0, INT32_MAX, &depths);
    if (!valid) zt_ctx_clear(cli->ctx); /* the command reports it */
    return valid && depths.count > 1;
}

zt_status bench_plot_depths(zt_cli *cli, const char *path, const bench_list *list)
{
    depth_plot plot;
    bench_machine_id machine;
    bench_machine_here(cli, &machine);
    zt_status status = open_plot(cli, &plot);
    if (!status) status = add_list(&plot, NULL, list);
    if (!status) draw(&plot, machine.cpu);
    if (!status) status = bench_write_plot(cli, path, &plot.out);
    close_plot(&plot);
    return status;
}

zt_status bench_plot(zt_cli *cli, const bench_options *options)
{
    depth_plot plot;
    char cpu[ZT_CPU_MODEL] = "";
    (void)options;
    if (cli->n_operands < 2) return zt_fail(cli->ctx, ZT_EUSAGE, "plot needs files of results: plot FILE.json...");
    zt_status status = open_plot(cli, &plot);
    for (int i = 1; i < cli->n_operands && !status; i++) {
        bench_list list;
        status = bench_read(cli->ctx, cli->operands[i], &list);
        int64_t before = plot.count;
        if (!status) status = add_list(&plot, cli->n_operands > 2 ? cli->operands[i] : NULL, &list);
        if (!status && plot.count == before && !plot.left_out)
            status = zt_fail(cli->ctx, ZT_EDATA, "%s: no results of zt-bench model, such as tg128@d4096", cli->operands[i]);
        if (!*cpu) snprintf(cpu, sizeof cpu, "%s", list.machine.cpu);
        bench_list_free(cli->ctx, &list);
    }
    if (!status) draw(&plot, cpu);
    if (!status) status = zt_ctx_status(cli->ctx);
    if (!status) status = bench_write(cli, plot.out.data, plot.out.len);
    close_plot(&plot);
    return status;
}
