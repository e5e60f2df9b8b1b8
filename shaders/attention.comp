// attention.comp - causal attention over a cache: one row and one query head a workgroup, positions
// in tiles of TILE at absolute places, so that chunks and batches do not change a bit; softmax as
// it goes (online). q, k, v, pos, seq, table -> y. word: D, query heads, columns of a cache row,
// heads a key head serves, window, scale, softcap, ctx, S, B, block.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "slots.glsl"

layout(constant_id = 0) const uint HALF = 0u;
layout(constant_id = 1) const uint TILE = 32u; // at most 64
const uint MOST = 8u;                          // columns an invocation: D is at most 64 MOST
#define LOWEST uintBitsToFloat(0xff800000u) // minus infinity
layout(local_size_x = 64) in;

shared float query[64u * MOST];
shared float score[64];
shared int slot[64];

float cached(uint which, uint at)
{
    if (HALF != 0u) return half_to_float(uint(Halves(call.at[which]).v[at]));
    return Floats(call.at[which]).v[at];
}

float score_of(int s, uint column, uint D, uint W)
{
    precise float sum = 0.0;
    uint at = uint(s) * W + column;
    for (uint d = 0u; d < D; d++) sum = fma(query[d], cached(1u, at + d), sum);
    sum *= number(5);
    float cap = number(6);
    return cap > 0.0 ? cap * tanh_of(sum / cap) : sum;
}

void main()
{
    uint h = gl_WorkGroupID.x, t = gl_WorkGroupID.y, i = gl_LocalInvocationID.x;
    uint D = call.word[0], H = call.word[1], W = call.word[2], column = h / call.word[3] * D;
    int last = Ints(call.at[3]).v[t], window = whole(4);
    int first = window > 0 && last >= window ? last - window + 1 : 0;
    uint q = (t * H + h) * D;
    for (uint d = i; d < D; d += 64u) query[d] = Floats(call.at[0]).v[q + d];
    float acc[MOST];
    for (uint c = 0u; c < MOST; c++) acc[c] = 0.0;
    precise float top = LOWEST, sum = 0.0;
    bool good = last >= 0 && last < whole(7);
    if (!good && i == 0u) slot_of(4u, 5u, 7u, t, last);
    for (int p0 = first / int(TILE) * int(TILE); good && p0 <= last; p0 += int(TILE)) {
        int p = p0 + int(i);
        bool seen = i < TILE && p >= first && p <= last;
        barrier();
        if (i < TILE) {
            slot[i] = seen ? slot_of(4u, 5u, 7u, t, p) : -2;
            score[i] = slot[i] >= 0 ? score_of(slot[i], column, D, W) : LOWEST;
        }
        barrier();
        float tile_top = top;
        for (uint j = 0u; j < TILE; j++) {
            tile_top = max(tile_top, score[j]);
            good = good && slot[j] != -1;
        }
        precise float shrink = top == tile_top ? 1.0 : exp_of(top - tile_top);
        barrier();
        if (i < TILE) score[i] = slot[i] >= 0 ? exp_of(score[i] - tile_top) : 0.0;
        barrier();
        top = tile_top;
        sum *= shrink;
        for (uint j = 0u; j < TILE; j++) sum += score[j];
        for (uint c = 0u; c * 64u + i < D; c++) {
            precise float a = acc[c] * shrink;
            for (uint j = 0u; j < TILE; j++)
                if (slot[j] >= 0) {
                    uint at = uint(slot[j]) * W + column + c * 64u + i;
                    a = fma(score[j], cached(2u, at), a);
                }
            acc[c] = a;
        }
    }
    for (uint c = 0u; c * 64u + i < D; c++)
        Floats(call.at[6]).v[q + c * 64u + i] = good ? acc[c] / sum : 0.0;
}
