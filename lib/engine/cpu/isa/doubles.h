/* doubles.h - private to isa/: eight f64 lanes beside simd.h's sixteen f32, and masks of both.
 *
 *   vd  8 doubles    vl  8 int64    vm  a mask of 16 lanes    md  a mask of 8
 *
 * vd_low and vd_high are the halves of a vf, vf_join rounds two back to one. All but vd_fma
 * (rounded once where the processor has it, twice in plain C) is alike on every instruction set.
 * Comparisons with a NaN are false; vf_select(m, a, b) is a where m is set, else b.
 */
#ifndef ZT_CPU_DOUBLES_H
#define ZT_CPU_DOUBLES_H

#include "lib/engine/cpu/isa/simd.h"

enum { WIDE = LANES / 2 };

#if defined(ZT_ISA_avx512)
/* ---- avx512 ---------------------------------------------------------------------------------- */

typedef __m512d vd;
typedef __m512i vl;
typedef __mmask16 vm;
typedef __mmask8 md;

INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
INLINE vf vf_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
INLINE unsigned vm_bits(vm m) { return m; }
INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
INLINE vf vf_floor(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
INLINE vf vf_ceil(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
INLINE vf vf_rint(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE vd vd_set(double x) { return _mm512_set1_pd(x); }
INLINE vd vd_low(vf a) { return _mm512_cvtps_pd(low_half(a)); }
INLINE vd vd_high(vf a) { return _mm512_cvtps_pd(high_half(a)); }
INLINE vf vf_join(vd low, vd high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high),
                              1);
}
INLINE vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
INLINE vd vd_sub(vd a, vd b) { return _mm512_sub_pd(a, b); }
INLINE vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
INLINE vd vd_div(vd a, vd b) { return _mm512_div_pd(a, b); }
INLINE vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
INLINE vd vd_sqrt(vd a) { return _mm512_sqrt_pd(a); }
INLINE vd vd_max(vd a, vd b) { return _mm512_max_pd(a, b); } /* as vf_max: with a NaN, b */
INLINE vd vd_min(vd a, vd b) { return _mm512_min_pd(a, b); }
INLINE md vd_lt(vd a, vd b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
INLINE vd vd_select(md m, vd a, vd b) { return _mm512_mask_blend_pd(m, b, a); }
INLINE vl vl_set(int64_t x) { return _mm512_set1_epi64(x); }
INLINE vl vl_add(vl a, vl b) { return _mm512_add_epi64(a, b); }
INLINE vl vl_sub(vl a, vl b) { return _mm512_sub_epi64(a, b); }
INLINE vl vl_and(vl a, vl b) { return _mm512_and_si512(a, b); }
INLINE vl vl_or(vl a, vl b) { return _mm512_or_si512(a, b); }
INLINE vl vl_xor(vl a, vl b) { return _mm512_xor_si512(a, b); }
INLINE vl vl_left(vl a, int n) { return _mm512_slli_epi64(a, (unsigned)n); }
INLINE vl vl_right(vl a, int n) { return _mm512_srli_epi64(a, (unsigned)n); }
INLINE vl vl_of_bits(vd a) { return _mm512_castpd_si512(a); }
INLINE vd vd_of_bits(vl a) { return _mm512_castsi512_pd(a); }
/* a where the sign of c is set, else b. */
INLINE vd vd_choose(vl c, vd a, vd b)
{
    return _mm512_mask_blend_pd(_mm512_movepi64_mask(c), b, a);
}

#elif defined(ZT_ISA_avx2)
/* ---- avx2 ------------------------------------------------------------------------------------ */

typedef struct vd {
    __m256d lo, hi;
} vd;
typedef struct vl {
    __m256i lo, hi;
} vl;
typedef vf vm;
typedef vd md;

#define COMPARE8(a, b, how)                                                                        \
    (vf) { _mm256_cmp_ps((a).lo, (b).lo, how), _mm256_cmp_ps((a).hi, (b).hi, how) }
#define ROUND8(a, how)                                                                             \
    (vf) { _mm256_round_ps((a).lo, how), _mm256_round_ps((a).hi, how) }
INLINE vm vf_lt(vf a, vf b) { return COMPARE8(a, b, _CMP_LT_OQ); }
INLINE vm vf_eq(vf a, vf b) { return COMPARE8(a, b, _CMP_EQ_OQ); }
INLINE vf vf_select(vm m, vf a, vf b) { return vf_choose(m, a, b); }
INLINE unsigned vm_bits(vm m)
{
    return (unsigned)_mm256_movemask_ps(m.lo) | (unsigned)_mm256_movemask_ps(m.hi) << 8;
}
INLINE vf vf_sqrt(vf a) { return BOTH1(vf, _mm256_sqrt_ps, a); }
INLINE vf vf_floor(vf a) { return ROUND8(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE vf vf_ceil(vf a) { return ROUND8(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
INLINE vf vf_rint(vf a) { return ROUND8(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

INLINE vd vd_set(double x) { return (vd){_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
INLINE vd widened(__m256 a)
{
    return (vd){_mm256_cvtps_pd(_mm256_castps256_ps128(a)),
                _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))};
}
INLINE __m256 rounded(vd a)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a.lo)),
                                _mm256_cvtpd_ps(a.hi), 1);
}
INLINE vd vd_low(vf a) { return widened(a.lo); }
INLINE vd vd_high(vf a) { return widened(a.hi); }
INLINE vf vf_join(vd low, vd high) { return (vf){rounded(low), rounded(high)}; }
INLINE vd vd_add(vd a, vd b) { return BOTH2(vd, _mm256_add_pd, a, b); }
INLINE vd vd_sub(vd a, vd b) { return BOTH2(vd, _mm256_sub_pd, a, b); }
INLINE vd vd_mul(vd a, vd b) { return BOTH2(vd, _mm256_mul_pd, a, b); }
INLINE vd vd_div(vd a, vd b) { return BOTH2(vd, _mm256_div_pd, a, b); }
INLINE vd vd_fma(vd a, vd b, vd c)
{
    return (vd){_mm256_fmadd_pd(a.lo, b.lo, c.lo), _mm256_fmadd_pd(a.hi, b.hi, c.hi)};
}
INLINE vd vd_sqrt(vd a) { return BOTH1(vd, _mm256_sqrt_pd, a); }
INLINE vd vd_max(vd a, vd b) { return BOTH2(vd, _mm256_max_pd, a, b); }
INLINE vd vd_min(vd a, vd b) { return BOTH2(vd, _mm256_min_pd, a, b); }
INLINE md vd_lt(vd a, vd b)
{
    return (vd){_mm256_cmp_pd(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_pd(a.hi, b.hi, _CMP_LT_OQ)};
}
INLINE vd vd_select(md m, vd a, vd b)
{
    return (vd){_mm256_blendv_pd(b.lo, a.lo, m.lo), _mm256_blendv_pd(b.hi, a.hi, m.hi)};
}
INLINE vl vl_set(int64_t x) { return (vl){_mm256_set1_epi64x(x), _mm256_set1_epi64x(x)}; }
INLINE vl vl_add(vl a, vl b) { return BOTH2(vl, _mm256_add_epi64, a, b); }
INLINE vl vl_sub(vl a, vl b) { return BOTH2(vl, _mm256_sub_epi64, a, b); }
INLINE vl vl_and(vl a, vl b) { return BOTH2(vl, _mm256_and_si256, a, b); }
INLINE vl vl_or(vl a, vl b) { return BOTH2(vl, _mm256_or_si256, a, b); }
INLINE vl vl_xor(vl a, vl b) { return BOTH2(vl, _mm256_xor_si256, a, b); }
INLINE vl vl_left(vl a, int n)
{
    return (vl){_mm256_slli_epi64(a.lo, n), _mm256_slli_epi64(a.hi, n)};
}
INLINE vl vl_right(vl a, int n)
{
    return (vl){_mm256_srli_epi64(a.lo, n), _mm256_srli_epi64(a.hi, n)};
}
INLINE vl vl_of_bits(vd a) { return BOTH1(vl, _mm256_castpd_si256, a); }
INLINE vd vd_of_bits(vl a) { return BOTH1(vd, _mm256_castsi256_pd, a); }
INLINE vd vd_choose(vl c, vd a, vd b) { return vd_select(vd_of_bits(c), a, b); }

#else
/* ---- plain C --------------------------------------------------------------------------------- */

typedef struct vd {
    double v[WIDE];
} vd;
typedef struct vl {
    int64_t v[WIDE];
} vl;
typedef struct vm {
    bool v[LANES];
} vm;
typedef struct md {
    bool v[WIDE];
} md;

#define WIDEWISE(type, name, params, ...)                                                          \
    INLINE type name params                                                                        \
    {                                                                                              \
        type y;                                                                                    \
        for (int i = 0; i < WIDE; i++) y.v[i] = __VA_ARGS__;                                       \
        return y;                                                                                  \
    }
LANEWISE(vm, vf_lt, (vf a, vf b), a.v[i] < b.v[i])
LANEWISE(vm, vf_eq, (vf a, vf b), a.v[i] == b.v[i])
LANEWISE(vf, vf_select, (vm m, vf a, vf b), m.v[i] ? a.v[i] : b.v[i])
LANEWISE(vf, vf_sqrt, (vf a), sqrtf(a.v[i]))
LANEWISE(vf, vf_floor, (vf a), floorf(a.v[i]))
LANEWISE(vf, vf_ceil, (vf a), ceilf(a.v[i]))
LANEWISE(vf, vf_rint, (vf a), rintf(a.v[i]))
LANEWISE(vf, vf_join, (vd low, vd high), (float)(i < WIDE ? low.v[i] : high.v[i - WIDE]))
INLINE unsigned vm_bits(vm m)
{
    unsigned bits = 0;
    EACH bits |= (unsigned)m.v[i] << i;
    return bits;
}
WIDEWISE(vd, vd_set, (double x), x)
WIDEWISE(vd, vd_low, (vf a), a.v[i])
WIDEWISE(vd, vd_high, (vf a), a.v[i + WIDE])
WIDEWISE(vd, vd_add, (vd a, vd b), a.v[i] + b.v[i])
WIDEWISE(vd, vd_sub, (vd a, vd b), a.v[i] - b.v[i])
WIDEWISE(vd, vd_mul, (vd a, vd b), a.v[i] * b.v[i])
WIDEWISE(vd, vd_div, (vd a, vd b), a.v[i] / b.v[i])
WIDEWISE(vd, vd_fma, (vd a, vd b, vd c), a.v[i] * b.v[i] + c.v[i])
WIDEWISE(vd, vd_sqrt, (vd a), sqrt(a.v[i]))
WIDEWISE(vd, vd_max, (vd a, vd b), a.v[i] > b.v[i] ? a.v[i] : b.v[i])
WIDEWISE(vd, vd_min, (vd a, vd b), a.v[i] < b.v[i] ? a.v[i] : b.v[i])
WIDEWISE(md, vd_lt, (vd a, vd b), a.v[i] < b.v[i])
WIDEWISE(vd, vd_select, (md m, vd a, vd b), m.v[i] ? a.v[i] : b.v[i])
WIDEWISE(vl, vl_set, (int64_t x), x)
WIDEWISE(vl, vl_add, (vl a, vl b), (int64_t)((uint64_t)a.v[i] + (uint64_t)b.v[i]))
WIDEWISE(vl, vl_sub, (vl a, vl b), (int64_t)((uint64_t)a.v[i] - (uint64_t)b.v[i]))
WIDEWISE(vl, vl_and, (vl a, vl b), a.v[i] & b.v[i])
WIDEWISE(vl, vl_or, (vl a, vl b), a.v[i] | b.v[i])
WIDEWISE(vl, vl_xor, (vl a, vl b), a.v[i] ^ b.v[i])
WIDEWISE(vl, vl_left, (vl a, int n), (int64_t)((uint64_t)a.v[i] << n))
WIDEWISE(vl, vl_right, (vl a, int n), (int64_t)((uint64_t)a.v[i] >> n))
WIDEWISE(vd, vd_choose, (vl c, vd a, vd b), c.v[i] < 0 ? a.v[i] : b.v[i])
INLINE vl vl_of_bits(vd a)
{
    vl y;
    memcpy(&y, &a, sizeof y);
    return y;
}
INLINE vd vd_of_bits(vl a)
{
    vd y;
    memcpy(&y, &a, sizeof y);
    return y;
}
#endif

/* ---- on every instruction set ---------------------------------------------------------------- */

#define SIGN64 ((int64_t)((uint64_t)1 << 63))

INLINE vd vd_abs(vd a) { return vd_of_bits(vl_and(vl_of_bits(a), vl_set(INT64_MAX))); }
INLINE vd vd_plus(vd a, double b) { return vd_add(a, vd_set(b)); }
INLINE vd vd_times(vd a, double b) { return vd_mul(a, vd_set(b)); }

/* |a| with the sign of b. */
INLINE vf vf_copysign(vf a, vf b)
{
    vi most = vi_and(vi_of_bits(a), vi_set(INT32_MAX));
    return vf_of_bits(vi_or(most, vi_and(vi_of_bits(b), vi_set(INT32_MIN))));
}

/* c[0] x^(n-1) + ... + c[n-1] */
INLINE vd vd_poly(vd x, const double *c, int n)
{
    vd y = vd_set(c[0]);
    UNROLL for (int i = 1; i < n; i++) y = vd_fma(y, x, vd_set(c[i]));
    return y;
}

#endif
