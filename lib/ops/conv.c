/* conv.c - rows of convolution: forward, and backward to the filter. conv_transpose.c: to the data.
 *
 * Three ops close among themselves, so that gradients of gradients hold: with y = conv(x, w),
 * dx = conv_transpose(dy, w, like x) and dw = conv_backward_filter(x, dy, like w); each is linear
 * in each of its two operands.
 */
#include "lib/ops/conv.h"

#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

/* [N,C,d1..dn] with n from 1 to 8, of one plain float type. */
zt_status zt_conv_want(zt_ctx *ctx, const char *name, const zt_type *type, const zt_type *like)
{
    zt_status status = zt_row_want_float(ctx, name, type);
    if (!status && type->dtype != like->dtype)
        status = zt_row_fail(ctx, ZT_ESHAPE, "%s has dtype %s, but x has %s", name, zt_dtype_get(type->dtype)->name,
                             zt_dtype_get(like->dtype)->name);
    if (!status && type->rank < 3)
        status = zt_row_fail(ctx, ZT_ESHAPE, "%s has %d dimensions: must have at least 3", name, type->rank);
    if (!status && type->rank != like->rank)
        status = zt_row_fail(ctx, ZT_ESHAPE, "%s has %d dimensions, but x has %d", name, type->rank, like->rank);
    return status;
}

/* w [a,b/groups,...] between a and b channels of conv's y and x. */
zt_status zt_conv_groups(zt_ctx *ctx, int64_t groups, const zt_type *w, const char *small, const char *large, int64_t a,
                         int64_t b)
{
    if (groups < 1) return zt_row_fail(ctx, ZT_EUSAGE, "groups is %lld: must be 1 or more", (long long)groups);
    if (w->dim[0] != a)
        return zt_row_fail(ctx, ZT_ESHAPE, "w has %lld filters, but %s has %lld channels", (long long)w->dim[0], small,
                           (long long)a);
    if (a % groups || b % groups)
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld channels are not divisible into %lld groups", (long long)(a % groups ? a : b),
                           (long long)groups);
    if (w->dim[1] != b / groups)
        return zt_row_fail(ctx, ZT_ESHAPE, "w has %lld channels, but %s has %lld in %lld groups", (long long)w->dim[1], large,
                           (long long)b, (long long)groups);
    return ZT_OK;
}

zt_status zt_conv_bias(zt_ctx *ctx, const zt_type *b, const zt_type *x, int64_t channels)
{
    if (!b) return ZT_OK;
    zt_status status = zt_row_want(ctx, "b", b, x->dtype, 1);
    if (!status && b->dim[0] != channels)
        status = zt_row_fail(ctx, ZT_ESHAPE, "b has %lld elements, expected %lld (channels)", (long long)b->dim[0],
                             (long long)channels);
    return status;
}

/* The small value's spatial dimensions from the large one's, into y. */
zt_status zt_conv_small(zt_ctx *ctx, const zt_window_lists *lists, const zt_type *large, const zt_type *w, int64_t *small)
{
    zt_window win = {.n = large->rank - 2};
    memcpy(win.in, large->dim + 2, (size_t)win.n * sizeof *win.in);
    memcpy(win.k, w->dim + 2, (size_t)win.n * sizeof *win.k);
    zt_status status = zt_window_infer(ctx, lists, false, &win);
    if (!status) memcpy(small, win.out, (size_t)win.n * sizeof *small);
    return status;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* What the three reference loops share: large [N,B,in], small [N,A,out], w [A,B/groups,taps]. */
typedef struct loops {
    zt_window win;
    int64_t N, A, B, groups;
    const double *large, *small, *w;
    double *y;
} loops;

static void meet_forward(void *user, int64_t o, int64_t tap, int64_t i)
{
    const loops *l = user;
    int64_t a_group = l->A / l->groups, b_group = l->B / l->groups;
    for (int64_t n = 0; n < l->N; n++)
        for (int64_t a = 0; a < l->A; a++) {
            const double *w = l->w + a * b_group * l->win.taps + tap;
            const double *x = l->large + (n * l->B + a / a_group * b_group) * l->win.n_in + i;
            double sum = 0;
            for (int64_t b = 0; b < b_group; b++) sum += x[b * l->win.n_in] * w[b * l->win.taps];
            l->y[(n * l->A + a) * l->win.n_out + o] += sum;
        }
}

static void meet_data(void *user, int64_t o, int64_t tap, int64_t i)
{
    const loops *l = user;
    int64_t a_group = l->A / l->groups, b_group = l->B / l->groups;
    for (int64_t n = 0; n < l->N; n++)
        for (int64_t a = 0; a < l->A; a++) {
            const double *w = l->w + a * b_group * l->win.taps + tap;
            double *y = l->y + (n * l->B + a / a_group * b_group) * l->win.n_in + i;
            double x = l->small[(n * l->A + a) * l->win.n_out + o];
            for (int64_t b = 0; b < b_group; b++) y[b * l->win.n_in] += x * w[b * l->win.taps];
        }
}

static void meet_filter(void *user, int64_t o, int64_t tap, int64_t i)
{
    const loops *l = user;
    int64_t a_group = l->A / l->groups, b_group = l->B / l->groups;
    for (int64_t n = 0; n < l->N; n++)
        for (int64_t a = 0; a < l->A; a++) {
            double *y = l->y + a * b_group * l->win.taps + tap;
            const double *x = l->large + (n * l->B + a / a_group * b_group) * l->win.n_in + i;
            double dy = l->small[(n * l->A + a) * l->win.n_out + o];
            for (int64_t b = 0; b < b_group; b++) y[b * l->win.taps] += dy * x[b * l->win.n_in];
        }
}

/* y starts as its channel's bias. */
static void fill_bias(const zt_arg *b, zt_arg *y)
{
    int64_t count = zt_type_count(y->type), channels = y->type->dim[1], plane = 1;
    for (int d = 2; d < y->type->rank; d++) plane *= y->type->dim[d];
    for (int64_t i = 0; i < count; i++) y->f[i] = b->f ? b->f[i / plane % channels] : 0;
}

static loops loops_of(const zt_window_lists *lists, int64_t groups, const zt_arg *large, const zt_arg *small, const zt_arg *w)
{
    return (loops){.win = zt_window_of(lists, large->type, small->type, w->type->dim + 2),
                   .N = large->type->dim[0],
                   .A = small->type->dim[1],
                   .B = large->type->dim[1],
                   .groups = groups,
                   .large = large->f,
                   .small = small->f,
                   .w = w->f};
}

void zt_conv_data_ref(const zt_window_lists *lists, int64_t groups, const zt_arg *x, const zt_arg *w, const zt_arg *b, zt_arg *y)
{
    loops r = loops_of(lists, groups, y, x, w);
    r.y = y->f;
    fill_bias(b, y);
    zt_window_walk(&r.win, meet_data, &r);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const zt_conv_case cases[] = {
    /* n, N, C, M, groups, x, kernel, stride, pad, pad_end, dilation, more */
    {1, 2, 2, 3, 1, {7}, {3}, {0}, {0}, {0}, {0}, {0}, ZT_F32},
    {2, 1, 1, 1, 1, {3, 3}, {1, 1}, {0}, {0}, {0}, {0}, {0}, ZT_F32},
    {2, 2, 3, 4, 1, {7, 9}, {3, 3}, {0}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F32},
    {2, 1, 2, 3, 1, {8, 8}, {3, 3}, {2, {2, 2}}, {2, {1, 1}}, {0}, {0}, {2, {1, 1}}, ZT_F32},
    {2, 2, 4, 6, 2, {5, 6}, {3, 2}, {2, {1, 2}}, {2, {1, 0}}, {2, {0, 2}}, {2, {2, 1}}, {0}, ZT_F32},
    {2, 1, 4, 4, 4, {6, 21}, {3, 3}, {0}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F32},
    {2, 1, 2, 4, 2, {9, 8}, {3, 3}, {2, {2, 3}}, {0}, {0}, {0}, {2, {0, 2}}, ZT_F32},
    {2, 1, 3, 2, 1, {11, 10}, {5, 3}, {2, {3, 2}}, {2, {2, 1}}, {0}, {2, {1, 2}}, {0}, ZT_F32},
    {2, 1, 2, 2, 1, {5, 4}, {2, 2}, {2, {3, 3}}, {2, {-1, 0}}, {2, {0, 1}}, {0}, {2, {1, 0}}, ZT_F32},
    {1, 1, 2, 3, 1, {0}, {2}, {0}, {1, {2}}, {0}, {0}, {0}, ZT_F32},
    {3, 1, 2, 3, 1, {3, 4, 5}, {2, 3, 2}, {3, {1, 2, 1}}, {3, {1, 0, 1}}, {0}, {0}, {0}, ZT_F32},
    {4, 1, 2, 2, 1, {2, 3, 2, 3}, {1, 2, 2, 2}, {4, {1, 1, 2, 1}}, {4, {0, 1, 0, 1}}, {0}, {0}, {0}, ZT_F32},
    {8, 1, 1, 2, 1, {2, 1, 2, 1, 2, 2, 1, 2}, {1, 1, 2, 1, 2, 1, 1, 2}, {0}, {0}, {0}, {0}, {0}, ZT_F32},
    {2, 0, 2, 3, 1, {4, 4}, {3, 3}, {0}, {0}, {0}, {0}, {0}, ZT_F32},
    {2, 2, 0, 3, 1, {4, 4}, {3, 3}, {0}, {0}, {0}, {0}, {0}, ZT_F32},
    {2, 2, 3, 0, 1, {4, 4}, {3, 3}, {0}, {0}, {0}, {0}, {0}, ZT_F32},
    {1, 2, 3, 4, 1, {9}, {3}, {0}, {1, {1}}, {0}, {0}, {0}, ZT_F64},
    {2, 2, 5, 9, 1, {6, 7}, {3, 3}, {0}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F16},
    {2, 1, 4, 4, 2, {6, 7}, {3, 3}, {2, {2, 2}}, {2, {1, 1}}, {0}, {0}, {0}, ZT_BF16},
    /* for the engines: tiles that are full, and not */
    {2, 2, 64, 64, 1, {14, 14}, {3, 3}, {0}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F32},
    {2, 1, 20, 37, 1, {19, 23}, {3, 3}, {2, {2, 2}}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F32},
    {2, 2, 3, 16, 1, {33, 35}, {7, 7}, {2, {2, 2}}, {2, {3, 3}}, {0}, {0}, {2, {1, 1}}, ZT_F32},
    {2, 2, 70, 24, 1, {9, 9}, {1, 1}, {0}, {0}, {0}, {0}, {0}, ZT_F32},
    {2, 1, 64, 33, 1, {13, 50}, {3, 3}, {0}, {2, {2, 2}}, {0}, {2, {2, 2}}, {0}, ZT_F32},
    {2, 2, 32, 32, 32, {18, 18}, {3, 3}, {0}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F32},
    {2, 1, 32, 64, 32, {17, 40}, {3, 3}, {2, {2, 2}}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F32},
    {2, 1, 48, 96, 4, {10, 11}, {3, 3}, {0}, {2, {1, 1}}, {0}, {0}, {0}, ZT_F32},
    {1, 2, 40, 24, 1, {100}, {9}, {1, {3}}, {1, {4}}, {0}, {0}, {0}, ZT_F32},
    {3, 1, 17, 18, 1, {6, 7, 8}, {3, 3, 3}, {0}, {3, {1, 1, 1}}, {0}, {0}, {0}, ZT_F32},
    {2, 2, 64, 40, 2, {15, 40}, {3, 3}, {0}, {2, {2, 0}}, {2, {-1, 3}}, {0}, {0}, ZT_F32},
    {2, 1, 32, 13, 1, {20, 21}, {3, 3}, {2, {1, 2}}, {2, {1, 1}}, {0}, {2, {2, 1}}, {0}, ZT_F32},
    {3, 1, 32, 20, 1, {5, 6, 9}, {3, 2, 3}, {0}, {3, {1, 1, 0}}, {0}, {0}, {0}, ZT_F32},
};

const zt_conv_case *zt_conv_case_at(int i) { return i >= 0 && i < ZT_LEN(cases) ? &cases[i] : NULL; }

/* Input k of a case: the dimensions given, then the spatial ones. */
void zt_conv_case_in(zt_case *test_case, int k, const zt_conv_case *row, int64_t first, int64_t second, const int64_t *spatial)
{
    int64_t dim[ZT_MAX_RANK] = {first, second};
    memcpy(dim + 2, spatial, (size_t)row->n * sizeof *dim);
    zt_case_in(test_case, k, ZT_FILL_NORMAL, 0, row->dtype, 2 + row->n, dim);
}

/* ---- conv ------------------------------------------------------------------------------------ */

static zt_status conv_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_conv_attrs *conv = attrs;
    const zt_type *x = in[0], *w = in[1];
    const zt_window_lists lists = ZT_WINDOW_LISTS(conv);
    zt_status status = zt_conv_want(ctx, "x", x, x);
    if (!status) status = zt_conv_want(ctx, "w", w, x);
    if (!status) status = zt_conv_groups(ctx, conv->groups, w, "y", "x", w->dim[0], x->dim[1]);
    if (!status) status = zt_conv_bias(ctx, in[2], x, w->dim[0]);
    if (status) return status;
    out[0] = *x;
    out[0].dim[1] = w->dim[0];
    return zt_conv_small(ctx, &lists, x, w, out[0].dim + 2);
}

static void conv_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_conv_attrs *conv = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(conv);
    loops r = loops_of(&lists, conv->groups, &in[0], &out[0], &in[1]);
    (void)error;
    r.y = out[0].f;
    fill_bias(&in[2], &out[0]);
    zt_window_walk(&r.win, meet_forward, &r);
}

/* Two an element of the small value, channel of the large one in its group, and tap. */
static double conv_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_type *w = in[1];
    double each = 2;
    (void)attrs;
    for (int d = 1; d < w->rank; d++) each *= (double)w->dim[d];
    return each * (double)zt_type_count(out);
}

static bool conv_cases(int i, zt_case *test_case)
{
    const zt_conv_case *r = zt_conv_case_at(i);
    if (!r) return false;
    zt_conv_attrs a = {r->stride, r->pad, r->pad_end, r->dilation, r->groups};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_conv_case_in(test_case, 0, r, r->N, r->C, r->x);
    zt_conv_case_in(test_case, 1, r, r->M, r->C / r->groups, r->kernel);
    if (i % 3) zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, r->dtype, 1, &r->M);
    return true;
}

/* The bias was added to every element of its channel. */
int zt_conv_bias_vjp(const zt_emit *emit, int dy)
{
    zt_sum_attrs a = {{emit->type(emit->user, dy).rank - 1, {0}}, 0};
    for (int d = 1; d < a.axes.n; d++) a.axes.v[d] = d + 1;
    return zt_build_sum(emit, dy, &a);
}

static void conv_vjp(zt_vjp *vjp)
{
    const zt_conv_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    zt_conv_transpose_attrs to_x = {attrs->stride, attrs->pad, attrs->pad_end, attrs->dilation, {0}, attrs->groups};
    zt_conv_backward_filter_attrs to_w = {attrs->stride, attrs->pad, attrs->pad_end, attrs->dilation, attrs->groups};
    int x = vjp->in[0], w = vjp->in[1], dy = vjp->dy[0];
    if (vjp->want[0]) vjp->dx[0] = zt_build_conv_transpose(emit, dy, w, ZT_NONE, x, &to_x);
    if (vjp->want[1]) vjp->dx[1] = zt_build_conv_backward_filter(emit, x, dy, w, &to_w);
    if (vjp->want[2]) vjp->dx[2] = zt_conv_bias_vjp(emit, dy);
}

const zt_opdef zt_op_conv = {
    .synopsis = "y[n,m,o] = b[m] + sum_c,k x[n,c,o*stride+k*dilation-pad] w[m,c,k], with zero "
                "padding; x[N,C,d1..d8], w[M,C/groups,k1..k8] and b[M] (optional) of the same plain "
                "float type; stride, pad, pad_end and dilation have one number per spatial dimension "
                "(defaults: 1, 0, pad, 1); a negative pad crops; conv2d's padding "
                "top,left,bottom,right is pad=top,left pad_end=bottom,right",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = conv_infer,
    .ref = conv_ref,
    .flops = conv_flops,
    .cases = conv_cases,
    .vjp = conv_vjp,
};

/* ---- conv_backward_filter -------------------------------------------------------------------- */

static zt_status filter_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_conv_backward_filter_attrs *filter = attrs;
    const zt_type *x = in[0], *dy = in[1], *like = in[2];
    const zt_window_lists lists = ZT_WINDOW_LISTS(filter);
    int64_t small[ZT_WINDOW_RANK];
    zt_status status = zt_conv_want(ctx, "x", x, x);
    if (!status) status = zt_conv_want(ctx, "dy", dy, x);
    if (!status && like->rank != x->rank)
        status = zt_row_fail(ctx, ZT_ESHAPE, "like has %d dimensions, but x has %d", like->rank, x->rank);
    if (!status) status = zt_conv_groups(ctx, filter->groups, like, "dy", "x", dy->dim[1], x->dim[1]);
    if (!status) status = zt_conv_small(ctx, &lists, x, like, small);
    if (status) return status;
    out[0] = zt_type_make(x->dtype, like->rank, like->dim);
    if (dy->dim[0] == x->dim[0] && !memcmp(small, dy->dim + 2, (size_t)(x->rank - 2) * sizeof *small)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "dy does not have the shape of conv's y");
}

static void filter_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_conv_backward_filter_attrs *filter = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(filter);
    loops r = loops_of(&lists, filter->groups, &in[0], &in[1], &out[0]);
    (void)error;
    r.y = out[0].f;
    memset(r.y, 0, (size_t)zt_type_count(out[0].type) * sizeof *r.y);
    zt_window_walk(&r.win, meet_filter, &r);
}

static double filter_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    const zt_type *with[] = {NULL, out};
    return conv_flops(attrs, with, in[1]);
}

static bool filter_cases(int i, zt_case *test_case)
{
    const zt_conv_case *r = zt_conv_case_at(i);
    const zt_type *in[ZT_MAX_IN] = {NULL};
    zt_type y;
    if (!r) return false;
    zt_conv_attrs a = {r->stride, r->pad, r->pad_end, r->dilation, r->groups};
    zt_case_attrs(test_case, &a, sizeof a); /* the same fields */
    zt_conv_case_in(test_case, 0, r, r->N, r->C, r->x);
    zt_conv_case_in(test_case, 2, r, r->M, r->C / r->groups, r->kernel);
    in[0] = &test_case->in[0];
    in[1] = &test_case->in[2];
    if (conv_infer(NULL, &a, in, &y)) return false;
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, r->dtype, y.rank, y.dim);
    return true;
}

static void filter_vjp(zt_vjp *vjp)
{
    const zt_conv_backward_filter_attrs *attrs = vjp->attrs;
    zt_conv_transpose_attrs to_x = {attrs->stride, attrs->pad, attrs->pad_end, attrs->dilation, {0}, attrs->groups};
    zt_conv_attrs to_dy = {attrs->stride, attrs->pad, attrs->pad_end, attrs->dilation, attrs->groups};
    int x = vjp->in[0], dy = vjp->in[1], g = vjp->dy[0];
    if (vjp->want[0]) vjp->dx[0] = zt_build_conv_transpose(vjp->emit, dy, g, ZT_NONE, x, &to_x);
    if (vjp->want[1]) vjp->dx[1] = zt_build_conv(vjp->emit, x, g, ZT_NONE, &to_dy);
}

const zt_opdef zt_op_conv_backward_filter = {
    .synopsis = "dw[m,c,k] = sum_n,o dy[n,m,o] x[n,c,o*stride+k*dilation-pad]: the gradient of conv "
                "with respect to w; dw has the shape of like; the attributes are those of conv; x, "
                "dy and dw of the same plain float type",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = filter_infer,
    .ref = filter_ref,
    .flops = filter_flops,
    .cases = filter_cases,
    .vjp = filter_vjp,
    .constant = 4,
};
