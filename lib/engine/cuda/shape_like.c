/* shape_like.c - results that take their shape from a value. */
#include "lib/engine/cuda/elementwise.h"
#include "lib/engine/cuda/reduce.h"
#include "lib/engine/cuda/steps.h"

#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static bool plain_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_plain(in[0]->dtype);
}

static bool float_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_wide_float(in[0]->dtype);
}

/* Over what `like` would be repeated along. */
static zt_status emit_sum_to(zt_cu_call *call)
{
    const zt_type *x_type = call->input_types[0], *y_type = call->output_types[0];
    bool gone[ZT_MAX_RANK];
    zt_cu_reduce_args args = {.x = call->inputs[0],
                              .y = call->outputs[0],
                              .by = 1,
                              .fold = ZT_CU_SUM,
                              .x_type = x_type->dtype,
                              .y_type = x_type->dtype};
    for (int dimension = 0; dimension < x_type->rank; dimension++) {
        int target_dimension = dimension - (x_type->rank - y_type->rank);
        gone[dimension] = target_dimension < 0 || (y_type->dim[target_dimension] == 1 && x_type->dim[dimension] != 1);
    }
    zt_cu_set_dims(&args, x_type, gone);
    return zt_cu_launch_reduce(call, &args);
}

/* ---- concat, uncat, repeat, broadcast_to ----------------------------------------------------- */

static zt_status emit_broadcast_to(zt_cu_call *call)
{
    zt_cu_strides strides = zt_cu_strides_of(call->input_types, 1, call->output_types[0]);
    element_steps steps = {.axis_count = strides.axis_count};
    memcpy(steps.dims, strides.dims, sizeof steps.dims);
    memcpy(steps.steps, strides.steps[0], sizeof steps.steps);
    return emit_part(call, steps);
}

const zt_cu_row zt_cu_shape_like[] = {
    {.op = ZT_OP_sum_to, .has = plain_has, .emit = emit_sum_to},
    {.op = ZT_OP_fill_like, .has = float_has, .emit = zt_cu_emit_elementwise, .contract = zt_cu_always},
    {.op = ZT_OP_broadcast_to, .has = bytes_has, .emit = emit_broadcast_to, .contract = zt_cu_always},
    {.emit = NULL},
};
