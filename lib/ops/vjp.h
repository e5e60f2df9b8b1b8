/* vjp.h - private to lib/ops: what rows write ops with (gradients, expansions), beside the one
 * function an op of ops.h, zt_build_mul(e, a, b) and so on. */
#ifndef ZT_OPS_VJP_H
#define ZT_OPS_VJP_H

#include "lib/ops/row.h"

/* x times, and plus, a constant. */
int zt_build_times(const zt_emit *emit, int x, double by);
int zt_build_plus(const zt_emit *emit, int x, double by);
/* x summed to the shape of `like`, from which it was broadcast; x itself where they are known to
 * be of one shape. */
int zt_build_reduced(const zt_emit *emit, int x, int like);
/* x in the dtype of `like`. */
int zt_build_as(const zt_emit *emit, int x, int like);
/* f32 of floats of 16 bits and less, other types as they are: zt_row_wide's. */
int zt_build_wide(const zt_emit *emit, int x);

#endif
