// linear.comp - y[t,m] = sum_k x[t,k] w[m,k] + b[m]. One invocation makes column m of ROWS rows;
// the sum over k is by 32 columns, in order, whatever the number of rows. word: n, K, M,
// the type of b as FLOATS has it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "weights.glsl"

layout(constant_id = 1) const uint ROWS = 1u;
layout(constant_id = 2) const uint BRAIN = 0u; // x is rounded to bf16
layout(local_size_x = 32) in;

float x_at(uint i)
{
    float x = get(0u, i);
    return BRAIN != 0u ? brain_to_float(float_to_brain(x)) : x;
}

void main()
{
    uint n = call.word[0], K = call.word[1], M = call.word[2];
    uint m = gl_GlobalInvocationID.x, t0 = gl_WorkGroupID.y * ROWS;
    if (m >= M) return;
    Row w = row_of(call.at[1], m, K);
    float sum[ROWS];
    for (uint t = 0u; t < ROWS; t++) sum[t] = 0.0;
    for (uint part = 0u; part * 32u < K; part++) {
        float v[32];
        part_of(w, part, v);
        uint columns = min(32u, K - part * 32u);
        for (uint t = 0u; t < ROWS; t++) {
            uint at = min(t0 + t, n - 1u) * K + part * 32u;
            precise float s = 0.0;
            if (columns == 32u)
                for (uint k = 0u; k < 32u; k++) s = fma(v[k], x_at(at + k), s);
            else
                for (uint k = 0u; k < columns; k++) s = fma(v[k], x_at(at + k), s);
            sum[t] += s;
        }
    }
    float b = there(2u) ? get_as(call.word[3], 2u, m) : 0.0;
    for (uint t = 0u; t < ROWS && t0 + t < n; t++) put(3u, (t0 + t) * M + m, sum[t] + b);
}
