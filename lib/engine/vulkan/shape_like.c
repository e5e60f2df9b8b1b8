/* shape_like.c - results that take their shape from a value. */
#include "lib/engine/vulkan/vk.h"

static zt_status set_broadcast_to(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_vk_strides strides = zt_vk_strides_of(call->in, 1, call->out);
    zt_vk_steps steps = {0};
    for (int axis = 0; axis < strides.axis_count; axis++) zt_vk_add_axis(&steps, strides.dims[axis], strides.steps[0][axis]);
    return zt_vk_move(engine, call, steps);
}

const zt_vk_kernel zt_vk_shape_like[] = {
    {.op = ZT_OP_broadcast_to, .has = zt_vk_moves, .set = set_broadcast_to},
    {.set = NULL},
};
