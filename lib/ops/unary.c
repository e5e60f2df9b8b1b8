/* unary.c - rows of the named functions of one number: one entry each, with the derivative as ops.
 *
 * UNARY(name, fill of its cases, synopsis, y of the double x, dx, attributes of its cases...). In y
 * and dx `a` is the attribute struct; dx is written from the values x, y and dy.
 */
#include "lib/ops/vjp.h"

#include <math.h>

static bool unary_cases(int i, zt_fill fill, const void *attrs, size_t bytes, int n_attrs,
                        zt_case *c)
{
    static const zt_case_type halves[] = {{ZT_F16, 2, {2, 33}}, {ZT_BF16, 2, {3, 64}}};
    zt_case_type t;
    int n = 0, k = i / n_attrs;
    while (zt_case_shape(n, 0, &t)) n++;
    if (k >= n + ZT_LEN(halves)) return false;
    if (k >= n)
        t = halves[k - n];
    else
        zt_case_shape(k, 0, &t);
    zt_case_attrs(c, (const char *)attrs + (size_t)(i % n_attrs) * bytes, bytes);
    zt_case_type_in(c, 0, fill, &t);
    return true;
}

static double unary_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)in;
    return 10 * (double)zt_type_count(out);
}

#define UNARY(NAME, FILL, SYNOPSIS, Y, DX, ...)                                                    \
    static void NAME##_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_trouble *t)        \
    {                                                                                              \
        const zt_##NAME##_attrs *a = attrs;                                                        \
        int64_t n = zt_type_count(out[0].type);                                                    \
        (void)a, (void)t;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            double x = in[0].f[i];                                                                 \
            out[0].f[i] = Y;                                                                       \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_vjp(zt_vjp *v)                                                              \
    {                                                                                              \
        const zt_##NAME##_attrs *a = v->attrs;                                                     \
        const zt_emit *e = v->e;                                                                   \
        int x = v->in[0], y = v->out[0], dy = v->dy[0];                                            \
        (void)a, (void)e, (void)x, (void)y, (void)dy;                                              \
        v->dx[0] = DX;                                                                             \
    }                                                                                              \
    static bool NAME##_cases(int i, zt_case *c)                                                    \
    {                                                                                              \
        static const zt_##NAME##_attrs attrs[] = {__VA_ARGS__};                                    \
        return unary_cases(i, FILL, attrs, sizeof attrs[0], ZT_LEN(attrs), c);                     \
    }                                                                                              \
    const zt_opdef zt_op_##NAME = {                                                                \
        .synopsis = SYNOPSIS "; any plain float type, y has x's",                                  \
        .n_required = 1,                                                                           \
        .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,                                              \
        .infer = zt_infer_same_float,                                                              \
        .ref = NAME##_ref,                                                                         \
        .flops = unary_flops,                                                                      \
        .cases = NAME##_cases,                                                                     \
        .vjp = NAME##_vjp,                                                                         \
    };

/* ---- numbers --------------------------------------------------------------------------------- */

static double sign(double x) { return isnan(x) ? x : (x > 0) - (x < 0); }

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

/* ---- values ---------------------------------------------------------------------------------- */

#define BOTH(op, p, q) zt_e_##op(e, p, q)
#define FN(op, p)      zt_e_##op(e, p)
#define TIMES(p, c)    zt_e_times(e, p, c)

#define PLUS(p, c) zt_e_plus(e, p, c)

static int power(const zt_emit *e, int x, double exponent)
{
    return zt_e_pow_scalar(e, x, &(zt_pow_scalar_attrs){exponent});
}

/* 1 where x > 0, else 0. */
static int above(const zt_emit *e, int x) { return zt_e_relu(e, zt_e_sign(e, x)); }

/* 1 from lo to hi, else 0. */
static int within(const zt_emit *e, int x, double lo, double hi)
{
    int out = BOTH(add, above(e, PLUS(x, -hi)), above(e, PLUS(FN(neg, x), lo)));
    return PLUS(FN(neg, out), 1);
}

/* ---- the functions --------------------------------------------------------------------------- */

UNARY(neg, ZT_FILL_NORMAL, "y[i] = -x[i]", -x, FN(neg, dy), {0})
UNARY(abs, ZT_FILL_NORMAL, "y[i] = |x[i]|, derivative 0 at 0", fabs(x),
      BOTH(mul, dy, FN(sign, x)), {0})
UNARY(sign, ZT_FILL_NORMAL, "y[i] = -1, 0 or 1 as x[i] is below, at or above 0", sign(x), ZT_NONE,
      {0})
UNARY(floor, ZT_FILL_NORMAL, "y[i] = x[i] rounded down", floor(x), ZT_NONE, {0})
UNARY(ceil, ZT_FILL_NORMAL, "y[i] = x[i] rounded up", ceil(x), ZT_NONE, {0})
UNARY(round, ZT_FILL_NORMAL, "y[i] = x[i] rounded to the nearest, halves to even", rint(x), ZT_NONE,
      {0})
UNARY(square, ZT_FILL_NORMAL, "y[i] = x[i]^2", x * x, TIMES(BOTH(mul, dy, x), 2), {0})
UNARY(sqrt, ZT_FILL_POSITIVE, "y[i] = sqrt(x[i])", sqrt(x), TIMES(BOTH(div, dy, y), 0.5), {0})
UNARY(rsqrt, ZT_FILL_POSITIVE, "y[i] = 1 / sqrt(x[i])", 1 / sqrt(x),
      TIMES(BOTH(mul, dy, BOTH(mul, y, FN(square, y))), -0.5), {0})
UNARY(recip, ZT_FILL_POSITIVE, "y[i] = 1 / x[i]", 1 / x,
      FN(neg, BOTH(mul, dy, FN(square, y))), {0})
UNARY(exp, ZT_FILL_NORMAL, "y[i] = exp(x[i])", exp(x), BOTH(mul, dy, y), {0})
UNARY(expm1, ZT_FILL_NORMAL, "y[i] = exp(x[i]) - 1", expm1(x), BOTH(mul, dy, PLUS(y, 1)), {0})
UNARY(ln, ZT_FILL_POSITIVE, "y[i] = the natural logarithm of x[i]", log(x), BOTH(div, dy, x), {0})
UNARY(log1p, ZT_FILL_POSITIVE, "y[i] = log(1 + x[i])", log1p(x), BOTH(div, dy, PLUS(x, 1)), {0})
UNARY(sin, ZT_FILL_NORMAL, "y[i] = sin(x[i])", sin(x), BOTH(mul, dy, FN(cos, x)), {0})
UNARY(cos, ZT_FILL_NORMAL, "y[i] = cos(x[i])", cos(x), FN(neg, BOTH(mul, dy, FN(sin, x))), {0})
UNARY(tan, ZT_FILL_NORMAL, "y[i] = tan(x[i])", tan(x), BOTH(mul, dy, PLUS(FN(square, y), 1)), {0})
UNARY(tanh, ZT_FILL_NORMAL, "y[i] = tanh(x[i])", tanh(x),
      BOTH(mul, dy, PLUS(FN(neg, FN(square, y)), 1)), {0})
UNARY(sigmoid, ZT_FILL_NORMAL, "y[i] = 1 / (1 + exp(-x[i]))", 1 / (1 + exp(-x)),
      BOTH(mul, dy, BOTH(mul, y, PLUS(FN(neg, y), 1))), {0})
UNARY(softplus, ZT_FILL_NORMAL, "y[i] = log(1 + exp(x[i]))", softplus(x),
      BOTH(mul, dy, FN(sigmoid, x)), {0})
UNARY(relu, ZT_FILL_NORMAL, "y[i] = max(x[i], 0), derivative 0 at 0", x < 0 ? 0 : x,
      BOTH(mul, dy, above(e, x)), {0})
UNARY(erf, ZT_FILL_NORMAL, "y[i] = erf(x[i])", erf(x),
      TIMES(BOTH(mul, dy, FN(exp, FN(neg, FN(square, x)))), M_2_SQRTPI), {0})

/* Clevert, Unterthiner and Hochreiter, "Exponential Linear Units" (2015). */
UNARY(elu, ZT_FILL_NORMAL, "y[i] = x[i] > 0 ? x[i] : alpha (exp(x[i]) - 1)",
      x > 0 ? x : a->alpha * expm1(x),
      BOTH(mul, dy,
           BOTH(add, PLUS(TIMES(above(e, x), 1 - a->alpha), a->alpha),
                BOTH(mul, y, PLUS(FN(neg, above(e, x)), 1)))),
      {1}, {0.3})
UNARY(leaky_relu, ZT_FILL_NORMAL, "y[i] = x[i] > 0 ? x[i] : alpha x[i]",
      x > 0 ? x : a->alpha * x,
      BOTH(mul, dy, PLUS(TIMES(above(e, x), 1 - a->alpha), a->alpha)), {0.01}, {0.1})
UNARY(clamp, ZT_FILL_NORMAL, "y[i] = min(max(x[i], lo), hi), derivative 1 from lo to hi",
      clamp(x, a->lo, a->hi), BOTH(mul, dy, within(e, x, a->lo, a->hi)), {-0.5, 0.75}, {0, 1e30})
UNARY(safe_log, ZT_FILL_NORMAL, "y[i] = log(log(1 + exp(x[i])) + eps)", log(softplus(x) + a->eps),
      BOTH(mul, dy, BOTH(mul, FN(sigmoid, x), FN(exp, FN(neg, y)))), {1e-6}, {1e-3})
UNARY(add_scalar, ZT_FILL_NORMAL, "y[i] = x[i] + by", x + a->by, dy, {0.5}, {-3})
UNARY(pow_scalar, ZT_FILL_POSITIVE, "y[i] = x[i]^exponent", pow(x, a->exponent),
      a->exponent == 0
          ? ZT_NONE
          : BOTH(mul, dy, TIMES(power(e, x, a->exponent - 1), a->exponent)),
      {2}, {0.5}, {-1}, {3}, {0})
