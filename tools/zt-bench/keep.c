/* keep.c - what is left of a run besides its figures: the history's entry, drawings. */
#include "tools/zt-bench/history.h"

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
    return o->history ? bench_history_add(cli, o->history, l) : ZT_OK;
}
