// linear.comp - y[t,m] = sum_k x[t,k] w[m,k] + b[m] with x unchanged. One invocation makes column m of up to ROWS rows. The order
// is the cpu engine's (lib/engine/cpu/isa/gemm_quant/tile_plain.h): one sum in the order of k for block types with
// codes; two, of the even and of the odd columns, for plain and decoded ones; for bf16 weights by x that is rounded to
// bf16 (BRAIN) two of pairs of columns, of each pair the odd one first. x, w, b, y, none, grid, other -> y. word: n, K,
// M, the type of b as FLOATS has it; from 4 those of expert.glsl, from 7 rows of a workgroup and those of after.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define GRID_AT 5u
#define PACKED_BLOCKS
#include "call.glsl"
#include "weights.glsl"
#include "after.glsl"
#include "fused.glsl"
#include "expert.glsl"

layout(constant_id = 1) const uint ROWS = 1u;
layout(constant_id = 2) const uint BRAIN = 0u;
layout(local_size_x = 32) in;

const bool CODES = TYPE > BF16 && !DECODED;

float v[32];                 // of a part of w's row
float even[ROWS], odd[ROWS]; // sums

float x_at(uint i)
{
    float x = get(0u, i);
    return BRAIN != 0u ? brain_to_float(float_to_brain(x)) : x;
}

// Adds two of the part's columns to the sums of row t, whose part of x begins at `at`.
void add_two(uint j, uint t, uint at, uint columns)
{
    const uint first = BRAIN == 0u ? 2u * j : j / 2u * 4u + 1u - j % 2u, second = first + (BRAIN == 0u ? 1u : 2u);
    if (first < columns) even[t] = fused(v[first], x_at(at + first), even[t]);
    if (second >= columns) return;
    if (CODES)
        even[t] = fused(v[second], x_at(at + second), even[t]);
    else
        odd[t] = fused(v[second], x_at(at + second), odd[t]);
}

float sum_of_two(uint t)
{
    precise float y = even[t];
    if (!CODES) y = y + odd[t];
    return y;
}

void main()
{
    const uint n = call.word[0], K = call.word[1], M = call.word[2], each = call.word[7];
    const uint m = gl_GlobalInvocationID.x, t0 = gl_WorkGroupID.y * each, count = min(each, n - t0);
    const uint expert = expert_of(t0);
    Row w = row_of(call.at[1], row_in_stack(expert, M, min(m, M - 1u)), K);
    for (uint t = 0u; t < ROWS; t++) even[t] = odd[t] = 0.0;
    for (uint part = 0u; part * 32u < K; part++) {
        const uint columns = min(32u, K - part * 32u);
        part_of(w, part, v);
        if (FUSED != 0u) {
            for (uint t = 0u; t < ROWS; t++)
                for (uint j = 0u; j < 16u; j++) add_two(j, t, x_row(t0, t) * K + part * 32u, columns);
        } else {
            // For compilers of CPUs: what fused() becomes there is long.
            [[dont_unroll]] for (uint t = 0u; t < count; t++)
                [[dont_unroll]] for (uint j = 0u; j < 16u; j++) add_two(j, t, x_row(t0, t) * K + part * 32u, columns);
        }
    }
    if (m >= M || !is_expert(t0, expert, m)) return;
    const float bias = there(2u) ? get_as(call.word[3], 2u, expert * M + m) : 0.0;
    if (FUSED != 0u) {
        for (uint t = 0u; t < ROWS && t < count; t++) put_product(sum_of_two(t), 1.0, bias, (t0 + t) * M + m);
    } else {
        [[dont_unroll]] for (uint t = 0u; t < count; t++) put_product(sum_of_two(t), 1.0, bias, (t0 + t) * M + m);
    }
}
