/* vector_neon.h - private to vector.h, which lists these: four registers, of rows 0 to 3, 4 to 7, 8 to 11 and 12 to 15. */
#ifndef ZT_CPU_VECTOR_NEON_H
#define ZT_CPU_VECTOR_NEON_H

#include "lib/engine/cpu/isa/quads_neon.h"

#include <arm_neon.h>

typedef struct fv {
    float32x4_t a, b, c, d;
} fv;
typedef struct iv {
    int32x4_t a, b, c, d;
} iv;
typedef struct cv {
    uint8x16_t a, b, c, d;
} cv;

/* f(p), f(p + n), ... of bytes. */
#define FOUR_AT(type, f, p, n) ((type){f(AT(p, 0)), f(AT(p, n)), f(AT(p, 2 * (n))), f(AT(p, 3 * (n)))})
#define AT(p, n)               ((const uint8_t *)(p) + (n))

/* Of any alignment. */
INLINE float32x4_t load_f32x4(const uint8_t *p) { return vreinterpretq_f32_u8(vld1q_u8(p)); }
INLINE uint32x4_t load_u32x4(const uint8_t *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }

INLINE fv fv_set(float x) { return FOUR_TIMES(fv, vdupq_n_f32(x)); }
INLINE fv fv_zero(void) { return fv_set(0); }
INLINE fv fv_load(const void *p) { return FOUR_AT(fv, load_f32x4, p, 16); }
INLINE void fv_store(float *p, fv x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
INLINE float32x4_t fma_f32x4(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
INLINE fv fv_add(fv x, fv y) { return QUADS2(fv, vaddq_f32, x, y); }
INLINE fv fv_mul(fv x, fv y) { return QUADS2(fv, vmulq_f32, x, y); }
INLINE fv fv_fma(fv x, fv y, fv z) { return QUADS3(fv, fma_f32x4, x, y, z); }
/* Rarely used as it is slow: the processor's own flushing takes results for 0 that round to 2^-126. */
static __attribute__((noinline, unused)) fv fv_fma_flushed(fv x, fv y, fv z)
{
    float a[16], b[16], c[16];
    fv_store(a, x), fv_store(b, y), fv_store(c, z);
    for (int r = 0; r < 16; r++) c[r] = fused_flushed_f32(a[r], b[r], c[r]);
    return fv_load(c);
}
INLINE fv fv_neg(fv x) { return QUADS1(fv, vnegq_f32, x); }
INLINE fv fv_of_iv(iv x) { return QUADS1(fv, vcvtq_f32_s32, x); }
INLINE float32x4_t f32x4_of_f16(const uint8_t *p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }
INLINE fv fv_of_f16(const void *p) { return FOUR_AT(fv, f32x4_of_f16, p, 8); }
INLINE uint16x8_t u16x8_of_4(const uint8_t *p) { return vmovl_u8(vreinterpret_u8_s32(vdup_n_s32(load_i32(p)))); }
INLINE float32x4_t f32x4_of_e8m0(const uint8_t *p)
{
    const int32x4_t e = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(u16x8_of_4(p)))), one = vdupq_n_s32(1);
    return vreinterpretq_f32_s32(vmaxq_s32(vshlq_n_s32(vsubq_s32(e, one), 23), vshlq_n_s32(vaddq_s32(e, one), 21)));
}
INLINE fv fv_of_e8m0(const void *p) { return FOUR_AT(fv, f32x4_of_e8m0, p, 4); }
INLINE float32x4_t f32x4_of_e4m3(const uint8_t *p)
{
    const uint16x4_t half = vshl_n_u16(vget_low_u16(u16x8_of_4(p)), 7);
    return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(half)), 0x1p7f);
}
INLINE fv fv_of_e4m3(const void *p) { return FOUR_AT(fv, f32x4_of_e4m3, p, 4); }
INLINE float32x4_t first_bf16(const uint8_t *p) { return vreinterpretq_f32_u32(vshlq_n_u32(load_u32x4(p), 16)); }
INLINE float32x4_t second_bf16(const uint8_t *p)
{
    return vreinterpretq_f32_u32(vandq_u32(load_u32x4(p), vdupq_n_u32(0xffff0000)));
}
INLINE fv fv_of_bf16(const void *p, int second)
{
    return second ? FOUR_AT(fv, second_bf16, p, 16) : FOUR_AT(fv, first_bf16, p, 16);
}

INLINE iv iv_set(int32_t x) { return FOUR_TIMES(iv, vdupq_n_s32(x)); }
INLINE iv iv_sub(iv x, iv y) { return QUADS2(iv, vsubq_s32, x, y); }
INLINE iv iv_add(iv x, iv y) { return QUADS2(iv, vaddq_s32, x, y); }
INLINE iv iv_of_fv(fv x) { return QUADS1(iv, vcvtnq_s32_f32, x); }
INLINE fv fv_power(fv x) { return x; }
INLINE fv fv_mul_power(fv x, fv p) { return fv_mul(x, p); }
INLINE fv fv_div_power(fv x, fv p) { return QUADS2(fv, vdivq_f32, x, p); }
INLINE int32x4_t join_s32x4(int32x4_t x, int32x4_t y) { return vaddq_s32(vshlq_n_s32(x, 8), y); }
INLINE iv iv_join_halves(iv x, iv y) { return QUADS2(iv, join_s32x4, x, y); }

/* Two numbers of 16 bits a row. */
INLINE int16x8_t as_s16x8(int32x4_t x) { return vreinterpretq_s16_s32(x); }
INLINE int32x4_t of_s16x8(int16x8_t x) { return vreinterpretq_s32_s16(x); }
INLINE int32x4_t of_u16x8(uint16x8_t x) { return vreinterpretq_s32_u16(x); }
INLINE int32x4_t shift_s32x4(int32x4_t x, int32x4_t n) { return vshlq_s32(x, n); }
INLINE int32x4_t pair_s16x8(int32x4_t x, int32x4_t y) { return of_s16x8(vtrn1q_s16(as_s16x8(x), as_s16x8(y))); }
INLINE iv iv16_pair(iv x, iv y, int n)
{
    const iv by = iv_set(-n);
    if (n) x = QUADS2(iv, shift_s32x4, x, by), y = QUADS2(iv, shift_s32x4, y, by);
    return QUADS2(iv, pair_s16x8, x, y);
}
INLINE int32x4_t words_of_u8(const uint8_t *p) { return of_u16x8(vmovl_u8(vld1_u8(p))); }
INLINE int32x4_t words_of_i8(const uint8_t *p) { return of_s16x8(vmovl_s8(vreinterpret_s8_u8(vld1_u8(p)))); }
INLINE iv iv16_of_u8(const void *p) { return FOUR_AT(iv, words_of_u8, p, 8); }
INLINE iv iv16_of_i8(const void *p) { return FOUR_AT(iv, words_of_i8, p, 8); }
INLINE int32x4_t shl_s16x8(int32x4_t x, int32x4_t n) { return of_s16x8(vshlq_s16(as_s16x8(x), as_s16x8(n))); }
INLINE int32x4_t shr_u16x8(int32x4_t x, int32x4_t n)
{
    return of_u16x8(vshlq_u16(vreinterpretq_u16_s32(x), vnegq_s16(as_s16x8(n))));
}
INLINE int32x4_t and_s32x4(int32x4_t x, int32x4_t y) { return vandq_s32(x, y); }
INLINE int32x4_t add_s16x8(int32x4_t x, int32x4_t y) { return of_s16x8(vaddq_s16(as_s16x8(x), as_s16x8(y))); }
INLINE int32x4_t sub_s16x8(int32x4_t x, int32x4_t y) { return of_s16x8(vsubq_s16(as_s16x8(x), as_s16x8(y))); }
INLINE iv iv16_set(int x) { return FOUR_TIMES(iv, of_s16x8(vdupq_n_s16((int16_t)x))); }
INLINE iv iv16_shl(iv x, int n)
{
    const iv by = iv16_set(n);
    return QUADS2(iv, shl_s16x8, x, by);
}
INLINE iv iv16_shr(iv x, int n)
{
    const iv by = iv16_set(n);
    return QUADS2(iv, shr_u16x8, x, by);
}
INLINE iv iv16_low_bits(iv x, int n)
{
    const iv mask = iv16_set((1 << n) - 1);
    return QUADS2(iv, and_s32x4, x, mask);
}
INLINE iv iv16_add(iv x, iv y) { return QUADS2(iv, add_s16x8, x, y); }
INLINE iv iv16_sub(iv x, iv y) { return QUADS2(iv, sub_s16x8, x, y); }
INLINE int32x4_t second_s16x8(int32x4_t x) { return vshrq_n_s32(x, 16); }
INLINE int32x4_t first_s16x8(int32x4_t x) { return vshrq_n_s32(vshlq_n_s32(x, 16), 16); }
INLINE iv iv16_first(iv x) { return QUADS1(iv, first_s16x8, x); }
INLINE iv iv16_second(iv x) { return QUADS1(iv, second_s16x8, x); }
/* Narrowed as it is: of -32768 twice elsewhere it is 32768 cut to 16 bits, and not 32767. */
INLINE int32x4_t scale_s16x8(int32x4_t x, int32x4_t y)
{
    const int16x8_t a = as_s16x8(x), b = as_s16x8(y);
    const int16x4_t low = vrshrn_n_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), 15);
    return of_s16x8(vrshrn_high_n_s32(low, vmull_high_s16(a, b), 15));
}
INLINE iv iv16_scale(iv x, iv y) { return QUADS2(iv, scale_s16x8, x, y); }
INLINE int32x4_t dot_s16x8(int32x4_t x, int32x4_t y)
{
    const int16x8_t a = as_s16x8(x), b = as_s16x8(y);
    return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
}
INLINE iv iv16_dot(iv x, iv y) { return QUADS2(iv, dot_s16x8, x, y); }
INLINE iv iv16_dot_add(iv sum, iv x, iv y) { return iv_add(sum, iv16_dot(x, y)); }

INLINE int32x4_t load_s32x4(const uint8_t *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
INLINE int32x4_t shr_u32x4(int32x4_t x, int32x4_t n)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vnegq_s32(n)));
}
INLINE iv iv_of_bytes(const void *p, int j)
{
    const iv words = FOUR_AT(iv, load_s32x4, p, 16), by = iv_set(8 * j), mask = iv_set(255);
    const iv byte = QUADS2(iv, shr_u32x4, words, by);
    return QUADS2(iv, and_s32x4, byte, mask);
}
INLINE cv cv_load(const void *p) { return FOUR_AT(cv, vld1q_u8, p, 16); }
INLINE cv cv_load_in_order(const void *p) { return cv_load(p); }
INLINE void cv_store(uint8_t *p, cv x)
{
    vst1q_u8(p, x.a);
    vst1q_u8(p + 16, x.b);
    vst1q_u8(p + 32, x.c);
    vst1q_u8(p + 48, x.d);
}
INLINE cv cv_set(int x) { return FOUR_TIMES(cv, vdupq_n_u8((uint8_t)x)); }
INLINE cv cv_and(cv x, int mask)
{
    const cv all = cv_set(mask);
    return QUADS2(cv, vandq_u8, x, all);
}
INLINE cv cv_or_and(cv x, cv y, int mask)
{
    y = cv_and(y, mask);
    return QUADS2(cv, vorrq_u8, x, y);
}
INLINE uint8x16_t shift_u8x16(uint8x16_t x, uint8x16_t n) { return vshlq_u8(x, vreinterpretq_s8_u8(n)); }
INLINE cv cv_shl(cv x, int n)
{
    const cv by = cv_set(n);
    return QUADS2(cv, shift_u8x16, x, by);
}
INLINE cv cv_shr(cv x, int n) { return cv_shl(x, -n); }
INLINE cv cv_lookup(const uint8_t *table, cv x)
{
    const uint8x16_t values = vld1q_u8(table);
    return (cv){vqtbl1q_u8(values, x.a), vqtbl1q_u8(values, x.b), vqtbl1q_u8(values, x.c), vqtbl1q_u8(values, x.d)};
}

#endif
