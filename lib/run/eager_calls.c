/* eager_calls.c - zt_eager_add(run, a, b) and the like: typed calls of zt_run_op, from ops.def. */
#include "lib/run/run.h"

#define MORE_OUT1(a)
#define MORE_OUT2(a, b)                                                                                                          \
    if (b) *b = out[1];
#define MORE_OUT3(a, b, c)             MORE_OUT2(a, b) if (c) *c = out[2];
#define MORE_OUT4(a, b, c, d)          MORE_OUT3(a, b, c) if (d) *d = out[3];
#define MORE_OUT5(a, b, c, d, e)       MORE_OUT4(a, b, c, d) if (e) *e = out[4];
#define MORE_OUT6(a, b, c, d, e, f)    MORE_OUT5(a, b, c, d, e) if (f) *f = out[5];
#define MORE_OUT7(a, b, c, d, e, f, g) MORE_OUT6(a, b, c, d, e, f) if (g) *g = out[6];

// clang-format off
#define OP(name, ins, outs, attributes)                                                            \
    zt_tensor *zt_eager_##name(zt_run *r ZT_CALL_##ins ZT_PARAM_##attributes(name) ZT_CALL_##outs)       \
    {                                                                                              \
        zt_tensor *in[] = {ZT_ARGS_##ins}, *out[ZT_MAX_OUT] = {0};                                 \
        zt_run_op(r, ZT_OP_##name, ZT_ATTRS_##attributes, in, out);                                \
        MORE_##outs                                                                                \
        return out[0];                                                                             \
    }
// clang-format on
#include "lib/ops/ops.def"
#undef OP

zt_tensor *zt_apply(zt_run *run, const zt_func *function, zt_tensor *const *inputs, zt_tensor **outputs)
{
    if (!run || !function) return NULL;
    zt_tensor *from[ZT_MAX_IN] = {0}, *made[ZT_MAX_OUT] = {0};
    int n_in = function->unary ? 1 : function->n_in, n_out = function->unary ? 1 : function->n_out;
    for (int input = 0; input < n_in && input < ZT_MAX_IN; input++) from[input] = inputs[input];
    zt_run_op(run, ZT_OP_call, &(zt_call_attrs){function}, from, made);
    for (int output = 0; outputs && output < n_out && output < ZT_MAX_OUT; output++) outputs[output] = made[output];
    return made[0];
}
