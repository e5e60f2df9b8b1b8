/* loss.c - rows of losses of values and targets alike: mse, smooth_l1, bce_with_logits. Those of
 * classes are in loss_classes.c.
 */
#include "lib/ops/loss.h"

#include <math.h>

zt_status zt_loss_reduction(zt_ctx *ctx, const zt_enum_string *reduction)
{
    static const char *const words[] = {"mean", "sum", "none"};
    return zt_row_word(ctx, "reduction", reduction, words, ZT_LEN(words));
}

static zt_status pair_infer(zt_ctx *ctx, const zt_enum_string *reduction, const zt_type *const in[], zt_type out[])
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    zt_status status = zt_loss_reduction(ctx, reduction);
    if (!status) status = zt_row_want_float(ctx, "x", in[0]);
    if (!status && !zt_type_equal(in[0], in[1]))
        status = zt_row_fail(ctx, ZT_ESHAPE, "target has type %s, but x has %s", zt_type_text(in[1], a), zt_type_text(in[0], b));
    out[0] = *in[0];
    if (reduction->s[0] != 'n') out[0].rank = 0;
    return status;
}

static void pair_ref(const zt_enum_string *reduction, double (*loss)(double x, double t, double p), double p, const zt_arg *in,
                     zt_arg *out)
{
    int64_t count = zt_type_count(in[0].type);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double y = loss(in[0].f[i], in[1].f[i], p);
        if (reduction->s[0] == 'n') out[0].f[i] = y;
        sum += y;
    }
    if (reduction->s[0] != 'n') out[0].f[0] = reduction->s[0] == 'm' ? sum / (double)count : sum;
}

static double pair_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return 4 * zt_row_in_flops(attrs, in, out);
}

const zt_enum_string zt_loss_words[] = {{"mean"}, {"sum"}, {"none"}};

static bool pair_case(int i, zt_fill target, zt_case *test_case, zt_enum_string *reduction)
{
    static const zt_case_type x[] = {
        {ZT_F32, 2, {2, 33}},  {ZT_F32, 1, {7}},       {ZT_F32, 0, {0}}, {ZT_F32, 2, {0, 16}}, {ZT_F32, 3, {2, 3, 5}},
        {ZT_F32, 2, {9, 576}}, {ZT_F32, 2, {65, 700}}, {ZT_F64, 1, {5}}, {ZT_F16, 2, {3, 40}},
    };
    if (i >= 3 * ZT_LEN(x)) return false;
    *reduction = zt_loss_words[i % 3];
    zt_case_type_in(test_case, 0, ZT_FILL_NORMAL, &x[i / 3]);
    zt_case_type_in(test_case, 1, target, &x[i / 3]);
    return true;
}

/* What each loss gets of dy: dy itself, repeated, or that divided by how many there are. */
static int gradient_share(const zt_vjp *vjp, const zt_enum_string *reduction)
{
    if (reduction->s[0] == 'n') return vjp->dy[0];
    zt_spread_attrs a = {{0, {0}}, reduction->s[0] == 'm'};
    return zt_build_spread(vjp->emit, vjp->dy[0], vjp->in[0], &a);
}

/* dx = slope dy, dtarget = -dx */
static void difference_vjp(zt_vjp *vjp, int slope, const zt_enum_string *reduction)
{
    int dx = zt_build_mul(vjp->emit, slope, gradient_share(vjp, reduction));
    if (vjp->want[0]) vjp->dx[0] = dx;
    if (vjp->want[1]) vjp->dx[1] = zt_build_neg(vjp->emit, dx);
}

#define REDUCED                                                                                                                  \
    " x and target of the same shape and plain float type; reduction=none: y has the "                                           \
    "shape of x, "                                                                                                               \
    "sum and mean: y is a scalar"

/* ---- mse ------------------------------------------------------------------------------------- */

static zt_status mse_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return pair_infer(ctx, &((const zt_mse_attrs *)attrs)->reduction, in, out);
}

static double squared_error(double x, double t, double p)
{
    (void)p;
    return (x - t) * (x - t);
}

static void mse_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    pair_ref(&((const zt_mse_attrs *)attrs)->reduction, squared_error, 0, in, out);
}

static bool mse_cases(int i, zt_case *test_case)
{
    zt_mse_attrs a;
    if (!pair_case(i, ZT_FILL_NORMAL, test_case, &a.reduction)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

static void mse_vjp(zt_vjp *vjp)
{
    int d = zt_build_times(vjp->emit, zt_build_sub(vjp->emit, vjp->in[0], vjp->in[1]), 2);
    difference_vjp(vjp, d, &((const zt_mse_attrs *)vjp->attrs)->reduction);
}

const zt_opdef zt_op_mse = {
    .synopsis = "y = (x - target)^2;" REDUCED,
    .n_required = 2,
    .infer = mse_infer,
    .ref = mse_ref,
    .flops = pair_flops,
    .cases = mse_cases,
    .vjp = mse_vjp,
};

/* ---- smooth_l1 ------------------------------------------------------------------------------- */

/* Girshick, "Fast R-CNN" (2015). */
static zt_status smooth_l1_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_smooth_l1_attrs *smooth_l1 = attrs;
    if (!(smooth_l1->beta > 0)) return zt_row_fail(ctx, ZT_EUSAGE, "beta is %g: must be greater than 0", smooth_l1->beta);
    return pair_infer(ctx, &smooth_l1->reduction, in, out);
}

static double smooth_l1_error(double x, double t, double beta)
{
    double d = fabs(x - t);
    return d < beta ? d * d / (2 * beta) : d - beta / 2;
}

static void smooth_l1_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_smooth_l1_attrs *smooth_l1 = attrs;
    (void)error;
    pair_ref(&smooth_l1->reduction, smooth_l1_error, smooth_l1->beta, in, out);
}

static bool smooth_l1_cases(int i, zt_case *test_case)
{
    zt_smooth_l1_attrs a = {.beta = i % 2 ? 1 : 0.3};
    if (!pair_case(i, ZT_FILL_NORMAL, test_case, &a.reduction)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

static void smooth_l1_vjp(zt_vjp *vjp)
{
    const zt_smooth_l1_attrs *attrs = vjp->attrs;
    int d = zt_build_times(vjp->emit, zt_build_sub(vjp->emit, vjp->in[0], vjp->in[1]), 1 / attrs->beta);
    difference_vjp(vjp, zt_build_clamp(vjp->emit, d, &(zt_clamp_attrs){-1, 1}), &attrs->reduction);
}

const zt_opdef zt_op_smooth_l1 = {
    .synopsis = "y = d^2 / (2 beta) if d = |x - target| < beta, else d - beta / 2 (Huber loss: beta "
                "times that);" REDUCED,
    .n_required = 2,
    .infer = smooth_l1_infer,
    .ref = smooth_l1_ref,
    .flops = pair_flops,
    .cases = smooth_l1_cases,
    .vjp = smooth_l1_vjp,
};

/* ---- bce_with_logits ------------------------------------------------------------------------- */

static zt_status bce_with_logits_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    return pair_infer(ctx, &((const zt_bce_with_logits_attrs *)attrs)->reduction, in, out);
}

static double bce_error(double x, double t, double p)
{
    (void)p;
    return fmax(x, 0) - x * t + log1p(exp(-fabs(x)));
}

static void bce_with_logits_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)error;
    pair_ref(&((const zt_bce_with_logits_attrs *)attrs)->reduction, bce_error, 0, in, out);
}

static bool bce_with_logits_cases(int i, zt_case *test_case)
{
    zt_bce_with_logits_attrs a;
    if (!pair_case(i, ZT_FILL_POSITIVE, test_case, &a.reduction)) return false;
    zt_case_attrs(test_case, &a, sizeof a);
    return true;
}

static void bce_with_logits_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int dy = gradient_share(vjp, &((const zt_bce_with_logits_attrs *)vjp->attrs)->reduction);
    if (vjp->want[0]) vjp->dx[0] = zt_build_mul(emit, zt_build_sub(emit, zt_build_sigmoid(emit, vjp->in[0]), vjp->in[1]), dy);
    if (vjp->want[1]) vjp->dx[1] = zt_build_neg(emit, zt_build_mul(emit, vjp->in[0], dy));
}

const zt_opdef zt_op_bce_with_logits = {
    .synopsis = "y = -target ln sigmoid(x) - (1 - target) ln (1 - sigmoid(x)), numerically stable;" REDUCED,
    .n_required = 2,
    .infer = bce_with_logits_infer,
    .ref = bce_with_logits_ref,
    .flops = pair_flops,
    .cases = bce_with_logits_cases,
    .vjp = bce_with_logits_vjp,
};
