/* onnx_loss.h - how the ops of golden/ops/onnx are spelled in
 * zt: softmax kinds, losses and optimizers. */
#ifndef ZT_SPELL_ONNX_LOSS_H
#define ZT_SPELL_ONNX_LOSS_H

#include "tests/spell/spell.h"

static const spelling onnx_loss_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
