/* contract_blocks.cuh - codes and scales of the block types that products multiply as integers (docs/arithmetic.md: 8 bits): a
 * weight is d v + m, where v is the code less a middle. Blocks are those of a file (blocks.h).
 */
#ifndef ZT_CU_CONTRACT_BLOCKS_CUH
#define ZT_CU_CONTRACT_BLOCKS_CUH

#include "lib/engine/cuda/args_contract.h"
#include "lib/engine/cuda/blocks.h"

/* ---- codes ----------------------------------------------------------------------------------- */

/* Values of nibbles at columns i .. i + 3 of 2 each: those of iq4_nl, or twice those of e2m1. */
FN void nibble_values(bytes q, int each, int i, bool e2m1, int c[4])
{
    float v[4];
    looked_up(q, each, i, e2m1, 1, v);
    for (int j = 0; j < 4; j++) c[j] = (int)v[j];
}

FN void fifth_bits(bytes b, int at, int i, int c[4])
{
    const uint32_t high = u32_at(b + at);
    nibbles(b + at + 4, 16, i, c);
    for (int j = 0; j < 4; j++) c[j] |= (int)(high >> (i + j) & 1) << 4;
}

/* Columns i .. i + 3 of a block, i a multiple of 4. */
FN void block_codes(int type, bytes b, const uint16_t *grid, int i, int c[4])
{
    switch (type) {
    case ZT_CU_Q4_0: nibbles(b + 2, 16, i, c); break;
    case ZT_CU_Q4_1: nibbles(b + 4, 16, i, c); break;
    case ZT_CU_Q5_0: fifth_bits(b, 2, i, c); break;
    case ZT_CU_Q5_1: fifth_bits(b, 4, i, c); break;
    case ZT_CU_Q8_0:
        for (int j = 0; j < 4; j++) c[j] = (int8_t)b[2 + i + j];
        break;
    case ZT_CU_IQ4_NL: nibble_values(b + 2, 16, i, false, c); break;
    case ZT_CU_MXFP4: nibble_values(b + 1, 16, i, true, c); break;
    case ZT_CU_NVFP4: nibble_values(b + 4 + 8 * (i / 16), 8, i % 16, true, c); break;
    case ZT_CU_IQ4_XS: nibble_values(b + 8 + 16 * (i / 32), 16, i % 32, false, c); break;
    case ZT_CU_IQ3_S: iq3_s_codes(b, grid, i, c); break;
    case ZT_CU_Q2_0:
        for (int j = 0; j < 4; j++) c[j] = b[2 + i / 4] >> 2 * j & 3;
        break;
    case ZT_CU_TQ2_0:
        for (int j = 0; j < 4; j++) c[j] = two_bits(b, i + j);
        break;
    case ZT_CU_Q2_K:
        for (int j = 0; j < 4; j++) c[j] = two_bits(b + 16, i + j);
        break;
    case ZT_CU_Q3_K:
        for (int j = 0; j < 4; j++) c[j] = two_bits(b + 32, i + j) | (b[(i + j) % 32] >> i / 32 & 1) << 2;
        break;
    case ZT_CU_Q6_K:
        for (int j = 0; j < 4; j++) c[j] = q6_k_code(b, i + j);
        break;
    default: /* q4_k, q5_k */
        for (int j = 0; j < 4; j++) c[j] = q45_k_code(b, i + j, type == ZT_CU_Q5_K);
        break;
    }
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* d and m, by which integers they are multiplied where the type has these. m is subtracted then (dmin). */
typedef struct block_scale {
    float d, m;
    int by, less;
} block_scale;

/* Scale j of a block: that of its columns 32 j .. 32 j + 31, or of 16. */
FN block_scale scale_at(int type, bytes b, int j)
{
    block_scale s = {half_at(b), 0, 1, 0};
    float by, less;
    switch (type) {
    case ZT_CU_Q4_1:
    case ZT_CU_Q5_1: s.m = half_at(b + 2); break;
    case ZT_CU_MXFP4: s.d = float_of(b[0] < 2 ? 0x200000u << b[0] : (b[0] - 1u) << 23); break;
    case ZT_CU_NVFP4: s.d = e4m3_half(b[j]); break;
    case ZT_CU_TQ2_0: s.d = half_at(b + 64); break;
    case ZT_CU_Q2_K: s = {half_at(b + 80), half_at(b + 82), b[j] & 15, b[j] >> 4}; break;
    case ZT_CU_Q3_K:
        s.d = half_at(b + 108);
        s.by = ((b[96 + j % 8] >> j / 8 * 4 & 15) | (b[104 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
        break;
    case ZT_CU_Q4_K:
    case ZT_CU_Q5_K:
        scale_min(b + 4, j, &by, &less);
        s = {half_at(b), half_at(b + 2), (int)by, (int)less};
        break;
    case ZT_CU_Q6_K:
        s.d = half_at(b + 208);
        s.by = (int8_t)b[192 + j];
        break;
    case ZT_CU_IQ4_XS: s.by = (int)((b[4 + j / 2] >> j % 2 * 4 & 15u) | (u16_at(b + 2) >> 2 * j & 3) << 4) - 32; break;
    case ZT_CU_IQ3_S: s.by = iq3_s_scale(b, j); break;
    default: break;
    }
    return s;
}

#endif
