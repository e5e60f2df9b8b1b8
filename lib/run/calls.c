/* calls.c - zt_add(run, a, b) and its kin: thin typed calls of the door, made from ops.def. */
#include "lib/run/run.h"

#define ARGS_IN1(a) a
#define ARGS_IN2(a, b) a, b
#define ARGS_IN3(a, b, c) a, b, c
#define ARGS_IN4(a, b, c, d) a, b, c, d
#define ARGS_IN5(a, b, c, d, e) a, b, c, d, e
#define ARGS_IN6(a, b, c, d, e, f) a, b, c, d, e, f
#define MORE_OUT1(a)
#define MORE_OUT2(a, b) if (b) *b = out[1];
#define MORE_OUT3(a, b, c) if (b) *b = out[1]; if (c) *c = out[2];
#define ATTRS_NONE NULL
#define ATTRS_SOME attrs
#define ATTRS_ATTR0 ATTRS_NONE
#define ATTRS_ATTR1(...) ATTRS_SOME
#define ATTRS_ATTR2(...) ATTRS_SOME
#define ATTRS_ATTR3(...) ATTRS_SOME
#define ATTRS_ATTR4(...) ATTRS_SOME
#define ATTRS_ATTR5(...) ATTRS_SOME
#define ATTRS_ATTR6(...) ATTRS_SOME
#define ATTRS_ATTR7(...) ATTRS_SOME
#define ATTRS_ATTR8(...) ATTRS_SOME
#define ATTRS_ATTR9(...) ATTRS_SOME

#define OP(name, ins, outs, attributes)                                                            \
    zt_tensor *zt_##name(zt_run *r ZT_CALL_##ins ZT_PARAM_##attributes(name) ZT_CALL_##outs)       \
    {                                                                                              \
        zt_tensor *in[] = {ARGS_##ins}, *out[ZT_MAX_OUT] = {0};                                    \
        zt_run_op(r, ZT_OP_##name, ATTRS_##attributes, in, out);                                   \
        MORE_##outs                                                                                \
        return out[0];                                                                             \
    }
#include "lib/ops/ops.def"
#undef OP
