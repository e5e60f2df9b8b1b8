// attention_indexed_choose.comp - the topk positions of a row with the largest scores, the earliest of equal ones, as slots in the
// order of positions: a row a workgroup. The least score that is chosen is found bit by bit. pos, seq, table, scores ->
// choice: its number, then slots. word: topk, ctx, S, B, block.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "slots.glsl"

layout(local_size_x = 64) in;
shared uint counted;

// Scores as numbers in their order; both zeros are one.
uint order_of(float score)
{
    uint bits = floatBitsToUint(score == 0.0 ? 0.0 : score);
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

void main()
{
    const uint t = gl_WorkGroupID.y, i = gl_LocalInvocationID.x, ctx = call.word[1], topk = call.word[0];
    Words choice = Words(call.at[4]);
    const uint to = t * (topk + 1u);
    const int last = Ints(call.at[0]).v[t];
    const bool good = last >= 0 && last < int(ctx);
    const uint n = good ? uint(last) + 1u : 0u, wanted = min(n, topk);
    Floats score = Floats(call.at[3]);
    uint least = 0u; // of the largest `wanted`
    for (uint bit = 32u; n > topk && bit-- > 0u;) {
        const uint candidate = least | 1u << bit;
        barrier();
        if (i == 0u) counted = 0u;
        barrier();
        uint mine = 0u;
        for (uint p = i; p < n; p += 64u) mine += uint(order_of(score.v[t * ctx + p]) >= candidate);
        atomicAdd(counted, mine);
        barrier();
        if (counted >= wanted) least = candidate;
    }
    uint above = 0u, found = 0u;
    for (uint p = 0u; n > topk && p < n; p++) above += uint(order_of(score.v[t * ctx + p]) > least);
    uint equal = wanted - min(above, wanted);
    bool bad = !good;
    if (!good && i == 0u) slot_of(1u, 2u, 1u, t, last);
    for (uint p = 0u; p < n; p++) {
        const int slot = slot_of(1u, 2u, 1u, t, int(p));
        bad = bad || slot < 0;
        bool chosen = n <= topk;
        if (!chosen) {
            const uint order = order_of(score.v[t * ctx + p]);
            chosen = order > least || order == least && equal > 0u;
            if (order == least && equal > 0u) equal--;
        }
        if (chosen && found < wanted) {
            if (i == 0u) choice.v[to + 1u + found] = uint(slot);
            found++;
        }
    }
    if (i == 0u) choice.v[to] = bad ? 0u : found;
}
