// linear_int8.comp - the product of linear.comp with x as linear_codes.comp left it: exact integers for 32 (or
// 16) columns, then one f32 accumulator for a row of codes and a row of w, the blocks in order.
//
// One invocation makes column m of ROWS rows of y. All want the same codes of x: each lane reads
// one word and tells the others. The products of bytes are SPIR-V's OpSDot, for which the glslc of
// Debian 12 has no function (GL_EXT_integer_dot_product). x's codes, w, b -> y. word: n, K, M, the
// type of b as FLOATS has it.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "call.glsl"
#include "weights.glsl"

layout(constant_id = 1) const uint ROWS = 1u;
layout(constant_id = 2) const uint EACH = 1u; // rows of codes a row of x
layout(local_size_x = 32) in;

// The last operand, 0, says that words hold four bytes.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019],
                  id = 4450)
int dot_bytes(int a, int b, spirv_literal int format);

int dots(int c[8], int mine, uint first, uint n)
{
    int sum = 0;
    for (uint i = first; i < first + n; i++) sum += dot_bytes(c[i], subgroupBroadcast(mine, i), 0);
    return sum;
}

// y[t] += of one block; x has its codes at 8 at, d and d * sum(q) behind all blocks.
float block_of(int c[8], Scales s, Words x, uint at, uint all, float sum)
{
    uint lane = gl_SubgroupInvocationID & 7u;
    int mine = int(x.v[8u * at + lane]);
    float two = uintBitsToFloat(x.v[(8u + (lane & 1u)) * all + at]);
    precise float d = subgroupBroadcast(two, 0u), by = s.by[0] * d, y = sum;
    if (HALVES) {
        precise float second = s.by[1] * d;
        y = fma(float(dots(c, mine, 0u, 4u)), by, y);
        y = fma(float(dots(c, mine, 4u, 4u)), second, y);
    } else {
        y = fma(float(dots(c, mine, 0u, 8u)), by, y);
    }
    if (MINIMA) y = fma(s.least, subgroupBroadcast(two, 1u), y);
    return y;
}

void main()
{
    uint n = call.word[0], K = call.word[1], M = call.word[2], B = K / 32u, all = n * EACH * B;
    uint m = gl_GlobalInvocationID.x, t0 = gl_WorkGroupID.y * ROWS;
    Words x = Words(call.at[0]);
    Row w = row_of(call.at[1], min(m, M - 1u), K);
    float sum[ROWS * EACH];
    for (uint t = 0u; t < ROWS * EACH; t++) sum[t] = 0.0;
    for (uint block = 0u; block < B; block++) {
        int c[8];
        Scales s = codes_of(w, block, c);
        for (uint t = 0u; t < ROWS * EACH; t++) {
            uint row = min(t0 * EACH + t, n * EACH - 1u);
            sum[t] = block_of(c, s, x, row * B + block, all, sum[t]);
        }
    }
    if (m >= M) return;
    float b = there(2u) ? get_as(call.word[3], 2u, m) : 0.0;
    for (uint t = 0u; t < ROWS && t0 + t < n; t++) {
        precise float y = sum[t * EACH];
        if (EACH == 2u) y += sum[t * EACH + 1u];
        put(3u, (t0 + t) * M + m, y + b);
    }
}
