// index_elements.comp - single elements at indices along an axis. word: elements of i, of SCATTER its lines; indices of a
// line, entries of x along the axis, elements from one index to the next, and from one entry of x to the next; how many
// other dimensions there are and flags (merge.glsl); then of each, from the last, its size in i, its step in i and in x,
// which are in a list (the last operand) where there are more than 3.
// GATHER, an invocation an element of i: x, i -> y. SCATTER, an invocation a line, of whose indices it takes 32768 in order,
// from the last word on: x, i, u, z.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "merge.glsl"

layout(constant_id = 0) const uint SCATTER = 0u;
layout(local_size_x = 64) in;
const uint CHUNK = 32768u; // as in lib/engine/vulkan/index.c
const uint LIST = SCATTER != 0u ? 4u : 3u;

uint listed(uint i) { return there(LIST) ? Words(call.at[LIST]).v[i] : call.word[6u + i]; }

// Where line `line` begins in i and in x.
uvec2 line_at(uint line)
{
    uvec2 at = uvec2(0u);
    for (uint d = 0u; d < (flags() & 0xffu); d++) {
        uint size = listed(3u * d);
        at += line % size * uvec2(listed(3u * d + 1u), listed(3u * d + 2u));
        line /= size;
    }
    return at;
}

// Where in x the element of index number e of i is; errors come in the order of i.
bool element_at(uint e, uint from, out uint at)
{
    uint index;
    bool good = index_at(1u, e, call.word[2], true, e, 0u, index);
    at = from + index * call.word[4];
    return good;
}

void scatter(uint line)
{
    uvec2 from = line_at(line);
    uint to = min(call.word[15] + CHUNK, call.word[1]);
    for (uint k = call.word[15]; k < to; k++) {
        uint i = from.x + k * call.word[3], at;
        if (element_at(i, from.y, at)) merge(at, i);
    }
}

void gather(uint e)
{
    uint lines = call.word[0] / call.word[1], at;
    uvec2 from = line_at(e % lines);
    uint i = from.x + e / lines * call.word[3];
    bool good = element_at(i, from.y, at);
    store_bits(type_of_x(), 2u, i, good ? load_bits(type_of_x(), 0u, at) : uvec2(0u));
}

void main()
{
    uint e = row_of_group() * 64u + gl_LocalInvocationID.x;
    if (e < call.word[0]) {
        if (SCATTER != 0u)
            scatter(e);
        else
            gather(e);
    }
    report_bad_index();
}
