/* plot.c - the loss by epochs as SVG. */
#include "tools/common/svg.h"
#include "tools/zt-train/train_tool.h"

#include <math.h>

static void draw_curve(zt_cli *cli, zt_str *out, const zt_svg_plot *plot, const double *values, int64_t count, unsigned colour)
{
    double *points = zt_alloc_array(cli->ctx, (size_t)count + 1, 2 * sizeof *points);
    size_t k = 0;
    for (int64_t i = 0; points && i < count; i++) {
        if (!isfinite(values[i])) continue;
        points[2 * k] = zt_svg_at_x(plot, (double)(i + 1));
        points[2 * k++ + 1] = zt_svg_at_y(plot, values[i]);
    }
    if (k) zt_svg_line(out, points, k, zt_svg_colour(colour), 2, false, NULL);
    zt_free(cli->ctx, points);
}

static double find_maximum(const double *values, int64_t count, double above)
{
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i]) && values[i] > above) above = values[i];
    return above;
}

zt_status train_plot(zt_cli *cli, const char *path, const double *loss, const double *valid, int64_t count)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_svg_plot plot = {.x = 84,
                        .y = 40,
                        .width = 540,
                        .height = 300,
                        .across = {0, count > 1 ? (double)count : 1, .label = "epoch"},
                        .up = {0, find_maximum(valid, count, find_maximum(loss, count, 1e-12)), .label = "loss"}};
    zt_svg_begin(&text, 650, 400, "loss");
    zt_svg_axes(&text, &plot);
    draw_curve(cli, &text, &plot, loss, count, 0);
    draw_curve(cli, &text, &plot, valid, count, 1);
    zt_svg_text(&text, 600, 56, ZT_SVG_SMALL, ZT_SVG_STOP, false, "blue: training; orange: validation");
    zt_svg_end(&text);
    zt_status status = zt_ctx_status(cli->ctx);
    if (!status) status = zt_sink_put_file(cli->ctx, path, cli->force, text.data, text.len);
    zt_str_fini(&text);
    return status;
}
