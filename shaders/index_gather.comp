// index_gather.comp - y[r] = row i[r] of x, 32 columns an invocation. word: n, K, N, is out of range an
// error.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "weights.glsl"

layout(local_size_x = 32) in;

void main()
{
    uint r = gl_WorkGroupID.y, part = gl_GlobalInvocationID.x, K = call.word[1];
    if (part * 32u >= K) return;
    int i = Ints(call.at[1]).v[r];
    bool good = i >= 0 && i < whole(2);
    if (!good && call.word[3] != 0u) trouble(BAD_INDEX, i, whole(2), r, 0u);
    float v[32];
    if (good)
        part_of(row_of(call.at[0], uint(i), K), part, v);
    else
        for (uint k = 0u; k < 32u; k++) v[k] = 0.0;
    for (uint k = 0u; k < 32u && part * 32u + k < K; k++)
        Floats(call.at[2]).v[r * K + part * 32u + k] = v[k];
}
