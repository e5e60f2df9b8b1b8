/* zt-quant - quantize a model, and know what it cost. */
#include "tools/zt-quant/quant.h"

/* The way of a file: open, choose, and write; or stop before that. */
static zt_status convert(quant *q)
{
    const quant_options *o = q->o;
    zt_status s = quant_open(q);
    if (s == ZT_OK && quant_is_net(q))
        return quant_net(q);
    if (s == ZT_OK)
        s = quant_check_model(q);
    if (s == ZT_OK)
        s = quant_plan(q);
    if (s == ZT_OK)
        s = quant_meta(q);
    if (s == ZT_OK && quant_fits(o))
        s = quant_fit(q);
    if (s == ZT_OK)
        quant_tell_fallbacks(q);
    if (s == ZT_OK && o->dry_run)
        return quant_print_plan(q);
    if (s == ZT_OK)
        s = quant_write(q);
    return s == ZT_OK && o->measure ? quant_print_losses(q) : s;
}

static zt_status work(quant *q)
{
    zt_status s = quant_options_check(q);
    if (s != ZT_OK)
        return s;
    if (q->o->list_types)
        return quant_list_types(q->cli);
    return q->o->make_imatrix ? quant_make_imatrix(q) : convert(q);
}

int main(int argc, char **argv)
{
    quant_options *o = quant_options_init();
    zt_cli *cli = zt_cli_open(&quant_tool, argc, argv);
    quant q = {.cli = cli, .ctx = cli->ctx, .o = o, .target = o->target};
    zt_status s = work(&q);
    quant_crew_free(q.crew);
    zt_imatrix_close(q.imatrix);
    zt_checkpoint_close(q.in);
    for (int i = 0; q.glob && i < o->wishes.n; i++)
        zt_free(q.ctx, q.glob[i]);
    zt_free(q.ctx, q.glob);
    zt_free(q.ctx, q.wish);
    zt_free(q.ctx, q.net_wish);
    zt_free(q.ctx, q.job);
    return zt_cli_close(cli, s);
}
