// loss_pair.comp - losses of values and targets alike: of each element, or with PARTS the sum of every 4096, a workgroup
// each. x, target -> y; the sums are f32. word: count, beta.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "group.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint PARTS = 0u;
layout(constant_id = 1) const uint KIND = 0u;
const uint MSE = 0u, SMOOTH_L1 = 1u, BCE = 2u;
const uint EACH = 4096u; // as in lib/engine/vulkan/loss.c

real loss_at(uint i)
{
    precise real x = get(0u, i), t = get(1u, i), d = abs(x - t), beta = real_number(1u, 2u), y = d * d;
    if (KIND == SMOOTH_L1) y = d < beta ? d * d / (2.0 * beta) : d - 0.5 * beta;
    if (KIND == BCE) y = (x > 0.0 ? x : 0.0) - x * t + (isnan(x) ? x : log1p_of(exp_of(-abs(x))));
    return y;
}

void main()
{
    uint group = row_of_group(), i = gl_LocalInvocationID.x, n = call.word[0];
    if (PARTS == 0u) {
        i += group * GROUP;
        if (i < n) put(2u, i, loss_at(i));
        return;
    }
    uint from = group * EACH, to = min(from + EACH, n);
    if (from >= n) return;
    Sum sum = Sum(0.0, 0.0);
    for (uint e = from + i; e < to; e += GROUP) add_to(sum, loss_at(e));
    real all = group_sum(sum.all);
    if (i == 0u) Reals(call.at[2]).v[group] = all;
}
