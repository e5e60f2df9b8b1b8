/* onnx_attention.h - how the ops of golden/ops/onnx are spelled in
 * zt: attention and rotary embedding. */
#ifndef ZT_SPELL_ONNX_ATTENTION_H
#define ZT_SPELL_ONNX_ATTENTION_H

#include "tests/spell/spell.h"

static const spelling onnx_attention_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
