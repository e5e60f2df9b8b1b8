/* microkernel_scalar.h - private to microkernel.h, which tells what these are: in plain C. */
#ifndef ZT_CPU_DOT_SCALAR_H
#define ZT_CPU_DOT_SCALAR_H

enum { SIDE = 8 };
typedef struct fv {
    float v[16];
} fv;
typedef struct iv {
    int32_t v[16];
} iv;
typedef struct cv {
    uint8_t v[64];
} cv;

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
INLINE fv fv_fma(fv a, fv b, fv c) { fv y; ROWS(a.v[r] * b.v[r] + c.v[r]); }
INLINE fv fv_neg(fv a) { fv y; ROWS(-a.v[r]); }
INLINE fv fv_of_iv(iv a) { fv y; ROWS((float)a.v[r]); }
INLINE fv fv_of_half(const void *p)
{
    fv y;
    uint16_t h[16];
    memcpy(h, p, sizeof h);
    ROWS(zt_f16_to_f32(h[r]));
}
INLINE fv fv_of_e8m0(const void *p) { fv y; const uint8_t *b = p; ROWS(zt_pack_e8m0(b[r])); }
INLINE fv fv_of_e4m3(const void *p) { fv y; const uint8_t *b = p; ROWS(zt_pack_e4m3(b[r])); }
INLINE fv fv_of_brain(const void *p, int second)
{
    fv y;
    uint16_t h[32];
    memcpy(h, p, sizeof h);
    ROWS(zt_bf16_to_f32(h[2 * r + second]));
}
INLINE iv iv_set(int32_t x) { iv y; ROWS(x); }
INLINE iv iv_sub(iv a, iv b) { iv y; ROWS(a.v[r] - b.v[r]); }
INLINE iv iv_add(iv a, iv b) { iv y; ROWS(a.v[r] + b.v[r]); }
INLINE iv iv_join(iv a, iv b) { iv y; ROWS(256 * a.v[r] + b.v[r]); }
INLINE iv iv_of_fv(fv a) { iv y; ROWS(whole_of(a.v[r])); }
INLINE fv fv_power(fv a) { return a; }
INLINE fv fv_scaled(fv a, fv p) { return fv_mul(a, p); }
INLINE fv fv_unscaled(fv a, fv p) { fv y; ROWS(a.v[r] / p.v[r]); }
INLINE int32_t low_of(int32_t a) { return (int16_t)(a & 0xffff); }
INLINE int32_t high_of(int32_t a) { return (int16_t)((uint32_t)a >> 16); }
INLINE int32_t both_of(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)(a & 0xffff) | (uint32_t)b << 16);
}
INLINE iv iv_pair(iv a, iv b, int n) { iv y; ROWS(both_of(a.v[r] >> n, b.v[r] >> n)); }
INLINE iv iv_unsigned(const void *p)
{
    iv y;
    const uint8_t *b = p;
    ROWS(both_of(b[2 * r], b[2 * r + 1]));
}
INLINE iv iv_signed(const void *p)
{
    iv y;
    const int8_t *b = p;
    ROWS(both_of(b[2 * r], b[2 * r + 1]));
}
#define EACH(l, h) ROWS(both_of(l, h))
#define LOW(a)     low_of(a.v[r])
#define HIGH(a)    high_of(a.v[r])
INLINE iv iv_times(iv a, int n) { iv y; EACH(LOW(a) * (1 << n), HIGH(a) * (1 << n)); }
INLINE iv iv_over(iv a, int n) { iv y; EACH((LOW(a) & 0xffff) >> n, (HIGH(a) & 0xffff) >> n); }
INLINE iv iv_rest(iv a, int n) { iv y; EACH(LOW(a) & ((1 << n) - 1), HIGH(a) & ((1 << n) - 1)); }
INLINE iv iv_adds(iv a, iv b) { iv y; EACH(LOW(a) + LOW(b), HIGH(a) + HIGH(b)); }
INLINE iv iv_subs(iv a, iv b) { iv y; EACH(LOW(a) - LOW(b), HIGH(a) - HIGH(b)); }
INLINE iv iv_first(iv a) { iv y; ROWS(LOW(a)); }
INLINE iv iv_second(iv a) { iv y; ROWS(HIGH(a)); }
INLINE int32_t scale_by(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }
INLINE iv iv_scales(iv a, iv b) { iv y; EACH(scale_by(LOW(a), LOW(b)), scale_by(HIGH(a), HIGH(b))); }
/* As in vectors, what is too large wraps. */
INLINE int32_t wrapped(int64_t a) { return (int32_t)(uint32_t)(uint64_t)a; }
INLINE int64_t products_of(int32_t a, int32_t b)
{
    return (int64_t)low_of(a) * low_of(b) + (int64_t)high_of(a) * high_of(b);
}
INLINE iv iv_products(iv a, iv b) { iv y; ROWS(wrapped(products_of(a.v[r], b.v[r]))); }
INLINE iv iv_add_products(iv x, iv a, iv b)
{
    iv y;
    ROWS(wrapped(x.v[r] + products_of(a.v[r], b.v[r])));
}
#undef EACH
#undef LOW
#undef HIGH
INLINE iv iv_byte(const void *p, int j) { iv y; const uint8_t *b = p; ROWS(b[4 * r + j]); }
#undef ROWS

INLINE cv cv_load(const void *p) { cv y; memcpy(&y, p, sizeof y); return y; }
INLINE cv cv_load_next(const void *p) { return cv_load(p); }
INLINE void cv_store(uint8_t *p, cv a) { memcpy(p, &a, sizeof a); }
#define BYTES(expr)                                                                                \
    do {                                                                                           \
        for (int b = 0; b < 64; b++) y.v[b] = (uint8_t)(expr);                                     \
        return y;                                                                                  \
    } while (0)
INLINE cv cv_and(cv a, int mask) { cv y; BYTES(a.v[b] & mask); }
INLINE cv cv_or_and(cv a, cv c, int mask) { cv y; BYTES(a.v[b] | (c.v[b] & mask)); }
INLINE cv cv_right(cv a, int n) { cv y; BYTES(a.v[b] >> n); }
INLINE cv cv_left(cv a, int n) { cv y; BYTES(a.v[b] << n); }
INLINE cv cv_look(const uint8_t *table, cv a) { cv y; BYTES(table[a.v[b]]); }
#undef BYTES

TEMPLATE void cv_dots(int bits, int n, int T, int step, const cv *c, const uint8_t *x,
                      sums_from from, iv *y)
{
    (void)bits;
    for (int t = 0; t < T; t++) {
        iv acc = iv_set(load_i32(from.each + 4 * t));
        for (int i = 0; i < n; i++) {
            int8_t v[4];
            memcpy(v, x + 4 * (i * step + t), 4);
            for (int r = 0; r < 16; r++)
                for (int j = 0; j < 4; j++) acc.v[r] += c[i].v[4 * r + j] * v[j];
        }
        y[t] = acc;
    }
}

#endif
