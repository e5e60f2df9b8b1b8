/* onnx_elementwise.h - how the ops of golden/ops/onnx are spelled in zt: elementwise operators. */
#ifndef ZT_SPELL_ONNX_ELEMENTWISE_H
#define ZT_SPELL_ONNX_ELEMENTWISE_H

#include "tests/spell/spell.h"

static const spelling onnx_elementwise_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
