/* reduce.c - folds over axes: which dimensions go, and in how many parts. All of it depends on
 * shapes alone. */
#include "lib/engine/cuda/args_elementwise.h"
#include "lib/engine/cuda/reduce.h"

#include <string.h>

enum { THREADS = 256 };

static zt_dtype wide_of(zt_dtype t)
{
    return t == ZT_F64 ? ZT_F64 : zt_cu_is_float(t) ? ZT_F32 : ZT_I64;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

static void add_dim(int32_t *n, int64_t *dim, int64_t *step, int64_t d, int64_t s)
{
    if (d == 1) return;
    if (*n && s == step[*n - 1] * dim[*n - 1]) {
        dim[*n - 1] *= d;
        return;
    }
    dim[*n] = d;
    step[(*n)++] = s;
}

/* x's dimensions: those marked go. */
static void set_dims(zt_cu_reduce_args *a, const zt_type *x, const bool *gone)
{
    int64_t step = 1;
    a->kept = a->gone = 1;
    for (int d = x->rank - 1; d >= 0; step *= x->dim[d--]) {
        if (gone[d])
            add_dim(&a->n_gone, a->gone_dim, a->gone_step, x->dim[d], step);
        else
            add_dim(&a->n_kept, a->kept_dim, a->kept_step, x->dim[d], step);
        *(gone[d] ? &a->gone : &a->kept) *= x->dim[d];
    }
    if (!a->n_gone) a->gone_dim[a->n_gone++] = 1;
    if (!a->n_kept) a->kept_dim[a->n_kept++] = 1;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* A block takes a row where what goes lies in a row; else a thread does. */
static bool by_rows(const zt_cu_reduce_args *a) { return a->gone >= 32 && a->gone_step[0] == 1; }

/* Of few long rows, the elements of a part; else all. */
static int64_t part_of(const zt_cu_reduce_args *a)
{
    if (a->fold == ZT_CU_LSE) return a->gone;
    if (by_rows(a)) return a->gone > 32768 && a->kept < 512 ? 8192 : a->gone;
    return a->gone > 512 && a->kept < 65536 ? 128 : a->gone;
}

static zt_status launch(zt_cu_call *c, zt_cu_reduce_args *a)
{
    const bool rows = by_rows(a);
    const int64_t n = a->kept * a->parts;
    return zt_cu_launch(c, rows ? "zt_cu_reduce_rows" : "zt_cu_reduce_columns",
                        zt_cu_spread(c, n, rows ? 1 : THREADS), (zt_cu_dim){THREADS, 1, 1}, 0, a,
                        sizeof *a);
}

static zt_status reduce(zt_cu_call *c, zt_cu_reduce_args *a)
{
    const zt_dtype wide = wide_of((zt_dtype)a->x_type), y_type = (zt_dtype)a->y_type;
    const zt_cu_ptr y = a->y;
    const double by = a->by;
    a->each = part_of(a);
    a->parts = a->each < a->gone ? (a->gone + a->each - 1) / a->each : 1;
    if (!a->each) a->each = 1;
    if (a->parts == 1 || !a->kept) return launch(c, a);
    zt_cu_ptr parts = zt_cu_scratch(c, (size_t)(a->kept * a->parts) * 8);
    if (!parts) return zt_ctx_status(c->e->base.ctx);
    a->y = parts;
    a->y_type = wide;
    a->by = 1;
    zt_status s = launch(c, a);
    return s ? s
             : zt_cu_fold_rows(c, (zt_cu_fold)a->fold, parts, wide, y, y_type, a->kept, a->parts,
                               by);
}

zt_status zt_cu_fold_rows(zt_cu_call *c, zt_cu_fold fold, zt_cu_ptr x, zt_dtype x_type, zt_cu_ptr y,
                          zt_dtype y_type, int64_t rows, int64_t n, double by)
{
    const zt_type t = zt_type_make(x_type, 2, (int64_t[]){rows, n});
    zt_cu_reduce_args a = {
        .x = x, .y = y, .by = by, .fold = fold, .x_type = x_type, .y_type = y_type};
    set_dims(&a, &t, (bool[]){false, true});
    return reduce(c, &a);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool plain_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_plain(in[0]->dtype);
}

static void gone_axes(const zt_ints *axes, int rank, bool *gone)
{
    for (int d = 0; d < rank; d++) gone[d] = axes->n == 0;
    for (int64_t i = 0; i < axes->n; i++)
        gone[axes->v[i] < 0 ? axes->v[i] + rank : axes->v[i]] = true;
}

static zt_status emit_fold(zt_cu_call *c, zt_cu_fold fold, bool mean)
{
    const zt_type *x = c->in[0];
    bool gone[ZT_MAX_RANK];
    zt_cu_reduce_args a = {
        .x = c->x[0], .y = c->y[0], .by = 1, .fold = fold, .x_type = x->dtype, .y_type = x->dtype};
    gone_axes(&((const zt_sum_attrs *)c->attrs)->axes, x->rank, gone);
    set_dims(&a, x, gone);
    if (mean) a.by = (double)a.gone;
    return reduce(c, &a);
}

static zt_status emit_sum(zt_cu_call *c) { return emit_fold(c, ZT_CU_SUM, false); }
static zt_status emit_mean(zt_cu_call *c) { return emit_fold(c, ZT_CU_SUM, true); }
static zt_status emit_prod(zt_cu_call *c) { return emit_fold(c, ZT_CU_PROD, false); }
static zt_status emit_amax(zt_cu_call *c) { return emit_fold(c, ZT_CU_MAX, false); }
static zt_status emit_amin(zt_cu_call *c) { return emit_fold(c, ZT_CU_MIN, false); }
static zt_status emit_logsumexp(zt_cu_call *c) { return emit_fold(c, ZT_CU_LSE, false); }

/* Over what `like` would be repeated along. */
static zt_status emit_sum_to(zt_cu_call *c)
{
    const zt_type *x = c->in[0], *y = c->out[0];
    bool gone[ZT_MAX_RANK];
    zt_cu_reduce_args a = {.x = c->x[0],
                           .y = c->y[0],
                           .by = 1,
                           .fold = ZT_CU_SUM,
                           .x_type = x->dtype,
                           .y_type = x->dtype};
    for (int d = 0; d < x->rank; d++) {
        int at = d - (x->rank - y->rank);
        gone[d] = at < 0 || (y->dim[at] == 1 && x->dim[d] != 1);
    }
    set_dims(&a, x, gone);
    return reduce(c, &a);
}

/* A chain of one op, whose operand stands still along the axes. */
static zt_status emit_spread(zt_cu_call *c)
{
    const zt_spread_attrs *s = c->attrs;
    const zt_type *y = c->out[0];
    bool gone[ZT_MAX_RANK];
    int64_t step = 1, times = 1;
    gone_axes(&s->axes, y->rank, gone);
    zt_cu_chain_args a = {
        .n = zt_type_count(y),
        .x = {c->x[0]},
        .y = {c->y[0]},
        .n_ops = 1,
        .n_in = 1,
        .x_type = {(uint8_t)y->dtype},
        .y_type = {(uint8_t)y->dtype},
        .one = {.fn = ZT_CU_F_scale, .of = (uint8_t)y->dtype, .to = (uint8_t)y->dtype}};
    for (int d = y->rank - 1; d >= 0; d--) {
        a.dim[a.n_dims] = y->dim[d];
        a.step[0][a.n_dims++] = gone[d] ? 0 : step;
        *(gone[d] ? &times : &step) *= y->dim[d];
    }
    if (!a.n_dims) a.dim[a.n_dims++] = 1;
    a.one.p = s->mean && times ? 1 / (double)times : 1;
    return zt_cu_launch_each(c, "zt_cu_chain", a.n, &a, sizeof a);
}

static bool float_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)in;
    return zt_cu_is_wide_float(out[0].dtype);
}

const zt_cu_row zt_cu_reduce[] = {
    {.op = ZT_OP_sum, .has = plain_has, .emit = emit_sum},
    {.op = ZT_OP_mean, .has = plain_has, .emit = emit_mean},
    {.op = ZT_OP_prod, .has = plain_has, .emit = emit_prod},
    {.op = ZT_OP_amax, .has = plain_has, .emit = emit_amax},
    {.op = ZT_OP_amin, .has = plain_has, .emit = emit_amin},
    {.op = ZT_OP_logsumexp, .has = plain_has, .emit = emit_logsumexp},
    {.op = ZT_OP_sum_to, .has = plain_has, .emit = emit_sum_to},
    {.op = ZT_OP_spread, .has = float_has, .emit = emit_spread},
    {.emit = NULL},
};
