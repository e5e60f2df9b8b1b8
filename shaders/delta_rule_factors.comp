// delta_rule_factors.comp - what the keys and queries of the gated delta rule are multiplied by: one a workgroup of 16
// invocations, a key and its query one after the other. q, k -> factors. word: vectors, D, eps, scale.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#include "norm_sums.glsl"

layout(local_size_x = 16) in;

float column(uint k) { return 0.0; }

void main()
{
    const uint i = row_of_group(), lane = gl_LocalInvocationID.x, D = call.word[1];
    if (i >= call.word[0]) return;
    Floats x = Floats(call.at[i % 2u != 0u ? 0 : 1]);
    precise float sum = 0.0;
    for (uint d = lane; d < D; d += 16u) {
        precise float v = x.v[i / 2u * D + d];
        sum = fused(v, v, sum);
    }
    lane_sum[lane] = sum;
    barrier();
    precise float square = sum_of_lanes() + number(2u);
    if (lane == 0u) Floats(call.at[2]).v[i] = quotient_of(i % 2u != 0u ? number(3u) : 1.0, sqrt(square));
}
