/* microkernel_avx2.h - private to microkernel.h, which tells what these are: two registers, of rows 0 to 7 and 8
 * to 15. */
#ifndef ZT_CPU_DOT_AVX2_H
#define ZT_CPU_DOT_AVX2_H

#include <immintrin.h>

typedef struct fv {
    __m256 lo, hi;
} fv;
typedef struct iv {
    __m256i lo, hi;
} iv, cv;
enum { SIDE = 4 };

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
INLINE fv fv_neg(fv a) { return TWO(fv, _mm256_xor_ps, a, fv_set(-0.0f)); }
INLINE fv fv_of_iv(iv a) { return ONE(fv, _mm256_cvtepi32_ps, a); }
INLINE fv fv_of_half(const void *p)
{
    return (fv){_mm256_cvtph_ps(_mm_loadu_si128(p)), _mm256_cvtph_ps(_mm_loadu_si128(AT(p, 16)))};
}
INLINE __m256 eight_of_e8m0(const void *p)
{
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)), one = _mm256_set1_epi32(1);
    return _mm256_castsi256_ps(
        _mm256_max_epi32(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23),
                         _mm256_slli_epi32(_mm256_add_epi32(e, one), 21)));
}
INLINE fv fv_of_e8m0(const void *p) { return (fv){eight_of_e8m0(p), eight_of_e8m0(AT(p, 8))}; }
INLINE __m256 eight_of_e4m3(const void *p)
{
    __m128i h = _mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(p)), 7);
    return _mm256_mul_ps(_mm256_cvtph_ps(h), _mm256_set1_ps(0x1p7f));
}
INLINE fv fv_of_e4m3(const void *p) { return (fv){eight_of_e4m3(p), eight_of_e4m3(AT(p, 8))}; }
/* The second ones are loaded anew and their mask comes from memory: tiles have no registers for them. */
INLINE __m256 eight_of_brain(const void *p, int second)
{
    static const uint32_t upper[8] = {0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000,
                                      0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000};
    __m256 v;
    if (!second) return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(p), 16));
    __asm__("vmovups %1, %0\n\tvandps %2, %0, %0"
            : "=x"(v)
            : "m"(*(const __m256i_u *)p), "m"(upper));
    return v;
}
INLINE fv fv_of_brain(const void *p, int second)
{
    return (fv){eight_of_brain(p, second), eight_of_brain(AT(p, 32), second)};
}
INLINE iv iv_set(int32_t x) { return TWICE(iv, _mm256_set1_epi32(x)); }
INLINE iv iv_sub(iv a, iv b) { return TWO(iv, _mm256_sub_epi32, a, b); }
INLINE iv iv_add(iv a, iv b) { return TWO(iv, _mm256_add_epi32, a, b); }
INLINE iv iv_of_fv(fv a) { return ONE(iv, _mm256_cvtps_epi32, a); }
INLINE fv fv_power(fv a) { return a; }
INLINE fv fv_scaled(fv a, fv p) { return fv_mul(a, p); }
INLINE fv fv_unscaled(fv a, fv p) { return TWO(fv, _mm256_div_ps, a, p); }
INLINE __m256i eight_pairs(__m256i a, __m256i b, int n)
{
    a = n ? _mm256_srli_epi32(a, n) : a;
    return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16 - n), 0xaa);
}
INLINE iv iv_pair(iv a, iv b, int n)
{
    return (iv){eight_pairs(a.lo, b.lo, n), eight_pairs(a.hi, b.hi, n)};
}
#define WIDER(f, p) ((iv){f(_mm_loadu_si128(p)), f(_mm_loadu_si128(AT(p, 16)))})
INLINE iv iv_unsigned(const void *p) { return WIDER(_mm256_cvtepu8_epi16, p); }
INLINE iv iv_signed(const void *p) { return WIDER(_mm256_cvtepi8_epi16, p); }
INLINE iv iv_times(iv a, int n) { return SHIFT(iv, _mm256_slli_epi16, a, n); }
INLINE iv iv_over(iv a, int n) { return SHIFT(iv, _mm256_srli_epi16, a, n); }
INLINE iv iv_rest(iv a, int n)
{
    const iv mask = TWICE(iv, _mm256_set1_epi16((short)((1 << n) - 1)));
    return TWO(iv, _mm256_and_si256, a, mask);
}
INLINE iv iv_adds(iv a, iv b) { return TWO(iv, _mm256_add_epi16, a, b); }
INLINE iv iv_subs(iv a, iv b) { return TWO(iv, _mm256_sub_epi16, a, b); }
INLINE iv iv_first(iv a)
{
    a = SHIFT(iv, _mm256_slli_epi32, a, 16);
    return SHIFT(iv, _mm256_srai_epi32, a, 16);
}
INLINE iv iv_second(iv a) { return SHIFT(iv, _mm256_srai_epi32, a, 16); }
INLINE iv iv_scales(iv a, iv b) { return TWO(iv, _mm256_mulhrs_epi16, a, b); }
INLINE iv iv_products(iv a, iv b) { return TWO(iv, _mm256_madd_epi16, a, b); }
INLINE iv iv_add_products(iv y, iv a, iv b) { return iv_add(y, iv_products(a, b)); }
INLINE cv cv_load(const void *p)
{
    return (cv){_mm256_loadu_si256(p), _mm256_loadu_si256(AT(p, 32))};
}
INLINE iv iv_byte(const void *p, int j)
{
    const iv v = cv_load(p), all = SHIFT(iv, _mm256_srli_epi32, v, 8 * j);
    return TWO(iv, _mm256_and_si256, all, iv_set(255));
}
INLINE cv cv_load_next(const void *p)
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
INLINE cv cv_right(cv a, int n) { return SHIFT(cv, _mm256_srli_epi16, a, n); }
INLINE cv cv_left(cv a, int n) { return SHIFT(cv, _mm256_slli_epi16, a, n); }
INLINE cv cv_look(const uint8_t *table, cv a)
{
    const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
    return (cv){_mm256_shuffle_epi8(values, a.lo), _mm256_shuffle_epi8(values, a.hi)};
}

/* Here and not elsewhere: the compiler puts such sums off, and then has no registers for them. */
INLINE void keep(iv *a) { __asm__("" : "+x"(a->lo), "+x"(a->hi)); }

INLINE __m256i four_of(const uint8_t *x) { return _mm256_set1_epi32(load_i32(x)); }

/* Pairs of products in 16 bits: of codes below 128, or of signed ones given |code|. */
INLINE iv pairs_of(cv c, __m256i x)
{
    return (iv){_mm256_maddubs_epi16(c.lo, x), _mm256_maddubs_epi16(c.hi, x)};
}
INLINE iv pairs_of_signed(cv c, cv abs, __m256i x)
{
    return (iv){_mm256_maddubs_epi16(abs.lo, _mm256_sign_epi8(x, c.lo)),
                _mm256_maddubs_epi16(abs.hi, _mm256_sign_epi8(x, c.hi))};
}
INLINE iv sum_pairs(iv a) { return iv_products(a, TWICE(iv, _mm256_set1_epi16(1))); }

/* Codes of 8 bits less 128. */
INLINE cv cv_signed(cv c)
{
    const cv sign = TWICE(cv, _mm256_set1_epi8((char)128));
    return TWO(cv, _mm256_xor_si256, c, sign);
}

/* These: |code| * 127 * 2 fits 16 bits, two of them do not. */
TEMPLATE void add_signed(int T, cv c, const uint8_t *x, iv *y)
{
    const cv abs = ONE(cv, _mm256_abs_epi8, c);
    UNROLL for (int t = 0; t < T; t++) {
        y[t] = iv_add(y[t], sum_pairs(pairs_of_signed(c, abs, four_of(x + 4 * t))));
        keep(&y[t]);
    }
}

/* Codes of fewer: register i of a run, whose pairs are summed up in 16 bits. */
TEMPLATE void add_pairs(int T, bool begins, cv c, const uint8_t *x, iv *s)
{
    UNROLL for (int t = 0; t < T; t++) {
        const iv more = pairs_of(c, four_of(x + 4 * t));
        s[t] = begins ? more : iv_adds(s[t], more);
        keep(&s[t]);
    }
}

/* How many registers of codes have sums that 16 bits hold: 15 * 127 * 2 * 8, 31 * 127 * 2 * 4,
 * 63 * 127 * 2 * 2. */
INLINE int run_of(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : 2; }

/* What sums begin with. */
TEMPLATE void begin_dots(int bits, int T, sums_from from, iv *y)
{
    UNROLL for (int t = 0; t < T; t++)
        y[t] = iv_set(bits < 8 ? load_i32(from.each + 4 * t) : from.whole);
}

/* Register i of n of codes; those of 8 bits are signed. s: sums of a run. */
TEMPLATE void dots_of(int bits, int n, int T, int i, cv c, const uint8_t *x, iv *s, iv *y)
{
    const int run = run_of(bits) < n ? run_of(bits) : n;
    if (bits == 8) {
        add_signed(T, c, x, y);
        return;
    }
    add_pairs(T, i % run == 0, c, x, s);
    if (i % run != run - 1) return;
    UNROLL for (int t = 0; t < T; t++) y[t] = iv_add(y[t], sum_pairs(s[t]));
}

/* n registers of crossed codes, which lie at p, from what is at `from` on. rolled: two in a turn of a loop. */
TEMPLATE void sum_crossed(bool rolled, int n, int T, int step, const uint8_t *p, const uint8_t *x,
                          const uint8_t *from, iv *s)
{
    UNROLL for (int t = 0; t < T; t++) s[t] = iv_set(load_i32(from + 4 * t));
    ROLLED for (int i = 0; rolled && i < n; i += 2) {
        UNROLL for (int j = 0; j < 2; j++) /* (not of a number that is known later: gcc 12 then copies sums about) */
            add_pairs(T, false, cv_load_next(p + 64 * j), x + 4 * step * j, s);
        p += 128, x += 8 * step;
        __asm__("" : "+r"(p), "+r"(x)); /* two pointers, not one and all distances */
    }
    UNROLL for (int i = 0; !rolled && i < n; i++)
        add_pairs(T, false, cv_load_next(p + 64 * i), x + 4 * step * i, s);
}

/* Codes of 8 bits as 16 upper + lower - 8. */
INLINE cv cv_upper(cv c)
{
    const cv round = TWICE(cv, _mm256_set1_epi8(7)); /* the sum of both and 1 is halved */
    return cv_and(cv_right(TWO(cv, _mm256_avg_epu8, c, round), 3), 31);
}
INLINE cv cv_lower(cv c)
{
    const cv eight = TWICE(cv, _mm256_set1_epi8(8));
    return cv_and(TWO(cv, _mm256_add_epi8, c, eight), 15);
}

/* What sums of more bits are put together of (tile_codes.h). */
INLINE iv join_crossed(int beyond, iv a, iv b)
{
    const iv middle = TWICE(iv, _mm256_set1_epi16(-32768));
    if (beyond == 1) {
        a = TWO(iv, _mm256_avg_epu16, a, b);
        return TWO(iv, _mm256_xor_si256, a, middle);
    }
    return iv_adds(a, SHIFT(iv, _mm256_srai_epi16, b, 4));
}

/* The first of two waits in memory: there are no registers for both, and the compiler would move them about.
 * Where each is of all columns, they are rolled: else the sums of a tile are so many bytes of instructions that
 * a Zen 3 is 8 per cent slower at them. */
TEMPLATE void cv_dots_crossed(int beyond, int n, int T, int step, const uint8_t *p, const uint8_t *x,
                              const uint8_t *from, iv *y)
{
    const bool all = beyond > 1;
    const int each = beyond == 1 ? n / 2 : n;
    uint8_t first[SIDE * 64] __attribute__((aligned(64)));
    const uint8_t *kept = first;
    sum_crossed(all, each, T, step, p, x, from, y);
    if (beyond == 0) return;
    UNROLL for (int t = 0; t < T; t++) cv_store(first + 64 * t, y[t]);
    __asm__ volatile("" : "+r"(kept) : : "memory");
    sum_crossed(all, each, T, step, p + 64 * each, all ? x : x + 4 * step * each, from + 4 * step, y);
    UNROLL for (int t = 0; t < T; t++) y[t] = join_crossed(beyond, cv_load(kept + 64 * t), y[t]);
}

/* The sum of both rows of a token is the second one's (activations.h). */
TEMPLATE void begin_fine(int T, sums_from from, iv *y)
{
    UNROLL for (int u = 0; u < T / 2; u++) y[u] = iv_set(load_i32(from.each + 8 * u + 4));
}

/* Two numbers of 16 bits by even codes, two by odd ones. */
TEMPLATE void add_fine_dots(int T, cv c, const uint8_t *x, iv *y)
{
    const iv even = TWO(cv, _mm256_and_si256, c, TWICE(cv, _mm256_set1_epi16(255)));
    const iv odd = cv_right(c, 8);
    UNROLL for (int u = 0; u < T / 2; u++) {
        const iv a = TWICE(iv, four_of(x + 8 * u)), b = TWICE(iv, four_of(x + 8 * u + 4));
        y[u] = iv_add(y[u], iv_add(iv_products(even, a), iv_products(odd, b)));
        keep(&y[u]);
    }
}

TEMPLATE void cv_dots_opened_fine(int n, int T, int step, const uint8_t *p, const uint8_t *x,
                                  sums_from from, iv *y)
{
    begin_fine(T, from, y);
    UNROLL for (int i = 0; i < n; i++)
        add_fine_dots(T, cv_load_next(p + 64 * i), x + 4 * step * i, y);
}

#undef ONE
#undef TWO
#undef THREE
#undef SHIFT
#undef WIDER
#undef AT

#endif
