/* keep.c - what is left of a run besides its figures: the history's entry, drawings. */
#include "tools/zt-bench/history.h"

#include <unistd.h>

zt_status bench_check_plot(zt_cli *cli, const bench_options *o)
{
    if (!o->plot) return ZT_OK;
    if (o->no_roof || o->vs)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--plot: %s measures no roof",
                       o->no_roof ? "--no-roof" : "--vs");
    if (!cli->force && access(o->plot, F_OK) == 0)
        return zt_fail(cli->ctx, ZT_ECREATE, "%s: exists already (-f overwrites)", o->plot);
    return ZT_OK;
}

zt_status bench_write_plot(zt_cli *cli, const char *path, const zt_str *svg)
{
    zt_sink *to = zt_ctx_status(cli->ctx) ? NULL : zt_sink_open(cli->ctx, path, cli->force);
    zt_status s = to ? zt_sink_write(to, svg->data, svg->len) : zt_ctx_status(cli->ctx);
    if (!s) s = zt_sink_commit(to);
    zt_sink_close(to);
    return s;
}

zt_status bench_keep(zt_cli *cli, const bench_options *o, const bench_list *l)
{
    zt_status s = o->history ? bench_history_add(cli, o->history, l) : ZT_OK;
    return !s && o->plot ? bench_roofline(cli, o->plot, l) : s;
}
