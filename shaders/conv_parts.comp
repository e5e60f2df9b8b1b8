// conv_parts.comp - y = the sum of parts of a filter's gradient, in order. Operands: parts f32 [part,
// element], y. word: elements, parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    precise real sum = 0.0;
    for (uint p = 0u; p < call.word[1]; p++) sum += Reals(call.at[0]).v[p * call.word[0] + i];
    put(1u, i, sum);
}
