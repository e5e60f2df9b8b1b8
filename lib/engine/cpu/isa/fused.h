/* fused.h - private to isa/: a * b + c rounded once, in plain C, to the bits of the processor's instruction.
 *
 * The product of two floats is exact in a double. Its sum with c is rounded to odd: where it is not exact, the double whose
 * last bit is 1 is taken of the two around it. A double has more than two bits more than a float, so that rounding it to a
 * float then gives what rounding the exact sum once gives (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
 * proved algorithms using rounding to odd", 2008), for subnormal floats too.
 */
#ifndef ZT_CPU_FUSED_H
#define ZT_CPU_FUSED_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* a * b + c, rounded to odd where it is not exact. */
static inline double odd_sum(float a, float b, float c)
{
    const double product = (double)a * (double)b, addend = (double)c, sum = product + addend;
    /* What the sum's rounding left out (Knuth's two-sum). NaN where the sum is not finite: then nothing is adjusted. */
    const double part = sum - product, left_out = (product - (sum - part)) + (addend - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    const uint64_t inexact = (left_out > 0) | (left_out < 0), away = (left_out > 0) == (sum > 0);
    bits += inexact & ~bits & 1 ? (away ? 1 : UINT64_MAX) : 0;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

static inline float fused_f32(float a, float b, float c)
{
#if defined(__FP_FAST_FMAF) /* every processor that this is compiled for has the instruction */
    return fmaf(a, b, c);
#else
    return (float)odd_sum(a, b, c);
#endif
}

/* 0 for a subnormal number, its sign kept. */
static inline float flushed_f32(float a) { return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a; }

/* The same between flush_begin and flush_end (denormals.h): subnormal operands are 0, and so is a result that is below the
 * least normal number after rounding to 24 bits. Half a unit of these below 2^-126 rounds to 2^-126. */
static inline float fused_flushed_f32(float a, float b, float c)
{
    const double sum = odd_sum(flushed_f32(a), flushed_f32(b), flushed_f32(c));
    return fabs(sum) < 0x1p-126 - 0x1p-151 ? (float)copysign(0, sum) : (float)sum;
}

static inline double fused_f64(double a, double b, double c) { return fma(a, b, c); }

#endif
