// norm.comp - rms_norm and layer_norm, one group of columns a workgroup. word: K, eps,
// rows.
// rms_norm: x, g -> y, rstd. layer_norm: x, g, b -> y, mean, rstd.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint LAYER = 0u;
layout(local_size_x = 64) in;
shared float part[64];

// Sums of K / 64 each, then a tree: one order for any device.
float sum_all(float mine)
{
    uint i = gl_LocalInvocationID.x;
    part[i] = mine;
    barrier();
    for (uint half_n = 32u; half_n > 0u; half_n /= 2u) {
        if (i < half_n) part[i] += part[i + half_n];
        barrier();
    }
    float sum = part[0];
    barrier();
    return sum;
}

void main()
{
    uint row = row_of_group(), i = gl_LocalInvocationID.x, K = call.word[0];
    if (row >= call.word[2]) return;
    uint y = LAYER != 0u ? 3u : 2u;
    precise float sum = 0.0, mean = 0.0;
    if (LAYER != 0u) {
        // What rounding takes (Kahan): a mean may be much smaller than its terms.
        precise float lost = 0.0;
        for (uint k = i; k < K; k += 64u) {
            precise float v = get(0u, row * K + k) - lost, next = sum + v;
            lost = (next - sum) - v;
            sum = next;
        }
        mean = sum_all(sum) / float(K);
    }
    sum = 0.0;
    for (uint k = i; k < K; k += 64u) {
        precise float d = get(0u, row * K + k) - mean;
        sum = fma(d, d, sum);
    }
    precise float rstd = 1.0 / sqrt(sum_all(sum) / float(K) + number(1));
    if (there(y))
        for (uint k = i; k < K; k += 64u) {
            precise float v = (get(0u, row * K + k) - mean) * rstd;
            if (there(1u)) v *= get(1u, k);
            if (LAYER != 0u && there(2u)) v += get(2u, k);
            put(y, row * K + k, v);
        }
    if (i != 0u) return;
    if (LAYER != 0u && there(4u)) Floats(call.at[4]).v[row] = mean;
    uint r = LAYER != 0u ? 5u : 3u;
    if (there(r)) Floats(call.at[r]).v[row] = rstd;
}
