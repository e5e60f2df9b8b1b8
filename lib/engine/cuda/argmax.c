/* argmax.c - where a line is largest or smallest. */
#include "lib/engine/cuda/lines.h"

static bool float_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_wide_float(input_types[0]->dtype);
}

static zt_status emit_arg(zt_cu_call *call, bool largest)
{
    zt_cu_line_args args = line_of(call, ((const zt_argmax_attrs *)call->attrs)->axis);
    args.i = call->outputs[0];
    args.largest = largest;
    return launch_lines(call, "zt_cu_arg_rows", "zt_cu_arg_lines", &args);
}
static zt_status emit_argmax(zt_cu_call *call) { return emit_arg(call, true); }
static zt_status emit_argmin(zt_cu_call *call) { return emit_arg(call, false); }

const zt_cu_row zt_cu_argmax[] = {
    {.op = ZT_OP_argmax, .has = float_has, .emit = emit_argmax, .contract = zt_cu_always},
    {.op = ZT_OP_argmin, .has = float_has, .emit = emit_argmin, .contract = zt_cu_always},
    {.emit = NULL},
};
