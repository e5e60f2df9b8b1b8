/* onnx_cast.h - how the ops of golden/ops/onnx are spelled in zt: casts and quantization. */
#ifndef ZT_SPELL_ONNX_CAST_H
#define ZT_SPELL_ONNX_CAST_H

#include "tests/spell/spell.h"

static const spelling onnx_cast_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
