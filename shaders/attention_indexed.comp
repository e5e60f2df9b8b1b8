// attention_indexed.comp - attention to the slots that were chosen: one row and one query head a workgroup, in the cpu
// engine's order. q, k, v, choice, scores (scratch) -> y. word: D, query heads, columns of a cache row, heads a key head
// serves, scale, softcap, topk.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#include "lanes.glsl"

layout(constant_id = 0) const uint HALF = 0u;
layout(local_size_x = 64) in;
#define LOWEST uintBitsToFloat(0xff800000u) // minus infinity

float cached(uint which, uint at)
{
    if (HALF != 0u) return half_to_float(uint(Halves(call.at[which]).v[at]));
    return Floats(call.at[which]).v[at];
}

shared float top_room[64];

void main()
{
    const uint h = gl_WorkGroupID.x, t = gl_WorkGroupID.y, i = gl_LocalInvocationID.x;
    const uint D = call.word[0], H = call.word[1], W = call.word[2], column = h / call.word[3] * D, topk = call.word[6];
    const uint q = (t * H + h) * D, from = t * (topk + 1u), n = Words(call.at[3]).v[from];
    Words slot = Words(call.at[3]);
    Floats score = Floats(call.at[4]);
    const uint own = (t * H + h) * topk;
    float top = LOWEST;
    for (uint j = i; j < n; j += 64u) {
        precise float lane[16];
        const uint at = slot.v[from + 1u + j] * W + column;
        for (uint l = 0u; l < 16u; l++) lane[l] = 0.0;
        for (uint d = 0u; d < D; d++) lane[d % 16u] = fused(Floats(call.at[0]).v[q + d], cached(1u, at + d), lane[d % 16u]);
        precise float x = number(4u) * sum_lanes(lane);
        if (number(5u) > 0.0) x = number(5u) * tanh_of(quotient_of(x, number(5u)));
        score.v[own + j] = x;
        top = x > top ? x : top;
    }
    top_room[i] = top;
    barrier();
    for (uint j = 0u; j < 64u; j++) top = top_room[j] > top ? top_room[j] : top;
    for (uint j = i; j < n; j += 64u) {
        precise float behind = score.v[own + j] - top;
        score.v[own + j] = exp_below(behind);
    }
    memoryBarrierBuffer();
    barrier();
    precise float sum = 0.0;
    for (uint j = 0u; j < n; j += 16u) {
        float lane[16];
        for (uint l = 0u; l < 16u; l++) lane[l] = j + l < n ? score.v[own + j + l] : 0.0;
        sum = sum + sum_lanes(lane);
    }
    for (uint d = i; d < D; d += 64u) {
        precise float y = 0.0;
        for (uint j = 0u; j < n; j++)
            y = fused(quotient_of(score.v[own + j], sum), cached(2u, slot.v[from + 1u + j] * W + column + d), y);
        Floats(call.at[5]).v[q + d] = y;
    }
}
