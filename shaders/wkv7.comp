// wkv7.comp - RWKV-7's recurrence over sequences whose states are in slots: a column of a head's state an invocation, in the
// cpu engine's order. state, q, w, from, to, k, v, then in words from 0 the addresses of a, b, work and y. word from 8: heads, D,
// E, rows, slots.
// (All invocations run all loops, those without a column too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "fused.glsl"
#define FROM 3u
#define TO 4u
#define SLOTS 12u
#include "state_rows.glsl"

layout(local_size_x = 64) in;

uvec2 more(uint k) { return uvec2(call.word[2u * k], call.word[2u * k + 1u]); }

float sum_of_four(float sum[4])
{
    precise float y = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return y;
}

void main()
{
    const uint column = gl_GlobalInvocationID.x, head = gl_WorkGroupID.y, heads = call.word[8], D = call.word[9];
    const uint E = call.word[10], e = min(column, E - 1u), own = head * D * E + e;
    const bool inside = column < E, tells = column == 0u && head == 0u;
    Floats state = Floats(call.at[0]), q = Floats(call.at[1]), w = Floats(call.at[2]), k = Floats(call.at[5]);
    Floats a = Floats(more(0u)), b = Floats(more(1u)), work = Floats(more(2u));
    for (uint r = 0u; r < call.word[11]; r++) {
        const int start = start_of(r, tells), end = end_of(r, tells);
        const uint vector = (r * heads + head) * D, at = (r * heads + head) * E + e;
        const uint from = start >= 0 ? (uint(start) * heads + head) * D * E + e : own;
        const float v = Floats(call.at[6]).v[at];
        float sum[4] = float[4](0.0, 0.0, 0.0, 0.0);
        for (uint first = 0u; first < D; first += 4u)
            for (uint j = 0u; j < 4u; j++) {
                const uint d = first + j;
                if (d >= D) continue;
                float s = 0.0;
                if (start >= 0)
                    s = state.v[from + d * E];
                else if (start == STATE_CONTINUED)
                    s = work.v[from + d * E];
                if (inside) work.v[own + d * E] = s;
                sum[j] = fused(s, a.v[vector + d], sum[j]);
            }
        const float removed = sum_of_four(sum);
        for (uint j = 0u; j < 4u; j++) sum[j] = 0.0;
        for (uint first = 0u; first < D; first += 4u)
            for (uint j = 0u; j < 4u; j++) {
                const uint d = first + j;
                if (d >= D) continue;
                precise float kept = work.v[own + d * E] * w.v[vector + d];
                const float changed = fused(k.v[vector + d], v, fused(b.v[vector + d], removed, kept));
                sum[j] = fused(changed, q.v[vector + d], sum[j]);
                if (inside) work.v[own + d * E] = changed;
                if (inside && end >= 0) state.v[(uint(end) * heads + head) * D * E + e + d * E] = changed;
            }
        if (inside && (more(3u).x | more(3u).y) != 0u) Floats(more(3u)).v[at] = sum_of_four(sum);
    }
}
