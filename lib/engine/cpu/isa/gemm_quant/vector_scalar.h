/* vector_scalar.h - private to vector.h, which lists these: in plain C. */
#ifndef ZT_CPU_VECTOR_SCALAR_H
#define ZT_CPU_VECTOR_SCALAR_H

typedef struct fv {
    float v[16];
} fv;
typedef struct iv {
    int32_t v[16];
} iv;
typedef struct cv {
    uint8_t v[64];
} cv;

// clang-format off
#define ROWS(expr)                                                                                 \
    do {                                                                                           \
        for (int r = 0; r < 16; r++) y.v[r] = (expr);                                              \
        return y;                                                                                  \
    } while (0)
INLINE fv fv_zero(void) { return (fv){{0}}; }
INLINE fv fv_set(float x) { fv y; ROWS(x); }
INLINE fv fv_load(const void *p) { fv y; memcpy(&y, p, sizeof y); return y; }
INLINE void fv_store(float *p, fv a) { memcpy(p, &a, sizeof a); }
INLINE fv fv_add(fv a, fv b) { fv y; ROWS(a.v[r] + b.v[r]); }
INLINE fv fv_mul(fv a, fv b) { fv y; ROWS(a.v[r] * b.v[r]); }
static __attribute__((noinline, unused)) fv fv_fma(fv a, fv b, fv c) { fv y; ROWS(fused_f32(a.v[r], b.v[r], c.v[r])); }
static __attribute__((noinline, unused)) fv fv_fma_flushed(fv a, fv b, fv c)
{
    fv y;
    ROWS(fused_flushed_f32(a.v[r], b.v[r], c.v[r]));
}
INLINE fv fv_neg(fv a) { fv y; ROWS(-a.v[r]); }
INLINE fv fv_of_iv(iv a) { fv y; ROWS((float)a.v[r]); }
INLINE fv fv_of_f16(const void *p)
{
    fv y;
    uint16_t h[16];
    memcpy(h, p, sizeof h);
    ROWS(zt_f16_to_f32(h[r]));
}
INLINE fv fv_of_e8m0(const void *p) { fv y; const uint8_t *b = p; ROWS(zt_pack_e8m0(b[r])); }
INLINE fv fv_of_e4m3(const void *p) { fv y; const uint8_t *b = p; ROWS(zt_pack_e4m3(b[r])); }
INLINE fv fv_of_bf16(const void *p, int second)
{
    fv y;
    uint16_t h[32];
    memcpy(h, p, sizeof h);
    ROWS(zt_bf16_to_f32(h[2 * r + second]));
}
INLINE iv iv_set(int32_t x) { iv y; ROWS(x); }
INLINE iv iv_sub(iv a, iv b) { iv y; ROWS(a.v[r] - b.v[r]); }
INLINE iv iv_add(iv a, iv b) { iv y; ROWS(a.v[r] + b.v[r]); }
INLINE iv iv_join_halves(iv a, iv b) { iv y; ROWS(256 * a.v[r] + b.v[r]); }
INLINE iv iv_of_fv(fv a) { iv y; ROWS(round_to_int(a.v[r])); }
INLINE fv fv_power(fv a) { return a; }
INLINE fv fv_mul_power(fv a, fv p) { return fv_mul(a, p); }
INLINE fv fv_div_power(fv a, fv p) { fv y; ROWS(a.v[r] / p.v[r]); }
INLINE int32_t low_int16(int32_t a) { return (int16_t)(a & 0xffff); }
INLINE int32_t high_int16(int32_t a) { return (int16_t)((uint32_t)a >> 16); }
INLINE int32_t join_int16(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)(a & 0xffff) | (uint32_t)b << 16);
}
INLINE iv iv16_pair(iv a, iv b, int n) { iv y; ROWS(join_int16(a.v[r] >> n, b.v[r] >> n)); }
// clang-format on
INLINE iv iv16_of_u8(const void *p)
{
    iv y;
    const uint8_t *b = p;
    ROWS(join_int16(b[2 * r], b[2 * r + 1]));
}
INLINE iv iv16_of_i8(const void *p)
{
    iv y;
    const int8_t *b = p;
    ROWS(join_int16(b[2 * r], b[2 * r + 1]));
}
#define EACH(l, h) ROWS(join_int16(l, h))
#define LOW(a)     low_int16(a.v[r])
#define HIGH(a)    high_int16(a.v[r])
// clang-format off
INLINE iv iv16_shl(iv a, int n) { iv y; EACH(LOW(a) * (1 << n), HIGH(a) * (1 << n)); }
INLINE iv iv16_shr(iv a, int n) { iv y; EACH((LOW(a) & 0xffff) >> n, (HIGH(a) & 0xffff) >> n); }
INLINE iv iv16_low_bits(iv a, int n) { iv y; EACH(LOW(a) & ((1 << n) - 1), HIGH(a) & ((1 << n) - 1)); }
INLINE iv iv16_add(iv a, iv b) { iv y; EACH(LOW(a) + LOW(b), HIGH(a) + HIGH(b)); }
INLINE iv iv16_sub(iv a, iv b) { iv y; EACH(LOW(a) - LOW(b), HIGH(a) - HIGH(b)); }
INLINE iv iv16_first(iv a) { iv y; ROWS(LOW(a)); }
INLINE iv iv16_second(iv a) { iv y; ROWS(HIGH(a)); }
INLINE int32_t scale_int16(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }
INLINE iv iv16_scale(iv a, iv b) { iv y; EACH(scale_int16(LOW(a), LOW(b)), scale_int16(HIGH(a), HIGH(b))); }
/* As in vectors, what is too large wraps. */
INLINE int32_t wrap_int32(int64_t a) { return (int32_t)(uint32_t)(uint64_t)a; }
INLINE int64_t dot_int16(int32_t a, int32_t b)
{
    return (int64_t)low_int16(a) * low_int16(b) + (int64_t)high_int16(a) * high_int16(b);
}
INLINE iv iv16_dot(iv a, iv b) { iv y; ROWS(wrap_int32(dot_int16(a.v[r], b.v[r]))); }
INLINE iv iv16_dot_add(iv x, iv a, iv b)
{
    iv y;
    ROWS(wrap_int32(x.v[r] + dot_int16(a.v[r], b.v[r])));
}
#undef EACH
#undef LOW
#undef HIGH
INLINE iv iv_of_bytes(const void *p, int j) { iv y; const uint8_t *b = p; ROWS(b[4 * r + j]); }
#undef ROWS

INLINE cv cv_load(const void *p) { cv y; memcpy(&y, p, sizeof y); return y; }
INLINE cv cv_load_in_order(const void *p) { return cv_load(p); }
INLINE void cv_store(uint8_t *p, cv a) { memcpy(p, &a, sizeof a); }
#define BYTES(expr)                                                                                \
    do {                                                                                           \
        for (int b = 0; b < 64; b++) y.v[b] = (uint8_t)(expr);                                     \
        return y;                                                                                  \
    } while (0)
INLINE cv cv_and(cv a, int mask) { cv y; BYTES(a.v[b] & mask); }
INLINE cv cv_or_and(cv a, cv c, int mask) { cv y; BYTES(a.v[b] | (c.v[b] & mask)); }
INLINE cv cv_shr(cv a, int n) { cv y; BYTES(a.v[b] >> n); }
INLINE cv cv_shl(cv a, int n) { cv y; BYTES(a.v[b] << n); }
INLINE cv cv_lookup(const uint8_t *table, cv a) { cv y; BYTES(table[a.v[b]]); }
// clang-format on
#undef BYTES

#endif
