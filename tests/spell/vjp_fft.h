/* vjp_fft.h - how the ops of golden/ops/vjp are spelled in zt: the spectral convolution. */
#ifndef ZT_SPELL_VJP_FFT_H
#define ZT_SPELL_VJP_FFT_H

#include "tests/spell/spell.h"

static const spelling vjp_fft_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
