/* shape_like.c - results that take their shape from a value. */
#include "lib/engine/vulkan/reduce.h"

static zt_status set_broadcast_to(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_vk_strides strides = zt_vk_strides_of(call->in, 1, call->out);
    zt_vk_steps steps = {0};
    for (int axis = 0; axis < strides.axis_count; axis++) zt_vk_add_axis(&steps, strides.dims[axis], strides.steps[0][axis]);
    return zt_vk_move(engine, call, steps);
}

static bool sum_to_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_folds(engine, input_types[0]->dtype);
}

/* What was repeated goes: dimensions that the result lacks, or has one entry of. */
static zt_status set_sum_to(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_type *x = call->in[0], *y = call->out;
    bool gone[ZT_MAX_RANK];
    for (int axis = 0; axis < x->rank; axis++) {
        int own_axis = axis - (x->rank - y->rank);
        gone[axis] = own_axis < 0 || y->dim[own_axis] != x->dim[axis];
    }
    return zt_vk_set_reduce(engine, call, ZT_VK_SUM, x, gone, 1);
}

const zt_vk_kernel zt_vk_shape_like[] = {
    {.op = ZT_OP_broadcast_to, .has = zt_vk_moves, .set = set_broadcast_to, .contract = zt_vk_always},
    {.op = ZT_OP_fill_like, .has = zt_vk_fill_like_has, .set = zt_vk_set_fill_like, .contract = zt_vk_always},
    {.op = ZT_OP_sum_to, .has = sum_to_has, .set = set_sum_to},
    {.set = NULL},
};
