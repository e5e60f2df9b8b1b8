// slice.comp - a piece along one dimension, by units of 4 bytes or, with HALVES, 2. word: units of
// y, of y after and with the dimension, of x with it, and where the piece begins.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint HALVES = 0u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    uint piece = call.word[1], outer = i / piece;
    uint from = outer * call.word[2] + call.word[3] + i % piece;
    if (HALVES != 0u)
        Halves(call.at[1]).v[i] = Halves(call.at[0]).v[from];
    else
        Words(call.at[1]).v[i] = Words(call.at[0]).v[from];
}
