/* conv.c - convolution and its gradients. */
#include "lib/engine/cuda/reduce.h"
#include "lib/engine/cuda/window.h"

#include <string.h>

enum { THREADS = 256, TILE = 64, FEW = 8, PART = 2048 };

/* ---- windows -----------------------------------------------------------------------------------
 */

static void set_reach(const zt_window *w, int32_t *reach)
{
    for (int64_t tap = 0; tap < w->taps; tap++) {
        int64_t rest = tap;
        for (int d = w->n - 1; d >= 0; d--) {
            reach[tap * w->n + d] = (int32_t)(rest % w->k[d] * w->dilation[d]);
            rest /= w->k[d];
        }
    }
}

zt_status zt_cu_window_of(zt_cu_call *c, const zt_window *w, zt_cu_window *out)
{
    zt_ctx *ctx = c->e->base.ctx;
    *out = (zt_cu_window){.n_in = w->n_in, .n_out = w->n_out, .taps = w->taps, .n = w->n};
    memcpy(out->in, w->in, sizeof out->in);
    memcpy(out->out, w->out, sizeof out->out);
    memcpy(out->k, w->k, sizeof out->k);
    memcpy(out->stride, w->stride, sizeof out->stride);
    memcpy(out->pad, w->pad, sizeof out->pad);
    memcpy(out->end, w->end, sizeof out->end);
    memcpy(out->dilation, w->dilation, sizeof out->dilation);
    const size_t bytes = (size_t)w->taps * (size_t)w->n * sizeof(int32_t);
    int32_t *reach = zt_alloc(ctx, bytes + 1);
    if (!reach) return ZT_ENOMEM;
    set_reach(w, reach);
    out->reach = zt_cu_table(c, reach, bytes);
    zt_free(ctx, reach);
    return out->reach ? ZT_OK : zt_ctx_status(ctx);
}

/* ---- launches ----------------------------------------------------------------------------------
 */

static bool conv_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_wide_float(in[0]->dtype);
}

/* Rows and columns of a group's product, and how long its sums are. */
static void sizes_of(const zt_cu_conv_args *a, int64_t *M, int64_t *J, int64_t *K)
{
    const int64_t ag = a->A / a->groups, bg = a->B / a->groups, taps = a->win.taps;
    *M = a->kind == ZT_CU_DATA ? bg : ag;
    *J = a->kind == ZT_CU_FORWARD ? a->N * a->win.n_out
         : a->kind == ZT_CU_DATA  ? a->N * a->win.n_in
                                  : bg * taps;
    *K = a->kind == ZT_CU_FORWARD ? bg * taps
         : a->kind == ZT_CU_DATA  ? ag * taps
                                  : a->N * a->win.n_out;
}

static zt_status launch(zt_cu_call *c, const zt_cu_conv_args *a, int64_t M, int64_t J)
{
    const int64_t tiles = (M + TILE - 1) / TILE * ((J + TILE - 1) / TILE);
    /* Which kernel must not hang on the batch: a sample's bits do not. */
    const int64_t one = a->kind == ZT_CU_FILTER || !a->N ? J : J / a->N;
    if (M < FEW || one < FEW || a->groups > 65535)
        return zt_cu_launch_each(c, "zt_cu_conv_ones", M * J * a->groups * a->parts, a, sizeof *a);
    zt_cu_dim grid = zt_cu_grid(tiles, 1);
    grid.y = (unsigned)a->groups;
    grid.z = (unsigned)a->parts;
    return zt_cu_launch(c, a->type == ZT_F64 ? "zt_cu_conv_tiles_f64" : "zt_cu_conv_tiles", grid,
                        (zt_cu_dim){THREADS, 1, 1}, 0, a, sizeof *a);
}

/* Of a filter's long sums, parts of a fixed size are summed apart. */
static zt_status emit(zt_cu_call *c, zt_cu_conv_args *a)
{
    int64_t M, J, K;
    sizes_of(a, &M, &J, &K);
    a->each = a->kind == ZT_CU_FILTER && K > PART ? PART : K ? K : 1;
    while (a->kind == ZT_CU_FILTER && K / a->each >= 1024) a->each *= 2;
    a->parts = K > a->each ? (K + a->each - 1) / a->each : 1;
    a->y = c->y[0];
    a->type = c->in[0]->dtype;
    a->y_type = a->type;
    if (a->parts == 1) return launch(c, a, M, J);
    const zt_dtype type = (zt_dtype)a->type, wide = type == ZT_F64 ? ZT_F64 : ZT_F32;
    const int64_t n = M * J * a->groups;
    a->y = zt_cu_scratch(c, (size_t)(n * a->parts) * (size_t)zt_dtype_get(wide)->block_bytes);
    if (!a->y) return zt_ctx_status(c->e->base.ctx);
    a->y_type = wide;
    zt_status s = launch(c, a, M, J);
    return s ? s
             : zt_cu_fold_rows(c, ZT_CU_SUM, a->y, wide, c->y[0], c->out[0]->dtype, n, a->parts, 1);
}

/* ---- rows --------------------------------------------------------------------------------------
 */

static zt_status set_window(zt_cu_call *c, zt_cu_conv_args *a, const zt_window_lists *l,
                            const zt_type *large, const zt_type *small, const zt_type *w)
{
    const zt_window win = zt_window_of(l, large, small, w->dim + 2);
    a->N = large->dim[0];
    a->A = small->dim[1];
    a->B = large->dim[1];
    return zt_cu_window_of(c, &win, &a->win);
}

static zt_status emit_conv(zt_cu_call *c)
{
    const zt_conv_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_conv_args a = {.large = c->x[0],
                         .w = c->x[1],
                         .bias = c->x[2],
                         .groups = n->groups,
                         .kind = ZT_CU_FORWARD};
    zt_status s = set_window(c, &a, &l, c->in[0], c->out[0], c->in[1]);
    return s ? s : emit(c, &a);
}

static zt_status emit_conv_transpose(zt_cu_call *c)
{
    const zt_conv_transpose_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_conv_args a = {
        .small = c->x[0], .w = c->x[1], .bias = c->x[2], .groups = n->groups, .kind = ZT_CU_DATA};
    zt_status s = set_window(c, &a, &l, c->out[0], c->in[0], c->in[1]);
    return s ? s : emit(c, &a);
}

static zt_status emit_conv_filter(zt_cu_call *c)
{
    const zt_conv_backward_filter_attrs *n = c->attrs;
    const zt_window_lists l = ZT_WINDOW_LISTS(n);
    zt_cu_conv_args a = {
        .large = c->x[0], .small = c->x[1], .groups = n->groups, .kind = ZT_CU_FILTER};
    zt_status s = set_window(c, &a, &l, c->in[0], c->in[1], c->out[0]);
    return s ? s : emit(c, &a);
}

const zt_cu_row zt_cu_conv[] = {
    {.op = ZT_OP_conv, .has = conv_has, .emit = emit_conv},
    {.op = ZT_OP_conv_transpose, .has = conv_has, .emit = emit_conv_transpose},
    {.op = ZT_OP_conv_backward_filter, .has = conv_has, .emit = emit_conv_filter},
    {.emit = NULL},
};
