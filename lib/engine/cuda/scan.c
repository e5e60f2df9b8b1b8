/* scan.c - running sums and products along an axis. */
#include "lib/engine/cuda/lines.h"

/* k says whether it is products. */
static zt_status emit_run(zt_cu_call *call, bool product)
{
    const zt_cumsum_attrs *attrs = call->attrs; /* cumprod's are the same */
    zt_cu_line_args args = line_of(call, attrs->axis);
    args.y = call->outputs[0];
    args.k = product;
    args.exclusive = attrs->exclusive != 0;
    args.reverse = attrs->reverse != 0;
    return launch_lines(call, "zt_cu_run_rows", "zt_cu_run_lines", &args);
}
static zt_status emit_cumsum(zt_cu_call *call) { return emit_run(call, false); }
static zt_status emit_cumprod(zt_cu_call *call) { return emit_run(call, true); }

const zt_cu_row zt_cu_scan[] = {
    {.op = ZT_OP_cumsum, .has = plain_has, .emit = emit_cumsum},
    {.op = ZT_OP_cumprod, .has = plain_has, .emit = emit_cumprod},
    {.emit = NULL},
};
