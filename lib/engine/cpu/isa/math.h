/* math.h - private to isa/: functions of one number, sixteen floats at a time, right to .6 ulp.
 *
 * vf exact_NAME(vf x, const double *p) computes in f64 and rounds once: an error of 2^-30 in f64 is
 * 2^-6 ulp of the float. What wide_NAME(vd) says of relative errors is all there is; f64 holds
 * every float's exponential, so that no tail needs care. NaN gives NaN, and zeros, infinities and
 * what is out of the domain come as in C's libm. A lane's result depends on that lane alone: where
 * some lanes want a longer way, each takes it by itself (patched). p points to the attributes.
 *
 * Polynomials are minimax (Remez) fits made for this file; the orders of magnitude beside them are
 * their relative errors. For sums inside larger loops simd.h's vf_exp and vf_tanh (f32, 1e-7) are
 * twice as fast.
 */
#ifndef ZT_CPU_MATH_H
#define ZT_CPU_MATH_H

#include "lib/engine/cpu/isa/doubles.h"

#define COEFFICIENTS(c) c, (int)(sizeof(c) / sizeof(c)[0])

/* ---- exp ------------------------------------------------------------------------------------- */

/* x = n ln 2 + r, |r| <= ln 2 / 2, |x| held below 700: returns exp(r) - 1 (2^-32), *n in the lowest
 * bits, which adding 1.5 2^52 leaves there. A NaN stays one, with n = 0. */
INLINE vd wide_reduced(vd x, vl *n)
{
    static const double c[] = {0.00019914198408633104, 0.0013941011013996099, 0.008333273014120384,
                               0.041666354807917055,   0.16666666817142956,   0.5000000046292348};
    const vd magic = vd_set(0x1.8p52);
    x = vd_min(vd_set(700), vd_max(vd_set(-700), x));
    vd t = vd_fma(x, vd_set(M_LOG2E), magic);
    vd r = vd_fma(vd_sub(t, magic), vd_set(-M_LN2), x);
    *n = vl_of_bits(t);
    return vd_mul(r, vd_fma(r, vd_poly(r, COEFFICIENTS(c)), vd_set(1)));
}

INLINE vd wide_exp(vd x)
{
    vl n;
    vd e = vd_plus(wide_reduced(x, &n), 1);
    return vd_of_bits(vl_add(vl_of_bits(e), vl_left(n, 52)));
}

/* exp(x) - 1, of full relative accuracy near 0, and -0 at -0. */
INLINE vd wide_expm1(vd x)
{
    vl n;
    vd e = wide_reduced(x, &n);
    vd scale = vd_of_bits(vl_add(vl_of_bits(vd_set(1)), vl_left(n, 52)));
    return vd_sub(vd_mul(e, scale), vd_sub(vd_set(1), scale));
}

/* ---- ln -------------------------------------------------------------------------------------- */

/* log(1 + f) for 1 + f between sqrt(1/2) and sqrt(2), 2^-38. */
INLINE vd wide_log1p_near(vd f)
{
    static const double c[] = {-0.0497912025947239,  0.09286207103670217, -0.09303833563377586, 0.09001424256468718,
                               -0.0987873220479173,  0.11108537779535466, -0.12506924048864967, 0.1428608561759578,
                               -0.16666475671968012, 0.19999989861168685, -0.2500000226098224,  0.33333333408414917,
                               -0.4999999999262403};
    return vd_fma(vd_mul(f, f), vd_poly(f, COEFFICIENTS(c)), f);
}

/* x = 2^*e (1 + f) for a normal x > 0: returns f, sqrt(1/2) <= 1 + f < sqrt(2). */
INLINE vd wide_split(vd x, vd *e)
{
    const int64_t root_half = 0x3fe6a09e667f3bcd, zero = (int64_t)1024 << 52;
    vl n = vl_right(vl_add(vl_of_bits(x), vl_set(zero - root_half)), 52); /* e + 1024 */
    *e = vd_plus(vd_of_bits(vl_or(n, vl_of_bits(vd_set(0x1p52)))), -(0x1p52 + 1024));
    return vd_plus(vd_of_bits(vl_sub(vl_add(vl_of_bits(x), vl_set(zero)), vl_left(n, 52))), -1);
}

INLINE vd wide_ln(vd x)
{
    vd e, f = wide_split(x, &e);
    return vd_fma(e, vd_set(M_LN2), wide_log1p_near(f));
}

/* log(1 + x), of full relative accuracy near 0: there f is x itself. */
INLINE vd wide_log1p(vd x)
{
    vd e, f = wide_split(vd_plus(x, 1), &e);
    f = vd_select(vd_lt(vd_abs(e), vd_set(0.5)), x, f);
    return vd_fma(e, vd_set(M_LN2), wide_log1p_near(f));
}

/* What a logarithm y of x gives at and beyond the ends: x below `zero` NaN, there -infinity. */
INLINE vf log_ends(vf x, vf y, float zero)
{
    const vf z = vf_set(zero), inf = vf_set(INFINITY);
    y = vf_select(vf_lt(x, inf), y, x); /* infinity and NaN */
    y = vf_select(vf_eq(x, z), vf_set(-INFINITY), y);
    return vf_select(vf_lt(x, z), vf_set(NAN), y);
}

/* ---- sin, cos -------------------------------------------------------------------------------- */

/* Up to here wide_near is exact enough: n < 2^20 times a part of 33 bits is exact. */
#define TRIG_LIMIT 1e6

/* x - n pi/2, at most pi/4, for |x| < TRIG_LIMIT; pi/2 is taken off in three parts, two of 33 bits,
 * as Cody and Waite have it. *n in the lowest bits. */
INLINE vd wide_near(vd x, vl *n)
{
    const vd magic = vd_set(0x1.8p52);
    vd t = vd_fma(x, vd_set(M_2_PI), magic), whole = vd_sub(t, magic);
    vd r = vd_fma(whole, vd_set(-0x1.921fb544p+0), x);
    r = vd_fma(whole, vd_set(-0x1.0b4611a6p-34), r);
    r = vd_fma(whole, vd_set(-0x1.3198a2e037073p-69), r);
    *n = vl_of_bits(t);
    return r;
}

/* The same for every larger float x = m 2^k, m a whole number of 24 bits. Of 2/pi those bits count
 * that m 2^k times does not come to whole turns, from the (k - 1)th on: 28, whose product with m is
 * exact, 28 more, and 52 (Payne and Hanek). 2/pi has eight zeros before it, lowest byte first. */
INLINE vd wide_far(vd x, vl *n)
{
    static const uint8_t two_over_pi[32] = {0xc5, 0xbb, 0xde, 0xab, 0x63, 0x51, 0xfe, 0x41, 0x90, 0x43, 0x3c,
                                            0x99, 0x95, 0x62, 0xdb, 0xc0, 0xdd, 0x34, 0xf5, 0xd1, 0x57, 0x27,
                                            0xfc, 0x29, 0x15, 0x44, 0x4e, 0x6e, 0x83, 0xf9, 0xa2, 0x00};
    const vd magic = vd_set(0x1.8p52);
    vl bits = vl_of_bits(x), k = vl_sub(vl_right(vl_left(bits, 1), 53), vl_set(1023 + 23));
    vl sign_m = vl_and(bits, vl_set(SIGN64 | 0xfffffffffffff));
    vd m = vd_of_bits(vl_or(sign_m, vl_set((int64_t)(1023 + 23) << 52)));
    vl first = vl_and(vl_add(k, vl_set(6)), vl_set(127)), shift = vl_and(first, vl_set(7));
    vl at = vl_sub(vl_set((int64_t)sizeof two_over_pi - 8), vl_right(first, 3));
    vl word = vl_lefts(vl_look(two_over_pi, at), shift);
    vl rest = vl_lefts(vl_look(two_over_pi, vl_sub(at, vl_set(7))), shift);
    vl middle = vl_and(vl_right(word, 8), vl_set(0xfffffff));
    vd a = vd_mul(m, vd_times(vd_of_whole(vl_right(word, 36)), 0x1p-26));
    vd b = vd_mul(m, vd_times(vd_of_whole(middle), 0x1p-54));
    vd c = vd_mul(m, vd_times(vd_of_whole(vl_right(rest, 12)), 0x1p-106));
    vd t = vd_add(vd_add(a, b), magic);
    *n = vl_of_bits(t);
    vd turns = vd_add(vd_add(vd_sub(a, vd_sub(t, magic)), b), c);
    return vd_times(vd_add(turns, vd_sub(x, x)), M_PI_2); /* NaN of infinity */
}

/* sin and cos of r, |r| <= pi/4 (2^-37 and 2^-32). */
INLINE vd wide_sincos(vd r, vd *cosine)
{
    static const double s[] = {2.7183429927053108e-06, -0.00019839339002910222, 0.008333329403021911, -0.16666666641838818};
    static const double c[] = {2.4438451769608592e-05, -0.0013887367638548507, 0.04166664687237476};
    vd z = vd_mul(r, r);
    *cosine = vd_fma(vd_mul(z, z), vd_poly(z, COEFFICIENTS(c)), vd_fma(z, vd_set(-0.5), vd_set(1)));
    return vd_mul(r, vd_fma(z, vd_poly(z, COEFFICIENTS(s)), vd_set(1)));
}

/* sin(r + (n + turn) pi/2): of n + turn odd the cosine, of 2 and 3 with the sign changed. */
INLINE vd wide_quarter(vd r, vl n, int turn)
{
    vd cosine, sine = wide_sincos(r, &cosine);
    n = vl_add(n, vl_set(turn));
    vd y = vd_choose(vl_left(n, 63), cosine, sine);
    return vd_of_bits(vl_xor(vl_of_bits(y), vl_and(vl_left(n, 62), vl_set(SIGN64))));
}
INLINE vd wide_sin(vd x, int turn)
{
    vl n;
    vd r = wide_near(x, &n);
    return wide_quarter(r, n, turn);
}
INLINE vd wide_sin_far(vd x, int turn)
{
    vl n;
    vd r = wide_far(x, &n);
    return wide_quarter(r, n, turn);
}

INLINE vd wide_tan_quarter(vd r, vl n)
{
    vd cosine, sine = wide_sincos(r, &cosine);
    vl odd = vl_left(n, 63);
    vd y = vd_div(vd_choose(odd, cosine, sine), vd_choose(odd, sine, cosine));
    return vd_of_bits(vl_xor(vl_of_bits(y), vl_and(odd, vl_set(SIGN64))));
}
INLINE vd wide_tan(vd x)
{
    vl n;
    vd r = wide_near(x, &n);
    return wide_tan_quarter(r, n);
}
INLINE vd wide_tan_far(vd x)
{
    vl n;
    vd r = wide_far(x, &n);
    return wide_tan_quarter(r, n);
}

/* ---- the others ------------------------------------------------------------------------------ */

INLINE vd wide_sigmoid(vd x) { return vd_div(vd_set(1), vd_plus(wide_exp(vd_sub(vd_set(0), x)), 1)); }

/* tanh of x >= 0: m / (m + 2), m = exp(2 x) - 1. */
INLINE vd wide_tanh(vd x)
{
    vd m = wide_expm1(vd_min(vd_set(40), vd_add(x, x)));
    return vd_div(m, vd_plus(m, 2));
}

/* exp(-|x|) is held where its square would come to nothing: no float sees it. */
#define SOFTPLUS_LEAST -350
INLINE vd wide_softplus(vd x)
{
    vd u = wide_exp(vd_max(vd_set(SOFTPLUS_LEAST), vd_sub(vd_set(0), vd_abs(x))));
    return vd_add(vd_max(vd_set(0), x), wide_log1p(u));
}

/* erf(|x|) = |x| P(x^2), x^2 from 0 to 15.5 taken to -1 .. 1 (2^-32); beyond it is 1 as a float. */
INLINE vd wide_erf(vd x)
{
    static const double c[] = {6.0222799018212326e-05, -0.00017124480348286103, 0.0001590806363760104, -0.0002914648787218068,
                               0.0010797137639695239,  -0.0023346588975388335,  0.004096239472495066,  -0.007365079236317982,
                               0.0128476766684386,     -0.020684514443273364,   0.03107373342235591,   -0.043928035286757615,
                               0.05857120641526196,    -0.07419240512125139,    0.09055197629658786,   -0.10887459250371775,
                               0.13356889040054465,    -0.17934746451754946,    0.35918096730996346};
    vd a = vd_abs(x), b = vd_min(vd_set(3.9370039370059056), a); /* sqrt(15.5) */
    vd v = vd_fma(vd_mul(b, b), vd_set(2 / 15.5), vd_set(-1));
    return vd_mul(b, vd_poly(v, COEFFICIENTS(c)));
}

/* P(X > a) of a normal X, a >= 0: exp(-a^2/2) t R(t), t = 1 / (1 + a/4), to a = 14.6 (2^-32);
 * beyond nothing is left of it in a float. A size over 40 counts as 40, where the exponential is at its least,
 * and so does NaN: a product of x and this then has one NaN at most, so that its bits do not
 * depend on the order in which a compiler puts the factors. */
INLINE vd wide_tail(vd size)
{
    static const double c[] = {-0.00821056359976691, 0.0416779175796817,    -0.06752744973517522, 0.013551516001964558,
                               0.045632117297657294, -0.029746592529198104, 0.07796414904598552,  0.04960057155077614,
                               0.08461201003663195,  0.09292377924728576,   0.09978914459251131,  0.09973340040593501};
    vd a = vd_min(size, vd_set(40)), b = vd_min(a, vd_set(14.6));
    vd t = vd_div(vd_set(1), vd_fma(b, vd_set(0.25), vd_set(1)));
    vd e = wide_exp(vd_times(vd_mul(a, a), -0.5));
    return vd_mul(vd_mul(vd_poly(t, COEFFICIENTS(c)), t), e);
}

/* ---- arcs ------------------------------------------------------------------------------------ */

/* atan of x >= 0: a polynomial up to 1 (2^-34), beyond it pi/2 - atan(1/x). */
INLINE vd wide_atan(vd x)
{
    static const double c[] = {-0.0006847775688630838, 0.004850863635866253, -0.0161115457484805,  0.034209474092120766,
                               -0.054279037860332204,  0.07245716965327295,  -0.08980239447115296, 0.11093241482729395,
                               -0.14283980796989723,   0.19999912053256422,  -0.33333331571234476, 0.9999999999412911};
    md far = vd_lt(vd_set(1), x);
    vd t = vd_select(far, vd_div(vd_set(1), x), x);
    vd y = vd_mul(t, vd_poly(vd_mul(t, t), COEFFICIENTS(c)));
    return vd_select(far, vd_sub(vd_set(M_PI_2), y), y);
}

/* asin of a from 0 to 1/2 (2^-40). */
INLINE vd wide_asin_near(vd a)
{
    static const double c[] = {0.033174752419378346, 0.0016999597772356396, 0.020768289515271505,
                               0.02183749230460129,  0.030430239361301292,  0.04464043103572061,
                               0.07500006069075127,  0.16666666608419808,   1.0000000000009184};
    return vd_mul(a, vd_poly(vd_mul(a, a), COEFFICIENTS(c)));
}

/* asin a and acos a for a >= 0; past 1/2 acos a = 2 asin sqrt((1 - a) / 2). Past 1 both are NaN. */
INLINE vd wide_arc(vd a, bool cosine)
{
    md far = vd_lt(vd_set(0.5), a);
    vd s = vd_sqrt(vd_times(vd_sub(vd_set(1), a), 0.5));
    vd y = wide_asin_near(vd_select(far, s, a)), twice = vd_add(y, y);
    vd rest = vd_sub(vd_set(M_PI_2), vd_select(far, twice, y));
    return cosine ? vd_select(far, twice, rest) : vd_select(far, rest, y);
}

INLINE vd wide_acos(vd x)
{
    vd y = wide_arc(vd_abs(x), true);
    return vd_choose(vl_of_bits(x), vd_sub(vd_set(M_PI), y), y);
}

/* ---- from sixteen floats to sixteen ---------------------------------------------------------- */

typedef double each(double x, const double *p);

/* y, with the lanes of m one by one through libm. */
static __attribute__((noinline, unused)) vf patched_slowly(unsigned bits, vf x, vf y, each *f, const double *p)
{
    float in[LANES], out[LANES];
    vf_store(in, x);
    vf_store(out, y);
    for (int i = 0; i < LANES; i++)
        if (bits >> i & 1) out[i] = (float)f((double)in[i], p);
    return vf_load(out);
}

INLINE vf patched(vm m, vf x, vf y, each *f, const double *p)
{
    unsigned bits = vm_bits(m);
    return __builtin_expect(bits != 0, 0) ? patched_slowly(bits, x, y, f, p) : y;
}

#define EACH_PART UNROLL_FOR (int k = 0; k < PARTS; k++)

/* exact_NAME: `wide` of the doubles x, then `then` of the floats x and y. */
// clang-format off
#define EXACT(NAME, wide, then)                                                                    \
    INLINE vd part_##NAME(vd x, const double *p)                                                   \
    {                                                                                              \
        (void)p;                                                                                   \
        return wide;                                                                               \
    }                                                                                              \
    INLINE vf exact_##NAME(vf x, const double *p)                                                  \
    {                                                                                              \
        vd part[PARTS];                                                                            \
        EACH_PART part[k] = part_##NAME(vd_part(x, k), p);                                         \
        vf y = vf_join(part);                                                                      \
        return then;                                                                               \
    }
// clang-format on

#define NEGATIVE(x) vd_sub(vd_set(0), x)

EXACT(exp, wide_exp(x), y)
EXACT(expm1, wide_expm1(x), y)
EXACT(ln, wide_ln(x), log_ends(x, y, 0))
EXACT(log1p, wide_log1p(x), vf_copysign(log_ends(x, y, -1), x))
EXACT(tanh, wide_tanh(vd_abs(x)), vf_copysign(y, x))
EXACT(sigmoid, wide_sigmoid(x), y)
EXACT(softplus, wide_softplus(x), y)
EXACT(erf, wide_erf(x), vf_copysign(y, x))

/* Large arguments need more of pi. BY_FAR(op, of the doubles x) for a vector that has such. */
// clang-format off
#define BY_FAR(NAME, wide)                                                                         \
    static __attribute__((noinline, unused)) vf far_##NAME(vf from)                                \
    {                                                                                              \
        vd part[PARTS];                                                                            \
        EACH_PART                                                                                  \
        {                                                                                          \
            vd x = vd_part(from, k);                                                               \
            part[k] = wide;                                                                        \
        }                                                                                          \
        return vf_join(part);                                                                      \
    }
// clang-format on
#define OR_FAR(NAME) __builtin_expect(vm_bits(LARGE(x)) != 0, 0) ? vf_select(LARGE(x), far_##NAME(x), y) : y
#define LARGE(x)     vf_lt(vf_set((float)TRIG_LIMIT), vf_abs(x))
BY_FAR(sin, wide_sin_far(x, 0))
BY_FAR(cos, wide_sin_far(x, 1))
BY_FAR(tan, wide_tan_far(x))
EXACT(sin, wide_sin(x, 0), OR_FAR(sin))
EXACT(cos, wide_sin(x, 1), OR_FAR(cos))
EXACT(tan, wide_tan(x), OR_FAR(tan))

/* x / (1 + exp(-x)), NaN at -infinity as -infinity times 0 is. */
#define NO_LEAST(x, y) vf_select(vf_eq(x, vf_set(-INFINITY)), vf_set(NAN), y)
EXACT(silu, vd_div(x, vd_plus(wide_exp(NEGATIVE(x)), 1)), NO_LEAST(x, y))
/* (1 + tanh u) / 2 is the logistic function of 2 u, u = sqrt(2/pi) (x + 0.044715 x^3). */
EXACT(gelu_tanh,
      vd_div(x, vd_plus(wide_exp(vd_mul(x, vd_fma(vd_mul(x, x), vd_set(-1.5957691216057308 * 0.044715),
                                                  vd_set(-1.5957691216057308)))),
                        1)),
      NO_LEAST(x, y))
INLINE vd wide_gelu_erf(vd x)
{
    vd tail = wide_tail(vd_abs(x));
    return vd_mul(x, vd_choose(vl_of_bits(x), tail, vd_sub(vd_set(1), tail)));
}
EXACT(gelu_erf, wide_gelu_erf(x), NO_LEAST(x, y))

/* x tanh(log(1 + e)) = x n / (n + 2), n = e (e + 2), e = exp(x). */
INLINE vd wide_mish(vd x)
{
    vd e = wide_exp(vd_min(vd_set(40), x)), n = vd_mul(e, vd_plus(e, 2));
    return vd_div(vd_mul(x, n), vd_plus(n, 2));
}
EXACT(mish, wide_mish(x), NO_LEAST(x, y))

/* cosh = (e + 1/e) / 2; sinh |x| = (m + m / (m + 1)) / 2, m = e - 1. */
INLINE vd wide_cosh(vd x)
{
    vd e = wide_exp(vd_abs(x));
    return vd_times(vd_add(e, vd_div(vd_set(1), e)), 0.5);
}
INLINE vd wide_sinh(vd a)
{
    vd m = wide_expm1(a);
    return vd_times(vd_add(m, vd_div(m, vd_plus(m, 1))), 0.5);
}
EXACT(cosh, wide_cosh(x), y)
EXACT(sinh, wide_sinh(vd_abs(x)), vf_copysign(y, x))

/* asinh a = log(1 + a + a^2 / (1 + sqrt(a^2 + 1))), acosh (1 + t) = log(1 + t + sqrt(t (t + 2))),
 * atanh a = log(1 + 2 a / (1 - a)) / 2. */
INLINE vd wide_asinh(vd a)
{
    vd aa = vd_mul(a, a);
    return wide_log1p(vd_add(a, vd_div(aa, vd_plus(vd_sqrt(vd_plus(aa, 1)), 1))));
}
INLINE vd wide_acosh(vd x)
{
    vd t = vd_plus(x, -1);
    return wide_log1p(vd_add(t, vd_sqrt(vd_mul(t, vd_plus(t, 2)))));
}
INLINE vd wide_atanh(vd a) { return vd_times(wide_log1p(vd_div(vd_add(a, a), vd_sub(vd_set(1), a))), 0.5); }
EXACT(asinh, wide_asinh(vd_abs(x)), vf_select(vf_lt(vf_abs(x), vf_set(INFINITY)), vf_copysign(y, x), x))
INLINE vf acosh_ends(vf x, vf y)
{
    y = vf_select(vf_lt(x, vf_set(INFINITY)), y, x);
    return vf_select(vf_lt(x, vf_set(1)), vf_set(NAN), y);
}
EXACT(acosh, wide_acosh(x), acosh_ends(x, y))
INLINE vf atanh_ends(vf x, vf y)
{
    const vf one = vf_set(1), a = vf_abs(x);
    y = vf_select(vf_lt(a, one), y, vf_select(vf_eq(a, one), vf_set(INFINITY), vf_set(NAN)));
    return vf_copysign(y, x);
}
EXACT(atanh, wide_atanh(vd_abs(x)), atanh_ends(x, y))

EXACT(atan, wide_atan(vd_abs(x)), vf_copysign(y, x))
EXACT(asin, wide_arc(vd_abs(x), false), vf_copysign(y, x))
EXACT(acos, wide_acos(x), y)

/* ---- with attributes in p -------------------------------------------------------------------- */

EXACT(elu, vd_select(vd_lt(vd_set(0), x), x, vd_times(wide_expm1(x), p[0])), y)
/* p: alpha, 1 / alpha */
EXACT(celu, vd_select(vd_lt(vd_set(0), x), x, vd_times(wide_expm1(vd_times(x, p[1])), p[0])), y)
/* p: gamma, gamma alpha */
EXACT(selu, vd_select(vd_lt(vd_set(0), x), vd_times(x, p[0]), vd_times(wide_expm1(x), p[1])), y)
EXACT(leaky_relu, vd_select(vd_lt(vd_set(0), x), x, vd_times(x, p[0])), y)
EXACT(plus, vd_plus(x, p[0]), y)
EXACT(times, vd_times(x, p[0]), y)
/* p: cap, 1 / cap */
EXACT(softcap, vd_times(wide_tanh(vd_abs(vd_times(x, p[1]))), p[0]), vf_copysign(y, x))

/* max(0, min(1, x)); NaN stays. */
INLINE vd wide_unit(vd x) { return vd_max(vd_set(0), vd_min(vd_set(1), x)); }
EXACT(hard_sigmoid, wide_unit(vd_plus(vd_times(x, p[0]), p[1])), y)
EXACT(hard_swish, vd_mul(x, wide_unit(vd_plus(vd_times(x, 1 / 6.0), 0.5))), y)
EXACT(softsign, vd_div(x, vd_plus(vd_abs(x), 1)), y)
/* p: lambd, bias */
INLINE vd wide_shrink(vd x, const double *p)
{
    vd none = vd_abs(vd_mul(vd_set(0), vd_min(vd_set(1), vd_max(vd_set(-1), x)))); /* NaN stays */
    vd y = vd_select(vd_lt(x, vd_set(-p[0])), vd_plus(x, p[1]), none);
    return vd_select(vd_lt(vd_set(p[0]), x), vd_plus(x, -p[1]), y);
}
EXACT(shrink, wide_shrink(x, p), y)
/* 0 below p[0], what comes after alpha; NaN stays. */
EXACT(thresholded_relu, vd_select(vd_lt(x, vd_set(p[0])), vd_set(0), x), y)

/* log(log(1 + exp x) + eps), p: eps, and below which x exp is both held and not lost in eps. Near
 * its zero, and below that, by libm. */
static double each_safe_log(double x, const double *p) { return log((x > 0 ? x : 0) + log1p(exp(-fabs(x))) + p[0]); }
INLINE vf safe_log_patched(vf x, vf y, const double *p)
{
    y = vf_select(vf_lt(x, vf_set(INFINITY)), y, x); /* infinity and NaN */
    y = patched(vf_lt(vf_abs(y), vf_set(0x1p-6f)), x, y, each_safe_log, p);
    return patched(vf_lt(x, vf_set((float)p[1])), x, y, each_safe_log, p);
}
EXACT(safe_log, wide_ln(vd_plus(wide_softplus(x), p[0])), safe_log_patched(x, y, p))

/* ---- powers ---------------------------------------------------------------------------------- */

/* |a|^b for a neither 0 nor infinite: b ln |a| is at most 104 where the float is one. */
INLINE vd wide_pow(vd a, vd b) { return wide_exp(vd_mul(b, wide_ln(vd_abs(a)))); }

/* What is neither 0, infinite nor NaN. */
INLINE vm vf_plain(vf x)
{
    vf a = vf_abs(x);
    return vf_lt(vf_select(vf_eq(a, vf_set(0)), vf_set(INFINITY), a), vf_set(INFINITY));
}

/* The sign of a < 0 to a whole power, odd or even; to another NaN. */
INLINE vf pow_sign(vf a, vf b, vf y)
{
    vf half = vf_mul(b, vf_set(0.5f));
    vf odd = vf_select(vf_eq(vf_rint(half), half), y, vf_copysign(y, vf_set(-1)));
    vf whole = vf_select(vf_eq(vf_rint(b), b), odd, vf_set(NAN));
    return vf_select(vf_lt(a, vf_set(0)), whole, y);
}

static __attribute__((noinline, unused)) vf pow_slowly(unsigned bits, vf a, vf b, vf y)
{
    float from[LANES], to[LANES], out[LANES];
    vf_store(from, a);
    vf_store(to, b);
    vf_store(out, y);
    for (int i = 0; i < LANES; i++)
        if (bits >> i & 1) out[i] = (float)pow((double)from[i], (double)to[i]);
    return vf_load(out);
}

INLINE vf exact_pow(vf a, vf b)
{
    vd part[PARTS];
    EACH_PART part[k] = wide_pow(vd_part(a, k), vd_part(b, k));
    vf y = vf_join(part);
    unsigned rest = ~(vm_bits(vf_plain(a)) & vm_bits(vf_lt(vf_abs(b), vf_set(INFINITY)))) & 0xffff;
    y = pow_sign(a, b, y);
    return __builtin_expect(rest != 0, 0) ? pow_slowly(rest, a, b, y) : y;
}

/* The same of one exponent, p: the exponent; 0 where it is whole and even, 1 whole and odd, 2 not;
 * and what 0 gives. */
static double each_pow(double x, const double *p) { return pow(x, p[0]); }
INLINE vf pow_scalar_ends(vf x, vf y, const double *p)
{
    vf below = p[1] == 0 ? y : p[1] == 1 ? vf_copysign(y, vf_set(-1)) : vf_set(NAN);
    vf none = vf_set((float)p[2]);
    y = vf_select(vf_lt(x, vf_set(0)), below, y);
    y = vf_select(vf_eq(x, vf_set(0)), p[1] == 1 ? vf_copysign(none, x) : none, y);
    vf size = vf_select(vf_lt(vf_abs(x), vf_set(INFINITY)), vf_set(1), vf_set(0));
    return patched(vf_eq(size, vf_set(0)), x, y, each_pow, p);
}
EXACT(pow_scalar, wide_pow(x, vd_set(p[0])), pow_scalar_ends(x, y, p))

/* ---- roots ----------------------------------------------------------------------------------- */

EXACT(rsqrt, vd_div(vd_set(1), vd_sqrt(x)), y)

#endif
