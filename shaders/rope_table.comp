// rope_table.comp - rotations by tables of cosines and sines, one row of x a workgroup, and norms before them (NORM). x, cos,
// sin, wq, wk -> y. word: rows, columns of one, columns of a table's row, rows of the tables, rows that share one of
// these, neighbours, heads of a row of x's outer dimensions, those of them that wq is for, eps in two parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#include "norm_sums.glsl"

layout(constant_id = 0) const uint NORM = 0u;
layout(local_size_x = 64) in;

uint from; // the row's first element

float column(uint k) { return get(0u, from + k); }

// Column k of what is turned.
float normed(uint k, float rstd, uint gain)
{
    precise float y = column(k);
    if (NORM == 0u) return y;
    y = y * rstd;
    y = y * get(gain, k);
    return y;
}

void main()
{
    const uint row = row_of_group(), i = gl_LocalInvocationID.x, K = call.word[1], half_d = call.word[2];
    if (row >= call.word[0]) return;
    from = row * K;
    float rstd = 1.0;
    const uint gain = NORM != 0u && row % call.word[6] >= call.word[7] ? 4u : 3u;
    if (NORM != 0u) rstd = rstd_of(K, number(8u), number(9u));
    const uint at = row / call.word[4] % call.word[3] * half_d;
    for (uint j = i; j < half_d; j += 64u) {
        uint a = call.word[5] != 0u ? 2u * j : j, b = call.word[5] != 0u ? a + 1u : a + half_d;
        float c = get(1u, at + j), s = get(2u, at + j);
        precise float xa = normed(a, rstd, gain), xb = normed(b, rstd, gain), ya, yb;
        if (call.word[5] != 0u) {
            precise float part_a = xb * -s, part_b = xa * s;
            ya = fused(xa, c, part_a);
            yb = fused(xb, c, part_b);
        } else {
            precise float kept = xa * c, taken = xb * s, part_b = xb * c;
            ya = kept - taken;
            yb = fused(xa, s, part_b);
        }
        put(5u, from + a, ya);
        put(5u, from + b, yb);
    }
    for (uint k = 2u * half_d + i; k < K; k += 64u) put(5u, from + k, normed(k, rstd, gain));
}
