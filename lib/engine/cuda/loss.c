/* loss.c - losses of values and of classes. */
#include "lib/engine/cuda/args_loss.h"
#include "lib/engine/cuda/reduce.h"

enum { THREADS = 256, EACH = 4096 };

static bool float_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_wide_float(in[0]->dtype);
}

static zt_dtype wide_of(const zt_cu_call *c) { return c->in[0]->dtype == ZT_F64 ? ZT_F64 : ZT_F32; }

static zt_cu_ptr scratch(zt_cu_call *c, int64_t n)
{
    return zt_cu_scratch(c, (size_t)n * (size_t)zt_dtype_get(wide_of(c))->block_bytes);
}

static zt_status failed(const zt_cu_call *c) { return zt_ctx_status(c->e->base.ctx); }

static zt_status run(zt_cu_call *c, const char *name, int64_t n, int64_t each, const void *args,
                     size_t bytes)
{
    return zt_cu_launch(c, name, zt_cu_spread(c, n, each), (zt_cu_dim){THREADS, 1, 1}, 0, args,
                        bytes);
}

/* ---- values ---------------------------------------------------------------------------------- */

static zt_status emit_pair(zt_cu_call *c, zt_cu_pair_loss kind, const zt_enum_string *reduction, double p)
{
    zt_cu_pair_args a = {.x = c->x[0],
                         .target = c->x[1],
                         .y = c->y[0],
                         .n = zt_type_count(c->in[0]),
                         .each = EACH,
                         .p = p,
                         .type = c->in[0]->dtype,
                         .kind = kind};
    if (reduction->s[0] == 'n') return run(c, "zt_cu_pair_each", a.n, THREADS, &a, sizeof a);
    const int64_t blocks = (a.n + EACH - 1) / EACH;
    a.y = scratch(c, blocks);
    if (!a.y) return failed(c);
    zt_status s = zt_cu_launch(c, "zt_cu_pair_sums", zt_cu_grid(blocks, 1),
                               (zt_cu_dim){THREADS, 1, 1}, 0, &a, sizeof a);
    return s ? s
             : zt_cu_fold_rows(c, ZT_CU_SUM, a.y, wide_of(c), c->y[0], c->out[0]->dtype, 1, blocks,
                               reduction->s[0] == 'm' ? (double)a.n : 1);
}

static zt_status emit_mse(zt_cu_call *c)
{
    return emit_pair(c, ZT_CU_MSE, &((const zt_mse_attrs *)c->attrs)->reduction, 0);
}
static zt_status emit_smooth_l1(zt_cu_call *c)
{
    const zt_smooth_l1_attrs *a = c->attrs;
    return emit_pair(c, ZT_CU_SMOOTH_L1, &a->reduction, a->beta);
}
static zt_status emit_bce(zt_cu_call *c)
{
    return emit_pair(c, ZT_CU_BCE, &((const zt_bce_with_logits_attrs *)c->attrs)->reduction, 0);
}

/* ---- classes --------------------------------------------------------------------------------- */

static zt_cu_class_args classes_of(const zt_cu_call *c, int weight, int64_t ignore)
{
    const zt_type *x = c->in[0];
    zt_cu_class_args a = {.x = c->x[0],
                          .target = c->x[1],
                          .weight = c->x[weight],
                          .trouble = c->trouble,
                          .positions = zt_type_count(c->in[1]),
                          .classes = x->dim[1],
                          .inner = 1,
                          .ignore = ignore,
                          .type = x->dtype};
    for (int d = 2; d < x->rank; d++) a.inner *= x->dim[d];
    return a;
}

/* The sum of the weights of all targets that count, in scratch; 0: an error. */
static zt_cu_ptr total_of(zt_cu_call *c, const zt_cu_class_args *classes)
{
    zt_cu_class_args a = *classes;
    zt_cu_ptr total = scratch(c, 1);
    a.y = scratch(c, a.positions);
    if (!total || !a.y || run(c, "zt_cu_class_weights", a.positions, THREADS, &a, sizeof a) ||
        zt_cu_fold_rows(c, ZT_CU_SUM, a.y, wide_of(c), total, wide_of(c), 1, a.positions, 1))
        return 0;
    return total;
}

static zt_status run_forward(zt_cu_call *c, const zt_cu_class_args *a)
{
    const bool rows = a->inner == 1 && a->classes >= 128 && !a->nll;
    return run(c, rows ? "zt_cu_class_rows" : "zt_cu_class_lines", a->positions, rows ? 1 : THREADS,
               a, sizeof *a);
}

static zt_status emit_forward(zt_cu_call *c, zt_cu_class_args *a, const zt_enum_string *reduction)
{
    const bool none = reduction->s[0] == 'n', mean = reduction->s[0] == 'm';
    const zt_dtype wide = wide_of(c), y_type = c->out[0]->dtype;
    a->y = none ? c->y[0] : scratch(c, a->positions);
    a->y_type = none ? y_type : wide;
    if (!a->y) return failed(c);
    zt_status s = run_forward(c, a);
    if (s || none) return s;
    zt_cu_ptr sum = mean ? scratch(c, 1) : c->y[0];
    if (!sum) return failed(c);
    s = zt_cu_fold_rows(c, ZT_CU_SUM, a->y, wide, sum, mean ? wide : y_type, 1, a->positions, 1);
    if (s || !mean) return s;
    zt_cu_ratio_args r = {.a = sum, .b = total_of(c, a), .y = c->y[0], .type = y_type};
    if (!r.b) return failed(c);
    return zt_cu_launch(c, "zt_cu_ratio", (zt_cu_dim){1, 1, 1}, (zt_cu_dim){32, 1, 1}, 0, &r,
                        sizeof r);
}

static zt_status emit_cross_entropy(zt_cu_call *c)
{
    const zt_cross_entropy_attrs *n = c->attrs;
    zt_cu_class_args a = classes_of(c, 2, n->ignore_index);
    a.smoothing = n->label_smoothing;
    a.lse = c->y[1];
    return emit_forward(c, &a, &n->reduction);
}

static zt_status emit_nll(zt_cu_call *c)
{
    const zt_nll_attrs *n = c->attrs;
    zt_cu_class_args a = classes_of(c, 2, n->ignore_index);
    a.nll = 1;
    return emit_forward(c, &a, &n->reduction);
}

static zt_status emit_back(zt_cu_call *c, zt_cu_class_args *a, const zt_enum_string *reduction)
{
    a->dx = c->y[0];
    a->each = reduction->s[0] == 'n';
    if (reduction->s[0] == 'm' && !(a->total = total_of(c, a))) return failed(c);
    return run(c, "zt_cu_class_back", a->positions * a->classes, THREADS, a, sizeof *a);
}

static zt_status emit_cross_entropy_backward(zt_cu_call *c)
{
    const zt_cross_entropy_backward_attrs *n = c->attrs;
    zt_cu_class_args a = classes_of(c, 4, n->ignore_index);
    a.smoothing = n->label_smoothing;
    a.lse = c->x[2];
    a.dy = c->x[3];
    if (a.weight && a.smoothing > 0) {
        a.all = scratch(c, 1);
        if (!a.all) return failed(c);
        zt_status s = zt_cu_fold_rows(c, ZT_CU_SUM, a.weight, c->in[4]->dtype, a.all, wide_of(c), 1,
                                      a.classes, 1);
        if (s) return s;
    }
    return emit_back(c, &a, &n->reduction);
}

static zt_status emit_nll_backward(zt_cu_call *c)
{
    const zt_nll_backward_attrs *n = c->attrs;
    zt_cu_class_args a = classes_of(c, 3, n->ignore_index);
    a.nll = 1;
    a.dy = c->x[2];
    return emit_back(c, &a, &n->reduction);
}

const zt_cu_row zt_cu_loss[] = {
    {.op = ZT_OP_mse, .has = float_has, .emit = emit_mse},
    {.op = ZT_OP_smooth_l1, .has = float_has, .emit = emit_smooth_l1},
    {.op = ZT_OP_bce_with_logits, .has = float_has, .emit = emit_bce},
    {.op = ZT_OP_cross_entropy, .has = float_has, .emit = emit_cross_entropy},
    {.op = ZT_OP_cross_entropy_backward, .has = float_has, .emit = emit_cross_entropy_backward},
    {.op = ZT_OP_nll, .has = float_has, .emit = emit_nll},
    {.op = ZT_OP_nll_backward, .has = float_has, .emit = emit_nll_backward},
    {.emit = NULL},
};
