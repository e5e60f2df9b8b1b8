/* norm.c - normalisation of rows: a workgroup each. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

static bool norm_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype);
}

static zt_status set_norm(zt_vk_engine *engine, zt_vk_call *call, bool layer, int64_t K, double eps)
{
    float epsilon = (float)eps;
    call->shader = ZT_VK_SHADER_norm;
    call->spec[0] = layer;
    call->word[0] = (uint32_t)K;
    memcpy(&call->word[1], &epsilon, sizeof epsilon);
    zt_vk_group_each(engine, call, 2, zt_type_count(&call->out[1]));
    return ZT_OK;
}

static zt_status set_rms_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rms_norm_attrs *attrs = call->attrs;
    return set_norm(engine, call, false, call->in[1]->dim[0], attrs->eps);
}

static zt_status set_layer_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_layer_norm_attrs *attrs = call->attrs;
    return set_norm(engine, call, true, zt_vk_last_dim(call->in[0]), attrs->eps);
}

const zt_vk_kernel zt_vk_norm[] = {
    {.op = ZT_OP_rms_norm, .has = norm_has, .set = set_rms_norm},
    {.op = ZT_OP_layer_norm, .has = norm_has, .set = set_layer_norm},
    {0},
};
