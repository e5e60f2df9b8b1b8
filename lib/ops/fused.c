/* fused.c - rows of several ops in one: what each means is its expansion. */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* ---- rms_norm with a sum before or after it -------------------------------------------------- */

static zt_status want_like_x(zt_ctx *ctx, const char *name, const zt_type *x, const zt_type *t)
{
    if (zt_type_equal(x, t)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s is not of x's type", name);
}

static zt_status want_norm(zt_ctx *ctx, const zt_type *x, const zt_type *g)
{
    zt_status s = zt_row_want_float(ctx, "x", x);
    if (!s) s = zt_row_want(ctx, "g", g, x->dtype, 1);
    if (s) return s;
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar");
    if (g->dim[0] == zt_row_cols(x)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "g has %lld entries for %lld columns", (long long)g->dim[0],
                       (long long)zt_row_cols(x));
}

/* y = x r g of one row; r. */
static double norm_row(const double *x, const double *g, double eps, int64_t K, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < K; i++) sum += x[i] * x[i];
    double r = 1 / sqrt((K ? sum / (double)K : 0) + eps);
    for (int64_t i = 0; i < K; i++) y[i] = x[i] * r * g[i];
    return r;
}

static double norm_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 5 * (double)zt_type_count(out);
}

static const zt_case_type norm_shapes[] = {
    {ZT_F32, 2, {2, 33}},    {ZT_F32, 2, {9, 640}}, {ZT_F32, 1, {7}},
    {ZT_F32, 3, {2, 3, 40}}, {ZT_F32, 2, {0, 16}},  {ZT_F32, 2, {3, 2}},
    {ZT_F16, 2, {3, 40}},    {ZT_BF16, 2, {3, 40}}, {ZT_F64, 2, {3, 5}}};

static bool norm_case(int i, double eps, int residual, int g, zt_case *c)
{
    if (i >= ZT_LEN(norm_shapes)) return false;
    int64_t K = norm_shapes[i].dim[norm_shapes[i].rank - 1];
    memcpy(c->attrs, &eps, sizeof eps); /* the only attribute of both */
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &norm_shapes[i]);
    zt_case_type_in(c, residual, ZT_FILL_NORMAL, &norm_shapes[i]);
    zt_case_in(c, g, ZT_FILL_NORMAL, 0, norm_shapes[i].dtype, 1, &K);
    return true;
}

static zt_status add_rms_norm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                    zt_type out[])
{
    (void)attrs;
    zt_status s = want_norm(ctx, in[0], in[2]);
    if (!s) s = want_like_x(ctx, "residual", in[0], in[1]);
    if (s) return s;
    out[0] = out[1] = out[2] = *in[0];
    out[2].dtype = zt_row_wide(in[0]->dtype);
    out[2].dim[out[2].rank - 1] = 1;
    return ZT_OK;
}

static void add_rms_norm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_add_rms_norm_attrs *a = attrs;
    int64_t K = zt_row_cols(in[0].type), rows = zt_row_rows(in[0].type);
    (void)t;
    for (int64_t r = 0; r < rows; r++) {
        double *y = out[0].f + r * K;
        for (int64_t i = 0; i < K; i++) {
            y[i] = in[0].f[r * K + i] + in[1].f[r * K + i];
            if (out[1].type) out[1].f[r * K + i] = y[i];
        }
        double rstd = norm_row(y, in[2].f, a->eps, K, y);
        if (out[2].type) out[2].f[r] = rstd;
    }
}

static bool add_rms_norm_cases(int i, zt_case *c) { return norm_case(i, i ? 1e-5 : 0.5, 1, 2, c); }

static void add_rms_norm_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    const zt_add_rms_norm_attrs *a = attrs;
    int sum = zt_build_add(e, zt_build_wide(e, in[0]), zt_build_wide(e, in[1]));
    int y = zt_build_rms_norm(e, sum, zt_build_wide(e, in[2]), &(zt_rms_norm_attrs){a->eps, 0}, &out[2]);
    out[0] = zt_build_as(e, y, in[0]);
    out[1] = zt_build_as(e, sum, in[0]);
}

const zt_opdef zt_op_add_rms_norm = {
    .synopsis = "sum = x + residual, y = sum * rstd * g, rstd = 1 / sqrt(mean(sum^2) + eps); x, "
                "residual, sum and y [...,K] and g [K] of one plain float type, rstd [...,1] f32, "
                "or f64 where x is",
    .n_required = 3,
    .flags = ZT_OPF_SAME,
    .infer = add_rms_norm_infer,
    .ref = add_rms_norm_ref,
    .flops = norm_flops,
    .cases = add_rms_norm_cases,
    .expand = add_rms_norm_expand,
};

static zt_status norm_add_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                zt_type out[])
{
    (void)attrs;
    zt_status s = want_norm(ctx, in[0], in[1]);
    out[0] = *in[0];
    return s ? s : want_like_x(ctx, "residual", in[0], in[2]);
}

static void norm_add_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_norm_add_attrs *a = attrs;
    int64_t K = zt_row_cols(in[0].type), rows = zt_row_rows(in[0].type);
    (void)t;
    for (int64_t r = 0; r < rows; r++) {
        double *y = out[0].f + r * K;
        norm_row(in[0].f + r * K, in[1].f, a->eps, K, y);
        for (int64_t i = 0; i < K; i++) y[i] += in[2].f[r * K + i];
    }
}

static bool norm_add_cases(int i, zt_case *c) { return norm_case(i, i ? 1e-6 : 0.5, 2, 1, c); }

static void norm_add_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    const zt_norm_add_attrs *a = attrs;
    int y = zt_build_rms_norm(e, zt_build_wide(e, in[0]), zt_build_wide(e, in[1]),
                          &(zt_rms_norm_attrs){a->eps, 0}, NULL);
    out[0] = zt_build_as(e, zt_build_add(e, y, zt_build_wide(e, in[2])), in[0]);
}

const zt_opdef zt_op_norm_add = {
    .synopsis = "y = x * rstd * g + residual, rstd = 1 / sqrt(mean(x^2) + eps); x, residual and y "
                "[...,K] and g [K] of one plain float type",
    .n_required = 3,
    .flags = ZT_OPF_SAME,
    .infer = norm_add_infer,
    .ref = norm_add_ref,
    .flops = norm_flops,
    .cases = norm_add_cases,
    .expand = norm_add_expand,
};

/* ---- softmax of what is scaled --------------------------------------------------------------- */

static zt_status scaled_softmax_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[],
                                      zt_type out[])
{
    const zt_scaled_softmax_attrs *a = attrs;
    const zt_type *x = in[0];
    zt_status s = zt_row_want_float(ctx, "x", x);
    if (s) return s;
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar");
    if (a->axis < -x->rank || a->axis >= x->rank)
        return zt_row_fail(ctx, ZT_ESHAPE, "axis %lld of %d dimensions", (long long)a->axis,
                           x->rank);
    if (!isfinite(a->scale)) return zt_row_fail(ctx, ZT_EUSAGE, "scale is %g", a->scale);
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

static void scaled_softmax_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *t)
{
    const zt_scaled_softmax_attrs *a = attrs;
    const zt_type *x = in[0].type;
    int at = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t n = x->dim[at], inner = 1, outer = 1;
    (void)t;
    for (int d = 0; d < at; d++) outer *= x->dim[d];
    for (int d = at + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            softmax_line(in[0].f + o * n * inner + i, a->scale, n, inner,
                         out[0].f + o * n * inner + i);
}

static double scaled_softmax_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 11 * (double)zt_type_count(out);
}

static bool scaled_softmax_cases(int i, zt_case *c)
{
    static const struct {
        zt_case_type x;
        zt_scaled_softmax_attrs a; /* scale, axis */
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, {0.125, -1}},   {{ZT_F32, 1, {7}}, {-2, 0}},
        {{ZT_F32, 3, {3, 33, 5}}, {0.5, 1}},   {{ZT_F32, 3, {3, 7, 40}}, {2, -3}},
        {{ZT_F32, 2, {65, 300}}, {0.1, 1}},    {{ZT_F32, 2, {2, 4921}}, {3, -1}},
        {{ZT_F32, 3, {2, 1000, 19}}, {-1, 1}}, {{ZT_F32, 2, {5, 1}}, {4, -1}},
        {{ZT_F32, 2, {0, 5}}, {1, 0}},         {{ZT_F32, 2, {3, 0}}, {1, 1}},
        {{ZT_F64, 2, {3, 5}}, {0.5, 1}},       {{ZT_F16, 2, {3, 40}}, {0.5, 1}},
        {{ZT_BF16, 2, {3, 40}}, {0.5, 0}},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_case_attrs(c, &rows[i].a, sizeof rows[i].a);
    zt_case_type_in(c, 0, ZT_FILL_NORMAL, &rows[i].x);
    return true;
}

static void scaled_softmax_expand(const zt_emit *e, const void *attrs, const int *in, int *out)
{
    const zt_scaled_softmax_attrs *a = attrs;
    int x = zt_build_scale(e, in[0], &(zt_scale_attrs){a->scale});
    out[0] = zt_build_softmax(e, x, &(zt_softmax_attrs){a->axis});
}

const zt_opdef zt_op_scaled_softmax = {
    .synopsis = "y = softmax(scale * x) along `axis` (below 0 from the end); any plain float type, "
                "y has x's",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = scaled_softmax_infer,
    .ref = scaled_softmax_ref,
    .flops = scaled_softmax_flops,
    .cases = scaled_softmax_cases,
    .expand = scaled_softmax_expand,
};
