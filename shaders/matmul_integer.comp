// matmul_integer.comp - y = a b of integers, which wrap, in batches that broadcast: an invocation an element.
// Operands and words as matmul.comp has them, but word 8: elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "batches.glsl"

layout(constant_id = 0) const uint TYPE = I32;
layout(local_size_x = 64) in;

void main()
{
    uint N = call.word[0], K = call.word[1], M = call.word[2], at_a, at_b;
    uint e = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (e >= call.word[8]) return;
    find_batch(e / M / N, at_a, at_b);
    at_a += e / M % N * call.word[3];
    at_b += e % M * call.word[6];
    uvec2 sum = uvec2(0u);
    for (uint k = 0u; k < K; k++) {
        uvec2 a = load_bits(TYPE, 0u, at_a + k * call.word[4]), b = load_bits(TYPE, 1u, at_b + k * call.word[5]);
        if (bytes_of(TYPE) == 8u)
            sum = add_whole(sum, mul_whole(a, b));
        else
            sum.x += a.x * b.x;
    }
    store_whole(TYPE, 3u, e, sum);
}
