// linear_codes.comp - x to signed bytes by 32 columns, for linear_int8.comp. One block of them an invocation.
//
// A block becomes q = round(x / d), d = the largest |x| / 127 (ties to even); with EACH 2 a row of
// x becomes two rows, of q and of the codes of what they leave of x. Of R rows of B blocks, row r's
// block b has its 32 codes in words 8 (r B + b)..., then behind all codes come d[R][B], and
// d * sum(q) [R][B]. An infinity or NaN makes d so, and with it every sum that it enters.
// x -> codes. word: blocks of x in all, blocks of a row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint EACH = 1u;
layout(local_size_x = 64) in;

// As lib/engine/cpu/isa/gemm_quant/microkernel.h rounds, so that both multiply the same integers.
void put_codes(inout float v[32], uint row, uint block, uint B, uint all)
{
    Words to = Words(call.at[1]);
    uint top = 0u, at = row * B + block;
    for (uint k = 0u; k < 32u; k++) top = max(top, floatBitsToUint(v[k]) & 0x7fffffffu);
    precise float most = uintBitsToFloat(top), d = most / 127.0;
    precise float inverse = most > 1e-35 && top < 0x7f800000u ? 127.0 / most : 0.0;
    int sum = 0;
    for (uint i = 0u; i < 8u; i++) {
        uint word = 0u;
        for (uint k = 0u; k < 4u; k++) {
            precise float scaled = v[4u * i + k] * inverse;
            int q = top < 0x7f800000u ? int(roundEven(scaled)) : 0;
            precise float left = v[4u * i + k] - d * float(q);
            v[4u * i + k] = left;
            word |= (uint(q) & 255u) << (8u * k);
            sum += q;
        }
        to.v[8u * at + i] = word;
    }
    precise float product = d * float(sum);
    to.v[8u * all + at] = floatBitsToUint(d);
    to.v[9u * all + at] = floatBitsToUint(product);
}

void main()
{
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    uint blocks = call.word[0], B = call.word[1];
    if (i >= blocks) return;
    float v[32];
    for (uint k = 0u; k < 32u; k++) v[k] = get(0u, 32u * i + k);
    for (uint e = 0u; e < EACH; e++) put_codes(v, i / B * EACH + e, i % B, B, blocks * EACH);
}
