// reduce.comp - sums, products, extremes and logarithms of sums of exponentials over axes: with ROWS a workgroup a row, or
// a part of one, else an invocation. What is added to what depends on the shape alone. x -> y, and a list where the words
// are too few. word: results, parts of a row, entries of a part, entries of a row, by (the count that a sum is
// divided by), of integers the type of x, and of y (else y's kind of floats, as FLOATS), how many dimensions stay and
// how many go (in the second byte); then of each, from the last, its size and its step in x.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "group.glsl"
#include "values.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint FOLD = 0u;
layout(constant_id = 1) const uint ROWS = 0u;
layout(constant_id = 2) const uint INTEGER = 0u;
const uint SUM = 0u, PROD = 1u, MAX = 2u, MIN = 3u, LSE = 4u; // zt_vk_fold
const uint ROW_STEP = ROWS != 0u ? GROUP : 1u;

uint listed(uint i) { return there(2u) ? Words(call.at[2]).v[i] : call.word[8u + i]; }

// Where entry i of the `count` dimensions from number `dim` on is.
uint offset_of(uint i, uint dim, uint count)
{
    uint at = 0u;
    if (count == 1u) return i * listed(2u * dim + 1u);
    for (uint d = dim; d < dim + count; d++) {
        uint size = listed(2u * d);
        at += i % size * listed(2u * d + 1u);
        i /= size;
    }
    return at;
}
uint kept_count() { return call.word[7] & 0xffu; }
uint gone_at(uint i) { return offset_of(i, kept_count(), call.word[7] >> 8); }

// ---- floats -------------------------------------------------------------------------------------

// NaN wins.
real folded(real a, real b)
{
    precise real y = a + b;
    if (FOLD == PROD) y = a * b;
    if (FOLD == MAX || FOLD == LSE) y = b > a || isnan(b) ? b : a;
    if (FOLD == MIN) y = b < a || isnan(b) ? b : a;
    return y;
}

real folded_by_group(real mine)
{
    uint i = gl_LocalInvocationID.x;
    if (ROWS == 0u) return mine;
    group_room[i] = mine;
    barrier();
    for (uint half_n = GROUP / 2u; half_n > 0u; half_n /= 2u) {
        if (i < half_n) group_room[i] = folded(group_room[i], group_room[i + half_n]);
        barrier();
    }
    real all = group_room[0];
    barrier();
    return all;
}

void put_float(uint o, real v)
{
    put_at(call.word[6], call.at[1], o, v);
}

real fold_floats(uint base, uint from, uint to)
{
    real v = FOLD == PROD ? 1.0 : FOLD == MIN ? INFINITE : FOLD == SUM ? 0.0 : -INFINITE;
    Sum sum = Sum(0.0, 0.0);
    for (uint i = from; i < to; i += ROW_STEP) {
        real x = get(0u, base + gone_at(i));
        if (FOLD == SUM)
            add_to(sum, x);
        else
            v = folded(v, x);
    }
    v = folded_by_group(FOLD == SUM ? sum.all : v);
    if (FOLD != LSE) return v;
    real top = isinf(v) || isnan(v) ? 0.0 : v;
    for (uint i = from; i < to; i += ROW_STEP) {
        precise real below = get(0u, base + gone_at(i)) - top;
        add_to(sum, exp_of(below));
    }
    precise real y = top + log_of(ROWS != 0u ? group_sum(sum.all) : sum.all);
    return y;
}

// ---- integers -----------------------------------------------------------------------------------

shared uvec2 integer_room[GROUP];

// Signed numbers in the order of unsigned ones, and back.
uvec2 turned(uint type, uvec2 v) { return is_signed(type) ? uvec2(v.x, v.y ^ 0x80000000u) : v; }

// Extremes are of turned numbers.
uvec2 folded(uvec2 a, uvec2 b)
{
    uvec2 y = FOLD == PROD ? mul_whole(a, b) : add_whole(a, b);
    if (FOLD == MAX) y = less_whole(a, b, false) ? b : a;
    if (FOLD == MIN) y = less_whole(b, a, false) ? b : a;
    return y;
}

uvec2 folded_by_group(uvec2 mine)
{
    uint i = gl_LocalInvocationID.x;
    if (ROWS == 0u) return mine;
    integer_room[i] = mine;
    barrier();
    for (uint half_n = GROUP / 2u; half_n > 0u; half_n /= 2u) {
        if (i < half_n) integer_room[i] = folded(integer_room[i], integer_room[i + half_n]);
        barrier();
    }
    return integer_room[0];
}

uvec2 fold_integers(uint base, uint from, uint to)
{
    uint type = call.word[5];
    bool ordered = FOLD == MAX || FOLD == MIN;
    uint all = FOLD == MIN ? 0xffffffffu : 0u;
    uvec2 v = uvec2(FOLD == PROD ? 1u : all, all);
    for (uint i = from; i < to; i += ROW_STEP) {
        uvec2 x = load_whole(type, 0u, base + gone_at(i));
        v = folded(v, ordered ? turned(type, x) : x);
    }
    v = folded_by_group(v);
    return ordered ? turned(type, v) : v;
}

void main()
{
    uint o = row_of_group(), i = gl_LocalInvocationID.x, parts = call.word[1], each = call.word[2];
    if (ROWS == 0u) o = o * GROUP + i;
    if (o >= call.word[0]) return;
    // Of columns neighbours read neighbours.
    uint kept = call.word[0] / parts, row = ROWS != 0u ? o / parts : o % kept, part = ROWS != 0u ? o % parts : o / kept;
    uint base = offset_of(row, 0u, kept_count()), from = part * each, to = min(from + each, call.word[3]);
    o = row * parts + part;
    if (ROWS != 0u) from += i;
    if (INTEGER != 0u) {
        uvec2 v = fold_integers(base, from, to);
        uvec2 rest;
        if (call.word[4] != 1u) v = divide_whole(v, uvec2(call.word[4], 0u), is_signed(call.word[5]), rest);
        if (ROWS == 0u || i == 0u) store_whole(call.word[6], 1u, o, v);
    } else {
        precise real v = fold_floats(base, from, to);
        if (call.word[4] != 1u) v /= real(call.word[4]);
        if (ROWS == 0u || i == 0u) put_float(o, v);
    }
}
