/* vjp.h - private to lib/ops: how rows write ops (gradients, expansions). One function an op,
 *
 *     int zt_e_mul(const zt_emit *e, int a, int b);
 *     int zt_e_rms_norm(const zt_emit *e, int x, int g, const zt_rms_norm_attrs *attrs, int *rstd);
 *
 * which gives its first output's value. They chain: what failed is -1, and all made of it is -1.
 */
#ifndef ZT_OPS_VJP_H
#define ZT_OPS_VJP_H

#include "lib/ops/row.h"

#define OP(name, ins, outs, attrs)                                                                 \
    int zt_e_##name(const zt_emit *emitter ZT_EMIT_##ins ZT_PARAM_##attrs(name) ZT_EMIT_##outs);
#include "lib/ops/ops.def"
#undef OP

/* x times, and plus, a constant. */
int zt_e_times(const zt_emit *e, int x, double by);
int zt_e_plus(const zt_emit *e, int x, double by);
/* x summed to the shape of `like`, from which it was broadcast; x itself where they are known to
 * be of one shape. */
int zt_e_reduced(const zt_emit *e, int x, int like);
/* x in the dtype of `like`. */
int zt_e_as(const zt_emit *e, int x, int like);

#endif
