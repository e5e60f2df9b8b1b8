/* fft.cu - the kernels of the emulated cuFFT: sums in f64, a thread a number, into its room; then
 * what is there goes to y, and room and bins that it was given are written over, as they may be. */
#include "fft.h"
#include "lib/engine/cuda/values.h"

template <class W> FN void transform(const emu_fft_args &a)
{
    const W *x = PTR(const W, a.x);
    W *room = PTR(W, a.room);
    const int64_t half = a.n / 2 + 1, out = a.halved_y ? half : a.n;
    for (int64_t e = first(); e < a.lines * out; e += stride()) {
        const int64_t l = e / out, k = e % out;
        double re = 0, im = 0;
        for (int64_t j = 0; j < a.n; j++) {
            const bool other = a.halved_x && j >= half; /* the conjugate of bin n - j */
            const int64_t at = l * a.x_line + (other ? a.n - j : j) * a.x_step;
            const double xr = (double)x[a.halved_y ? at : 2 * at];
            const double xi = a.halved_y ? 0 : (other ? -1 : 1) * (double)x[2 * at + 1];
            const double turn = 6.283185307179586476925 * (double)(j * k % a.n) / (double)a.n;
            const double c = cos(turn), s = a.direction * sin(turn);
            re += xr * c - xi * s;
            im += xr * s + xi * c;
        }
        room[a.halved_x ? e : 2 * e] = (W)re;
        if (!a.halved_x) room[2 * e + 1] = (W)im;
    }
}

KERNEL(emu_fft, emu_fft_args)
{
    if (a.wide)
        transform<double>(a);
    else
        transform<float>(a);
}

template <class W> FN void end(const emu_fft_args &a)
{
    const int64_t half = a.n / 2 + 1, out = a.halved_y ? half : a.n, parts = a.halved_x ? 1 : 2;
    const int64_t in = a.halved_x ? a.lines * half : 0;
    for (int64_t i = first(); i < a.lines * out * parts; i += stride()) {
        const int64_t e = i / parts, at = e / out * a.y_line + e % out * a.y_step;
        PTR(W, a.y)[parts * at + i % parts] = PTR(W, a.room)[i];
        PTR(W, a.room)[i] = -1;
    }
    for (int64_t i = first(); i < in * 2; i += stride()) {
        const int64_t at = i / 2 / half * a.x_line + i / 2 % half * a.x_step;
        PTR(W, a.x)[2 * at + i % 2] = -1;
    }
}

KERNEL(emu_fft_end, emu_fft_args)
{
    if (a.wide)
        end<double>(a);
    else
        end<float>(a);
}
