/* norm.c - rows of normalisation over the last dimension, alone and fused with a sum. Statistics of halves are f32. */
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

/* ---- rms_norm -------------------------------------------------------------------------------- */

/* Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019). */
static zt_status rms_norm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_rms_norm_attrs *rms_norm = attrs;
    const zt_type *x = in[0];
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (!status) status = zt_row_want(ctx, "g", in[1], x->dtype, 1);
    if (status) return status;
    if (!(rms_norm->eps >= 0)) return zt_row_fail(ctx, ZT_EUSAGE, "eps is %g: must be nonnegative", rms_norm->eps);
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension");
    int64_t K = zt_row_cols(x), dims = rms_norm->dims ? rms_norm->dims : K;
    if (dims < 0 || (dims > 0 && K % dims))
        return zt_row_fail(ctx, ZT_ESHAPE, "%lld columns are not a multiple of dims %lld", (long long)K, (long long)dims);
    if (in[1]->dim[0] != dims)
        return zt_row_fail(ctx, ZT_ESHAPE, "g has %lld entries, expected %lld", (long long)in[1]->dim[0], (long long)dims);
    out[0] = out[1] = *x;
    out[1].dtype = zt_row_wide(x->dtype);
    out[1].dim[x->rank - 1] = rms_norm->dims ? K / dims : 1;
    return ZT_OK;
}

static double norm_group(const double *x, const double *g, double eps, int64_t n, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    double rstd = 1 / sqrt((n ? sum / (double)n : 0) + eps);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * rstd * g[i];
    return rstd;
}

static void rms_norm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_rms_norm_attrs *rms_norm = attrs;
    int64_t K = zt_row_cols(in[0].type), dims = rms_norm->dims ? rms_norm->dims : K;
    int64_t groups = zt_row_rows(in[0].type) * (rms_norm->dims ? K / dims : 1);
    (void)error;
    for (int64_t i = 0; i < groups; i++) {
        double rstd = norm_group(in[0].f + i * dims, in[1].f, rms_norm->eps, dims, out[0].f + i * dims);
        if (out[1].type) out[1].f[i] = rstd;
    }
}

static double rms_norm_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 4 * (double)zt_type_count(out);
}

static bool rms_norm_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        double eps;
        int64_t dims;
    } rows[] = {
        {{ZT_F16, 2, {3, 40}}, 1e-5, 0},     {{ZT_BF16, 2, {3, 64}}, 1e-5, 32}, {{ZT_F64, 2, {3, 5}}, 1e-5, 0},
        {{ZT_F32, 2, {2, 33}}, 1e-5, 0},     {{ZT_F32, 2, {1, 576}}, 1e-5, 0},  {{ZT_F32, 2, {9, 640}}, 1e-6, 0},
        {{ZT_F32, 2, {65, 7}}, 0.5, 0},      {{ZT_F32, 1, {576}}, 1e-5, 0},     {{ZT_F32, 3, {2, 3, 40}}, 1e-6, 0},
        {{ZT_F32, 2, {7, 1024}}, 1e-6, 256}, {{ZT_F32, 2, {2, 99}}, 1e-6, 33},  {{ZT_F32, 3, {2, 3, 128}}, 1e-6, 64},
        {{ZT_F32, 2, {3, 1}}, 1e-5, 0},      {{ZT_F32, 2, {0, 576}}, 1e-5, 0},  {{ZT_F32, 2, {0, 512}}, 1e-5, 256},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_rms_norm_attrs a = {.eps = rows[i].eps, .dims = rows[i].dims};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    int64_t K = zt_row_cols(&test_case->in[0]);
    zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, rows[i].x.dtype, 1, a.dims ? &a.dims : &K);
    return true;
}

/* x, or x in groups: [...,K/dims,dims]; f32 where it is a half. */
static int emit_grouped(const zt_emit *emit, int x, int64_t dims)
{
    x = zt_build_wide(emit, x);
    return dims ? zt_build_group(emit, x, &(zt_group_attrs){dims}) : x;
}

/* The mean over what was summed to get `like`'s shape. */
static int mean_to(const zt_emit *emit, int x, int like)
{
    int one = zt_build_fill_like(emit, x, &(zt_fill_like_attrs){1});
    return zt_build_div(emit, zt_build_sum_to(emit, x, like), zt_build_sum_to(emit, one, like));
}

/* With h = dy g and the means over a group: dx = r h - x r^3 mean(h x), and what the cotangent of r
 * itself adds, -x r^3 dr / dims. dg = sum dy x r. */
static void rms_norm_vjp(zt_vjp *vjp)
{
    const zt_rms_norm_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    int x = emit_grouped(emit, vjp->in[0], attrs->dims), r = attrs->dims ? emit_grouped(emit, vjp->out[1], 1) : vjp->out[1];
    int dx = ZT_NONE, s = ZT_NONE, rrr = zt_build_mul(emit, r, zt_build_square(emit, r));
    if (vjp->dy[0] != ZT_NONE) {
        int dy = emit_grouped(emit, vjp->dy[0], attrs->dims), h = zt_build_mul(emit, dy, zt_build_wide(emit, vjp->in[1]));
        dx = zt_build_mul(emit, r, h);
        s = mean_to(emit, zt_build_mul(emit, h, x), r);
        if (vjp->want[1])
            vjp->dx[1] = zt_build_as(emit, zt_build_sum_to(emit, zt_build_mul(emit, dy, zt_build_mul(emit, x, r)), vjp->in[1]),
                                     vjp->in[1]);
    }
    if (vjp->dy[1] != ZT_NONE) {
        int dr = attrs->dims ? emit_grouped(emit, vjp->dy[1], 1) : vjp->dy[1];
        int one = zt_build_fill_like(emit, x, &(zt_fill_like_attrs){1});
        dr = zt_build_div(emit, dr, zt_build_sum_to(emit, one, r));
        s = s == ZT_NONE ? dr : zt_build_add(emit, s, dr);
    }
    int back = zt_build_mul(emit, x, zt_build_mul(emit, rrr, s));
    dx = dx == ZT_NONE ? zt_build_neg(emit, back) : zt_build_sub(emit, dx, back);
    dx = zt_build_as(emit, dx, vjp->in[0]);
    if (vjp->want[0]) vjp->dx[0] = attrs->dims ? zt_build_reshape_like(emit, dx, vjp->in[0]) : dx;
}

static void rms_norm_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_rms_norm_attrs *rms_norm = attrs;
    int x = emit_grouped(emit, in[0], rms_norm->dims);
    int square = zt_build_mean(emit, zt_build_square(emit, x), &(zt_mean_attrs){{1, {-1}}, 1});
    int r = zt_build_rsqrt(emit, zt_build_plus(emit, square, rms_norm->eps));
    int y = zt_build_mul(emit, zt_build_mul(emit, x, r), zt_build_wide(emit, in[1]));
    y = zt_build_as(emit, y, in[0]);
    out[0] = rms_norm->dims ? zt_build_reshape_like(emit, y, in[0]) : y;
    out[1] = rms_norm->dims ? zt_build_sum(emit, r, &(zt_sum_attrs){{1, {-1}}, 0}) : r;
}

const zt_opdef zt_op_rms_norm = {
    .synopsis = "y = x * rstd * g, rstd = 1 / sqrt(mean(x^2) + eps) over groups of `dims` columns "
                "(0: all); x and y [...,K] and g [dims], shared by the groups, of the same plain "
                "float type; rstd f32 (f64 if x is f64) [...,K/dims]",
    .n_required = 2,
    .flags = ZT_OPF_INPLACE,
    .infer = rms_norm_infer,
    .ref = rms_norm_ref,
    .flops = rms_norm_flops,
    .cases = rms_norm_cases,
    .vjp = rms_norm_vjp,
    .expand = rms_norm_expand,
};

/* ---- layer_norm ------------------------------------------------------------------------------ */

/* Ba, Kiros and Hinton, "Layer Normalization" (2016). */
static zt_status layer_norm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    static const char *const name[] = {"x", "g", "b"};
    const zt_layer_norm_attrs *norm = attrs;
    const zt_type *x = in[0];
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (status) return status;
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension");
    if (!(norm->eps >= 0)) return zt_row_fail(ctx, ZT_EUSAGE, "eps is %g: must be nonnegative", norm->eps);
    for (int k = 1; k < 3 && !status; k++) {
        if (!in[k]) continue;
        status = zt_row_want(ctx, name[k], in[k], x->dtype, 1);
        if (!status && in[k]->dim[0] != zt_row_cols(x))
            status = zt_row_fail(ctx, ZT_ESHAPE, "%s has %lld entries, expected %lld (columns)", name[k],
                                 (long long)in[k]->dim[0], (long long)zt_row_cols(x));
    }
    out[0] = out[1] = *x;
    out[1].dtype = zt_row_wide(x->dtype);
    out[1].dim[x->rank - 1] = 1;
    out[2] = out[1];
    return status;
}

static void layer_norm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_layer_norm_attrs *norm = attrs;
    int64_t K = zt_row_cols(in[0].type), rows = zt_row_rows(in[0].type);
    (void)error;
    for (int64_t r = 0; r < rows; r++) {
        const double *x = in[0].f + r * K;
        double *y = out[0].f + r * K, mean = 0, squares = 0;
        for (int64_t i = 0; i < K; i++) mean += x[i];
        mean = K ? mean / (double)K : 0;
        for (int64_t i = 0; i < K; i++) squares += (x[i] - mean) * (x[i] - mean);
        double rstd = 1 / sqrt((K ? squares / (double)K : 0) + norm->eps);
        for (int64_t i = 0; i < K; i++)
            y[i] = (x[i] - mean) * rstd * (in[1].type ? in[1].f[i] : 1) + (in[2].type ? in[2].f[i] : 0);
        if (out[1].type) out[1].f[r] = mean;
        if (out[2].type) out[2].f[r] = rstd;
    }
}

static double layer_norm_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 7 * (double)zt_type_count(out);
}

static bool layer_norm_cases(int i, zt_case *test_case)
{
    static const struct {
        zt_case_type x;
        double eps;
        bool g, b;
    } rows[] = {
        {{ZT_F32, 2, {2, 33}}, 1e-5, true, true},    {{ZT_F32, 2, {1, 768}}, 1e-5, true, true},
        {{ZT_F32, 2, {9, 640}}, 1e-12, true, false}, {{ZT_F32, 2, {65, 7}}, 0.5, false, true},
        {{ZT_F32, 1, {576}}, 1e-5, false, false},    {{ZT_F32, 3, {2, 3, 40}}, 1e-6, true, true},
        {{ZT_F32, 2, {3, 2}}, 1e-5, true, true},     {{ZT_F32, 2, {0, 576}}, 1e-5, true, true},
        {{ZT_F16, 2, {3, 40}}, 1e-5, true, true},    {{ZT_BF16, 2, {3, 40}}, 1e-5, true, false},
        {{ZT_F64, 2, {3, 5}}, 1e-5, true, true},
    };
    if (i >= ZT_LEN(rows)) return false;
    zt_layer_norm_attrs a = {.eps = rows[i].eps};
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &rows[i].x);
    int64_t K = zt_row_cols(&test_case->in[0]);
    if (rows[i].g) zt_case_in(test_case, 1, ZT_FILL_NORMAL, 0, rows[i].x.dtype, 1, &K);
    if (rows[i].b) zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, rows[i].x.dtype, 1, &K);
    return true;
}

/* With n = (x - mean) r and h = dy g: dx = r (h - mean h - n mean(h n)); the cotangents of mean and
 * r add dmean / K and -dr r^2 n / K. */
static void layer_norm_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int mean = vjp->out[1], r = vjp->out[2], dx = ZT_NONE;
    int n = zt_build_mul(emit, zt_build_sub(emit, zt_build_wide(emit, vjp->in[0]), mean), r);
    int inverse = zt_build_recip(emit, zt_build_sum_to(emit, zt_build_fill_like(emit, n, &(zt_fill_like_attrs){1}), r));
    if (vjp->dy[0] != ZT_NONE) {
        int dy = zt_build_wide(emit, vjp->dy[0]), g = zt_build_wide(emit, vjp->in[1]);
        int h = vjp->in[1] == ZT_NONE ? dy : zt_build_mul(emit, dy, g);
        int part = zt_build_mul(emit, n, mean_to(emit, zt_build_mul(emit, h, n), r));
        part = zt_build_add(emit, mean_to(emit, h, r), part);
        dx = zt_build_mul(emit, r, zt_build_sub(emit, h, part));
        if (vjp->want[1])
            vjp->dx[1] = zt_build_as(emit, zt_build_sum_to(emit, zt_build_mul(emit, dy, n), vjp->in[1]), vjp->in[1]);
        if (vjp->want[2]) vjp->dx[2] = zt_build_as(emit, zt_build_sum_to(emit, dy, vjp->in[2]), vjp->in[2]);
    }
    if (vjp->dy[1] != ZT_NONE) {
        int part = zt_build_broadcast_to(emit, zt_build_mul(emit, vjp->dy[1], inverse), vjp->in[0], NULL);
        dx = dx == ZT_NONE ? part : zt_build_add(emit, dx, part);
    }
    if (vjp->dy[2] != ZT_NONE) {
        int by = zt_build_mul(emit, zt_build_mul(emit, vjp->dy[2], inverse), zt_build_square(emit, r));
        int part = zt_build_neg(emit, zt_build_mul(emit, n, by));
        dx = dx == ZT_NONE ? part : zt_build_add(emit, dx, part);
    }
    if (vjp->want[0]) vjp->dx[0] = zt_build_as(emit, dx, vjp->in[0]);
}

const zt_opdef zt_op_layer_norm = {
    .synopsis = "y = (x - mean) * rstd * g + b, mean over the last dimension, rstd = 1 / "
                "sqrt(mean((x - mean)^2) + eps); x and y [...,K], g and b (optional: 1 and 0) [K] of "
                "the same plain float type; mean and rstd f32 (f64 if x is f64) [...,1]",
    .n_required = 1,
    .flags = ZT_OPF_INPLACE,
    .infer = layer_norm_infer,
    .ref = layer_norm_ref,
    .flops = layer_norm_flops,
    .cases = layer_norm_cases,
    .vjp = layer_norm_vjp,
};

/* ---- rms_norm with a sum before or after it -------------------------------------------------- */

static zt_status want_like_x(zt_ctx *ctx, const char *name, const zt_type *x, const zt_type *type)
{
    if (zt_type_equal(x, type)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s must have the type of x", name);
}

static zt_status want_norm(zt_ctx *ctx, const zt_type *x, const zt_type *g)
{
    zt_status status = zt_row_want_float(ctx, "x", x);
    if (!status) status = zt_row_want(ctx, "g", g, x->dtype, 1);
    if (status) return status;
    if (x->rank < 1) return zt_row_fail(ctx, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension");
    if (g->dim[0] == zt_row_cols(x)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "g has %lld entries, expected %lld (columns)", (long long)g->dim[0],
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

static const zt_case_type norm_shapes[] = {{ZT_F32, 2, {2, 33}},    {ZT_F32, 2, {9, 640}}, {ZT_F32, 1, {7}},
                                           {ZT_F32, 3, {2, 3, 40}}, {ZT_F32, 2, {0, 16}},  {ZT_F32, 2, {3, 2}},
                                           {ZT_F16, 2, {3, 40}},    {ZT_BF16, 2, {3, 40}}, {ZT_F64, 2, {3, 5}}};

static bool norm_case(int i, double eps, int residual, int g, zt_case *test_case)
{
    if (i >= ZT_LEN(norm_shapes)) return false;
    int64_t K = norm_shapes[i].dim[norm_shapes[i].rank - 1];
    memcpy(test_case->attrs, &eps, sizeof eps); /* the only attribute of both */
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &norm_shapes[i]);
    zt_case_type_in(test_case, residual, ZT_FILL_NORMAL, &norm_shapes[i]);
    zt_case_in(test_case, g, ZT_FILL_NORMAL, 0, norm_shapes[i].dtype, 1, &K);
    return true;
}

static zt_status add_rms_norm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    zt_status status = want_norm(ctx, in[0], in[2]);
    if (!status) status = want_like_x(ctx, "residual", in[0], in[1]);
    if (status) return status;
    out[0] = out[1] = out[2] = *in[0];
    out[2].dtype = zt_row_wide(in[0]->dtype);
    out[2].dim[out[2].rank - 1] = 1;
    return ZT_OK;
}

static void add_rms_norm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_add_rms_norm_attrs *norm = attrs;
    int64_t K = zt_row_cols(in[0].type), rows = zt_row_rows(in[0].type);
    (void)error;
    for (int64_t r = 0; r < rows; r++) {
        double *y = out[0].f + r * K;
        for (int64_t i = 0; i < K; i++) {
            y[i] = in[0].f[r * K + i] + in[1].f[r * K + i];
            if (out[1].type) out[1].f[r * K + i] = y[i];
        }
        double rstd = norm_row(y, in[2].f, norm->eps, K, y);
        if (out[2].type) out[2].f[r] = rstd;
    }
}

static bool add_rms_norm_cases(int i, zt_case *test_case) { return norm_case(i, i ? 1e-5 : 0.5, 1, 2, test_case); }

static void add_rms_norm_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_add_rms_norm_attrs *norm = attrs;
    int sum = zt_build_add(emit, zt_build_wide(emit, in[0]), zt_build_wide(emit, in[1]));
    int y = zt_build_rms_norm(emit, sum, zt_build_wide(emit, in[2]), &(zt_rms_norm_attrs){norm->eps, 0}, &out[2]);
    out[0] = zt_build_as(emit, y, in[0]);
    out[1] = zt_build_as(emit, sum, in[0]);
}

const zt_opdef zt_op_add_rms_norm = {
    .synopsis = "sum = x + residual, y = sum * rstd * g, rstd = 1 / sqrt(mean(sum^2) + eps); x, "
                "residual, sum and y [...,K] and g [K] of the same plain float type; rstd f32 (f64 "
                "if x is f64) [...,1]",
    .n_required = 3,
    .flags = ZT_OPF_SAME,
    .infer = add_rms_norm_infer,
    .ref = add_rms_norm_ref,
    .flops = norm_flops,
    .cases = add_rms_norm_cases,
    .expand = add_rms_norm_expand,
};

static zt_status norm_add_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    zt_status status = want_norm(ctx, in[0], in[1]);
    out[0] = *in[0];
    return status ? status : want_like_x(ctx, "residual", in[0], in[2]);
}

static void norm_add_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_norm_add_attrs *norm_add = attrs;
    int64_t K = zt_row_cols(in[0].type), rows = zt_row_rows(in[0].type);
    (void)error;
    for (int64_t r = 0; r < rows; r++) {
        double *y = out[0].f + r * K;
        norm_row(in[0].f + r * K, in[1].f, norm_add->eps, K, y);
        for (int64_t i = 0; i < K; i++) y[i] += in[2].f[r * K + i];
    }
}

static bool norm_add_cases(int i, zt_case *test_case) { return norm_case(i, i ? 1e-6 : 0.5, 2, 1, test_case); }

static void norm_add_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_norm_add_attrs *norm_add = attrs;
    int y = zt_build_rms_norm(emit, zt_build_wide(emit, in[0]), zt_build_wide(emit, in[1]),
                              &(zt_rms_norm_attrs){norm_add->eps, 0}, NULL);
    out[0] = zt_build_as(emit, zt_build_add(emit, y, zt_build_wide(emit, in[2])), in[0]);
}

const zt_opdef zt_op_norm_add = {
    .synopsis = "y = x * rstd * g + residual, rstd = 1 / sqrt(mean(x^2) + eps); x, residual and y "
                "[...,K] and g [K] of the same plain float type",
    .n_required = 3,
    .flags = ZT_OPF_SAME,
    .infer = norm_add_infer,
    .ref = norm_add_ref,
    .flops = norm_flops,
    .cases = norm_add_cases,
    .expand = norm_add_expand,
};
