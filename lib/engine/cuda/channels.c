/* channels.c - rows of norms by channels and of their gradients. */
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/cu.h"

#define OF_TYPE(name)                                                                              \
    {                                                                                              \
        name "_f32", name "_f16", name "_bf16", name "_f64"                                        \
    }
static const char *const norm_names[] = OF_TYPE("zt_set_norm");
static const char *const known_names[] = OF_TYPE("zt_known_norm");
static const char *const back_names[] = OF_TYPE("zt_set_back");
static const char *const channel_names[] = OF_TYPE("zt_channel_back");

static bool has_float(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)attrs, (void)out;
    return (zt_cu_is_float(in[0]->dtype) || in[0]->dtype == ZT_F64) &&
           in[0]->dim[0] * in[0]->dim[1] <= (int64_t)e->max_grid[0];
}

static zt_status launch(zt_cu_call *c, const char *const names[4], zt_cu_dim grid,
                        const zt_cu_set_args *a)
{
    zt_dtype t = c->in[0]->dtype;
    const char *name = names[t == ZT_F32 ? 0 : t == ZT_F16 ? 1 : t == ZT_BF16 ? 2 : 3];
    return zt_cu_launch(c, name, grid, (zt_cu_dim){256, 1, 1}, 0, a, sizeof *a);
}

/* Sizes; groups 0: a set is a channel of all samples. */
static zt_cu_set_args sets_of(const zt_cu_call *c, int64_t groups)
{
    const zt_type *x = c->in[0];
    zt_cu_set_args a = {.x = c->x[0], .N = x->dim[0], .C = x->dim[1], .size = 1, .groups = groups};
    for (int d = 2; d < x->rank; d++) a.size *= x->dim[d];
    a.of = groups ? a.C / groups : 1;
    return a;
}

/* A block a set. */
static zt_cu_dim sets(const zt_cu_set_args *a)
{
    return (zt_cu_dim){(unsigned)(a->groups ? a->N * a->groups : a->C), 1, 1};
}

static zt_status emit_batch_norm(zt_cu_call *c)
{
    const zt_batch_norm_attrs *at = c->attrs;
    zt_cu_set_args a = sets_of(c, 0);
    a.g = c->x[1], a.b = c->x[2], a.run_mean = c->x[3], a.run_var = c->x[4];
    a.y = c->y[0], a.mean = c->y[1], a.rstd = c->y[2], a.new_mean = c->y[3], a.new_var = c->y[4];
    a.eps = at->eps;
    a.momentum = at->momentum;
    a.unbiased = at->unbiased != 0;
    return launch(c, norm_names, sets(&a), &a);
}

static zt_status emit_inference(zt_cu_call *c)
{
    zt_cu_set_args a = sets_of(c, 0);
    a.mean = c->x[1], a.run_var = c->x[2], a.g = c->x[3], a.b = c->x[4];
    a.y = c->y[0];
    a.eps = ((const zt_batch_norm_inference_attrs *)c->attrs)->eps;
    return launch(c, known_names, zt_cu_grid(zt_type_count(c->in[0]), 256), &a);
}

static zt_status emit_group_norm(zt_cu_call *c)
{
    const zt_group_norm_attrs *at = c->attrs;
    zt_cu_set_args a = sets_of(c, at->groups);
    a.g = c->x[1], a.b = c->x[2];
    a.y = c->y[0], a.mean = c->y[1], a.rstd = c->y[2];
    a.eps = at->eps;
    return launch(c, norm_names, sets(&a), &a);
}

/* Both gradients: x, mean, rstd, dy, g. */
static zt_status back(zt_cu_call *c, int64_t groups, bool training)
{
    zt_cu_set_args a = sets_of(c, groups);
    zt_status s = ZT_OK;
    a.mean = c->x[1], a.rstd = c->x[2], a.dy = c->x[3], a.g = c->x[4];
    a.dx = c->y[0], a.dg = c->y[1], a.db = c->y[2];
    a.training = training;
    if (a.dx) s = launch(c, back_names, sets(&a), &a);
    if (s || (!a.dg && !a.db)) return s;
    return launch(c, channel_names, (zt_cu_dim){(unsigned)a.C, 1, 1}, &a);
}

static zt_status emit_batch_back(zt_cu_call *c)
{
    return back(c, 0, ((const zt_batch_norm_backward_attrs *)c->attrs)->training != 0);
}

static zt_status emit_group_back(zt_cu_call *c) { return back(c, c->in[1]->dim[1], true); }

const zt_cu_row zt_cu_channels[] = {
    {ZT_OP_batch_norm, has_float, emit_batch_norm, 0},
    {ZT_OP_batch_norm_inference, has_float, emit_inference, 0},
    {ZT_OP_batch_norm_backward, has_float, emit_batch_back, 0},
    {ZT_OP_group_norm, has_float, emit_group_norm, 0},
    {ZT_OP_group_norm_backward, has_float, emit_group_back, 0},
    {0},
};
