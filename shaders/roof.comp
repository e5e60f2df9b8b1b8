// roof.comp - what the device can do at most: words copied, or multiply-adds in registers. KIND 0: x -> y, word: quadruples.
// KIND 1: -> y, word: invocations, rounds of 64 multiply-adds.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quads { uvec4 v[]; };

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    if (KIND == 0u) {
        Quads(call.at[1]).v[i] = Quads(call.at[0]).v[i];
        return;
    }
    // Four chains of vectors, so that none waits for its last result.
    vec4 a = vec4(i), b = a + 1.0, c = a + 2.0, d = a + 3.0, by = vec4(0.999), more = vec4(0.001);
    for (uint round = 0u; round < call.word[1]; round++)
        for (uint k = 0u; k < 4u; k++) {
            a = fma(a, by, more);
            b = fma(b, by, more);
            c = fma(c, by, more);
            d = fma(d, by, more);
        }
    a += b + c + d;
    Floats(call.at[1]).v[i] = a.x + a.y + a.z + a.w;
}
