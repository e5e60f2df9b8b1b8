// functions.glsl - the functions of elementwise ops, each by a name of its own, all of one form, so
// that a chain's module (lib/engine/vulkan/module.c) can call any of them: f_OP of one number and
// two attributes, or of two numbers. Steps are exactly rounded: an op gives the same alone and in a
// chain.
#include "curves.glsl"
#include "math.glsl"

#define FUNCTION(NAME, Y)                                                                          \
    real NAME(const real x, const real a, const real b)                                            \
    {                                                                                              \
        precise real y = Y;                                                                        \
        return y;                                                                                  \
    }
real within(real x, real low, real high) { return x < low ? low : x > high ? high : x; }
real tanh_slope(real x)
{
    precise real y = tanh_of(x);
    return 1.0 - y * y;
}

// ---- one number ----------------------------------------------------------------------------------

FUNCTION(f_scale, times_both(x, a, b))
FUNCTION(f_softcap, a * tanh_of(x / a))
FUNCTION(f_silu, x * sigmoid_of(x))
FUNCTION(f_gelu_tanh, gelu_tanh_of(x))
FUNCTION(f_gelu_erf, gelu_erf_of(x))
FUNCTION(f_neg, -x)
FUNCTION(f_abs, abs(x))
FUNCTION(f_square, x * x)
FUNCTION(f_sqrt, sqrt(x))
FUNCTION(f_recip, 1.0 / x)
FUNCTION(f_exp, exp_of(x))
FUNCTION(f_tanh, tanh_of(x))
FUNCTION(f_sigmoid, sigmoid_of(x))
FUNCTION(f_relu, x > 0.0 || isnan(x) ? x : 0.0)
FUNCTION(f_erf, erf_of(x))
FUNCTION(f_clamp, within(x, a, b))
FUNCTION(f_add_scalar, x + a)
FUNCTION(f_leaky_relu, x > 0.0 || isnan(x) ? x : a * x)
FUNCTION(f_sign, isnan(x) ? x : x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0)
FUNCTION(f_floor, floor(x))
FUNCTION(f_ceil, ceil(x))
FUNCTION(f_round, roundEven(x))
FUNCTION(f_rsqrt, 1.0 / sqrt(x))
FUNCTION(f_expm1, expm1_of(x))
FUNCTION(f_log, log_of(x))
FUNCTION(f_log1p, log1p_of(x))
FUNCTION(f_sin, sin_of(x))
FUNCTION(f_cos, cos_of(x))
FUNCTION(f_tan, tan_of(x))
FUNCTION(f_softplus, softplus_of(x))
FUNCTION(f_elu, x > 0.0 ? x : a * expm1_of(x))
FUNCTION(f_safe_log, log_of(softplus_of(x) + a))
FUNCTION(f_pow_scalar, pow_of(x, a))
FUNCTION(f_asin, asin_of(x))
FUNCTION(f_acos, acos_of(x))
FUNCTION(f_atan, atan_of(x))
FUNCTION(f_sinh, sinh_of(x))
FUNCTION(f_cosh, cosh_of(x))
FUNCTION(f_asinh, asinh_of(x))
FUNCTION(f_acosh, acosh_of(x))
FUNCTION(f_atanh, atanh_of(x))
FUNCTION(f_celu, x > 0.0 ? x : a * expm1_of(x / a))
FUNCTION(f_selu, b * (x > 0.0 ? x : a * expm1_of(x)))
FUNCTION(f_hard_sigmoid, within(a * x + b, 0.0, 1.0))
FUNCTION(f_hard_swish, x * within(x * (real(1.0) / 6.0) + 0.5, 0.0, 1.0))
FUNCTION(f_mish, x * tanh_of(softplus_of(x)))
FUNCTION(f_softsign, x / (1.0 + abs(x)))
FUNCTION(f_shrink, isnan(x) ? x : x < -a ? x + b : x > a ? x - b : 0.0)
FUNCTION(f_thresholded_relu, x <= a ? 0.0 : x)

// ---- two -----------------------------------------------------------------------------------------

FUNCTION(f_add, x + a)
FUNCTION(f_sub, x - a)
FUNCTION(f_mul, x * a)
FUNCTION(f_div, x / a)
FUNCTION(f_max, isnan(x) || isnan(a) ? x + a : max(x, a))
FUNCTION(f_min, isnan(x) || isnan(a) ? x + a : min(x, a))
FUNCTION(f_swiglu, quick_silu(x) * a)
FUNCTION(f_geglu_tanh, quick_gelu_tanh(x) * a)
FUNCTION(f_geglu_erf, gelu_erf_of(x) * a)
FUNCTION(f_pow, pow_of(x, a))
FUNCTION(f_mod, mod_of(x, a))
FUNCTION(f_fmod, fmod_of(x, a))
FUNCTION(f_prelu, x > 0.0 ? x : a * x)
FUNCTION(f_tanh_prime, a * tanh_slope(x))

// ---- tests, choices and casts, in chains alone, where bool is 0 or 1 ----------------------------

#define TEST(NAME, Y)                                                                              \
    real NAME(const real x, const real a, const real b) { return (Y) ? 1.0 : 0.0; }
TEST(f_isnan, isnan(x))
TEST(f_isinf, isinf(x) && (x < 0.0 ? a : b) != 0.0)
TEST(f_isfinite, !isinf(x) && !isnan(x))
TEST(f_logical_not, x == 0.0)
TEST(f_eq, x == a)
TEST(f_ne, x != a)
TEST(f_lt, x < a)
TEST(f_le, x <= a)
TEST(f_gt, x > a)
TEST(f_ge, x >= a)
TEST(f_logical_and, x != 0.0 && a != 0.0)
TEST(f_logical_or, x != 0.0 || a != 0.0)
TEST(f_logical_xor, (x != 0.0) != (a != 0.0))
FUNCTION(f_cast, x)
FUNCTION(f_where, x != 0.0 ? a : b)
