/* onnx_norm.h - how the ops of golden/ops/onnx are spelled in zt: normalizations. */
#ifndef ZT_SPELL_ONNX_NORM_H
#define ZT_SPELL_ONNX_NORM_H

#include "tests/spell/spell.h"

static const spelling onnx_norm_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
