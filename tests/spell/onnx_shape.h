/* onnx_shape.h - how the ops of golden/ops/onnx are spelled in zt: operators that move elements. */
#ifndef ZT_SPELL_ONNX_SHAPE_H
#define ZT_SPELL_ONNX_SHAPE_H

#include "tests/spell/spell.h"

static const spelling onnx_shape_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
