/* lanes.h - private to isa/: a register of floats or integers, as the compilers' vector types.
 *
 * LANES of them: 16 with AVX-512, 8 with AVX2, else 4. What is done in a lane is exact or rounded
 * once and does not know how many others there are: every instruction set has the same bits. A
 * comparison has all bits of a lane set or none. They never leave a file, so that it does not
 * matter which registers a call would take (-Wno-psabi).
 */
#ifndef ZT_TENSOR_LANES_H
#define ZT_TENSOR_LANES_H

#include "lib/tensor/tensor.h"

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#elif defined(__AVX2__)
#include <immintrin.h>
#define LANES 8
#else
#define LANES 4
#endif

#define INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));

INLINE vf vf_set(float x) { return (vf){0} + x; }
INLINE vi vi_set(int32_t x) { return (vi){0} + x; }

INLINE vf vf_load(const float *p)
{
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}

INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }

/* c ? a : b of a comparison c. */
INLINE vf vf_select(vi c, vf a, vf b) { return (vf)((c & (vi)a) | (~c & (vi)b)); }

#if defined(__AVX512F__)
INLINE vf vf_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vf vf_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
#else
INLINE vf vf_min(vf a, vf b) { return vf_select(a < b, a, b); }
INLINE vf vf_max(vf a, vf b) { return vf_select(a > b, a, b); }
#endif

INLINE vf vf_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
/* To the nearest whole number, halves to even; |a| below 2^22. */
INLINE vf vf_round(vf a) { return (a + 12582912.0f) - 12582912.0f; }
INLINE vf vf_between(vf a, float lo, float hi) { return vf_min(vf_max(a, vf_set(lo)), vf_set(hi)); }
/* a / b, 0 where b is. */
INLINE vf vf_ratio(vf a, vf b) { return (vf)((vi)(a / b) & (b != 0)); }

/* Is a comparison true in any lane? */
INLINE bool vi_any(vi c)
{
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)c, (__m512i)c) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)c) != 0;
#else
    return (c[0] | c[1] | c[2] | c[3]) != 0;
#endif
}

/* The lanes of a and b in turn: the lower halves' and the upper ones'. */
#if LANES == 16
#define INTERLEAVE(a, b, i)                                                                                                      \
    __builtin_shufflevector(a, b, i, 16 + i, 1 + i, 17 + i, 2 + i, 18 + i, 3 + i, 19 + i, 4 + i, 20 + i, 5 + i, 21 + i, 6 + i,   \
                            22 + i, 7 + i, 23 + i)
#elif LANES == 8
#define INTERLEAVE(a, b, i) __builtin_shufflevector(a, b, i, 8 + i, 1 + i, 9 + i, 2 + i, 10 + i, 3 + i, 11 + i)
#else
#define INTERLEAVE(a, b, i) __builtin_shufflevector(a, b, i, 4 + i, 1 + i, 5 + i)
#endif

/* Lane j of row i becomes lane i of row j. */
INLINE void vf_transpose(vf row[LANES])
{
    for (int done = 1; done < LANES; done *= 2) {
        vf next[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = INTERLEAVE(row[i], row[LANES / 2 + i], 0);
            next[2 * i + 1] = INTERLEAVE(row[i], row[LANES / 2 + i], LANES / 2);
        }
        memcpy(row, next, sizeof next);
    }
}

/* To f16, the largest of which is the end, and back. */
INLINE vi vf_halves(vf a)
{
    vf limit = vf_set(65504);
    a = vf_select(a > limit, limit, vf_select(a < -limit, -limit, a));
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu16_epi32(_mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepu16_epi32(_mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT));
#else
    vi half;
    for (int lane = 0; lane < LANES; lane++) half[lane] = zt_f32_to_f16(a[lane]);
    return half;
#endif
}

INLINE vf vf_of_halves(vi half)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)half));
#elif defined(__AVX2__)
    __m256i both = _mm256_packus_epi32((__m256i)half, (__m256i)half);
    return (vf)_mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(both, 8)));
#else
    vf value;
    for (int lane = 0; lane < LANES; lane++) value[lane] = zt_f16_to_f32((uint16_t)half[lane]);
    return value;
#endif
}

#endif
