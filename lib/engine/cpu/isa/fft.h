/* fft.h - private to isa/: the discrete Fourier transform of n complex numbers, in f64.
 *
 * Stockham's passes of radix 4, 2, 3, 5, 7, 11 and 13 (C. Van Loan, "Computational Frameworks for
 * the FFT", 1992); where n has another prime factor, Bluestein's convolution of a power of two ("A
 * linear filtering approach to the computation of discrete Fourier transform", 1970). All that a
 * transform needs is made once, in memory that is given: fft_keep(n) complex numbers.
 */
#ifndef ZT_ISA_FFT_H
#define ZT_ISA_FFT_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

typedef struct cplx {
    double re, im;
} cplx;

enum { FFT_MOST_RADIX = 13 };

INLINE cplx cplx_mul(cplx a, cplx b) { return (cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

static inline int fft_radix(int64_t n)
{
    static const int radix[] = {4, 2, 3, 5, 7, 11, 13};
    for (int i = 0; i < (int)(sizeof radix / sizeof radix[0]); i++)
        if (n % radix[i] == 0) return radix[i];
    return 0;
}

/* Bluestein's length: a power of two from 2n - 1 on; 0 where radices do. */
static inline int64_t fft_padded(int64_t n)
{
    int64_t rest = n, m = 1;
    while (rest > 1 && fft_radix(rest)) rest /= fft_radix(rest);
    if (rest <= 1) return 0;
    while (m < 2 * n - 1) m *= 2;
    return m;
}

/* Complex numbers to keep for n, and of scratch for a transform. */
static inline int64_t fft_keep(int64_t n)
{
    int64_t m = fft_padded(n);
    return m ? 2 * m + n : n;
}
static inline int64_t fft_scratch(int64_t n)
{
    int64_t m = fft_padded(n);
    return m ? 2 * m : n;
}

/* exp(-2 pi i k / n) for k below n */
static inline void fft_roots(cplx *w, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        double angle = 2 * M_PI * (double)k / (double)n;
        w[k] = (cplx){cos(angle), -sin(angle)};
    }
}

INLINE void fft_four(const cplx *x, int64_t step, cplx *y, int64_t s, const cplx w[4])
{
    for (int64_t q = 0; q < s; q++) {
        cplx a = x[q], b = x[q + step], c = x[q + 2 * step], d = x[q + 3 * step];
        cplx ac = {a.re + c.re, a.im + c.im}, a_c = {a.re - c.re, a.im - c.im};
        cplx bd = {b.re + d.re, b.im + d.im}, b_d = {b.im - d.im, d.re - b.re}; /* -i (b - d) */
        y[q] = (cplx){ac.re + bd.re, ac.im + bd.im};
        y[q + s] = cplx_mul(w[1], (cplx){a_c.re + b_d.re, a_c.im + b_d.im});
        y[q + 2 * s] = cplx_mul(w[2], (cplx){ac.re - bd.re, ac.im - bd.im});
        y[q + 3 * s] = cplx_mul(w[3], (cplx){a_c.re - b_d.re, a_c.im - b_d.im});
    }
}

INLINE void fft_two(const cplx *x, int64_t step, cplx *y, int64_t s, const cplx w[2])
{
    for (int64_t q = 0; q < s; q++) {
        cplx a = x[q], b = x[q + step];
        y[q] = (cplx){a.re + b.re, a.im + b.im};
        y[q + s] = cplx_mul(w[1], (cplx){a.re - b.re, a.im - b.im});
    }
}

/* r numbers by the definition; e[k] = exp(-2 pi i k / r). */
INLINE void fft_any(int r, const cplx *x, int64_t step, cplx *y, int64_t s, const cplx *w, const cplx *e)
{
    for (int64_t q = 0; q < s; q++)
        for (int j = 0; j < r; j++) {
            cplx sum = x[q];
            for (int k = 1; k < r; k++) {
                cplx t = cplx_mul(x[q + k * step], e[j * k % r]);
                sum.re += t.re;
                sum.im += t.im;
            }
            y[q + j * s] = cplx_mul(w[j], sum);
        }
}

/* x becomes its transform; w the roots of n, which radices make up; scratch n. */
static inline void fft_radices(cplx *x, int64_t n, const cplx *w, cplx *scratch)
{
    cplx *from = x, *to = scratch, turn[FFT_MOST_RADIX], e[FFT_MOST_RADIX];
    for (int64_t left = n, s = 1; left > 1;) {
        int r = fft_radix(left);
        int64_t m = left / r;
        for (int k = 0; k < r; k++) e[k] = w[k * (n / r)];
        for (int64_t p = 0; p < m; p++) {
            const cplx *a = from + s * p;
            cplx *b = to + s * r * p;
            for (int j = 0; j < r; j++) turn[j] = w[j * p * s]; /* below n: j p < left */
            if (r == 4)
                fft_four(a, s * m, b, s, turn);
            else if (r == 2)
                fft_two(a, s * m, b, s, turn);
            else
                fft_any(r, a, s * m, b, s, turn, e);
        }
        cplx *was = from;
        from = to;
        to = was;
        left = m;
        s *= r;
    }
    if (from != x) memcpy(x, from, (size_t)n * sizeof *x);
}

/* exp(-pi i k^2 / n) */
static inline cplx fft_chirp(int64_t k, int64_t n)
{
    double angle = M_PI * (double)(k * k % (2 * n)) / (double)n;
    return (cplx){cos(angle), -sin(angle)};
}

/* What is kept: the roots of n; else those of m, the transformed chirp of m, the chirp of n. */
static inline void fft_prime(cplx *keep, int64_t n, cplx *scratch)
{
    int64_t m = fft_padded(n);
    fft_roots(keep, m ? m : n);
    if (!m) return;
    cplx *chirp = keep + m, *own = keep + 2 * m;
    memset(chirp, 0, (size_t)m * sizeof *chirp);
    for (int64_t k = 0; k < n; k++) {
        own[k] = fft_chirp(k, n);
        chirp[k] = chirp[(m - k) % m] = (cplx){own[k].re, -own[k].im};
    }
    fft_radices(chirp, m, keep, scratch);
}

/* j k = (j^2 + k^2 - (j - k)^2) / 2: a convolution with the chirp. */
static inline void fft_bluestein(cplx *x, int64_t n, int64_t m, const cplx *keep, cplx *scratch)
{
    const cplx *chirp = keep + m, *own = keep + 2 * m;
    cplx *z = scratch;
    memset(z, 0, (size_t)m * sizeof *z);
    for (int64_t k = 0; k < n; k++) z[k] = cplx_mul(x[k], own[k]);
    fft_radices(z, m, keep, scratch + m);
    for (int64_t k = 0; k < m; k++) {
        cplx p = cplx_mul(z[k], chirp[k]);
        z[k] = (cplx){p.re, -p.im}; /* back by the transform of the conjugate */
    }
    fft_radices(z, m, keep, scratch + m);
    for (int64_t k = 0; k < n; k++) {
        cplx p = {z[k].re / (double)m, -z[k].im / (double)m};
        x[k] = cplx_mul(p, own[k]);
    }
}

/* x [n] becomes its transform, or with exp(+2 pi i j k / n) that of the inverse, without a scale.
 */
static inline void fft_run(cplx *x, int64_t n, bool inverse, const cplx *keep, cplx *scratch)
{
    int64_t m = fft_padded(n);
    for (int64_t k = 0; k < n && inverse; k++) x[k].im = -x[k].im;
    if (m)
        fft_bluestein(x, n, m, keep, scratch);
    else
        fft_radices(x, n, keep, scratch);
    for (int64_t k = 0; k < n && inverse; k++) x[k].im = -x[k].im;
}

#endif
