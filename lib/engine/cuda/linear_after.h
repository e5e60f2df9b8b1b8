/* linear_after.h - curves and gates of fused products: the functions of functions.h, so that they
 * have the bits of the ops that they stand for. */
#ifndef ZT_CU_LINEAR_AFTER_H
#define ZT_CU_LINEAR_AFTER_H

#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/functions.h"

FN float curve_of(int curve, float x)
{
    switch (curve) {
    case ZT_CU_RELU: return f_relu(x);
    case ZT_CU_SILU: return f_silu(x);
    case ZT_CU_GELU: return f_gelu_tanh(x);
    case ZT_CU_GELU_ERF: return f_gelu_erf(x);
    case ZT_CU_TANH: return f_tanh(x);
    default: return f_sigmoid(x);
    }
}

FN float gate_of(int gate, float g, float u)
{
    switch (gate) {
    case ZT_CU_SILU: return f_swiglu(g, u);
    case ZT_CU_GELU: return f_geglu_tanh(g, u);
    default: return f_geglu_erf(g, u);
    }
}

#endif
