// index_gather.comp - y[r] = row i[r] of x, 32 columns an invocation. word: n, K, N, is an index out of range an error, are
// indices i64.
#version 460
#extension GL_GOOGLE_include_directive : require
#define GRID_AT 5u
#include "call.glsl"
#include "weights.glsl"

layout(local_size_x = 32) in;

void main()
{
    uint r = gl_WorkGroupID.y + gl_WorkGroupID.z * gl_NumWorkGroups.y, part = gl_GlobalInvocationID.x, K = call.word[1];
    if (r >= call.word[0] || (part * 32u >= K && part != 0u)) return;
    int low = Ints(call.at[1]).v[call.word[4] != 0u ? 2u * r : r];
    uvec2 i = uvec2(uint(low), call.word[4] != 0u ? Words(call.at[1]).v[2u * r + 1u] : low < 0 ? 0xffffffffu : 0u);
    bool good = i.y == 0u && i.x < call.word[2];
    if (!good && call.word[3] != 0u) trouble_wide(BAD_INDEX, i, whole(2), r, 0u);
    if (K == 0u) return;
    float v[32];
    if (good)
        part_of(row_of(call.at[0], i.x, K), part, v);
    else
        for (uint k = 0u; k < 32u; k++) v[k] = 0.0;
    for (uint k = 0u; k < 32u && part * 32u + k < K; k++)
        Floats(call.at[2]).v[r * K + part * 32u + k] = v[k];
}
