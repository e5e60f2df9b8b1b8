// elementwise_values.comp - ops on single elements of any plain type, by kinds: functions of one integer and of two,
// tests, where, cast, fill_like, with broadcasting. word: count, then as strides.glsl wants (axes and three steps),
// 5 the function, 6 the operands' type (where: the chosen), 7 y's, 8 where: the condition's, 9 the inputs,
// 10 and 11 two words of the attributes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "elements.glsl"
#include "strides.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(local_size_x = 64) in;

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (i >= call.word[0]) return;
    uint f = call.word[5], type = call.word[6], to = call.word[7], inputs = call.word[9], out_k = output_after(inputs);
    uvec2 more = uvec2(call.word[10], call.word[11]), y = more;
    if (KIND == WHERE) {
        bool chosen = not_zero(call.word[8], load_bits(call.word[8], 0u, place_of(0u, inputs, i)));
        y = load_bits(type, chosen ? 1u : 2u, place_of(chosen ? 1u : 2u, inputs, i));
    } else if (KIND != FILL) {
        uvec2 a, b;
        if (KIND == CAST && is_packed(type)) {
            a = uvec2(floatBitsToUint(load_packed(type, 0u, i)), 0u);
            type = F32;
        } else
            a = load_bits(type, 0u, place_of(0u, inputs, i));
        b = a;
        if (inputs > 1u) b = load_bits(type, 1u, place_of(1u, inputs, i));
        y = element_of(KIND, f, type, to, a, b, more, i);
    }
    store_bits(to, out_k, i, y);
}
