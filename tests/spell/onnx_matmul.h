/* onnx_matmul.h - how the ops of golden/ops/onnx are spelled in zt: products of matrices. */
#ifndef ZT_SPELL_ONNX_MATMUL_H
#define ZT_SPELL_ONNX_MATMUL_H

#include "tests/spell/spell.h"

static const spelling onnx_matmul_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
