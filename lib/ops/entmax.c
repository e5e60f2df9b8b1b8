/* entmax.c - row of softmax's sparse kin along an axis. */
#include "lib/ops/vjp.h"

#include <math.h>

/* Peters, Niculae and Martins, "Sparse Sequence-to-Sequence Models" (2019); alpha 2 is sparsemax:
 * Martins and Astudillo, "From Softmax to Sparsemax" (2016). */
static zt_status entmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                              zt_type out[])
{
    const zt_entmax_attrs *a = attrs;
    const zt_type *x = in[0];
    zt_status s = zt_row_want_float(ctx, "x", x);
    if (s) return s;
    if (!(a->alpha > 1) || !isfinite(a->alpha))
        return zt_row_fail(ctx, ZT_EUSAGE, "alpha is %g, not above 1", a->alpha);
    if (a->axis < -x->rank || a->axis >= x->rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld of %d dimensions", (long long)a->axis,
                           x->rank);
    out[0] = *x;
    return ZT_OK;
}

/* What y is at threshold t, for x times alpha - 1. */
static double share(double x, double t, double alpha)
{
    return x > t ? pow(x - t, 1 / (alpha - 1)) : 0;
}

/* The sum of shares falls with the threshold: it is above 1 one below the largest, 0 at it. */
static void line_entmax(const double *x, double *y, int64_t n, int64_t step, double alpha)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, x[i * step] * (alpha - 1));
    double low = top - 1, high = top;
    for (int k = 0; k < 200 && low < high; k++) {
        double middle = low + (high - low) / 2, total = 0;
        for (int64_t i = 0; i < n; i++) total += share(x[i * step] * (alpha - 1), middle, alpha);
        if (middle == low || middle == high) break;
        *(total >= 1 ? &low : &high) = middle;
    }
    for (int64_t i = 0; i < n; i++)
        sum += y[i * step] = share(x[i * step] * (alpha - 1), low, alpha);
    for (int64_t i = 0; i < n; i++) y[i * step] /= sum;
}

static void entmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_entmax_attrs *a = attrs;
    const zt_type *x = in[0].type;
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t inner = 1, outer = 1, n = x->dim[axis];
    (void)t;
    if (!zt_type_count(x)) return;
    for (int d = 0; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t i = 0; i < outer * inner; i++) {
        int64_t at = i / inner * n * inner + i % inner;
        line_entmax(in[0].f + at, out[0].f + at, n, inner, a->alpha);
    }
}

static double entmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 50 * (double)zt_type_count(out);
}

static bool entmax_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_entmax_attrs a; /* axis, alpha */
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, {-1, 1.5}},   {{ZT_F32, 2, {7, 9}}, {1, 2}},
        {{ZT_F32, 3, {2, 5, 4}}, {1, 1.25}}, {{ZT_F32, 2, {6, 5}}, {0, 1.75}},
        {{ZT_F32, 1, {1}}, {0, 1.5}},        {{ZT_F32, 2, {4, 7}}, {-1, 2.5}},
        {{ZT_F32, 2, {0, 7}}, {-1, 2}},      {{ZT_F32, 2, {3, 0}}, {-1, 1.5}},
        {{ZT_F64, 2, {3, 5}}, {-1, 1.5}},    {{ZT_F32, 2, {65, 700}}, {-1, 1.5}},
        {{ZT_F32, 3, {3, 100, 33}}, {1, 2}}, {{ZT_F32, 2, {9, 40}}, {-1, 1.1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &rows[i].x);
    return true;
}

/* With s = y^(2 - alpha) where y > 0, else 0: dx = s (dy - sum(s dy) / sum(s)). */
static void entmax_vjp(zt_vjp *v)
{
    const zt_entmax_attrs *a = v->attrs;
    const zt_emit *e = v->e;
    const zt_sum_attrs along = {{1, {a->axis}}, 1};
    int y = v->out[0], dy = v->dy[0], zero = zt_build_fill_like(e, y, &(zt_fill_like_attrs){0});
    int one = zt_build_fill_like(e, y, &(zt_fill_like_attrs){1}), is_in = zt_build_gt(e, y, zero);
    int safe = zt_build_where(e, is_in, y, one);
    int s = zt_build_pow_scalar(e, safe, &(zt_pow_scalar_attrs){2 - a->alpha});
    s = zt_build_mul(e, s, zt_build_as(e, is_in, y));
    int mean = zt_build_div(e, zt_build_sum(e, zt_build_mul(e, s, dy), &along), zt_build_sum(e, s, &along));
    v->dx[0] = zt_build_mul(e, s, zt_build_sub(e, dy, mean));
}

const zt_opdef zt_op_entmax = {
    .synopsis =
        "y = max(0, (alpha - 1) x - t)^(1 / (alpha - 1)) along `axis` (below 0 from the end), t "
        "such that they sum to 1; alpha above 1: near 1 softmax, 2 sparsemax; any plain "
        "float type, y has x's",
    .n_required = 1,
    .infer = entmax_infer,
    .ref = entmax_ref,
    .flops = entmax_flops,
    .cases = entmax_cases,
    .vjp = entmax_vjp,
};
