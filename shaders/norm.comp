// norm.comp - norms of rows, or of groups of columns: a workgroup each. word: K, eps, rows, what eps is beyond that float.
// RMS: x, g -> y, rstd. LAYER: x, g, b -> y, mean, rstd. ADDED, of a sum: x, residual, g -> y, sum, rstd. AFTER, with what
// is added to it: x, g, residual -> y.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"
#include "group.glsl"
#include "norm_sums.glsl"

layout(constant_id = 0) const uint KIND = 0u;
const uint RMS = 0u, LAYER = 1u, ADDED = 2u, AFTER = 3u;
const uint Y = KIND == RMS ? 2u : 3u, RSTD = KIND == RMS ? 3u : 5u;

float term(uint at)
{
    precise float v = get(0u, at);
    if (KIND == ADDED) v += get(1u, at);
    return v;
}

// A mean may be much smaller than its terms.
float mean_of(uint begin, uint K)
{
    Sum sum = Sum(0.0, 0.0);
    for (uint k = gl_LocalInvocationID.x; k < K; k += GROUP) add_to(sum, term(begin + k));
    float all = group_sum(sum.all);
    return K == 0u ? 0.0 : all / float(K);
}

float gain(uint k)
{
    uint g = KIND == ADDED ? 2u : 1u;
    return there(g) ? get(g, k) : 1.0;
}

uint from; // the row's first element

float column(uint k) { return term(from + k); }

void main()
{
    uint row = row_of_group(), i = gl_LocalInvocationID.x, K = call.word[0];
    if (row >= call.word[2]) return;
    from = row * K;
    precise float mean = 0.0, squares = 0.0;
    if (KIND == LAYER) mean = mean_of(from, K);
    precise float rstd;
    if (KIND == LAYER) {
        for (uint k = i; k < K; k += GROUP) {
            precise float d = term(from + k) - mean;
            squares = fma(d, d, squares);
        }
        precise float all = group_sum(squares);
        rstd = 1.0 / sqrt((K == 0u ? 0.0 : all / float(K)) + number(1));
    } else {
        rstd = rstd_of(K, number(1), number(3));
    }
    for (uint k = i; k < K; k += GROUP) {
        precise float v = term(from + k), y = (v - mean) * rstd * gain(k);
        if (KIND == LAYER && there(2u)) y += get(2u, k);
        if (KIND == AFTER) y += get(2u, from + k);
        if (KIND == ADDED && there(4u)) put(4u, from + k, v);
        if (there(Y)) put(Y, from + k, y);
    }
    if (i != 0u) return;
    if (KIND == LAYER && there(4u)) Floats(call.at[4]).v[row] = mean;
    if (KIND != AFTER && there(RSTD)) Floats(call.at[RSTD]).v[row] = rstd;
}
