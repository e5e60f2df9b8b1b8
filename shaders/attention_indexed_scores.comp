// attention_indexed_scores.comp - the indexer's scores of positions: one position of a row an invocation, in the cpu engine's order.
// Rows that see no more positions than are chosen need none. iq, ik, iw, pos, seq, table -> scores. word: columns and
// heads of the indexer, topk, ctx, S, B, block.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "fused.glsl"
#include "slots.glsl"
#include "lanes.glsl"

layout(constant_id = 0) const uint HALF = 0u;
layout(local_size_x = 64) in;

float cached(uint which, uint at)
{
    if (HALF != 0u) return half_to_float(uint(Halves(call.at[which]).v[at]));
    return Floats(call.at[which]).v[at];
}

void main()
{
    const uint own = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y, E = call.word[0], I = call.word[1], ctx = call.word[3];
    const int last = Ints(call.at[3]).v[t];
    if (last < whole(2u) || last >= int(ctx)) return; // the whole workgroup
    const uint p = min(own, uint(last));
    const int slot = slot_of(4u, 5u, 3u, t, int(p));
    precise float sum = 0.0;
    for (uint h = 0u; h < I; h++) {
        precise float lane[16];
        for (uint i = 0u; i < 16u; i++) lane[i] = 0.0;
        for (uint e = 0u; e < E; e++)
            lane[e % 16u] = fused(Floats(call.at[0]).v[(t * I + h) * E + e], cached(1u, uint(max(slot, 0)) * E + e), lane[e % 16u]);
        float x = sum_lanes(lane);
        precise float weighed = Floats(call.at[2]).v[t * I + h] * x;
        if (x > 0.0) sum = sum + weighed;
    }
    if (own == p && slot >= 0) Floats(call.at[6]).v[t * ctx + p] = sum;
}
