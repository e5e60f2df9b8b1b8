// elementwise_binary.comp - y = f(a, b) of floats with broadcasting. word: count, then as strides.glsl wants.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "functions.glsl"
#include "strides.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

float f(float a, float b)
{
    switch (KIND) { // as `pairs` in lib/engine/vulkan/elementwise.c
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
    return 0.0;
}

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    put(output_after(2u), i, f(get(0u, place_of(0u, 2u, i)), get(1u, place_of(1u, 2u, i))));
}
