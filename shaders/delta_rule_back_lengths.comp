// delta_rule_back_lengths.comp - from the gradient d of x divided by its length times a scale, that of x: a vector an invocation. x, d,
// factors -> dx. word: vectors, D, is x a query (the second of a pair of factors), scale.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "fused.glsl"

layout(local_size_x = 64) in;

void main()
{
    const uint own = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u, D = call.word[1];
    const uint i = min(own, call.word[0] - 1u);
    Floats x = Floats(call.at[0]), d = Floats(call.at[1]);
    precise float factor = Floats(call.at[2]).v[2u * i + call.word[2]], inverse = factor / number(3u), along = 0.0;
    for (uint k = 0u; k < D; k++) along = fused(x.v[i * D + k], d.v[i * D + k], along);
    precise float less = factor * inverse * inverse * along;
    for (uint k = 0u; k < D; k++) {
        precise float y = factor * d.v[i * D + k];
        y = fused(-less, x.v[i * D + k], y);
        if (own == i) Floats(call.at[3]).v[i * D + k] = y;
    }
}
