// delta_rule.comp - the gated delta rule over sequences whose states are in slots: a column of a head's state an invocation,
// in the cpu engine's order. state, k, v, from, to, g, beta, then in words from 0 the addresses of q, factors, work and y.
// word from 8: key heads, heads, D, E, do heads share keys in turn; rows and slots: word 13 and 14.
// (All invocations run all loops, those without a column too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#define FROM 3u
#define TO 4u
#define SLOTS 14u
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
    const uint column = gl_GlobalInvocationID.x, head = gl_WorkGroupID.y, heads = call.word[9], D = call.word[10];
    const uint E = call.word[11], e = min(column, E - 1u);
    const bool inside = column < E;
    const uint key_heads = call.word[8], key_head = call.word[12] != 0u ? head % key_heads : head / (heads / key_heads);
    Floats state = Floats(call.at[0]), work = Floats(more(2u)), factors = Floats(more(1u)), q = Floats(more(0u));
    Floats keys = Floats(call.at[1]);
    const bool tells = column == 0u && head == 0u;
    for (uint r = 0u; r < call.word[13]; r++) {
        const int start = start_of(r, tells), end = end_of(r, tells);
        const uint vector = r * key_heads + key_head, at = r * heads + head, own = head * D * E + e;
        const uint from = start >= 0 ? (uint(start) * heads + head) * D * E + e : own;
        const float decay = quick_exp(Floats(call.at[5]).v[at]);
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
                precise float k = keys.v[vector * D + d] * factors.v[2u * vector];
                if (inside) work.v[own + d * E] = s;
                sum[j] = fused(s, k, sum[j]);
            }
        precise float seen = decay * sum_of_four(sum), left = Floats(call.at[2]).v[at * E + e] - seen;
        precise float change = Floats(call.at[6]).v[at] * left;
        for (uint j = 0u; j < 4u; j++) sum[j] = 0.0;
        for (uint first = 0u; first < D; first += 4u)
            for (uint j = 0u; j < 4u; j++) {
                const uint d = first + j;
                if (d >= D) continue;
                precise float k = keys.v[vector * D + d] * factors.v[2u * vector], kept = work.v[own + d * E] * decay;
                precise float query = q.v[vector * D + d] * factors.v[2u * vector + 1u];
                const float changed = fused(k, change, kept);
                sum[j] = fused(changed, query, sum[j]);
                if (inside) work.v[own + d * E] = changed;
                if (inside && end >= 0) state.v[(uint(end) * heads + head) * D * E + e + d * E] = changed;
            }
        if (inside && (more(3u).x | more(3u).y) != 0u) Floats(more(3u)).v[at * E + e] = sum_of_four(sum);
    }
}
