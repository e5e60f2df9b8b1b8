/* fft.h - arguments of fft.cu's kernel: what cufft.cpp was asked for. */
#ifndef ZT_EMU_FFT_H
#define ZT_EMU_FFT_H

#include "lib/engine/cuda/args.h"

typedef struct emu_fft_args {
    zt_cu_ptr x, y, room; /* room for all of y; x and y may be one */
    int64_t n, lines;
    int64_t x_step, x_line, y_step, y_line; /* in numbers, or pairs */
    int32_t wide;                           /* f64 */
    int32_t halved_x, halved_y;             /* n/2+1 bins of a spectrum, the other side being real */
    int32_t direction;
} emu_fft_args;

#endif
