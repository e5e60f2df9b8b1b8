// recurrent_transpose.comp - y[k,row] = w[row,k], so that invocations with rows side by side read numbers side
// by side. Operands: w, y. word: numbers, rows, columns.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    Floats(call.at[1]).v[i] = Floats(call.at[0]).v[i % call.word[1] * call.word[2] + i / call.word[1]];
}
