/* calls.c - zt_add(run, a, b) and its kin: thin typed calls of the door, made from ops.def. */
#include "lib/run/run.h"

#define MORE_OUT1(a)
#define MORE_OUT2(a, b) if (b) *b = out[1];
#define MORE_OUT3(a, b, c) MORE_OUT2(a, b) if (c) *c = out[2];
#define MORE_OUT4(a, b, c, d) MORE_OUT3(a, b, c) if (d) *d = out[3];
#define MORE_OUT5(a, b, c, d, e) MORE_OUT4(a, b, c, d) if (e) *e = out[4];
#define MORE_OUT6(a, b, c, d, e, f) MORE_OUT5(a, b, c, d, e) if (f) *f = out[5];

#define OP(name, ins, outs, attributes)                                                            \
    zt_tensor *zt_##name(zt_run *r ZT_CALL_##ins ZT_PARAM_##attributes(name) ZT_CALL_##outs)       \
    {                                                                                              \
        zt_tensor *in[] = {ZT_ARGS_##ins}, *out[ZT_MAX_OUT] = {0};                                 \
        zt_run_op(r, ZT_OP_##name, ZT_ATTRS_##attributes, in, out);                                \
        MORE_##outs                                                                                \
        return out[0];                                                                             \
    }
#include "lib/ops/ops.def"
#undef OP
