// function_of.glsl - the functions of functions.glsl by their numbers in lib/engine/vulkan/elementwise.c, `functions` and
// `pairs`. Where the number is a constant, the compiler leaves that one.
#include "functions.glsl"

real function_of(uint number, real x, real a, real b)
{
    switch (number) {
    case 0u: return f_scale(x, a, b);
    case 1u: return f_softcap(x, a, b);
    case 2u: return f_silu(x, a, b);
    case 3u: return f_gelu_tanh(x, a, b);
    case 4u: return f_gelu_erf(x, a, b);
    case 5u: return f_neg(x, a, b);
    case 6u: return f_abs(x, a, b);
    case 7u: return f_square(x, a, b);
    case 8u: return f_sqrt(x, a, b);
    case 9u: return f_recip(x, a, b);
    case 10u: return f_exp(x, a, b);
    case 11u: return f_tanh(x, a, b);
    case 12u: return f_sigmoid(x, a, b);
    case 13u: return f_relu(x, a, b);
    case 14u: return f_erf(x, a, b);
    case 15u: return f_clamp(x, a, b);
    case 16u: return f_add_scalar(x, a, b);
    case 17u: return f_leaky_relu(x, a, b);
    case 18u: return f_sign(x, a, b);
    case 19u: return f_floor(x, a, b);
    case 20u: return f_ceil(x, a, b);
    case 21u: return f_round(x, a, b);
    case 22u: return f_rsqrt(x, a, b);
    case 23u: return f_expm1(x, a, b);
    case 24u: return f_log(x, a, b);
    case 25u: return f_log1p(x, a, b);
    case 26u: return f_sin(x, a, b);
    case 27u: return f_cos(x, a, b);
    case 28u: return f_tan(x, a, b);
    case 29u: return f_softplus(x, a, b);
    case 30u: return f_elu(x, a, b);
    case 31u: return f_safe_log(x, a, b);
    case 32u: return f_pow_scalar(x, a, b);
    case 33u: return f_asin(x, a, b);
    case 34u: return f_acos(x, a, b);
    case 35u: return f_atan(x, a, b);
    case 36u: return f_sinh(x, a, b);
    case 37u: return f_cosh(x, a, b);
    case 38u: return f_asinh(x, a, b);
    case 39u: return f_acosh(x, a, b);
    case 40u: return f_atanh(x, a, b);
    case 41u: return f_celu(x, a, b);
    case 42u: return f_selu(x, a, b);
    case 43u: return f_hard_sigmoid(x, a, b);
    case 44u: return f_hard_swish(x, a, b);
    case 45u: return f_mish(x, a, b);
    case 46u: return f_softsign(x, a, b);
    case 47u: return f_shrink(x, a, b);
    case 48u: return f_thresholded_relu(x, a, b);
    }
    return x;
}

real pair_of(uint number, real a, real b)
{
    switch (number) {
    case 0u: return f_add(a, b, 0.0);
    case 1u: return f_sub(a, b, 0.0);
    case 2u: return f_mul(a, b, 0.0);
    case 3u: return f_div(a, b, 0.0);
    case 4u: return f_max(a, b, 0.0);
    case 5u: return f_min(a, b, 0.0);
    case 6u: return f_swiglu(a, b, 0.0);
    case 7u: return f_geglu_tanh(a, b, 0.0);
    case 8u: return f_geglu_erf(a, b, 0.0);
    case 9u: return f_pow(a, b, 0.0);
    case 10u: return f_mod(a, b, 0.0);
    case 11u: return f_fmod(a, b, 0.0);
    case 12u: return f_prelu(a, b, 0.0);
    case 13u: return f_tanh_prime(a, b, 0.0);
    }
    return a;
}
