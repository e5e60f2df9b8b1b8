/* vector_avx512.h - private to vector.h, which lists these: a register is 16 rows. */
#ifndef ZT_CPU_VECTOR_AVX512_H
#define ZT_CPU_VECTOR_AVX512_H

#include <immintrin.h>

typedef __m512 fv;
typedef __m512i iv, cv;

INLINE fv fv_zero(void) { return _mm512_setzero_ps(); }
INLINE fv fv_set(float x) { return _mm512_set1_ps(x); }
INLINE fv fv_load(const void *p) { return _mm512_loadu_ps(p); }
INLINE void fv_store(float *p, fv a) { _mm512_storeu_ps(p, a); }
INLINE fv fv_add(fv a, fv b) { return _mm512_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm512_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm512_fmadd_ps(a, b, c); }
INLINE fv fv_fma_flushed(fv a, fv b, fv c) { return fv_fma(a, b, c); }
INLINE void fv_hold(fv *a) { __asm__ volatile("" : "+v"(*a)); }
INLINE fv fv_neg(fv a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
INLINE fv fv_of_iv(iv a) { return _mm512_cvtepi32_ps(a); }
INLINE fv fv_of_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
INLINE fv fv_of_e8m0(const void *p)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(p)), one = _mm512_set1_epi32(1);
    return _mm512_castsi512_ps(
        _mm512_max_epi32(_mm512_slli_epi32(_mm512_sub_epi32(e, one), 23), _mm512_slli_epi32(_mm512_add_epi32(e, one), 21)));
}
INLINE fv fv_of_e4m3(const void *p)
{
    __m256i h = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(p)), 7);
    return _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(0x1p7f));
}
/* The first (0) or second (1) of the pairs of bfloat16. */
INLINE fv fv_of_bf16(const void *p, int second)
{
    __m512i v = _mm512_loadu_si512(p);
    return _mm512_castsi512_ps(second ? _mm512_and_si512(v, _mm512_set1_epi32(-65536)) : _mm512_slli_epi32(v, 16));
}
INLINE iv iv_set(int32_t x) { return _mm512_set1_epi32(x); }
INLINE iv iv_sub(iv a, iv b) { return _mm512_sub_epi32(a, b); }
INLINE iv iv_add(iv a, iv b) { return _mm512_add_epi32(a, b); }
INLINE iv iv_of_fv(fv a) { return _mm512_cvtps_epi32(a); }
INLINE fv fv_power(fv a) { return _mm512_getexp_ps(a); }
INLINE fv fv_mul_power(fv a, fv p) { return _mm512_scalef_ps(a, p); }
INLINE fv fv_div_power(fv a, fv p) { return _mm512_scalef_ps(a, fv_neg(p)); }
INLINE iv iv_join_halves(iv a, iv b) { return _mm512_add_epi32(_mm512_slli_epi32(a, 8), b); }
INLINE iv iv16_pair(iv a, iv b, int n)
{
    a = n ? _mm512_srli_epi32(a, (unsigned)n) : a;
    return _mm512_mask_blend_epi16(0xaaaaaaaau, a, _mm512_slli_epi32(b, (unsigned)(16 - n)));
}
INLINE iv iv16_of_u8(const void *p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256(p)); }
INLINE iv iv16_of_i8(const void *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p)); }
INLINE iv iv16_shl(iv a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
INLINE iv iv16_shr(iv a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
INLINE iv iv16_low_bits(iv a, int n) { return _mm512_and_si512(a, _mm512_set1_epi16((short)((1 << n) - 1))); }
INLINE iv iv16_add(iv a, iv b) { return _mm512_add_epi16(a, b); }
INLINE iv iv16_sub(iv a, iv b) { return _mm512_sub_epi16(a, b); }
INLINE iv iv16_first(iv a) { return _mm512_srai_epi32(_mm512_slli_epi32(a, 16), 16); }
INLINE iv iv16_second(iv a) { return _mm512_srai_epi32(a, 16); }
INLINE iv iv16_scale(iv a, iv b) { return _mm512_mulhrs_epi16(a, b); }
INLINE iv iv16_dot(iv a, iv b) { return _mm512_madd_epi16(a, b); }
INLINE iv iv16_dot_add(iv y, iv a, iv b) { return _mm512_dpwssd_epi32(y, a, b); }
INLINE iv iv_of_bytes(const void *p, int j) /* byte j of each 32-bit word of a stored cv */
{
    return _mm512_and_si512(_mm512_srli_epi32(_mm512_loadu_si512(p), (unsigned)(8 * j)), _mm512_set1_epi32(255));
}
INLINE cv cv_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE cv cv_load_in_order(const void *p)
{
    cv v;
    __asm__ volatile("vmovdqu64 %1, %0" : "=v"(v) : "m"(*(const __m512i_u *)p));
    return v;
}
INLINE void cv_store(uint8_t *p, cv a) { _mm512_storeu_si512(p, a); }
INLINE cv cv_and(cv a, int mask) { return _mm512_and_si512(a, _mm512_set1_epi8((char)mask)); }
INLINE cv cv_or_and(cv a, cv b, int mask) /* a | (b & mask) */
{
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8((char)mask), 0xf8);
}
INLINE cv cv_shr(cv a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
INLINE cv cv_shl(cv a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
INLINE cv cv_lookup(const uint8_t *table, cv a)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table)), a);
}

#endif
