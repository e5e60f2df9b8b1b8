/* onnx_fft.h - how the ops of golden/ops/onnx are spelled in zt: DFT, STFT. */
#ifndef ZT_SPELL_ONNX_FFT_H
#define ZT_SPELL_ONNX_FFT_H

#include "tests/spell/spell.h"

static const spelling onnx_fft_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
