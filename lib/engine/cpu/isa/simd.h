/* simd.h - private to isa/: sixteen lanes, the same on each instruction set.
 *
 *   vf  16 floats          vi  16 int32 (vi_of_u16, vi_to_u16: from, and the low half to, 16 bits)
 *
 * One register with AVX-512, two with AVX2, four with NEON, an array in plain C. All is exact or rounded once to
 * nearest even, so that the instruction sets agree to the bit; vf_fma rounds a * b + c once (in plain C
 * fused.h). Pointers need no alignment.
 *
 * vf_max(a, b) is a > b ? a : b in each lane, vf_min(a, b) a < b ? a : b: with a NaN in either, b.
 * vf_first(n, a, b) has a's lanes below n, then b's, for any n; load_n and store_n touch no others.
 * vf_stream stores past the caches, to an address that 64 divides (stream.h).
 * vf_of_f16, vf_of_bf16 read 16 of them, vf_to_f16, vf_to_bf16 write them, to nearest even.
 * vf_choose(c, a, b) is a where c has its sign set, else b; vf_swap_pairs has lanes 1 0 3 2 5 4 ..., and vf_swap(apart, a) lane
 * i ^ apart in lane i, apart 1, 2, 4 or 8. vi_of_i8 and vi_of_u8 read 16 bytes.
 * Sums and maxima over lanes pair those 8 apart, then 4, 2 and 1: one tree everywhere. vf_sums and
 * vf_tops make up to four of them at once: lane i has that of r[i], lanes from n on are 0.
 * vf_any_below_0: has any lane less than 0?
 */
#ifndef ZT_CPU_SIMD_H
#define ZT_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lib/engine/cpu/isa/fused.h"
#include "lib/tensor/tensor.h"

#define LANES 16
/* Plain C leaves it to the compiler what to inline. With gcc's sanitizers that is nothing: it would
 * take minutes to follow sixteen floats in a struct through every curve. */
#if defined(ZT_ISA_scalar) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define INLINE static __attribute__((noinline, unused))
#define UNROLL_FOR for
#define UNROLL_PAIRS_FOR for
#elif defined(ZT_ISA_scalar)
#define INLINE static inline __attribute__((unused))
#define UNROLL_FOR for
#else
#define INLINE     static inline __attribute__((always_inline, unused))
#define UNROLL_FOR UNROLL_PAIRS_FOR
#endif
#if defined(UNROLL_PAIRS_FOR)
#elif defined(__clang__)
#define UNROLL_PAIRS_FOR _Pragma("clang loop unroll(full)") for
#else
#define UNROLL_PAIRS_FOR _Pragma("GCC unroll 24") for
#endif

#if defined(ZT_ISA_avx512)
/* ---- avx512 ---------------------------------------------------------------------------------- */

#include <immintrin.h>
typedef __m512 vf;
typedef __m512i vi;

INLINE __mmask16 below(int n) { return (__mmask16)(n >= LANES ? 0xffff : n <= 0 ? 0 : (1 << n) - 1); }

INLINE vf vf_set(float x) { return _mm512_set1_ps(x); }
INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(below(n), p); }
INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
INLINE void vf_store_n(float *p, int n, vf a) { _mm512_mask_storeu_ps(p, below(n), a); }
INLINE void vf_stream(float *p, vf a) { _mm512_stream_ps(p, a); }
INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf vf_first(int n, vf a, vf b) { return _mm512_mask_blend_ps(below(n), b, a); }
INLINE vf vf_choose(vf c, vf a, vf b) { return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(c)), b, a); }
INLINE vf vf_swap_pairs(vf a) { return _mm512_permute_ps(a, 0xb1); }
INLINE vf vf_swap(int apart, vf a)
{
    if (apart == 1) return vf_swap_pairs(a);
    if (apart == 2) return _mm512_permute_ps(a, 0x4e);
    return apart == 4 ? _mm512_shuffle_f32x4(a, a, 0xb1) : _mm512_shuffle_f32x4(a, a, 0x4e);
}

INLINE vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
INLINE vi vi_left(vi a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
INLINE vi vi_right(vi a, int n) { return _mm512_srai_epi32(a, (unsigned)n); } /* keeps the sign */
INLINE vi vi_of_bits(vf a) { return _mm512_castps_si512(a); }
INLINE vf vf_of_bits(vi a) { return _mm512_castsi512_ps(a); }

INLINE vf vf_of_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
INLINE void vf_to_f16(void *p, vf a) { _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }

INLINE vi vi_of_i8(const void *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(p)); }
INLINE vi vi_of_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(p)); }
INLINE vf vf_of_vi(vi a) { return _mm512_cvtepi32_ps(a); }
INLINE vi vi_of_u16(const void *p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256(p)); }
INLINE void vi_to_u16(void *p, vi a) { _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(a)); }

INLINE __m256 low_half(vf a) { return _mm512_castps512_ps256(a); }
INLINE __m256 high_half(vf a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }

/* r[i] lane j becomes r[j] lane i: pairs of rows, fours of rows, then quarters of registers. */
INLINE void vf_transpose(vf r[LANES])
{
    vf t[LANES];
    UNROLL_FOR (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) {
        int from = i / 2 * 4 + i % 2, to = i * 2;
        r[to] = _mm512_shuffle_ps(t[from], t[from + 2], 0x44);
        r[to + 1] = _mm512_shuffle_ps(t[from], t[from + 2], 0xee);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) {
        int from = i / 4 * 8 + i % 4, to = i / 4 * 8 + i % 4;
        t[to] = _mm512_shuffle_f32x4(r[from], r[from + 4], 0x88);
        t[to + 4] = _mm512_shuffle_f32x4(r[from], r[from + 4], 0xdd);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}

#elif defined(ZT_ISA_avx2)
/* ---- avx2 ------------------------------------------------------------------------------------ */

#include <immintrin.h>
typedef struct vf {
    __m256 lo, hi;
} vf;
typedef struct vi {
    __m256i lo, hi;
} vi;
#define BOTH1(type, f, a)    ((type){f((a).lo), f((a).hi)})
#define BOTH2(type, f, a, b) ((type){f((a).lo, (b).lo), f((a).hi, (b).hi)})

INLINE __m256i below(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

INLINE vf vf_set(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE vf vf_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE vf vf_load_n(const float *p, int n)
{
    return (vf){_mm256_maskload_ps(p, below(n)), n > 8 ? _mm256_maskload_ps(p + 8, below(n - 8)) : _mm256_setzero_ps()};
}
INLINE void vf_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
/* Without a mask, for which AMD's processors take many cycles. */
INLINE void eight_store_n(float *p, int n, __m256 a)
{
    __m128 v = _mm256_castps256_ps128(a);
    if (n >= 8) _mm256_storeu_ps(p, a);
    if (n >= 8 || n <= 0) return;
    if (n & 4) {
        _mm_storeu_ps(p, v);
        p += 4, v = _mm256_extractf128_ps(a, 1);
    }
    if (n & 2) {
        _mm_storel_pi((void *)p, v);
        p += 2, v = _mm_movehl_ps(v, v);
    }
    if (n & 1) _mm_store_ss(p, v);
}
INLINE void vf_store_n(float *p, int n, vf a)
{
    eight_store_n(p, n, a.lo);
    if (n > 8) eight_store_n(p + 8, n - 8, a.hi);
}
INLINE void vf_stream(float *p, vf a)
{
    _mm256_stream_ps(p, a.lo);
    _mm256_stream_ps(p + 8, a.hi);
}
INLINE vf vf_add(vf a, vf b) { return BOTH2(vf, _mm256_add_ps, a, b); }
INLINE vf vf_sub(vf a, vf b) { return BOTH2(vf, _mm256_sub_ps, a, b); }
INLINE vf vf_mul(vf a, vf b) { return BOTH2(vf, _mm256_mul_ps, a, b); }
INLINE vf vf_div(vf a, vf b) { return BOTH2(vf, _mm256_div_ps, a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return (vf){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
INLINE vf vf_max(vf a, vf b) { return BOTH2(vf, _mm256_max_ps, a, b); }
INLINE vf vf_min(vf a, vf b) { return BOTH2(vf, _mm256_min_ps, a, b); }
INLINE vf vf_first(int n, vf a, vf b)
{
    return (vf){_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(below(n))),
                _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(below(n - 8)))};
}
INLINE vf vf_choose(vf c, vf a, vf b) { return (vf){_mm256_blendv_ps(b.lo, a.lo, c.lo), _mm256_blendv_ps(b.hi, a.hi, c.hi)}; }
INLINE vf vf_swap_pairs(vf a) { return (vf){_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)}; }
INLINE vf vf_swap(int apart, vf a)
{
    if (apart == 1) return vf_swap_pairs(a);
    if (apart == 2) return (vf){_mm256_permute_ps(a.lo, 0x4e), _mm256_permute_ps(a.hi, 0x4e)};
    if (apart == 4) return (vf){_mm256_permute2f128_ps(a.lo, a.lo, 1), _mm256_permute2f128_ps(a.hi, a.hi, 1)};
    return (vf){a.hi, a.lo};
}

INLINE vi vi_set(int32_t x) { return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INLINE vi vi_load(const int32_t *p)
{
    const __m256i *q = (const __m256i *)p;
    return (vi){_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
INLINE vi vi_add(vi a, vi b) { return BOTH2(vi, _mm256_add_epi32, a, b); }
INLINE vi vi_sub(vi a, vi b) { return BOTH2(vi, _mm256_sub_epi32, a, b); }
INLINE vi vi_and(vi a, vi b) { return BOTH2(vi, _mm256_and_si256, a, b); }
INLINE vi vi_or(vi a, vi b) { return BOTH2(vi, _mm256_or_si256, a, b); }
INLINE vi vi_left(vi a, int n) { return (vi){_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)}; }
INLINE vi vi_right(vi a, int n) { return (vi){_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)}; }
INLINE vi vi_of_bits(vf a) { return BOTH1(vi, _mm256_castps_si256, a); }
INLINE vf vf_of_bits(vi a) { return BOTH1(vf, _mm256_castsi256_ps, a); }

INLINE vf vf_of_f16(const void *p)
{
    const __m128i *h = p;
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
INLINE void vf_to_f16(void *p, vf a)
{
    __m128i *h = p;
    _mm_storeu_si128(h, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}

INLINE vi vi_of_i8(const void *p)
{
    const __m128i b = _mm_loadu_si128(p);
    return (vi){_mm256_cvtepi8_epi32(b), _mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))};
}
INLINE vi vi_of_u8(const void *p)
{
    const __m128i b = _mm_loadu_si128(p);
    return (vi){_mm256_cvtepu8_epi32(b), _mm256_cvtepu8_epi32(_mm_srli_si128(b, 8))};
}
INLINE vf vf_of_vi(vi a) { return BOTH1(vf, _mm256_cvtepi32_ps, a); }
INLINE vi vi_of_u16(const void *p)
{
    const __m128i *h = p;
    return (vi){_mm256_cvtepu16_epi32(_mm_loadu_si128(h)), _mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1))};
}
INLINE void vi_to_u16(void *p, vi a)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    __m256i both = _mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low));
    _mm256_storeu_si256(p, _mm256_permute4x64_epi64(both, 0xd8));
}

INLINE __m256 low_half(vf a) { return a.lo; }
INLINE __m256 high_half(vf a) { return a.hi; }

/* Eight rows of eight: pairs of rows, fours of rows, then halves of registers. */
INLINE void transpose8(__m256 r[8])
{
    __m256 t[8];
    UNROLL_FOR (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 4; i++) {
        int from = i / 2 * 4 + i % 2, to = i * 2;
        r[to] = _mm256_shuffle_ps(t[from], t[from + 2], 0x44);
        r[to + 1] = _mm256_shuffle_ps(t[from], t[from + 2], 0xee);
    }
    UNROLL_FOR (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    UNROLL_FOR (int i = 0; i < 8; i++) r[i] = t[i];
}

/* r[i] lane j becomes r[j] lane i. */
INLINE void vf_transpose(vf r[LANES])
{
    __m256 a[4][8]; /* quarters: above left, above right, below left, below right */
    UNROLL_FOR (int i = 0; i < 8; i++) {
        a[0][i] = r[i].lo;
        a[1][i] = r[i].hi;
        a[2][i] = r[i + 8].lo;
        a[3][i] = r[i + 8].hi;
    }
    UNROLL_FOR (int k = 0; k < 4; k++) transpose8(a[k]);
    UNROLL_FOR (int i = 0; i < 8; i++) {
        r[i] = (vf){a[0][i], a[2][i]};
        r[i + 8] = (vf){a[1][i], a[3][i]};
    }
}

#elif defined(ZT_ISA_neon)
#include "lib/engine/cpu/isa/simd_neon.h"
#else
/* ---- plain C --------------------------------------------------------------------------------- */

typedef struct vf {
    float v[LANES];
} vf;
typedef struct vi {
    int32_t v[LANES];
} vi;
#define EACH for (int i = 0; i < LANES; i++)

INLINE vf vf_load(const float *p)
{
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
INLINE vi vi_load(const int32_t *p)
{
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}
INLINE vf vf_load_n(const float *p, int n)
{
    vf a;
    EACH a.v[i] = i < n ? p[i] : 0;
    return a;
}
INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
INLINE void vf_store_n(float *p, int n, vf a) { EACH if (i < n) p[i] = a.v[i]; }
INLINE void vf_stream(float *p, vf a) { vf_store(p, a); }

// clang-format off
#define LANEWISE(type, name, params, ...)                                                          \
    INLINE type name params                                                                        \
    {                                                                                              \
        type y;                                                                                    \
        EACH y.v[i] = __VA_ARGS__;                                                                 \
        return y;                                                                                  \
    }
// clang-format on
LANEWISE(vf, vf_set, (float x), x)
LANEWISE(vf, vf_add, (vf a, vf b), a.v[i] + b.v[i])
LANEWISE(vf, vf_sub, (vf a, vf b), a.v[i] - b.v[i])
LANEWISE(vf, vf_mul, (vf a, vf b), a.v[i] * b.v[i])
LANEWISE(vf, vf_div, (vf a, vf b), a.v[i] / b.v[i])

/* Not inlined: the compiler would take minutes over sixteen of them in every curve. */
static __attribute__((noinline, unused)) vf vf_fma(vf a, vf b, vf c)
{
    vf y;
    EACH y.v[i] = fused_f32(a.v[i], b.v[i], c.v[i]);
    return y;
}
LANEWISE(vf, vf_max, (vf a, vf b), a.v[i] > b.v[i] ? a.v[i] : b.v[i])
LANEWISE(vf, vf_min, (vf a, vf b), a.v[i] < b.v[i] ? a.v[i] : b.v[i])
LANEWISE(vf, vf_first, (int n, vf a, vf b), i < n ? a.v[i] : b.v[i])
LANEWISE(vf, vf_choose, (vf c, vf a, vf b), signbit(c.v[i]) ? a.v[i] : b.v[i])
LANEWISE(vf, vf_swap_pairs, (vf a), a.v[i ^ 1])
LANEWISE(vf, vf_swap, (int apart, vf a), a.v[i ^ apart])
LANEWISE(vi, vi_set, (int32_t x), x)
LANEWISE(vi, vi_add, (vi a, vi b), (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]))
LANEWISE(vi, vi_sub, (vi a, vi b), (int32_t)((uint32_t)a.v[i] - (uint32_t)b.v[i]))
LANEWISE(vi, vi_and, (vi a, vi b), a.v[i] & b.v[i])
LANEWISE(vi, vi_or, (vi a, vi b), a.v[i] | b.v[i])
LANEWISE(vi, vi_left, (vi a, int n), (int32_t)((uint32_t)a.v[i] << n))
LANEWISE(vi, vi_right, (vi a, int n), a.v[i] >> n)
LANEWISE(vf, vf_of_vi, (vi a), (float)a.v[i])
LANEWISE(vi, vi_of_i8, (const void *p), ((const int8_t *)p)[i])
LANEWISE(vi, vi_of_u8, (const void *p), ((const uint8_t *)p)[i])

INLINE vi vi_of_bits(vf a)
{
    vi y;
    memcpy(&y, &a, sizeof y);
    return y;
}
INLINE vf vf_of_bits(vi a)
{
    vf y;
    memcpy(&y, &a, sizeof y);
    return y;
}

INLINE vf vf_of_f16(const void *p)
{
    vf a;
    uint16_t h[LANES];
    memcpy(h, p, sizeof h);
    EACH a.v[i] = zt_f16_to_f32(h[i]);
    return a;
}
INLINE void vf_to_f16(void *p, vf a)
{
    uint16_t h[LANES];
    EACH h[i] = zt_f32_to_f16(a.v[i]);
    memcpy(p, h, sizeof h);
}
INLINE vi vi_of_u16(const void *p)
{
    vi a;
    uint16_t h[LANES];
    memcpy(h, p, sizeof h);
    EACH a.v[i] = h[i];
    return a;
}
INLINE void vi_to_u16(void *p, vi a)
{
    uint16_t h[LANES];
    EACH h[i] = (uint16_t)a.v[i];
    memcpy(p, h, sizeof h);
}

/* r[i] lane j becomes r[j] lane i. */
INLINE void vf_transpose(vf r[LANES])
{
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < i; j++) {
            float t = r[i].v[j];
            r[i].v[j] = r[j].v[i];
            r[j].v[i] = t;
        }
}

INLINE float vf_sum(vf a)
{
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) a.v[i] += a.v[i + n];
    return a.v[0];
}
INLINE float vf_top(vf a)
{
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) a.v[i] = a.v[i] > a.v[i + n] ? a.v[i] : a.v[i + n];
    return a.v[0];
}
INLINE bool vf_any_below_0(vf a)
{
    bool any = false;
    EACH any = any || a.v[i] < 0;
    return any;
}
#endif

#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
/* ---- over lanes, both kinds of registers ----------------------------------------------------- */

/* The sum of all lanes, and the largest. */
INLINE float vf_sum(vf a)
{
    __m256 b = _mm256_add_ps(low_half(a), high_half(a));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
INLINE float vf_top(vf a)
{
    __m256 b = _mm256_max_ps(low_half(a), high_half(a));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
#endif

#if defined(ZT_ISA_avx512)
INLINE bool vf_any_below_0(vf a) { return _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_LT_OQ) != 0; }

/* In lane i < n the sum, or the largest lane, of r[i], 0 in the others; n <= 4. */
// clang-format off
#define OVER_LANES(name, f)                                                                        \
    INLINE vf name(int n, const vf *r)                                                             \
    {                                                                                              \
        const vf second = r[n > 1 ? 1 : 0], third = r[n > 2 ? 2 : 0], last = r[n - 1];             \
        vf a = f(_mm512_shuffle_f32x4(r[0], second, 0x44),                                         \
                 _mm512_shuffle_f32x4(r[0], second, 0xee));                                        \
        vf b = f(_mm512_shuffle_f32x4(third, last, 0x44),                                          \
                 _mm512_shuffle_f32x4(third, last, 0xee));                                         \
        a = f(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));                 \
        a = f(a, _mm512_permute_ps(a, 0x4e));                                                      \
        a = f(a, _mm512_permute_ps(a, 0xb1));                                                      \
        const __m512i from = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);   \
        return _mm512_maskz_permutexvar_ps(below(n), from, a);                                     \
    }
// clang-format on
OVER_LANES(vf_sums, _mm512_add_ps)
OVER_LANES(vf_tops, _mm512_max_ps)
#undef OVER_LANES
#else
#if defined(ZT_ISA_avx2)
INLINE bool vf_any_below_0(vf a)
{
    const __m256 zero = _mm256_setzero_ps();
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a.lo, zero, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, zero, _CMP_LT_OQ))) != 0;
}
#endif
INLINE vf vf_sums(int n, const vf *r)
{
    float y[LANES] = {0};
    for (int i = 0; i < n; i++) y[i] = vf_sum(r[i]);
    return vf_load(y);
}
INLINE vf vf_tops(int n, const vf *r)
{
    float y[LANES] = {0};
    for (int i = 0; i < n; i++) y[i] = vf_top(r[i]);
    return vf_load(y);
}
#endif

/* ---- on every instruction set ---------------------------------------------------------------- */

/* bfloat16 is the upper half of a float. A NaN stays one, made quiet. */
INLINE vf vf_of_bf16(const void *p) { return vf_of_bits(vi_left(vi_of_u16(p), 16)); }
INLINE void vf_to_bf16(void *p, vf a)
{
    vi u = vi_of_bits(a), even = vi_and(vi_right(u, 16), vi_set(1));
    vi rounded = vi_add(u, vi_add(vi_set(0x7fff), even)), quiet = vi_or(u, vi_set(0x400000));
    vi size = vi_and(u, vi_set(0x7fffffff)); /* above infinity's bits: NaN */
    vf nan = vf_of_bits(vi_sub(vi_set(0x7f800000), size));
    vi_to_u16(p, vi_right(vi_of_bits(vf_choose(nan, vf_of_bits(quiet), vf_of_bits(rounded))), 16));
}

INLINE vf vf_abs(vf a) { return vf_of_bits(vi_and(vi_of_bits(a), vi_set(0x7fffffff))); }

/* 2^n for n from -126 to 127. */
INLINE vf vf_exp2i(vi n) { return vf_of_bits(vi_left(vi_add(n, vi_set(127)), 23)); }

#include "lib/engine/cpu/isa/curves.h"

#endif
