// attention.comp - causal attention over a cache: one row and one query head a workgroup. The order is the cpu engine's
// (lib/engine/cpu/isa/attention.c), so that both get the same bits: keys in tiles of 64 positions, tiles in chunks of 256,
// all at absolute places; within a chunk the softmax goes on tile by tile (online); chunks are combined in order.
//
// q, k, v, pos, seq, table -> y; in word[0] and word[1] the address of sinks or of the queries' positions, in word[2] and
// word[3] that of the heads' slopes. word from 4: D, query heads, columns of a cache row, heads a key head serves,
// window, scale, softcap, ctx, S, B, block.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#include "lanes.glsl"
#include "slots.glsl"

layout(constant_id = 0) const uint HALF = 0u;
layout(constant_id = 1) const uint EACH = 8u;   // columns of a head that an invocation has
layout(constant_id = 2) const uint WIDTH = 64u; // invocations; it does not change a bit
layout(constant_id = 3) const uint KIND = 0u;
const uint SINKS = 1u, ALIBI = 2u, CHUNKED = 3u;
const int TILE = 64, CHUNK = 256;
#define LOWEST uintBitsToFloat(0xff800000u) // minus infinity
#define LEAST  uintBitsToFloat(0xff7fffffu) // the least finite number
layout(local_size_x_id = 2) in;

shared float query[EACH * WIDTH];
shared float score[64];
shared int slot[64];

float cached(uint which, uint at)
{
    if (HALF != 0u) return half_to_float(uint(Halves(call.at[which]).v[at]));
    return Floats(call.at[which]).v[at];
}

// Loops are written out by four, not by [[unroll]]: glslc's copies of a loop lose their marks of being precise.

// One more column of a key that begins at `at`.
float add_column(float sum, uint at, uint d) { return d < call.word[4] ? fused(query[d], cached(1u, at + d), sum) : sum; }

// The value of key j of the tile, weighed, from column `at` of a cache row.
float add_value(float sum, uint j, uint at)
{
    return slot[j] >= 0 ? fused(score[j], cached(2u, uint(slot[j]) * call.word[6] + at), sum) : sum;
}

// The score of the key in slot s, `away` behind the query.
float score_of(int s, uint column, float away, float slope)
{
    const uint D = call.word[4], W = call.word[6];
    precise float sum = 0.0;
    uint at = uint(s) * W + column;
    for (uint first = 0u; first < D; first += 4u)
        sum = add_column(add_column(add_column(add_column(sum, at, first), at, first + 1u), at, first + 2u), at, first + 3u);
    sum = sum * number(9u);
    const float cap = number(10u);
    if (cap > 0.0) sum = cap * quick_tanh(quotient_of(sum, cap));
    if (KIND == ALIBI) sum = fused(-abs(away), slope, sum);
    return sum;
}

// The sum of 64 numbers.
float sum_of_scores()
{
    precise float lane[16];
    for (uint i = 0u; i < 16u; i++) lane[i] = ((score[i] + score[16u + i]) + score[32u + i]) + score[48u + i];
    return sum_lanes(lane);
}

void main()
{
    const uint h = gl_WorkGroupID.x, t = gl_WorkGroupID.y, i = gl_LocalInvocationID.x;
    const uint D = call.word[4], H = call.word[5], W = call.word[6], column = h / call.word[7] * D;
    const int last = Ints(call.at[3]).v[t], window = whole(8);
    int first = window > 0 && last >= window ? last - window + 1 : 0;
    if (KIND == CHUNKED) first = last - last % window;
    const uint q = (t * H + h) * D;
    for (uint d = i; d < D; d += WIDTH) query[d] = Floats(call.at[0]).v[q + d];
    const uvec2 more = uvec2(call.word[0], call.word[1]);
    float slope = 0.0;
    int query_at = last;
    if (KIND == ALIBI) {
        slope = Floats(uvec2(call.word[2], call.word[3])).v[h];
        if ((more.x | more.y) != 0u) query_at = Ints(more).v[t];
    }
    float total[EACH], acc[EACH];
    for (uint c = 0u; c < EACH; c++) total[c] = acc[c] = 0.0;
    precise float total_top = LOWEST, total_sum = 0.0, top = LOWEST, sum = 0.0;
    bool good = last >= 0 && last < whole(11);
    if (!good && i == 0u) slot_of(4u, 5u, 11u, t, last);
    for (int p0 = first / TILE * TILE; good && p0 <= last; p0 += TILE) {
        barrier();
        for (uint j = i; j < uint(TILE); j += WIDTH) {
            int p = p0 + int(j);
            int s = p >= first && p <= last ? slot_of(4u, 5u, 11u, t, p) : -2;
            slot[j] = s;
            precise float away = float(p0 - query_at) + float(j);
            score[j] = s >= 0 ? score_of(s, column, away, slope) : LOWEST;
        }
        barrier();
        float tile_top = LOWEST;
        for (uint j = 0u; j < uint(TILE); j++) {
            tile_top = score[j] > tile_top ? score[j] : tile_top;
            good = good && slot[j] != -1;
        }
        // What is summed so far is brought to the new largest score.
        float now = tile_top > top ? tile_top : top, least = now > LEAST ? now : LEAST;
        precise float below = top - least;
        float shrink = below < 0.0 ? quick_exp(below) : 1.0;
        if (below < 0.0) top = now;
        if (shrink != 1.0 && sum != 0.0) {
            for (uint c = 0u; c < EACH; c++) {
                precise float a = acc[c] * shrink;
                acc[c] = a;
            }
            sum = sum * shrink;
        }
        least = top > LEAST ? top : LEAST;
        barrier();
        for (uint j = i; j < uint(TILE); j += WIDTH) {
            precise float behind = score[j] - least;
            score[j] = exp_below(behind);
        }
        barrier();
        sum = sum + sum_of_scores();
        for (uint c = 0u; c * WIDTH + i < D; c++) {
            const uint at = column + c * WIDTH + i;
            precise float a = acc[c];
            for (uint first = 0u; first < uint(TILE); first += 4u)
                a = add_value(add_value(add_value(add_value(a, first, at), first + 1u, at), first + 2u, at), first + 3u, at);
            acc[c] = a;
        }
        if ((p0 + TILE) % CHUNK != 0 && p0 + TILE <= last) continue;
        // The chunk ends.
        if (total_top == LOWEST) {
            total_top = top;
            total_sum = sum;
            for (uint c = 0u; c < EACH; c++) total[c] = acc[c];
        } else {
            float both = top > total_top ? top : total_top;
            precise float old = total_top - both, fresh = top - both;
            float factor[2];
            for (uint c = 0u; c < 2u; c++) factor[c] = quick_exp(c == 0u ? old : fresh);
            precise float k = factor[0], by = factor[1];
            for (uint c = 0u; c < EACH; c++) {
                precise float added = acc[c] * by, a = fused(total[c], k, added);
                total[c] = a;
            }
            precise float kept = total_sum * k, added = sum * by;
            total_sum = kept + added;
            total_top = both;
        }
        top = LOWEST;
        sum = 0.0;
        for (uint c = 0u; c < EACH; c++) acc[c] = 0.0;
    }
    if (KIND == SINKS && good) {
        precise float behind = Floats(more).v[h] - total_top;
        total_sum = total_sum + quick_exp(behind);
    }
    for (uint c = 0u; c * WIDTH + i < D; c++)
        Floats(call.at[6]).v[q + c * WIDTH + i] = good ? quotient_of(total[c], total_sum) : 0.0;
}
