// linear_after.comp - what is done to products: y = f(y), or f(x, y) where x is there. x, y -> y. word: count.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "function_of.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(constant_id = 1) const uint PAIR = 0u;
layout(local_size_x = 64) in;

void main()
{
    const uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    if (PAIR != 0u)
        put(1u, i, pair_of(KIND, get(0u, i), get(1u, i)));
    else
        put(1u, i, function_of(KIND, get(1u, i), 0.0, 0.0));
}
