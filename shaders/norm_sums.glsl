// norm_sums.glsl - sums over a row in the cpu engine's order (lib/engine/cpu/isa/norm.h), so that norms have the same bits:
// sixteen sums of every sixteenth column, which are added as pairs 8, 4, 2 and 1 apart. Include curves.glsl first. All of
// a workgroup call these; it has 16 invocations or more.

#include "lanes.glsl"

shared float lane_sum[16];

// What the sixteen invocations that come first have left in lane_sum.
float sum_of_lanes()
{
    float lane[16];
    for (uint i = 0u; i < 16u; i++) lane[i] = lane_sum[i];
    return sum_lanes(lane);
}

float column(uint k); // of the row, as the shader that includes this reads it

// 1 / sqrt(mean(x^2) + eps), eps being the sum of two floats.
float rstd_of(uint K, float eps, float eps_rest)
{
    const uint i = gl_LocalInvocationID.x;
    barrier();
    if (i < 16u) {
        precise float sum = 0.0;
        for (uint k = i; k < K; k += 16u) {
            precise float v = column(k);
            sum = fused(v, v, sum);
        }
        lane_sum[i] = sum;
    }
    barrier();
    return root_mean(K == 0u ? 0.0 : sum_of_lanes(), K == 0u ? 1.0 : float(K), eps, eps_rest);
}
