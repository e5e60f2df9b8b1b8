// state_back.comp - y[o, i] = sum over j, in order, of part[o, j, i]. part -> y. word: numbers of y, parts, inner numbers.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

void main()
{
    const uint own = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u, inner = call.word[2];
    const uint at = min(own, call.word[0] - 1u);
    precise float sum = 0.0;
    for (uint j = 0u; j < call.word[1]; j++) sum = sum + Floats(call.at[0]).v[(at / inner * call.word[1] + j) * inner + at % inner];
    if (own == at) Floats(call.at[1]).v[at] = sum;
}
