// topk.comp - the k first entries of a line in order. x -> y, i. word: entries of a line, elements from one to the next,
// lines, type, largest, k. A workgroup a line: every invocation holds the first of its own that is not taken yet. With
// RANKED an invocation an entry: its place is the number of those that come before it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "order.glsl"

layout(constant_id = 0) const uint RANKED = 0u;
layout(local_size_x = 64) in;
shared Entry room[64];

Entry entry_at(uint from, uint k)
{
    return Entry(order_at(call.word[3], 0u, from + k * call.word[1], call.word[4] != 0u), k);
}

void put_entry(uint to, uint from, uint k)
{
    if (there(1u)) store_bits(call.word[3], 1u, to, load_bits(call.word[3], 0u, from + k * call.word[1]));
    if (there(2u)) Ints(call.at[2]).v[to] = int(k);
}

// The first of those of the invocation that come after `last` (none: of all).
Entry next_own(uint from, Entry last)
{
    Entry best = NO_ENTRY;
    for (uint k = gl_LocalInvocationID.x; k < call.word[0]; k += 64u) {
        Entry e = entry_at(from, k);
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

void put_ranked(uint from, uint to, uint k)
{
    Entry own = entry_at(from, k);
    uint rank = 0u;
    for (uint other = 0u; other < call.word[0]; other++) rank += comes_first(entry_at(from, other), own) ? 1u : 0u;
    if (rank < call.word[5]) put_entry(to + rank * call.word[1], from, k);
}

void put_selected(uint from, uint to)
{
    Entry mine = next_own(from, NO_ENTRY);
    for (uint j = 0u; j < call.word[5]; j++, to += call.word[1]) {
        Entry first = first_of_group(mine);
        if (first.at != mine.at) continue;
        mine = next_own(from, first);
        if (first.at != NO_ENTRY.at) put_entry(to, from, first.at);
    }
}

void main()
{
    uint n = call.word[0], inner = call.word[1], line = row_of_group(), k = gl_LocalInvocationID.x;
    if (RANKED != 0u) {
        k += line * 64u;
        line = k / n;
        k %= n;
    }
    uint from = line / inner * n * inner + line % inner, to = line / inner * call.word[5] * inner + line % inner;
    if (line >= call.word[2]) return;
    if (RANKED != 0u)
        put_ranked(from, to, k);
    else
        put_selected(from, to);
}
