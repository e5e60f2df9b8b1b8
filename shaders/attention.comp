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
layout(constant_id = 2) const uint WIDTH = 64u; // invocations; it does not change a bit
const uint MOST_D = 512u;
#define LOWEST uintBitsToFloat(0xff800000u) // minus infinity
layout(local_size_x_id = 2) in;

shared float query[MOST_D];
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
    for (uint d = i; d < D; d += WIDTH) query[d] = Floats(call.at[0]).v[q + d];
    float acc[MOST_D / WIDTH];
    for (uint c = 0u; c < MOST_D / WIDTH; c++) acc[c] = 0.0;
    precise float top = LOWEST, sum = 0.0;
    bool good = last >= 0 && last < whole(7);
    if (!good && i == 0u) slot_of(4u, 5u, 7u, t, last);
    for (int p0 = first / int(TILE) * int(TILE); good && p0 <= last; p0 += int(TILE)) {
        barrier();
        for (uint j = i; j < TILE; j += WIDTH) {
            int p = p0 + int(j);
            int s = p >= first && p <= last ? slot_of(4u, 5u, 7u, t, p) : -2;
            slot[j] = s;
            score[j] = s >= 0 ? score_of(s, column, D, W) : LOWEST;
        }
        barrier();
        float tile_top = top;
        for (uint j = 0u; j < TILE; j++) {
            tile_top = max(tile_top, score[j]);
            good = good && slot[j] != -1;
        }
        precise float shrink = top == tile_top ? 1.0 : exp_of(top - tile_top);
        barrier();
        for (uint j = i; j < TILE; j += WIDTH)
            score[j] = slot[j] >= 0 ? exp_of(score[j] - tile_top) : 0.0;
        barrier();
        top = tile_top;
        sum *= shrink;
        for (uint j = 0u; j < TILE; j++) sum += score[j];
        for (uint c = 0u; c * WIDTH + i < D; c++) {
            precise float a = acc[c] * shrink;
            for (uint j = 0u; j < TILE; j++)
                if (slot[j] >= 0) {
                    uint at = uint(slot[j]) * W + column + c * WIDTH + i;
                    a = fma(score[j], cached(2u, at), a);
                }
            acc[c] = a;
        }
    }
    for (uint c = 0u; c * WIDTH + i < D; c++)
        Floats(call.at[6]).v[q + c * WIDTH + i] = good ? acc[c] / sum : 0.0;
}
