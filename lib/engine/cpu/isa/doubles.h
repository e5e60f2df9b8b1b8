/* doubles.h - private to isa/: WIDE f64 lanes beside simd.h's sixteen f32, and masks of both.
 *
 *   vd  WIDE doubles    vl  WIDE int64    vm  a mask of 16 lanes    md  a mask of WIDE
 *
 * A vf is PARTS such: vd_part is the k-th of them, vf_join rounds them all back to one. All is alike on
 * every instruction set; vd_fma rounds once.
 * vl_look reads the eight bytes from each offset; vl_lefts shifts each lane by its own number.
 * Comparisons with a NaN are false; vf_select(m, a, b) is a where m is set, else b.
 */
#ifndef ZT_CPU_DOUBLES_H
#define ZT_CPU_DOUBLES_H

#include "lib/engine/cpu/isa/simd.h"

#if defined(ZT_ISA_scalar)
enum { WIDE = 2, PARTS = LANES / WIDE };
#else
enum { WIDE = 8, PARTS = LANES / WIDE };
#endif

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
INLINE vf vf_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE vf vf_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
INLINE vf vf_rint(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

INLINE vd vd_set(double x) { return _mm512_set1_pd(x); }
INLINE vd vd_part(vf a, int k) { return _mm512_cvtps_pd(k ? high_half(a) : low_half(a)); }
INLINE vf vf_join(const vd *part)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(part[0])), _mm512_cvtpd_ps(part[1]), 1);
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
INLINE vl vl_lefts(vl a, vl n) { return _mm512_sllv_epi64(a, n); }
INLINE vl vl_look(const uint8_t *table, vl at) { return _mm512_i64gather_epi64(at, table, 1); }
INLINE vl vl_of_bits(vd a) { return _mm512_castpd_si512(a); }
INLINE vd vd_of_bits(vl a) { return _mm512_castsi512_pd(a); }
/* a where the sign of c is set, else b. */
INLINE vd vd_choose(vl c, vd a, vd b) { return _mm512_mask_blend_pd(_mm512_movepi64_mask(c), b, a); }

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

#define COMPARE8(a, b, how)                                                                                                      \
    (vf) { _mm256_cmp_ps((a).lo, (b).lo, how), _mm256_cmp_ps((a).hi, (b).hi, how) }
#define ROUND8(a, how)                                                                                                           \
    (vf) { _mm256_round_ps((a).lo, how), _mm256_round_ps((a).hi, how) }
INLINE vm vf_lt(vf a, vf b) { return COMPARE8(a, b, _CMP_LT_OQ); }
INLINE vm vf_eq(vf a, vf b) { return COMPARE8(a, b, _CMP_EQ_OQ); }
INLINE vf vf_select(vm m, vf a, vf b) { return vf_choose(m, a, b); }
INLINE unsigned vm_bits(vm m) { return (unsigned)_mm256_movemask_ps(m.lo) | (unsigned)_mm256_movemask_ps(m.hi) << 8; }
INLINE vf vf_sqrt(vf a) { return BOTH1(vf, _mm256_sqrt_ps, a); }
INLINE vf vf_floor(vf a) { return ROUND8(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE vf vf_ceil(vf a) { return ROUND8(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
INLINE vf vf_rint(vf a) { return ROUND8(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

INLINE vd vd_set(double x) { return (vd){_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
INLINE vd widened(__m256 a)
{
    return (vd){_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))};
}
INLINE __m256 rounded(vd a)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a.lo)), _mm256_cvtpd_ps(a.hi), 1);
}
INLINE vd vd_part(vf a, int k) { return widened(k ? a.hi : a.lo); }
INLINE vf vf_join(const vd *part) { return (vf){rounded(part[0]), rounded(part[1])}; }
INLINE vd vd_add(vd a, vd b) { return BOTH2(vd, _mm256_add_pd, a, b); }
INLINE vd vd_sub(vd a, vd b) { return BOTH2(vd, _mm256_sub_pd, a, b); }
INLINE vd vd_mul(vd a, vd b) { return BOTH2(vd, _mm256_mul_pd, a, b); }
INLINE vd vd_div(vd a, vd b) { return BOTH2(vd, _mm256_div_pd, a, b); }
INLINE vd vd_fma(vd a, vd b, vd c) { return (vd){_mm256_fmadd_pd(a.lo, b.lo, c.lo), _mm256_fmadd_pd(a.hi, b.hi, c.hi)}; }
INLINE vd vd_sqrt(vd a) { return BOTH1(vd, _mm256_sqrt_pd, a); }
INLINE vd vd_max(vd a, vd b) { return BOTH2(vd, _mm256_max_pd, a, b); }
INLINE vd vd_min(vd a, vd b) { return BOTH2(vd, _mm256_min_pd, a, b); }
INLINE md vd_lt(vd a, vd b) { return (vd){_mm256_cmp_pd(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_pd(a.hi, b.hi, _CMP_LT_OQ)}; }
INLINE vd vd_select(md m, vd a, vd b) { return (vd){_mm256_blendv_pd(b.lo, a.lo, m.lo), _mm256_blendv_pd(b.hi, a.hi, m.hi)}; }
INLINE vl vl_set(int64_t x) { return (vl){_mm256_set1_epi64x(x), _mm256_set1_epi64x(x)}; }
INLINE vl vl_add(vl a, vl b) { return BOTH2(vl, _mm256_add_epi64, a, b); }
INLINE vl vl_sub(vl a, vl b) { return BOTH2(vl, _mm256_sub_epi64, a, b); }
INLINE vl vl_and(vl a, vl b) { return BOTH2(vl, _mm256_and_si256, a, b); }
INLINE vl vl_or(vl a, vl b) { return BOTH2(vl, _mm256_or_si256, a, b); }
INLINE vl vl_xor(vl a, vl b) { return BOTH2(vl, _mm256_xor_si256, a, b); }
INLINE vl vl_left(vl a, int n) { return (vl){_mm256_slli_epi64(a.lo, n), _mm256_slli_epi64(a.hi, n)}; }
INLINE vl vl_right(vl a, int n) { return (vl){_mm256_srli_epi64(a.lo, n), _mm256_srli_epi64(a.hi, n)}; }
INLINE vl vl_lefts(vl a, vl n) { return BOTH2(vl, _mm256_sllv_epi64, a, n); }
INLINE vl vl_look(const uint8_t *table, vl at)
{
    const long long *p = (const long long *)table;
    return (vl){_mm256_i64gather_epi64(p, at.lo, 1), _mm256_i64gather_epi64(p, at.hi, 1)};
}
INLINE vl vl_of_bits(vd a) { return BOTH1(vl, _mm256_castpd_si256, a); }
INLINE vd vd_of_bits(vl a) { return BOTH1(vd, _mm256_castsi256_pd, a); }
INLINE vd vd_choose(vl c, vd a, vd b) { return vd_select(vd_of_bits(c), a, b); }

#elif defined(ZT_ISA_neon)
#include "lib/engine/cpu/isa/doubles_neon.h"
#else
/* ---- plain C --------------------------------------------------------------------------------- */

/* Two lanes, which every processor of today has a register for: eight would live in memory. */
typedef double doubles __attribute__((vector_size(16)));
typedef float floats __attribute__((vector_size(8)));
typedef uint64_t longs __attribute__((vector_size(16)));
typedef struct vd {
    doubles v;
} vd;
typedef struct vl {
    longs v;
} vl;
typedef struct vm {
    int32_t v[LANES]; /* 0 or -1 */
} vm;
typedef vl md;

LANEWISE(vm, vf_lt, (vf a, vf b), -(a.v[i] < b.v[i]))
LANEWISE(vm, vf_eq, (vf a, vf b), -(a.v[i] == b.v[i]))
LANEWISE(vf, vf_sqrt, (vf a), sqrtf(a.v[i]))
LANEWISE(vf, vf_floor, (vf a), floorf(a.v[i]))
LANEWISE(vf, vf_ceil, (vf a), ceilf(a.v[i]))
LANEWISE(vf, vf_rint, (vf a), rintf(a.v[i]))
INLINE vf vf_select(vm m, vf a, vf b)
{
    vi x = vi_of_bits(a), y = vi_of_bits(b);
    EACH x.v[i] = (x.v[i] & m.v[i]) | (y.v[i] & ~m.v[i]);
    return vf_of_bits(x);
}
INLINE unsigned vm_bits(vm m)
{
    unsigned bits = 0;
    EACH bits |= ((unsigned)m.v[i] & 1) << i;
    return bits;
}

#define WIDEWISE(type, name, params, ...)                                                                                        \
    INLINE type name params { return (type){__VA_ARGS__}; }
WIDEWISE(vd, vd_set, (double x), {x, x})
WIDEWISE(vd, vd_add, (vd a, vd b), a.v + b.v)
WIDEWISE(vd, vd_sub, (vd a, vd b), a.v - b.v)
WIDEWISE(vd, vd_mul, (vd a, vd b), a.v *b.v)
WIDEWISE(vd, vd_div, (vd a, vd b), a.v / b.v)
WIDEWISE(vd, vd_fma, (vd a, vd b, vd c), {fused_f64(a.v[0], b.v[0], c.v[0]), fused_f64(a.v[1], b.v[1], c.v[1])})
WIDEWISE(vd, vd_sqrt, (vd a), {sqrt(a.v[0]), sqrt(a.v[1])})
WIDEWISE(md, vd_lt, (vd a, vd b), (longs)(a.v < b.v))
WIDEWISE(vl, vl_set, (int64_t x), {(uint64_t)x, (uint64_t)x})
WIDEWISE(vl, vl_add, (vl a, vl b), a.v + b.v)
WIDEWISE(vl, vl_sub, (vl a, vl b), a.v - b.v)
WIDEWISE(vl, vl_and, (vl a, vl b), a.v &b.v)
WIDEWISE(vl, vl_or, (vl a, vl b), a.v | b.v)
WIDEWISE(vl, vl_xor, (vl a, vl b), a.v ^ b.v)
WIDEWISE(vl, vl_left, (vl a, int n), a.v << n)
WIDEWISE(vl, vl_right, (vl a, int n), a.v >> n)
WIDEWISE(vl, vl_lefts, (vl a, vl n), a.v << n.v)
INLINE vl vl_look(const uint8_t *table, vl at)
{
    vl y;
    for (int i = 0; i < WIDE; i++) {
        uint64_t word;
        memcpy(&word, table + at.v[i], sizeof word);
        y.v[i] = word;
    }
    return y;
}
WIDEWISE(vl, vl_of_bits, (vd a), (longs)a.v)
WIDEWISE(vd, vd_of_bits, (vl a), (doubles)a.v)
WIDEWISE(vd, vd_select, (md m, vd a, vd b), (doubles)((m.v & (longs)a.v) | (~m.v & (longs)b.v)))
WIDEWISE(vd, vd_max, (vd a, vd b), vd_select(vd_lt(b, a), a, b).v)
WIDEWISE(vd, vd_min, (vd a, vd b), vd_select(vd_lt(a, b), a, b).v)
WIDEWISE(vd, vd_choose, (vl c, vd a, vd b), vd_select((md){0 - (c.v >> 63)}, a, b).v)
INLINE vd vd_part(vf a, int k)
{
    floats x;
    memcpy(&x, a.v + WIDE * k, sizeof x);
    return (vd){__builtin_convertvector(x, doubles)};
}
INLINE vf vf_join(const vd *part)
{
    vf y;
    for (int k = 0; k < PARTS; k++) {
        floats x = __builtin_convertvector(part[k].v, floats);
        memcpy(y.v + WIDE * k, &x, sizeof x);
    }
    return y;
}
#endif

/* ---- on every instruction set ---------------------------------------------------------------- */

#define SIGN64 ((int64_t)((uint64_t)1 << 63))

INLINE vd vd_abs(vd a) { return vd_of_bits(vl_and(vl_of_bits(a), vl_set(INT64_MAX))); }
INLINE vd vd_plus(vd a, double b) { return vd_add(a, vd_set(b)); }
INLINE vd vd_times(vd a, double b) { return vd_mul(a, vd_set(b)); }

/* A number from 0 to 2^52 as a double. */
INLINE vd vd_of_whole(vl a) { return vd_plus(vd_of_bits(vl_or(a, vl_of_bits(vd_set(0x1p52)))), -0x1p52); }

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
    UNROLL_PAIRS_FOR (int i = 1; i < n; i++) y = vd_fma(y, x, vd_set(c[i]));
    return y;
}

#endif
