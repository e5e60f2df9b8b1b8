/* elementwise.h - private to lib/engine/cuda: single elements: one op, or a chain of them. */
#ifndef ZT_CU_ELEMENTWISE_H
#define ZT_CU_ELEMENTWISE_H

#include "lib/engine/cuda/args_elementwise.h"
#include "lib/engine/cuda/strides.h"

/* An op as the kernel knows it; operands' values are numbers in[], of type[]. False: the kernel has none. */
bool zt_cu_chain_op_of(zt_op op, const void *attrs, const zt_dtype *type, const uint8_t *in, zt_dtype to, zt_cu_chain_op *o);
/* The operands of a call and y's dimensions, with the steps of each operand. */
void zt_cu_set_strides(zt_cu_chain_args *a, const zt_cu_call *c, int n_in, const zt_type *y);
/* The emit of all ops of single elements. */
zt_status zt_cu_emit_elementwise(zt_cu_call *c);

#endif
