// expert_back.comp - the gradient of stacked weights: element k of row m of a matrix an invocation, a sum over the rows that
// name the matrix, in their order. x, dy, index -> dw. word: rows of dy, K, M, matrices, rows of dy that share a row of x.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "fused.glsl"

layout(local_size_x = 64) in;

void main()
{
    const uint k = gl_GlobalInvocationID.x, K = call.word[1], M = call.word[2];
    const uint expert = gl_WorkGroupID.y / M, m = gl_WorkGroupID.y % M;
    const bool inside = k < K;
    precise float sum = 0.0;
    for (uint r = 0u; r < call.word[0]; r++) {
        const int e = Ints(call.at[2]).v[r];
        if (k == 0u && m == 0u && expert == 0u && (e < 0 || e >= whole(3u))) trouble(BAD_EXPERT, e, whole(3u), r, 0u);
        if (e == int(expert)) sum = fused(get(1u, r * M + m), get(0u, r / call.word[4] * K + min(k, K - 1u)), sum);
    }
    if (inside) put(3u, gl_WorkGroupID.y * K + k, sum);
}
