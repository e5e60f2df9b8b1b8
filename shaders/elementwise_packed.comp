// elementwise_packed.comp - a cast to a type that has several elements to a byte, a byte an invocation. word: bytes, elements,
// x's type, y's.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"

layout(local_size_x = 64) in;

void main()
{
    uint at = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u, from = call.word[2];
    if (at >= call.word[0]) return;
    uint width = packed_width(call.word[3]), each = 8u / width, all = 0u;
    for (uint k = 0u; k < each; k++) {
        uint i = at * each + k;
        if (i >= call.word[1]) break;
        bool narrow = is_packed(from);
        uvec2 bits = uvec2(0u);
        if (narrow)
            bits.x = floatBitsToUint(load_packed(from, 0u, i));
        else
            bits = load_bits(from, 0u, i);
        all |= packed_code(call.word[3], narrow ? F32 : from, bits) << k * width;
    }
    Bytes(call.at[1]).v[at] = uint8_t(all);
}
