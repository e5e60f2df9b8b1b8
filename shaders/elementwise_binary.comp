// elementwise_binary.comp - y = f(a, b) with broadcasting. word: count, then of 4 merged dimensions the sizes,
// a's and b's steps (0 where repeated).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "functions.glsl"

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
    }
    return 0.0;
}

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    uint rest = i, a = 0u, b = 0u;
    for (uint d = 4u; d-- > 0u;) {
        uint at = rest % call.word[1u + d];
        rest /= call.word[1u + d];
        a += at * call.word[5u + d];
        b += at * call.word[9u + d];
    }
    put(2u, i, f(get(0u, a), get(1u, b)));
}
