/* onnx_reduce.h - how the ops of golden/ops/onnx are spelled in
 * zt: reductions, selections and sums along an axis. */
#ifndef ZT_SPELL_ONNX_REDUCE_H
#define ZT_SPELL_ONNX_REDUCE_H

#include "tests/spell/spell.h"

static const spelling onnx_reduce_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
