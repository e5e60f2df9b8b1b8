/* simd_neon.h - private to simd.h, which lists these: four registers of 128 bits, lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15. */
#ifndef ZT_CPU_SIMD_NEON_H
#define ZT_CPU_SIMD_NEON_H

#include "lib/engine/cpu/isa/quads_neon.h"

#include <arm_neon.h>

typedef struct vf {
    float32x4_t a, b, c, d;
} vf;
typedef struct vi {
    int32x4_t a, b, c, d;
} vi;

/* Of four lanes: all bits of those below n. */
INLINE uint32x4_t lanes_below(int n)
{
    static const int32_t lane[4] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(lane), vdupq_n_s32(n));
}

INLINE float32x4_t quad_load_n(const float *p, int n)
{
    float32x4_t y = vdupq_n_f32(0);
    if (n >= 4) return vld1q_f32(p);
    if (n & 2 && n > 0) y = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    if (n == 1) y = vld1q_lane_f32(p, y, 0);
    if (n == 3) y = vld1q_lane_f32(p + 2, y, 2);
    return y;
}
INLINE void quad_store_n(float *p, int n, float32x4_t x)
{
    if (n >= 4) vst1q_f32(p, x);
    if (n == 2 || n == 3) vst1_f32(p, vget_low_f32(x));
    if (n == 1) vst1q_lane_f32(p, x, 0);
    if (n == 3) vst1q_lane_f32(p + 2, x, 2);
}

INLINE vf vf_set(float x) { return FOUR_TIMES(vf, vdupq_n_f32(x)); }
INLINE vf vf_load(const float *p) { return (vf){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
INLINE vf vf_load_n(const float *p, int n)
{
    if (n >= LANES) return vf_load(p);
    vf y = vf_set(0);
    y.a = quad_load_n(p, n);
    if (n > 4) y.b = quad_load_n(p + 4, n - 4);
    if (n > 8) y.c = quad_load_n(p + 8, n - 8);
    if (n > 12) y.d = quad_load_n(p + 12, n - 12);
    return y;
}
INLINE void vf_store(float *p, vf x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
INLINE void vf_store_n(float *p, int n, vf x)
{
    quad_store_n(p, n, x.a);
    if (n > 4) quad_store_n(p + 4, n - 4, x.b);
    if (n > 8) quad_store_n(p + 8, n - 8, x.c);
    if (n > 12) quad_store_n(p + 12, n - 12, x.d);
}
INLINE void vf_stream(float *p, vf x) { vf_store(p, x); }

INLINE float32x4_t quad_fma(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
/* Not fmax and fmin, which have other results where there is a NaN. */
INLINE float32x4_t quad_max(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
INLINE float32x4_t quad_min(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
INLINE float32x4_t quad_choose(float32x4_t s, float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(s)), x, y);
}
INLINE vf vf_add(vf x, vf y) { return QUADS2(vf, vaddq_f32, x, y); }
INLINE vf vf_sub(vf x, vf y) { return QUADS2(vf, vsubq_f32, x, y); }
INLINE vf vf_mul(vf x, vf y) { return QUADS2(vf, vmulq_f32, x, y); }
INLINE vf vf_div(vf x, vf y) { return QUADS2(vf, vdivq_f32, x, y); }
INLINE vf vf_fma(vf x, vf y, vf z) { return QUADS3(vf, quad_fma, x, y, z); }
INLINE vf vf_max(vf x, vf y) { return QUADS2(vf, quad_max, x, y); }
INLINE vf vf_min(vf x, vf y) { return QUADS2(vf, quad_min, x, y); }
INLINE vf vf_first(int n, vf x, vf y)
{
    return (vf){vbslq_f32(lanes_below(n), x.a, y.a), vbslq_f32(lanes_below(n - 4), x.b, y.b),
                vbslq_f32(lanes_below(n - 8), x.c, y.c), vbslq_f32(lanes_below(n - 12), x.d, y.d)};
}
INLINE vf vf_choose(vf s, vf x, vf y) { return QUADS3(vf, quad_choose, s, x, y); }
INLINE vf vf_swap_pairs(vf x) { return QUADS1(vf, vrev64q_f32, x); }
INLINE float32x4_t quad_swap_halves(float32x4_t x) { return vextq_f32(x, x, 2); }
INLINE vf vf_swap(int apart, vf x)
{
    if (apart == 1) return vf_swap_pairs(x);
    if (apart == 2) return QUADS1(vf, quad_swap_halves, x);
    return apart == 4 ? (vf){x.b, x.a, x.d, x.c} : (vf){x.c, x.d, x.a, x.b};
}

INLINE vi vi_set(int32_t x) { return FOUR_TIMES(vi, vdupq_n_s32(x)); }
INLINE vi vi_load(const int32_t *p) { return (vi){vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)}; }
INLINE vi vi_add(vi x, vi y) { return QUADS2(vi, vaddq_s32, x, y); }
INLINE vi vi_sub(vi x, vi y) { return QUADS2(vi, vsubq_s32, x, y); }
INLINE vi vi_and(vi x, vi y) { return QUADS2(vi, vandq_s32, x, y); }
INLINE vi vi_or(vi x, vi y) { return QUADS2(vi, vorrq_s32, x, y); }
INLINE vi vi_left(vi x, int n)
{
    const vi by = vi_set(n);
    return QUADS2(vi, vshlq_s32, x, by);
}
INLINE vi vi_right(vi x, int n)
{
    const vi by = vi_set(-n);
    return QUADS2(vi, vshlq_s32, x, by);
}
INLINE vi vi_of_bits(vf x) { return QUADS1(vi, vreinterpretq_s32_f32, x); }
INLINE vf vf_of_bits(vi x) { return QUADS1(vf, vreinterpretq_f32_s32, x); }

/* Eight halves at p, of any alignment. */
INLINE uint16x8_t load_halves(const void *p, int at) { return vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)p + 2 * at)); }
INLINE void store_halves(void *p, int at, uint16x8_t x) { vst1q_u8((uint8_t *)p + 2 * at, vreinterpretq_u8_u16(x)); }

INLINE vf vf_of_f16(const void *p)
{
    const float16x8_t low = vreinterpretq_f16_u16(load_halves(p, 0)), high = vreinterpretq_f16_u16(load_halves(p, 8));
    return (vf){vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
                vcvt_high_f32_f16(high)};
}
INLINE void vf_to_f16(void *p, vf x)
{
    store_halves(p, 0, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b)));
    store_halves(p, 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d)));
}
INLINE vi vi_of_i8(const void *p)
{
    const int8x16_t b = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(b)), high = vmovl_s8(vget_high_s8(b));
    return (vi){vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
                vmovl_s16(vget_high_s16(high))};
}
INLINE vi vi_of_u8(const void *p)
{
    const uint8x16_t b = vld1q_u8(p);
    const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(b))),
                    high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(b)));
    return (vi){vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
                vmovl_s16(vget_high_s16(high))};
}
INLINE vf vf_of_vi(vi x) { return QUADS1(vf, vcvtq_f32_s32, x); }
INLINE vi vi_of_u16(const void *p)
{
    const uint16x8_t low = load_halves(p, 0), high = load_halves(p, 8);
    return (vi){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_s32_u32(vmovl_high_u16(low)),
                vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_s32_u32(vmovl_high_u16(high))};
}
INLINE void vi_to_u16(void *p, vi x)
{
    store_halves(p, 0, vreinterpretq_u16_s16(vmovn_high_s32(vmovn_s32(x.a), x.b)));
    store_halves(p, 8, vreinterpretq_u16_s16(vmovn_high_s32(vmovn_s32(x.c), x.d)));
}

INLINE float32x4_t quad_of(vf x, int k) { return k == 0 ? x.a : k == 1 ? x.b : k == 2 ? x.c : x.d; }

/* Four rows of four. */
INLINE void transpose_quads(float32x4_t r[4])
{
    const float64x2_t t0 = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1])), t1 = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t t2 = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3])), t3 = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vzip1q_f64(t0, t2));
    r[1] = vreinterpretq_f32_f64(vzip1q_f64(t1, t3));
    r[2] = vreinterpretq_f32_f64(vzip2q_f64(t0, t2));
    r[3] = vreinterpretq_f32_f64(vzip2q_f64(t1, t3));
}

/* r[i] lane j becomes r[j] lane i: sixteen squares of four by four. */
INLINE void vf_transpose(vf r[LANES])
{
    float32x4_t square[4][4][4]; /* [quad of lanes][rows][row] */
    UNROLL_FOR (int q = 0; q < 4; q++)
        UNROLL_FOR (int k = 0; k < 4; k++) {
            UNROLL_FOR (int i = 0; i < 4; i++) square[q][k][i] = quad_of(r[4 * k + i], q);
            transpose_quads(square[q][k]);
        }
    UNROLL_FOR (int i = 0; i < LANES; i++)
        r[i] = (vf){square[i / 4][0][i % 4], square[i / 4][1][i % 4], square[i / 4][2][i % 4], square[i / 4][3][i % 4]};
}

INLINE float vf_sum(vf x)
{
    const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
INLINE float vf_top(vf x)
{
    float32x4_t four = quad_max(quad_max(x.a, x.c), quad_max(x.b, x.d));
    four = quad_max(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(quad_max(four, vextq_f32(four, four, 1)), 0);
}
INLINE bool vf_any_below_0(vf x)
{
    const uint32x4_t any = vorrq_u32(vorrq_u32(vcltzq_f32(x.a), vcltzq_f32(x.b)), vorrq_u32(vcltzq_f32(x.c), vcltzq_f32(x.d)));
    return vmaxvq_u32(any) != 0;
}

#endif
