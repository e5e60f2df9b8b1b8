// causal_conv.comp - a causal convolution of each channel over the rows of sequences: a channel an invocation, in the cpu
// engine's order. state, x, w, from, to, b, y; in word[0] and word[1] the address of the last K rows, scratch. word from 2:
// rows, slots, C, K, silu.
// (All invocations run all loops, those without a channel too, which store nothing: llvmpipe leaves loops early otherwise.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#define FROM 3u
#define TO 4u
#define SLOTS 3u
#include "state_rows.glsl"

layout(local_size_x = 64) in;

void main()
{
    const uint own = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    const uint C = call.word[4], K = call.word[5], c = min(own, C - 1u);
    const bool inside = own < C;
    Floats window = Floats(uvec2(call.word[0], call.word[1])), state = Floats(call.at[0]), w = Floats(call.at[2]);
    for (uint r = 0u; r < call.word[2]; r++) {
        const int start = start_of(r, own == 0u), end = end_of(r, own == 0u);
        precise float sum = there(5u) ? Floats(call.at[5]).v[c] : 0.0;
        for (uint k = 0u; k < K; k++) {
            float entry = 0.0;
            if (k == K - 1u)
                entry = Floats(call.at[1]).v[r * C + c];
            else if (start == STATE_CONTINUED)
                entry = window.v[(k + 1u) * C + c];
            else if (start >= 0)
                entry = state.v[(uint(start) * (K - 1u) + k) * C + c];
            if (inside) window.v[k * C + c] = entry;
            sum = fused(w.v[c * K + k], entry, sum);
        }
        if (inside && there(6u)) Floats(call.at[6]).v[r * C + c] = call.word[6] != 0u ? quick_silu(sum) : sum;
        for (uint k = 0u; k + 1u < K && end >= 0; k++)
            if (inside) state.v[(uint(end) * (K - 1u) + k) * C + c] = window.v[(k + 1u) * C + c];
    }
}
