// shape.comp - elements in other places: y[i] = x[base + the sum of i's index along each axis times its step], of 1, 2,
// 4 or 8 bytes. Operands: x, the table, y. word: count, then as strides.glsl wants, 5 the base.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "strides.glsl"

layout(constant_id = 0) const uint BYTES = 4u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    store_bytes(BYTES, call.at[output_after(1u)], i, load_bytes(BYTES, call.at[0], call.word[5] + place_of(0u, 1u, i)));
}
