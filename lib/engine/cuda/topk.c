/* topk.c - the first entries of a line in order. */
#include "lib/engine/cuda/lines.h"

static zt_status emit_topk(zt_cu_call *call)
{
    const zt_topk_attrs *attrs = call->attrs;
    zt_cu_line_args args = line_of(call, attrs->axis);
    args.y = call->outputs[0];
    args.i = call->outputs[1];
    args.k = attrs->k ? attrs->k : args.n;
    args.largest = attrs->largest != 0;
    return launch_lines(call, "zt_cu_topk", NULL, &args);
}

const zt_cu_row zt_cu_topk[] = {
    {.op = ZT_OP_topk, .has = plain_has, .emit = emit_topk, .contract = zt_cu_always},
    {.emit = NULL},
};
