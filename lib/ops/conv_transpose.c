/* conv_transpose.c - row of transposed convolution: conv's gradient to its data, and an op by
 * itself. conv.c has the others. */
#include "lib/ops/conv.h"

#include <string.h>

/* y's spatial dimensions: like's, where conv brings them to x's, else those that fit exactly. */
static zt_status infer_spatial(zt_ctx *ctx, const zt_conv_transpose_attrs *attrs, const zt_type *const in[], zt_type *y)
{
    const zt_type *x = in[0], *w = in[1], *like = in[3];
    const zt_window_lists lists = ZT_WINDOW_LISTS(attrs);
    zt_window win = {.n = x->rank - 2};
    int64_t small[ZT_WINDOW_RANK];
    size_t bytes = (size_t)win.n * sizeof *small;
    if (!like) {
        memcpy(win.out, x->dim + 2, bytes);
        memcpy(win.k, w->dim + 2, bytes);
        zt_status status = zt_window_infer_in(ctx, &lists, &attrs->output_padding, &win);
        if (!status) memcpy(y->dim + 2, win.in, bytes);
        return status;
    }
    if (like->rank != y->rank || like->dim[0] != y->dim[0] || like->dim[1] != y->dim[1])
        return zt_row_fail(ctx, ZT_ESHAPE, "like does not have y's rank, batch and channels");
    if (attrs->output_padding.n) return zt_row_fail(ctx, ZT_EUSAGE, "output_padding and like exclude each other");
    zt_status status = zt_conv_small(ctx, &lists, like, w, small);
    if (status) return status;
    memcpy(y->dim + 2, like->dim + 2, bytes);
    if (!memcmp(small, x->dim + 2, bytes)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "conv does not map the dimensions of like to those of x");
}

static zt_status transpose_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_conv_transpose_attrs *conv = attrs;
    const zt_type *x = in[0], *w = in[1];
    int64_t channels = 0;
    zt_status status = zt_conv_want(ctx, "x", x, x);
    if (!status) status = zt_conv_want(ctx, "w", w, x);
    if (!status && (conv->groups < 1 || !zt_mul_i64(w->dim[1], conv->groups, &channels)))
        status = zt_row_fail(ctx, ZT_EUSAGE, "groups is %lld: must be 1 or more", (long long)conv->groups);
    if (!status) status = zt_conv_groups(ctx, conv->groups, w, "x", "y", x->dim[1], channels);
    if (!status) status = zt_conv_bias(ctx, in[2], x, channels);
    if (status) return status;
    out[0] = *x;
    out[0].dim[1] = channels;
    return infer_spatial(ctx, conv, in, &out[0]);
}

static void transpose_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_conv_transpose_attrs *conv = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(conv);
    (void)error;
    zt_conv_data_ref(&lists, conv->groups, &in[0], &in[1], &in[2], &out[0]);
}

static double transpose_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double each = 2;
    (void)attrs, (void)out;
    for (int d = 1; d < in[1]->rank; d++) each *= (double)in[1]->dim[d];
    return each * (double)zt_type_count(in[0]);
}

/* Conv's cases turned round: with `like` conv's x, then without, where x is not empty. */
static bool transpose_cases(int i, zt_case *test_case)
{
    const zt_conv_case *r = zt_conv_case_at(i / 2);
    if (!r) return false;
    zt_conv_transpose_attrs a = {r->stride, r->pad, r->pad_end, r->dilation, {0}, r->groups};
    const zt_window_lists lists = ZT_WINDOW_LISTS(&a);
    int64_t small[ZT_WINDOW_RANK];
    zt_conv_case_in(test_case, 1, r, r->M, r->C / r->groups, r->kernel);
    zt_conv_case_in(test_case, 3, r, r->N, r->C, r->x);
    zt_conv_small(NULL, &lists, &test_case->in[3], &test_case->in[1], small);
    zt_conv_case_in(test_case, 0, r, r->N, r->M, small);
    if (i % 2) {
        test_case->fill[3] = ZT_FILL_ABSENT;
        a.output_padding = r->more;
    }
    if (i % 3 == 0) zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, r->dtype, 1, &r->C);
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

/* What output_padding added at the end no window meets: conv starts from a y without it. */
static zt_ints end_of(const zt_conv_transpose_attrs *attrs, int n)
{
    const zt_ints *end = attrs->pad_end.n ? &attrs->pad_end : &attrs->pad;
    if (!attrs->output_padding.n) return *end;
    zt_ints cropped = {n, {0}};
    for (int d = 0; d < n; d++) cropped.v[d] = (end->n ? end->v[d] : 0) - attrs->output_padding.v[d];
    return cropped;
}

static void transpose_vjp(zt_vjp *vjp)
{
    const zt_conv_transpose_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    int x = vjp->in[0], w = vjp->in[1], dy = vjp->dy[0];
    zt_ints end = end_of(attrs, emit->type(emit->user, x).rank - 2);
    zt_conv_attrs to_x = {attrs->stride, attrs->pad, end, attrs->dilation, attrs->groups};
    zt_conv_backward_filter_attrs to_w = {attrs->stride, attrs->pad, end, attrs->dilation, attrs->groups};
    if (vjp->want[0]) vjp->dx[0] = zt_build_conv(emit, dy, w, ZT_NONE, &to_x);
    if (vjp->want[1]) vjp->dx[1] = zt_build_conv_backward_filter(emit, dy, x, w, &to_w);
    if (vjp->want[2]) vjp->dx[2] = zt_conv_bias_vjp(emit, dy);
}

const zt_opdef zt_op_conv_transpose = {
    .synopsis = "y[n,m,i] = b[m] + sum_c,o,k x[n,c,o] w[c,m,k] where i = o*stride+k*dilation-pad; "
                "x[N,C,d1..d8], w[C,M/groups,k1..k8] and b[M] (optional) of the same plain float "
                "type; each spatial dimension of y is "
                "(d-1)*stride+(k-1)*dilation+1-pad-pad_end+output_padding, or that of like, which "
                "conv with these attributes must map to that of x: the gradient of conv with respect "
                "to x is conv_transpose dy w _ x; a negative pad adds",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = transpose_infer,
    .ref = transpose_ref,
    .flops = transpose_flops,
    .cases = transpose_cases,
    .vjp = transpose_vjp,
    .constant = 8,
};
