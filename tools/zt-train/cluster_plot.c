/* cluster_plot.c - drawings of clusters: samples on their two principal components, or the tree of a linkage. */
#include "tools/common/svg.h"
#include "tools/zt-train/cluster.h"

#include <string.h>

enum { WIDTH = 540, HEIGHT = 400, LEFT = 84, TOP = 40 };

static zt_svg_plot make_plot(double left, double right, double low, double high, const char *across, const char *up)
{
    return (zt_svg_plot){.x = LEFT,
                         .y = TOP,
                         .width = WIDTH,
                         .height = HEIGHT,
                         .across = {left, right > left ? right : left + 1, .label = across},
                         .up = {low, high > low ? high : low + 1, .label = up}};
}

/* ---- principal components ---------------------------------------------------------------------- */

/* Samples less their mean: [count, width]. */
static double *centre_points(zt_ctx *ctx, const zt_points *points)
{
    size_t count = (size_t)points->count, width = (size_t)points->width;
    double *rows = zt_alloc_array(ctx, count, width * sizeof *rows);
    for (size_t k = 0; k < width && rows; k++) {
        double sum = 0;
        for (size_t i = 0; i < count; i++) sum += (double)points->values[i * width + k];
        for (size_t i = 0; i < count; i++) rows[i * width + k] = (double)points->values[i * width + k] - sum / (double)count;
    }
    return rows;
}

static double project(const double *row, const double *axis, int64_t width)
{
    double sum = 0;
    for (int64_t k = 0; k < width; k++) sum += row[k] * axis[k];
    return sum;
}

static double scale_to_one(double *axis, int64_t width)
{
    double length = sqrt(project(axis, axis, width));
    for (int64_t k = 0; k < width && length > 0; k++) axis[k] /= length;
    return length;
}

/* The largest component of the rows that is orthogonal to `first` (NULL: to nothing), by power iteration. room: [width]. Its sign makes
 * the largest element positive. All zeros if there is none. */
static void find_component(const double *rows, const zt_points *points, const double *first, double *axis, double *room)
{
    enum { PASSES = 100 };
    int64_t width = points->width, largest = 0;
    for (int64_t k = 0; k < width; k++) axis[k] = zt_normal(0, first ? 1 : 0, (uint64_t)k);
    for (int pass = 0; pass < PASSES; pass++) {
        memset(room, 0, (size_t)width * sizeof *room);
        double along = first ? project(axis, first, width) : 0;
        for (int64_t k = 0; k < width && first; k++) axis[k] -= along * first[k];
        if (!(scale_to_one(axis, width) > 0)) break;
        for (int64_t i = 0; i < points->count; i++) {
            double share = project(rows + i * width, axis, width);
            for (int64_t k = 0; k < width; k++) room[k] += share * rows[i * width + k];
        }
        memcpy(axis, room, (size_t)width * sizeof *axis);
        if (!(scale_to_one(axis, width) > 0)) break;
    }
    for (int64_t k = 0; k < width; k++)
        if (fabs(axis[k]) > fabs(axis[largest])) largest = k;
    double sign = axis[largest] < 0 ? -1 : 1;
    for (int64_t k = 0; k < width; k++) axis[k] *= sign;
}

/* xy: [count, 2] */
static zt_status find_positions(const train_clusters *work, double *xy)
{
    zt_ctx *ctx = work->cli->ctx;
    const zt_points *points = &work->points;
    size_t width = (size_t)points->width;
    double *rows = centre_points(ctx, points), *axes = zt_calloc(ctx, 3 * width, sizeof *axes);
    if (rows && axes) {
        find_component(rows, points, NULL, axes, axes + 2 * width);
        if (width > 1) find_component(rows, points, axes, axes + width, axes + 2 * width);
        for (int64_t i = 0; i < points->count; i++)
            for (int axis = 0; axis < 2; axis++)
                xy[2 * i + axis] = project(rows + i * points->width, axes + axis * points->width, points->width);
    }
    bool good = rows && axes;
    zt_free(ctx, rows);
    zt_free(ctx, axes);
    return good ? ZT_OK : ZT_ENOMEM;
}

static zt_status draw_points(const train_clusters *work, zt_str *out)
{
    int64_t count = work->points.count;
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    double *xy = zt_alloc_array(work->cli->ctx, (size_t)count, 2 * sizeof *xy);
    zt_status status = xy ? find_positions(work, xy) : ZT_ENOMEM;
    for (int64_t i = 0; i < 2 * count && !status; i++) {
        low[i % 2] = fmin(low[i % 2], xy[i]);
        high[i % 2] = fmax(high[i % 2], xy[i]);
    }
    zt_svg_plot plot = make_plot(low[0], high[0], low[1], high[1], "first principal component", "second principal component");
    if (!status) zt_svg_axes(out, &plot);
    for (int64_t i = 0; i < count && !status; i++) {
        char title[64];
        snprintf(title, sizeof title, "sample %lld, cluster %lld", (long long)i, (long long)work->label[i]);
        zt_svg_dot(out, zt_svg_at_x(&plot, xy[2 * i]), zt_svg_at_y(&plot, xy[2 * i + 1]), 3,
                   zt_svg_colour((unsigned)work->label[i]), title);
    }
    zt_free(work->cli->ctx, xy);
    return status;
}

/* ---- trees ------------------------------------------------------------------------------------- */

typedef struct branch {
    double x, y;     /* middle and height: the distance of its step */
    int64_t cluster; /* -1: of several */
} branch;

/* Samples from left to right, so that no two branches cross: place[count]. stack: room for [2 count]. */
static void order_samples(const train_clusters *work, int64_t *place, int64_t *stack)
{
    int64_t count = work->points.count, depth = 0, next = 0;
    stack[depth++] = 2 * count - 2;
    while (depth) {
        int64_t cluster = stack[--depth];
        if (cluster < count) {
            place[cluster] = next++;
            continue;
        }
        stack[depth++] = work->steps[cluster - count].right;
        stack[depth++] = work->steps[cluster - count].left;
    }
}

static void draw_step(zt_str *out, const zt_svg_plot *plot, const branch *left, const branch *right, const branch *both)
{
    double xy[] = {left->x, left->y, left->x, both->y, right->x, both->y, right->x, right->y};
    for (int i = 0; i < 4; i++) {
        xy[2 * i] = zt_svg_at_x(plot, xy[2 * i]);
        xy[2 * i + 1] = zt_svg_at_y(plot, xy[2 * i + 1]);
    }
    zt_svg_line(out, xy, 4, both->cluster < 0 ? "#808080" : zt_svg_colour((unsigned)both->cluster), 1.5, false, NULL);
}

static zt_status draw_tree(const train_clusters *work, zt_str *out)
{
    int64_t count = work->points.count;
    zt_ctx *ctx = work->cli->ctx;
    int64_t *room = zt_alloc_array(ctx, 3 * (size_t)count, sizeof *room);
    branch *all = zt_alloc_array(ctx, 2 * (size_t)count, sizeof *all);
    zt_status status = room && all ? ZT_OK : ZT_ENOMEM;
    zt_svg_plot plot = make_plot(0, (double)count, 0, count > 1 ? work->steps[count - 2].distance : 1, "samples", "distance");
    if (!status) order_samples(work, room, room + count);
    if (!status) zt_svg_axes(out, &plot);
    for (int64_t i = 0; i < count && !status; i++) all[i] = (branch){(double)room[i] + 0.5, 0, work->label[i]};
    for (int64_t i = 0; i + 1 < count && !status; i++) {
        const branch *left = &all[work->steps[i].left], *right = &all[work->steps[i].right];
        branch both = {(left->x + right->x) / 2, work->steps[i].distance, left->cluster == right->cluster ? left->cluster : -1};
        draw_step(out, &plot, left, right, &both);
        all[count + i] = both;
    }
    zt_free(ctx, room);
    zt_free(ctx, all);
    return status;
}

/* ---- all --------------------------------------------------------------------------------------- */

zt_status train_cluster_plot(const train_clusters *work)
{
    zt_str text;
    zt_str_init(&text, work->cli->ctx);
    zt_svg_begin(&text, LEFT + WIDTH + 26, TOP + HEIGHT + 60, "clusters");
    zt_status status = work->steps ? draw_tree(work, &text) : draw_points(work, &text);
    zt_svg_end(&text);
    if (!status) status = zt_ctx_status(work->cli->ctx);
    if (!status) status = zt_sink_put_file(work->cli->ctx, work->options->plot, work->cli->force, text.data, text.len);
    zt_str_fini(&text);
    return status;
}
