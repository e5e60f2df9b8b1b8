/* pool_mean.c - rows of average pooling, of its way back, and of pooling by a p-norm. */
#include "lib/ops/pool.h"

#include <math.h>
#include <string.h>

/* ---- avg_pool, avg_unpool: each the other's transpose ---------------------------------------- */

static zt_status want_divisor(zt_ctx *ctx, int64_t divisor)
{
    if (divisor >= 0) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "divisor_override is %lld: must be nonnegative", (long long)divisor);
}

static zt_status avg_pool_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_avg_pool_attrs *avg_pool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(avg_pool);
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status) status = want_divisor(ctx, avg_pool->divisor_override);
    if (status) return status;
    return zt_pool_infer(ctx, &lists, &avg_pool->kernel, avg_pool->ceil_mode, in[0], &out[0]);
}

typedef struct avg_loop {
    const zt_window *w;
    const zt_avg_pool_attrs *a;
    int64_t planes, at; /* the window whose weight is known */
    double by;
    const double *x;
    double *y;
} avg_loop;

/* What a window's elements are multiplied by. */
static void weigh_window(avg_loop *r, int64_t o)
{
    int64_t cells = r->a->divisor_override;
    if (r->at == o) return;
    if (!cells) cells = zt_window_cells(r->w, o, r->a->count_include_pad);
    r->at = o;
    r->by = cells ? 1 / (double)cells : 0;
}

static void avg_meet(void *user, int64_t o, int64_t tap, int64_t i)
{
    avg_loop *r = user;
    (void)tap;
    weigh_window(r, o);
    for (int64_t p = 0; p < r->planes; p++) r->y[p * r->w->n_out + o] += r->x[p * r->w->n_in + i] * r->by;
}

static void avg_meet_back(void *user, int64_t o, int64_t tap, int64_t i)
{
    avg_loop *r = user;
    (void)tap;
    weigh_window(r, o);
    for (int64_t p = 0; p < r->planes; p++) r->y[p * r->w->n_in + i] += r->x[p * r->w->n_out + o] * r->by;
}

static void avg_walk(const zt_avg_pool_attrs *attrs, const zt_type *large, const zt_type *small, const zt_arg *x, zt_arg *y,
                     void (*meet)(void *user, int64_t o, int64_t tap, int64_t i))
{
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_window window = zt_window_of(&lists, large, small, attrs->kernel.v);
    avg_loop r = {&window, attrs, zt_pool_planes(large), -1, 0, x->f, y->f};
    memset(y->f, 0, (size_t)zt_type_count(y->type) * sizeof *y->f);
    zt_window_walk(&window, meet, &r);
}

static void avg_pool_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    avg_walk(attrs, in[0].type, out[0].type, &in[0], &out[0], avg_meet);
}

static double taps_of(const zt_ints *kernel)
{
    double taps = 1;
    for (int d = 0; d < kernel->n; d++) taps *= (double)kernel->v[d];
    return taps;
}

static double avg_pool_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)in;
    return taps_of(&((const zt_avg_pool_attrs *)attrs)->kernel) * (double)zt_type_count(out);
}

/* Padding counted, then not, then a divisor of the caller's. */
static bool avg_case(int i, const zt_pool_case **r, zt_case *test_case)
{
    *r = zt_pool_case_at(i / 2);
    if (!*r) return false;
    zt_avg_pool_attrs a = {(*r)->kernel,   (*r)->stride,    (*r)->pad,  (*r)->pad_end,
                           (*r)->dilation, (*r)->ceil_mode, i % 2 == 0, i % 7 == 6 ? 3 : 0};
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

static bool avg_pool_cases(int i, zt_case *test_case)
{
    const zt_pool_case *row;
    if (!avg_case(i, &row, test_case)) return false;
    zt_pool_case_in(test_case, 0, row, ZT_FILL_NORMAL);
    return true;
}

static void avg_pool_vjp(zt_vjp *vjp)
{
    const zt_avg_pool_attrs *attrs = vjp->attrs;
    const zt_avg_unpool_attrs back = {attrs->kernel,
                                      attrs->stride,
                                      attrs->pad,
                                      attrs->pad_end,
                                      attrs->dilation,
                                      attrs->ceil_mode,
                                      attrs->count_include_pad,
                                      attrs->divisor_override};
    vjp->dx[0] = zt_build_avg_unpool(vjp->emit, vjp->dy[0], vjp->in[0], &back);
}

const zt_opdef zt_op_avg_pool = {
    .synopsis = "y[n,c,o] = sum of x[n,c,i] over window o (as in max_pool), divided by the number of "
                "its elements inside x or, with count_include_pad=1, inside x and its padding, or by "
                "divisor_override (1: sum pooling); an empty window gives 0; x[N,C,d1..d8] and y of "
                "the same plain float type",
    .n_required = 1,
    .infer = avg_pool_infer,
    .ref = avg_pool_ref,
    .flops = avg_pool_flops,
    .cases = avg_pool_cases,
    .vjp = avg_pool_vjp,
};

static zt_avg_pool_attrs pool_attrs(const zt_avg_unpool_attrs *attrs)
{
    return (zt_avg_pool_attrs){attrs->kernel,
                               attrs->stride,
                               attrs->pad,
                               attrs->pad_end,
                               attrs->dilation,
                               attrs->ceil_mode,
                               attrs->count_include_pad,
                               attrs->divisor_override};
}

static zt_status avg_unpool_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_avg_unpool_attrs *avg_unpool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(avg_unpool);
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status) status = want_divisor(ctx, avg_unpool->divisor_override);
    if (status) return status;
    out[0] = zt_type_make(in[0]->dtype, in[1]->rank, in[1]->dim);
    return zt_pool_infer_back(ctx, &lists, &avg_unpool->kernel, avg_unpool->ceil_mode, "x", in[0], in[1]);
}

static void avg_unpool_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    zt_avg_pool_attrs a = pool_attrs(attrs);
    (void)error;
    avg_walk(&a, out[0].type, in[0].type, &in[0], &out[0], avg_meet_back);
}

static double avg_unpool_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)out;
    return taps_of(&((const zt_avg_unpool_attrs *)attrs)->kernel) * (double)zt_type_count(in[0]);
}

static bool avg_unpool_cases(int i, zt_case *test_case)
{
    const zt_pool_case *row;
    if (!avg_case(i, &row, test_case)) return false;
    zt_pool_case_out(test_case, 0, row, ZT_FILL_NORMAL);
    zt_pool_case_in(test_case, 1, row, ZT_FILL_NORMAL);
    return true;
}

static void avg_unpool_vjp(zt_vjp *vjp)
{
    const zt_avg_pool_attrs a = pool_attrs(vjp->attrs);
    vjp->dx[0] = zt_build_avg_pool(vjp->emit, vjp->dy[0], &a);
}

const zt_opdef zt_op_avg_unpool = {
    .synopsis = "y[n,c,i] = sum of x[n,c,o] over the windows o that contain i, each divided as in "
                "avg_pool: the gradient of avg_pool; y has the shape of like and the plain float "
                "type of x",
    .n_required = 2,
    .infer = avg_unpool_infer,
    .ref = avg_unpool_ref,
    .flops = avg_unpool_flops,
    .cases = avg_unpool_cases,
    .vjp = avg_unpool_vjp,
    .constant = 2,
};

/* ---- lp_pool --------------------------------------------------------------------------------- */

static zt_status lp_pool_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_lp_pool_attrs *lp_pool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(lp_pool);
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status && !(lp_pool->p > 0 && isfinite(lp_pool->p)))
        status = zt_row_fail(ctx, ZT_EUSAGE, "p is %g: must be greater than 0", lp_pool->p);
    if (status) return status;
    return zt_pool_infer(ctx, &lists, &lp_pool->kernel, lp_pool->ceil_mode, in[0], &out[0]);
}

typedef struct lp_loop {
    const zt_window *w;
    double p;
    int64_t planes;
    const double *x;
    double *y;
} lp_loop;

static void lp_meet(void *user, int64_t o, int64_t tap, int64_t i)
{
    const lp_loop *r = user;
    (void)tap;
    for (int64_t p = 0; p < r->planes; p++) r->y[p * r->w->n_out + o] += pow(fabs(r->x[p * r->w->n_in + i]), r->p);
}

static void lp_pool_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_lp_pool_attrs *lp_pool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(lp_pool);
    zt_window window = zt_window_of(&lists, in[0].type, out[0].type, lp_pool->kernel.v);
    lp_loop r = {&window, lp_pool->p, zt_pool_planes(in[0].type), in[0].f, out[0].f};
    int64_t count = zt_type_count(out[0].type);
    (void)error;
    memset(r.y, 0, (size_t)count * sizeof *r.y);
    zt_window_walk(&window, lp_meet, &r);
    for (int64_t i = 0; i < count; i++) r.y[i] = pow(r.y[i], 1 / lp_pool->p);
}

static double lp_pool_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)in;
    return 3 * taps_of(&((const zt_lp_pool_attrs *)attrs)->kernel) * (double)zt_type_count(out);
}

static bool lp_pool_cases(int i, zt_case *test_case)
{
    static const double powers[] = {2, 1, 3, 4, 2.5};
    const zt_pool_case *row = zt_pool_case_at(i);
    if (!row) return false;
    zt_lp_pool_attrs a = {
        row->kernel, row->stride, row->pad, row->pad_end, row->dilation, row->ceil_mode, powers[i % ZT_LEN(powers)]};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_pool_case_in(test_case, 0, row, ZT_FILL_POSITIVE);
    return true;
}

static void lp_pool_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_lp_pool_attrs *lp_pool = attrs;
    const zt_avg_pool_attrs sum = {
        lp_pool->kernel, lp_pool->stride, lp_pool->pad, lp_pool->pad_end, lp_pool->dilation, lp_pool->ceil_mode, 0, 1};
    int powers = zt_build_pow_scalar(emit, zt_build_abs(emit, in[0]), &(zt_pow_scalar_attrs){lp_pool->p});
    out[0] = zt_build_pow_scalar(emit, zt_build_avg_pool(emit, powers, &sum), &(zt_pow_scalar_attrs){1 / lp_pool->p});
}

const zt_opdef zt_op_lp_pool = {
    .synopsis = "y[n,c,o] = (sum of |x[n,c,i]|^p over window o)^(1/p), windows as in max_pool; "
                "x[N,C,d1..d8] and y of the same plain float type",
    .n_required = 1,
    .infer = lp_pool_infer,
    .ref = lp_pool_ref,
    .flops = lp_pool_flops,
    .cases = lp_pool_cases,
    .expand = lp_pool_expand,
};
