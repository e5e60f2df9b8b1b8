/* vjp_fft.h - how the ops of golden/ops/vjp are spelled in zt: transforms and the spectral
 * convolution. */
#ifndef ZT_SPELL_VJP_FFT_H
#define ZT_SPELL_VJP_FFT_H

#include "tests/ops/spell/spell.h"

/* Its attributes are the shapes. */
static int build_spectral_conv(const call *node)
{
    return zt_program_spectral_conv1d_rfft(node->p, NULL, node->in[0], node->in[1], node->in[2]);
}

static const spelling vjp_fft_ops[] = {
    SAME(rfft),
    SAME(irfft),
    {"spectral_conv1d_rfft", .build = build_spectral_conv},
    {"batchnorm_train", .op = ZT_OP_batch_norm, "exp_avg_factor:momentum"},
};

#endif
