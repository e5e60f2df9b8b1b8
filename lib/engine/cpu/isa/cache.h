/* cache.h - private to isa/: numbers of a KV cache as they come into registers, of plain types and of blocks (lib/tensor/dtype_blocks.c
 * draws them). What a format defines is rounded once: products of a scale and a code are exact.
 */
#ifndef ZT_CPU_CACHE_H
#define ZT_CPU_CACHE_H

#include "lib/engine/cpu/isa/simd.h"
#include "lib/tensor/block_row.h"

/* Bytes of so many columns, whole blocks. */
static inline size_t cache_bytes(zt_dtype dtype, int64_t columns)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    return (size_t)(columns / info->block * info->block_bytes);
}

INLINE float load_half(const char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
#elif defined(ZT_ISA_neon)
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
#else
    return zt_f16_to_f32(half);
#endif
}

/* 16 codes of 4 bits: the low halves of 16 bytes, or the high ones. */
INLINE vi load_nibbles(const char *p, int upper)
{
    const vi bytes = vi_of_u8(p);
    return upper ? vi_right(bytes, 4) : vi_and(bytes, vi_set(15));
}

/* The bits of a word as 16 in the lanes that are set. */
INLINE vi load_fifth_bits(const char *p, int upper)
{
    static const int32_t places[LANES] = {1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                                          1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
    uint16_t bits;
    memcpy(&bits, p + 2 * upper, sizeof bits);
    /* 0 or more than 0, of at most 16 bits, to 0 or 16: less 1 has the sign, or not */
    const vi one = vi_sub(vi_and(vi_set(bits), vi_load(places)), vi_set(1));
    return vi_sub(vi_set(16), vi_and(vi_right(one, 31), vi_set(16)));
}

/* The levels of iq4_nl for codes. */
INLINE vf load_levels(const char *p, int upper)
{
    static const float levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    float level[LANES];
    for (int i = 0; i < LANES; i++) level[i] = levels[(uint8_t)p[i] >> 4 * upper & 15];
    return vf_load(level);
}

/* Columns d..d+15 of a row that begins at p, d a multiple of 16. */
INLINE vf cached_block(zt_dtype dtype, const char *p, int64_t d)
{
    const int upper = (int)(d / LANES % 2);
    switch (dtype) {
    case ZT_Q8_0: p += d / 32 * 34; return vf_mul(vf_of_vi(vi_of_i8(p + 2 + LANES * upper)), vf_set(load_half(p)));
    case ZT_Q4_0: p += d / 32 * 18; return vf_mul(vf_of_vi(vi_sub(load_nibbles(p + 2, upper), vi_set(8))), vf_set(load_half(p)));
    case ZT_Q5_0:
        p += d / 32 * 22;
        return vf_mul(vf_of_vi(vi_sub(vi_or(load_nibbles(p + 6, upper), load_fifth_bits(p + 2, upper)), vi_set(16))),
                      vf_set(load_half(p)));
    case ZT_Q4_1:
        p += d / 32 * 20;
        return vf_add(vf_mul(vf_of_vi(load_nibbles(p + 4, upper)), vf_set(load_half(p))), vf_set(load_half(p + 2)));
    case ZT_Q5_1:
        p += d / 32 * 24;
        return vf_add(vf_mul(vf_of_vi(vi_or(load_nibbles(p + 8, upper), load_fifth_bits(p + 4, upper))), vf_set(load_half(p))),
                      vf_set(load_half(p + 2)));
    case ZT_IQ4_NL: p += d / 32 * 18; return vf_mul(load_levels(p + 2, upper), vf_set(load_half(p)));
    default: return vf_set(NAN);
    }
}

/* Columns d..d+n-1 of a row that begins at p, zeros after them; n is LANES wherever a whole register is there. */
INLINE vf cached(zt_dtype dtype, const char *p, int64_t d, int n)
{
    if (dtype == ZT_F32) return vf_load_n((const float *)(const void *)p + d, n);
    if (dtype != ZT_F16) return cached_block(dtype, p, d);
    if (n == LANES) return vf_of_f16(p + 2 * d);
    uint16_t some[LANES] = {0};
    memcpy(some, p + 2 * d, (size_t)n * sizeof some[0]);
    return vf_of_f16(some);
}

/* The types of a cache, for functions that are made for each. */
#define EACH_CACHE(X) X(F32) X(F16) X(Q8_0) X(Q5_1) X(Q5_0) X(Q4_1) X(Q4_0) X(IQ4_NL)

#endif
