// topk.comp - the k first entries of a line in order, a workgroup a line: every invocation holds the first of its own that
// is not taken yet. x -> y, i. word: entries of a line, elements from one to the next, lines, type, largest, k.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "order.glsl"

layout(local_size_x = 64) in;
shared Entry room[64];

// The first of those of the invocation that come after `last` (none: of all).
Entry next_own(uint from, Entry last)
{
    Entry best = NO_ENTRY;
    for (uint k = gl_LocalInvocationID.x; k < call.word[0]; k += 64u) {
        Entry e = Entry(order_at(call.word[3], 0u, from + k * call.word[1], call.word[4] != 0u), k);
        if (last.at != NO_ENTRY.at && !comes_first(last, e)) continue;
        if (comes_first(e, best)) best = e;
    }
    return best;
}

Entry first_of_group(Entry mine)
{
    uint i = gl_LocalInvocationID.x;
    room[i] = mine;
    barrier();
    for (uint half_n = 32u; half_n > 0u; half_n /= 2u) {
        if (i < half_n && comes_first(room[i + half_n], room[i])) room[i] = room[i + half_n];
        barrier();
    }
    Entry first = room[0];
    barrier();
    return first;
}

void main()
{
    uint line = row_of_group(), n = call.word[0], inner = call.word[1], count = call.word[5], type = call.word[3];
    if (line >= call.word[2]) return;
    uint from = line / inner * n * inner + line % inner, to = line / inner * count * inner + line % inner;
    Entry mine = next_own(from, NO_ENTRY);
    for (uint j = 0u; j < count; j++, to += inner) {
        Entry first = first_of_group(mine);
        if (first.at != mine.at) continue;
        mine = next_own(from, first);
        if (first.at == NO_ENTRY.at) continue;
        if (there(1u)) store_bits(type, 1u, to, load_bits(type, 0u, from + first.at * inner));
        if (there(2u)) Ints(call.at[2]).v[to] = int(first.at);
    }
}
