/* zt/quantize.h - models made smaller.
 *
 *   tensor/quantize.h  rows of floats to a quantization type
 *   tensor/storage.h   the number types of network weights, with one scale for all of a layer
 *   io/imatrix.h       importance matrices: how much each column of a weight is used
 *   llm/importance.h   importance measured: squared activations summed while a model reads texts
 *   llm/mix.h          named mixes of types ("q4_k_m"): which tensor gets which
 *   llm/budget.h       a type for each tensor, so that the sizes fit and the loss is least
 */
#ifndef ZT_PUBLIC_QUANTIZE_H
#define ZT_PUBLIC_QUANTIZE_H

#include "lib/tensor/quantize.h"
#include "lib/tensor/storage.h"
#include "lib/io/imatrix.h"
#include "lib/llm/importance.h"
#include "lib/llm/mix.h"
#include "lib/llm/budget.h"

#endif
