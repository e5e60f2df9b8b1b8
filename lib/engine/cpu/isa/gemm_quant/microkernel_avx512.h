/* microkernel_avx512.h - private to microkernel.h, which tells what these are: a register is 16 rows. */
#ifndef ZT_CPU_DOT_AVX512_H
#define ZT_CPU_DOT_AVX512_H

#include <immintrin.h>

enum { SIDE = 8 };
typedef __m512 fv;
typedef __m512i iv, cv;

INLINE fv fv_zero(void) { return _mm512_setzero_ps(); }
INLINE fv fv_set(float x) { return _mm512_set1_ps(x); }
INLINE fv fv_load(const void *p) { return _mm512_loadu_ps(p); }
INLINE void fv_store(float *p, fv a) { _mm512_storeu_ps(p, a); }
INLINE fv fv_add(fv a, fv b) { return _mm512_add_ps(a, b); }
INLINE fv fv_mul(fv a, fv b) { return _mm512_mul_ps(a, b); }
INLINE fv fv_fma(fv a, fv b, fv c) { return _mm512_fmadd_ps(a, b, c); }
INLINE fv fv_neg(fv a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
INLINE fv fv_of_iv(iv a) { return _mm512_cvtepi32_ps(a); }
INLINE fv fv_of_half(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
INLINE fv fv_of_e8m0(const void *p)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(p)), one = _mm512_set1_epi32(1);
    return _mm512_castsi512_ps(
        _mm512_max_epi32(_mm512_slli_epi32(_mm512_sub_epi32(e, one), 23),
                         _mm512_slli_epi32(_mm512_add_epi32(e, one), 21)));
}
INLINE fv fv_of_e4m3(const void *p)
{
    __m256i h = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(p)), 7);
    return _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(0x1p7f));
}
/* The first (0) or second (1) of the pairs of bfloat16. */
INLINE fv fv_of_brain(const void *p, int second)
{
    __m512i v = _mm512_loadu_si512(p);
    return _mm512_castsi512_ps(second ? _mm512_and_si512(v, _mm512_set1_epi32(-65536))
                                      : _mm512_slli_epi32(v, 16));
}
INLINE iv iv_set(int32_t x) { return _mm512_set1_epi32(x); }
INLINE iv iv_sub(iv a, iv b) { return _mm512_sub_epi32(a, b); }
INLINE iv iv_add(iv a, iv b) { return _mm512_add_epi32(a, b); }
INLINE iv iv_of_fv(fv a) { return _mm512_cvtps_epi32(a); }
INLINE fv fv_power(fv a) { return _mm512_getexp_ps(a); }
INLINE fv fv_scaled(fv a, fv p) { return _mm512_scalef_ps(a, p); }
INLINE fv fv_unscaled(fv a, fv p) { return _mm512_scalef_ps(a, fv_neg(p)); }
INLINE iv iv_join(iv a, iv b) { return _mm512_add_epi32(_mm512_slli_epi32(a, 8), b); }
INLINE iv iv_pair(iv a, iv b, int n)
{
    a = n ? _mm512_srli_epi32(a, (unsigned)n) : a;
    return _mm512_mask_blend_epi16(0xaaaaaaaau, a, _mm512_slli_epi32(b, (unsigned)(16 - n)));
}
INLINE iv iv_unsigned(const void *p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256(p)); }
INLINE iv iv_signed(const void *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p)); }
INLINE iv iv_times(iv a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
INLINE iv iv_over(iv a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
INLINE iv iv_rest(iv a, int n)
{
    return _mm512_and_si512(a, _mm512_set1_epi16((short)((1 << n) - 1)));
}
INLINE iv iv_adds(iv a, iv b) { return _mm512_add_epi16(a, b); }
INLINE iv iv_subs(iv a, iv b) { return _mm512_sub_epi16(a, b); }
INLINE iv iv_first(iv a) { return _mm512_srai_epi32(_mm512_slli_epi32(a, 16), 16); }
INLINE iv iv_second(iv a) { return _mm512_srai_epi32(a, 16); }
INLINE iv iv_scales(iv a, iv b) { return _mm512_mulhrs_epi16(a, b); }
INLINE iv iv_products(iv a, iv b) { return _mm512_madd_epi16(a, b); }
INLINE iv iv_add_products(iv y, iv a, iv b) { return _mm512_dpwssd_epi32(y, a, b); }
INLINE iv iv_byte(const void *p, int j) /* byte j of each 32-bit word of a stored cv */
{
    return _mm512_and_si512(_mm512_srli_epi32(_mm512_loadu_si512(p), (unsigned)(8 * j)),
                            _mm512_set1_epi32(255));
}
INLINE cv cv_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE cv cv_load_next(const void *p)
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
INLINE cv cv_right(cv a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
INLINE cv cv_left(cv a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
INLINE cv cv_look(const uint8_t *table, cv a)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table)), a);
}

typedef int32_t __attribute__((may_alias)) four;

/* y += the products of four columns of each row by those of a token at x. */
INLINE iv add_dots_of(iv y, cv c, const uint8_t *x)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" /* gcc 12 takes two instructions for it */
            : "+v"(y)
            : "v"(c), "m"(*(const four *)x));
    return y;
}

/* All tokens side by side: their chains are independent, and each register of codes is used up. One or
 * two have each two chains, even and odd columns: one would keep the scheduler full of what waits. */
TEMPLATE void cv_dots(int bits, int n, int T, int step, const cv *c, const uint8_t *x,
                      sums_from from, iv *y)
{
    iv odd[2] = {iv_set(0), iv_set(0)};
    (void)bits;
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_set(load_i32(from.each + 4 * t));
    UNROLL for (int i = 0; i < n; i++)
        UNROLL for (int t = 0; t < T; t++) {
            iv *to = T <= 2 && i % 2 ? &odd[t] : &y[t];
            *to = add_dots_of(*to, c[i], x + 4 * (i * step + t));
        }
    UNROLL for (int t = 0; t < T && T <= 2; t++) y[t] = iv_add(y[t], odd[t]);
}

/* The same of codes of 4 bits packed at p, the upper ones as 16 times what they are: shifted once, as
 * sums. */
TEMPLATE void cv_dots_nibbles(int T, const uint8_t *p, const uint8_t *x, sums_from from, iv *y)
{
    iv upper[2] = {iv_set(0), iv_set(0)};
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_set(load_i32(from.each + 4 * t));
    UNROLL for (int i = 0; i < 4; i++) {
        const cv c = cv_load_next(p + 64 * i), low = cv_and(c, 15), high = cv_and(c, 0xf0);
        UNROLL for (int t = 0; t < T; t++) {
            y[t] = add_dots_of(y[t], low, x + 4 * (i * T + t));
            upper[t] = add_dots_of(upper[t], high, x + 4 * ((4 + i) * T + t));
        }
    }
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_add(y[t], _mm512_srai_epi32(upper[t], 4));
}

TEMPLATE void cv_dots_opened(int bits, int n, int T, int step, const uint8_t *p, const uint8_t *x,
                             sums_from from, iv *y)
{
    cv c[8];
    UNROLL for (int j = 0; j < n; j++) c[j] = cv_load(p + 64 * j);
    cv_dots(bits, n, T, step, c, x, from, y);
}

TEMPLATE void cv_dots_next(int T, const uint8_t *p, const uint8_t *x, sums_from from, iv *y)
{
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_set(load_i32(from.each + 4 * t));
    UNROLL for (int i = 0; i < 8; i++) {
        cv c = cv_load_next(p + 64 * i);
        UNROLL for (int t = 0; t < T; t++)
            __asm__ volatile("vpdpbusd %2%{1to16%}, %1, %0"
                             : "+v"(y[t])
                             : "v"(c), "m"(*(const four *)(x + 4 * (i * T + t)))
                             : "memory");
    }
}

#endif
