// elementwise_unary.comp - y = f(x), one number an invocation. word: count, two numbers of the attributes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "functions.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

float f(float x)
{
    float a = number(1), b = number(2);
    switch (KIND) { // as `functions` in lib/engine/vulkan/elementwise.c
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
    }
    return x;
}

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i < call.word[0]) put(1u, i, f(get(0u, i)));
}
