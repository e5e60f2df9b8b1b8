/* all.h - every list of spellings, with the set that it is for. */
#ifndef ZT_SPELL_ALL_H
#define ZT_SPELL_ALL_H

#include "tests/ops/spell/vjp.h"
#include "tests/ops/spell/vjp_conv.h"
#include "tests/ops/spell/vjp_attention.h"
#include "tests/ops/spell/vjp_fft.h"
#include "tests/ops/spell/vjp_shape.h"
#include "tests/ops/spell/onnx_elementwise.h"
#include "tests/ops/spell/onnx_shape.h"
#include "tests/ops/spell/onnx_gather.h"
#include "tests/ops/spell/onnx_cast.h"
#include "tests/ops/spell/onnx_reduce.h"
#include "tests/ops/spell/onnx_matmul.h"
#include "tests/ops/spell/onnx_conv.h"
#include "tests/ops/spell/onnx_attention.h"
#include "tests/ops/spell/onnx_norm.h"
#include "tests/ops/spell/onnx_loss.h"
#include "tests/ops/spell/onnx_recurrent.h"
#include "tests/ops/spell/onnx_fft.h"
#include "tests/ops/spell/layers_conv.h"
#include "tests/ops/spell/layers_attention.h"
#include "tests/ops/spell/layers_recurrent.h"
#include "tests/ops/spell/layers_softmax.h"
#include "tests/ops/spell/layers_dense.h"

static const struct {
    const char *set;
    const spelling *ops;
    size_t n;
} spellings[] = {
#define LIST(set, name)                                                                                                          \
    {                                                                                                                            \
        set, name##_ops, sizeof name##_ops / sizeof name##_ops[0]                                                                \
    }
    LIST("ops/vjp", vjp),
    LIST("ops/vjp", vjp_conv),
    LIST("ops/vjp", vjp_attention),
    LIST("ops/vjp", vjp_fft),
    LIST("ops/vjp", vjp_shape),
    LIST("ops/onnx", onnx_elementwise),
    LIST("ops/onnx", onnx_shape),
    LIST("ops/onnx", onnx_gather),
    LIST("ops/onnx", onnx_cast),
    LIST("ops/onnx", onnx_reduce),
    LIST("ops/onnx", onnx_matmul),
    LIST("ops/onnx", onnx_conv),
    LIST("ops/onnx", onnx_attention),
    LIST("ops/onnx", onnx_norm),
    LIST("ops/onnx", onnx_loss),
    LIST("ops/onnx", onnx_recurrent),
    LIST("ops/onnx", onnx_fft),
    LIST("layers", layers_conv),
    LIST("layers", layers_attention),
    LIST("layers", layers_recurrent),
    LIST("layers", layers_softmax),
    LIST("layers", layers_dense),
};

static const spelling *spelled(const char *set, const char *golden)
{
    for (size_t k = 0; k < sizeof spellings / sizeof spellings[0]; k++)
        for (size_t i = 0; i < spellings[k].n && !strcmp(spellings[k].set, set); i++) {
            const spelling *s = &spellings[k].ops[i];
            if (s->golden && !strcmp(s->golden, golden)) return s;
        }
    return NULL;
}

#endif
