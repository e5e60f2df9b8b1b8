// pool_planes.comp - along the indices of max_pool: y[n,c,o] = x[n,c,i[n,c,o]], or back, y[n,c,i] += x, y
// being zeros. Operands: x, i, y. word: indices, indices of a plane, elements of a plane of the large value,
// is out of range an error; of a scatter the buckets of a plane and of all. The elements of a bucket
// follow each other, and one invocation adds them up, in the order of the indices, in f32, of f64 in f64.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "values.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(constant_id = 1) const uint TYPE = F32; // of a gather, which copies bits
const uint GATHER = 0u, SCATTER = 1u, NARROW = 2u; // f32 to the op's own type
layout(local_size_x = 64) in;

uint width() { return call.word[1]; }
uint plane() { return call.word[2]; }

// Where index e leads in its plane; -1: out of range.
int place_of(uint e)
{
    int at = Ints(call.at[1]).v[e];
    if (at >= 0 && at < int(plane())) return at;
    if (call.word[3] != 0u) trouble(BAD_INDEX, at, int(plane()), e, 0u);
    return -1;
}

void scatter(uint bucket_index)
{
    uint buckets = call.word[4], at = bucket_index / buckets, bucket = bucket_index % buckets;
    uint each = (plane() + buckets - 1u) / buckets, first = bucket * each, last = min(first + each, plane());
    uint bad = width();
    for (uint k = 0u; k < width(); k++) {
        uint e = at * width() + k, to = uint(Ints(call.at[1]).v[e]);
        if (to >= plane()) bad = min(bad, k);
        if (to < first || to >= last) continue;
        precise real sum = Reals(call.at[2]).v[at * plane() + to] + get(0u, e);
        Reals(call.at[2]).v[at * plane() + to] = sum;
    }
    if (bucket == 0u && bad < width()) place_of(at * width() + bad);
}

void main()
{
    uint e = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (e >= call.word[KIND == SCATTER ? 5u : 0u]) return;
    if (KIND == SCATTER) {
        scatter(e);
    } else if (KIND == NARROW) {
        put(2u, e, Reals(call.at[0]).v[e]);
    } else {
        int at = place_of(e);
        uvec2 x = at < 0 ? uvec2(0u) : load_bits(TYPE, 0u, e / width() * plane() + uint(at));
        store_bits(TYPE, 2u, e, x);
    }
}
