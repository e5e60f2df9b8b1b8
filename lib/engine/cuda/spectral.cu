/* spectral.cu - discrete Fourier transforms. A line whose length is a power of two is a block's, in
 * shared memory, by Stockham's radix 2; of other lengths a thread sums each number, in f64. */
#include "lib/engine/cuda/args_spectral.h"
#include "lib/engine/cuda/values.h"

enum { THREADS = 256 };

template <class W> struct pair {
    W re, im;
};

KERNEL_OF(zt_cu_phases, zt_cu_phases_args, THREADS)
{
    for (int64_t j = first(); j < a.n; j += stride()) {
        const double angle = 6.283185307179586476925 * (double)j / (double)a.n;
        PTR(double, a.t)[2 * j] = cos(angle);
        PTR(double, a.t)[2 * j + 1] = sin(angle);
    }
}

FN double to_double(int t, zt_cu_ptr x, int64_t i)
{
    return is_f64(t) ? load_as<double>(t, x, i) : (double)load_as<float>(t, x, i);
}
FN void from_double(int t, zt_cu_ptr y, int64_t i, double v)
{
    store_value(t, y, i, to_float(t, v));
}

/* ---- a line's numbers --------------------------------------------------------------------------
 */

FN int64_t bins(int64_t n) { return n / 2 + 1; }
FN bool is_end(int64_t k, int64_t n) { return k == 0 || 2 * k == n; }

/* Entry j of line l as it goes into the transform. */
FN pair<double> entry_of(const zt_cu_dft_args &a, int64_t l, int64_t j)
{
    if (a.kind == ZT_CU_OF_PAIRS) {
        if (j >= a.given) return pair<double>{0, 0};
        const int64_t at = 2 * ((l / a.inner * a.given + j) * a.inner + l % a.inner);
        return pair<double>{to_double(a.type, a.x, at), to_double(a.type, a.x, at + 1)};
    }
    if (a.kind == ZT_CU_TO_BINS) return pair<double>{to_double(a.type, a.x, l * a.n + j), 0};
    if (j >= bins(a.n)) return pair<double>{0, 0};
    const int64_t at = 2 * (l * bins(a.n) + j);
    const double by = a.twice && !is_end(j, a.n) ? 2 : 1;
    const double im = a.twice && is_end(j, a.n) ? 0 : to_double(a.type, a.x, at + 1);
    return pair<double>{by * to_double(a.type, a.x, at), by * im};
}

/* How many numbers a line gives, and where the k-th goes. */
FN int64_t results(const zt_cu_dft_args &a) { return a.kind == ZT_CU_TO_BINS ? bins(a.n) : a.n; }

FN void put_result(const zt_cu_dft_args &a, int64_t l, int64_t k, double re, double im)
{
    if (a.kind == ZT_CU_OF_BINS) {
        from_double(a.type, a.y, l * a.n + k, a.scale * re);
        return;
    }
    const bool half = a.kind == ZT_CU_TO_BINS, end = half && a.twice && is_end(k, a.n);
    const double by = half && a.twice && !end ? 2 * a.scale : a.scale;
    const int64_t at =
        half ? 2 * (l * bins(a.n) + k) : 2 * ((l / a.inner * a.n + k) * a.inner + l % a.inner);
    from_double(a.type, a.y, at, by * re);
    from_double(a.type, a.y, at + 1, end ? 0 : by * im);
}

/* ---- before and behind cuFFT -------------------------------------------------------------------
 */

/* y = the lines as it takes them: pairs or real numbers, of bins those inside once, ends real. */
template <class W> FN void lines_before(const zt_cu_dft_args &a)
{
    const bool real = a.kind == ZT_CU_TO_BINS, half = a.kind == ZT_CU_OF_BINS;
    const int64_t width = half ? bins(a.n) : a.n;
    for (int64_t e = first(); e < a.lines * width; e += stride()) {
        const int64_t l = e / width, j = e % width;
        const pair<double> x = entry_of(a, l, j);
        if (real) {
            PTR(W, a.y)[e] = (W)x.re;
            continue;
        }
        const double by = half && !is_end(j, a.n) ? 0.5 : 1;
        PTR(W, a.y)[2 * e] = (W)(by * x.re);
        PTR(W, a.y)[2 * e + 1] = half && is_end(j, a.n) ? W(0) : (W)(by * x.im);
    }
}
KERNEL_OF_FLOATS(zt_cu_fft_before, zt_cu_dft_args, THREADS, a.type, lines_before)

/* What it gave, at x, into y: these may be one. */
template <class W> FN void lines_behind(const zt_cu_dft_args &a)
{
    const int64_t width = results(a);
    for (int64_t e = first(); e < a.lines * width; e += stride()) {
        const bool real = a.kind == ZT_CU_OF_BINS;
        const double re = (double)PTR(const W, a.x)[real ? e : 2 * e];
        const double im = real ? 0 : (double)PTR(const W, a.x)[2 * e + 1];
        put_result(a, e / width, e % width, re, im);
    }
}
KERNEL_OF_FLOATS(zt_cu_fft_behind, zt_cu_dft_args, THREADS, a.type, lines_behind)

/* ---- any length --------------------------------------------------------------------------------
 */

KERNEL_OF(zt_cu_dft_sums, zt_cu_dft_args, THREADS)
{
    const double *t = PTR(const double, a.t), sign = a.inverse ? 1 : -1;
    const int64_t each = results(a);
    for (int64_t e = first(); e < a.lines * each; e += stride()) {
        const int64_t k = e % each, l = e / each;
        double re = 0, im = 0;
        int64_t turn = 0; /* j k mod n */
        for (int64_t j = 0; j < a.n; j++) {
            const pair<double> x = entry_of(a, l, j);
            const double c = t[2 * turn], s = sign * t[2 * turn + 1];
            re += x.re * c - x.im * s;
            im += x.im * c + x.re * s;
            turn += k;
            if (turn >= a.n) turn -= a.n;
        }
        put_result(a, l, k, re, im);
    }
}

/* ---- powers of two -----------------------------------------------------------------------------
 */

/* Each stage joins transforms of `done` into ones of twice as many, from one half of the room into
 * the other; Govindaraju and others, "High Performance Discrete Fourier Transforms on Graphics
 * Processors" (2008). */
template <class W> FN void fft_line(const zt_cu_dft_args &a, int64_t l, pair<W> *from, pair<W> *to)
{
    const double *t = PTR(const double, a.t);
    const int n = (int)a.n, half = n / 2;
    const W sign = a.inverse ? W(1) : W(-1);
    for (int j = thread(); j < n; j += THREADS) {
        const pair<double> x = entry_of(a, l, j);
        from[j] = pair<W>{(W)x.re, (W)x.im};
    }
    for (int done = 1; done < n; done *= 2) {
        barrier();
        for (int j = thread(); j < half; j += THREADS) {
            const int k = j % done, at = j / done * 2 * done + k, turn = k * (half / done);
            const W c = (W)t[2 * turn], s = sign * (W)t[2 * turn + 1];
            const pair<W> u = from[j], x = from[j + half];
            const pair<W> v = {x.re * c - x.im * s, x.im * c + x.re * s};
            to[at] = pair<W>{u.re + v.re, u.im + v.im};
            to[at + done] = pair<W>{u.re - v.re, u.im - v.im};
        }
        pair<W> *swap = from;
        from = to;
        to = swap;
    }
    barrier();
    for (int k = thread(); k < results(a); k += THREADS)
        put_result(a, l, k, (double)from[k].re, (double)from[k].im);
    barrier();
}

KERNEL_OF(zt_cu_fft, zt_cu_dft_args, THREADS)
{
    SHARED(pair<float>, room, [2][ZT_CU_FFT_F32]);
    for (int64_t l = block(); l < a.lines; l += blocks()) fft_line(a, l, room[0], room[1]);
}
KERNEL_OF(zt_cu_fft_f64, zt_cu_dft_args, THREADS)
{
    SHARED(pair<double>, room, [2][ZT_CU_FFT_F64]);
    for (int64_t l = block(); l < a.lines; l += blocks()) fft_line(a, l, room[0], room[1]);
}

/* ---- the spectral convolution ------------------------------------------------------------------
 */

/* What bin k counts for in the inverse. */
FN double bin_weight(int64_t k, int64_t n) { return (is_end(k, n) ? 1 : 2) / (double)n; }

KERNEL_OF(zt_cu_bins, zt_cu_bins_args, THREADS)
{
    const double *t = PTR(const double, a.t);
    for (int64_t e = first(); e < a.B * a.modes * a.C; e += stride()) {
        const int64_t c = e % a.C, k = e / a.C % a.modes, b = e / a.C / a.modes;
        double re = 0, im = 0;
        int64_t turn = 0;
        for (int64_t j = 0; j < a.n; j++) {
            const double x = to_double(a.type, a.x, (b * a.n + j) * a.C + c);
            re += x * t[2 * turn];
            im -= x * t[2 * turn + 1];
            turn += k;
            if (turn >= a.n) turn -= a.n;
        }
        const double by = a.weigh ? bin_weight(k, a.n) : 1;
        PTR(double, a.z)[2 * e] = by * re;
        PTR(double, a.z)[2 * e + 1] = a.weigh && is_end(k, a.n) ? 0 : by * im;
    }
}

KERNEL_OF(zt_cu_waves, zt_cu_bins_args, THREADS)
{
    const double *t = PTR(const double, a.t), *z = PTR(const double, a.z);
    for (int64_t e = first(); e < a.B * a.n * a.C; e += stride()) {
        const int64_t c = e % a.C, j = e / a.C % a.n, b = e / a.C / a.n;
        double sum = 0;
        int64_t turn = 0;
        for (int64_t k = 0; k < a.modes; k++) {
            const int64_t at = 2 * ((b * a.modes + k) * a.C + c);
            sum += z[at] * t[2 * turn] - z[at + 1] * t[2 * turn + 1];
            turn += j;
            if (turn >= a.n) turn -= a.n;
        }
        from_double(a.type, a.x, e, sum);
    }
}

/* z = the modes of whole spectra. */
template <class W> FN void modes_of(const zt_cu_bins_args &a)
{
    for (int64_t e = first(); e < a.B * a.modes * a.C; e += stride()) {
        const int64_t c = e % a.C, k = e / a.C % a.modes, b = e / a.C / a.modes;
        const W *x = PTR(const W, a.t) + 2 * ((b * bins(a.n) + k) * a.C + c);
        const double by = a.weigh ? bin_weight(k, a.n) : 1;
        PTR(double, a.z)[2 * e] = by * (double)x[0];
        PTR(double, a.z)[2 * e + 1] = a.weigh && is_end(k, a.n) ? 0 : by * (double)x[1];
    }
}
KERNEL_OF_FLOATS(zt_cu_fft_modes, zt_cu_bins_args, THREADS, a.type, modes_of)

/* Whole spectra of the modes at z: bins inside count twice for cuFFT, so here they are halved. */
template <class W> FN void spectra_of(const zt_cu_bins_args &a)
{
    const int64_t half = bins(a.n);
    for (int64_t e = first(); e < a.B * half * a.C; e += stride()) {
        const int64_t c = e % a.C, k = e / a.C % half, b = e / a.C / half;
        const double *z = PTR(const double, a.z) + 2 * ((b * a.modes + k) * a.C + c);
        const bool there = k < a.modes, end = is_end(k, a.n);
        PTR(W, a.t)[2 * e] = (W)(there ? (end ? 1 : 0.5) * z[0] : 0);
        PTR(W, a.t)[2 * e + 1] = (W)(there && !end ? 0.5 * z[1] : 0);
    }
}
KERNEL_OF_FLOATS(zt_cu_fft_spectra, zt_cu_bins_args, THREADS, a.type, spectra_of)

FN pair<double> weight_of(const zt_cu_mix_args &a, int64_t k, int64_t i, int64_t o)
{
    const int64_t at = (k * a.I + i) * a.O + o;
    return pair<double>{to_double(a.type, a.w_re, at), to_double(a.type, a.w_im, at)};
}

/* z = the weighted sums of x w over I. */
KERNEL_OF(zt_cu_mix, zt_cu_mix_args, THREADS)
{
    const double *x = PTR(const double, a.x);
    for (int64_t e = first(); e < a.B * a.modes * a.O; e += stride()) {
        const int64_t o = e % a.O, k = e / a.O % a.modes, bk = e / a.O;
        double re = 0, im = 0;
        for (int64_t i = 0; i < a.I; i++) {
            const pair<double> w = weight_of(a, k, i, o);
            const double xr = x[2 * (bk * a.I + i)], xi = x[2 * (bk * a.I + i) + 1];
            re += xr * w.re - xi * w.im;
            im += xr * w.im + xi * w.re;
        }
        PTR(double, a.z)[2 * e] = bin_weight(k, a.n) * re;
        PTR(double, a.z)[2 * e + 1] = bin_weight(k, a.n) * im;
    }
}

/* x = the sums of z conj(w) over O. */
KERNEL_OF(zt_cu_mix_back, zt_cu_mix_args, THREADS)
{
    const double *z = PTR(const double, a.z);
    for (int64_t e = first(); e < a.B * a.modes * a.I; e += stride()) {
        const int64_t i = e % a.I, k = e / a.I % a.modes, bk = e / a.I;
        double re = 0, im = 0;
        for (int64_t o = 0; o < a.O; o++) {
            const pair<double> w = weight_of(a, k, i, o);
            const double zr = z[2 * (bk * a.O + o)], zi = z[2 * (bk * a.O + o) + 1];
            re += zr * w.re + zi * w.im;
            im += zi * w.re - zr * w.im;
        }
        PTR(double, a.x)[2 * e] = re;
        PTR(double, a.x)[2 * e + 1] = im;
    }
}

/* w_re + i w_im = the sums of conj(x) z over B. */
KERNEL_OF(zt_cu_mix_weights, zt_cu_mix_args, THREADS)
{
    const double *x = PTR(const double, a.x), *z = PTR(const double, a.z);
    for (int64_t e = first(); e < a.modes * a.I * a.O; e += stride()) {
        const int64_t o = e % a.O, i = e / a.O % a.I, k = e / a.O / a.I;
        double re = 0, im = 0;
        for (int64_t b = 0; b < a.B; b++) {
            const int64_t p = 2 * ((b * a.modes + k) * a.I + i),
                          q = 2 * ((b * a.modes + k) * a.O + o);
            re += x[p] * z[q] + x[p + 1] * z[q + 1];
            im += x[p] * z[q + 1] - x[p + 1] * z[q];
        }
        if (a.w_re) from_double(a.type, a.w_re, e, re);
        if (a.w_im) from_double(a.type, a.w_im, e, im);
    }
}
