/* axis.c - ops along one axis. Of a line whose entries lie in a row a block takes care, else a
 * thread. */
#include "lib/engine/cuda/args_reduce.h"
#include "lib/engine/cuda/strides.h"

enum { THREADS = 256 };

static zt_cu_line_args line_of(const zt_cu_call *call, int64_t axis)
{
    const zt_type *x_type = call->input_types[0];
    int axis_at = (int)(axis < 0 ? axis + x_type->rank : axis);
    zt_cu_line_args args = {.x = call->inputs[0], .n = x_type->dim[axis_at], .inner = 1, .lines = 1, .type = x_type->dtype};
    for (int dimension = 0; dimension < x_type->rank; dimension++) {
        if (dimension != axis_at) args.lines *= x_type->dim[dimension];
        if (dimension > axis_at) args.inner *= x_type->dim[dimension];
    }
    return args;
}

static zt_status launch_lines(zt_cu_call *call, const char *rows, const char *lines,
                        const zt_cu_line_args *args)
{
    bool row = !lines || (args->inner == 1 && args->n >= 64);
    unsigned threads = !lines && args->n <= 256 ? 32 : THREADS; /* topk of short lines: a warp */
    return zt_cu_launch(call, row ? rows : lines, zt_cu_spread(call, args->lines, row ? 1 : THREADS),
                        (zt_cu_dim){threads, 1, 1}, 0, args, sizeof *args);
}

static bool plain_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                      const zt_type output_types[])
{
    (void)engine, (void)attrs, (void)output_types;
    return zt_cu_is_plain(input_types[0]->dtype);
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

const zt_cu_row zt_cu_axis[] = {
    {.op = ZT_OP_argmax, .has = plain_has, .emit = emit_argmax},
    {.op = ZT_OP_argmin, .has = plain_has, .emit = emit_argmin},
    {.op = ZT_OP_topk, .has = plain_has, .emit = emit_topk},
    {.op = ZT_OP_cumsum, .has = plain_has, .emit = emit_cumsum},
    {.op = ZT_OP_cumprod, .has = plain_has, .emit = emit_cumprod},
    {.emit = NULL},
};
