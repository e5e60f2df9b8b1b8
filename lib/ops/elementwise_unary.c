/* elementwise_unary.c - rows of the named functions of one number: one entry each, with the derivative as ops.
 *
 * UNARY(name, fill of its cases, synopsis, y of the double x, dx, attributes of its cases...). In y
 * and dx `a` is the attribute struct; dx is written from the values x, y and dy. NUMBER has
 * integers too, and y of the int64_t x (of u64 its bits) as well.
 */
#include "lib/ops/activations.h"
#include "lib/ops/loops.h"

#include <math.h>

static const zt_case_type halves[] = {{ZT_F16, 2, {2, 33}}, {ZT_BF16, 2, {3, 64}}};

static int n_shapes(void)
{
    zt_case_type type;
    int n = 0;
    while (zt_case_shape(n, 0, &type)) n++;
    return n;
}

static bool unary_cases(int i, zt_fill fill, const void *attrs, size_t bytes, int n_attrs, zt_case *test_case)
{
    zt_case_type type;
    int n = n_shapes(), k = i / n_attrs;
    if (k >= n + ZT_LEN(halves)) return false;
    if (k >= n)
        type = halves[k - n];
    else
        zt_case_shape(k, 0, &type);
    zt_case_attrs(test_case, (const char *)attrs + (size_t)(i % n_attrs) * bytes, bytes);
    zt_case_type_in(test_case, 0, fill, &type);
    return true;
}

bool zt_cases_unary(int i, zt_case *test_case) { return unary_cases(i, ZT_FILL_NORMAL, "", 0, 1, test_case); }

// clang-format off
#define FLOATS(Y)                                                                                  \
    for (int64_t i = 0; i < count && out[0].f; i++) {                                                  \
        double x = in[0].f[i];                                                                     \
        out[0].f[i] = Y;                                                                           \
    }
#define INTEGERS(I)                                                                                \
    for (int64_t i = 0; i < count && out[0].i; i++) {                                                  \
        int64_t x = in[0].i[i];                                                                    \
        out[0].i[i] = wrapped(out[0].type->dtype, (uint64_t)(I));                                  \
    }
#define ROW(NAME, SYNOPSIS, INFER, CASES, DX, ...)                                                 \
    static void NAME##_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)        \
    {                                                                                              \
        const zt_##NAME##_attrs *a = attrs;                                                        \
        int64_t count = zt_type_count(out[0].type);                                                    \
        bool sign = zt_dtype_get(in[0].type->dtype)->kind == 'I';                                  \
        (void)a, (void)error, (void)sign;                                                              \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    static void NAME##_vjp(zt_vjp *vjp)                                                              \
    {                                                                                              \
        const zt_##NAME##_attrs *a = vjp->attrs;                                                     \
        const zt_emit *emit = vjp->emit;                                                                   \
        int x = vjp->in[0], y = vjp->out[0], dy = vjp->dy[0];                                            \
        (void)a, (void)emit, (void)x, (void)y, (void)dy;                                              \
        vjp->dx[0] = DX;                                                                             \
    }                                                                                              \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = SYNOPSIS ", y has the type of x",                                                        \
        .n_required = 1,                                                                           \
        .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,                                              \
        .infer = INFER,                                                                            \
        .ref = NAME##_ref,                                                                         \
        .flops = zt_row_curve_flops,                                                                      \
        .cases = CASES,                                                                            \
        .vjp = NAME##_vjp,                                                                         \
    };
#define UNARY(NAME, FILL, SYNOPSIS, Y, DX, ...)                                                    \
    static bool NAME##_cases(int i, zt_case *test_case)                                                    \
    {                                                                                              \
        static const zt_##NAME##_attrs attrs[] = {__VA_ARGS__};                                    \
        return unary_cases(i, FILL, attrs, sizeof attrs[0], ZT_LEN(attrs), test_case);                     \
    }                                                                                              \
    ROW(NAME, SYNOPSIS "; any plain float type", zt_infer_same_float, NAME##_cases, DX, FLOATS(Y))
// clang-format on
#define NUMBER(NAME, SYNOPSIS, Y, I, DX)                                                                                         \
    ROW(NAME, SYNOPSIS "; any plain float or integer type", number_infer, number_cases, DX, FLOATS(Y) INTEGERS(I))

static zt_status number_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    (void)attrs;
    out[0] = *in[0];
    if (in[0]->dtype != ZT_BOOL && zt_dtype_get(in[0]->dtype)->kind != 'Q') return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "x has dtype %s: must be a plain numeric type", zt_dtype_get(in[0]->dtype)->name);
}

/* Integers that begin below 0, so that unsigned ones wrap. */
static bool number_cases(int i, zt_case *test_case)
{
    static const zt_case_type integers[] = {
        {ZT_I32, 2, {40, 133}}, {ZT_I64, 1, {33}}, {ZT_I16, 1, {7}},  {ZT_I8, 2, {7, 9}},
        {ZT_U8, 1, {33}},       {ZT_U64, 1, {33}}, {ZT_U16, 1, {33}}, {ZT_I32, 1, {0}},
    };
    static const char none[1];
    int n = n_shapes() + ZT_LEN(halves);
    if (i < n) return unary_cases(i, ZT_FILL_NORMAL, none, 1, 1, test_case);
    if (i >= n + ZT_LEN(integers)) return false;
    zt_case_type_in(test_case, 0, ZT_FILL_RISING, &integers[i - n]);
    test_case->limit[0] = -5;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double sign_of(double x) { return isnan(x) ? x : (x > 0) - (x < 0); }

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

static double shrink(double x, double lambd, double bias)
{
    return isnan(x) ? x : x < -lambd ? x + bias : x > lambd ? x - bias : 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

#define BOTH(op, p, q) zt_build_##op(emit, p, q)
#define FN(op, p)      zt_build_##op(emit, p)
#define TIMES(p, c)    zt_build_times(emit, p, c)

#define PLUS(p, c) zt_build_plus(emit, p, c)

static int emit_power(const zt_emit *emit, int x, double exponent)
{
    return zt_build_pow_scalar(emit, x, &(zt_pow_scalar_attrs){exponent});
}

/* 1 where x > 0, else 0. */
static int emit_above(const zt_emit *emit, int x) { return zt_build_relu(emit, zt_build_sign(emit, x)); }

/* 1 from lo to hi, else 0. */
static int emit_within(const zt_emit *emit, int x, double lo, double hi)
{
    int out = BOTH(add, emit_above(emit, PLUS(x, -hi)), emit_above(emit, PLUS(FN(neg, x), lo)));
    return PLUS(FN(neg, out), 1);
}

/* ---- the functions --------------------------------------------------------------------------- */

NUMBER(neg, "y[i] = -x[i], integers wrap", -x, -(uint64_t)x, FN(neg, dy))
NUMBER(abs, "y[i] = |x[i]|, derivative 0 at 0; the least integer wraps", fabs(x), sign &&x < 0 ? -(uint64_t)x : (uint64_t)x,
       BOTH(mul, dy, FN(sign, x)))
NUMBER(sign, "y[i] = -1, 0 or 1: the sign of x[i]", sign_of(x), sign ? (x > 0) - (x < 0) : x != 0, ZT_NONE)
UNARY(floor, ZT_FILL_NORMAL, "y[i] = x[i] rounded down", floor(x), ZT_NONE, {0})
UNARY(ceil, ZT_FILL_NORMAL, "y[i] = x[i] rounded up", ceil(x), ZT_NONE, {0})
UNARY(round, ZT_FILL_NORMAL, "y[i] = x[i] rounded to the nearest, ties to even", rint(x), ZT_NONE, {0})
NUMBER(square, "y[i] = x[i]^2, integers wrap", x *x, (uint64_t)x *(uint64_t)x, TIMES(BOTH(mul, dy, x), 2))
UNARY(sqrt, ZT_FILL_POSITIVE, "y[i] = sqrt(x[i])", sqrt(x), TIMES(BOTH(div, dy, y), 0.5), {0})
UNARY(rsqrt, ZT_FILL_POSITIVE, "y[i] = 1 / sqrt(x[i])", 1 / sqrt(x), TIMES(BOTH(mul, dy, BOTH(mul, y, FN(square, y))), -0.5), {0})
UNARY(recip, ZT_FILL_POSITIVE, "y[i] = 1 / x[i]", 1 / x, FN(neg, BOTH(mul, dy, FN(square, y))), {0})
UNARY(exp, ZT_FILL_NORMAL, "y[i] = exp(x[i])", exp(x), BOTH(mul, dy, y), {0})
UNARY(expm1, ZT_FILL_NORMAL, "y[i] = exp(x[i]) - 1", expm1(x), BOTH(mul, dy, PLUS(y, 1)), {0})
UNARY(log, ZT_FILL_POSITIVE, "y[i] = the natural logarithm of x[i]", log(x), BOTH(div, dy, x), {0})
UNARY(log1p, ZT_FILL_POSITIVE, "y[i] = log(1 + x[i])", log1p(x), BOTH(div, dy, PLUS(x, 1)), {0})
UNARY(sin, ZT_FILL_NORMAL, "y[i] = sin(x[i])", sin(x), BOTH(mul, dy, FN(cos, x)), {0})
UNARY(cos, ZT_FILL_NORMAL, "y[i] = cos(x[i])", cos(x), FN(neg, BOTH(mul, dy, FN(sin, x))), {0})
UNARY(tan, ZT_FILL_NORMAL, "y[i] = tan(x[i])", tan(x), BOTH(mul, dy, PLUS(FN(square, y), 1)), {0})
UNARY(tanh, ZT_FILL_NORMAL, "y[i] = tanh(x[i])", tanh(x), BOTH(mul, dy, PLUS(FN(neg, FN(square, y)), 1)), {0})
UNARY(sigmoid, ZT_FILL_NORMAL, "y[i] = 1 / (1 + exp(-x[i]))", 1 / (1 + exp(-x)), BOTH(mul, dy, BOTH(mul, y, PLUS(FN(neg, y), 1))),
      {0})
UNARY(softplus, ZT_FILL_NORMAL, "y[i] = log(1 + exp(x[i]))", softplus(x), BOTH(mul, dy, FN(sigmoid, x)), {0})
NUMBER(relu, "y[i] = max(x[i], 0), derivative 0 at 0", x < 0 ? 0 : x, sign &&x < 0 ? 0 : x,
       BOTH(mul, dy, FN(sign, y))) /* of y: then nobody needs x */
UNARY(erf, ZT_FILL_NORMAL, "y[i] = erf(x[i])", erf(x), TIMES(BOTH(mul, dy, FN(exp, FN(neg, FN(square, x)))), M_2_SQRTPI), {0})

/* Clevert, Unterthiner and Hochreiter, "Exponential Linear Units" (2015). */
UNARY(elu, ZT_FILL_NORMAL, "y[i] = x[i] > 0 ? x[i] : alpha (exp(x[i]) - 1)", x > 0 ? x : a->alpha * expm1(x),
      BOTH(mul, dy,
           BOTH(add, PLUS(TIMES(emit_above(emit, x), 1 - a->alpha), a->alpha),
                BOTH(mul, y, PLUS(FN(neg, emit_above(emit, x)), 1)))),
      {1}, {0.3})
UNARY(leaky_relu, ZT_FILL_NORMAL, "y[i] = x[i] > 0 ? x[i] : alpha x[i]", x > 0 ? x : a->alpha * x,
      BOTH(mul, dy, PLUS(TIMES(emit_above(emit, x), 1 - a->alpha), a->alpha)), {0.01}, {0.1})
UNARY(clamp, ZT_FILL_NORMAL, "y[i] = min(max(x[i], lo), hi), derivative 1 from lo to hi", clamp(x, a->lo, a->hi),
      BOTH(mul, dy, emit_within(emit, x, a->lo, a->hi)), {-0.5, 0.75}, {0, 1e30})
UNARY(safe_log, ZT_FILL_NORMAL, "y[i] = log(log(1 + exp(x[i])) + eps)", log(softplus(x) + a->eps),
      BOTH(mul, dy, BOTH(mul, FN(sigmoid, x), FN(exp, FN(neg, y)))), {1e-6}, {1e-3})
UNARY(add_scalar, ZT_FILL_NORMAL, "y[i] = x[i] + by", x + a->by, dy, {0.5}, {-3})
UNARY(pow_scalar, ZT_FILL_POSITIVE, "y[i] = x[i]^exponent", pow(x, a->exponent),
      a->exponent == 0 ? ZT_NONE : BOTH(mul, dy, TIMES(emit_power(emit, x, a->exponent - 1), a->exponent)), {2}, {0.5}, {-1}, {3},
      {0})

/* ---- arcs and hyperbolic functions ----------------------------------------------------------- */

/* dy / sqrt(1 - x^2) */
static int by_arc(const zt_emit *emit, int x, int dy) { return BOTH(mul, dy, FN(rsqrt, PLUS(FN(neg, FN(square, x)), 1))); }

UNARY(asin, ZT_FILL_UNIT, "y[i] = arcsin(x[i])", asin(x), by_arc(emit, x, dy), {0})
UNARY(acos, ZT_FILL_UNIT, "y[i] = arccos(x[i])", acos(x), FN(neg, by_arc(emit, x, dy)), {0})
UNARY(atan, ZT_FILL_NORMAL, "y[i] = arctan(x[i])", atan(x), BOTH(div, dy, PLUS(FN(square, x), 1)), {0})
UNARY(sinh, ZT_FILL_NORMAL, "y[i] = (exp(x[i]) - exp(-x[i])) / 2", sinh(x), BOTH(mul, dy, FN(cosh, x)), {0})
UNARY(cosh, ZT_FILL_NORMAL, "y[i] = (exp(x[i]) + exp(-x[i])) / 2", cosh(x), BOTH(mul, dy, FN(sinh, x)), {0})
UNARY(asinh, ZT_FILL_NORMAL, "y[i] = log(x[i] + sqrt(x[i]^2 + 1))", asinh(x), BOTH(mul, dy, FN(rsqrt, PLUS(FN(square, x), 1))),
      {0})
UNARY(acosh, ZT_FILL_ABOVE, "y[i] = log(x[i] + sqrt(x[i]^2 - 1))", acosh(x), BOTH(mul, dy, FN(rsqrt, PLUS(FN(square, x), -1))),
      {0})
UNARY(atanh, ZT_FILL_UNIT, "y[i] = log((1 + x[i]) / (1 - x[i])) / 2", atanh(x), BOTH(div, dy, PLUS(FN(neg, FN(square, x)), 1)),
      {0})

/* ---- activations ----------------------------------------------------------------------------- */

/* dy where x > 0; elsewhere dy times (y + at) by, which is the slope of by-scaled exponentials. */
static int by_parts(const zt_emit *emit, int x, int y, int dy, double above_0, double at, double by)
{
    int p = emit_above(emit, x), below = PLUS(FN(neg, p), 1);
    int slope = TIMES(BOTH(mul, below, PLUS(y, at)), by);
    return BOTH(mul, dy, BOTH(add, TIMES(p, above_0), slope));
}

/* Barron, "Continuously Differentiable Exponential Linear Units" (2017); Klambauer and others,
 * "Self-Normalizing Neural Networks" (2017); Misra, "Mish" (2019). */
UNARY(celu, ZT_FILL_NORMAL, "y[i] = x[i] > 0 ? x[i] : alpha (exp(x[i] / alpha) - 1)", x > 0 ? x : a->alpha * expm1(x / a->alpha),
      by_parts(emit, x, y, dy, 1, a->alpha, 1 / a->alpha), {1}, {0.3})
UNARY(selu, ZT_FILL_NORMAL, "y[i] = gamma (x[i] > 0 ? x[i] : alpha (exp(x[i]) - 1))", a->gamma *(x > 0 ? x : a->alpha * expm1(x)),
      by_parts(emit, x, y, dy, a->gamma, a->gamma * a->alpha, 1), {1.6732632423543772, 1.0507009873554805}, {2, 3})
UNARY(hard_sigmoid, ZT_FILL_NORMAL, "y[i] = max(0, min(1, alpha x[i] + beta))", clamp(a->alpha *x + a->beta, 0, 1),
      TIMES(BOTH(mul, dy, emit_within(emit, PLUS(TIMES(x, a->alpha), a->beta), 0, 1)), a->alpha), {0.2, 0.5}, {0.7, 0.4})
/* (2 x + 3) / 6 between -3 and 3, there and beyond it 1 or 0. */
UNARY(hard_swish, ZT_FILL_NORMAL, "y[i] = x[i] max(0, min(1, x[i] / 6 + 1/2))", x *clamp(x *(1 / 6.0) + 0.5, 0, 1),
      BOTH(mul, dy,
           BOTH(add, BOTH(mul, emit_within(emit, x, -3, 3), TIMES(PLUS(TIMES(x, 2), 3), 1 / 6.0)),
                emit_above(emit, PLUS(x, -3)))),
      {0})
/* With t = tanh(softplus(x)): t + x (1 - t^2) sigmoid(x). */
static int mish_slope(const zt_emit *emit, int x)
{
    int t = FN(tanh, FN(softplus, x)), rest = PLUS(FN(neg, FN(square, t)), 1);
    return BOTH(add, t, BOTH(mul, BOTH(mul, x, rest), FN(sigmoid, x)));
}
UNARY(mish, ZT_FILL_NORMAL, "y[i] = x[i] tanh(log(1 + exp(x[i])))", x *tanh(softplus(x)), BOTH(mul, dy, mish_slope(emit, x)), {0})
UNARY(softsign, ZT_FILL_NORMAL, "y[i] = x[i] / (1 + |x[i]|)", x / (1 + fabs(x)), BOTH(div, dy, FN(square, PLUS(FN(abs, x), 1))),
      {0})
UNARY(shrink, ZT_FILL_NORMAL,
      "y[i] = x[i] + bias if x[i] < -lambd, x[i] - bias if x[i] > lambd, else 0 (hard "
      "shrink: bias 0; soft shrink: bias lambd)",
      shrink(x, a->lambd, a->bias),
      BOTH(mul, dy, BOTH(add, emit_above(emit, PLUS(x, -a->lambd)), emit_above(emit, PLUS(FN(neg, x), -a->lambd)))), {0.51, 0},
      {0.75, 0.75}, {0.3, -1})
UNARY(thresholded_relu, ZT_FILL_NORMAL, "y[i] = x[i] > alpha ? x[i] : 0", x <= a->alpha ? 0 : x,
      BOTH(mul, dy, emit_above(emit, PLUS(x, -a->alpha))), {1}, {-0.5})

/* ---- one input ------------------------------------------------------------------------------- */

static void map_values(const zt_arg *in, zt_arg *out, zt_curve *f)
{
    int64_t count = zt_type_count(out->type);
    for (int64_t i = 0; i < count; i++) out->f[i] = f(in->f[i]);
}

/* Integers have whole factors, which a double holds exactly. */
static zt_status scale_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const double by = ((const zt_scale_attrs *)attrs)->by;
    out[0] = *in[0];
    zt_status status = zt_row_want_number(ctx, "x", in[0]);
    if (status || zt_dtype_is_float(in[0]->dtype) || zt_row_is_whole(by)) return status;
    return zt_row_fail(ctx, ZT_EUSAGE, "by is %g: must be a whole number up to 2^53 for integers", by);
}

static void scale_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_scale_attrs *scale = attrs;
    int64_t count = zt_type_count(out->type);
    (void)error;
    for (int64_t i = 0; i < count && out[0].f; i++) out[0].f[i] = in[0].f[i] * scale->by;
    for (int64_t i = 0; i < count && out[0].i; i++)
        out[0].i[i] = wrapped(out[0].type->dtype, (uint64_t)in[0].i[i] * (uint64_t)(int64_t)scale->by);
}

static bool scale_cases(int i, zt_case *test_case)
{
    static const zt_scale_attrs attrs[] = {{0.125}, {-25.298221281347036}, {1}}, whole[] = {{3}, {-7}, {0}};
    static const zt_case_type integers[] = {{ZT_I32, 2, {40, 133}}, {ZT_I64, 1, {33}}, {ZT_I8, 2, {7, 9}}, {ZT_U8, 1, {33}},
                                            {ZT_U64, 1, {33}},      {ZT_U16, 1, {0}},  {ZT_I16, 0, {0}},   {ZT_U32, 1, {9}}};
    int floats = 0;
    while (unary_cases(floats, ZT_FILL_NORMAL, attrs, sizeof attrs[0], ZT_LEN(attrs), test_case)) floats++;
    if (i < floats) return unary_cases(i, ZT_FILL_NORMAL, attrs, sizeof attrs[0], ZT_LEN(attrs), test_case);
    i -= floats;
    if (i >= ZT_LEN(integers)) return false;
    zt_case_attrs(test_case, &whole[i % ZT_LEN(whole)], sizeof whole[0]);
    zt_case_type_in(test_case, 0, ZT_FILL_IDS, &integers[i]);
    test_case->limit[0] = 120;
    return true;
}

static void scale_vjp(zt_vjp *vjp)
{
    const zt_scale_attrs *attrs = vjp->attrs;
    vjp->dx[0] = zt_build_scale(vjp->emit, vjp->dy[0], attrs);
}

const zt_opdef zt_op_scale = {
    .synopsis = "y[i] = x[i] * by; any plain float or integer type, y has the type of x; integers wrap, and by is a whole number",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = scale_infer,
    .ref = scale_ref,
    .cases = scale_cases,
    .vjp = scale_vjp,
};

static zt_status softcap_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_softcap_attrs *softcap = attrs;
    if (!(softcap->cap > 0)) return zt_row_fail(ctx, ZT_EUSAGE, "cap is %g: must be greater than 0", softcap->cap);
    return zt_infer_same_float(ctx, attrs, in, out);
}

static void softcap_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_softcap_attrs *softcap = attrs;
    int64_t count = zt_type_count(out->type);
    (void)error;
    for (int64_t i = 0; i < count; i++) out[0].f[i] = softcap->cap * tanh(in[0].f[i] / softcap->cap);
}

static bool softcap_cases(int i, zt_case *test_case)
{
    static const zt_softcap_attrs attrs[] = {{30}, {0.5}};
    return unary_cases(i, ZT_FILL_NORMAL, attrs, sizeof attrs[0], ZT_LEN(attrs), test_case);
}

/* 1 - (y / cap)^2 */
static void softcap_vjp(zt_vjp *vjp)
{
    const zt_softcap_attrs *attrs = vjp->attrs;
    const zt_emit *emit = vjp->emit;
    int part = zt_build_square(emit, zt_build_times(emit, vjp->out[0], 1 / attrs->cap));
    vjp->dx[0] = zt_build_mul(emit, vjp->dy[0], zt_build_plus(emit, zt_build_neg(emit, part), 1));
}

const zt_opdef zt_op_softcap = {
    .synopsis = "y[i] = cap * tanh(x[i] / cap), cap > 0; any plain float type, y has the type of x",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = softcap_infer,
    .ref = softcap_ref,
    .flops = zt_row_curve_flops,
    .cases = softcap_cases,
    .vjp = softcap_vjp,
};

static void silu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    map_values(in, out, silu);
}

/* s + y (1 - s), s = sigmoid(x) */
static void silu_vjp(zt_vjp *vjp)
{
    const zt_emit *emit = vjp->emit;
    int s = zt_build_sigmoid(emit, vjp->in[0]);
    int rest = zt_build_mul(emit, vjp->out[0], zt_build_plus(emit, zt_build_neg(emit, s), 1));
    vjp->dx[0] = zt_build_mul(emit, vjp->dy[0], zt_build_add(emit, s, rest));
}

const zt_opdef zt_op_silu = {
    .synopsis = "y[i] = x[i] / (1 + exp(-x[i])); any plain float type, y has the type of x",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = zt_infer_same_float,
    .ref = silu_ref,
    .flops = zt_row_curve_flops,
    .cases = zt_cases_unary,
    .vjp = silu_vjp,
};

static zt_status gelu_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_gelu_attrs *gelu = attrs;
    zt_status status = want_gelu_form(ctx, &gelu->form);
    return status ? status : zt_infer_same_float(ctx, attrs, in, out);
}

static void gelu_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_gelu_attrs *gelu = attrs;
    (void)error;
    map_values(in, out, gelu_form(&gelu->form));
}

static bool gelu_cases(int i, zt_case *test_case)
{
    static const zt_gelu_attrs attrs[] = {{{"tanh"}}, {{"erf"}}};
    return unary_cases(i, ZT_FILL_NORMAL, attrs, sizeof attrs[0], ZT_LEN(attrs), test_case);
}

/* (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 k x^2), t = tanh(c (x + k x^3)) */
static int gelu_tanh_slope(const zt_emit *emit, int x)
{
    const double c = sqrt(2 / M_PI), k = 0.044715;
    int xx = zt_build_square(emit, x), inner = zt_build_plus(emit, zt_build_times(emit, xx, k), 1);
    int t = zt_build_tanh(emit, zt_build_times(emit, zt_build_mul(emit, x, inner), c));
    int du = zt_build_times(emit, zt_build_plus(emit, zt_build_times(emit, xx, 3 * k), 1), c);
    int dt = zt_build_mul(emit, zt_build_plus(emit, zt_build_neg(emit, zt_build_square(emit, t)), 1), du);
    return zt_build_times(emit, zt_build_plus(emit, zt_build_add(emit, t, zt_build_mul(emit, x, dt)), 1), 0.5);
}

/* P(X < x) + x p(x) of a normal X */
static int gelu_erf_slope(const zt_emit *emit, int x)
{
    int below = zt_build_times(emit, zt_build_plus(emit, zt_build_erf(emit, zt_build_times(emit, x, M_SQRT1_2)), 1), 0.5);
    int density = zt_build_times(emit, zt_build_exp(emit, zt_build_times(emit, zt_build_square(emit, x), -0.5)),
                                 M_SQRT1_2 * M_2_SQRTPI / 2);
    return zt_build_add(emit, below, zt_build_mul(emit, x, density));
}

static void gelu_vjp(zt_vjp *vjp)
{
    const zt_gelu_attrs *attrs = vjp->attrs;
    int slope =
        gelu_form(&attrs->form) == gelu_erf ? gelu_erf_slope(vjp->emit, vjp->in[0]) : gelu_tanh_slope(vjp->emit, vjp->in[0]);
    vjp->dx[0] = zt_build_mul(vjp->emit, vjp->dy[0], slope);
}

const zt_opdef zt_op_gelu = {
    .synopsis = "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), or form=erf: "
                "x/2 (1 + erf(x / sqrt(2))); any plain float type, y has the type of x",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = gelu_infer,
    .ref = gelu_ref,
    .flops = zt_row_curve_flops,
    .cases = gelu_cases,
    .vjp = gelu_vjp,
};
