/* onnx_recurrent.h - how the ops of golden/ops/onnx are spelled in zt: RNN, LSTM, GRU. */
#ifndef ZT_SPELL_ONNX_RECURRENT_H
#define ZT_SPELL_ONNX_RECURRENT_H

#include "tests/spell/spell.h"

static const spelling onnx_recurrent_ops[] = {
    {.golden = NULL}, /* none yet */
};

#endif
