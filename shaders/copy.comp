// copy.comp - a piece along one dimension. word: count of y in words of 4 bytes, words of y after
// and with the dimension, of x with it, and where the piece begins, in words.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    uint piece = call.word[1], outer = i / piece;
    Words(call.at[1]).v[i] = Words(call.at[0]).v[outer * call.word[2] + call.word[3] + i % piece];
}
