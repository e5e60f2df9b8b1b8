/* argmax.c - argmax along the last dimension: a workgroup a row. */
#include "lib/engine/vulkan/vk.h"

static bool argmax_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_argmax_attrs *argmax = attrs;
    (void)engine, (void)out;
    return zt_vk_is_float(input_types[0]->dtype) && (argmax->axis == -1 || argmax->axis == input_types[0]->rank - 1) &&
           zt_vk_last_dim(input_types[0]) > 0;
}

static zt_status set_argmax(zt_vk_engine *engine, zt_vk_call *call)
{
    call->shader = ZT_VK_SHADER_argmax;
    call->word[0] = (uint32_t)zt_vk_last_dim(call->in[0]);
    zt_vk_group_each(engine, call, 1, zt_type_count(call->out));
    return ZT_OK;
}

const zt_vk_kernel zt_vk_argmax[] = {
    {.op = ZT_OP_argmax, .has = argmax_has, .set = set_argmax},
    {0},
};
