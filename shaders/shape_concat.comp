// shape_concat.comp - up to five parts along an axis, one after the other. word: count, elements of y along and after
// the axis, and those of each part.
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
    uint outer = i / call.word[1], rest = i % call.word[1], length = 0u;
    uvec2 from = uvec2(0u);
    bool found = false;
    for (uint k = 0u; k < 5u; k++) {
        if (!found) {
            length = call.word[2u + k];
            from = call.at[k];
            found = rest < length;
            if (!found) rest -= length;
        }
    }
    store_bytes(BYTES, call.at[5], i, load_bytes(BYTES, from, outer * length + rest));
}
