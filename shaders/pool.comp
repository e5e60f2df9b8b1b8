// pool.comp - pools over windows, and what they pass back: an invocation an element of y, which takes
// the taps of its windows in order. Operands: x, top (the pool's y), v, the window's table, y. word:
// elements, p (of lp_pool) or beta, divisor (0: the cells of the window), is padding counted, the value
// of padding, is it finite.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "math.glsl"
#define WINDOW_AT 3u
#include "window.glsl"

layout(constant_id = 0) const uint KIND = 0u;
const uint AVG = 0u, LP = 1u, SMOOTH = 2u, MEAN = 3u, AVG_BACK = 4u, SMOOTH_BACK = 5u;
layout(local_size_x = 64) in;
#define LOWEST uintBitsToFloat(0xff800000u) // minus infinity

real share_of(uint o)
{
    uint cells = call.word[2] != 0u ? call.word[2] : cells_of(o, call.word[3] != 0u);
    return cells > 0u ? 1.0 / real(cells) : 0.0;
}

// Over window o of a plane whose first element of the large value is `plane`.
real pooled(uint e, uint o, uint plane)
{
    Start start = start_of_small(o);
    uint taps = tap_count();
    precise real sum = 0.0;
    for (uint tap = 0u; tap < taps; tap++) {
        int i = large_at(start, tap);
        if (i < 0) continue;
        precise real x = get(0u, plane + uint(i));
        if (KIND == LP)
            sum += pow_of(abs(x), real_number(1u, 6u));
        else if (KIND == MEAN)
            sum = fma(get(2u, plane + uint(i)), exp_of(real_number(1u, 6u) * (x - get(1u, e))), sum);
        else
            sum += x;
    }
    if (KIND == LP) return pow_of(sum, 1.0 / real_number(1u, 6u));
    return KIND == AVG ? sum * share_of(o) : sum;
}

// log(sum exp(beta x)) / beta, the largest taken off before the sum.
real smooth_of(uint o, uint plane)
{
    Start start = start_of_small(o);
    precise real beta = real_number(1u, 6u), padding = beta * real_number(4u, 8u), top = LOWEST, sum = 0.0;
    uint padded = call.word[5] != 0u ? cells_of(o, true) - cells_of(o, false) : 0u, taps = tap_count();
    for (uint tap = 0u; tap < taps; tap++) {
        int i = large_at(start, tap);
        precise real x = i < 0 ? LOWEST : beta * get(0u, plane + uint(i));
        if (i >= 0 && !(x <= top)) top = x;
    }
    if (padded > 0u && padding > top) top = padding;
    if (top == LOWEST) return beta > 0.0 ? LOWEST : -LOWEST; // of nothing
    for (uint tap = 0u; tap < taps; tap++) {
        int i = large_at(start, tap);
        if (i >= 0) sum += exp_of(beta * get(0u, plane + uint(i)) - top);
    }
    if (padded > 0u) sum += real(padded) * exp_of(padding - top);
    return (top + log_of(sum)) / beta;
}

// Over the windows that hold element i of a plane whose first window is `plane`.
real unpooled(uint e, uint i, uint plane)
{
    Start start = start_of_large(i);
    uint taps = tap_count();
    precise real sum = 0.0;
    for (uint tap = 0u; tap < taps; tap++) {
        int o = small_at(start, tap);
        if (o < 0) continue;
        uint at = plane + uint(o);
        if (KIND == AVG_BACK)
            sum = fma(get(0u, at), share_of(uint(o)), sum);
        else
            sum = fma(get(2u, at), exp_of(real_number(1u, 6u) * (get(0u, e) - get(1u, at))), sum);
    }
    return sum;
}

void main()
{
    uint e = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (e >= call.word[0]) return;
    uint n_in = n_large(), n_out = n_small();
    if (KIND == AVG_BACK || KIND == SMOOTH_BACK)
        put(4u, e, unpooled(e, e % n_in, e / n_in * n_out));
    else if (KIND == SMOOTH)
        put(4u, e, smooth_of(e % n_out, e / n_out * n_in));
    else
        put(4u, e, pooled(e, e % n_out, e / n_out * n_in));
}
