/* onnx_conv.h - how the ops of golden/ops/onnx are spelled in zt: convolution and pooling. */
#ifndef ZT_SPELL_ONNX_CONV_H
#define ZT_SPELL_ONNX_CONV_H

#include "tests/spell/spell.h"

static const spelling onnx_conv_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
