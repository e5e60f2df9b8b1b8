// argmax.comp - where a line is largest or smallest: with ROWS a workgroup a line, else an invocation. NaN is never the
// place, and a line of nothing else gives 0. word: entries of a line, elements from one to the next, lines, type, largest.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "order.glsl"

layout(constant_id = 0) const uint ROWS = 0u;
layout(local_size_x = 64) in;
shared Entry room[64];

Entry best_of(uint from, uint first, uint by)
{
    Entry best = NO_ENTRY;
    uint type = call.word[3];
    bool largest = call.word[4] != 0u;
    for (uint k = first; k < call.word[0]; k += by) {
        uint at = from + k * call.word[1];
        Entry e = Entry(order_at(type, 0u, at, largest), k);
        if (type <= BF16 && is_nan_of(type, load_bits(type, 0u, at))) e.key = uvec2(0u);
        if (comes_first(e, best)) best = e;
    }
    return best;
}

void main()
{
    uint i = gl_LocalInvocationID.x, line = row_of_group();
    if (ROWS == 0u) line = line * 64u + i;
    if (line >= call.word[2]) return;
    uint from = line / call.word[1] * call.word[0] * call.word[1] + line % call.word[1];
    Entry best = best_of(from, ROWS != 0u ? i : 0u, ROWS != 0u ? 64u : 1u);
    if (ROWS != 0u) {
        room[i] = best;
        barrier();
        for (uint half_n = 32u; half_n > 0u; half_n /= 2u) {
            if (i < half_n && comes_first(room[i + half_n], room[i])) room[i] = room[i + half_n];
            barrier();
        }
        best = room[0];
    }
    if (ROWS == 0u || i == 0u) Ints(call.at[1]).v[line] = best.at == NO_ENTRY.at ? 0 : int(best.at);
}
