/* alibi.h - private to the row and the kernels of attention_alibi, and to the builder of lessons. */
#ifndef ZT_OPS_ALIBI_H
#define ZT_OPS_ALIBI_H

#include <stdint.h>

/* The slope of a query head's linear bias (Press et al., "Train Short, Test Long", 2022): powers of 2^(-bias / P), P the largest
 * power of two up to `heads`; the heads from P on have those in between. */
double zt_alibi_slope(double bias, int64_t heads, int64_t head);

#endif
