/* pool.c - pools over windows and their ways back; max_unpool and plane_gather are in index.c. */
#include "lib/engine/cuda/window.h"

static bool plain_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_plain(in[0]->dtype);
}

static zt_status emit(zt_cu_call *c, zt_cu_pool_args *a, const zt_window_lists *l,
                      const zt_ints *kernel, const zt_type *large, const zt_type *small, bool back)
{
    static const char *const names[] = {"zt_cu_pool", "zt_cu_unpool", "zt_cu_max_pool"};
    const zt_window w = zt_window_of(l, large, small, kernel->v);
    zt_status s = zt_cu_window_of(c, &w, &a->win);
    if (s) return s;
    a->planes = large->dim[0] * large->dim[1];
    a->type = c->in[0]->dtype;
    return zt_cu_launch_each(c, names[a->kind == ZT_CU_POOL_MAX ? 2 : back],
                             a->planes * (back ? w.n_in : w.n_out), a, sizeof *a);
}

static zt_status emit_max(zt_cu_call *c)
{
    const zt_max_pool_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_pool_args a = {.x = c->x[0], .y = c->y[0], .i = c->y[1], .kind = ZT_CU_POOL_MAX};
    return emit(c, &a, &l, &n->kernel, c->in[0], c->out[0] ? c->out[0] : c->out[1], false);
}

static zt_cu_pool_args averaged(const zt_cu_call *c, int64_t divisor, bool count_pad)
{
    return (zt_cu_pool_args){.x = c->x[0],
                             .y = c->y[0],
                             .divisor = divisor,
                             .kind = ZT_CU_POOL_AVG,
                             .count_pad = count_pad};
}

static zt_status emit_avg(zt_cu_call *c)
{
    const zt_avg_pool_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_pool_args a = averaged(c, n->divisor_override, n->count_include_pad != 0);
    return emit(c, &a, &l, &n->kernel, c->in[0], c->out[0], false);
}

static zt_status emit_avg_back(zt_cu_call *c)
{
    const zt_avg_unpool_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_pool_args a = averaged(c, n->divisor_override, n->count_include_pad != 0);
    return emit(c, &a, &l, &n->kernel, c->out[0], c->in[0], true);
}

static zt_status emit_lp(zt_cu_call *c)
{
    const zt_lp_pool_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_pool_args a = {.x = c->x[0], .y = c->y[0], .p = n->p, .kind = ZT_CU_POOL_LP};
    return emit(c, &a, &l, &n->kernel, c->in[0], c->out[0], false);
}

static zt_status emit_smooth(zt_cu_call *c)
{
    const zt_smooth_max_pool_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_pool_args a = {.x = c->x[0],
                         .y = c->y[0],
                         .p = n->beta,
                         .pad_value = n->pad_value,
                         .kind = ZT_CU_POOL_SMOOTH};
    return emit(c, &a, &l, &n->kernel, c->in[0], c->out[0], false);
}

static zt_cu_pool_args weighted(const zt_cu_call *c, double beta)
{
    return (zt_cu_pool_args){.x = c->x[0],
                             .y = c->y[0],
                             .top = c->x[1],
                             .v = c->x[2],
                             .p = beta,
                             .kind = ZT_CU_POOL_MEAN};
}

static zt_status emit_smooth_back(zt_cu_call *c)
{
    const zt_smooth_max_unpool_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_pool_args a = weighted(c, n->beta);
    return emit(c, &a, &l, &n->kernel, c->in[0], c->in[1], true);
}

static zt_status emit_smooth_mean(zt_cu_call *c)
{
    const zt_smooth_max_mean_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_pool_args a = weighted(c, n->beta);
    return emit(c, &a, &l, &n->kernel, c->in[0], c->in[1], false);
}

const zt_cu_row zt_cu_pools[] = {
    {.op = ZT_OP_max_pool, .has = plain_has, .emit = emit_max},
    {.op = ZT_OP_avg_pool, .has = plain_has, .emit = emit_avg},
    {.op = ZT_OP_avg_unpool, .has = plain_has, .emit = emit_avg_back},
    {.op = ZT_OP_lp_pool, .has = plain_has, .emit = emit_lp},
    {.op = ZT_OP_smooth_max_pool, .has = plain_has, .emit = emit_smooth},
    {.op = ZT_OP_smooth_max_unpool, .has = plain_has, .emit = emit_smooth_back},
    {.op = ZT_OP_smooth_max_mean, .has = plain_has, .emit = emit_smooth_mean},
    {.emit = NULL},
};
