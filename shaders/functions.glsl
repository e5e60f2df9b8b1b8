// functions.glsl - the functions of elementwise ops, each by a name of its own, all of one form, so
// that a chain's module (lib/engine/vulkan/module.c) can call any of them: f_OP of one number and
// two attributes, or of two numbers. Steps are exactly rounded: an op gives the same alone and in a
// chain.

#define FUNCTION(NAME, Y)                                                                          \
    float NAME(const float x, const float a, const float b)                                        \
    {                                                                                              \
        precise float y = Y;                                                                       \
        return y;                                                                                  \
    }
FUNCTION(f_scale, x * a)
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
FUNCTION(f_clamp, isnan(x) ? x : min(max(x, a), b))
FUNCTION(f_add_scalar, x + a)
FUNCTION(f_leaky_relu, x > 0.0 || isnan(x) ? x : a * x)

FUNCTION(f_add, x + a)
FUNCTION(f_sub, x - a)
FUNCTION(f_mul, x * a)
FUNCTION(f_div, x / a)
FUNCTION(f_max, isnan(x) || isnan(a) ? x + a : max(x, a))
FUNCTION(f_min, isnan(x) || isnan(a) ? x + a : min(x, a))
FUNCTION(f_swiglu, x * sigmoid_of(x) * a)
FUNCTION(f_geglu_tanh, gelu_tanh_of(x) * a)
FUNCTION(f_geglu_erf, gelu_erf_of(x) * a)
