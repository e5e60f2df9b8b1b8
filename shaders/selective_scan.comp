// selective_scan.comp - the recurrence of state-space models over sequences whose states are in slots: a channel an
// invocation, in the cpu engine's order. state, x, dt, from, to, a, b, then in words from 0 the addresses of c, d, y and work.
// word from 8: rows, slots, heads, channels of a head, N, groups, has a a column for each number.
// (All invocations run all loops, those without a channel too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#include "lanes.glsl"
#define FROM 3u
#define TO 4u
#define SLOTS 9u
#include "state_rows.glsl"

layout(local_size_x = 64) in;

uvec2 more(uint k) { return uvec2(call.word[2u * k], call.word[2u * k + 1u]); }

void main()
{
    const uint number_of = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    const uint H = call.word[10], P = call.word[11], N = call.word[12], groups = call.word[13], width = H * P;
    const uint channel = min(number_of, width - 1u);
    const bool inside = number_of < width;
    const uint head = channel / P, group = channel / (width / groups);
    Floats state = Floats(call.at[0]), work = Floats(more(3u)), a = Floats(call.at[5]);
    for (uint r = 0u; r < call.word[8]; r++) {
        const int start = start_of(r, number_of == 0u), end = end_of(r, number_of == 0u);
        const uint inputs = (r * groups + group) * N, own = channel * N;
        const uint from = start >= 0 ? (uint(start) * width + channel) * N : own;
        precise float dt = Floats(call.at[2]).v[r * H + head], x = Floats(call.at[1]).v[r * width + channel], taken = dt * x;
        precise float lane[16], decay = 0.0;
        for (uint i = 0u; i < 16u; i++) lane[i] = 0.0;
        if (call.word[14] == 0u) {
            precise float exponent = dt * a.v[head];
            decay = quick_exp(exponent);
        }
        for (uint k = 0u; k < N; k++) {
            precise float s = taken * Floats(call.at[6]).v[inputs + k];
            if (call.word[14] != 0u) {
                precise float exponent = dt * a.v[head * N + k];
                decay = quick_exp(exponent);
            }
            if (start >= 0)
                s = fused(state.v[from + k], decay, s);
            else if (start == STATE_CONTINUED)
                s = fused(work.v[from + k], decay, s);
            lane[k % 16u] = fused(s, Floats(more(0u)).v[inputs + k], lane[k % 16u]);
            if (inside) work.v[own + k] = s;
            if (inside && end >= 0) state.v[(uint(end) * width + channel) * N + k] = s;
        }
        precise float y = sum_lanes(lane);
        if ((more(1u).x | more(1u).y) != 0u) {
            precise float skipped = Floats(more(1u)).v[head] * x;
            y = y + skipped;
        }
        if (inside && (more(2u).x | more(2u).y) != 0u) Floats(more(2u)).v[r * width + channel] = y;
    }
}
