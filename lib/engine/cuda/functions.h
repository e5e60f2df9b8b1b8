/* functions.h - the functions of one number and of two that elementwise ops are, for kernels.
 *
 * f_NAME(x, p, q) with the op's attributes, f_NAME(x) where it has none, f_NAME(a, b): of floats
 * and doubles. The same bits wherever they are called from, so that a fused kernel gives those of
 * the ops it stands for. Formulas: lib/ops/elementwise_*.c.
 */
#ifndef ZT_CU_FUNCTIONS_H
#define ZT_CU_FUNCTIONS_H

#include "lib/engine/cuda/args_elementwise.h"
#include "lib/engine/cuda/prim.h"

// clang-format off
#define F1(name, expression)                                                                       \
    template <class W> FN W f_##name(W x, W p, W q)                                                \
    {                                                                                              \
        (void)p, (void)q;                                                                          \
        return expression;                                                                         \
    }                                                                                              \
    template <class W> FN W f_##name(W x) { return f_##name(x, W(0), W(0)); }
// clang-format on
#define F2(name, expression)                                                                                                     \
    template <class W> FN W f_##name(W a, W b) { return expression; }

template <class W> FN W f_within(W x, W lo, W hi) { return x < lo ? lo : x > hi ? hi : x; }

/* ---- one ------------------------------------------------------------------------------------- */

F1(neg, -x)
F1(abs, fabs(x))
F1(sign, x != x ? x : W(x > 0) - W(x < 0))
F1(floor, floor(x))
F1(ceil, ceil(x))
F1(round, rint(x))
F1(square, x *x)
F1(sqrt, sqrt(x))
F1(rsqrt, W(1) / sqrt(x))
F1(recip, W(1) / x)
F1(exp, exp(x))
F1(expm1, expm1(x))
F1(log, log(x))
F1(log1p, log1p(x))
F1(sin, sin(x))
F1(cos, cos(x))
F1(tan, tan(x))
F1(tanh, tanh(x))
F1(sigmoid, W(1) / (W(1) + exp(-x)))
F1(softplus, (x > 0 ? x : W(0)) + log1p(exp(-fabs(x))))
F1(relu, x < 0 ? W(0) : x)
F1(erf, erf(x))
F1(elu, x > 0 ? x : p * expm1(x))
F1(leaky_relu, x > 0 ? x : p * x)
F1(clamp, f_within(x, p, q))
F1(safe_log, log(f_softplus(x) + p))
F1(add_scalar, x + p)
F1(pow_scalar, pow(x, p))
F1(asin, asin(x))
F1(acos, acos(x))
F1(atan, atan(x))
F1(sinh, sinh(x))
F1(cosh, cosh(x))
F1(asinh, asinh(x))
F1(acosh, acosh(x))
F1(atanh, atanh(x))
F1(celu, x > 0 ? x : p * expm1(x / p))
F1(selu, q *(x > 0 ? x : p * expm1(x)))
F1(hard_sigmoid, f_within(p *x + q, W(0), W(1)))
F1(hard_swish, x *f_within(x *W(1 / 6.0) + W(0.5), W(0), W(1)))
F1(mish, x *tanh(f_softplus(x)))
F1(softsign, x / (W(1) + fabs(x)))
F1(shrink, x != x ? x : x < -p ? x + q : x > p ? x - q : W(0))
F1(thresholded_relu, x <= p ? W(0) : x)
F1(scale, x *p)
F1(softcap, p *tanh(x / p))
F1(silu, x / (W(1) + exp(-x)))
F1(gelu_tanh, x / (W(1) + exp(W(-1.5957691216057308) * (x + W(0.044715) * x * x * x))))
F1(gelu_erf, W(0.5) * x * erfc(x * W(-0.70710678118654752)))

/* ---- two ------------------------------------------------------------------------------------- */

/* Of b's sign. */
template <class W> FN W f_modulus(W a, W b)
{
    W r = fmod(a, b);
    if (r == 0) return copysign(W(0), b);
    return (r < 0) != (b < 0) ? r + b : r;
}
template <class W> FN W f_slope_of_tanh(W x, W dy)
{
    W y = tanh(x);
    return dy * (W(1) - y * y);
}

F2(add, a + b)
F2(sub, a - b)
F2(mul, a *b)
F2(div, a / b)
F2(pow, pow(a, b))
F2(mod, f_modulus(a, b))
F2(fmod, fmod(a, b))
F2(max, a > b || a != a ? a : b)
F2(min, a < b || a != a ? a : b)
F2(prelu, a > 0 ? a : b * a)
F2(swiglu, f_silu(a) * b)
F2(geglu_tanh, f_gelu_tanh(a) * b)
F2(geglu_erf, f_gelu_erf(a) * b)
F2(tanh_prime, f_slope_of_tanh(a, b))

#undef F1
#undef F2

/* ---- by number ------------------------------------------------------------------------------- */

template <class W> FN W f_unary(int fn, W x, W p, W q)
{
    switch (fn) {
#define X(name)                                                                                                                  \
    case ZT_CU_F_##name: return f_##name(x, p, q);
        ZT_CU_UNARY(X)
#undef X
    default: return x;
    }
}
template <class W> FN W f_binary(int fn, W a, W b)
{
    switch (fn) {
#define X(name)                                                                                                                  \
    case ZT_CU_F_##name: return f_##name(a, b);
        ZT_CU_BINARY(X)
#undef X
    default: return a;
    }
}

#endif
