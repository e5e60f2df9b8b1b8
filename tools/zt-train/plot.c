/* plot.c - the loss by epochs as SVG. */
#include "tools/common/svg.h"
#include "tools/zt-train/train_tool.h"

#include <math.h>

static void draw(zt_cli *cli, zt_str *out, const zt_svg_plot *plot, const double *y, int64_t n,
                 unsigned colour)
{
    double *xy = zt_alloc_array(cli->ctx, (size_t)n + 1, 2 * sizeof *xy);
    size_t k = 0;
    for (int64_t i = 0; xy && i < n; i++) {
        if (!isfinite(y[i])) continue;
        xy[2 * k] = zt_svg_at_x(plot, (double)(i + 1));
        xy[2 * k++ + 1] = zt_svg_at_y(plot, y[i]);
    }
    if (k) zt_svg_line(out, xy, k, zt_svg_colour(colour), 2, false, NULL);
    zt_free(cli->ctx, xy);
}

static double most(const double *y, int64_t n, double above)
{
    for (int64_t i = 0; i < n; i++)
        if (isfinite(y[i]) && y[i] > above) above = y[i];
    return above;
}

zt_status train_plot(zt_cli *cli, const char *path, const double *loss, const double *valid,
                     int64_t n)
{
    zt_str s;
    zt_str_init(&s, cli->ctx);
    zt_svg_plot plot = {.x = 84, .y = 40, .w = 540, .h = 300,
                        .across = {0, n > 1 ? (double)n : 1, .label = "epoch"},
                        .up = {0, most(valid, n, most(loss, n, 1e-12)), .label = "loss"}};
    zt_svg_begin(&s, 650, 400, "loss");
    zt_svg_axes(&s, &plot);
    draw(cli, &s, &plot, loss, n, 0);
    draw(cli, &s, &plot, valid, n, 1);
    zt_svg_text(&s, 600, 56, ZT_SVG_SMALL, ZT_SVG_STOP, false, "trained on; and held out, if any");
    zt_svg_end(&s);
    zt_status st = zt_ctx_status(cli->ctx);
    zt_sink *sink = st ? NULL : zt_sink_open(cli->ctx, path, cli->force);
    if (!st) st = sink ? zt_sink_write(sink, s.data, s.len) : zt_ctx_status(cli->ctx);
    if (!st) st = zt_sink_commit(sink);
    zt_sink_close(sink);
    zt_str_fini(&s);
    return st;
}
