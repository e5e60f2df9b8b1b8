/* doubles_neon.h - private to doubles.h, which lists these: four registers of two lanes. */
#ifndef ZT_CPU_DOUBLES_NEON_H
#define ZT_CPU_DOUBLES_NEON_H

typedef struct vd {
    float64x2_t a, b, c, d;
} vd;
typedef struct vl {
    uint64x2_t a, b, c, d;
} vl;
typedef struct vm {
    uint32x4_t a, b, c, d;
} vm;
typedef vl md;

INLINE vm vf_lt(vf x, vf y) { return QUADS2(vm, vcltq_f32, x, y); }
INLINE vm vf_eq(vf x, vf y) { return QUADS2(vm, vceqq_f32, x, y); }
INLINE vf vf_select(vm m, vf x, vf y) { return QUADS3(vf, vbslq_f32, m, x, y); }
INLINE unsigned four_bits(uint32x4_t m)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(m, vld1q_u32(bit)));
}
INLINE unsigned vm_bits(vm m) { return four_bits(m.a) | four_bits(m.b) << 4 | four_bits(m.c) << 8 | four_bits(m.d) << 12; }
INLINE vf vf_sqrt(vf x) { return QUADS1(vf, vsqrtq_f32, x); }
INLINE vf vf_floor(vf x) { return QUADS1(vf, vrndmq_f32, x); }
INLINE vf vf_ceil(vf x) { return QUADS1(vf, vrndpq_f32, x); }
INLINE vf vf_rint(vf x) { return QUADS1(vf, vrndnq_f32, x); }

INLINE float64x2_t pair_fma(float64x2_t x, float64x2_t y, float64x2_t z) { return vfmaq_f64(z, x, y); }
INLINE float64x2_t pair_max(float64x2_t x, float64x2_t y) { return vbslq_f64(vcgtq_f64(x, y), x, y); }
INLINE float64x2_t pair_min(float64x2_t x, float64x2_t y) { return vbslq_f64(vcltq_f64(x, y), x, y); }
INLINE float64x2_t pair_choose(uint64x2_t s, float64x2_t x, float64x2_t y)
{
    return vbslq_f64(vcltzq_s64(vreinterpretq_s64_u64(s)), x, y);
}
INLINE vd vd_set(double x) { return FOUR_TIMES(vd, vdupq_n_f64(x)); }
INLINE vd vd_part(vf x, int k)
{
    const float32x4_t low = k ? x.c : x.a, high = k ? x.d : x.b;
    return (vd){vcvt_f64_f32(vget_low_f32(low)), vcvt_high_f64_f32(low), vcvt_f64_f32(vget_low_f32(high)),
                vcvt_high_f64_f32(high)};
}
INLINE vf vf_join(const vd *part)
{
    return (vf){vcvt_high_f32_f64(vcvt_f32_f64(part[0].a), part[0].b), vcvt_high_f32_f64(vcvt_f32_f64(part[0].c), part[0].d),
                vcvt_high_f32_f64(vcvt_f32_f64(part[1].a), part[1].b), vcvt_high_f32_f64(vcvt_f32_f64(part[1].c), part[1].d)};
}
INLINE vd vd_add(vd x, vd y) { return QUADS2(vd, vaddq_f64, x, y); }
INLINE vd vd_sub(vd x, vd y) { return QUADS2(vd, vsubq_f64, x, y); }
INLINE vd vd_mul(vd x, vd y) { return QUADS2(vd, vmulq_f64, x, y); }
INLINE vd vd_div(vd x, vd y) { return QUADS2(vd, vdivq_f64, x, y); }
INLINE vd vd_fma(vd x, vd y, vd z) { return QUADS3(vd, pair_fma, x, y, z); }
INLINE vd vd_sqrt(vd x) { return QUADS1(vd, vsqrtq_f64, x); }
INLINE vd vd_max(vd x, vd y) { return QUADS2(vd, pair_max, x, y); }
INLINE vd vd_min(vd x, vd y) { return QUADS2(vd, pair_min, x, y); }
INLINE md vd_lt(vd x, vd y) { return QUADS2(md, vcltq_f64, x, y); }
INLINE vd vd_select(md m, vd x, vd y) { return QUADS3(vd, vbslq_f64, m, x, y); }
INLINE vl vl_set(int64_t x) { return FOUR_TIMES(vl, vdupq_n_u64((uint64_t)x)); }
INLINE vl vl_add(vl x, vl y) { return QUADS2(vl, vaddq_u64, x, y); }
INLINE vl vl_sub(vl x, vl y) { return QUADS2(vl, vsubq_u64, x, y); }
INLINE vl vl_and(vl x, vl y) { return QUADS2(vl, vandq_u64, x, y); }
INLINE vl vl_or(vl x, vl y) { return QUADS2(vl, vorrq_u64, x, y); }
INLINE vl vl_xor(vl x, vl y) { return QUADS2(vl, veorq_u64, x, y); }
INLINE uint64x2_t pair_shift(uint64x2_t x, uint64x2_t n) { return vshlq_u64(x, vreinterpretq_s64_u64(n)); }
INLINE vl vl_lefts(vl x, vl n) { return QUADS2(vl, pair_shift, x, n); }
INLINE vl vl_left(vl x, int n) { return vl_lefts(x, vl_set(n)); }
INLINE vl vl_right(vl x, int n) { return vl_lefts(x, vl_set(-n)); }
INLINE uint64x2_t pair_look(const uint8_t *table, uint64x2_t at)
{
    uint64_t word[2];
    memcpy(&word[0], table + vgetq_lane_u64(at, 0), sizeof word[0]);
    memcpy(&word[1], table + vgetq_lane_u64(at, 1), sizeof word[1]);
    return vld1q_u64(word);
}
INLINE vl vl_look(const uint8_t *table, vl at)
{
    return (vl){pair_look(table, at.a), pair_look(table, at.b), pair_look(table, at.c), pair_look(table, at.d)};
}
INLINE vl vl_of_bits(vd x) { return QUADS1(vl, vreinterpretq_u64_f64, x); }
INLINE vd vd_of_bits(vl x) { return QUADS1(vd, vreinterpretq_f64_u64, x); }
INLINE vd vd_choose(vl s, vd x, vd y) { return QUADS3(vd, pair_choose, s, x, y); }

/* Products of the low 32 bits of each lane; and from, from + 1, ... */
INLINE uint64x2_t pair_mul32(uint64x2_t x, uint64x2_t y) { return vmull_u32(vmovn_u64(x), vmovn_u64(y)); }
INLINE vl vl_mul32(vl x, vl y) { return QUADS2(vl, pair_mul32, x, y); }
INLINE vl vl_rising(int64_t from)
{
    static const uint64_t step[WIDE] = {0, 1, 2, 3, 4, 5, 6, 7};
    return vl_add(vl_set(from), (vl){vld1q_u64(step), vld1q_u64(step + 2), vld1q_u64(step + 4), vld1q_u64(step + 6)});
}

#endif
