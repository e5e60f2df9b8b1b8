// linear_pack.comp - matrices of blocks as a file has them to packed ones (weights.glsl): a unit of a row an invocation, of any
// type. w -> packed. word: rows of all matrices, of one, units of a row, words of a unit, its bytes in the file, bytes of a
// header that gets a word of its own (0: none).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(local_size_x = 64) in;

// `count` bytes from byte `at` on, up to 4, low ones first.
uint bytes_at(uint at, uint count)
{
    Words w = Words(call.at[0]);
    const uint shift = at % 4u * 8u, bits = 8u * count;
    uint word = w.v[at / 4u] >> shift;
    if (shift + bits > 32u) word |= w.v[at / 4u + 1u] << 32u - shift;
    return bits < 32u ? word & (1u << bits) - 1u : word;
}

void main()
{
    const uint own = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    const uint units = call.word[2], all = call.word[0] * units, at = min(own, all - 1u);
    const uint row = at / units, unit = at % units, M = call.word[1], words = call.word[3], header = call.word[5];
    const uint to_row = row / M * ((M + 31u) / 32u * 32u) + row % M, end = call.word[4], from = at * end;
    uint to = (to_row / 32u * units + unit) * words * 32u + to_row % 32u, byte = 0u;
    for (uint i = 0u; i < words; i++) {
        const uint count = i == 0u && header > 0u ? header : min(4u, end - byte);
        const uint word = bytes_at(from + byte, count);
        byte += count;
        if (own == at) Words(call.at[1]).v[to + 32u * i] = word;
    }
}
