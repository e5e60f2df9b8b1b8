/* vector_avx2.h - private to vector.h, which lists these: two registers, of rows 0 to 7 and 8 to 15. */
#ifndef ZT_CPU_VECTOR_AVX2_H
#define ZT_CPU_VECTOR_AVX2_H

#include <immintrin.h>

typedef struct fv {
    __m256 lo, hi;
} fv;
typedef struct iv {
    __m256i lo, hi;
} iv, cv;

#define ONE(type, f, a)         ((type){f((a).lo), f((a).hi)})
#define TWO(type, f, a, b)      ((type){f((a).lo, (b).lo), f((a).hi, (b).hi)})
#define THREE(type, f, a, b, c) ((type){f((a).lo, (b).lo, (c).lo), f((a).hi, (b).hi, (c).hi)})
#define SHIFT(type, f, a, n)    ((type){f((a).lo, n), f((a).hi, n)})
#define TWICE(type, v)          ((type){v, v})
#define AT(p, n)                ((const void *)((const uint8_t *)(p) + (n)))

INLINE fv fv_set(float x) { return TWICE(fv, _mm256_set1_ps(x)); }
INLINE fv fv_zero(void) { return TWICE(fv, _mm256_setzero_ps()); }
INLINE fv fv_load(const void *p) { return (fv){_mm256_loadu_ps(p), _mm256_loadu_ps(AT(p, 32))}; }
INLINE void fv_store(float *p, fv a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
INLINE fv fv_add(fv a, fv b) { return TWO(fv, _mm256_add_ps, a, b); }
INLINE fv fv_mul(fv a, fv b) { return TWO(fv, _mm256_mul_ps, a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return THREE(fv, _mm256_fmadd_ps, a, b, c); }
INLINE fv fv_fma_flushed(fv a, fv b, fv c) { return fv_fma(a, b, c); }
INLINE void fv_hold(fv *a) { __asm__ volatile("" : "+x"(a->lo), "+x"(a->hi)); }
INLINE fv fv_neg(fv a) { return TWO(fv, _mm256_xor_ps, a, fv_set(-0.0f)); }
INLINE fv fv_of_iv(iv a) { return ONE(fv, _mm256_cvtepi32_ps, a); }
INLINE fv fv_of_f16(const void *p)
{
    return (fv){_mm256_cvtph_ps(_mm_loadu_si128(p)), _mm256_cvtph_ps(_mm_loadu_si128(AT(p, 16)))};
}
INLINE __m256 f32x8_of_e8m0(const void *p)
{
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)), one = _mm256_set1_epi32(1);
    return _mm256_castsi256_ps(
        _mm256_max_epi32(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23), _mm256_slli_epi32(_mm256_add_epi32(e, one), 21)));
}
INLINE fv fv_of_e8m0(const void *p) { return (fv){f32x8_of_e8m0(p), f32x8_of_e8m0(AT(p, 8))}; }
INLINE __m256 f32x8_of_e4m3(const void *p)
{
    __m128i h = _mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(p)), 7);
    return _mm256_mul_ps(_mm256_cvtph_ps(h), _mm256_set1_ps(0x1p7f));
}
INLINE fv fv_of_e4m3(const void *p) { return (fv){f32x8_of_e4m3(p), f32x8_of_e4m3(AT(p, 8))}; }
/* The second ones are loaded anew and their mask comes from memory: tiles have no registers for them. */
INLINE __m256 f32x8_of_bf16(const void *p, int second)
{
    static const uint32_t upper[8] = {0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000,
                                      0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000};
    __m256 v;
    if (!second) return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(p), 16));
    __asm__("vmovups %1, %0\n\tvandps %2, %0, %0" : "=x"(v) : "m"(*(const __m256i_u *)p), "m"(upper));
    return v;
}
INLINE fv fv_of_bf16(const void *p, int second) { return (fv){f32x8_of_bf16(p, second), f32x8_of_bf16(AT(p, 32), second)}; }
INLINE iv iv_set(int32_t x) { return TWICE(iv, _mm256_set1_epi32(x)); }
INLINE iv iv_sub(iv a, iv b) { return TWO(iv, _mm256_sub_epi32, a, b); }
INLINE iv iv_add(iv a, iv b) { return TWO(iv, _mm256_add_epi32, a, b); }
INLINE iv iv_of_fv(fv a) { return ONE(iv, _mm256_cvtps_epi32, a); }
INLINE fv fv_power(fv a) { return a; }
INLINE fv fv_mul_power(fv a, fv p) { return fv_mul(a, p); }
INLINE fv fv_div_power(fv a, fv p) { return TWO(fv, _mm256_div_ps, a, p); }
INLINE __m256i pair_of_8(__m256i a, __m256i b, int n)
{
    a = n ? _mm256_srli_epi32(a, n) : a;
    return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16 - n), 0xaa);
}
INLINE iv iv16_pair(iv a, iv b, int n) { return (iv){pair_of_8(a.lo, b.lo, n), pair_of_8(a.hi, b.hi, n)}; }
#define WIDER(f, p) ((iv){f(_mm_loadu_si128(p)), f(_mm_loadu_si128(AT(p, 16)))})
INLINE iv iv16_of_u8(const void *p) { return WIDER(_mm256_cvtepu8_epi16, p); }
INLINE iv iv16_of_i8(const void *p) { return WIDER(_mm256_cvtepi8_epi16, p); }
INLINE iv iv16_shl(iv a, int n) { return SHIFT(iv, _mm256_slli_epi16, a, n); }
INLINE iv iv16_shr(iv a, int n) { return SHIFT(iv, _mm256_srli_epi16, a, n); }
INLINE iv iv16_low_bits(iv a, int n)
{
    const iv mask = TWICE(iv, _mm256_set1_epi16((short)((1 << n) - 1)));
    return TWO(iv, _mm256_and_si256, a, mask);
}
INLINE iv iv16_add(iv a, iv b) { return TWO(iv, _mm256_add_epi16, a, b); }
INLINE iv iv16_sub(iv a, iv b) { return TWO(iv, _mm256_sub_epi16, a, b); }
INLINE iv iv16_first(iv a)
{
    a = SHIFT(iv, _mm256_slli_epi32, a, 16);
    return SHIFT(iv, _mm256_srai_epi32, a, 16);
}
INLINE iv iv16_second(iv a) { return SHIFT(iv, _mm256_srai_epi32, a, 16); }
INLINE iv iv16_scale(iv a, iv b) { return TWO(iv, _mm256_mulhrs_epi16, a, b); }
INLINE iv iv16_dot(iv a, iv b) { return TWO(iv, _mm256_madd_epi16, a, b); }
INLINE iv iv16_dot_add(iv y, iv a, iv b) { return iv_add(y, iv16_dot(a, b)); }
INLINE cv cv_load(const void *p) { return (cv){_mm256_loadu_si256(p), _mm256_loadu_si256(AT(p, 32))}; }
INLINE iv iv_of_bytes(const void *p, int j)
{
    const iv v = cv_load(p), all = SHIFT(iv, _mm256_srli_epi32, v, 8 * j);
    return TWO(iv, _mm256_and_si256, all, iv_set(255));
}
INLINE cv cv_load_in_order(const void *p)
{
    cv v;
    __asm__ volatile("vmovdqu %1, %0" : "=x"(v.lo) : "m"(*(const __m256i_u *)p));
    __asm__ volatile("vmovdqu %1, %0" : "=x"(v.hi) : "m"(*(const __m256i_u *)AT(p, 32)));
    return v;
}
INLINE void cv_store(uint8_t *p, cv a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, a.lo);
    _mm256_storeu_si256((__m256i *)(void *)(p + 32), a.hi);
}
INLINE cv cv_and(cv a, int mask)
{
    const cv all = TWICE(cv, _mm256_set1_epi8((char)mask));
    return TWO(cv, _mm256_and_si256, a, all);
}
INLINE cv cv_or_and(cv a, cv b, int mask)
{
    b = cv_and(b, mask);
    return TWO(cv, _mm256_or_si256, a, b);
}
INLINE cv cv_shr(cv a, int n) { return SHIFT(cv, _mm256_srli_epi16, a, n); }
INLINE cv cv_shl(cv a, int n) { return SHIFT(cv, _mm256_slli_epi16, a, n); }
INLINE cv cv_lookup(const uint8_t *table, cv a)
{
    const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
    return (cv){_mm256_shuffle_epi8(values, a.lo), _mm256_shuffle_epi8(values, a.hi)};
}

#endif
