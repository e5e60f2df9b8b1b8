/* lanes.h - private to isa/: a register of floats or integers, as the compilers' vector types.
 *
 * LANES of them: 16 with AVX-512, 8 with AVX2, else 4. What is done in a lane is exact or rounded
 * once and does not know how many others there are: every instruction set has the same bits. A
 * comparison has all bits of a lane set or none. They never leave a file, so that it does not
 * matter which registers a call would take (-Wno-psabi).
 */
#ifndef ZT_TENSOR_LANES_H
#define ZT_TENSOR_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#elif defined(__AVX2__)
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
INLINE vf vf_choose(vi c, vf a, vf b) { return (vf)((c & (vi)a) | (~c & (vi)b)); }

#if defined(__AVX512F__)
INLINE vf vf_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vf vf_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
#else
INLINE vf vf_min(vf a, vf b) { return vf_choose(a < b, a, b); }
INLINE vf vf_max(vf a, vf b) { return vf_choose(a > b, a, b); }
#endif

INLINE vf vf_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
/* To the nearest whole number, halves to even; |a| below 2^22. */
INLINE vf vf_round(vf a) { return (a + 12582912.0f) - 12582912.0f; }
INLINE vf vf_between(vf a, float lo, float hi) { return vf_min(vf_max(a, vf_set(lo)), vf_set(hi)); }
/* a / b, 0 where b is. */
INLINE vf vf_ratio(vf a, vf b)
{
    vi none = b == 0;
    return vf_choose(none, vf_set(0), a / vf_choose(none, vf_set(1), b));
}

#endif
