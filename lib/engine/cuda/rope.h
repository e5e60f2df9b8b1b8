/* rope.h - private to lib/engine/cuda: rotations of rows, for op rope and for what writes the cache. */
#ifndef ZT_CU_ROPE_H
#define ZT_CU_ROPE_H

#include "lib/engine/cuda/cu.h"

/* Columns of a head, and how many of them rotate. */
int64_t zt_cu_rope_head(const zt_rope_attrs *a, const zt_type *x);
int64_t zt_cu_rope_dims(const zt_rope_attrs *a, const zt_type *x);
/* Is there a kernel for x's type, head and rows? */
bool zt_cu_rope_fits(const zt_cu_engine *e, const zt_rope_attrs *a, const zt_type *x);
/* Quarter turns a position of each pair: dims / 2 of them. */
void zt_cu_rope_quarter_turns(const zt_rope_attrs *attrs, int64_t dims, double *turns);
/* x of `type` into y; tab 0: no divisors. */
zt_status zt_cu_launch_rope(zt_cu_call *c, const zt_rope_attrs *at, const zt_type *type, zt_cu_ptr x, zt_cu_ptr pos,
                            zt_cu_ptr tab, zt_cu_ptr y);

#endif
