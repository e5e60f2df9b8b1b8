/* kv_cache.c - keys and values into their caches. */
#include "lib/engine/vulkan/vk.h"

static bool kv_put_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return input_types[1]->dim[0] <= engine->groups[1];
}

static zt_status set_kv_put(zt_vk_engine *engine, zt_vk_call *call)
{
    (void)engine;
    call->shader = ZT_VK_SHADER_kv_cache;
    call->spec[0] = call->in[0]->dtype == ZT_F16;
    call->word[0] = (uint32_t)call->in[1]->dim[1];
    zt_vk_set_slots(call, 1, call->in[0], call->in[4]);
    call->groups[0] = (call->word[0] + 63) / 64;
    call->groups[1] = (uint32_t)call->in[1]->dim[0];
    call->groups[2] = 1;
    return ZT_OK;
}

const zt_vk_kernel zt_vk_kv_cache[] = {
    {.op = ZT_OP_kv_put, .has = kv_put_has, .set = set_kv_put},
    {0},
};
