/* softmax.c - rows of softmax along an axis, of its logarithm, of softmax of what is scaled, and of entmax, which is sparse. */
#include "lib/ops/lines.h"
#include "lib/ops/vjp.h"

#include <math.h>

/* ---- softmax, log_softmax -------------------------------------------------------------------- */

/* Of the ops here whose attributes begin with an axis, and whose y is like x. */
static zt_status along_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_status status = zt_row_want_float(ctx, "x", in[0]);
    out[0] = *in[0];
    return status ? status : want_line_axis(ctx, ((const zt_softmax_attrs *)attrs)->axis, in[0]);
}

static double line_top(const lines *along, const double *x)
{
    double top = -INFINITY;
    for (int64_t i = 0; i < along->n; i++) top = x[i * along->inner] > top ? x[i * along->inner] : top;
    return top;
}

static void softmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    lines along = lines_along(((const zt_softmax_attrs *)attrs)->axis, in[0].type);
    (void)error;
    for (int64_t r = 0; r < along.count; r++) {
        const double *x = in[0].f + line_at(&along, along.n, r);
        double *y = out[0].f + line_at(&along, along.n, r), top = line_top(&along, x), sum = 0;
        for (int64_t i = 0; i < along.n; i++) sum += y[i * along.inner] = exp(x[i * along.inner] - top);
        for (int64_t i = 0; i < along.n; i++) y[i * along.inner] /= sum;
    }
}

static void log_softmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    lines along = lines_along(((const zt_log_softmax_attrs *)attrs)->axis, in[0].type);
    (void)error;
    for (int64_t r = 0; r < along.count; r++) {
        const double *x = in[0].f + line_at(&along, along.n, r);
        double *y = out[0].f + line_at(&along, along.n, r), top = line_top(&along, x), sum = 0;
        for (int64_t i = 0; i < along.n; i++) sum += exp(x[i * along.inner] - top);
        sum = log(sum);
        for (int64_t i = 0; i < along.n; i++) y[i * along.inner] = x[i * along.inner] - top - sum;
    }
}

static bool softmax_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_softmax_attrs a;
    } more[] = {
        {{ZT_F32, 2, {2, 4921}}, {-1}},  {{ZT_F32, 2, {5, 1}}, {-1}},        {{ZT_F32, 3, {3, 33, 5}}, {1}},
        {{ZT_F32, 3, {3, 7, 40}}, {-3}}, {{ZT_F32, 3, {2, 1000, 19}}, {-2}}, {{ZT_F32, 2, {0, 5}}, {0}},
        {{ZT_F64, 2, {3, 5}}, {1}},      {{ZT_F16, 2, {3, 40}}, {1}},        {{ZT_BF16, 2, {3, 40}}, {0}},
    };
    zt_case_type type;
    int n = 0;
    while (zt_case_shape(n, 1, &type)) n++;
    if (i >= n + ZT_LEN(more)) return false;
    if (i >= n) {
        type = more[i - n].x;
        zt_case_attrs(test_case, &more[i - n].a, sizeof more[i - n].a);
    } else {
        zt_case_shape(i, 1, &type);
    }
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &type);
    return true;
}

/* The sum along the axis, which stays as 1 and is repeated by what comes next. */
static int line_sum(const zt_vjp *vjp, int x)
{
    int64_t axis = ((const zt_softmax_attrs *)vjp->attrs)->axis;
    return zt_build_sum(vjp->emit, x, &(zt_sum_attrs){{1, {axis}}, 1});
}

static void softmax_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int y = vjp->out[0], dy = vjp->dy[0];
    vjp->dx[0] = zt_build_mul(emit, y, zt_build_sub(emit, dy, line_sum(vjp, zt_build_mul(emit, y, dy))));
}

static void log_softmax_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int y = vjp->out[0], dy = vjp->dy[0];
    vjp->dx[0] = zt_build_sub(emit, dy, zt_build_mul(emit, zt_build_exp(emit, y), line_sum(vjp, dy)));
}

const zt_opdef zt_op_softmax = {
    .synopsis = "y[...,i,...] = exp(x[...,i,...] - max) / sum along `axis` (negative: from the end); "
                "any plain float type, y has the type of x",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = along_infer,
    .ref = softmax_ref,
    .flops = zt_row_curve_flops,
    .cases = softmax_cases,
    .vjp = softmax_vjp,
};

const zt_opdef zt_op_log_softmax = {
    .synopsis = "y[...,i,...] = x[...,i,...] - max - ln sum exp(x - max) along `axis` (negative: "
                "from the end); any plain float type, y has the type of x",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = along_infer,
    .ref = log_softmax_ref,
    .flops = zt_row_curve_flops,
    .cases = softmax_cases,
    .vjp = log_softmax_vjp,
};

/* ---- softmax of what is scaled --------------------------------------------------------------- */

static zt_status scaled_softmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_scaled_softmax_attrs *softmax = attrs;
    const zt_type *x = in[0];
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension");
    if (softmax->axis < -x->rank || softmax->axis >= x->rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld is out of range for %d dimensions", (long long)softmax->axis, x->rank);
    if (!isfinite(softmax->scale)) return zt_row_fail(ctx, ZT_EUSAGE, "scale is %g: must be finite", softmax->scale);
    out[0] = *x;
    return ZT_OK;
}

/* One line, `step` elements from one entry to the next. */
static void softmax_line(const double *x, double scale, int64_t n, int64_t step, double *y)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, x[i * step] * scale);
    for (int64_t i = 0; i < n; i++) sum += y[i * step] = exp(x[i * step] * scale - top);
    for (int64_t i = 0; i < n; i++) y[i * step] /= sum;
}

static void scaled_softmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_scaled_softmax_attrs *softmax = attrs;
    const zt_type *x = in[0].type;
    int at = (int)(softmax->axis < 0 ? softmax->axis + x->rank : softmax->axis);
    int64_t n = x->dim[at], inner = 1, outer = 1;
    (void)error;
    for (int d = 0; d < at; d++) outer *= x->dim[d];
    for (int d = at + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            softmax_line(in[0].f + o * n * inner + i, softmax->scale, n, inner, out[0].f + o * n * inner + i);
}

static double scaled_softmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 11 * (double)zt_type_count(out);
}

static bool scaled_softmax_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_scaled_softmax_attrs a; /* scale, axis */
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, {0.125, -1}},   {{ZT_F32, 1, {7}}, {-2, 0}},        {{ZT_F32, 3, {3, 33, 5}}, {0.5, 1}},
        {{ZT_F32, 3, {3, 7, 40}}, {2, -3}},    {{ZT_F32, 2, {65, 300}}, {0.1, 1}}, {{ZT_F32, 2, {2, 4921}}, {3, -1}},
        {{ZT_F32, 3, {2, 1000, 19}}, {-1, 1}}, {{ZT_F32, 2, {5, 1}}, {4, -1}},     {{ZT_F32, 2, {0, 5}}, {1, 0}},
        {{ZT_F32, 2, {3, 0}}, {1, 1}},         {{ZT_F64, 2, {3, 5}}, {0.5, 1}},    {{ZT_F16, 2, {3, 40}}, {0.5, 1}},
        {{ZT_BF16, 2, {3, 40}}, {0.5, 0}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    return true;
}

static void scaled_softmax_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_scaled_softmax_attrs *softmax = attrs;
    int x = zt_build_scale(emit, in[0], &(zt_scale_attrs){softmax->scale});
    out[0] = zt_build_softmax(emit, x, &(zt_softmax_attrs){softmax->axis});
}

const zt_opdef zt_op_scaled_softmax = {
    .synopsis = "y = softmax(scale * x) along `axis` (negative: from the end); any plain float type, "
                "y has the type of x",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = scaled_softmax_infer,
    .ref = scaled_softmax_ref,
    .flops = scaled_softmax_flops,
    .cases = scaled_softmax_cases,
    .expand = scaled_softmax_expand,
};

/* Peters, Niculae and Martins, "Sparse Sequence-to-Sequence Models" (2019); alpha 2 is sparsemax:
 * Martins and Astudillo, "From Softmax to Sparsemax" (2016). */
static zt_status entmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_entmax_attrs *entmax = attrs;
    const zt_type *x = in[0];
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (!(entmax->alpha > 1) || !isfinite(entmax->alpha))
        return zt_row_fail(ctx, ZT_EUSAGE, "alpha is %g: must be greater than 1", entmax->alpha);
    if (entmax->axis < -x->rank || entmax->axis >= x->rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld is out of range for %d dimensions", (long long)entmax->axis, x->rank);
    out[0] = *x;
    return ZT_OK;
}

/* What y is at threshold t, for x times alpha - 1. */
static double entmax_share(double x, double t, double alpha) { return x > t ? pow(x - t, 1 / (alpha - 1)) : 0; }

/* The sum of shares falls with the threshold: it is above 1 one below the largest, 0 at it. */
static void line_entmax(const double *x, double *y, int64_t n, int64_t step, double alpha)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, x[i * step] * (alpha - 1));
    double low = top - 1, high = top;
    for (int k = 0; k < 200 && low < high; k++) {
        double middle = low + (high - low) / 2, total = 0;
        for (int64_t i = 0; i < n; i++) total += entmax_share(x[i * step] * (alpha - 1), middle, alpha);
        if (middle == low || middle == high) break;
        *(total >= 1 ? &low : &high) = middle;
    }
    for (int64_t i = 0; i < n; i++) sum += y[i * step] = entmax_share(x[i * step] * (alpha - 1), low, alpha);
    for (int64_t i = 0; i < n; i++) y[i * step] /= sum;
}

static void entmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_entmax_attrs *entmax = attrs;
    const zt_type *x = in[0].type;
    int axis = (int)(entmax->axis < 0 ? entmax->axis + x->rank : entmax->axis);
    int64_t inner = 1, outer = 1, n = x->dim[axis];
    (void)error;
    if (!zt_type_count(x)) return;
    for (int d = 0; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t i = 0; i < outer * inner; i++) {
        int64_t at = i / inner * n * inner + i % inner;
        line_entmax(in[0].f + at, out[0].f + at, n, inner, entmax->alpha);
    }
}

static double entmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 50 * (double)zt_type_count(out);
}

static bool entmax_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        zt_entmax_attrs a; /* axis, alpha */
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, {-1, 1.5}},   {{ZT_F32, 2, {7, 9}}, {1, 2}},       {{ZT_F32, 3, {2, 5, 4}}, {1, 1.25}},
        {{ZT_F32, 2, {6, 5}}, {0, 1.75}},    {{ZT_F32, 1, {1}}, {0, 1.5}},        {{ZT_F32, 2, {4, 7}}, {-1, 2.5}},
        {{ZT_F32, 2, {0, 7}}, {-1, 2}},      {{ZT_F32, 2, {3, 0}}, {-1, 1.5}},    {{ZT_F64, 2, {3, 5}}, {-1, 1.5}},
        {{ZT_F32, 2, {65, 700}}, {-1, 1.5}}, {{ZT_F32, 3, {3, 100, 33}}, {1, 2}}, {{ZT_F32, 2, {9, 40}}, {-1, 1.1}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(test_case, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    return true;
}

/* With s = y^(2 - alpha) where y > 0, else 0: dx = s (dy - sum(s dy) / sum(s)). */
static void entmax_vjp(zt_vjp *vjp)
{
    const zt_entmax_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    const zt_sum_attrs along = {{1, {attrs->axis}}, 1};
    int y = vjp->out[0], dy = vjp->dy[0], zero = zt_build_fill_like(emit, y, &(zt_fill_like_attrs){0});
    int one = zt_build_fill_like(emit, y, &(zt_fill_like_attrs){1}), is_in = zt_build_gt(emit, y, zero);
    int safe = zt_build_where(emit, is_in, y, one);
    int s = zt_build_pow_scalar(emit, safe, &(zt_pow_scalar_attrs){2 - attrs->alpha});
    s = zt_build_mul(emit, s, zt_build_as(emit, is_in, y));
    int mean = zt_build_div(emit, zt_build_sum(emit, zt_build_mul(emit, s, dy), &along), zt_build_sum(emit, s, &along));
    vjp->dx[0] = zt_build_mul(emit, s, zt_build_sub(emit, dy, mean));
}

const zt_opdef zt_op_entmax = {
    .synopsis = "y = max(0, (alpha - 1) x - t)^(1 / (alpha - 1)) along `axis` (negative: from the "
                "end), with t such that the sum is 1; alpha > 1: near 1 softmax, 2 sparsemax; any "
                "plain float type, y has the type of x",
    .n_required = 1,
    .infer = entmax_infer,
    .ref = entmax_ref,
    .flops = entmax_flops,
    .cases = entmax_cases,
    .vjp = entmax_vjp,
};
