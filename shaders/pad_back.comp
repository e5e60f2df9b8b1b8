// pad_back.comp - the sums of pad's gradient along one axis, x [outer, padded, inner], y [outer, size, inner]. word: count,
// padded, size, inner, the entries before, mode.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "pad.glsl"

layout(constant_id = 0) const uint FROM = 1u; // types by their numbers
layout(constant_id = 1) const uint TO = 1u;
layout(local_size_x = 64) in;

#ifdef IN_F64
double entry_at(uint i) { return get(0u, i); }
void put_entry(uint i, double v) { put(1u, i, v); }
#else
float entry_at(uint i) { return load_as(FROM, 0u, i); }
void put_entry(uint i, float v) { store_as(TO, 1u, i, v); }
#endif

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    uint padded = call.word[1], size = call.word[2], inner = call.word[3], row = i / inner;
    int k = int(row % size);
    uint first = row / size * padded * inner + i % inner;
    precise real sum = 0.0;
    for (uint p = 0u; p < padded; p++)
        if (pad_source(call.word[5], int(p) - whole(4), int(size)) == k) sum += entry_at(first + p * inner);
    put_entry(i, sum);
}
