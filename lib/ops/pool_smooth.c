/* pool_smooth.c - rows of smooth max pooling, y = log(sum exp(beta x)) / beta over a window, and of
 * the two ops its gradients are made of. With the weights
 *
 *     p[i,o] = exp(beta (x[i] - y[o])) = d y[o] / d x[i]
 *
 * smooth_max_unpool sums p times a value over the windows of an element, smooth_max_mean over the
 * elements of a window: each is the other's transpose; p's derivatives are beta p and -beta p. */
#include "lib/ops/pool.h"

#include <math.h>
#include <string.h>

/* ---- smooth_max_pool ------------------------------------------------------------------------- */

static zt_status want_beta(zt_ctx *ctx, double beta)
{
    if (isfinite(beta) && beta != 0) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "beta is %g: must be finite and not 0", beta);
}

static zt_status smooth_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_smooth_max_pool_attrs *pool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(pool);
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    if (!status) status = want_beta(ctx, pool->beta);
    if (status) return status;
    return zt_pool_infer(ctx, &lists, &pool->kernel, pool->ceil_mode, in[0], &out[0]);
}

/* One window of a plane. */
typedef struct smooth_one {
    const double *x;
    double beta, top, sum;
} smooth_one;

static void meet_top(void *user, int64_t o, int64_t tap, int64_t i)
{
    smooth_one *r = user;
    (void)o, (void)tap;
    if (!(r->beta * r->x[i] <= r->top)) r->top = r->beta * r->x[i];
}

static void meet_sum(void *user, int64_t o, int64_t tap, int64_t i)
{
    smooth_one *r = user;
    (void)o, (void)tap;
    r->sum += exp(r->beta * r->x[i] - r->top);
}

/* The largest is taken off before the sum and added after it, so that nothing overflows. */
static double smooth_of(const zt_window *window, int64_t o, const double *x, double beta, double pad)
{
    smooth_one r = {x, beta, -INFINITY, 0};
    int64_t padded = isfinite(pad) ? zt_window_cells(window, o, true) - zt_window_cells(window, o, false) : 0;
    zt_window_one(window, o, meet_top, &r);
    if (padded && beta * pad > r.top) r.top = beta * pad;
    if (r.top == -INFINITY) return beta > 0 ? -INFINITY : INFINITY; /* of nothing */
    zt_window_one(window, o, meet_sum, &r);
    if (padded) r.sum += (double)padded * exp(beta * pad - r.top);
    return (r.top + log(r.sum)) / beta;
}

static void smooth_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_smooth_max_pool_attrs *pool = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(pool);
    zt_window window = zt_window_of(&lists, in[0].type, out[0].type, pool->kernel.v);
    int64_t planes = zt_pool_planes(in[0].type);
    (void)error;
    for (int64_t p = 0; p < planes; p++)
        for (int64_t o = 0; o < window.n_out; o++)
            out[0].f[p * window.n_out + o] = smooth_of(&window, o, in[0].f + p * window.n_in, pool->beta, pool->pad_value);
}

static double taps_of(const zt_ints *kernel)
{
    double taps = 1;
    for (int d = 0; d < kernel->n; d++) taps *= (double)kernel->v[d];
    return taps;
}

static double smooth_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)in;
    return 8 * taps_of(&((const zt_smooth_max_pool_attrs *)attrs)->kernel) * (double)zt_type_count(out);
}

static bool smooth_cases(int i, zt_case *test_case)
{
    static const double betas[] = {1, 10, -2};
    const zt_pool_case *row = zt_pool_case_at(i / 2);
    if (!row) return false;
    zt_smooth_max_pool_attrs a = {
        row->kernel,          row->stride, row->pad, row->pad_end, row->dilation, row->ceil_mode, betas[i % ZT_LEN(betas)],
        i % 2 ? 0 : -INFINITY};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_pool_case_in(test_case, 0, row, ZT_FILL_NORMAL);
    return true;
}

static void smooth_vjp(zt_vjp *vjp)
{
    const zt_smooth_max_pool_attrs *attrs = vjp->attrs;
    const zt_smooth_max_unpool_attrs back = {attrs->kernel,   attrs->stride,    attrs->pad, attrs->pad_end,
                                             attrs->dilation, attrs->ceil_mode, attrs->beta};
    vjp->dx[0] = zt_build_smooth_max_unpool(vjp->emit, vjp->in[0], vjp->out[0], vjp->dy[0], &back);
}

const zt_opdef zt_op_smooth_max_pool = {
    .synopsis = "y[n,c,o] = log(sum of exp(beta x[n,c,i]) over window o) / beta, windows as in "
                "max_pool; padding counts as pad_value, or is left out if that is -inf or inf; "
                "x[N,C,d1..d8] and y of the same plain float type",
    .n_required = 1,
    .infer = smooth_infer,
    .ref = smooth_ref,
    .flops = smooth_flops,
    .cases = smooth_cases,
    .vjp = smooth_vjp,
};

/* ---- smooth_max_unpool, smooth_max_mean ------------------------------------------------------ */

typedef struct weighted_loop {
    const zt_window *w;
    double beta;
    int64_t planes;
    const double *x, *y, *v;
    double *z;
} weighted_loop;

static double softmax_weight(const weighted_loop *r, int64_t i, int64_t o) { return exp(r->beta * (r->x[i] - r->y[o])); }

static void meet_unpool(void *user, int64_t o, int64_t tap, int64_t i)
{
    const weighted_loop *r = user;
    (void)tap;
    for (int64_t p = 0; p < r->planes; p++, o += r->w->n_out, i += r->w->n_in) r->z[i] += r->v[o] * softmax_weight(r, i, o);
}

static void meet_mean(void *user, int64_t o, int64_t tap, int64_t i)
{
    const weighted_loop *r = user;
    (void)tap;
    for (int64_t p = 0; p < r->planes; p++, o += r->w->n_out, i += r->w->n_in) r->z[o] += r->v[i] * softmax_weight(r, i, o);
}

/* Both ops have the same attributes. */
static void sum_weighted(const zt_smooth_max_unpool_attrs *attrs, const zt_arg *in, zt_arg *out,
                         void (*meet)(void *user, int64_t o, int64_t tap, int64_t i))
{
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_window window = zt_window_of(&lists, in[0].type, in[1].type, attrs->kernel.v);
    weighted_loop r = {&window, attrs->beta, zt_pool_planes(in[0].type), in[0].f, in[1].f, in[2].f, out[0].f};
    memset(out[0].f, 0, (size_t)zt_type_count(out[0].type) * sizeof(double));
    zt_window_walk(&window, meet, &r);
}

static zt_status weighted_infer(zt_ctx *ctx, const zt_smooth_max_unpool_attrs *attrs, const zt_type *x, const zt_type *y)
{
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (!status) status = want_beta(ctx, attrs->beta);
    if (!status && y->dtype != x->dtype) status = zt_row_fail(ctx, ZT_ESHAPE, "x and y have different dtypes");
    if (!status) status = zt_pool_infer_back(ctx, &lists, &attrs->kernel, attrs->ceil_mode, "y", y, x);
    return status;
}

static zt_status unpool_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = weighted_infer(ctx, attrs, in[0], in[1]);
    out[0] = *in[0];
    if (!status && !zt_type_equal(in[1], in[2])) status = zt_row_fail(ctx, ZT_ESHAPE, "y and v have different shapes or dtypes");
    return status;
}

static void unpool_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    sum_weighted(attrs, in, out, meet_unpool);
}

static double weighted_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)out;
    return 8 * taps_of(&((const zt_smooth_max_unpool_attrs *)attrs)->kernel) * (double)zt_type_count(in[1]);
}

/* y is any value: not what the pool gives, but positive, so that the weights stay small. */
static bool weighted_case(int i, zt_case *test_case, bool mean)
{
    static const double betas[] = {1, 0.5, 2};
    const zt_pool_case *row = zt_pool_case_at(i);
    if (!row) return false;
    zt_smooth_max_unpool_attrs a = {
        row->kernel, row->stride, row->pad, row->pad_end, row->dilation, row->ceil_mode, betas[i % ZT_LEN(betas)]};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_pool_case_in(test_case, 0, row, ZT_FILL_NORMAL);
    zt_pool_case_out(test_case, 1, row, ZT_FILL_POSITIVE);
    if (mean)
        zt_pool_case_in(test_case, 2, row, ZT_FILL_NORMAL);
    else
        zt_pool_case_out(test_case, 2, row, ZT_FILL_NORMAL);
    return true;
}

static bool unpool_cases(int i, zt_case *test_case) { return weighted_case(i, test_case, false); }
static bool mean_cases(int i, zt_case *test_case) { return weighted_case(i, test_case, true); }

static zt_smooth_max_mean_attrs as_mean(const zt_smooth_max_unpool_attrs *attrs)
{
    return (zt_smooth_max_mean_attrs){attrs->kernel,   attrs->stride,    attrs->pad, attrs->pad_end,
                                      attrs->dilation, attrs->ceil_mode, attrs->beta};
}

static zt_smooth_max_unpool_attrs as_unpool(const zt_smooth_max_mean_attrs *attrs)
{
    return (zt_smooth_max_unpool_attrs){attrs->kernel,   attrs->stride,    attrs->pad, attrs->pad_end,
                                        attrs->dilation, attrs->ceil_mode, attrs->beta};
}

/* z_i = sum_o v_o p_io, cotangent g: dx = beta g z, dv_o = sum_i g_i p_io = m, dy = -beta v m. */
static void unpool_vjp(zt_vjp *vjp)
{
    const zt_smooth_max_unpool_attrs *attrs = vjp->attrs;
    const zt_smooth_max_mean_attrs mean = as_mean(attrs);
    const zt_emit *emit = vjp->emit;
    int g = vjp->dy[0];
    if (vjp->want[0]) vjp->dx[0] = zt_build_times(emit, zt_build_mul(emit, g, vjp->out[0]), attrs->beta);
    if (!vjp->want[1] && !vjp->want[2]) return;
    int m = zt_build_smooth_max_mean(emit, vjp->in[0], vjp->in[1], g, &mean);
    if (vjp->want[1]) vjp->dx[1] = zt_build_times(emit, zt_build_mul(emit, vjp->in[2], m), -attrs->beta);
    vjp->dx[2] = m;
}

const zt_opdef zt_op_smooth_max_unpool = {
    .synopsis = "z[n,c,i] = sum of v[n,c,o] exp(beta (x[n,c,i] - y[n,c,o])) over the windows o that "
                "contain i: the gradient of y = smooth_max_pool x; v has the shape of y, z that of "
                "x, all of the same plain float type",
    .n_required = 3,
    .infer = unpool_infer,
    .ref = unpool_ref,
    .flops = weighted_flops,
    .cases = unpool_cases,
    .vjp = unpool_vjp,
};

static zt_status mean_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_smooth_max_unpool_attrs a = as_unpool(attrs);
    zt_status status = weighted_infer(ctx, &a, in[0], in[1]);
    out[0] = *in[1];
    if (!status && !zt_type_equal(in[0], in[2])) status = zt_row_fail(ctx, ZT_ESHAPE, "x and v have different shapes or dtypes");
    return status;
}

static void mean_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_smooth_max_unpool_attrs a = as_unpool(attrs);
    (void)error;
    sum_weighted(&a, in, out, meet_mean);
}

/* z_o = sum_i v_i p_io, cotangent g: dv_i = sum_o g_o p_io = u, dx = beta v u, dy = -beta g z. */
static void mean_vjp(zt_vjp *vjp)
{
    const zt_smooth_max_mean_attrs *attrs = vjp->attrs;
    const zt_smooth_max_unpool_attrs unpool = as_unpool(attrs);
    const zt_emit *emit = vjp->emit;
    int g = vjp->dy[0];
    if (vjp->want[1]) vjp->dx[1] = zt_build_times(emit, zt_build_mul(emit, g, vjp->out[0]), -attrs->beta);
    if (!vjp->want[0] && !vjp->want[2]) return;
    int u = zt_build_smooth_max_unpool(emit, vjp->in[0], vjp->in[1], g, &unpool);
    if (vjp->want[0]) vjp->dx[0] = zt_build_times(emit, zt_build_mul(emit, vjp->in[2], u), attrs->beta);
    vjp->dx[2] = u;
}

const zt_opdef zt_op_smooth_max_mean = {
    .synopsis = "z[n,c,o] = sum of v[n,c,i] exp(beta (x[n,c,i] - y[n,c,o])) over window o: for y = "
                "smooth_max_pool x, the mean of v by the weights of the pooling; v has the shape of "
                "x, z that of y, all of the same plain float type",
    .n_required = 3,
    .infer = mean_infer,
    .ref = mean_ref,
    .flops = weighted_flops,
    .cases = mean_cases,
    .vjp = mean_vjp,
};
