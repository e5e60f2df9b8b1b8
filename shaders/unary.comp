// unary.comp - y = f(x), one number an invocation. word: count, two numbers of the attributes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

float f(float x)
{
    float a = number(1), b = number(2);
    switch (KIND) { // as `functions` in lib/engine/vulkan/elementwise.c
    case 0u: return x * a;
    case 1u: return a * tanh_of(x / a);
    case 2u: return x * sigmoid_of(x);
    case 3u: return gelu_tanh_of(x);
    case 4u: return gelu_erf_of(x);
    case 5u: return -x;
    case 6u: return abs(x);
    case 7u: return x * x;
    case 8u: return sqrt(x);
    case 9u: return 1.0 / x;
    case 10u: return exp_of(x);
    case 11u: return tanh_of(x);
    case 12u: return sigmoid_of(x);
    case 13u: return x > 0.0 || isnan(x) ? x : 0.0;
    case 14u: return erf_of(x);
    case 15u: return isnan(x) ? x : min(max(x, a), b);
    case 16u: return x + a;
    case 17u: return x > 0.0 || isnan(x) ? x : a * x;
    }
    return x;
}

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i < call.word[0]) put(1u, i, f(get(0u, i)));
}
