// elementwise_binary.comp - y = f(a, b) of floats with broadcasting. word: count, then as strides.glsl wants.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "function_of.glsl"
#include "strides.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    put(output_after(2u), i, pair_of(KIND, get(0u, place_of(0u, 2u, i)), get(1u, place_of(1u, 2u, i))));
}
