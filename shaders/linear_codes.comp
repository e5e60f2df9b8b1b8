// linear_codes.comp - rows of x to signed bytes, for linear_int8.comp: one pair of a row an invocation, the columns of two
// scales of the weights, 2 x 32, or 2 x 16 where a scale is for 16. The rule is the cpu engine's
// (docs/quantized-product.md, lib/engine/cpu/isa/gemm_quant/activations.h), so that both multiply the same integers.
//
// With PARTS 1 (act=q8) 32 columns become q = round(x / e), e = the largest |x| / 127; with 2 (q16) two rows of codes,
// 256 upper + lower. Row r of R has the codes of its block b in words 8 (r S + b) ..., S blocks a row, an even number
// where a scale is for 32; then come four words for each pair of a row of x:
//
//   q8     E[0] and E[1] of 16 bits, the unit as f32, Q[0] and Q[1] of 16 bits
//   q16    e[0], e[1], e[0] sum(q), e[1] sum(q), all f32
//
// x -> codes. word: pairs of x in all, pairs of a row, blocks of a row that x has, is a scale for 16 columns,
// the unit of a pair's integer (integer_unit of layout.h).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "curves.glsl"

layout(constant_id = 1) const uint PARTS = 1u;
layout(local_size_x = 64) in;

struct Block {
    float scale;
    int sum[2][2]; // of each part, of each 16 columns
};

// 32 columns of x from `from` on, to words from `to` on, and `apart` words further those of the lower bytes.
Block put_block(uint from, uint to, uint apart)
{
    float v[32];
    uint top = 0u;
    for (uint k = 0u; k < 32u; k++) {
        v[k] = get(0u, from + k);
        top = max(top, floatBitsToUint(v[k]) & 0x7fffffffu);
    }
    precise float most = uintBitsToFloat(top);
    float inverse = most > 1e-35 && top < 0x7f800000u ? quotient_of(127.0, most) : 0.0;
    Block block = Block(quotient_of(most, 127.0), int[2][2](int[2](0, 0), int[2](0, 0)));
    if (PARTS == 2u) {
        precise float part = block.scale * 0.00390625;
        block.scale = part;
    }
    for (uint i = 0u; i < 8u; i++) {
        uint word[2] = uint[2](0u, 0u);
        for (uint k = 0u; k < 4u; k++) {
            precise float scaled = v[4u * i + k] * inverse;
            if (PARTS == 2u) scaled = scaled * 256.0;
            int q[2] = int[2](int(roundEven(scaled)), 0);
            if (PARTS == 2u) {
                q[1] = q[0];
                q[0] = (q[1] + 128) >> 8;
                q[1] = max(q[1] - 256 * q[0], -127);
            }
            for (uint u = 0u; u < PARTS; u++) {
                word[u] |= (uint(q[u]) & 255u) << 8u * k;
                block.sum[u][i / 4u] += q[u];
            }
        }
        for (uint u = 0u; u < PARTS; u++) Words(call.at[1]).v[to + u * apart + i] = word[u];
    }
    return block;
}

uint two_shorts(float a, float b) { return uint(int(roundEven(a))) & 0xffffu | uint(int(roundEven(b))) << 16; }

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    uint pairs = call.word[0], P = call.word[1], blocks = call.word[2];
    bool per_16 = call.word[3] != 0u;
    if (i >= pairs) return;
    uint row = i / P, p = i % P, S = per_16 ? P : 2u * P, n = pairs / P;
    uint first = per_16 ? p : 2u * p, to = 8u * (row * PARTS * S + first);
    Words codes = Words(call.at[1]);
    float e[2], product[2];
    int sum[2];
    Block block = put_block(32u * (row * blocks + first), to, 8u * S);
    e[0] = e[1] = block.scale;
    for (uint h = 0u; h < 2u; h++) sum[h] = PARTS == 2u ? 256 * block.sum[0][h] + block.sum[1][h] : block.sum[0][h];
    if (!per_16) {
        sum[0] += sum[1];
        sum[1] = 0;
        e[1] = 0.0;
        if (first + 1u < blocks) {
            block = put_block(32u * (row * blocks + first + 1u), to + 8u, 8u * S);
            e[1] = block.scale;
            for (uint h = 0u; h < 2u; h++)
                sum[1] += PARTS == 2u ? 256 * block.sum[0][h] + block.sum[1][h] : block.sum[0][h];
        } else {
            for (uint u = 0u; u < PARTS; u++)
                for (uint k = 0u; k < 8u; k++) codes.v[to + 8u + 8u * S * u + k] = 0u;
        }
    }
    uint behind = 8u * n * PARTS * S + 4u * i;
    if (PARTS == 2u) {
        for (uint h = 0u; h < 2u; h++) {
            precise float y = e[h] * float(sum[h]);
            codes.v[behind + h] = floatBitsToUint(e[h]);
            codes.v[behind + 2u + h] = floatBitsToUint(y);
        }
        return;
    }
    precise float unit = uintBitsToFloat(max(floatBitsToUint(e[0]), floatBitsToUint(e[1]))), whole = unit;
    if (!per_16) {
        float inverse = unit > 1e-35 && !isinf(unit) && !isnan(unit) ? quotient_of(16383.0, unit) : 0.0;
        for (uint h = 0u; h < 2u; h++) {
            precise float scaled = e[h] * inverse;
            e[h] = roundEven(scaled);
        }
        whole = quotient_of(unit, 16383.0);
    } else {
        e[0] = e[1] = 1.0;
    }
    whole = whole * uintBitsToFloat(call.word[4]);
    for (uint h = 0u; h < 2u; h++) {
        precise float y = e[h] * float(sum[h]);
        if (!per_16) y = y * 0.000244140625;
        product[h] = y;
    }
    codes.v[behind] = two_shorts(e[0], e[1]);
    codes.v[behind + 1u] = floatBitsToUint(whole);
    codes.v[behind + 2u] = two_shorts(product[0], product[1]);
}
