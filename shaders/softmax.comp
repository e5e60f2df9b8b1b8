// softmax.comp - softmax of lines along an axis, of what is scaled, its logarithm, and entmax: a workgroup a line, or
// with ACROSS an invocation. word: entries of a line, elements from one to the next, lines, scale (of entmax: alpha).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "group.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(constant_id = 1) const uint ACROSS = 0u;
const uint SOFTMAX = 0u, LOGARITHM = 1u, ENTMAX = 2u;

uint first, count, inner, by; // of an invocation: its first entry, entries of the line, elements and entries to the next

real sum_of_line(real mine) { return ACROSS != 0u ? mine : group_sum(mine); }
real max_of_line(real mine) { return ACROSS != 0u ? mine : group_max(mine); }

real scaled(uint from, uint k)
{
    precise real v = get(0u, from + k * inner) * (KIND == ENTMAX ? 1.0 : real_number(3u, 4u));
    return v;
}

real top_of(uint from)
{
    real top = -INFINITE;
    for (uint k = first; k < count; k += by) {
        real v = scaled(from, k);
        top = v > top ? v : top;
    }
    return max_of_line(top);
}

void put_softmax(uint from)
{
    real top = top_of(from);
    Sum sum = Sum(0.0, 0.0);
    for (uint k = first; k < count; k += by) {
        precise real v = scaled(from, k) - top;
        add_to(sum, exp_of(v));
    }
    precise real all = sum_of_line(sum.all), less = KIND == LOGARITHM ? log_of(all) : 0.0;
    for (uint k = first; k < count; k += by) {
        precise real v = scaled(from, k) - top, y;
        if (KIND == LOGARITHM)
            y = v - less;
        else
            y = exp_of(v) / all;
        put(1u, from + k * inner, y);
    }
}

// The entry at `d` above the threshold, with power 1 / (alpha - 1).
real share_of(real d, real power)
{
    if (!(d > 0.0)) return 0.0;
    precise real y = d;
    if (power == 2.0)
        y = d * d;
    else if (power != 1.0)
        y = exp_of(log_of(d) * power);
    return y;
}

real sum_of_shares(uint from, real top, real less, real threshold, real power)
{
    Sum sum = Sum(0.0, 0.0);
    for (uint k = first; k < count; k += by) {
        precise real d = (scaled(from, k) - top) * less - threshold;
        add_to(sum, share_of(d, power));
    }
    return sum_of_line(sum.all);
}

// Entries count from the largest: the threshold is from -1, where the sum of shares is at least 1, to 0. It is found by
// halves.
void put_entmax(uint from)
{
    precise real less = real_number(3u, 4u) - 1.0, power = 1.0 / less;
    real top = top_of(from), low = -1.0, high = 0.0;
    for (uint k = 0u; k < 40u; k++) {
        precise real middle = 0.5 * (low + high);
        if (middle == low || middle == high) break;
        if (sum_of_shares(from, top, less, middle, power) >= 1.0)
            low = middle;
        else
            high = middle;
    }
    real all = sum_of_shares(from, top, less, low, power);
    for (uint k = first; k < count; k += by) {
        precise real d = (scaled(from, k) - top) * less - low, y = share_of(d, power) / all;
        put(1u, from + k * inner, y);
    }
}

void main()
{
    uint line = row_of_group(), i = gl_LocalInvocationID.x;
    first = ACROSS != 0u ? 0u : i;
    by = ACROSS != 0u ? 1u : GROUP;
    count = call.word[0];
    inner = call.word[1];
    if (ACROSS != 0u) line = line * GROUP + i;
    if (line >= call.word[2]) return;
    uint from = line / inner * count * inner + line % inner;
    if (KIND == ENTMAX)
        put_entmax(from);
    else
        put_softmax(from);
}
