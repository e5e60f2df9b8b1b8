// binary.comp - y = f(a, b) with broadcasting. word: count, then of 4 merged dimensions the sizes,
// a's and b's steps (0 where repeated).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

float f(float a, float b)
{
    switch (KIND) { // as `pairs` in lib/engine/vulkan/elementwise.c
    case 0u: return a + b;
    case 1u: return a - b;
    case 2u: return a * b;
    case 3u: return a / b;
    case 4u: return isnan(a) || isnan(b) ? a + b : max(a, b);
    case 5u: return isnan(a) || isnan(b) ? a + b : min(a, b);
    case 6u: return a * sigmoid_of(a) * b;
    case 7u: return gelu_tanh_of(a) * b;
    case 8u: return gelu_erf_of(a) * b;
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
