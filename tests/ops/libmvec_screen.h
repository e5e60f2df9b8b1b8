/* libmvec_screen.h - the functions of one number once more, eight doubles at a time with glibc's libmvec
 * (4 ulp of f64 at the most), for the test of all floats: one screen for each row whose own loop
 * takes long. Where it finds an error above 1 ulp the row itself is asked, and it is held to the
 * row at a sample, so that it decides nothing. AVX-512 and glibc from 2.35 on; else there is none.
 */
#ifndef ZT_LIBMVEC_SCREEN_H
#define ZT_LIBMVEC_SCREEN_H

#include "lib/ops/ops.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* want[i] = the function of x[i], for i < n, which 8 divides. */
typedef void screen(const void *attrs, const float *x, double *want, int n);

#if defined(__x86_64__) && defined(__GLIBC__) && defined(ZT_HAVE_AVX512)
#if __GLIBC_PREREQ(2, 35)
#define ZT_SCREENS 1
#endif
#endif

#if defined(ZT_SCREENS)
#include <immintrin.h>

#define WITH_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma")))
#define INLINE512   static inline WITH_AVX512 __attribute__((always_inline, unused))

typedef __m512d v8;
v8 WITH_AVX512 _ZGVeN8v_exp(v8), _ZGVeN8v_expm1(v8), _ZGVeN8v_log(v8), _ZGVeN8v_log1p(v8);
v8 WITH_AVX512 _ZGVeN8v_sin(v8), _ZGVeN8v_cos(v8), _ZGVeN8v_tan(v8), _ZGVeN8v_tanh(v8);
v8 WITH_AVX512 _ZGVeN8v_erf(v8), _ZGVeN8v_erfc(v8), _ZGVeN8v_asin(v8), _ZGVeN8v_acos(v8);
v8 WITH_AVX512 _ZGVeN8v_atan(v8), _ZGVeN8v_sinh(v8), _ZGVeN8v_cosh(v8), _ZGVeN8v_asinh(v8);
v8 WITH_AVX512 _ZGVeN8v_acosh(v8), _ZGVeN8v_atanh(v8), _ZGVeN8vv_pow(v8, v8);

INLINE512 v8 all(double x) { return _mm512_set1_pd(x); }
INLINE512 v8 size(v8 x) { return _mm512_abs_pd(x); }
INLINE512 __mmask8 less(v8 a, v8 b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
INLINE512 v8 pick(__mmask8 m, v8 a, v8 b) { return _mm512_mask_blend_pd(m, b, a); }
/* x between lo and hi; a NaN stays. libmvec goes one by one where a double overflows. */
INLINE512 v8 held(v8 x, double lo, double hi) { return _mm512_min_pd(all(hi), _mm512_max_pd(all(lo), x)); }

INLINE512 v8 s_exp(v8 x)
{
    v8 y = _ZGVeN8v_exp(held(x, -700, 700));
    return pick(less(x, all(-700)), all(0), y); /* 0, not 1e-304: its sign is looked at */
}
INLINE512 v8 s_expm1(v8 x) { return _ZGVeN8v_expm1(held(x, -700, 700)); }

/* f between lo and hi, what it comes to at both, NaN beyond: libmvec goes one by one there. */
INLINE512 v8 inside(v8 x, double lo, double hi, double at_lo, double at_hi, v8 f(v8))
{
    __mmask8 in = less(all(lo), x) & less(x, all(hi));
    v8 end = pick(_mm512_cmp_pd_mask(x, all(lo), _CMP_EQ_OQ), all(at_lo), all(NAN));
    end = pick(_mm512_cmp_pd_mask(x, all(hi), _CMP_EQ_OQ), all(at_hi), end);
    return pick(in, f(pick(in, x, all(lo < 0 ? 0 : lo + 0.5))), end);
}
INLINE512 v8 s_ln(v8 x) { return inside(x, 0, INFINITY, -INFINITY, INFINITY, _ZGVeN8v_log); }
INLINE512 v8 s_log1p(v8 x) { return inside(x, -1, INFINITY, -INFINITY, INFINITY, _ZGVeN8v_log1p); }
INLINE512 v8 s_asin(v8 x) { return inside(x, -1, 1, -M_PI_2, M_PI_2, _ZGVeN8v_asin); }
INLINE512 v8 s_acos(v8 x) { return inside(x, -1, 1, M_PI, 0, _ZGVeN8v_acos); }
INLINE512 v8 s_atanh(v8 x) { return inside(x, -1, 1, -INFINITY, INFINITY, _ZGVeN8v_atanh); }
INLINE512 v8 s_acosh(v8 x) { return inside(x, 1, INFINITY, 0, INFINITY, _ZGVeN8v_acosh); }

/* exp(-|x|) is held where its square would come to nothing. */
INLINE512 v8 s_softplus(v8 x)
{
    v8 u = _ZGVeN8v_exp(_mm512_max_pd(all(-350), all(0) - size(x)));
    return _mm512_max_pd(all(0), x) + _ZGVeN8v_log1p(u);
}
/* 1 / (1 + exp(-x)) */
INLINE512 v8 s_logistic(v8 x) { return all(1) / (all(1) + _ZGVeN8v_exp(held(-x, -700, 700))); }
INLINE512 v8 s_gelu_tanh(v8 x)
{
    v8 u = all(0.7978845608028654) * (x + all(0.044715) * x * x * x);
    return x * s_logistic(u + u); /* (1 + tanh u) / 2 */
}
INLINE512 v8 s_gelu_erf(v8 x) { return all(0.5) * x * _ZGVeN8v_erfc(x * all(-M_SQRT1_2)); }
/* Powers of negative numbers are told by the exponent; 0, infinity and NaN go one by one. */
INLINE512 v8 s_pow(v8 x, double e)
{
    v8 y = _ZGVeN8vv_pow(size(x), all(e));
    if (rint(e) != e) return pick(less(x, all(0)), all(NAN), y);
    return rint(e / 2) == e / 2 ? y : _mm512_or_pd(y, _mm512_and_pd(x, all(-0.0)));
}

/* SCREEN(op, y of the eight doubles x; a: the attributes) */
// clang-format off
#define SCREEN(NAME, Y)                                                                            \
    static WITH_AVX512 void screen_##NAME(const void *attrs, const float *from, double *want,      \
                                          int n)                                                   \
    {                                                                                              \
        const zt_##NAME##_attrs *a = attrs;                                                        \
        (void)a;                                                                                   \
        for (int i = 0; i < n; i += 8) {                                                           \
            v8 x = _mm512_cvtps_pd(_mm256_loadu_ps(from + i));                                     \
            _mm512_storeu_pd(want + i, Y);                                                         \
        }                                                                                          \
    }
// clang-format on
SCREEN(exp, s_exp(x))
SCREEN(expm1, s_expm1(x))
SCREEN(log, s_ln(x))
SCREEN(log1p, s_log1p(x))
SCREEN(sin, _ZGVeN8v_sin(x))
SCREEN(cos, _ZGVeN8v_cos(x))
SCREEN(tan, _ZGVeN8v_tan(x))
SCREEN(tanh, _ZGVeN8v_tanh(x))
SCREEN(sigmoid, s_logistic(x))
SCREEN(silu, x *s_logistic(x))
SCREEN(gelu, strcmp(a->form.s, "erf") ? s_gelu_tanh(x) : s_gelu_erf(x))
SCREEN(softplus, s_softplus(x))
SCREEN(safe_log, _ZGVeN8v_log(s_softplus(x) + all(a->eps)))
SCREEN(mish, x *_ZGVeN8v_tanh(s_softplus(x)))
SCREEN(erf, _ZGVeN8v_erf(x))
SCREEN(softcap, all(a->cap) * _ZGVeN8v_tanh(x / all(a->cap)))
SCREEN(elu, pick(less(all(0), x), x, all(a->alpha) * s_expm1(x)))
SCREEN(celu, pick(less(all(0), x), x, all(a->alpha) * s_expm1(x / all(a->alpha))))
SCREEN(selu, all(a->gamma) * pick(less(all(0), x), x, all(a->alpha) * s_expm1(x)))
SCREEN(asin, s_asin(x))
SCREEN(acos, s_acos(x))
SCREEN(atan, _ZGVeN8v_atan(x))
SCREEN(sinh, _ZGVeN8v_sinh(held(x, -700, 700)))
SCREEN(cosh, _ZGVeN8v_cosh(held(x, -700, 700)))
SCREEN(asinh, _ZGVeN8v_asinh(x))
SCREEN(acosh, s_acosh(x))
SCREEN(atanh, s_atanh(x))
SCREEN(rsqrt, all(1) / _mm512_sqrt_pd(x))
SCREEN(pow_scalar, s_pow(x, a->exponent))

#define SCREENED(NAME) [ZT_OP_##NAME] = screen_##NAME
static screen *const screens[ZT_OP_COUNT] = {
    SCREENED(exp),   SCREENED(expm1),    SCREENED(log),      SCREENED(log1p),   SCREENED(sin),        SCREENED(cos),
    SCREENED(tan),   SCREENED(tanh),     SCREENED(sigmoid),  SCREENED(silu),    SCREENED(gelu),       SCREENED(erf),
    SCREENED(mish),  SCREENED(softplus), SCREENED(safe_log), SCREENED(softcap), SCREENED(elu),        SCREENED(celu),
    SCREENED(selu),  SCREENED(asin),     SCREENED(acos),     SCREENED(atan),    SCREENED(sinh),       SCREENED(cosh),
    SCREENED(asinh), SCREENED(acosh),    SCREENED(atanh),    SCREENED(rsqrt),   SCREENED(pow_scalar),
};

/* ---- the judge ------------------------------------------------------------------------------- */

/* unary.c's error_of, eight at a time. */
INLINE512 v8 s_error(__m256 got, v8 want)
{
    const v8 top = all(0x1p128), sign = all(-0.0);
    v8 g = _mm512_cvtps_pd(got), to = size(want);
    __mmask8 beyond = _mm512_cmp_pd_mask(to, all(0x1.ffffffp127), _CMP_GE_OQ);
    v8 w = pick(beyond, _mm512_or_pd(_mm512_and_pd(sign, want), top), want);
    v8 is = _mm512_or_pd(_mm512_and_pd(sign, g), _mm512_min_pd(top, size(g)));
    __m512i ulp = _mm512_slli_epi64(_mm512_srli_epi64(_mm512_castpd_si512(to), 52), 52);
    ulp = _mm512_sub_epi64(ulp, _mm512_set1_epi64((int64_t)23 << 52));
    ulp = _mm512_max_epi64(ulp, _mm512_castpd_si512(all(0x1p-149)));
    ulp = _mm512_mask_blend_epi64(beyond, ulp, _mm512_castpd_si512(all(0x1p103)));
    v8 by = _mm512_castsi512_pd(_mm512_sub_epi64(_mm512_set1_epi64((int64_t)2046 << 52), ulp));
    v8 e = size(is - w) * by;
    __mmask8 flipped = _mm512_movepi64_mask(_mm512_castpd_si512(_mm512_xor_pd(g, want)));
    __mmask8 got_nan = _mm512_cmp_pd_mask(g, g, _CMP_UNORD_Q);
    __mmask8 nan = _mm512_cmp_pd_mask(want, want, _CMP_UNORD_Q);
    __mmask8 none = _mm512_cmp_pd_mask(g, all(0), _CMP_EQ_OQ);
    __mmask8 zero = _mm512_cmp_pd_mask(want, all(0), _CMP_EQ_OQ);
    __mmask8 unlike = (nan ^ got_nan) | (none & flipped) | (zero & ~none);
    return pick(nan & got_nan, all(0), pick(unlike, all(INFINITY), e));
}

/* The largest error of n, which 8 divides. */
static WITH_AVX512 double screen_worst(const float *got, const double *want, int n)
{
    v8 worst = all(0);
    for (int i = 0; i < n; i += 8) worst = _mm512_max_pd(worst, s_error(_mm256_loadu_ps(got + i), _mm512_loadu_pd(want + i)));
    return _mm512_reduce_max_pd(worst);
}
#else
static screen *const screens[ZT_OP_COUNT];
static double screen_worst(const float *got, const double *want, int n)
{
    (void)got, (void)want, (void)n;
    return INFINITY; /* look at each */
}
#endif
#endif
