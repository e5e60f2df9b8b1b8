// index_parts.comp - parts of x at tuples of indices. word: elements, tuples, elements of a part, tuples of a batch,
// elements of x of a batch, indices of a tuple and flags (merge.glsl), then the sizes of the dimensions that a
// tuple has indices of, at most 10.
// GATHER, an invocation an element of y: x, i -> y.
// SCATTER, an invocation an element of a part, a bucket and a batch: x, i, u, z; those of a bucket take 4096 tuples of the
// batch, from the second word on, in order, and see to the places of the bucket. A place has one invocation, whatever comes
// to it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"
#include "merge.glsl"

layout(constant_id = 0) const uint SCATTER = 0u;
layout(local_size_x = 64) in;
const uint CHUNK = 4096u; // as in lib/engine/vulkan/index.c

uint part() { return call.word[2]; }
uint wide() { return max(call.word[2], 1u); } // parts of nothing have indices too

// Where in x tuple r's part begins; false: an index is out of range.
bool part_at(uint r, bool report, out uint at)
{
    uint count = call.word[5] & 0xffu, place = 0u;
    bool good = true;
    for (uint k = 0u; k < count && good; k++) {
        uint n = call.word[6u + k], index;
        good = index_at(1u, r * count + k, n, report, r, k, index);
        place = place * n + index;
    }
    at = r / max(call.word[3], 1u) * call.word[4] + place * part();
    return good;
}

void gather(uint e)
{
    uint r = e / wide(), j = e % wide(), at;
    bool good = part_at(r, j == 0u, at);
    if (part() == 0u) return;
    uvec2 bits = good ? load_bits(type_of_x(), 0u, at + j) : uvec2(0u);
    if (narrows())
        Floats(call.at[2]).v[e] = double_to_float(bits, false);
    else
        store_bits(type_of_x(), 2u, e, bits);
}

void scatter(uint e)
{
    uint per_batch = call.word[3], buckets = bucket_count(), j = e % wide(), bucket = e / wide() % buckets;
    uint from = e / wide() / buckets * per_batch + call.word[1], to = from - call.word[1] + min(call.word[1] + CHUNK, per_batch);
    for (uint r = from; r < to; r++) {
        uint at;
        if (!part_at(r, j == 0u && bucket == 0u, at)) continue;
        if (part() != 0u && at / wide() % buckets == bucket) merge(at + j, r * part() + j);
    }
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
