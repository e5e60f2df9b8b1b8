// slice_put.comp - zeros, but for entries from + k step along an axis, which are those of x. word: count, elements after
// the axis, entries of y and of x along it, from, step.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"

layout(constant_id = 0) const uint BYTES = 4u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    uint inner = call.word[1], entries = call.word[3], row = i / inner, outer = row / call.word[2];
    int step = whole(5), past = int(row % call.word[2]) - whole(4);
    if (step < 0) past = -past;
    uint by = uint(abs(step)), k = uint(max(past, 0)) / by;
    uvec2 v = uvec2(0u);
    if (past >= 0 && k * by == uint(past) && k < entries)
        v = load_bytes(BYTES, call.at[0], (outer * entries + k) * inner + i % inner);
    store_bytes(BYTES, call.at[1], i, v);
}
