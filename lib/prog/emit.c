/* emit.c - owns the typed emitters: one function an op, made from ops.def. */
#include "lib/prog/prog.h"

#include <stddef.h>

/* Emitters chain: after a failure they return -1 and change neither program nor first error (a
 * value of -1 is refused, and of errors the context keeps the first). */
static int emit(zt_prog *p, zt_op op, const char *label, const void *attrs, const int *in,
                int *const *more)
{
    const zt_opinfo *info = zt_op_info(op);
    const char *names[ZT_MAX_OUT] = {label};
    int out[ZT_MAX_OUT] = {-1, -1, -1};
    for (int k = 1; k < info->n_out; k++) names[k] = more[k] ? NULL : "_";
    if (zt_prog_op(p, op, attrs, in, names, out)) out[0] = out[1] = out[2] = -1;
    for (int k = 1; k < info->n_out; k++)
        if (more[k]) *more[k] = out[k];
    return out[0];
}

#define ARGS_IN1(a) a
#define ARGS_IN2(a, b) a, b
#define ARGS_IN3(a, b, c) a, b, c
#define ARGS_IN4(a, b, c, d) a, b, c, d
#define ARGS_IN5(a, b, c, d, e) a, b, c, d, e
#define ARGS_IN6(a, b, c, d, e, f) a, b, c, d, e, f
#define MORE_OUT1(a) NULL
#define MORE_OUT2(a, b) NULL, b
#define MORE_OUT3(a, b, c) NULL, b, c
#define ATTRS_ATTR0 NULL
#define ATTRS_ATTR1(...) attrs
#define ATTRS_ATTR2(...) attrs
#define ATTRS_ATTR3(...) attrs
#define ATTRS_ATTR4(...) attrs
#define ATTRS_ATTR5(...) attrs
#define ATTRS_ATTR6(...) attrs
#define ATTRS_ATTR7(...) attrs
#define ATTRS_ATTR8(...) attrs
#define ATTRS_ATTR9(...) attrs
#define OP(op, ins, outs, attributes)                                                              \
    int zt_emit_##op(zt_prog *p,                                                                   \
                     const char *label ZT_EMIT_##ins ZT_PARAM_##attributes(op) ZT_EMIT_##outs)     \
    {                                                                                              \
        return emit(p, ZT_OP_##op, label, ATTRS_##attributes, (const int[]){ARGS_##ins},           \
                    (int *const[]){MORE_##outs});                                                  \
    }
#include "lib/ops/ops.def"
#undef OP
