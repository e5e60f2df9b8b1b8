// elementwise_unary.comp - y = f(x) of floats. word: count, two numbers of the attributes, and their bits in f64.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "function_of.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i < call.word[0]) put(1u, i, function_of(KIND, get(0u, i), real_number(1u, 3u), real_number(2u, 5u)));
}
