// index_convert.comp - floats of one type as those of another: x -> y. word: count, the kinds of floats of x and of y (as
// FLOATS).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint i = row_of_group() * 64u + gl_LocalInvocationID.x;
    if (i >= call.word[0]) return;
    float v = get_as(call.word[1], 0u, i);
    if (call.word[2] == 0u)
        Floats(call.at[1]).v[i] = v;
    else
        Halves(call.at[1]).v[i] = uint16_t(call.word[2] == 1u ? float_to_half(v) : float_to_brain(v));
}
