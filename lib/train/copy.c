/* copy.c - ops of a program copied behind another's declarations. */
#include "lib/train/copy.h"

static zt_status copy_op(const zt_prog *from, const zt_step *st, zt_prog *to, int *map)
{
    const zt_opinfo *info = zt_op_info(st->op);
    const char *names[ZT_MAX_OUT];
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) in[k] = st->in[k] < 0 ? ZT_NONE : map[st->in[k]];
    for (int k = 0; k < info->n_out; k++)
        names[k] = st->out[k] < 0 ? "_" : zt_prog_value(from, st->out[k])->name;
    zt_status s = zt_prog_op(to, st->op, st->attrs, in, names, out);
    for (int k = 0; k < info->n_out && !s; k++)
        if (st->out[k] >= 0) map[st->out[k]] = out[k];
    return s;
}

zt_status zt_train_copy_ops(zt_ctx *ctx, const zt_prog *from, zt_prog *to, int *map)
{
    zt_status s = zt_ctx_status(ctx);
    for (int i = 0; i < zt_prog_n_steps(from) && !s; i++)
        s = copy_op(from, zt_prog_step(from, i), to, map);
    return s;
}
