/* softmax.c - softmax along an axis, its logarithm, and entmax. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/norm.h"

/* ---- softmax --------------------------------------------------------------------------------- */

/* Lines along an axis. */
static zt_cu_softmax_args lines_of(const zt_cu_call *call, int64_t axis, double scale, bool log)
{
    const zt_type *x_type = call->input_types[0];
    int axis_at = (int)(axis < 0 ? axis + x_type->rank : axis);
    zt_cu_softmax_args args = {
        .x = call->inputs[0], .y = call->outputs[0], .n = x_type->dim[axis_at], .inner = 1, .scale = scale, .log = log};
    for (int dimension = axis_at + 1; dimension < x_type->rank; dimension++) args.inner *= x_type->dim[dimension];
    args.lines = args.n ? zt_type_count(x_type) / args.n : 0;
    return args;
}

static zt_status launch_softmax(zt_cu_call *call, int64_t axis, double scale, bool log)
{
    static const char *const lines[] = {"zt_softmax_f32", "zt_softmax_f16", "zt_softmax_bf16", "zt_softmax_f64"};
    static const char *const across[] = {"zt_softmax_across_f32", "zt_softmax_across_f16", "zt_softmax_across_bf16",
                                         "zt_softmax_across_f64"};
    const zt_type *x_type = call->input_types[0];
    zt_cu_softmax_args args = lines_of(call, axis, scale, log);
    if (args.lines == 0) return ZT_OK;
    if (args.inner > 1)
        return zt_cu_launch(call, of_type(x_type->dtype, across), zt_cu_grid(args.lines, 128), (zt_cu_dim){128, 1, 1}, 0, &args,
                            sizeof args);
    return zt_cu_launch(call, of_type(x_type->dtype, lines), (zt_cu_dim){(unsigned)args.lines, 1, 1},
                        (zt_cu_dim){threads_of(args.n), 1, 1}, 0, &args, sizeof args);
}

static zt_status emit_softmax(zt_cu_call *call)
{
    return launch_softmax(call, ((const zt_softmax_attrs *)call->attrs)->axis, 1, false);
}

static zt_status emit_log_softmax(zt_cu_call *call)
{
    return launch_softmax(call, ((const zt_log_softmax_attrs *)call->attrs)->axis, 1, true);
}

static zt_status emit_scaled_softmax(zt_cu_call *call)
{
    const zt_scaled_softmax_attrs *attrs = call->attrs;
    return launch_softmax(call, attrs->axis, attrs->scale, false);
}

static zt_status emit_entmax(zt_cu_call *call)
{
    static const char *const names[] = {"zt_entmax_f32", "zt_entmax_f16", "zt_entmax_bf16", "zt_entmax_f64"};
    const zt_entmax_attrs *attrs = call->attrs;
    zt_cu_softmax_args args = lines_of(call, attrs->axis, attrs->alpha, false);
    return zt_cu_launch(call, of_type(call->input_types[0]->dtype, names), (zt_cu_dim){(unsigned)args.lines, 1, 1},
                        (zt_cu_dim){32, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_softmax[] = {
    {.op = ZT_OP_softmax, .has = has_float, .emit = emit_softmax},
    {.op = ZT_OP_log_softmax, .has = has_float, .emit = emit_log_softmax},
    {.op = ZT_OP_scaled_softmax, .has = has_float, .emit = emit_scaled_softmax},
    {.op = ZT_OP_entmax, .has = has_float, .emit = emit_entmax},
    {.emit = NULL},
};
