/* slice.c - parts of an axis, and parts put into zeros: steps through the whole. */
#include "lib/engine/cuda/steps.h"

/* ---- slices ---------------------------------------------------------------------------------- */

static element_steps slice_steps(const zt_slice_attrs *attrs, const zt_type *whole, const zt_type *part)
{
    int axis = plain_axis(attrs->axis, whole->rank);
    int64_t from = attrs->from < 0 ? attrs->from + whole->dim[axis] : attrs->from;
    return steps_along(whole, axis, from, 1, part->dim[axis]);
}

static element_steps slice_step_steps(const zt_slice_step_attrs *attrs, const zt_type *whole, const zt_type *part)
{
    int axis = plain_axis(attrs->axis, whole->rank);
    int64_t from = attrs->from < 0 ? attrs->from + whole->dim[axis] : attrs->from;
    return steps_along(whole, axis, from, attrs->step, part->dim[axis]);
}

static zt_status emit_put(zt_cu_call *call, element_steps steps)
{
    zt_status status = zt_cu_fill(call, call->outputs[0], 0, zt_type_bytes(call->output_types[0]));
    return status ? status
                  : emit_steps(call, call->inputs[0], call->outputs[0], size_of(call->output_types[0]->dtype), steps, true);
}

static zt_status emit_slice(zt_cu_call *call)
{
    return emit_part(call, slice_steps(call->attrs, call->input_types[0], call->output_types[0]));
}
static zt_status emit_slice_put(zt_cu_call *call)
{
    const zt_slice_put_attrs *attrs = call->attrs;
    return emit_put(
        call, slice_steps(&(zt_slice_attrs){attrs->axis, attrs->from, attrs->to}, call->output_types[0], call->input_types[0]));
}
static zt_status emit_slice_step(zt_cu_call *call)
{
    return emit_part(call, slice_step_steps(call->attrs, call->input_types[0], call->output_types[0]));
}
static zt_status emit_slice_step_put(zt_cu_call *call)
{
    const zt_slice_step_put_attrs *attrs = call->attrs;
    const zt_slice_step_attrs plain = {attrs->axis, attrs->from, attrs->step, attrs->count};
    return emit_put(call, slice_step_steps(&plain, call->output_types[0], call->input_types[0]));
}

const zt_cu_row zt_cu_slice[] = {
    {.op = ZT_OP_slice, .has = bytes_has, .emit = emit_slice, .contract = zt_cu_always},
    {.op = ZT_OP_slice_put, .has = bytes_has, .emit = emit_slice_put},
    {.op = ZT_OP_slice_step, .has = bytes_has, .emit = emit_slice_step},
    {.op = ZT_OP_slice_step_put, .has = bytes_has, .emit = emit_slice_step_put},
    {.emit = NULL},
};
